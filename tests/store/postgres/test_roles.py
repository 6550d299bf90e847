"""The roles that the guide shows: readers read, writers append, and only the owner takes anything out."""

from __future__ import annotations

import re
from functools import partial

import psycopg
import pytest

import trails
from tests.support.clusters import Cluster
from trails import StoreFailed
from trails.cli.guide import read_page


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


def test_a_writer_appends_and_keeps_snapshots_and_cannot_take_text_out_of_the_log(
    url: str, as_role: dict[str, str]
) -> None:
    with trails.open(as_role["writer"]) as store:
        session = store.load("plan")
        session.append("user", "the secret is 4711")
        assert session.persist() == 1
        assert store.store.snapshot() == 2  # type: ignore[attr-defined]
        for take_out in (partial(store.redact, "plan", 1), partial(store.delete, "plan")):
            with pytest.raises(StoreFailed, match="no right to do that"):
                take_out()
        assert session.append("user", "and more").index == 2
        assert session.persist() == 1
    with trails.open(as_role["reader"]) as store:
        assert [turn.content for turn in store.load("plan")] == ["Plan a trip", "the secret is 4711", "and more"]
