"""Writers that race, handles that are shared, stores used from where they may not be: an error or a right result, no abort."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.machines import Size
from trails import HeadConflict, IndexGap, Repository, Session, SessionNotFound, TrailsError
from trails.store import EmbeddedStore
from trails.store.leaflog import LeafLog
from trails.store.log.commit_batch import Batch
from trails.store.log.sqlite import SqliteHome

_WRITERS = 8
_ROUNDS_EACH = 100
"""Rounds that one session goes through before the next begins: appending stays quick, loading too."""


def test_of_eight_threads_that_append_to_one_session_exactly_one_wins_each_round(tmp_path: Path, size: Size) -> None:
    rounds = {"quick": 100, "all": 500, "long": 10_000}[size]
    with trails.open(tmp_path / "s", create=True, durability="process") as store, ThreadPoolExecutor(_WRITERS) as pool:
        for number in range(rounds // _ROUNDS_EACH):
            _race(store, f"session-{number}", pool)
        report = store.verify()
        assert report.ok, report.findings[:3]
        assert report.turns == rounds


def _race(store: Repository, session_id: str, pool: ThreadPoolExecutor) -> None:
    store.create(id=session_id).persist()
    handles = [store.load(session_id) for _ in range(_WRITERS)]
    barrier = threading.Barrier(_WRITERS)

    def write(writer: int, number: int) -> bool:
        session = handles[writer]
        session.append("user", f"{number} by {writer}")
        barrier.wait()
        try:
            return session.persist() == 1
        except HeadConflict:
            return False

    for number in range(_ROUNDS_EACH):
        won = list(pool.map(write, range(_WRITERS), [number] * _WRITERS))
        assert won.count(True) == 1, (session_id, number, won)
        winner = handles[won.index(True)]
        for writer in range(_WRITERS):
            if not won[writer]:
                assert handles[writer].pending == 1
                _follow(handles[writer], winner)
    assert [turn.content for turn in store.load(session_id).turns] == [turn.content for turn in handles[0].turns]
    assert len(handles[0]) == _ROUNDS_EACH


def _follow(loser: Session, winner: Session) -> None:
    """Bring a loser's handle to the winner's state as loading would, without 70,000 loads."""
    loser.discard_pending()
    loser.worktree.turns.append(winner.turns[-1])


def test_what_the_losers_of_a_race_wrote_is_kept_as_forks_and_nothing_is_lost(store: Repository) -> None:
    first = store.create(id="s")
    first.append("user", "start")
    first.persist()
    handles = [store.load("s") for _ in range(_WRITERS)]
    kept = []
    for number, handle in enumerate(handles):
        handle.append("assistant", f"by {number}")
        try:
            handle.persist()
            kept.append(handle)
        except HeadConflict:
            kept.append(handle.keep_as_fork())
            assert handle.pending == 0
    assert [k.parent_session_id for k in kept] == [None] + ["s"] * (_WRITERS - 1)
    for number, session in enumerate(kept):
        assert [turn.content for turn in store.load(session.id).turns] == ["start", f"by {number}"]
    assert store.verify().ok


def test_one_handle_used_by_two_threads_at_once_refuses_the_second_and_stays_whole(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        session = store.create(id="s")
        refused: list[str] = []

        def use(thread: int) -> list[str]:
            appended = []
            for number in range(60):
                try:
                    session.append("user", f"{thread}-{number}")
                    appended.append(f"{thread}-{number}")
                    session.persist()
                except TrailsError as error:
                    refused.append(str(error))
            return appended

        with ThreadPoolExecutor(4) as pool:
            appended = [content for made in pool.map(use, range(4)) for content in made]
        session.persist()
        assert session.pending == 0
        assert refused, "the threads never met: the test shows nothing"
        assert all("used by another thread" in message for message in refused)
        assert sorted(turn.content for turn in store.load("s").turns) == sorted(appended)
        assert [turn.index for turn in session.turns] == list(range(len(appended)))
        assert store.verify().ok


class Traffic:
    """Writers that fork, append, detach, delete and label, and readers that read it all, until told to stop."""

    def __init__(self, store: Repository) -> None:
        self._store = store
        self.stop = threading.Event()

    def write(self, writer: int) -> int:
        number = 0
        while not self.stop.is_set():
            fork = self._store.load("root").fork(id=f"fork-{writer}-{number}")
            for turn in range(3):
                fork.append("user", f"{turn}")
                fork.persist()
            if number % 3 == 0:
                fork.detach()
            elif number % 3 == 1:
                self._store.delete(fork.id)
            else:
                self._store.set_label(fork.id, fork.id)
            number += 1
        return number

    def read(self) -> int:
        count = 0
        while not self.stop.is_set():
            for record in self._store.list():
                with contextlib.suppress(SessionNotFound, IndexGap):  # deleted between listing, finding and reading it
                    assert len(self._store.load(record.id)) <= 4
            count += 1
        return count


@pytest.mark.slow
def test_verifying_and_reading_while_others_write_raises_no_false_alarm(tmp_path: Path, size: Size) -> None:
    with trails.open(tmp_path / "s", create=True) as store, ThreadPoolExecutor(3) as pool:
        root = store.create(id="root")
        root.append("user", "start")
        root.persist()
        traffic = Traffic(store)
        others = [pool.submit(traffic.write, 0), pool.submit(traffic.write, 1), pool.submit(traffic.read)]
        try:
            for _ in range({"quick": 4, "all": 15, "long": 15}[size]):
                report = store.verify()
                assert report.ok, report.findings
        finally:
            traffic.stop.set()
        assert min(other.result() for other in others) > 0


def test_flushing_in_one_thread_while_others_write_loses_no_promise(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        stop = threading.Event()

        def flush() -> None:
            while not stop.is_set():
                store.store.flush()

        def write(writer: int) -> None:
            session = store.create(id=f"s{writer}")
            for number in range(40):
                session.append("user", str(number))
                session.persist()

        with ThreadPoolExecutor(3) as pool:
            flusher = pool.submit(flush)
            writers = [pool.submit(write, n) for n in range(2)]
            try:
                for writer in writers:
                    writer.result()
            finally:
                stop.set()
            flusher.result()
        assert store.verify().ok
    with trails.open(tmp_path / "s") as store:
        assert [len(store.load(f"s{n}")) for n in range(2)] == [40, 40]
        assert store.verify().ok


_GOES_ON = "session.append('user', 'x'); session.persist(); assert store.verify().ok"
_RISKS: dict[str, str] = {
    "a query after closing": "store.close(); store.query('SELECT * { ?s ?p ?o }')",
    "a load after closing": "store.close(); store.load('s')",
    "a persist after closing": "store.close(); session.append('user', 'x'); warnings.simplefilter('ignore'); session.persist()",
    "a verify after closing": "store.close(); store.verify()",
    "a result used on another thread": (
        "rows = store.query('SELECT * { GRAPH ?g { ?s ?p ?o } }')\n"
        "on_thread(lambda: [row[0] for row in rows]); on_thread(rows.to_dicts)"
    ),
    "a store used on another thread": "on_thread(lambda: store.load('s').append('user', 'x') and store.verify())",
    "a store closed on another thread": "on_thread(store.close); store.load('s')",
    "a store closed while others query": (
        "stop = []\n"
        "def ask():\n"
        "    while not stop:\n"
        "        try: store.query('SELECT * { GRAPH ?g { ?s ?p ?o } }'); store.load('s')\n"
        "        except trails.TrailsError: return\n"
        "threads = [threading.Thread(target=ask) for _ in range(4)]\n"
        "[t.start() for t in threads]; time.sleep(0.05); store.close(); stop.append(1); [t.join() for t in threads]"
    ),
    "a store closed while others write": (
        "def write(n):\n"
        "    mine = store.create(id=f'n{n}')\n"
        "    for i in range(10_000):\n"
        "        mine.append('user', 'x')\n"
        "        try: mine.persist()\n"
        "        except trails.TrailsError: mine.discard_pending(); return\n"
        "threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]\n"
        "warnings.simplefilter('ignore')\n"
        "[t.start() for t in threads]; time.sleep(0.1); store.close(); [t.join() for t in threads]"
    ),
    "a store that goes away with its threads running": (
        "threading.Thread(target=lambda: [store.query('ASK {}') for _ in range(10**9)], daemon=True).start(); time.sleep(0.05)"
    ),
    "a forked child that reads": "in_child(lambda: store.load('s'))",
    "a forked child that writes": "in_child(lambda: store.create(id='c').persist())",
    "a forked child that flushes": "in_child(lambda: store.store.flush())",
    "a forked child that closes": "in_child(store.close)\nassert store.load('s')",
    "a forked child that ends": "in_child(lambda: None)\n" + _GOES_ON,
    "a forked child whose interpreter ends": (
        "import os, sys\n"
        "child = os.fork()\n"
        "if child == 0: sys.exit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n" + _GOES_ON
    ),
}
_LIKE_OTHERS = {
    "a load after closing",
    "a verify after closing",
    "a result used on another thread",
    "a store closed on another thread",
    "a forked child that reads",
    "a forked child that flushes",
    "a forked child that ends",
}
"""Risks that another one stands for in `make test`: each takes a process of its own."""
_FRAME = """
import os, sys, threading, time, warnings, trails
def on_thread(work):
    failed = []
    def run():
        try: work()
        except trails.TrailsError as error: failed.append(error)
    thread = threading.Thread(target=run); thread.start(); thread.join()
    if failed: raise failed[0]
