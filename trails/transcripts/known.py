"""The transcript formats that are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from trails.transcripts import (
    atif,
    chatgpt,
    cline,
    gemini,
    goose,
    langfuse,
    langsmith,
    messages,
    mini_swe_agent,
    mlflow,
    swe_agent,
)
from trails.transcripts.claude_code import projects
from trails.transcripts.codex import rollout
from trails.transcripts.copilot import events
from trails.transcripts.databases import Database, Tables
from trails.transcripts.inspect_ai import log
from trails.transcripts.opencode import database as opencode_database
from trails.transcripts.opencode import storage as opencode_storage
from trails.transcripts.otel import otlp
from trails.transcripts.pi import session_file
from trails.transcripts.source import Transcript


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
    Format("claude-code", projects.sniff, projects.find_files, projects.parse, reasons=projects.REASONS),
    Format("pi", session_file.sniff, session_file.find_files, session_file.parse),
    Format("codex", rollout.sniff, rollout.find_files, rollout.parse),
    Format("copilot-cli", events.sniff, events.find_files, events.parse, alone=True),
    Format("gemini-cli", gemini.sniff, gemini.find_files, gemini.parse),
    Format("chatgpt", chatgpt.sniff, chatgpt.find_files, chatgpt.parse, alone=True, holds=chatgpt.holds),
    Format("swe-agent", swe_agent.sniff, swe_agent.find_files, swe_agent.parse, alone=True),
    Format("mini-swe-agent", mini_swe_agent.sniff, mini_swe_agent.find_files, mini_swe_agent.parse, alone=True),
    Format("inspect", log.sniff, log.find_files, log.parse, alone=True, holds=log.holds, stream=log.stream),
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
        tables=opencode_database.holds,
        rows=opencode_database.rows,
    ),
    Format("messages", messages.sniff, messages.find_files, messages.parse, alone=True, stream=messages.stream),
)
"""The formats that are recognised, in the order in which they are tried."""
