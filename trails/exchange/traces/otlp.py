"""Import OpenTelemetry GenAI spans: OTLP/JSON exports, and spans as JSON lines or one after the other; OpenInference's too.

Spans with the same `gen_ai.conversation.id` (their own, or that of a span above them) are one session. A span's input tells
the whole history again: what of it is new is added, then its answer. Where an input is no continuation of the history, it is
a fork from where it leaves it; several answers to one input are choices, and forks too. Messages in log records are those of
the span that these name.

Where an input tells only the history's end, after any instructions, it goes on from there.

Rules that are followed, and noted where they decide something: spans count in the order of their start times; a trace
without a conversation id is a session named by the trace id; an agent's span repeats what the spans below it say, and makes
no turn if any does; an agent within another agent is a session of its own, spawned by the other one's, if its history begins
anew; an answer whose input is not told follows what came before; a tool's span makes a turn where no message tells its result.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from trails.exchange import format_detection, json_files
from trails.exchange.json_files import as_list
from trails.exchange.record_checks import Reading, combine_files, turn_fault
from trails.exchange.source_transcript import Piece, SourceTurn, Transcript
from trails.exchange.source_values import run_times, valid_name, without_empty
from trails.exchange.traces import spans
from trails.exchange.traces.spans import INPUT, OUTPUT, SpanContent, SpanMessage, TraceSpan
from trails.model.content_parts import calls_in, results_in
from trails.model.values import Call, Turn

_TOLD: Final = frozenset({
    INPUT, OUTPUT, spans.SYSTEM, "gen_ai.conversation.id", "gen_ai.operation.name", "gen_ai.response.model",
    "gen_ai.agent.name", "gen_ai.tool.definitions",
})  # fmt: skip
"""Attributes that are not kept again with the answer: they are in the turns, or describe tools and not the talk."""

_SYSTEMS: Final = "system prompts were in force; the first is the session's"
_UNTOLD: Final = "span(s) tell no input; their answers follow what came before"
_REPEATED: Final = "answer(s) were told by another span before, whose usage is the turn's"
_UNCOUNTED: Final = "span(s) tell a usage and no answer; it is not counted"
_CUT: Final = "input(s) leave out the beginning of the history; they go on from its end"
_INSTRUCTING: Final = ("system", "developer")
_NOTES: Final = (_SYSTEMS, _CUT, _UNTOLD, _REPEATED, _UNCOUNTED)

SOURCE: Final = "otel"
_EXPORT: Final = {"resourceSpans", "resource_spans", "scopeSpans", "resourceLogs", "resource_logs", "scopeLogs"}
_BESIDE: Final = ((".traces.", ".logs."), (".logs.", ".traces."))
_CONTEXTS: Final = {"context", "spanContext", "span_context"}
_IN_CONTEXT: Final = re.compile(rb'[{,]\s*"(?:traceId|trace_id)"\s*:')
_OF_SPANS: Final = {"attributes", "parentSpanId", "parent_span_id", "parent_id"}
_FLAT: Final = ({"traceId", "trace_id"}, {"spanId", "span_id"}, _OF_SPANS)
_ABOVE: Final = frozenset({"invoke_agent", "invoke_workflow", "create_agent", ""})
"""Operations whose spans repeat what the spans below them say."""
_SILENT: Final = _ABOVE | {"execute_tool"}
"""Operations whose spans say nothing of their own."""
_CONVENTIONS: Final = {
    "ai.": "Vercel's AI SDK (ai.*)", "langsmith.": "LangSmith (langsmith.*)", "langfuse.": "Langfuse (langfuse.*)",
    "traceloop.entity.": "Traceloop's tasks (traceloop.entity.*)", "mlflow.": "MLflow (mlflow.*)",
    "logfire.": "Pydantic Logfire (logfire.*)", "llm.": "attributes named llm.*",
}  # fmt: skip
"""Whose attributes begin how, of spans that no rule here knows."""
_Key = tuple[str, str]


_OF_TOOL: Final = "tool "
_REDACTED: Final = "redacted "
"""How the keys begin of a tool's answer that its span told, and of a redacted turn."""


