"""Reading a long session out of a store that was opened just now: all of it in several forms, and its end."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import trails
from benchmarks import peers
from benchmarks.data import KINDS, TEXT_BYTES, Message, closed_store, raw_engine, scan_columns
from benchmarks.harness import Contestant, Result, Setting, Stopwatch, Target, medians
from benchmarks.peers.peer import Peer
from benchmarks.scenarios.append import LENGTHS
from trails import Repository, Session

_RAW = "raw scans of the same columns"
_PEER = peers.SQLITE_SESSION
_LAST = 50
_Found = Sequence[Any] | Session
_FORMS: dict[str, Callable[[Repository], _Found]] = {
    "trails": lambda store: store.load("s"),
    "trails, every message as a dict": lambda store: store.replay("s"),
    "trails, every turn touched": lambda store: list(store.load("s").turns),
}
_END = f"trails, the last {_LAST}"
_BARS = {"trails": 0.4, "trails, every message as a dict": 0.8, "trails, every turn touched": 1.0}


def run(setting: Setting) -> list[Result]:
    """Measure Trails, the engine's own scans (into strings, not joined), and what the peers return."""
    found = []
    for kind, made in KINDS.items():
        for length, divided in LENGTHS.items():
            texts = made(max(60, setting.size.turns // divided), setting.seed, length)
            folder = setting.folder / f"{kind}-{length}"
            folder.mkdir()
            found += _measured(f"{kind} {length}", texts, folder, setting.size.rounds)
            shutil.rmtree(folder)
    return found


def _measured(kind: str, texts: Sequence[Message], place: Path, rounds: int) -> list[Result]:
    folder = closed_store(place / "store", "s", texts)
    there, missing = peers.installed(place)
    for peer in there.values():
        peer.fill(texts)
        peer.close()
    count, turns = len(texts), kind.replace(" ", " turns of ") + " bytes"
    seconds = medians(
        [
            *(Contestant(name, partial(_seconds, folder, ask, count)) for name, ask in _FORMS.items()),
            Contestant(_RAW, lambda: _scan_seconds(folder, count)),
            *(Contestant(name, _peer(name, place, lambda peer: peer.load(), count)) for name in there),
        ],
        rounds,
    )
    last = medians(
        [
            Contestant(_END, lambda: _seconds(folder, lambda store: store.load("s", last=_LAST).tail(_LAST), _LAST)),
            *(Contestant(name, _peer(name, place, lambda peer: peer.last(_LAST), _LAST)) for name in there),
        ],
        rounds,
    )
    promised = len(texts[0].text) == TEXT_BYTES
    return [
        Result(
            name=f"load {kind}",
            title=f"load {count:,} {turns} from a store opened just now",
            baseline=_PEER if _PEER in seconds else _RAW,
            medians=seconds,
            missing=missing,
            targets=_targets(seconds, _BARS) if promised else [],
        ),
        Result(
            name=f"last {kind}",
            title=f"the last {_LAST} of {count:,} {turns} from a store opened just now",
            baseline=_PEER if _PEER in last else _END,
            medians=last,
            missing=missing,
            targets=_targets(last, {_END: 1.5}) if promised else [],
        ),
    ]


def _targets(seconds: dict[str, float], bars: dict[str, float]) -> list[Target]:
    """Return what is promised of turns of 400 bytes, where the peer is installed."""
    if _PEER not in seconds:
        return []
    return [Target(f"{name}, against {_PEER}", seconds[name] / seconds[_PEER], bar, "x") for name, bar in bars.items()]


def load_seconds(folder: Path, session_id: str, expected: int) -> float:
    """Open a store, and return the seconds that loading a session with all its turns takes; opening is not counted."""
    return _seconds(folder, lambda store: list(store.load(session_id).turns), expected)


def _seconds(folder: Path, ask: Callable[[Repository], _Found], expected: int) -> float:
    watch = Stopwatch()
    with trails.open(folder) as store:
        with watch.timed():
            found = ask(store)
        assert len(found) == expected
    return watch.seconds


def _scan_seconds(folder: Path, expected: int) -> float:
    watch = Stopwatch()
    engine = raw_engine(folder)
    with watch.timed():
        columns = scan_columns(engine, "s")
    assert [len(column) for column in columns] == [expected] * len(columns)
    return watch.seconds


def _peer(name: str, folder: Path, ask: Callable[[Peer], _Found], expected: int) -> Callable[[], float]:
    def one_round() -> float:
        found: list[_Found] = []
        peer = peers.reopened(name, folder)
        seconds = peers.seconds(peer, lambda: found.append(ask(peer)))
        peer.close()
        assert [len(one) for one in found] == [expected]
        return seconds

    return one_round
