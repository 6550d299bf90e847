"""The file `trails.json`, which makes a folder a store and says in which format: written last, replaced whole."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trails.errors import StoreFailed
from trails.files import open_own, read_own
from trails.store.syncing import sync_folder

FORMAT: Final = 3
"""The format that this version writes. It grows with every change that older versions cannot read.

Since format 3, who did a thing is who was named for it, and a copied turn has no activities of its own. Older versions would
take such copies and acts for damage, so the number had to rise. What format 2 holds is read, verified and left as it is:
such a store is opened without further ado, and its marker says 3, and how far its log was then, from the first commit on.
So nothing that only reads keeps an older version out, and `trails store upgrade` remains for those who want the backup first.
"""
OLDEST: Final = 2
"""The oldest format that this version opens; for those before, there is `trails store upgrade`."""
NAME: Final = "trails.json"


def read(folder: Path) -> dict[str, Any]:
    """Return what a store's marker says; raise `StoreFailed` where it says no format."""
    file = folder / NAME
    try:
        note = json.loads(read_own(file))
        if type(note["format"]) is not int:
            raise TypeError(f"its format is {note['format']!r}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreFailed(f"{file} cannot be read ({error}); restore the store from a backup") from error
    return dict(note)


def store_id(folder: Path) -> bytes:
    """Return the 16 bytes that tell a store and its copies from every other store; raise `StoreFailed` where there are none."""
    found = str(read(folder).get("id"))
    try:
        made = bytes.fromhex(found)
        if len(made) != 16:
            raise ValueError(f"{len(made)} bytes")
    except ValueError as error:
        raise StoreFailed(f"{folder / NAME} names no store ({error}); restore the store from a backup") from error
    return made


def write(folder: Path, note: dict[str, Any]) -> None:
    """Write a store's marker: it is on disk as a whole, or the one before it is."""
    temporary = folder / f"{NAME}.new"
    descriptor = open_own(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(note, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / NAME)
    sync_folder(folder)


def raised(note: dict[str, Any], lines: int) -> dict[str, Any]:
    """Return a marker of an older format as one of this version's; `lines` are those that its log has by then."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return note | {"format": FORMAT, "older": {"format": note["format"], "lines": lines, "until": when}}


def older(note: dict[str, Any], lines: int) -> dict[str, Any] | None:
    """Return what of a store was written in an older format: which, the `lines` of the log until then, and `until` when.

    None where that is nothing. A store of which nothing was written since says all its `lines`, and no time.
    """
    if note["format"] < FORMAT:
        return {"format": note["format"], "lines": lines, "until": None}
    found = note.get("older")
    return dict(found) if isinstance(found, dict) else None


def check(folder: Path, accept: int = FORMAT) -> None:
    """Accept a store whose format this version reads; raise `StoreFailed`, with the remedy, for any other.

    An upgrade may `accept` an older one.
    """
    found = read(folder)["format"]
    if found == accept or (accept == FORMAT and OLDEST <= found <= FORMAT):
        return
    if found < FORMAT:
        raise StoreFailed(
            f"the store {folder} has format {found}, and this version of Trails reads formats {OLDEST} to {FORMAT}; "
            f"bring it up with `trails store upgrade --store {folder}` (a backup is made first)"
        )
    if found > FORMAT:
        raise StoreFailed(
            f"the store {folder} has format {found}, and this version of Trails reads formats up to {FORMAT}; "
            "use the version of Trails that wrote it, or a newer one"
        )
