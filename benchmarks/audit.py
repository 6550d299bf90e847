"""Time every query of the catalogue on a store of 500,000 quads, and in rdflib on 12,000: `python -m benchmarks.audit`."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox
import rdflib

import trails
from benchmarks.audit_store import DEEP, fill
from trails import Repository, queries

LARGE: Final[dict[str, int]] = {"turns": 5_000, "depth": 10, "families": 162, "size": 110}
"""About 500,000 quads, of which a transcript shows 5,000 turns over ten forks."""
SMALL: Final[dict[str, int]] = {"turns": 330, "depth": 10, "families": 4, "size": 40}
"""About 12,000 quads."""
QUICK: Final = frozenset(
    {"context-window", "context-tool-outputs", "context-summarised-away", "influences", "transcript"}
)
"""What is asked of one turn, or of one transcript: 100 ms. All else: two seconds."""
_QUICK_BAR, _BAR, _RDFLIB_BAR = 0.1, 2.0, 10.0
_ROUNDS: Final = 3


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


def values_of(store: Repository, query: queries.QueryFile) -> dict[str, Any]:
    """Return values for the parameters of a query that must be given: the end of the long lineage, a turn, a text."""
    last = len(store.load(DEEP)) - 1
    known: dict[str, Any] = {
        "session": DEEP,
        "other": f"{DEEP}-1",
        "index": last,
        "author": "alice",
        "person": "alice",
        "principal": "alice",
        "turn": store.load(DEEP).turns[last].iri,
        "text": "in as many",
        "tool": "search",
        "id": "m-0-0",
        "key": "urn:trails:meta:project",
    }
    return {each.name: known[each.name] for each in query.parameters if not each.optional}


def cpu(done: Callable[[], int], rounds: int = _ROUNDS) -> tuple[float, int]:
    """Return the least CPU time of some rounds, in seconds, and how many rows there were."""
    best, rows = float("inf"), 0
    for _ in range(rounds):
        start = time.process_time()
        rows = done()
        best = min(best, time.process_time() - start)
    return best, rows


def on_disk(store: Repository) -> Iterator[Timing]:
    """Time every query of the catalogue, and what Python asks of one transcript."""
    for name, query in queries.catalogue().items():
        text = query.bind(**values_of(store, query))
        seconds, rows = cpu(lambda text=text: _count(store.store.query(text)))  # type: ignore[misc] # bound at once
        yield Timing(name, seconds, _QUICK_BAR if name in QUICK else _BAR, rows)
    for name, done in (
        ("store.query('transcript')", lambda: len(store.query("transcript", session=DEEP))),  # type: ignore[arg-type] # rows
        ("store.query('influences')", lambda: len(store.query("influences", session=DEEP, index=10_000))),  # type: ignore[arg-type]
        ("store.context", lambda: len(store.context(DEEP).parts)),
        ("store.load", lambda: len(store.load(DEEP).turns)),
    ):
        yield Timing(name, *_with_bar(cpu(done)))


def _with_bar(timed: tuple[float, int]) -> tuple[float, float, int]:
    return timed[0], _QUICK_BAR, timed[1]


def _count(found: Any) -> int:
    return int(found) if isinstance(found, bool) else sum(1 for _ in found)


def in_rdflib(store: Repository) -> Iterator[Timing]:
    """Time every query of the catalogue once in rdflib; one that takes three times what is promised is given up."""
    quads = ox.serialize(store.store.quads((None, None, None, None)), format=ox.RdfFormat.N_QUADS)
    warnings.simplefilter("ignore", DeprecationWarning)
    dataset = rdflib.Dataset(default_union=False)
    dataset.parse(data=quads, format="nquads")
    context = multiprocessing.get_context("fork")
    for name, query in queries.catalogue().items():
        text, (ours, theirs) = query.bind(**values_of(store, query)), context.Pipe(duplex=False)
        process = context.Process(target=_asked, args=(dataset, text, theirs))
        process.start()
        done = ours.poll(_RDFLIB_BAR * 3)
        yield _timing(name, ours, done)
        process.kill()
        process.join()


def _timing(name: str, ours: Any, done: bool) -> Timing:
    seconds, rows = ours.recv() if done else (None, 0)
    return Timing(name, seconds, _RDFLIB_BAR, rows)


def _asked(dataset: rdflib.Dataset, text: str, answer: Any) -> None:
    answer.send(cpu(lambda: _count(dataset.query(text)), rounds=1))


def table(title: str, timings: Sequence[Timing]) -> str:
    """Return timings as a Markdown table, the slowest first."""
    lines = [f"## {title}", "", "| what | CPU | at most | met | rows |", "|---|---|---|---|---|"]
    for each in sorted(timings, key=lambda each: -(each.seconds or 1e9)):
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
            with _made(folder / name, size) as store:
                quads = store.store.query(
                    "SELECT (COUNT(*) AS ?n) WHERE { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"
                )
                found = list(timed(store))
                print(table(f"{int(next(iter(quads))[0].value):,} quads, {title}", found), flush=True)  # type: ignore[arg-type,index] # a SELECT
                missed += sum(not each.met for each in found)
    return 1 if missed else 0


def _made(place: Path, size: dict[str, int]) -> Repository:
    if place.exists():
        return trails.open(place)
    print(f"building {place} ...", file=sys.stderr, flush=True)
    store = trails.open(place, create=True, durability="process")
    fill(store, **size)
    store.store.flush()
    return store


if __name__ == "__main__":
    sys.exit(main())
