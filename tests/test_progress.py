"""How far long work is: one callback for all of it, and the bars of a terminal and of a notebook."""

from __future__ import annotations

import io
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import trails
from trails.cli import main
from trails.display import progress
from trails.display.progress import moving
from trails.exchange.file_import import import_path
from trails.history.lookup import session_quads
from trails.rows import row_schema
from trails.session import store_restore


class Calls:
    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int, name: str) -> None:
        self.calls.append((done, total))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Shown:
    """A notebook's display: what was shown, and what it was changed into."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def display(self, value: Any, *, display_id: bool) -> Shown:
        assert display_id
        self.pages.append(value._repr_html_())
        return self

    def update(self, value: Any) -> None:
        self.pages.append(value._repr_html_())


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Shown:
    shown = Shown()
    shell = type("ZMQInteractiveShell", (), {})()
    python = SimpleNamespace(get_ipython=lambda: shell, display=SimpleNamespace(display=shown.display))
    monkeypatch.setitem(sys.modules, "IPython", python)
    return shown


def filled(place: Path) -> None:
    with trails.open(place, create=True, durability="process") as store:
        for name in "ab":
            session = store.create(id=name)
            session.append("user", "Hello")
            session.persist()


def test_all_that_takes_long_tells_one_kind_of_callback_how_far_it_is(tmp_path: Path) -> None:
    filled(tmp_path / "s")
    told: dict[str, Calls] = {name: Calls() for name in ("verify", "scan", "dump", "load", "import")}
    export = tmp_path / "chat.jsonl"
    export.write_text(
        '{"type":"user","uuid":"u1","sessionId":"x","timestamp":"2026-01-01T00:00:00Z",'
        '"message":{"role":"user","content":"Hi"}}\n'
    )
    with trails.open(tmp_path / "s") as store:
        assert store.verify(progress=told["verify"]).ok
        session_quads.scan_sessions(store.workspace, told["scan"])
        store.maintenance.dump(tmp_path / "d.gz", progress=told["dump"])
        import_path(store, export, format="claude-code", final=True, progress=told["import"])
    store_restore.load_dump(tmp_path / "d.gz", tmp_path / "new", told["load"])
    for name, each in told.items():
        assert each.calls, name
        assert [done for done, _ in each.calls] == sorted(done for done, _ in each.calls), name
        assert all(0 <= done <= total for done, total in each.calls), name
    assert told["verify"].calls == [(1, 2), (2, 2)]


def test_without_a_terminal_or_a_notebook_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", written := io.StringIO())
    for asked in (True, False, None):
        with moving(asked, "verifying") as move:
            assert move is None
    assert written.getvalue() == ""


def test_a_terminal_has_a_bar_that_nothing_in_a_name_steers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", written := Terminal())
    with moving(True, "importing") as move:
        assert move is not None
        move(1, 2, "[bold]a\x1b]0;gone\x07.jsonl")
        move(2, 2, "")
    assert "importing" in written.getvalue()
    assert "\x1b]0;" not in written.getvalue()


def test_a_command_that_waits_for_the_index_or_the_rows_has_a_bar_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "s"
    filled(place)
    drawn = {}
    for name, seconds in {"at once": 0.0, "later": 60.0}.items():
        shutil.rmtree(place / "index", ignore_errors=True)
        with closing(sqlite3.connect(place / "trails.db")) as rows:
            row_schema.drop_tables(rows)
            rows.commit()
        monkeypatch.setattr(progress, "_SOON", seconds)
        for arguments in (["query", "ASK { ?s ?p ?o }"], ["append", "a", "user", "again"]):
            monkeypatch.setattr(sys, "stderr", written := Terminal())
            with pytest.raises(SystemExit, match=r"^0$"):
                main(["--store", str(place), *arguments])
            drawn[name, arguments[0]] = written.getvalue()
    assert "making the index" in drawn["at once", "query"]
    assert "reading the log" in drawn["at once", "append"]
    assert all("\x1b" not in drawn["later", name] for name in ("query", "append"))  # what is over soon draws nothing


def test_a_notebook_has_a_bar_that_says_in_the_end_how_far_it_came(notebook: Shown) -> None:
    with moving(True, "verifying") as move:
        assert move is not None
        for done in range(1001):
            move(done, 1000, "<script>")
    assert "verifying" in notebook.pages[0]
    assert "width:100.0%" in notebook.pages[-1]
    assert "1,000 of 1,000" in notebook.pages[-1]
    assert len(notebook.pages) < 100  # each is a message to the browser
    assert not any("<script>" in page for page in notebook.pages)


def fail_half_way() -> None:
    with moving(True, "loading") as move:
        assert move is not None
        move(3, 10, "x")
        raise ValueError("broken")


def test_a_notebooks_bar_ends_where_the_work_fails(notebook: Shown) -> None:
    with pytest.raises(ValueError, match="broken"):
        fail_half_way()
    assert "3 of 10" in notebook.pages[-1]


def test_verify_draws_a_bar_in_a_notebook(notebook: Shown) -> None:
    with trails.open(":memory:") as store:
        session = store.create(id="s")
        session.append("user", "hi")
        session.append("assistant", "yes")
        session.persist()
        assert store.verify(progress=True).ok
    assert "2 of 2" in notebook.pages[-1]
