"""What a caller may see of a store: held against a model that is worked out by hand from who made which session of which."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails.rdf import vocab
from trails.serve.scoped_views import ScopedStore, ScopedViews
from trails.store.contract import Change

PEOPLE = ("alice", "bob", "carol")
EVERY_QUAD = "SELECT ?g ?s ?p ?o { { ?s ?p ?o BIND('' AS ?g) } UNION { GRAPH ?g { ?s ?p ?o } } }"


@dataclass
class _Made:
    """What the model knows of a session."""

    name: str
    principal: str
    parent: str | None
    start: int
    own: list[str] = field(default_factory=list)


class _Model:
    """Sessions, forks and turns as they were made, and who may see what of them."""

    def __init__(self) -> None:
        self.sessions: dict[str, _Made] = {}

    def line(self, name: str) -> list[str]:
        """Return a session and its ancestors."""
        found = [name]
        while (parent := self.sessions[found[-1]].parent) is not None:
            found.append(parent)
        return found

    def visible(self, principal: str) -> set[str]:
        return {
            name
            for name in self.sessions
            if all(self.sessions[each].principal == principal for each in self.line(name))
        }

    def transcript(self, name: str) -> list[str]:
        made = self.sessions[name]
        before = [] if made.parent is None else self.transcript(made.parent)[: made.start]
        return before + made.own

    def children(self, name: str) -> list[str]:
        return [each.name for each in self.sessions.values() if each.parent == name]


class _World:
    """A store, its views, and the model of it."""

    def __init__(self, store: trails.Repository) -> None:
        self.store, self.views, self.model, self.count = store, ScopedViews(store, most=2), _Model(), 0

    def word(self) -> str:
        self.count += 1
        return f"word{self.count}x"

    def create(self, principal: str) -> None:
        name = f"s{len(self.model.sessions)}{principal[0]}{self.count}"
        session = self.store.create(id=name, principal=principal, agent=f"agent-{principal}", label=f"label-{name}")
        made = _Made(name, principal, None, 0)
        self._append(session, made, 2)
        self.model.sessions[name] = made

    def _append(self, session: trails.Session, made: _Made, turns: int) -> None:
        for _ in range(turns):
            text = self.word()
            session.append("user", text)
            made.own.append(text)
        session.persist()

    def pick(self, number: int) -> str | None:
        names = [*self.model.sessions]
        return names[number % len(names)] if names else None

    def append(self, name: str) -> None:
        self._append(self.store.load(name), self.model.sessions[name], 1)

    def fork(self, name: str, principal: str) -> None:
        parent = self.store.load(name)
        at = len(self.model.transcript(name)) // 2 + 1
        child = f"f{len(self.model.sessions)}{principal[0]}{self.count}"
        if len(self.model.line(name)) > 5 or at > len(parent):
            return
        made = _Made(child, principal, name, at)
        session = parent.fork(at=at, id=child, principal=principal)
        self._append(session, made, 1)
        self.model.sessions[child] = made

    def detach(self, name: str) -> None:
        made = self.model.sessions[name]
        if made.parent is not None:
            made.own = self.model.transcript(name)
            self.store.detach(name)
            made.parent, made.start = None, 0

    def delete(self, name: str) -> None:
        if not self.model.children(name):
            self.store.delete(name)
            del self.model.sessions[name]

    def redact(self, name: str) -> None:
        made = self.model.sessions[name]
        if made.own and not made.own[-1].startswith("(") and not self.model.children(name):
            place = len(self.model.transcript(name)) - 1
            self.store.redact(name, place)
            gone = made.own[-1]
            for each in self.model.sessions.values():  # the copies of a turn are redacted with it
                each.own = ["(redacted)" if text == gone else text for text in each.own]

    def note(self, name: str) -> None:
        self.store.notes.add(name, 0, f"note {self.word()}")

    def tag(self, name: str) -> None:
        self.store.tags.add(f"tag-{self.word()}", name)

    def ref(self, name: str) -> None:
        self.store.refs.set(f"ref-{self.count % 3}", name)


def _check(world: _World, principal: str) -> None:
    model, view = world.model, world.views.of(principal)
    visible = model.visible(principal)
    hidden = model.sessions.keys() - visible
    assert {record.id for record in view.list(limit=1000)} == visible
    assert len(view) == len(visible)
    assert {name for name in model.sessions if world.views.sees(principal, name)} == visible
    for name in visible:
        got = [turn.content if not turn.redacted else "(redacted)" for turn in view.load(name).turns]
        assert got == model.transcript(name)
        assert {each.id for each in view.branches(name)} == {each for each in model.children(name) if each in visible}
    for name in hidden:
        assert name not in view
        with pytest.raises(trails.SessionNotFound):
            view.load(name)
        with pytest.raises(trails.TrailsError):
            view.replay(name)
    _check_search(world, view, visible)
    _check_queries(view, visible, hidden)
    assert len(view.select("SELECT ?s { ?s a trails:Session }")) == len(visible)


def _check_search(world: _World, view: trails.Repository, visible: set[str]) -> None:
    """A word stands in one turn, and in its copies: whoever sees one of these finds it, and only there; nobody else does."""
    sessions = world.model.sessions
    for word in {each for made in sessions.values() for each in made.own[-1:] if each != "(redacted)"}:
        holders = {name for name in visible if word in sessions[name].own}
        found = {hit.session_id for hit in view.search(word)}
        assert found <= holders
        assert bool(found) == bool(holders)


def _check_queries(view: trails.Repository, visible: set[str], hidden: set[str]) -> None:
    """No way through the data says more than the view's sessions: by graph, by path, by FROM, by counting."""
    ask: Any = view.store.query  # in this process: a worker for each would take most of the time
    every = ask(EVERY_QUAD)
    texts = {str(term) for row in every for term in row}
    for name in hidden:
        assert not [text for text in texts if f"session:{name}>" in text or f"session:{name}/" in text]
        iri = f"urn:trails:session:{name}"
        assert not ask(f"ASK {{ GRAPH <{iri}> {{ ?s ?p ?o }} }}")
        assert not ask(f"ASK FROM <{iri}> {{ ?s ?p ?o }}")
        assert not ask(f"ASK FROM NAMED <{iri}> {{ GRAPH ?g {{ ?s ?p ?o }} }}")
        assert not ask(f"ASK {{ ?s (trails:parentSession|prov:alternateOf|trails:tagOf)+ <{iri}> }}")
        assert not ask(f"ASK {{ <{iri}> !rdf:nothing ?o }}")
    graphs = {row[0].value for row in ask("SELECT DISTINCT ?g { GRAPH ?g { ?s a trails:Turn } }")}
    assert graphs <= {f"urn:trails:session:{name}" for name in visible}
    (row,) = ask("SELECT (COUNT(DISTINCT ?s) AS ?n) { ?s a trails:Session }")
    assert int(row[0].value) == len(visible)
    whose = {row[0].value for row in ask("SELECT DISTINCT ?p { ?s a trails:Session ; prov:wasAttributedTo ?p }")}
    assert len(whose) <= 1
    agents = {row[0].value for row in ask("SELECT DISTINCT ?a { ?a a trails:Agent }")}
    own = {f"urn:trails:agent:{view.record(name).agent}" for name in visible}
    assert {each for each in agents if "agent-" in each} == own


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["create", "append", "append", "fork", "fork", "detach", "delete", "redact", "note", "tag", "ref"]
        ),
        st.integers(0, 50),
        st.sampled_from(PEOPLE),
        st.booleans(),
    ),
    min_size=4,
    max_size=14,
)


