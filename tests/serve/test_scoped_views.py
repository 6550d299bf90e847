"""What a caller may see of a store: held against a model that is worked out by hand from who made which session of which."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")

import warnings
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trails
from trails.serve.scoped_views import ScopedViews

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


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_STEPS)
def test_each_caller_sees_what_the_model_says_and_nothing_else(steps: list[tuple[str, int, str, bool]]) -> None:
    with warnings.catch_warnings(), trails.open(":memory:") as store:
        _run(store, steps)
