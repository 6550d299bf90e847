"""What a store would refuse, found while a file is read: so that one bad record costs one record and not its session."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from trails import validate
from trails.errors import InvalidInput
from trails.plumbing import draft
from trails.plumbing.draft import Draft
from trails.transcripts import jsonl
from trails.transcripts.source import Problem, SourceSession, SourceTurn, Transcript


def drafted(turn: SourceTurn) -> Draft:
    """Return a source turn as one that a session can append; raise `InvalidInput` for what no store would keep."""
    return draft.make(
        turn.role,
        turn.content,
        author=turn.author,
        time=turn.time,
        timed=False,
        model=turn.model,
        usage=turn.usage,
        stop_reason=turn.stop_reason,
        tool_calls=turn.tool_calls,
        tool_call_id=turn.tool_call_id,
        is_error=turn.is_error,
        tool_results=turn.tool_results,
        call=turn.call,
        compaction=turn.compaction,
        source_ids=turn.source_ids,
        meta=turn.meta or None,
    )


def fault(turn: SourceTurn) -> str | None:
    """Return why no store would keep a turn, or None if it can be kept."""
    try:
        drafted(turn)
    except InvalidInput as error:
        return f"{error}"
    return None


def name(value: object) -> str | None:
    """Return a value that can be the name of a model, an agent or a reason; None for any other."""
    try:
        return validate.name(value, "name")
    except InvalidInput:
        return None


def text_time(value: object) -> datetime | None:
    """Return the aware time that a text stands for (ISO 8601), or None: times without a zone are not guessed."""
    if not isinstance(value, str):
        return None
    try:
        return validate.time(datetime.fromisoformat(value))
    except ValueError:  # InvalidInput is one
        return None


def epoch_time(seconds: object) -> datetime | None:
    """Return the time that a number of seconds since 1970 stands for, to the microsecond, or None."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def filled(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what says something: without nulls, empty texts, lists and objects."""
    return {key: value for key, value in values.items() if value is not None and value not in ("", [], {})}


@dataclass(slots=True)
class Reading:
    """What is found in one file, filled in step by step."""

    sessions: list[SourceSession] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def refuse(self, line: int, reason: str, record: object) -> None:
        """Keep a record that cannot be used, with its line (0 where it is no line of its own)."""
        try:
            text = record if isinstance(record, str) else json.dumps(record, ensure_ascii=False)
        except RecursionError:
            text = "(nested too deeply to show)"
        self.problems.append(jsonl.problem(line, reason, text))

    def count(self, kind: object) -> None:
        """Count a record of a type."""
        self.records[str(kind)[:100]] += 1

    def meta(self, line: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return metadata of a session that can be kept; what cannot is a problem of that line."""
        kept: dict[str, Any] = {}
        for key, value in values.items():
            try:
                validate.meta({key: value})
            except InvalidInput as error:
                self.refuse(line, f"has metadata that cannot be kept: {error}", {key: value})
            else:
                kept[key] = value
        return kept


def together(readings: Iterable[tuple[str, Reading]]) -> Transcript:
    """Return what several files say as one transcript; with more than one, problems and notes name their file."""
    read = list(readings)

    def said(file: str, text: str) -> str:
        return f"{file}: {text}" if len(read) > 1 else text

    return Transcript(
        sessions=tuple(replace(session, files=(file,)) for file, each in read for session in each.sessions),
        problems=tuple(replace(p, reason=said(file, p.reason)) for file, each in read for p in each.problems),
        records=sum((each.records for _, each in read), Counter()),
        notes=tuple(said(file, note) for file, each in read for note in each.notes),
    )


def joined(parts: Iterable[Transcript]) -> Transcript:
    """Return what the parts of a file say as one transcript."""
    read = list(parts)
    return Transcript(
        sessions=tuple(session for part in read for session in part.sessions),
        problems=tuple(problem for part in read for problem in part.problems),
        records=sum((Counter(part.records) for part in read), Counter[str]()),
        notes=tuple(note for part in read for note in part.notes),
    )
