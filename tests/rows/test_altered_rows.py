"""Tables that were altered in the store's file are found by `verify`, and made anew by `vacuum`."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.everything import everything
from trails.rows import row_schema, text_index

_USAGE = {"input_tokens": 30, "output_tokens": 6, "cost": 0.25, "reasoning_tokens": 1, "cache_read_input_tokens": 2}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small store with tool calls, usage, costs, a fork, copies, metadata, a tag and a redaction; all texts are indexed."""
    place = tmp_path_factory.mktemp("whole") / "a.trails"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_index, "WAITING", 1)
        with trails.open(place, create=True, durability="process") as store:
            session = store.create(
                id="plan", principal="ann", agent="planner", label="trip", meta={"title": "Trip", "cwd": "/a"}
            )
            session.append("user", "Where is snow?")
            call = {"id": "c1", "name": "weather", "arguments": {"town": "Chamonix"}}
            session.append("assistant", "I look.", model="m-1", usage=_USAGE, tool_calls=[call])
            session.append("tool", "In Chamonix", tool_call_id="c1")
            session.append("assistant", "In Chamonix.", model="m-1", usage=_USAGE)
            session.append("user", "Thanks")
            session.persist()
            fork = session.fork(at=4, id="fork")
            fork.append("user", "And where is sun?")
            fork.persist()
            fork.detach()
            store.tags.add("start", "plan")
            store.redact("plan", 4)
            other = store.create(id="other")
            other.append("user", "My password is 1234")
            other.persist()
            store.delete("other")
            assert store.verify().ok
        yield place


def altered_value(value: Any) -> Any:
    """Return another value of the same type."""
    match value:
        case None:
            return 77
        case bytes():
            return bytes([*value[:-1], value[-1] ^ 1]) if value else b"x"
        case str():
            return value + "x"
        case _:
            return value + 1_000_003


TABLES = {table: list(columns) for table, columns in row_schema.COLUMNS.items()} | {
    "texts_0_data": ["block"],
    "texts_0_idx": ["segid", "term", "pgno"],
    "texts_0_config": ["k", "v"],
}
ALTERATIONS = [
    *((table, column) for table, columns in TABLES.items() for column in columns),
    *((table, verb) for table in TABLES for verb in ("INSERT", "DELETE")),
]


def alter(db: sqlite3.Connection, table: str, what: str) -> None:
    """Change one column of one row, add a row like another, or delete one."""
    info = db.execute(f"PRAGMA table_info({table})").fetchall()
    names, keys = [row[1] for row in info], [row[1] for row in info if row[5]]
    nulls_last = f"{what} IS NULL, " if what in names else ""
    row = db.execute(f"SELECT * FROM {table} ORDER BY {nulls_last}{', '.join(names)} LIMIT 1").fetchone()  # noqa: S608
    values = dict(zip(names, row, strict=True))
    condition = " AND ".join(f"{name} IS ?" for name in names)
    if what == "INSERT":
        for key in {*(keys or names[:1]), {"sessions": "id", "kinds": "role"}.get(table, names[0])}:
            values[key] = altered_value(values[key])
        db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", list(values.values()))  # noqa: S608
    elif what == "DELETE":
        assert db.execute(f"DELETE FROM {table} WHERE {condition}", row).rowcount == 1  # noqa: S608
    else:
        changed = db.execute(
            f"UPDATE {table} SET {what} = ? WHERE {condition}",  # noqa: S608
            (altered_value(values[what]), *row),
        )
        assert changed.rowcount == 1


@pytest.mark.parametrize(("table", "what"), ALTERATIONS)
def test_every_alteration_of_a_table_is_found(whole: Path, tmp_path: Path, table: str, what: str) -> None:
    place = tmp_path / "a.trails"
    shutil.copytree(whole, place)
    with closing(sqlite3.connect(place / "trails.db", isolation_level=None)) as db:
        alter(db, table, what)
    with trails.open(place, read_only=True) as store:
        report = store.verify()
    if (table, what) == ("rows_at", "DELETE"):  # all rows are made anew
        assert report.ok
        return
    assert {found.code for found in report.findings} == {"rows-differ"}, (table, what)
    name = table.removesuffix("s") if table == "kinds" else re.sub("(texts_0)_.*", r"\1", table)
    assert any(name in found.message for found in report.findings), report.findings


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("DROP TABLE calls", "the table calls"),
        ("DROP TABLE shards", "the table shards"),
        ("DROP INDEX calls_home", "the index calls_home"),
        ("ALTER TABLE turns ADD COLUMN rating", "the table turns"),
        ("CREATE TRIGGER late AFTER INSERT ON turns BEGIN DELETE FROM calls; END", "the trigger late"),
    ],
)
def test_every_alteration_of_the_schema_is_found(whole: Path, tmp_path: Path, change: str, what: str) -> None:
    place = tmp_path / "a.trails"
    shutil.copytree(whole, place)
    with closing(sqlite3.connect(place / "trails.db", isolation_level=None)) as db:
        db.execute(change)
    with trails.open(place, read_only=True) as store:
        assert [(found.code, what in found.message) for found in store.verify().findings] == [("rows-differ", True)]


@pytest.mark.parametrize("table", ["turns", "calls", "sessions", "texts_0_idx"])
def test_a_vacuum_makes_altered_tables_anew(whole: Path, tmp_path: Path, table: str) -> None:
    place = tmp_path / "a.trails"
    shutil.copytree(whole, place)
    with trails.open(whole, read_only=True) as store:
        sound = [(each.id, each.turns, each.calls, each.cost, each.title) for each in store.summaries()]
    with closing(sqlite3.connect(place / "trails.db", isolation_level=None)) as db:
        alter(db, table, "DELETE")
    with trails.open(place) as store:
        assert not store.verify().ok
        store.maintenance.vacuum()
        assert store.verify().ok
        assert [(each.id, each.turns, each.calls, each.cost, each.title) for each in store.summaries()] == sound
        assert [found.session_id for found in store.search("Chamonix")] == ["plan"] * 3


@pytest.mark.slow
def test_a_store_with_all_there_is_has_the_rows_that_its_quads_make(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_index, "WAITING", 1)
    with trails.open(place, create=True, durability="process") as store:
        everything(store)
        assert store.verify().findings == ()
        store.maintenance.vacuum()
        assert store.verify().findings == ()


def test_turns_read_the_same_after_a_vacuum_here_and_in_a_store_that_was_open_meanwhile(tmp_path: Path) -> None:
    place = tmp_path / "a.trails"
    with trails.open(place, create=True) as store, trails.open(place) as other:
        gone = store.create(id="gone", principal="ann")
        gone.append("tool", "gone")
        gone.persist()
        plan = store.create(id="plan", principal="bob", agent="planner")
        plan.append("user", "Where to?")
        plan.append("assistant", "To Oslo")
        plan.persist()
        for _ in range(2):
            for each in (store, other):
                turns = each.load("plan").turns
                assert [(turn.role, turn.author) for turn in turns] == [("user", "bob"), ("assistant", "planner")]
                assert each.verify().ok
            if "gone" in store:
                store.delete("gone")
            store.maintenance.vacuum()


def test_a_text_that_is_bytes_in_its_row_is_read_from_the_quads(whole: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(whole, tmp_path / "a.trails"))
    with closing(sqlite3.connect(place / "trails.db")) as file:
        file.execute("UPDATE turns SET text = CAST(text AS BLOB) WHERE place = 0")
        file.commit()
    with trails.open(place) as store:
        assert store.load("plan").turns[0].content == "Where is snow?"
        assert store.context("plan").turns[0].content == "Where is snow?"
        assert not store.verify().ok
