"""Register the transcript formats, and parse files by them.

The transcript formats that are known.

Files that are parsed ahead, in a process beside the one that writes what the files before them say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import IO, Final, NamedTuple

from trails import workers
from trails.exchange import containers, text_coverage
from trails.exchange.chats import chatgpt, message_lists
from trails.exchange.coding_agents import (
    atif,
    claude_code,
    cline,
    codex,
    copilot,
    gemini,
    goose,
    mini_swe_agent,
    swe_agent,
)
from trails.exchange.coding_agents import opencode as opencode_database
from trails.exchange.coding_agents import opencode as opencode_storage
from trails.exchange.containers import Database, Tables
from trails.exchange.import_secrets import SecretFilter
from trails.exchange.openclaw import pi_session_file
from trails.exchange.source_transcript import SourceTurn, Transcript
from trails.exchange.traces import inspect_log, langfuse, langsmith, mlflow, otlp
from trails.history import import_records
from trails.rdf.activity_records import SourceFile


@dataclass(frozen=True, slots=True)
class Format:
    """A transcript format: how to recognise a file by its beginning, which files belong together, how to read them."""

    name: str
    sniff: Callable[[bytes], bool]
    find_files: Callable[[Path], list[Path]]
    parse: Callable[[Sequence[tuple[str, bytes]]], Transcript]
    alone: bool = False
    """Whether each file stands by itself: those of a folder are then read one at a time."""
    holds: Callable[[Sequence[str]], bool] | None = None
    """Whether a zip whose members have these names is of this format; None for a format that comes in no zip."""
    stream: Callable[[Sequence[tuple[str, IO[bytes]]]], Iterator[Transcript]] | None = None
    """As `parse`, of open files, in parts that are read and brought in one after the other; None where a file is read as a
    whole."""
    tables: Callable[[Tables], bool] | None = None
    """Whether an SQLite database with these tables is of this format; None for a format that has no database."""
    rows: Callable[[Database, str], Iterator[Transcript]] | None = None
    """What a database says (and its name), in parts that are brought in one after the other."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why fields are kept nowhere, by the beginning of their place (see `accounting`)."""


TRANSCRIPTS: Final = (
    Format("claude-code", claude_code.sniff, claude_code.find_files, claude_code.parse, reasons=claude_code.REASONS),
    Format("pi", pi_session_file.sniff, pi_session_file.find_files, pi_session_file.parse),
    Format("codex", codex.sniff, codex.find_files, codex.parse),
    Format("copilot-cli", copilot.sniff, copilot.find_files, copilot.parse, alone=True),
    Format("gemini-cli", gemini.sniff, gemini.find_files, gemini.parse),
    Format("chatgpt", chatgpt.sniff, chatgpt.find_files, chatgpt.parse, alone=True, holds=chatgpt.holds),
    Format("swe-agent", swe_agent.sniff, swe_agent.find_files, swe_agent.parse, alone=True),
    Format("mini-swe-agent", mini_swe_agent.sniff, mini_swe_agent.find_files, mini_swe_agent.parse, alone=True),
    Format(
        "inspect",
        inspect_log.sniff,
        inspect_log.find_files,
        inspect_log.parse,
        alone=True,
        holds=inspect_log.holds,
        stream=inspect_log.stream,
    ),
    Format("atif", atif.sniff, atif.find_files, atif.parse),
    Format("langfuse", langfuse.sniff, langfuse.find_files, langfuse.parse),
    Format("langsmith", langsmith.sniff, langsmith.find_files, langsmith.parse),
    Format("mlflow", mlflow.sniff, mlflow.find_files, mlflow.parse),
    Format("otel", otlp.sniff, otlp.find_files, otlp.parse),
    Format("cline", cline.sniff, cline.find_files, cline.parse),
    Format("goose", goose.sniff, goose.find_files, goose.parse, alone=True, tables=goose.holds, rows=goose.rows),
    Format(
        "opencode",
        opencode_storage.sniff,
        opencode_storage.find_files,
        opencode_storage.parse,
        tables=opencode_database.is_database,
        rows=opencode_database.read_rows,
    ),
    Format(
        "messages",
        message_lists.sniff,
        message_lists.find_files,
        message_lists.parse,
        alone=True,
        stream=message_lists.stream,
    ),
)
"""The formats that are recognised, in the order in which they are tried."""


PARALLEL_BYTES: Final = 4 << 20
"""Bytes of all files from which on a process is started: that takes as long as some hundred kilobytes."""
_WAITING_GROUPS: Final = 2
"""How many groups of files wait to be written: each is in memory as a whole."""
Group = tuple[str, Sequence[Path]]
"""A format, and files that belong together."""


class Parsed(NamedTuple):
    """What a group of files says."""

    transcript: Transcript
    files: dict[str, SourceFile]
    """By name."""
    clean: Sequence[SourceTurn] = ()
    """Turns of the transcript in which no secret was found."""


def parse_ahead(groups: Sequence[Group]) -> Iterator[Parsed | None]:
    """Yield what each group of files says, in order, then None without end.

    None stands for a group that is to be read here, where whatever is wrong with it can be said.
    """
    if len(groups) > 1 and workers.count() and sum(map(_group_size, groups)) >= PARALLEL_BYTES:
        with suppress(workers.WorkersFailed):
            answers = workers.each(f"{__name__}:begin", None, list(groups), 1, ahead=_WAITING_GROUPS)
            with closing(answers):  # type: ignore[type-var] # a generator
                for _, answer in answers:
                    yield answer
    yield from repeat(None)


def _group_size(group: Group) -> int:
    found = 0
    for file in group[1]:
        with suppress(OSError):
            found += file.stat().st_size
    return found


def start_parser(_: None) -> Callable[[Group], Parsed | None]:
    """Return what reads and parses groups of files, in a process of its own."""
    return _parse_group


def _parse_group(group: Group) -> Parsed | None:
    try:
        name, files = group
        if format_named(name).rows is not None and len(files) == 1:  # it may be a database
            return None
        if (
            format_named(name).stream is not None and _group_size(group) >= PARALLEL_BYTES
        ):  # it is to be read a part at a time
            return None
        found = parse_files(name, [(str(file), containers.decompress(file.read_bytes())) for file in files])
    except Exception:  # noqa: BLE001 - it is read once more where it can be said
        return None
    looking = SecretFilter()
    turns = {id(turn): turn for session in found.transcript.sessions for path in session.paths for turn in path}
    clean = [turn for turn in turns.values() if not any(True for _ in looking.in_turn(turn, "", 0))]
    return found._replace(clean=clean)


def parse_files(name: str, contents: Sequence[tuple[str, bytes]]) -> Parsed:
    """Return what files of a format say, each the name of a file, empty for none, and its bytes."""
    transcript_format = format_named(name)
    transcript = text_coverage.parse_and_account(transcript_format.parse, contents, transcript_format.reasons)
    return Parsed(transcript, source_files(contents))


def source_files(contents: Sequence[tuple[str, bytes]]) -> dict[str, SourceFile]:
    """Return what an import records of files, by their names."""
    return {file: import_records.source_file(data, Path(file).name or None) for file, data in contents}


def format_named(name: str) -> Format:
    """Return a format by its name."""
    return next(each for each in TRANSCRIPTS if each.name == name)
