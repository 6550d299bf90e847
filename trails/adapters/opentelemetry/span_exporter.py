"""The exporter of OpenTelemetry spans: what GenAI spans say becomes turns of sessions, while the program runs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection, Sequence
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from trails.adapters.opened_store import OpenedStore
from trails.adapters.opentelemetry import links, span_values
from trails.adapters.opentelemetry.conversations import Conversations
from trails.adapters.opentelemetry.open_traces import OpenTrace, OpenTraces
from trails.errors import HeadConflict, InvalidInput, SessionExists, SessionNotFound
from trails.exchange.traces import otlp
from trails.session import Repository

_log: Final = logging.getLogger(__name__)
_TRIES: Final = 20
"""How often something is tried again because another writer appended, or was quicker to begin a session."""
_TRIES_REFUSED: Final = 3
_Ready = list[tuple[str, OpenTrace]]


class TrailsSpanExporter(SpanExporter):
    """Store what GenAI spans say as sessions of a store: `TrailsSpanProcessor(TrailsSpanExporter(store))`.

    A conversation (`gen_ai.conversation.id`, `session.id`) is a session, else a trace is one. A model's call adds the turns that
    are new: its input tells the whole history again. An input that leaves the history is a fork. A span that comes twice adds
    nothing.

    The spans of a trace are stored once the span at its top has ended, or, with `TrailsSpanProcessor`, as they end. Nothing is
    raised: what cannot be stored is logged, and tried again with the next spans.
    """

    def __init__(self, store: Repository | str | os.PathLike[str]) -> None:
        """Use an open store, or open the one at a location, which is made if there is none; `shutdown` closes that."""
        self.open_traces = OpenTraces()
        self._opened = OpenedStore.of(store)
        self._conversations = Conversations(self._opened.repository)
        self._lock = threading.RLock()
        self._is_shut_down = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take spans that ended; store what can be stored by now. `FAILURE` if the store refuses it: it is tried again later."""
        with self._lock:
            if self._is_shut_down:
                return SpanExportResult.FAILURE
            try:
                for span in spans:
                    self.open_traces.end(span)
                return self._store_ready()
            except Exception:  # noqa: BLE001 - the program that is traced must not suffer
                _log.exception("GenAI spans could not be taken")
                return SpanExportResult.FAILURE

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Store all that came, of traces that have not ended too; tell whether that was possible."""
        with self._lock:
            try:
                self.open_traces.end_all()
                return self._store_ready() is SpanExportResult.SUCCESS
            except Exception:  # noqa: BLE001 - as above
                _log.exception("GenAI spans could not be stored")
                return False

    def shutdown(self) -> None:
        """Store all that came, take no more, and close the store if it was opened here."""
        with self._lock:
            if not self._is_shut_down:
                self.force_flush()
                self._is_shut_down = True
                try:
                    self._opened.close()
                except Exception:  # noqa: BLE001 - as above
                    _log.exception("the store of GenAI spans could not be closed")

    # --- what is stored

    def _store_ready(self) -> SpanExportResult:
        self.open_traces.end_old()
        ready = list(self.open_traces.ready())
        # Traces that could not be stored before come one by one: what is wrong with one must not keep others waiting.
        groups = [[each for each in ready if not each[1].is_tried], *([each] for each in ready if each[1].is_tried)]
        stored = [self._write(group) for group in groups if group]
        if dropped := self.open_traces.drop_old():
            _log.error("%d span(s) that could not be stored are left out: there are too many", dropped)
        return SpanExportResult.SUCCESS if all(stored) else SpanExportResult.FAILURE

    def _write(self, ready: _Ready) -> bool:
        """Store what waits in some traces, in one commit; tell whether it was possible."""
        for attempt in range(1, _TRIES + 1):
            try:
                self._place(ready)
            except (HeadConflict, SessionNotFound, InvalidInput) as error:
                if attempt < (_TRIES_REFUSED if _is_refused(error) else _TRIES):
                    continue
                self._note_failure(ready, error)
            except Exception as error:  # noqa: BLE001 - whatever a store raises
                self._note_failure(ready, error)
            else:
                return True
            return False
        return False

    def _note_failure(self, ready: _Ready, error: Exception) -> None:
        number = sum(len(trace.waiting) for _, trace in ready)
        if len(ready) == 1 and _is_refused(error):
            _log.error("%d span(s) say something that cannot be stored, and are left out", number, exc_info=error)
            self.open_traces.place(ready[0][1])
            return
        _log.error("%d span(s) could not be stored, and are tried again with the next ones", number, exc_info=error)
        for _, trace in ready:
            trace.is_tried = True

    def _place(self, ready: _Ready) -> None:
        reading = otlp.Spans(otlp.SOURCE, many=False, stored=self._conversations.paths)
        for trace_id, trace in ready:
            self._read(reading, trace_id, trace)
        names = {name for _, trace in ready for name in trace.sessions}
        sessions = reading.sessions(names, {trace_id for trace_id, trace in ready if not trace.has_ended})
        try:
            self._conversations.write(sessions)
        except BaseException:
            self._conversations.forget(sessions)
            raise
        self._log_reading(reading.reading.notes, [problem.reason for problem in reading.reading.problems])
        for trace_id, trace in ready:
            trace.above |= {key for key in reading.above if key[0] == trace_id}
            trace.sessions |= {name for name, session in sessions.items() if trace_id in session.traces}
            trace.is_tried = False
            self.open_traces.place(trace)

    def _read(self, reading: otlp.Spans, trace_id: str, trace: OpenTrace) -> None:
        reading.above |= trace.above
        for outline in (*trace.outlines.values(), *self.open_traces.started(trace_id)):
            if (outline.trace, outline.id) not in trace.waiting:
                reading.know(outline)
        for key, span in trace.waiting.items():
            if links.KEPT not in (span.attributes or {}):
                reading.take("", span_values.trace_span(span))
                for record in self.open_traces.logs(key):
                    reading.take_log("", record)
            else:  # the program itself keeps the session
                reading.know(trace.outlines[key])

    def _log_reading(self, notes: Collection[str], problems: Collection[str]) -> None:
        for problem in problems:
            _log.warning("a GenAI span could not be read whole: %s", problem)
        for note in notes:
            _log.debug("%s", note)


def _is_refused(error: Exception) -> bool:
    """Tell whether what spans say cannot be stored, rather than that another writer was quicker."""
    return isinstance(error, InvalidInput) and not isinstance(error, SessionExists)
