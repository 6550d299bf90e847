"""Whoever has an index says so in the database, and a vacuum names those whose files it has not reached."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import psycopg
import pytest

import trails
from tests.support.clusters import log_of
from tests.support.commands import invoke
from trails.store.embedded import EmbeddedStore
from trails.store.postgres import log as postgres_log
from trails.store.postgres import readers, upkeep
from trails.store.postgres.address import parse
from trails.store.postgres.link import Unreachable
from trails.store.postgres.log import open_store
from trails.store.postgres.readers import Reader
from trails.store.postgres.server import Server

_ME = f"{platform.node()}:{os.getpid()}"
_OPENED = """
import sys, trails
with trails.open(sys.argv[1]) as store:
    print(store.store.commits.index_name, flush=True)
    sys.stdin.readline()
    store.sync()
    print("synced", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def two(url: str) -> Iterator[tuple[trails.Repository, trails.Repository]]:
    """A store whose one session had a turn redacted, and a second handle that has seen the turn."""
    with trails.open(url, create=True) as first:
        chat = first.create(id="chat")
        chat.append("user", "the secret is 4711")
        chat.persist()
        with trails.open(url) as second:
            first.redact("chat", 0)
            yield first, second


def registered(url: str) -> list[Reader]:
    """Return the indexes that are registered, by name."""
    log = Server(parse(url))
    log.find()
    found = readers.readers_of(log, log.id)
    log.close()
    assert found is not None
    return sorted(found, key=lambda reader: reader.index)


def sql(url: str, statement: str, *values: object) -> None:
    with psycopg.connect(url.rpartition("&store=")[0], autocommit=True) as owner:
        owner.execute(statement.encode(), values)


def index_of(store: trails.Repository) -> str:
    return log_of(store.store).index_name


def test_an_index_is_registered_while_it_is_open_and_told_as_closed_after_that(url: str) -> None:
    before = datetime.now(UTC) - timedelta(minutes=1)
    with trails.open(url, create=True) as store:
        name = index_of(store)
        (reader,) = registered(url)
        assert (reader.index, reader.process, reader.number, reader.erased) == (name, _ME, 0, 0)
        assert not reader.is_closed
        assert reader.heard is not None
        assert before < reader.heard < before + timedelta(minutes=2)
        store.create(id="chat").persist()
    (reader,) = registered(url)  # the copy of the log on this machine
    assert (reader.index != name, reader.number, reader.is_closed) == (True, 1, True)
    with trails.open(url):
        assert sorted(reader.is_closed for reader in registered(url)) == [False, True]


def test_a_vacuum_names_the_open_indexes_that_it_has_not_reached_until_they_sync(
    two: tuple[trails.Repository, trails.Repository],
) -> None:
    first, second = two
    (late,) = first.maintenance.vacuum().behind
    assert (late.process, late.index, late.is_closed) == (_ME, index_of(second), False)
    assert late.heard is not None
    second.sync()
    assert first.maintenance.vacuum().behind == ()


def test_who_has_synced_since_is_named_no_more(url: str, two: tuple[trails.Repository, trails.Repository]) -> None:
    first, second = two
    first.maintenance.vacuum()
    (check,) = [each for each in upkeep.look(url) if each.name == "readers"]
    assert not check.ok
    assert index_of(second) in check.message
    assert index_of(first) not in check.message
    second.sync()
    (check,) = [each for each in upkeep.look(url) if each.name == "readers"]
    assert (check.ok, check.message) == (True, "2 indexes are registered, none with files from before a vacuum")


def test_an_index_that_another_process_has_open_is_named_with_that_process_and_never_deleted(url: str) -> None:
    with trails.open(url, create=True) as store:
        command = [sys.executable, "-c", _OPENED, url]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdin is not None
            assert other.stdout is not None
            name = other.stdout.readline().strip()
            store.create(id="chat").persist()
            (late,) = store.maintenance.vacuum().behind
            assert (late.process, late.index) == (f"{platform.node()}:{other.pid}", name)
            print(file=other.stdin, flush=True)
            assert other.stdout.readline().strip() == "synced"
            assert readers.made_before(registered(url), 1) == []
            print(file=other.stdin, flush=True)


def test_one_that_was_not_heard_of_for_thirty_days_is_forgotten(
    url: str, two: tuple[trails.Repository, trails.Repository]
) -> None:
    first, second = two
    sql(url, "UPDATE trails_readers SET heard = now() - INTERVAL '29 days' WHERE index_name = %s", index_of(second))
    assert [late.index for late in first.maintenance.vacuum().behind] == [index_of(second)]
    sql(url, "UPDATE trails_readers SET heard = now() - INTERVAL '31 days' WHERE index_name = %s", index_of(second))
    assert first.maintenance.vacuum().behind == ()
    sql(url, "UPDATE trails_readers SET heard = now() WHERE index_name = %s", index_of(second))
    assert [reader.index for reader in registered(url)] == [index_of(first)]


def test_bringing_in_says_so_once_a_minute_and_not_more_often(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(url, create=True)
    taken = []
    for seconds in (1, 59, 61, 62, 122):
        with monkeypatch.context() as patch:
            patch.setattr(log_of(store), "_said_at", log_of(store)._said_at - seconds)
            before = log_of(store).server.trips
            store.sync()
            taken.append(log_of(store).server.trips - before)
    store.close()
    assert taken == [1, 1, 2, 2, 2]


def test_the_vacuum_command_names_them(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAILS_STORE", url)
    with trails.open(url, create=True) as store:
        invoke("create", "--id", "chat")
        done = invoke("store", "vacuum", "--json")
        (late,) = json.loads(done.stdout)["behind"]
        assert (late["process"], late["index"], late["is_closed"]) == (_ME, index_of(store), False)
        assert datetime.fromisoformat(late["heard"]).tzinfo is not None
        assert f"may still be in the files of {_ME} (index {index_of(store)}, open" in done.stderr
        store.sync()
        assert "is in no file of the store any more" in invoke("store", "vacuum").stderr


def test_a_store_of_before_the_table_goes_on_without_until_it_is_upgraded(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAILS_STORE", url)
    trails.open(url, create=True).close()
    sql(url, "ALTER TABLE trails_readers RENAME TO trails_readers_away")
    try:
        with trails.open(url) as store:
            store.create(id="chat").persist()
            assert store.maintenance.vacuum().behind == ()
        (check,) = [each for each in upkeep.look(url) if each.name == "readers"]
        assert (check.ok, "trails store upgrade" in check.remedy) == (False, True)
        done = invoke("store", "upgrade")
        assert "made the table trails_readers" in done.stdout
        assert "nothing was to do" not in done.stderr
        assert "nothing was to do" in invoke("store", "upgrade").stderr
        with trails.open(url):
            assert len(registered(url)) == 1
    finally:
        sql(url, "DROP TABLE trails_readers_away")


def test_a_process_that_cannot_say_so_opens_works_and_closes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> NoReturn:
        raise Unreachable("the server is away")

    trails.open(url, create=True).close()
    with monkeypatch.context() as patch:
        patch.setattr(readers, "register", away)
        with trails.open(url) as store:
            store.create(id="chat").persist()
    assert [(reader.is_closed, reader.number) for reader in registered(url)] == [(True, 0)]


def test_a_process_that_could_not_say_so_once_does_so_later(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> NoReturn:
        raise Unreachable("the server is away")

    with trails.open(url, create=True) as store:
        assert isinstance(store.store, EmbeddedStore)
        store.create(id="chat").persist()
        for patched, number in ((True, 0), (False, 1)):
            with monkeypatch.context() as patch:
                patch.setattr(log_of(store.store), "_said_at", 0.0)
                patch.setattr(postgres_log, "_HEARD", 0.0)
                if patched:
                    patch.setattr(readers, "register", away)
                store.sync()
            assert [reader.number for reader in registered(url)] == [number]


def test_an_index_is_registered_before_anything_is_brought_in(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[Reader]] = []
    sync = EmbeddedStore.sync

    def watched(store: EmbeddedStore) -> bool:
        seen.append(registered(url))
        return sync(store)

    monkeypatch.setattr(EmbeddedStore, "sync", watched)
    with trails.open(url, create=True) as store:
        assert [[reader.index for reader in found] for found in seen] == [[index_of(store)]]