def in_child(work):
    child = os.fork()
    if child == 0:
        try: work()
        except trails.TrailsError: pass
        except BaseException: os._exit(9)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
store = trails.open(sys.argv[1], create=True)
session = store.create(id="s")
for n in range(20): session.append("user", str(n))
session.persist()
try:
    exec(sys.argv[2])
except trails.TrailsError as error:
    print("TrailsError")
else:
    print("done")
store.close()
print("ended")
"""


@pytest.mark.parametrize(
    "risk", [pytest.param(risk, marks=pytest.mark.slow if risk in _LIKE_OTHERS else ()) for risk in _RISKS]
)
@pytest.mark.sample(3)
def test_a_store_misused_raises_or_works_and_never_aborts_or_loses_anything(risk: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FRAME, str(tmp_path / "s"), _RISKS[risk]]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr[-2000:]
    outcome, last = ended.stdout.split()
    assert outcome == ("TrailsError" if risk.endswith("closing") or "closed on another" in risk else "done"), (
        ended.stdout
    )
    assert last == "ended"
    with trails.open(tmp_path / "s") as store:
        assert [turn.content for turn in store.load("s").turns][:20] == [str(n) for n in range(20)]
        report = store.verify()
        assert report.ok, report.findings


def test_a_commit_that_is_interrupted_before_its_record_is_written_leaves_nothing_and_the_store_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with trails.open(tmp_path / "s", create=True) as store:
        session = store.create(id="s")
        session.append("user", "one")
        session.persist()
        session.append("user", "two")
        change = session.worktree._transaction(session.worktree.turns[1:], []).change()
        with monkeypatch.context() as patch:
            patch.setattr(Batch, "decide", interrupt)
            with pytest.raises(KeyboardInterrupt):
                change.commit(store.store)
        assert [turn.content for turn in store.load("s").turns] == ["one"]
        assert session.persist() == 1
    with trails.open(tmp_path / "s") as again:
        assert [turn.content for turn in again.load("s").turns] == ["one", "two"]
        assert again.verify().ok


@pytest.mark.parametrize("step", [(SqliteHome, "append"), (EmbeddedStore, "_take_in"), (LeafLog, "advance")])
def test_a_commit_that_is_interrupted_while_it_is_written_is_done_whole_before_the_interrupt_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str]
) -> None:
    due = [True]

    def interrupting(method: Callable[..., None]) -> Callable[..., None]:
        def done(*arguments: Any, **options: Any) -> None:
            method(*arguments, **options)
            if due and due.pop():
                raise KeyboardInterrupt

        return done

    with trails.open(tmp_path / "s", create=True) as store:
        session = store.create(id="s")
        session.append("user", "one")
        where, name = step
        monkeypatch.setattr(where, name, interrupting(getattr(where, name)))
        with pytest.raises(KeyboardInterrupt):
            session.persist()
        assert due == []
        assert store.store.log.lines()[-1].startswith("turns urn:trails:session:s 1 ")
        assert session.persist() == 1  # its outcome was unknown to the handle: repeating it is a success
        session.append("user", "two")
        session.persist()
    with trails.open(tmp_path / "s") as again:
        assert [turn.content for turn in again.load("s").turns] == ["one", "two"]
        assert again.verify().ok
        assert sum(line.startswith("turns ") for line in again.store.log.lines()) == 2


def test_a_child_that_outlives_the_process_that_opened_a_store_does_not_keep_it_locked(tmp_path: Path) -> None:
    code = "import os, sys, time, trails; store = trails.open(sys.argv[1], create=True); child = os.fork()\n"
    code += "if child == 0: os.close(1); os.close(2); time.sleep(30)\nelse: print(child, flush=True); os._exit(0)"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s")], capture_output=True, text=True, check=True
    )
    child = int(ended.stdout)
    try:
        trails.open(tmp_path / "s").close()
    finally:
        os.kill(child, signal.SIGKILL)


def test_flushing_in_two_threads_at_once_never_hangs(tmp_path: Path, size: Size) -> None:
    """The engine's own flush can wait for ever beside another one: it did after some thirty such rounds."""
    code = """
import random, sys, threading
from pathlib import Path
from pyoxigraph import Literal, NamedNode, Quad
from trails.store import Change, EmbeddedStore
from trails.store.embedded import drop_graph

def work(store, thread, seed):
    chance = random.Random(seed)
    for step in range(chance.randint(1, 8)):
        graph = NamedNode(f"urn:g{thread}")
        kind = chance.choice(("add", "add", "drop", "flush", "flush"))
        if kind == "add":
            nodes = [NamedNode(f"urn:{seed}:{step}:{n}") for n in range(10)]
            store.commit(Change(add=[Quad(node, NamedNode("urn:p"), Literal("x"), graph) for node in nodes]))
        elif kind == "drop":
            drop_graph(store, graph)
        else:
            store.flush()

for number in range(int(sys.argv[2])):
    store = EmbeddedStore(Path(sys.argv[1]), create=True, durability="process")
    threads = [threading.Thread(target=work, args=(store, thread, number * 10 + thread)) for thread in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    store.close()
"""
    rounds = {"quick": 8, "all": 40, "long": 400}[size]
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "s"), str(rounds)], check=True, timeout=4 * rounds)
