"""The conformance suite finds what is wrong with a store whose log does not keep what it acknowledges."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from trails.store import EmbeddedStore
from trails.store.log.commit_log import Log
from trails.store.log.records import Row, Unpacked
from trails.store.log.sqlite import Head, SqliteHome
from trails.testing import LogConformance


class _Late(SqliteHome):
    """Acknowledges a commit before it is written: with the next one."""

    _held: tuple[Sequence[Row], Sequence[Any], int] | None = None

    def append(self, rows: Sequence[Row], changes: Sequence[Any], lines: int) -> None:
        held, self._held = self._held, (rows, changes, lines)
        if held is None:
            self.let_go()
        else:
            super().append(*held)


class _Careless(Log):
    """Takes the records that it finds, whatever is missing before or after them."""

    def begin(self) -> Head:
        return self.home.head()


def _open_late(path: Path) -> EmbeddedStore:
    path.mkdir(exist_ok=True)
    return EmbeddedStore(path, commits=Log(_Late(path / "trails.db", create=True), path))


def _open_careless(path: Path) -> EmbeddedStore:
    path.mkdir(exist_ok=True)
    Unpacked.follows = lambda *_: True  # type: ignore[method-assign] # undone by the test
    return EmbeddedStore(path, commits=_Careless(SqliteHome(path / "trails.db", create=True), path))


def _lose(path: Path, number: str) -> bool:
    with contextlib.closing(sqlite3.connect(path / "trails.db")) as file:
        file.execute(f"DELETE FROM trails_records WHERE number {number}")  # noqa: S608 - of this file
        file.commit()
    return True


def test_a_log_that_says_too_early_that_it_has_written_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        LogConformance().test_what_a_killed_process_was_not_told_is_written_once_when_it_is_repeated(
            partial(_open_late, tmp_path / "log")
        )


@pytest.mark.parametrize("number", ["= 5"])
def test_a_log_that_does_not_notice_what_is_missing_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    monkeypatch.setattr(Unpacked, "follows", Unpacked.follows)
    with pytest.raises(AssertionError):
        LogConformance().test_a_log_that_lost_its_end_is_refused_or_is_what_it_was_before(
            partial(_open_careless, tmp_path / "log"), partial(_lose, tmp_path / "log", number)
        )
