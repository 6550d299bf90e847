"""Bringing a store of an older format up to the one of this version, step by step, after a backup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from trails.errors import InvalidInput, StoreFailed
from trails.store import maintenance, marker
from trails.store.lockfile import LockFile


@dataclass(frozen=True, slots=True)
class Migration:
    """How a store gets from one format to the next.

    `run` gets the store's folder, which nobody else has open, and returns what the user should know of it, or "". It may
    be cut short and run again: doing it twice must come to the same.
    """

    description: str
    run: Callable[[Path], str]


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What `upgrade` did: the formats before and after, the steps, and where the backup is (None: nothing was to do).

    `notes` say what the steps found that somebody should know.
    """

    before: int
    after: int
    steps: tuple[str, ...]
    backup: str | None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return asdict(self)


def upgrade(
    folder: Path,
    *,
    backup: Path | None = None,
    migrations: Mapping[int, Migration],
    target: int = marker.FORMAT,
) -> Upgraded:
    """Bring a store up to the newest format; a store that is there already is left as it is.

    A backup is made first: at `backup`, else beside the store. An upgrade that was cut short goes on when it is run
    again, and keeps the backup from before it began.

    Raises `InvalidInput` where there is no store, `StoreLocked` where it is open, `StoreFailed` for a format that no
    migration starts from or that is newer than this version's.
    """
    if not (folder / marker.NAME).is_file():
        raise InvalidInput(f"there is no Trails store at {folder}; check the path")
    lock = LockFile(folder / maintenance.LOCK)
    try:
        note = marker.read(folder)
        before = note["format"]
        if before == target:
            return Upgraded(before, before, (), None)
        steps = _steps(folder, before, migrations, target)
        kept = _backed_up(folder, note, backup)
        marker.write(folder, note | {"backup": str(kept)})
        notes = []
        for number, step in enumerate(steps, before):
            notes.append(step.run(folder))
            marker.write(folder, marker.read(folder) | {"format": number + 1})
        marker.write(folder, {key: value for key, value in marker.read(folder).items() if key != "backup"})
        done = tuple(step.description for step in steps)
        return Upgraded(before, target, done, str(kept), tuple(filter(None, notes)))
    finally:
        lock.release()


def _steps(folder: Path, before: int, migrations: Mapping[int, Migration], target: int) -> list[Migration]:
    if before > target:
        raise StoreFailed(
            f"the store {folder} has format {before}, and this version of Trails knows formats up to {target}; "
            "use the version of Trails that wrote it, or a newer one"
        )
    missing = next((number for number in range(before, target) if number not in migrations), None)
    if missing is not None:
        raise StoreFailed(
            f"the store {folder} has format {before}, and no migration leads from format {missing} on; "
            "use a version of Trails that still reads it, dump it there, and load the dump"
        )
    return [migrations[number] for number in range(before, target)]


def _backed_up(folder: Path, note: Mapping[str, Any], wanted: Path | None) -> Path:
    """Copy a store before it is changed, or find the copy that an upgrade which was cut short has made; return its place."""
    earlier = note.get("backup")
    if isinstance(earlier, str) and (Path(earlier) / marker.NAME).is_file():
        return Path(earlier)
    place = wanted or _free_place(folder, note["format"])
    maintenance.refuse_inside(folder, place)
    with maintenance.staged(place) as part:
        maintenance.copy_store(folder, part, locked=True)
    return place


def _free_place(folder: Path, number: int) -> Path:
    first = folder.with_name(f"{folder.name}.format-{number}.backup")
    more = (first.with_name(f"{first.name}-{again}") for again in count(2))
    return first if not first.exists() else next(place for place in more if not place.exists())
