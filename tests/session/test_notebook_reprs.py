"""What a notebook shows of each value: nothing in it is markup, nothing fails, and it is cut however much there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa  # it ships no types
import pytest

import trails
from trails import Repository, StoreFailed
from trails.display import html
from trails.display.tables import PlainTable, Tabular

HOSTILE = '</div><script>alert(1)</script><img src=x onerror="alert(2)"> & \u202eabc\x1b[31m \' "'
Shown = Callable[[Repository], Any]


class Checked(HTMLParser):
    """Reads HTML as a browser would, and notes what could run or load, and whether tags close as they opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.bad: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        allowed = {"div", "b", "bdi", "span", "table", "thead", "tbody", "tr", "th", "td", "del", "ins", "br"}
        if tag not in allowed or any(name not in ("style", "dir") for name, _ in attrs):
            self.bad.append(self.get_starttag_text() or tag)
        self.bad += [value for _, value in attrs if value and ("url(" in value or "http" in value)]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.bad.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check(shown: str) -> str:
    """Return the text of HTML that is whole, harmless and of bounded size."""
    found = Checked()
    found.feed(shown)
    found.close()
    assert not found.bad
    assert not found.open
    assert "\u202e" not in shown
    assert "\x1b" not in shown
    assert len(shown.encode()) <= 210_000
    return "".join(found.texts)


@pytest.fixture(scope="module")
def store() -> Iterator[Repository]:
    """A session `plan` of nine turns with hostile texts, and forks of it, one of which differs at 3."""
    with trails.open(":memory:") as opened:
        plan = opened.create(id="plan", label="<b>bold</b>", principal="al<i>ce", meta={"<u>": HOSTILE}, system=HOSTILE)
        for number in range(9):
            call = {"id": "c", "name": "<hr>", "arguments": {"a": HOSTILE}}
            calls = [call] if number == 1 else []
            plan.append("assistant" if number % 2 else "user", f"{number} {HOSTILE}", tool_calls=calls)
        plan.append("user", [{"type": "text", "text": HOSTILE}, {"type": "image", "source": HOSTILE}])
        plan.persist()
        other = plan.fork(at=3, id="other", meta={"arm": HOSTILE, "score": 2.5})
        other.append("assistant", f"3 {HOSTILE} changed")
        other.append("<marquee>:own", "only here")
        other.persist()
        yield opened


VALUES: dict[str, Shown] = {
    "session": lambda store: store.load("plan"),
    "fork": lambda store: store.load("other"),
    "turn": lambda store: store.load("plan").turns[1],
    "parts": lambda store: store.load("plan").turns[9],
    "record": lambda store: store.record("plan"),
    "page": lambda store: store.list(),
    "branches": lambda store: store.branches("plan"),
    "hits": lambda store: store.search("script"),
    "diff": lambda store: store.diff("plan", "other"),
    "context": lambda store: store.context("plan", HOSTILE, max_tokens=400),
    "comparison": lambda store: store.compare("plan"),
    "groups": lambda store: store.compare("plan", group_by="meta.arm"),
    "rows": lambda store: store.query("SELECT ?s ?p ?o { ?s ?p ?o }"),
    "triples": lambda store: store.query("CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }"),
    "forest": lambda store: store.forest(),
    "verdict": lambda store: store.verify(),
    "summaries": lambda store: store.summaries(),
    "stats": lambda store: store.stats(),
    "arms": lambda store: store.compare("plan", arms=["o*", "*"]),
}


@pytest.mark.parametrize("name", VALUES)
def test_what_is_shown_is_harmless(store: Repository, name: str) -> None:
    said = check(VALUES[name](store)._repr_html_())
    assert "it cannot be shown" not in said
    assert "alert(1)" in said or name in ("verdict", "forest", "page", "branches", "stats", "arms")


def test_a_session_shows_roles_texts_and_where_it_was_forked(store: Repository) -> None:
    said = check(store.load("other")._repr_html_())
    assert said.index("0 </div>") < said.index("forked here") < said.index("changed") < said.index("only here")
    assert "plan at 3" in said
    assert "<marquee>" in said


