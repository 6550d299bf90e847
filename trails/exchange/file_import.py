"""The formats that can be imported and exported: a new one is a parser module and a line here."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, BinaryIO, Final

from trails.display.progress import Progress, moving
from trails.errors import InvalidInput
from trails.exchange import containers, format_detection, formats, rdf_files, text_coverage
from trails.exchange.coding_agents import codex as rollouts
from trails.exchange.coding_agents import opencode
from trails.exchange.containers import FileSnapshot
from trails.exchange.exporters import parquet_export, session_family, writers
from trails.exchange.exporters.session_family import SessionExport
from trails.exchange.formats import TRANSCRIPTS, Parsed
from trails.exchange.import_secrets import mask_report
from trails.exchange.merge import Growing, ImportedFiles, begin_import, merge
from trails.exchange.openclaw import openclaw_folder, pi_export
from trails.exchange.source_transcript import FileProblem, ImportReport, SourceTurn, Transcript
from trails.files import as_path, in_words
from trails.history import import_records
from trails.history.import_records import ImportSource
from trails.history.lookup import session_quads
from trails.rdf.activity_records import SourceFile
from trails.session import Repository
from trails.workers import collect_seldom

_HEAD: Final = 1 << 16
"""Bytes of a file that tell its format."""


_LEFT_OUT_BY_PI: Final = (
    "salts, labels, keys, tags, notes, scores, signatures, ledgers, and that something was redacted",
    "the version of the system prompt that a call was sent, and which turns and results others repeat",
)
_RDF: Final = {".nq": "nquads", ".trig": "trig"}
_SURE: Final = frozenset({".jsonl", ".eval", *_RDF})
"""The endings of files in a folder that are taken for transcripts of the format given."""
_MAYBE: Final = frozenset({".json", ".traj"})
_DATABASES: Final = frozenset({".db", ".sqlite", ".sqlite3", ".vscdb"})
RESTED: Final = 600.0
"""Seconds after which a file that nobody has written to is taken for finished: its last message is then imported, also
where nothing in the file says that it is whole."""
_NAMED: Final = 5
"""How many files of no known format a note names."""
_EXACT: Final = (
    "{} is an exact export, whose digests would not fit any more without its secrets; import it as it is, and take the content "
    "out of those turns with `trails redact`. Nothing was imported"
)
IMPORT_FORMATS: Final = (*(known.name for known in TRANSCRIPTS), openclaw_folder.FORMAT, *_RDF.values())
EXPORT_FORMATS: Final = ("pi", openclaw_folder.FORMAT, *_RDF.values(), *writers.WRITERS, parquet_export.FORMAT)


def import_path(
    repository: Repository,
    path: str | os.PathLike[str],
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
    problems (`.json` files, which may be anything, in one note), and archives that unpack to more than `trails.unpacking`
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
    if format is not None and format not in IMPORT_FORMATS:
        raise InvalidInput(f"{format!r} is no format to import; there are: {', '.join(IMPORT_FORMATS)}")
    place = as_path(path, "what to import")
    with (
        in_words(place, "read"),
        moving(progress, "importing") as move,
        collect_seldom(),
        repository.workspace.loading(),
    ):
        return _import_path(
            repository,
            place,
            format,
            restore=restore,
            redact_secrets=redact_secrets,
            final=final,
            allow_outside=allow_outside,
            progress=move,
            by=by,
        )


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
    """Import one file's content, which has no name, and return what was done; arguments as for `import_path`.

    Raises `InvalidInput` where the format is not told and cannot be seen: `nquads` and `trig` must be named.
    """
    if format is not None and (format not in IMPORT_FORMATS or format == openclaw_folder.FORMAT):
        alone = [each for each in IMPORT_FORMATS if each != openclaw_folder.FORMAT]
        raise InvalidInput(f"{format!r} is no format of one file to import; there are: {', '.join(alone)}")
    data = containers.decompress(data)
    name = format or _sniffed(data[:_HEAD], data)
    if name is None:
        what = "is no transcript of a format that can be told; name the format" if data else "is empty"
        raise InvalidInput(f"what was given to import {what}")
    if redact_secrets and name in _RDF.values():
        raise InvalidInput(_EXACT.format("what was given"))
    bringing = _Bringing(
        repository,
        begin_import(repository, name, by),
        said="",
        growing=None if final else lambda *_: True,
        redact_secrets=redact_secrets,
    )
    if containers.is_sqlite(data):
        report = bringing.rows(data, "")
    else:
        report = (
            bringing.parts(BytesIO(data), "") if bringing.in_parts else bringing.whole([("", data)], restore=restore)
        )
    report.files += 1
    mask_report(report)
    return report


def _import_path(
    repository: Repository,
    path: Path,
    format: str | None,  # noqa: A002 - as above
    *,
    restore: bool,
    redact_secrets: bool,
    final: bool | None,
    allow_outside: bool,
    progress: Progress | None,
    by: str | None,
) -> ImportReport:
    if not path.exists():
        raise InvalidInput(f"there is no file or folder {path}")
    if format == openclaw_folder.FORMAT or (format is None and openclaw_folder.find_layout(path) is not None):
        report = openclaw_folder.import_folder(
            repository, path, allow_outside=allow_outside, progress=progress, redact_secrets=redact_secrets, by=by
        )
        mask_report(report)
        return report
    report = ImportReport()
    groups = list(_groups(path, format, report))
    if redact_secrets and (exports := [str(files[0]) for name, files in groups if name in _RDF.values()]):
        raise InvalidInput(_EXACT.format(exports[0]))
    total = sum(len(files) for _, files in groups)
    for (name, files), parsed in zip(groups, formats.parse_ahead(groups), strict=False):
        moves = _Moves(progress, report.files, len(files), total)
        try:
            report.add(
                _import_group(
                    repository,
                    name,
                    files,
                    parsed,
                    restore=restore,
                    final=final,
                    redact_secrets=redact_secrets,
                    moves=moves,
                    by=by,
                )
            )
        except InvalidInput as error:
            if path.is_file():
                raise
            report.problems.append(FileProblem(file=str(files[0]), line=0, reason=f"{error}", text=""))
        report.files += len(files)
    if progress:
        progress(total, total, "")
    mask_report(report)
    return report


def _groups(path: Path, wanted: str | None, report: ImportReport) -> Iterator[tuple[str, list[Path]]]:
    """Yield (format, files that belong together), folder by folder: a whole projects tree is never in memory at once."""
    if path.is_file():
        yield _single(path, wanted)
        return
    found: dict[tuple[str, Path], list[Path]] = {}
    others: list[Path] = []
    endings = _SURE | _MAYBE | _DATABASES
    files = sorted(each for each in path.rglob("*") if _ending(each) in endings and each.is_file())
    reverted = rollouts.reverted_threads(each.name for each in files)
    for file in files:
        try:
            name = _format_of(file) if wanted is None or _ending(file) not in _SURE else wanted
        except InvalidInput as error:
            report.problems.append(FileProblem(file=str(file), line=0, reason=f"{error}", text=""))
            continue
        if name is not None and wanted in (None, name):
            place = _together_with(file, path, reverted)
            found.setdefault((name, place), []).append(file)
        elif file.suffix == ".json" or file.suffix in _DATABASES or name is not None:
            others.append(file)
        else:
            report.problems.append(
                FileProblem(file=str(file), line=0, reason=f"is no transcript of a known format{_seems(file)}", text="")
            )
    if not found and not report.problems:
        raise InvalidInput(
            f"the folder {path} holds no transcripts (*.jsonl, *.jsonl.zst, *.json, *.eval, *.traj, *.nq, *.trig)"
        )
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        names = ", ".join(f"{file.relative_to(path)}{_seems(file)}" for file in others[:_NAMED])
        report.notes.append(f"{len(others)} file(s) are no transcripts of {wanted or 'a known format'}: {names}{more}")
    single = {known.name for known in TRANSCRIPTS if known.alone} | set(_RDF.values())
    for (name, _), files in found.items():
        if name in single:
            yield from ((name, [file]) for file in files)
        else:
            yield name, files


def _single(path: Path, wanted: str | None) -> tuple[str, list[Path]]:
    """Return a file's format, and the file with those that belong to it; raise `InvalidInput` for one of no known format."""
    name = wanted or _format_of(path)
    if name is not None:
        return name, _companions(name, path)
    if path.stat().st_size == 0:
        raise InvalidInput(f"{path} is empty")
    known = ", ".join(IMPORT_FORMATS)
    raise InvalidInput(f"{path} is no transcript of a known format ({known}){_seems(path)}")


