"""Time every query of the catalogue on a store of 500,000 quads, and in rdflib on 12,000: `python -m benchmarks.audit`."""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox
import rdflib

import trails
from benchmarks.audit_store import DEEP, fill
from benchmarks.data import raw_engine
from trails import Repository
from trails.rdf import query_files

LARGE: Final[dict[str, int]] = {"turns": 5_000, "depth": 10, "families": 162, "size": 110}
"""About 500,000 quads, of which a transcript shows 5,000 turns over ten forks."""
SMALL: Final[dict[str, int]] = {"turns": 330, "depth": 10, "families": 4, "size": 40}
"""About 12,000 quads."""
QUICK: Final = frozenset({"context-window", "context-tool-outputs", "context-summarised-away", "transcript"})
"""What is asked of one turn, or of one transcript: 100 ms. All else: two seconds."""
_QUICK_BAR, _BAR, _RDFLIB_BAR = 0.1, 2.0, 10.0
_ROUNDS: Final = 2
_PATIENCE: Final = 20
"""Seconds of CPU after which a query is given up."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The least CPU time of some calls in seconds, the most that is promised, and the rows; None: it did not end in time."""

    name: str
    seconds: float | None
    bar: float
    rows: int

    @property
    def met(self) -> bool:
        """Whether it took no longer than is promised."""
        return self.seconds is not None and self.seconds <= self.bar


def values(store: Repository) -> dict[str, dict[str, Any]]:
    """Return values for what must be given to each query, by its name: the end of the long lineage, a turn, a text."""
    turns = store.load(DEEP).turns
    known: dict[str, Any] = {
        "session": DEEP,
        "other": f"{DEEP}-1",
        "index": len(turns) - 1,
        "at": len(turns) - 1,
        "turn": turns[-1].iri,
        "text": "until six",
        "tool": "search",
        "id": "m-0-0",
        "key": "urn:trails:meta:project",
    } | dict.fromkeys(("author", "person", "principal"), "alice")
    return {
        name: {each.name: known[each.name] for each in query.parameters if not each.optional}
        for name, query in query_files.catalogue().items()
    }


def cpu(done: Callable[[], int], rounds: int = _ROUNDS) -> tuple[float, int]:
    """Return the least CPU time of some rounds, in seconds, and how many rows there were."""
    best, rows = float("inf"), 0
    for _ in range(rounds):
        start = time.process_time()
        rows = done()
        best = min(best, time.process_time() - start)
    return best, rows


def on_disk(place: Path) -> Iterator[Timing]:
    """Time every query of the catalogue in the bare engine, each in a process of its own, and what Python asks of a session."""
    with trails.open(place) as store:
        for name, done in (
            ("store.query('transcript')", lambda: _count(store.query("transcript", session=DEEP))),
            ("store.query('influences')", lambda: _count(store.query("influences", session=DEEP, index=10_000))),
            ("store.context", lambda: len(store.context(DEEP).parts)),
            ("store.load", lambda: len(store.load(DEEP).turns)),
        ):
            seconds, rows = cpu(done)
            yield Timing(name, seconds, _QUICK_BAR if "transcript" in name or "context" in name else _BAR, rows)
        given = values(store)
    engine = raw_engine(place)
    for name, query in query_files.catalogue().items():
        bar = _QUICK_BAR if name in QUICK else _BAR
        yield _apart(name, partial(_rows_of, engine, query.bind(**given[name])), bar, _ROUNDS)


def _rows_of(engine: ox.Store | rdflib.Dataset, text: str) -> int:
    return _count(engine.query(text))


def _count(found: Any) -> int:
    return sum(1 for _ in found)


def in_rdflib(place: Path) -> Iterator[Timing]:
    """Time every query of the catalogue once in rdflib, each in a process of its own."""
    warnings.simplefilter("ignore", DeprecationWarning)
    dataset = rdflib.Dataset(default_union=False)
    with trails.open(place) as store:
        quads = ox.serialize(store.store.quads((None, None, None, None)), format=ox.RdfFormat.N_QUADS)
        dataset.parse(data=quads, format="nquads")
        given = values(store)
    for name, query in query_files.catalogue().items():
        yield _apart(name, partial(_rows_of, dataset, query.bind(**given[name])), _RDFLIB_BAR, 1)


def _apart(name: str, done: Callable[[], int], bar: float, rounds: int) -> Timing:
    """Time what is done in a process of its own, which may take so much CPU and no more: a query cannot be ended."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_limited, args=(done, rounds, theirs))
    process.start()
    theirs.close()
    try:
        seconds, rows = ours.recv()
    except EOFError:
        seconds, rows = None, 0
    process.join()
    print(name, seconds, rows, file=sys.stderr, flush=True)
    return Timing(name, seconds, bar, rows)


def _limited(done: Callable[[], int], rounds: int, answer: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_PATIENCE, _PATIENCE))
    answer.send(cpu(done, rounds))


def table(title: str, timings: Sequence[Timing]) -> str:
    """Return timings as a Markdown table, the slowest first."""
    lines = [f"## {title}", "", "| what | CPU | at most | met | rows |", "|---|---|---|---|---|"]
    for each in sorted(timings, key=lambda each: -(1e9 if each.seconds is None else each.seconds)):
        took = "did not end" if each.seconds is None else f"{each.seconds * 1000:,.0f} ms"
        lines.append(
            f"| `{each.name}` | {took} | {each.bar * 1000:,.0f} ms | {'yes' if each.met else 'NO'} | {each.rows:,} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the stores, time all queries, print the tables; exit with 1 where something took too long."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the stores are made, and left for the next time")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="trails-audit-") as place:
        folder = asked.folder or Path(place)
        missed = 0
        for name, size, timed, title in (
            ("large", LARGE, on_disk, "on disk"),
            ("small", SMALL, in_rdflib, "in rdflib"),
        ):
            quads = _make(folder / name, size)
            found = list(timed(folder / name))
            print(table(f"{quads:,} quads, {title}", found), flush=True)
            missed += sum(not each.met for each in found)
    return 1 if missed else 0


def _make(place: Path, size: dict[str, int]) -> int:
    """Make a store unless it is there, and return how many quads it has."""
    if not place.exists():
        print(f"building {place} ...", file=sys.stderr, flush=True)
        with trails.open(place, create=True, durability="process") as store:
            fill(store, **size)
    return len(raw_engine(place))


if __name__ == "__main__":
    sys.exit(main())
