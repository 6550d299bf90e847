"""Open zstd files, zip archives, SQLite databases and growing files.

- Files and members of archives that are compressed with zstd are told by their first bytes, and unpacked within limits.
- Zip files are read member by member, by their central directory: what an edit left behind is not seen, and of two members of
  one name the last one counts. Members are stored, deflated or compressed with zstd (method 93).
- SQLite databases of other programs are read from a private copy. The program may write meanwhile: its file is copied with what
  stands beside it (`-wal`, `-journal`), and copied again if it changed under the copy. Nothing is made or changed beside it.
- Files that are read a part at a time may be written to meanwhile.
"""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import struct
import tempfile
import zipfile
import zlib
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, NamedTuple

from trails import files
from trails.errors import InvalidInput
from trails.exchange import json_files
from trails.exchange.source_transcript import FileProblem
from trails.history import import_records
from trails.rdf.activity_records import SourceFile

ZSTD_SIGNATURE: Final = b"\x28\xb5\x2f\xfd"
ZSTD_ENDING: Final = ".zst"
_ZSTD_WINDOW: Final = 128 << 20
"""Bytes of memory that zstd may ask for."""


def unpack_zstd(data: bytes, most: int | None, size: int = -1) -> bytes:
    """Decompress zstd data, or only its first `size` bytes.

    `most` is the limit of its size; None is no limit.

    Raises `InvalidInput` if that is more than `most` bytes, if the data is broken, and if the package `zstandard` is missing.
    """
    try:
        zstandard = import_module("zstandard")
    except ImportError as error:
        raise InvalidInput("zstd needs the package `zstandard`: pip install 'trails[zstd]'") from error
    unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    reader = unpacker.stream_reader(data, read_across_frames=True)
    try:
        return (reader if most is None else files.BoundedReader(reader, most)).read(size)
    except zstandard.ZstdError as error:
        raise InvalidInput(f"it begins as zstd does, and cannot be unpacked: {error}") from error


def decompress(data: bytes) -> bytes:
    """Return a file's content, decompressed if it is zstd; raises as `unpack_zstd`.

    >>> decompress(b"{}")
    b'{}'
    """
    return unpack_zstd(data, files.unpack_limit(len(data))) if data.startswith(ZSTD_SIGNATURE) else data


ZIP_SIGNATURE: Final = b"PK\x03\x04"
_ZSTD_METHOD: Final = 93
_LOCAL_HEADER: Final = struct.Struct("<26xHH")
_ENCRYPTED: Final = 1
_FREE_BYTES: Final = 64 << 20
_TOTAL_RATIO: Final = 200
"""How many times its own size an archive may unpack to in all, beside what is free: its members are read one at a time."""
ZIP_FAULTS: Final = (zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError, ValueError, RuntimeError)
"""What reading a broken archive raises; `InvalidInput`, which is a ValueError too, is to be caught before."""


class Archive:
    """A zip file whose members are read one at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        """Open an archive; raises one of `ZIP_FAULTS` if it is none."""
        self._file = file
        self._zip = zipfile.ZipFile(file)
        self._members = {each.filename: each for each in self._zip.infolist() if not each.is_dir()}
        self._left = file.seek(0, io.SEEK_END) * _TOTAL_RATIO + _FREE_BYTES

    @property
    def names(self) -> Sequence[str]:
        """The names of its members, each once."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """Return a member's content.

        Raises `InvalidInput` if it is too large for its compressed size, or needs the missing package `zstandard`, and one of
        `ZIP_FAULTS` if it is broken.
        """
        member = self._members[name]
        if member.flag_bits & _ENCRYPTED:
            raise zipfile.BadZipFile(f"{name} is encrypted")
        most = min(self._left, max(_FREE_BYTES, files.unpack_limit(member.compress_size)))
        if member.compress_type == _ZSTD_METHOD:
            self._file.seek(member.header_offset)
            self._file.seek(sum(_LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))), io.SEEK_CUR)
            data = unpack_zstd(self._file.read(member.compress_size), most)
            if zlib.crc32(data) != member.CRC:
                raise zipfile.BadZipFile(f"{name} does not have the checksum that the archive names")
        else:
            with self._zip.open(member) as packed:
                data = files.BoundedReader(packed, most).read()
        self._left -= len(data)
        return data


def member_names(data: bytes | IO[bytes]) -> list[str] | None:
    """Return the names of a zip's members; None if it is no zip."""
    try:
        with zipfile.ZipFile(io.BytesIO(data) if isinstance(data, bytes) else data) as opened:
            return opened.namelist()
    except ZIP_FAULTS:
        return None


