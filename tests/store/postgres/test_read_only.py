"""A store in PostgreSQL is opened to be read by whoever may do no more, and nothing is written to its log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import psycopg
import pytest

import trails
from tests.support.clusters import Cluster, log_of
from trails import InvalidInput, StoreReadOnly
from trails.history.removal import deletion

_TABLES = "trails_stores, trails_records"


@pytest.fixture
def reader(cluster: Cluster, url: str) -> str:
    """The address of a store with one session, for a role that may SELECT and nothing else."""
    with trails.open(url, create=True) as store:
        store.create(id="plan").persist()
    with psycopg.connect(url.rpartition("&store=")[0], autocommit=True) as owner:
        if owner.execute("SELECT 1 FROM pg_roles WHERE rolname = 'only_reads'").fetchone():
            owner.execute("DROP OWNED BY only_reads")
            owner.execute("DROP ROLE only_reads")
        owner.execute("CREATE ROLE only_reads LOGIN")
        owner.execute(f"GRANT SELECT ON {_TABLES} TO only_reads".encode())
    return url.replace("user=postgres", "user=only_reads")


def _append(store: trails.Repository, text: str) -> None:
    session = store.load("plan")
    session.append("user", text)
    session.persist()


def _texts(store: trails.Repository, *, fresh: bool = False) -> list[str]:
    return [turn.text for turn in store.load("plan", fresh=fresh).turns]


def test_what_others_commit_is_seen_after_a_refresh_and_with_a_fresh_load(url: str, reader: str) -> None:
    with trails.open(url) as writer, trails.open(reader, read_only=True) as store:
        assert store.read_only
        _append(writer, "one")
        assert _texts(store) == []
        assert store.refresh()
        assert _texts(store) == ["one"]
        assert not store.refresh()
        _append(writer, "two")
        assert _texts(store, fresh=True) == ["one", "two"]
        assert store.verify().ok


def test_an_index_that_is_there_is_used_again(url: str, reader: str) -> None:
    with trails.open(reader, read_only=True) as store:
        name = log_of(store.store).server.id, getattr(store.store, "beside", None)
    with trails.open(reader, read_only=True) as store:
        assert (log_of(store.store).server.id, getattr(store.store, "beside", None)) == name


@pytest.mark.parametrize("who", ["a reader", "the owner"])
def test_whatever_writes_is_refused_and_the_log_stays_as_it_was(url: str, reader: str, who: str) -> None:
    with trails.open(reader if who == "a reader" else url, read_only=True) as store:
        session = store.load("plan")
        writes: list[Callable[[], object]] = [
            lambda: session.append("user", "one"),
            lambda: store.delete("plan"),
            lambda: store.set_label("plan", "trip"),
            lambda: store.create(id="other"),
            store.maintenance.vacuum,
            lambda: store.redact("plan", 0),
            store.store.snapshot,  # type: ignore[attr-defined]
        ]
        for write in writes:
            with pytest.raises(StoreReadOnly, match="read_only=True"):
                write()
    with trails.open(url) as store:
        assert store.store.number == 1


def test_a_deletion_that_was_cut_short_is_left_to_whoever_writes(
    url: str, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, trails.open(url) as writer:
        writer.create(id="gone").persist()
        session = writer.load("gone")
        session.append("user", "text")
        session.persist()
        patch.setattr(deletion, "sweep_pending", lambda _: 0)
        writer.delete("gone")
        number = writer.store.number
    with trails.open(reader, read_only=True) as store:
        assert "gone" not in store
        assert store.store.number == number
        assert "plan" in store
    with trails.open(url) as writer:
        assert writer.store.number > number, "its graph was swept"
        assert writer.verify().ok


@pytest.mark.parametrize("opened", [partial(trails.open, create=True), partial(trails.open, record_reads=True)])
def test_what_cannot_go_with_only_reading_is_refused(url: str, opened: Callable[..., object]) -> None:
    trails.open(url, create=True).close()
    with pytest.raises(InvalidInput, match="read_only=True"):
        opened(url, read_only=True)


def test_a_store_that_is_not_there_is_not_made(url: str) -> None:
    with pytest.raises(InvalidInput, match="there is no Trails store"):
        trails.open(url, read_only=True)
