"""A store in PostgreSQL passes the public conformance suite, and two that are open at once see one history."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.clusters import Cluster, log_of
from trails import HeadConflict, InvalidInput, StoreFailed
from trails.exchange.remotes.store_copy import copy_store
from trails.store import Change, PreconditionFailed, QuadStore
from trails.store.embedded import EmbeddedStore, drop_graph
from trails.store.postgres.link import Unreachable
from trails.store.postgres.log import open_store
from trails.store.postgres.server import Server
from trails.testing import LogConformance

_GRAPH = NamedNode("urn:g")


def _quad(number: int, text: str = "v") -> Quad:
    return Quad(NamedNode(f"urn:s{number}"), NamedNode("urn:p"), Literal(text), _GRAPH)


class TestPostgres(LogConformance):
    @pytest.fixture
    def open_store(self, url: str) -> Callable[[], QuadStore]:
        return partial(open_store, url, create=True)

    @pytest.fixture(
        params=["the last rows", "the last rows, and the head goes back", "a row in the middle", "the digest"]
    )
    def cut_log(self, request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Callable[[], bool]:
        """Each is seen from another machine, which has no index yet."""
        return partial(_cut, url, str(request.param), tmp_path / "cache")


def _cut(url: str, what: str, caches: Path) -> bool:
    import psycopg

    shutil.rmtree(caches)
    conninfo, _, name = url.rpartition("&store=")
    with psycopg.connect(conninfo) as owner:
        row = owner.execute("SELECT id FROM trails_stores WHERE name = %s", (name,)).fetchone()
        assert row is not None
        if what == "a row in the middle":
            owner.execute("DELETE FROM trails_records WHERE store = %s AND number = 5", row)
        elif what == "the digest":
            owner.execute("UPDATE trails_stores SET digest = %s WHERE id = %s", (bytes(32), *row))
        else:
            owner.execute("DELETE FROM trails_records WHERE store = %s AND number > 8", row)
        if what == "the last rows, and the head goes back":  # as a standby that lagged, or an old backup, has it
            owner.execute(
                """UPDATE trails_stores SET head = 8, digest = trails_records.digest FROM trails_records
                   WHERE id = %s AND store = id AND number = 8""",
                row,
            )
    return what != "the last rows, and the head goes back"


@pytest.fixture
def two(url: str) -> Iterator[tuple[EmbeddedStore, EmbeddedStore]]:
    first, second = open_store(url, create=True), open_store(url)
    yield first, second
    first.close()
    second.close()


def _has(store: EmbeddedStore, number: int) -> bool:
    return bool(store.quads((NamedNode(f"urn:s{number}"), None, None, None)))


def test_what_one_commits_the_other_sees_after_a_sync(two: tuple[EmbeddedStore, EmbeddedStore]) -> None:
    first, second = two
    first.commit(Change(add=[_quad(1)]))
    assert not _has(second, 1)
    assert second.sync()
    assert _has(second, 1)
    assert not second.sync()


def test_a_precondition_is_held_against_what_others_have_logged_since(
    two: tuple[EmbeddedStore, EmbeddedStore],
) -> None:
    first, second = two
    first.commit(Change(add=[_quad(1)]))
    with pytest.raises(PreconditionFailed) as failed:
        second.commit(Change(add=[_quad(1, "other")], forbid=[(NamedNode("urn:s1"), None, None, _GRAPH)]))
    assert failed.value.present == _quad(1)
    assert _has(second, 1)
    first.commit(Change(remove=[_quad(1)]))
    with pytest.raises(PreconditionFailed):
        second.commit(Change(add=[_quad(2)], require=[_quad(1)]))
    assert second.number == 2


def test_a_dropped_graph_is_gone_in_every_index_and_stays_gone_in_the_overlay(
    two: tuple[EmbeddedStore, EmbeddedStore],
) -> None:
    first, second = two
    first.commit(Change(add=[_quad(1), _quad(2)]))
    second.sync()
    assert drop_graph(first, _GRAPH) == 2
    assert second.commit(Change(add=[_quad(3)], forbid=[(None, None, Literal("v"), _GRAPH)])).written
    assert second.quads((None, None, None, None)) == [_quad(3)]
    assert first.sync()
    assert first.quads((None, None, None, None)) == [_quad(3)]


def test_the_cache_may_be_deleted_at_any_time(url: str, tmp_path: Path) -> None:
    with trails.open(url, create=True) as store:
        session = store.create(id="chat")
        session.append("user", "Hello")
        session.persist()
    shutil.rmtree(tmp_path / "cache")
    with trails.open(url) as store:
        assert [turn["content"] for turn in store.replay("chat")] == ["Hello"]
        assert store.verify().ok


def test_a_new_index_is_made_of_a_snapshot_and_the_tail(url: str, tmp_path: Path) -> None:
    store = open_store(url, create=True)
    store.commit(Change(add=[_quad(1)]))
    assert store.snapshot() == 1
    store.commit(Change(add=[_quad(2)], remove=[_quad(1)]))
    store.close()
    shutil.rmtree(tmp_path / "cache")
    again = open_store(url)
    assert again.number == 2
    assert again.quads((None, None, None, None)) == [_quad(2)]
    again.close()


@pytest.mark.filterwarnings("ignore::trails.PendingTurnsWarning")
def test_a_conflict_names_both_heads_though_the_other_turn_was_written_elsewhere(url: str) -> None:
    with trails.open(url, create=True) as mine, trails.open(url) as theirs:
        session = mine.create(id="chat")
        session.append("user", "one")
        session.persist()
        assert theirs.sync()
        other = theirs.load("chat")
        other.append("user", "theirs")
        other.persist()
        session.append("user", "mine")
        with pytest.raises(HeadConflict):
            session.persist()
        assert [turn["content"] for turn in mine.replay("chat")] == ["one", "theirs"]
        assert mine.verify().ok


def test_an_append_takes_one_trip_to_the_server_alone_and_two_while_others_write(
    two: tuple[EmbeddedStore, EmbeddedStore],
) -> None:
    first, second = two
    taken = []
    for number, store in enumerate([first, first, second, second, first, first, first, first, first]):
        before = log_of(store).server.trips
        store.commit(Change(add=[_quad(number)]))
        taken.append(log_of(store).server.trips - before)
    # The first of each that finds another's commit tries, and takes the lock; three under the lock later it is alone again.
    assert taken == [1, 1, 3, 2, 3, 2, 2, 2, 1]
    assert second.sync()
    assert set(first.quads((None, None, None, None))) == set(second.quads((None, None, None, None)))


def test_a_store_that_is_not_there_is_not_made_by_opening_it(url: str) -> None:
    with pytest.raises(InvalidInput, match="no Trails store"):
        trails.open(url)


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://me:hunter2@h/db",
        "postgresql://me:hunter2@h:x/db?store=a",
        "postgres://me:hunter2@h/db?store=A",
        "postgresql://me:12/hunter2@h/db?store=a",
        "postgresql://me:12#hunter2@h/db?store=a",
        "postgresql://me:12@hunter2@h/db?store=a",
        "postgresql://me@h/db?store=a#hunter2",
        "Postgresql://me:hunter2@h/db?store=a",
        "postgresq://me:hunter2@h/db?store=a",
        "postgresql:/me:hunter2@h/db?store=a",
        "jdbc:postgresql://me:hunter2@h/db?store=a",
        "mysql://me:hunter2@h/db",
        "http://me:hunter2@h/",
        "me:hunter2@h/db?store=a",
    ],
)
def test_an_address_that_names_no_store_is_refused_without_showing_its_password(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "source.trails"
    trails.open(source, create=True).close()
    for attempt in (
        partial(trails.open, create=True),
        partial(trails.open, read_only=True),
        partial(copy_store, source),
    ):
        with pytest.raises(InvalidInput) as refused:
            attempt(given)
        assert "hunter2" not in str(refused.value)
    assert list(tmp_path.iterdir()) == [source]


def test_what_a_url_says_of_the_connection_holds(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from trails.store.postgres.connection import Connection  # needs the driver

    connect, given = Connection.connect, list[dict[str, Any]]()

    def noted(conninfo: str, **named: Any) -> Any:
        given.append(named)
        return connect(conninfo, **named)

    monkeypatch.setattr(Connection, "connect", noted)
    trails.open(url, create=True).close()
    trails.open(url.replace("&store", "&connect_timeout=2&keepalives_idle=7&store")).close()
    assert {"connect_timeout", "keepalives_idle", "keepalives_count"} <= given[0].keys()
    assert {"connect_timeout", "keepalives_idle"}.isdisjoint(given[-1])
    assert given[-1]["keepalives_count"] == 3


def test_a_url_with_several_hosts_is_the_drivers_own(cluster: Cluster, url: str, tmp_path: Path) -> None:
    with trails.open(url, create=True) as store:
        store.create(id="plan").persist()
    name = url.rpartition("store=")[2]
    away = f"postgresql:///postgres?host={tmp_path},{cluster.folder}&user=postgres&store={name}"
    for several in (
        away,
        f"postgresql://127.0.0.1:1,{quote(str(cluster.folder), safe='')}/postgres?user=postgres&store={name}",
    ):
        with trails.open(several) as store:
            assert "plan" in store


def test_a_password_is_in_no_error_and_no_repr(cluster: Cluster) -> None:
    url = f"postgresql://me:hunter2@localhost:1/db?host={cluster.folder}-none&password=hunter3&store=a"
    with pytest.raises(StoreFailed) as failed:
        trails.open(url)
    said = f"{failed.value!r} {failed.value} {failed.value.__cause__} {failed.value.__context__}"
    assert "hunter" not in said


def test_bringing_in_nothing_and_a_little_take_one_trip_each(two: tuple[EmbeddedStore, EmbeddedStore]) -> None:
    first, second = two
    for wanted in (False, True):
        if wanted:
            first.commit(Change(add=[_quad(1)]))
            first.commit(Change(add=[_quad(2)]))
        before = log_of(second).server.trips
        assert second.sync() is wanted
        assert log_of(second).server.trips - before == 1


def test_a_read_that_is_to_be_fresh_says_when_the_server_is_away_and_others_go_on(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(url, create=True) as store:
        store.create(id="chat").persist()

        def away(*_: object) -> NoReturn:
            raise Unreachable("the server is away")

        with monkeypatch.context() as patch:
            patch.setattr(Server, "since", away)
            with pytest.raises(StoreFailed, match="away"):
                store.load("chat", fresh=True)
            assert len(store.load("chat")) == 0
        assert len(store.load("chat", fresh=True)) == 0
