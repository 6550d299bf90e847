"""Three and more transcripts beside each other: what all share, rows of turns, and how they are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run, ok
from trails import InvalidInput, Repository

TAILS = {
    "train": ["By train?", "Yes, by train.", "Booked."],
    "bus": ["By train?", "No, by bus.", "Booked."],
    "asks": ["By train?", "Booked."],
}


def fill(store: Repository) -> None:
    """A plan of two turns and three forks of it at 2: each asks, two are answered, all say that it is booked."""
    plan = store.create(id="plan")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "Where to?")
    plan.persist()
    for name, texts in TAILS.items():
        fork = plan.fork(at=2, id=name)
        for text in texts:
            fork.append("user" if text.startswith(("Yes", "No")) else "assistant", text)
        fork.persist()


@pytest.fixture
def filled(memory: Repository) -> Repository:
    fill(memory)
    return memory


def test_what_all_share_stands_once_and_turns_that_say_the_same_stand_in_one_row(filled: Repository) -> None:
    found = filled.align(list(TAILS))
    assert (found.common, [turn.content for turn in found.prefix]) == (2, ["Plan a trip", "Where to?"])
    assert [(row.kind, row.role, row.variants) for row in found.rows] == [
        ("equal", "assistant", (0, 0, 0)),
        ("differs", "user", (0, 1, None)),
        ("equal", "assistant", (0, 0, 0)),
    ]
    assert [[turn and turn.index for turn in row.turns] for row in found.rows] == [[2, 2, 2], [3, 3, None], [4, 4, 3]]
    assert bool(found)
    assert not filled.align(["plan", "plan@2"])


def test_each_turn_of_each_session_stands_in_exactly_one_row_in_order(filled: Repository) -> None:
    long = filled.load("train").fork(id="long")
    for number in range(20):
        long.append("user" if number % 3 else "assistant", f"Turn {number} of many")
    long.persist()
    found = filled.align(["asks", "long", "bus", "plan"])
    for place, name in enumerate(found.names):
        turns = [row.turns[place] for row in found.rows]
        assert [turn.index for turn in turns if turn] == list(range(found.common, len(filled.load(name))))


def test_what_all_share_is_what_the_first_shares_with_each_other_one(filled: Repository) -> None:
    deeper = filled.load("train").fork(at=4, id="deeper")
    deeper.append("assistant", "Not yet.")
    deeper.persist()
    assert filled.align(["deeper", "train"]).common == 4
    assert filled.align(["deeper", "train", "bus"]).common == 2
    other = filled.create(id="other")
    other.append("user", "Plan a trip")
    other.persist()
    assert filled.align(["train", "bus", "other"]).common == 0


def test_an_open_session_is_aligned_with_its_pending_turns(filled: Repository) -> None:
    bus = filled.load("bus")
    bus.append("user", "Thanks")
    last = filled.align([bus, "train", "asks"]).rows[-1]
    assert [turn and turn.content for turn in last.turns] == ["Thanks", None, None]
    bus.discard_pending()


def test_a_redacted_turn_equals_only_itself(filled: Repository) -> None:
    filled.redact("bus", 2)
    assert filled.align(list(TAILS)).rows[0].variants == (0, 1, 0)


def test_one_session_or_the_same_twice_or_too_many_are_refused(filled: Repository) -> None:
    for sessions, complaint in (
        (["plan"], "of 2 to 20 sessions, not 1"),
        (["plan", "bus", "plan"], "names each session once"),
        (["plan"] * 21, "of 2 to 20 sessions, not 21"),
    ):
        with pytest.raises(InvalidInput, match=complaint):
            filled.align(sessions)


def test_a_prompt_and_a_notebook_show_it(filled: Repository) -> None:
    found = filled.align(filled.load("plan").branches())
    assert repr(found).splitlines()[:4] == [
        "<Alignment of 3 transcripts: 2 in common, 3 rows>",
        "kind     role       train           bus          asks",
        "equal    assistant  By train?       By train?    By train?",
        "differs  user       Yes, by train.  No, by bus.",
    ]
    shown = found._repr_html_()
    assert "Where to?" in shown
    assert "No, by bus." in shown


@pytest.fixture
def place(place: Path) -> Path:
    with trails.open(place, create=True) as store:
        fill(store)
    return place


def shown(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int, *arguments: str) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = [line.rstrip() for line in ok(run("diff", *arguments)).splitlines()]
    assert max(map(len, lines)) <= columns
    return [line for line in lines if line]


def test_the_command_shows_a_column_each_at_eighty_columns(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(run, monkeypatch, 80, *TAILS) == [
        "2 turns in common",
        "  0  user  Plan a trip",
        "  1  assistant  Where to?",
        "train                      bus                        asks",
        "5 turns                    5 turns                    4 turns",
        "2  assistant               2  assistant               2  assistant",
        "By train?                  = train                    = train",
        "3  user                    3  user                    –",
        "Yes, by train.             No, by bus.",
        "4  assistant               4  assistant               3  assistant",
        "Booked.                    = train                    = train",
    ]


def test_the_command_shows_blocks_where_there_is_no_room_for_columns(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(run, monkeypatch, 60, *TAILS)[3:] == [
        "  2  assistant  all: By train?",
        "~ 3  user",
        "    train:",
        "      Yes, by train.",
        "    bus:",
        "      No, by bus.",
        "    asks: –",
        "  4/3  assistant  all: Booked.",
    ]


def test_the_command_gives_json_and_an_exit_code_and_refuses_documents(run: Run, place: Path) -> None:
    printed = json.loads(ok(run("diff", *TAILS, "--json")))
    assert (printed["common"], [row["variants"] for row in printed["rows"]]) == (
        2,
        [[0, 0, 0], [0, 1, None], [0, 0, 0]],
    )
    assert run("diff", *TAILS, "--exit-code").exit_code == 1
    for options in (("--format", "html"), ("--side-by-side",)):
        done = run("diff", *TAILS, *options)
        assert (done.exit_code, "three and more" in done.stderr) == (2, True)
