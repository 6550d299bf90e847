"""One conversation put together from its spans: each tells the history again, and adds to it or leaves it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from trails.model import Call
from trails.parts import calls_in, results_in
from trails.transcripts import checked
from trails.transcripts.checked import Reading
from trails.transcripts.otel.messages import INPUT, OUTPUT, SYSTEM, SpanContent, SpanMessage, tells_messages, usage_of
from trails.transcripts.otel.openinference import KEPT
from trails.transcripts.otel.spans import TraceSpan, read_json
from trails.transcripts.source import Piece, SourceSession, SourceTurn

_TOLD: Final = frozenset(
    {
        INPUT,
        OUTPUT,
        SYSTEM,
        "gen_ai.conversation.id",
        "gen_ai.operation.name",
        "gen_ai.response.model",
        "gen_ai.agent.name",
        "gen_ai.tool.definitions",
    }
)
"""Attributes that are not kept again with the answer: they are in the turns, or describe tools and not the talk."""

Refuse = Callable[[str, object], None]


@dataclass(slots=True, eq=False)
class _Path:
    """A way through the conversation: what each message says, and its turn (None where no store would keep it)."""

    keys: list[str] = field(default_factory=list)
    turns: list[SourceTurn | None] = field(default_factory=list)

    def common(self, messages: Sequence[SpanMessage]) -> int:
        """Return how many of the messages the path begins with."""
        count = 0
        for key, message in zip(self.keys, messages, strict=False):
            if key != message.key:
                break
            count += 1
        return count

    def until(self, length: int) -> _Path:
        """Return a copy of the path's beginning."""
        return _Path(self.keys[:length], self.turns[:length])


