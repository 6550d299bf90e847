"""Bringing bytes and names to disk, so that a power cut leaves them there."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path


def sync_data(descriptor: int) -> None:
    """Return once what was written to a file, and its size, are on disk; raise OSError where the disk refuses."""
    if sys.platform == "darwin":  # fsync leaves bytes in the disk's own cache there
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def sync_folder(path: Path) -> None:
    """Return once the names of a folder's files are on disk: a file may survive a power cut and its name not."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes, position: int) -> None:
    """Write all of `data` at a position of a file; raise OSError where the disk refuses, with some of it written or none."""
    written = os.pwrite(descriptor, data, position)
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], position + written)
