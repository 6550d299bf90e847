"""Check source records while a file is read, so that a bad one costs only itself, and drop what is too long to keep."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from trails.errors import InvalidInput
from trails.exchange import json_files
from trails.exchange.source_transcript import Piece, Problem, SourceSession, SourceTurn, Transcript
from trails.exchange.source_values import short_hash, without_empty
from trails.history import turn_builder
from trails.history.turn_builder import Draft
from trails.model import validation

_DRAFT_FIELDS: Final = (
    *("author", "time", "model", "usage", "stop_reason", "tool_calls", "tool_call_id"),
    *("is_error", "tool_results", "call", "compaction", "source_ids", "payloads"),
)
"""Fields of a source turn that its draft has under the same names."""


def make_draft(turn: SourceTurn, also: Iterable[str] = ()) -> Draft:
    """Return a turn that a session can append; raise `InvalidInput` if it is invalid.

    `also` are the ids of further records that are kept with it and add nothing to its content.
    """
    fields = {name: getattr(turn, name) for name in _DRAFT_FIELDS}
    fields["source_ids"] = (*turn.source_ids, *also)
    return turn_builder.make_draft(turn.role, turn.content, timed=False, meta=turn.meta or None, **fields)


def turn_fault(turn: SourceTurn) -> str | None:
    """Return why a turn cannot be kept, or None."""
    try:
        make_draft(turn)
    except InvalidInput as error:
        return f"{error}"
    return None


def named_by_opening(
    named: str | None, also: object, turns: Sequence[SourceTurn]
) -> tuple[str, tuple[SourceTurn, ...]]:
    """Return an id for a file without one, and its turns with ids below it.

    The id is a hash of all up to the model's first message, which a file that grows, or is moved or renamed, keeps.
    """
    first = next((index for index, turn in enumerate(turns) if turn.role == "assistant"), len(turns))
    digest = short_hash([also, [[turn.role, turn.content, list(turn.tool_calls)] for turn in turns[: first + 1]]])
    own = f"{named}-{digest}" if named else digest
    return own, tuple(
        replace(turn, pieces=tuple(Piece(f"{own}/{piece.source_id}", piece.content) for piece in turn.pieces))
        for turn in turns
    )


@dataclass(slots=True)
class Reading:
    """The result of reading one file, filled in step by step."""

    sessions: list[SourceSession] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def refuse(self, line: int, reason: str, record: object, *, file: str = "") -> None:
        """Report a record that cannot be used, with its line or 0."""
        try:
            text = record if isinstance(record, str) else json.dumps(record, ensure_ascii=False)
        except RecursionError:
            text = "(nested too deeply to show)"
        self.problems.append(replace(json_files.line_problem(line, reason, text), file=file))

    def keeps(self, turn: SourceTurn, line: int, subject: str, record: object) -> bool:
        """Tell whether a turn can be kept; if not, report its record."""
        if (reason := turn_fault(turn)) is not None:
            self.refuse(line, f"{subject} cannot be kept: {reason}".lstrip(), record)
        return reason is None

    def one_object(self, data: bytes, *, constants: bool = False) -> dict[str, Any] | None:
        """Return the one object that a file is; report why there is none."""
        found = json_files.read_object(data, constants=constants, notes=self.notes)
        if isinstance(found, Problem):
            self.problems.append(found)
            return None
        return found

    def values(self, data: bytes) -> list[tuple[int, dict[str, Any]]]:
        """Return a file's JSON objects with their lines; report the rest."""
        found, problems = json_files.read_values(data)
        self.problems += problems
        return found

    def note_counts(self, counts: Mapping[str, int]) -> None:
        """Note what was found, each with how often."""
        self.notes += [f"{count} {what}" for what, count in counts.items() if count]

    def add_session(
        self,
        source: str,
        source_id: str,
        paths: Iterable[Iterable[SourceTurn]],
        meta: Mapping[str, Any],
        line: int = 0,
        **more: Any,
    ) -> None:
        """Add a session with its valid metadata; its agent is the source by default."""
        kept = self.meta(line, without_empty(meta))
        fields = {"agent": source, **more}
        self.sessions.append(
            SourceSession(source=source, id=source_id, paths=tuple(map(tuple, paths)), meta=kept, **fields)
        )

    def transcript(self) -> Transcript:
        """Return what was read, of sessions that name their files themselves."""
        return Transcript(tuple(self.sessions), tuple(self.problems), self.records.copy(), tuple(self.notes))

    def count(self, kind: object) -> None:
        """Count a record of a type."""
        self.records[str(kind)[:100]] += 1

    def meta(self, line: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the valid metadata of a session; report the rest."""
        kept: dict[str, Any] = {}
        for key, value in values.items():
            try:
                validation.meta({key: value})
            except InvalidInput as error:
                self.refuse(line, f"has metadata that cannot be kept: {error}", {key: value})
            else:
                kept[key] = value
        return kept


def combine_files(readings: Iterable[tuple[str, Reading]]) -> Transcript:
    """Combine the readings of files; of several, problems and notes name theirs."""
    read = list(readings)

    def said(file: str, text: str) -> str:
        return f"{file}: {text}" if len(read) > 1 else text

    return Transcript(
        sessions=tuple(replace(session, files=(file,)) for file, each in read for session in each.sessions),
        problems=tuple(replace(p, reason=said(file, p.reason)) for file, each in read for p in each.problems),
        records=sum((each.records for _, each in read), Counter()),
        notes=tuple(said(file, note) for file, each in read for note in each.notes),
    )


def each_file(read: Callable[[str, bytes, Reading], None]) -> Callable[[Sequence[tuple[str, bytes]]], Transcript]:
    """Return a parser of independent files, made from a reader of one."""

    def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
        readings = [(file, Reading()) for file, _ in files]
        for (file, data), (_, reading) in zip(files, readings, strict=True):
            read(file, data, reading)
        return combine_files(readings)

    return parse


def combine_parts(parts: Iterable[Transcript]) -> Transcript:
    """Combine the parts of a file."""
    read = list(parts)
    return Transcript(
        sessions=tuple(session for part in read for session in part.sessions),
        problems=tuple(problem for part in read for problem in part.problems),
        records=sum((Counter(part.records) for part in read), Counter[str]()),
        notes=tuple(note for part in read for note in part.notes),
    )


def drop_oversized(session: SourceSession) -> tuple[SourceSession, list[str]]:
    """Return a session without what is too long, and the problems.

    Parsers find what else a store refuses; a turn that they made of several records may be too long only as a whole.
    """
    faults: dict[tuple[str, ...], str] = {}
    for turn in (turn for path in session.paths for turn in path):
        request = turn.compaction.request if turn.compaction else None
        pieces = [piece.content for piece in turn.pieces]
        values = [pieces, turn.meta, turn.usage, turn.tool_calls, turn.source_ids, request]
        if not validation.is_surely_short(values) and (reason := turn_fault(turn)) is not None:
            faults[turn.source_ids] = f"the turn of {_record_name(turn.source_ids)} cannot be kept: {reason}"
    if faults:
        session = replace(session, paths=tuple(_without_turns(path, faults) for path in session.paths))
    beside = {f"the metadata {key[:80]!r}": value for key, value in session.meta.items()}
    too_long = {
        what: f"cannot be kept: {reason}"
        for what, value in {**beside, "its title": session.title, "its prompt": session.system}.items()
        if (reason := _excess(what, value)) is not None
    }
    if too_long:
        session = replace(
            session,
            meta={key: value for key, value in session.meta.items() if f"the metadata {key[:80]!r}" not in too_long},
            title=None if "its title" in too_long else session.title,
            system=None if "its prompt" in too_long else session.system,
        )
    return session, [f"session {session.id!r}: {why}" for why in (*faults.values(), *too_long.values())]


def _excess(what: str, value: Any) -> str | None:
    """Return why a value is too long, or None."""
    if not validation.is_surely_short(value):
        try:
            validation.to_json(value, what)
        except InvalidInput as error:
            return f"{error}"
    return None


def _record_name(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return f"the record {ids[0][:80]!r}{more}" if ids else "a record without an id"


def _without_turns(path: Sequence[SourceTurn], faults: Collection[tuple[str, ...]]) -> tuple[SourceTurn, ...]:
    """Return a path without turns, the indices that its summaries name moved along."""
    gone = [index for index, turn in enumerate(path) if turn.source_ids in faults]
    return tuple(
        turn.renumbered(
            lambda index: index - sum(place < index for place in gone),
            lambda index: max(0, index - sum(place <= index for place in gone)),
        )
        for turn in path
        if turn.source_ids not in faults
    )


_MIN_REPEAT: Final = 20
"""Characters of a text from which on it is looked for."""


def unrepeated_records(records: object, said: object) -> list[Any]:
    """Return the records with a long text that other records do not have.

    >>> entries = [{"text": "Where would you like to go?"}, {"text": "A server was connected"}]
    >>> unrepeated_records(entries, ["Where would you like to go?"])
    [{'text': 'A server was connected'}]
    """
    known = json.dumps(said, ensure_ascii=False)
    entries = records if isinstance(records, list) else [] if records is None else [records]
    return [each for each in entries if not all(_is_repeated(text, known) for text in _texts_in(each))]


def _is_repeated(text: str, known: str) -> bool:
    quoted = json.dumps(text, ensure_ascii=False)[1:-1]
    return len(text) < _MIN_REPEAT or quoted in known or json.dumps(quoted, ensure_ascii=False)[1:-1] in known


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9TZ:.+-]+", value):
            yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(each)
