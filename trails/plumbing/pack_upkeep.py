"""Packs as a whole: whether they say what the store does, and making them anew."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from trails.errors import TrailsError
from trails.history.reader import Reader
from trails.model import lineage
from trails.model.values import Finding
from trails.plumbing.index import checks
from trails.plumbing.packs import files
from trails.plumbing.packs.block import Damaged
from trails.plumbing.packs.keeper import FOLDER, Packs
from trails.store import maintenance
from trails.store.doctor import Check

_MADE_ANEW = "`trails store vacuum` makes it anew; the folder {folder} may be removed at any time"


def findings(packs: Packs, reader: Reader, doubted: Collection[str]) -> Iterator[Finding]:
    """Yield a finding for each doubted session whose pack would be believed and says other of it than the store does."""
    stored = reader.unpacked
    for session_id in sorted(doubted):
        with suppress(OSError, ValueError, TrailsError):  # nobody can read it, so nobody is misled by it
            epoch, differs = packs.epoch, _differs(packs, stored, session_id)
            if differs and packs.is_at_rest and packs.epoch == epoch:
                yield Finding(
                    code="pack-differs",
                    message="its pack says other of it than the store does, which is right; "
                    f"{_MADE_ANEW.format(folder=packs.folder)}",
                    session_id=session_id,
                )


def _differs(packs: Packs, stored: Reader, session_id: str) -> bool:
    record = stored.records([session_id]).get(session_id)
    if record is None:
        return False
    (blocks,) = packs.blocks([lineage.Segment(record, record.starts_at, None)])
    try:
        turns = [turn for block in blocks for turn in block.turns(block.start, block.end)]
    except Damaged:
        return True
    if not turns:
        return False
    return turns != stored.own_turns(lineage.Segment(record, record.starts_at, turns[-1].index + 1))


def rebuild(packs: Packs, reader: Reader) -> None:
    """Make anew the packs that there are, of what the store says."""
    lasts = []
    for path in packs.there():
        with suppress(OSError):
            lasts.append(files.last(path))
    packs.empty()
    for session_id in sorted({last.session_id for last in lasts if last is not None}):
        now = packs.now()
        record = reader.records([session_id]).get(session_id)
        if record is not None:
            with suppress(TrailsError):  # what cannot be read is not packed
                packs.note(record, reader.unpacked.own_turns(lineage.Segment(record, record.starts_at, None)), now)
            packs.bring_up()


def look(folder: Path) -> Check:
    """Return what doctor says of the packs of the store in a folder; nothing is changed."""
    place = folder / maintenance.INDEX / FOLDER
    if wrong := checks.closed("packs", place.parent) or checks.closed("packs", place):
        return wrong
    there = files.all_of(place)
    damaged = sum(_is_damaged(path) for path in there)
    if damaged:
        return Check("packs", False, f"{damaged:,} of {len(there):,} are damaged", _MADE_ANEW.format(folder=place))
    return Check("packs", True, f"{len(there):,} transcripts are packed" if there else "there are none yet")


def _is_damaged(path: Path) -> bool:
    try:
        return files.last(path) is None and not files.is_earlier(path)
    except OSError:
        return True
