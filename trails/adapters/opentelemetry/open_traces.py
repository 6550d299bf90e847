"""What is remembered of traces whose spans come one after the other: what waits, and where spans belong."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan

from trails.adapters.opentelemetry import span_values
from trails.adapters.opentelemetry.span_values import SpanKey
from trails.exchange.traces.spans import LogRecord, TraceSpan

MOST_TRACES: Final = 1_000
"""How many traces are remembered, those that ended among them."""
MOST_WAITING: Final = 20_000
"""How many spans wait at most."""
MOST_OUTLINES: Final = 10_000
"""How many spans of one trace are remembered."""
MOST_STARTED: Final = 10_000
"""How many started spans are remembered, and of how many spans the log records."""
CONVERSATION: Final = "gen_ai.conversation.id"


@dataclass(slots=True, eq=False)
class OpenTrace:
    """One trace."""

    waiting: dict[SpanKey, ReadableSpan] = field(default_factory=dict)
    """Spans that ended and are not placed yet."""
    outlines: dict[SpanKey, TraceSpan] = field(default_factory=dict)
    """Of all spans that ended, what says where others belong."""
    above: set[SpanKey] = field(default_factory=set)
    """The spans below which something is said."""
    sessions: set[str] = field(default_factory=set)
    """The names of the sessions that its spans went to."""
    has_ended: bool = False
    """Whether the span at its top has ended."""
    is_tried: bool = False
    """Whether what waits could not be stored before."""


class OpenTraces:
    """All traces that are remembered. Spans may start, and log records come, on any thread."""

    def __init__(self) -> None:
        """Begin without any."""
        self._traces: OrderedDict[str, OpenTrace] = OrderedDict()
        self._started: OrderedDict[SpanKey, ReadableSpan] = OrderedDict()
        self._logs: OrderedDict[SpanKey, list[LogRecord]] = OrderedDict()
        self._lock = threading.Lock()
        self._sees_starts = False

    def start(self, span: ReadableSpan) -> None:
        """Remember a span that started: from now on all are expected to be told as they start."""
        with self._lock:
            self._sees_starts = True
            self._started[span_values.key_of(span)] = span
            while len(self._started) > MOST_STARTED:
                self._started.popitem(last=False)

    def log(self, record: LogRecord) -> None:
        """Take a log record of a span that has not ended."""
        with self._lock:
            self._logs.setdefault((record.trace, record.span), []).append(record)
            while len(self._logs) > MOST_STARTED:
                self._logs.popitem(last=False)

    def end(self, span: ReadableSpan) -> None:
        """Take a span that ended, once; note whether its trace has ended with it."""
        key = span_values.key_of(span)
        trace = self._traces.setdefault(key[0], OpenTrace())
        self._traces.move_to_end(key[0])
        if key not in trace.outlines:
            trace.outlines[key] = span_values.outline(span)
            trace.waiting[key] = span
        trace.has_ended = trace.has_ended or not self._is_below_another(span, trace)
        with self._lock:
            self._started.pop(key, None)

    def started(self, trace_id: str) -> list[TraceSpan]:
        """Return outlines of the spans of a trace that started and did not end."""
        with self._lock:
            found = [span for key, span in self._started.items() if key[0] == trace_id]
        return [span_values.outline(span) for span in found]

    def logs(self, key: SpanKey) -> list[LogRecord]:
        """Return the log records of a span."""
        with self._lock:
            return list(self._logs.get(key, ()))

    def place(self, trace: OpenTrace) -> None:
        """Note that what waited of a trace is placed; tools of a trace that has not ended wait for messages on."""
        for key in list(trace.waiting):
            if trace.has_ended or trace.outlines[key].operation != "execute_tool":
                del trace.waiting[key]
                with self._lock:
                    self._logs.pop(key, None)
        while len(trace.outlines) > MOST_OUTLINES:
            oldest = next(iter(trace.outlines))
            trace.waiting.pop(oldest, None)
            trace.above.discard(oldest)
            del trace.outlines[oldest]

    def end_old(self) -> None:
        """Let the traces that were used least recently wait no longer, if too much waits."""
        waiting, beyond = sum(len(trace.waiting) for trace in self._traces.values()), len(self._traces) - MOST_TRACES
        for number, trace in enumerate(self._traces.values()):
            if number >= beyond and waiting <= MOST_WAITING:
                return
            trace.has_ended = True
            waiting -= len(trace.waiting)

    def ready(self) -> Iterator[tuple[str, OpenTrace]]:
        """Yield the traces whose waiting spans can be placed: they have ended, or what decides where is told."""
        for trace_id, trace in list(self._traces.items()):
            if trace.waiting and (trace.has_ended or (self._sees_starts and self._names_conversation(trace_id, trace))):
                yield trace_id, trace

    def drop_old(self) -> int:
        """Forget the traces that were used least recently, beyond as many as are remembered; return how many spans waited."""
        dropped = 0
        waiting = sum(len(trace.waiting) for trace in self._traces.values())
        while len(self._traces) > MOST_TRACES or waiting - dropped > MOST_WAITING:
            dropped += len(self._traces.popitem(last=False)[1].waiting)
        return dropped

    def end_all(self) -> None:
        """Let no trace wait any longer: all have ended, as far as is known."""
        for trace in self._traces.values():
            trace.has_ended = True

    def _names_conversation(self, trace_id: str, trace: OpenTrace) -> bool:
        return any(CONVERSATION in span.attributes for span in (*trace.outlines.values(), *self.started(trace_id)))

    def _is_below_another(self, span: ReadableSpan, trace: OpenTrace) -> bool:
        """Tell whether a span has one above it of which something came, or will come."""
        above = span_values.parent_of(span)
        if above is None or not self._sees_starts:
            return above is not None
        with self._lock:
            return above in self._started or above in trace.outlines