class TracedSession:
    """A session in the making; spans come in the order of their start."""

    def __init__(self, name: str, agent: str | None, reading: Reading, *, spawned_by: str | None = None) -> None:
        self.id = name
        self._agent = agent
        self._reading = reading
        self._spawned_by = spawned_by
        self._paths: list[_Path] = []
        self._system: str | None = None
        self._systems: set[str] = set()
        self._created: datetime | None = None
        self._traces: dict[str, None] = {}
        self._latest = _Path()
        """The path that got something last."""
        self._named: set[str] = set()
        """The calls whose answers a turn is named after."""
        self._ran: dict[str, dict[str, Any]] = {}
        """When tools ran, by the call's id, as their spans tell."""
        self._uncounted = 0
        self._repeated = 0
        self._untold = 0

    def shares(self, said: SpanContent) -> bool:
        """Tell whether a span's history has anything in common with this one's."""
        return any(path.common(said.given) for path in self._paths)

    def place(self, span: TraceSpan, said: SpanContent, agent: str | None, refuse: Refuse) -> None:
        """Add what is new in a span: to the end of a path, or as a path of its own from where it leaves one."""
        self._created = self._created or span.start
        self._traces.setdefault(span.trace)
        if said.system is not None:
            self._system = self._system or said.system
            self._systems.add(said.system)
        path, common = self._path_for(span, said.given)
        for number, message in enumerate(said.given[common:], start=common):
            self._append(path, message.key, self._given(span, number, message), refuse)
        length = len(path.keys) if common < len(said.given) else common
        if not said.answers and usage_of(span):
            self._uncounted += 1
        for number, answer in enumerate(said.answers):
            self._answer(path, length, answer, self._answered(span, number, answer, agent), refuse)

    def tool(self, span: TraceSpan, refuse: Refuse, *, in_time: bool = False) -> None:
        """Add what a tool's span says, where a path ends with the call and no message answers it.

        With `in_time`, while spans come in order and no message will ever tell the answer, the call may stand before others.
        """
        call_id = span.text("gen_ai.tool.call.id")
        result = span.attributes.get("gen_ai.tool.call.result")
        if call_id is not None and (times := _times(span)):
            self._ran.setdefault(call_id, {"call_id": call_id, **times})
        if call_id is None or result is None:
            return
        waits = _unanswered if in_time else _open_calls
        path = next((each for each in self._paths if call_id in waits(each)), None)
        if path is None:
            return
        part = {"type": "tool_call_response", "id": call_id, "response": _result(result)}
        turn = SourceTurn(
            role="tool",
            pieces=(Piece(self._name((call_id,), f"{span.trace}/{span.id}"), (part | _failure(span),)),),
            time=span.end or span.start,
            meta={"span": span.id, "trace": span.trace},
        )
        self._append(path, f"tool {call_id}", turn, refuse)

    def session(self, source: str, reading: Reading) -> SourceSession:
        """Return the session, and note what a reader should know."""
        if len(self._systems) > 1:
            reading.notes.append(
                f"{self.id}: {len(self._systems)} system prompts were in force; the first is the session's"
            )
        if self._untold:
            reading.notes.append(
                f"{self.id}: {self._untold} span(s) tell no input; their answers follow what came before"
            )
        if self._repeated:
            reading.notes.append(
                f"{self.id}: {self._repeated} answer(s) were told by another span before, whose usage is the turn's"
            )
        if self._uncounted:
            reading.notes.append(f"{self.id}: {self._uncounted} span(s) tell a usage and no answer; it is not counted")
        return SourceSession(
            source=source,
            id=self.id,
            paths=tuple(tuple(self._told(turn) for turn in path.turns if turn is not None) for path in self._paths)
            or ((),),
            created=self._created,
            agent=self._agent,
            system=self._system,
            meta=reading.meta(0, {"traces": list(self._traces)}),
            spawned_by=self._spawned_by,
        )

    # --- paths

    def _path_for(self, span: TraceSpan, given: Sequence[SpanMessage]) -> tuple[_Path, int]:
        """Return the path that a span's input goes on, and how many messages of the input it holds."""
        if not self._paths:
            self._paths.append(_Path())
            return self._paths[0], 0
        if not given:
            self._untold += 1
            return self._latest, len(self._latest.keys)
        commons = [path.common(given) for path in self._paths]
        # Where several hold as much of it, the one that ends there, else the latest.
        best = max(range(len(commons)), key=lambda n: (commons[n], commons[n] == len(self._paths[n].keys), n))
        path, common = self._paths[best], commons[best]
        if common in (len(path.keys), len(given)):
            return path, common
        fork = path.until(common)
        self._paths.append(fork)
        self._reading.notes.append(
            f"{self.id}: the input of span {span.id} leaves the history after {common} message(s); it is kept as a fork"
        )
        return fork, common

    def _append(self, path: _Path, key: str, turn: SourceTurn, refuse: Refuse) -> None:
        reason = checked.fault(turn)
        if reason is not None:
            refuse(f"has a message that cannot be kept: {reason}", turn.content)
        path.keys.append(key)
        path.turns.append(turn if reason is None else None)
        self._latest = path

    def _answer(self, path: _Path, length: int, answer: SpanMessage, turn: SourceTurn, refuse: Refuse) -> None:
        """Add an answer to the first `length` messages of a path, unless one there says it already."""
        before = path.keys[:length]
        for other in self._paths:
            if len(other.keys) > length and other.keys[length] == answer.key and other.keys[:length] == before:
                self._repeated += 1
                return
        if len(path.keys) > length:
            path = path.until(length)
            self._paths.append(path)
            self._reading.notes.append(
                f"{self.id}: another answer after {length} message(s), of span {turn.meta['span']}, is kept as a fork"
            )
        self._append(path, answer.key, turn, refuse)

    # --- turns

    def _given(self, span: TraceSpan, number: int, message: SpanMessage) -> SourceTurn:
        """Return the turn of a message that a span was the first to tell; a tool's answer is named after its call."""
        place = f"{span.trace}/{span.id}/in/{number}"
        answers = sorted(_answers(message.turn(place)))
        return replace(message.turn(self._name(answers, place)), time=span.start)

    def _told(self, turn: SourceTurn) -> SourceTurn:
        """Return a turn with what the spans of tools tell of the calls that it answers; these come in last."""
        told = tuple(self._ran[call_id] for call_id in sorted(_answers(turn)) if call_id in self._ran)
        return replace(turn, tool_results=told) if told else turn

    def _name(self, answers: Sequence[str], place: str) -> str:
        """Return the id of a turn: that of the calls it answers (message and tool span tell the same), else its place."""
        named = f"answer/{'+'.join(answers)}"
        if not answers or named in self._named:
            return place
        self._named.add(named)
        return named

    def _answered(self, span: TraceSpan, number: int, message: SpanMessage, agent: str | None) -> SourceTurn:
        turn = message.turn(f"{span.trace}/{span.id}/out/{number}")
        kept = {
            key: value
            for key, value in span.attributes.items()
            if (key.startswith("gen_ai.") and key not in _TOLD) or key in KEPT
        }
        told = {key for key in kept if key.startswith("gen_ai.usage.") or tells_messages(key)}
        kept = checked.filled({key: value for key, value in kept.items() if key not in told})
        reasons = span.attributes.get("gen_ai.response.finish_reasons")
        stop = reasons[number] if isinstance(reasons, list) and number < len(reasons) else None
        meta = {**turn.meta, "span": span.id, "trace": span.trace}
        return replace(
            turn,
            time=span.end or span.start,
            author=f"agent:{agent}" if agent and agent != self._agent else None,
            model=checked.name(span.text("gen_ai.response.model", "gen_ai.request.model")),
            usage=usage_of(span) if number == 0 else None,
            stop_reason=turn.stop_reason or checked.name(stop),
            call=_call(span),
            meta=meta | ({"attributes": kept} if kept else {}),
        )


