"""The log's file in SQLite: what it is set to, and tables that are filled in the transaction of each commit."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import StoreFailed
from trails.integrity.leaves import Leaf
from trails.store import Change, EmbeddedStore
from trails.store.embedded import ViewStore, drop_graph
from trails.store.log.sqlite import SqliteHome

GRAPH = NamedNode("urn:g")


def quad(number: int) -> Quad:
    return Quad(NamedNode(f"urn:s{number}"), NamedNode("urn:p"), Literal("v"), GRAPH)


class Counted:
    """A table that counts what commits add and remove."""

    def __init__(self) -> None:
        self.fails = False

    def __call__(self, connection: sqlite3.Connection, number: int, change: Any) -> None:
        if change is None:
            return
        connection.execute(
            "CREATE TABLE IF NOT EXISTS counted (number INTEGER, added INTEGER, removed INTEGER, told TEXT)"
        )
        values = (number, len(change.add), len(change.remove) + len(change.record.drop), "".join(change.lines)[:5])
        connection.execute("INSERT INTO counted VALUES (?, ?, ?, ?)", values)
        if self.fails:
            raise ValueError("on purpose")


def counting(place: Path | None, counted: Counted) -> EmbeddedStore:
    store = EmbeddedStore(place, create=True)
    store.commits.home.derive = counted
    return store


def rows(store: EmbeddedStore) -> list[tuple[Any, ...]]:
    with store.read_connection() as connection:
        return [*connection.execute("SELECT number, added, removed, told FROM counted ORDER BY number")]


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_tables_are_filled_in_the_transaction_of_each_commit(tmp_path: Path, where: str) -> None:
    tables, place = Counted(), None if where == "memory" else tmp_path / "s"
    with closing(counting(place, tables)) as store:
        leaf = Leaf("turns", "urn:trails:session:a", 1, "ab" * 32)
        store.commit(Change(add=[quad(1), quad(2)], leaves=[leaf]))
        store.commit(Change(add=[quad(3)], remove=[quad(1)]))
        drop_graph(store, GRAPH)
        wanted = [(1, 2, 0, "turns"), (2, 1, 1, ""), (3, 0, 1, "")]
        assert rows(store) == wanted
        tables.fails = True
        with pytest.raises(ValueError, match="on purpose"):
            store.commit(Change(add=[quad(4)]))
        tables.fails = False
        assert (rows(store), store.number, len(store)) == (wanted, 3, 0)
        store.commit(Change(add=[quad(5)]))
        assert rows(store)[3:] == [(4, 1, 0, "")]
        if place is not None:
            with closing(counting(place, tables)) as other:
                assert rows(other) == rows(store)
                other.commit(Change(add=[quad(6)]))
                assert rows(store)[4:] == [(5, 1, 0, "")]


def test_how_the_file_is_set(tmp_path: Path) -> None:
    with closing(EmbeddedStore(tmp_path / "s", create=True)) as store:
        connection = store.commits.home._writer
        found = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "secure_delete")
        ]
        assert found == ["wal", 2, 1]
    with closing(sqlite3.connect(tmp_path / "s" / "trails.db")) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (4,)


def test_a_view_writes_nothing_through_its_connection(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path / "s", create=True).close()
    with (
        closing(ViewStore(tmp_path / "s")) as view,
        view.read_connection() as connection,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        connection.execute("UPDATE trails_stores SET head = 5")


def test_a_closed_store_gives_no_connection(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "s", create=True)
    store.close()
    with pytest.raises(StoreFailed, match="closed"):
        rows(store)


def test_a_reader_of_a_file_that_was_moved_away_is_told_so(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    with closing(SqliteHome(folder / "trails.db", create=True)) as home:
        folder.rename(tmp_path / "elsewhere")
        with pytest.raises(StoreFailed, match="was removed, or moved away"):
            home.head()
        (tmp_path / "elsewhere").rename(folder)
        assert home.head().number == 0
