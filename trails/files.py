"""Files that hold what people said: for their owner alone, whatever the umask, and there only once they are whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

PRIVATE: Final = 0o600
"""The mode of a file that only its owner may read and write."""


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let a function write a private file beside its place, and move it there, on disk, when it is whole.

    What stood at `path` is replaced, and what fails leaves it as it was.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as out:
            os.fchmod(out.fileno(), PRIVATE)
            write(cast("BinaryIO", out))
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


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
    except BaseException:
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
