"""Partitions by store, as the guide's page on operations shows them in SQL: its blocks are what runs here."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator

import psycopg
import pytest

import trails
from tests.support import clusters
from tests.support.clusters import Cluster
from tests.support.commands import invoke, ok
from trails import InvalidInput
from trails.cli.help import read_page
from trails.store.postgres import status

PARTITION, ADD, RETIRE = re.findall(
    r"^```sql\n(.*?)^```$", read_page("postgres-operations").text, re.MULTILINE | re.DOTALL
)
Sql = Callable[[str], None]


@pytest.fixture
def place(cluster: Cluster, url: str) -> Iterator[Callable[[str], str]]:
    """The URL of a store by its name, in a database of this test alone."""
    with clusters.database(cluster) as name:
        yield lambda store: cluster.url(store).replace("///postgres?", f"///{name}?")


@pytest.fixture
def psql(cluster: Cluster, place: Callable[[str], str]) -> Sql:
    """What runs SQL in that database, as its owner."""
    database = place("any").partition(":///")[2].partition("?")[0]
    command = [
        f"{cluster.programs}/psql",
        "-qX",
        "-v",
        "ON_ERROR_STOP=1",
        "-h",
        str(cluster.folder),
        "-U",
        "postgres",
        database,
    ]

    def run(statements: str) -> None:
        done = subprocess.run(command, input=statements, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr

    return run


def write(store: trails.Repository, session_id: str, *texts: str) -> None:
    session = store.create(id=session_id)
    for text in texts:
        session.append("user", text)
        session.persist()


def partitions(place: str) -> dict[str, int]:
    """Return how many records are in each partition."""
    counted = "SELECT CAST(CAST(tableoid AS regclass) AS text), count(*) FROM trails_records GROUP BY 1"
    with psycopg.connect(place.rpartition("&store=")[0]) as owner:
        return dict(owner.execute(counted).fetchall())


def test_an_open_process_goes_on_while_its_table_is_partitioned(place: Callable[[str], str], psql: Sql) -> None:
    with trails.open(place("team"), create=True) as store:
        write(store, "plan", "Plan a trip")
        psql(PARTITION)
        write(store, "later", "By train")
        store.redact("plan", 0)
        store.maintenance.vacuum()
        assert store.verify().ok
    with trails.open(place("team"), thin=True) as worker:
        assert [turn.text for turn in worker.load("later").turns] == ["By train"]
    assert set(partitions(place("team"))) == {"trails_records_rest"}


def test_a_new_store_has_a_partition_and_is_taken_out_with_it(place: Callable[[str], str], psql: Sql) -> None:
    for name in ("team", "team-q4"):
        trails.open(place(name), create=True).close()
    psql(PARTITION)
    psql(ADD)
    for name in ("team", "team-q4"):
        with trails.open(place(name)) as store:
            write(store, "plan", f"Plan of {name}", "And on")
            assert store.verify().ok
    assert partitions(place("team")) == {"trails_records_rest": 2, "trails_records_q4": 2}
    assert status.status_of(place("team")).log.bytes > 0
    psql(RETIRE)
    with pytest.raises(InvalidInput, match="there is no Trails store"):
        trails.open(place("team-q4"))
    with trails.open(place("team")) as store:
        assert [turn.text for turn in store.load("plan").turns] == ["Plan of team", "And on"]
        assert store.verify().ok


def test_roles_work_on_partitions_once_their_grants_ran_again(place: Callable[[str], str], psql: Sql) -> None:
    for name in ("team", "team-q4"):
        with trails.open(place(name), create=True) as store:
            write(store, "plan", f"Plan of {name}")
    grants = ok(invoke("store", "grants", "writer", "trails_tenant", "--only-this-store", store=place("team")))
    try:
        psql(grants)
        psql(PARTITION)
        psql(ok(invoke("store", "grants", "writer", "trails_tenant", "--only-this-store", store=place("team"))))
        tenant = place("team").replace("user=postgres", "user=trails_tenant")
        with trails.open(tenant) as store:
            write(store, "later", "By train")
            assert store.verify().ok
        with psycopg.connect(tenant.rpartition("&store=")[0]) as connection:
            assert connection.execute("SELECT count(DISTINCT store) FROM trails_records").fetchone() == (1,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("UPDATE trails_records SET body = ''")
    finally:
        psql("DROP OWNED BY trails_tenant; DROP ROLE trails_tenant")
