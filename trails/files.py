"""Read and write private files, whole or not at all.

Files that hold what people said: for their owner alone, whatever the umask, and there only once they are whole.

How much a compressed file may unpack to: a few kilobytes can stand for gigabytes, and are then refused, not unpacked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from gzip import GzipFile
from pathlib import Path
from typing import IO, BinaryIO, Final, cast

from trails.errors import InvalidInput, StoreFailed, TrailsError

PRIVATE: Final = 0o600

"""The mode of a file that only its owner may read and write."""
_STEP: Final = 1 << 20
"""Bytes that are summed up at a time."""
MOST: Final = 512 << 20
"""Bytes of a file that is read whole at once."""
_PART: Final = ".part"
_STALE: Final = 60.0
"""Seconds after which a part that nobody holds was left behind: one that was just made may not be held yet."""
_OF_THE_PATH: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.EACCES, errno.EPERM, errno.EROFS}
    | {errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.EXDEV}
)
"""What the system says where another path would do."""


def readable_path(path: object) -> str:
    """Return a path as text that can be stored and shown: bytes in it that are no UTF-8 are written as `\\xff`.

    >>> readable_path(os.fsdecode(b"a\\xff.jsonl"))
    'a\\\\xff.jsonl'
    """
    return os.fsencode(str(path)).decode("utf-8", "backslashreplace")


def as_path(path: str | os.PathLike[str], what: str = "a path") -> Path:
    """Return what names a file or a folder as a path; raise `InvalidInput` where it names none anywhere.

    >>> as_path("plan.nq.gz").name
    'plan.nq.gz'
    """
    given: object = path
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidInput(f"{what} is a text or a pathlib.Path, not {path!r}")
    if not text:
        raise InvalidInput(f"{what} is empty; name a file or a folder")
    if "\0" in text:
        raise InvalidInput(f"{what} holds a NUL character, which no path may: {text!r}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{what} holds what no path may ({error.reason}): {text!r}") from error
    return Path(text)


def open_plain(path: Path, flags: int) -> int:
    """Return a descriptor of a plain file; raises OSError for whatever else stands there: a link, or a pipe, which would be
    waited for without end."""
    descriptor = open_only(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no plain file", str(path))
    return descriptor


def open_only(path: str | Path, flags: int) -> int:
    """Return a descriptor as `open_plain` does, but of a pipe, a folder or a device, too: for who reads it by `os.pread`,
    which raises OSError for the first two."""
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, PRIVATE)


def open_own(path: Path, flags: int) -> int:
    """Return a descriptor of a file in a store's folder, readable for its owner alone where it is made.

    Raises `StoreFailed` where a link stands there: nothing is read or written elsewhere through a store's own names.
    """
    try:
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise StoreFailed(link_refused(path)) from error


def link_refused(path: Path) -> str:
    """Return what to say of a link in a store's folder."""
    return (
        f"the store {path.parent} cannot be opened: its {path.name!r} is a link to {path.resolve()}, and a store's files are its "
        "own; put the file or folder itself in the link's place, and move the whole store where you want it: a link to that is "
        "welcome"
    )


def read_plain(path: Path) -> bytes:
    """Return all bytes of a plain file; raises OSError as `open_plain` does."""
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        return file.read()


@contextmanager
def in_words(path: Path, what: str) -> Iterator[None]:
    """Say in words what the system says of a path, or of what is in it; `what` cannot be done, such as "read".

    Raises `InvalidInput` where another path would do, `TrailsError` where the disk is full or fails.
    """
    try:
        yield
    except OSError as error:
        inside = isinstance(error.filename, str) and Path(error.filename).is_relative_to(path)
        said = f"{error.filename if inside else path} cannot be {what}: {error.strerror or error}"
        if error.errno in _OF_THE_PATH:
            raise InvalidInput(f"{said}; check the path and its permissions") from error
        raise TrailsError(f"{said}; free some space on that disk, or use another one") from error


