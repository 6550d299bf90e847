"""The roles that `trails store grants` makes: each can do what its kind needs, and nothing else."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import sql

import trails
from tests.support.clusters import Cluster
from tests.support.commands import invoke, ok, ok_json
from trails import InvalidInput, StoreFailed
from trails.store.postgres import upkeep
from trails.store.postgres.roles import COLUMNS

ROLES = ("reader", "auditor", "writer", "redactor")


def grant(cluster: Cluster, url: str, kind: str, role: str, *options: str) -> str:
    """Run in `psql` what `trails store grants` prints; return the URL with which the role opens the store."""
    printed = ok(invoke("store", "grants", kind, role, *options, store=url))
    psql = [f"{cluster.programs}/psql", "-qX", "-v", "ON_ERROR_STOP=1", "-h", str(cluster.folder), "-U", "postgres"]
    done = subprocess.run(psql, input=printed, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return url.replace("user=postgres", f"user={role}")


@pytest.fixture
def as_owner(url: str, cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    """The database as its owner sees it; afterwards no role of a test is left there, and no row-level security."""
    with psycopg.connect(url.rpartition("&store=")[0], autocommit=True) as owner:
        yield owner
        for (role,) in owner.execute(
            "SELECT rolname FROM pg_roles WHERE rolname LIKE 'trails%' OR rolname LIKE '%''s %'"
        ).fetchall():
            owner.execute(
                sql.SQL("REASSIGN OWNED BY {0} TO postgres; DROP OWNED BY {0}; DROP ROLE {0}").format(
                    sql.Identifier(role)
                )
            )
        for table in COLUMNS:
            owner.execute(sql.SQL("ALTER TABLE IF EXISTS {} DISABLE ROW LEVEL SECURITY").format(sql.Identifier(table)))


@pytest.fixture
def as_role(cluster: Cluster, url: str, as_owner: psycopg.Connection[Any]) -> dict[str, str]:
    """The store as roles open it, by kind."""
    fill(url, "Plan a trip")
    return {kind: grant(cluster, url, kind, f"trails_{kind}") for kind in ROLES}


def fill(url: str, text: str) -> None:
    with trails.open(url, create=True) as store:
        session = store.create(id="plan")
        session.append("user", text)
        session.persist()


@pytest.mark.parametrize("kind", ["reader", "auditor"])
def test_a_reader_and_an_auditor_read_and_cannot_write(as_role: dict[str, str], kind: str) -> None:
    with trails.open(as_role[kind]) as store:
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


def test_a_writer_appends_and_cannot_take_text_out_of_the_log(as_role: dict[str, str]) -> None:
    with trails.open(as_role["writer"]) as store:
        session = store.load("plan")
        session.append("user", "the secret is 4711")
        assert session.persist() == 1
        for take_out in (partial(store.redact, "plan", 1), partial(store.delete, "plan"), store.maintenance.vacuum):
            with pytest.raises(StoreFailed, match="no right to do that"):
                take_out()
        assert session.append("user", "and more").index == 2
        assert session.persist() == 1
    with trails.open(as_role["reader"]) as store:
        assert [turn.content for turn in store.load("plan")] == ["Plan a trip", "the secret is 4711", "and more"]


def test_a_redactor_redacts_deletes_and_vacuums_and_nothing_is_left(
    as_role: dict[str, str], as_owner: psycopg.Connection[Any]
) -> None:
    with trails.open(as_role["redactor"]) as store:
        session = store.load("plan")
        session.append("user", "the secret is 4711")
        session.persist()
        store.redact("plan", 1)
        store.create(id="other").persist()
        store.delete("other")
        store.maintenance.vacuum()
        assert store.verify().ok
    with trails.open(as_role["reader"]) as store:
        assert [turn.text for turn in store.load("plan")] == ["Plan a trip", ""]
        assert store.verify().ok


def test_a_redactor_takes_out_the_snapshots_that_earlier_versions_kept(
    cluster: Cluster, url: str, as_owner: psycopg.Connection[Any]
) -> None:
    fill(url, "the secret is 4711")
    as_owner.execute("CREATE TABLE trails_snapshots (store text, part bytea)")
    try:
        as_owner.execute("INSERT INTO trails_snapshots SELECT id, '4711' FROM trails_stores")
        others = count(as_owner, "trails_snapshots") - 1
        with trails.open(grant(cluster, url, "redactor", "trails_redactor")) as store:
            store.redact("plan", 0)
        assert count(as_owner, "trails_snapshots") == others
    finally:
        as_owner.execute("DROP TABLE trails_snapshots")


def count(connection: psycopg.Connection[Any], table: str) -> int:
    (number,) = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone() or (0,)
    return int(number)


SPOILING = {
    "rewrites a record": "UPDATE trails_records SET body = ''",
    "rewrites what a record says": "UPDATE trails_records SET leaves = ''",
    "rewrites a digest": "UPDATE trails_records SET digest = ''",
    "deletes records": "DELETE FROM trails_records",
    "empties the log": "TRUNCATE trails_records",
    "drops the log": "DROP TABLE trails_records",
    "deletes a store": "DELETE FROM trails_stores",
    "renames a store": "UPDATE trails_stores SET name = 'mine'",
    "makes a store": "INSERT INTO trails_stores SELECT * FROM trails_stores",
    "clones a store": "ALTER TABLE trails_stores ADD COLUMN identity text",
    "lifts row-level security": "ALTER TABLE trails_records DISABLE ROW LEVEL SECURITY",
}
ADDING = {
    "appends": "INSERT INTO trails_records SELECT * FROM trails_records WHERE false",
    "moves the head": "UPDATE trails_stores SET head = head",
}
ERASING = {"rewrites a record"}


@pytest.mark.parametrize("kind", ROLES)
def test_a_role_can_do_in_sql_what_its_kind_needs_and_nothing_else(as_role: dict[str, str], kind: str) -> None:
    may = {"writer": set(ADDING), "redactor": {*ADDING, *ERASING}}.get(kind, set())
    done = set()
    for what, statement in (ADDING | SPOILING).items():
        with psycopg.connect(as_role[kind].rpartition("&store=")[0]) as connection:
            with suppress(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
                done.add(what)
            connection.rollback()
    assert done == may


def test_a_role_that_gets_another_kind_loses_what_it_had_beyond_it(
    cluster: Cluster, url: str, as_role: dict[str, str]
) -> None:
    grant(cluster, url, "auditor", "trails_redactor")
    with psycopg.connect(as_role["redactor"].rpartition("&store=")[0]) as connection:
        for statement in (*ADDING.values(), "UPDATE trails_records SET body = ''", "DELETE FROM trails_readers"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
            connection.rollback()


def test_an_owner_that_is_no_superuser_makes_stores_and_takes_them_out(
    cluster: Cluster, url: str, as_role: dict[str, str], as_owner: psycopg.Connection[Any]
) -> None:
    owned = grant(cluster, url, "owner", "trails_owner")
    other = f"{owned}-more"
    trails.open(other, create=True).close()
    assert ok_json(invoke("store", "clone", "--json", store=other))["identity"]
    assert invoke("store", "discard", other).exit_code == 0
    with trails.open(owned) as store:
        store.delete("plan")
        store.maintenance.vacuum()
    with trails.open(as_role["reader"], read_only=True) as store:
        assert "plan" not in store


def test_the_name_of_a_role_may_be_any_that_postgresql_takes(
    cluster: Cluster, url: str, as_owner: psycopg.Connection[Any]
) -> None:
    fill(url, "Plan a trip")
    name = 'Bob\'s $trails$ "best" role'
    grant(cluster, url, "reader", name, "--only-this-store")
    assert as_owner.execute("SELECT count(*) FROM pg_roles WHERE rolname = %s", (name,)).fetchone() == (1,)


# --- tenants


@pytest.fixture
def tenants(cluster: Cluster, url: str, as_role: dict[str, str]) -> tuple[str, str]:
    """Two stores in one database, each as its own writer opens it; `as_role` may use both."""
    fill(f"{url}-two", "Plan a heist")
    one = grant(cluster, url, "writer", "trails_one", "--only-this-store")
    two = grant(cluster, f"{url}-two", "writer", "trails_two", "--only-this-store")
    return one, f"{two}-two" if not two.endswith("-two") else two


def test_a_tenant_works_in_its_own_store(tenants: tuple[str, str], as_role: dict[str, str]) -> None:
    for place, first in zip(tenants, ("Plan a trip", "Plan a heist"), strict=True):
        with trails.open(place) as store:
            session = store.load("plan")
            session.append("user", "By train")
            assert session.persist() == 1
            assert [turn.text for turn in session] == [first, "By train"]
            assert store.verify().ok
        assert [check.name for check in upkeep.look(place) if not check.ok] == ["durability"]  # tests sync nothing


def test_a_tenant_works_thin_in_its_own_store(tenants: tuple[str, str]) -> None:
    for place, first in zip(tenants, ("Plan a trip", "Plan a heist"), strict=True):
        with trails.open(place, thin=True) as worker:
            session = worker.load("plan")
            session.append("user", "By train")
            assert session.persist() == 1
            assert [turn.text for turn in worker.load("plan")] == [first, "By train"]


def test_a_tenant_sees_neither_the_sessions_nor_the_name_of_another(
    tenants: tuple[str, str], cluster: Cluster, url: str
) -> None:
    one, two = tenants
    with pytest.raises(InvalidInput, match=r"sees only the stores that it was granted.*trails store grants"):
        trails.open(two.replace("trails_two", "trails_one"))
    with psycopg.connect(one.rpartition("&store=")[0]) as connection:
        assert connection.execute("SELECT name FROM trails_stores").fetchall() == [(url.rpartition("=")[2],)]
        for table in ("trails_records", "trails_readers", "trails_subjects"):
            assert connection.execute(
                sql.SQL("SELECT count(DISTINCT store) FROM {}").format(sql.Identifier(table))
            ).fetchone() == (1,)
        assert connection.execute("UPDATE trails_stores SET head = head").rowcount == 1
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute(
                "INSERT INTO trails_records SELECT 'another', 99, 'x', 0, '', '', '', '', NULL, now() FROM trails_stores"
            )


def test_a_tenant_finds_the_id_of_no_other_store_in_the_catalogs_of_the_database(
    tenants: tuple[str, str], as_owner: psycopg.Connection[Any]
) -> None:
    ids = [each for (each,) in as_owner.execute("SELECT id FROM trails_stores").fetchall()]
    assert len(ids) > 1
    with psycopg.connect(tenants[0].rpartition("&store=")[0]) as connection:
        policies = connection.execute("SELECT qual, with_check, policyname FROM pg_policies").fetchall()
    assert policies
    assert [each for each in ids if each in f"{policies}"] == []


def test_grants_after_a_partitioning_leave_a_role_no_right_on_the_partitions(
    cluster: Cluster, url: str, as_role: dict[str, str], as_owner: psycopg.Connection[Any]
) -> None:
    as_owner.execute(_PARTITION)
    try:
        grant(cluster, url, "reader", "trails_redactor", "--only-this-store")
        with psycopg.connect(as_role["redactor"].rpartition("&store=")[0]) as connection:
            assert connection.execute("SELECT count(DISTINCT store) FROM trails_records").fetchone() == (1,)
            for statement in ("SELECT body FROM trails_records_rest", "UPDATE trails_records_rest SET body = ''"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
                connection.rollback()
        owned = grant(cluster, url, "owner", "trails_owner")
        with psycopg.connect(owned.rpartition("&store=")[0]) as connection:
            connection.execute("ALTER TABLE trails_records DETACH PARTITION trails_records_rest")
            connection.rollback()
    finally:
        as_owner.execute(_UNPARTITION)


_PARTITION = """
BEGIN;
ALTER TABLE trails_records RENAME TO trails_records_rest;
CREATE TABLE trails_records (LIKE trails_records_rest INCLUDING DEFAULTS INCLUDING STORAGE,
  PRIMARY KEY (store, number), UNIQUE (store, commit_id)) PARTITION BY LIST (store);
