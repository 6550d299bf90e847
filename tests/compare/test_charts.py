"""Charts of a column's numbers by arm: what they show, and what they refuse in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import trails
from tests.support.commands import Run, ok
from trails import InvalidInput, Repository
from trails.compare.comparison import Comparison

ARMS: dict[str, Sequence[float | None]] = {"few": [0.2, 0.4, 0.6, 0.8, 1.0], "zero": [0.1, 0.2, 0.3, 0.4, 0.5, None]}


def tried(store: Repository, arms: dict[str, Sequence[float | None]]) -> Comparison:
    """A prompt with a fork for each number, which is a score, in an arm by metadata; each took 10 tokens a turn."""
    root = store.create(id="prompt")
    root.append("user", "Plan a trip")
    root.persist()
    for arm, scores in arms.items():
        for score in scores:
            fork = root.fork(meta={"arm": arm} | ({} if score is None else {"score": score}))
            fork.append("assistant", "Yes", usage={"input_tokens": 6, "output_tokens": 4})
            fork.persist()
    return store.compare("prompt", group_by="meta.arm")


def texts(svg: str) -> list[str]:
    root = ET.fromstring(svg)  # noqa: S314 - drawn here
    return ["".join(each.itertext()).strip() for each in root.iter() if each.tag.endswith("}text")]


def chart(found: Comparison, kind: Any, **options: Any) -> list[str]:
    return texts(found.plot(kind=kind, column="meta.score", **options).svg)


@pytest.mark.parametrize("kind", ["box", "strip", "bar"])
def test_a_chart_names_each_arm_with_how_many_branches_it_has(memory: Repository, kind: str) -> None:
    shown = chart(tried(memory, ARMS), kind, axis="accuracy (share)", title="Two prompts")
    assert {"few", "n = 5", "zero", "n = 5, 1 missing", "meta.arm", "accuracy (share)", "Two prompts"} <= set(shown)
    assert "(root)" not in shown  # it was not tried


def test_a_bar_has_its_mean_and_interval_in_figures_beside_it(memory: Repository) -> None:
    shown = chart(tried(memory, {"one": [3], "none": [None], "two": [0, 1]}), "bar")
    assert {"3", "0.500 (0 to 1.00)", "no numbers"} <= set(shown)  # a bootstrap of 0 and 1 reaches from 0 to 1


def test_a_scatter_has_a_legend_and_says_what_it_leaves_out(memory: Repository) -> None:
    shown = chart(tried(memory, ARMS), "scatter", against="tokens")
    assert {"few (n = 5)", "zero (n = 5, 1 missing)", "tokens", "meta.score"} <= set(shown)
    assert "Each mark is a branch. Left out, without both numbers: 1." in shown
    assert "(root) (n = 0, 1 missing)" not in shown


def test_the_only_score_is_drawn_unless_another_column_is_named(memory: Repository) -> None:
    found = tried(memory, {"a": [1, 2], "b": [3, 4]})
    for number, record in enumerate(memory.load("prompt").branches()):
        memory.score(record.id, "right", number % 2 == 0, by="bob")
    scored = memory.compare("prompt", group_by="meta.arm")
    assert "score.right" in texts(scored.plot(kind="strip").svg)
    with pytest.raises(InvalidInput, match=r"no branch has a score that is a number.*store\.score_all"):
        found.plot(kind="strip")


def test_long_names_are_cut_no_further_than_that_they_differ(memory: Repository) -> None:
    names = [f"{'temperature ' * 3}{degree}{' and the rest of it' * 3}" for degree in "123"]
    shown = [text for text in chart(tried(memory, {name: [1, 2] for name in names}), "strip") if "…" in text]
    assert len(set(shown)) == 3


@pytest.mark.parametrize("kind", ["box", "strip", "bar", "scatter"])
def test_no_text_of_a_chart_reaches_beyond_its_page(memory: Repository, kind: Any) -> None:
    arms: dict[str, Sequence[float | None]] = {
        f"a rather long name of an arm, number {n:02}": [n, n + 1, 2 * n, n, 5] for n in range(30)
    }
    options: Any = {"against": "tokens"} if kind == "scatter" else {}
    svg = tried(memory, arms | {"旅行の計画を立てる": [1]}).plot(kind=kind, column="meta.score", **options).svg
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])  # type: ignore[index] # it is there
    rows = re.findall(r'<text style="font[^"]*?([\d.]+)px[^"]*" x="([\d.]+)"[^>]*>([^<]*)<', svg)
    beside = [(float(x), float(size), text) for size, x, text in rows if "name of an arm" in text or "旅" in text]
    assert len(beside) == 31
    ends = [x + size * sum(0.55 if letter.isascii() else 1 for letter in text) for x, size, text in beside]
    assert min(x for x, _, _ in beside) >= 0
    assert max(ends) < width


@pytest.mark.parametrize("name", ["chart.svg", "chart.pdf", "chart.PNG"])
def test_the_suffix_says_what_file_is_written_and_the_same_bytes_come_again(
    memory: Repository, tmp_path: Path, name: str
) -> None:
    found = tried(memory, ARMS)
    starts = {"chart.svg": b"<?xml", "chart.pdf": b"%PDF-", "chart.PNG": b"\x89PNG"}
    files = []
    for _ in range(2):
        found.plot(tmp_path / name, kind="box", column="meta.score")
        files.append((tmp_path / name).read_bytes())
    assert files[0].startswith(starts[name])
    assert files[0] == files[1]
    found.plot(tmp_path / "forest.pdf")
    assert (tmp_path / "forest.pdf").read_bytes().startswith(b"%PDF-")


@pytest.mark.parametrize(
    ("kind", "options", "complaint"),
    [
        ("pie", {}, "no plot 'pie'; there are: forest, box, strip, bar, scatter"),
        ("bars", {}, "no plot 'bars'.*'bar'"),
        ("box", {"colour": "x"}, "plot takes no 'colour'"),
        ("box", {"color_by": "tokens"}, "kind 'box' takes no 'color_by'; it takes: column, axis, title"),
        ("forest", {"column": "meta.score"}, "kind 'forest' takes no 'column'; it takes: color_by, collapse"),
        ("strip", {"column": "meta.score", "against": "tokens"}, "kind 'strip' takes no 'against'"),
        ("scatter", {"column": "meta.score"}, "needs a second column of numbers; name it: against="),
        ("strip", {"column": "meta.arm"}, "'meta.arm' has no numbers that say how much, so it cannot be drawn"),
        ("strip", {"column": "meta.scroe"}, "no column 'meta.scroe'.*'meta.score'"),
        ("strip", {"column": "cost"}, "no branch has a number in 'cost'; score the branches first"),
        ("box", {"column": "meta.score"}, "no arm has more than 3 of the 5 numbers that a box needs"),
        ("bar", {"column": "meta.rare"}, "no arm has more than 1 of the 2 numbers that a bar needs"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_words(
    memory: Repository, kind: Any, options: dict[str, Any], complaint: str
) -> None:
    tried(memory, {"a": [1, 2, 3], "b": [1]})
    memory.load("prompt").fork(meta={"arm": "b", "rare": 1}).persist()
    with pytest.raises(InvalidInput, match=complaint):
        memory.compare("prompt", group_by="meta.arm").plot(kind=kind, **options)


def test_too_few_numbers_too_many_arms_and_no_groups_are_refused(memory: Repository) -> None:
    found = tried(memory, {f"arm {n}": [n] for n in range(61)})
    with pytest.raises(InvalidInput, match="a strip shows at most 60 arms, not 61"):
        found.plot(kind="strip", column="meta.score")
    with pytest.raises(InvalidInput, match="a scatter shows at most 35 arms, not 61"):
        found.plot(kind="scatter", column="meta.score", against="tokens")
    with pytest.raises(InvalidInput, match="no groups"):
        memory.compare("prompt").plot(kind="box", column="meta.score")
    assert "all branches (n = 61, 1 missing)" in texts(
        memory.compare("prompt").plot(kind="scatter", column="meta.score", against="own_turns").svg
    )


def test_letters_that_no_font_has_are_told_and_an_svg_keeps_them(memory: Repository, tmp_path: Path) -> None:
    found = tried(memory, {"\U00013000": [1, 2]})  # a hieroglyph
    assert "\U00013000" in chart(found, "strip")
    with pytest.warns(UserWarning, match="no font here has 1 letter of this drawing"):
        found.plot(tmp_path / "wide.png", kind="strip", column="meta.score")


def test_the_command_draws_a_chart(run: Run, place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True) as store:
        tried(store, ARMS)
    chart = str(tmp_path / "c.svg")
    grouped = ("compare", "prompt", "--group-by", "meta.arm")
    ok(run(*grouped, "--plot", chart, "--kind", "bar", "--column", "meta.score", "--axis", "share"))
    assert {"few", "n = 5, 1 missing", "share"} <= set(texts(Path(chart).read_text("utf-8")))
    for options, complaint in (
        (("--kind", "bar"), "--kind says what to draw; give --plot FILE too"),
        (("--plot", "d.svg", "--column", "meta.score"), "are a chart's; give --plot FILE --kind box"),
        (("--plot", "d.svg", "--kind", "strip", "--color-by", "tokens"), "kind 'strip' takes no 'color_by'"),
    ):
        done = run(*grouped, *options)
        assert done.exit_code != 0
        assert complaint in done.stderr
