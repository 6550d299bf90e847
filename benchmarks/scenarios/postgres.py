"""A store in PostgreSQL: appending alone, with others and thin, catching up, opening, and reading beside the embedded one."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Final

import trails
from benchmarks import writing
from benchmarks.data import KINDS, TEXT_BYTES, add, filled, messages
from benchmarks.harness import Contestant, Result, Setting, Target, child_environment, medians, timed
from tests.support import clusters
from tests.support.clusters import Cluster

_OURS: Final = "trails"
_SLOW: Final = ("fsync=on", "commit_delay=2000", "commit_siblings=0")
"""A server that takes some 2 ms to bring a commit to disk, as many disks do."""
_WRITERS: Final = 8
_SECONDS: Final = {"tiny": 0.5, "quick": 3.0}
"""How long writers write, by size."""
_NEW: Final = 1_000


def run(setting: Setting) -> list[Result]:
    """Measure a server of its own, where PostgreSQL is installed; every commit is synced."""
    if clusters.programs() is None:
        print(clusters.MISSING, file=sys.stderr)
        return []
    with _caches(setting.folder):
        with _server("fsync=on") as server:
            results = [_appending(setting, server), *_thin(setting, server)]
            results += [_catching_up(setting, server), *_reading(setting, server)]
        with _server(*_SLOW) as server:
            return [*results, _writers(setting, server)]


@contextmanager
def _server(*settings: str) -> Iterator[Cluster]:
    made = clusters.make(*settings)
    try:
        yield made
    finally:
        clusters.remove(made)


@contextmanager
def _caches(folder: Path) -> Iterator[None]:
    """Have the indexes of stores in PostgreSQL in a folder, also those of processes that are started."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(folder / "caches")
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before


# --- one writer


def _appending(setting: Setting, server: Cluster) -> Result:
    import psycopg

    inserting, turns = "psycopg, a row of as many bytes", min(setting.size.turns, 200)
    said, number = messages(turns, setting.seed, TEXT_BYTES), count()
    with (
        trails.open(server.url("append"), create=True) as store,
        psycopg.connect(server.url("append").partition("&store")[0], autocommit=True) as connection,
    ):
        session = filled(store, "s", said[:1])
        connection.execute("CREATE TABLE bench (number int PRIMARY KEY, held bytea)")

        def rows() -> None:
            for each in said:
                held = (each.text * 3)[:1_000].encode()  # about what a record of one turn takes
                connection.execute("INSERT INTO bench VALUES (%s, %s)", (next(number), held))

        def appended() -> None:
            for each in said:
                add(session, [each])

        contestants = [Contestant(_OURS, lambda: timed(appended)), Contestant(inserting, lambda: timed(rows))]
        seconds = {who: taken / turns for who, taken in medians(contestants, setting.size.rounds).items()}
    ratio = seconds[_OURS] / seconds[inserting]
    return Result(
        name="postgres append",
        title=f"append one plain turn of {TEXT_BYTES} bytes to a store in PostgreSQL",
        baseline=inserting,
        medians=seconds,
        durability=dict.fromkeys(seconds, "synced (fsync and synchronous_commit on)"),
        targets=[Target("one append, against a durable insert of one row", ratio, 3.5, "x")],
    )


# --- one thin writer