ALTER TABLE trails_records ATTACH PARTITION trails_records_rest DEFAULT;
COMMIT;
"""
_UNPARTITION = """
BEGIN;
ALTER TABLE trails_records DETACH PARTITION trails_records_rest;
DROP TABLE trails_records;
ALTER TABLE trails_records_rest RENAME TO trails_records;
COMMIT;
"""


def test_a_dump_by_a_tenant_is_refused_rather_than_cut(
    tenants: tuple[str, str], cluster: Cluster, url: str, as_owner: psycopg.Connection[Any]
) -> None:
    dump = [f"{cluster.programs}/pg_dump", "-h", str(cluster.folder), "-t", "trails_records", "-U"]
    done = subprocess.run([*dump, "trails_one", "postgres"], capture_output=True, text=True, check=False)
    assert (done.returncode, "row-level security" in done.stderr) == (1, True)
    subprocess.run([*dump, "postgres", "postgres"], capture_output=True, check=True)


def test_roles_that_were_granted_all_stores_keep_them_when_another_becomes_a_tenant(
    tenants: tuple[str, str], as_role: dict[str, str]
) -> None:
    for place in as_role.values():
        for store_name in ("", "-two"):
            with trails.open(f"{place}{store_name}", read_only=True) as store:
                assert "plan" in store


def test_grants_that_were_printed_before_others_ran_hold_as_well(
    cluster: Cluster, url: str, as_owner: psycopg.Connection[Any]
) -> None:
    fill(url, "Plan a trip")
    other = f"{url}-more"
    fill(other, "Plan a dinner")
    as_owner.execute("CREATE ROLE trails_tenant LOGIN")
    printed = [
        ok(invoke("store", "grants", *asked, store=other))
        for asked in (
            ("writer", "trails_before"),
            ("reader", "trails_tenant", "--only-this-store"),
            ("reader", "trails_after"),
        )
    ]
    for each in printed:
        as_owner.execute(each.encode())
    for role, stores in (
        ("trails_before", [True, True]),
        ("trails_after", [True, True]),
        ("trails_tenant", [False, True]),
    ):
        seen = []
        for place in (url, other):
            try:
                with trails.open(place.replace("user=postgres", f"user={role}"), read_only=True) as store:
                    seen.append("plan" in store)
            except InvalidInput:
                seen.append(False)
        assert (role, seen) == (role, stores)


def test_an_owner_without_the_right_to_make_roles_grants_existing_ones(
    cluster: Cluster, url: str, as_role: dict[str, str], as_owner: psycopg.Connection[Any]
) -> None:
    owned = grant(cluster, url, "owner", "trails_owner")
    with psycopg.connect(owned.rpartition("&store=")[0], autocommit=True) as connection:
        connection.execute(ok(invoke("store", "grants", "reader", "trails_writer", store=owned)).encode())
    writer = as_role["writer"].rpartition("&store=")[0]
    with psycopg.connect(writer) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("INSERT INTO trails_records SELECT * FROM trails_records")


def test_the_owner_of_the_tables_is_made_nothing_less_by_grants(
    cluster: Cluster, url: str, as_role: dict[str, str], as_owner: psycopg.Connection[Any]
) -> None:
    grant(cluster, url, "owner", "trails_owner")
    with pytest.raises(psycopg.errors.RaiseException, match="this role owns the tables"):
        as_owner.execute(ok(invoke("store", "grants", "reader", "trails_owner", store=url)).encode())
    as_owner.execute("ROLLBACK")


def test_a_tenant_may_be_granted_a_second_store_and_then_all(
    tenants: tuple[str, str], cluster: Cluster, url: str
) -> None:
    one, _ = tenants
    fill(f"{url}-three", "Plan a party")

    def seen() -> set[str]:
        with psycopg.connect(one.rpartition("&store=")[0]) as connection:
            return {name for (name,) in connection.execute("SELECT name FROM trails_stores").fetchall()}

    name = url.rpartition("=")[2]
    grant(cluster, f"{url}-two", "writer", "trails_one", "--only-this-store")
    assert seen() == {name, f"{name}-two"}
    grant(cluster, url, "writer", "trails_one")
    assert seen() >= {name, f"{name}-two", f"{name}-three"}
    grant(cluster, url, "writer", "trails_one", "--only-this-store")
    assert {f"{name}-three"} & seen() == set()


# --- who reads


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


def test_doctor_finds_nothing_wrong_with_any_kind_of_role(url: str, as_role: dict[str, str]) -> None:
    checks = [{each.name: each for each in upkeep.look(place)} for place in (*as_role.values(), url)]
    assert [each["readers"].message for each in checks if not each["readers"].ok] == []
    found = [each["rights"] for each in checks]
    assert [each.message for each in found] == [
        "this user may read",
        "this user may read",
        "this user may read and append",
        "this user may read, append and take out",
        "this user may read, append and take out",
    ]
    assert all(each.ok for each in found)
