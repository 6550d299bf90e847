"""The indexes of a store in PostgreSQL, as their processes register them in its database: who has which, and how far it is."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trails.store.log.log_maintenance import Behind

FORGOTTEN: Final = 30
"""Days without a word after which an index is told no more."""
HEARD: Final = 60.0
"""Seconds that pass at least between two words of a process that only brings in what others commit."""


@dataclass(frozen=True, slots=True)
class Reader:
    """An index: the process that has it or had it last, how far it is, and at which vacuum its files were made."""

    index: str
    process: str
    number: int
    erased: int
    is_closed: bool
    heard: datetime | None = None
    """When its process last said so, by the server's clock."""


def this_process() -> str:
    """Return what this process is called there: its machine and its number."""
    return f"{platform.node() or 'unknown'}:{os.getpid()}"


def behind(readers: Iterable[Reader], erased: int) -> list[Reader]:
    """Return those whose files were made before a vacuum, and may still hold what it took out.

    >>> old, new = Reader("a", "one:7", 9, 0, is_closed=False), Reader("b", "two:8", 9, 5, is_closed=True)
    >>> [reader.index for reader in behind([old, new], 5)]
    ['a']
    """
    return [reader for reader in readers if reader.erased < erased]


def told(readers: Iterable[Reader]) -> tuple[Behind, ...]:
    """Return readers as reports tell them."""
    return tuple(Behind(each.process, each.index, each.is_closed, each.heard) for each in readers)
