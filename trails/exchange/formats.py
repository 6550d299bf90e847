"""Register the formats: one row for each, open to other packages.

A package adds a format as an entry point of the group `trails.formats`, which names a `Format`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import entry_points
from io import BytesIO
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

from trails.errors import InvalidInput
from trails.exchange import containers, record_checks
from trails.exchange.chats import chatgpt, message_lists
from trails.exchange.coding_agents import atif, claude_code, cline, codex, copilot, gemini, goose, opencode, swe_agent
from trails.exchange.containers import Database, Tables, has_tables
from trails.exchange.json_files import Json
from trails.exchange.openclaw import pi_session_file
from trails.exchange.source_transcript import SourceTurn, Transcript, group_files
from trails.exchange.traces import inspect_log, langfuse, otlp, step_traces
from trails.model.values import Turn

HEAD_BYTES: Final = 1 << 16
"""Bytes of a file that tell its format."""

Files = Sequence[tuple[str, bytes]]
"""The name of each file, empty for none, and its bytes."""


def one_by_one(files: Sequence[Path]) -> Iterable[Sequence[Path]]:
    """Return each file by itself."""
    return [[file] for file in files]


@dataclass(frozen=True, slots=True)
class PartRules:
    """How the end of a file of lines is read without what comes before it."""

    begins: Callable[[Json, Json | None], bool]
    """Whether reading can begin at a record; it is called with the record and the last one before it."""
    session: Callable[[Json, Path], str | None]
    """Returns the id of the session, in the source, that a record of a file is of; None if it does not tell."""
    before: Callable[[Json, str, Mapping[str, Any]], Json]
    """Returns the record to read in the place of all before one, given that id and the stored session's metadata."""
    misfits: tuple[str, ...] = ()
    """Words of the notes which say that the end alone does not tell enough."""
    never: tuple[bytes, ...] = ()
    """Words of records that change what came before: a part with one of them does not tell enough."""
    align: Callable[[Sequence[SourceTurn], Sequence[Turn]], Sequence[SourceTurn] | None] | None = None
    """Gives turns of a part the ids that they have in the whole file, by the stored turns that they begin with."""


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """A format: how to detect its files, group them and read them."""

    name: str
    sniff: Callable[[bytes], bool] = lambda _: False
    """Whether a file with these first bytes is of this format."""
    parse: Callable[[Files], Transcript] | None = None
    """Reads whole files. None if the format has only `stream`, or is read in another way."""
    companions: Callable[[Path], Sequence[Path]] = lambda file: [file]
    """The files to read if this one is named."""
    groups: Callable[[Sequence[Path]], Iterable[Sequence[Path]]] = group_files
    """Splits the files of a folder into those that are read together."""
    holds: Callable[[Sequence[str]], bool] = lambda _: False
    """Whether a zip whose members have these names is of this format."""
    stream: Callable[[Sequence[tuple[str, IO[bytes]]]], Iterator[Transcript]] | None = None
    """Reads open files in parts, which are imported one after the other."""
    tables: Callable[[Tables], bool] = lambda _: False
    """Whether an SQLite database with these tables is of this format."""
    rows: Callable[[Database, str], Iterator[Transcript]] | None = None
    """Reads a database with a name in parts, which are imported one after the other."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why fields are not kept, by the beginning of their place (see `text_coverage`)."""
    owner: Callable[[Path], Path] = lambda file: file
    """The file that is named to read this one too: a session's own, for one that adds to it."""
    parts: PartRules | None = None
    """How the end of a file is read by itself; None for a format whose files are read whole."""
    ending: str | None = None
    """The ending of a file's name that tells an exact export; `trails.exchange.rdf_files` reads it."""
    is_folder: bool = False
    """Whether a whole folder is of this format; `trails.exchange.openclaw` reads it."""

    def read(self, files: Files) -> Transcript:
        """Return what files say."""
        if self.parse is not None:
            return self.parse(files)
        assert self.stream is not None  # noqa: S101 - only formats of transcripts are read
        return record_checks.combine_parts(self.stream([(name, BytesIO(data)) for name, data in files]))


