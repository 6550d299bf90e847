"""The formats that are written from one reading of a family: a new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

from trails.transcripts.exporting import atif, inspect_log, messages, page
from trails.transcripts.exporting.family import Family
from trails.transcripts.exporting.report import SessionExport


@dataclass(frozen=True, slots=True)
class Writer:
    """What writes a format: a pure function of a family and a file, and what it holds beside one session."""

    write: Callable[[Family, BinaryIO], SessionExport]
    forks: bool
    """Whether it has a place for forks."""
    spawned: bool = False
    """Whether it has a place for the sessions that one spawned: they are then always written."""


WRITERS: Final[Mapping[str, Writer]] = {
    page.FORMAT: Writer(page.export, forks=True, spawned=True),
    messages.FORMAT: Writer(messages.export, forks=True),
    inspect_log.FORMAT: Writer(inspect_log.export, forks=True, spawned=True),
    atif.FORMAT: Writer(atif.export, forks=False, spawned=True),
}
