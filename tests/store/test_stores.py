"""Every store passes the public conformance suite; the embedded store keeps its further promises."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import InvalidInput, StoreFailed, StoreLocked
from trails.store import Change, EmbeddedStore, QuadStore, flushing
from trails.testing import LogConformance, StoreConformance


class TestEmbeddedInMemory(StoreConformance):
    cannot: ClassVar[frozenset[str]] = frozenset({"reopen"})

    @pytest.fixture
    def open_store(self) -> Callable[[], QuadStore]:
        return lambda: EmbeddedStore(None)


class TestEmbeddedOnDisk(LogConformance):
    cannot: ClassVar[frozenset[str]] = frozenset({"share"})

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], QuadStore]:
        return partial(EmbeddedStore, tmp_path / "store", create=True)

    @pytest.mark.slow
    def test_of_eight_processes_exactly_one_wins_each_round(self, open_store: Callable[[], QuadStore]) -> None:
        """Slow: that of PostgreSQL's store, where processes share a log, is in `make test`."""
        super().test_of_eight_processes_exactly_one_wins_each_round(open_store)

    @pytest.fixture(params=["the last record", "half of the last record", "the half of it", "a record in the middle"])
    def cut_log(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], bool]:
        """Zeros stand where a record was, or its end, as after a power cut; of one in the middle a later one tells."""
        return partial(_cut, tmp_path / "store" / "commits", str(request.param))


def _cut(commits: Path, what: str) -> bool:
    (file,) = (each for each in sorted(commits.iterdir()) if each.read_bytes().strip(b"\0"))
    data = file.read_bytes()
    starts = [found.start() for found in re.finditer(re.escape(b"TRr\n"), data)]
    assert len(starts) == 10
    if what == "a record in the middle":
        cut = data[: starts[4]] + bytes(starts[5] - starts[4]) + data[starts[5] :]
    else:
        end = {"the last record": 0, "half of the last record": 20, "the half of it": 70}[what]
        cut = data[: starts[9] + end].ljust(len(data), b"\0")
    file.write_bytes(cut)
    return what == "a record in the middle"


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
    (tmp_path / "s" / "trails.json").write_text(json.dumps({"format": 999}))
    with pytest.raises(StoreFailed, match="format 999"):
        trails.open(tmp_path / "s")


@pytest.mark.parametrize("location", ["", "a\0b", 3])
def test_a_location_that_is_none_is_refused(location: object) -> None:
    with pytest.raises((InvalidInput, TypeError)):
        trails.open(location)  # type: ignore[arg-type] # that is the test


def test_a_second_opener_learns_which_process_holds_the_store_since_when(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True):
        with pytest.raises(StoreLocked, match=rf"process {os.getpid()} \(this process\) on host .* since 20"):
            trails.open(tmp_path / "s")
        code = f"import trails; trails.open({str(tmp_path / 's')!r})"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert f"in use by process {os.getpid()} on host" in other.stderr
        assert "StoreLocked" in other.stderr
    trails.open(tmp_path / "s").close()


def test_folders_and_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        store.create().persist()
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "s" / "quads").stat().st_mode) == 0o700
    files = [path for path in (tmp_path / "s").rglob("*") if path.is_file()]
    assert len(files) > 5
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


def test_a_store_can_be_closed_just_when_a_flush_is_about_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Overtaken(threading.Thread):
        """A flush whose store is closed by another thread before it comes to its first line."""

        def start(self) -> None:
            if self.name == "trails-flush":
                store.close()
            super().start()

    store = EmbeddedStore(tmp_path / "s", create=True)
    monkeypatch.setattr(flushing, "_FLUSH_AFTER", 1)
    monkeypatch.setattr(threading, "Thread", Overtaken)
    quad = Quad(NamedNode("urn:s"), NamedNode("urn:p"), Literal("before"), NamedNode("urn:g"))
    assert store.commit(Change(add=[quad])).written
    monkeypatch.undo()
    with pytest.raises(StoreFailed, match="is closed"):
        store.quads((None, None, None, None))
    again = EmbeddedStore(tmp_path / "s")
    assert again.quads((None, None, None, None)) == [quad]
    again.close()


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
