"""The formats that are written from one reading of a family: a new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

from trails.transcripts.exporting import messages, page
from trails.transcripts.exporting.family import Family
from trails.transcripts.exporting.report import SessionExport


@dataclass(frozen=True, slots=True)
class Writer:
    """What writes a format: a pure function of a family and a file, whether it holds forks, and whether it is text."""

    write: Callable[[Family, BinaryIO], SessionExport]
    forks: bool
    text: bool = True


WRITERS: Final[Mapping[str, Writer]] = {
    page.FORMAT: Writer(page.export, forks=True),
    messages.FORMAT: Writer(messages.export, forks=True),
}
BINARY: Final = frozenset(name for name, writer in WRITERS.items() if not writer.text)
"""The formats that a terminal cannot take."""
