"""Turn live spans and log records into the flat values that the reader of trace files takes: there is no second reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk._logs import ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from trails.exchange.traces import spans
from trails.exchange.traces.spans import LogRecord, TraceSpan

SpanKey = tuple[str, str]
"""The ids of a trace and of a span in it, as hexadecimal digits."""
_PLACING: Final = (
    *("gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.conversation.id"),
    *("openinference.span.kind", "agent.name", "session.id", "traceloop.span.kind", "traceloop.entity.name"),
    *spans.TRACELOOP_SESSIONS,
)
"""The attributes of a span that say where others belong."""


def key_of(span: ReadableSpan) -> SpanKey:
    """Return the ids of a span and its trace."""
    context = span.context
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def parent_of(span: ReadableSpan) -> SpanKey | None:
    """Return the ids of the span above one, if it is of this process."""
    above = span.parent
    return None if above is None or above.is_remote else (f"{above.trace_id:032x}", f"{above.span_id:016x}")


def trace_span(span: ReadableSpan) -> TraceSpan:
    """Return a span as the reader of trace files has it."""
    events = [{"name": each.name, "attributes": _plain(each.attributes or {})} for each in span.events]
    return _read(span, _plain(span.attributes or {}), events)


def outline(span: ReadableSpan) -> TraceSpan:
    """Return of a span only what says where others belong, in GenAI's terms."""
    told = span.attributes or {}
    found = _read(span, {key: told[key] for key in _PLACING if key in told}, [])
    spans.translate_conventions(found)
    return found


def _read(span: ReadableSpan, attributes: Any, events: Any) -> TraceSpan:
    trace, span_id = key_of(span)
    raw = {
        "trace_id": trace,
        "span_id": span_id,
        "parent_span_id": None if span.parent is None else f"{span.parent.span_id:016x}",
        "name": span.name,
        "start_time_unix_nano": span.start_time,
        "end_time_unix_nano": span.end_time,
        "status": {"code": 2 if span.status.status_code is StatusCode.ERROR else 0},
        "attributes": attributes,
        "events": events,
    }
    (found,) = spans.spans_in(0, raw)
    assert isinstance(found, TraceSpan)  # noqa: S101 - it has its ids
    found.raw = {}
    return found


def log_record(record: ReadableLogRecord | ReadWriteLogRecord) -> LogRecord | None:
    """Return a log record as the reader of trace files has it; None for one that is of no span."""
    found = record.log_record
    if not found.trace_id or not found.span_id:
        return None
    raw = {
        "trace_id": f"{found.trace_id:032x}",
        "span_id": f"{found.span_id:016x}",
        "event_name": found.event_name,
        "attributes": _plain(found.attributes or {}),
        "body": _plain(found.body),
        "time_unix_nano": found.timestamp or found.observed_timestamp,
    }
    (read,) = spans.spans_in(0, {"logRecords": [raw]})
    return read if isinstance(read, LogRecord) else None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
