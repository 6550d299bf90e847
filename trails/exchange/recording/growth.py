"""Bring in what was written to transcripts since they were last read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trails.errors import StoreLocked
from trails.exchange.file_import import RESTED, FileImport
from trails.exchange.formats import Format, PartRules
from trails.exchange.import_secrets import mask_report
from trails.exchange.merge import Attach, PartMisfitError, begin_import, imported_id, merge, stored_family
from trails.exchange.recording import file_end, transcript_files
from trails.exchange.recording.file_end import Lines
from trails.exchange.recording.file_state import FileRead
from trails.exchange.source_transcript import ImportReport, Problem, SourceSession, SourceTurn, Transcript
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
    attach: Attach | None = None
    """Puts what became of files on the turns that are new, see `merge`."""
    held_since: float | None = None
    """Since when something at the end of what is read is kept back, although it may be whole."""

    def is_open(self, file: str, said: datetime | None) -> bool:
        """Tell whether what a file ends with waits: it may be more in a moment, or is surely not whole (`said` is None)."""
        now = time.time()
        try:
            age = abs(now - transcript_files.changed_at(transcript_files.stamp_of(file)))
        except OSError:
            return False
        if said is None:
            return age < RESTED
        return age < self.settle and (self.held_since is None or now - self.held_since < self.settle)


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
    # before the reading: what comes later is seen next
    stamps = {path: transcript_files.stamp_of(path) for path in paths}
    held_since = min((read.held_since for read in known.values() if read.held_since is not None), default=None)
    how = replace(how, held_since=held_since)
    report, lines = ImportReport(), dict[str, Lines]()
    is_taken = False
    if form.parts is not None and any(read.offset for read in known.values()):
        with suppress(PartMisfitError):
            changed = [path for path in paths if _has_changed(stamps[path], known.get(path))]
            report, lines = _record_ends(how, form, changed, known)
            stamps = {path: stamps[path] for path in {*changed, *lines}}
            is_taken = True
    if not is_taken:
        report, lines = _record_whole(how, form, paths, known)
    if report.locked:  # another process stores it right now: the next look has all of it
        raise StoreLocked(report.locked[0])
    mask_report(report)
    due = _due(how, stamps, report) if stamps else None
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
    how: Recording, form: Format, paths: Sequence[str], known: Mapping[str, FileRead]
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
        growing=how.is_open,
        by=how.by,
        accounted=False,
        is_sparse=True,
        attach=how.attach,
    )
    return job.group(form, sources), lines


# --- ends of files


def _record_ends(
    how: Recording, form: Format, changed: Sequence[str], known: Mapping[str, FileRead]
) -> tuple[ImportReport, dict[str, Lines]]:
    """Bring in what files have beyond what was read of them. Raises `PartMisfitError` if the whole files tell more."""
    report, lines = ImportReport(), dict[str, Lines]()
    new = [path for path in changed if not _is_known(known.get(path))]
    grown = [path for path in changed if path not in new]
    if new:
        first = next(iter(known))  # what a new file is, such as which kind of agent, the first one tells
        if not _is_known(known[first]):
            raise PartMisfitError
        grown = [path for path in grown if path != first]
        report, lines = _record_beside(how, form, first, known[first], new)
    for path in grown:
        end = _read_end(how, form, path, known[path])
        read = form.read([(path, end.data)])
        transcript = _as_part(how, read, end)
        report.add(_merged(how, form, [path], transcript))
        lines[path] = end.lines
    return report, lines


def _is_known(read: FileRead | None) -> bool:
    return read is not None and bool(read.offset)


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a file, ready to be parsed."""

    rules: PartRules
    source_id: str | None
    """The id of its session in the source; None if these are all lines of the file."""
    lines: Lines
    data: bytes
    line: int
    """How many lines were read before."""


