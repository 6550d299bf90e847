"""Queries of the catalogue about tool calls, answered from the figures: the same rows as over the turns, in less time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, cached_property
from typing import Any, Final, NamedTuple

import pyoxigraph as ox

from trails.history.workspace import Workspace
from trails.model import iris, validation
from trails.plumbing import figured
from trails.plumbing.figured import Row, Terms
from trails.plumbing.index import figures
from trails.plumbing.index.sidefile import SideFile
from trails.rdf import vocab
from trails.usage import EXACT


class _Call(NamedTuple):
    """A tool call, at the index of the turn that asked for it."""

    at: int
    id: str
    name: str | None
    iri: str


class _Answer(NamedTuple):
    at: int
    id: str


@dataclass(frozen=True, slots=True)
class _Own:
    """What the turns that a session owns ask and answer."""

    calls: list[_Call] = field(default_factory=list)
    answers: list[_Answer] = field(default_factory=list)


# --- calls that a transcript leaves open


def open_calls(workspace: Workspace, given: Terms) -> list[Row] | None:
    """Return the rows of `open-tool-calls`: a result answers the latest call with its id before it in the transcript."""
    wanted = given["session"]
    only = None if wanted is None else [iris.session_id(each.value) for each in wanted]
    found = workspace.index.figures(lambda file: _left_open(file, only))
    if found is None:
        return None
    rows = list[Row]()
    for session, call in found:
        if call.name is None:
            return None
        asked = iris.turn_of(call.iri)
        elsewhere = ox.Literal(_is_answered(workspace, call.iri))
        told = (vocab.integer(call.at), ox.Literal(call.name), ox.Literal(call.id), elsewhere)
        rows.append((ox.NamedNode(session), *told, ox.NamedNode(asked), ox.NamedNode(call.iri)))
    return rows


def _is_answered(workspace: Workspace, call: str) -> bool:
    node = ox.NamedNode(call)
    return any(workspace.store.quads((None, link, node, None)) for link in (vocab.TOOL_RESULT_OF, vocab.ANSWERS_COPY))


def _left_open(file: SideFile, only: Sequence[str] | None) -> list[tuple[str, _Call]] | None:
    """Return the calls that stay open in transcripts, by the session's IRI and place; None for a lineage that is not whole."""
    sessions = figured.lineages(file)
    wanted = sessions if only is None else [each for each in only if each in sessions]
    owned = _Owned(file, sessions, _loose(file) if only is None else None)
    found = list[tuple[str, _Call]]()
    for session_id in wanted:
        segments = figured.segments(sessions, session_id)
        if segments is None:
            return None
        # What a part of a transcript answers itself is answered in all of it: the parts stand one after the other.
        if any(owned.leaves_open(owner, end) for owner, end in segments):
            own = iris.session(session_id)
            found += ((own, call) for call in _open_in([owned.below(owner, end) for owner, end in segments]))
    return sorted(found, key=lambda each: (each[0], each[1].at, each[1].iri))


def _loose(file: SideFile) -> set[int]:
    """Return the numbers of the sessions with a call that is not answered right after it: those to look at more closely."""
    calls = set(file.each("SELECT session, id, place FROM tool_calls"))
    calls -= set(file.each("SELECT session, id, place - 1 FROM tool_answers"))
    return {number for number, _, _ in calls}


def _open_in(transcript: Iterable[_Own]) -> list[_Call]:
    calls, answers = list[_Call](), list[_Answer]()
    for each in transcript:
        calls += each.calls
        answers += each.answers
    by_id: dict[str, list[int]] = defaultdict(list)
    for call in calls:
        by_id[call.id].append(call.at)
    answered = {(each.id, max((at for at in by_id[each.id] if at < each.at), default=None)) for each in answers}
    return [call for call in calls if (call.id, call.at) not in answered]