def _companions(name: str, path: Path) -> list[Path]:
    for known in TRANSCRIPTS:
        if known.name == name:
            return known.find_files(path)
    return [path]


def _together_with(file: Path, path: Path, reverted: set[str]) -> Path:
    """Return what a file shares with those that are read together with it: a folder, or a thread of Codex."""
    if file.suffix in _DATABASES:
        return file
    thread = rollouts.thread_in_name(file.name) if reverted else None
    return path / thread if thread is not None and thread in reverted else _folder_of(file)


def _folder_of(file: Path) -> Path:
    """Return the folder whose files are read together: sub-agents' files go with their session's."""
    for place in file.parents:
        if place.name == "subagents":  # Claude Code
            return place.parent.parent
    if file.name.startswith(("ses_", "msg_", "prt_")):  # opencode
        return opencode.root_of(file)
    return file.parent.parent if file.parent.parent.name == "chats" else file.parent  # Gemini CLI


def _format_of(file: Path) -> str | None:
    if file.suffix in _RDF:
        return _RDF[file.suffix]
    with file.open("rb") as opened:
        head = opened.read(_HEAD)
        if head.startswith(containers.ZSTD_SIGNATURE):
            begin = containers.decompress_head(head, _HEAD)
            return next((known.name for known in TRANSCRIPTS if known.sniff(begin)), None)
        return _sniffed(head, opened)


