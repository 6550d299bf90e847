"""Two reads that must be of one moment, and what another process does between them."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import InvalidInput, Repository, StoreLocked
from trails.history.lookup import names
from trails.rows.store_rows import rows_number
from trails.store import Change, EmbeddedStore
from trails.store.embedded import ViewStore
from trails.store.index import engine_filling
from trails.store.index.index_folder import IndexFolder, Mark
from trails.store.log import commit_batch, erasing
from trails.store.log.records import START, Row
from trails.store.log.sqlite import SqliteHome

ALL = (None, None, None, None)


def quad(number: int) -> Quad:
    return Quad(NamedNode(f"urn:s{number}"), NamedNode("urn:p"), Literal("v"), NamedNode("urn:g"))


def once(work: Callable[[], object]) -> Callable[[], None]:
    """Return a function that does some work when it is called for the first time, and then nothing."""
    left = [work]

    def call() -> None:
        if left:
            left.pop()()

    return call


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Repository, Repository]]:
    """Two that have one store open, as two processes have."""
    with trails.open(tmp_path / "s", create=True) as one, trails.open(tmp_path / "s") as other:
        session = one.create(id="a")
        for text in ("first", "second"):
            session.append("user", text)
        session.persist()
        other.sync()
        yield one, other


def test_a_label_that_another_process_gives_meanwhile_is_not_a_second_one(
    both: tuple[Repository, Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = both
    find, give = names.find_record, once(lambda: other.set_label("a", "theirs"))

    def found(*args: Any) -> Any:
        record = find(*args)
        give()
        return record

    monkeypatch.setattr(names, "find_record", found)
    with pytest.raises(InvalidInput, match="was changed by another writer; try again"):
        one.set_label("a", "ours")
    assert one.record("a").label == "theirs"
    assert one.verify().ok


def test_the_log_is_judged_as_of_one_moment_while_records_are_rewritten(
    both: tuple[Repository, Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = both
    other.redact("a", 0)
    one.sync()
    unpack, redact = Row.unpack, once(lambda: other.redact("a", 1))

    def unpacked(row: Row) -> Any:
        if row.rewritten is not None:
            redact()
        return unpack(row)

    monkeypatch.setattr(Row, "unpack", unpacked)
    assert isinstance(one.store, EmbeddedStore)
    assert one.store.commits.trouble(one.store) is None


def test_a_view_has_rows_and_quads_of_one_moment(
    both: tuple[Repository, Repository], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = both
    with trails.open(tmp_path / "s", read_only=True) as view:
        sync, snapshot, left = EmbeddedStore.sync, SqliteHome.snapshot, ["b", "c", "d", "e"]

        def write() -> None:
            if left:
                one.create(id=left.pop()).persist()

        def synced(store: EmbeddedStore) -> bool:
            write()
            return sync(store)

        def taken(*args: Any) -> sqlite3.Connection:
            write()
            return snapshot(*args)

        monkeypatch.setattr(EmbeddedStore, "sync", synced)
        monkeypatch.setattr(SqliteHome, "snapshot", taken)
        view.refresh()
        by_quads = {row["s"].value for row in view.select("SELECT ?s { ?s a trails:Session }")}
        by_rows = {f"urn:trails:session:{each.id}" for each in view.summaries()}
        assert by_quads == by_rows


def test_a_store_at_rest_has_the_rows_of_all_its_records_after_an_erasure(both: tuple[Repository, Repository]) -> None:
    one, _ = both
    one.redact("a", 0)
    assert isinstance(one.store, EmbeddedStore)

    def rows_and_quads() -> tuple[int, int]:
        with one.workspace.rows.reading() as connection:
            return rows_number(connection), one.store.number

    at_rows, at_quads = one.store.at_rest(rows_and_quads)
    assert at_rows == at_quads


def test_a_view_sees_that_any_process_writes_not_only_the_first_one(tmp_path: Path) -> None:
    first = EmbeddedStore(tmp_path / "s", create=True)
    with closing(EmbeddedStore(tmp_path / "s")) as second, closing(ViewStore(tmp_path / "s")) as view:
        first.close()
        assert view.has_living_owner
        second.close()
        assert not view.has_living_owner


def test_a_copy_of_a_log_that_another_process_writes_is_waited_for(tmp_path: Path) -> None:
    with closing(SqliteHome(tmp_path / "trails.db", create=True)) as home:
        other = sqlite3.connect(tmp_path / "trails.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        ends = threading.Timer(0.4, lambda: other.execute("COMMIT"))
        ends.start()
        home.note_vacuum(3)
        assert home.head().erased == 3
        ends.join()
        other.close()


# --- the index folder, which anybody may delete at any time


def test_a_folder_of_an_engine_that_goes_while_one_looks_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = IndexFolder(tmp_path)
    monkeypatch.setattr(IndexFolder, "_folders", lambda *_: [tmp_path / "index" / "gone.engine"])
    index.path.mkdir()
    assert (index.others(None), index.abandoned()) == ([], [])
    index.sweep()
    private = index.open_private(None)
    assert private.folder.parent == index.path, "not among temporary files"
    private.close()


@pytest.mark.parametrize("what", ["snapshot", "rebuild"])
def test_the_index_may_be_deleted_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with closing(EmbeddedStore(tmp_path / "s", create=True)) as store:
        store.commit(Change(add=[quad(1)]))
        store.snapshot()  # the engine is in files from now on
        copy, publish = engine_filling.copy_quads, IndexFolder.publish
        delete = once(lambda: shutil.rmtree(tmp_path / "s" / "index"))

        def copied(*args: Any) -> None:
            delete()
            copy(*args)

        def published(*args: Any) -> Any:
            delete()
            return publish(*args)

        monkeypatch.setattr(engine_filling, "copy_quads", copied)
        monkeypatch.setattr(IndexFolder, "publish", published)
        getattr(store, what)()
        assert store.quads(ALL) == [quad(1)]


def test_a_snapshot_from_before_a_vacuum_never_takes_the_place_of_a_later_one(tmp_path: Path) -> None:
    index = IndexFolder(tmp_path)
    index.path.mkdir()
    for mark in (Mark(5, START, 5, 5), Mark(5, START, 0, 5), Mark(6, START, 0, 6)):
        files = index.path / f"new{mark.number}{mark.erased}"
        files.mkdir()
        assert index.publish(files, mark, {}).mark == Mark(5, START, 5, 5)
    assert [each.mark for each in index.snapshots()] == [Mark(5, START, 5, 5)]


def test_a_newer_snapshot_is_taken_if_the_one_that_was_found_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    with closing(EmbeddedStore(folder, create=True)) as other:
        other.commit(Change(add=[quad(1)]))
        other.snapshot()
        other.commit(Change(add=[quad(2)]))
        whole, put, private, opened = IndexFolder.is_whole, once(other.snapshot), IndexFolder.open_private, list[int]()

        def is_whole(index: IndexFolder, snapshot: Any) -> bool:
            put()
            return whole(index, snapshot)

        def open_private(index: IndexFolder, snapshot: Any) -> Any:
            made = private(index, snapshot)
            opened.append(made.mark.number)
            return made

        with closing(EmbeddedStore(folder)) as store:
            monkeypatch.setattr(IndexFolder, "is_whole", is_whole)
            monkeypatch.setattr(IndexFolder, "open_private", open_private)
            assert len(store.quads(ALL)) == 2
    assert opened[-1:] == [2]


@pytest.mark.parametrize("where", ["commit", "erase"])
def test_an_engine_whose_files_go_is_made_anew_within_a_commit_and_an_erasure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def fail() -> None:
        raise OSError("IO error: No such file or directory")

    failing = once(fail)
    with closing(EmbeddedStore(tmp_path / "s", create=True)) as store:
        store.commit(Change(add=[quad(1), quad(2)]))
        without, matching = erasing.without, commit_batch.matching

        def left(*args: Any, **named: Any) -> Any:
            failing()
            return without(*args, **named)

        def matched(*args: Any) -> Any:
            failing()
            return matching(*args)

        if where == "commit":
            monkeypatch.setattr(commit_batch, "matching", matched)
            store.commit(Change(add=[quad(3)], forbid=[(NamedNode("urn:none"), None, None, None)]))
            assert len(store) == 3
        else:
            monkeypatch.setattr(erasing, "without", left)
            with store.erasing():
                store.commit(Change(remove=[quad(2)]))
            assert not any(b"urn:s2" in each.unpack().record.add for each in store.commits.home.tail(0))


@pytest.mark.parametrize(("patience", "is_opened"), [(20.0, True), (0.0, False)])
def test_a_store_that_another_process_is_making_is_waited_for(tmp_path: Path, patience: float, is_opened: bool) -> None:
    place = tmp_path / "s"
    place.mkdir()
    with closing(sqlite3.connect(place / "trails.db", check_same_thread=False)) as other:
        other.execute("BEGIN EXCLUSIVE")  # as whoever turns a new file into one with a write-ahead log
        done = threading.Timer(0.2, other.rollback)
        done.start()
        if is_opened:
            SqliteHome(place / "trails.db", create=True, patience=patience).close()
        else:
            with pytest.raises(StoreLocked):
                SqliteHome(place / "trails.db", create=True, patience=patience)
        done.join()
