"""Processors that tell the exporter of spans as they start, and of messages in log records."""

from __future__ import annotations

from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord
from opentelemetry.sdk.trace import Span
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from trails.adapters.opentelemetry import links, span_values
from trails.adapters.opentelemetry.span_exporter import TrailsSpanExporter
from trails.exchange.traces import spans


class TrailsSpanProcessor(BatchSpanProcessor):
    """Store GenAI spans as they end, long before their trace does: `provider.add_span_processor(TrailsSpanProcessor(exporter))`.

    It tells the exporter which spans have started, so that those below them need not wait; and it stamps each span with
    `trails.session.id`. A span also gets the `gen_ai.conversation.id` of the span above it, or of `in_conversation`. Options are
    those of `BatchSpanProcessor`; spans are stored every `schedule_delay_millis` (default 1,000).
    """

    def __init__(self, exporter: TrailsSpanExporter, *, schedule_delay_millis: float = 1_000, **options: Any) -> None:
        """Hand ended spans to an exporter, in batches."""
        super().__init__(exporter, schedule_delay_millis=schedule_delay_millis, **options)
        self._exporter = exporter

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Stamp a span, and remember that it has started."""
        if span.context.trace_flags.sampled:
            span.set_attributes(links.stamps(span, parent_context))
            self._exporter.open_traces.start(span)


class TrailsLogProcessor(LogRecordProcessor):
    """Take messages that an instrumentation emits as log records: `logger_provider.add_log_record_processor(...)`.

    They are those of the span that they name, and wait in the exporter for its end.
    """

    def __init__(self, exporter: TrailsSpanExporter) -> None:
        """Hand log records to the exporter of the spans that they are of."""
        self._exporter = exporter

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Keep a record that tells messages until its span ends."""
        record = span_values.log_record(log_record)
        if record is not None and spans.is_event(record.name):
            self._exporter.open_traces.log(record)

    def shutdown(self) -> None:
        """Do nothing: the exporter has the records."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: the exporter has the records."""
        return True
