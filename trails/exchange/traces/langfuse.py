"""Langfuse's traces: the download of one (`{"trace", "observations"}`), one as its API returns it (a trace that holds its
`observations`), and the rows of a blob-storage export.

A session of Langfuse, or a trace that is in none, is a session here. Observations are read as spans are (see `otel`): a
generation's input tells the history again, agents within agents are sessions of their own. Inputs and outputs are texts, with
JSON inside in the shape of whatever made them: messages, items of OpenAI's Responses, LangChain's messages, Gemini's contents.

Rules that are followed, and noted where they decide something: rows count in the order of their start; times without a zone
are UTC, as the export writes them; each generation's usage is its own call's, and no sum of them is a trace's; definitions of
tools that stand among the messages are none; a tool's observation names no call: it is that of the first call of its name
with its arguments that is not answered yet.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from trails.errors import InvalidInput
from trails.exchange.format_detection import outline_of_first
from trails.exchange.json_files import Json, as_list, as_listed, as_object, as_text, objects_in, value_at
from trails.exchange.source_transcript import SourceScore, SourceSession, Transcript
from trails.exchange.source_values import score_id, utc_time, valid_name, without_empty
from trails.exchange.traces.otlp import Spans
from trails.exchange.traces.spans import INPUT, OUTPUT, TraceSpan, read_json
from trails.exchange.traces.step_traces import OpenCalls, parse_embedded, plain_messages
from trails.model import validation
from trails.usage import with_source

SOURCE: Final = "langfuse"

_OPERATIONS: Final = {"GENERATION": "chat", "AGENT": "invoke_agent", "TOOL": "execute_tool", "EMBEDDING": "embeddings"}
_STEPS: Final = frozenset({"SPAN", "CHAIN"})
"""Types of observations that are steps of a program; one at the top of a trace says what went in and came out."""
_ROW: Final = (frozenset({"trace_id", "traceId"}), frozenset({"type"}), frozenset({"start_time", "startTime"}))
_SCORE: Final = (frozenset({"trace_id", "traceId"}), frozenset({"value"}), frozenset({"data_type", "dataType"}))
_OWN_OF_ROWS: Final = {"project_id", "projectId", "parent_observation_id", "parentObservationId", "environment"}
_OWN_OF_TRACES: Final = frozenset({"projectId", "htmlPath", "sessionId"})
_TRACE_META: Final = ("name", "user_id", "tags", "metadata", "release", "version", "environment")
_TEXTS: Final = ("prompt", "question", "query", "text", "input", "completion", "answer", "response")
_LANGCHAIN: Final = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system", "function": "function"}


def sniff(head: bytes) -> bool:
    """Tell whether a file holds traces, observations or scores of Langfuse.

    >>> sniff(b'{"trace": {"id": "t", "projectId": "p"'), sniff(b'{"id": "o", "trace_id": "t", "type": "SPAN", "start_time')
    (True, False)
    """
    first = outline_of_first(head)
    if "trace" in first and first["trace"] is None:
        return "observations" in first or b'"projectId"' in head or b'"observations"' in head
    if "observations" in first and first["observations"] is None and first.keys() & _OWN_OF_TRACES:
        return True
    rows = (all(first.keys() & keys for keys in wanted) for wanted in (_ROW, _SCORE))
    return any(rows) and bool(first.keys() & _OWN_OF_ROWS)


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what files of traces (name and bytes of each) say together; nothing that they hold raises."""
    reading = _Traces(many=len(files) > 1)
    for name, data in files:
        reading.read(name, data)
    return reading.transcript()


