"""Import files and folders in any format, and export sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import IO, BinaryIO, Final

from trails.display.progress import Progress, moving
from trails.errors import InvalidInput
from trails.exchange import containers, format_detection, formats, rdf_files, text_coverage
from trails.exchange.containers import FileSnapshot
from trails.exchange.exporters import (
    agent_trace_export,
    atif_export,
    html_page,
    inspect_export,
    messages_export,
    parquet_export,
    session_family,
)
from trails.exchange.exporters.session_family import Family, SessionExport
from trails.exchange.formats import Format
from trails.exchange.import_secrets import mask_report
from trails.exchange.merge import Attach, Growing, begin_import, merge
from trails.exchange.openclaw import openclaw_files, openclaw_folder, pi_export
from trails.exchange.source_transcript import ImportReport, Transcript
from trails.files import as_path, in_words
from trails.history import import_records
from trails.history.export_records import recorded_file
from trails.history.import_records import ImportedFiles
from trails.history.lookup import session_quads
from trails.model.values import VerifyReport
from trails.rdf.activity_records import SourceFile
from trails.session import Repository
from trails.suggestions import checked
from trails.workers import collect_seldom

_LEFT_OUT_BY_PI: Final = (
    "salts, labels, keys, tags, notes, scores, signatures, ledgers, and that something was redacted",
    "the version of the system prompt that a call was sent, and which turns and results others repeat",
)
_SURE: Final = (".jsonl", ".eval", ".nq", ".trig")
"""The endings of files in a folder that are taken for transcripts of the format given."""
_DATABASES: Final = (".db", ".sqlite", ".sqlite3", ".vscdb")
_ENDINGS: Final = (*_SURE, *_DATABASES, ".json", ".traj")
RESTED: Final = 600.0
"""Seconds after which a file that nobody has written to is taken for finished: its last message is then imported, also
if nothing in the file says that it is whole."""
_NAMED: Final = 5
"""How many files of no known format a note names."""
_EXACT: Final = (
    "{} is an exact export, whose digests would not fit any more without its secrets; import it as it is, and take the content "
    "out of those turns with `trails redact`. Nothing was imported"
)
_WRITERS: Final[Mapping[str, Callable[[Family, BinaryIO], SessionExport]]] = {
    each.FORMAT: each.export for each in (html_page, messages_export, inspect_export, atif_export)
}
"""The formats that are written from one reading of a session with its forks."""
_WITH_FORKS: Final = (html_page.FORMAT, messages_export.FORMAT, inspect_export.FORMAT)
_FOLDER_WRITERS: Final = {
    openclaw_folder.FORMAT: "openclaw_export.export_folder",
    parquet_export.FORMAT: "parquet_export.export_tables",
}
EXPORT_FORMATS: Final = (
    *("pi", openclaw_folder.FORMAT, *rdf_files.FORMATS, *_WRITERS, agent_trace_export.FORMAT, parquet_export.FORMAT),
)


@checked
def import_path(
    repository: Repository,
    path: str | PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the public name
    restore: bool = False,
    redact_secrets: bool = False,
    final: bool | None = None,
    allow_outside: bool = False,
    progress: Progress | bool | None = None,
    by: str | None = None,
) -> ImportReport:
    """Import a file, or every transcript in a folder and below, and return what was done.

    The format is told from each file's content unless given. In a folder, files of no known format are reported as
    problems (`.json` files, which may be anything, in one note), and archives that unpack to more than
    `trails.exchange.containers`
    allows; a single file of either kind raises `InvalidInput`, as an empty one does. A state folder of OpenClaw is told by
    its folders' names and read as a whole; files outside of it that it names are read only with `allow_outside`.
    `restore` lets an exported session come back that was deleted here. Importing the same again adds nothing.

    The report names the secrets in what came in (kind, session, index, never the secret). `redact_secrets` puts a mark,
    as in `[redacted: openai-key]`, in the place of each before anything is hashed; an RDF export, whose digests would
    not fit any more, is then refused with `InvalidInput`. Turns that were imported before stay as they are.
    A file that is still being written may end in the middle of a message. What is not known to be whole is kept back, and
    the report says so (`turns_held`), while the file was written to less than `RESTED` seconds ago, and what it ends with
    was said then: a new copy of an old file is finished, unless it ends with a thought or a call that goes on.
    `final=True` takes it at once, `final=False` leaves it out however old the file is.
    `progress` is called with how much is done, how much there is, and the file that is read; True draws a bar, in a notebook or
    on a terminal's stderr. Each session that is new or grown says who imported it (`by` is as for `Repository.delete`), when,
    and from which file. Raises `StoreFailed` where the store cannot go on, such as on a full disk: what came in before that is
    there, whole, and importing again brings the rest.
    """
    wanted = None if format is None else formats.format_named(format)
    place = as_path(path, "what to import")
    with (
        in_words(place, "read"),
        moving(progress, "importing") as move,
        collect_seldom(),
    ):
        if not place.exists():
            raise InvalidInput(f"there is no file or folder {place}")
        if wanted.is_folder if wanted else openclaw_files.find_layout(place) is not None:
            report = openclaw_folder.import_folder(
                repository, place, allow_outside=allow_outside, progress=move, redact_secrets=redact_secrets, by=by
            )
        else:
            growing = is_fresh if final is None else lambda *_: not final
            job = FileImport(repository, restore=restore, redact_secrets=redact_secrets, growing=growing, by=by)
            report = job.files(place, wanted, move)
    mask_report(report)
    return report


@checked
def import_bytes(
    repository: Repository,
    data: bytes,
    *,
    format: str | None = None,  # noqa: A002 - the public name
    restore: bool = False,
    redact_secrets: bool = False,
    final: bool = True,
    by: str | None = None,
) -> ImportReport:
    """Import the content of one file; arguments as for `import_path`.

    Raises `InvalidInput` where the format is not told and cannot be seen: `nquads` and `trig` must be named.
    """
    data = containers.decompress(data)
    found = formats.detect_format(data[: formats.HEAD_BYTES], data) if format is None else formats.format_named(format)
    if found is None:
        what = "is no transcript of a format that can be told; name the format" if data else "is empty"
        raise InvalidInput(f"what was given to import {what}")
    if found.is_folder:
        raise InvalidInput(f"{found.name!r} is no format of one file to import: it is a folder")
    job = FileImport(repository, restore=restore, redact_secrets=redact_secrets, growing=lambda *_: not final, by=by)
    report = job.group(found, [("", data)])
    report.files += 1
    mask_report(report)
    return report


@dataclass(frozen=True, slots=True)
class FileImport:
    """An import as it was asked for."""

    repository: Repository
    restore: bool
    redact_secrets: bool
    growing: Growing
    """Whether a file may still be written."""
    by: str | None
    accounted: bool = True
    """Whether the report names the texts that no session keeps: it takes another reading of the file."""
    is_sparse: bool = False
    """Whether few imports are put on record, see `ImportedFiles.is_sparse`."""
    attach: Attach | None = None
    """Puts payloads on the turns that are new, see `merge`."""

    def files(self, path: Path, wanted: Format | None, progress: Progress | None) -> ImportReport:
        """Import a file, or those of a folder and below."""
        report = ImportReport()
        groups = [_single(path, wanted)] if path.is_file() else _groups(path, wanted, report)
        if self.redact_secrets and (exports := [files[0] for each, files in groups if each.ending]):
            raise InvalidInput(_EXACT.format(exports[0]))
        total = sum(len(files) for _, files in groups)
        for each, files in groups:

            def merging(
                done: int, sessions: int, what: str, before: int = report.files, count: int = len(files)
            ) -> None:
                """Report progress: the part of the sessions that is stored, as files."""
                if progress and what:
                    progress(before + count * done // sessions, total, f"{what} ({done + 1:,} of {sessions:,})")

            try:
                for file in files:  # none counts as done until its sessions are in the store
                    if progress:
                        progress(report.files, total, str(file))
                report.add(self.group(each, [(str(file), file) for file in files], merging))
            except InvalidInput as error:
                if path.is_file():
                    raise
                report.refuse(files[0], f"{error}")
            report.files += len(files)
        if progress:
            progress(total, total, "")
        return report

    def group(
        self, form: Format, sources: Sequence[tuple[str, Path | bytes]], progress: Progress | None = None
    ) -> ImportReport:
        """Import files that are read together: names (may be empty) with paths or bytes."""
        (name, first), *others = sources
        began = begin_import(self.repository, form.name, self.by)

        def merged(parts: Iterable[Transcript], files: Mapping[str, SourceFile]) -> ImportReport:
            report = ImportReport()
            for part in parts:
                report.add(
                    merge(
                        self.repository,
                        part,
                        file=str(Path(name).parent) if others else name,
                        growing=self.growing,
                        progress=progress,
                        redact_secrets=self.redact_secrets,
                        read=ImportedFiles(began, files, is_sparse=self.is_sparse),
                        attach=self.attach,
                    )
                )
            return report

        with in_words(Path(name), "read"), BytesIO(first) if isinstance(first, bytes) else first.open("rb") as opened:
            if (report := _in_parts(form, name, first, opened, merged)) is not None:
                return report
            report, read = ImportReport(), list[tuple[str, bytes]]()
            for file_name, source in sources:
                try:
                    data = containers.decompress(source if isinstance(source, bytes) else source.read_bytes())
                    read.append((file_name, data))
                except InvalidInput as error:
                    if not others:
                        raise
                    report.refuse(file_name, f"{error}")
        if form.ending is not None:
            report.add(self._exact(form, name, read[0][1], began.by_iri))
        elif read:
            files = {file: import_records.source_file(data, Path(file).name or None) for file, data in read}
            parsed = (
                text_coverage.parse_and_account(form.read, read, form.reasons) if self.accounted else form.read(read)
            )
            report.add(merged([parsed], files))
        return report

    def _exact(self, form: Format, name: str, data: bytes, by: str) -> ImportReport:
        if self.redact_secrets:
            raise InvalidInput(_EXACT.format(name or "what was given"))
        report = rdf_files.import_rdf(
            self.repository, data, form.name, restore=self.restore, by=by, name=Path(name).name or None
        )
        for session in (*report.sessions_created, *report.forks_created, *report.grown):
            report.secrets += session_quads.own_quads(self.repository.workspace, session)
        return report


def _in_parts(
    form: Format, name: str, source: Path | bytes, opened: IO[bytes], merged: Callable[..., ImportReport]
) -> ImportReport | None:
    """Import a database, or a file that is read in parts; return None for any other."""
    head = opened.read(formats.HEAD_BYTES)
    opened.seek(0)
    if containers.is_sqlite(head):
        if form.rows is None:
            raise InvalidInput(f"{name or 'what was given'} is an SQLite database, and {form.name} has none")
        with containers.open_database(source, name) as database:
            documents = partial(containers.database_documents, database, name)
            return merged(
                text_coverage.account_parts(form.rows(database, name), documents, form.reasons), database.files
            )
    if form.stream is None:
        return None
    is_packed = head.startswith(containers.ZSTD_SIGNATURE)
    file = FileSnapshot(BytesIO(containers.decompress(opened.read())) if is_packed else opened, name)
    documents = partial(containers.json_documents, file.content, name)
    parts = text_coverage.account_parts(form.stream([(name, file.content)]), documents, form.reasons)
    report = merged(parts, {name: file.found})
    report.problems += file.problems()
    return report


def _groups(path: Path, wanted: Format | None, report: ImportReport) -> list[formats.Group]:
    """Return the files of a folder by the groups that are read together.

    Files of no known format go into the report.
    """
    of_format: dict[Format, list[Path]] = {}
    others: list[Path] = []
    files = sorted(each for each in path.rglob("*") if _ending(each) in _ENDINGS and each.is_file())
    for file in files:
        try:
            found = formats.detect_file(file) if wanted is None or _ending(file) not in _SURE else wanted
        except InvalidInput as error:
            report.refuse(file, f"{error}")
            continue
        if found is not None and wanted in (None, found):
            of_format.setdefault(found, []).append(file)
        elif file.suffix == ".json" or file.suffix in _DATABASES or found is not None:
            others.append(file)
        else:
            report.refuse(file, f"is no transcript of a known format{_seems(file)}")
    if not of_format and not report.problems:
        endings = ", ".join(f"*{ending}" for ending in _ENDINGS)
        raise InvalidInput(f"the folder {path} holds no transcripts ({endings})")
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        names = ", ".join(f"{file.relative_to(path)}{_seems(file)}" for file in others[:_NAMED])
        what = wanted.name if wanted else "a known format"
        report.notes.append(f"{len(others)} file(s) are no transcripts of {what}: {names}{more}")
    groups: list[formats.Group] = []
    for each, own in of_format.items():
        stored = [file for file in own if file.suffix in _DATABASES]
        groups += [(each, [file]) for file in stored]
        groups += [(each, list(group)) for group in each.groups([file for file in own if file not in stored])]
    return sorted(groups, key=lambda group: group[1][0])


def _single(path: Path, wanted: Format | None) -> formats.Group:
    """Return a file's format, and the file with its companions.

    Raises `InvalidInput` if no format is known.
    """
    if (found := wanted or formats.detect_file(path)) is not None:
        return found, list(found.companions(path))
    if path.stat().st_size == 0:
        raise InvalidInput(f"{path} is empty")
    names = ", ".join(formats.all_formats())
    raise InvalidInput(f"{path} is no transcript of a known format ({names}){_seems(path)}")


def _ending(file: Path) -> str:
    """Return a file name's suffix, without `.zst`."""
    return Path(file.stem).suffix if file.suffix == containers.ZSTD_ENDING else file.suffix