@dataclass(slots=True, eq=False)
class HistoryPath:
    """A way through the conversation: what each message says, and its turn (None where no store would keep it)."""

    keys: list[str] = field(default_factory=list)
    turns: list[SourceTurn | None] = field(default_factory=list)
    left: HistoryPath | None = None
    """The path that it is a fork of."""
    shared: int = 0
    """How many messages it shares with that."""

    def common(self, messages: Sequence[SpanMessage]) -> int:
        """Return how many of the messages the path begins with."""
        pairs = zip(self.keys, messages, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1].key or _is_told_by(*pair), pairs))

    def overlap(self, messages: Sequence[SpanMessage]) -> int:
        """Return how many of the messages the path ends with, a model's answer among them; 0 for none."""
        keys = [message.key for message in messages]
        for length in range(min(len(keys), len(self.keys)), 1, -1):
            if self.keys[-length:] == keys[:length] and any(each.role == "assistant" for each in messages[:length]):
                return length
        return 0

    def until(self, length: int) -> HistoryPath:
        """Return a copy of the path's beginning."""
        return HistoryPath(self.keys[:length], self.turns[:length], self, length)

    def add_stored(self, turn: Turn) -> None:
        """Add a turn that a store has."""
        self.keys.append(_stored_key(turn))
        self.turns.append(outline_of(turn))


def outline_of(turn: Turn) -> SourceTurn:
    """Return of a stored turn what later spans are compared with: its source ids, its calls and what it answers."""
    answers = tuple({"type": "tool_call_response", "id": result.call_id} for result in turn.tool_results)
    pieces = (Piece("", answers), *(Piece(source_id, ()) for source_id in turn.source_ids))
    return SourceTurn(turn.role, pieces, tool_calls=tuple({"id": call.id} for call in turn.tool_calls))


def _is_told_by(key: str, message: SpanMessage) -> bool:
    """Tell whether a message may be one of which more is not known: a tool's answer, or what was redacted since."""
    if key.startswith(_OF_TOOL):
        return _answers(message.turn("")) == {key.removeprefix(_OF_TOOL)}
    return key == f"{_REDACTED}{message.role}"


def _stored_key(turn: Turn) -> str:
    if turn.redacted:
        return f"{_REDACTED}{turn.role}"
    if turn.role == "tool" and "span" in turn.meta and turn.tool_results:
        return f"{_OF_TOOL}{turn.tool_results[0].call_id}"
    return spans.turn_key(turn)


