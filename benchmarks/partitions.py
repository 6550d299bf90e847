"""What a table of records costs as it grows, and what partitions do: `python -m benchmarks.partitions [--rows N]`.

Rows are made in SQL, of the size of a record of one turn, so that two million take minutes and not hours. The statements that are
measured are those of the store; those that partition are the blocks of the guide's page on operations.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final

import psycopg

import trails
from tests.support import clusters
from tests.support.clusters import Cluster
from trails.cli.help import read_page
from trails.store.log.records import Row
from trails.store.postgres import address
from trails.store.postgres.server import Server

_ROUNDS: Final = 5
_APPENDS: Final = 40
_SETTINGS: Final = ("fsync=on", "shared_buffers=256MB", "max_wal_size=4GB", "checkpoint_timeout=15min")
_FILL: Final = """INSERT INTO trails_records (store, number, commit_id, flags, leaves, body, body_digest, digest)
    SELECT %(store)s, n, md5(n || %(store)s), 0, decode(repeat(md5(n || 'l'), 3), 'hex'),
      decode((SELECT string_agg(md5(n || '-' || part), '') FROM generate_series(1, 17) AS part), 'hex'),
      decode(repeat(md5(n || 'b'), 2), 'hex'), decode(repeat(md5(n || 'd'), 2), 'hex')
    FROM generate_series(1, %(rows)s) AS n"""
_REACHED: Final = """UPDATE trails_stores SET head = %(rows)s, indexed = %(rows)s,
    digest = (SELECT digest FROM trails_records WHERE store = %(store)s AND number = %(rows)s) WHERE id = %(store)s"""


def measure(cluster: Cluster, rows: int) -> dict[str, float]:
    """Return seconds, bytes and ratios of a table with two stores of so many records, one of them in a partition of its own."""
    partition, add, _ = re.findall(
        r"^```sql\n(.*?)^```$", read_page("postgres-operations").text, re.MULTILINE | re.DOTALL
    )
    with psycopg.connect(f"host={cluster.folder} user=postgres dbname=postgres", autocommit=True) as owner:
        _fill(owner, cluster.url("team"), rows)
        trails.open(cluster.url("empty"), create=True).close()
        owner.execute("VACUUM ANALYZE trails_records")
        sizes = owner.execute(
            "SELECT pg_table_size('trails_records'), pg_indexes_size('trails_records')"
        ).fetchone() or (0, 0)
        found: dict[str, float] = {"bytes a record": sizes[0] / rows, "bytes a record in indexes": sizes[1] / rows}
        found["append, against an empty store"] = _ratio(cluster.url("team"), cluster.url("empty"))
        found["partition the table, s"] = _seconds(lambda: owner.execute(partition.encode()))
        trails.open(cluster.url("team-q4"), create=True).close()
        found["add a partition, s"] = _seconds(lambda: owner.execute(add.encode()))
        _fill(owner, cluster.url("team-q4"), rows)
        owner.execute("VACUUM ANALYZE trails_records")
        found["append in a partition, against an empty store"] = _ratio(cluster.url("team-q4"), cluster.url("empty"))
        found["drop a partition, s"] = _seconds(lambda: owner.execute("DROP TABLE trails_records_q4"))
        gone = "DELETE FROM trails_records WHERE store = (SELECT id FROM trails_stores WHERE name = 'team')"
        found["delete the same rows, s"] = _seconds(lambda: owner.execute(gone.encode()))
        found["and vacuum, s"] = _seconds(lambda: owner.execute("VACUUM trails_records"))
        return found


def _fill(owner: psycopg.Connection[Any], url: str, rows: int) -> None:
    trails.open(url, create=True).close()
    (store,) = owner.execute("SELECT id FROM trails_stores WHERE name = %s", (url.rpartition("=")[2],)).fetchone() or (
        "",
    )
    owner.execute(_FILL, {"store": store, "rows": rows})
    owner.execute(_REACHED, {"store": store, "rows": rows})


def _ratio(full: str, empty: str) -> float:
    """Return how many times as long an append takes in one store as in another, measured in turns."""
    times: dict[str, list[float]] = {full: [], empty: []}
    for _ in range(_ROUNDS):
        for url in times:
            times[url] += _appends(url)
    return statistics.median(times[full]) / statistics.median(times[empty])


def _appends(url: str) -> list[float]:
    with closing(Server(address.parse(url))) as log:
        end = log.find()
        number, digest, times = end.number, end.digest, []
        for _ in range(_APPENDS):
            leaves, body, of_body, of_record = (secrets.token_bytes(size) for size in (48, 272, 32, 32))
            row = Row(number + 1, secrets.token_hex(16), 0, leaves, body, of_body, of_record, None)
            begun = time.perf_counter()
            written = log.append_at_once([row], number, digest)
            times.append(time.perf_counter() - begun)
            assert written
            number, digest = row.number, row.digest
        return times


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.partitions", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="records of each of two stores (default 2,000,000)")
    asked = parser.parse_args(arguments)
    cluster = clusters.make(*_SETTINGS)
    try:
        with tempfile.TemporaryDirectory(prefix="trails-bench-") as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            for name, value in measure(cluster, asked.rows).items():
                print(f"{name}: {value:,.2f}")
    finally:
        clusters.remove(cluster)


if __name__ == "__main__":
    main()