_WARM: Final = 20
"""Appends to one session, after the cold one."""
_WORKER: Final = """
import sys, trails
with trails.open(sys.argv[1], thin=True) as store:
    session = store.load("s0")
    session.append("user", "Plan a trip")
    session.persist()
with open("/proc/self/status") as status:  # its own: what `resource` tells begins with that of the process that started it
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


def _thin(setting: Setting, server: Cluster) -> Iterator[Result]:
    """Measure workers that have never seen the store: the first append to a session of 50 turns, and those that follow."""
    import psycopg

    url, cold_name, warm_name = server.url("thin"), "a cold append", "a warm append"
    connecting, inserting = "connecting", "psycopg, a row of as many bytes"
    workers = max(2, min(setting.size.sessions, 100))
    said = messages(50, setting.seed, TEXT_BYTES)
    with trails.open(url, create=True) as whole:
        for number in range(workers):
            filled(whole, f"s{number}", said)
    taken: dict[str, list[float]] = {connecting: [], cold_name: [], warm_name: [], inserting: []}
    statements = []
    with psycopg.connect(url.partition("&store")[0], autocommit=True) as connection:
        connection.execute("CREATE TABLE bench_thin (number serial PRIMARY KEY, held bytea)")
        for number in range(workers):
            taken[connecting].append(timed(lambda: psycopg.connect(url.partition("&store")[0]).close()))
            begun = time.perf_counter()
            with trails.open(url, thin=True) as store:
                session = store.load(f"s{number}")
                add(session, said[:1])
                taken[cold_name].append(time.perf_counter() - begun)
                statements.append(store.store.trips)  # type: ignore[attr-defined] # of a thin store
                for each in said[:_WARM]:
                    taken[warm_name].append(timed(partial(add, session, [each])))
                    held = (each.text * 3)[:1_000].encode()
                    insert = partial(connection.execute, "INSERT INTO bench_thin (held) VALUES (%s)", (held,))
                    taken[inserting].append(timed(insert))
    seconds = {who: statistics.median(times) for who, times in taken.items()}
    beyond = statistics.quantiles(taken[cold_name], n=10)[-1] - seconds[connecting]
    yield Result(
        name="postgres thin",
        title=f"append a turn of {TEXT_BYTES} bytes to one of {workers} sessions of 50 turns, by workers without an index",
        baseline=inserting,
        medians=seconds,
        durability=dict.fromkeys((cold_name, warm_name, inserting), "synced (fsync and synchronous_commit on)"),
        targets=[
            Target("nine of ten cold appends, beside connecting", beyond * 1e3, 30, "ms"),
            Target("statements of a cold append, beside connecting", max(statements), 5, ""),
            Target("a warm append, beyond 1.5 inserts", (seconds[warm_name] - 1.5 * seconds[inserting]) * 1e3, 1, "ms"),
            Target("memory of a worker in all", _memory(url), 80, "MB"),
        ],
    )


def _memory(url: str) -> float:
    """Return the most memory that a worker of its own had, in MB."""
    command = [sys.executable, "-c", _WORKER, url]
    worker = subprocess.run(command, check=True, env=child_environment(), capture_output=True, text=True)
    return int(worker.stdout) / 1e3


# --- several writers


def _writers(setting: Setting, server: Cluster) -> Result:
    lasting = _SECONDS.get(setting.size.name, 10.0)
    made = count()

    def store() -> str:
        url = server.url(f"w{next(made)}")
        trails.open(url, create=True).close()
        return url

    one, many = "one thread", f"{_WRITERS} threads of one process"
    alone, apart = "one process", f"{_WRITERS} processes on {_WRITERS} stores"
    together = f"{_WRITERS} processes on one store"
    commits = {
        one: [_threads(store(), 1, lasting)],
        many: [_threads(store(), _WRITERS, lasting)],
        alone: writing.write([store()], lasting),
        together: writing.write([store()] * _WRITERS, lasting),
        apart: writing.write([store() for _ in range(_WRITERS)], lasting),
    }
    seconds = {who: lasting / sum(map(len, taken)) for who, taken in commits.items()}
    slowest = statistics.quantiles(chain.from_iterable(commits[together]), n=100)[-1]
    return Result(
        name="postgres writers",
        title=f"commits of one turn where a flush takes 2 ms, for {lasting:g} s; seconds of one of all",
        baseline=one,
        medians=seconds,
        targets=[
            Target(f"{many}, against one", seconds[many] / seconds[one], 1 / 2, "x"),
            Target(f"{together}, against one process", seconds[together] / seconds[alone], 1 / 0.7, "x"),
            Target(f"{together}, the slowest commit of 100", slowest * 1e3, 200, "ms"),
            Target(f"{apart}, against one process", seconds[apart] / seconds[alone], 1 / 1.5, "x"),
        ],
    )


def _threads(url: str, threads: int, lasting: float) -> list[float]:
    """Return the seconds that each commit of some threads took, each to a session of its own."""
    took: list[float] = []
    said = messages(100, seed=1)
    with trails.open(url) as store:
        sessions = [filled(store, f"s{number}", said[:1]) for number in range(threads)]
        end = time.perf_counter() + lasting

        def write(session: trails.Session) -> None:
            number = count()
            while (now := time.perf_counter()) < end:
                add(session, [said[next(number) % len(said)]])
                took.append(time.perf_counter() - now)

        running = [threading.Thread(target=write, args=(session,)) for session in sessions]
        for each in running:
            each.start()
        for each in running:
            each.join()
    return took


# --- catching up and opening


def _catching_up(setting: Setting, server: Cluster) -> Result:
    """Measure what a process takes to get to know of commits that another one made: open, closed meanwhile, and new."""
    url = server.url("log")
    turns = min(setting.size.turns, _NEW)
    said = messages(turns, setting.seed)
    sync, behind, anew = "syncing them", f"opening with an index that lacks {turns:,}", "opening without an index"
    with ExitStack() as ended:
        writer = ended.enter_context(trails.open(url, create=True))
        for number in range(max(1, setting.size.scale // 2 // 500)):
            filled(writer, f"big{number}", messages(500, number))
        session = filled(writer, "s", said[:1])

        def commits() -> None:
            for each in said:
                add(session, [each])

        with _elsewhere(setting.folder / "other"), trails.open(url) as other:
            commits()
            seconds = {sync: timed(other.sync) / turns}
        commits()
        with _elsewhere(setting.folder / "other"):
            seconds[behind] = timed(lambda: trails.open(url).close())
        with _elsewhere(setting.folder / "new"):
            seconds[anew] = timed(lambda: trails.open(url).close())
        quads = len(writer.store)
    return Result(
        name="postgres catching up",
        title=f"{turns:,} commits of one turn that another process made, in a store of {quads:,} quads",
        baseline=sync,
        medians=seconds,
        targets=[
            Target("a record that is synced, at 5,000 in a second", seconds[sync] * 1e6, 200, "us"),
            Target(behind, seconds[behind], 0.5, "s"),
            Target(f"{anew}, from the first record", seconds[anew], 10, "s"),
        ],
    )


@contextmanager
def _elsewhere(caches: Path) -> Iterator[None]:
    """Open stores as another machine does: with an index of its own."""
    with _caches(caches):
        yield


# --- reading


def _reading(setting: Setting, server: Cluster) -> Iterator[Result]:
    """Measure reading, which is local, beside the embedded store that holds the same."""
    turns = setting.size.turns
    texts = KINDS["agent-like"](turns, setting.seed, TEXT_BYTES)
    embedded, away = "in a folder", "in PostgreSQL"
    with (
        trails.open(setting.folder / "store", create=True) as here,
        trails.open(server.url("read"), create=True) as there,
    ):
        stores = {embedded: here, away: there}
        for store in stores.values():
            for start in range(0, turns, 500):
                batch = texts[start : start + 500]
                filled(store, "s", batch) if start == 0 else add(store.load("s"), batch)
        for what, work in _READS.items():
            seconds = medians(
                [Contestant(who, _read(store, work)) for who, store in stores.items()], setting.size.rounds
            )
            yield Result(
                name=f"postgres {what}",
                title=f"{what} of {turns:,} agent-like turns",
                baseline=embedded,
                medians=seconds,
                targets=[Target(f"{what}, against the embedded store", seconds[away] / seconds[embedded], 1.1, "x")],
            )


_READS: Final[dict[str, Callable[[trails.Repository], object]]] = {
    "load": lambda store: list(store.load("s").turns),
    "query": lambda store: list(store.select("transcript", session="s")),
}


def _read(store: trails.Repository, work: Callable[[trails.Repository], object]) -> Callable[[], float]:
    return lambda: timed(lambda: work(store))
