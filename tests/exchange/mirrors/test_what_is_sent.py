"""What a mirror is sent: updates made of terms, and the turns that came, with all that belongs to them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sparql_servers import StandIn
from trails import Mirror, Repository
from trails.exchange.remotes import mirror
from trails.exchange.remotes.mirror import turns_between
from trails.exchange.remotes.mirror_comparison import REFERENCE, statements
from trails.exchange.remotes.mirror_endpoint import SERVERS
from trails.rdf import vocab
from trails.store import EmbeddedStore
from trails.store.contract import Change

Make = Callable[..., StandIn]
GRAPH: Final = ox.NamedNode("urn:trails:session:chat")
SUBJECT, SAYS = ox.NamedNode("urn:s"), ox.NamedNode("urn:p")
HOSTILE: Final = ('" } } ; DROP ALL #', "\\", "a\nb\tc\r", "\u2028 \U0001f600", "\\u0022", "")


def at(store: ox.Store, graph: ox.NamedNode | ox.DefaultGraph = GRAPH) -> list[str]:
    """The values that a graph of an engine holds."""
    found = [quad.object for quad in store.quads_for_pattern(None, None, None, graph)]
    return sorted(each.value for each in found if isinstance(each, ox.Literal))


# --- updates


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_ends_the_update_that_it_stands_in(text: str) -> None:
    server = ox.Store()
    server.add(ox.Quad(SUBJECT, SAYS, ox.Literal("kept"), GRAPH))
    server.update(mirror.insert_update(GRAPH, f"{SUBJECT} {SAYS} {ox.Literal(text)}"))
    assert at(server) == sorted(["kept", text])


def test_what_is_forgotten_is_what_one_graph_says_of_one_subject_by_one_predicate() -> None:
    server, other = ox.Store(), ox.NamedNode("urn:other")
    for subject, predicate, value, graph in (
        (SUBJECT, SAYS, "1", GRAPH),
        (SUBJECT, other, "2", GRAPH),
        (other, SAYS, "3", GRAPH),
        (SUBJECT, SAYS, "4", ox.DefaultGraph()),
    ):
        server.add(ox.Quad(subject, predicate, ox.Literal(value), graph))
    server.update(mirror.delete_update(GRAPH, f"{SUBJECT} {SAYS} ?o"))
    assert (at(server), at(server, ox.DefaultGraph())) == (["2", "3"], ["4"])
    server.update(" ; ".join(mirror.delete_update(graph, f"{SUBJECT} ?p ?o") for graph in (GRAPH, None)))
    assert (at(server), at(server, ox.DefaultGraph())) == (["3"], [])
    server.update(" ; ".join([mirror.delete_update(GRAPH, "?s ?p ?o")] * 2))
    assert len(server) == 0


def test_no_request_adds_more_than_it_may() -> None:
    lines = [f"<urn:s> <urn:p> {number} ." for number in range(7)]
    made = list(mirror.insert_updates(GRAPH, lines, 3, ""))
    assert [count for _, count in made] == [3, 3, 1]
    server = ox.Store()
    for text, _ in made:
        server.update(text)
    assert at(server) == ["0", "1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("feeds", [True, False])
def test_an_update_does_nothing_without_the_statement_that_it_is_held_by(*, feeds: bool) -> None:
    server, me = ox.Store(), ox.Literal("me")
    held = mirror.within(SUBJECT, f"{SUBJECT} {SAYS} {me}")
    if feeds:
        server.add(ox.Quad(SUBJECT, SAYS, me, SUBJECT))
    server.add(ox.Quad(SUBJECT, SAYS, ox.Literal("there"), GRAPH))
    (added, _), *_ = mirror.insert_updates(GRAPH, ["<urn:s> <urn:p> 1 ."], 3, held)
    for update, there in (
        (added, ["1", "there"]),
        (mirror.insert_update(GRAPH, f'{SUBJECT} {SAYS} "2"', held), ["1", "2", "there"]),
        (mirror.delete_update(GRAPH, f"{SUBJECT} {SAYS} ?o", held), []),
    ):
        server.update(update)
        assert at(server) == (there if feeds else ["there"])
    server.add(ox.Quad(SUBJECT, SAYS, ox.Literal("there"), GRAPH))
    server.update(mirror.delete_update(GRAPH, "?s ?p ?o", held))
    assert at(server) == ([] if feeds else ["there"])


def test_only_one_module_of_mirrors_writes_sparql() -> None:
    folder = Path(mirror.__file__).parent
    sparql = re.compile(r"""["']\s*(SELECT|ASK|INSERT|DELETE|DROP|ORDER)\b""")
    assert [path.name for path in folder.glob("*.py") if sparql.search(path.read_text("utf-8"))] == ["mirror.py"]


# --- statements


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_text_reaches_a_server_as_it_is(text: str) -> None:
    quads = [ox.Quad(SUBJECT, SAYS, ox.Literal(text), GRAPH)]
    for kind in ("oxigraph", "virtuoso"):
        if kind == "oxigraph" or "\0" not in text:
            server = ox.Store()
            for update, _ in mirror.insert_updates(GRAPH, statements(quads, SERVERS[kind]), 10, ""):
                server.update(update)
            assert at(server) == [text]


