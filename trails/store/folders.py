"""The folder that a store is in: which one a path means, whether it is one, and making it."""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path

from trails.errors import InvalidInput
from trails.store import maintenance, marker
from trails.store.commitlog import RecordFiles
from trails.store.leaflog import NOTHING
from trails.store.syncing import sync_folder


def absolute(path: str | Path) -> Path:
    """Return a path that means the same after `os.chdir`: the engine follows a relative one into other folders.

    `~` at its start is the home folder. Raises `InvalidInput` where no home folder, or no working folder, is there.
    """
    try:
        return Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 - links are kept as they are
    except (OSError, RuntimeError) as error:
        raise InvalidInput(f"{path} cannot be made an absolute path: {error}") from error


def prepare(path: Path, *, create: bool, accept: int = marker.FORMAT) -> None:
    """Make sure that `path` is a store's folder, creating one only when asked to; nothing else is ever touched."""
    if (path / marker.NAME).is_file():
        marker.check(path, accept)
        return
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"{path} is a file, not a Trails store; name a folder")
    if path.is_dir() and not _is_barely_begun(path):
        raise InvalidInput(
            f"the folder {path} is no Trails store ({marker.NAME} is missing) and is not empty; name another"
        )
    if not create:
        raise InvalidInput(f"there is no Trails store at {path}; check the path, or create one (create=True)")
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    (path / maintenance.QUADS).mkdir(mode=0o700, exist_ok=True)
    made = secrets.token_bytes(16)
    RecordFiles.make(path / maintenance.COMMITS, made, NOTHING)
    note = {"format": marker.FORMAT, "id": made.hex(), "created": datetime.now(UTC).isoformat(timespec="seconds")}
    marker.write(path, note)  # last: a folder with it is a whole store
    for folder in missing or [path]:
        sync_folder(folder.parent)


def _is_barely_begun(path: Path) -> bool:
    """Tell whether a folder is empty, or all that it holds is what a killed process left of making a store in it."""
    quads = path / maintenance.QUADS
    others = {entry.name for entry in path.iterdir()} - {quads.name, maintenance.COMMITS, f"{marker.NAME}.new"}
    return not others and (not quads.exists() or (quads.is_dir() and not any(quads.iterdir())))
