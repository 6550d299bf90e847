"""A store that `pg_dump` saved and that was restored beside its original: one of its own once `trails store clone` ran."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import trails
from tests.support import clusters
from tests.support.clusters import Cluster, log_of
from tests.support.commands import invoke, ok_json
from tests.support.poolers import Pooler
from trails import StoreFailed
from trails.store.postgres import upkeep
from trails.store.postgres.address import parse
from trails.store.postgres.server import Server


@pytest.fixture
def restored(cluster: Cluster, url: str) -> Iterator[str]:
    """The URL of a store that was restored into another database than that of its original, which is at `url`."""
    with trails.open(url, create=True) as store:
        session = store.create(id="plan")
        session.append("user", "Plan a trip")
        session.persist()
    tool = ["-h", str(cluster.folder), "-U", "postgres"]
    dump = subprocess.run([f"{cluster.programs}/pg_dump", *tool, "postgres"], capture_output=True, check=True)
    with clusters.database(cluster) as name:
        psql = [f"{cluster.programs}/psql", "-qX", "-v", "ON_ERROR_STOP=1", *tool, name]
        subprocess.run(psql, input=dump.stdout, check=True, capture_output=True)
        yield url.replace(":///postgres?", f":///{name}?")


def append(place: str, text: str) -> None:
    with trails.open(place) as store:
        session = store.load("plan")
        session.append("user", text)
        session.persist()


def texts(place: str) -> list[str]:
    with trails.open(place) as store:
        assert store.verify().ok
        return [turn.text for turn in store.load("plan").turns]


def test_without_it_too_a_copy_in_another_database_has_an_index_of_its_own(
    restored: str, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "trails"):
        append(restored, "By bus")
        append(url, "By train")
        assert texts(restored) == ["Plan a trip", "By bus"]
        assert texts(url) == ["Plan a trip", "By train"]
    assert caplog.text == ""
    assert len(list((Path(os.environ["XDG_CACHE_HOME"]) / "trails").iterdir())) == 2


def test_the_name_of_an_index_is_that_of_its_server_and_database_whoever_asks_and_however(
    restored: str, url: str, pooler: Pooler, cluster: Cluster
) -> None:
    standby = clusters.standby_of(cluster)
    try:
        places = [url, pooler.url(url), url.replace(f"{cluster.folder}", f"{standby.folder}"), restored]
        names = [cache_name(each) for each in places]
    finally:
        clusters.remove(standby)
    assert names[0] == names[1] != names[3]
    assert names[2] == f"{names[0]}-standby"


def cache_name(place: str) -> str:
    with closing(Server(parse(place))) as log:
        log.find()
        return log.cache_name()


def test_a_clone_and_its_original_go_on_each_with_its_own_index(
    restored: str, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    done = upkeep.clone(restored)
    with caplog.at_level(logging.WARNING, "trails"):
        for text in ("one", "two"):
            append(restored, f"By bus {text}")
            append(url, f"By train {text}")
        assert texts(restored) == ["Plan a trip", "By bus one", "By bus two"]
        assert texts(url) == ["Plan a trip", "By train one", "By train two"]
    assert caplog.text == ""
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "trails"
    assert {folder.name.partition("-")[0] for folder in cache.iterdir()} == {done.before, done.identity}


def test_a_clone_has_the_history_of_its_original_and_none_of_its_readers(restored: str, url: str) -> None:
    with trails.open(url) as original:
        head, number = original.load("plan").head, original.store.number
    with psycopg.connect(restored.rpartition("&store=")[0], autocommit=True) as owner:
        readers = "SELECT count(*) FROM trails_readers WHERE store = (SELECT id FROM trails_stores WHERE name = %s)"
        name = restored.rpartition("=")[2]
        assert owner.execute(readers, (name,)).fetchone() == (1,)
        upkeep.clone(restored)
        assert owner.execute(readers, (name,)).fetchone() == (0,)
    with trails.open(restored) as store:
        assert (store.load("plan").head, store.store.number) == (head, number)
        assert store.verify().ok


def test_a_copy_may_be_cloned_again(restored: str) -> None:
    first = ok_json(invoke("store", "clone", "--json", store=restored))
    second = ok_json(invoke("store", "clone", "--json", store=restored))
    assert second["before"] == first["identity"] != second["identity"]
    assert texts(restored) == ["Plan a trip"]


def test_a_copy_that_a_process_has_open_is_not_cloned(restored: str) -> None:
    with trails.open(restored) as store:
        with pytest.raises(StoreFailed, match=r"open in another process.*Close it there first"):
            upkeep.clone(restored)
        assert log_of(store.store).server.identity == log_of(store.store).server.id
    upkeep.clone(restored)


def test_a_store_in_a_folder_has_no_identity_to_draw(tmp_path: Path) -> None:
    place = tmp_path / "a.trails"
    trails.open(place, create=True).close()
    for command in (("clone",), ("grants", "reader", "bob")):
        done = invoke("store", *command, store=place)
        assert (done.exit_code, "for a store in PostgreSQL" in done.stderr) == (2, True)
