"""The log: turns newest first, a line each, with forks drawn as lanes that lead back to the turn they leave."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import trails
from tests.support.commands import Run, invoke, ok
from trails.cli.commands.log import LaneLine, Strand, draw_lanes
from trails.cli.options import indexes
from trails.errors import InvalidInput


def drawn(*strands: Strand) -> list[str]:
    """The lines of a drawing, each with its turn."""
    return [f"{line.graph} {line.strand} {line.index}" if line.strand else line.graph for line in draw_lanes(strands)]


# --- the lanes


def test_a_fork_stands_above_the_turn_that_it_leaves_and_is_led_back_to_it() -> None:
    assert drawn(Strand("plan", None, 0, 3), Strand("fork", "plan", 1, 3)) == [
        "● plan 2",
        "● plan 1",
        "│ ● fork 2",
        "│ ● fork 1",
        "├─╯",
        "● plan 0",
    ]


def test_a_fork_of_the_last_turn_goes_on_in_the_same_lane() -> None:
    assert drawn(Strand("plan", None, 0, 1), Strand("fork", "plan", 1, 2)) == ["● fork 1", "● plan 0"]


def test_however_many_forks_leave_one_turn_the_drawing_is_two_lanes_wide() -> None:
    forks = [Strand(f"f{number}", "plan", 1, 2, newness=str(number)) for number in range(3)]
    assert drawn(Strand("plan", None, 0, 2), *forks) == [
        "● plan 1",
        "│ ● f2 1",
        "├─╯",
        "│ ● f1 1",
        "├─╯",
        "│ ● f0 1",
        "├─╯",
        "● plan 0",
    ]


def test_forks_of_forks_stand_further_right() -> None:
    strands = (
        Strand("plan", None, 0, 3),
        Strand("dinner", "plan", 1, 3),
        Strand("solo", "dinner", 2, 3),
        Strand("alone", None, 0, 1, newness="9"),
    )
    assert drawn(*strands) == [
        "● alone 0",
        "● plan 2",
        "● plan 1",
        "│ ● dinner 2",
        "│ │ ● solo 2",
        "│ ├─╯",
        "│ ● dinner 1",
        "├─╯",
        "● plan 0",
    ]


def test_a_tree_is_as_new_as_its_newest_fork_and_empty_sessions_have_no_line() -> None:
    strands = (
        Strand("b", None, 0, 1, newness="5"),
        Strand("a", None, 0, 1, newness="1"),
        Strand("fork", "a", 1, 2, newness="7"),
        Strand("empty", "b", 1, 1, newness="9"),
    )
    assert drawn(*strands) == ["● fork 1", "● a 0", "● b 0"]


def test_strands_whose_parent_is_not_there_or_that_go_in_a_circle_are_drawn_all_the_same() -> None:
    assert drawn(Strand("orphan", "gone", 3, 4)) == ["● orphan 3"]
    circle = drawn(Strand("a", "b", 1, 2), Strand("b", "a", 1, 2))
    assert {line.strip("│ ") for line in circle} == {"● a 1", "● b 1", "├─╯"}


def test_a_drawing_has_a_form_in_ascii() -> None:
    assert [line.plain() for line in draw_lanes([Strand("a", None, 0, 2), Strand("b", "a", 1, 2)])] == [
        "*",
        "| *",
        "|-'",
        "*",
    ]


@st.composite
def forests(drawing: st.DrawFn) -> list[Strand]:
    strands = [Strand("s0", None, 0, drawing(st.integers(1, 4)))]
    for number in range(1, drawing(st.integers(1, 8))):
        parent = drawing(st.sampled_from(strands))
        start = drawing(st.integers(parent.start + 1, parent.end))
        strands.append(Strand(f"s{number}", parent.id, start, start + drawing(st.integers(1, 3))))
    return strands


@given(forests())
def test_every_turn_is_drawn_once_and_above_the_turn_before_it(strands: list[Strand]) -> None:
    lines = list(draw_lanes(strands))
    turns = [(line.strand, line.index) for line in lines if line.strand is not None]
    assert sorted(turns) == sorted((s.id, index) for s in strands for index in range(s.start, s.end))
    place = {turn: number for number, turn in enumerate(turns)}
    for strand in strands:
        for index in range(strand.start + 1, strand.end):
            assert place[strand.id, index] < place[strand.id, index - 1]
        if strand.parent is not None:
            assert place[strand.id, strand.start] < place[strand.parent, strand.start - 1]
    assert all(line.graph.count("●") == (line.strand is not None) for line in lines)


@given(forests())
def test_a_lane_never_breaks_off(strands: list[Strand]) -> None:
    """Below every turn and every bar stands one that goes on, or the line that leads it back, or it was a first turn."""
    lines = list(draw_lanes(strands))
    for above, below in pairwise(lines):
        for column, mark in enumerate(above.graph):
            if mark in ("│", "├"):
                assert below.graph[column : column + 1] in ("│", "●", "├", "╯"), (above, below)
        if above.strand is not None:
            column = above.graph.index("●")
            ends = above == LaneLine(above.graph, "s0", 0, 0)
            assert ends or below.graph[column : column + 1] in ("│", "●", "├", "╯"), (above, below)


# --- ranges


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", [3]), ("2:5", [2, 3, 4]), ("1,3:5,7", [1, 3, 4, 7]), (":2", [0, 1]), ("6:", [6, 7]), (":", list(range(8)))],
)
def test_a_range_has_an_exclusive_end(text: str, expected: list[int]) -> None:
    assert indexes(text, 8) == expected


@pytest.mark.parametrize("text", ["", "x", "8", "5:5", "5:4", "2:9", "3,3", "3,1", "-1", "1:2:3", "1,", "²"])
def test_what_names_no_turns_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        indexes(text, 8)


# --- the command


def day(number: int) -> datetime:
    return datetime(2026, 3, number, 12, tzinfo=UTC)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """plan (labelled trip) owns 0 to 3; dinner, its fork at 2, owns 2; solo, dinner's fork at 1, owns 1; bare is empty."""
    place = str(tmp_path / "store")
    with trails.open(place, create=True, durability="process") as store:
        plan = store.create(id="plan", label="trip", principal="alice", agent="planner", created=day(1))
        plan.append("user", "Plan a trip\nto the Alps", time=day(1))
        plan.append("assistant", [{"type": "text", "text": "Where to?"}], time=day(2))
        plan.append("user", "\x1b[31mThe Alps", time=day(3))
        plan.append("assistant", "Snow", time=day(9))
        plan.persist()
        dinner = plan.fork(at=2, id="dinner", principal="bob", created=day(4))
        dinner.append("user", "A dinner", time=day(5))
        dinner.persist()
        solo = dinner.fork(at=1, id="solo", created=day(6))
        solo.cherry_pick("plan", 3)
        solo.persist()
        plan.fork(id="bare", created=day(7)).persist()
        store.tags.add("v1", "plan@2")
        store.notes.add("plan", 0, "Which Alps?")

    def call(*arguments: str) -> Result:
        result = invoke("log", *arguments, "--store", place)
        ok(result)
        return result

    return call


