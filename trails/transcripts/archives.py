"""Zip files that runs are kept in, read member by member: what is in one is told by its names, never by its suffix.

The central directory counts: what an edit left behind in the file is not seen, and of two members of one name the last one
counts. Members are stored, deflated or compressed with zstd (method 93), which needs the package `zstandard`.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence
from typing import IO, Final

from trails import unpacking
from trails.transcripts import zstd

SIGNATURE: Final = b"PK\x03\x04"
_ZSTD: Final = 93
_LOCAL_HEADER: Final = struct.Struct("<26xHH")
_ENCRYPTED: Final = 1
_FREE: Final = 64 << 20
_TOTAL_RATIO: Final = 200
"""How many times its own size an archive may unpack to in all, beside what is free: its members are read one at a time."""
FAULTS: Final = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    struct.error,
)
"""What reading a broken archive raises; `InvalidInput`, which is a ValueError too, is to be caught before."""


class Archive:
    """A zip file whose members are read one at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        """Open an archive; raises one of `FAULTS` for what is none."""
        self._file = file
        self._zip = zipfile.ZipFile(file)
        self._members = {each.filename: each for each in self._zip.infolist() if not each.is_dir()}
        self._left = file.seek(0, io.SEEK_END) * _TOTAL_RATIO + _FREE

    @property
    def names(self) -> Sequence[str]:
        """The names of its members, each once."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """Return what a member unpacks to.

        Raises `InvalidInput` where that is more than a file of its size is taken to hold, or the package `zstandard` is
        needed and missing, and one of `FAULTS` for a member that is broken.
        """
        member = self._members[name]
        if member.flag_bits & _ENCRYPTED:
            raise zipfile.BadZipFile(f"{name} is encrypted")
        most = min(self._left, max(_FREE, unpacking.limit(member.compress_size)))
        if member.compress_type == _ZSTD:
            data = zstd.unpack(self._packed(member), most)
            if zlib.crc32(data) != member.CRC:
                raise zipfile.BadZipFile(f"{name} does not have the checksum that the archive names")
        else:
            with self._zip.open(member) as packed:
                data = unpacking.Bounded(packed, most).read()
        self._left -= len(data)
        return data

    def _packed(self, member: zipfile.ZipInfo) -> bytes:
        self._file.seek(member.header_offset)
        name, extra = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        self._file.seek(name + extra, io.SEEK_CUR)
        return self._file.read(member.compress_size)


def names_in(data: bytes | IO[bytes]) -> list[str] | None:
    """Return the names of a zip file's members, or None where it cannot be read as one."""
    try:
        with zipfile.ZipFile(io.BytesIO(data) if isinstance(data, bytes) else data) as opened:
            return opened.namelist()
    except FAULTS:
        return None
