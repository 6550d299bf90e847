"""A mirror in Oxigraph's server: fed once, and following a writer of 2,000 turns a second."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import Final

import trails
from benchmarks import writing
from benchmarks.data import TEXT_BYTES, filled, messages
from benchmarks.harness import Result, Setting, Target, child_environment, timed
from tests.support import sparql_servers
from trails import Mirror
from trails.exchange.remotes.mirror_endpoint import Endpoint
from trails.rdf import vocab

_RATE: Final = 2_000
"""Turns a second that a mirror is to follow."""
_SECONDS: Final = {"tiny": 2.0, "quick": 6.0}
"""How long the writer writes, by size."""
_TURNS: Final = f"SELECT (COUNT(*) AS ?n) {{ GRAPH ?session {{ ?turn a {vocab.TURN} }} }}"


def run(setting: Setting) -> list[Result]:
    """Measure a server of its own, where Oxigraph's is installed."""
    if sparql_servers.program("oxigraph") is None:
        print(sparql_servers.OXIGRAPH_MISSING, file=sys.stderr)
        return []
    return [_once(setting), _following(setting)]


def _once(setting: Setting) -> Result:
    """Measure all of a store, and its next turn, sent to an empty server."""
    turns = setting.size.turns
    all_of_it, one_more = "all of it", "one turn more"
    with (
        sparql_servers.oxigraph(setting.folder / "once") as url,
        trails.open(setting.folder / "whole", create=True, durability="process") as store,
    ):
        session = filled(store, "s", messages(turns, setting.seed, TEXT_BYTES))
        mirror = Mirror(store, url)
        seconds = {all_of_it: timed(mirror.sync)}
        session.append("user", "one more")
        session.persist()
        seconds[one_more] = timed(mirror.sync)
        assert mirror.verify().ok
    return Result(
        name="mirror once",
        title=f"a mirror of {turns:,} plain turns of {TEXT_BYTES} bytes in Oxigraph's server",
        baseline=all_of_it,
        medians=seconds,
    )


def _following(setting: Setting) -> Result:
    """Measure how long after a turn was written a mirror that follows has it, and until it has the last one."""
    lasting = _SECONDS.get(setting.size.name, 45.0)
    place = setting.folder / "store"
    trails.open(place, create=True).close()
    with (
        sparql_servers.oxigraph(setting.folder / "followed") as url,
        writing.started(str(place), "s", lasting, _RATE) as writer,
    ):
        mirror = subprocess.Popen(
            [sys.executable, "-m", "trails", "mirror", str(place), url, "--follow"],
            env=child_environment(),
            stdout=subprocess.DEVNULL,
        )
        try:
            there = Endpoint(url)
            _wait_until(there, 0)
            writing.go(writer)
            writing.wrote(writer)
            ended, had = time.perf_counter(), _turns(there)
            with trails.open(place, read_only=True) as store:
                written = len(store.load("s"))
            _wait_until(there, written)
            level = time.perf_counter() - ended
        finally:
            mirror.send_signal(signal.SIGINT)
            mirror.wait()
    behind = written - had
    return Result(
        name="mirror following",
        title=f"a mirror in Oxigraph's server beside a writer of {_RATE:,} plain turns a second for {lasting:g} s",
        baseline="the writer",
        medians={"the writer": lasting, "the mirror, after it, until it is level": level},
        counts={"turns written": written, "turns that the mirror lacks when the writer ends": behind},
        targets=[
            Target("a turn written, at 2,000 a second", 1e6 * lasting / written, 525, "us"),
            Target("behind, of what is written in a second", behind / _RATE, 5, "x"),
        ],
    )


def _turns(there: Endpoint) -> int:
    (row,) = there.select(_TURNS)
    return int(row["n"].value)


def _wait_until(there: Endpoint, turns: int) -> None:
    while _turns(there) < turns:
        time.sleep(0.1)