def _run(store: trails.Repository, steps: list[tuple[str, int, str, bool]]) -> None:
    world = _World(store)
    for principal in PEOPLE[:2]:
        world.create(principal)
    for act, number, principal, is_checked in steps:
        name = world.pick(number)
        if act == "create" or name is None:
            world.create(principal)
        elif act == "fork":
            world.fork(name, principal if number % 3 == 0 else world.model.sessions[name].principal)
        else:
            try:
                getattr(world, act)(name)
            except trails.HasChildren:
                continue  # what a ref or a tag names is not deleted
        if is_checked:
            _check(world, principal)
    for principal in (*PEOPLE, "nobody"):
        _check(world, principal)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_STEPS)
def test_each_caller_sees_what_the_model_says_and_nothing_else(steps: list[tuple[str, int, str, bool]]) -> None:
    with warnings.catch_warnings(), trails.open(":memory:") as store:
        _run(store, steps)


# --- what the model does not make


@pytest.fixture
def store(tmp_path: Path) -> Iterator[trails.Repository]:
    with trails.open(tmp_path / "store", create=True) as store:
        yield store


def _session(store: trails.Repository, name: str, principal: str, *turns: str, **options: Any) -> trails.Session:
    made = store.create(id=name, principal=principal, **options)
    for text in turns or ("hello",):
        made.append("user", text)
    made.persist()
    return made