def _ending(file: Path) -> str:
    """Return the ending of a file's name, without that of a compressed one."""
    return Path(file.stem).suffix if file.suffix == containers.ZSTD_ENDING else file.suffix


def _is_database(file: Path) -> bool:
    with file.open("rb") as opened:
        return containers.is_sqlite(opened.read(len(containers.SQLITE_SIGNATURE)))


def _seems(file: Path) -> str:
    """Return what to say of a file that no importer knows."""
    with file.open("rb") as opened:
        head = opened.read(_HEAD)
        what = format_detection.guess_origin(
            head, containers.member_names(opened) if head.startswith(containers.ZIP_SIGNATURE) else None
        )
    return f"; it seems to be {what}" if what else ""


def _sniffed(head: bytes, whole: bytes | BinaryIO) -> str | None:
    """Return the format of a file by its beginning, or by its members' names if it is a zip that can be read."""
    if containers.is_sqlite(head):
        tables = containers.tables_of(whole)
        return next((known.name for known in TRANSCRIPTS if known.tables is not None and known.tables(tables)), None)
    names = containers.member_names(whole) if head.startswith(containers.ZIP_SIGNATURE) else None
    if names is not None:
        return next((known.name for known in TRANSCRIPTS if known.holds is not None and known.holds(names)), None)
    return next((known.name for known in TRANSCRIPTS if known.sniff(head)), None)


@dataclass(frozen=True, slots=True)
class _Moves:
    """Tells how far an import is, in files, while files that belong together are read and then merged."""

    tell: Progress | None
    before: int
    files: int
    total: int

    def reading(self, file: Path) -> None:
        """Tell that a file is being read; none counts as done until its sessions are in the store."""
        if self.tell:
            self.tell(self.before, self.total, str(file))

    def merging(self, done: int, sessions: int, what: str) -> None:
        """Tell how many of the sessions in these files are in the store: as great a part of the files counts as done."""
        if self.tell and what:
            moved = self.files * done // sessions
            self.tell(self.before + moved, self.total, f"{what} ({done + 1:,} of {sessions:,})")


