"""Bring in what was written to transcripts since they were last read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from trails.exchange.file_import import RESTED, FileImport
from trails.exchange.formats import Format, PartRules
from trails.exchange.import_secrets import mask_report
from trails.exchange.merge import Growing, PartMisfitError, begin_import, imported_id, merge, stored_family
from trails.exchange.recording import file_end, transcript_files
from trails.exchange.recording.file_end import Lines
from trails.exchange.recording.file_state import FileRead
from trails.exchange.source_transcript import ImportReport, Problem, SourceTurn, Transcript
from trails.history import import_records
from trails.history.import_records import ImportedFiles
from trails.model.values import Turn
from trails.session import Repository

SETTLE: Final = 0.8
"""Seconds after a file's last write for which a message at its end waits for more of it."""
_MARGIN: Final = 0.05


@dataclass(frozen=True, slots=True)
class Recording:
    """How files are brought in."""

    repository: Repository
    redact_secrets: bool = False
    by: str | None = None
    settle: float = SETTLE

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

    `known` says what was read of them before: of a file of lines that grew, only the end is read. Of one that is long, so
    much is brought in at once, and the rest is due. Raises `OSError` if a file cannot be read, `InvalidInput` if it cannot
    be used, and other `TrailsError`s if the store cannot take it.
    """
    stamps = {
        path: transcript_files.stamp_of(path) for path in paths
    }  # before the reading: what comes later is seen next
    held_since = min((read.held_since for read in known.values() if read.held_since is not None), default=None)
    growing = partial(how.is_open, held_since)
    report, lines = ImportReport(), dict[str, Lines]()
    is_taken = False
    if form.parts is not None and any(read.offset for read in known.values()):
        with suppress(PartMisfitError):
            changed = [path for path in paths if _has_changed(stamps[path], known.get(path))]
            report, lines = _record_ends(how, form, changed, known, growing)
            is_taken = True
    if not is_taken:
        report, lines = _record_whole(how, form, paths, known, growing)
    mask_report(report)
    due = _due(how, stamps, report)
    since = None if due is None else time.time() if held_since is None or report.turns_added else held_since
    return Taken(
        report,
        {
            path: _read_of(FileRead(stamp, form.name, due, since), lines.get(path), known.get(path))
            for path, stamp in stamps.items()
        },
    )


def _has_changed(stamp: transcript_files.Stamp, known: FileRead | None) -> bool:
    return known is None or known.stamp != stamp or known.due is not None


def _read_of(read: FileRead, lines: Lines | None, before: FileRead | None) -> FileRead:
    """Return what was read of a file, with how far."""
    if lines is None:
        if before is None:
            return read
        return replace(read, offset=before.offset, line=before.line, check=before.check)
    due = 0.0 if lines.is_cut else read.due
    return replace(read, due=due, offset=lines.end, line=lines.lines, check=lines.check)


def _due(how: Recording, stamps: Mapping[str, transcript_files.Stamp], report: ImportReport) -> float | None:
    """Return when files are read again although they did not change; None for never."""
    if not report.turns_held:
        return None
    changed = max(map(transcript_files.changed_at, stamps.values()))
    settled = changed + how.settle + _MARGIN
    return settled if time.time() < settled else changed + RESTED + _MARGIN


# --- whole files


def _record_whole(
    how: Recording, form: Format, paths: Sequence[str], known: Mapping[str, FileRead], growing: Growing
) -> tuple[ImportReport, dict[str, Lines]]:
    """Bring in whole files; of a long one that is new, its beginning."""
    lines: dict[str, Lines] = {}
    sources: list[tuple[str, Path | bytes]] = []
    for path in paths:
        if not path.endswith(transcript_files.LINES):
            sources.append((path, Path(path)))
            continue
        is_in_parts = form.parts is not None and not (path in known and known[path].offset)
        read = file_end.read_beginning(path, file_end.PART if is_in_parts else None)
        if form.parts is not None:
            lines[path] = replace(read, data=b"")
        sources.append((path, read.data))
    job = FileImport(
        how.repository,
        restore=False,
        redact_secrets=how.redact_secrets,
        growing=growing,
        by=how.by,
        accounted=False,
        is_sparse=True,
    )
    return job.group(form, sources), lines


# --- ends of files


def _record_ends(
    how: Recording, form: Format, changed: Sequence[str], known: Mapping[str, FileRead], growing: Growing
) -> tuple[ImportReport, dict[str, Lines]]:
    """Bring in what files have beyond what was read of them. Raises `PartMisfitError` if the whole files tell more."""
    report, lines = ImportReport(), dict[str, Lines]()
    for path in changed:
        if path not in known or not known[path].offset:
            raise PartMisfitError  # a new file beside one that is there: what it is, the others say
        part, more = _record_end(how, form, path, known[path], growing)
        report.add(more)
        lines[path] = part
    return report, lines


def _record_end(
    how: Recording, form: Format, path: str, known: FileRead, growing: Growing
) -> tuple[Lines, ImportReport]:
    rules = form.parts
    if rules is None:
        raise PartMisfitError
    part = file_end.read_end(path, rules, known.offset, known.line, known.check)
    source_id = None if part is None or part.first is None else rules.session(part.first, Path(path))
    if part is None or source_id is None or any(word in part.data for word in rules.never):
        raise PartMisfitError
    session_id, workspace = imported_id(form.name, source_id), how.repository.workspace
    if session_id not in how.repository:
        raise PartMisfitError
    meta = how.repository.record(session_id).meta
    read = form.read([(path, file_end.with_record_before(part, rules, source_id, meta))])
    transcript = _as_part(read, source_id, rules, part, known.line)
    if rules.align is not None:
        transcript = _aligned(how.repository, transcript, rules.align)
    began = begin_import(how.repository, form.name, how.by)
    files = {}
    if not import_records.was_just_recorded(workspace.store, session_id, datetime.now(UTC)):
        with Path(path).open("rb") as file:
            files[path] = import_records.source_file(file, Path(path).name)
    report = merge(
        how.repository,
        transcript,
        file=path,
        growing=growing,
        redact_secrets=how.redact_secrets,
        read=ImportedFiles(began, files, is_sparse=True),
    )
    report.files = 1
    return replace(part, data=b""), report


def _as_part(read: Transcript, source_id: str, rules: PartRules, part: Lines, line: int) -> Transcript:
    """Return what the end of a file says, with its lines as they are counted in the file and problems that are new."""
    if [each.id for each in read.sessions] != [source_id]:
        raise PartMisfitError
    if any(word in note for note in read.notes for word in rules.misfits):
        raise PartMisfitError
    moved = part.first_line - 2  # the record that stands for all before is the first line
    problems = tuple(
        Problem(each.line + moved, each.reason, each.text) for each in read.problems if each.line + moved > line
    )
    return replace(read, sessions=(replace(read.sessions[0], is_part=True),), problems=problems, notes=())


def _aligned(
    repository: Repository,
    transcript: Transcript,
    align: Callable[[Sequence[SourceTurn], Sequence[Turn]], Sequence[SourceTurn] | None],
) -> Transcript:
    """Return what the end of a file says, with the ids that its turns have in the whole file."""
    session = transcript.sessions[0]
    path = session.paths[0]
    for each in stored_family(repository.store, session.source, session.id):
        aligned = align(path, repository.load(each, last=len(path)).tail(len(path)))
        if aligned is not None:
            paths = (tuple(aligned), *session.paths[1:])
            return replace(transcript, sessions=(replace(session, paths=paths),))
    raise PartMisfitError
