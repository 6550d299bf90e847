"""Eight processes write to one folder while they are killed: nothing is lost, and nothing is doubled."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.machines import Size
from tests.support.many_writers import write_and_kill
from trails.errors import StoreFailed
from trails.store import Change, EmbeddedStore
from trails.store.embedded import ViewStore
from trails.store.index.engine import Engine

GRAPH = NamedNode("urn:g")
ALL = (None, None, None, None)
_FIGURES = {"quick": (200, 8), "all": (2_000, 20), "long": (20_000, 60)}
"""Turns and kills."""


def quad(number: int, text: str = "v") -> Quad:
    return Quad(NamedNode(f"urn:s{number}"), NamedNode("urn:p"), Literal(text), GRAPH)


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_however_many_processes_write_and_are_killed(tmp_path: Path, size: Size) -> None:
    (tmp_path / "said").mkdir()
    write_and_kill(str(tmp_path / "s"), tmp_path / "said", *_FIGURES[size])
    assert not list((tmp_path / "s" / "index").glob("*.engine"))  # what killed ones left is swept


def in_another_process(folder: Path, code: str) -> str:
    frame = f"""
from pathlib import Path
from pyoxigraph import Literal, NamedNode, Quad
from trails.store import Change, EmbeddedStore
from tests.store.test_many_processes import quad
store = EmbeddedStore(Path({str(folder)!r}))
{code}
store.close()
"""
    return subprocess.run([sys.executable, "-c", frame], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.slow
def test_each_call_sees_what_another_process_committed_before_it(tmp_path: Path) -> None:
    with closing(EmbeddedStore(tmp_path / "s", create=True)) as store:
        store.commit(Change(add=[quad(1)]))
        for number in range(2, 5):
            in_another_process(
                tmp_path / "s", f"store.commit(Change(add=[quad({number})], remove=[quad({number} - 1)]))"
            )
            assert store.quads(ALL) == [quad(number)]
            assert store.number == number
        assert store.query("ASK { GRAPH <urn:g> { <urn:s4> ?p ?o } }") is True
        assert len(store) == 1


def test_a_store_at_rest_stays_as_it_is_for_all_threads_with_its_rows(tmp_path: Path) -> None:
    with closing(EmbeddedStore(tmp_path / "s", create=True)) as store, ThreadPoolExecutor(1) as pool:
        in_another_process(tmp_path / "s", "store.commit(Change(add=[quad(1)]))")

        def look() -> None:
            in_another_process(tmp_path / "s", "store.commit(Change(add=[quad(2)]))")
            assert store.quads(ALL) == [quad(1)]
            assert pool.submit(store.quads, ALL).result(20) == [quad(1)], "a thread that helps waits for nobody"
            with store.read_connection() as connection:
                assert connection.execute("SELECT head FROM trails_stores").fetchone() == (1,)

        store.at_rest(look)
        assert len(store) == 2


def test_a_store_opens_while_another_process_commits(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path / "s", create=True).close()
    code = f"""
from pathlib import Path
from trails.store import Change, EmbeddedStore
from tests.store.test_many_processes import quad
store = EmbeddedStore(Path({str(tmp_path / "s")!r}), durability="process")
print("ready", flush=True)
for number in range(1_000_000):
    store.commit(Change(add=[quad(number)]))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            numbers = []
            for _ in range(100):
                with closing(EmbeddedStore(tmp_path / "s")) as store:
                    numbers.append(store.number)
        finally:
            writer.kill()
    assert numbers == sorted(numbers)
    assert numbers[-1] > numbers[0]


def test_a_view_verifies_while_a_thread_refreshes_it_and_another_process_writes(tmp_path: Path) -> None:
    folder, stop = tmp_path / "s", threading.Event()
    with trails.open(folder, create=True, durability="process") as store:
        session = store.create(id="chat")
        for number in range(30):
            session.append("user", f"word {number}")
        session.persist()

    def write() -> None:
        with trails.open(folder, durability="process") as store:
            session = store.load("chat")
            while not stop.wait(0.003):
                session.append("user", "more")
                session.persist()

    def refresh() -> None:
        while not stop.wait(0.001):
            view.refresh()

    with trails.open(folder, read_only=True) as view, ThreadPoolExecutor(2) as pool:
        others = [pool.submit(write), pool.submit(refresh)]
        try:
            for _ in range(12):
                report = view.verify()
                assert report.ok, report.findings
        finally:
            stop.set()
        for each in others:
            each.result()


