"""Where a store may be, and what may stand in its folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import InvalidInput, StoreFailed, TrailsError


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "soon", True])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(tmp_path: Path, timeout: Any) -> None:
    with pytest.raises(InvalidInput, match="timeout is a number of seconds"):
        trails.open(tmp_path / "s", create=True, timeout=timeout)


def _made(place: Path) -> list[str]:
    with trails.open(place, create=True) as store:
        session = store.create(id="s")
        session.append("user", "Where to?")
        session.persist()
        store.search("Where")
    return sorted(entry.name for entry in place.iterdir())


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("dangling", [False, True])
def test_no_name_in_a_stores_folder_may_be_a_link(tmp_path: Path, read_only: bool, dangling: bool) -> None:
    names = _made(tmp_path / "first")
    assert {"trails.db", "locks"} <= {*names}
    for name in names:
        place, outside = tmp_path / f"store-{name}", tmp_path / f"outside-{name}"
        shutil.copytree(tmp_path / "first", place)
        (place / name).rename(outside)
        kept = {path: path.read_bytes() for path in (outside, *outside.rglob("*")) if path.is_file()}
        target = tmp_path / f"nothing-{name}" if dangling else outside
        (place / name).symlink_to(target)
        with pytest.raises(TrailsError, match=r"is a link to|is no Trails store"):
            trails.open(place, read_only=read_only)
        assert {path: path.read_bytes() for path in kept} == kept
        assert not (tmp_path / f"nothing-{name}").exists(), name


def test_a_link_to_a_whole_store_is_welcome(tmp_path: Path) -> None:
    _made(tmp_path / "elsewhere")
    (tmp_path / "s").symlink_to(tmp_path / "elsewhere")
    with trails.open(tmp_path / "s") as store:
        store.maintenance.vacuum()
        assert store.verify().ok


def test_a_log_that_was_emptied_is_named_and_no_new_store_takes_its_place(tmp_path: Path) -> None:
    place = tmp_path / "a.trails"
    with trails.open(place, create=True) as store:
        store.create(id="plan").persist()
    (place / "trails.db").write_bytes(b"")
    for _ in range(2):
        for read_only in (False, True):
            with pytest.raises(StoreFailed, match="is empty"):
                trails.open(place, read_only=read_only)
    assert (place / "trails.db").stat().st_size == 0
