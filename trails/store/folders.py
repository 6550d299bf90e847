"""The folder that a store is in: which one a path means, whether it is one, and making it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from trails.errors import InvalidInput, StoreFailed
from trails.files import link_refused, sync_folder
from trails.store.index import index_folder
from trails.store.log import locks, sqlite

OLD_MARKER: Final = "trails.json"
"""What makes a folder a store of an earlier format."""
_LEFT: Final = ("quads", "commits", "log", "lock", "position", "index", "past", "quads.new", "quads.old", "backup.new")
"""What a store of the format before this one has beside its marker."""
_OURS: Final = frozenset({index_folder.NAME, locks.NAME, f"{sqlite.NAME}-wal", f"{sqlite.NAME}-shm"})


def absolute(path: str | Path) -> Path:
    """Return a path that means the same after `os.chdir`: the engine follows a relative one into other folders.

    `~` at its start is the home folder. Raises `InvalidInput` if there is no home folder, or no working folder.
    """
    try:
        return Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 - links are kept as they are
    except (OSError, RuntimeError) as error:
        raise InvalidInput(f"{path} cannot be made an absolute path: {error}") from error


def is_store(path: Path) -> bool:
    """Tell whether a folder holds a store, of whatever format."""
    return (path / sqlite.NAME).is_file() or is_old(path)


def is_old(path: Path) -> bool:
    """Tell whether a folder holds a store of an earlier format."""
    return (path / OLD_MARKER).is_file() and not (path / sqlite.NAME).is_file()


def _prepare_present(path: Path, *, create: bool) -> bool:
    """Look after a folder that has a log; return whether the log may have to be made."""
    refuse_links(path)
    if (path / OLD_MARKER).exists() and os.access(path, os.W_OK):
        remove_old(path)
    if not create and not (path / sqlite.NAME).stat().st_size:
        raise StoreFailed(
            f"the log of {path} is empty: its text was lost, or its creation was interrupted; restore a backup, or make the "
            "store again with `trails init` (create=True)"
        )
    return create


def prepare(path: Path, *, create: bool) -> bool:
    """Make sure that `path` is a store's folder, and make it if asked to; return whether its log may have to be made.

    Nothing else is ever touched.
    """
    if is_old(path):
        raise StoreFailed(
            f"the store {path} has the format of an earlier version of Trails; bring it up with `trails store upgrade --store "
            f"{path}` (a backup is made first)"
        )
    if (path / sqlite.NAME).is_file():
        return _prepare_present(path, create=create)
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"{path} is a file, not a Trails store; name a folder")
    if path.is_dir() and {entry.name for entry in path.iterdir()} - _OURS:
        raise InvalidInput(
            f"the folder {path} is no Trails store ({sqlite.NAME} is missing) and is not empty; name another"
        )
    if not create:
        raise InvalidInput(f"there is no Trails store at {path}; check the path, or create one (create=True)")
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
        for folder in missing or [path]:
            sync_folder(folder.parent)
    except NotADirectoryError as error:
        raise InvalidInput(f"no store can be at {path}: part of that path is a file; name a folder") from error
    except OSError as error:
        raise StoreFailed(f"the store {path} cannot be made: {error}") from error
    return True


def refuse_links(folder: Path) -> None:
    """Raise `StoreFailed` if anything in a store's folder is a link."""
    linked = sorted(entry.name for entry in os.scandir(folder) if entry.is_symlink())
    if linked:
        raise StoreFailed(link_refused(folder / linked[0]))


def remove_old(folder: Path) -> None:
    """Remove what an upgrade that was cut short left of the old files. Nobody needs them: the new log is there."""
    if (folder / OLD_MARKER).exists() and (folder / sqlite.NAME).is_file():
        for name in _LEFT:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        (folder / OLD_MARKER).unlink()  # last: it says that there is something to be removed
        sync_folder(folder)
