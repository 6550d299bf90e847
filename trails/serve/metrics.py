"""What is counted of a server, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from trails.errors import StoreFailed
from trails.serve.appends import Appender
from trails.store.contract import QuadStore
from trails.store.embedded import EmbeddedStore
from trails.store.postgres.figures import figures_of, seconds_since
from trails.store.postgres.log import PostgresLog, folder_of
from trails.store.postgres.server import Server
from trails.store.postgres.status import snapshot_age

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The figures of one server."""

    def __init__(self, store: QuadStore, appender: Appender) -> None:
        self.registry = CollectorRegistry()
        """Where other parts register their own."""
        ProcessCollector(registry=self.registry)
        self.registry.register(_StoreFigures(store, appender))
        if isinstance(store, EmbeddedStore) and isinstance(store.commits, PostgresLog):
            self.registry.register(_DatabaseFigures(store, store.commits.server))
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
        yield _gauge("trails_store_commit", "The number of the store's last commit.", store.number)
        yield _gauge("trails_log_lines", "Lines of the store's log.", store.log.reached.lines)
        yield _gauge("trails_appends_waiting", "Appends that wait to be written.", appender.waiting)
        yield CounterMetricFamily("trails_append_commits", "Commits that stored appends.", appender.commits)
        yield CounterMetricFamily("trails_appends", "Appends that were stored.", appender.appends)


class _DatabaseFigures(Collector):
    """Figures that a store's database is asked for, over a connection that no commit waits for."""

    def __init__(self, store: QuadStore, server: Server) -> None:
        self._store, self._server = store, server

    def collect(self) -> Iterator[Metric]:
        """Yield the figures as they are now; without the database, that it is away."""
        number = self._store.number
        try:
            with closing(self._server.another()) as asked:
                log, behind = figures_of(asked, asked.id), seconds_since(asked, asked.id, [number])
        except StoreFailed:
            yield _gauge("trails_database_up", "Whether the store's database answers.", 0)
            return
        yield _gauge("trails_database_up", "Whether the store's database answers.", 1)
        yield _gauge(
            "trails_store_lag_commits", "Commits that this server does not have yet.", max(0, log.commits - number)
        )
        yield _gauge(
            "trails_store_lag_seconds", "Seconds since the first of these was logged.", behind.get(number, 0.0)
        )
        yield _gauge(
            "trails_commits_waiting", "Transactions that wait for a store's lock in the database.", log.waiting
        )
        yield _gauge(
            "trails_oldest_transaction_seconds", "The age of the database's oldest transaction.", log.oldest_seconds
        )
        yield _gauge("trails_records_bytes", "Bytes of the records of all stores of the database.", log.bytes)
        if log.replayed_seconds is not None:
            yield _gauge("trails_replayed_seconds", "The age of a standby's newest transaction.", log.replayed_seconds)
        commits, seconds = snapshot_age(folder_of(self._server.cache_name()), log.commits)
        if commits is not None and seconds is not None:
            yield _gauge(
                "trails_snapshot_commits", "Commits since this machine's newest snapshot of an index.", commits
            )
            yield _gauge("trails_snapshot_seconds", "Seconds since it was made.", seconds)


def _gauge(name: str, told: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, told, value)