def turns(result: Result) -> list[tuple[str, int]]:
    return [(turn["session"], turn["index"]) for turn in json.loads(result.stdout)["turns"]]


def test_a_session_s_log_is_its_transcript_newest_first(run: Run) -> None:
    assert turns(run("dinner", "--json")) == [("dinner", 2), ("plan", 1), ("plan", 0)]
    assert turns(run("solo", "--json")) == [("solo", 1), ("plan", 0)]
    assert turns(run("trip@3", "--json")) == turns(run("plan@3", "--json")) == [("plan", 2), ("plan", 1), ("plan", 0)]
    assert turns(run("v1", "--json")) == [("plan", 1), ("plan", 0)]
    assert turns(run("bare", "--json")) == [("plan", index) for index in (3, 2, 1, 0)]


def test_a_line_gives_digest_index_names_role_author_time_and_the_first_line(run: Run) -> None:
    rows: dict[int, Any] = {row["index"]: row for row in json.loads(run("plan", "--json").stdout)["turns"]}
    lines = run("plan").stdout.splitlines()
    assert lines == [
        f"{rows[3]['digest'][:8]} 3 (trip) assistant planner 2026-03-09 12:00  Snow",
        f"{rows[2]['digest'][:8]} 2 user alice 2026-03-03 12:00  ␛[31mThe Alps",
        f"{rows[1]['digest'][:8]} 1 (tag: v1) assistant planner 2026-03-02 12:00  Where to?",
        f"{rows[0]['digest'][:8]} 0 (1 note) user alice 2026-03-01 12:00  Plan a trip",
    ]
    assert (rows[1]["tags"], rows[0]["notes"], rows[3]["heads"]) == (["v1"], 1, ["trip"])


def test_with_a_graph_what_was_forked_from_it_is_drawn_too(run: Run) -> None:
    shown = [line.partition(" ") for line in run("plan", "--graph").stdout.splitlines()]
    heads = [" ".join(line).split(" ", 3) for line in shown]
    assert len(heads) == 8
    lines = run("plan", "--graph").stdout.splitlines()
    marks = [line[: line.index("●") + 1] if "●" in line else line for line in lines]
    assert marks == ["●", "●", "│ ●", "├─╯", "●", "│ ●", "├─╯", "●"]
    assert "(trip, bare)" in lines[0] or "(bare, trip)" in lines[0]
    assert "(dinner)" in lines[2]
    assert "(solo, from plan@3)" in lines[5]


def test_a_graph_of_an_earlier_end_leaves_out_what_was_forked_later(run: Run) -> None:
    assert turns(run("plan@1", "--graph", "--json")) == [("solo", 1), ("plan", 0)]
    assert turns(run("dinner", "--graph", "--json")) == [("dinner", 2), ("plan", 1), ("solo", 1), ("plan", 0)]


