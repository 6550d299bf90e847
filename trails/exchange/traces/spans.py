"""OpenTelemetry spans in any of the shapes that they are written in, read as one.

OTLP/JSON (`resourceSpans`, one object or one a line, attributes as lists of keys and values), and flat spans, an object
each (`trace_id`, `span_id`, `attributes` as an object), as the SDKs' console exporters write them.

Read the messages of a GenAI span, also in the attributes of OpenInference.

Messages stand in the attributes `gen_ai.input.messages` and `gen_ai.output.messages` (JSON, as text or as values), on the span or
on its event `gen_ai.client.inference.operation.details`. In older conventions every message is a span event of its own
(`gen_ai.user.message`, …, `gen_ai.choice`), or `gen_ai.prompt` and `gen_ai.completion` hold the messages: as JSON, on the
span or on its events `gen_ai.content.prompt` and `gen_ai.content.completion`, or spread over an attribute a field, with the
message's number in its name (`gen_ai.prompt.0.role`, `gen_ai.completion.0.tool_calls.0.name`).

OpenInference's spans (Phoenix, Arize and what is instrumented for them) are told in OpenTelemetry's own GenAI terms. The
kind of a span is the attribute `openinference.span.kind`, or `span_kind` in Phoenix's own JSON. Lists stand in attributes
with numbers in their names (`llm.input_messages.0.message.role`), or as they are. `input.value` says again what the messages
say, and counts where there are none: for model calls, for agents, and for chains at the top of their trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trails.exchange import json_files
from trails.exchange.json_files import Json, as_list, as_listed, as_object, as_text, objects_in, value_at, without_keys
from trails.exchange.source_transcript import Piece, SourceTurn
from trails.exchange.source_values import parse_time, valid_name, without_empty
from trails.model.content_parts import calls_in, results_in
from trails.model.values import Turn
from trails.usage import with_source

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VALUES: Final = ("stringValue", "boolValue", "intValue", "doubleValue", "bytesValue", "arrayValue", "kvlistValue")
_LATEST: Final = datetime.max.replace(tzinfo=UTC)

_CONTAINERS: Final = (
    "resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "resourceLogs", "resource_logs", "scopeLogs",
    "scope_logs",
)  # fmt: skip
_RECORDS: Final = ("logRecords", "log_records")
_NO_SPAN: Final = "is no span: it has no trace id and no span id"
_NO_RECORD: Final = "is no log record of a span: it has no trace id and no span id"
read_json: Final = json_files.parse_json
"""Return what an attribute stands for that holds JSON: the value of a text, or the value itself; None if it is none."""


@dataclass(slots=True, eq=False)
class TraceSpan:
    """One span; ids as the file has them, without a `0x` before them."""

    line: int
    raw: Json
    trace: str
    id: str
    parent: str | None
    name: str
    start: datetime | None
    end: datetime | None
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    failed: bool = False

    @property
    def operation(self) -> str:
        """The GenAI operation (`chat`, `invoke_agent`, `execute_tool`, …); empty for any other span."""
        return self.text("gen_ai.operation.name") or ""

    @property
    def order(self) -> datetime:
        """What spans are ordered by: those without a time come last."""
        return self.start or self.end or _LATEST

    def text(self, *keys: str) -> str | None:
        """Return the first of some attributes that is a text with something in it."""
        return next((found for key in keys if isinstance(found := self.attributes.get(key), str) and found), None)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A log record that is of a span: where messages are told in events, they stand here and not on the span."""

    line: int
    raw: Json
    trace: str
    span: str
    name: str
    fields: dict[str, Any]
    time: datetime | None


def is_container(value: Json) -> bool:
    """Tell whether an object is an OTLP export, or a part of one, and no span itself."""
    return any(key in value for key in (*_CONTAINERS, *_RECORDS, "spans"))


def spans_in(line: int, value: Json) -> Iterator[TraceSpan | LogRecord | tuple[str, object]]:
    """Yield the spans and log records of an object of the file; (reason, record) for what is neither."""
    if not is_container(value):
        yield _span(line, value) or (_NO_SPAN, value)
        return
    stack: list[object] = [value]
    while stack:
        here = stack.pop()
        if not isinstance(here, dict):
            yield "is no part of an OTLP export", here
            continue
        for key in _CONTAINERS:
            stack += reversed(as_listed(here.get(key, [])))
        for each in as_listed(here.get("spans", [])):
            yield _span(line, as_object(each)) or (_NO_SPAN, each)
        for each in (record for key in _RECORDS for record in as_listed(here.get(key, []))):
            yield _record(line, as_object(each)) or (_NO_RECORD, each)


