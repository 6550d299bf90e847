"""One SQLite file of the index, with a seal beside it that says which bytes are right.

A file without its seal, or with other bytes than that says, is thrown away and begun anew: so a kill at any point, a bit
that flipped, a file of another version and one that was put in its place cost time, and never a wrong answer. So no
journal is kept on disk and nothing is synced while it is written: what a power cut leaves is not what was sealed. Only an
erasure is synced before it is acknowledged.

A great file is not read whole by everyone who opens it. Its seal has a witness, too: which file it was, and when it was
changed last. Where it still is that one and was not changed since, its bytes are those that were summed up. It is the system
that writes down when a file was changed (`ctime`), and no program can put that back: bytes that flipped, an older file and
another store's show whatever times they are given.

- So that a change in the same tick of the file system's clock shows, too, a file is summed up once that clock has moved on
  from its last change. Where it does not within a moment, as where it counts in seconds, there is no witness.
- So that it holds after a power cut, the file is synced before its seal is written.
- A copy is another file. What has no true witness is read whole, until its owner has had it open and seals it anew.
- Only bits that the disk flips by itself do not show: `verify` and `doctor` always read all of a file.

While a file is open, what others do to it shows in its size and times: it is then begun anew, too.

Another process's file is read where it is, and no lock is taken for which that would have to wait: the seal is broken before
anything is written, so an answer was found in the right bytes where the seal and the file are the same after it as before.
"""

from __future__ import annotations

import ctypes
import json
import os
import sqlite3
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any, Final, NamedTuple

from trails.files import open_plain, read_plain, sum_of
from trails.store.leaflog import NOTHING, Leaves
from trails.store.syncing import sync_data, sync_folder

FORMATS: Final = {"figures.db": 10, "texts.db": 8}
"""Rises with every change of what a file of the index holds; one of another format is made anew."""
TRIES: Final = 20
PAUSE: Final = 0.02
"""Seconds between two looks at a file that its owner may be writing, which takes it some milliseconds as a rule."""
_SUMS: Final = 3
"""How much of a seal is about the file's bytes."""
_PLACES: Final = 6
"""How much of a seal comes before its witness."""
READ_WHOLE: Final = 4 << 20
"""Bytes up to which a file is always summed up, in some milliseconds; a greater one only where its seal has no true witness."""
_TICKS: Final = 10
_TICK: Final = 0.004
"""Seconds between two looks at the file system's clock, most of which move on every one to ten milliseconds."""
_SETTINGS: Final = (
    "PRAGMA journal_mode = MEMORY",
    "PRAGMA synchronous = OFF",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16384",
)
_LOOKING: Final = ("PRAGMA mmap_size = 0", "PRAGMA temp_store = MEMORY", "PRAGMA cache_size = -16384")
"""Nothing is mapped: a file that gets shorter would end the process."""
_PLACE: Final = "CREATE TABLE IF NOT EXISTS place (lines INTEGER, size INTEGER, link TEXT)"


_WRITTEN: Final = "SELECT type, name, sql FROM sqlite_master WHERE name NOT GLOB 'grams_*' ORDER BY type, name"
"""What a file's tables and indexes were made as, but for those that FTS5 makes, which each version of it may make otherwise."""
_STORED: Final = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"


class NotAsSealed(Exception):
    """A file of which nobody is known to have changed it has other bytes than were sealed: the disk changed them."""


