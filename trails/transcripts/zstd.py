"""Files and members of archives that are compressed with zstd: told by their first bytes, and unpacked within limits."""

from __future__ import annotations

from importlib import import_module
from typing import IO, Any, Final

from trails import unpacking
from trails.errors import InvalidInput

SIGNATURE: Final = b"\x28\xb5\x2f\xfd"
ENDING: Final = ".zst"
_WINDOW: Final = 128 << 20
"""Bytes of memory that zstd may ask for."""


def unpack(data: bytes, most: int) -> bytes:
    """Return what zstd's frames unpack to.

    Raises `InvalidInput` where that is more than `most` bytes, where the data is broken, and where the package `zstandard` is
    not installed.
    """
    return _read(data, unpacking.Bounded(_reader(data), most))


def content(data: bytes) -> bytes:
    """Return the content of a file: what it unpacks to if zstd compressed it, else the data; raises as `unpack`.

    >>> content(b"{}")
    b'{}'
    """
    return unpack(data, unpacking.limit(len(data))) if data.startswith(SIGNATURE) else data


def head(data: bytes, size: int) -> bytes:
    """Return the first bytes of what the beginning of a file unpacks to; raises as `unpack`."""
    return _read(data, _reader(data), size)


def _reader(data: bytes) -> Any:
    try:
        zstandard = import_module("zstandard")
    except ImportError as error:
        raise InvalidInput(
            "it is compressed with zstd, which needs the package `zstandard`: pip install 'trails[zstd]'"
        ) from error
    return zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(data, read_across_frames=True)


def _read(data: bytes, reader: IO[bytes] | unpacking.Bounded, size: int = -1) -> bytes:
    try:
        return reader.read(size)
    except import_module("zstandard").ZstdError as error:
        raise InvalidInput(f"it begins as zstd does, and cannot be unpacked: {error}") from error