def test_without_a_reference_every_session_is_listed(run: Run) -> None:
    assert turns(run("--json")) == [
        *(("plan", 3), ("plan", 2), ("dinner", 2), ("plan", 1), ("solo", 1), ("plan", 0)),
    ]


def test_a_page_says_how_to_get_the_next_one_and_no_line_is_lost_between(run: Run) -> None:
    whole = run("--graph").stdout
    shown, options = "", ["--graph", "-n", "2"]
    for _ in range(3):
        result = run(*options)
        shown += result.stdout
        options = shlex.split(result.stderr.partition("there is more: trails log ")[2])
    assert shown == whole
    assert options == []
    first = json.loads(run("plan", "-n", "3", "--json").stdout)
    rest = json.loads(run("plan", "-n", "3", "--cursor", first["cursor"], "--json").stdout)
    assert ([row["index"] for row in rest["turns"]], rest["cursor"]) == ([0], None)
    assert re.fullmatch(r"[\w-]{32}", first["cursor"])


def test_the_nth_page_is_found_without_a_cursor(run: Run, tmp_path: Path) -> None:
    whole = run("--graph").stdout
    assert "".join(run("--graph", "-n", "4", "--page", str(page)).stdout for page in (1, 2)) == whole
    assert turns(run("plan", "-n", "3", "--page", "2", "--json")) == [("plan", 0)]
    for wrong, why in (
        (["-n", "3", "--page", "3"], "there is no page 3"),
        (["--page", "2", "--cursor", "x"], "give one"),
    ):
        refused = invoke("log", "plan", *wrong, store=tmp_path / "store")
        assert (refused.exit_code, why in refused.stderr) == (2, True)


def test_pages_do_not_shift_when_branches_grow_and_new_ones_come(run: Run, tmp_path: Path) -> None:
    for options in (["solo"], [], ["--graph"], ["plan", "--graph"]):
        whole = turns(run(*options, "-n", "99", "--json"))
        first = json.loads(run(*options, "-n", "1", "--json").stdout)
        with trails.open(tmp_path / "store") as store:
            for name in ("solo", "dinner", "bare", "plan"):
                grown = store.load(name)
                grown.append("user", f"later in {name}")
                grown.persist()
            late = store.load("plan").fork(at=1)
            late.append("user", "a new branch")
            late.persist()
            store.create().persist()
        rest = json.loads(run(*options, "-n", "99", "--cursor", first["cursor"], "--json").stdout)
        pages = [(turn["session"], turn["index"]) for turn in (*first["turns"], *rest["turns"])]
        assert pages == whole
    assert len(turns(run("-n", "99", "--json"))) == 6 + 4 * 5


def test_a_list_without_a_graph_has_a_line_a_turn_and_no_other(run: Run) -> None:
    assert len(run().stdout.splitlines()) == len(turns(run("--json"))) == 6


def test_a_cursor_that_no_page_gave_is_refused(run: Run, tmp_path: Path) -> None:
    for cursor in ("x", "urn:trails:session:plan/9-00ff", "urn:trails:session:plan/9-00ff#7", "x#7"):
        assert invoke("log", "plan", "--cursor", cursor, store=tmp_path / "store").exit_code == 2


def test_redacted_turns_and_forks_of_deleted_or_detached_sessions_have_their_lines(run: Run, tmp_path: Path) -> None:
    with trails.open(tmp_path / "store") as store:
        store.redact("plan", 0)
        store.detach("dinner")
    assert "(redacted)" in run("plan").stdout
    assert turns(run("dinner", "--json")) == [("dinner", index) for index in (2, 1, 0)]
    assert turns(run("solo", "--json")) == [("solo", 1), ("dinner", 0)]
    assert len(turns(run("--json"))) == 8


def test_an_empty_store_has_no_turns(tmp_path: Path) -> None:
    trails.open(tmp_path / "empty", create=True).close()
    result = invoke("log", "--graph", store=tmp_path / "empty")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "there are no turns\n")


# --- how wide


@pytest.mark.parametrize("width", [30, 80, 160])
def test_each_turn_has_one_line_that_is_as_wide_as_the_terminal_at_most(place: Path, width: int) -> None:
    with trails.open(place, create=True) as store:
        plan = store.create(
            id="plan", principal="alice", label="a label that alone is wider than the narrowest terminal is"
        )
        plan.append("user", "漢字 " * 200)  # two columns a character
        plan.append("assistant", "words and words " * 50 + "\nand a second line")
        plan.persist()
    lines = ok(invoke("log", "--graph", store=place, width=width)).splitlines()
    assert [line[0] for line in lines] == ["●", "●"]
    assert [line[-1] for line in lines] == ["…", "…"]
    assert all(cell_len(line) <= width for line in lines)


def test_in_a_pipe_the_first_line_of_a_turn_is_whole(place: Path) -> None:
    with trails.open(place, create=True) as store:
        plan = store.create(id="plan")
        plan.append("user", "word " * 300 + "end\nnext")
        plan.persist()
    [line] = ok(invoke("log", store=place)).splitlines()
    assert line.endswith("word word end")
    assert line.count("word") == 300
