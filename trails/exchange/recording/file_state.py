"""Keep what was read of each file, so that a file that did not change is not read again.

It is a help and no record: without it all files are read again, and nothing comes in twice. It is believed as long as the
store's log still reaches to where it reached when it was written; a store that was restored or made anew begins from nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from trails.errors import InvalidInput
from trails.exchange.recording.user_state import state_folder
from trails.files import private_folders
from trails.session import Repository
from trails.store.leaflog import Leaves

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, read TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reached (id INTEGER PRIMARY KEY CHECK (id = 1), lines INTEGER, number INTEGER, link TEXT);
"""
_PATIENCE: Final = 5.0
"""Seconds that a write waits for another watcher's."""


@dataclass(frozen=True, slots=True)
class FileRead:
    """What was read of one file."""

    stamp: tuple[int, ...] = ()
    """What tells whether it changed, see `transcript_files.stamp_of`."""
    format: str = ""
    """The format's name; empty for a file that is no transcript."""
    due: float | None = None
    """When it is read again although it did not change (seconds since 1970): what it ends with was kept back."""
    held_since: float | None = None
    """Since when something at its end is kept back, although it may be whole."""
    offset: int = 0
    """How many bytes of it are in the store, all lines whole; 0 if only the whole file tells."""
    line: int = 0
    """How many lines these are."""
    check: str = ""
    """A digest of its beginning, and of the bytes before `offset`: what tells that it only grew."""
    head_end: int = 0
    """Where the beginning ends that is read with every later part."""
    resume: int = 0
    """Where reading begins again when it grows: a place before `offset`."""
    resume_line: int = 0
    """How many lines come before that."""


def state_file(repository: Repository) -> Path:
    """Return the file with what was read for a store."""
    name = hashlib.sha256(repository.store.location.encode()).hexdigest()[:24]
    return state_folder() / f"watch-{name}.db"


def _check_ours(path: Path) -> None:
    """Raise `InvalidInput` for a file that is no watcher's: it is left as it is."""
    is_ours = path.is_file()
    if is_ours and path.stat().st_size:
        with path.open("rb") as file:
            is_ours = file.read(16) == b"SQLite format 3\0"
        with (
            suppress(sqlite3.DatabaseError),
            closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as found,
        ):
            tables = {name for (name,) in found.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            is_ours = is_ours and tables <= {"files", "reached"}
    if not is_ours:
        raise InvalidInput(
            f"{path} is there and is no state of a watcher: name another file (--state), or move it away"
        )


class FileStates:
    """What was read of each file for one store; several watchers may share it."""

    def __init__(self, path: Path | None) -> None:
        """Open the state at a path, which is made if it is not there; without one it is in memory alone."""
        self._path = path
        if path is not None and path.exists():
            _check_ours(path)
        if path is not None and not path.parent.exists():
            with private_folders():
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._db = self._open()
        except sqlite3.OperationalError as error:
            raise InvalidInput(
                f"the state of the watcher cannot be kept in {path}: {error}; name another file (--state)"
            ) from error
        except sqlite3.DatabaseError:  # a damaged one tells nothing that reading the files again does not
            for name in ("", "-wal", "-shm"):
                Path(f"{path}{name}").unlink(missing_ok=True)
            self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path or ":memory:", timeout=_PATIENCE, isolation_level=None)
        try:
            if self._path is not None:
                database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.executescript(_SCHEMA)
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        """Close it."""
        self._db.close()

    def believe(self, repository: Repository) -> None:
        """Forget everything unless the store's log still reaches to where it reached when this was written."""
        row = self._db.execute("SELECT lines, number, link FROM reached").fetchone()
        if row is not None and not repository.store.log.holds(Leaves(*row)):
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.execute("DELETE FROM files")
                self._db.execute("DELETE FROM reached")

    def all(self) -> dict[str, FileRead]:
        """Return what was read of each file, by its path."""
        found = {}
        for path, read in self._db.execute("SELECT path, read FROM files"):
            with suppress(ValueError, TypeError):
                values: dict[str, Any] = json.loads(read)
                found[os.fsdecode(path)] = FileRead(**{**values, "stamp": tuple(values.get("stamp", ()))})
        return found

    def keep(self, reads: Mapping[str, FileRead], reached: Leaves) -> None:
        """Keep what was read of some files, once the store has it up to a place of its log.

        What cannot be kept is read again by the next watcher, and that is all.
        """
        rows = [(os.fsencode(path), json.dumps(asdict(read), separators=(",", ":"))) for path, read in reads.items()]
        with suppress(sqlite3.Error), self._db:  # another watcher holds it for long, or the disk is full
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO files VALUES (?, ?)", rows)
            self._db.execute(
                "INSERT INTO reached VALUES (1, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET lines = excluded.lines, "
                "number = excluded.number, link = excluded.link WHERE excluded.number >= reached.number",
                reached,
            )

    def forget(self, paths: Iterable[str]) -> None:
        """Forget files that are gone."""
        with suppress(sqlite3.Error), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("DELETE FROM files WHERE path = ?", [(os.fsencode(path),) for path in paths])
