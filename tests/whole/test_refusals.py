"""Bad input gets a clear error, and nothing is written or lost."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import (
    ForkCycle,
    IndexGap,
    IntegrityError,
    InvalidInput,
    Ledger,
    ParentMissing,
    Repository,
    SessionNotFound,
    StoreFailed,
    TrailsError,
)
from trails.exchange.file_import import import_path
from trails.model import iris
from trails.rdf import vocab
from trails.store import Change

pytestmark = pytest.mark.any_store

BAD_IDS = [
    "",
    " ",
    "a b",
    "a\tb",
    "a\nb",
    "a\0b",
    "x" * 201,
    "x" * 10_000,
    "\ud800",
    "a<b",
    'a"b',
    "\u200b",
    5,
    None,
    b"a",
]


@pytest.mark.parametrize("bad", BAD_IDS, ids=lambda bad: repr(bad)[:12])
def test_a_bad_id_is_refused_wherever_an_id_is_taken(memory: Repository, bad: Any) -> None:
    session = memory.create(id="s")
    session.append("user", "kept")
    if bad is not None:
        with pytest.raises(InvalidInput):
            memory.create(id=bad)
        with pytest.raises(InvalidInput):
            session.fork(id=bad)
    for use in (memory.load, memory.replay, memory.delete, memory.branches):
        with pytest.raises((InvalidInput, SessionNotFound)):
            use(bad)
    session.persist()
    assert [turn.content for turn in memory.load("s").turns] == ["kept"]
    assert memory.info()["sessions"] == 1


def test_an_unknown_id_is_not_found_and_the_message_says_where_to_look(store: Repository) -> None:
    for use in (store.load, store.replay, store.delete, store.branches, store.verify):
        with pytest.raises(SessionNotFound, match="there is no session, label or tag 'nobody'; `trails list`"):
            use("nobody")


@pytest.mark.filterwarnings("ignore::trails.errors.PendingTurnsWarning")  # what is tried is not persisted
@pytest.mark.parametrize("at", [-1, 3, 10**20, 1.0, "1", True, None.__class__])
def test_a_fork_index_out_of_range_is_refused_before_anything_is_written(store: Repository, at: Any) -> None:
    session = store.create(id="s")
    session.append("user", "a")
    session.append("user", "b")
    with pytest.raises(InvalidInput):
        session.fork(at=at)
    assert "s" not in store
    assert session.pending == 2


@pytest.mark.parametrize(
    ("role", "content", "options"),
    [
        ("user", "\ud800", {}),
        ("user", ["\udfff"], {}),
        ("user", [{"a": float("nan")}], {}),
        ("user", [{"a": float("inf")}], {}),
        ("user", [{1: "a"}], {}),
        ("user", [object()], {}),
        ("user", {"type": "text"}, {}),
        ("user", None, {}),
        ("user", 5, {}),
        ("user", b"bytes", {}),
        ("", "a", {}),
        ("us er", "a", {}),
        ("user", "a", {"time": datetime(2026, 1, 1)}),  # noqa: DTZ001 - a naive time is the point
        ("user", "a", {"time": "2026-01-01"}),
        ("user", "a", {"usage": [1]}),
        ("user", "a", {"usage": {"a": float("nan")}}),
        ("user", "a", {"meta": {"": 1}}),
        ("user", "a", {"meta": {"a": {1, 2}}}),
        ("user", "a", {"model": ""}),
        ("user", "a", {"author": "a\nb"}),
        ("user", "a", {"tool_call_id": ""}),
        ("user", "a", {"tool_calls": ["x"]}),
        ("user", "a", {"tool_calls": [{"id": "x"}]}),
    ],
)
def test_a_turn_that_cannot_be_kept_exactly_is_refused_and_the_session_goes_on(
    memory: Repository, role: str, content: Any, options: dict[str, Any]
) -> None:
    session = memory.create(id="s")
    session.append("user", "before")
    with pytest.raises(InvalidInput):
        session.append(role, content, **options)
    session.append("user", "after")
    assert session.persist() == 2
    assert [turn.content for turn in memory.load("s").turns] == ["before", "after"]


def test_content_nested_without_end_is_refused(memory: Repository) -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(InvalidInput, match="nested deeper"):
        memory.create().append("user", [{"a": deep}])


EMPTY_BUT_TELLING: list[tuple[str, dict[str, Any]]] = [
    ("assistant", {"tool_calls": [{"id": "c1", "name": "ls", "arguments": {}}]}),
    ("tool", {"tool_call_id": "c1"}),
    ("tool", {}),
    ("toolResult", {}),
    ("user", {"tool_call_id": "c1"}),
    ("assistant", {"usage": {"output_tokens": 0}}),
    ("assistant", {"stop_reason": "refusal"}),
]
"""Turns without a text that tell something all the same: a call, an answer that is empty, what a model was asked."""


@pytest.mark.parametrize(("role", "recorded"), EMPTY_BUT_TELLING)
def test_a_turn_without_a_text_that_tells_something_is_kept(memory: Repository, role: str, recorded: Any) -> None:
    session = memory.create(id="s")
    session.append(role, "", **recorded)
    assert session.persist() == 1
    assert memory.replay("s") == [{"role": role, "content": "", "index": 0, "branch": "main"}]


@pytest.mark.parametrize("role", ["user", "assistant", "system", "observer"])
def test_a_turn_that_says_nothing_is_refused(memory: Repository, role: str) -> None:
    session = memory.create(id="s")
    session.append("user", "Plan a trip")
    wrongs: list[dict[str, Any]] = [{}, {"author": "bob"}, {"meta": {"why": "?"}}, {"model": "m-1"}, {"usage": {}}]
    for recorded in wrongs:
        with pytest.raises(InvalidInput, match=r"session 's'.*empty"):
            session.append(role, "", **recorded)
    assert (len(session), session.pending, session.persist()) == (1, 1, 1)
    session.append("user", " ")
    assert session.persist() == 1


NOTHING: list[list[Any]] = [
    *(
        [],
        [""],
        ["", ""],
        [{}],
        [{"type": "text", "text": ""}],
        [{"type": "text"}],
        [{}, "", {"type": "text", "text": ""}],
    ),
    [{"type": "text", "text": "", "annotations": [], "cache_control": {"type": "ephemeral"}}],
    [{"type": "text", "text": None}],
]
"""Parts that hold nothing."""


@pytest.mark.parametrize("content", NOTHING, ids=str)
def test_parts_with_nothing_in_them_are_refused_unless_something_else_tells(memory: Repository, content: Any) -> None:
    session = memory.create(id="s")
    for role in ("user", "assistant"):
        with pytest.raises(InvalidInput, match=r"session 's'.*empty"):
            session.append(role, content, meta={"why": "?"}, model="m-1")
    assert (len(session), session.pending) == (0, 0)
    for role, recorded in EMPTY_BUT_TELLING:
        session.append(role, content, **recorded)
    assert session.persist() == len(EMPTY_BUT_TELLING)


@pytest.mark.parametrize(
    "content",
    [
        *(["", "x"], [{"type": "image", "source": {"data": "AAAA"}}], [{"type": "thinking", "thinking": "", "n": 0}]),
        [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}],
        [{"type": "tool_result", "tool_use_id": "t1", "content": ""}],
    ],
    ids=str,
)
def test_parts_with_something_in_one_of_them_are_kept(memory: Repository, content: Any) -> None:
    session = memory.create(id="s")
    session.append("assistant", content)
    assert session.persist() == 1
    assert memory.load("s").turns[0].content == content


def test_a_host_that_answers_with_nothing_has_its_exchange_completed_without_a_turn(store: Repository) -> None:
    store.create(id="s").persist()
    ledger = Ledger(store)
    with pytest.raises(InvalidInput, match="is empty"):
        ledger.receive("s", "")
    ledger.receive("s", "hello")
    (done,) = ledger.process("s", lambda running: "")
    assert done.state == "completed"
    assert [turn["content"] for turn in store.replay("s")] == ["hello"]


def test_a_transcript_with_empty_messages_is_imported_as_it_is(memory: Repository, tmp_path: Path) -> None:
    lines = [
        {"type": "session", "version": 3, "id": "p", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"},
        {
            "type": "message",
            "id": "a",
            "parentId": None,
            "timestamp": "2026-01-01T00:00:01.000Z",
            "message": {"role": "user", "content": "", "timestamp": 1767225601000},
        },
    ]
    file = tmp_path / "p.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    report = import_path(memory, file)
    assert (report.turns_added, report.problems) == (1, [])
    assert [turn["content"] for turn in memory.replay(report.sessions_created[0])] == [""]


def test_a_session_whose_store_is_closed_takes_no_turns(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        new, stored = store.create(id="new"), store.create(id="stored")
        stored.append("user", "Plan a trip")
        stored.persist()
        new.discard_pending()
        loaded = store.load("stored")
    for session in (new, stored, loaded):
        before = session.turns
        with pytest.raises(StoreFailed, match=rf"{session.id}.*closed"):
            session.append("user", "too late")
        with pytest.raises(StoreFailed, match="closed"):
            session.set_system("too late")
        assert (session.turns, session.pending) == (before, 0)
    with trails.open(tmp_path / "s") as store:
        assert len(store.load("stored")) == 1


@pytest.mark.filterwarnings("ignore::trails.PendingTurnsWarning")  # where the name is kept and the role refused
@given(name=st.text(), role=st.text(), label=st.text(), content=st.text() | st.integers() | st.lists(st.text()))
def test_any_names_and_contents_are_kept_or_refused_with_a_documented_error(
    name: str, role: str, label: str, content: Any
) -> None:
    with trails.open(":memory:") as store:
        try:
            session = store.create(id=name, label=label)
            session.append(role, content)
            session.persist()
        except TrailsError:
            assert store.info()["sessions"] == 0
        else:
            assert store.load(name).turns == session.turns
            assert store.replay(session.iri)[0]["content"] == content


# --- put into the store by hand


def _fork_chain(store: Repository) -> tuple[str, str, str]:
    root = store.create(id="root")
    for text in "abc":
        root.append("user", text)
    child = root.fork(at=2, id="child")
    child.append("user", "d")
    grandchild = child.fork(id="grandchild")
    grandchild.append("user", "e")
    grandchild.persist()
    child.persist()
    return "root", "child", "grandchild"


def _row(session_id: str, predicate: NamedNode, value: NamedNode | Literal) -> Quad:
    return Quad(NamedNode(iris.session(session_id)), predicate, value, vocab.CATALOG)


def _remove_row(store: Repository, session_id: str) -> None:
    store.store.commit(
        Change(remove=store.store.quads((NamedNode(iris.session(session_id)), None, None, vocab.CATALOG)))
    )


def test_a_missing_parent_is_named_with_what_it_takes_along_and_how_to_mend_it(store: Repository) -> None:
    _fork_chain(store)
    _remove_row(store, "root")
    for session in ("child", "grandchild"):
        with pytest.raises(
            ParentMissing, match="'root', the parent of 'child', is not in the store, so turns 0 to 1"
        ) as error:
            store.load(session)
        assert "restore 'root'" in str(error.value)
    assert "bad-lineage" in {finding.code for finding in store.verify().findings}


def test_a_fork_of_a_fork_of_a_missing_parent_is_refused_and_writes_nothing(store: Repository) -> None:
    _fork_chain(store)
    held = store.load("grandchild")
    _remove_row(store, "root")
    with pytest.raises(ParentMissing):
        store.load("grandchild").fork()
    orphan = held.fork(id="orphan", at=1)
    orphan.append("user", "kept in memory")
    orphan.persist()  # its own parent is there: the row is true, and loading says what is missing
    with pytest.raises(ParentMissing):
        store.load("orphan")


@pytest.mark.parametrize(("gone", "fork"), [("root", "child"), ("child", "grandchild")])
def test_an_ancestor_whose_row_names_no_session_any_more_is_missing(store: Repository, gone: str, fork: str) -> None:
    _fork_chain(store)
    store.store.commit(Change(remove=[_row(gone, vocab.TYPE, vocab.SESSION)]))
    with pytest.raises(ParentMissing, match=f"'{gone}', the parent of '{fork}', is not in the store"):
        store.load("grandchild")


def test_a_root_that_was_given_half_a_parent_is_an_error_for_its_forks_too(store: Repository) -> None:
    _fork_chain(store)
    store.store.commit(Change(add=[_row("root", vocab.FORKED_AT_INDEX, Literal(0))]))
    with pytest.raises(IntegrityError, match="session 'root' has no parent and a fork index"):
        store.load("grandchild")


def test_a_handle_knows_the_rows_of_its_ancestors(store: Repository) -> None:
    _fork_chain(store)
    held = store.load("grandchild").worktree
    assert held.chain == store.reader.lineage("grandchild")
    assert held.depth == 2
    store.delete("root", children="detach")
    assert store.load("child").worktree.chain[1:] == ()


def test_a_cycle_made_by_hand_is_named_at_once(store: Repository) -> None:
    _fork_chain(store)
    store.store.commit(
        Change(
            add=[
                _row("root", vocab.PARENT_SESSION, NamedNode(iris.session("grandchild"))),
                _row("root", vocab.FORKED_AT_INDEX, Literal(0)),
            ]
        )
    )
    with pytest.raises(ForkCycle, match="child -> root -> grandchild -> child"):
        store.load("child")
    with pytest.raises(ForkCycle):
        store.replay("grandchild")
    assert not store.verify().ok


def test_a_session_that_is_its_own_parent_is_a_cycle(store: Repository) -> None:
    store.create(id="s").persist()
    store.store.commit(
        Change(
            add=[
                _row("s", vocab.PARENT_SESSION, NamedNode(iris.session("s"))),
                _row("s", vocab.FORKED_AT_INDEX, Literal(0)),
            ]
        )
    )
    with pytest.raises(ForkCycle, match="s -> s"):
        store.load("s")


def test_two_parents_are_an_error_that_names_both(store: Repository) -> None:
    _fork_chain(store)
    store.create(id="other").persist()
    store.store.commit(Change(add=[_row("child", vocab.PARENT_SESSION, NamedNode(iris.session("other")))]))
    with pytest.raises(IntegrityError, match=r"'child' is wrong: it has 2 values for .*parentSession.*other.*root"):
        store.load("grandchild")
    assert "bad-row" in {finding.code for finding in store.verify().findings}


@pytest.mark.parametrize("predicate", [vocab.FORKED_AT_INDEX, vocab.PARENT_SESSION])
def test_a_parent_without_a_fork_index_or_the_other_way_round_is_an_error(
    store: Repository, predicate: NamedNode
) -> None:
    _fork_chain(store)
    row = store.store.quads((NamedNode(iris.session("child")), predicate, None, vocab.CATALOG))
    store.store.commit(Change(remove=row))
    with pytest.raises(IntegrityError, match="its row was altered"):
        store.load("child")


def _turn_quads(store: Repository, session_id: str, index: int) -> list[Quad]:
    graph = NamedNode(iris.session(session_id))
    [found] = store.store.quads((None, vocab.INDEX, Literal(index), graph))
    return store.store.quads((found.subject, None, None, graph))  # type: ignore[arg-type] # an IRI


@pytest.mark.parametrize(("index", "owner"), [(0, "root"), (1, "root"), (2, "child")])
def test_a_missing_turn_is_a_gap_that_names_index_and_owner_and_no_shorter_transcript_is_given(
    store: Repository, index: int, owner: str
) -> None:
    _fork_chain(store)
    store.store.commit(Change(remove=_turn_quads(store, owner, index)))
    with pytest.raises(IndexGap, match=f"turn {index}, which '{owner}' owns, is missing; restore '{owner}'"):
        store.load("grandchild")
    assert "index-gap" in {finding.code for finding in store.verify().findings}


def _gaps(store: Repository) -> None:
    """Make a session of five turns without that at 2, and a fork at 3 of one of four turns that was given to one of one."""
    for name, turns in (("holed", 5), ("long", 4), ("short", 1)):
        session = store.create(id=name)
        for number in range(turns):
            session.append("user", f"{name} {number}")
        session.persist()
    fork = store.load("long").fork(at=3, id="fork")
    fork.append("user", "fork 3")
    fork.persist()
    node = NamedNode(iris.session("fork"))
    moved = Quad(node, vocab.PARENT_SESSION, NamedNode(iris.session("short")), vocab.CATALOG)
    was = store.store.quads((node, vocab.PARENT_SESSION, None, vocab.CATALOG))
    store.store.commit(Change(add=[moved], remove=[*was, *_turn_quads(store, "holed", 2)]))


def test_a_gap_below_the_last_turns_is_an_error_as_soon_as_turns_there_are_asked_for(store: Repository) -> None:
    _gaps(store)
    ends = store.load("holed", last=2)
    assert [turn.index for turn in ends.tail(2)] == [3, 4]
    for ask in (lambda: list(ends.turns), lambda: ends.turns[2], lambda: ends.turns[0], lambda: ends.tail(4)):
        with pytest.raises(IndexGap, match="turn 2, which 'holed' owns, is missing"):
            ask()


@pytest.mark.parametrize("end", [1, 2, 3])
def test_the_beginning_of_a_session_that_lost_its_beginning_is_an_error(store: Repository, end: int) -> None:
    _fork_chain(store)
    node = NamedNode(iris.session("child"))
    rows = [
        quad
        for each in (vocab.PARENT_SESSION, vocab.FORKED_AT_INDEX, vocab.FORK_HEAD)
        for quad in store.store.quads((node, each, None, vocab.CATALOG))
    ]
    store.store.commit(Change(remove=rows))
    with pytest.raises(IndexGap, match="turn 0, which 'child' owns, is missing"):
        store.replay("child", up_to_index=end)


def test_a_transcript_is_replayed_up_to_an_index_beyond_its_end(store: Repository) -> None:
    _fork_chain(store)
    assert [turn["content"] for turn in store.replay("child", up_to_index=9)] == ["a", "b", "d"]


def test_branches_that_share_turns_which_are_not_there_have_no_diff(store: Repository) -> None:
    _gaps(store)
    for pair in (("short", "fork"), ("fork", "short")):
        with pytest.raises(IndexGap, match=r"session 'fork' cannot be read: turn [12], which 'short' owns"):
            store.diff(*pair)


def test_two_turns_at_one_index_are_an_error_that_names_both(store: Repository) -> None:
    _fork_chain(store)
    graph = NamedNode(iris.session("root"))
    twin = NamedNode(iris.turn(graph.value, 1, "f" * 64))
    other_digest = {vocab.DIGEST: Literal("f" * 64)}
    store.store.commit(
        Change(
            add=[
                Quad(twin, q.predicate, other_digest.get(q.predicate, q.object), graph)
                for q in _turn_quads(store, "root", 1)
            ]
        )
    )
    with pytest.raises(IndexGap, match="two turns at index 1") as error:
        store.load("root")
    assert twin.value in str(error.value)
    with pytest.raises(IndexGap):
        store.load("grandchild")
    assert "duplicate-index" in {finding.code for finding in store.verify().findings}


def test_an_altered_parent_is_noticed_when_its_fork_is_loaded(store: Repository) -> None:
    _fork_chain(store)
    [digest] = [q for q in _turn_quads(store, "root", 1) if q.predicate == vocab.DIGEST]
    other = Quad(digest.subject, digest.predicate, Literal("0" * 64), digest.graph_name)
    store.store.commit(Change(add=[other], remove=[digest]))
    with pytest.raises(IntegrityError, match="was forked after turn 1"):
        store.load("child")


@pytest.mark.parametrize("predicate", [vocab.INDEX, vocab.TIME, vocab.VALUE, vocab.ATTRIBUTED_TO, vocab.ROLE])
def test_a_value_of_another_kind_put_in_by_hand_is_an_error_and_never_a_crash(
    store: Repository, predicate: NamedNode
) -> None:
    _fork_chain(store)
    [old] = [q for q in _turn_quads(store, "root", 1) if q.predicate == predicate]
    for strange in (NamedNode("https://example.org/x"), Literal("strange"), Literal("2026-01-01T00:00:00")):
        new = Quad(old.subject, predicate, strange, old.graph_name)
        store.store.commit(Change(add=[new], remove=[old]))
        assert not store.verify().ok
        try:
            contents = [turn.content for turn in store.load("root").turns]
        except TrailsError:
            pass
        else:
            assert len(contents) == 3
        store.store.commit(Change(add=[old], remove=[new]))
    assert store.verify().ok


def test_records_from_before_forks_existed_load_as_roots_on_main(store: Repository) -> None:
    graph = NamedNode(iris.session("old"))
    turns = [NamedNode(f"{graph.value}/turn-{n}") for n in range(3)]
    add = [_row("old", vocab.TYPE, vocab.SESSION)]
    for number, turn in enumerate(turns):
        for predicate, value in (
            (vocab.TYPE, vocab.TURN),
            (vocab.INDEX, Literal(number)),
            (vocab.ROLE, Literal("user")),
            (vocab.VALUE, Literal(f"text {number}")),
            (vocab.ATTRIBUTED_TO, NamedNode(iris.principal("alice"))),
        ):
            add.append(Quad(turn, predicate, value, graph))
    store.store.commit(Change(add=add))
    old = store.load("old")
    assert (old.parent_session_id, old.forked_at_index, old.branch) == (None, None, "main")
    assert [(turn.content, turn.branch) for turn in old.turns] == [(f"text {n}", "main") for n in range(3)]
    assert store.replay("old")[2] == {"role": "user", "content": "text 2", "index": 2, "branch": "main"}
    assert [record.id for record in store.list()] == ["old"]
    old.append("user", "goes on")
    old.persist()
    fork = store.load("old").fork(at=2, id="young")
    fork.append("user", "branches off")
    fork.persist()
    assert [turn.content for turn in store.load("young").turns] == ["text 0", "text 1", "branches off"]
    assert [turn.content for turn in store.load("old").turns][3] == "goes on"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }",
        "SELECT * { service silent <http://127.0.0.1:9/> {} }",
        "# c\nSELECT * {{ SERVICE ?x {} }}",
        "LOAD <http://127.0.0.1:9/>",
        'SELECT * { # \\u000A"""\nSERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }\n# """',
        "SELECT * { " + "{" * 201 + "}" * 201 + " }",
        "SELECT * { " + "OPTIONAL { ?a ?b ?c } " * 1001 + "}",
        "SELECT * { ?s ?p '" + "x" * 65_536 + "' }",
        "SELECT * {",
        "INSERT DATA { <urn:a> <urn:b> <urn:c> }",
        "DROP ALL",
        "no-such-query",
        "",
    ],
    ids=lambda text: text[:30],
)
def test_a_query_that_may_not_run_is_refused_and_changes_nothing(memory: Repository, text: str) -> None:
    memory.create(id="s").persist()
    before = len(memory.store)
    with pytest.raises(InvalidInput):
        memory.query(text)
    assert len(memory.store) == before


