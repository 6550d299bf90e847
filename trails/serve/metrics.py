"""What is counted of a server, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from trails.serve.appends import Appender
from trails.store.contract import QuadStore

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The figures of one server."""

    def __init__(self, store: QuadStore, appender: Appender) -> None:
        self.registry = CollectorRegistry()
        """Where other parts register their own."""
        ProcessCollector(registry=self.registry)
        self.registry.register(_StoreFigures(store, appender))
        self._requests = Counter(
            "trails_requests", "Requests that were answered.", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "trails_request_seconds", "How long requests took.", ("route",), buckets=_SECONDS, registry=self.registry
        )
        self.streams = Gauge("trails_event_streams", "Clients that follow events.", registry=self.registry)
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        key = (method, route, status)
        if key not in self._children:  # making the labels takes longer than counting
            self._children[key] = self._requests.labels(method, route, str(status)), self._seconds.labels(route)
        requests, times = self._children[key]
        requests.inc()
        times.observe(seconds)

    def text(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        return generate_latest(self.registry)


class _StoreFigures(Collector):
    """Figures that the store and its writer have at hand."""

    def __init__(self, store: QuadStore, appender: Appender) -> None:
        self._store, self._appender = store, appender

    def collect(self) -> Iterator[Metric]:
        """Yield the figures as they are now."""
        store, appender = self._store, self._appender
        yield GaugeMetricFamily("trails_store_commit", "The number of the store's last commit.", store.number)
        yield GaugeMetricFamily("trails_log_lines", "Lines of the store's log.", store.log.reached.lines)
        yield GaugeMetricFamily("trails_appends_waiting", "Appends that wait to be written.", appender.waiting)
        yield CounterMetricFamily("trails_append_commits", "Commits that stored appends.", appender.commits)
        yield CounterMetricFamily("trails_appends", "Appends that were stored.", appender.appends)
