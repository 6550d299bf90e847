"""Damage that others do to the files of a store: each command works, or says in words of Trails what to do."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import Repository, StoreFailed, TrailsError
from trails.store.doctor import doctor

_TABLES = (
    "sessions",
    "meta",
    "kinds",
    "turns",
    "calls",
    "tool_calls",
    "tool_answers",
    "rows_at",
    "tags",
    "zones",
    "shards",
)
_READS: dict[str, Callable[[Repository], Any]] = {
    "list": lambda store: [*store.list()],
    "summaries": lambda store: [[*store.summaries(sort=order)] for order in ("created", "activity", "turns", "tokens")],
    "load": lambda store: [each.content for name in ("s0", "s1", "fork") for each in store.load(name).turns],
    "head": lambda store: store.load("s0").head,
    "record": lambda store: store.record("s1"),
    "replay": lambda store: store.replay("s1"),
    "branches": lambda store: store.branches("s1"),
    "search": lambda store: [*store.search("hello"), *store.search("unusual1x3")],
    "stats": lambda store: store.stats(),
    "cost": lambda store: store.cost(),
    "select": lambda store: store.select("SELECT ?t ?v { GRAPH ?g { ?t prov:value ?v } }"),
    "usage": lambda store: store.select("token-usage-by-model"),
    "context": lambda store: store.context("s1", "hello", max_tokens=300),
    "info": lambda store: store.info(),
    "forest": lambda store: store.forest(),
    "diff": lambda store: store.diff("s1", "fork"),
    "verify": lambda store: store.verify(),
    "count": lambda store: len(store.store),
}
_WRITES: dict[str, Callable[[Repository], Any]] = {
    "append": lambda store: _append(store, "s1"),
    "create": lambda store: store.create().persist(),
    "redact": lambda store: store.redact("s0", 1),
    "delete": lambda store: store.delete("s0"),
    "vacuum": lambda store: store.maintenance.vacuum(),
    "snapshot": lambda store: store.store.snapshot(),  # type: ignore[attr-defined] # an EmbeddedStore
}


def _append(store: Repository, name: str) -> int:
    session = store.load(name)
    session.append("user", "more")
    return session.persist()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with something in each table."""
    folder = tmp_path_factory.mktemp("sound") / "s"
    with trails.open(folder, create=True) as store:
        for number in range(2):
            session = store.create(id=f"s{number}", label=f"L{number}", meta={"cwd": "/x"})
            for index in range(20):
                session.append("user", f"hello unusual{number}x{index}")
                parts = [{"type": "text", "text": "an answer"}]
                session.append("assistant", parts, model="m-1", usage={"input_tokens": 5, "output_tokens": 3})
            session.persist()
        fork = store.load("s1").fork(at=9, id="fork")
        fork.append("user", "only here")
        fork.persist()
        assert _READS["search"](store)
    return folder


