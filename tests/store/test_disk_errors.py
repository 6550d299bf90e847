"""A disk that fails at one call of the system: whoever called is told by a `TrailsError`, and nothing is left lying about."""

from __future__ import annotations

import _thread
import os
import tempfile
from collections.abc import Callable, Iterator
from errno import EIO, ENOSPC, EROFS
from pathlib import Path
from typing import Any, NoReturn

import pytest

import trails
from trails import Repository, StoreFailed
from trails.plumbing.index.keeper import Index
from trails.store import applying, capture, maintenance, staging
from trails.store.tables import Tables


@pytest.fixture
def store(place: Path) -> Iterator[Repository]:
    """A store on disk with the sessions "plan", of one turn, and "doomed"."""
    with trails.open(place, create=True) as store:
        for name in ("plan", "doomed"):
            session = store.create(id=name)
            session.append("user", "a secret plan")
            session.persist()
        yield store


def _fails(*_: object, **__: object) -> NoReturn:
    raise OSError(EIO, "Input/output error")


def _second(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that fails when it is called for the second time."""
    calls: list[object] = []

    def called(*given: object) -> Any:
        calls.append(given)
        return _fails() if len(calls) == 2 else function(*given)

    return called


_VACUUM = {
    "stat before": (maintenance, "size_of", _fails, "cannot be rebuilt"),
    "stat after": (
        maintenance,
        "size_of",
        _second(maintenance.size_of),
        "was rebuilt, and its files cannot be looked at",
    ),
    "rename": (maintenance, "swap", _fails, "open it again"),
    "getdents": (capture, "clear_beside", _fails, "what readers left beside"),
}


@pytest.mark.parametrize("call", _VACUUM)
def test_vacuum_says_what_became_of_the_store(
    store: Repository, place: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    module, name, function, what = _VACUUM[call]
    with monkeypatch.context() as disk:
        disk.setattr(module, name, function)
        with pytest.raises(StoreFailed, match=what):
            store.maintenance.vacuum()
    store.close()
    with trails.open(place) as again:
        assert [turn.content for turn in again.load("plan").turns] == ["a secret plan"]
        assert again.verify().ok


@pytest.mark.parametrize(
    "redact", [lambda store: store.redact("plan", 0), lambda store: store.redact_matching("secret")]
)
def test_a_redaction_is_done_where_what_readers_left_cannot_be_looked_for(
    store: Repository, monkeypatch: pytest.MonkeyPatch, redact: Callable[[Repository], object]
) -> None:
    monkeypatch.setattr(capture, "clear_beside", _fails)
    with pytest.raises(StoreFailed, match="vacuum the store once its disk is well"):
        redact(store)
    assert store.load("plan").turns[0].content == ""


def test_a_log_that_cannot_be_read_deletes_nothing(store: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as disk:
        disk.setattr(os, "pread", _fails)
        with pytest.raises(StoreFailed, match="log cannot be read"):
            store.delete("doomed")
    assert "doomed" in store
    store.delete("doomed")
    assert "doomed" not in store


def test_a_reader_is_told_that_a_table_cannot_be_looked_at(
    store: Repository, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tables, "damage", _fails)
    with pytest.raises(StoreFailed, match="Input/output error"):
        trails.open(place, read_only=True)
    assert store.verify().ok


def test_an_index_that_the_disk_does_not_give_is_a_finding(store: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(store.search("secret")) == 2
    monkeypatch.setattr(Index, "held", _fails)
    assert {(each.code, "Input/output error" in each.message) for each in store.verify().findings} == {
        ("index-damaged", True)
    }


def test_a_reader_for_whose_links_there_is_no_place_is_told_to_find_one_and_not_to_restore_a_backup(
    store: Repository, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, dir: Path, **__: object) -> NoReturn:  # noqa: A002 - it is called so
        raise OSError(EROFS if dir == place.parent else ENOSPC, "no folder here", str(dir))

    monkeypatch.setattr(tempfile, "mkdtemp", refused)
    with pytest.raises(StoreFailed, match="TMPDIR=FOLDER") as told:
        trails.open(place, read_only=True)
    assert "backup" not in told.value.message
    assert str(place.parent) in told.value.message
    assert store.verify().ok


@pytest.mark.parametrize("call", ["rmdir", "lstat", "fstat"])
def test_what_a_disk_does_not_remove_at_once_is_removed_by_the_process_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real, calls = getattr(os, call), []

    def failing(*given: Any, **options: Any) -> Any:
        calls.append(given)
        return _fails() if len(calls) == 1 else real(*given, **options)

    with monkeypatch.context() as disk, staging.scratch(tmp_path / "copy"):
        disk.setattr(os, call, failing)
    assert len(calls) >= 1
    assert list(tmp_path.iterdir()) == []


def test_a_commit_that_no_thread_can_bring_into_the_engine_is_told_and_does_not_wait_for_ever(
    store: Repository, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    with trails.open(place) as again, monkeypatch.context() as system:
        system.setattr(_thread, "start_new_thread", lambda *_: 0)  # the thread ends before it begins
        system.setattr(applying, "_STEP", 0.001)
        with pytest.raises(StoreFailed, match="memory may be short"):
            again.set_label("plan", "trip")
    with trails.open(place) as again:
        again.set_label("plan", "trip")
        assert again.verify().ok
