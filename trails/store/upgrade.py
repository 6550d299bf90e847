"""Bringing a store of the format before this one (files of our own beside the engine's) to a log in SQLite.

The store is read without being changed, and written anew beside it. Its new log takes its place in one step, by a rename: until
then the folder is a store of the old format, and from then on one of this. What is left of the old files is removed after that,
at the next opening if a kill comes in between.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count, groupby
from pathlib import Path
from typing import IO, Any, Final, cast

import pyoxigraph as ox

from trails.errors import IntegrityError, InvalidInput, StoreFailed, StoreLocked
from trails.files import as_path, in_words, sync_folder
from trails.integrity import leaves
from trails.store import dumping
from trails.store.contract import Change
from trails.store.embedded import EmbeddedStore
from trails.store.folders import OLD_MARKER, is_old, remove_old
from trails.store.index import engine_filling
from trails.store.log import log_maintenance, sqlite
from trails.store.log.log_maintenance import scratch
from trails.store.log.records import CommitRecord, lines_of

_OLDEST, _NEWEST = 2, 3
"""The formats that are brought up."""
_NOT_COPIED: Final = frozenset({"lock", "position", "index", "LOCK", "past", "quads.new", "quads.old", "backup.new"})
_HEADER: Final = struct.Struct("<8s16sQQQ8s16s")
_FRAME: Final = struct.Struct("<4sIQQQ")
_PARTS: Final = struct.Struct("<IIQ")
_SUM: Final = 16
_RELAXED: Final = 2
"""A flag of a record: some may have been acknowledged before they were synced."""
_BATCH: Final = 5_000
"""Quads, or lines of the log, in one commit."""


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What `upgrade` did: the formats before and after, the steps, and where the backup is (None: nothing had to be done)."""

    before: int
    after: int
    steps: tuple[str, ...]
    backup: str | None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return asdict(self)


def upgrade(folder: str | os.PathLike[str], *, backup: str | os.PathLike[str] | None = None) -> Upgraded:
    """Bring a store to this version's format; one that has it already is left as it is.

    A backup is made first: at `backup`, else beside the store. Cut short anywhere, the store is as it was or upgraded.

    Raises `InvalidInput` if there is no store, `StoreLocked` if it is open, `StoreFailed` for a format that this version does
    not read, or a store that is damaged.
    """
    place, kept = (
        as_path(folder, "the store's folder"),
        None if backup is None else as_path(backup, "the place of a backup"),
    )
    with in_words(place, "upgraded"):
        if not is_old(place):
            if not (place / sqlite.NAME).is_file():
                raise InvalidInput(f"there is no Trails store at {place}; check the path")
            remove_old(place)
            return Upgraded(sqlite.FORMAT, sqlite.FORMAT, (), None)
        note = _note(place)
        with _locked(place):
            where = _backed_up(place, note["format"], kept)
            _convert(place, note)
        step = "the log in SQLite, to which any number of processes may append"
        return Upgraded(note["format"], sqlite.FORMAT, (step,), str(where))


def copy_old(source: Path, part: Path) -> None:
    """Copy the files of a store of the old format that nobody has open."""
    with _locked(source, writes=False):
        shutil.copytree(source, part, ignore=lambda _, names: _NOT_COPIED & set(names), dirs_exist_ok=True)