class SideFile:
    """A SQLite file of the index, open; in memory where there is no `path`, or where that must not be written to."""

    def __init__(
        self, path: Path | None, schema: str, *, borrowed: bool = False, waits: bool = False, at: Leaves | None = None
    ) -> None:
        """Open a file where it is as it was sealed, else begin it anew.

        `borrowed` is another process's: it is read where it is if it was sealed `at` that place of the log, and else copied.
        With `waits` that may be writing it now: it is waited for a while.
        """
        self._path = None if borrowed else path
        self._schema = schema
        self._sealed = False
        self._at = at
        self._seen: _Seen | None = None
        """Another process's file, where that is read in its place."""
        self._stamp: _Stamp | None = None
        """How the file was after this process wrote it last."""
        self.was_refused = False
        """Whether it is begun anew since the file, as it was sealed, says otherwise than its seal how far the log reached."""
        self._database = self._opened(path, borrowed=borrowed, waits=waits)
        self.place = _place_in(self._database)
        """How far the store's log reached when what is in the file was read."""

    def _opened(self, path: Path | None, *, borrowed: bool, waits: bool) -> sqlite3.Connection:
        if path is None:
            return self._made(":memory:")
        if borrowed:
            return self._borrowed(path, TRIES if waits else 1)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._stamp = _stamp_of(path)
            if self._stamp is not None and (_has_witness(path) or _is_as_sealed(path)):
                made = _connected(str(path))
                if self._is_at(made, sealed_place(path)):
                    self._sealed = True
                    return made
                made.close()
            _thrown_away(path)
        except (OSError, sqlite3.Error):
            return self._of_its_own()
        return self._begun(path)

    def _is_at(self, database: sqlite3.Connection, sealed: Leaves) -> bool:
        """Tell whether a file says as its seal how far the log reached, and has been brought anywhere."""
        try:
            self.was_refused = _place_in(database) != sealed
        except sqlite3.Error:
            self.was_refused = True
        return not self.was_refused and sealed != NOTHING

    def _begun(self, path: Path) -> sqlite3.Connection:
        """Return a new file, or where nothing can be written there, one in memory."""
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            made = self._made(str(path))
            self._stamp = _stamp_of(path)
        except (OSError, sqlite3.Error):
            return self._of_its_own()
        return made

    def _of_its_own(self) -> sqlite3.Connection:
        """Return an index of this process alone, in memory, for a folder that cannot be written to."""
        self._path, self._sealed, self._stamp, self._seen = None, False, None, None
        return self._made(":memory:")

    @property
    def is_as_left(self) -> bool:
        """Whether nobody else has written to the file since this process did, and it still stands in its place."""
        if self._seen is not None:
            return self._seen.is_so
        return self._path is None or _stamp_of(self._path) == self._stamp

    @property
    def is_in_place(self) -> bool:
        """Whether it is another process's file itself, which may be changed at any time and not be written to."""
        return self._seen is not None

    def _borrowed(self, path: Path, tries: int) -> sqlite3.Connection:
        """Return a file that somebody else may be writing to, whole by its seal: itself, or a copy in memory; or one anew."""
        for left in reversed(range(tries)):
            with suppress(OSError, ValueError, sqlite3.Error):
                made = self._in_place(path) or self._copied(path)
                if made is not None:
                    return made
            if self.was_refused or not os.access(path, os.R_OK):
                break
            if left:
                sleep(PAUSE)
        return self._made(":memory:")

    def _in_place(self, path: Path) -> sqlite3.Connection | None:
        """Return a file of somebody else's to read; None where it is not as it was sealed, or not at the place asked for."""
        if self._at is None or sealed_place(path) != self._at:
            return None
        stamp = _stamp_of(path)
        if stamp is None or not (_has_witness(path) or _is_as_sealed(path)):
            return None
        seen = _Seen(path, stamp, read_plain(_seal_name(path)))
        made = _opened(f"{path.absolute().as_uri()}?immutable=1", uri=True)
        for each in _LOOKING:
            made.execute(each)
        is_at = self._is_at(made, self._at)
        if not seen.is_so:
            self.was_refused = False
        if not seen.is_so or not is_at:
            made.close()
            return None
        self._seen = seen
        return made

    def _copied(self, path: Path) -> sqlite3.Connection | None:
        """Return a copy of a file in memory; None where it is not as it was sealed."""
        if self.was_refused:
            return None
        data, seal = read_plain(path), _seal_of(path)
        if seal[:_SUMS] != _sums(path, len(data), zlib.crc32(data)):
            return None
        made = _opened(":memory:")
        made.deserialize(data)
        return made if self._is_at(made, _place_by(path, seal)) else None

    def _made(self, name: str) -> sqlite3.Connection:
        if name != ":memory:":
            os.close(open_plain(Path(name), os.O_RDWR | os.O_CREAT))
        made = _connected(name)
        made.execute("PRAGMA auto_vacuum = FULL")  # for a new file alone: it would write to another
        made.executescript(f"BEGIN; {_PLACE}; {self._schema}; COMMIT")
        return made

    @property
    def where(self) -> Path | None:
        """Where the file is; None for one in memory."""
        return self._path

    def ask(self, text: str, values: Any = ()) -> list[Any]:
        """Return all rows of a SELECT."""
        return self._database.execute(text, values).fetchall()

    def each(self, text: str, values: Any = ()) -> Iterator[Any]:
        """Yield the rows of a SELECT as they are found."""
        return iter(self._database.execute(text, values))

    def look(self) -> None:
        """Raise `sqlite3.DatabaseError` where its tables are not those that it was made with, or SQLite's own indexes of them
        say other than they do."""
        with closing(self._made(":memory:")) as new:
            if self.ask(_WRITTEN) != new.execute(_WRITTEN).fetchall():
                raise sqlite3.DatabaseError("it has other tables than it was made with")
        for (name,) in self.ask(_STORED):
            (said, *_), *_ = self.ask(f"PRAGMA integrity_check({name})")
            if said != "ok":
                raise sqlite3.DatabaseError(said)

    def take_over(self, other: SideFile) -> None:
        """Hold a copy of all that another file holds, in the place of what is here: for a file in memory."""
        other._database.backup(self._database)
        self.place = _place_in(self._database)

    @contextmanager
    def writing(self, place: Leaves) -> Iterator[sqlite3.Connection]:
        """Give the database to write to, in one transaction, after which it holds what the log said up to a place.

        Raises `sqlite3.DatabaseError` where somebody else wrote to the file meanwhile: it must be begun anew.
        """
        self._refuse_changed()
        self.break_seal()
        self._database.execute("BEGIN")
        try:
            yield self._database
            self._database.execute("DELETE FROM place")
            self._database.execute("INSERT INTO place VALUES (?, ?, ?)", place)
            self._database.execute("COMMIT")
            self._stamp = None if self._path is None else _stamp_of(self._path)
        except BaseException:
            with suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise
        self.place = place

    def _refuse_changed(self) -> None:
        if not self.is_as_left:
            raise sqlite3.DatabaseError(f"somebody else has written to {self._path}")

    def break_seal(self) -> None:
        """Let the file on disk be doubted, until it is sealed again."""
        if self._path is not None and self._sealed:
            _unlink(_seal_name(self._path))
            self._sealed = False

    def seal(self, *, most: int | None = None, sync: bool = False) -> None:
        """Write down which bytes are right. With `most` not for a file of more bytes, and without a witness: `close` does that.

        With `sync` what is in the file is on disk when this returns.
        """
        path = self._path
        if path is None or self._stamp is None:
            return
        if sync:
            _synced(path)
        if most is not None and (self._sealed or self._stamp.size > most):
            return
        if self._sealed and (self._stamp.size <= READ_WHOLE or _has_witness(path)):
            return
        new = _new_seal_name(path)
        new.touch(mode=0o600)
        witness = _witness_of(path) if most is None else []
        new.write_text(json.dumps([*_sums(path, *sum_of(path)), *self.place, *witness]), encoding="ascii")
        self._refuse_changed()
        new.rename(_seal_name(path))
        self._sealed = True

    def is_whole(self) -> bool:
        """Tell whether all bytes on disk are those that were sealed, whatever the witness says; true where none are sealed."""
        if self._seen is not None:
            return _is_as_sealed(self._seen.path)
        return self._path is None or not self._sealed or _is_as_sealed(self._path)

    def empty(self) -> None:
        """Throw away all that is in the file, and the file; nothing of it is left on disk by any name."""
        self._database.close()
        self._sealed, self._seen = False, None
        self.place = NOTHING
        if self._path is not None:
            _thrown_away(self._path)
            if self._path.parent.is_dir():
                sync_folder(self._path.parent)
        self._database = self._made(":memory:") if self._path is None else self._begun(self._path)

    def leave(self) -> None:
        """Go on in memory, with nothing, and leave the file as it is: for one that can be neither changed nor removed."""
        with suppress(sqlite3.Error):
            self._database.close()
        self.place = NOTHING
        self._database = self._of_its_own()

    def leak(self) -> None:
        """Let nothing in this process ever close the file: not even the end of it."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._database))

    def close(self) -> None:
        """Seal the file and let go of it."""
        with suppress(sqlite3.Error):
            self._database.close()
        with suppress(OSError, sqlite3.DatabaseError):
            self.seal()


class _Database(sqlite3.Connection):
    """A connection that is closed with the last reference to it: the index of a store that nobody closed, in silence."""

    def __del__(self) -> None:
        with suppress(sqlite3.Error):
            self.close()


def _opened(name: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(name, uri=uri, check_same_thread=False, isolation_level=None, factory=_Database)


def _place_in(database: sqlite3.Connection) -> Leaves:
    """Return how far the log reached by what a file says; raise `sqlite3.DatabaseError` where it does not say it as it should."""
    rows = database.execute("SELECT lines, size, link FROM place").fetchall()
    if not rows:
        return NOTHING
    if [tuple(map(type, row)) for row in rows] != [(int, int, str)]:
        raise sqlite3.DatabaseError("it does not say how far the log reached")
    return Leaves(*rows[0])


def _connected(name: str) -> sqlite3.Connection:
    made = _opened(name)
    for each in _SETTINGS:
        made.execute(each)
    return made


class _Stamp(NamedTuple):
    """Which file it is, and when it was written to."""

    device: int
    inode: int
    size: int
    written: int
    changed: int

    @property
    def lasting(self) -> tuple[int, int, int]:
        """What of it stays the same over a restart of the system, which may number its devices otherwise."""
        return self.inode, self.written, self.changed


def _stamp_of(path: Path) -> _Stamp | None:
    """Return how a file is now; None where there is none, or something else in its place."""
    try:
        found = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return _Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class _Seen(NamedTuple):
    """A file of somebody else's with its seal, as they were when its bytes were right."""

    path: Path
    stamp: _Stamp
    seal: bytes

    @property
    def is_so(self) -> bool:
        """Whether nobody has written to it since: the seal is broken before that, and a later one tells of another place."""
        with suppress(OSError):
            return _stamp_of(self.path) == self.stamp and read_plain(_seal_name(self.path)) == self.seal
        return False


