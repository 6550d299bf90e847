"""A mirror holds what its store holds, at every step, whatever was cut short on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pyoxigraph as ox
import pytest

import trails
from tests.support.sparql_servers import StandIn
from trails import InvalidInput, Mirror, Mirrored, MirrorFailed, MirrorReport, Repository
from trails.exchange.remotes.mirror_comparison import same_term
from trails.exchange.remotes.mirror_endpoint import Endpoint
from trails.rdf import query_files
from trails.store.contract import Solutions
from trails.store.embedded import drop_graph

pytestmark = pytest.mark.any_store

Make = Callable[..., StandIn]


def history(store: Repository) -> Iterator[str]:
    """Do one thing after the other to a store, everything that reaches its graphs, and name each when it was done."""
    plan = store.create(id="plan", principal="alice", agent="planner", system="Be brief.")
    plan.append("user", 'Plan a trip \u2028 \U0001f600 \\ " \n')
    plan.persist()
    yield "created"
    calls = [{"id": "c1", "name": "search", "arguments": {"q": "trains"}}]
    plan.append("assistant", "I look.", model="m-1", usage={"input_tokens": 3, "cost": 0.25}, tool_calls=calls)
    plan.append("tool", "found", tool_call_id="c1")
    plan.persist()
    yield "grown"
    fork = plan.fork(at=2, id="fork", meta={"arm": "x", "n": 1})
    fork.append("user", [{"type": "text", "text": "Never mind"}])
    fork.persist()
    yield "forked"
    plan.set_label("trip")
    store.tags.add("v1", "plan@2")
    note = store.notes.add("plan", 1, "Too long.", by="bob")
    store.score("fork", "quality", 0.5, by="agent:grader")
    yield "told more of"
    plan.set_system("Be long.")
    plan.append("assistant", "By train.", model="m-1")
    plan.persist()
    yield "prompt and turn"
    store.notes.remove(note.id, by="bob")
    yield "note taken away"
    trails.Ledger(store).receive("plan", "Hello", source="mail", event_id="m-1", peer="carol")
    yield "received"
    store.redact("plan", 0, by="alice", reason="private")
    yield "redacted"
    fork.detach()
    yield "detached"
    store.delete("fork", by="alice")
    yield "deleted"
    with store.session("later") as later:
        later.append("user", "x" * 3000)
    yield "another"


def triples(url: str) -> int:
    """How many triples a server has beside what the mirror notes of itself, as it counts them itself."""
    there = Endpoint(url)
    inner = "{ ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } FILTER(?g != <urn:trails:mirror>) }"
    return int(there.select(f"SELECT (COUNT(*) AS ?n) WHERE {{ {inner} }}")[0]["n"].value)


@pytest.fixture(params=["oxigraph", "stand-in"])
def url(request: pytest.FixtureRequest, stand_in: Make) -> str:
    return str(request.getfixturevalue("oxigraph")) if request.param == "oxigraph" else stand_in().url


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.sample(3)
def test_a_mirror_has_all_that_its_store_has_after_each_step(store: Repository, url: str, goes_on: bool) -> None:
    mirror = Mirror(store, url)
    for step in history(store):
        mirror = mirror if goes_on else Mirror(store, url)
        done = mirror.sync()
        assert done.triples > 0, step
        assert (done.position, mirror.position) == (len(store.store.log.lines()),) * 2
        assert triples(url) == len(store.store), step
        report = (mirror if goes_on else Mirror(store, url)).verify()
        assert (report.ok, report.triples) == (True, len(store.store)), step


def test_what_is_there_is_not_sent_again(store: Repository, stand_in: Make) -> None:
    server = stand_in()
    list(history(store))
    Mirror(store, server.url).sync()
    before = len(server.updates)
    done = Mirror(store, server.url).sync()
    assert (done.triples, done.sessions, done.dropped) == (0, 0, 0)
    assert len(server.updates) == before + 1  # who feeds it now


def test_a_store_to_which_nothing_came_is_not_read_again(
    memory: Repository, stand_in: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(history(memory))
    mirror = Mirror(memory, stand_in().url)
    first = mirror.sync()

    def refuse(*_: object, **__: object) -> Any:
        pytest.fail("the store was read")

    with monkeypatch.context() as reading:
        for name in ("quads", "query", "table"):
            reading.setattr(memory.store, name, refuse)
        assert mirror.sync() == Mirrored(first.position, 0, 0, 0, 0)
    memory.set_label("plan", "later")
    assert mirror.sync().triples > 0
    assert mirror.verify().ok


def test_a_server_that_was_away_and_is_back_as_it_was_before_gets_what_it_lost(
    memory: Repository, stand_in: Make
) -> None:
    server = stand_in()
    with memory.session("chat") as chat:
        chat.append("user", "Hello")
        chat.persist()
        mirror = Mirror(memory, server.url)
        mirror.sync()
        backup = list(server.store)
        chat.append("user", "Hello again")
    mirror.sync()
    server.cut = True
    with pytest.raises(MirrorFailed):
        mirror.sync()
    server.cut = False
    server.store.clear()
    server.store.extend(backup)
    assert mirror.sync().triples >= 10
    assert mirror.verify().ok


def test_a_graph_that_goes_without_a_commit_goes_from_the_mirror_too(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    with memory.session("chat") as chat:
        chat.append("user", "Hello")
    mirror = Mirror(memory, server.url)
    mirror.sync()
    assert drop_graph(memory.store, ox.NamedNode("urn:trails:session:chat")) == 10
    assert mirror.sync().dropped == 1
    assert "Hello" not in {each.object.value for each in server.store if isinstance(each.object, ox.Literal)}


def test_turns_that_came_are_sent_and_not_the_session(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    chat = memory.create(id="chat")
    for number in range(50):
        chat.append("user", f"Turn {number}")
    chat.persist()
    mirror = Mirror(memory, server.url)
    first = mirror.sync()
    chat.append("user", "One more")
    chat.persist()
    assert mirror.sync().triples < first.triples / 10
    assert not any("DROP" in text and "chat" in text for text in server.updates[2:])
    assert mirror.verify().ok


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.sample(1)
def test_a_mirror_that_was_cut_short_at_any_request_goes_on(memory: Repository, stand_in: Make, lost: bool) -> None:
    server = stand_in()
    server.lose_answers = lost
    steps = history(memory)
    for _ in steps:
        for allowed in range(40):
            server.fail_after = len(server.updates) + allowed
            with suppress(MirrorFailed):
                Mirror(memory, server.url).sync()
                break
        else:
            pytest.fail("it never came to an end")
        server.fail_after = None
        assert Mirror(memory, server.url).verify().ok
        assert triples(server.url) == len(memory.store)


def test_a_session_that_is_written_anew_in_many_requests_may_be_cut_short_between_them(
    memory: Repository, stand_in: Make
) -> None:
    server = stand_in(name="Virtuoso/07.20")  # at most 500 triples a request
    with memory.session("long") as chat:
        for number in range(120):
            chat.append("user", f"Turn {number}")
    Mirror(memory, server.url).sync()
    memory.redact("long", 3, by="alice")
    server.fail_after = len(server.updates) + 2  # who feeds it, and the first part
    with pytest.raises(MirrorFailed):
        Mirror(memory, server.url).sync()
    server.fail_after = None
    assert not Mirror(memory, server.url).verify().ok
    Mirror(memory, server.url).sync()
    assert Mirror(memory, server.url).verify().ok


def test_a_mirror_whose_server_failed_once_goes_on_by_itself(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    list(history(memory))
    mirror = Mirror(memory, server.url)
    server.fail_after = len(server.updates)
    for _ in range(2):
        with pytest.raises(MirrorFailed):
            mirror.sync()
    server.fail_after = None
    mirror.sync()
    assert mirror.verify().ok
    assert triples(server.url) == len(memory.store)


def test_a_redacted_and_a_deleted_text_are_nowhere_in_the_mirror(memory: Repository, oxigraph: str) -> None:
    with memory.session("a") as a, memory.session("b") as b:
        a.append("user", "the first secret")
        b.append("user", "the second secret")
    mirror = Mirror(memory, oxigraph)
    mirror.sync()
    found = 'SELECT ?s WHERE { GRAPH ?g { ?s ?p ?o FILTER(CONTAINS(STR(?o), "secret")) } }'
    assert len(Endpoint(oxigraph).select(found)) == 2
    memory.redact("a", 0, by="alice")
    memory.delete("b", by="alice")
    assert mirror.sync().dropped == 1
    assert Endpoint(oxigraph).select(found) == []


# --- whose mirror it is


def test_the_mirror_of_another_store_is_left_alone(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    list(history(memory))
    Mirror(memory, server.url).sync()
    with trails.open(":memory:") as other, other.session("else") as chat:
        chat.append("user", "Hello")
        chat.persist()
        before = list(server.updates)
        with pytest.raises(InvalidInput, match="mirrors another store"):
            Mirror(other, server.url)
        for number in range(40):  # a log that is longer than the mirrored one
            chat.append("user", f"Turn {number}")
            chat.persist()
        with pytest.raises(InvalidInput, match="mirrors another store"):
            Mirror(other, server.url)
        assert server.updates == before
        mirror = Mirror(other, server.url, anew=True)
        mirror.sync()
        assert mirror.verify().ok
        assert triples(server.url) == len(other.store)


def test_a_second_process_that_feeds_a_mirror_stops_the_first(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    first = Mirror(memory, server.url)
    first.sync()
    second = Mirror(memory, server.url)
    with pytest.raises(MirrorFailed, match="another process feeds"):
        first.sync()
    second.sync()


def test_the_catalogue_may_be_a_named_graph_and_stays_where_it_is(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    list(history(memory))
    mirror = Mirror(memory, server.url, catalogue="named")
    mirror.sync()
    assert mirror.verify().ok
    rows = Endpoint(server.url).select("SELECT ?s WHERE { ?s ?p ?o }")
    assert rows == []
    with pytest.raises(InvalidInput, match="has the catalogue as its named graph"):
        Mirror(memory, server.url, catalogue="default")
    with pytest.raises(InvalidInput, match="no default graph"):
        Mirror(memory, server.url, server="virtuoso", catalogue="default")


# --- a mirror that somebody changed


@pytest.mark.parametrize(
    ("update", "session", "missing", "beyond"),
    [
        ("DELETE WHERE { GRAPH <urn:trails:session:plan> { ?t <https://w3id.org/trails#role> ?r } }", "plan", 4, 0),
        ("INSERT DATA { GRAPH <urn:trails:session:plan> { <urn:x> <urn:y> 1 } }", "plan", 0, 1),
        ("INSERT DATA { GRAPH <urn:trails:session:made-up> { <urn:x> <urn:y> 1 } }", "made-up", 0, 1),
        ("INSERT DATA { <urn:x> <urn:y> 1 }", None, 0, 1),
    ],
)
@pytest.mark.sample(3)
def test_verify_names_what_differs_by_session(
    altered: Callable[[str], MirrorReport], update: str, session: str | None, missing: int, beyond: int
) -> None:
    (found,) = altered(update).differences
    assert (found.session, found.missing, found.beyond) == (session, missing, beyond)


def test_verify_names_a_session_that_a_mirror_lacks(altered: Callable[[str], MirrorReport]) -> None:
    (found,) = altered("DROP GRAPH <urn:trails:session:later>").differences
    assert (found.session, found.beyond) == ("later", 0)
    assert found.missing > 5


@pytest.fixture
def altered(memory: Repository, stand_in: Make) -> Callable[[str], MirrorReport]:
    """Carry out an update in a mirror past Trails, and return what verify says then."""
    server = stand_in()
    list(history(memory))
    mirror = Mirror(memory, server.url)
    mirror.sync()

    def alter(update: str) -> MirrorReport:
        server.store.update(update)
        return mirror.verify()

    return alter


def test_a_text_that_was_altered_in_a_mirror_is_found(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    with memory.session("chat") as chat:
        chat.append("user", "Pay 10")
    mirror = Mirror(memory, server.url)
    mirror.sync()
    where = 'GRAPH ?g { ?s ?p "Pay 10" }'
    server.store.update(f'DELETE {{ {where} }} INSERT {{ GRAPH ?g {{ ?s ?p "Pay 99" }} }} WHERE {{ {where} }}')
    (found,) = mirror.verify().differences
    assert (found.session, found.missing, found.beyond) == ("chat", 1, 1)


# --- servers that are not as one would wish


def test_a_server_that_gives_few_rows_is_read_page_by_page(memory: Repository, stand_in: Make) -> None:
    server = stand_in(rows=7)
    list(history(memory))
    mirror = Mirror(memory, server.url)
    mirror.sync()
    assert mirror.verify().ok
    assert Mirror(memory, server.url).sync().triples == 0
    server.store.update("INSERT DATA { GRAPH <urn:trails:session:plan> { <urn:x> <urn:y> 1 } }")
    assert [each.beyond for each in mirror.verify().differences] == [1]


@pytest.mark.parametrize("rows", [pytest.param(3, marks=pytest.mark.slow), 8, 60])
@pytest.mark.sample(1)
def test_a_server_that_sorts_few_rows_is_read_to_the_end(memory: Repository, stand_in: Make, rows: int) -> None:
    """Virtuoso puts no more than 10,000 rows in order for one answer, those that an OFFSET passes over among them."""
    server = stand_in(rows=rows, sorts=60)
    list(history(memory))
    with memory.session("long") as chat:
        for number in range(20):
            chat.append("user", f"Turn {number}")
    mirror = Mirror(memory, server.url)
    mirror.sync()
    report = mirror.verify()
    assert (report.ok, report.triples) == (True, len(memory.store))
    assert Mirror(memory, server.url, anew=True).sync().triples >= len(memory.store)
    server.store.update("DELETE WHERE { GRAPH <urn:trails:session:long> { ?t <https://w3id.org/trails#role> ?r } }")
    server.store.update("INSERT DATA { GRAPH <urn:trails:session:long> { <urn:a> <urn:b> 1 . <urn:zz> <urn:b> 1, 2 } }")
    assert [(each.missing, each.beyond) for each in mirror.verify().differences] == [(20, 3)]


def test_an_answer_that_ends_halfway_is_no_answer(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    list(history(memory))
    Mirror(memory, server.url).sync()
    server.cut = True
    with pytest.raises(MirrorFailed, match="no whole result"):
        Mirror(memory, server.url)


def test_a_server_that_is_not_there_is_named(memory: Repository) -> None:
    with pytest.raises(MirrorFailed, match=r"http://127.0.0.1:9 did not answer"):
        Mirror(memory, "http://127.0.0.1:9")


@pytest.mark.parametrize(
    "url",
    [
        *("localhost:7878", "ftp://x", "http://", "", "http://x:port", "http://x/?a=b", "http://[x", "http://x:9/a b"),
        *("ftp://ann:s3cret@host", "ann:s3cret@host:7878", "//ann:s3cret@host", "http:ann:s3cret@host"),
        *("http://ann:12/s3cret@host", "http://ann:s3@cret@"),
    ],
)
def test_what_is_no_address_is_refused_and_no_password_in_it_is_said(memory: Repository, url: str) -> None:
    with pytest.raises(InvalidInput, match=r"mirror|address") as refused:
        Mirror(memory, url)
    assert "cret" not in str(refused.value)


def test_a_name_and_a_password_open_a_server_and_are_never_said(
    memory: Repository, stand_in: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = stand_in(login="ann:s3cret")
    wrong = server.url.replace("//", "//ann:wr0ng@")
    with pytest.raises(MirrorFailed) as refused:
        Mirror(memory, wrong)
    assert "401" in refused.value.message
    assert "wr0ng" not in str(refused.value)
    mirror = Mirror(memory, server.url.replace("//", "//ann:s3cret@"))
    assert "s3cret" not in repr(mirror) + mirror.location + repr(mirror.verify())
    monkeypatch.setenv("TRAILS_MIRROR_USER", "ann")
    monkeypatch.setenv("TRAILS_MIRROR_PASSWORD", "s3cret")
    Mirror(memory, server.url).sync()


def test_for_what_a_server_cannot_hold_stands_a_reference(memory: Repository, stand_in: Make) -> None:
    server = stand_in(name="Virtuoso/07.20")
    with memory.session("chat") as chat:
        chat.append("user", "a" * 1_000_001)
        chat.append("user", "nul \0 within")
        chat.append("user", "plain", meta={"n": 1})
    mirror = Mirror(memory, server.url)
    assert mirror.sync().references == 2
    assert mirror.verify().ok
    value = "http://www.w3.org/ns/prov#value"
    rows = Endpoint(server.url).select(f"SELECT ?o WHERE {{ GRAPH <urn:trails:session:chat> {{ ?t <{value}> ?o }} }}")
    assert sorted(row["o"].value.split()[-2] for row in rows if row["o"].value.startswith("sha256:")) == [
        "1000001",
        "12",
    ]
    assert mirror.sync().references == 0


# --- the catalogue's queries


def rows_of(found: Any, names: list[str]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(None if row[name] is None else same_term(row[name]) for name in names) for row in found)


def asked_of_everything() -> list[str]:
    every = query_files.load_all().items()
    return [name for name, each in every if each.folder != "core" and all(p.optional for p in each.parameters)]


def compared(store: Repository, url: str) -> dict[str, bool]:
    """Whether each query of the catalogue gives the same rows there, unedited."""
    there, same_rows = Endpoint(url), {}
    for name in asked_of_everything():
        text = query_files.find(name).bind()
        ours = store.store.query(text)
        if not isinstance(ours, Solutions):
            continue
        names = list(ours.variables)
        try:
            same_rows[name] = rows_of(there.select(text), names) == rows_of(ours, names)
        except MirrorFailed:
            same_rows[name] = False
    return same_rows


def test_every_query_of_the_catalogue_gives_the_same_rows_in_oxigraph(memory: Repository, oxigraph: str) -> None:
    list(history(memory))
    Mirror(memory, oxigraph).sync()
    found = compared(memory, oxigraph)
    assert len(found) > 60
    assert [name for name, is_same in found.items() if not is_same] == []


def test_a_follower_that_is_behind_goes_on_at_once_and_one_that_is_not_waits(
    memory: Repository, stand_in: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, waited = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        with memory.session("chat") as chat:  # so that the next round has something to give
            chat.append("user", "and on")

    monkeypatch.setattr("trails.exchange.remotes.mirror.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    with memory.session("chat") as chat:
        chat.append("user", "Hello")
    mirror = Mirror(memory, stand_in().url)
    rounds = mirror.follow(5.0)
    next(rounds)
    next(rounds)  # no time has passed
    now[0] += 2.0
    next(rounds)
    now[0] += 7.0
    next(rounds)
    assert waited == [5.0, 3.0, 0.0]