def read_whole(path: Path, most: int = MOST) -> bytes:
    """Return the bytes of a file, of which there are `most` at most; raise `InvalidInput` where there are more.

    No more than that is ever read, so a file without an end (a device, a pipe) does not take the memory. Raises what the
    system raises for a path that cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise InvalidInput(
            f"{path} has more than {most:,} bytes, the most that is read; check that it is the right file"
        )
    return data


def sum_of(path: Path) -> tuple[int, int]:
    """Return how many bytes a file has, and their CRC-32; it is read a part at a time. Raises OSError."""
    size = checksum = 0
    with path.open("rb") as file:
        while data := file.read(_STEP):
            size += len(data)
            checksum = zlib.crc32(data, checksum)
    return size, checksum


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let a function write a private file beside its place, and move it there, on disk, when it is whole.

    What stood at `path` is replaced, and what fails leaves it as it was. A device or a pipe is written to as it stands.
    """
    import tempfile  # noqa: PLC0415 - takes long to import, and few commands write files

    if path.exists() and not (path.is_file() or path.is_dir()):
        with path.open("wb") as device:
            write(device)
        return
    _sweep(path)
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=_begin(path), suffix=_PART)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # no name that nobody gave
    part = Path(name)
    _hold(descriptor)
    try:
        with os.fdopen(descriptor, "wb") as out:
            os.fchmod(out.fileno(), PRIVATE)
            write(cast("BinaryIO", out))
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    except BaseException:  # an interrupt too: nothing half written stays
        part.unlink(missing_ok=True)
        raise


@contextmanager
def part_folder(path: Path) -> Iterator[Path]:
    """Yield a private folder beside a place, in which files are written until they are whole; it goes with the block."""
    import tempfile  # noqa: PLC0415 - as above

    _sweep(path)
    part = Path(tempfile.mkdtemp(dir=path.parent, prefix=_begin(path), suffix=_PART))
    descriptor = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
    _hold(descriptor)
    try:
        yield part
    finally:
        shutil.rmtree(part)
        os.close(descriptor)


def _begin(path: Path) -> str:
    """Return what the names of parts of a file begin with, however long its own is."""
    return f".{zlib.crc32(os.fsencode(path.name)):08x}-"


def _hold(descriptor: int) -> None:
    """Mark a part as one that is being written, until it is closed; a kill closes it too."""
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sweep(path: Path) -> None:
    """Remove the parts that a kill has left of a file: those that nobody holds, and that are older than `_STALE`."""
    begin = _begin(path)
    with suppress(OSError):
        for left in path.parent.iterdir():
            if left.name.startswith(begin) and left.name.endswith(_PART):
                _remove_stale(left)


def _remove_stale(left: Path) -> None:
    descriptor = os.open(left, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if time.time() - os.fstat(descriptor).st_mtime > _STALE:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where it is held
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes, *, public: bool = False) -> None:
    """Write a private file and bring it to disk; raise `FileExistsError` for one that is there, which stays as it is.

    A `public` one (a key or a note that is to be given out) may be read as the umask says.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644 if public else PRIVATE)
    try:
        with os.fdopen(descriptor, "wb") as out:
            if not public:
                os.fchmod(out.fileno(), PRIVATE)
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
    except BaseException:  # as above
        path.unlink(missing_ok=True)
        raise


@contextmanager
def private_folders() -> Iterator[None]:
    """Make all that is made meanwhile, folders too, for its owner alone.

    The umask is the whole process's: only for a program that does nothing else at the time.
    """
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


MAX_UNPACKED: Final = 512 << 20
"""Bytes that an archive of transcripts may unpack to, all its files together: they are read in memory."""
MAX_RATIO: Final = 40
"""How many times its own size an archive of transcripts may unpack to; texts take some 3 to 15."""
FREE_UNPACKED: Final = 16 << 20
"""Bytes that any file may unpack to, however small it is."""


def unpack_limit(packed: int) -> int:
    """Return how many bytes an archive of a size may unpack to.

    >>> unpack_limit(600_000) >> 20, unpack_limit(10 << 20) >> 20, unpack_limit(1 << 30) >> 20
    (22, 400, 512)
    """
    return min(MAX_UNPACKED, max(FREE_UNPACKED, packed * MAX_RATIO))


class BoundedReader:
    """A stream of unpacked bytes that raises `InvalidInput` once more than `most` were read."""

    def __init__(self, source: IO[bytes] | GzipFile, most: int) -> None:
        self._source = source
        self._most = most
        self._left = most

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, all that are left for a negative one; never more than the bound."""
        wanted = self._left + 1 if size < 0 else min(size, self._left + 1)
        data = self._source.read(wanted)
        self._left -= len(data)
        if self._left < 0:
            raise InvalidInput(
                f"it unpacks to more than {self._most:,} bytes, which is more than such a file is taken to hold; "
                "unpack it yourself and give what is in it, if you trust it"
            )
        return data


def sync_folder(path: Path) -> None:
    """Return once the names of a folder's files are on disk: a file may survive a power cut and its name not."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