@pytest.mark.parametrize(
    ("value", "is_held"),
    [
        (ox.Literal("nul \0 within"), False),
        (ox.Literal("a" * 1_000_001), False),
        (ox.Literal("\u20ac" * 333_334), False),  # three bytes each
        (ox.Literal("\u20ac" * 333_333), True),
        (ox.Literal("9223372036854775808", datatype=vocab.INTEGER), False),
        (ox.Literal("9223372036854775807", datatype=vocab.INTEGER), True),
        (ox.Literal("-9223372036854775808", datatype=vocab.INTEGER), False),
        (ox.Literal("12345678901234567890.5", datatype=vocab.DECIMAL), True),
        (ox.Literal("\n" * 400_000), True),
        (ox.Literal("true", datatype=vocab.BOOLEAN), True),
    ],
)
def test_what_virtuoso_cannot_hold_is_told_by_how_it_is_written(value: ox.Literal, is_held: bool) -> None:
    ((made,), (asked,)) = (
        statements([ox.Quad(SUBJECT, SAYS, value)], SERVERS[kind]) for kind in ("virtuoso", "oxigraph")
    )
    assert (f"^^{REFERENCE} ." not in made) is is_held
    assert (made == asked) is is_held


def test_a_node_without_a_name_gets_one() -> None:
    quads = [ox.Quad(ox.BlankNode("a1"), SAYS, value) for value in (ox.BlankNode("b2"), ox.NamedNode("urn:x"))]
    assert statements(quads, SERVERS["oxigraph"]) == [
        "<urn:trails:mirror:blank:a1> <urn:p> <urn:trails:mirror:blank:b2> .",
        "<urn:trails:mirror:blank:a1> <urn:p> <urn:x> .",
    ]


# --- the turns that came


def test_turns_are_read_from_an_index_up_to_the_first_gap() -> None:
    store = EmbeddedStore(None)
    quads = [ox.Quad(ox.NamedNode(f"urn:t/{n}"), vocab.INDEX, vocab.integer(n), GRAPH) for n in (0, 1, 2, 4)]
    store.commit(Change(add=quads))
    ((found, following),) = turns_between(store, GRAPH, 1, 9)
    assert (following, {str(quad.subject) for quad in found} >= {"<urn:t/1>", "<urn:t/2>"}) == (3, True)
    assert list(turns_between(store, GRAPH, 3, 9)) == []


def test_no_turn_is_read_from_the_end_on() -> None:
    store = EmbeddedStore(None)
    quads = [ox.Quad(ox.NamedNode(f"urn:t/{n}"), vocab.INDEX, vocab.integer(n), GRAPH) for n in range(4)]
    store.commit(Change(add=quads))
    ((found, following),) = turns_between(store, GRAPH, 1, 3)
    assert ({str(quad.subject) for quad in found}, following) == ({"<urn:t/1>", "<urn:t/2>"}, 3)
    assert list(turns_between(store, GRAPH, 2, 2)) == []


def test_more_turns_than_are_read_at_once_all_come(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    chat = memory.create(id="chat")
    chat.append("user", "The first")
    chat.persist()
    mirror = Mirror(memory, server.url)
    mirror.sync()
    for number in range(1_003):
        chat.append("user", f"Turn {number}")
    chat.persist()
    assert mirror.sync().triples == 10_030
    assert mirror.verify().ok
    found: Any = server.store.query(
        f"SELECT (COUNT(*) AS ?n) WHERE {{ GRAPH {GRAPH} {{ ?turn <https://w3id.org/trails#index> ?index }} }}"
    )
    assert next(found)["n"].value == "1004"


@pytest.mark.parametrize("others", [0, 1, 7])
def test_what_belongs_to_a_turn_comes_with_it(memory: Repository, stand_in: Make, others: int) -> None:
    server = stand_in()
    chat = memory.create(id="chat")
    chat.append("user", "Which train?")
    chat.persist()
    mirror = Mirror(memory, server.url)
    mirror.sync()
    calls = [{"id": f"c{n}", "name": "search", "arguments": {"q": n}} for n in range(2)]
    chat.append("assistant", "I look.", model="m-1", usage={"input_tokens": 3}, tool_calls=calls)
    chat.append("tool", "found", tool_call_id="c0")
    for number in range(others):
        chat.append("user", f"And {number}?")
    chat.persist()
    mirror.sync()
    kept = {quad.subject.value.partition("/")[2].partition("/")[2] for quad in server.store if quad.graph_name == GRAPH}
    assert kept == {"", "model", "call/0", "call/1", "result/0"}
    assert not any(f"DROP SILENT GRAPH {GRAPH}" in text for text in server.updates[2:])
    assert mirror.verify().ok


def test_for_what_a_server_cannot_hold_a_reference_stands_in_turns_that_came_later_too(
    memory: Repository, stand_in: Make
) -> None:
    server = stand_in(name="Virtuoso/07.20")
    with memory.session("chat") as chat:
        chat.append("user", "plain")
    mirror = Mirror(memory, server.url)
    assert mirror.sync().references == 0
    with memory.session("chat") as chat:
        chat.append("user", "a" * 1_000_001)
        chat.append("user", "nul \0 within")
        chat.append("user", "9" * 30)
    assert mirror.sync().references == 2
    assert mirror.verify().ok