def _seal_name(path: Path) -> Path:
    return path.with_suffix(".seal")


def _new_seal_name(path: Path) -> Path:
    return path.with_suffix(".seal.new")


def _sums(path: Path, size: int, checksum: int) -> list[int]:
    return [FORMATS[path.name], size, checksum]


def _seal_of(path: Path) -> list[Any]:
    """Return what the seal of a file says: format, bytes, checksum, how far the log reached, and its witness if it has one.

    Raises OSError, ValueError.
    """
    found = json.loads(read_plain(_seal_name(path)))
    return found if isinstance(found, list) else []


def sealed_place(path: Path) -> Leaves:
    """Return how far the log reached when a file was sealed, as its seal says; the beginning where there is none, or one of
    another format."""
    try:
        return _place_by(path, _seal_of(path))
    except (OSError, ValueError):
        return NOTHING


def _place_by(path: Path, seal: Sequence[Any]) -> Leaves:
    try:
        version, _, _, lines, size, link = seal[:_PLACES]
        return Leaves(int(lines), int(size), str(link)) if version == FORMATS[path.name] else NOTHING
    except (ValueError, TypeError, OverflowError):
        return NOTHING


def _is_as_sealed(path: Path) -> bool:
    try:
        return path.is_file() and not path.is_symlink() and _seal_of(path)[:_SUMS] == _sums(path, *sum_of(path))
    except (OSError, ValueError):
        return False


