"""The formats that are written from one reading of a family: a new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

from trails.exchange.exporters import atif_export, html_page, inspect_export, messages_export
from trails.exchange.exporters.session_family import Family, SessionExport


@dataclass(frozen=True, slots=True)
class Writer:
    """What writes a format: a pure function of a family and a file, and what it holds beside one session."""

    write: Callable[[Family, BinaryIO], SessionExport]
    forks: bool
    """Whether it has a place for forks."""
    spawned: bool = False
    """Whether it has a place for the sessions that one spawned: they are then always written."""


WRITERS: Final[Mapping[str, Writer]] = {
    html_page.FORMAT: Writer(html_page.export, forks=True, spawned=True),
    messages_export.FORMAT: Writer(messages_export.export, forks=True),
    inspect_export.FORMAT: Writer(inspect_export.export, forks=True, spawned=True),
    atif_export.FORMAT: Writer(atif_export.export, forks=False, spawned=True),
}
