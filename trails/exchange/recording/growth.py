"""Bring in what was written to transcripts since they were last read."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from trails.exchange.file_import import RESTED, FileImport
from trails.exchange.formats import Format
from trails.exchange.import_secrets import mask_report
from trails.exchange.recording import transcript_files
from trails.exchange.recording.file_state import FileRead
from trails.exchange.source_transcript import ImportReport
from trails.session import Repository

SETTLE: Final = 0.8
"""Seconds after a file's last write for which a message at its end waits for more of it."""
_MARGIN: Final = 0.05
_LONGEST_LINE: Final = 1 << 20
"""Bytes of a last line without an end that are tried as a whole record."""


@dataclass(slots=True)
class Recording:
    """How files are brought in."""

    repository: Repository
    redact_secrets: bool = False
    by: str | None = None
    settle: float = SETTLE
    described: dict[str, float] = field(default_factory=dict)
    """When each session's import was last put on record."""

    def is_open(self, held_since: float | None, file: str, said: datetime | None) -> bool:
        """Tell whether what a file ends with waits: it may be more in a moment, or is surely not whole (`said` is None)."""
        now = time.time()
        try:
            age = abs(now - transcript_files.changed_at(transcript_files.stamp_of(file)))
        except OSError:
            return False
        if said is None:
            return age < RESTED
        return age < self.settle and (held_since is None or now - held_since < self.settle)


@dataclass(frozen=True, slots=True)
class Taken:
    """What came in from files that were read together, and what to keep of them."""

    report: ImportReport
    reads: dict[str, FileRead]


def record(how: Recording, form: Format, paths: Sequence[str], known: Mapping[str, FileRead]) -> Taken:
    """Bring in what files that are read together hold and the store does not.

    `known` says what was read of them before. Raises `OSError` if a file cannot be read, `InvalidInput` if it cannot be
    used, and other `TrailsError`s if the store cannot take it.
    """
    stamps = {
        path: transcript_files.stamp_of(path) for path in paths
    }  # before the reading: what comes later is seen next
    sources = [(path, _whole_lines(path) if path.endswith(transcript_files.LINES) else Path(path)) for path in paths]
    held_since = min((read.held_since for read in known.values() if read.held_since is not None), default=None)
    job = FileImport(
        how.repository, restore=False, redact_secrets=how.redact_secrets, growing=partial(how.is_open, held_since),
        by=how.by, accounted=False, described=how.described,
    )  # fmt: skip
    report = job.group(form, sources)
    mask_report(report)
    due = _due(how, stamps, report)
    since = None if due is None else time.time() if held_since is None or report.turns_added else held_since
    return Taken(report, {path: FileRead(stamp, form.name, due, since) for path, stamp in stamps.items()})


def _due(how: Recording, stamps: Mapping[str, transcript_files.Stamp], report: ImportReport) -> float | None:
    """Return when files are read again although they did not change; None for never."""
    if not report.turns_held:
        return None
    changed = max(map(transcript_files.changed_at, stamps.values()))
    settled = changed + how.settle + _MARGIN
    return settled if time.time() < settled else changed + RESTED + _MARGIN


def _whole_lines(path: str) -> bytes:
    """Return a file's content without a last line that is not written whole yet."""
    data = Path(path).read_bytes()
    end = data.rfind(b"\n") + 1
    rest = data[end:]
    if not rest.strip():
        return data
    if len(rest) <= _LONGEST_LINE:
        with suppress(ValueError, RecursionError):
            json.loads(rest)
            return data
    return data[:end]