def _witness_of(path: Path) -> list[int]:
    """Return what shows later on that a file, which is on disk then and summed up after this, is the same; nothing for a
    small one."""
    stamp = _stamp_of(path)
    if stamp is None or stamp.size <= READ_WHOLE:
        return []
    _synced(path)
    clock = _new_seal_name(path)  # whatever is written there shows what the file system takes for now
    clock.touch(mode=0o600)
    for _ in range(_TICKS):
        if _now_by(clock) > stamp.changed:
            return [*stamp.lasting]
        sleep(_TICK)
    return []


def _now_by(clock: Path) -> int:
    os.utime(clock)
    return clock.stat().st_ctime_ns


def _has_witness(path: Path) -> bool:
    """Tell whether a file is the very one that was sealed, and was not changed since, so that it need not be read."""
    try:
        seal, stamp = _seal_of(path), _stamp_of(path)
        return stamp is not None and seal[:2] == [FORMATS[path.name], stamp.size] and seal[_PLACES:] == [*stamp.lasting]
    except (OSError, ValueError):
        return False


def is_sealed(path: Path) -> bool | None:
    """Tell whether a file is as it was sealed, by all of its bytes; None where there is none.

    A file that is being written to has no seal.
    """
    return _is_as_sealed(path) if path.exists() else None


def sweep(path: Path) -> None:
    """Throw away a file that nobody has open and that has no seal."""
    if path.exists() and not _seal_name(path).exists():
        _thrown_away(path)
        sync_folder(path.parent)


def throw_away(path: Path) -> None:
    """Remove a file that is there, and all that belongs to it, from the disk; raises OSError where that is refused."""
    if path.is_file():
        _thrown_away(path)
        sync_folder(path.parent)


def _thrown_away(path: Path) -> None:
    for name in (_seal_name(path), _new_seal_name(path), Path(f"{path}-journal"), Path(f"{path}-wal"), path):
        _unlink(name)


def _unlink(path: Path) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):  # a file may stand in the folder's place
        path.unlink()


def _synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_data(descriptor)
    finally:
        os.close(descriptor)
