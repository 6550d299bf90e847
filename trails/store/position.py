"""How far a store's owner has come, told to those who read beside it: a small file that is overwritten and never synced.

    magic (8), store id (16), boot (16), opening (8), then two numbers, each followed by its complement (8 + 8): the last
    record of the commit log, and the last one that the engine has; its highest bit says that more are just being loaded

`boot` is the system's own name for the time since it was started: within that time, whoever reads the file sees what was
written, whether or not its writer lives. Zeros stand for a store that was closed in good order. `opening` is drawn anew
whenever somebody opens the store. Nothing is decided by this file but when to look, and what may be believed of a copy.
"""

from __future__ import annotations

import os
import secrets
import struct
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from uuid import UUID

from trails.files import open_own, read_own
from trails.store.syncing import write_all

_HEAD: Final = struct.Struct("<8s16s16s8s")
_NUMBER: Final = struct.Struct("<QQ")
_MAGIC: Final = b"TRAILSP\n"
_RECORDED: Final = _HEAD.size
_APPLIED: Final = _RECORDED + _NUMBER.size
_SIZE: Final = _APPLIED + _NUMBER.size
_ALL: Final = (1 << 64) - 1
_LOADING: Final = 1 << 63
_CLOSED: Final = bytes(16)
_UNKNOWN: Final = b"\xff" * 16
"""Where the system has no name for its start: nobody can tell then whether he sees what the owner wrote."""
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_LOOKS: Final = 100
"""How often a number is looked at that is just being written."""


@cache
def boot_id() -> str | None:
    """Return the name of the time since this system was started, or None where it has none."""
    with suppress(OSError, ValueError):
        return str(UUID(_BOOT.read_text("ascii").strip()))
    return None


@dataclass(frozen=True, slots=True)
class Position:
    """What an owner told: the last record of the commit log (`recorded`), and the last one that the engine has (`applied`)."""

    boot: bytes
    opening: bytes
    recorded: int
    applied: int
    is_loading: bool = False
    """Whether the engine is just getting records in parts."""

    @property
    def is_closed(self) -> bool:
        """Whether the owner ended in good order."""
        return self.boot == _CLOSED

    @property
    def is_of_this_boot(self) -> bool:
        """Whether what the owner wrote, and may not have synced, can be seen here: its system was not started again since."""
        return self.boot == _boot() != _UNKNOWN


def read(path: Path, store_id: bytes) -> Position | None:
    """Return what the owner of a store told last; None where nobody told anything, or of another store."""
    for _ in range(_LOOKS):
        try:
            data = read_own(path)
        except FileNotFoundError:
            return None
        if len(data) != _SIZE:
            continue  # it is just being made
        magic, told_of, boot, opening = _HEAD.unpack_from(data)
        recorded, applied = _number(data, _RECORDED), _number(data, _APPLIED)
        if magic == _MAGIC and recorded is not None and applied is not None:
            if told_of != store_id:
                return None
            return Position(boot, opening, recorded, applied & ~_LOADING, is_loading=bool(applied & _LOADING))
    return None


class Posted:
    """The file as its owner writes it. What the disk refuses is let go: readers then wait in vain, and say so."""

    def __init__(self, path: Path, store_id: bytes, recorded: int) -> None:
        """Tell that the store is being opened: that many records, and nothing known of what the engine has."""
        self._store_id = store_id
        self._opening = secrets.token_bytes(8)
        self._descriptor = -1
        self._applied = 0
        with suppress(OSError):
            self._descriptor = open_own(path, os.O_RDWR | os.O_CREAT)
        self._put(0, self._head(_boot()) + _encoded(recorded) + _encoded(0))

    def recorded(self, number: int) -> None:
        """Tell the last record of the commit log."""
        self._put(_RECORDED, _encoded(number))

    def applied(self, number: int) -> None:
        """Tell the last record that the engine has, and that it gets nothing in parts."""
        self._applied = number
        self._put(_APPLIED, _encoded(number))

    def loading(self) -> None:
        """Tell that the engine is about to get records in parts, until it is told which one it has then."""
        self._put(_APPLIED, _encoded(self._applied | _LOADING))

    def closed(self) -> None:
        """Tell that the store is closed, and everything on disk."""
        self._put(0, self._head(_CLOSED))

    def close(self) -> None:
        """Close the file; twice is allowed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _head(self, boot: bytes) -> bytes:
        return _HEAD.pack(_MAGIC, self._store_id, boot, self._opening)

    def _put(self, place: int, data: bytes) -> None:
        if self._descriptor >= 0:
            with suppress(OSError):
                write_all(self._descriptor, data, place)


def _boot() -> bytes:
    found = boot_id()
    return _UNKNOWN if found is None else UUID(found).bytes


def _encoded(number: int) -> bytes:
    return _NUMBER.pack(number, number ^ _ALL)


def _number(data: bytes, place: int) -> int | None:
    """Return a number, or None where it was read while it was written."""
    number, complement = _NUMBER.unpack_from(data, place)
    return int(number) if number ^ complement == _ALL else None