SQLITE_SIGNATURE: Final = b"SQLite format 3\x00"
_LOG_SUFFIXES: Final = ("-wal", "-journal")
_SQLITE_HEADER: Final = 100
"""Bytes of a database's header, which has a counter of its changes; those of a log's, which has its salts, are fewer."""
_COPY_TRIES: Final = 5
Tables = Mapping[str, frozenset[str]]
"""The columns of each table, without views and virtual tables."""


@dataclass(frozen=True, slots=True)
class Database:
    """An open copy of a database."""

    connection: sqlite3.Connection
    tables: Tables
    files: Mapping[str, SourceFile]
    """What was copied, by the name that it was given, and that of what stood beside it."""

    def rows(self, query: str, *values: Any) -> Iterator[dict[str, Any]]:
        """Yield a query's rows by column; raises `sqlite3.Error` if the database is damaged."""
        with closing(self.connection.execute(query, values)) as cursor:
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield dict(zip(names, row, strict=True))


def is_sqlite(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is an SQLite database.

    >>> is_sqlite(b"SQLite format 3\\x00..."), is_sqlite(b"PK")
    (True, False)
    """
    return head.startswith(SQLITE_SIGNATURE)


def tables_of(whole: bytes | BinaryIO) -> Tables:
    """Return a database's tables; none if they cannot be read."""
    with suppress(InvalidInput, sqlite3.Error, OSError):
        path = None if isinstance(whole, bytes) else Path(str(whole.name))
        if path is not None and not path.with_name(f"{path.name}-wal").exists():
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
                return _read_tables(connection)
        with open_database(whole if isinstance(whole, bytes) else Path(str(whole.name))) as database:
            return database.tables
    return {}


def has_tables(signs: Mapping[str, Collection[str]], tables: Tables) -> bool:
    """Tell whether a database has tables with the columns that are a program's signs."""
    return all(tables.get(name, frozenset()).issuperset(columns) for name, columns in signs.items())


@contextmanager
def open_database(whole: bytes | Path, name: str | None = None) -> Iterator[Database]:
    """Open a copy of a database, given its bytes or its path.

    Messages call it `name`, by default its path.

    Raises `InvalidInput` if it cannot be read, or is written to without a pause.
    """
    called = name if name is not None else "" if isinstance(whole, bytes) else str(whole)
    with tempfile.TemporaryDirectory(prefix="trails-") as folder:
        copy = Path(folder, "copy.db")
        if isinstance(whole, bytes):
            copy.write_bytes(whole)
        else:
            _copy_database(whole, copy)
        files = {}
        for ending in ("", *_LOG_SUFFIXES):
            own = f"{Path(called).name}{ending}" if called else None
            with suppress(FileNotFoundError), Path(f"{copy}{ending}").open("rb") as file:
                files[f"{called}{ending}"] = import_records.source_file(file, own)
        try:
            with closing(sqlite3.connect(f"{copy.as_uri()}?mode=rw", uri=True)) as connection:
                connection.text_factory = partial(str, encoding="utf-8", errors="replace")
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA query_only = ON")
                tables = _read_tables(connection)
                yield Database(connection, tables, files)
        except sqlite3.Error as error:
            what = called or "what was given"
            raise InvalidInput(f"{what} is an SQLite database that cannot be read: {error}") from error


def _read_tables(connection: sqlite3.Connection) -> Tables:
    listed = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
    names = [str(name) for (name,) in listed.fetchall()]
    return {
        name: frozenset(str(row[0]) for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,)))
        for name in names
    }


def _copy_database(path: Path, copy: Path) -> None:
    for _ in range(_COPY_TRIES):
        before = _file_state(path)
        for ending in ("", *_LOG_SUFFIXES):
            Path(f"{copy}{ending}").unlink(missing_ok=True)
            source = Path(f"{path}{ending}")
            if not ending or source.is_file():
                with suppress(*([FileNotFoundError] if ending else [])):
                    shutil.copyfile(source, f"{copy}{ending}")
        if _file_state(path) == before:
            return
    raise InvalidInput(f"{path} is being written to without a pause: end the program that does so, and import it again")


