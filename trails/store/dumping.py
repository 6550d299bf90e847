"""A store as one compressed file of sorted N-Quads, and back: the same quads give the same bytes everywhere."""

from __future__ import annotations

import contextlib
import gzip
import heapq
import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, cast

from trails.errors import InvalidInput
from trails.store.embedded import EmbeddedStore
from trails.store.leaflog import sync_folder

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what) as the work goes on."""

_CHUNK: Final = 64 * 1024 * 1024
"""Bytes of lines that are sorted in memory at once."""
_STEP: Final = 5_000
"""Lines that are compressed at once, between two calls of a progress function."""


def dump(
    store: EmbeddedStore, file: Path, progress: Progress | None = None, *, replace: bool = False, packed: bool = True
) -> int:
    """Write a store to a file of sorted N-Quads, one quad a line; return how many. The file appears once it is whole.

    It is compressed with gzip unless `packed` is False.

    The store may be in use: the dump holds it as it was at one moment. Its log is not in the dump: a store that is
    loaded from it begins a new one, so that only a backup can be held against older checkpoints.
    """
    if file.exists() and not replace:
        raise InvalidInput(f"{file} is there already; name another file, or say that it may be replaced")
    total = len(store)
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".part", dir=file.parent)
    try:
        with (
            os.fdopen(descriptor, "wb") as out,
            tempfile.TemporaryDirectory(prefix=".dump.", dir=file.parent) as scratch,
        ):
            runs = _Runs(Path(scratch), total, progress)
            store.dump(cast(IO[bytes], runs))
            written = _write(out, runs.merged(), total, progress, packed=packed)
            out.flush()
            os.fsync(out.fileno())
        Path(name).rename(file)
        sync_folder(file.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return written


def _write(out: IO[bytes], lines: Iterator[bytes], total: int, progress: Progress | None, *, packed: bool) -> int:
    count = 0
    with contextlib.ExitStack() as stack:
        to: IO[bytes] | gzip.GzipFile = out
        if packed:  # no file name and no time: the same store gives the same file
            to = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0, compresslevel=6))
        while batch := list(islice(lines, _STEP)):
            to.write(b"".join(batch))
            count += len(batch)
            if progress:
                progress(count, total, "writing")
    return count


class _Runs:
    """A place to write N-Quads to, which sorts them: runs of lines in files, merged at the end."""

    def __init__(self, folder: Path, total: int, progress: Progress | None) -> None:
        self._folder = folder
        self._total = total
        self._progress = progress
        self._pending = bytearray()
        self._files: list[Path] = []
        self._lines = 0

    def write(self, data: bytes) -> int:
        self._pending += data
        if len(self._pending) >= _CHUNK:
            self._close_run()
        return len(data)

    def flush(self) -> None:
        """Do nothing: what is pending is cut at the next full line."""

    def _close_run(self) -> None:
        end = self._pending.rfind(b"\n") + 1
        lines = sorted(line + b"\n" for line in self._pending[: end - 1].split(b"\n")) if end else []
        del self._pending[:end]
        self._lines += len(lines)
        file = self._folder / f"{len(self._files)}.nq"
        with file.open("wb") as out:
            out.writelines(lines)
        self._files.append(file)
        if self._progress:
            self._progress(self._lines, self._total, "sorting")

    def merged(self) -> Iterator[bytes]:
        """Give all lines, sorted."""
        self._close_run()
        with contextlib.ExitStack() as stack:
            yield from heapq.merge(*(stack.enter_context(file.open("rb")) for file in self._files))


def load(file: Path, folder: Path, progress: Progress | None = None) -> None:
    """Make a store in a new folder from a dump (N-Quads, compressed with gzip or not).

    Raises `InvalidInput` for a file that is cut short or no N-Quads; the folder is then for the caller to remove.
    """
    store = EmbeddedStore(folder, create=True, durability="process")
    try:
        with file.open("rb") as raw:
            source = _Source(raw, file.stat().st_size, progress)
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            unpacked = gzip.GzipFile(fileobj=source, mode="rb") if packed else source
            store.load(cast(IO[bytes], unpacked))
    except (SyntaxError, ValueError, EOFError, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{file} is no whole dump: {error}; nothing was loaded") from error
    finally:
        store.close()


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
