"""A store that a server keeps is a store as any other, and each operation is one request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

import trails
from trails import HeadConflict, InvalidInput, Repository, SessionNotFound
from trails.cli import main
from trails.errors import LimitReached, StoreFailed
from trails.integrity.leaves import Leaf
from trails.store.contract import Change, QuadStore
from trails.store.remote import channel, wire
from trails.testing import StoreConformance

pytest.importorskip("httpx")
pytest.importorskip("starlette")

import httpx

from tests.support.served import served
from trails.serve import callers, store_protocol
from trails.serve.service import Settings
from trails.serve.store_answers import Outcomes
from trails.serve.tokens import TokenFile
from trails.store.remote.channel import HttpChannel
from trails.store.remote.store import RemoteStore

LEAF = Leaf("turns", "urn:trails:session:a", 2, "ab" * 32)
NODE, GRAPH = NamedNode("urn:s"), NamedNode("urn:g")


@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.slow), "folder"])
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Repository]:
    """The store that the server keeps: in memory, or in a folder."""
    place = ":memory:" if request.param == "memory" else tmp_path / "store"
    with trails.open(place, create=request.param == "folder", durability="process") as store:
        yield store


@pytest.fixture
def address(own: Repository) -> Iterator[str]:
    with served(own) as found:
        yield found


@pytest.fixture
def store(address: str) -> Iterator[Repository]:
    with trails.open(address) as opened:
        yield opened


class TestRemoteStore(StoreConformance):
    @pytest.fixture
    def open_store(self, address: str) -> Callable[[], QuadStore]:
        return lambda: RemoteStore(HttpChannel(address))


# --- requests


@pytest.fixture
def requests(store: Repository) -> Callable[[], int]:
    """Give how many requests were sent since it was last asked."""
    way: Any = store.store._channel  # type: ignore[attr-defined] # of a `RemoteStore`
    before = 0

    def since() -> int:
        nonlocal before
        sent, before = way.requests - before, way.requests
        return int(sent)

    return since


def test_opening_is_one_request(store: Repository, requests: Callable[[], int]) -> None:
    assert requests() == 1


def test_an_append_to_an_open_session_is_one_request(store: Repository, requests: Callable[[], int]) -> None:
    session = store.create(principal="ann")
    session.append("user", "Plan a trip")
    requests()
    session.persist()
    assert requests() == 1
    for text in ("Where to?", "When?"):
        session.append("assistant", text)
        session.persist()
        assert requests() == 1


def test_loading_is_one_request_and_so_is_the_append_after_it(
    own: Repository, store: Repository, requests: Callable[[], int]
) -> None:
    grown(own)
    requests()
    session = store.load("leaf")
    assert [turn.content for turn in session.turns] == ["0", "1", "2", "below 0", "below 1", "below 2"]
    assert session.system == "Be kind"
    assert requests() == 1
    session.append("user", "more")
    session.persist()
    assert requests() == 1
    assert len(own.load("leaf")) == 7


def test_a_fork_with_a_turn_is_one_request(own: Repository, store: Repository, requests: Callable[[], int]) -> None:
    grown(own)
    session = store.load("leaf")
    requests()
    fork = session.fork(at=4)
    fork.append("user", "another way")
    fork.persist()
    assert requests() == 1
    assert [turn.content for turn in own.load(fork.id).turns][2:] == ["2", "below 0", "another way"]
    assert own.load(fork.id).system == "Be kind"


@pytest.mark.parametrize(
    "operation",
    [
        lambda store: store.replay("leaf"),
        lambda store: store.diff("root", "leaf"),
        lambda store: [record.id for record in store.list()],
        lambda store: [summary.to_dict() for summary in store.summaries()],
        lambda store: [hit.session_id for hit in store.search("below")],
        lambda store: store.query("token-usage-by-model").to_dicts(),
        lambda store: store.query("SELECT ?s { ?s a trails:Session } ORDER BY ?s").to_dicts(),
        lambda store: store.compare("root").rows,
        lambda store: [record.id for record in store.branches("root")],
        lambda store: store.load("leaf", last=2)[-1].content,
    ],
)  # fmt: skip
@pytest.mark.sample(6)
def test_what_reads_much_is_one_request_and_gives_what_the_store_itself_gives(
    operation: Callable[[Repository], Any], own: Repository, store: Repository, requests: Callable[[], int]
) -> None:
    grown(own)
    requests()
    found = operation(store)
    assert requests() == 1
    assert repr(found) == repr(operation(own))


def test_a_label_is_two_requests_however_much_it_looks_at(
    own: Repository, store: Repository, requests: Callable[[], int]
) -> None:
    grown(own)
    requests()
    store.set_label("leaf", "trip")
    assert requests() == 2
    assert own.resolve("trip") == "leaf"
    store.score("leaf", "good", True)
    assert own.scores("leaf")[0].value is True
    assert own.verify().ok


def test_what_a_server_does_not_tell_is_refused_in_words(store: Repository) -> None:
    with pytest.raises(InvalidInput, match="use query"):
        store.rows("SELECT ?s { ?s a trails:Session }")
    with pytest.raises(InvalidInput, match="events of its API"):
        store.subscribe(print)


def grown(own: Repository) -> None:
    """Give a store a session with three turns, and a fork of it with three more."""
    root = own.create(id="root", principal="ann", system="Be kind")
    for number in range(3):
        root.append("user", f"{number}")
    root.persist()
    leaf = root.fork(id="leaf")
    for number in range(3):
        leaf.append("assistant", f"below {number}", model="m")
    leaf.persist()


# --- writers beside each other


def test_a_head_that_another_client_moved_is_a_conflict_with_both_heads(address: str, store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "first")
    session.persist()
    with trails.open(address) as other:
        theirs = other.load("s")
        theirs.append("user", "theirs")
        theirs.persist()
    session.append("user", "ours")
    with pytest.raises(HeadConflict) as conflict:
        session.persist()
    assert conflict.value.expected == session.turns[0].digest
    assert conflict.value.actual == store.load("s").head
    session.discard_pending()


def test_a_name_that_another_client_took_meanwhile_is_refused_when_it_is_stored(
    address: str, store: Repository
) -> None:
    session = store.create(id="mine")
    with trails.open(address) as other:
        other.create(id="mine").persist()
    with pytest.raises(InvalidInput, match="there is a session 'mine' already"):
        session.persist()


def test_what_another_client_did_to_a_row_is_seen_by_the_commit_that_was_made_from_the_old_one(
    address: str, own: Repository, store: Repository
) -> None:
    grown(own)
    session = store.load("root")
    with trails.open(address) as other:
        other.set_label("root", "trip")
    session.set_system("Be brief")
    session.persist()
    assert own.load("root").system == "Be brief"
    assert own.record("root").label == "trip"
    assert own.verify().ok


def test_a_commit_that_is_sent_twice_happens_once(own: Repository, store: Repository) -> None:
    way: Any = store.store._channel  # type: ignore[attr-defined] # of a `RemoteStore`
    leaf = Leaf("change", "urn:trails:session:s", 0, "ab" * 32)
    body = wire.change_out(Change(add=[Quad(NODE, NODE, Literal("x"), GRAPH)], leaves=[leaf]), uuid4().hex)
    first, again = way.ask("commit", body), way.ask("commit", body)
    assert first["committed"] == again["committed"]
    assert len(own.store.log.lines()) == 1


def test_a_commit_whose_answer_was_lost_is_not_written_again_by_a_server_that_was_started_anew(
    own: Repository, store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Outcomes, "once", lambda self, key, work: work()
    )  # as of a server that knows of no commit before
    way: Any = store.store._channel  # type: ignore[attr-defined] # of a `RemoteStore`
    post, sent = way._client.post, 0

    def losing_the_first_answer(*args: Any, **options: Any) -> Any:
        nonlocal sent
        sent += 1
        answer = post(*args, **options)
        if sent == 1:
            raise httpx.ReadError("lost")
        return answer

    monkeypatch.setattr(way._client, "post", losing_the_first_answer)
    leaf = Leaf("change", "urn:trails:session:s", 0, "ab" * 32)
    change = Change(add=[Quad(NODE, NODE, Literal("x"), GRAPH)], leaves=[leaf], read={})
    done = store.store.commit(change)
    assert (sent, done.written, done.number, len(own.store.log.lines())) == (2, False, own.store.number, 1)
    other = Change(add=[Quad(NODE, NODE, Literal("y"), GRAPH)], leaves=[leaf], read={})
    assert (store.store.commit(other).written, len(own.store.log.lines())) == (True, 2)


@pytest.mark.parametrize(
    "spoiled",
    [
        {"content": b"{"},
        {"content": b"no gzip", "headers": {"content-encoding": "gzip"}},
    ],
)
def test_an_answer_that_came_spoiled_is_asked_for_again(
    own: Repository, store: Repository, monkeypatch: pytest.MonkeyPatch, spoiled: dict[str, Any]
) -> None:
    way: Any = store.store._channel  # type: ignore[attr-defined] # of a `RemoteStore`
    post, sent = way._client.post, 0

    def spoiling_the_first_answer(*args: Any, **options: Any) -> Any:
        nonlocal sent
        sent += 1
        answer = post(*args, **options)
        if sent > 1:
            return answer
        headers = {wire.HEADER: str(wire.VERSION)} | spoiled.get("headers", {})
        return httpx.Response(200, content=spoiled["content"], headers=headers)

    session = store.create(id="s")
    session.append("user", "Go")
    monkeypatch.setattr(way._client, "post", spoiling_the_first_answer)
    assert session.persist() == 1
    assert [turn.content for turn in own.load("s").turns] == ["Go"]


def test_text_is_taken_out_by_the_server(own: Repository, store: Repository) -> None:
    grown(own)
    done = store.redact("leaf", 1, by="ann", reason="asked for")
    assert done.turns == (("root", 1),)
    assert own.load("leaf")[1].content == ""
    assert store.redact_matching("below 2").places[0].session_id == "leaf"
    store.detach("leaf")
    assert store.delete("root") == ["root"]
    with pytest.raises(SessionNotFound, match="was deleted"):
        store.load("root")
    assert own.verify().ok


# --- who may


@pytest.mark.parametrize(("role", "done"), [("auditor", False), ("writer", True)])
def test_a_role_does_what_it_may_and_is_told_what_it_may_not(
    role: callers.Role, done: bool, own: Repository, store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(own)
    as_caller(monkeypatch, role)
    session = store.load("root")
    session.append("user", "more")
    if done:
        session.persist()
    else:
        with pytest.raises(StoreFailed, match=r"auditor"):
            session.persist()
        session.discard_pending()
    assert len(own.load("root")) == 3 + done
    with pytest.raises(StoreFailed, match=role):
        store.redact("root", 0)
    assert own.load("root")[0].content == "0"
    graph = NamedNode(own.load("root").iri)
    with pytest.raises(StoreFailed, match="admin" if done else "auditor"):
        store.store.commit(Change(drop=[graph]))
    assert own.store.quads((None, None, None, graph))


def test_a_writer_copies_turns_and_takes_none_out(own: Repository, dave: Repository) -> None:
    assert [turn.content for turn in dave.flatten("leaf", id="flat").turns] == [
        *"012",
        "below 0",
        "below 1",
        "below 2",
    ]
    assert dave.load("leaf").detach().parent_session_id is None
    for refused in (
        lambda: dave.delete("root"),
        lambda: dave.load("flat").delete(),
        lambda: dave.prune(keep_count=0),
        lambda: dave.redact_matching("below"),
    ):
        with pytest.raises(StoreFailed, match="'writer' takes no text out"):
            refused()
    assert sorted(own.reader.ids()) == ["flat", "leaf", "root"]
    assert own.verify().ok


@pytest.mark.parametrize("own", ["folder"], indirect=True)
def test_a_token_says_who_asks_and_what_they_may(
    own: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(own)
    file = TokenFile(tmp_path / "store" / "tokens.json")
    secrets = {
        name: file.make(name, principal="ann", role=callers.role_of(role), is_for_all=is_for_all)[1]
        for name, role, is_for_all in (("all", "writer", True), ("part", "writer", False), ("chief", "admin", False))
    }
    with served(own) as address:
        with pytest.raises(StoreFailed, match="wants a token"):
            trails.open(address)
        with pytest.raises(StoreFailed, match="does not know this token"):
            trails.open(address, token="no-such-token")  # noqa: S106 - no secret
        with pytest.raises(StoreFailed, match="/api"):
            trails.open(address, token=secrets["part"])
        monkeypatch.setenv("TRAILS_TOKEN", secrets["all"])
        with trails.open(address) as store, pytest.raises(StoreFailed, match="takes no text out"):
            store.redact("root", 0)
        with trails.open(address, token=secrets["chief"]) as store:
            assert store.redact("root", 0).turns
            assert store.notes.add("root", 1, "seen").author == "ann"
            assert store.notes.add("root", 1, "seen", by="bob").author == "bob"


@pytest.fixture
def dave(own: Repository, tmp_path: Path) -> Iterator[Repository]:
    """The store as it is opened with the token of a writer who sees all."""
    grown(own)
    _, secret = TokenFile(tmp_path / "tokens.json").make("dave", principal="dave", role="writer", is_for_all=True)
    with served(own, Settings(tokens=tmp_path / "tokens.json")) as address, trails.open(address, token=secret) as store:
        yield store


def test_what_a_writer_does_is_on_record_as_done_by_the_principal_of_the_token(
    own: Repository, dave: Repository
) -> None:
    note, score = dave.notes.add("root", 0, "seen"), dave.score("root", "good", True)
    tag, ref = dave.tags.add("first", "root@1"), dave.refs.set("main", "root")
    assert [note.author, score.by, tag.author, ref.author] == ["dave"] * 4
    fork = dave.load("root").fork(at=1, id="other")
    fork.append("user", "by another way", author="eve")
    fork.persist()
    assert (own.record("other").forked_by, own.load("other")[1].author) == ("urn:trails:principal:dave", "eve")
    dave.create(id="mine").persist()
    dave.create(id="hers", principal="erin").persist()
    assert [own.record(each).principal for each in ("mine", "hers")] == ["dave", "erin"]
    dave.set_label("root", "trip")
    dave.detach("leaf")
    dave.notes.remove(note.id)
    named = own.select("SELECT DISTINCT ?who { ?act prov:wasAssociatedWith ?who ; prov:endedAtTime ?time }")
    assert [str(row["who"]) for row in named] == ["<urn:trails:principal:dave>"]
    assert own.verify().ok


@pytest.mark.parametrize("by", ["mallory", "agent:dave"])
@pytest.mark.parametrize(
    "act",
    [
        lambda store, by: store.notes.add("root", 0, "seen", by=by),
        lambda store, by: store.score("root", "good", True, by=by),
        lambda store, by: store.tags.add("first", "root@1", by=by),
        lambda store, by: store.refs.set("main", "root", by=by),
        lambda store, by: store.set_label("root", "trip", by=by),
        lambda store, by: store.load("root").set_label("trip", by=by),
        lambda store, by: store.load("leaf").detach(by=by),
        lambda store, by: store.flatten("leaf", by=by),
    ],
)  # fmt: skip
@pytest.mark.sample(10)
def test_a_writer_acts_as_nobody_else(
    act: Callable[[Repository, str], object], by: str, own: Repository, dave: Repository
) -> None:
    before = own.store.number
    with pytest.raises(StoreFailed, match="'dave' cannot act as"):
        act(dave, by)
    fork = dave.load("root").fork(at=1, by=by)
    with pytest.raises(StoreFailed, match="'dave' cannot act as"):
        fork.persist()
    fork.discard_pending()
    assert own.store.number == before


def as_caller(monkeypatch: pytest.MonkeyPatch, role: callers.Role) -> None:
    """Have all requests come from somebody in a role."""

    def require(request: object, right: callers.Right) -> callers.Caller:
        if right not in callers.RIGHTS[role]:
            raise callers.Forbidden(f"the role {role!r} has no right to {right} here")
        return callers.Caller("ann", role)

    monkeypatch.setattr(store_protocol, "require", require)


def test_a_caller_who_sees_a_part_is_sent_to_the_api(
    own: Repository, store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def view_of(request: object) -> object:
        return object()

    monkeypatch.setattr(store_protocol, "view_of", view_of)
    with pytest.raises(StoreFailed, match="/api"):
        store.load("root")


# --- what goes wrong


def test_a_server_that_is_away_is_told_in_words_and_what_is_pending_is_kept(
    own: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "PATIENCE", 0.2)
    with served(own) as address:
        store = trails.open(address)
        session = store.create(id="s")
        session.append("user", "Plan a trip")
    with pytest.raises(StoreFailed, match="cannot be reached"):
        session.persist()
    assert session.pending == 1
    session.discard_pending()
    store.close()
    with pytest.raises(StoreFailed, match="cannot be reached"):
        trails.open(address)


def test_another_version_of_the_protocol_is_told_in_words(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "VERSION", 2)
    way = HttpChannel(address)
    monkeypatch.undo()
    with pytest.raises(StoreFailed, match=r"speaks version 1 .* and the client version 2"):
        RemoteStore(way).sync()
    way.close()


def test_what_is_no_server_of_trails_is_told_in_words(address: str) -> None:
    with pytest.raises(StoreFailed, match="there is no Trails store at"):
        trails.open(f"{address}elsewhere/")


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("http://store.example/", "in clear"),
        ("https://ann:secret@store.example/", "without a name, a password"),
        ("https://store.example/?token=secret", "without a name, a password"),
        ("https:///", "has a host"),
        ("https://store.example:port/", "no address"),
    ],
)
def test_an_address_that_is_none_is_refused_without_its_secrets(location: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        trails.open(location)
    assert "secret" not in str(refused.value)


def test_options_that_a_server_decides_are_refused(address: str) -> None:
    for options in ({"create": True}, {"read_only": True}, {"token": "two words"}):
        with pytest.raises(InvalidInput):
            trails.open(address, **options)
    with pytest.raises(InvalidInput, match="a token is for the store of a server"):
        trails.open(":memory:", token="t")  # noqa: S106 - no secret


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM turns",
        "CREATE TABLE mine (x)",
        "SELECT * FROM trails_stores",
        "ATTACH 'elsewhere.db' AS other",
        "PRAGMA query_only = 0",
        "SELECT load_extension('x')",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    ],
)
@pytest.mark.parametrize("own", ["folder"], indirect=True)
def test_sql_that_is_no_reading_of_the_rows_is_refused(text: str, own: Repository) -> None:
    grown(own)
    with served(own, Settings(query_timeout=0.2)) as address, trails.open(address) as store:
        connection = store.store.rows_connection()  # type: ignore[attr-defined] # of a `RemoteStore`
        with pytest.raises(InvalidInput, match="cannot be asked that"):
            connection.execute(text)
        assert connection.execute("SELECT count(*) FROM turns").fetchone() == (6,)


# --- the wire


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("read", {"ahead": 5}),
        ("read", {"ahead": ["load"]}),
        ("read", {"reads": [5]}),
        ("read", {"reads": [["sql", 5, None]]}),
        ("read", {"reads": [["quads", ["no term", None, None, None]]]}),
        ("commit", {}),
        ("commit", {"id": "i", "add": 5}),
        ("commit", {"id": "i", "add": "no quads"}),
        ("commit", {"id": "i", "add": "<urn:a> <urn:b> <urn:c> .", "leaves": [5]}),
        ("commit", {"id": "i", "add": "<urn:a> <urn:b> <urn:c> .", "leaves": [["turns", 5, "two", None]]}),
        ("commit", {"id": "i", "add": "<urn:a> <urn:b> <urn:c> .", "forbid": [["x"]]}),
        ("commit", {"id": "i", "add": "<urn:a> <urn:b> <urn:c> .", "as_of": "now"}),
        ("commit", {"id": ["i"], "add": "<urn:a> <urn:b> <urn:c> ."}),
        ("act", {"id": "i", "act": "redact", "options": {"no": 1}}),
        ("act", {"id": "i", "act": "redact", "options": 5}),
        ("act", {"id": "i", "act": "redact", "options": {"session": "root", "index": 0, "by": 5}}),
        ("act", {"id": "i", "act": "prune", "options": {"older_than": "long"}}),
        ("act", {"id": "i", "act": ["redact"]}),
    ],
)
@pytest.mark.sample(8)
def test_a_body_that_cannot_be_read_is_refused_and_writes_nothing(
    what: str, body: dict[str, Any], own: Repository, address: str
) -> None:
    grown(own)
    before = own.store.number
    headers = {wire.HEADER: str(wire.VERSION)}
    answer = httpx.post(f"{address}store/{what}", json=body, headers=headers)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert own.store.number == before


def test_a_commit_that_another_one_came_before_is_a_conflict(own: Repository, address: str) -> None:
    grown(own)
    here = Quad(NODE, NODE, NODE, GRAPH)
    body = wire.change_out(Change(require=[here], add=[Quad(NODE, NODE, GRAPH, GRAPH)]), "i")
    answer = httpx.post(f"{address}store/commit", json=body, headers={wire.HEADER: str(wire.VERSION)})
    assert (answer.status_code, answer.json()["title"]) == (409, "PreconditionFailed")


texts = st.text(st.characters(codec="utf-8"))
nodes = st.uuids().map(lambda each: NamedNode(f"urn:{each}"))
literals = st.one_of(texts.map(Literal), st.integers(-(2**60), 2**60).map(Literal), st.booleans().map(Literal))
graphs = st.one_of(nodes, st.just(DefaultGraph()))
quads = st.lists(st.builds(Quad, nodes, nodes, st.one_of(nodes, literals), graphs), max_size=4)
patterns = st.tuples(st.none() | nodes, st.none() | nodes, st.none() | nodes | literals, st.none() | graphs)
changes = st.builds(
    Change,
    add=quads,
    remove=quads,
    require=quads,
    forbid=st.lists(patterns, max_size=3),
    drop=st.lists(nodes, max_size=2),
    leaves=st.lists(st.just(LEAF), max_size=1),
    also_add=quads,
    also_remove=quads,
    as_of=st.none() | st.integers(0, 2**40),
    read=st.none() | st.dictionaries(patterns, quads, max_size=3),
)


@given(changes)
def test_a_commit_comes_back_as_it_was(change: Change) -> None:
    assert wire.change_in(wire.change_out(change, "id")) == change


@given(texts, texts)
def test_an_error_comes_back_with_its_fields(message: str, head: str) -> None:
    for error in (
        HeadConflict(message, expected=head, actual=None),
        LimitReached(message, limit="a", allowed=1, wanted=2),
    ):
        again = wire.error_in(wire.error_out(error))
        assert (type(again), again.message, vars(again)) == (type(error), error.message, vars(error))


def test_a_commit_whose_precondition_fails_is_answered_as_a_conflict(address: str) -> None:
    body = wire.change_out(Change(require=[Quad(NODE, NODE, NODE, GRAPH)]), "id")
    answer = httpx.post(f"{address}store/commit", json=body, headers={wire.HEADER: str(wire.VERSION)})
    assert (answer.status_code, answer.json()["title"]) == (409, "PreconditionFailed")


@pytest.mark.parametrize("command", [["serve", "http://localhost:1/"], ["doctor", "--store", "http://localhost:1/"]])
def test_commands_for_where_a_store_is_kept_refuse_a_server(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code != 0
    assert "server" in capsys.readouterr().err
