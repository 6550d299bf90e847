"""Blame says of each turn which session owns it, for whom, who wrote it, and where it stood first."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import trails
from tests.support.commands import invoke, ok
from trails import InvalidInput, Repository
from trails.session.blame import Blame


def day(number: int) -> datetime:
    return datetime(2026, 3, number, 12, tzinfo=UTC)


def fill(store: Repository) -> None:
    """plan owns 0 to 2; dinner, its fork at 2, owns 2; solo, a fork of dinner at 1, owns 1 and 2, the last one picked."""
    plan = store.create(id="plan", principal="alice", agent="planner")
    plan.append("user", "Plan a trip", time=day(1))
    plan.append("assistant", "Where to?", model="m-1", time=day(1))
    plan.append("user", "The Alps", time=day(1))
    plan.persist()
    dinner = plan.fork(at=2, id="dinner", principal="bob")
    dinner.append("user", "A dinner, rather", time=day(2))
    dinner.persist()
    solo = dinner.fork(at=1, id="solo", principal="carol", agent="second")
    solo.append("assistant", "By train?", model="m-2", time=day(3))
    solo.cherry_pick("plan", 2)
    solo.persist()


def short(found: list[Blame]) -> list[tuple[int, str, str, str, str | None]]:
    return [(each.index, each.session_id, each.principal, each.author, each.model) for each in found]


def test_every_turn_names_its_owner_its_principal_and_its_author(store: Repository) -> None:
    fill(store)
    solo = store.load("solo")
    assert short(solo.blame()) == [
        (0, "plan", "alice", "alice", None),
        (1, "solo", "carol", "second", "m-2"),
        (2, "solo", "carol", "alice", None),  # picked: written by alice, for carol's session
    ]
    assert short(store.load("dinner").blame()) == [
        (0, "plan", "alice", "alice", None),
        (1, "plan", "alice", "planner", "m-1"),
        (2, "dinner", "bob", "bob", None),
    ]
    found = solo.blame()
    assert [each.time for each in found[:2]] == [day(1), day(3)]
    assert [each.digest for each in found] == [turn.digest for turn in solo.turns]


def test_a_picked_turn_names_the_turn_that_it_repeats(store: Repository) -> None:
    fill(store)
    quotes = [each.quoted_from for each in store.load("solo").blame()]
    assert quotes[:2] == [None, None]
    assert quotes[2] is not None
    assert (quotes[2].session_id, quotes[2].index) == ("plan", 2)


def test_copies_name_the_session_that_they_were_first_written_in(store: Repository) -> None:
    fill(store)
    store.detach("dinner")
    store.flatten("dinner", id="flat")
    copied = [(each.session_id, each.copied_from) for each in store.load("dinner").blame()]
    assert copied == [("dinner", "plan"), ("dinner", "plan"), ("dinner", None)]
    copied = [(each.session_id, each.copied_from) for each in store.load("flat").blame()]
    assert copied == [("flat", "plan"), ("flat", "plan"), ("flat", "dinner")]  # a copy of a copy: plan's turns
    # solo left dinner at 1, inside what dinner inherited: turn 0 is now dinner's copy
    assert [(each.session_id, each.copied_from) for each in store.load("solo").blame(0, 1)] == [("dinner", "plan")]


def test_what_the_originals_were_is_known_after_they_are_gone(store: Repository) -> None:
    fill(store)
    store.flatten("dinner", id="flat")
    store.delete("plan", children="cascade")
    assert [each.copied_from for each in store.load("flat").blame()] == ["plan", "plan", "dinner"]


def test_pending_turns_are_the_session_s_own(store: Repository) -> None:
    fill(store)
    solo = store.load("solo")
    solo.append("user", "not yet")
    assert [each.pending for each in solo.blame()] == [False, False, False, True]
    assert solo.blame()[3].session_id == "solo"
    solo.discard_pending()


def test_a_range_has_an_exclusive_end_and_must_be_there(store: Repository) -> None:
    fill(store)
    solo = store.load("solo")
    assert [each.index for each in solo.blame(1)] == [1, 2]
    assert [each.index for each in solo.blame(1, 2)] == [1]
    assert solo.blame(3) == solo.blame(1, 1) == []
    for start, end in ((0, 4), (2, 1), (-1, None), (4, None)):
        with pytest.raises(InvalidInput):
            solo.blame(start, end)


def test_the_command_gives_a_row_a_turn(tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    with trails.open(place, create=True, durability="process") as store:
        fill(store)
        store.tags.add("v1", "solo@2")

    def run(*arguments: str) -> str:
        return ok(invoke("blame", *arguments, "--store", place))

    rows = [line.split() for line in run("solo").splitlines()[1:]]
    assert [row[:4] for row in rows] == [
        ["0", "plan", "alice", "alice"],
        ["1", "solo", "carol", "second"],
        ["2", "solo", "carol", "alice"],
    ]
    assert "plan@2" in rows[2]
    found = json.loads(run("solo", "--json"))
    assert [turn["session"] for turn in found["turns"]] == ["plan", "solo", "solo"]
    assert found["turns"][2]["quoted_from"]["session_id"] == "plan"
    assert [turn["index"] for turn in json.loads(run("v1", "--json"))["turns"]] == [0, 1]
    assert [turn["index"] for turn in json.loads(run("solo", "--range", "0,2", "--json"))["turns"]] == [0, 2]
    assert invoke("blame", "v1", "--range", "2", "--store", place).exit_code == 2
