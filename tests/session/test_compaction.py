"""Compaction: one more turn at the end, made by the host's summariser first; what it keeps, records and never changes."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from trails import Compaction, ContextOverflow, HeadConflict, InvalidInput, Repository, Session
from trails.aio import AsyncSession
from trails.aio.threads import Workers
from trails.context import CompactionPolicy, Context, Summary, SummaryRequest, needs_compaction
from trails.errors import NothingToSummarise, TrailsError
from trails.history import turn_builder
from trails.integrity import digests
from trails.model.values import Facts
from trails.rdf import vocab

pytestmark = pytest.mark.any_store

ONE = len


def conversation(store: Repository, count: int = 6, **fields: Any) -> Session:
    """A stored session of turns that take 10 tokens each by `ONE`: 4 for the message, and 6 characters."""
    session = store.create(id="s", principal="alice", agent="planner", **fields)
    for index in range(count):
        session.append("assistant" if index % 2 else "user", f"turn {index}")
    session.persist()
    return session


class Summariser:
    """Notes what it is asked, and answers with a fixed text."""

    def __init__(self, text: str = "so far", does: Callable[[], object] = lambda: None) -> None:
        self.asked: list[SummaryRequest] = []
        self._text = text
        self._does = does

    def __call__(self, asked: SummaryRequest) -> str:
        self.asked.append(asked)
        self._does()
        return self._text


def ticking(*moments: float) -> Callable[[], float]:
    clock: Iterator[float] = iter(moments)
    return lambda: next(clock)


def quads(store: Repository) -> set[Any]:
    return set(store.store.quads((None, None, None, None)))


# --- what is summarised, kept and recorded


def test_a_compaction_is_a_turn_at_the_end_that_says_how_it_was_made(store: Repository) -> None:
    session = conversation(store)
    summarise = Summariser("A trip was planned.")
    turn = session.compact(
        summarise,
        keep_turns=2,
        trigger="context_limit",
        request="Say it briefly.",
        model="m-1",
        max_summary_tokens=200,
        counter=ONE,
        clock=ticking(10.0, 11.5),
    )
    assert (turn.index, turn.role, turn.content, turn.author, turn.model) == (
        6, "summary", "A trip was planned.", "planner", "m-1",
    )  # fmt: skip
    heading = len("Summary of the conversation before this point:\n\n")
    expected = Compaction(
        summarised_through=3,
        first_kept=4,
        tokens_before=60,
        tokens_after=4 + heading + len("A trip was planned.") + 20,
        trigger="overflow",
        summarised_from=0,
        summarised_turns=4,
        request="Say it briefly.",
        max_summary_tokens=200,
        max_summary_rule="fixed",
        duration_ms=1500,
    )
    assert turn.compaction == expected
    stored = store.load("s").turns[-1]
    assert stored == turn
    assert stored.to_dict()["compaction"]["request"] == "Say it briefly."
    (asked,) = summarise.asked
    assert [each.index for each in asked.turns] == [0, 1, 2, 3]
    assert (asked.request, asked.previous, asked.max_tokens, asked.trigger) == (
        "Say it briefly.",
        None,
        200,
        "overflow",
    )
    assert asked.text == (
        "Say it briefly.\n\nUse at most 200 tokens.\n\nuser: turn 0\n\nassistant: turn 1\n\nuser: turn 2\n\nassistant: turn 3"
    )
    assert store.verify().ok


def test_the_activity_stands_in_the_graph_with_who_and_when(store: Repository) -> None:
    session = conversation(store)
    first = session.compact(Summariser(), keep_turns=3, request="Please.")
    second = session.compact(Summariser("all"), keep_turns=1)
    asked: Any = store.query(
        """SELECT ?summary ?ended ?who ?request ?used ?ms WHERE { GRAPH ?g {
             ?summary a trails:SummaryTurn ; prov:wasGeneratedBy ?c .
             ?c a trails:Compaction ; prov:endedAtTime ?ended ; prov:wasAssociatedWith ?who ;
                trails:request ?request ; trails:durationMs ?ms .
             OPTIONAL { ?c prov:used ?used } } } ORDER BY ?summary""",
        union=False,
    )
    rows = asked.to_dicts()
    assert [(row["summary"], row["who"], row["used"]) for row in rows] == [
        (first.iri, "urn:trails:agent:planner", None),
        (second.iri, "urn:trails:agent:planner", first.iri),
    ]
    assert [row["ended"] for row in rows] == [first.time, second.time]
    assert rows[0]["request"] == "Please."
    assert all(row["ms"] >= 0 for row in rows)


def test_a_later_summary_is_made_from_the_one_before_and_the_turns_since(store: Repository) -> None:
    session = conversation(store)
    first = session.compact(Summariser("S1"), keep_turns=2)
    session.append("user", "turn 7")
    session.persist()
    summarise = Summariser("S2")
    second = session.compact(summarise, keep_turns=1)
    (asked,) = summarise.asked
    assert asked.previous == first
    assert [turn.index for turn in asked.turns] == [4, 5]
    assert "Summary of what came before:\nS1\n\nuser: turn 4" in asked.text
    assert second.compaction is not None
    assert (second.compaction.summarised_from, second.compaction.summarised_through) == (4, 5)
    assert (second.compaction.first_kept, second.compaction.summarised_turns) == (7, 2)
    assert second.compaction.previous_summary == first.iri
    assert [part.text for part in session.context().parts] == ["S2", "turn 7"]
    assert store.verify().ok


def test_what_a_summary_was_made_of_follows_from_the_graph(store: Repository) -> None:
    session = conversation(store)
    first = session.compact(Summariser("S1"), keep_turns=2)
    fork = session.fork(id="f")
    second = fork.compact(Summariser("S2"), keep_turns=1)
    derived: Any = store.query("compaction-sources", session="f")
    found = {
        (triple.subject.value, triple.predicate.value.rpartition("#")[2], triple.object.value) for triple in derived
    }
    turns = store.load("f").turns
    covered = {first.iri: [0, 1, 2, 3], second.iri: [4]}
    expected = {
        (summary, "wasDerivedFrom", turns[index].iri) for summary, indices in covered.items() for index in indices
    }
    expected |= {(s + "/compaction", "used", turn) for s, _, turn in expected}
    expected |= {(second.iri, "wasDerivedFrom", first.iri), (second.iri + "/compaction", "used", first.iri)}
    assert found == expected


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"keep_tokens": 29}, [4, 5]),
        ({"keep_tokens": 30}, [3, 4, 5]),
        ({"keep_tokens": 1}, [5]),  # the newest turn always stays
        ({"keep_turns": 3}, [3, 4, 5]),
        ({"keep_turns": 0}, []),
        ({"keep": lambda turns: len(turns) - 1}, [1, 2, 3, 4, 5]),
    ],
)
def test_what_is_kept_is_asked_for_by_tokens_turns_or_a_function(
    store: Repository, options: dict[str, Any], kept: list[int]
) -> None:
    session = conversation(store)
    turn = session.compact(Summariser(), counter=ONE, **options)
    assert turn.compaction is not None
    assert turn.compaction.first_kept == (kept[0] if kept else None)
    assert turn.compaction.summarised_through == 5 - len(kept)
    assert [each.index for each in session.context().turns] == kept


def test_thirty_thousand_tokens_are_kept_unless_something_else_is_asked_for(memory: Repository) -> None:
    session = memory.create()
    for index in range(8):
        session.append("user", f"{index}" + "x" * 9_995)  # 10,000 tokens each with the message's 4
    turn = session.compact(Summariser(), counter=ONE)
    assert turn.compaction is not None
    assert turn.compaction.first_kept == 5


def test_a_summarys_length_is_fixed_or_computed_and_recorded(store: Repository) -> None:
    session = conversation(store, 12)
    limits: list[Any] = [None, 300, "dynamic", lambda tokens: tokens // 2]
    found = []
    for limit in limits:
        summarise = Summariser()
        turn = session.compact(summarise, keep_turns=0, max_summary_tokens=limit, counter=ONE)
        assert turn.compaction is not None
        assert summarise.asked[0].max_tokens == turn.compaction.max_summary_tokens
        found.append((turn.compaction.max_summary_tokens, turn.compaction.max_summary_rule))
        session.append("user", "turn n")
    before = 4 + len("Summary of the conversation before this point:\n\nso far")
    assert found == [(None, None), (300, "fixed"), (256, "computed"), ((before + 10) // 2, "computed")]
    session.discard_pending()


def test_a_summariser_may_name_its_model_and_what_that_used(store: Repository) -> None:
    session = conversation(store)
    made = Summary("short", model="m-2", usage={"input_tokens": 50, "output_tokens": 3}, stop_reason="stop")
    turn = session.compact(lambda _: made, keep_turns=1, model="another")
    assert (turn.content, turn.model, turn.usage) == ("short", "m-2", {"input_tokens": 50, "output_tokens": 3})


# --- calls and their answers


def with_calls(store: Repository) -> Session:
    session = store.create(id="s")
    session.append("user", "go")
    for number in range(3):
        session.append("assistant", "", tool_calls=[{"id": f"c{number}", "name": "ls", "arguments": {}}])
        session.append("tool", "a.txt", tool_call_id=f"c{number}")
    session.append("assistant", "so")
    session.persist()
    return session


def test_a_call_is_never_parted_from_its_answer_at_the_cut(memory: Repository) -> None:
    """0 user, then 1+2, 3+4 and 5+6 are calls with their answers, 7 the assistant: keeping 2 means keeping 5 to 7."""
    for keep, first in ((1, 7), (2, 5), (3, 5), (4, 3), (5, 3), (6, 1), (7, 1)):
        session = with_calls(memory).fork(id=f"f{keep}") if keep == 1 else memory.load("s").fork(id=f"f{keep}")
        turn = session.compact(Summariser(), keep_turns=keep)
        assert turn.compaction is not None
        assert turn.compaction.first_kept == first
        assert not session.context().repair.changed


def test_a_call_that_is_answered_far_later_is_summarised_with_its_answer_or_kept_with_it(memory: Repository) -> None:
    session = memory.create()
    session.append("user", "start")
    session.append("assistant", "I look.", tool_calls=[{"id": "c1", "name": "look", "arguments": {}}])
    for role, text in (("user", "meanwhile"), ("assistant", "yes"), ("user", "and"), ("assistant", "well")):
        session.append(role, text)
    session.append("tool", "found", tool_call_id="c1")
    session.append("assistant", "It is found.")
    session.persist()
    for keep, through in ((1, 6), (2, 0), (3, 0), (6, 0), (7, 0)):
        fork = session.fork()
        turn = fork.compact(lambda asked: "so far", keep_turns=keep)
        assert turn.compaction is not None
        assert turn.compaction.summarised_through == through


@given(
    steps=st.lists(st.tuples(st.sampled_from(["user", "ask", "answer", "say"]), st.sampled_from("abc")), max_size=14),
    keep=st.integers(0, 14),
)
def test_no_answer_is_kept_whose_call_is_summarised(steps: list[tuple[str, str]], keep: int) -> None:
    with trails.open(":memory:") as store:
        session = store.create()
        for kind, call_id in steps:
            calls = [{"id": call_id, "name": "look", "arguments": {}}] if kind == "ask" else []
            role = {"ask": "assistant", "say": "assistant", "answer": "tool"}.get(kind, "user")
            session.append(role, kind, tool_calls=calls, tool_call_id=call_id if kind == "answer" else None)
        session.persist()
        try:
            turn = session.compact(lambda asked: "so far", keep_turns=keep)
        except NothingToSummarise:
            return
        assert turn.compaction is not None
        through = turn.compaction.summarised_through or 0
        asked: dict[str, int] = {}
        for position, (kind, call_id) in enumerate(steps):
            if kind == "ask":
                asked[call_id] = position
            elif kind == "answer" and call_id in asked:
                assert (asked[call_id] <= through) == (position <= through)


def test_a_call_that_waits_for_its_answer_is_kept(memory: Repository) -> None:
    session = memory.create()
    session.append("user", "go")
    session.append("assistant", "", tool_calls=[{"id": "c", "name": "ls", "arguments": {}}])
    session.append("user", "how long?")
    turn = session.compact(Summariser(), keep_turns=0)
    assert turn.compaction is not None
    assert turn.compaction.first_kept == 1
    session.append("tool", "a.txt", tool_call_id="c")
    assert not session.context().repair.added
    session.discard_pending()


kinds = st.lists(st.sampled_from(["user", "assistant", "call", "result", "compact"]), max_size=14)


@given(kinds, st.integers(0, 6))
def test_a_compaction_adds_one_entry_to_the_replay_and_changes_none(steps: list[str], keep: int) -> None:
    with trails.open(":memory:") as store:
        session = store.create(id="s")
        for number, step in enumerate(steps):
            if step == "call":
                session.append("assistant", "", tool_calls=[{"id": f"c{number % 3}", "name": "ls", "arguments": {}}])
            elif step == "result":
                session.append("tool", "x", tool_call_id=f"c{number % 3}")
            elif step != "compact":
                session.append(step, f"turn {number}")
            else:
                session.persist()
                before, heads = store.replay("s"), [turn.digest for turn in session.turns]
                stored = quads(store)
                try:
                    turn = session.compact(Summariser(), keep_turns=keep)
                except NothingToSummarise:
                    assert quads(store) == stored
                    continue
                after = store.replay("s")
                assert after[:-1] == before
                assert after[-1] == {"role": "summary", "content": "so far", "index": len(before), "branch": "main"}
                assert [each.digest for each in store.load("s").turns] == [*heads, turn.digest]
                assert stored <= quads(store)
                cut = turn.compaction.summarised_through if turn.compaction else None
                assert cut is not None
                _no_answer_lost_its_call(session, cut)
        session.persist()
        assert store.verify().ok


def _no_answer_lost_its_call(session: Session, cut: int) -> None:
    """Each answer kept whose call comes right before it (as the latest with its id) has that call kept too."""
    turns = session.turns
    for turn in turns[cut + 1 :]:
        for result in turn.tool_results:
            people = [each.index for each in turns[: turn.index] if each.role == "user"]
            since = people[-1] if people else 0
            calls = [
                each.index for each in turns[since : turn.index] if result.call_id in {c.id for c in each.tool_calls}
            ]
            answers = (
                [
                    each.index
                    for each in turns[calls[-1] + 1 : turn.index]
                    if result.call_id in {r.call_id for r in each.tool_results}
                ]
                if calls
                else []
            )
            assert not calls or answers or calls[-1] > cut


# --- the order of things


def test_nothing_is_written_or_changed_where_the_summariser_fails(store: Repository) -> None:
    session = conversation(store)
    session.append("user", "pending")
    before, turns = quads(store), session.turns

    def fail(_: SummaryRequest) -> str:
        raise OSError("no model")

    wrong: list[Any] = [fail, lambda _: "", lambda _: "  \n", lambda _: None, lambda _: "\ud800"]
    for summarise in wrong:
        with pytest.raises((OSError, InvalidInput)):
            session.compact(summarise, keep_turns=1)
        assert (quads(store), session.turns, session.pending) == (before, turns, 1)
    session.discard_pending()


@pytest.mark.parametrize(
    "options", [{"keep_turns": 6}, {"keep_turns": 7}, {"keep_tokens": 60, "counter": ONE}, {"keep": len}, {}]
)
def test_nothing_is_written_where_there_is_nothing_to_summarise(store: Repository, options: dict[str, Any]) -> None:
    session = conversation(store)
    before, summarise = quads(store), Summariser()
    with pytest.raises(NothingToSummarise, match="nothing to summarise"):
        session.compact(summarise, **options)
    assert (quads(store), summarise.asked) == (before, [])


@pytest.mark.parametrize(
    "options",
    [
        {"keep_turns": 1, "keep_tokens": 1},
        {"keep_turns": -1},
        {"keep": lambda turns: "all"},
        {"keep_turns": 1, "trigger": "boredom"},
        {"keep_turns": 1, "max_summary_tokens": 0},
        {"keep_turns": 1, "request": "\ud800"},
    ],
)
def test_options_that_make_no_sense_are_refused_before_the_summariser_is_asked(
    store: Repository, options: dict[str, Any]
) -> None:
    session, summarise = conversation(store), Summariser()
    with pytest.raises(InvalidInput):
        session.compact(summarise, **options)
    assert summarise.asked == []


def test_an_empty_session_has_nothing_to_summarise(memory: Repository) -> None:
    with pytest.raises(NothingToSummarise, match="no turns"):
        memory.create().compact(Summariser(), keep_turns=0)


def test_turns_appended_meanwhile_by_the_same_handle_are_kept(store: Repository) -> None:
    session = conversation(store)
    session.append("user", "pending")
    turn = session.compact(Summariser(does=lambda: session.append("user", "meanwhile")), keep_turns=1)
    assert turn.index == 8
    assert turn.compaction is not None
    assert (turn.compaction.summarised_through, turn.compaction.first_kept) == (5, 6)
    assert [part.text for part in store.context("s").parts] == ["so far", "pending", "meanwhile"]
    assert store.verify().ok


def test_turns_appended_meanwhile_by_another_writer_are_kept(store: Repository) -> None:
    session = conversation(store)

    def other() -> None:
        handle = store.load("s")
        handle.append("user", "from elsewhere")
        handle.persist()

    turn = session.compact(Summariser(does=other), keep_turns=2, counter=ONE)
    assert turn.index == 7
    assert turn.compaction is not None
    assert (turn.compaction.summarised_through, turn.compaction.first_kept) == (3, 4)
    assert turn.compaction.tokens_before == 60 + 4 + len("from elsewhere")
    assert [part.text for part in session.context().parts] == ["so far", "turn 4", "turn 5", "from elsewhere"]
    assert session.turns == store.load("s").turns
    assert store.verify().ok


def test_a_handle_with_pending_turns_of_its_own_gets_the_conflict_and_loses_nothing(store: Repository) -> None:
    session = conversation(store)
    session.append("user", "mine")

    def other() -> None:
        handle = store.load("s")
        handle.append("user", "theirs")
        handle.persist()

    with pytest.raises(HeadConflict):
        session.compact(Summariser(does=other), keep_turns=1)
    kept = session.keep_as_fork(id="k")
    assert [turn.content for turn in kept.turns][-2:] == ["mine", "so far"]
    assert [part.text for part in kept.context().parts] == ["so far", "mine"]


def test_a_session_with_a_window_is_compacted_by_its_counter_and_need_not_be_read_whole(store: Repository) -> None:
    conversation(store, 200).compact(Summariser(), keep_turns=20)
    loaded = store.load("s", max_tokens=100, counter=ONE)
    turn = loaded.compact(Summariser("next"), keep_turns=5)
    assert turn.compaction is not None
    assert turn.compaction.summarised_from == 180
    assert loaded.worktree.turns.stored.made < 150
    assert store.verify().ok


# --- async


# --- what a host may give and do that makes no sense


@pytest.mark.parametrize("answer", ["", " \n", None, 5, ["a"], b"text"])
def test_what_is_no_summary_is_refused_and_nothing_stays_behind(store: Repository, answer: Any) -> None:
    session = store.create(id="s")
    for text in ("one", "two", "three"):
        session.append("user", text)
    session.persist()
    with pytest.raises(InvalidInput, match="summar"):
        session.compact(lambda asked: answer, keep_turns=1)
    assert (session.pending, len(session), len(store.replay("s"))) == (0, 3, 3)


@pytest.mark.parametrize(
    ("counter", "length", "kept"), [(len, 10, True), (len, 11, False), (None, 60, True), (None, 61, False)]
)
def test_a_summary_over_its_greatest_length_is_refused(
    store: Repository, counter: Callable[[str], int] | None, length: int, kept: bool
) -> None:
    """Counted exactly where the host counts; an estimate (a token for 4 letters) may be half as many again off."""
    session = store.create(id="s")
    for text in ("one", "two", "three"):
        session.append("user", text)
    session.persist()
    if kept:
        session.compact(lambda asked: "x" * length, keep_turns=1, max_summary_tokens=10, counter=counter)
    else:
        with pytest.raises(InvalidInput, match="at most 10 were asked for; nothing was written"):
            session.compact(lambda asked: "x" * length, keep_turns=1, max_summary_tokens=10, counter=counter)
    assert (session.pending, len(store.replay("s"))) == (0, 3 + kept)
    assert store.verify().ok


def test_turns_that_are_taken_back_while_they_are_summarised_end_the_compaction(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "one")
    session.persist()
    session.append("user", "never stored")

    def summarise(asked: SummaryRequest) -> str:
        session.discard_pending()
        return "one, and what was never stored"

    with pytest.raises(InvalidInput, match="taken back meanwhile; nothing was written"):
        session.compact(summarise, keep_turns=0)
    assert (session.pending, len(session), len(store.replay("s"))) == (0, 1, 1)


def test_a_session_that_is_deleted_while_it_is_summarised_holds_no_summary(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "one")
    session.append("user", "two")
    session.persist()

    def summarise(asked: SummaryRequest) -> str:
        store.delete("s")
        return "one"

    with pytest.raises(trails.SessionNotFound):
        session.compact(summarise, keep_turns=1)
    assert (session.pending, len(session)) == (0, 2)


def test_a_compaction_within_a_compaction_leaves_the_outer_summary_as_the_latest(store: Repository) -> None:
    session = store.create(id="s")
    for text in ("one", "two", "three"):
        session.append("user", text)
    session.persist()

    def summarise(asked: SummaryRequest) -> str:
        session.compact(lambda asked: "inner", keep_turns=1)
        return "outer"

    session.compact(summarise, keep_turns=2)
    assert [part.text for part in store.context("s").parts] == ["outer", "two", "three"]
    assert [turn["role"] for turn in store.replay("s")] == ["user", "user", "user", "summary", "summary"]
    assert store.verify().ok


def test_a_worker_is_compacted_in_memory_like_its_turns(store: Repository) -> None:
    worker = trails.Tree(store).main("planner", "chat").spawn("worker", "Count the words")
    for text in ("one", "two", "three"):
        worker.append("user", text)
    worker.session.compact(lambda asked: "one, two", keep_turns=1)
    assert [part.kind for part in worker.context().parts] == ["brief", "summary", "turn"]
    assert store.replay(worker.id) == []


def test_a_fork_is_compacted_over_what_it_inherits_and_its_parent_is_not(store: Repository) -> None:
    parent = store.create(id="parent")
    for text in ("one", "two", "three", "four"):
        parent.append("user", text)
    parent.persist()
    fork = parent.fork(at=3, id="fork")
    fork.append("user", "own")
    turn = fork.compact(lambda asked: " ".join(each.text for each in asked.turns), keep_turns=3)
    assert turn.compaction is not None
    assert (turn.text, turn.index, turn.compaction.summarised_through, turn.compaction.first_kept) == ("one", 4, 0, 1)
    for context in (fork.context(), store.context("fork")):
        assert [part.text for part in context.parts] == ["one", "two", "three", "own"]
    assert store.context("parent").summary is None
    lower = fork.fork(at=2, id="lower")
    lower.persist()
    assert [part.text for part in store.context("lower").parts] == ["one", "two"]
    assert [part.text for part in store.load("fork").detach().context().parts] == ["one", "two", "three", "own"]
    assert store.verify().ok


def test_another_thread_appends_to_the_same_handle_while_it_is_compacted(store: Repository) -> None:
    session = store.create(id="s")
    for number in range(300):
        session.append("user", f"turn {number}")
    session.persist()
    stop, appended, refused = threading.Event(), list[str](), list[str]()

    def append() -> None:
        while not stop.is_set():
            text = f"meanwhile {len(appended)}"
            try:
                session.append("user", text)
            except TrailsError as error:  # the handle was in use: told, and nothing done
                refused.append(str(error))
            else:
                appended.append(text)
            time.sleep(0.0005)

    thread = threading.Thread(target=append)
    thread.start()
    try:
        for number in range(8):
            session.compact(Summariser(f"summary {number}"), keep_turns=5)
            since = len(appended)
            while len(appended) < since + 6:  # else nothing stands between the summary and what is kept
                time.sleep(0.001)
    finally:
        stop.set()
        thread.join()
    session.persist()
    found = store.load("s").turns
    assert [turn.content for turn in found if turn.content.startswith("meanwhile")] == appended
    assert sum(turn.role == "summary" for turn in found) == 8
    assert all("used by another thread" in message for message in refused)
    assert store.verify().ok


def test_an_async_summariser_is_awaited_and_turns_appended_meanwhile_are_kept(store: Repository) -> None:
    session = conversation(store)

    async def summarise(asked: SummaryRequest) -> str:
        await asyncio.sleep(0)
        session.append("user", "meanwhile")
        return f"{len(asked.turns)} turns"

    turn = asyncio.run(AsyncSession(session, Workers()).compact(summarise, keep_turns=1))
    assert (turn.index, turn.content) == (7, "5 turns")
    assert asyncio.run(AsyncSession(session, Workers()).compact(Summariser("plain"), keep_turns=1)).content == "plain"


def test_a_coroutine_where_none_can_be_awaited_is_refused(store: Repository) -> None:
    session = conversation(store)

    async def summarise(_: SummaryRequest) -> str:
        return "never"

    with pytest.raises(InvalidInput, match=r"trails\.aio"):
        session.compact(summarise, keep_turns=1)
    assert len(session) == 6


# --- when


@pytest.mark.parametrize(("tokens", "needed"), [(183_615, False), (183_616, False), (183_617, True)])
def test_a_context_over_the_window_less_the_reserve_needs_compaction(tokens: int, needed: bool) -> None:
    assert needs_compaction(tokens, 200_000) is needed


def test_a_window_that_the_reserve_fills_is_refused() -> None:
    with pytest.raises(InvalidInput):
        needs_compaction(1, 16_384)
    with pytest.raises(InvalidInput):
        CompactionPolicy(window=10_000)
    with pytest.raises(InvalidInput):
        CompactionPolicy(every=0)


class Model:
    """Answers, but overflows over a number of tokens; notes the contexts it was called with."""

    def __init__(self, limit: int) -> None:
        self.contexts: list[Context] = []
        self._limit = limit

    def __call__(self, context: Context) -> str:
        self.contexts.append(context)
        if context.tokens > self._limit:
            raise ContextOverflow("too long")
        return f"answer to {context.parts[-1].text}"


def test_on_overflow_the_session_is_compacted_and_the_same_message_tried_once_more(store: Repository) -> None:
    session, model, summarise = conversation(store, 10), Model(80), Summariser("short")
    answer = session.run_with_compaction(model, summarise, query="And now?", keep_turns=1, counter=ONE)
    assert answer == "answer to And now?"
    assert [context.parts[-1].text for context in model.contexts] == ["And now?", "And now?"]
    assert summarise.asked[0].trigger == "overflow"
    assert [turn.role for turn in session.turns[10:]] == ["summary"]


def test_a_second_overflow_fails_visibly(store: Repository) -> None:
    session, model = conversation(store, 10), Model(5)
    with pytest.raises(ContextOverflow, match=r"session 's' .* also after it was compacted"):
        session.run_with_compaction(model, Summariser("short"), keep_turns=1, counter=ONE)
    assert len(model.contexts) == 2
    assert len(session) == 11


def test_an_overflow_with_nothing_to_summarise_fails_visibly(store: Repository) -> None:
    session, model, summarise = conversation(store, 3), Model(5), Summariser()
    with pytest.raises(ContextOverflow, match="nothing left to summarise"):
        session.run_with_compaction(model, summarise)
    assert (len(model.contexts), summarise.asked, len(session)) == (1, [], 3)


def test_other_errors_of_the_model_come_out_as_they_are(store: Repository) -> None:
    session, summarise = conversation(store), Summariser()

    def call(_: Context) -> str:
        raise KeyError("gone")

    with pytest.raises(KeyError):
        session.run_with_compaction(call, summarise, keep_turns=1)
    assert summarise.asked == []


def test_a_hosts_own_error_is_told_by_its_type_or_by_a_function(store: Repository) -> None:
    session = conversation(store, 12)

    class TooLong(RuntimeError):
        pass

    for overflow in (TooLong, (ValueError, TooLong), lambda error: "too long" in str(error)):
        tries = itertools.count()

        def call(context: Context, tries: Any = tries) -> int:
            if not next(tries):
                raise TooLong("it is too long")
            return len(context.turns)

        assert session.run_with_compaction(call, Summariser(), overflow=overflow, keep_turns=1) == 1
        session.append("user", "more")
        session.append("user", "and more")
    session.discard_pending()


def test_over_the_threshold_the_session_is_compacted_before_the_model_is_called(store: Repository) -> None:
    session, model, summarise = conversation(store, 10), Model(1000), Summariser("short")
    policy = CompactionPolicy(window=120, reserve=40)
    session.run_with_compaction(model, summarise, query="?", policy=policy, counter=ONE)
    assert summarise.asked[0].trigger == "threshold"
    kept = [turn.index for turn in model.contexts[0].turns]
    assert kept == [6, 7, 8, 9], "half of what the window leaves: 40 tokens"
    session.run_with_compaction(
        model, summarise, query="?", policy=CompactionPolicy(window=900, reserve=0), counter=ONE
    )
    assert len(summarise.asked) == 1


def test_periodically_the_session_is_compacted_by_its_number_of_turns(store: Repository) -> None:
    session, model, summarise = conversation(store, 10), Model(1000), Summariser("short")
    policy = CompactionPolicy(every=10)
    session.run_with_compaction(model, summarise, policy=policy, keep_turns=2)
    assert summarise.asked[0].trigger == "periodic"
    session.run_with_compaction(model, summarise, policy=policy, keep_turns=2)
    assert len(summarise.asked) == 1


def test_an_async_model_and_summariser_are_awaited(store: Repository) -> None:
    session, model = conversation(store, 10), Model(80)

    async def call(context: Context) -> str:
        await asyncio.sleep(0)
        return model(context)

    async def summarise(_: SummaryRequest) -> str:
        await asyncio.sleep(0)
        return "short"

    found = asyncio.run(
        AsyncSession(session, Workers()).run_with_compaction(call, summarise, query="?", keep_turns=1, counter=ONE)
    )
    assert found == "answer to ?"


# --- what is kept of it elsewhere


def test_a_redaction_takes_the_request_out_too_and_the_digest_stays_true(store: Repository) -> None:
    session = conversation(store)
    session.compact(Summariser("secret plan"), keep_turns=1, request="Summarise the secret plan.")
    assert store.redact("s", 2).summaries == (("s", 6),)
    store.redact("s", 6)
    assert not any("secret" in str(quad) for quad in quads(store))
    turn = store.load("s").turns[6]
    assert turn.compaction is not None
    assert turn.compaction.request is None
    assert turn.compaction.request_withheld is not None
    assert turn.compaction.summarised_through == 4
    assert store.verify().ok


def test_a_redaction_finds_the_requests_that_quote_the_text(store: Repository) -> None:
    session = conversation(store)
    session.append("user", "the word is swordfish")
    session.compact(Summariser(), keep_turns=1, request="Leave out that the word is swordfish.")
    assert store.redact("s", 6).quotes == (("s", 7),)


def test_an_altered_request_is_found(store: Repository) -> None:
    import pyoxigraph as ox

    from trails.store.contract import Change

    conversation(store).compact(Summariser(), keep_turns=1, request="Please.")
    (old,) = store.store.quads((None, vocab.REQUEST, None, None))
    new = ox.Quad(old.subject, old.predicate, ox.Literal("Forget it."), old.graph_name)
    store.store.commit(Change(add=[new], remove=[old]))
    assert [(each.code, each.index) for each in store.verify().findings] == [("digest-mismatch", 6)]


def test_a_compaction_survives_detach_export_and_import(store: Repository, opener: Callable[[str], Repository]) -> None:
    from io import BytesIO

    from trails.exchange.rdf_files import export_session, import_rdf

    session = conversation(store)
    session.compact(Summariser("S1"), keep_turns=3)
    fork = session.fork(id="f")
    turn = fork.compact(Summariser("S2"), keep_turns=1, max_summary_tokens="dynamic")
    fork.detach()
    assert store.load("f").turns[-1].compaction == turn.compaction
    assert store.load("f").head == turn.digest
    assert store.verify().ok
    with opener("other.trails") as other:
        out = BytesIO()
        export_session(store, "f", "nquads", out)
        import_rdf(other, out.getvalue(), "nquads")
        assert other.load("f").head == turn.digest
        assert other.context("f").to_dict() == store.context("f").to_dict()
        assert other.verify().ok


def test_a_compaction_survives_pi_files_with_all_that_pi_has_no_place_for(
    store: Repository, memory: Repository
) -> None:
    from trails.exchange.merge import merge
    from trails.exchange.openclaw import pi_session_file
    from trails.exchange.openclaw.pi_export import export_session

    turn = conversation(store).compact(Summariser("S1"), keep_turns=3, request="Please.", max_summary_tokens=99)
    merge(memory, pi_session_file.parse([("s.jsonl", export_session(store, "s"))]))
    assert memory.load("pi:s").turns[-1].compaction == turn.compaction


def test_the_digests_of_summaries_from_before_stay_what_they_were() -> None:
    """As written before requests and durations were recorded: all five fields, unset ones too, and nothing else."""
    facts = Facts(compaction=Compaction(summarised_through=1, first_kept=2, trigger="manual"))
    assert digests.facts_json(facts, "00") == (
        '{"compaction":{"first_kept":2,"summarised_through":1,"tokens_after":null,"tokens_before":null,'
        '"trigger":"manual"}}'
    )


def test_a_summary_without_an_activity_is_written_as_before(memory: Repository) -> None:
    session = memory.create(id="s")
    session.append("user", "a")
    session.worktree.append(
        turn_builder.make_draft("summary", "A", compaction=Compaction(summarised_through=0, trigger="manual"))
    )
    session.persist()
    assert memory.store.quads((None, vocab.TYPE, vocab.COMPACTION, None)) == []
    assert memory.verify().ok


@pytest.mark.parametrize("iri", ["x", "urn:trails:session:a", "urn:trails:session:a b/0-00ff00ff00ff00ff", ""])
def test_a_summary_before_is_named_by_a_turns_iri_only(iri: str) -> None:
    with pytest.raises(ValueError, match="previous_summary"):
        Compaction(previous_summary=iri)