def _record(line: int, raw: Json) -> LogRecord | None:
    trace, span_id = _id(_first(raw, "traceId", "trace_id")), _id(_first(raw, "spanId", "span_id"))
    if trace is None or span_id is None:
        return None
    held, body = read_attributes(raw.get("attributes")), _value(raw.get("body"))
    name = _first(raw, "eventName", "event_name") or held.get("event.name")
    times = (_nanos(_first(raw, *keys)) for keys in (("timeUnixNano", "time_unix_nano"), ("observedTimeUnixNano",)))
    fields = held | (body if isinstance(body, dict) else {"content": body} if isinstance(body, str) else {})
    time = next((time for time in times if time is not None), None)
    return LogRecord(line, raw, trace, span_id, name if isinstance(name, str) else "", fields, time)


def _span(line: int, raw: Json) -> TraceSpan | None:
    context = as_object(_first(raw, "context", "spanContext", "span_context"))
    trace = _id(_first(raw, "traceId", "trace_id") or _first(context, "trace_id", "traceId"))
    span_id = _id(_first(raw, "spanId", "span_id", "id") or _first(context, "span_id", "spanId"))
    if trace is None or span_id is None:
        return None
    code = _first(as_object(raw.get("status")), "code", "status_code")
    failed = [
        each for each in (code, raw.get("status_code")) if isinstance(each, str) and each.upper().endswith("ERROR")
    ]
    parent = _id(_first(raw, "parentSpanId", "parent_span_id", "parent_id", "parentId"))
    events = [
        (str(event.get("name") or ""), read_attributes(event.get("attributes")))
        for event in objects_in(raw.get("events"))
    ]
    name, attributes = str(raw.get("name") or ""), read_attributes(raw.get("attributes"))
    start, end = _time(raw, "start"), _time(raw, "end")
    return TraceSpan(
        line, raw, trace, span_id, parent, name, start, end, attributes, events, failed=code == 2 or bool(failed)
    )


def read_attributes(found: object) -> dict[str, Any]:
    """Return attributes as an object, from one or from OTLP's list of keys and values.

    >>> read_attributes([{"key": "n", "value": {"intValue": "3"}}, {"key": "t", "value": {"stringValue": "a"}}])
    {'n': 3, 't': 'a'}
    """
    if isinstance(found, dict):
        return dict(found)
    listed = (each for each in objects_in(found) if isinstance(each.get("key"), str))
    return {each["key"]: _value(each.get("value")) for each in listed}


def _value(value: object) -> Any:
    if not isinstance(value, dict):
        return value
    kind = next((key for key in _VALUES if key in value), None)
    if kind is None:
        return value or None
    inner = value[kind]
    if kind == "intValue" and isinstance(inner, str) and inner.removeprefix("-").isdecimal() and len(inner) < 20:
        return int(inner)
    values = inner.get("values") if isinstance(inner, dict) else inner
    if kind == "arrayValue":
        return [_value(each) for each in as_list(values)]
    return read_attributes(values) if kind == "kvlistValue" else inner


def _first(values: Json, *keys: str) -> Any:
    return next((values[key] for key in keys if values.get(key) is not None), None)


def _id(value: object) -> str | None:
    plain = value.removeprefix("0x") if isinstance(value, str) else ""
    return plain if plain.strip("0") else None


def _time(raw: Json, side: str) -> datetime | None:
    """Return a span's start or end: nanoseconds since 1970, or a text with its time zone."""
    nanos = _first(raw, f"{side}TimeUnixNano", f"{side}_time_unix_nano")
    if nanos is None:
        nanos = _first(raw, f"{side}_time", f"{side}Time")
        if isinstance(nanos, list) and len(nanos) == 2 and all(type(part) is int for part in nanos):
            nanos = nanos[0] * 10**9 + nanos[1]  # JavaScript's pair of seconds and nanoseconds
        elif isinstance(nanos, str) and not nanos.isdecimal():
            return parse_time(nanos)
    return _nanos(nanos)


