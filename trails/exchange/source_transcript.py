"""Define what a parser returns, and what an import reports.

Define what a parser returns, and what an import reports.

What a transcript file says, in one shape for all formats: the result of parsing, before anything is stored.

A format's parser is a pure function from bytes to `Transcript`. `merge.py` then brings transcripts into a store, with
the same rules for every format: nothing twice, grown files go on, changed prefixes become reported forks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, Field

from trails.files import readable_path
from trails.model.values import Call, Compaction, Payload, ToolResult
from trails.secrets import Found, shown_id

_IDS: Final = ("sessions_created", "forks_created", "grown", "unchanged", "changed", "deleted")


class FileProblem(BaseModel):
    """A line that could not be used (0: the whole file), and why."""

    file: str
    line: int = 0
    reason: str
    text: str = ""


class LeftOut(BaseModel):
    """Texts at one place of a file that no session keeps, and why."""

    file: str
    place: str
    """The path of their field, such as `message.content[].text`."""
    line: int
    """The line of the first one, from 1; 0 where the file is one document."""
    reason: str
    count: int = 0
    characters: int = 0
    is_prose: bool = False
    """Whether one of them has several words; else they are ids, times, digests and the like."""


class ImportReport(BaseModel):
    """The outcome of an import, over all its files."""

    files: int = 0
    sessions_created: list[str] = Field(default_factory=list)
    """Ids of sessions that are new as roots or spawned sessions."""
    forks_created: list[str] = Field(default_factory=list)
    """Ids of forks made for branches of the source."""
    grown: list[str] = Field(default_factory=list)
    """Ids of sessions that were there and got more turns."""
    unchanged: list[str] = Field(default_factory=list)
    """Ids of sessions that held everything already."""
    changed: list[str] = Field(default_factory=list)
    """Ids of forks made because the source's earlier turns differ from what was imported before."""
    deleted: list[str] = Field(default_factory=list)
    """Ids of sessions that were deleted here and therefore not imported again."""
    turns_added: int = 0
    scores_added: int = 0
    turns_held: int = 0
    """Turns at the ends of files still being written that were kept back, since they may not be whole yet."""
    records: dict[str, int] = Field(default_factory=dict)
    """Records of the source by type, those that make no turn too."""
    problems: list[FileProblem] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    left_out: list[LeftOut] = Field(default_factory=list)
    """Texts of 20 characters and more that no session keeps, counted by file and place."""
    secrets: list[Found] = Field(default_factory=list)
    """Keys, tokens and passwords in what came in: where, never what. Those that are `redacted` were taken out."""
    locked: list[str] = Field(default_factory=list, exclude=True)
    """What is said of sessions that another process was importing: they are among the problems, and can come in later."""

    def refuse(self, file: object, *reasons: str) -> None:
        """Report what could not be used of a file."""
        self.problems += [FileProblem(file=readable_path(file), reason=reason) for reason in reasons]

    def add(self, other: ImportReport) -> None:
        """Add another report's figures to this one."""
        for name in type(self).model_fields:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, dict):
                for key, count in theirs.items():
                    mine[key] = mine.get(key, 0) + count
            elif isinstance(mine, list):
                mine.extend(theirs)  # in place: a file may come in thousands of parts
            else:
                setattr(self, name, mine + theirs)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return {**self.model_dump(), **self.shown_ids(), "secrets": [each.to_dict() for each in self.secrets]}

    def shown_ids(self) -> dict[str, list[str]]:
        """Return the lists of session ids with secrets in them masked."""
        return {name: [shown_id(each) for each in getattr(self, name)] for name in _IDS}


def group_files(
    files: Sequence[Path], place: Callable[[Path], Path | str] = lambda file: file.parent
) -> Iterable[Sequence[Path]]:
    """Group files by a place, by default their folder, in order."""
    groups: dict[Path | str, list[Path]] = {}
    for file in files:
        groups.setdefault(place(file), []).append(file)
    return groups.values()


@dataclass(frozen=True, slots=True)
class Piece:
    """One record of the source, and the content that it adds to a turn.

    `content` is plain text, or the list of parts that this record adds to the turn.
    """

    source_id: str
    content: str | tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SourceTurn:
    """One message, made of one record or several."""

    role: str
    pieces: tuple[Piece, ...]
    time: datetime | None = None
    author: str | None = None
    """As in `Session.append`: a principal's name, or `agent:NAME`; None for the session's own."""
    model: str | None = None
    usage: Mapping[str, Any] | None = None
    stop_reason: str | None = None
    tool_call_id: str | None = None
    """The call that a turn of plain text answers; answers among structured parts are found by themselves."""
    is_error: bool = False
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    """The calls that a turn of plain text asks for, as in `Session.append`; those among parts are found by themselves."""
    tool_results: tuple[ToolResult | Mapping[str, Any], ...] = ()
    """What more is told of the calls that the turn answers, as in `Session.append`."""
    call: Call | None = None
    """What more is told of the model call that generated the turn, as in `Session.append`."""
    compaction: Compaction | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the record says and an export needs; keys of up to 100 characters, values that JSON can carry."""
    payloads: tuple[Payload, ...] = ()

    @property
    def source_ids(self) -> tuple[str, ...]:
        """The ids of the records, in the source's order."""
        return tuple(piece.source_id for piece in self.pieces)

    @property
    def content(self) -> str | list[Any]:
        """The content to store: a single record's text, or all parts."""
        if len(self.pieces) == 1:
            only = self.pieces[0].content
            return only if isinstance(only, str) else list(only)
        parts: list[Any] = []
        for piece in self.pieces:
            parts += [{"type": "text", "text": piece.content}] if isinstance(piece.content, str) else piece.content
        return parts

    def restricted(self, source_ids: frozenset[str]) -> SourceTurn:
        """Return the turn with only the records of the given ids."""
        return replace(self, pieces=tuple(piece for piece in self.pieces if piece.source_id in source_ids))

    def renumbered(self, moved: Callable[[int], int | None], through: Callable[[int], int | None]) -> SourceTurn:
        """Return the turn with other indices in its summary."""
        if (summary := self.compaction) is None:
            return self
        changes = {"summarised_through": through, "first_kept": moved, "summarised_from": moved}
        held = {name: getattr(summary, name) for name in changes}
        update = {name: None if held[name] is None else change(held[name]) for name, change in changes.items()}
        return replace(self, compaction=summary.model_copy(update=update))