class _Owned:
    """What the turns of sessions ask and answer, read once."""

    def __init__(self, file: SideFile, sessions: Mapping[str, figured.Session], loose: Collection[int] | None) -> None:
        """Read sessions as they are asked for; each call of one whose number is not in `loose` is answered. None: not known."""
        self._file = file
        self._sessions = sessions
        self._loose = loose
        self._own = cache(self._read)
        self.below = cache(self._below)
        self.leaves_open = cache(self._leaves_open)

    def _leaves_open(self, session_id: str, end: int | None) -> bool:
        """Tell whether the turns that a session owns before the index `end` leave a call open."""
        is_known = self._loose is not None and self._sessions[session_id].number not in self._loose
        return not (end is None and is_known) and bool(_open_in([self.below(session_id, end)]))

    def _below(self, session_id: str, end: int | None) -> _Own:
        """Return what the turns that a session owns before the index `end` ask and answer."""
        own = self._own(session_id)
        if end is None:
            return own
        return _Own([call for call in own.calls if call.at < end], [each for each in own.answers if each.at < end])

    def _read(self, session_id: str) -> _Own:
        session, own = self._sessions[session_id], iris.session(session_id)
        asked = (session.number, session.starts_at)
        calls = [
            _Call(at, call_id, name, figures.whole(own, call))
            for at, call_id, name, call in self._file.ask(_ASKED, asked)
        ]
        return _Own(calls, [_Answer(*row) for row in self._file.ask(_ANSWERED, asked)])


_ASKED: Final = "SELECT place, id, name, call FROM tool_calls WHERE session = ? AND place >= ?"
_ANSWERED: Final = "SELECT place, id FROM tool_answers WHERE session = ? AND place >= ?"
_CALLS: Final = "SELECT session, place, id, name, call FROM tool_calls"


# --- calls that nobody answers


def unanswered_calls(workspace: Workspace, given: Terms) -> list[Row] | None:
    """Return the rows of `unanswered-tool-calls`."""
    wanted = given["session"]
    only = None if wanted is None else [iris.session_id(each.value) for each in wanted]
    found = workspace.index.figures(lambda file: _unanswered(file, only))
    rows = list[Row]()
    for session, call in found:
        if call.name is None:
            return None
        node, graph = ox.NamedNode(call.iri), ox.NamedNode(session)
        if _is_answered(workspace, call.iri):  # by a turn of another session
            continue
        for quad in workspace.store.quads((node, vocab.ARGUMENTS, None, graph)):
            told = (vocab.integer(call.at), ox.Literal(call.name), quad.object)
            rows.append((graph, *told, ox.NamedNode(iris.turn_of(call.iri)), node))
    return rows


def _unanswered(file: SideFile, only: Sequence[str] | None) -> list[tuple[str, _Call]]:
    """Return calls by the session's IRI and place: of all sessions those that none of them answers, of some all that they ask."""
    own = {number: iris.session(session_id) for number, session_id in file.ask("SELECT number, id FROM sessions")}
    if only is None:
        left = set(file.each("SELECT session, call FROM tool_calls"))
        left -= set(file.each("SELECT session, call FROM tool_answers"))
        rows = [row for row in _calls_of(file, {number for number, _ in left}, own) if (row[0], row[4]) in left]
    else:
        wanted = set(map(iris.session, only))
        rows = list(_calls_of(file, {number for number, iri in own.items() if iri in wanted}, own))
    found = [
        (own[number], _Call(at, call_id, name, figures.whole(own[number], call)))
        for number, at, call_id, name, call in rows
    ]
    return sorted(found, key=lambda each: (each[0], each[1].at, each[1].iri))


def _calls_of(file: SideFile, numbers: Collection[int], own: Mapping[int, str]) -> Iterator[tuple[Any, ...]]:
    """Yield the calls of sessions: one look at all calls, where they are of most sessions."""
    if 2 * len(numbers) > len(own):
        yield from (row for row in file.each(_CALLS) if row[0] in numbers)
        return
    for number in numbers:
        yield from file.ask(_CALLS + " WHERE session = ?", (number,))


# --- how long tools took


