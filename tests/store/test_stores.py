"""Every store passes the public conformance suite; the embedded store keeps its further promises."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import InvalidInput, StoreFailed
from trails.store import Change, EmbeddedStore, QuadStore
from trails.store.log import sqlite
from trails.testing import LogConformance, StoreConformance


class TestEmbeddedInMemory(StoreConformance):
    cannot: ClassVar[frozenset[str]] = frozenset({"reopen"})

    @pytest.fixture
    def open_store(self) -> Callable[[], QuadStore]:
        return lambda: EmbeddedStore(None)


class TestEmbeddedOnDisk(LogConformance):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], QuadStore]:
        return partial(EmbeddedStore, tmp_path / "store", create=True)

    @pytest.fixture(
        params=[
            "the last rows",
            "the last rows, and the head goes back",
            "a row in the middle",
            "the digest",
            "a body",
            "the write-ahead log",
        ]
    )
    def cut_log(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], bool]:
        return partial(_cut, tmp_path / "store" / "trails.db", str(request.param))


def _cut(file: Path, what: str) -> bool:
    if what == "the write-ahead log":  # as a file system may lose it that does not keep what was synced
        log = file.with_name("trails.db-wal")
        log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
        return False
    with contextlib.closing(sqlite3.connect(file)) as connection:
        if what == "a row in the middle":
            connection.execute("DELETE FROM trails_records WHERE number = 5")
        elif what == "a body":
            connection.execute(
                "UPDATE trails_records SET body = (SELECT body FROM trails_records WHERE number = 4) WHERE number = 5"
            )
        elif what == "the digest":
            connection.execute("UPDATE trails_stores SET digest = ?", (bytes(32),))
        else:
            connection.execute("DELETE FROM trails_records WHERE number > 8")
        if what == "the last rows, and the head goes back":
            connection.execute(
                "UPDATE trails_stores SET head = 8, digest = (SELECT digest FROM trails_records WHERE number = 8)"
            )
        connection.commit()
    return what != "the last rows, and the head goes back"


class TestEmbeddedOnDiskForTheProcess(StoreConformance):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], QuadStore]:
        return partial(EmbeddedStore, tmp_path / "store", create=True, durability="process")


def test_a_mistyped_path_is_an_error_and_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no Trails store"):
        trails.open(tmp_path / "agent.trials")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_something_else_is_left_alone_also_when_creating(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="is no Trails store"):
        trails.open(tmp_path, create=True)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_is_no_store(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(InvalidInput, match="is a file"):
        trails.open(file, create=True)
    assert file.read_text() == "text"


def test_a_store_of_an_unknown_format_is_refused_and_named(tmp_path: Path) -> None:
    trails.open(tmp_path / "s", create=True).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "s" / "trails.db")) as connection:
        connection.execute("UPDATE trails_stores SET format = 999")
        connection.commit()
    with pytest.raises(StoreFailed, match="format 999"):
        trails.open(tmp_path / "s")


def test_a_place_on_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "file_system", lambda _: "nfs4")
    with pytest.raises(InvalidInput, match=r"network file system \(nfs4\)"):
        trails.open(tmp_path / "s", create=True)


@pytest.mark.parametrize("location", ["", "a\0b", 3])
def test_a_location_that_is_none_is_refused(location: object) -> None:
    with pytest.raises((InvalidInput, TypeError)):
        trails.open(location)  # type: ignore[arg-type] # that is the test


def test_a_second_opener_writes_too_and_each_sees_what_the_other_committed(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        code = f"""
import trails
with trails.open({str(tmp_path / "s")!r}) as store:
    session = store.create(id="theirs"); session.append("user", "Hello"); session.persist()
"""
        subprocess.run([sys.executable, "-c", code], check=True)
        assert store.load("theirs").turns[0].content == "Hello"
        with trails.open(tmp_path / "s") as other:
            store.load("theirs").fork(id="ours").persist()
            assert [each.id for each in other.list()] == ["ours", "theirs"]
            assert [each.id for each in other.load("theirs").branches()] == ["ours"]
        assert store.verify().ok


def test_folders_and_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        store.create().persist()
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o700
    files = [path for path in (tmp_path / "s").rglob("*") if path.is_file()]
    assert len(files) >= 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_a_forked_child_process_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        session = store.create(id="a")
        session.append("user", "before")
        session.persist()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - the child's lines run in another process
            try:
                session.append("user", "in the child")
                session.persist()
                os.write(write, b"wrote")
            except StoreFailed as error:
                os.write(write, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        with os.fdopen(read) as pipe:
            assert "before this process was forked" in pipe.read()
        session.append("user", "after")
        session.persist()
    with trails.open(tmp_path / "s") as store:
        assert [turn.content for turn in store.load("a").turns] == ["before", "after"]
        assert store.verify().ok


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_commit_of_many_quads_is_there_at_once_and_whole(tmp_path: Path, where: str) -> None:
    store = EmbeddedStore(None) if where == "memory" else EmbeddedStore(tmp_path / "store", create=True)
    graph, predicate = NamedNode("urn:g"), NamedNode("urn:p")
    quads = [Quad(NamedNode(f"urn:s{n}"), predicate, Literal(f'"{n}"\n'), graph) for n in range(12_000)]
    assert store.commit(Change(add=quads)).written
    assert len(store) == 12_000
    assert set(store.quads((None, None, None, graph))) == set(quads)
    assert not store.commit(Change(add=quads, forbid=[(None, None, None, graph)])).written
    store.close()
