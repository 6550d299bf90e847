"""Sessions read for the index in processes beside the one that writes it: reading them is two thirds of making it anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from trails import workers
from trails.errors import StoreFailed
from trails.plumbing.index.rows import SessionRow, TurnRow, all_turns, session_row
from trails.store.contract import QuadStore
from trails.store.view import ViewStore, seen_at

MANY: Final = 500
"""Sessions from which on processes are started."""
_PIECE: Final = 10
"""Sessions that a process is given at a time."""
_AHEAD: Final = 8
"""How many pieces may wait to be written."""


class Said(NamedTuple):
    """What the store says of a session."""

    row: SessionRow | None
    """None where it is gone."""
    turns: Sequence[TurnRow]


class _Given(NamedTuple):
    location: str
    lines: int


def read(store: QuadStore, session_ids: Sequence[str]) -> Iterator[tuple[str, Said]]:
    """Yield what the store says of sessions by their ids, no older than this call; not of all where it must be read here.

    A store in memory has nothing that another process could read.
    """
    place = seen_at(store)
    if len(session_ids) < MANY or place is None or not (processes := workers.count()):
        return
    pieces = [session_ids[at : at + _PIECE] for at in range(0, len(session_ids), _PIECE)]
    given = _Given(str(place), store.log.reached.lines)
    with suppress(workers.WorkersFailed):
        answers = workers.each(f"{__name__}:begin", given, pieces, processes, ahead=_AHEAD)
        with closing(answers):  # type: ignore[type-var] # a generator
            for piece, said in answers:
                yield from zip(piece, said, strict=True)


def begin(given: _Given) -> Callable[[Sequence[str]], list[Said]]:
    """Return what reads sessions, in a process of its own, of the store as it is when the process begins.

    Raises `StoreFailed` where the look that this process can have is older than that of the one that asks.
    """
    store = ViewStore(Path(given.location))
    if store.log.reached.lines < given.lines:
        raise StoreFailed(f"another process sees the store {given.location} as it was before the last commits")

    def said(session_id: str) -> Said:
        row = session_row(store, session_id)
        return Said(row, [] if row is None else all_turns(store, row))

    return lambda piece: [said(session_id) for session_id in piece]
