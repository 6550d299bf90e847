"""What the owner of the database, or the network, can do to a store: it is said, and nothing is lost or made up."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import trails
from tests.support.clusters import Cluster
from trails import InvalidInput, StoreFailed
from trails.store.postgres import connection, link, log, thin

_SAID = ["Plan a trip", "Where to?", "Zermatt", "By train?"]


@pytest.fixture
def told(url: str) -> str:
    """The address of a store with a session of four turns, in four commits after the session's own."""
    with trails.open(url, create=True) as store:
        session = store.create(id="plan")
        session.persist()
        for content in _SAID:
            session.append("user", content)
            session.persist()
    return url


def as_owner(url: str, statement: str) -> None:
    """Run a statement, where `(mine)` stands for the id of the store."""
    conninfo, _, name = url.rpartition("&store=")
    with psycopg.connect(conninfo, autocommit=True) as owner:
        found = owner.execute("SELECT id FROM trails_stores WHERE name = %s", (name,)).fetchone()
        assert found
        owner.execute(statement.replace("(mine)", f"'{found[0]}'").encode())


def elsewhere(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Go on as a process on another machine does: without an index."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))


def test_an_empty_store_is_opened_again_on_the_index_that_it_has(url: str, tmp_path: Path) -> None:
    trails.open(url, create=True).close()
    for _ in range(3):
        trails.open(url).close()
    assert len(list((tmp_path / "cache" / "trails").iterdir())) == 1


_SWAP = """UPDATE trails_records a SET body = b.body, body_digest = b.body_digest FROM trails_records b
    WHERE a.store = (mine) AND b.store = (mine) AND a.number IN (3, 4) AND b.number = 7 - a.number"""
_BROKEN = [
    ("DELETE FROM trails_records WHERE store = (mine) AND number = 3", 3),
    ("DELETE FROM trails_records WHERE store = (mine) AND number = 5", 5),
    ("DELETE FROM trails_records WHERE store = (mine)", 1),
    ("UPDATE trails_records SET leaves = leaves || 'x' WHERE store = (mine) AND number = 2", 2),
    ("UPDATE trails_records SET commit_id = 'x' WHERE store = (mine) AND number = 4", 4),
    ("UPDATE trails_stores SET digest = 'x' WHERE id = (mine)", 5),
    (_SWAP, 3),
]


@pytest.mark.parametrize(("statement", "number"), _BROKEN)
def test_a_new_index_of_a_log_with_rows_altered_or_gone_is_refused_by_the_number_of_the_record(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, number: int
) -> None:
    as_owner(told, statement)
    elsewhere(monkeypatch, tmp_path / "other")
    with pytest.raises(StoreFailed, match=rf"is broken: record {number} is missing.*Restore"):
        trails.open(told)
    assert not list((tmp_path / "other" / "trails").glob("*/*"))


@pytest.mark.parametrize(("statement", "number"), [each for each in _BROKEN if each[1] < 5])
@pytest.mark.parametrize("is_open", [False, True])
def test_verify_names_a_record_that_was_altered_behind_an_index_that_is_whole(
    told: str, statement: str, number: int, *, is_open: bool
) -> None:
    with trails.open(told) as store:
        assert store.verify().ok
        if is_open:
            as_owner(told, statement)
            found = store.verify()
    if not is_open:
        as_owner(told, statement + " AND number < 5" if statement.endswith("(mine)") else statement)
        with trails.open(told) as store:
            found = store.verify()
            assert [turn.content for turn in store.load("plan")] == _SAID
    assert [(each.code, f"record {number} " in each.message) for each in found.findings] == [("bad-log", True)]


def test_verify_holds_after_a_redaction_and_a_vacuum(told: str) -> None:
    with trails.open(told) as store:
        store.redact("plan", 2)
        assert store.verify().ok
        store.store.vacuum()  # type: ignore[attr-defined]
        assert store.verify().ok
        as_owner(told, "DELETE FROM trails_records WHERE store = (mine) AND number = 2")
        assert not store.verify().ok


def test_a_table_that_is_gone_is_named_with_what_to_do(told: str) -> None:
    with trails.open(told) as store:
        session = store.load("plan")
        session.append("user", "Thanks")
        as_owner(told, "ALTER TABLE trails_records RENAME TO hidden")
        try:
            with pytest.raises(StoreFailed, match=r'lacks a table .*"trails_records".*backup'):
                session.persist()
        finally:
            as_owner(told, "ALTER TABLE hidden RENAME TO trails_records")
        assert session.persist() == 1


class _Between:
    """A socket between a client and the server, which swallows what the client sends while `swallows` is set."""

    def __init__(self, server_socket: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="trails-pg-", dir="/tmp"))
        self.swallows = False
        self._to = server_socket
        self._ends: list[socket.socket] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.folder / server_socket.name))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, far = self._listening.accept()[0], socket.socket(socket.AF_UNIX)
                far.connect(str(self._to))
                self._ends += [near, far]
                for here, there in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(here, there), daemon=True).start()

    def _carry(self, here: socket.socket, there: socket.socket) -> None:
        with suppress(OSError):
            while data := here.recv(65536):
                if not self.swallows:
                    there.sendall(data)
            there.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in (self._listening, *self._ends):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture
def between(cluster: Cluster) -> Iterator[_Between]:
    made = _Between(cluster.folder / ".s.PGSQL.5432")
    yield made
    made.close()


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.sample(1)
def test_sync_and_close_give_a_silent_server_up_within_seconds_and_keep_what_is_pending(
    told: str, cluster: Cluster, between: _Between, monkeypatch: pytest.MonkeyPatch, *, follows: bool
) -> None:
    monkeypatch.setattr(log, "READING", 0.5)
    monkeypatch.setattr(log, "CLOSING", 0.3)
    store = trails.open(told.replace(str(cluster.folder), str(between.folder)))
    if follows:
        store.store.follow_others()  # type: ignore[attr-defined] # of a store in PostgreSQL
    session = store.load("plan")
    session.append("user", "Thanks")
    between.swallows = True
    begun = time.monotonic()
    with pytest.raises(StoreFailed, match="cannot be used"):
        store.sync()
    assert time.monotonic() - begun < 5
    assert [session.pending, [turn.content for turn in store.load("plan")]] == [1, _SAID]
    between.swallows = False
    for end in (1, 0):
        assert session.persist() == end
    between.swallows = True
    begun = time.monotonic()
    store.close()
    assert time.monotonic() - begun < 10
    between.swallows = False
    with trails.open(told) as again:
        assert [turn.content for turn in again.load("plan")] == [*_SAID, "Thanks"]


def test_a_server_that_takes_what_is_sent_and_never_answers_is_given_up_and_what_is_pending_is_kept(
    told: str, cluster: Cluster, between: _Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SILENCE", 0.3)
    monkeypatch.setattr(link, "PATIENCE", 0.0)
    with trails.open(told.replace(str(cluster.folder), str(between.folder))) as store:
        session = store.load("plan")
        session.append("user", "Thanks")
        between.swallows = True
        with pytest.raises(StoreFailed, match="has not answered"):
            session.persist()
        assert [turn.content for turn in store.load("plan")] == _SAID
        between.swallows = False
        assert session.persist() == 1
    with trails.open(told) as store:
        assert [turn.content for turn in store.load("plan")] == [*_SAID, "Thanks"]


def test_an_interrupt_while_the_server_is_asked_is_raised_and_the_store_goes_on(
    told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: psycopg.Pipeline) -> Iterator[None]:
        raise KeyboardInterrupt
        yield

    with trails.open(told) as store:
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Pipeline, "_exit_gen", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.sync()
        with trails.open(told) as other:
            session = other.load("plan")
            session.append("user", "Thanks")
            session.persist()
        assert store.sync()
        assert [turn.content for turn in store.load("plan")] == [*_SAID, "Thanks"]


@pytest.mark.parametrize("column", ["erased", "due"])
def test_a_vacuum_that_is_said_to_have_been_later_than_the_last_commit_is_a_finding(told: str, column: str) -> None:
    with trails.open(told) as store:
        assert store.verify().ok
        as_owner(told, "UPDATE trails_stores SET COLUMN = 1000 WHERE id = (mine)".replace("COLUMN", column))
        assert ["that was altered" in finding.message for finding in store.verify().findings] == [True]


@pytest.mark.slow
def test_a_thin_store_gives_a_silent_server_up_within_seconds(
    told: str, cluster: Cluster, between: _Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thin, "READING", 0.5)
    with trails.open(told.replace(str(cluster.folder), str(between.folder)), thin=True) as store:
        session = store.load("plan")
        between.swallows = True
        for ask in (store.sync, lambda: store.load("plan", fresh=True)):
            begun = time.monotonic()
            with pytest.raises(StoreFailed, match="cannot be used"):
                ask()
            assert time.monotonic() - begun < 5
        between.swallows = False
        session.append("user", "Thanks")
        assert session.persist() == 1


def test_a_database_whose_encoding_takes_no_text_for_what_it_is_is_refused_before_a_table_is_made(
    cluster: Cluster, url: str
) -> None:
    conninfo = url.rpartition("&store=")[0]
    with psycopg.connect(conninfo, autocommit=True) as owner:
        owner.execute(
            "CREATE DATABASE trails_ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
        try:
            there = url.replace(":///postgres?", ":///trails_ascii?")
            with pytest.raises(InvalidInput, match="SQL_ASCII"):
                trails.open(there, create=True)
            with psycopg.connect(there.rpartition("&store=")[0]) as connection:
                assert connection.execute("SELECT to_regclass('trails_stores')").fetchone() == (None,)
        finally:
            owner.execute("DROP DATABASE trails_ascii")
    with pytest.raises(StoreFailed, match="make what is missing, or correct the URL"):
        trails.open(there)
