"""Sessions checked in processes beside this one where that is worth it, and by threads of this one where it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from trails import workers
from trails.history.reader import Reader
from trails.history.turn_reader import QuadTurns, RowTurns
from trails.model.values import SessionRecord
from trails.plumbing.verifying.checking import Basis, Checked, check
from trails.plumbing.verifying.known import known
from trails.rows.store_rows import StoreRows
from trails.store.contract import QuadStore
from trails.store.view import ViewStore, seen_at

MANY: Final = 20_000
"""Turns from which on processes are started: that takes as long as some thousand turns."""
MANY_PLAIN: Final = 400_000
"""The same where turns are plain. The engine works for most of that time, and threads share what it has unpacked: so they keep
two cores busy, and processes are for more of those.
"""
_PLAIN: Final = 12
"""Quads a turn, of all that a store has, up to which most turns are plain: such a one has ten."""
_PIECE: Final = 500
"""Turns that a process is given at a time, at least."""


class Given(NamedTuple):
    """What a process is told at its beginning."""

    location: str
    records: Mapping[str, SessionRecord]
    since: int | None
    has_rows: bool
    counts: bool


def checked(basis: Basis, turns: Mapping[str, int]) -> Iterator[Checked]:
    """Yield what comes of sessions, some at a time; `turns` is by session about how many it has."""
    left, total = dict(turns), sum(turns.values())
    place = seen_at(basis.store)
    if left and place is not None and total >= _least(basis.store, total) and (processes := workers.count()):
        with suppress(workers.WorkersFailed):  # what they did not come to is done here
            for piece, done in workers.each(_BEGIN, _given(basis, place), _pieces(left), processes):
                for session_id in piece:
                    del left[session_id]
                yield done
    with ThreadPoolExecutor(max_workers=3, thread_name_prefix="trails-verify") as pool:
        # the engine reads for one while another's digests are computed
        yield from pool.map(lambda session_id: check(basis, [session_id]), left)


def _least(store: QuadStore, turns: int) -> int:
    """Return from how many turns on processes are worth it for a store that has so many."""
    return MANY if turns < MANY or len(store) > _PLAIN * turns else MANY_PLAIN


def _pieces(turns: Mapping[str, int]) -> list[Sequence[str]]:
    """Return sessions as pieces of work, the longest first: else all might wait for one that is begun last."""
    pieces, piece, size = list[Sequence[str]](), list[str](), 0
    for session_id in sorted(turns, key=turns.__getitem__, reverse=True):
        piece.append(session_id)
        size += turns[session_id]
        if size >= _PIECE:
            pieces.append(piece)
            piece, size = [], 0
    return [*pieces, piece] if piece else pieces


_BEGIN: Final = f"{__name__}:begin"


def _given(basis: Basis, place: Path) -> Given:
    return Given(str(place), basis.records, basis.known.since, basis.rows is not None, basis.counts)


def begin(given: Given) -> Callable[[Sequence[str]], Checked]:
    """Return what checks sessions, in a process of its own, by a look at the store that is no older than this process."""
    store = ViewStore(Path(given.location))
    rows = RowTurns(StoreRows(store), QuadTurns(store)) if given.has_rows else None
    basis = Basis(store, Reader(store), given.records, known(store, given.since), rows, given.counts)
    return lambda session_ids: check(basis, session_ids)
