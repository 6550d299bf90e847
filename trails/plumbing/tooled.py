"""Queries of the catalogue about tool calls, answered from the figures: the same rows as over the turns, in less time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NamedTuple

import pyoxigraph as ox

from trails import iris, validate, vocab
from trails.plumbing import figured
from trails.plumbing.figured import Row, Terms
from trails.plumbing.index import figures
from trails.plumbing.index.sidefile import SideFile
from trails.plumbing.workspace import Workspace


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
    wanted = sorted(sessions if only is None else {each for each in only if each in sessions}, key=iris.session)
    owned = _Owned(file, sessions, every=only is None)
    found = list[tuple[str, _Call]]()
    for session_id in wanted:
        segments = figured.segments(sessions, session_id)
        if segments is None:
            return None
        own = iris.session(session_id)
        calls = _open_in([owned.below(owner, end) for owner, end in segments])
        found += ((own, call) for call in sorted(calls, key=lambda call: (call.at, call.iri)))
    return found


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

    def __init__(self, file: SideFile, sessions: Mapping[str, figured.Session], *, every: bool) -> None:
        self._file = file
        self._numbers = {session.number: session_id for session_id, session in sessions.items()}
        self._sessions = sessions
        self._known: dict[str, _Own] = {}
        self._every = every
        self._below: dict[tuple[str, int | None], _Own] = {}
        if every:
            self._take("", ())

    def below(self, session_id: str, end: int | None) -> _Own:
        """Return what the turns that a session owns before the index `end` ask and answer."""
        if (session_id, end) not in self._below:
            own = self._own(session_id)
            if end is not None:
                own = _Own([c for c in own.calls if c.at < end], [a for a in own.answers if a.at < end])
            self._below[session_id, end] = own
        return self._below[session_id, end]

    def _own(self, session_id: str) -> _Own:
        if session_id not in self._known and not self._every:
            self._take(" WHERE session = ?", (self._sessions[session_id].number,))
        return self._known.setdefault(session_id, _Own())

    def _take(self, where: str, values: tuple[int, ...]) -> None:
        starts = {session.number: session.starts_at for session in self._sessions.values()}
        for number, at, call_id, name, call in self._file.ask(_CALLS + where, values):
            if at >= starts[number]:
                session_id = self._numbers[number]
                made = _Call(at, call_id, name, figures.whole(iris.session(session_id), call))
                self._known.setdefault(session_id, _Own()).calls.append(made)
        for number, at, call_id in self._file.ask(_ANSWERS + where, values):
            if at >= starts[number]:
                self._known.setdefault(self._numbers[number], _Own()).answers.append(_Answer(at, call_id))


_CALLS: Final = "SELECT session, place, id, name, call FROM tool_calls"
_ANSWERS: Final = "SELECT session, place, id FROM tool_answers"


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
        if only is not None and _is_answered(workspace, call.iri):
            continue
        for quad in workspace.store.quads((node, vocab.ARGUMENTS, None, graph)):
            told = (vocab.integer(call.at), ox.Literal(call.name), quad.object)
            rows.append((graph, *told, ox.NamedNode(iris.turn_of(call.iri)), node))
    return rows


def _unanswered(file: SideFile, only: Sequence[str] | None) -> list[tuple[str, _Call]]:
    """Return calls by the session's IRI and place: of all sessions those that nobody answers, of some all that they ask."""
    sessions = dict(file.ask("SELECT number, id FROM sessions"))
    numbers = {session_id: number for number, session_id in sessions.items()}
    if only is None:
        answered = {
            figures.whole(iris.session(sessions[number]), call)
            for number, call in file.each("SELECT session, call FROM tool_answers WHERE call IS NOT NULL")
        }
        rows = list(file.each(_CALLS))
    else:
        answered = set()
        asked = [numbers[session_id] for session_id in only if session_id in numbers]
        rows = [row for number in asked for row in file.ask(_CALLS + " WHERE session = ?", (number,))]
    own = {number: iris.session(session_id) for number, session_id in sessions.items()}
    found = [
        (own[number], _Call(at, call_id, name, figures.whole(own[number], call)))
        for number, at, call_id, name, call in rows
    ]
    left = [(session, call) for session, call in found if call.iri not in answered]
    return sorted(left, key=lambda each: (each[0], each[1].at, each[1].iri))


# --- how long tools took


@dataclass(slots=True)
class _Told:
    """What is told of one answer, by the turn that brought it and its copies."""

    whom: str
    name: str
    failed: int
    refused: int
    began: int | None
    ended: int | None

    def also(self, other: _Told) -> None:
        self.whom, self.name = min(self.whom, other.whom), max(self.name, other.name)
        self.failed, self.refused = max(self.failed, other.failed), max(self.refused, other.refused)
        self.began, self.ended = _least(self.began, other.began), _least(self.ended, other.ended)


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


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
        return ox.Literal(validate.decimal(Decimal(self.took).scaleb(-6)), datatype=vocab.DECIMAL)


def tool_time(workspace: Workspace, given: Terms) -> list[Row] | None:
    """Return the rows of `tool-time`: an answer counts once, by the digest of the first turn that brought it."""
    told = workspace.index.figures(lambda file: list(_told(file)))
    answers = dict[tuple[bytes, str], _Told]()
    for digest, call_id, each in told:
        if each is None:
            return None
        first = answers.setdefault((digest, call_id), each)
        if first is not each:
            first.also(each)
    wanted = given["principal"]
    sums: dict[tuple[str, str], _Sum] = defaultdict(_Sum)
    for each in answers.values():
        sums[each.whom[1:], each.name].add(each)
    rows = list[Row]()
    for (whom, name), found in sorted(sums.items(), key=lambda each: each[0]):
        if wanted is None or ox.NamedNode(whom) in wanted:
            counts = map(vocab.integer, (found.answers, found.failed, found.refused, found.timed))
            rows.append((ox.NamedNode(whom), ox.Literal(name), *counts, found.seconds()))
    return rows


def _told(file: SideFile) -> Iterator[tuple[bytes, str, _Told | None]]:
    """Yield each answer by its digest and call id; with None where the figures do not know how its tool is called."""
    own = {number: iris.session(session_id) for number, session_id in file.ask("SELECT number, id FROM sessions")}
    owners = {number: iris.principal(name) for number, name in file.ask("SELECT number, principal FROM sessions")}
    names = {figures.whole(own[number], call): name for number, name, call in file.each(_NAMES)}
    for number, digest, call_id, rank, failed, refused, began, ended, call in file.each(_BROUGHT):
        name = "" if call is None else names.get(figures.whole(own[number], call), "")
        told = None if name is None else _Told(f"{rank}{owners[number]}", name, failed, refused, began, ended)
        yield digest, call_id, told


_NAMES: Final = "SELECT session, name, call FROM tool_calls"
_BROUGHT: Final = "SELECT session, digest, id, rank, failed, refused, began, ended, call FROM tool_answers"
QUERIES: Final[Mapping[str, figured.Question]] = {
    "open-tool-calls": open_calls,
    "unanswered-tool-calls": unanswered_calls,
    "tool-time": tool_time,
}