class TracedSession:
    """A session in the making; spans come in the order of their start."""

    def __init__(
        self,
        name: str,
        agent: str | None,
        spans: Spans,
        *,
        spawned_by: str | None = None,
        paths: Iterable[HistoryPath] = (),
    ) -> None:
        """Begin a session, or go on with one whose paths are in a store, the one that got something last at the end."""
        self.id = name
        self.agent = agent
        self._spans = spans
        self.spawned_by = spawned_by
        self.paths: list[HistoryPath] = list(paths)
        self.system: str | None = None
        self._systems: set[str] = set()
        self._placed = {
            source_id for path in self.paths for turn in path.turns if turn for source_id in turn.source_ids
        }
        """The ids of the turns in the store."""
        self.created: datetime | None = None
        self.traces: dict[str, None] = {}
        self._latest = self.paths[-1] if self.paths else HistoryPath()
        """The path that got something last."""
        self._named: set[str] = set()
        """The calls whose answers a turn is named after."""
        self._ran: dict[str, dict[str, Any]] = {}
        """When tools ran, by the call's id, as their spans tell."""
        self._noted: Counter[str] = Counter()
        """What a reader should know of its spans, by how often it was so."""

    def shares(self, said: SpanContent) -> bool:
        """Tell whether a span's history has anything in common with this one's."""
        return any(path.common(said.given) for path in self.paths)

    def place(self, span: TraceSpan, said: SpanContent, agent: str | None) -> None:
        """Add what is new in a span: to the end of a path, or as a path of its own from where it leaves one."""
        if f"{span.trace}/{span.id}/out/0" in self._placed:
            return
        self.created = self.created or span.start
        self.traces.setdefault(span.trace)
        if said.system is not None:
            self.system = self.system or said.system
            self._systems.add(said.system)
        path, held, length = self._path_for(span, said.given)
        for number, message in enumerate(said.given[held:], start=held):
            self._append(path, message.key, self._given(span, number, message), span)
            length = len(path.keys)
        if not said.answers and spans.span_usage(span):
            self._noted[_UNCOUNTED] += 1
        for number, answer in enumerate(said.answers):
            self._answer(path, length, answer, self._answered(span, number, answer, agent), span)

    def tool(self, span: TraceSpan, *, in_time: bool = False) -> None:
        """Add what a tool's span says, where a path ends with the call and no message answers it.

        With `in_time`, while spans come in order and no message will ever tell the answer, the call may stand before others.
        """
        self.note_times(span)
        call_id = span.text("gen_ai.tool.call.id")
        result = span.attributes.get("gen_ai.tool.call.result")
        path = next((each for each in self.paths if call_id in _open_calls(each, in_time=in_time)), None)
        if call_id is None or result is None or path is None:
            return
        read = spans.read_json(result)  # the text stays if it is no object and no list
        response = read if isinstance(read, dict | list) else result
        part = {"type": "tool_call_response", "id": call_id, "response": response}
        part |= {"is_error": True} if span.failed else {}
        named, place = self._name((call_id,), f"{span.trace}/{span.id}"), {"span": span.id, "trace": span.trace}
        turn = SourceTurn("tool", (Piece(named, (part,)),), time=span.end or span.start, meta=place)
        self._append(path, f"{_OF_TOOL}{call_id}", turn, span)

    def note_times(self, span: TraceSpan) -> None:
        """Take from a tool's span when the tool ran: the turn that answers its call says so."""
        call_id, times = span.text("gen_ai.tool.call.id"), run_times(span.start, span.end)
        if call_id is not None and times:
            self._ran.setdefault(call_id, {"call_id": call_id, **times})

    def add(self, source: str) -> None:
        """Add the session to the reading, and note what a reader should know."""
        self._noted[_SYSTEMS] = len(self._systems) if len(self._systems) > 1 else 0
        self._spans.reading.notes += [f"{self.id}: {number} {what}" for what in _NOTES if (number := self._noted[what])]
        paths = [tuple(self.turns_of(path)) for path in self.paths] or [()]
        about: dict[str, Any] = {"created": self.created, "agent": self.agent, "system": self.system}
        meta = {"traces": list(self.traces)}
        self._spans.reading.add_session(source, self.id, paths, meta, spawned_by=self.spawned_by, **about)

    def turns_of(self, path: HistoryPath, start: int = 0) -> list[SourceTurn]:
        """Return the turns of a path from its message `start` on, with what the spans of tools tell of them."""
        return [self._told(turn) for turn in path.turns[start:] if turn is not None]

    # --- paths

    def _path_for(self, span: TraceSpan, given: Sequence[SpanMessage]) -> tuple[HistoryPath, int, int]:
        """Return the path that a span's input goes on, how many messages of the input it holds, and where in it they end."""
        if not self.paths:
            self.paths.append(HistoryPath())
            return self.paths[0], 0, 0
        if not given:
            self._noted[_UNTOLD] += 1
            return self._latest, 0, len(self._latest.keys)
        commons = [path.common(given) for path in self.paths]
        # Where several hold as much of it, the one that ends there, else the latest.
        best = max(range(len(commons)), key=lambda n: (commons[n], commons[n] == len(self.paths[n].keys), n))
        path, common = self.paths[best], commons[best]
        if common in (len(path.keys), len(given)):
            return path, common, common
        opening = next((n for n, message in enumerate(given) if message.role not in _INSTRUCTING), len(given))
        if common <= opening:
            for cut in reversed(self.paths):
                if overlap := cut.overlap(given[opening:]):
                    self._noted[_CUT] += 1
                    return cut, opening + overlap, len(cut.keys)
        fork = path.until(common)
        self.paths.append(fork)
        self._spans.reading.notes.append(
            f"{self.id}: the input of span {span.id} leaves the history after {common} message(s); it is kept as a fork"
        )
        return fork, common, common

    def _append(self, path: HistoryPath, key: str, turn: SourceTurn, span: TraceSpan) -> None:
        reason = turn_fault(turn)
        if reason is not None:
            self._spans.refuse_span(span, f"has a message that cannot be kept: {reason}", turn.content)
        path.keys.append(key)
        path.turns.append(turn if reason is None else None)
        self._latest = path

    def _answer(self, path: HistoryPath, length: int, answer: SpanMessage, turn: SourceTurn, span: TraceSpan) -> None:
        """Add an answer to the first `length` messages of a path, unless one there says it already."""
        before = path.keys[:length]
        for other in self.paths:
            if len(other.keys) > length and other.keys[length] == answer.key and other.keys[:length] == before:
                self._noted[_REPEATED] += 1
                return
        if len(path.keys) > length:
            path = path.until(length)
            self.paths.append(path)
            self._spans.reading.notes.append(
                f"{self.id}: another answer after {length} message(s), of span {span.id}, is kept as a fork"
            )
        self._append(path, answer.key, turn, span)

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
        is_told = {
            key for key in span.attributes if key.startswith("gen_ai.usage.") or spans.tells_messages(key)
        } | _TOLD
        own = [key for key in span.attributes if key.startswith("gen_ai.") or key in spans.KEPT_ATTRIBUTES]
        kept = without_empty({key: span.attributes[key] for key in own if key not in is_told})
        kept = {**spans.request_parameters(kept.get("llm.invocation_parameters")), **kept}
        stop = dict(enumerate(as_list(span.attributes.get("gen_ai.response.finish_reasons")))).get(number)
        provider = valid_name(span.text("gen_ai.provider.name", "gen_ai.system"))
        call = Call(**run_times(span.start, span.end), provider=provider)
        meta = {**turn.meta, "span": span.id, "trace": span.trace}
        return replace(
            turn,
            time=span.end or span.start,
            author=f"agent:{agent}" if agent and agent != self.agent else None,
            model=valid_name(span.text("gen_ai.response.model", "gen_ai.request.model")),
            usage=spans.span_usage(span) if number == 0 else None,
            stop_reason=turn.stop_reason or valid_name(stop),
            call=None if call == Call() else call,
            meta=meta | ({"attributes": kept} if kept else {}),
        )