class _Traces:
    """Observations of all files: a session may stand in several."""

    def __init__(self, *, many: bool) -> None:
        self.spans = Spans(SOURCE, many=many)
        self._traces: dict[str, dict[str, Any]] = {}
        self._rows: dict[tuple[str, str], tuple[str, int, dict[str, Any]]] = {}
        self._scores: dict[str, dict[str, Any]] = {}
        self._odd: Counter[str] = Counter()

    def read(self, name: str, data: bytes) -> None:
        """Take all objects of a file."""
        for line, value in self.spans.values(name, data):
            self._add(name, line, value)

    def _add(self, name: str, line: int, value: Json) -> None:
        """Take one object of a file: a download, or a row."""
        holds = isinstance(value.get("observations"), list) and isinstance(value.get("id"), str)
        trace = value if holds else value.get("trace")
        rows: list[object] = [value]
        if isinstance(trace, dict):
            row = _plain(trace)
            if isinstance(identity := row.get("id"), str):
                self._traces.setdefault(identity, row)
            for each in as_list(trace.get("scores")):
                self._score(name, line, each)
            rows = as_listed(value.get("observations", trace.get("observations")))
        elif isinstance(value.get("data"), list):
            rows = value["data"]
        elif "value" in value and "type" not in value:
            self._score(name, line, value)
            return
        elif "trace_id" not in value and "traceId" not in value and "session_id" in value:
            row = _plain(value)
            self._traces.setdefault(str(row.get("id")), row)
            return
        for each in rows:
            self._row(name, line, each)

    def _row(self, name: str, line: int, value: object) -> None:
        row = _plain(as_object(value))
        trace, identity = as_text(row.get("trace_id")), as_text(row.get("id"))
        if trace is None or identity is None or not isinstance(row.get("type"), str):
            self.spans.refuse(name, line, "is no observation: it has no id, no trace or no type", value)
            return
        if self._rows.setdefault((trace, identity), (name, line, row))[2] is not row:
            self._odd["observation(s) stand twice; the first counts"] += 1

    def _score(self, name: str, line: int, value: object) -> None:
        row = _plain(as_object(value))
        if not all(as_text(row.get(key)) for key in ("id", "trace_id", "name")):
            self.spans.refuse(name, line, "is no score of a trace: it has no id, no trace or no name", value)
            return
        self.spans.reading.count("score")
        self._scores.setdefault(row["id"], row)

    def transcript(self) -> Transcript:
        """Return what all of them say."""
        rows = sorted(self._rows.values(), key=lambda each: _order(each[2]))
        calls = OpenCalls()
        for name, line, row in rows:
            span = self._span(line, row)
            calls.see(span, row.get("input"), row.get("name"))
            self.spans.take(name, span, f"observation/{row['type'].upper()[:50]}")
            for told in ("input", "output"):  # the span has them now: a file may have many, each with the whole history
                row.pop(told, None)
        self.spans.reading.note_counts(self._odd)
        found = self.spans.transcript()
        made = [self._scored(self._told(session)) for session in found.sessions]
        lost = len(self._scores) - sum(len(session.scores) for session in made)
        notes = (f"{lost} score(s) are of traces that are not here, and are not kept",) if lost else ()
        return replace(found, sessions=tuple(made), notes=(*found.notes, *notes))

    def _scored(self, session: SourceSession) -> SourceSession:
        """Return a session with the scores of its traces and answers."""
        if session.spawned_by is not None:
            return session
        traces = {*session.meta.get("traces", ()), session.id}
        named = {source_id for path in session.paths for turn in path for source_id in turn.source_ids}
        rows = [row for row in self._scores.values() if row["trace_id"] in traces]
        return replace(session, scores=tuple(_score(row, named) for row in rows))

    def _told(self, session: SourceSession) -> SourceSession:
        """Return a session with the fields of its first trace."""
        traces = session.meta.get("traces") or [session.id]
        trace = self._traces.get(traces[0], {})
        if not trace:
            row = next((row for _, _, row in self._rows.values() if row["trace_id"] == traces[0]), {})
            trace = {"name": row.get("trace_name"), "user_id": row.get("user_id"), "tags": row.get("tags")}
        meta = without_empty({key: trace.get(key) for key in _TRACE_META if key != "name"})
        if isinstance(held := read_json(meta.get("metadata")), dict):
            meta["metadata"] = held
        try:
            validation.meta(meta)
        except InvalidInput:
            meta = {}
        return replace(session, meta={**session.meta, **meta}, title=as_text(trace.get("name")))

    # --- an observation

    def _span(self, line: int, row: dict[str, Any]) -> TraceSpan:
        kind = row["type"].upper()
        parent = row.get("parent_observation_id")
        session = row.get("session_id") or self._traces.get(row["trace_id"], {}).get("session_id")
        is_top = kind in _STEPS and not parent
        operation = "invoke_workflow" if is_top else "" if kind in _STEPS else _OPERATIONS.get(kind, kind.lower()[:50])
        made: dict[str, Any] = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": session or None}
        if kind == "AGENT":
            made["gen_ai.agent.name"] = row.get("name")
        if kind == "TOOL":
            made["gen_ai.tool.call.result"] = None if row.get("output") == "null" else row.get("output")
        elif kind in ("GENERATION", "AGENT") or is_top:
            for key, told, role in ((INPUT, "input", "user"), (OUTPUT, "output", "assistant")):
                made[key] = self._messages(row.get(told), role, is_model=kind == "GENERATION") or None
        elif kind in _STEPS:
            self._odd["observation(s) of a program's steps made no turn"] += 1
        made |= _usage(row)
        made["gen_ai.response.model"] = row.get("model")
        made |= {name: row.get(key) for name, key in _KEPT.items() if row.get(key) not in (None, "", "{}", {}, [])}
        failed = str(row.get("level")).upper() == "ERROR"
        if failed:
            made["error.type"] = row.get("status_message")
        name, (start, end) = str(row.get("name") or ""), map(utc_time, (row.get("start_time"), row.get("end_time")))
        return TraceSpan(line, row, row["trace_id"], row["id"], as_text(parent), name, start, end, made, failed=failed)

    def _messages(self, value: object, role: str, *, is_model: bool) -> list[Any]:
        """Return the messages of an input or output, in OpenAI's shape."""
        read = parse_embedded(value)
        if read is None or read in ("", "null"):
            return []
        if isinstance(read, str):
            return [{"role": role, "content": read}]
        listed = _listed(read)
        if not (is_model or listed):
            return [
                {"role": role, "content": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}
            ]
        made = []
        for each in listed:
            said = plain_messages(_with_calls(each), role)
            if "function" in as_object(value_at(each, "content")):
                self._odd["definition(s) of tools stand among the messages, and are none"] += 1
            elif said:
                made += said
            else:
                self._odd["part(s) of inputs and outputs are no messages, and made no turn"] += 1
        if not listed:
            self._odd["input(s) and output(s) of model calls hold no messages, and made no turn"] += 1
        return made


