"""`trails store status` and a server's `/metrics`: how far behind a machine is, who waits, and how old its snapshot is."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

import trails
from tests.support.clusters import Cluster
from tests.support.commands import invoke, ok, ok_json
from tests.support.poolers import Pooler
from tests.support.served import served
from trails import StoreFailed
from trails.store.embedded import EmbeddedStore
from trails.store.postgres import status, upkeep


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def behind(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store with five commits, of which this machine's copy has two."""
    with trails.open(url, create=True) as store:
        store.create(id="one").persist()
        store.create(id="two").persist()
    here = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    with trails.open(url) as other:
        for number in range(3):
            other.create(id=f"later-{number}").persist()
    monkeypatch.setenv("XDG_CACHE_HOME", str(here))
    return url


def logged_ago(url: str, number: int) -> float:
    with psycopg.connect(url.rpartition("&store=")[0]) as owner:
        found = owner.execute(
            """SELECT EXTRACT(EPOCH FROM now() - logged) FROM trails_records
               WHERE number = %s AND store = (SELECT id FROM trails_stores WHERE name = %s)""",
            (number, url.rpartition("=")[2]),
        ).fetchone()
    assert found is not None
    return float(found[0])


def test_a_machine_that_is_behind_is_told_by_how_much(behind: str) -> None:
    before = logged_ago(behind, 3)
    found = status.status_of(behind)
    assert (found.log.commits, found.log.is_standby, found.log.due) == (5, False, 0)
    assert found.here is not None
    assert (found.here.commits, found.here.lag_commits) == (2, 3)
    assert before <= found.here.lag_seconds <= logged_ago(behind, 3)
    assert sorted((each.commits, each.lag_commits, each.is_open) for each in found.readers) == [
        (2, 3, False),
        (5, 0, False),
    ]


def test_a_machine_that_has_all_has_no_lag(behind: str) -> None:
    trails.open(behind).close()
    found = status.status_of(behind)
    assert found.here is not None
    assert (found.here.lag_commits, found.here.lag_seconds) == (0, 0.0)
    assert "has all 5 commits" in ok(invoke("store", "status", store=behind))


def test_a_machine_without_a_copy_is_told_so_and_none_is_made(behind: str, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "cache")
    found = ok_json(invoke("store", "status", "--json", store=behind))
    assert (found["here"], found["snapshot_commits"], found["snapshot_seconds"]) == (None, None, None)
    assert found["log"]["commits"] == 5
    assert not (tmp_path / "cache").exists()


def test_the_age_of_a_snapshot_is_told_in_commits_and_seconds(url: str) -> None:
    with trails.open(url, create=True) as store:
        store.create(id="one").persist()
        assert isinstance(store.store, EmbeddedStore)
        store.store.snapshot()
        for number in range(3):
            store.create(id=f"later-{number}").persist()
        found = status.status_of(url)
    assert found.snapshot_commits == 3
    assert found.snapshot_seconds is not None
    assert 0 <= found.snapshot_seconds < 60


def test_commits_that_wait_for_the_stores_row_are_counted(url: str) -> None:
    with (
        trails.open(url, create=True) as one,
        trails.open(url) as two,
        psycopg.connect(url.rpartition("&store=")[0]) as held,
    ):
        held.execute("SELECT 1 FROM trails_stores WHERE name = %s FOR UPDATE", (url.rpartition("=")[2],))
        assert status.status_of(url).log.waiting == 0
        writers = [threading.Thread(target=store.create(id=name).persist) for name, store in (("a", one), ("b", two))]
        for writer in writers:
            writer.start()
        until(lambda: status.status_of(url).log.waiting == 2)
        assert status.status_of(url).log.oldest_seconds > 0
        held.rollback()
        for writer in writers:
            writer.join()
        assert status.status_of(url).log.waiting == 0


def test_a_pooler_is_asked_as_the_server_is(behind: str, pooler: Pooler) -> None:
    place = pooler.url(behind)
    found, direct = status.status_of(place), status.status_of(behind)
    assert (found.log.commits, found.log.bytes) == (direct.log.commits, direct.log.bytes) == (5, direct.log.bytes)
    assert "GRANT SELECT" in ok(invoke("store", "grants", "reader", "bob", store=place))


def figures(address: str) -> dict[str, float]:
    import httpx

    text = httpx.get(f"{address}metrics").text
    return {name: float(value) for name, value in re.findall(r"^(trails_\w+) (\S+)$", text, re.MULTILINE)}


def test_a_server_tells_its_lag_its_queue_and_its_snapshot(behind: str) -> None:
    with trails.open(behind) as store, served(store) as address:
        found = figures(address)
        assert (found["trails_database_up"], found["trails_store_lag_commits"], found["trails_store_lag_seconds"]) == (
            1,
            0,
            0,
        )
        assert found["trails_commits_waiting"] == 0
        assert found["trails_records_bytes"] > 8192
        assert "trails_replayed_seconds" not in found


def test_a_server_tells_how_far_it_is_behind(behind: str) -> None:
    with trails.open(behind, read_only=True) as store, served(store) as address:
        with psycopg.connect(behind.rpartition("&store=")[0], autocommit=True) as owner:
            # As a commit that has not come in: two records that the store's row does not have yet would be seen as none.
            owner.execute("UPDATE trails_stores SET head = 7 WHERE name = %s", (behind.rpartition("=")[2],))
        found = figures(address)
    assert (found["trails_database_up"], found["trails_store_lag_commits"]) == (1, 2)


@pytest.mark.slow
def test_a_server_whose_database_is_away_says_so_and_gives_its_other_figures(cluster: Cluster, url: str) -> None:
    with trails.open(url, create=True) as store, served(store) as address:
        cluster.stop("immediate")
        try:
            found = figures(address)
        finally:
            cluster.start()
        assert (found["trails_database_up"], found["trails_store_commit"]) == (0, 0)
        assert "trails_store_lag_commits" not in found


def test_a_database_that_is_away_has_no_status(url: str) -> None:
    with pytest.raises(StoreFailed):
        status.status_of(url.replace("host=", "host=/nowhere"))


def test_doctor_tells_the_lag_and_a_transaction_that_does_not_end(behind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = {each.name: each for each in upkeep.look(behind)}
    assert "this machine lacks 3 commits" in checks["copy"].message
    assert checks["queue"].ok
    monkeypatch.setattr(upkeep, "_LONGEST", 0.0)
    with psycopg.connect(behind.rpartition("&store=")[0]) as held:
        held.execute("SELECT 1")
        checks = {each.name: each for each in upkeep.look(behind)}
    assert not checks["queue"].ok
    assert "pg_stat_activity" in checks["queue"].remedy
