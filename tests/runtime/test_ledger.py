"""Exchanges: one at a time, on a fresh head, whole or failed; and what a crash leaves of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import trails
from tests.support.clocks import START, Clock
from tests.support.ledgers import echo, session_of
from tests.support.machines import Size, walk
from tests.support.places import IMPORTED
from tests.support.sessions import contents
from trails import HeadConflict, InvalidInput, Ledger, Repository, SessionNotFound
from trails.aio import AsyncLedger, AsyncRunning
from trails.aio.threads import Workers
from trails.integrity import digests
from trails.runtime.message_exchanges import Running
from trails.store.contract import Committed

# --- one message at a time (shared case)


def test_messages_are_processed_in_turn_each_on_the_head_before(store: Repository, shared: Path) -> None:
    cases = json.loads((shared / "cases" / "nexus_agents_ledger.json").read_text())["cases"]
    case = next(each for each in cases if each["name"] == "serial processing")
    session_of(store, case["start"])
    ledger, seen = Ledger(store), {}
    for message in case["messages"]:
        ledger.receive("main", message)

    def handler(running: Running) -> str:
        message = running.messages[0].content
        head = ledger.head("main")
        assert head is not None
        seen[message] = head.content
        return {"m1": "Y", "m2": "Z"}[message]

    done = ledger.process("main", handler)
    parents = case["expected"]["parents"]
    assert seen == {"m1": parents["Y(m1)"], "m2": parents["Z(m2)"]}
    assert contents(store) == ["X", "m1", "Y", "m2", "Z"]
    head = ledger.head("main")
    assert head is not None
    assert head.content == case["expected"]["head"]
    assert [each.state for each in done] == ["completed", "completed"]


def test_the_head_moves_only_once_the_exchange_is_completed(store: Repository) -> None:
    session = session_of(store, "X")
    ledger = Ledger(store)
    ledger.receive("main", "m1")
    during = []

    def handler(running: Running) -> None:
        running.append("assistant", "half of it")
        during.append((ledger.head("main"), store.replay("main"), ledger.exchanges("main")[0].state))
        running.append("assistant", "the rest")

    ledger.process("main", handler)
    ((head, replayed, state),) = during
    assert head is not None
    assert (head.digest, len(replayed), state) == (session.head, 1, "streaming")
    assert contents(store) == ["X", "m1", "half of it", "the rest"]


def test_an_exchange_sees_what_others_wrote_before_it_began(store: Repository) -> None:
    session = session_of(store, "X")
    ledger, seen = Ledger(store), []
    ledger.receive("main", "m1")
    session.append("assistant", "written past the ledger")
    session.persist()
    ledger.process("main", lambda running: seen.append([turn.content for turn in running.session.turns]))
    assert seen == [["X", "written past the ledger", "m1"]]


def test_the_turns_of_an_exchange_are_written_with_its_end_in_one_commit(memory: Repository) -> None:
    session_of(memory)
    ledger = Ledger(memory)
    ledger.receive("main", "m1")
    commits: list[Any] = []
    original = memory.store.commit

    def counted(change: Any) -> Committed:
        commits.append(change)
        return original(change)

    memory.store.commit = counted  # type: ignore[method-assign]
    ledger.process("main", echo)
    claim, begin, end = commits
    kinds = [line.split()[0] for line in memory.store.log.lines()[-5:]]
    assert kinds == ["streaming", "turns", "sent", "completed", "said"]
    assert {len(claim.leaves), len(begin.leaves)} == {1}
    assert len(end.leaves) == 4


def test_a_second_thread_leaves_its_message_to_the_one_that_is_at_work(store: Repository) -> None:
    session_of(store)
    ledger, entered, go = Ledger(store), threading.Event(), threading.Event()
    ledger.receive("main", "m1")
    at_once: list[int] = []
    most: list[int] = []

    def handler(running: Running) -> str:
        at_once.append(1)
        most.append(len(at_once))
        entered.set()
        assert go.wait(10)
        at_once.pop()
        return echo(running)

    worker = threading.Thread(target=ledger.process, args=("main", handler))
    worker.start()
    assert entered.wait(10)
    Ledger(store).receive("main", "m2")
    assert Ledger(store).process("main", handler) == []
    go.set()
    worker.join(10)
    assert contents(store) == ["m1", "re: m1", "m2", "re: m2"]
    assert most == [1, 1]


def test_many_threads_receive_and_process_and_every_message_is_answered_once(ledger: Ledger, store: Repository) -> None:

    def work(name: int) -> None:
        for number in range(5):
            ledger.receive("main", f"{name}.{number}", source="t", event_id=f"{name}.{number}")
            ledger.process("main", echo)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    ledger.process("main", echo)
    said = contents(store)
    assert sorted(said[::2]) == sorted(f"{name}.{number}" for name in range(4) for number in range(5))
    assert said[1::2] == [f"re: {text}" for text in said[::2]]
    assert store.verify().ok


def test_a_handler_cannot_start_work_on_its_own_session(store: Repository) -> None:
    session_of(store)
    ledger, inner = Ledger(store), []
    ledger.receive("main", "m1")

    def handler(running: Running) -> str:
        ledger.receive("main", "m2")
        inner.append(ledger.process("main", echo))
        return echo(running)

    assert len(ledger.process("main", lambda running: handler(running) if not inner else echo(running))) == 2
    assert inner == [[]]
    assert contents(store) == ["m1", "re: m1", "m2", "re: m2"]


def test_limit_says_how_many_exchanges_at_most(ledger: Ledger) -> None:
    for text in ("m1", "m2", "m3"):
        ledger.receive("main", text)
    assert ledger.process("main", echo, limit=0) == []
    assert len(ledger.process("main", echo, limit=2)) == 2
    assert [event.content for event in ledger.inbox("main")] == ["m3"]
    assert len(ledger.process("main", echo)) == 1


def test_a_session_that_is_not_there_is_named(store: Repository) -> None:
    ledger = Ledger(store)
    calls: list[Callable[[], object]] = [
        lambda: ledger.receive("nobody", "m1"),
        lambda: ledger.process("nobody", echo),
        lambda: ledger.head("nobody"),
        lambda: ledger.inbox("nobody"),
        lambda: ledger.exchanges("nobody"),
    ]
    for call in calls:
        with pytest.raises(SessionNotFound, match="nobody"):
            call()


# --- states


def test_an_exchange_goes_from_pending_to_streaming_to_completed_with_its_times(store: Repository) -> None:
    session_of(store)
    clock = Clock()
    ledger = Ledger(store, clock=clock)
    ledger.receive("main", "m1")
    clock.pass_by(seconds=1)

    def handler(running: Running) -> str:
        (now,) = ledger.exchanges("main", state="streaming")
        assert (now.interrupted, now.started, now.ended) == (False, START + timedelta(seconds=1), None)
        clock.pass_by(seconds=2)
        return "done"

    (done,) = ledger.process("main", handler)
    expected = (START + timedelta(seconds=1), START + timedelta(seconds=1), START + timedelta(seconds=3))
    assert (done.queued, done.started, done.ended) == expected
    assert ledger.exchanges("main") == [done]
    assert ledger.exchanges("main", state="failed") == []


def test_a_failed_exchange_leaves_the_head_where_it_was_and_keeps_its_message(store: Repository) -> None:
    session = session_of(store, "X")
    ledger = Ledger(store)
    ledger.receive("main", "m1")

    def handler(running: Running) -> None:
        running.append("assistant", "half of it")
        raise ValueError("the model is gone")

    with pytest.raises(ValueError, match="the model is gone"):
        ledger.process("main", handler)
    (failed,) = ledger.exchanges("main")
    assert (failed.state, failed.error, failed.turn_iris) == ("failed", "ValueError: the model is gone", ())
    head = ledger.head("main")
    assert head is not None
    assert head.digest == session.head
    assert ledger.inbox("main") == []
    assert ledger.process("main", echo) == []  # it is not taken up again unasked
    again = ledger.retry("main", failed.number)
    assert (again.state, again.retry_of) == ("pending", failed.number)
    ledger.process("main", echo)
    assert contents(store) == ["X", "m1", "re: m1"]
    assert [each.state for each in ledger.exchanges("main")] == ["failed", "completed"]
    assert store.verify().ok


def test_messages_behind_a_failed_one_go_on_the_next_time(ledger: Ledger, store: Repository) -> None:
    ledger.receive("main", "m1")
    ledger.receive("main", "m2")
    with pytest.raises(ZeroDivisionError):
        ledger.process("main", lambda running: str(1 // 0))
    ledger.process("main", echo)
    assert contents(store) == ["m2", "re: m2"]


def test_a_failed_exchange_can_keep_what_it_had_done_as_a_fork(store: Repository) -> None:
    session = session_of(store, "X")
    ledger = Ledger(store)
    event = ledger.receive("main", "m1")

    def handler(running: Running) -> None:
        running.append("assistant", "half of it")
        raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        ledger.process("main", handler, keep_partial=True)
    (failed,) = ledger.exchanges("main")
    assert failed.kept_as is not None
    assert contents(store, failed.kept_as) == ["X", "m1", "half of it"]
    assert store.load("main").head == session.head
    (said,) = ledger.events("main")
    assert (said.number, said.content) == (event.number, "m1")  # it may be taken up again
    assert store.verify().ok


def test_another_writer_during_an_exchange_makes_it_fail_and_nothing_is_lost(store: Repository) -> None:
    session = session_of(store, "X")
    ledger = Ledger(store)
    ledger.receive("main", "m1")

    def handler(running: Running) -> str:
        session.append("user", "I was quicker")
        session.persist()
        return echo(running)

    with pytest.raises(HeadConflict):
        ledger.process("main", handler)
    (failed,) = ledger.exchanges("main")
    assert failed.state == "failed"
    assert (failed.error or "").startswith("HeadConflict")
    ledger.retry("main", failed.number)
    ledger.process("main", echo)
    assert contents(store) == ["X", "I was quicker", "m1", "re: m1"]
    assert store.verify().ok


def test_only_what_failed_or_was_interrupted_can_be_taken_up_again_and_only_once(ledger: Ledger) -> None:
    event = ledger.receive("main", "m1")
    (done,) = ledger.process("main", echo)
    with pytest.raises(InvalidInput, match="is completed"):
        ledger.retry("main", done.number)
    with pytest.raises(InvalidInput, match="is completed"):
        ledger.fail("main", done.number)
    with pytest.raises(InvalidInput, match="is no exchange"):
        ledger.retry("main", event.number)
    with pytest.raises(InvalidInput, match="is no exchange"):
        ledger.retry("main", 99)
    ledger.receive("main", "m2")
    with pytest.raises(ZeroDivisionError):
        ledger.process("main", lambda running: str(1 // 0))
    (failed,) = ledger.exchanges("main", state="failed")
    again = ledger.retry("main", failed.number)
    with pytest.raises(InvalidInput, match="taken up again before"):
        ledger.retry("main", failed.number)
    assert ledger.fail("main", again.number, error="not today").error == "not today"
    with pytest.raises(InvalidInput, match="is failed"):
        ledger.fail("main", again.number)


def test_what_is_being_worked_on_cannot_be_failed_or_taken_up_again(ledger: Ledger) -> None:
    ledger.receive("main", "m1")

    def handler(running: Running) -> None:
        for call in (ledger.retry, ledger.fail):
            with pytest.raises(InvalidInput, match="being worked on right now"):
                call("main", running.number)

    assert len(ledger.process("main", handler)) == 1


def test_ctrl_c_in_a_handler_fails_the_exchange_and_goes_on_up(ledger: Ledger) -> None:
    ledger.receive("main", "m1")

    def handler(running: Running) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.process("main", handler)
    assert [each.state for each in ledger.exchanges("main")] == ["failed"]


# --- the head


def test_the_head_of_a_fork_is_its_parents_until_it_has_turns_of_its_own(store: Repository) -> None:
    assert Ledger(store).head(session_of(store, name="empty").id) is None
    session = session_of(store, "a", "b", "c")
    fork = session.fork(at=2, id="fork")
    fork.persist()
    ledger = Ledger(store)
    head = ledger.head("fork")
    assert head is not None
    assert (head.content, head.session_id) == ("b", "main")
    ledger.receive("fork", "d")
    ledger.process("fork", echo)
    head = ledger.head("fork")
    assert head is not None
    assert (head.content, head.index) == ("re: d", 3)


def test_head_moves_tell_each_step_from_where_to_where_when_and_by_what(store: Repository) -> None:
    clock = Clock()
    session = store.create(id="main")
    session.append("user", "a", time=START)
    session.append("user", "b", time=START + timedelta(seconds=1))
    session.persist()
    ledger = Ledger(store, clock=clock)
    clock.pass_by(seconds=60)
    ledger.receive("main", "c")
    (done,) = ledger.process("main", echo)
    turns = store.load("main").turns
    first, second = ledger.head_moves("main")
    assert (first.before, first.after, first.length) == (digests.GENESIS, turns[1].digest, 2)
    assert (first.time, first.exchange) == (START + timedelta(seconds=1), None)
    assert (second.before, second.after, second.length) == (turns[1].digest, turns[3].digest, 4)
    assert (second.time, second.exchange) == (START + timedelta(seconds=60), done.number)
    assert (done.head_before, done.head_after) == (second.before, second.after)


def test_head_moves_of_a_fork_start_at_its_fork_point(store: Repository) -> None:
    session = session_of(store, "a", "b")
    fork = session.fork(at=1, id="fork")
    fork.append("user", "x")
    fork.persist()
    (move,) = Ledger(store).head_moves("fork")
    assert (move.before, move.after, move.length) == (session.turns[0].digest, fork.head, 2)


# --- forks from a turn


def test_a_fork_from_a_turn_with_children(store: Repository, shared: Path) -> None:
    cases = json.loads((shared / "cases" / "nexus_agents_ledger.json").read_text())["cases"]
    case = next(each for each in cases if each["name"] == "fork")
    session_of(store, *case["tree"])
    ledger = Ledger(store)
    turn = next(each for each in store.load("main").turns if each.content == case["fork_from"])
    fork = ledger.fork_from(turn.iri, "to Z", label="other", id="other", source="mail", event_id="m-1")
    assert [event.content for event in ledger.inbox("other")] == ["to Z"]
    assert (fork.parent_session_id, fork.forked_at_index, fork.label) == ("main", 3, "other")
    ledger.process("other", lambda running: case["new_turn"])
    expected = case["expected"]
    assert contents(store) == [*expected["ancestry_Z"][:3], expected["main_head"]]
    assert contents(store, "other") == [*expected["ancestry_Z"][:3], "to Z", expected["fork_head"]]
    assert store.verify().ok


@pytest.mark.parametrize("how", ["turn", "iri", "place"])
def test_a_turn_is_named_by_itself_its_iri_or_its_place(store: Repository, how: str) -> None:
    session = session_of(store, "a", "b")
    turn = session.turns[0]
    named = {"turn": turn, "iri": turn.iri, "place": ("main", 0)}[how]
    fork = Ledger(store).fork_from(named)  # type: ignore[arg-type] # one of three kinds
    assert (fork.forked_at_index, Ledger(store).inbox(fork.id)) == (1, [])
    assert re.fullmatch("fork-[0-9a-f]{8}", fork.label or "")
    assert store.load(fork.label or "").id == fork.id


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        ("urn:trails:session:main/0-0000000000000000", InvalidInput),
        ("urn:trails:session:gone/0-0000000000000000", SessionNotFound),
        ("http://example.org/turn", InvalidInput),
        (("main", 2), InvalidInput),
        (("gone", 0), SessionNotFound),
    ],
)
def test_a_fork_from_an_unknown_turn_writes_nothing(store: Repository, turn: Any, error: type[Exception]) -> None:
    session_of(store, "a", "b")
    before = len(store.store)
    with pytest.raises(error, match=str(turn if isinstance(turn, str) and "main" in turn else "main|gone|example")):
        Ledger(store).fork_from(turn, "hello")
    assert len(store.store) == before


def test_a_fork_under_a_label_that_is_taken_brings_no_message(store: Repository) -> None:
    session_of(store, "a")
    store.set_label("main", "taken")
    before = len(store.store)
    with pytest.raises(InvalidInput, match="taken"):
        Ledger(store).fork_from(("main", 0), "hello", label="taken")
    assert len(store.store) == before


# --- async


def test_a_coroutine_as_a_handler_runs_in_the_callers_loop(ledger: Ledger, store: Repository) -> None:
    ledger.receive("main", "m1")
    ledger.receive("main", "m2")

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def handler(running: AsyncRunning) -> str:
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
            return echo(running.sync)

        assert len(await AsyncLedger(ledger, Workers()).process("main", handler)) == 2

    asyncio.run(main())
    assert contents(store) == ["m1", "re: m1", "m2", "re: m2"]


def test_cancelling_fails_the_exchange_before_it_returns(ledger: Ledger) -> None:
    ledger.receive("main", "m1")

    async def main() -> None:
        begun = asyncio.Event()

        async def handler(_: AsyncRunning) -> None:
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(AsyncLedger(ledger, Workers()).process("main", handler))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [each.state for each in ledger.exchanges("main")] == ["failed"]
    assert ledger.process("main", echo) == []


# --- nothing is stored before an exchange is completed


def persisted(running: Running) -> None:
    running.session.persist()


def forked(running: Running) -> None:
    running.session.fork(at=0)


def detached(running: Running) -> None:
    running.session.detach()


@pytest.mark.parametrize("early", [persisted, forked, detached])
def test_a_handler_may_not_persist_and_the_head_stays(store: Repository, early: Callable[[Running], None]) -> None:
    session_of(store, "before")
    ledger = Ledger(store)
    ledger.receive("main", "m1")

    def handler(running: Running) -> str:
        with pytest.raises(InvalidInput, match="stored by exchange 2 when that is completed"):
            early(running)
        assert contents(store) == ["before"]
        return "done"

    ledger.process("main", handler)
    assert contents(store) == ["before", "m1", "done"]
    assert [record.id for record in store.list()] == ["main"]
    assert store.verify().ok


def test_a_compaction_in_an_exchange_is_stored_with_it_and_is_no_answer(store: Repository) -> None:
    session_of(store, "a", "b", "c")
    ledger = Ledger(store)
    ledger.receive("main", "m1")

    def handler(running: Running) -> None:
        summary = running.session.compact(lambda asked: f"{len(asked.turns)} turns", keep_turns=2)
        assert (summary.index, summary.content) == (4, "2 turns")
        assert len(contents(store)) == 3

    (done,) = ledger.process("main", handler)
    assert contents(store) == ["a", "b", "c", "m1", "2 turns"]
    assert (len(done.turn_iris), ledger.events("main", direction="outbound")) == (2, [])
    assert [turn.index for turn in store.context("main").turns] == [2, 3]
    ledger.receive("main", "m2")

    def failing(running: Running) -> None:
        running.session.compact(lambda asked: "never stored", keep_turns=1)
        raise ValueError("no model")

    with pytest.raises(ValueError, match="no model"):
        ledger.process("main", failing)
    assert contents(store) == ["a", "b", "c", "m1", "2 turns"]
    assert store.verify().ok


def test_an_overflow_in_an_exchange_is_compacted_and_tried_again(store: Repository) -> None:
    session_of(store, "a", "b", "c")
    ledger = Ledger(store)
    ledger.receive("main", "m1")
    shown: list[int] = []

    def model(context: trails.context.Context) -> str:
        shown.append(len(context.parts))
        if len(shown) == 1:
            raise trails.ContextOverflow("too long")
        return "answer"

    def handler(running: Running) -> str:
        return running.session.run_with_compaction(model, lambda asked: "a, b", keep_turns=2)

    ledger.process("main", handler)
    assert contents(store) == ["a", "b", "c", "m1", "a, b", "answer"]
    assert shown == [4, 3]
    assert [ledger.content(event) for event in ledger.events("main", direction="outbound")] == ["answer"]


@pytest.mark.parametrize("how", ["discard_pending", "worktree.take_back", "keep_as_fork"])
def test_an_exchange_whose_messages_were_taken_back_fails_and_keeps_them(store: Repository, how: str) -> None:
    session_of(store, "before")
    ledger = Ledger(store)
    ledger.receive("main", "m1")

    def handler(running: Running) -> str:
        attrgetter(how)(running.session)()
        return "done"

    with pytest.raises(InvalidInput, match="took back"):
        ledger.process("main", handler)
    assert contents(store) == ["before"]
    ledger.retry("main", 2)
    ledger.process("main", echo)
    assert contents(store) == ["before", "m1", "re: m1"]
    assert store.verify().ok


# --- crashes


class Crashed(BaseException):
    """The process died here."""


def crash_at(point: str, store: Repository, monkeypatch: pytest.MonkeyPatch) -> Callable[[Running], str]:
    """Return a handler, and arrange for the store to be gone at a point of the exchange."""

    def die() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", trails.PendingTurnsWarning)
            store.close()
        raise Crashed

    original = Running.complete

    def die_after_completing(running: Running) -> None:
        original(running)
        die()

    if point == "claimed":
        monkeypatch.setattr(Running, "begin", lambda self: die())
    if point == "answered":
        monkeypatch.setattr(Running, "complete", lambda self: die())
    if point == "completed":
        monkeypatch.setattr(Running, "complete", die_after_completing)

    def handler(running: Running) -> str:
        if point == "begun":
            die()
        return echo(running)

    return handler


def test_an_interrupted_exchange_can_be_left_as_failed(tmp_path: Path) -> None:
    place = tmp_path / "store"
    with trails.open(place, create=True, durability="process") as store:
        session_of(store)
        Ledger(store).receive("main", "m1")
        Ledger(store).receive("main", "m2")
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Crashed):
            Ledger(store).process("main", crash_at("begun", store, patch))
    with trails.open(place, durability="process") as store:
        ledger = Ledger(store)
        ledger.process("main", echo, interrupted="fail")
        assert contents(store) == ["m2", "re: m2"]
        assert [each.state for each in ledger.exchanges("main")] == ["failed", "completed"]


KILLED = """
import os, sys
import trails
from trails.runtime.message_exchanges import Running
with trails.open(sys.argv[1], create=True) as store:
    store.create(id="main").persist()
    ledger = trails.Ledger(store)
    ledger.receive("main", "m1", source="t", event_id="1")
    ledger.receive("main", "m2", source="t", event_id="2")
    if sys.argv[2] == "completed":
        original = Running.complete
        Running.complete = lambda self: (original(self), os._exit(9))
    ledger.process("main", lambda running: os._exit(9) if sys.argv[2] == "begun" else "re: m1")
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["begun", "completed"])
def test_a_killed_process_leaves_a_store_that_goes_on(tmp_path: Path, point: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(IMPORTED)}
    place = tmp_path / "store"
    done = subprocess.run([sys.executable, "-c", KILLED, str(place), point], env=environment, check=False, timeout=60)
    assert done.returncode == 9
    with trails.open(place, durability="process") as store:
        assert store.verify().ok
        ledger = Ledger(store)
        assert ledger.receive("main", "m1", source="t", event_id="1").number == 1
        ledger.process("main", echo, interrupted="retry")
        assert contents(store) == ["m1", "re: m1", "m2", "re: m2"]
        assert store.verify().ok


