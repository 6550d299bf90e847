"""Keep what OpenTelemetry's GenAI spans say in Trails, while the program runs: `TrailsSpanExporter` is a `SpanExporter`."""

from trails.adapters.opentelemetry.links import (
    find_turn,
    in_conversation,
    in_session,
    span_meta,
    turn_attributes,
    turn_link,
)
from trails.adapters.opentelemetry.processors import TrailsLogProcessor, TrailsSpanProcessor
from trails.adapters.opentelemetry.span_exporter import TrailsSpanExporter

__all__ = [
    "TrailsLogProcessor",
    "TrailsSpanExporter",
    "TrailsSpanProcessor",
    "find_turn",
    "in_conversation",
    "in_session",
    "span_meta",
    "turn_attributes",
    "turn_link",
]