def _open_calls(path: HistoryPath, *, in_time: bool) -> set[str]:
    """Return the calls at the end of a path that nothing answers yet; with `in_time`, those of the whole path."""
    answered: set[str] = set()
    asked: set[str] = set()
    for turn in reversed([turn for turn in path.turns if turn is not None]):
        if turn.role != "tool" and not in_time:
            return _calls(turn) - answered
        answered |= _answers(turn)
        asked |= _calls(turn) if in_time else set()
    return asked - answered


def _calls(turn: SourceTurn) -> set[str]:
    found = {call.id for call in calls_in(as_list(turn.content))}
    return found | {call["id"] for call in turn.tool_calls if isinstance(call.get("id"), str)}


def _answers(turn: SourceTurn) -> set[str]:
    found = {result.call_id for result in results_in(as_list(turn.content))}
    return found | ({turn.tool_call_id} if turn.tool_call_id else set())


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes holds OpenTelemetry spans.

    >>> sniff(b'{"resourceSpans": [{"resource": {'), sniff(b'{"trace_id": "t", "span_id": "s", "attributes": {')
    (True, True)
    """
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin[:1] not in (b"{", b"["):
        return False
    first = format_detection.outline_of_first(head).keys()
    if first & _CONTEXTS:
        return bool(first & _OF_SPANS and _IN_CONTEXT.search(begin))
    return bool(first & _EXPORT) or all(first & keys for keys in _FLAT)


def companions(path: Path) -> list[Path]:
    """Return a file with its log records or spans beside it (`run.traces.json`, `run.logs.json`)."""
    beside = (path.with_name(path.name.replace(old, new)) for old, new in _BESIDE if old in path.name)
    return [path, *(each for each in beside if each.is_file())]


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what files of spans (name and bytes of each) say together; nothing that they hold raises."""
    reading = Spans(SOURCE, many=len(files) > 1)
    for name, data in files:
        reading.add(name, data)
    return reading.transcript()


