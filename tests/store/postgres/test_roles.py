"""The roles that the guide shows: readers read, writers append, and only the owner takes anything out."""

from __future__ import annotations

import platform
import re
from functools import partial

import psycopg
import pytest

import trails
from tests.support.clusters import Cluster
from trails import StoreFailed
from trails.cli.help import read_page
from trails.store.postgres import upkeep


@pytest.fixture
def as_role(cluster: Cluster, url: str) -> dict[str, str]:
    """The store as a reader and as a writer may open it, by role."""
    with trails.open(url, create=True) as store:
        session = store.create(id="plan")
        session.append("user", "Plan a trip")
        session.persist()
    (granted,) = re.findall(r"^```sql\n(.*?)^```$", read_page("postgres").text, re.MULTILINE | re.DOTALL)
    conninfo = url.rpartition("&store=")[0]
    with psycopg.connect(conninfo, autocommit=True) as owner:
        for role in ("trails_reader", "trails_writer"):
            if owner.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
                owner.execute(f"DROP OWNED BY {role}")
                owner.execute(f"DROP ROLE {role}")
        for statement in granted.split(";")[:-1]:
            owner.execute(statement)
        for role in ("trails_reader", "trails_writer"):
            owner.execute(f"ALTER ROLE {role} LOGIN")
    return {role: url.replace("user=postgres", f"user=trails_{role}") for role in ("reader", "writer")}


def test_a_reader_reads_and_cannot_write(as_role: dict[str, str]) -> None:
    with trails.open(as_role["reader"]) as store:
        assert [turn["content"] for turn in store.replay("plan")] == ["Plan a trip"]
        assert store.verify().ok
        session = store.load("plan")
        session.append("user", "By train")
        with pytest.raises(StoreFailed, match="permission denied"):
            session.persist()
        session.discard_pending()
        with pytest.raises(StoreFailed, match="permission denied"):
            store.delete("plan")
        assert "plan" in store


def test_a_writer_appends_and_cannot_take_text_out_of_the_log(url: str, as_role: dict[str, str]) -> None:
    with trails.open(as_role["writer"]) as store:
        session = store.load("plan")
        session.append("user", "the secret is 4711")
        assert session.persist() == 1
        for take_out in (partial(store.redact, "plan", 1), partial(store.delete, "plan")):
            with pytest.raises(StoreFailed, match="no right to do that"):
                take_out()
        assert session.append("user", "and more").index == 2
        assert session.persist() == 1
    with trails.open(as_role["reader"]) as store:
        assert [turn.content for turn in store.load("plan")] == ["Plan a trip", "the secret is 4711", "and more"]


def _registered(url: str) -> list[tuple[str, bool]]:
    with psycopg.connect(url.rpartition("&store=")[0]) as owner:
        found = owner.execute(
            """SELECT process, closed FROM trails_readers WHERE store = (SELECT id FROM trails_stores WHERE name = %s)
               ORDER BY heard""",
            (url.rpartition("=")[2],),
        ).fetchall()
    return [(process.rpartition(":")[0], closed) for process, closed in found]


def test_readers_and_writers_are_named_by_a_vacuum_where_they_are_granted_to_say_who_they_are(
    url: str, as_role: dict[str, str]
) -> None:
    with trails.open(as_role["writer"]), trails.open(as_role["reader"]), trails.open(url) as owner:
        owner.create(id="other").persist()
        assert [late.is_closed for late in owner.maintenance.vacuum().behind] == [False, False]
    assert _registered(url) == [(platform.node(), True)]  # the copy that they share


def test_a_reader_without_that_grant_reads_on_and_is_not_named(url: str, as_role: dict[str, str]) -> None:
    with psycopg.connect(url.rpartition("&store=")[0], autocommit=True) as database:
        database.execute("REVOKE ALL ON trails_readers FROM trails_reader")
    with trails.open(url) as owner, trails.open(as_role["reader"]) as reader:
        owner.create(id="other").persist()
        assert owner.maintenance.vacuum().behind == ()
        assert [record.id for record in reader.list(fresh=True)] == ["other", "plan"]


@pytest.mark.parametrize(
    ("role", "taken", "said"),
    [
        (
            "reader",
            "ALL ON trails_readers FROM trails_reader",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON trails_readers TO ROLE",
        ),
        ("reader", "SELECT ON trails_stores FROM trails_reader", "GRANT SELECT ON trails_stores TO ROLE"),
        ("writer", "UPDATE (due) ON trails_stores FROM trails_writer", "GRANT UPDATE (due) ON trails_stores TO ROLE"),
    ],
)
def test_doctor_says_which_grant_a_role_lacks_and_shows_no_password(
    url: str, as_role: dict[str, str], role: str, taken: str, said: str
) -> None:
    with psycopg.connect(url.rpartition("&store=")[0], autocommit=True) as owner:
        owner.execute(f"REVOKE {taken}".encode())
    found = upkeep.look(f"{as_role[role]}&password=hunter2")
    (wrong,) = [each for each in found if not each.ok and each.name != "durability"]
    assert f": {said};" in wrong.remedy
    assert "hunter2" not in str(found)


def test_doctor_finds_nothing_wrong_with_the_roles_of_the_guide(url: str, as_role: dict[str, str]) -> None:
    found = [{each.name: each for each in upkeep.look(place)}["rights"] for place in (*as_role.values(), url)]
    assert [each.message for each in found] == [
        "this user may read",
        "this user may read and append",
        "this user may read, append and take out",
    ]
    assert all(each.ok for each in found)
