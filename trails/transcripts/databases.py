"""SQLite databases of other programs, read from a private copy: the file itself is never opened for writing, nor locked.

A program may be writing to its database meanwhile. Its file is copied with what stands beside it (`-wal`, `-journal`), and
copied again where the file changed under the copy; SQLite then brings the copy to the last whole transaction. So nothing is
made or changed beside somebody's file. A database is told by its first bytes and by its tables, never by its name.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from trails.errors import InvalidInput
from trails.plumbing import imports
from trails.records.acts import SourceFile

SIGNATURE: Final = b"SQLite format 3\x00"
_BESIDE: Final = ("-wal", "-journal")
_HEADER: Final = 100
"""Bytes of a database's header, which has a counter of its changes; those of a log's, which has its salts, are fewer."""
_TRIES: Final = 5
Tables = Mapping[str, frozenset[str]]
"""The columns of tables, by name; views and virtual tables are left out."""


@dataclass(frozen=True, slots=True)
class Database:
    """An open copy of a database."""

    connection: sqlite3.Connection
    tables: Tables
    files: Mapping[str, SourceFile]
    """What was copied, by the name that it was given, and that of what stood beside it."""

    def rows(self, query: str, *values: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows of a query, each by column; raises `sqlite3.Error` where the database is damaged."""
        with closing(self.connection.execute(query, values)) as cursor:
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield dict(zip(names, row, strict=True))


def is_one(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is an SQLite database.

    >>> is_one(b"SQLite format 3\\x00..."), is_one(b"PK")
    (True, False)
    """
    return head.startswith(SIGNATURE)


def tables_in(whole: bytes | BinaryIO) -> Tables:
    """Return the tables of a database, given its bytes or the open file; none where they cannot be read."""
    with suppress(InvalidInput, sqlite3.Error, OSError):
        if isinstance(whole, bytes):
            with opened(whole) as database:
                return database.tables
        path = Path(str(whole.name))
        if path.with_name(f"{path.name}-wal").exists():
            with opened(path) as database:
                return database.tables
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            return _tables(connection)
    return {}


@contextmanager
def opened(whole: bytes | Path, name: str | None = None) -> Iterator[Database]:
    """Open a copy of a database, given its bytes or its path; `name` is what it is called, by default the path.

    Raises `InvalidInput` where it is no database that can be read, or is written to without a pause.
    """
    called = name if name is not None else "" if isinstance(whole, bytes) else str(whole)
    with tempfile.TemporaryDirectory(prefix="trails-") as folder:
        copy = Path(folder, "copy.db")
        if isinstance(whole, bytes):
            copy.write_bytes(whole)
        else:
            _copy(whole, copy)
        files = {}
        for ending in ("", *_BESIDE):
            with suppress(FileNotFoundError), Path(f"{copy}{ending}").open("rb") as file:
                files[f"{called}{ending}"] = imports.source_file(
                    file, f"{Path(called).name}{ending}" if called else None
                )
        try:
            with closing(sqlite3.connect(f"{copy.as_uri()}?mode=rw", uri=True)) as connection:
                connection.text_factory = _text
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA query_only = ON")
                tables = _tables(connection)
                yield Database(connection, tables, files)
        except sqlite3.Error as error:
            raise InvalidInput(
                f"{called or 'what was given'} is an SQLite database that cannot be read: {error}"
            ) from error


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _tables(connection: sqlite3.Connection) -> Tables:
    listed = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
    names = [str(name) for (name,) in listed.fetchall()]
    return {
        name: frozenset(str(row[0]) for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,)))
        for name in names
    }


def _copy(path: Path, copy: Path) -> None:
    for _ in range(_TRIES):
        before = _state(path)
        for ending in ("", *_BESIDE):
            Path(f"{copy}{ending}").unlink(missing_ok=True)
            source = Path(f"{path}{ending}")
            if not ending or source.is_file():
                with suppress(*([FileNotFoundError] if ending else [])):
                    shutil.copyfile(source, f"{copy}{ending}")
        if _state(path) == before:
            return
    raise InvalidInput(f"{path} is being written to without a pause: end the program that does so, and import it again")


def _state(path: Path) -> list[object]:
    """Return what changes where a copy that is made meanwhile may be torn. What is added to a log changes nothing of it."""
    state: list[object] = []
    for ending in ("", *_BESIDE):
        with suppress(FileNotFoundError), Path(f"{path}{ending}").open("rb") as file:
            told = Path(f"{path}{ending}").stat()
            changed = (told.st_mtime_ns, told.st_size) if ending != "-wal" else ()
            state.append((ending, changed, file.read(_HEADER if not ending else 32)))
    return state