@pytest.mark.parametrize(
    "text",
    [
        'SELECT ("SERVICE <http://x>" AS ?a) {}',
        "SELECT ('''LOAD 'it' ''' AS ?a) {}",
        "SELECT ?service ?load { ?service ?load 1 }",
        "SELECT * { ?s <http://example.org/SERVICE> ?o } # SERVICE <http://x>",
        "PREFIX load: <http://example.org/> SELECT * { ?s load:SERVICE ?o }",
        "SELECT * { ?s a trails:Session }",
    ],
)
def test_the_words_service_and_load_are_fine_where_they_reach_nobody(memory: Repository, text: str) -> None:
    assert memory.query(text) is not None


def test_parameters_of_catalogue_queries_are_checked(memory: Repository) -> None:
    with pytest.raises(InvalidInput, match="needs the parameter 'session'"):
        memory.query("lineage")
    with pytest.raises(InvalidInput, match="has no parameter 'nobody'"):
        memory.query("lineage", session="a", nobody="b")
    with pytest.raises(InvalidInput, match="empty list"):
        memory.query("records", sessions=[])
    with pytest.raises(InvalidInput):
        memory.query("lineage", session="a> } DROP ALL #")


@pytest.mark.parametrize("bad", [5, 1.5, None, b"store", ["store"], object()])
def test_what_is_no_path_is_no_location_of_a_store(bad: Any) -> None:
    with pytest.raises(InvalidInput, match="location"):
        trails.open(bad)


@pytest.mark.parametrize("bad", [{"tool_calls": 5}, {"tool_calls": [5]}, {"tool_calls": "ls"}, {"compaction": 5}])
def test_what_is_no_tool_calls_and_no_compaction_is_refused_and_no_turn_is_added(
    memory: Repository, bad: dict[str, Any]
) -> None:
    session = memory.create()
    with pytest.raises(InvalidInput, match=r"tool call|compaction"):
        session.append("user", "x", **bad)
    assert list(session.turns) == []


@pytest.mark.parametrize("bad", [5, None, "good"])
def test_bisect_needs_a_function(memory: Repository, bad: Any) -> None:
    session = memory.create()
    session.append("user", "x")
    session.persist()
    with pytest.raises(InvalidInput, match="function"):
        session.bisect(bad)