def _sql(*statements: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        connection = sqlite3.connect(folder / "trails.db", isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()

    return harm


def _garbage(seed: int) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        chance, file = random.Random(seed), folder / "trails.db"
        page = chance.randrange(1, file.stat().st_size // 4096)
        with file.open("r+b") as opened:
            opened.seek(page * 4096 + chance.randrange(3_000))
            opened.write(chance.randbytes(600))

    return harm


def _in_place_of(name: str, text: bytes | None) -> Callable[[Path], None]:
    """Put a file with a text, or a folder, in the place of what is there."""

    def harm(folder: Path) -> None:
        place = folder / name
        shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)
        place.mkdir() if text is None else place.write_bytes(text)

    return harm


_HARMS: dict[str, Callable[[Path], None]] = {
    "locks is a file": _in_place_of("locks", b"x"),
    "index is a file": _in_place_of("index", b"x"),
    "the write-ahead log is garbage": _in_place_of("trails.db-wal", random.Random(1).randbytes(40_000)),
    "the write-ahead log is a folder": _in_place_of("trails.db-wal", None),
    "the shared memory is garbage": _in_place_of("trails.db-shm", random.Random(2).randbytes(32_768)),
    "the log is empty": _in_place_of("trails.db", b""),
    "the log is a folder": _in_place_of("trails.db", None),
    "the log is no log": _in_place_of("trails.db", b"x" * 8_192),
    "the log is cut": lambda folder: os.truncate(folder / "trails.db", 40_960),
    "no records": _sql("DROP TABLE trails_records"),
    "no store": _sql("DELETE FROM trails_stores"),
    "no graphs": _sql("DROP TABLE trails_graphs"),
    "a trigger": _sql("CREATE TRIGGER t AFTER INSERT ON trails_records BEGIN DELETE FROM turns; END"),
    "head is text": _sql("UPDATE trails_stores SET head = 'x'"),
    "format is text": _sql("UPDATE trails_stores SET format = 'x'"),
    "older is no JSON": _sql("UPDATE trails_stores SET older = '{'"),
    "a body is text": _sql("UPDATE trails_records SET body = 'x' WHERE number = 2"),
    "a body is short": _sql("UPDATE trails_records SET body = x'00' WHERE number = 2"),
    "flags are text": _sql("UPDATE trails_records SET flags = 'x' WHERE number = 2"),
    "leaves are no text": _sql("UPDATE trails_records SET leaves = x'ff' WHERE number = 2"),
    "lines are text": _sql("UPDATE trails_records SET lines = 'x'"),
    "a record is gone": _sql("DELETE FROM trails_records WHERE number = 2"),
    "the rows are gone": _sql(*(f"DROP TABLE {table}" for table in _TABLES)),
    **{f"no table {table}": _sql(f"DROP TABLE {table}") for table in _TABLES},
    **{
        f"no rows in {table}": _sql(f"DELETE FROM {table}")  # noqa: S608 - a constant
        for table in _TABLES
    },
    "kinds of another form": _sql("UPDATE kinds SET form = form + 1"),
    "statements that are no JSON": _sql("UPDATE turns SET more = 'x'"),
    "digests are numbers": _sql("UPDATE turns SET digest = 1"),
    "times are text": _sql("UPDATE turns SET time = 'x'", "UPDATE sessions SET created = 'x', activity = 'y'"),
    "places are text": _sql("UPDATE turns SET place = 'x'"),
    "where the rows are is text": _sql("UPDATE rows_at SET number = 'x'"),
    "costs are text": _sql("UPDATE calls SET cost = 'x', input = 'y'", "UPDATE sessions SET cost = 'x', input = 'y'"),
    **{f"garbage in a page, {seed}": _garbage(seed) for seed in range(6)},
}


@pytest.mark.parametrize("body", ["x'00'", "substr(body, 1, length(body) / 2)", "randomblob(900)", "'x'"])
def test_a_damaged_record_before_a_snapshot_is_named_by_verify_and_vacuum(
    sound: Path, tmp_path: Path, body: str
) -> None:
    folder = tmp_path / "s"
    shutil.copytree(sound, folder)
    with trails.open(folder) as store:
        store.store.snapshot()  # type: ignore[attr-defined] # an EmbeddedStore
    _sql(f"UPDATE trails_records SET body = {body} WHERE number = 2")(folder)  # noqa: S608 - a constant
    for work in (
        lambda store: store.maintenance.vacuum(),
        lambda store: [each.message for each in store.verify().findings],
    ):
        with trails.open(folder) as store:
            try:
                answer = f"{work(store)}"
            except StoreFailed as error:
                answer = error.message
        assert "record 2 of the log" in answer


@pytest.mark.filterwarnings("ignore::trails.errors.PendingTurnsWarning")
@pytest.mark.parametrize("harm", _HARMS)
@pytest.mark.parametrize("is_read", [True, False], ids=["reading", "writing"])
@pytest.mark.sample(20)
def test_whatever_is_damaged_every_command_works_or_says_what_to_do(
    sound: Path, tmp_path: Path, harm: str, *, is_read: bool
) -> None:
    folder = tmp_path / "s"
    shutil.copytree(sound, folder)
    _HARMS[harm](folder)
    said = dict[str, str]()
    for name, command in (_READS if is_read else _WRITES).items():
        try:
            with trails.open(folder, read_only=is_read) as store:
                command(store)
        except TrailsError as error:
            said[name] = error.message
    assert "" not in said.values()
    assert all(check.ok or check.message for check in doctor(folder))


@pytest.mark.parametrize(
    "harm", ["the rows are gone", *(f"no table {table}" for table in _TABLES), "where the rows are is text"]
)
def test_a_vacuum_makes_the_rows_anew_whatever_is_left_of_them(sound: Path, tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "s"
    shutil.copytree(sound, folder)
    _HARMS[harm](folder)
    with trails.open(folder) as store, trails.open(sound) as before:
        store.maintenance.vacuum()
        for name in ("list", "load", "stats", "search"):
            assert repr(_READS[name](store)) == repr(_READS[name](before)), name
        assert store.verify().ok


@pytest.mark.parametrize("command", [*_READS, *_WRITES])
def test_a_forked_child_is_refused_every_command_of_a_store_that_its_parent_has_open(
    tmp_path: Path, command: str
) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        for name in ("s0", "s1", "fork"):
            session = store.create(id=name)
            session.append("user", "hello")
            session.append("user", "again")
            session.persist()
        child = os.fork()
        if not child:
            try:
                (_READS | _WRITES)[command](store)
            except StoreFailed as error:
                os._exit(0 if "was opened before this process was forked" in error.message else 2)
            except BaseException:  # noqa: BLE001 - whatever it is, the child ends
                os._exit(3)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
