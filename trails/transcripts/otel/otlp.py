"""OpenTelemetry GenAI spans: OTLP/JSON exports, and spans as JSON lines or one after the other; OpenInference's as well.

Spans with the same `gen_ai.conversation.id` (their own, or that of a span above them) are one session. A span's input tells
the whole history again: what of it is new is added, then its answer. Where an input is no continuation of the history, it is
a fork from where it leaves it; several answers to one input are choices, and forks too. Messages in log records are those of
the span that these name.

Rules that are followed, and noted where they decide something: spans count in the order of their start times; a trace
without a conversation id is a session named by the trace id; an agent's span repeats what the spans below it say, and makes
no turn if any does; an agent within another agent is a session of its own, spawned by the other one's, if its history begins
anew; an answer whose input is not told follows what came before; a tool's span makes a turn where no message tells its result.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from trails.transcripts import checked, jsonl, outline
from trails.transcripts.checked import Reading
from trails.transcripts.otel import openinference
from trails.transcripts.otel.messages import INPUT, OUTPUT, SpanContent, is_event, messages_of
from trails.transcripts.otel.session import TracedSession, answers_of
from trails.transcripts.otel.spans import LogRecord, TraceSpan, spans_in
from trails.transcripts.source import Transcript, files_at

SOURCE: Final = "otel"

_EXPORT: Final = frozenset(
    {"resourceSpans", "resource_spans", "scopeSpans", "resourceLogs", "resource_logs", "scopeLogs"}
)
_BESIDE: Final = ((".traces.", ".logs."), (".logs.", ".traces."))
_CONTEXTS: Final = frozenset({"context", "spanContext", "span_context"})
_IN_CONTEXT: Final = re.compile(rb'[{,]\s*"(?:traceId|trace_id)"\s*:')
_FLAT: Final = (
    frozenset({"traceId", "trace_id"}),
    frozenset({"spanId", "span_id"}),
    frozenset({"attributes", "parentSpanId", "parent_span_id", "parent_id"}),
)
_ABOVE: Final = frozenset({"invoke_agent", "invoke_workflow", "create_agent", ""})
"""Operations whose spans repeat what the spans below them say."""
_SILENT: Final = _ABOVE | {"execute_tool"}
"""Operations whose spans say nothing of their own."""

_CONVENTIONS: Final = {
    "ai.": "Vercel's AI SDK (ai.*)",
    "langsmith.": "LangSmith (langsmith.*)",
    "langfuse.": "Langfuse (langfuse.*)",
    "traceloop.": "Traceloop's OpenLLMetry (traceloop.*)",
    "mlflow.": "MLflow (mlflow.*)",
    "logfire.": "Pydantic Logfire (logfire.*)",
    "llm.": "attributes named llm.*",
}
"""Whose attributes begin how, of spans that no rule here knows."""

_Key = tuple[str, str]


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes holds OpenTelemetry spans.

    >>> sniff(b'{"resourceSpans": [{"resource": {'), sniff(b'{"trace_id": "t", "span_id": "s", "attributes": {')
    (True, True)
    """
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin[:1] not in (b"{", b"["):
        return False
    first = outline.of_first(head).keys()
    if first & _CONTEXTS:
        return bool(first & _FLAT[-1] and _IN_CONTEXT.search(begin))
    return bool(first & _EXPORT) or all(first & keys for keys in _FLAT)


