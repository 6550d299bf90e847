"""Measure TrailsSpanExporter beside a file of spans that is synced to the disk for each batch: what a program has without it."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import trails
from benchmarks.frameworks import Figure
from trails.adapters.opentelemetry import TrailsSpanExporter


def measure() -> list[Figure]:
    """Return what one call of a model costs whose input tells 20 and 400 messages again, and a batch of 50 conversations."""
    with tempfile.TemporaryDirectory() as place, trails.open(Path(place) / "store.trails", create=True) as store:
        export = TrailsSpanExporter(store).export
        with (Path(place) / "spans.jsonl").open("a", encoding="utf-8") as file:

            def write(spans: Sequence[ReadableSpan]) -> None:
                file.writelines(span.to_json(indent=None) + "\n" for span in spans)
                file.flush()
                os.fsync(file.fileno())

            figures = [
                Figure(f"export of a call after {length} messages", *_both(export, write, _talk(length)), "-")
                for length in (20, 400)
            ]
            batches = [[span for name in range(50) for span in _call(f"b{number}-{name}", 0)] for number in range(10)]
            figures.append(Figure("export of 50 calls of 50 conversations", *_both(export, write, batches), "-"))
            return figures


def _both(
    export: Callable[[Sequence[ReadableSpan]], object],
    write: Callable[[Sequence[ReadableSpan]], object],
    batches: Sequence[Sequence[ReadableSpan]],
) -> tuple[float, float]:
    """Return milliseconds for a batch, the median of all, which the two take in turns."""
    spent: tuple[list[float], list[float]] = ([], [])
    for spans in batches:
        for times, work in zip(spent, (export, write), strict=True):
            begun = time.perf_counter()
            work(spans)
            times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(spent[0]), statistics.median(spent[1])


def _talk(length: int) -> list[Sequence[ReadableSpan]]:
    """Ten calls of a conversation, the first one after so many messages."""
    return [_call(f"talk-{length}", length + 2 * number) for number in range(10)]


def _call(conversation: str, length: int) -> Sequence[ReadableSpan]:
    """The span of a call of a model, which tells so many messages and a question."""
    told = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": conversation, "gen_ai.response.model": "m"}
    history = json.dumps([_message(number) for number in range(length + 1)])
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    messages = {"gen_ai.input.messages": history, "gen_ai.output.messages": json.dumps([_message(length + 1)])}
    provider.get_tracer("benchmark").start_span("chat", attributes=told | messages).end()
    return memory.get_finished_spans()


def _message(number: int) -> dict[str, Any]:
    part = {"type": "text", "content": f"message {number}: " + "words and words " * 20}
    return {"role": "assistant" if number % 2 else "user", "parts": [part]}
