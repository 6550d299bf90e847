"""The folders in which indexes of stores in PostgreSQL stand. Each belongs to one process at a time and may be deleted.

They are in `$XDG_CACHE_HOME/trails`, or `~/.cache/trails`, by the id of the store; a new index gets a new name.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trails.errors import StoreFailed
from trails.integrity import leaves
from trails.store import maintenance, marker
from trails.store.commitlog import Leaves, RecordFiles
from trails.store.leaflog import NOTHING
from trails.store.postgres.records import lines_of
from trails.store.syncing import write_all

_PLACE: Final = "place.json"
_SIZE: Final = 512


@dataclass(frozen=True, slots=True)
class Place:
    """Which records an index may have, with their digests: those up to the first number, or those up to the second.

    It is written before the index gets what comes between, so one of the two holds whenever the process ends.
    `erased` is at which number the store had last been vacuumed when the index's files were made, `erased_at` up to which
    line of the log of leaves others have taken out what packs that were made before may hold.
    """

    digests: dict[int, str]
    erased: int
    erased_at: int

    def digest(self, number: int) -> bytes | None:
        """Return the digest that the record with a number had, None where the index cannot end with that."""
        found = self.digests.get(number)
        return None if found is None else bytes.fromhex(found)


def folder_of(store_id: str) -> Path:
    """Return the folder of all indexes of a store on this machine."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"  # noqa: PTH117 - as the XDG specification has it
    return root / "trails" / store_id


def found(store_id: str) -> list[Path]:
    """Return the indexes of a store that were made whole, the one used last first. Another process may have them open."""
    whole = [place.parent for place in folder_of(store_id).glob(f"*/{_PLACE}")]
    return sorted(whole, key=_used, reverse=True)


def _used(index: Path) -> float:
    with suppress(OSError):
        return (index / _PLACE).stat().st_mtime
    return 0.0


def make(store_id: str, number: int, rows: Iterable[bytes]) -> Path:
    """Make the folder of an index that begins after a record, with the leaves of all records until there, without quads."""
    index = folder_of(store_id) / secrets.token_hex(6)
    try:
        return _made(index, store_id, number, rows)
    except OSError as error:
        discard(index)
        raise StoreFailed(f"no index can be made at {index} ({error}); make room, or set XDG_CACHE_HOME") from error


def _made(index: Path, store_id: str, number: int, rows: Iterable[bytes]) -> Path:
    index.mkdir(mode=0o700, parents=True)
    (index / maintenance.QUADS).mkdir(mode=0o700)
    lines = [line for each in rows for line in lines_of(each)]
    text = "".join(f"{line}\n" for line in lines).encode()
    (index / maintenance.LOG).write_bytes(text)
    reached = Leaves(len(lines), len(text), leaves.link_leaf(lines[-1])) if lines else NOTHING
    store = bytes.fromhex(store_id)
    RecordFiles.make(index / maintenance.COMMITS, store, reached, number + 1)
    made = datetime.now(UTC).isoformat(timespec="seconds")
    marker.write(index, {"format": marker.FORMAT, "id": store.hex(), "created": made})
    return index


def disown(index: Path) -> None:
    """Let an index be none any more, while its files are still there."""
    with suppress(OSError):
        (index / _PLACE).unlink(missing_ok=True)


def discard(index: Path) -> None:
    """Delete an index that is in doubt."""
    disown(index)  # first: what is half deleted is no index
    shutil.rmtree(index, ignore_errors=True)


def place(index: Path) -> Place | None:
    """Return which records an index may have; None where it does not say so."""
    try:
        note = json.loads((index / _PLACE).read_text("utf-8"))
        digests = {int(number): str(digest) for number, digest in note["digests"].items()}
        return Place(digests, int(note["erased"]), int(note["erased_at"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def note(index: Path, digests: dict[int, bytes], erased: int, erased_at: int) -> None:
    """Write down which records an index may have, in one write; raise `StoreFailed` where it is gone or cannot be written."""
    named = {f"{number}": digest.hex() for number, digest in digests.items()}
    said = {"digests": named, "erased": erased, "erased_at": erased_at}
    try:
        descriptor = os.open(index / _PLACE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, json.dumps(said).encode().ljust(_SIZE), 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreFailed(
            f"the index at {index} cannot be written ({error}); what was committed is in the log: open the store again, which "
            "makes a new index where there is room"
        ) from error
