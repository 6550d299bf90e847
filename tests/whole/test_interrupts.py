"""Ctrl-C at any moment: nothing hangs, and what was being done is done or not begun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.machines import Size
from tests.support.places import ROOT
from trails.store.index.reading import Gate

# In a process of its own: a signal that came late would end the tests. What was raised is kept, traceback and all, as
# somebody may who wants to print it later.
_GATE = """
import faulthandler, random, signal, sys, threading
from trails.store.index.reading import Gate

faulthandler.dump_traceback_later(60, exit=True)
signal.signal(signal.SIGALRM, signal.default_int_handler)
gate, kept, chance = Gate(), [], random.Random(sys.argv[2])

def read():
    with gate:
        pass

def swap():
    gate.alone(lambda: None)

def ask_in_another_thread(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(5)
    if thread.is_alive():
        sys.exit(f"after {len(kept)} interrupts, {work.__name__} waits for ever")

holders = [threading.Event() for _ in range(20)]
end = threading.Event()
def stay(event):
    read()
    event.set()
    end.wait()
for event in holders:
    threading.Thread(target=stay, args=(event,), daemon=True).start()
    event.wait()

while len(kept) < int(sys.argv[1]):
    work, other = (read, swap) if len(kept) % 2 else (swap, read)
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 2e-4))
        while True:
            work()
    except KeyboardInterrupt as error:
        kept.append(error)
    ask_in_another_thread(swap)
    ask_in_another_thread(read)
print(len(kept))
end.set()
"""


def test_an_interrupt_at_any_moment_leaves_the_gate_open_to_all(long: bool) -> None:
    wanted = 10_000 if long else 600
    done = subprocess.run(
        [sys.executable, "-c", _GATE, str(wanted), "seed"], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.stdout.strip(), done.stderr) == (str(wanted), "")


def test_whoever_is_alone_waits_for_those_inside_and_those_who_come_later_wait_for_him() -> None:
    gate, seen = Gate(), list[str]()
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with gate, gate:  # also twice
            inside.set()
            leave.wait()
            seen.append("reader")

    def later() -> None:
        with gate:
            seen.append("later")

    def alone() -> None:
        time.sleep(0.05)  # the later one gets in here, where it may
        seen.append("alone")

    threads = [threading.Thread(target=work) for work in (first, lambda: gate.alone(alone), later)]
    threads[0].start()
    inside.wait()
    threads[1].start()
    time.sleep(0.05)
    assert seen == []
    threads[2].start()
    leave.set()
    for thread in threads:
        thread.join(10)
    assert seen == ["reader", "alone", "later"]


def test_what_goes_wrong_while_somebody_is_alone_opens_the_gate_again() -> None:
    gate = Gate()

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        gate.alone(fail)
    with gate:
        pass


def test_a_thousand_threads_that_have_been_inside_are_no_obstacle() -> None:
    gate, done = Gate(), list[int]()
    end, all_in = threading.Event(), threading.Barrier(1001)

    def read() -> None:
        with gate:
            pass
        all_in.wait()
        end.wait()

    threads = [threading.Thread(target=read, daemon=True) for _ in range(1000)]
    for thread in threads:
        thread.start()
    all_in.wait()
    gate.alone(lambda: done.append(1))
    end.set()
    for thread in threads:
        thread.join()
    gate.alone(lambda: done.append(2))
    assert done == [1, 2]


@pytest.mark.slow
def test_an_interrupt_at_any_moment_of_any_operation_leaves_it_done_or_not_begun_and_nothing_hangs(
    tmp_path: Path, size: Size
) -> None:
    wanted = {"quick": 8, "all": 30, "long": 1000}[size]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.interrupted", str(tmp_path), str(wanted), f"{wanted} signals"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout)
    assert sum(counts.values()) - counts["reopened"] == wanted


_NUMBERS = """
import signal, sys
from trails.rdf import vocab
from trails.rdf.codec import meta_literal

signal.signal(signal.SIGALRM, signal.default_int_handler)
interrupted = 0
while interrupted < int(sys.argv[1]):
    try:
        signal.setitimer(signal.ITIMER_REAL, 2e-5 + interrupted % 50 * 1e-6)
        while True:
            for made in (vocab.integer(12345), meta_literal(12345)):
                if made.value != "12345":
                    sys.exit(f"12345 became {made}")
    except KeyboardInterrupt:
        interrupted += 1
print(interrupted)
"""


def test_an_interrupt_while_a_number_is_written_is_raised_and_does_not_become_its_text() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _NUMBERS, "1000"], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.stdout.strip(), done.stderr) == ("1000", "")
