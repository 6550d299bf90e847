"""Sessions as Parquet files: a row a session, a turn, a tool call, and no turn twice."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.commands import Run, ok_json
from tests.support.pages import grown
from trails import IndexGap, InvalidInput, Repository, TrailsError
from trails.display import tables
from trails.exchange.exporters.parquet_export import export_tables
from trails.store.contract import Change

pytest.importorskip("pyarrow", reason="pip install 'trails[arrow]'")


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    from pyarrow.parquet import read_table  # it ships no types

    found: list[dict[str, Any]] = read_table(folder / f"{name}.parquet").to_pylist()
    return found


def picked(folder: Path, name: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows(folder, name)]


def test_each_turn_is_a_row_once_under_the_session_that_owns_it(store: Repository, tmp_path: Path) -> None:
    grown(store)
    alone = store.create(id="alone")
    alone.append("user", "z")
    alone.persist()
    report = export_tables(store, tmp_path / "all")
    assert picked(tmp_path / "all", "turns", "session", "index", "content") == [
        ("plan", 0, "a"),
        ("plan", 1, "b"),
        ("plan", 2, "c"),
        ("other", 2, "x"),
        ("deep", 1, "y"),
        ("alone", 0, "z"),
    ]
    assert picked(
        tmp_path / "all", "sessions", "session", "parent", "forked_at", "depth", "root", "turns", "own_turns"
    ) == [
        ("plan", None, None, 0, "plan", 3, 3),
        ("other", "plan", 2, 1, "plan", 3, 1),
        ("deep", "other", 1, 2, "plan", 2, 1),
        ("alone", None, None, 0, "alone", 1, 1),
    ]
    assert (report.sessions, report.turns) == (("plan", "other", "deep", "alone"), 6)


def test_a_session_comes_with_the_turns_that_it_inherits_and_with_forks_where_they_are_asked_for(
    memory: Repository, tmp_path: Path
) -> None:
    grown(memory)
    export_tables(memory, tmp_path / "deep", "deep")
    assert picked(tmp_path / "deep", "turns", "session", "index") == [("plan", 0), ("deep", 1)]
    export_tables(memory, tmp_path / "other", "other", forks=True)
    assert picked(tmp_path / "other", "turns", "session", "index") == [
        ("plan", 0),
        ("plan", 1),
        ("other", 2),
        ("deep", 1),
    ]


def test_what_a_model_call_told_stands_in_columns_of_their_types(memory: Repository, tmp_path: Path) -> None:
    session = memory.create(id="plan", meta={"task": "t"})
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    session.append("user", [{"type": "text", "text": "hi"}], time=when)
    session.append("assistant", "", model="m-1", usage={"input_tokens": 7, "output_tokens": 3, "cost": 0.5})
    session.persist()
    memory.redact("plan", 0)
    export_tables(memory, tmp_path / "out")
    first, second = rows(tmp_path / "out", "turns")
    assert (first["content"], first["redacted"], first["time"], first["model"]) == (None, True, when, None)
    assert (first["input_tokens"], first["cost"]) == (None, None)
    assert (second["content"], second["input_tokens"], second["output_tokens"], second["cost"]) == ("", 7, 3, 0.5)
    assert rows(tmp_path / "out", "sessions")[0]["meta"] == '{"task":"t"}'


def test_what_a_model_call_did_not_report_is_null_and_a_reported_zero_is_zero(
    memory: Repository, tmp_path: Path
) -> None:
    session = memory.create(id="plan")
    for usage in ({"input_tokens": None, "output_tokens": None}, {"output_tokens": 2}, {"input_tokens": 0, "cost": 0}):
        session.append("assistant", "hi", model="m-1", usage=usage)
    session.persist()
    export_tables(memory, tmp_path / "out")
    assert picked(tmp_path / "out", "turns", "input_tokens", "output_tokens", "cost") == [
        (None, None, None),
        (None, 2, None),
        (0, None, 0.0),
    ]


def test_a_call_is_a_row_with_the_answer_that_its_own_session_gives(memory: Repository, tmp_path: Path) -> None:
    session = memory.create(id="plan")
    calls = [{"id": name, "name": "ls", "arguments": '{"at": "/"}'} for name in ("c1", "c2")]
    session.append("assistant", "", tool_calls=calls)
    session.append("tool", "no", tool_call_id="c1", is_error=True)
    session.persist()
    fork = session.fork(at=1, id="fork")
    fork.append("tool", "yes", tool_call_id="c2")
    fork.persist()
    export_tables(memory, tmp_path / "out")
    assert picked(tmp_path / "out", "calls", "session", "index", "position", "call", "name", "arguments") == [
        ("plan", 0, 0, "c1", "ls", '{"at": "/"}'),
        ("plan", 0, 1, "c2", "ls", '{"at": "/"}'),
    ]
    assert picked(tmp_path / "out", "calls", "answered_at", "is_error") == [(1, True), (None, None)]
    assert picked(tmp_path / "out", "turns", "session", "answers") == [("plan", []), ("plan", ["c1"]), ("fork", ["c2"])]


def test_a_score_is_a_row_once_and_says_whether_it_counts(memory: Repository, tmp_path: Path) -> None:
    grown(memory)
    memory.score("plan", "accuracy", 0.5, by="agent:judge", reason="half")
    memory.score("plan", "accuracy", 0.75, by="agent:judge")
    memory.score("plan#0", "kind", "short", by="alice", version="2")
    memory.detach("other")  # what it inherited are copies now, and share the scores of what they copy
    export_tables(memory, tmp_path / "out")
    assert picked(
        tmp_path / "out", "scores", "session", "on", "start", "end", "name", "value", "number", "by", "counts"
    ) == [
        ("plan", "session", None, 3, "accuracy", "0.5", 0.5, "judge", False),
        ("plan", "session", None, 3, "accuracy", "0.75", 0.75, "judge", True),
        ("plan", "turn", 0, 1, "kind", "short", None, "alice", True),
    ]


def test_files_that_are_there_stay_unless_they_may_be_replaced(memory: Repository, tmp_path: Path) -> None:
    grown(memory)
    out = tmp_path / "out"
    export_tables(memory, out, "deep")
    with pytest.raises(InvalidInput, match=r"sessions\.parquet is there already"):
        export_tables(memory, out)
    assert len(rows(out, "turns")) == 2
    export_tables(memory, out, force=True)
    assert len(rows(out, "turns")) == 5
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out"]
    assert {each.stat().st_mode & 0o777 for each in out.iterdir()} == {0o600}


def test_what_cannot_be_read_whole_leaves_nothing_behind(memory: Repository, tmp_path: Path) -> None:
    grown(memory)
    (turn,) = memory.reader.turns_at("plan", [1])
    quads = memory.store.quads((None, None, None, None))
    memory.store.commit(Change(remove=[quad for quad in quads if getattr(quad.subject, "value", "") == turn.iri]))
    with pytest.raises(IndexGap):
        export_tables(memory, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store_gives_tables_without_rows(memory: Repository, tmp_path: Path) -> None:
    report = export_tables(memory, tmp_path / "out")
    assert [rows(tmp_path / "out", name) for name in ("sessions", "turns", "calls", "scores")] == [[], [], [], []]
    assert report.sessions == ()


def test_without_pyarrow_the_extra_is_named(
    memory: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise TrailsError("a Parquet file needs the package `pyarrow`: pip install 'trails[arrow]'")

    monkeypatch.setattr(tables, "optional", missing)
    with pytest.raises(TrailsError, match=r"trails\[arrow\]"):
        export_tables(memory, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_all_sessions_or_one(run: Run, place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True) as store:
        grown(store)
    told = ok_json(run("export", "--format", "parquet", "-o", tmp_path / "all", "--json"))
    assert (told["format"], told["turns"], len(told["sessions"])) == ("parquet", 5, 3)
    told = ok_json(run("export", "deep", "--format", "parquet", "-o", tmp_path / "deep", "--json"))
    assert (told["turns"], told["sessions"]) == (2, ["deep"])
    assert run("export", "deep", "--format", "parquet").exit_code == 2
    assert run("export", "--forks", "--format", "parquet", "-o", tmp_path / "no").exit_code == 2
