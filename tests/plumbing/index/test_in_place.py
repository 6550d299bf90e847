"""Who looks at a store that nobody has open reads its index where it is, and believes nothing that was changed meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.sessions import introduce, introduced
from trails import Repository
from trails.plumbing.index import alone
from trails.plumbing.index.keeper import FIGURES, PARTS
from trails.plumbing.index.sidefile import SideFile
from trails.store import maintenance


def fill(place: Path, *names: str) -> None:
    with trails.open(place, create=True, durability="process") as store:
        introduce(store, *names)


def in_place(store: Repository) -> list[bool]:
    files = store.workspace.index._files
    return [files[part].is_in_place for part in PARTS]


def stamps(place: Path) -> dict[str, tuple[int, int]]:
    files = (file for file in (place / maintenance.INDEX).iterdir() if file.is_file())
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in files}


def ids(file: SideFile) -> list[str]:
    return [name for (name,) in file.ask("SELECT id FROM sessions ORDER BY id")]


def test_nothing_is_copied_of_a_store_that_nobody_has_open(place: Path) -> None:
    fill(place, "a", "b")
    before = stamps(place)
    with trails.open(place, read_only=True) as view:
        assert introduced(view) == (["b", "a"], ["b", "a"])
        assert in_place(view) == [True, True]
    assert stamps(place) == before


def test_beside_a_living_owner_who_may_change_it_the_index_is_copied(place: Path) -> None:
    fill(place, "a")
    with trails.open(place, read_only=True) as view:
        assert introduced(view) == (["a"], ["a"])
        with trails.open(place) as owner:
            view.refresh()
            assert introduced(view) == (["a"], ["a"])
            assert in_place(view) == [False, False]
            with trails.open(place, read_only=True) as other:
                assert introduced(other) == (["a"], ["a"])
                assert in_place(other) == [False, False]
            owner.create(id="b").persist()
            assert introduced(owner)[0] == ["b", "a"]
            assert introduced(view)[0] == ["a"]


def test_an_index_behind_the_log_is_copied_and_brought_up_to_date(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(place, "a")
    monkeypatch.setattr("trails.plumbing.index.keeper._SMALL", 0)  # closing leaves a little to whoever asks next
    fill(place, "b")
    with trails.open(place, read_only=True) as view:
        assert introduced(view) == (["b", "a"], ["b", "a"])
        assert in_place(view) == [False, False]


def _append(place: Path) -> None:
    fill(place, "b")


def _flip(place: Path) -> None:
    file = place / maintenance.INDEX / FIGURES.name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _break(place: Path) -> None:
    (place / maintenance.INDEX / "figures.seal").unlink()


CHANGES: dict[str, Any] = {"an owner came and went": _append, "a byte flipped": _flip, "its seal is broken": _break}


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_an_answer_that_was_found_while_the_file_changed_is_not_believed(place: Path, change: str) -> None:
    fill(place, "a")
    with trails.open(place, read_only=True) as view:
        asked: list[bool] = []

        def ask(file: SideFile) -> list[str]:
            asked.append(file.is_in_place)
            if len(asked) == 1:
                CHANGES[change](place)
                return ["wrong"]
            return ids(file)

        assert view.workspace.index.figures(ask) == ["a"]
        assert asked == [True, False]


def test_the_index_alone_answers_nothing_that_was_found_while_it_changed(place: Path) -> None:
    fill(place, "a")
    file = alone.figures_of(place)
    assert file is not None
    assert file.is_in_place
    assert alone.asked(file, ids) == ["a"]

    def ask(told: SideFile) -> list[str]:
        found = ids(told)
        fill(place, "b")
        return found

    assert alone.asked(file, ask) is None