def find_files(path: Path) -> list[Path]:
    """Return the file itself with its log records or spans beside it (`run.traces.json`, `run.logs.json`), or all in a folder.

    Raises `InvalidInput` where there is neither.
    """
    found = files_at(path, "*.json", "*.jsonl")
    if path.is_file():
        beside = (path.with_name(path.name.replace(old, new)) for old, new in _BESIDE if old in path.name)
        found += [each for each in beside if each.is_file()]
    return found


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what files of spans (name and bytes of each) say together; nothing that they hold raises."""
    reading = Spans(SOURCE, many=len(files) > 1)
    for name, data in files:
        reading.add(name, data)
    return reading.transcript()


class Spans:
    """All spans of all files: a trace may stand in several."""

    def __init__(self, source: str, *, many: bool) -> None:
        """Begin without spans; `source` is the format's name, and with `many` files problems name theirs."""
        self._source = source
        self._many = many
        self.reading = Reading()
        self._spans: dict[_Key, TraceSpan] = {}
        self._logs: dict[_Key, list[LogRecord]] = {}
        self._files: dict[_Key, str] = {}
        self._said: dict[_Key, SpanContent] = {}
        self._noted: Counter[str] = Counter()
        self._names: dict[_Key, str | None] = {}
        self._traces: dict[str, set[str]] = {}
        """The conversation ids that each trace names."""

    def add(self, name: str, data: bytes) -> None:
        """Take the spans and log records of a file."""
        values, problems = jsonl.read_values(data)
        if not data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
            self.reading.notes += [f"{name}: {note}" if self._many else note for note in jsonl.shared_lines(values)]
        for each in problems:
            self.refuse(name, each.line, each.reason, each.text)
        for line, value in values:
            for found in spans_in(line, value):
                if isinstance(found, TraceSpan):
                    self.take(name, found)
                elif isinstance(found, LogRecord):
                    self.reading.count(f"log/{found.name or 'other'}")
                    self._logs.setdefault((found.trace, found.span), []).append(found)
                    self._files.setdefault((found.trace, found.span), name)
                else:
                    self.refuse(name, line, *found)

    def transcript(self) -> Transcript:
        """Return what all of them say."""
        self._join_logs()
        for key in self._spans:
            self._hear(key)
        conversations: dict[str, TracedSession] = {}
        homes = {key: self._conversation(span) for key, span in self._spans.items()}
        spoken = [key for key in self._said if self._is_heard(key)]
        above = {up for key in spoken for up in self._line_up(key)}
        told = {call_id for said in self._said.values() for message in said.given for call_id in answers_of(message)}
        tools = [key for key, span in self._spans.items() if span.operation == "execute_tool"]
        silent = {homes[key] for key in spoken if not self._said[key].given}
        untold = [k for k in tools if homes[k] in silent and self._spans[k].text("gen_ai.tool.call.id") not in told]
        for key in sorted([*spoken, *untold], key=lambda key: self._spans[key].order):
            span = self._spans[key]
            if key not in self._said:
                self._run(key, homes[key], conversations, in_time=True)
            elif span.operation in _ABOVE and key in above:
                self._noted["span(s) of agents repeat what the spans below them say, and made no turn"] += 1
            else:
                home = self._home(key, homes[key], conversations)
                home.place(span, self._said.pop(key), self._agent(key), self._refuser(key))
        for key in sorted(tools, key=lambda key: self._spans[key].order):
            self._run(key, homes[key], conversations)
        self.reading.notes += [f"{count} {what}" for what, count in self._noted.items()]
        for conversation in conversations.values():
            self.reading.sessions.append(conversation.session(self._source, self.reading))
        return checked.together([("", self.reading)])

    def _run(self, key: _Key, name: str, conversations: Mapping[str, TracedSession], *, in_time: bool = False) -> None:
        """Add what a tool's span says to the conversations that it may belong to."""
        for each, conversation in conversations.items():
            if each == name or each.startswith(f"{name}:agent-"):
                conversation.tool(self._spans[key], self._refuser(key), in_time=in_time)

    def take(self, name: str, span: TraceSpan, kind: str | None = None) -> None:
        """Take a span of a file, and count it as a record of its kind."""
        key = (span.trace, span.id)
        self.reading.count(kind or f"span/{openinference.kind_of(span) or span.operation or 'other'}")
        if key in self._spans:
            same = self._spans[key].raw == span.raw
            what = "stand twice, with the same content" if same else "stand twice and differ; the first counts"
            self._noted[f"span(s) {what}"] += 1
            return
        self._spans[key], self._files[key] = span, name

    def _join_logs(self) -> None:
        """Give log records to the spans that they name; those of a span that is not told stand for it."""
        for key, records in self._logs.items():
            if key not in self._spans:
                if not any(is_event(record.name) for record in records):
                    continue
                first = records[0]
                chat = {"gen_ai.operation.name": "chat"}
                self._spans[key] = TraceSpan(first.line, first.raw, *key, None, "", first.time, None, chat)
                self._noted["span(s) are told by their log records alone"] += 1
            self._spans[key].events += [(record.name, record.fields) for record in records]
        lost = sum(len(records) for key, records in self._logs.items() if key not in self._spans)
        if lost:
            self._noted["log record(s) tell no message, and name a span that is not here"] += lost

    def _hear(self, key: _Key) -> None:
        """Find what a span says, and what conversation it names."""
        span, name = self._spans[key], self._files[key]
        openinference.translate(span)
        if (conversation := span.text("gen_ai.conversation.id")) is not None:
            self._traces.setdefault(span.trace, set()).add(conversation)
        said = messages_of(span)
        span.raw = {}  # what is read is let go: a file may have many spans, each with the whole history
        for told in (INPUT, OUTPUT):
            span.attributes.pop(told, None)
        for reason, record in said.faults:
            self.refuse(name, span.line, f"span {span.id} {reason}", record)
        if said.given or said.answers:
            self._said[key] = said
            if span.failed and not said.answers:
                self._noted["chat span(s) failed, and have no answer"] += 1
        elif span.operation in ("chat", "text_completion", "generate_content"):
            self._noted[f"chat span(s) carry no messages ({INPUT}, {OUTPUT}), and made no turn"] += 1
        elif span.operation not in _SILENT:
            self._noted[f"span(s) of the kind {span.operation[:50]} made no turn"] += 1
        elif not span.operation and (convention := _convention(span)) is not None:
            self._noted[
                f"span(s) seem to follow the convention of {convention}, which is not read; they made no turn"
            ] += 1

    def refuse(self, name: str, line: int, reason: str, record: object) -> None:
        """Keep a record of a file that cannot be used."""
        self.reading.refuse(line, f"{reason} (in {name})" if self._many else reason, record)

    def _refuser(self, key: _Key) -> Callable[[str, object], None]:
        span = self._spans[key]
        return lambda reason, record: self.refuse(self._files[key], span.line, f"span {span.id} {reason}", record)

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

    def _is_heard(self, key: _Key) -> bool:
        return self._spans[key].operation not in ("execute_tool", "embeddings")

    def _conversation(self, span: TraceSpan) -> str:
        """Return the id of the conversation that a span belongs to: named by it or above it, or all its trace has."""
        in_trace = self._traces.get(span.trace, set())
        if len(in_trace) < 2:  # without looking at what is above, which may be thousands of spans
            return next(iter(in_trace), span.trace)
        key = (span.trace, span.id)
        for each in (key, *self._line_up(key)):
            if (found := self._spans[each].text("gen_ai.conversation.id")) is not None:
                return found
        return span.trace

    def _agent(self, key: _Key) -> str | None:
        """Return the name of the agent that a span is of: its own attribute, or that of the nearest span above."""
        if key not in self._names:
            own = (
                checked.name(self._spans[each].attributes.get("gen_ai.agent.name"))
                for each in (key, *self._line_up(key))
            )
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
        if name not in conversations:
            if name == span.trace and not self._traces.get(span.trace):
                self.reading.notes.append(f"trace {name} has no conversation id; the trace names the session")
            conversations[name] = TracedSession(name, self._agent(key), self.reading)
            return conversations[name]
        outer, agents = conversations[name], self._agents(key)
        for agent in reversed(agents[:-1]):
            inner = f"{name}:agent-{agent[1]}"
            if inner not in conversations:
                if outer.shares(self._said[key]):
                    break
                conversations[inner] = TracedSession(inner, self._agent(key), self.reading, spawned_by=outer.id)
            outer = conversations[inner]
        return outer


def _convention(span: TraceSpan) -> str | None:
    """Return whose attributes a span has that tells nothing in GenAI's or OpenInference's terms; None for no known one."""
    return next(
        (named for begin, named in _CONVENTIONS.items() if any(a.startswith(begin) for a in span.attributes)), None
    )
