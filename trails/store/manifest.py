"""The engine's own list of its files, `MANIFEST-*`: its end is put right before the engine reads it.

The engine (RocksDB) adds a record for every change of its files, and syncs it before it relies on it. What a power cut
leaves of a record that was being added may be anything, and of some of it the engine (0.5.13) never comes to an end
while opening; other it refuses. The record never counted, so it is cut off.

Some changes are several records, synced together: a power cut may keep later ones of them and lose earlier ones. So it is
noted how long the list was when the engine had last brought all to disk (`note`): what comes after that is cut off, whatever
it is, since the commit log has all that is in it.

The file is blocks of 32 KiB, of records: CRC-32C of what follows the length, masked (4), length (2), type from 1 to 4
(1), data; less than 7 bytes at the end of a block are left out.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from pathlib import Path
from typing import Final

from trails.errors import StoreFailed
from trails.files import open_own, read_own

_BLOCK: Final = 32 * 1024
_NOTED: Final = 64
"""Bytes of a note: one sector of a disk has all of it."""
_HEAD: Final = struct.Struct("<IHB")
_TYPES: Final = range(1, 5)
_NOTE: Final = "manifest.note"
"""Beside the list: files that the engine did not make it leaves alone."""
_CHECKED: Final = 16 * 1024
"""Bytes at the end whose checksums are looked at: no single change of the engine's files takes as much."""


def trim(engine_folder: Path) -> None:
    """Cut off what a power cut left of an unfinished record at the end of the engine's list of files, on disk at return.

    Raises `StoreFailed` where the damage is not at its end: records that counted come after it.
    """
    current = engine_folder / "CURRENT"
    if not current.exists():
        return
    file = engine_folder / current.read_text("utf-8", "replace").strip()
    if file.parent != engine_folder or not file.is_file():
        return  # the engine says what is missing
    data = file.read_bytes()
    end = len(whole(data, file))
    if end == len(data):
        return
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, end)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def note(engine_folder: Path, *, sync: bool) -> None:
    """Note how long the list is, on disk at return with `sync`: call it once the engine has brought all to disk.

    The note is written over the one before it, in one piece; one that is not whole counts for none.
    """
    name = (engine_folder / "CURRENT").read_text("utf-8", "replace").strip()
    told = f"{name} {(engine_folder / name).stat().st_size}"
    descriptor = open_own(engine_folder / _NOTE, os.O_WRONLY | os.O_CREAT)
    try:
        os.pwrite(descriptor, f"{zlib.crc32(told.encode()):08x} {told}".ljust(_NOTED).encode(), 0)
        if sync:
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _relied_on(file: Path) -> int:
    """Return up to where a list of files is surely on disk; all of it where nobody noted that."""
    try:
        crc, name, size = read_own(file.with_name(_NOTE)).decode("ascii").split()
        if name == file.name and int(crc, 16) == zlib.crc32(f"{name} {size}".encode()):
            return int(size)
    except (OSError, ValueError):
        pass
    return sys.maxsize


def whole(data: bytes, file: Path) -> bytes:
    """Return a list without an unfinished record at its end; raise `StoreFailed` where it is damaged elsewhere."""
    end = _end(data)
    if end < min(len(data), _relied_on(file)) and any(
        _is_record(data, place, checked=True) for place in range(end + 1, len(data))
    ):
        raise StoreFailed(f"{file} was altered at byte {end}: what it says after that was on disk; restore a backup")
    return data[:end]


def _end(data: bytes) -> int:
    """Return where the last whole record ends."""
    place = 0
    while place < len(data):
        left = _BLOCK - place % _BLOCK
        if left < _HEAD.size:
            place += left
        elif _is_record(data, place, checked=place >= len(data) - _CHECKED):
            place += _HEAD.size + _HEAD.unpack_from(data, place)[1]
        else:
            return place
    return len(data)


def _is_record(data: bytes, place: int, *, checked: bool) -> bool:
    if len(data) - place < _HEAD.size:
        return False
    made, length, kind = _HEAD.unpack_from(data, place)
    end = place + _HEAD.size + length
    if kind not in _TYPES or end > len(data) or place % _BLOCK + _HEAD.size + length > _BLOCK:
        return False
    return not checked or made == _masked(_crc(data[place + 6 : end]))


def _crc(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli; RFC 3720, appendix B.4) of some bytes."""
    made = 0xFFFFFFFF
    for byte in data:
        made = _TABLE[(made ^ byte) & 0xFF] ^ (made >> 8)
    return made ^ 0xFFFFFFFF


def _masked(made: int) -> int:
    return (((made >> 15) | (made << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _table() -> list[int]:
    made = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = (value >> 1) ^ 0x82F63B78 if value & 1 else value >> 1
        made.append(value)
    return made


_TABLE: Final = _table()