_KEPT: Final = {"metadata": "metadata", "llm.invocation_parameters": "model_parameters"}


def _value(value: object) -> Any:
    read = read_json(value)
    return value if read is None else read


def _listed(read: object) -> list[Any]:
    """Return the messages in an input or output of a known framework."""
    if isinstance(read, list):
        return [inner for each in read for inner in as_listed(each)]
    if not isinstance(read, dict):
        return []
    for key in ("messages", "contents", "output", "input"):
        if isinstance(read.get(key), list):
            prompts = (read.get(name) for name in ("system", "instructions") if key in ("messages", "input"))
            before = [{"role": "system", "content": prompt} for prompt in prompts if as_text(prompt)]
            return [*before, *_listed(read[key])]
    for key, inner in (("choices", "message"), ("candidates", "content")):
        if isinstance(read.get(key), list):
            return [each.get(inner) for each in objects_in(read[key])]
    if read.keys() & {"role", "parts", "tool_calls", "toolCalls"} or read.get("type") in (*_LANGCHAIN, "function_call"):
        return [read]
    return [read[key] for key in _TEXTS if as_text(read.get(key))][:1]


def _with_calls(each: Any) -> Any:
    """Return a message with its calls, also those of LangChain and the AI SDK, where OpenAI's has them, and its answers."""
    held = as_object(each)
    calls = held.get("tool_calls") or held.get("toolCalls") or value_at(held, "additional_kwargs", "tool_calls")
    listed = [_call(call) for call in objects_in(_value(calls))]
    parts = held.get("content")
    if any(value_at(part, "type") == "tool-result" for part in as_list(parts)):
        each = {**held, "content": [_answer(part) for part in as_list(parts)]}
    return {**each, "tool_calls": listed} if listed else each


def _answer(part: Any) -> Any:
    """Return an answer of the AI SDK as OpenTelemetry's; any other part as it is."""
    if value_at(part, "type") != "tool-result":
        return part
    answer = next((part[key] for key in ("output", "result", "content") if part.get(key) is not None), None)
    return {"type": "tool_call_response", "id": part.get("toolCallId"), "response": answer}


def _call(call: Json) -> dict[str, Any]:
    """Return a call of LangChain or the AI SDK in OpenAI's shape."""
    held = as_object(call.get("function"))
    arguments = next((call[key] for key in ("args", "arguments", "input") if key in call), held.get("arguments"))
    named = held.get("name", call.get("name", call.get("toolName")))
    return {"id": call.get("id", call.get("toolCallId")), "function": {"name": named, "arguments": arguments}}


def _usage(row: Json) -> dict[str, Any]:
    usage, cost = (_value(row.get(name)) for name in ("usage_details", "cost_details"))
    counted = with_source(usage, "langfuse") if isinstance(usage, dict) else {}
    total = cost.get("total") if isinstance(cost, dict) else row.get("total_cost")
    counted |= {"cost": total} if isinstance(total, int | float) and total > 0 and counted else {}
    return {f"gen_ai.usage.{key}": value for key, value in counted.items()}


def _score(row: Json, named: Set[str]) -> SourceScore:
    """Return a score of a session, or of the turn that its observation made."""
    kind, value, text = str(row.get("data_type")).upper(), row.get("value"), row.get("string_value")
    if kind in ("CATEGORICAL", "TEXT") or value is None:
        value = as_text(text) or value
    elif kind == "BOOLEAN" and value in (0, 1):
        value = bool(value)
    author = valid_name(row.get("author_user_id"))
    observation = f"{row['trace_id']}/{row.get('observation_id')}/out/0"
    return SourceScore(
        id=score_id(SOURCE, row["id"], value),
        name=row["name"],
        value=value,
        by=author or f"agent:{(valid_name(row.get('source')) or SOURCE).lower()}",
        reason=as_text(row.get("comment")),
        time=utc_time(row.get("timestamp")),
        of=observation if observation in named else None,
    )


def _plain(row: Json) -> dict[str, Any]:
    """Return a row with the field names of the blob-storage export."""
    made = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower(): value for key, value in row.items()}
    return made | ({"model": made["provided_model_name"]} if "provided_model_name" in made else {})


def _order(row: Json) -> tuple[bool, datetime]:
    start = utc_time(row.get("start_time"))
    return start is None, start or datetime.max.replace(tzinfo=UTC)