def _nanos(nanos: object) -> datetime | None:
    """Return the time that nanoseconds since 1970 stand for, a number or a text of digits; 0 stands for none."""
    if isinstance(nanos, str) and nanos.isdecimal() and len(nanos) < 25:
        nanos = int(nanos)
    if type(nanos) is not int or not 0 < nanos < 10**21:
        return None
    try:
        return _EPOCH + timedelta(microseconds=nanos // 1000)
    except OverflowError:
        return None


def plain_json(value: object) -> str:
    """Return a value as JSON text that is the same for values that say the same."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


# --- messages

INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
SYSTEM: Final = "gen_ai.system_instructions"
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_EVENTS: Final = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_CHOICE: Final = "gen_ai.choice"
_PROMPT: Final = "gen_ai.prompt"
_COMPLETION: Final = "gen_ai.completion"
_CONTENTS: Final = frozenset({"gen_ai.content.prompt", "gen_ai.content.completion"})
_SPREAD: Final = re.compile(r"(gen_ai\.prompt|gen_ai\.completion)(?:\.(\d{1,6})\.(.+))?", re.DOTALL)
_DEEPEST_CONTENT: Final = 20
_USAGE: Final = "gen_ai.usage."
_UNSPOKEN: Final = ("reasoning", "thinking")
_MESSAGE_OWN: Final = ("role", "parts", "content", "tool_calls", "tool_call_id", "finish_reason")

OPENINFERENCE_KIND: Final = "openinference.span.kind"
_OPERATIONS: Final = {
    "LLM": "chat", "AGENT": "invoke_agent", "CHAIN": "invoke_workflow", "TOOL": "execute_tool",
    "EMBEDDING": "embeddings",
}  # fmt: skip
_NAMES: Final = {
    "session.id": "gen_ai.conversation.id", "agent.name": "gen_ai.agent.name", "tool.name": "gen_ai.tool.name",
    "llm.model_name": "gen_ai.response.model", "llm.provider": "gen_ai.provider.name", "llm.system": "gen_ai.system",
    "llm.token_count.prompt": "gen_ai.usage.input_tokens", "llm.token_count.completion": "gen_ai.usage.output_tokens",
    "llm.token_count.total": "gen_ai.usage.total_tokens",
    "llm.token_count.prompt_details.cache_read": "gen_ai.usage.cache_read.input_tokens",
    "llm.token_count.prompt_details.cache_write": "gen_ai.usage.cache_creation.input_tokens",
    "llm.token_count.completion_details.reasoning": "gen_ai.usage.reasoning.output_tokens",
}  # fmt: skip
_TOLD_ANYWAY: Final = ("gen_ai.conversation.id", "gen_ai.agent.name")
"""Attributes of GenAI's own that a span of OpenInference may have too."""
_CALL_ID: Final = ("tool.id", "tool_call.id", "tool.call_id")
KEPT_ATTRIBUTES: Final = ("llm.invocation_parameters", "metadata", "tag.tags", "user.id", "llm.prompts", "error.type")
"""Attributes that are kept with the answer under their own names, in this order."""
_DEEPEST_NESTING: Final = 20
_REQUEST: Final[Mapping[str, str]] = {
    "temperature": "temperature", "top_p": "top_p", "topP": "top_p", "top_k": "top_k", "topK": "top_k", "seed": "seed",
    "max_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "max_output_tokens": "max_tokens",
    "maxOutputTokens": "max_tokens", "max_tokens_to_sample": "max_tokens", "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty", "stop": "stop_sequences", "stop_sequences": "stop_sequences",
    "n": "choice.count", "tool_choice": "tool_choice", "reasoning_effort": "reasoning_effort",
}  # fmt: skip
"""Providers' names of a request's parameters, and what comes after `gen_ai.request.` in OpenTelemetry's."""


@dataclass(frozen=True, slots=True)
class SpanMessage:
    """A message of a span, and what tells whether another span's message is the same."""

    role: str
    content: str | tuple[Any, ...]
    key: str
    meta: Json
    tool_calls: tuple[Json, ...] = ()
    tool_call_id: str | None = None
    finish_reason: str | None = None

    def turn(self, source_id: str) -> SourceTurn:
        """Return the turn that it makes, without what its span says of it."""
        return SourceTurn(
            role=self.role,
            pieces=(Piece(source_id, self.content),),
            tool_calls=self.tool_calls,
            tool_call_id=self.tool_call_id,
            stop_reason=self.finish_reason,
            meta=self.meta,
        )


@dataclass(frozen=True, slots=True)
class SpanContent:
    """What a span says: what the model was given, what it answered (each a choice), the system prompt, and what is wrong."""

    given: tuple[SpanMessage, ...]
    answers: tuple[SpanMessage, ...]
    system: str | None
    faults: tuple[tuple[str, object], ...]


def request_parameters(told: object) -> dict[str, Any]:
    """Return the parameters of a model call under the names that OpenTelemetry has for them; others are left out.

    >>> request_parameters('{"temperature": 0.2, "max_completion_tokens": 100, "model": "m"}')
    {'gen_ai.request.temperature': 0.2, 'gen_ai.request.max_tokens': 100}
    """
    parameters = as_object(read_json(told))
    return {
        f"gen_ai.request.{_REQUEST[name]}": value
        for name, value in parameters.items()
        if name in _REQUEST and value is not None
    }


def span_messages(span: TraceSpan) -> SpanContent:
    """Return the messages of a span; nothing that stands in them raises."""
    faults: list[tuple[str, object]] = []
    holders = [span.attributes, *(held for name, held in span.events if name == _DETAILS)]
    found: dict[str, list[SpanMessage]] = {key: _listed(key, holders, faults) for key in (INPUT, OUTPUT)}
    if not any(found.values()):
        for name, held in span.events:
            if name not in _EVENTS and name != _CHOICE:
                continue
            if (message := _of_event(name, held)) is None:
                faults.append((f"has an event {name} that holds no message", held))
            else:
                found[OUTPUT if name == _CHOICE else INPUT].append(message)
    if not any(found.values()):
        old = [span.attributes, *(held for name, held in span.events if name in _CONTENTS)]
        both = ((INPUT, _PROMPT, "user"), (OUTPUT, _COMPLETION, "assistant"))
        found = {key: _spread(name, role, old, faults) for key, name, role in both}
    system = _system(_first_held(holders, SYSTEM))
    return SpanContent(tuple(found[INPUT]), tuple(found[OUTPUT]), system, tuple(faults))


def _first_held(holders: Sequence[Json], key: str) -> Any:
    return next((holder[key] for holder in holders if holder.get(key) is not None), None)


def tells_messages(key: str) -> bool:
    """Tell whether an attribute holds messages, or a field of one, in an older convention.

    >>> tells_messages("gen_ai.prompt.0.content"), tells_messages("gen_ai.completion"), tells_messages("gen_ai.prompt.name")
    (True, True, False)
    """
    return _SPREAD.fullmatch(key) is not None


def is_event(name: str) -> bool:
    """Tell whether an event of this name tells a message."""
    return name in _EVENTS or name in (_CHOICE, _DETAILS) or name in _CONTENTS


def span_usage(span: TraceSpan) -> dict[str, Any] | None:
    """Return the token usage of a span, under the names of the conventions without what they all begin with."""
    told = {key: value for key, value in span.attributes.items() if key.startswith(_USAGE) and value is not None}
    usage = {key.removeprefix(_USAGE): value for key, value in told.items() if key != _USAGE}
    return with_source(usage, "otel") if usage else None


def _listed(key: str, holders: Sequence[Json], faults: list[tuple[str, object]]) -> list[SpanMessage]:
    if (raw := _first_held(holders, key)) is None:
        return []
    if isinstance(value := read_json(raw), dict | list):
        return _messages(key, as_listed(value), "a role, and parts or content", faults)
    faults.append((f"has {key} that are no list of messages", raw))
    return []


def _messages(
    key: str, listed: Sequence[object], needs: str, faults: list[tuple[str, object]], role: str | None = None
) -> list[SpanMessage]:
    """Return the messages of a list; what is none is a fault."""
    read = [_message(each, role) for each in listed]
    for number, (each, message) in enumerate(zip(listed, read, strict=True)):
        if message is None:
            faults.append((f"has {key}[{number}] that is no message: it needs {needs}", each))
    return [message for message in read if message is not None]


# --- the oldest conventions


def _spread(key: str, role: str, holders: Sequence[Json], faults: list[tuple[str, object]]) -> list[SpanMessage]:
    """Return the messages of `gen_ai.prompt` or `gen_ai.completion`: as JSON, as one text, or with an attribute a field."""
    whole = _first_held(holders, key)
    if whole is not None:
        read = read_json(whole)
        listed = as_listed(read) if isinstance(read, dict | list) else [{"content": whole}]
    else:
        named = [
            (found, holders[0][name]) for name in holders[0] if (found := _SPREAD.fullmatch(name)) and found[1] == key
        ]
        told = {f"{found[2]}.{found[3]}": value for found, value in named if found[2] is not None}
        listed = as_list(_nested(told, _DEEPEST_CONTENT + 2, skip=True))
    return _messages(key, [*map(_plain_form, listed)], "content as text or parts", faults, role)


def lists_from_numbers(value: Any) -> Any:
    """Return objects whose keys are all numbers as lists in order of these, all the way down."""
    if not isinstance(value, dict):
        return value
    inner = {name: lists_from_numbers(each) for name, each in value.items()}
    if inner and all(map(is_place, inner)):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


def is_place(name: str) -> bool:
    """Tell whether a name is a place in a list: a number from 0.

    >>> is_place("10"), is_place("-1"), is_place("count")
    (True, False, False)
    """
    return name.isascii() and name.isdecimal() and len(name) < 20


def _plain_form(raw: object) -> object:
    """Return a message of the oldest conventions as newer ones have it: parts as values, calls without an id as parts."""
    if not isinstance(raw, dict):
        return raw
    made = dict(raw)
    if made.get("role") == "model":  # Gemini's word
        made["role"] = "assistant"
    content = made.get("content")
    parts = as_list(read_json(content)) if isinstance(content, str) else []
    if parts and all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts):
        made["content"] = content = parts
    calls = read_json(made.get("tool_calls"))
    nameless = [call for call in objects_in(calls) if not call.get("id")]
    if isinstance(calls, list):
        made["tool_calls"] = [call for call in calls if call not in nameless]
    if nameless:
        said = [{"type": "text", "content": content}] if content and isinstance(content, str) else list(content or ())
        made["content"] = [*said, *({"type": "tool_call", **_named(call)} for call in nameless)]
    return made