def _text_of(view: trails.Repository) -> str:
    """Return all that a view's quads and log say, as text."""
    every: Any = view.store.query(EVERY_QUAD)
    return "\n".join(str(term) for row in every for term in row) + view.store.log.text()


def test_the_name_of_anothers_session_is_left_out_wherever_one_of_mine_holds_it(store: trails.Repository) -> None:
    secret = _session(store, "secret", "bob", "a plan", label="bobs-label")
    _session(store, "mine", "alice", "a question", spawned_by="secret")
    mine = store.load("mine")
    mine.cherry_pick(secret, [0])
    mine.persist()
    fork = secret.fork(id="cut", principal="alice")
    fork.persist()
    store.detach("cut")
    text = _text_of(ScopedViews(store).of("alice"))
    assert "session:mine" in text
    assert "session:cut" in text
    assert "secret" not in text
    assert "bobs-label" not in text  # who wrote the words that were copied stays on record
    view = ScopedViews(store).of("alice")
    assert [turn.content for turn in view.load("cut").turns] == ["a plan"]
    assert [turn.content for turn in view.load("mine").turns] == ["a question", "a plan"]
    assert view.load("mine")[1].quoted_from is None


def test_a_ref_shows_only_if_it_never_stood_for_anothers_session(store: trails.Repository) -> None:
    for name, principal in (("mine", "alice"), ("secret", "bob")):
        _session(store, name, principal)
    store.refs.set("moved", "secret")
    store.refs.set("moved", "mine")
    store.refs.set("own", "mine")
    views = ScopedViews(store)
    assert [ref.name for ref in views.of("alice").refs.list()] == ["own"]
    assert "tag:moved" not in _text_of(views.of("alice"))
    assert [ref.name for ref in views.of("bob").refs.list()] == []
    store.refs.set("own", "secret")
    assert [ref.name for ref in views.of("alice").refs.list()] == []
    assert "own" not in {ref.name for ref in views.of("bob").refs.list()}


def test_people_programs_and_payloads_show_to_those_whose_sessions_refer_to_them(store: trails.Repository) -> None:
    mine = store.create(id="mine", principal="alice", agent="helper", system="Be brief")
    mine.append("user", "hello")
    mine.append("assistant", "hi", model="m-1", tool_calls=[{"id": "c1", "name": "my-tool", "arguments": {}}])
    mine.persist()
    other = store.create(id="other", principal="bob", agent="spy", system="Be secret")
    other.append("assistant", "hi", model="m-2", tool_calls=[{"id": "c1", "name": "their-tool", "arguments": {}}])
    other.persist()
    store.notes.add("mine", 0, "seen", by="carol")
    text = _text_of(ScopedViews(store).of("alice"))
    assert all(word in text for word in ("helper", "Be brief", "my-tool", "m-1", "carol", "principal:alice"))
    assert not [word for word in ("spy", "Be secret", "their-tool", "m-2", "bob") if word in text]


def test_a_session_that_somebody_deleted_or_whose_parent_is_anothers_is_not_there(store: trails.Repository) -> None:
    parent = _session(store, "parent", "bob")
    parent.fork(id="child", principal="alice").persist()
    _session(store, "gone", "alice")
    views = ScopedViews(store)
    assert {each.id for each in views.of("alice").list()} == {"gone"}
    store.delete("gone")
    assert "gone" not in _text_of(views.of("alice"))
    assert not views.sees("alice", "gone")
    store.detach("child")
    assert {each.id for each in views.of("alice").list()} == {"child"}


