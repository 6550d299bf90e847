"""How a process joins a store in PostgreSQL: in steps of so many bytes, and from where the one before it was killed."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pyoxigraph as ox
import pytest

import trails
from tests.support.clusters import log_of
from tests.support.commands import invoke, ok, ok_json
from trails.model import iris
from trails.rdf import vocab
from trails.store.contract import Solutions
from trails.store.index import engine, engine_filling
from trails.store.index.index_folder import IndexFolder
from trails.store.log import commit_log, records, sqlite
from trails.store.log.records import CommitRecord
from trails.store.postgres.log import folder_of
from trails.store.postgres.status import status_of

_CHANCE = random.Random(7)
_EVERY_TURN = "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?turn a trails:Turn } }"


def _text(size: int) -> str:
    """Return a text that does not get much smaller when it is packed."""
    return _CHANCE.randbytes(size // 2).hex()


def _count(store: trails.Repository) -> object:
    """Return how many turns the engine finds."""
    found = store.query(_EVERY_TURN)
    assert isinstance(found, Solutions)
    return found.to_dicts()[0]["n"]


def _fill(store: trails.Repository, sessions: int, size: int) -> None:
    for number in range(sessions):
        session = store.create(id=f"s{number}")
        session.append("user", _text(size))
        session.persist()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have stores opened from now on as on a machine that has no copy yet."""

    def move() -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))

    return move


def test_a_step_ends_once_it_has_its_bytes(url: str) -> None:
    with trails.open(url, create=True) as store:
        _fill(store, 5, 1 << 20)  # half of that packed
        log = log_of(store.store)
        assert [row.number for row in log.server.tail(0, 500)] == [1, 2]
        assert [row.number for row in log.server.tail(2, 500)] == [3, 4]
        assert [row.number for row in log.server.tail(4, 500)] == [5]
        assert [row.number for row in log.home.tail(0)] == [1, 2]


@pytest.mark.parametrize("text", [1, 8 << 20])
def test_a_copy_takes_in_what_a_step_holds_as_memory_allows(
    url: str, elsewhere: Callable[[], None], monkeypatch: pytest.MonkeyPatch, text: int
) -> None:
    monkeypatch.setattr(commit_log, "_TEXT", text)
    monkeypatch.setattr(commit_log, "_PACKED_FROM", 1)
    with trails.open(url, create=True) as store:
        _fill(store, 7, 100)
        elsewhere()
        with trails.open(url) as other:
            assert {each.id for each in other.list()} == {f"s{number}" for number in range(7)}
            assert _count(other) == 7
            store.delete("s3")
            _fill_one(store, "s8")
            other.sync()
            assert {each.id for each in other.list()} == {"s0", "s1", "s2", "s4", "s5", "s6", "s8"}
            assert _count(other) == 7
            assert other.verify().findings == ()


def _fill_one(store: trails.Repository, name: str) -> None:
    session = store.create(id=name)
    session.append("user", "once more")
    session.persist()


def test_an_index_that_was_killed_while_it_was_made_goes_on_from_there(
    url: str, elsewhere: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(url, create=True) as store:
        _fill(store, 9, 100)
    elsewhere()
    monkeypatch.setattr(engine, "_SMALL_FILE", 0)
    monkeypatch.setattr(engine, "_STEP", 1)
    monkeypatch.setattr(engine, "_SAVE_SECONDS", 0.0)
    fill, taken = engine_filling.fill, list[CommitRecord]()

    def killed(into: ox.Store, given: Iterable[CommitRecord]) -> int:
        if len(taken) == limit:
            raise KeyboardInterrupt
        found = list(given)
        taken.extend(found)
        return fill(into, found)

    monkeypatch.setattr(engine_filling, "fill", killed)
    for limit in (3, 6):  # noqa: B007 - read in `killed`
        with pytest.raises(KeyboardInterrupt):
            trails.open(url)
    limit = -1
    with trails.open(url) as store:
        assert _count(store) == 9
    assert len(taken) == 9


def test_an_index_that_is_killed_three_seconds_into_its_making_does_not_begin_anew(
    url: str, elsewhere: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(url, create=True) as store:
        _fill(store, 9, 100)
    elsewhere()
    monkeypatch.setattr(engine, "_SMALL_FILE", 0)
    monkeypatch.setattr(engine, "_STEP", 1)
    fill, now, taken, is_killed = engine_filling.fill, 0.0, list[CommitRecord](), True

    def a_second_each(into: ox.Store, given: Iterable[CommitRecord]) -> int:
        nonlocal now
        if is_killed and now == 3:
            raise KeyboardInterrupt
        now += 1
        records_of_step = list(given)
        taken.extend(records_of_step)
        return fill(into, records_of_step)

    monkeypatch.setattr(engine_filling, "fill", a_second_each)
    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: now))
    with pytest.raises(KeyboardInterrupt):
        trails.open(url)
    is_killed, before = False, len(taken)
    with trails.open(url) as store:
        assert _count(store) == 9
    assert before == 3
    assert len(taken) - before == 7  # the first two records were saved, the third comes again


