"""Sessions read for the index in processes beside the one that writes it: reading them is two thirds of making it anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from trails import workers
from trails.plumbing.index.rows import SessionRow, TurnRow, all_turns, session_row
from trails.store.contract import QuadStore
from trails.store.embedded import EmbeddedStore
from trails.store.view import ViewStore

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


def read(store: QuadStore, session_ids: Sequence[str]) -> Iterator[tuple[str, Said]]:
    """Yield what the store says of sessions by their ids, no older than this call; not of all where it must be read here.

    A store in memory has nothing that another process could read.
    """
    if len(session_ids) < MANY or not _has_files(store) or not (processes := workers.count()):
        return
    pieces = [session_ids[at : at + _PIECE] for at in range(0, len(session_ids), _PIECE)]
    with suppress(workers.WorkersFailed):
        answers = workers.each(f"{__name__}:begin", store.location, pieces, max(1, processes - 1), ahead=_AHEAD)
        with closing(answers):  # type: ignore[type-var] # a generator
            for piece, said in answers:
                yield from zip(piece, said, strict=True)


def _has_files(store: QuadStore) -> bool:
    return isinstance(store, ViewStore) or (isinstance(store, EmbeddedStore) and store.location != ":memory:")


def begin(location: str) -> Callable[[Sequence[str]], list[Said]]:
    """Return what reads sessions, in a process of its own, by a look at the store that is no older than this process."""
    store = ViewStore(Path(location))

    def said(session_id: str) -> Said:
        row = session_row(store, session_id)
        return Said(row, [] if row is None else all_turns(store, row))

    return lambda piece: [said(session_id) for session_id in piece]