def test_whose_name_was_taken_out_nobody_sees(store: trails.Repository) -> None:
    _session(store, "old", "redacted")
    views = ScopedViews(store)
    assert len(views.of("redacted")) == 0
    assert not views.sees("redacted", "old")


def test_a_view_takes_nothing_and_says_so(store: trails.Repository) -> None:
    _session(store, "mine", "alice")
    view = ScopedViews(store).of("alice")
    assert view.read_only
    with pytest.raises(trails.StoreReadOnly):
        view.delete("mine")
    with pytest.raises(trails.StoreReadOnly):
        view.tags.add("v1", "mine")
    with pytest.raises(trails.StoreReadOnly):
        view.create(id="new")


def test_a_view_follows_what_another_process_commits(store: trails.Repository) -> None:
    _session(store, "mine", "alice")
    views = ScopedViews(store)
    assert len(views.of("alice").load("mine")) == 1
    with trails.open(store.store.location) as other:
        more = other.load("mine")
        more.append("user", "and this")
        more.persist()
        _session(other, "new", "alice")
        _session(other, "theirs", "bob")
    assert [turn.content for turn in views.of("alice").load("mine").turns] == ["hello", "and this"]
    assert {each.id for each in views.of("alice").list()} == {"mine", "new"}


def test_what_is_redacted_is_not_in_a_view_any_more(store: trails.Repository) -> None:
    _session(store, "mine", "alice", "the password is opensesame")
    views = ScopedViews(store)
    before = views.of("alice")
    assert "opensesame" in _text_of(before)
    store.redact("mine", 0)
    after = views.of("alice")
    assert "opensesame" not in _text_of(after)
    log = after.store
    assert isinstance(log, ScopedStore)
    assert not [each for each in log.commits.records(0, log.number) if b"opensesame" in each.record.add]