# --- a message


def _message(raw: object, role: str | None = None) -> SpanMessage | None:
    raw = read_json(raw)
    if not isinstance(raw, dict):
        return None
    spoken, parts = raw.get("role", role), raw.get("parts", raw.get("content"))
    parts = [] if parts is None else parts
    if not isinstance(spoken, str) or not (
        isinstance(parts, str) or (isinstance(parts, list) and all(isinstance(part, str | dict) for part in parts))
    ):
        return None
    calls = tuple(objects_in(raw.get("tool_calls")))
    answers = valid_name(raw.get("tool_call_id", raw.get("id") if spoken == "tool" else None))
    meta = without_empty(without_keys(raw, *_MESSAGE_OWN))
    key, reason = _key(spoken, parts, calls, answers), valid_name(raw.get("finish_reason"))
    return SpanMessage(spoken, _content(parts), key, meta, calls, answers, reason)


def _of_event(name: str, held: Json) -> SpanMessage | None:
    """Return the message of an event of older conventions: its fields are attributes, or stand in one as JSON."""
    fields = {key: value for key, value in held.items() if not key.startswith("gen_ai.")}
    for key in ("gen_ai.event.content", "message"):
        if isinstance(inner := read_json(held.get(key)), dict):
            fields = without_keys(fields, key) | inner
            if isinstance(nested := read_json(inner.get("message")), dict):
                fields = without_keys(fields, "message") | nested
    if isinstance(calls := read_json(fields.get("tool_calls")), list):
        fields["tool_calls"] = calls
    if isinstance(fields.get("content"), str) and isinstance(parts := read_json(fields["content"]), list):
        fields["content"] = parts
    is_told = "content" in fields or isinstance(calls, list)
    return _message(fields, _EVENTS.get(name, "assistant")) if is_told else None


