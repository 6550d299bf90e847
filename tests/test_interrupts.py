"""Ctrl-C while threads work is told at once, and raised where nothing is half done."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from trails.workers import completed, hold_interrupts


def test_an_interrupt_is_told_at_once_and_raised_at_the_end_of_the_block() -> None:
    order: list[str] = []

    def work() -> None:
        with hold_interrupts(lambda: order.append("stopped")):
            signal.raise_signal(signal.SIGINT)
            order.append("went on")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert order == ["stopped", "went on"]


def test_an_interrupt_is_raised_where_the_block_gives_way() -> None:
    order: list[str] = []

    def work() -> None:
        with hold_interrupts() as give_way:
            give_way()
            signal.raise_signal(signal.SIGINT)
            order.append("went on")
            give_way()
            order.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert order == ["went on"]


def test_a_second_interrupt_is_raised_at_once_and_stops_nothing_twice() -> None:
    order: list[str] = []

    def work() -> None:
        with hold_interrupts(lambda: order.append("stopped")):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            order.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert order == ["stopped"]


@pytest.mark.parametrize("error", [None, ValueError("the block's own")])
def test_after_the_block_an_interrupt_is_raised_at_once_again(error: ValueError | None) -> None:
    def work() -> None:
        with hold_interrupts():
            signal.raise_signal(signal.SIGINT)
            if error:
                raise error

    with pytest.raises(KeyboardInterrupt if error is None else ValueError):
        work()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_host_stays_what_it_is() -> None:
    got: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: got.append(number))
    try:
        with hold_interrupts(lambda: got.append(-1)):
            signal.raise_signal(signal.SIGINT)
        assert got == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_thread_that_gets_no_signals_holds_none_back() -> None:
    def work() -> None:
        with hold_interrupts() as give_way:
            give_way()
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[object] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_an_interrupt_that_does_not_wake_the_main_thread_is_handled_while_it_waits() -> None:
    stopped = threading.Event()

    def interrupt() -> bool:
        time.sleep(0.1)  # the main thread waits by then
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # not to the thread that handles it
        return stopped.wait(5)

    def work() -> None:
        with ThreadPoolExecutor(1) as threads, hold_interrupts(stopped.set):
            outcomes.extend(future.result() for future in completed([threads.submit(interrupt)]))

    outcomes: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        work()
    assert outcomes == [True]
