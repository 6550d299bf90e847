"""An engine goes when nothing refers to it: nothing may be put in the place of its files before."""

from __future__ import annotations

import errno
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import Repository, StoreFailed
from trails.store import committing, engines


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store.trails"


def filled(place: Path) -> Repository:
    store = trails.open(place, create=True, durability="process")
    session = store.create(id="a")
    for text in ("one", "two", "three"):
        session.append("user", text)
    session.persist()
    return store


def texts(store: Repository) -> list[str]:
    return [turn.text for turn in store.load("a").turns]


def test_a_vacuum_beside_an_iterator_that_somebody_keeps_replaces_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_LINGERING", 0.05)
    store = filled(place)
    assert len(store.store) > 0  # the engine has it all
    kept = store.store._store.quads_for_pattern(None, None, None, None)  # type: ignore[attr-defined]
    next(kept)
    with pytest.raises(StoreFailed, match="still in use in this process"):
        store.maintenance.vacuum()
    assert not (place / "quads.old").exists()
    with pytest.raises(StoreFailed, match="takes no more work"):
        store.info()
    store.close()
    with pytest.raises(StoreFailed, match="still in use in this process"):
        trails.open(place)
    del kept
    with trails.open(place) as again:
        assert texts(again) == ["one", "two", "three"]
        assert again.verify().ok
        assert again.maintenance.vacuum().quads > 0
        assert texts(again) == ["one", "two", "three"]


def test_whoever_keeps_the_exception_of_an_interrupted_read_does_not_keep_the_engine(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = committing.matching

    def interrupted(*args: Any) -> Iterator[Any]:
        for each in real(*args):
            yield each
            raise KeyboardInterrupt

    with filled(place) as store:
        with monkeypatch.context() as patch:
            patch.setattr("trails.store.reading.matching", interrupted)
            with pytest.raises(KeyboardInterrupt) as kept:
                store.verify()
        store.maintenance.vacuum()
        assert texts(store) == ["one", "two", "three"]
        assert kept.value.__traceback__ is not None


def test_an_exception_that_is_being_handled_keeps_the_values_of_its_frames(place: Path) -> None:
    def fails() -> None:
        value = "to be looked at"
        raise ValueError(value)

    with filled(place) as store:
        try:
            fails()
        except ValueError as error:
            with pytest.raises(trails.InvalidInput):
                store.query("SELECT nonsense")
            trace = error.__traceback__
            assert trace is not None
            assert trace.tb_next is not None
            assert trace.tb_next.tb_frame.f_locals == {"value": "to be looked at"}


# --- seeing an engine out

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="open files are counted by /proc/self/fd")


@pytest.fixture
def by_hand() -> Iterator[None]:
    """No collection but those that are asked for."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch, by_hand: None) -> list[None]:
    """One item for each collection that the module asked for."""
    asked: list[None] = []

    class Counted:
        @staticmethod
        def collect() -> None:
            asked.append(None)
            gc.collect()

    monkeypatch.setattr(engines, "gc", Counted)
    return asked


def open_files(folder: Path) -> int:
    inside = str(folder.resolve())
    return sum(inside in str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())


def leave_an_iterator(store: trails.Repository) -> None:
    """Leave an iterator of the engine in a circle of objects, begun and not ended, to which nothing else refers."""
    engine = store.store.settled_engine()  # type: ignore[attr-defined] # of the embedded store
    iterator = engine.quads_for_pattern(None, None, None, None)
    next(iterator)
    circle: list[object] = [iterator]
    circle.append(circle)


@on_linux
@pytest.mark.usefixtures("by_hand")
def test_no_file_of_the_engine_is_open_after_closing_even_if_a_circle_of_objects_held_an_iterator(
    tmp_path: Path,
) -> None:
    with filled(tmp_path / "s") as store:
        assert open_files(tmp_path / "s" / "quads") > 0
        leave_an_iterator(store)
    assert open_files(tmp_path / "s") == 0


@on_linux
@pytest.mark.usefixtures("by_hand")
def test_a_vacuum_swaps_the_files_of_no_living_engine(tmp_path: Path) -> None:
    with filled(tmp_path / "s") as store:
        leave_an_iterator(store)
        before = open_files(tmp_path / "s")
        store.maintenance.vacuum()
        assert open_files(tmp_path / "s") <= before
        assert open_files(tmp_path / "s" / "quads.old") == 0


@on_linux
def test_closing_looks_for_no_garbage_where_the_engine_went_by_itself(collections: list[None], tmp_path: Path) -> None:
    filled(tmp_path / "s").close()
    trails.open(":memory:").close()
    assert collections == []


@on_linux
def test_closing_looks_for_garbage_once_where_an_iterator_is_left(collections: list[None], tmp_path: Path) -> None:
    with filled(tmp_path / "s") as store:
        leave_an_iterator(store)
    assert collections == [None]


def test_where_nobody_tells_which_files_are_open_closing_always_looks_for_garbage(
    collections: list[None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engines, "_OPEN_FILES", str(tmp_path / "no such folder"))
    with filled(tmp_path / "s") as store:
        leave_an_iterator(store)
    assert collections == [None]
    with trails.open(tmp_path / "s") as again:
        assert [turn.content for turn in again.load("a").turns] == ["one", "two", "three"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EFBIG, "File too large"),
        OSError("IO error: No space left on device: While appending to file: quads/MANIFEST-000045"),
    ],
)
def test_nobody_is_told_to_restore_a_backup_where_the_disk_is_full(error: OSError) -> None:
    said = str(engines.unreadable(Path("store.trails"), error))
    assert "its disk is full; make room there and open it again" in said
    assert "backup" not in said
