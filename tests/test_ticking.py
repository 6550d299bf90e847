"""Clocks on a thread of their own: what falls due happens, errors are told, and the block ends at once."""

from __future__ import annotations

import os
import threading
import warnings
from datetime import timedelta

import pytest

import trails
from tests.support.clocks import Clock
from trails import ClockWarning, InvalidInput, Repository, StoreFailed
from trails.runtime.timer import Ticking

HOURS = 3600.0
"""Nobody waits so long: a block that waited for the period would hang."""


class ByHand:
    """A wait that lasts until the test says `on`; after so many, the thread waits for the block's end."""

    def __init__(self, ticks: int) -> None:
        self.ticks = ticks
        self.asked: list[float] = []
        self._arrived, self._go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, seconds: float, stop: threading.Event) -> None:
        self.asked.append(seconds)
        self._arrived.release()
        if len(self.asked) < self.ticks:
            while not stop.is_set() and not self._go.acquire(timeout=0.05):
                pass  # a test that fails in its block ends it
        else:
            stop.wait()

    def ticked(self) -> None:
        assert self._arrived.acquire(timeout=60)

    def on(self) -> None:
        self._go.release()
        self.ticked()


def test_a_time_to_live_holds_without_a_host_that_ticks(memory: Repository, clock: Clock) -> None:
    tree = trails.Tree(memory, clock=clock)
    main = tree.main("planner", "chat")
    branch = main.spawn("branch", "Find a train", "To the sea", ttl=timedelta(minutes=5))
    by_hand = ByHand(2)
    with tree.ticking(every=2, wait=by_hand) as ticking:
        by_hand.ticked()
        before = str(branch.state)
        clock.pass_by(minutes=5)
        by_hand.on()
        assert (before, branch.state) == ("active", "expired")
        assert ticking.ticks == 2
    assert by_hand.asked == [2.0, 2.0]
    assert repr(ticking) == "<Ticking every 2 s: 2 ticks, 0 errors>"


def test_a_time_out_holds_without_a_host_that_ticks(memory: Repository, clock: Clock) -> None:
    runs = trails.Runs(memory, clock=clock)
    answer = runs.spawn("agent:main:main", "How often do trains go?", run_timeout_seconds=30)
    by_hand = ByHand(2)
    with runs.ticking(wait=by_hand):
        by_hand.ticked()
        clock.pass_by(seconds=31)
        by_hand.on()
    assert runs.get(answer.run_id or "").outcome == "timeout"


def test_a_block_ends_at_once_whatever_its_period(memory: Repository) -> None:
    with trails.Tree(memory).ticking(every=HOURS) as ticking:
        thread = ticking._thread
    assert thread is not None
    assert not thread.is_alive()


def test_an_error_warns_at_once_the_clock_goes_on_and_the_block_raises_the_first() -> None:
    by_hand, said = ByHand(3), ["first", "second"]

    def tick() -> None:
        if said:
            raise trails.IntegrityError(said.pop(0))

    def block(told: list[warnings.WarningMessage]) -> None:
        with Ticking(tick, lambda: False, 1, by_hand) as ticking:
            by_hand.ticked()
            assert [str(each.message) for each in told] == [
                "a tick of the clock failed: IntegrityError('first') (trails guide errors/clock-warning)"
            ]
            assert told[0].category is ClockWarning
            by_hand.on()
            by_hand.on()
            assert (ticking.ticks, len(ticking.errors)) == (3, 2)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(trails.IntegrityError, match="first") as raised:
            block(told)
    assert raised.value.__notes__ == ["the clock failed 2 times; this was the first"]


def test_an_error_is_kept_where_warnings_are_errors() -> None:
    def tick() -> None:
        raise trails.IntegrityError("altered")

    by_hand = ByHand(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(trails.IntegrityError, match="altered"), Ticking(tick, lambda: False, 1, by_hand):
            by_hand.ticked()


def test_the_error_of_the_block_itself_is_raised_and_the_clocks_is_noted() -> None:
    by_hand = ByHand(1)

    def tick() -> None:
        raise trails.IntegrityError("altered")

    def block() -> None:
        with Ticking(tick, lambda: False, 1, by_hand):
            by_hand.ticked()
            raise ZeroDivisionError

    with warnings.catch_warnings(record=True), pytest.raises(ZeroDivisionError) as raised:
        block()
    assert raised.value.__notes__ == ["a clock that ticked meanwhile failed, too: IntegrityError('altered')"]


def test_a_store_that_is_closed_meanwhile_ends_the_clock_without_an_error(store: Repository) -> None:
    by_hand = ByHand(2)
    with trails.Tree(store).ticking(wait=by_hand) as ticking:
        by_hand.ticked()
        store.close()
        by_hand._go.release()
        assert ticking._thread is not None
        ticking._thread.join(60)
        assert not ticking._thread.is_alive()
    assert (ticking.ticks, ticking.errors) == (1, [])


def test_a_store_that_is_closed_during_a_tick_is_no_error() -> None:
    closed = []

    def tick() -> None:
        closed.append(True)
        raise StoreFailed("closed")

    with Ticking(tick, lambda: bool(closed), HOURS, None) as ticking:
        pass
    assert ticking.errors == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking beside a thread, which is the point
def test_a_forked_child_leaves_the_block_and_the_parents_clock_goes_on(memory: Repository) -> None:
    by_hand = ByHand(2)
    with trails.Tree(memory).ticking(wait=by_hand) as ticking:
        by_hand.ticked()
        child = os.fork()
        if child == 0:
            try:
                ticking.__exit__(None, None, None)
            finally:
                os._exit(0 if not ticking.errors else 1)
        assert os.waitpid(child, 0)[1] == 0
        by_hand.on()
        assert ticking.ticks == 2


@pytest.mark.parametrize("every", [0, -1, float("inf"), float("nan"), True, "1", None])
def test_a_period_that_is_none_is_refused(memory: Repository, every: object) -> None:
    for clock in (trails.Tree(memory), trails.Runs(memory)):
        with pytest.raises(InvalidInput, match="a clock ticks every so many seconds"):
            clock.ticking(every)  # type: ignore[arg-type] # that is the test


def test_a_clock_is_started_once(memory: Repository) -> None:
    ticking = trails.Tree(memory).ticking(every=HOURS)
    with ticking, pytest.raises(InvalidInput, match="was started before"), ticking:
        pass
