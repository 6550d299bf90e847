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
from trails.exchange.json_files import as_list, as_object
from trails.exchange.record_checks import parse_time

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VALUES: Final = ("stringValue", "boolValue", "intValue", "doubleValue", "bytesValue", "arrayValue", "kvlistValue")
_LATEST: Final = datetime.max.replace(tzinfo=UTC)

_Json = Mapping[str, Any]
_CONTAINERS: Final = (
    "resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "resourceLogs", "resource_logs", "scopeLogs",
    "scope_logs",
)  # fmt: skip
_RECORDS: Final = ("logRecords", "log_records")
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
        found = self.text("gen_ai.operation.name")
        return found or ""

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
        yield _span(line, value) or ("is no span: it has no trace id and no span id", value)
        return
    stack: list[object] = [value]
    while stack:
        here = stack.pop()
        if not isinstance(here, dict):
            yield "is no part of an OTLP export", here
            continue
        for key in _CONTAINERS:
            if key in here:
                found = here[key]
                stack += reversed(found if isinstance(found, list) else [found])
        spans = here.get("spans", [])
        for each in spans if isinstance(spans, list) else [spans]:
            span = _span(line, each) if isinstance(each, dict) else None
            yield span or ("is no span: it has no trace id and no span id", each)
        for key in _RECORDS:
            listed = here.get(key, [])
            for each in listed if isinstance(listed, list) else [listed]:
                record = _record(line, each) if isinstance(each, dict) else None
                yield record or ("is no log record of a span: it has no trace id and no span id", each)


def _record(line: int, raw: _Json) -> LogRecord | None:
    trace, span_id = _id(_first(raw, "traceId", "trace_id")), _id(_first(raw, "spanId", "span_id"))
    if trace is None or span_id is None:
        return None
    held = read_attributes(raw.get("attributes"))
    body = _value(raw.get("body"))
    name = _first(raw, "eventName", "event_name") or held.get("event.name")
    times = (_nanos(_first(raw, *keys)) for keys in (("timeUnixNano", "time_unix_nano"), ("observedTimeUnixNano",)))
    return LogRecord(
        line=line,
        raw=raw,
        trace=trace,
        span=span_id,
        name=name if isinstance(name, str) else "",
        fields=held | (body if isinstance(body, dict) else {"content": body} if isinstance(body, str) else {}),
        time=next((time for time in times if time is not None), None),
    )


def _span(line: int, raw: _Json) -> TraceSpan | None:
    context = as_object(_first(raw, "context", "spanContext", "span_context"))
    trace = _id(_first(raw, "traceId", "trace_id") or _first(context, "trace_id", "traceId"))
    span_id = _id(_first(raw, "spanId", "span_id", "id") or _first(context, "span_id", "spanId"))
    if trace is None or span_id is None:
        return None
    status = as_object(raw.get("status"))
    code = _first(status, "code", "status_code")
    events = _first(raw, "events")
    return TraceSpan(
        line=line,
        raw=raw,
        trace=trace,
        id=span_id,
        parent=_id(_first(raw, "parentSpanId", "parent_span_id", "parent_id", "parentId")),
        name=str(raw.get("name") or ""),
        start=_time(raw, "start"),
        end=_time(raw, "end"),
        attributes=read_attributes(raw.get("attributes")),
        events=[
            (str(event.get("name") or ""), read_attributes(event.get("attributes")))
            for event in as_list(events)
            if isinstance(event, dict)
        ],
        failed=code == 2
        or any(isinstance(each, str) and each.upper().endswith("ERROR") for each in (code, raw.get("status_code"))),
    )


def read_attributes(found: object) -> dict[str, Any]:
    """Return attributes as an object, from one or from OTLP's list of keys and values.

    >>> read_attributes([{"key": "n", "value": {"intValue": "3"}}, {"key": "t", "value": {"stringValue": "a"}}])
    {'n': 3, 't': 'a'}
    """
    if isinstance(found, dict):
        return dict(found)
    listed = as_list(found)
    return {
        each["key"]: _value(each.get("value"))
        for each in listed
        if isinstance(each, dict) and isinstance(each.get("key"), str)
    }


def _value(value: object) -> Any:
    if not isinstance(value, dict):
        return value
    kind = next((key for key in _VALUES if key in value), None)
    if kind is None:
        return value or None
    inner = value[kind]
    if kind == "intValue" and isinstance(inner, str) and inner.removeprefix("-").isdecimal() and len(inner) < 20:
        return int(inner)
    if kind == "arrayValue":
        values = inner.get("values") if isinstance(inner, dict) else inner
        return [_value(each) for each in values] if isinstance(values, list) else []
    if kind == "kvlistValue":
        return read_attributes(inner.get("values") if isinstance(inner, dict) else inner)
    return inner


def _first(values: _Json, *keys: str) -> Any:
    return next((values[key] for key in keys if values.get(key) is not None), None)


def _id(value: object) -> str | None:
    if isinstance(value, str) and value and (plain := value.removeprefix("0x")).strip("0"):
        return plain
    return None


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
