"""OpenTelemetry spans in any of the shapes that they are written in, read as one.

OTLP/JSON (`resourceSpans`, one object or one a line, attributes as lists of keys and values), and flat spans, an object
each (`trace_id`, `span_id`, `attributes` as an object), as the SDKs' console exporters write them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trails.exchange import json_files
from trails.exchange.json_files import as_list, as_listed, as_object, objects_in
from trails.exchange.source_values import parse_time

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VALUES: Final = ("stringValue", "boolValue", "intValue", "doubleValue", "bytesValue", "arrayValue", "kvlistValue")
_LATEST: Final = datetime.max.replace(tzinfo=UTC)

_Json = Mapping[str, Any]
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
    raw: _Json
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
    raw: _Json
    trace: str
    span: str
    name: str
    fields: dict[str, Any]
    time: datetime | None


def is_container(value: _Json) -> bool:
    """Tell whether an object is an OTLP export, or a part of one, and no span itself."""
    return any(key in value for key in (*_CONTAINERS, *_RECORDS, "spans"))


def spans_in(line: int, value: _Json) -> Iterator[TraceSpan | LogRecord | tuple[str, object]]:
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


def _record(line: int, raw: _Json) -> LogRecord | None:
    trace, span_id = _id(_first(raw, "traceId", "trace_id")), _id(_first(raw, "spanId", "span_id"))
    if trace is None or span_id is None:
        return None
    held, body = read_attributes(raw.get("attributes")), _value(raw.get("body"))
    name = _first(raw, "eventName", "event_name") or held.get("event.name")
    times = (_nanos(_first(raw, *keys)) for keys in (("timeUnixNano", "time_unix_nano"), ("observedTimeUnixNano",)))
    fields = held | (body if isinstance(body, dict) else {"content": body} if isinstance(body, str) else {})
    time = next((time for time in times if time is not None), None)
    return LogRecord(line, raw, trace, span_id, name if isinstance(name, str) else "", fields, time)


def _span(line: int, raw: _Json) -> TraceSpan | None:
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


def _first(values: _Json, *keys: str) -> Any:
    return next((values[key] for key in keys if values.get(key) is not None), None)


def _id(value: object) -> str | None:
    plain = value.removeprefix("0x") if isinstance(value, str) else ""
    return plain if plain.strip("0") else None


def _time(raw: _Json, side: str) -> datetime | None:
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