def _times(span: TraceSpan) -> dict[str, Any]:
    """Return when a span began and ended, as far as it says so; nothing of one that ends before it begins."""
    if span.start is not None and span.end is not None and span.start > span.end:
        return {}
    return {name: time for name, time in (("started", span.start), ("ended", span.end)) if time is not None}


def _call(span: TraceSpan) -> Call | None:
    """Return what a span tells of the model call that it is of: when it was, and who served the model."""
    made = Call(**_times(span), provider=checked.name(span.text("gen_ai.provider.name", "gen_ai.system")))
    return None if made == Call() else made


def _open_calls(path: _Path) -> set[str]:
    """Return the calls at the end of a path that nothing answers yet."""
    answered: set[str] = set()
    for turn in reversed(path.turns):
        if turn is not None and turn.role != "tool":
            return _calls(turn) - answered
        if turn is not None:
            answered |= _answers(turn)
    return set()


def _unanswered(path: _Path) -> set[str]:
    """Return the calls of a path that nothing answers."""
    turns = [turn for turn in path.turns if turn is not None]
    return {call for turn in turns for call in _calls(turn)} - {call for turn in turns for call in _answers(turn)}


def answers_of(message: SpanMessage) -> set[str]:
    """Return the calls that a message answers."""
    return _answers(message.turn(""))


def _failure(span: TraceSpan) -> dict[str, Any]:
    return {"is_error": True} if span.failed else {}


def _calls(turn: SourceTurn) -> set[str]:
    content = turn.content
    found = {call.id for call in calls_in(content)} if isinstance(content, list) else set()
    return found | {call["id"] for call in turn.tool_calls if isinstance(call.get("id"), str)}


def _answers(turn: SourceTurn) -> set[str]:
    content = turn.content
    found = {result.call_id for result in results_in(content)} if isinstance(content, list) else set()
    return found | ({turn.tool_call_id} if turn.tool_call_id else set())


def _result(value: object) -> Any:
    """Return a tool's result: what its JSON stands for where it is an object or a list, else the text."""
    read = read_json(value)
    return read if isinstance(read, dict | list) else value