class LedgerMachine(RuleBasedStateMachine):
    """Messages come, are processed, fail and are taken up again, and the process dies between any two steps."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.store = trails.open(Path(self.folder.name) / "store", create=True, durability="process")
        session_of(self.store)
        self.ledger = Ledger(self.store)
        self.received: list[str] = []

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()

    @rule(again=st.booleans(), mode=st.sampled_from(["followup", "collect", "steer"]))
    def receive(self, again: bool, mode: Any) -> None:
        name = self.received[-1] if again and self.received else f"m{len(self.received)}"
        self.ledger.receive("main", name, source="t", event_id=name, mode=mode)
        if name not in self.received:
            self.received.append(name)

    @rule()
    def process(self) -> None:
        self.ledger.process("main", echo, interrupted="retry", limit=2)

    @rule(keep=st.booleans())
    def fail(self, keep: bool) -> None:
        def handler(running: Running) -> None:
            running.append("assistant", "half")
            raise ZeroDivisionError

        with contextlib.suppress(ZeroDivisionError):
            self.ledger.process("main", handler, interrupted="retry", keep_partial=keep)

    @rule()
    def retry(self) -> None:
        taken_up = {each.retry_of for each in self.ledger.exchanges("main")}
        for each in self.ledger.exchanges("main", state="failed"):
            if each.number not in taken_up:
                self.ledger.retry("main", each.number)

    @rule(point=st.sampled_from(["claimed", "begun", "answered", "completed", "idle"]))
    def crash(self, point: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            handler = crash_at(point, self.store, patch)
            with contextlib.suppress(Crashed):
                self.ledger.process("main", handler, interrupted="retry", limit=1)
        self.store.close()
        self.store = trails.open(Path(self.folder.name) / "store", durability="process")
        self.ledger = Ledger(self.store)

    @rule()
    def write_past_the_ledger(self) -> None:
        session = self.store.load("main")
        session.append("user", "past the ledger")
        session.persist()

    @rule()
    def settle_all(self) -> None:
        """In the end everything that came is answered, each message once, in an order that keeps the chain whole."""
        self.retry()
        self.ledger.process("main", echo, interrupted="retry")
        said = [text for text in contents(self.store) if text.startswith("m")]
        waiting = [event.content for event in self.ledger.inbox("main")]  # to be collected, and not due yet
        assert sorted(said + waiting) == sorted(self.received)

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def no_message_is_lost_and_none_doubled(self) -> None:
        said = [text for text in contents(self.store) if text.startswith("m")]
        assert len(said) == len(set(said))
        waiting = {event.content for event in self.ledger.inbox("main")}
        last: dict[int, str] = {}
        for exchange in self.ledger.exchanges("main"):
            last |= dict.fromkeys(exchange.events, exchange.state)
        events = {event.number: event for event in self.ledger.events("main", direction="inbound")}
        done = {self.ledger.content(events[number]) for number, state in last.items() if state == "completed"}
        held = {self.ledger.content(events[number]) for number, state in last.items() if state != "completed"}
        assert done == set(said)
        assert waiting | held | done == set(self.received)
        assert len(waiting) + len(held) + len(done) == len(self.received)

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def the_log_of_head_moves_is_the_chain(self) -> None:
        turns = self.store.load("main").turns
        before = digests.GENESIS
        for move in self.ledger.head_moves("main"):
            assert move.before == before
            assert move.after == turns[move.length - 1].digest
            before = move.after
        assert before == (turns[-1].digest if turns else digests.GENESIS)

    @rule()
    def verify(self) -> None:
        report = self.store.verify()
        assert report.ok, report.findings


@pytest.mark.slow
def test_a_ledger_and_a_model_go_through_the_same_steps(size: Size) -> None:
    walk(LedgerMachine, size, quick=(4, 25), all=(12, 25), long=(100, 60))