def _content(parts: str | Sequence[Any]) -> str | tuple[Any, ...]:
    """Return a message's content: the text where one text part is all there is, else the parts as they stand."""
    match parts:
        case str():
            return parts
        case [{"type": "text", "content": str(text)} as part] if len(part) == 2:
            return text
    return tuple(parts)


def _key(role: str, parts: str | Sequence[Any], calls: Sequence[Json], answers: str | None) -> str:
    """Return what two messages have in common that say the same, though one was told back without its reasoning."""
    listed = [parts] if isinstance(parts, str) else parts
    said = [_part_key(part) for part in listed if not (isinstance(part, dict) and part.get("type") in _UNSPOKEN)]
    asked = [_part_key({"type": "tool_call", "id": c.get("id"), **_named(c)}) for c in calls]
    return plain_json([role, [each for each in said if each != ["text", ""]], asked, answers])


def turn_key(turn: Turn) -> str:
    """Return what a stored turn has in common with a message that says the same."""
    parts = turn.content
    beside = turn.tool_calls[len(calls_in(parts)) if isinstance(parts, list) else 0 :]
    calls = [{"id": call.id, "name": call.name, "arguments": call.input} for call in beside]
    in_parts = {result.call_id for result in results_in(parts)} if isinstance(parts, list) else set()
    answers = next((result.call_id for result in turn.tool_results if result.call_id not in in_parts), None)
    return _key(turn.role, parts, calls, answers)