@dataclass(frozen=True, slots=True)
class SourceScore:
    """A source's score of a session or of one of its turns."""

    id: str
    """The same whenever the score comes again; no other score has it (`scoring.score_id`)."""
    name: str
    value: Any
    by: str
    """As in `Repository.score`: a principal's name, or `agent:NAME` for a program."""
    reason: str | None = None
    version: str | None = None
    time: datetime | None = None
    of: str | None = None
    """The id of the record whose turn was scored; None where the session was."""


def distinct_paths(paths: Sequence[tuple[SourceTurn, ...]]) -> tuple[tuple[SourceTurn, ...], ...]:
    """Return the first path, and others that are no prefix of another.

    A turn has one path from its root: a path is the beginning of another if its last turn stands inside that one.
    """
    inside = {repr(turn.source_ids) for path in paths for turn in path[:-1]}
    kept = {repr(paths[0][-1].source_ids) if paths[0] else "": paths[0]}
    for path in paths[1:]:
        if path and repr(path[-1].source_ids) not in inside:  # a malformed id may be unhashable
            kept.setdefault(repr(path[-1].source_ids), path)
    return tuple(kept.values())


@dataclass(frozen=True, slots=True)
class SourceSession:
    """One session: every path from its first turn to a leaf, main path first.

    Paths share their common beginning (the same `SourceTurn` values). Only real forks make a second path; a parser
    links all records first and then decides which of the branchings that it sees are forks.
    """

    source: str
    """The format's name, as in `claude-code`; with `id` it makes the session's id here."""
    id: str
    paths: tuple[tuple[SourceTurn, ...], ...]
    title: str | None = None
    created: datetime | None = None
    principal: str | None = None
    agent: str | None = None
    system: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    fork_meta: tuple[str, ...] = ()
    """The names of the metadata that its forks have as well."""
    spawned_by: str | None = None
    """The source id of the session that spawned this one."""
    continues: str | None = None
    """The source id of a record in another session that the first turn follows: all that comes before is shared."""
    copied_from: str | None = None
    """The source id of a session whose first records this one repeats: what is equal is shared."""
    is_surely_copied: bool = True
    """Whether the source says that it repeats records; else equal turns are shared only where one of them is an answer."""
    repeats: int = 0
    """How many turns of a spawned session are known to be its spawner's, told again: they are shared where the spawner is
    there and has them all, left out where it says all of it in other turns, and else count no usage."""
    open_turns: int = 0
    """How many turns at the end of the first path may still get more, for all that the file says: a message that comes in
    several records and is not known to be whole, and what follows it."""
    open_in: str = ""
    """The name of the file where that may come."""
    open_surely: bool = False
    """Whether they cannot be whole as they are, as a message that only thinks."""
    scores: tuple[SourceScore, ...] = ()
    """What it, or turns of it, were found to be worth."""
    files: tuple[str, ...] = ()
    """The names of the files that it came from, as the parser was given them; none where the parser can't tell."""
    forks_at_ends: bool = False
    """Whether a path that goes on from where an earlier one ends is a fork of it; else it makes that session longer."""
    is_part: bool = False
    """Whether it is the end of a session: its path begins with turns that the stored session ends with."""
    saved: datetime | None = None
    """When this state of the session was saved, where a format writes its file anew each time: one of earlier states may
    come in later, and is then no branch of its own."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that could not be used (0: the file), why, and its text."""

    line: int
    reason: str
    text: str
    file: str = ""
    """The file, where several are read together."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The content of one file, or of files that are read together."""

    sessions: tuple[SourceSession, ...]
    problems: tuple[Problem, ...] = ()
    records: Mapping[str, int] = field(default_factory=Counter)
    """How many records of each type the file holds, those that make no turn too."""
    notes: Sequence[str] = ()
    """What a reader should know of how the file was read: a rule of the format that was followed, a link not found."""
    refused_lines: int | None = None
    """How many lines of the whole file could not be used, where this is a part of one; None: as many as the problems say."""
    left_out: Sequence[LeftOut] = ()
    """Texts of the file that no session keeps."""