def test_a_diff_shows_both_sides_of_a_change(store: Repository) -> None:
    shown = store.diff("plan", "other")._repr_html_()
    assert "<ins style" in shown
    assert " changed</ins>" in shown
    assert "only right" in check(shown)


def test_a_context_says_what_was_left_out(store: Repository) -> None:
    found = store.context("plan", "and now?", max_tokens=300)
    assert len(found.dropped) > 0
    assert f"left out {len(found.dropped)}, {found.dropped[0]} to {found.dropped[-1]}" in check(found._repr_html_())


def test_a_forest_is_drawn_as_deep_as_it_is(store: Repository) -> None:
    found = store.forest()
    assert [(twig.node.id, twig.depth) for twig in found] == [("plan", 0), ("other", 1)]
    assert str(found).splitlines()[1].startswith("  @3 other  5 turns, 2 own  ")
    assert [(twig.node.id, twig.depth) for twig in store.forest("other")] == [("other", 0)]
    assert "@3 other" in check(found._repr_html_())


def test_a_long_session_is_cut_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with trails.open(tmp_path / "s", create=True, durability="process") as store:
        made = store.create(id="long")
        for number in range(300):
            made.append("user", f"text {number} " + "x" * 5000)
        made.persist()
        session = store.load("long", max_tokens=2000)
        said = check(session._repr_html_())
        assert "text 4 x" in said
        assert "text 265 x" in said
        assert "text 5 x" not in said
        assert "text 264 x" not in said
        assert "260 turns not shown" in said


def test_what_has_many_rows_is_cut_at_two_hundred() -> None:
    table = PlainTable({"n": "integer", "t": "text"}, [{"n": number, "t": "x" * 10_000} for number in range(100_000)])
    said = check(table._repr_html_())
    assert "more rows" in said
    rows = [[str(number)] for number in range(1000)]
    assert "800 more rows" in check(html.table(["n"], rows))
    assert "60 more columns" in check(html.table([f"c{n}" for n in range(100)], [["x"] * 100]))


class Broken(Tabular):
    def __repr__(self) -> str:
        return "<Broken & gone>"

    def table(self) -> PlainTable:
        raise StoreFailed(f"it is closed {HOSTILE}")


def test_what_cannot_be_shown_is_named_and_raises_nothing() -> None:
    said = check(Broken()._repr_html_())
    assert said.startswith("<Broken & gone>")
    assert "it cannot be shown: it is closed </div><script>" in said


# --- as data frames and Arrow tables


@pytest.mark.parametrize(
    "name", ["session", "page", "summaries", "branches", "hits", "diff", "context", "rows", "triples", "forest"]
)
def test_what_is_tabular_comes_as_a_data_frame_and_as_arrow(store: Repository, name: str) -> None:
    value = VALUES[name](store)
    frame, arrow = value.to_pandas(), value.to_arrow()
    assert isinstance(arrow, pa.Table)
    assert list(frame.columns) == arrow.column_names
    assert len(frame) == arrow.num_rows > 0


def test_the_turns_of_a_session_are_rows_with_their_cost(memory: Repository) -> None:
    session = memory.create(id="s", agent="planner")
    session.append("user", "Hello")
    usage = {"input_tokens": 3, "output_tokens": 2}
    calls = [{"id": "c", "name": "ls", "arguments": {}}]
    session.append("assistant", [{"type": "text", "text": "Hi"}], model="m-1", usage=usage, tool_calls=calls)
    frame = session.to_pandas()
    assert frame["text"].tolist() == ["Hello", "Hi"]
    assert frame["output_tokens"].tolist()[1] == 2
    assert frame["tools"].tolist() == [[], ["ls"]]
    assert str(frame["time"].dtype) == "datetime64[us, UTC]"
    session.discard_pending()


def test_a_diff_is_a_row_an_entry(store: Repository) -> None:
    table = store.diff("plan", "other").table()
    assert [(row["kind"], row["left_index"], row["right_index"]) for row in table.rows][:2] == [
        ("changed", 3, 3),
        ("left", 4, None),
    ]


def test_records_keep_their_times(store: Repository) -> None:
    table = store.list().table()
    assert table.kinds["created"] == "time"
    assert table.kinds["id"] == "text"
    assert {row["id"] for row in table.rows} == {"plan", "other"}