def _named(call: Json) -> Json:
    function = call.get("function")
    named = function if isinstance(function, dict) else call
    return {"name": named.get("name"), "arguments": named.get("arguments")}


def _part_key(part: object) -> list[Any]:
    if isinstance(part, str):
        return ["text", part]
    if not isinstance(part, dict):
        return ["part", part]
    match part.get("type"):
        case "text":
            return ["text", part.get("content", part.get("text"))]
        case "tool_call":
            return ["call", part.get("id"), part.get("name"), _read_if_json(part.get("arguments"))]
        case "tool_call_response":
            return ["answer", part.get("id"), _read_if_json(part.get("response", part.get("result")))]
    return ["part", part]


def _read_if_json(value: object) -> Any:
    read = read_json(value)
    return value if read is None else read


def _system(raw: object) -> str | None:
    """Return the text of a system prompt: its text parts, one after the other."""
    value = read_json(raw)
    if isinstance(value, list):
        texts = [part.get("content") if isinstance(part, dict) else part for part in value]
        return "\n".join(text for text in texts if isinstance(text, str)) or None
    return as_text(raw)


_TRACELOOP_KINDS: Final = {"workflow": "invoke_workflow", "agent": "invoke_agent", "tool": "execute_tool"}
_TRACELOOP_NAMES: Final = {"agent": "gen_ai.agent.name", "tool": "gen_ai.tool.name"}
TRACELOOP_SESSIONS: Final = tuple(
    f"traceloop.association.properties.{name}" for name in ("session_id", "conversation_id", "thread_id", "chat_id")
)


def translate_conventions(span: TraceSpan) -> None:
    """Give a span of OpenInference or of Traceloop the attributes that GenAI's conventions have for the same."""
    _translate_traceloop(span)
    translate_openinference(span)


def _translate_traceloop(span: TraceSpan) -> None:
    """Tell Traceloop's kind of span, its name and its session in GenAI's terms; what is told in those already stays."""
    told: dict[str, Any] = {}
    kind = span.text("traceloop.span.kind") or ""
    if kind in _TRACELOOP_KINDS:
        told["gen_ai.operation.name"] = _TRACELOOP_KINDS[kind]
    elif span.text("llm.request.type") in ("chat", "completion"):
        told["gen_ai.operation.name"] = "chat"
    if kind in _TRACELOOP_NAMES:
        told[_TRACELOOP_NAMES[kind]] = span.text("traceloop.entity.name")
    told["gen_ai.conversation.id"] = span.text(*TRACELOOP_SESSIONS)
    for key, value in told.items():
        if value is not None:
            span.attributes.setdefault(key, value)


def openinference_kind(span: TraceSpan) -> str | None:
    """Return what kind of span OpenInference says that it is, in capitals; None for one that it says nothing of."""
    found = span.text(OPENINFERENCE_KIND)
    told = span.raw.get("span_kind") if "gen_ai.operation.name" not in span.attributes else None
    if found is None and isinstance(told, str):
        found = told.rpartition(".")[2]
    return found.upper() if found and found.upper() not in ("INTERNAL", "CLIENT", "SERVER", "UNKNOWN", "") else None