def _read_end(how: Recording, form: Format, path: str, known: FileRead) -> _End:
    """Return the end of a file, with as much before it as tells where it goes on."""
    rules = form.parts
    part = None if rules is None else file_end.read_end(path, rules, known.offset, known.line, known.check)
    if rules is None or part is None:
        raise PartMisfitError
    if part.first is None:
        return _End(rules, None, replace(part, data=b""), part.data, known.line)
    if any(word in part.data for word in rules.never):
        raise PartMisfitError
    source_id = rules.session(part.first, Path(path))
    if source_id is None or (session_id := imported_id(form.name, source_id)) not in how.repository:
        raise PartMisfitError
    meta = how.repository.record(session_id).meta
    data = file_end.with_record_before(part, rules, source_id, meta)
    return _End(rules, source_id, replace(part, data=b""), data, known.line)


def _record_beside(
    how: Recording, form: Format, first: str, known: FileRead, new: Sequence[str]
) -> tuple[ImportReport, dict[str, Lines]]:
    """Bring in new files with the end of the one that they belong to."""
    end = _read_end(how, form, first, known)
    begun = {path: file_end.read_beginning(path) for path in new}
    read = form.read([(first, end.data), *((path, lines.data) for path, lines in begun.items())])
    transcript = _as_part(how, replace(read, problems=()), end)
    report = _merged(how, form, [first, *new], transcript)
    return report, {first: end.lines, **{path: replace(lines, data=b"") for path, lines in begun.items()}}


def _merged(how: Recording, form: Format, paths: Sequence[str], transcript: Transcript) -> ImportReport:
    """Store what ends of files say. A file is named by its digest where an import is put on record: seldom."""
    began = begin_import(how.repository, form.name, how.by)
    store, files = how.repository.store, {}
    ids = [imported_id(form.name, session.id) for session in transcript.sessions]
    if not all(import_records.was_just_recorded(store, each, datetime.now(UTC)) for each in ids):
        for path in paths:
            with Path(path).open("rb") as file:
                files[path] = import_records.source_file(file, Path(path).name)
    report = merge(
        how.repository,
        transcript,
        file=paths[0],
        growing=how.is_open,
        redact_secrets=how.redact_secrets,
        read=ImportedFiles(began, files, is_sparse=True),
        attach=how.attach,
    )
    report.files = len(paths)
    return report


def _as_part(how: Recording, read: Transcript, end: _End) -> Transcript:
    """Return what the end of a file says, with its lines as they are counted in the file and problems that are new."""
    if end.source_id is None:
        problems = tuple(each for each in read.problems if each.line > end.line)
        return replace(read, problems=problems, notes=())
    own = [each for each in read.sessions if each.id == end.source_id]
    if len(own) != 1 or (
        len(read.sessions) > 1 and not any(each.spawned_by == end.source_id for each in read.sessions)
    ):
        raise PartMisfitError
    if any(word in note for note in read.notes for word in end.rules.misfits):
        raise PartMisfitError
    moved = end.lines.first_line - 2  # the record that stands for all before is the first line
    problems = tuple(
        Problem(each.line + moved, each.reason, each.text) for each in read.problems if each.line + moved > end.line
    )
    part = replace(own[0], is_part=True)
    if end.rules.align is not None:
        part = _aligned(how.repository, part, end.rules.align)
    sessions = tuple(part if each.id == part.id else each for each in read.sessions)
    return replace(read, sessions=sessions, problems=problems, notes=())


def _aligned(
    repository: Repository,
    session: SourceSession,
    align: Callable[[Sequence[SourceTurn], Sequence[Turn]], Sequence[SourceTurn] | None],
) -> SourceSession:
    """Return the end of a session with the ids that its turns have in the whole file."""
    path = session.paths[0]
    for each in stored_family(repository.store, session.source, session.id):
        aligned = align(path, repository.load(each, last=len(path)).tail(len(path)))
        if aligned is not None:
            return replace(session, paths=(tuple(aligned), *session.paths[1:]))
    raise PartMisfitError
