"""Behind PgBouncer in transaction mode, as it comes: nothing of one client's stays on the connection that another gets."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.clusters import Cluster, log_of
from tests.support.poolers import Pooler
from trails import InvalidInput, StoreFailed
from trails.exchange.remotes.store_copy import discard_copy
from trails.store import Change
from trails.store.embedded import EmbeddedStore
from trails.store.postgres import link, statements
from trails.store.postgres.address import parse
from trails.store.postgres.log import open_store

_GRAPH = NamedNode("urn:g")
_WRITE = """
import sys, trails
with trails.open(sys.argv[1]) as store:
    for number in range(int(sys.argv[3])):
        while True:
            chat = store.session("chat")
            chat.append("user", f"{sys.argv[2]} {number}")
            try:
                chat.persist()
                break
            except trails.HeadConflict:
                chat.discard_pending()
"""


@pytest.fixture
def pooled(pooler: Pooler, url: str) -> str:
    """The address, through the pooler, of a store that is made."""
    address = pooler.url(url)
    open_store(address, create=True).close()
    return address


def _quad(number: int) -> Quad:
    return Quad(NamedNode(f"urn:s{number}"), NamedNode("urn:p"), Literal("v"), _GRAPH)


@contextmanager
def _owner(cluster: Cluster) -> Iterator[Callable[[str], Any]]:
    with psycopg.connect(f"host={cluster.folder} user=postgres dbname=postgres", autocommit=True) as connection:
        yield lambda statement: connection.execute(statement.encode()).fetchall()


def test_more_clients_than_connections_commit_read_and_redact(pooled: str) -> None:
    opened = [trails.open(pooled) for _ in range(5)]
    try:
        for number in range(40):
            with opened[number % 5].session("chat") as chat:
                chat.append("user", f"turn {number}")
            log_of(opened[number % 5].store)._alone = number % 7  # with and without the lock
        opened[0].redact("chat", 3)
        texts = [turn.content for turn in opened[1].load("chat", fresh=True).turns]
        assert [len(texts), texts[4], "turn 3" in texts] == [40, "turn 4", False]
        assert opened[2].verify().ok
    finally:
        for each in opened:
            each.close()


def test_thin_workers_behind_the_pooler_go_on_from_each_others_turns(pooled: str) -> None:
    with trails.open(pooled, thin=True) as one, trails.open(pooled, thin=True) as two:
        for number in range(6):
            with (one, two)[number % 2].session("chat") as chat:
                chat.append("user", f"{number}")
        assert [turn.content for turn in one.session("chat").turns] == ["0", "1", "2", "3", "4", "5"]


def test_no_lock_no_setting_no_prepared_statement_and_no_listener_stays_with_the_pooler(
    pooled: str, cluster: Cluster
) -> None:
    with trails.open(pooled) as store, closing(open_store(pooled)) as other:
        other.follow_others()
        for number in range(12):
            with store.session("chat") as chat:
                chat.append("user", f"turn {number}")
        with store.workspace.merging("one"):
            pass
        store.redact("chat", 0)
        with psycopg.connect(parse(pooled).conninfo, autocommit=True, prepare_threshold=None) as client:
            for _ in range(20):
                assert client.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
                assert client.execute("SELECT count(*) FROM pg_listening_channels()").fetchone() == (0,)
                assert client.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("0",)
                assert client.execute("SHOW lock_timeout").fetchone() == ("0",)
    with _owner(cluster) as ask:
        assert ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]


def test_a_name_is_held_by_one_process_at_a_time_and_let_go_of_when_it_ends(pooled: str) -> None:
    first, second = open_store(pooled), open_store(pooled)
    logs = [log_of(each).server for each in (first, second)]
    assert [logs[0].hold("work"), logs[1].hold("work"), logs[1].hold("other")] == [True, False, True]
    first.commit(Change(add=[_quad(1)]))
    second.commit(Change(add=[_quad(2)]))
    assert not logs[1].hold("work")
    logs[0].let_go_of("work")
    assert logs[1].hold("work")
    second.close()
    end = time.monotonic() + 10
    while not (is_free := logs[0].hold("work")) and time.monotonic() < end:
        time.sleep(0.02)
    assert is_free
    first.close()


def _follow(address: str, commit: Callable[[], object]) -> EmbeddedStore:
    follower = open_store(address)
    follower.follow_others()
    commit()
    end = time.monotonic() + 20
    while follower.number < 1 and time.monotonic() < end:
        time.sleep(0.02)
    return follower


@pytest.mark.parametrize("is_direct", [False, True])
@pytest.mark.sample(1)
def test_who_follows_asks_once_a_second_or_listens_past_the_pooler(
    pooled: str, cluster: Cluster, is_direct: bool
) -> None:
    address = f"{pooled}&direct={cluster.folder}" if is_direct else pooled
    with closing(open_store(pooled)) as writer:
        follower = _follow(address, lambda: writer.commit(Change(add=[_quad(1)])))
        with _owner(cluster) as ask, closing(follower):
            listening = ask("SELECT query FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND pid <> pg_backend_pid()")
            assert follower.number == 1
            assert [query == f"LISTEN {log_of(writer).server._channel}" for (query,) in listening] == [True] * is_direct


def test_who_follows_one_store_is_told_nothing_of_another_in_the_same_database(cluster: Cluster, url: str) -> None:
    with closing(open_store(url, create=True)) as one, closing(open_store(f"{url}-2", create=True)) as two:
        told: list[list[tuple[str, str]]] = []
        for channel in (log_of(one).server._channel, "trails"):
            with psycopg.connect(parse(url).conninfo, autocommit=True) as client:
                client.execute(f"LISTEN {channel}".encode())
                for number in range(5):
                    log_of(one)._alone = log_of(two)._alone = number % 2 * 5
                    one.commit(Change(add=[_quad(len(told) * 10 + number)]))
                    two.commit(Change(add=[_quad(len(told) * 10 + number)]))
                told.append([(each.channel, each.payload) for each in client.notifies(timeout=0.2)])
        assert told == [[(log_of(one).server._channel, f"{number}") for number in range(1, 6)], []]
        assert log_of(one).server.id not in f"{told}"


def test_whoever_waits_for_the_row_without_a_lock_of_its_own_waits_no_longer_than_a_bound(
    pooled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PATIENCE", 0.0)
    at_once = statements.at_once

    def short(rows: int, *, indexes: bool) -> bytes:
        return at_once(rows, indexes=indexes).replace(b"'lock_timeout', '20000'", b"'lock_timeout', '300'")

    monkeypatch.setattr(statements, "at_once", short)
    with closing(open_store(pooled)) as store, closing(open_store(pooled)) as holder:
        log_of(holder).server.lock(0, 1)
        with pytest.raises(StoreFailed, match="lock timeout"):
            store.commit(Change(add=[_quad(1)]))
        log_of(holder).server.let_go()
        assert store.commit(Change(add=[_quad(1)])).written


def test_a_store_that_another_process_has_open_behind_the_pooler_is_not_discarded(pooled: str) -> None:
    with closing(open_store(pooled)), pytest.raises(StoreFailed, match="is open in another process"):
        discard_copy(pooled)
    assert discard_copy(pooled).commits == 0


def test_commits_and_sessions_wait_for_a_server_that_starts_again_behind_the_pooler(
    pooled: str, cluster: Cluster
) -> None:
    with trails.open(pooled) as store:
        chat = store.session("chat", autopersist=True)
        cluster.stop()
        starting = threading.Timer(0.5, cluster.start)
        starting.start()
        chat.append("user", "Hello")
        starting.join()
        cluster.restart()
        assert [turn.content for turn in store.session("chat").turns] == ["Hello"]


@pytest.mark.slow
def test_four_processes_on_one_session_behind_the_pooler_lose_nothing(pooled: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WRITE, pooled]
    writers = [subprocess.Popen([*command, f"writer {each}", "25"], cwd=tmp_path) for each in range(4)]
    assert [each.wait() for each in writers] == [0] * 4
    with trails.open(pooled) as store:
        texts = [turn.content for turn in store.load("chat").turns]
        assert sorted(map(str, texts)) == sorted(f"writer {one} {two}" for one in range(4) for two in range(25))
        assert store.verify().ok


@pytest.mark.parametrize("wanted", ["", "a@b", "one,two", "host:port", "one&direct=two"])
def test_a_direct_address_that_cannot_be_read_is_refused(wanted: str) -> None:
    with pytest.raises(InvalidInput, match="`direct` in the URL"):
        parse(f"postgresql://pool:6432/db?store=team&direct={wanted}")


def test_the_server_behind_the_pooler_is_asked_with_the_same_user_and_options() -> None:
    address = parse("postgresql://me:pass@pool:6432/db?store=team&sslmode=require&host=x&direct=/run/postgresql:5433")
    assert (
        address.past_pooler().conninfo == "postgresql://me:pass@/db?sslmode=require&host=%2Frun%2Fpostgresql&port=5433"
    )
    assert address.past_pooler().shown == address.shown
    assert parse("postgresql://pool/db?store=team").past_pooler().conninfo == "postgresql://pool/db"
