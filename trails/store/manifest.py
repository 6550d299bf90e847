"""The engine's own list of its files, `MANIFEST-*`: its end is put right before the engine reads it.

The engine (RocksDB) adds a record for every change of its files, and syncs it before it relies on it. What a power cut
leaves of a record that was being added may be anything, and of some of it the engine (0.5.13) never comes to an end
while opening; other it refuses. The record never counted, so it is cut off.

The file is blocks of 32 KiB, of records: CRC-32C of what follows the length, masked (4), length (2), type from 1 to 4
(1), data; less than 7 bytes at the end of a block are left out.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

from trails.errors import StoreFailed

_BLOCK: Final = 32 * 1024
_HEAD: Final = struct.Struct("<IHB")
_TYPES: Final = range(1, 5)
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


def whole(data: bytes, file: Path) -> bytes:
    """Return a list without an unfinished record at its end; raise `StoreFailed` where it is damaged elsewhere."""
    end = _end(data)
    if end < len(data) and any(_is_record(data, place, checked=True) for place in range(end + 1, len(data))):
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