class Spans:
    """All spans of all files: a trace may stand in several."""

    def __init__(
        self, source: str, *, many: bool, stored: Callable[[str], Sequence[HistoryPath]] = lambda _name: ()
    ) -> None:
        """Begin without spans; `source` is the format's name, and with `many` files problems name theirs.

        `stored` gives the paths of a session that a store has already: it is gone on with.
        """
        self._source = source
        self._many = many
        self._stored = stored
        self.above: set[_Key] = set()
        """The spans below which something is said."""
        self.reading = Reading()
        self._spans: dict[_Key, TraceSpan] = {}
        self._unread: list[_Key] = []
        self._logs: dict[_Key, list[spans.LogRecord]] = {}
        self._files: dict[_Key, str] = {}
        self._said: dict[_Key, SpanContent] = {}
        self._noted: Counter[str] = Counter()
        self._names: dict[_Key, str | None] = {}
        self._traces: dict[str, set[str]] = {}
        """The conversation ids that each trace names."""

    def add(self, name: str, data: bytes) -> None:
        """Take the spans and log records of a file."""
        values = self.values(name, data)
        if not data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
            notes = json_files.shared_line_notes(values)
            self.reading.notes += [f"{name}: {note}" if self._many else note for note in notes]
        for line, value in values:
            for found in spans.spans_in(line, value):
                if isinstance(found, TraceSpan):
                    self.take(name, found)
                elif isinstance(found, spans.LogRecord):
                    self.take_log(name, found)
                else:
                    self.refuse(name, line, *found)

    def values(self, name: str, data: bytes) -> list[tuple[int, dict[str, Any]]]:
        """Return the JSON objects of a file, each with its line; what is none is a problem."""
        values, problems = json_files.read_values(data)
        for each in problems:
            self.refuse(name, each.line, each.reason, each.text)
        return values

    def transcript(self) -> Transcript:
        """Return what all of them say."""
        conversations = self.sessions()
        self.reading.notes += [f"{count} {what}" for what, count in self._noted.items()]
        for conversation in conversations.values():
            conversation.add(self._source)
        return combine_files([("", self.reading)])

    def sessions(self, names: Iterable[str] = (), open_traces: Collection[str] = ()) -> dict[str, TracedSession]:
        """Place what all of them say, and return the sessions by their names.

        Those of the `names` that a store has are gone on with in any case. Tools of `open_traces`, of which more spans come,
        make no turn yet if a message may still tell their results.
        """
        self._join_logs()
        for key in self._unread:
            self._hear(key)
        conversations: dict[str, TracedSession] = {}
        for name in names:
            self._known(name, conversations)
        homes = {key: self._conversation(span) for key, span in self._spans.items()}
        spoken = [key for key in self._said if self._spans[key].operation not in ("execute_tool", "embeddings")]
        self.above.update(up for key in spoken for up in self._line_up(key))
        tools = [key for key, span in self._spans.items() if span.operation == "execute_tool"]
        silent = {homes[key] for key in spoken if not self._said[key].given} if tools else set()
        given = [message for said in self._said.values() for message in said.given] if silent else []
        told = {call_id for message in given for call_id in _answers(message.turn(""))}
        untold = [k for k in tools if homes[k] in silent and self._spans[k].text("gen_ai.tool.call.id") not in told]
        for key in sorted([*spoken, *untold], key=lambda key: self._spans[key].order):
            span = self._spans[key]
            if key not in self._said:
                self._run(key, homes[key], conversations, in_time=True)
            elif span.operation in _ABOVE and key in self.above:
                self._noted["span(s) of agents repeat what the spans below them say, and made no turn"] += 1
            else:
                home = self._home(key, homes[key], conversations)
                home.place(span, self._said.pop(key), self._agent(key))
        for key in sorted(tools, key=lambda key: self._spans[key].order):
            self._run(key, homes[key], conversations, waits=key[0] in open_traces)
        return conversations

    def _run(
        self,
        key: _Key,
        name: str,
        conversations: Mapping[str, TracedSession],
        *,
        in_time: bool = False,
        waits: bool = False,
    ) -> None:
        """Add what a tool's span says to the conversations that it may belong to."""
        for each, conversation in conversations.items():
            if each == name or each.startswith(f"{name}:agent-"):
                if waits:
                    conversation.note_times(self._spans[key])
                else:
                    conversation.tool(self._spans[key], in_time=in_time)

    def take(self, name: str, span: TraceSpan, kind: str | None = None) -> None:
        """Take a span of a file, and count it as a record of its kind."""
        key = (span.trace, span.id)
        self.reading.count(kind or f"span/{spans.openinference_kind(span) or span.operation or 'other'}")
        if key in self._spans:
            same = self._spans[key].raw == span.raw
            what = "stand twice, with the same content" if same else "stand twice and differ; the first counts"
            self._noted[f"span(s) {what}"] += 1
            return
        self._spans[key], self._files[key] = span, name
        self._unread.append(key)

    def take_log(self, name: str, record: spans.LogRecord) -> None:
        """Take a log record of a file, and count it."""
        self.reading.count(f"log/{record.name or 'other'}")
        self._logs.setdefault((record.trace, record.span), []).append(record)
        self._files.setdefault((record.trace, record.span), name)

    def know(self, span: TraceSpan) -> None:
        """Take a span that says nothing here: where others belong depends on it."""
        self._spans[span.trace, span.id] = span
        if (conversation := span.text("gen_ai.conversation.id")) is not None:
            self._traces.setdefault(span.trace, set()).add(conversation)

    def _join_logs(self) -> None:
        """Give log records to the spans that they name; those of a span that is not told stand for it."""
        for key, records in self._logs.items():
            if key not in self._spans:
                if not any(spans.is_event(record.name) for record in records):
                    continue
                first = records[0]
                chat = {"gen_ai.operation.name": "chat"}
                self._unread.append(key)
                self._spans[key] = TraceSpan(first.line, first.raw, *key, None, "", first.time, None, chat)
                self._noted["span(s) are told by their log records alone"] += 1
            self._spans[key].events += [(record.name, record.fields) for record in records]
        lost = sum(len(records) for key, records in self._logs.items() if key not in self._spans)
        if lost:
            self._noted["log record(s) tell no message, and name a span that is not here"] += lost

    def _hear(self, key: _Key) -> None:
        """Find what a span says, and what conversation it names."""
        span = self._spans[key]
        spans.translate_conventions(span)
        if (conversation := span.text("gen_ai.conversation.id")) is not None:
            self._traces.setdefault(span.trace, set()).add(conversation)
        said = spans.span_messages(span)
        span.raw = {}  # what is read is let go: a file may have many spans, each with the whole history
        for told in (INPUT, OUTPUT):
            span.attributes.pop(told, None)
        for reason, record in said.faults:
            self.refuse_span(span, reason, record)
        if said.given or said.answers:
            self._said[key] = said
            if span.failed and not said.answers:
                self._noted["chat span(s) failed, and have no answer"] += 1
        elif span.operation in ("chat", "text_completion", "generate_content"):
            self._noted[f"chat span(s) carry no messages ({INPUT}, {OUTPUT}), and made no turn"] += 1
        elif span.operation not in _SILENT:
            self._noted[f"span(s) of the kind {span.operation[:50]} made no turn"] += 1
        elif not span.operation:
            begins = (begin for begin in _CONVENTIONS if any(name.startswith(begin) for name in span.attributes))
            if (begin := next(begins, None)) is not None:
                what = f"{_CONVENTIONS[begin]}, which is not read; they made no turn"
                self._noted[f"span(s) seem to follow the convention of {what}"] += 1

    def refuse(self, name: str, line: int, reason: str, record: object) -> None:
        """Keep a record of a file that cannot be used."""
        self.reading.refuse(line, reason, record, file=name if self._many else "")

    def refuse_span(self, span: TraceSpan, reason: str, record: object) -> None:
        """Keep what cannot be used of a span."""
        self.refuse(self._files[span.trace, span.id], span.line, f"span {span.id} {reason}", record)

    # --- where a span belongs

    def _line_up(self, key: _Key) -> list[_Key]:
        """Return the spans above one, the nearest first."""
        found: list[_Key] = []
        seen = {key}
        span = self._spans[key]
        while span.parent is not None and (up := (span.trace, span.parent)) in self._spans and up not in seen:
            seen.add(up)
            found.append(up)
            span = self._spans[up]
        return found

    def _conversation(self, span: TraceSpan) -> str:
        """Return the id of the conversation that a span belongs to: named by it or above it, or all its trace has."""
        in_trace = self._traces.get(span.trace, set())
        if len(in_trace) < 2:  # without looking at what is above, which may be thousands of spans
            return next(iter(in_trace), span.trace)
        key = (span.trace, span.id)
        named = (self._spans[each].text("gen_ai.conversation.id") for each in (key, *self._line_up(key)))
        return next(filter(None, named), span.trace)

    def _agent(self, key: _Key) -> str | None:
        """Return the name of the agent that a span is of: its own attribute, or that of the nearest span above."""
        if key not in self._names:
            spans = (self._spans[each] for each in (key, *self._line_up(key)))
            own = (valid_name(span.attributes.get("gen_ai.agent.name")) for span in spans)
            self._names[key] = next((found for found in own if found is not None), None)
        return self._names[key]

    def _agents(self, key: _Key) -> list[_Key]:
        """Return the agents' spans that a span stands in, the nearest first; one that only wraps its own name counts once."""
        agents: list[_Key] = []
        for each in (key, *self._line_up(key)):
            if self._spans[each].operation == "invoke_agent":
                if agents and self._agent(agents[-1]) == self._agent(each):
                    agents.pop()
                agents.append(each)
        return agents

    def _home(self, key: _Key, name: str, conversations: dict[str, TracedSession]) -> TracedSession:
        """Return the session that a span's messages go to, a new one where it is the first."""
        span = self._spans[key]
        outer = self._known(name, conversations)
        if outer is None:
            if name == span.trace and not self._traces.get(span.trace):
                self.reading.notes.append(f"trace {name} has no conversation id; the trace names the session")
            conversations[name] = TracedSession(name, self._agent(key), self)
            return conversations[name]
        for agent in reversed(self._agents(key)[:-1]):
            name_below = f"{name}:agent-{agent[1]}"
            inner = self._known(name_below, conversations)
            if inner is None:
                if outer.shares(self._said[key]):
                    break
                inner = TracedSession(name_below, self._agent(key), self, spawned_by=outer.id)
                conversations[name_below] = inner
            outer = inner
        return outer

    def _known(self, name: str, conversations: dict[str, TracedSession]) -> TracedSession | None:
        """Return a session that was begun here, or is in the store; None for a new one."""
        if name not in conversations and (paths := self._stored(name)):
            conversations[name] = TracedSession(name, None, self, paths=paths)
        return conversations.get(name)
