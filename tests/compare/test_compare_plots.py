"""Where sessions stand in a drawing of a forest of forks, and the drawing itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.places import IMPORTED
from trails import InvalidInput, Repository, Session
from trails.compare.comparison import Comparison
from trails.compare.forest_layout import Stem, axis_of, bundle_lanes, lay_out_forest, owner, ticks
from trails.display.terminal_text import shorten_name

PLAN = [
    Stem("plan", None, 0, 5),
    Stem("dinner", "plan", 3, 5),
    Stem("solo", "dinner", 2, 3),  # inside what dinner inherits
    Stem("tail", "dinner", 5, 9),
    Stem("late", "plan", 5, 6),
]

# --- places


def places(stems: Sequence[Stem]) -> list[tuple[str, int, int | None]]:
    return [(lane.stem.id, lane.row, lane.origin) for lane in lay_out_forest(stems).lanes]


def test_later_forks_stand_higher_and_edges_leave_the_session_that_owns_the_turn() -> None:
    assert places(PLAN) == [("plan", 0, None), ("late", 1, 0), ("dinner", 2, 0), ("tail", 3, 2), ("solo", 4, 0)]


def test_a_fork_where_its_parent_begins_parts_from_the_session_above() -> None:
    stems = [Stem("r", None, 0, 9), Stem("a", "r", 4, 9), Stem("b", "a", 4, 9), Stem("c", "b", 0, 2)]
    assert [owner(stem, {stem.id: stem for stem in stems}) for stem in stems] == [None, "r", "r", "r"]


def test_forks_of_one_point_keep_the_order_given() -> None:
    stems = [Stem("r", None, 0, 9), *(Stem(name, "r", 4, 5) for name in "cab")]
    assert [name for name, _, _ in places(stems)] == ["r", "c", "a", "b"]


def test_a_session_whose_parent_is_not_drawn_is_a_top() -> None:
    assert places([Stem("dinner", "plan", 3, 5), Stem("solo", "dinner", 2, 3)]) == [("dinner", 0, None), ("solo", 1, 0)]


@pytest.mark.parametrize(
    ("stems", "complaint"),
    [
        ([], "no session"),
        ([Stem("a", None, 5, 4)], "'a' cannot be drawn from 5 to 4"),
        ([Stem("a", "b", 0, 1), Stem("b", "a", 0, 1)], "goes in a circle"),
    ],
)
def test_what_cannot_be_laid_out_is_refused(stems: list[Stem], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        lay_out_forest(stems)


@st.composite
def forests(draw: st.DrawFn) -> list[Stem]:
    stems = [Stem("0", None, 0, draw(st.integers(0, 50)))]
    for number in range(1, draw(st.integers(1, 25))):
        above = draw(st.sampled_from(stems))
        start = draw(st.integers(0, above.end))
        stems.append(Stem(str(number), above.id, start, start + draw(st.integers(0, 9))))
    return draw(st.permutations(stems))


@given(stems=forests())
def test_every_session_has_a_lane_of_its_own_and_no_edge_crosses_one(stems: list[Stem]) -> None:
    layout = lay_out_forest(stems)
    assert [lane.row for lane in layout.lanes] == list(range(len(stems)))
    assert {lane.stem for lane in layout.lanes} == set(stems)
    for lane in layout.lanes:
        if lane.origin is None:
            continue
        assert lane.origin < lane.row
        above = layout.lanes[lane.origin].stem
        assert lane.stem.start <= above.end
        for between in layout.lanes[lane.origin + 1 : lane.row]:
            assert not between.stem.start < lane.stem.start < between.stem.end


@given(stems=forests())
def test_positions_grow_with_the_turns_and_ticks_are_in_order(stems: list[Stem]) -> None:
    axis = axis_of(stems)
    last = max(stem.end for stem in stems) or 1
    positions = [axis.position(turns) for turns in range(last + 1)]
    assert positions[0] == 0
    assert positions == sorted(set(positions))
    assert positions[-1] == axis.length
    marked = ticks(axis, 8)
    assert marked == sorted(set(marked))
    assert (marked[0], marked[-1]) == (0, last) or len(marked) == 1


def test_a_long_stretch_in_which_nothing_happens_is_cut_to_the_longest_fork() -> None:
    stems = [Stem("r", None, 0, 1000), *(Stem(f"f{n}", "r", 500, 508 + n) for n in range(3))]
    axis = axis_of(stems)
    assert axis.breaks == ((0, 500), (510, 1000))
    assert axis.knots == ((0, 0.0), (500, 10.0), (508, 18.0), (509, 19.0), (510, 20.0), (1000, 30.0))
    assert axis.position(504) == 14.0
    assert axis.position(250) == 5.0


def test_an_axis_without_long_stretches_is_as_it_is() -> None:
    assert axis_of(PLAN).breaks == ()
    assert [axis_of(PLAN).position(turns) for turns in (0, 4, 9)] == [0.0, 4.0, 9.0]
    assert axis_of([Stem("alone", None, 0, 5000)]).breaks == ()


def test_names_are_cut_in_the_middle() -> None:
    assert shorten_name("prompt~fork-00ff00ff", 20) == "prompt~fork-00ff00ff"
    assert shorten_name("prompt~fork-00ff00ff", 13) == "prompt…ff00ff"


def test_forks_of_one_point_are_put_together_where_they_end_alike_and_else_wherever_they_end() -> None:
    stems = [Stem("r", None, 0, 9), *(Stem(f"a{n}", "r", 4, 5 + n % 2) for n in range(6)), Stem("b", "a5", 5, 7)]
    drawn, bundles = bundle_lanes(stems, {}, 5)
    assert [(stem.id, stem.end) for stem in drawn] == [("r", 9), ("a0", 5), ("a1", 6), ("a5", 6), ("b", 7)]
    assert {first: bundle.ids for first, bundle in bundles.items()} == {"a0": ("a0", "a2", "a4"), "a1": ("a1", "a3")}
    drawn, bundles = bundle_lanes(stems, {}, 4)
    assert [stem.id for stem in drawn] == ["r", "a0", "a5", "b"]
    assert bundles["a0"].ends == ((5, 3), (6, 2))


def test_forks_of_two_kinds_stay_apart_however_few_lanes_are_asked_for() -> None:
    stems = [Stem("r", None, 0, 9), *(Stem(f"a{n}", "r", 4, 5 + n) for n in range(4))]
    drawn, bundles = bundle_lanes(stems, {"a0": "x", "a1": "y", "a2": "x", "a3": "y"}, 1)
    assert [stem.id for stem in drawn] == ["r", "a0", "a1"]
    assert [bundle.ids for bundle in bundles.values()] == [("a0", "a2"), ("a1", "a3")]


# --- drawings


def grown(store: Repository, forks: int) -> Session:
    """A root of 1,000 turns and its forks at two points, every fifth of them a fork of the one before."""
    root = store.create(id="prompt")
    for number in range(1000):
        root.append("user", f"t{number}")
    root.persist()
    before = root
    for number in range(forks):
        parent = before if number % 5 == 4 else root
        at = len(parent) if parent is not root else 500 + 500 * (number % 2)
        meta: dict[str, Any] = {"arm": ("few-shot", "zero-shot")[number % 2]}
        if number % 4:
            meta["score"] = number / forks
        created = datetime(2026, 3, 1, 12, number % 60, tzinfo=UTC)
        before = parent.fork(at=at, id=f"run-{number:02}", meta=meta, created=created)
        for turn in range(3 + number % 7):
            before.append("user", f"t{turn}")
        before.persist()
    return root


@pytest.fixture(scope="module")
def fifty() -> Iterator[Comparison]:
    with trails.open(":memory:") as store:
        grown(store, 50)
        yield store.compare("prompt")


def drawn(found: Comparison, path: Path, color_by: str | None = None) -> str:
    found.plot(path, color_by=color_by)
    return path.read_text("utf-8")


def elements(svg: str) -> list[tuple[str, ET.Element]]:
    """The texts of a drawing, with what they stand in."""
    root = ET.fromstring(svg)  # noqa: S314 - drawn here
    return [("".join(each.itertext()).strip(), each) for each in root.iter() if each.tag.endswith("}text")]


def texts(svg: str) -> list[str]:
    return [text for text, _ in elements(svg)]


def test_an_svg_names_every_branch_and_marks_the_axis(fifty: Comparison, tmp_path: Path) -> None:
    shown = texts(drawn(fifty, tmp_path / "forest.svg"))
    assert sorted(text for text in shown if text.startswith("run-")) == [f"run-{n:02}" for n in range(50)]
    assert {"prompt", "turns", "0", "500", "1,000"} <= set(shown)


def test_the_names_of_fifty_branches_do_not_overlap(fifty: Comparison, tmp_path: Path) -> None:
    found = []
    for name, element in elements(drawn(fifty, tmp_path / "forest.svg")):
        if name.startswith("run-") or name == "prompt":
            size = float(re.search(r"([\d.]+)px", element.attrib["style"])[1])  # type: ignore[index] # it is there
            found.append((float(element.attrib["y"]), float(element.attrib["x"]), size))
    found.sort()
    assert len(found) == 51
    assert len({x for _, x, _ in found}) == 1
    assert all(below[0] - above[0] > above[2] for above, below in pairwise(found))


@pytest.mark.parametrize("color_by", [None, "own_turns", "meta.arm", "created"])
def test_a_drawing_is_the_same_each_time_whatever_the_host_has_set(
    fifty: Comparison, tmp_path: Path, color_by: str | None
) -> None:
    first = drawn(fifty, tmp_path / "one.svg", color_by)
    with mpl.rc_context({"font.size": 20, "svg.hashsalt": "other", "lines.linewidth": 9, "axes.facecolor": "red"}):
        second = drawn(fifty, tmp_path / "two.svg", color_by)
        assert mpl.rcParams["font.size"] == 20
    assert first == second
    assert "dc:date" not in first


def test_a_png_is_drawn_by_its_suffix(fifty: Comparison, tmp_path: Path) -> None:
    fifty.plot(tmp_path / "forest.PNG", color_by="meta.score")
    assert (tmp_path / "forest.PNG").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert list(tmp_path.iterdir()) == [tmp_path / "forest.PNG"]


def test_a_plot_without_a_path_is_the_same_drawing_for_a_notebook(fifty: Comparison, tmp_path: Path) -> None:
    shown = fifty.plot(color_by="meta.arm")
    assert shown._repr_svg_() == shown.svg == drawn(fifty, tmp_path / "forest.svg", "meta.arm")


@pytest.fixture(scope="module")
def many() -> Iterator[Comparison]:
    """A root of 10 turns and 90 forks at 5, of two arms, each with one or two turns and a score of its number."""
    with trails.open(":memory:") as store:
        root = store.create(id="prompt")
        for number in range(10):
            root.append("user", f"t{number}")
        root.persist()
        for number in range(90):
            meta = {"arm": ("few", "zero")[number % 2], "score": number}
            fork = root.fork(at=5, id=f"run-{number:02}", meta=meta)
            for turn in range(1 + number % 3 % 2):
                fork.append("user", f"t{turn}")
            fork.persist()
        yield store.compare("prompt")


def test_more_than_sixty_branches_are_put_together(many: Comparison) -> None:
    shown = texts(many.plot(color_by="meta.score").svg)
    assert {"run-00 and 59 more", "run-01 and 29 more", "prompt"} <= set(shown)
    assert "run-02" not in shown
    by_arm = texts(many.arranged(group_by="meta.arm").plot().svg)
    assert sorted(text for text in by_arm if "×" in text) == ["few × 15", "few × 30", "zero × 15", "zero × 30"]
    by_colour = texts(many.plot(color_by="meta.arm").svg)
    assert {"few × 30", "zero × 15"} <= set(by_colour)


@pytest.mark.parametrize("name", ["forest.eps", "forest", "svg"])
def test_another_suffix_is_refused(fifty: Comparison, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"end in \.svg, \.pdf or \.png"):
        fifty.plot(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_texts_get_a_colour_each_with_a_legend(fifty: Comparison, tmp_path: Path) -> None:
    svg = drawn(fifty, tmp_path / "forest.svg", "meta.arm")
    assert {"meta.arm", "few-shot", "zero-shot", "(missing)"} <= set(texts(svg))
    assert svg.count("stroke: #0072b2") > 25  # the lanes of one arm, and its line in the legend
    assert svg.count("stroke: #e69f00") > 25


def test_numbers_get_a_scale_and_missing_ones_are_grey(fifty: Comparison, tmp_path: Path) -> None:
    svg = drawn(fifty, tmp_path / "forest.svg", "meta.score")
    assert {"meta.score", "0.25", "0.50", "0.75", "(missing)"} <= set(texts(svg))
    assert "stroke: #440154" in svg  # the dark end of the scale, for the greatest


def test_a_column_without_values_is_grey_throughout(fifty: Comparison, tmp_path: Path) -> None:
    assert {"cost", "(missing)"} <= set(texts(drawn(fifty, tmp_path / "forest.svg", "cost")))


def test_one_value_alone_still_has_a_scale(memory: Repository, tmp_path: Path) -> None:
    root = memory.create(id="r")
    root.fork(id="f", meta={"v": 0}).persist()
    assert {"r", "f", "meta.v"} <= set(texts(drawn(memory.compare("r"), tmp_path / "one.svg", "meta.v")))


def test_more_values_than_colours_are_refused(fifty: Comparison, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="51 different values cannot be told apart"):
        fifty.plot(tmp_path / "forest.svg", color_by="session")
    with pytest.raises(InvalidInput, match=r"no column 'meta\.socre'"):
        fifty.plot(tmp_path / "forest.svg", color_by="meta.socre")
    assert not (tmp_path / "forest.svg").exists()


def test_a_fork_point_is_drawn_with_its_root(memory: Repository, tmp_path: Path) -> None:
    grown(memory, 3)
    found = memory.compare("prompt", at=500)
    assert {"prompt", "run-00", "run-02"} <= set(shown := texts(drawn(found, tmp_path / "forest.svg", "meta.arm")))
    assert "run-01" not in shown
    assert "(missing)" not in shown  # the root is no branch that was compared


@pytest.mark.parametrize("label", ["costs $1 and $2", "a_{b} \\frac", "旅行の計画", "<b>&amp;</b>", "x" * 64])
def test_any_label_is_drawn_as_it_is(memory: Repository, tmp_path: Path, label: str) -> None:
    memory.create(id="s", label=label, meta={"v": label}).persist()
    shown = texts(drawn(memory.compare("s"), tmp_path / "s.svg", "meta.v"))
    assert shown.count(shorten_name(label, 34)) == 2  # in the legend too
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no font here")
        memory.compare("s").plot(tmp_path / "s.png", color_by="meta.v")


@pytest.mark.slow
def test_drawing_needs_no_display_and_leaves_pyplot_alone(tmp_path: Path) -> None:
    script = (
        "import sys, trails\n"
        "with trails.open(':memory:') as store:\n"
        "    store.create(id='s').persist()\n"
        "    store.compare('s').plot('s.svg'); store.compare('s').plot('s.png')\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"} | {"MPLBACKEND": "qtagg"}
    environment["PYTHONPATH"] = str(IMPORTED)
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True, timeout=60)
    assert (tmp_path / "s.svg").stat().st_size > 1000


def test_opening_a_store_and_comparing_loads_no_plotting(tmp_path: Path) -> None:
    script = (
        "import sys, trails\n"
        "assert not any(name.startswith('trails.session.compar') for name in sys.modules)\n"
        "with trails.open(':memory:') as store:\n"
        "    store.create(id='s').persist()\n"
        "    store.compare('s').to_csv()\n"
        "sys.exit(any(name in sys.modules for name in ('matplotlib', 'pandas', 'pyarrow', 'numpy')))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(IMPORTED)}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True, timeout=60)
