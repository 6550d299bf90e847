"""Whatever takes a path answers one that cannot be with an error of Trails that says what to do, and leaves nothing behind."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.sessions import say
from trails import InvalidInput, Repository, TrailsError
from trails.exchange.file_import import import_path
from trails.exchange.openclaw.openclaw_export import export_folder
from trails.exchange.openclaw.openclaw_folder import import_folder
from trails.provenance.serializations import read_source
from trails.session.store_restore import load_dump, restore_store
from trails.store.doctor import doctor
from trails.store.upgrade import upgrade

Ask = Callable[[Repository, Any], object]

NEW_PLACES: dict[str, Ask] = {
    "dump": lambda store, path: store.maintenance.dump(path, replace=True),
    "backup": lambda store, path: store.maintenance.backup(path),
    "plot": lambda store, path: store.compare("plan").plot(f"{path}.svg"),
    "export a folder": export_folder,
    "restore to": lambda store, path: restore_store(_kept(store), path),
    "load to": lambda store, path: load_dump(_dumped(store), path),
    "export a tree": lambda store, path: trails.Tree(store, export_to=path).tick(),
    "open": lambda _, path: trails.open(path, create=True).close(),
}
OLD_PLACES: dict[str, Ask] = {
    "import": import_path,
    "import a folder": import_folder,
    "restore from": lambda store, path: restore_store(path, f"{store.store.location}.new"),
    "load from": lambda store, path: load_dump(path, f"{store.store.location}.new"),
    "upgrade": lambda _, path: upgrade(path),
    "validate PROV": lambda _, path: read_source(path, None if isinstance(path, bytes) else "provn"),
    "open": lambda _, path: trails.open(path),
}


def _kept(store: Repository) -> str:
    place = f"{store.store.location}.kept"
    if not Path(place).exists():
        store.maintenance.backup(place)
    return place


def _dumped(store: Repository) -> str:
    store.maintenance.dump(place := f"{store.store.location}.nq.gz", replace=True)
    return place


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Repository]:
    with trails.open(tmp_path / "here" / "store", create=True, durability="process") as opened:
        say(opened.create(id="plan"), "a", "b")
        say(trails.Router(opened).session("agent:main:main"), "c")
        yield opened


IMPOSSIBLE = {
    "a NUL character": "a\0b",
    "a lone surrogate": "a\ud800b",
    "a name that is too long": "x" * 300,
    "below a file": f"{__file__}/below",
    "where nothing can be made": "/proc/nowhere/at/all",
}


@pytest.mark.parametrize("path", IMPOSSIBLE.values(), ids=list(IMPOSSIBLE))
@pytest.mark.parametrize("ask", NEW_PLACES.values(), ids=list(NEW_PLACES))
def test_a_place_that_cannot_be_is_an_error_of_trails(store: Repository, ask: Ask, path: str) -> None:
    if ask is NEW_PLACES["plot"]:
        pytest.importorskip("matplotlib")
    with pytest.raises(TrailsError):
        ask(store, path)
    assert store.verify().ok


@pytest.mark.parametrize("path", [*IMPOSSIBLE.values(), "missing"], ids=[*IMPOSSIBLE, "nothing there"])
@pytest.mark.parametrize("ask", OLD_PLACES.values(), ids=list(OLD_PLACES))
def test_a_source_that_cannot_be_is_an_error_of_trails(store: Repository, ask: Ask, path: str) -> None:
    with pytest.raises(TrailsError):
        ask(store, path)


@pytest.mark.parametrize("given", [b"bytes", 7, None, ""])
@pytest.mark.parametrize("ask", [*NEW_PLACES.values(), *OLD_PLACES.values()], ids=[*NEW_PLACES, *OLD_PLACES])
def test_what_is_no_path_is_refused(store: Repository, ask: Ask, given: object) -> None:
    if ask in (NEW_PLACES["plot"], NEW_PLACES["export a tree"]):
        pytest.skip("its suffix makes it a path, or it may be left out")
    with pytest.raises(InvalidInput):
        ask(store, given)


def test_a_dump_goes_over_no_folder_and_a_load_reads_none(store: Repository, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput, match="is a folder; name a file"):
        store.maintenance.dump(tmp_path / "folder", replace=True)
    with pytest.raises(InvalidInput, match=r"folder cannot be read: Is a directory; check the path"):
        load_dump(tmp_path / "folder", tmp_path / "new")
    with pytest.raises(InvalidInput, match=r"missing\.gz cannot be read: No such file or directory; check the path"):
        load_dump(tmp_path / "missing.gz", tmp_path / "new")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "here"]


@pytest.mark.parametrize("sorted_at_once", [1000, 10**9], ids=["while it sorts", "while it writes"])
def test_a_dump_on_a_full_disk_says_so_and_leaves_nothing(
    store: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sorted_at_once: int
) -> None:
    monkeypatch.setattr("trails.store.dumping._CHUNK", sorted_at_once)
    say(store.load("plan"), os.urandom(60_000).hex())
    store.store.flush()
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, limits[1]))
    try:
        with pytest.raises(TrailsError, match=r"full\.gz cannot be written: File too large; free some space"):
            store.maintenance.dump(tmp_path / "full.gz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert [each.name for each in tmp_path.iterdir()] == ["here"]
    assert store.verify().ok


def test_a_doctor_is_asked_of_a_path(tmp_path: Path) -> None:
    assert [check.name for check in doctor(str(tmp_path / "missing")) if not check.ok] == ["store"]
    with pytest.raises(InvalidInput, match="holds a NUL character"):
        doctor("a\0b")
