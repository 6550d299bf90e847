"""A store as one compressed file of sorted N-Quads, and back: the same quads give the same bytes everywhere."""

from __future__ import annotations

import contextlib
import gzip
import heapq
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, cast

import pyoxigraph as ox

from trails.display.progress import Progress
from trails.errors import InvalidInput
from trails.files import in_words, sync_folder
from trails.rdf.derived_quads import without_derived
from trails.store.contract import Change
from trails.store.embedded import EmbeddedStore
from trails.store.index.reading import EngineReader
from trails.store.log.log_maintenance import scratch

ROOM: Final = 500_000_000
"""Bytes that stay free on the disk, however much a dump unpacks to; looked at after every piece of one that is loaded."""
_BATCH: Final = 8 * 1024 * 1024
"""Bytes of quads, about, that are loaded in one commit."""
_QUAD: Final = 400
"""Bytes of a quad without its text, about."""


_CHUNK: Final = 64 * 1024 * 1024
"""Bytes of lines that are sorted in memory at once."""
_STEP: Final = 5_000
"""Lines that are compressed at once, between two calls of a progress function."""


def dump(
    store: EngineReader, file: Path, progress: Progress | None = None, *, replace: bool = False, packed: bool = True
) -> int:
    """Write a store to a file of sorted N-Quads, one quad a line; return how many. The file appears once it is whole.

    It is compressed with gzip unless `packed` is False.

    The store may be in use: the dump holds it as it was at one moment. What is derived of its quads is in it too, for whoever
    loads it elsewhere; `load` leaves that out. The store's log is not in the dump: a store that is loaded from it begins a new
    one, so that only a backup can be held against older checkpoints.
    """
    total = len(store)
    with in_words(file, "written"):
        if file.is_dir():
            raise InvalidInput(f"{file} is a folder; name a file")
        if file.exists() and not replace:
            raise InvalidInput(f"{file} is there already; name another file, or say that it may be replaced")
        return _dump(store, file, total, progress, packed=packed)


def _dump(store: EngineReader, file: Path, total: int, progress: Progress | None, *, packed: bool) -> int:
    with scratch(file) as folder, contextlib.closing(SortedLines(file, folder, total, progress)) as runs:
        store.dump(cast(IO[bytes], runs), derives=True)
        part = folder / file.name
        written = write_lines(part, runs.merged(), runs.count(), progress, packed=packed)
        publish(part, file)
    return written


def write_lines(
    part: Path,
    lines: Iterator[bytes],
    total: int,
    progress: Progress | None,
    *,
    packed: bool,
    begin: bytes = b"",
    end: bytes = b"",
) -> int:
    """Write lines to a new file, between a beginning and an end, and sync it; return how many there are."""
    count = 0
    opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(opened, "wb") as out:
        # no file name and no time: the same store gives the same file
        pack = gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0, compresslevel=6) if packed else None
        with pack or contextlib.nullcontext(out) as to:
            to.write(begin)
            while batch := list(islice(lines, _STEP)):
                to.write(b"".join(batch))
                count += len(batch)
                if progress:
                    progress(count, total, "writing")
            to.write(end)
        out.flush()
        os.fsync(out.fileno())
    return count


def publish(part: Path, file: Path) -> None:
    """Let a file that was written whole appear under its name."""
    part.rename(file)
    sync_folder(file.parent)


class SortedLines:
    """A place to write N-Quads to, which sorts them: runs of lines in files that have no names, merged at the end."""

    def __init__(self, file: Path, folder: Path, total: int, progress: Progress | None) -> None:
        """`file` is what errors name, `folder` where the runs take their space; `total` is told as how many there are, about."""
        self._file = file
        self._folder = folder
        self._total = total
        self._progress = progress
        self._pending = bytearray()
        self._files: list[IO[bytes]] = []
        self._lines = 0

    def write(self, data: bytes) -> int:
        self._pending += data
        if len(self._pending) >= _CHUNK:
            with in_words(self._file, "written"):  # what is raised here, the engine would take for its own trouble
                self._close_run()
        return len(data)

    def flush(self) -> None:
        """Do nothing: what is pending is cut at the next full line."""

    def _close_run(self) -> None:
        end = self._pending.rfind(b"\n") + 1
        lines = sorted(line + b"\n" for line in self._pending[: end - 1].split(b"\n")) if end else []
        del self._pending[:end]
        self._lines += len(lines)
        file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - it is closed with the others
        self._files.append(file)
        file.writelines(lines)
        file.seek(0)
        if self._progress:
            self._progress(self._lines, max(self._lines, self._total), "sorting")

    def count(self) -> int:
        """Return how many lines were written."""
        if self._pending:
            self._close_run()
        return self._lines

    def merged(self) -> Iterator[bytes]:
        """Give all lines, sorted; once nothing more is written, again each time that it is called."""
        self.count()
        for file in self._files:
            file.seek(0)
        yield from heapq.merge(*self._files)

    def close(self) -> None:
        """Give the disk space of the runs back."""
        for file in self._files:
            file.close()


def load(file: Path, folder: Path, progress: Progress | None = None) -> None:
    """Make a store in a new folder from a dump (N-Quads, compressed with gzip or not).

    Raises `InvalidInput` for a file that is cut short or no N-Quads; the folder is then for the caller to remove.
    """
    with in_words(file, "read"):
        opened = file.open("rb")
    with opened as raw:
        _load_into(folder, file, raw, progress)


def _load_into(folder: Path, file: Path, raw: IO[bytes], progress: Progress | None) -> None:
    store = EmbeddedStore(folder, create=True, durability="process")
    try:
        source = _Source(raw, file.stat().st_size, progress)
        first = raw.read(2)
        if not first:  # also the dump of a store without a session has the head of its compression
            raise EOFError("it is empty")
        packed = first == b"\x1f\x8b"
        raw.seek(0)
        unpacked = gzip.GzipFile(fileobj=cast(IO[bytes], source), mode="rb") if packed else cast(IO[bytes], source)
        _load(store, unpacked, folder)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}; nothing was loaded") from error
    except (SyntaxError, ValueError, EOFError, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{file} is no whole dump: {error}; nothing was loaded") from error
    except MemoryError as error:
        raise InvalidInput(
            f"{file} holds a line that cannot be read, longer than the engine's parsers take: {error}; "
            "nothing was loaded. A store that wrote such a text can be backed up and restored"
        ) from error
    finally:
        store.close()


def _load(store: EmbeddedStore, source: IO[bytes] | gzip.GzipFile, folder: Path) -> None:
    """Load quads some at a time: a few kilobytes may unpack to much."""
    count = 0
    for quads in _batches(without_derived(ox.parse(cast(IO[bytes], source), format=ox.RdfFormat.N_QUADS))):
        if count and (free := shutil.disk_usage(folder).free) < ROOM:
            raise InvalidInput(
                f"it unpacks to more than the disk has room for: {free:,} bytes are left after {count:,} quads of it, and "
                f"{ROOM:,} are kept free"
            )
        store.commit(Change(add=quads))
        count += len(quads)


def _batches(quads: Iterable[ox.Quad]) -> Iterator[list[ox.Quad]]:
    batch, size = list[ox.Quad](), 0
    for quad in quads:
        batch.append(quad)
        size += _QUAD + len(getattr(quad.object, "value", ""))
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Source:
    """A file that is read from the start to the end, and tells how far it is."""

    def __init__(self, raw: IO[bytes], size: int, progress: Progress | None) -> None:
        self._raw = raw
        self._size = size
        self._progress = progress

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(size)
        if self._progress:
            self._progress(self._raw.tell(), self._size, "reading")
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)