def _seems(file: Path) -> str:
    """Describe a file that no importer knows."""
    with file.open("rb") as opened:
        head = opened.read(formats.HEAD_BYTES)
        what = format_detection.guess_origin(
            head, containers.member_names(opened) if head.startswith(containers.ZIP_SIGNATURE) else None
        )
    return f"; it seems to be {what}" if what else ""


def is_fresh(file: str, said: datetime | None) -> bool:
    """Tell whether a file was changed just now; one that is gone was not.

    Where what it ends with was `said` long before that, the file is a copy of a rested one.
    """
    try:
        changed = Path(file).stat().st_mtime
    except OSError:
        return False
    with suppress(OSError):  # a database is written to by its log
        changed = max(changed, Path(f"{file}-wal").stat().st_mtime)
    return abs(time.time() - changed) < RESTED and (said is None or abs(changed - said.timestamp()) < RESTED)


@checked
def export_session(
    repository: Repository,
    session_id: str,
    format: str,  # noqa: A002 - the public name
    out: BinaryIO,
    *,
    forks: bool = False,
    recipients: Sequence[str] = (),
) -> SessionExport:
    """Write a session and its inherited turns to a file.

    Returns what was written, and what the format cannot express.

    `nquads` and `trig` are exact; `pi` is a session file; `html` one page that needs nothing else; `messages` JSON lines that
    chat models are tuned on; `inspect` a log of Inspect AI; `atif` a trajectory of Harbor;
    `agent-trace` which turns wrote the lines of its files. With `forks` all forks of the
    session come along, theirs too, in the formats that can hold them; the others raise `InvalidInput`. So do `openclaw` and
    `parquet`, which are folders, and an `atif` of a session without turns. Raises what reading the transcript raises.

    `recipients` says for whom it is made: the store's register of exports then names them, with the digest of the file. A
    store that was opened with `record_reads` has every export there.

    >>> import io, trails
    >>> with trails.open(":memory:") as store:
    ...     s = store.create(id="plan"); _ = s.append("user", "Plan a trip"); _ = s.fork(id="other").persist()
    ...     export_session(store, "plan", "html", io.BytesIO(), forks=True).sessions
    ('plan', 'other')
    """
    if format in _FOLDER_WRITERS:
        raise InvalidInput(f"{format} is a folder, not one file: `{_FOLDER_WRITERS[format]}` writes it")
    if format not in EXPORT_FORMATS:
        raise InvalidInput(f"{format!r} is no format to export; there are: {', '.join(EXPORT_FORMATS)}")
    if forks and format not in _WITH_FORKS:
        what = f"a file of {format!r} holds one session, without its forks"
        raise InvalidInput(f"{what}; those that hold them are: {', '.join(_WITH_FORKS)}")
    record = repository.record(session_id)
    if format in _WRITERS:
        spawned = format != messages_export.FORMAT
        found = session_family.read_family(repository, record.id, forks=forks, spawned=spawned)
        with recorded_file(repository.workspace, list(found.ids()), format, out, recipients) as file:
            if format == html_page.FORMAT:
                return html_page.export(found, file, verdict=_verdict(repository, list(found.ids())))
            return _WRITERS[format](found, file)
    with recorded_file(repository.workspace, [record.id], format, out, recipients) as file:
        if format == agent_trace_export.FORMAT:
            return agent_trace_export.export(repository, record.id, file)
        if format == "pi":
            file.write(pi_export.export_session(repository, session_id))
        else:
            rdf_files.export_session(repository, session_id, format, file)
    last = repository.reader.last_index(repository.reader.lineage(record.id))
    return SessionExport(
        format, (record.id,), 0 if last is None else last + 1, _LEFT_OUT_BY_PI if format == "pi" else ()
    )


def _verdict(repository: Repository, session_ids: Sequence[str]) -> VerifyReport:
    """Return the verdict of `verify` on sessions."""
    if len(session_ids) == 1:
        return repository.verify(session_ids[0])
    report, wanted = repository.verify(), frozenset(session_ids)
    return report.model_copy(update={"findings": tuple(each for each in report.findings if each.session_id in wanted)})