def test_a_view_takes_a_later_moment_if_records_are_rewritten_while_it_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_up = Engine.bring_up
    with trails.open(tmp_path / "s", create=True) as owner:
        for name in ("kept", "gone"):
            session = owner.create(id=name)
            session.append("user", "hello")
            session.persist()
        index = owner.store._index  # type: ignore[attr-defined] # an EmbeddedStore

        def rewritten_first(engine: Engine) -> None:
            if engine is not index and "gone" in owner:
                owner.delete("gone")
            bring_up(engine)

        monkeypatch.setattr(Engine, "bring_up", rewritten_first)
        with trails.open(tmp_path / "s", read_only=True) as view:
            report = view.verify()
            assert report.ok, report.findings
            assert [session.id for session in view] == ["kept"]


@pytest.mark.parametrize("quads", [10, 30_000], ids=["in memory", "in files"])
@pytest.mark.sample(1)
def test_the_index_can_be_deleted_and_damaged_at_any_time(tmp_path: Path, quads: int) -> None:
    folder = tmp_path / "s"
    with closing(EmbeddedStore(folder, create=True, durability="process")) as store:
        for start in range(0, quads, 5_000):
            store.commit(Change(add=[quad(number) for number in range(start, min(quads, start + 5_000))]))
        store.snapshot()
        wanted = set(store.quads(ALL))
        shutil.rmtree(folder / "index", ignore_errors=True)  # under a process that has it open
        store.commit(Change(add=[quad(-1)]))
        assert set(store.quads(ALL)) == wanted | {quad(-1)}
    for harm in (_delete, _truncate, _overwrite, _say_otherwise, _put_something_there):
        with closing(EmbeddedStore(folder)) as store:
            store.snapshot()
        harm(folder / "index")
        with closing(EmbeddedStore(folder)) as store, closing(ViewStore(folder)) as view:
            assert set(store.quads(ALL)) == set(view.quads(ALL)) == wanted | {quad(-1)}, harm.__name__


def _files(index: Path) -> list[Path]:
    return [path for path in index.rglob("*") if path.is_file()]


def _delete(index: Path) -> None:
    for path in _files(index)[::2]:
        path.unlink()


def _truncate(index: Path) -> None:
    for path in _files(index):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _overwrite(index: Path) -> None:
    for path in _files(index):
        if path.suffix == ".sst":
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 255
            path.write_bytes(bytes(data))


def _say_otherwise(index: Path) -> None:
    for path in _files(index):
        if path.name == "note.json":
            path.write_text(path.read_text().replace('"number": ', '"number": 1'))


def _put_something_there(index: Path) -> None:
    (index / "5-aa.snapshot").mkdir()
    (index / "5-aa.snapshot" / "note.json").write_text("{}")
    (index / "strange.engine").mkdir(exist_ok=True)
    (index / "6-bb.snapshot").write_text("no folder")


def test_a_snapshot_of_another_log_is_not_used(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with closing(EmbeddedStore(tmp_path / name, create=True)) as store:
            store.commit(Change(add=[quad(1, name)]))
            store.snapshot()
    shutil.rmtree(tmp_path / "a" / "index")
    shutil.copytree(tmp_path / "b" / "index", tmp_path / "a" / "index")
    with closing(EmbeddedStore(tmp_path / "a")) as store:
        assert store.quads(ALL) == [quad(1, "a")]


def test_a_log_that_is_removed_under_a_process_is_noticed_at_the_next_commit(tmp_path: Path) -> None:
    with closing(EmbeddedStore(tmp_path / "s", create=True)) as store:
        store.commit(Change(add=[quad(1)]))
        (tmp_path / "s").rename(tmp_path / "elsewhere")
        with pytest.raises(StoreFailed, match="removed, or moved away"):
            store.commit(Change(add=[quad(2)]))
        (tmp_path / "elsewhere").rename(tmp_path / "s")
        assert store.commit(Change(add=[quad(2)])).written


def test_an_engine_in_memory_moves_to_files_once_the_store_is_large(tmp_path: Path) -> None:
    with closing(EmbeddedStore(tmp_path / "s", create=True, durability="process")) as store:
        store.commit(Change(add=[quad(0)]))
        assert len(store) == 1
        assert not list((tmp_path / "s").glob("index/*.engine"))
        for start in range(1, 12_001, 3_000):
            store.commit(Change(add=[quad(number) for number in range(start, start + 3_000)]))
            len(store)
        store.snapshot()
        assert len(list((tmp_path / "s").glob("index/*.engine"))) == 1
        assert len(list((tmp_path / "s").glob("index/*.snapshot"))) == 1
        assert len(store) == 12_001
    assert not list((tmp_path / "s").glob("index/*.engine"))