class _Told(NamedTuple):
    """What is told of one answer by a turn that brought it: for whom, by which tool, and how it came out."""

    whom: str
    name: str
    failed: int
    refused: int
    began: int | None
    ended: int | None

    def and_by(self, other: _Told) -> _Told:
        """Return what a turn and a copy of it tell together."""
        whom, name = min(self.whom, other.whom), max(self.name, other.name)
        failed, refused = max(self.failed, other.failed), max(self.refused, other.refused)
        return _Told(whom, name, failed, refused, _least(self.began, other.began), _least(self.ended, other.ended))


@dataclass(slots=True)
class _Sum:
    answers: int = 0
    failed: int = 0
    refused: int = 0
    timed: int = 0
    took: int = 0

    def add(self, told: _Told) -> None:
        self.answers += 1
        self.failed += told.failed
        self.refused += told.refused
        if told.began is not None and told.ended is not None:
            self.timed += 1
            self.took += told.ended - told.began

    def seconds(self) -> ox.Literal:
        """Return how long they took as the engine gives it: a whole number where that was told of none."""
        if not self.timed:
            return vocab.integer(0)
        return ox.Literal(validation.decimal(EXACT.scaleb(Decimal(self.took), -6)), datatype=vocab.DECIMAL)


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def tool_time(workspace: Workspace, given: Terms) -> list[Row] | None:
    """Return the rows of `tool-time`: an answer counts once, by the digest of the first turn that brought it."""
    told = workspace.index.figures(_told)
    if told is None:
        return None
    sums: dict[tuple[str, str], _Sum] = defaultdict(_Sum)
    for each in told:
        sums[each.whom[1:], each.name].add(each)
    wanted = given["principal"]
    rows = list[Row]()
    for (principal, name), found in sorted(sums.items(), key=lambda each: each[0]):
        whom = ox.NamedNode(principal)
        if wanted is None or whom in wanted:
            counts = map(vocab.integer, (found.answers, found.failed, found.refused, found.timed))
            rows.append((whom, ox.Literal(name), *counts, found.seconds()))
    return rows


def _told(file: SideFile) -> list[_Told] | None:
    """Return what is told of each answer; None where the figures do not know how a tool is called."""
    own = {number: iris.session(session_id) for number, session_id in file.ask("SELECT number, id FROM sessions")}
    owners = {number: iris.principal(name) for number, name in file.ask("SELECT number, principal FROM sessions")}
    names = _Names(file, own)
    told = dict[tuple[bytes, str], _Told]()
    for number, digest, call_id, rank, failed, refused, began, ended, call in file.each(_BROUGHT):
        name = "" if call is None else names.of(number, call)
        if name is None:
            return None
        one = _Told(f"{rank}{owners[number]}", name, failed, refused, began, ended)
        before = told.setdefault((digest, call_id), one)
        if before is not one:
            told[digest, call_id] = before.and_by(one)
    return list(told.values())


class _Names:
    """The names of the tools that calls are of: most are asked for by a turn of the same session."""

    def __init__(self, file: SideFile, own: Mapping[int, str]) -> None:
        self._own = own
        self._here: dict[tuple[int, str], str | None] = {
            (number, call): name for number, name, call in file.each(_NAMES)
        }

    def of(self, number: int, call: str) -> str | None:
        """Return the name that a call has, as it is kept with a session; empty where the call is not known."""
        if (number, call) in self._here:
            return self._here[number, call]
        return self._anywhere.get(figures.whole(self._own[number], call), "")

    @cached_property
    def _anywhere(self) -> dict[str, str | None]:
        return {figures.whole(self._own[number], call): name for (number, call), name in self._here.items()}


_NAMES: Final = "SELECT session, name, call FROM tool_calls"
_BROUGHT: Final = "SELECT session, digest, id, rank, failed, refused, began, ended, call FROM tool_answers"
QUERIES: Final[Mapping[str, figured.Question]] = {
    "open-tool-calls": open_calls,
    "unanswered-tool-calls": unanswered_calls,
    "tool-time": tool_time,
}