def _note(folder: Path) -> dict[str, Any]:
    try:
        note = json.loads((folder / OLD_MARKER).read_bytes())
        form = note["format"]
        if type(form) is not int:
            raise TypeError(f"its format is {form!r}")
        if form <= _NEWEST and form >= _OLDEST:
            bytes.fromhex(note["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreFailed(f"{folder / OLD_MARKER} cannot be read ({error}); restore the store from a backup") from error
    if form < _OLDEST:
        raise StoreFailed(
            f"the store {folder} has format {form}, which this version of Trails does not read; bring it up with Trails 0.1 "
            "first (`trails store upgrade` there)"
        )
    if form > _NEWEST:
        raise StoreFailed(
            f"the store {folder} has format {form}, which no version of Trails wrote in such a folder; use a newer version"
        )
    return dict(note)


@contextlib.contextmanager
def _locked(folder: Path, *, writes: bool = True) -> Iterator[None]:
    """Hold the lock by which earlier versions keep a store to one process."""
    held = []
    try:
        for path in (folder, folder / "lock"):
            with contextlib.suppress(FileNotFoundError):
                held.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                fcntl.flock(held[-1], (fcntl.LOCK_EX if writes else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise StoreLocked(
            f"the store {folder} is open in a process of an earlier version; close it there first"
        ) from error
    finally:
        for descriptor in held:
            os.close(descriptor)


def _backed_up(folder: Path, form: int, wanted: Path | None) -> Path:
    place = wanted or _free_place(folder, form)
    log_maintenance.refuse_inside(folder, place)
    with log_maintenance.staged(place) as part:
        shutil.copytree(folder, part, ignore=lambda _, names: _NOT_COPIED & set(names), dirs_exist_ok=True)
    return place


def _free_place(folder: Path, form: int) -> Path:
    first = folder.with_name(f"{folder.name}.format-{form}.backup")
    more = (first.with_name(f"{first.name}-{again}") for again in count(2))
    return first if not first.exists() else next(place for place in more if not place.exists())


# --- converting


def _convert(folder: Path, note: dict[str, Any]) -> None:
    with scratch(folder) as work:
        frames, base = _frames(folder / "commits", bytes.fromhex(note["id"]))
        lines = _leaf_lines(folder / "log", frames, base)
        engine = _engine(folder / "quads", work / "quads", frames)
        new = work / "store"
        _write(engine, new, lines, work, folder)
        _take_over(new / sqlite.NAME, note, len(lines))
        os.rename(new / sqlite.NAME, folder / sqlite.NAME)  # noqa: PTH104 - the step that counts
        sync_folder(folder)
    remove_old(folder)


def _engine(quads: Path, work: Path, frames: Sequence[CommitRecord]) -> ox.Store:
    """Return a copy of the engine as it was, with the records that it may lack."""
    if not (quads / "CURRENT").exists() and any(file.suffix in (".sst", ".log") for file in quads.iterdir()):
        raise StoreFailed(f"the store {quads.parent} cannot be read: files of its engine are missing; restore a backup")
    unsynced = "*.log" if frames else ""  # all of it is in the records
    shutil.copytree(quads, work, ignore=shutil.ignore_patterns("LOCK", unsynced))
    try:
        engine = ox.Store(str(work))
        engine_filling.fill(engine, frames)
    except (OSError, RuntimeError) as error:
        raise StoreFailed(
            f"the store {quads.parent} cannot be read ({error}); open it once with Trails 0.1, or restore a backup"
        ) from error
    return engine


def _write(engine: ox.Store, new: Path, lines: Sequence[str], work: Path, folder: Path) -> None:
    """Write all quads, then all lines, to a new store, and hold it against what was read."""
    with (
        contextlib.closing(dumping.SortedLines(folder, work, len(engine), None)) as ordered,
        contextlib.closing(EmbeddedStore(new, create=True, durability="process")) as store,
    ):
        engine.dump(cast(IO[bytes], ordered), ox.RdfFormat.N_QUADS)
        before = hashlib.sha256()
        for batch in _batches(_hashed(ordered.merged(), before)):
            store.commit(Change(add=list(ox.parse(batch, format=ox.RdfFormat.N_QUADS))))
        for start in range(0, len(lines), _BATCH):
            store.commit(Change(leaves=[leaves.parse_leaf(line)[0] for line in lines[start : start + _BATCH]]))
        with contextlib.closing(dumping.SortedLines(folder, work, len(store), None)) as written:
            store.dump(cast(IO[bytes], written))
            after = hashlib.sha256()
            for _ in _hashed(written.merged(), after):
                pass
        if after.digest() != before.digest() or store.log.lines() != list(lines):
            raise IntegrityError(f"what was written of {folder} is not what was read; nothing was changed")
        store.flush()


def _hashed(lines: Iterator[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for line in lines:
        digest.update(line)
        yield line


def _batches(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines some thousand at a time; those of one subject stay together."""
    batch: list[bytes] = []
    for _, some in groupby(lines, lambda line: line.partition(b" ")[0]):
        batch += some
        if len(batch) >= _BATCH:
            yield b"".join(batch)
            batch = []
    if batch:
        yield b"".join(batch)


def _take_over(file: Path, note: dict[str, Any], lines: int) -> None:
    """Give a new log the id of the store, and what is said of older formats; it is one file, on disk, after that."""
    older = note.get("older")
    if note["format"] < _NEWEST:
        older = {"format": note["format"], "lines": lines, "until": None}
    with contextlib.closing(sqlite.connect(file)) as connection:
        connection.execute(
            "UPDATE trails_stores SET id = ?, made = ?, older = ?",
            (note["id"], note.get("created", ""), None if older is None else json.dumps(older)),
        )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- the old commit log and log of leaves


@dataclass(frozen=True, slots=True)
class _Base:
    """How far the log of leaves was before the first record that waits."""

    size: int
    link: str


def _frames(folder: Path, store_id: bytes) -> tuple[list[CommitRecord], _Base]:
    """Return the records that an old store's engine may lack, and how far its log of leaves was before them."""
    found = sorted(
        filter(None, (_segment(folder / name, store_id) for name in ("0", "1"))), key=lambda each: each.first
    )
    if not found:
        raise _damaged(folder, "it has no header")
    if len(found) == 2 and not found[1].records and found[1].first <= found[0].last:
        found.pop()  # a change to it was cut short
    if len(found) == 2 and (found[1].first != found[0].last + 1 or found[1].previous != found[0].checksum):
        raise _damaged(folder, f"record {found[0].last + 1} is missing or altered")
    return [record for each in found for record in each.records], found[0].base


@dataclass(frozen=True, slots=True)
class _Segment:
    first: int
    previous: bytes
    base: _Base
    records: list[CommitRecord]
    checksum: bytes

    @property
    def last(self) -> int:
        return self.first + len(self.records) - 1


def _segment(path: Path, store_id: bytes) -> _Segment | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise StoreFailed(f"the commit log {path} is missing; restore a backup") from error
    start = _HEADER.size + _SUM
    if len(data) < start or _checksum(data[: _HEADER.size]) != data[_HEADER.size : start]:
        return None
    _, whose, first, _, size, link, previous = _HEADER.unpack_from(data)
    if whose != store_id:
        raise _damaged(path.parent, "it is another store's")
    records, at, checksum = list[CommitRecord](), start, data[_HEADER.size : start]
    while len(data) - at >= _FRAME.size + _SUM:
        magic, flags, number, _, length = _FRAME.unpack_from(data, at)
        begin = at + _FRAME.size + _SUM
        made, payload = data[at + _FRAME.size : begin], data[begin : begin + length]
        if magic != b"TRr\n" or number != first + len(records):
            break
        if _checksum(checksum, data[at : at + _FRAME.size], payload) != made:
            break
        records.append(_record(payload, flags))
        at, checksum = begin + length + -length % 8, made
    if _later_claim(data, at) >= first + len(records):
        raise _damaged(path.parent, f"record {first + len(records)} was altered or torn out after it was synced")
    return _Segment(first, previous, _Base(size, link.hex()), records, checksum)


def _later_claim(data: bytes, start: int) -> int:
    """Return the highest record that a frame's head from a place on says was synced; 0 if there is none."""
    claims, at = [0], data.find(b"TRr\n", start)
    while at >= 0:
        if at % 8 == 0 and len(data) - at >= _FRAME.size + _SUM:
            _, flags, number, synced, _ = _FRAME.unpack_from(data, at)
            if flags < 16 and synced < number < 1 << 62:
                claims.append(synced)
        at = data.find(b"TRr\n", at + 1)
    return max(claims)


def _record(payload: bytes, flags: int) -> CommitRecord:
    told, drop, removed = _PARTS.unpack_from(payload)
    start = _PARTS.size + told
    return CommitRecord(
        leaves=lines_of(payload[_PARTS.size : start]),
        drop=lines_of(payload[start : start + drop]),
        remove=payload[start + drop : start + drop + removed],
        add=payload[start + drop + removed :],
        flags=flags,
    )


def _leaf_lines(log: Path, frames: Sequence[CommitRecord], base: _Base) -> list[str]:
    """Return all lines of an old log of leaves: those that were synced, those of the records, and what goes on from there."""
    data = log.read_bytes() if log.exists() else b""
    before = data[: base.size]
    lines = before.decode("utf-8", "replace").split("\n")[:-1]
    if len(before) < base.size or (lines[-1:] and leaves.link_leaf(lines[-1]) != base.link):
        raise _damaged(log, "it was cut short or altered before the records of the commit log")
    for number, wrong in leaves.check_links(lines):
        raise StoreFailed(f"line {number} of {log}: {wrong}; restore a backup")
    told = [line for record in frames for line in record.leaves]
    rest = data[base.size :].decode("utf-8", "replace").split("\n")[:-1]
    lines += told
    if rest[: len(told)] == told and not any(record.flags & _RELAXED for record in frames):
        for line in rest[len(told) :]:  # a line is written when its record is on disk
            if not leaves.follows(line, lines[-1] if lines else None):
                break
            lines.append(line)
    return lines


def _checksum(*parts: bytes) -> bytes:
    made = hashlib.blake2b(digest_size=_SUM)
    for part in parts:
        made.update(part)
    return made.digest()


def _damaged(place: Path, what: str) -> StoreFailed:
    return StoreFailed(f"{place} is damaged: {what}. What was acknowledged may be lost with it; restore a backup")