_FORMATS: Final = (
    Format(
        "claude-code",
        claude_code.sniff,
        claude_code.parse,
        claude_code.companions,
        claude_code.groups,
        owner=claude_code.owner,
        parts=PartRules(claude_code.begins_part, claude_code.session_of, claude_code.before_part, claude_code.MISFITS),
        reasons=claude_code.REASONS,
    ),
    Format(
        "pi",
        pi_session_file.sniff,
        pi_session_file.parse,
        parts=PartRules(
            pi_session_file.begins_part,
            pi_session_file.session_of,
            pi_session_file.before_part,
            never=pi_session_file.CHANGING,
        ),
    ),
    Format(
        "codex",
        codex.sniff,
        codex.parse,
        codex.companions,
        codex.groups,
        parts=PartRules(
            codex.begins_part, codex.session_of, codex.before_part, never=codex.CHANGING, align=codex.align_part
        ),
    ),
    Format("copilot-cli", copilot.sniff, copilot.parse, groups=one_by_one),
    Format(gemini.SOURCE, gemini.sniff, gemini.parse, groups=gemini.groups),
    Format(chatgpt.SOURCE, chatgpt.sniff, chatgpt.parse, groups=one_by_one, holds=chatgpt.holds),
    Format(swe_agent.SOURCE, swe_agent.sniff, swe_agent.parse, groups=one_by_one),
    Format(swe_agent.MINI, swe_agent.sniff_mini, swe_agent.parse_mini, groups=one_by_one),
    Format("inspect", inspect_log.sniff, groups=one_by_one, holds=inspect_log.holds, stream=inspect_log.stream),
    Format(atif.SOURCE, atif.sniff, atif.parse, atif.companions),
    Format(langfuse.SOURCE, langfuse.sniff, langfuse.parse),
    Format(step_traces.LANGSMITH, step_traces.sniff_langsmith, step_traces.parse_langsmith),
    Format(step_traces.MLFLOW, step_traces.sniff_mlflow, step_traces.parse_mlflow),
    Format("otel", otlp.sniff, otlp.parse, otlp.companions),
    Format(cline.SOURCE, cline.sniff, cline.parse, cline.companions),
    Format(
        goose.SOURCE,
        goose.sniff,
        goose.parse,
        groups=one_by_one,
        tables=partial(has_tables, goose.TABLES),
        rows=goose.rows,
    ),
    Format(
        "opencode",
        opencode.sniff,
        opencode.parse,
        opencode.companions,
        opencode.groups,
        owner=opencode.owner,
        tables=partial(has_tables, opencode.TABLES),
        rows=opencode.read_rows,
    ),
    Format("openclaw", is_folder=True),
    Format("nquads", groups=one_by_one, ending=".nq"),
    Format("trig", groups=one_by_one, ending=".trig"),
)
_LAST: Final = Format(message_lists.SOURCE, message_lists.sniff, groups=one_by_one, stream=message_lists.stream)
"""Tried last: it accepts any file that holds messages."""


@cache
def all_formats() -> Mapping[str, Format]:
    """Return all formats by name, in the order of detection."""
    formats = {each.name: each for each in _FORMATS}
    for entry in entry_points(group="trails.formats"):
        try:
            added = entry.load()
        except Exception as error:
            raise InvalidInput(f"the format {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
        if not isinstance(added, Format) or added.name in formats:
            raise InvalidInput(f"the format {entry.name!r} ({entry.value}) is no Format with a name of its own")
        formats[added.name] = added
    return {**formats, _LAST.name: _LAST}


def format_named(name: str) -> Format:
    """Return a format by name; raise `InvalidInput` if there is none."""
    if name not in all_formats():
        raise InvalidInput(f"{name!r} is no format to import; there are: {', '.join(all_formats())}")
    return all_formats()[name]


def detect_format(head: bytes, whole: bytes | BinaryIO) -> Format | None:
    """Detect a file's format by its first bytes.

    A database is detected by its tables, a zip by the names of its members.
    """
    if containers.is_sqlite(head):
        tables = containers.tables_of(whole)
        return _first(lambda each: each.tables(tables))
    if head.startswith(containers.ZIP_SIGNATURE) and (names := containers.member_names(whole)) is not None:
        return _first(lambda each: each.holds(names))
    if head.startswith(containers.ZSTD_SIGNATURE):
        head = containers.unpack_zstd(head, None, HEAD_BYTES)
    return _first(lambda each: each.sniff(head))


def detect_file(file: Path) -> Format | None:
    """Detect a file's format by its suffix or its content."""
    if (exact := _first(lambda each: each.ending == file.suffix)) is not None:
        return exact
    with file.open("rb") as opened:
        return detect_format(opened.read(HEAD_BYTES), opened)


def _first(fits: Callable[[Format], bool]) -> Format | None:
    return next((each for each in all_formats().values() if fits(each)), None)


Group = tuple[Format, Sequence[Path]]
"""A format, and files that are read together."""