def _import_group(
    repository: Repository,
    name: str,
    files: Sequence[Path],
    parsed: Parsed | None,
    *,
    restore: bool,
    final: bool | None,
    redact_secrets: bool,
    moves: _Moves,
    by: str | None,
) -> ImportReport:
    bringing = _Bringing(
        repository,
        begin_import(repository, name, by),
        said=str(files[0]) if len(files) == 1 else str(files[0].parent),
        growing=_is_fresh if final is None else lambda *_: not final,
        redact_secrets=redact_secrets,
        progress=moves.merging,
    )
    for file in files:
        moves.reading(file)
    if parsed is not None:
        return bringing.bring([parsed.transcript], parsed.files, parsed.clean)
    with in_words(files[0], "read"):
        if _is_database(files[0]):
            return bringing.rows(files[0], str(files[0]))
        if bringing.in_parts:
            with files[0].open("rb") as opened:
                is_packed = opened.read(len(containers.ZSTD_SIGNATURE)) == containers.ZSTD_SIGNATURE
                opened.seek(0)
                return bringing.parts(
                    BytesIO(containers.decompress(opened.read())) if is_packed else opened, str(files[0])
                )
        read, problems = _contents(files)
    report = bringing.whole(read, restore=restore) if read else ImportReport()
    report.problems += problems
    return report


def _contents(files: Sequence[Path]) -> tuple[list[tuple[str, bytes]], list[FileProblem]]:
    """Return the content of files by their names, and the files that cannot be unpacked; raise where it is the only one."""
    read: list[tuple[str, bytes]] = []
    problems: list[FileProblem] = []
    for file in files:
        try:
            read.append((str(file), containers.decompress(file.read_bytes())))
        except InvalidInput as error:
            if len(files) == 1:
                raise
            problems.append(FileProblem(file=str(file), line=0, reason=f"{error}", text=""))
    return read, problems


@dataclass(frozen=True, slots=True)
class _Bringing:
    """How what is read from files is brought in."""

    repository: Repository
    began: ImportSource
    said: str
    """The file or folder that problems name."""
    growing: Growing | None
    redact_secrets: bool
    progress: Progress | None = None

    @property
    def in_parts(self) -> bool:
        """Whether a file, which stands by itself then, is read a part at a time."""
        return self.began.importer not in _RDF.values() and formats.format_named(self.began.importer).stream is not None

    def parts(self, file: IO[bytes], name: str) -> ImportReport:
        """Import an open file of a format that comes in parts; its name is empty for none."""
        known = formats.format_named(self.began.importer)
        assert known.stream is not None  # noqa: S101 - `in_parts`
        opened = FileSnapshot(file, name)

        def found() -> Iterator[containers.Document]:
            opened.content.seek(0)
            return containers.json_documents(opened.content, name)

        parts = known.stream([(name, opened.content)])
        report = self.bring(text_coverage.account_parts(parts, found, known.reasons), {name: opened.found})
        report.problems += opened.problems()
        return report

    def rows(self, whole: bytes | Path, name: str) -> ImportReport:
        """Import a database, given its bytes or its path; its name is empty for none."""
        known = None if self.began.importer in _RDF.values() else formats.format_named(self.began.importer)
        if known is None or known.rows is None:
            raise InvalidInput(f"{name or 'what was given'} is an SQLite database, and {self.began.importer} has none")
        with containers.open_database(whole, name) as database:
            parts = known.rows(database, name)
            found = partial(containers.database_documents, database, name)
            return self.bring(text_coverage.account_parts(parts, found, known.reasons), database.files)

    def whole(self, read: Sequence[tuple[str, bytes]], *, restore: bool) -> ImportReport:
        """Import what was read: each is the name of a file, empty for none, and its bytes."""
        name, by = self.began.importer, self.began.by_iri
        if name not in _RDF.values():
            found = formats.parse_files(name, read)
            return self.bring([found.transcript], found.files)
        named, data = read[0]
        report = rdf_files.import_rdf(
            self.repository, data, name, restore=restore, by=by, name=Path(named).name or None
        )
        for session in (*report.sessions_created, *report.forks_created, *report.grown):
            report.secrets += session_quads.own_quads(self.repository.workspace, session)
        return report

    def bring(
        self, parts: Iterable[Transcript], files: Mapping[str, SourceFile], clean: Sequence[SourceTurn] = ()
    ) -> ImportReport:
        """Import what files say, part after part."""
        report = ImportReport()
        for part in parts:
            report.add(
                merge(
                    self.repository,
                    part,
                    file=self.said,
                    growing=self.growing,
                    progress=self.progress,
                    redact_secrets=self.redact_secrets,
                    read=ImportedFiles(self.began, files),
                    clean=clean,
                )
            )
        return report