def test_a_view_that_is_far_behind_is_made_anew_and_the_least_used_go(
    store: trails.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trails.serve.scoped_views._MOST_STEPS", 3)
    mine = _session(store, "mine", "alice")
    _session(store, "theirs", "bob")
    views = ScopedViews(store, most=1)
    first = views.of("alice")
    for number in range(5):
        mine.append("user", f"turn {number}")
        mine.persist()
    views.sees("bob", "theirs")
    assert len(views.of("alice").load("mine")) == 6
    mine.append("user", "one more")
    mine.persist()
    assert len(views.of("alice").load("mine")) == 7
    assert len(views.of("bob").load("theirs")) == 1
    assert views.of("alice") is not first


def test_a_view_is_not_made_anew_for_what_is_only_new(store: trails.Repository) -> None:
    mine = _session(store, "mine", "alice")
    views = ScopedViews(store)
    first = views.of("alice")
    _session(store, "new", "alice", system="Be brief", label="new-label", meta={"team": "red"})
    _session(store, "theirs", "bob", system="Be brief")
    mine.append("user", "more")
    mine.persist()
    mine.fork(id="fork").persist()
    mine.fork(id="bobs-fork", principal="bob").persist()
    store.tags.add("v1", "mine")
    store.notes.add("new", 0, "seen")
    store.set_label("mine", "my-label")
    assert views.of("alice") is first
    assert {(each.id, each.label) for each in first.list()} == {
        ("mine", "my-label"), ("new", "new-label"), ("fork", None),
    }  # fmt: skip
    assert [tag.name for tag in first.tags.list()] == ["v1"]
    assert [note.text for note in first.notes.list("new")] == ["seen"]
    assert first.load("new").system == "Be brief"


def test_a_person_and_a_tool_that_are_first_referred_to_later_show_in_a_view_that_was_there(
    store: trails.Repository,
) -> None:
    mine = _session(store, "mine", "alice")
    views = ScopedViews(store)
    first = views.of("alice")
    assert "late-" not in _text_of(first)
    mine.append("assistant", "hi", tool_calls=[{"id": "c1", "name": "late-tool", "arguments": {}}])
    mine.persist()
    store.notes.add("mine", 0, "seen", by="late-person")
    theirs = _session(store, "theirs", "bob")
    theirs.append("assistant", "hi", tool_calls=[{"id": "c1", "name": "late-secret", "arguments": {}}])
    theirs.persist()
    assert views.of("alice") is first
    assert sorted(first.store.quads((None, None, None, None)), key=str) == sorted(
        ScopedViews(store).of("alice").store.quads((None, None, None, None)), key=str
    )
    text = _text_of(first)
    assert all(word in text for word in ("late-tool", "late-person"))
    assert "late-secret" not in text


def _forge(store: trails.Repository, turn: trails.Turn) -> None:
    (value,) = store.store.quads((NamedNode(turn.iri), vocab.VALUE, None, None))
    forged = Quad(value.subject, value.predicate, Literal("forged"), value.graph_name)
    store.store.commit(Change(remove=[value], add=[forged]))


def test_verifying_a_view_says_what_it_covers_and_finds_what_is_wrong_there(store: trails.Repository) -> None:
    _session(store, "mine", "alice")
    theirs = _session(store, "theirs", "bob")
    views = ScopedViews(store)
    for name in ("mine", "theirs"):
        _forge(store, store.load(name)[0])
    report = views.of("alice").verify()
    assert not report.ok
    assert {finding.session_id for finding in report.findings} == {"mine"}
    assert report.scope is not None
    assert "1 session" in report.scope
    assert "scope" in report.to_dict()
    assert "scope" not in store.verify(theirs.id).to_dict()
    with pytest.raises(trails.InvalidInput, match="auditor"):
        _ = views.of("alice").proofs


# --- over HTTP


def test_over_http_the_sessions_of_others_are_as_if_they_were_never_there(store: trails.Repository) -> None:
    pytest.importorskip("httpx")
    from starlette.testclient import TestClient

    from trails.serve.app import create_app
    from trails.serve.tokens import NAME, TokenFile

    _session(store, "mine", "alice", "a question about tea")
    secret = _session(store, "secret", "bob", "a question about gold", label="bobs-label")
    store.tags.add("bobs-tag", "secret")
    store.notes.add("secret", 0, "bobs-note")
    secret.fork(id="bobs-fork").persist()
    assert store.store.folder is not None
    file = TokenFile(store.store.folder / NAME)
    client = TestClient(create_app(store), base_url="http://localhost")
    tokens = {name: file.make(name, name, "writer")[1] for name in ("alice", "carol")}
    sent = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    hidden, absent = "secret", "nothing-here"
    paths = ["/api/sessions/{}", "/api/sessions/{}/turns", "/api/sessions/{}/replay", "/api/sessions/{}/branches",
             "/api/sessions/{}/notes", "/api/sessions/{}/context", "/api/diff?left={}&right=mine", "/api/forest?session={}",
             "/api/verification?session={}", "/api/tags?session={}", "/api/scores?ref={}", "/session?id={}"]  # fmt: skip
    for path in paths:
        answers = [client.get(path.format(name), headers=sent["alice"]) for name in (hidden, absent)]
        assert answers[0].status_code == answers[1].status_code, path
        assert answers[0].text.replace(hidden, absent) == answers[1].text, path
    for path in (
        "/api/sessions",
        "/api/search?text=gold",
        "/api/forest",
        "/api/tags",
        "/api/refs",
        "/",
        "/search?text=gold",
        "/forest",
    ):
        said = client.get(path, headers=sent["alice"]).text
        assert not [word for word in ("secret", "bob", "gold is") if word in said], path
    every = client.post("/sparql", data={"query": EVERY_QUAD}, headers=sent["alice"]).text
    assert "session:mine" in every
    assert not [word for word in ("secret", "bob", "gold") if word in every]
    assert (
        client.post(
            "/api/sessions/secret/turns", json={"turns": [{"role": "user", "content": "x"}]}, headers=sent["alice"]
        ).status_code
        == 404
    )
    assert client.post("/api/sessions/secret/forks", json={"id": "f"}, headers=sent["alice"]).status_code == 404
    assert client.post("/api/sessions", json={"id": "x", "principal": "bob"}, headers=sent["alice"]).status_code == 403
    taken = client.post("/api/sessions", json={"id": "x", "label": "bobs-label"}, headers=sent["alice"])
    assert taken.status_code == 400
    assert "secret" not in taken.text
    assert client.get("/metrics", headers=sent["alice"]).status_code == 403
    assert client.get("/api/sessions", headers=sent["carol"]).json()["sessions"] == []