def translate_openinference(span: TraceSpan) -> None:
    """Give a span of OpenInference the attributes that GenAI's conventions have for the same; leave any other alone."""
    kind = openinference_kind(span)
    if kind is None:
        return
    told = as_object(_nested(span.attributes, _DEEPEST_NESTING))
    kept = (key for key in KEPT_ATTRIBUTES if span.attributes.get(key) is not None)
    made: dict[str, Any] = {key: span.attributes[key] for key in kept}
    made |= {key: span.attributes[key] for key in _TOLD_ANYWAY if key in span.attributes}
    made["gen_ai.operation.name"] = _OPERATIONS.get(kind, kind.lower())
    made |= {new: found for old, new in _NAMES.items() if (found := _at(told, old)) is not None}
    if kind == "TOOL":
        made["gen_ai.tool.call.id"] = next((found for key in _CALL_ID if (found := _at(told, key)) is not None), None)
        made["gen_ai.tool.call.result"] = _at(told, "output.value")
    elif kind in ("LLM", "AGENT") or (kind == "CHAIN" and span.parent is None):
        for key, side, role in ((INPUT, "input", "user"), (OUTPUT, "output", "assistant")):
            listed = _oi_messages(_at(told, f"llm.{side}_messages"))
            made[key] = listed or _of_value(_at(told, f"{side}.value"), role, is_model=kind == "LLM") or None
    parameters = read_json(_at(told, "llm.invocation_parameters"))
    if "gen_ai.response.model" not in made and isinstance(parameters, dict):
        made["gen_ai.request.model"] = parameters.get("model")
    if (reason := valid_name(_at(told, "llm.finish_reason"))) is not None:
        made["gen_ai.response.finish_reasons"] = [reason]
    span.attributes = made


def _oi_messages(listed: object) -> list[Any]:
    if isinstance(listed, dict) and (placed := sorted(filter(is_place, listed), key=int)):
        others = [{name: each} for name, each in listed.items() if not is_place(name)]  # no messages, which is reported
        listed = [*(listed[name] for name in placed), *others]
    held = ((each, value_at(each, "message")) for each in as_list(listed))
    return [_oi_message(message) if isinstance(message, dict) else each for each, message in held]


def _oi_message(held: Json) -> dict[str, Any]:
    """Return a message in OpenAI's shape."""
    made: dict[str, Any] = {"role": held.get("role"), "content": held.get("content")}
    if isinstance(parts := held.get("contents"), list):
        inner = ((each, value_at(each, "message_content")) for each in parts if not _is_only_call(each))
        made["content"] = [dict(part) if isinstance(part, dict) else each for each, part in inner]
    calls = [each.get("tool_call") for each in objects_in(held.get("tool_calls") or parts)]
    if asked := [{"id": call.get("id"), "function": call.get("function")} for call in objects_in(calls)]:
        made["tool_calls"] = asked
    if isinstance(old := held.get("function_call_name"), str):
        made["function_call"] = {"name": old, "arguments": held.get("function_call_arguments_json")}
    return made | {key: held[key] for key in ("tool_call_id", "name") if held.get(key) is not None}


def _is_only_call(part: object) -> bool:
    """Tell whether a part stands for a call that is told beside it."""
    return (
        isinstance(part, dict) and bool(part.get("tool_call")) and part.get("message_content") == {"type": "tool_use"}
    )


def _of_value(value: object, role: str, *, is_model: bool) -> list[Any]:
    """Return the messages that a span's input or output stands for: a provider's request or answer, else a text."""
    read = read_json(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value
    found: Any = read
    if isinstance(read, dict):
        found = read.get("messages") or [each.get("message") for each in objects_in(read.get("choices"))]
    if is_model and as_list(found) and all(isinstance(each, dict) and each.get("role") for each in found):
        return list(found)
    return [{"role": role, "content": value}] if isinstance(value, str) and value else []


def _nested(attributes: Json, deepest: int, *, skip: bool = False) -> Any:
    """Return attributes with dots in their names as objects in one another, and those with numbers as lists.

    A name of more steps stands at the top, or is left out with `skip`; the first of two values for one place counts.
    """
    made: dict[str, Any] = {}
    for name, value in attributes.items():
        steps = name.split(".")
        is_deep = len(steps) > deepest
        place: Any = made
        for step in () if is_deep else steps[:-1]:
            place = place.setdefault(step, {}) if isinstance(place, dict) else None
        if isinstance(place, dict) and not (is_deep and skip):
            place.setdefault(steps[-1], value)
    return lists_from_numbers(made)


def _at(told: Json, path: str) -> Any:
    return value_at(told, *path.split("."))