def _file_state(path: Path) -> list[object]:
    """Return values that change if a copy made meanwhile may be torn.

    Appending to the write-ahead log changes none of them.
    """
    state: list[object] = []
    for ending in ("", *_LOG_SUFFIXES):
        with suppress(FileNotFoundError), Path(f"{path}{ending}").open("rb") as file:
            told = Path(f"{path}{ending}").stat()
            changed = (told.st_mtime_ns, told.st_size) if ending != "-wal" else ()
            state.append((ending, changed, file.read(_SQLITE_HEADER if not ending else 32)))
    return state


_CHANGED_WHILE_READ: Final = (
    "was changed while it was read, so that some of it may be missing, and the digest on record is that of the file before; "
    "what came in stays: import it again for the rest"
)


class FileSnapshot(io.RawIOBase):
    """An open file as it is now, without what is appended later."""

    def __init__(self, file: IO[bytes], name: str = "") -> None:
        """Read the file once, for its digest."""
        super().__init__()
        self.name = name
        self.found = import_records.source_file(file, Path(name).name or None)
        self._file = file
        self.content: IO[bytes] = io.BufferedReader(self)
        self.content.seek(0)

    def problems(self) -> list[FileProblem]:
        """Return a problem if the part that was read has changed."""
        self.content.seek(0)
        if import_records.source_file(self.content, None).sha256 == self.found.sha256:
            return []
        return [FileProblem(file=self.name, reason=_CHANGED_WHILE_READ)]

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    seekable = readable

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the file as it was."""
        start = self.found.size if whence == io.SEEK_END else 0
        return self._file.seek(start + offset, io.SEEK_CUR if whence == io.SEEK_CUR else io.SEEK_SET)

    def tell(self) -> int:
        """Return the place in the file."""
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        """Read from the file as it was."""
        view = memoryview(buffer)
        data = self._file.read(max(0, min(len(view), self.found.size - self._file.tell())))
        view[: len(data)] = data
        return len(data)


_WHOLE_DOCUMENT: Final = 8 << 20
"""Bytes up to which a file is read as one document; greater ones value by value."""


class Document(NamedTuple):
    """A JSON value of a file."""

    file: str
    line: int
    """Where it begins, from 1; 0 where it is not one of several lines."""
    place: str
    """Where in the file it stands, beside its line: a member of a zip, a table and its column."""
    value: Any


def json_documents(file: IO[bytes], name: str) -> Iterator[Document]:
    """Yield the JSON values of an open file, one at a time in memory.

    What is no JSON is left out.
    """
    file.seek(0)
    if file.read(len(ZIP_SIGNATURE)) == ZIP_SIGNATURE:
        yield from _member_documents(file, name)
        return
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    if size <= _WHOLE_DOCUMENT and (value := _parse_json(file.read())) is not None:
        yield Document(name, 0, "", value)
        return
    file.seek(0)
    if file.readline().lstrip(BOM_UTF8).lstrip()[:1] == b"[":
        file.seek(0)
        for each in json_files.iter_elements(file, lists=True):
            if isinstance(each, json_files.Element):
                yield Document(name, each.line, "[]", each.value)
        return
    file.seek(0)
    for number, line in enumerate(file, 1):
        if (value := _parse_json(line)) is not None:
            yield Document(name, number, "", value)


def database_documents(database: Database, name: str) -> Iterator[Document]:
    """Yield the texts in a database's tables, parsed if they are JSON."""
    for table in database.tables:
        quoted = table.replace('"', '""')
        for row in database.rows(f'SELECT * FROM "{quoted}"'):  # noqa: S608 - a table's name cannot be bound
            for column, held in row.items():
                if isinstance(held, str):
                    value = _parse_json(held.encode("utf-8", "replace")) if held[:1] in "{[" else None
                    yield Document(name, 0, f"{table}.{column}", held if value is None else value)


def _member_documents(file: IO[bytes], name: str) -> Iterator[Document]:
    file.seek(0)
    try:
        archive = Archive(file)
        for member in archive.names:
            if member.endswith(".json") and (value := _parse_json(archive.read(member))) is not None:
                folder, _, own = member.rpartition("/")
                yield Document(name, 0, f"{folder.split('/')[0]}/*" if folder else own, value)
    except (InvalidInput, *ZIP_FAULTS):  # the parser has said so
        return


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data.removeprefix(BOM_UTF8))
    except (ValueError, RecursionError):
        return None