def _is_fresh(file: str, said: datetime | None) -> bool:
    """Tell whether a file was written to just now, by its time of change; one that is gone is not.

    Where what it ends with was `said` long before that, the file is a copy of a rested one.
    """
    try:
        changed = Path(file).stat().st_mtime
    except OSError:
        return False
    with suppress(OSError):  # a database is written to by its log
        changed = max(changed, Path(f"{file}-wal").stat().st_mtime)
    return abs(time.time() - changed) < RESTED and (said is None or abs(changed - said.timestamp()) < RESTED)


def export_session(
    repository: Repository,
    session_id: str,
    format: str,  # noqa: A002 - the public name
    out: BinaryIO,
    *,
    forks: bool = False,
) -> SessionExport:
    """Write a session with what it inherits to a binary file, and return what was written and what the format cannot say.

    `nquads` and `trig` are exact; `pi` is a session file; `html` one page that needs nothing else; `messages` JSON lines that
    chat models are tuned on; `inspect` a log of Inspect AI; `atif` a trajectory of Harbor. With `forks` all forks of the
    session come along, theirs too, in the formats that can hold them; the others raise `InvalidInput`. So do `openclaw` and
    `parquet`, which are folders, and an `atif` of a session without turns. Raises what reading the transcript raises.

    >>> import io, trails
    >>> with trails.open(":memory:") as store:
    ...     s = store.create(id="plan"); _ = s.append("user", "Plan a trip"); _ = s.fork(id="other").persist()
    ...     export_session(store, "plan", "html", io.BytesIO(), forks=True).sessions
    ('plan', 'other')
    """
    if format == openclaw_folder.FORMAT:
        raise InvalidInput("openclaw is a whole folder, not one session: `openclaw_export.export_folder` writes it")
    if format == parquet_export.FORMAT:
        raise InvalidInput("parquet is a folder of tables, not one file: `exporting.parquet.export_tables` writes it")
    if format not in EXPORT_FORMATS:
        raise InvalidInput(f"{format!r} is no format to export; there are: {', '.join(EXPORT_FORMATS)}")
    writer = writers.WRITERS.get(format)
    if forks and (writer is None or not writer.forks):
        able = ", ".join(name for name, each in writers.WRITERS.items() if each.forks)
        raise InvalidInput(
            f"a file of {format!r} holds one session, without its forks; those that hold them are: {able}"
        )
    record = repository.record(session_id)
    if writer is not None:
        found = session_family.read_family(repository, record.id, forks=forks, spawned=writer.spawned)
        with import_records.record_reading(repository.workspace, list(found.ids()), "export"):
            return writer.write(found, out)
    with import_records.record_reading(repository.workspace, [record.id], "export"):
        if format == "pi":
            out.write(pi_export.export_session(repository, session_id))
        else:
            rdf_files.export_session(repository, session_id, format, out)
    last = repository.reader.last_index(repository.reader.lineage(record.id))
    return SessionExport(
        format, (record.id,), 0 if last is None else last + 1, _LEFT_OUT_BY_PI if format == "pi" else ()
    )