def test_rows_that_were_not_ended_go_on_from_there(
    url: str, elsewhere: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(url, create=True) as store:
        _fill(store, 6, 100)
    elsewhere()
    monkeypatch.setattr(sqlite, "STEP_BYTES", 1)
    unpack, left = records.Row.unpack, 1_000

    def counted(row: records.Row) -> records.Unpacked:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return unpack(row)

    with trails.open(url) as store:
        monkeypatch.setattr(records.Row, "unpack", counted)
        left = 4
        with pytest.raises(KeyboardInterrupt):
            store.list()
        left = 2
        assert len(list(store.list())) == 6


def test_one_process_of_a_machine_makes_a_snapshot_at_a_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_PATIENCE", 0.1)
    with trails.open(url, create=True) as store, trails.open(url) as other:
        _fill(store, 2, 100)
        index, folder = log_of(store.store), IndexFolder(folder_of(log_of(store.store).server.cache_name()))
        with log_of(other.store).alone_here("snapshot") as is_alone:
            assert is_alone
            with pytest.raises(trails.StoreLocked, match="another process has been making a snapshot"):
                store.store.snapshot()  # type: ignore[attr-defined] # an EmbeddedStore
            with index.alone_here("snapshot") as is_second:
                assert not is_second
        assert folder.snapshots() == []
        assert store.store.snapshot() == 2  # type: ignore[attr-defined]
        assert [each.mark.number for each in folder.snapshots()] == [2]


@pytest.mark.parametrize("seconds", [0.0, 1_000.0])
def test_a_process_that_only_reads_on_makes_a_snapshot_in_time(
    url: str, elsewhere: Callable[[], None], monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(engine, "_SMALL_FILE", 0)
    monkeypatch.setattr(engine, "_SNAPSHOT_SECONDS", seconds)
    monkeypatch.setattr(engine, "_SMALL", 15)
    with trails.open(url, create=True) as store:
        elsewhere()
        with trails.open(url) as other:
            folder = IndexFolder(folder_of(log_of(other.store).server.cache_name()))
            _fill(store, 1, 100)
            other.sync()
            assert _count(other) == 1
            _fill_one(store, "s1")
            other.sync()
            other.store._index.join()  # type: ignore[attr-defined]
            assert [each.mark.number for each in folder.snapshots()] == ([2] if seconds == 0 else [])


def test_a_command_makes_a_snapshot(url: str) -> None:
    with trails.open(url, create=True) as store:
        _fill(store, 3, 100)
    assert ok_json(invoke("store", "snapshot", "--json", store=url))["commits"] == 3
    assert status_of(url).snapshot_commits == 0
    assert "all 3 commits" in ok(invoke("store", "snapshot", store=url))


_SPOILING = [
    "UPDATE trails_records SET body = (SELECT body FROM trails_records WHERE number = 2)",
    "UPDATE trails_records SET commit_id = 'x'",
    "DELETE FROM trails_records",
]


def _spoil(url: str, statement: str, *, engine_too: bool) -> None:
    """Make a store of four sessions, and change record 3 of this machine's copy of its log."""
    with trails.open(url, create=True) as store:
        _fill(store, 4, 100)
        folder = folder_of(log_of(store.store).server.cache_name())
        store.store.snapshot()  # type: ignore[attr-defined] # of a store in PostgreSQL
    if engine_too:
        shutil.rmtree(folder / "index", ignore_errors=True)
    with closing(sqlite3.connect(folder / sqlite.NAME)) as copy:
        copy.execute(f"{statement} WHERE number = 3")
        copy.commit()


@pytest.mark.parametrize("statement", [_SPOILING[0], _SPOILING[2]])
def test_a_damaged_copy_is_not_read_and_made_anew(url: str, statement: str, caplog: pytest.LogCaptureFixture) -> None:
    _spoil(url, statement, engine_too=True)
    with trails.open(url) as store:
        assert _count(store) == 4
        assert "copy of the log" in caplog.text
    caplog.clear()
    with trails.open(url) as store:
        assert _count(store) == 4
        assert store.verify().findings == ()
    assert caplog.text == ""


@pytest.mark.parametrize("statement", _SPOILING)
def test_verify_finds_that_the_copy_differs_and_the_next_opening_makes_it_anew(url: str, statement: str) -> None:
    _spoil(url, statement, engine_too=False)
    with trails.open(url) as store:
        messages = [finding.message for finding in store.verify().findings]
        assert any(each.startswith("this machine's copy of the log") for each in messages), messages
    with trails.open(url) as store:
        assert store.verify().findings == ()


def test_what_came_in_as_packed_records_is_found_by_any_pattern(url: str) -> None:
    with trails.open(url, create=True) as writer, trails.open(url) as reader:
        _fill(writer, 2, 100)
        reader.sync()
        assert _count(reader) == 2  # its engine is open
        session = writer.create(id="late")
        for _ in range(40):
            session.append("user", _text(4_000))
        session.persist()
        assert reader.sync()
        late = ox.NamedNode(iris.session("late"))
        assert len(reader.store.quads((late, vocab.TYPE, None, None))) > 0
        assert len(reader.store.quads((None, vocab.ROLE, None, late))) == 40
