"""Lists that fit a width, hits that show what was found, and what was done and cost, on the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import trails
import trails.opening
from tests.support.commands import Run, invoke, ok, ok_json
from tests.support.terminals import on_terminal
from trails import ToolCall
from trails.cli.commands.search import highlighted
from trails.display.tables import PlainTable
from trails.display.terminal_text import cells, shorten
from trails.display.text_table import draw

MADE_UP = "7f3a9c1e-5b2d-48f6-a0c4-e8d2b6f1a3c5"
NEAR_IT = "7f3a9c1e-5b2e-48f6-a0c4-e8d2b6f1a3c5"


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions whose ids begin alike for 12 digits, and one with a name; calls of two models, one with its cost."""
    path = tmp_path_factory.mktemp("filled") / "store"
    when = datetime(2026, 5, 1, 12, tzinfo=UTC)
    with trails.open(path, create=True, durability="process") as store:
        for session_id, title in (
            (MADE_UP, "Fix the parser, which takes a comma for the end of the line"),
            (NEAR_IT, None),
        ):
            session = store.create(id=session_id, meta={"project": "/src/parser"} | ({"title": title} if title else {}))
            session.append("user", "Where does the Wanderweg begin, and " + "how far is it " * 20, time=when)
            session.append(
                "assistant", "In Zermatt.", model="m-1", usage={"input_tokens": 1500, "output_tokens": 50}, time=when
            )
            session.persist()
        plan = store.create(id="plan", label="trip", principal="alice", meta={"topic": "alps"})
        plan.append(
            "assistant", "By train", model="m-2", usage={"input_tokens": 5, "output_tokens": 1, "cost": 0.25}, time=when
        )
        plan.persist()
        store.summaries(limit=1)  # brings the index up to date
    return path


@pytest.mark.parametrize(("width", "ids"), [("80", ["7f3a9c1e-5b2d", "7f3a9c1e-5b2e"]), ("160", [MADE_UP, NEAR_IT])])
def test_ids_are_whole_where_there_is_room_and_else_a_beginning_that_no_other_has(
    place: Path, width: str, ids: list[str], run: Run
) -> None:
    shown = on_terminal(place, "list", COLUMNS=width, NO_COLOR="1")[1].splitlines()
    assert [line.split()[0] for line in shown[1:]] == ["plan", *reversed(ids)]
    assert max(map(len, shown)) <= int(width)
    for short, whole in zip(ids, (MADE_UP, NEAR_IT), strict=True):
        assert ok_json(run("show", short, "--json"))["session"]["id"] == whole


def test_a_list_tells_what_each_session_is_about(run: Run) -> None:
    lines = [line.split("\t")[-1] for line in ok(run("list")).splitlines()[1:]]
    assert lines[0] == "trip"
    assert lines[1].startswith("Where does the Wanderweg begin, and how far")
    assert lines[2] == "Fix the parser, which takes a comma for the end of the line"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--project", "parser"], [NEAR_IT, MADE_UP]),
        (["--meta", "topic=alps"], ["plan"]),
        (["--meta", "topic=sea"], []),
        (["--sort", "tokens", "-n", "1"], [NEAR_IT]),
        (["--label", "trip"], ["plan"]),
    ],
)
def test_a_list_is_filtered_and_sorted(run: Run, options: list[str], found: list[str]) -> None:
    assert [each["id"] for each in ok_json(run("list", "--json", *options))["sessions"]] == found
    rows = ok(run("list", "--tsv", *options)).splitlines()
    assert [row.split("\t")[0] for row in rows] == ["id", *found]


@pytest.fixture
def scored(place: Path, run: Run) -> Path:
    """The store with a score of a turn whose session has a long id, for a long reason in Japanese."""
    with trails.open(place) as store:
        reason = "短い答えは良い答えです。" * 9
        store.score(f"{MADE_UP}#1", "politeness", 0.875, by="a-reviewer-with-a-long-name", reason=reason)
    return place


@pytest.mark.parametrize("width", [20, 27, 33, 40, 53, 66, 80, 93, 110, 140, 170, 200])
def test_a_list_of_scores_shows_whose_score_it_is_and_the_score_at_any_width(
    scored: Path, run: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = ok(run("scores")).splitlines()
    text = "".join("".join(shown).split())
    assert [word for word in ("score", "0.875", "politeness") if word not in text] == []
    assert max(map(cells, shown)) <= width


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 120, 200])
def test_a_list_of_sessions_says_at_any_width_what_each_is_about(
    run: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    done = run("list")
    lines = ok(done).splitlines()
    assert lines[0].split()[-1] == "about"
    (trip,) = [line for line in lines if line.endswith("  trip")]
    (fix,) = [line.partition("Fix")[2] for line in lines if "Fix" in line]
    assert trip
    assert fix.endswith("…") or fix == " the parser, which takes a comma for the end of the line"
    without = done.stderr.partition("no room for ")[2].partition(";")[0].replace(",", "").split()
    assert sorted([*lines[0].split(), *without]) == ["about", "active", "project", "session", "tokens", "turns"]
    assert (width < 80) == bool(without)


@pytest.mark.parametrize("width", [20, 50, 80, 200])
@pytest.mark.parametrize(
    "command",
    [["blame", "trip"], ["stats"], ["cost"], ["tags"], ["notes", "trip"], ["queries"], ["log"], ["context", "trip"]],
)
def test_a_list_is_no_wider_than_the_terminal(
    scored: Path, run: Run, monkeypatch: pytest.MonkeyPatch, width: int, command: list[str]
) -> None:
    with trails.open(scored) as store:
        store.tags.add("the-first-version", f"{MADE_UP}@1")
        store.notes.add("plan", 0, "A note that is longer than most terminals are wide, " * 4)
    monkeypatch.setenv("COLUMNS", str(width))
    lines = ok(run(*command)).splitlines()
    assert len(lines) > 1
    assert max(map(cells, lines)) <= width


def test_a_pipe_gets_a_line_a_row_with_tabs_and_nothing_cut(scored: Path, run: Run) -> None:
    header, row = (line.split("\t") for line in ok(run("scores")).splitlines())
    assert header == ["of", "name", "score", "by", "version", "reason", "given (UTC)", "id"]
    assert row[:6] == [
        *(f"{MADE_UP}#1", "politeness", "0.875", "a-reviewer-with-a-long-name", "-", "短い答えは良い答えです。" * 9)
    ]
    assert ok(run("show", "trip")).splitlines()[:2] == ["session\tplan", "label\ttrip"]


def test_columns_are_as_wide_as_the_terminal_draws_their_texts() -> None:
    rows = [{"name": "東京", "turns": 2}, {"name": "cafe\u0301 👍🏽", "turns": 10}, {"name": "plan", "turns": 3}]
    lines = draw("<Three>", PlainTable({"name": "text", "turns": "integer"}, rows)).splitlines()[1:]
    assert lines == ["name     turns", "東京         2", "cafe\u0301 👍🏽     10", "plan         3"]
    assert shorten("東京タワーへ", 6) == "東京…"  # 東京タ would take six of six, with no room for the sign


def test_tab_separated_values_are_whole(run: Run) -> None:
    header, *rows = (line.split("\t") for line in ok(run("list", "--tsv")).splitlines())
    (row,) = [dict(zip(header, row, strict=True)) for row in rows if row[0] == MADE_UP]
    assert row["title"] == "Fix the parser, which takes a comma for the end of the line"
    assert (row["project"], row["turns"], row["label"]) == ("/src/parser", "2", "")
    assert row["last_activity"] == "2026-05-01T12:00:00+00:00"
    assert run("list", "--tsv", "--json").exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize("width", ["60", "80", "100"])
@pytest.mark.sample(1)
def test_a_hit_shows_its_session_whole_and_what_was_found_at_any_width(place: Path, width: str) -> None:
    code, shown = on_terminal(place, "search", "WANDERWEG", COLUMNS=width)
    first, second, third, _ = shown.splitlines()
    assert code == 0
    assert {line.partition("  ")[0].removeprefix("\x1b[36m").removesuffix("\x1b[0m") for line in (first, third)} == {
        NEAR_IT,
        MADE_UP,
    }
    assert "\x1b[1;31mWanderweg\x1b[0m" in second
    bare = on_terminal(place, "search", "WANDERWEG", COLUMNS=width, NO_COLOR="1")[1]
    assert max(map(len, bare.splitlines())) <= int(width)


@pytest.mark.parametrize("start", [0, 7, 40, 113])
def test_what_was_found_stays_in_view_wherever_it_stands(start: int) -> None:
    line = highlighted("x" * start + " needle " + "y" * (113 - start), "Needle", 30).plain
    assert "needle" in line
    assert len(line) <= 30


def test_what_was_done_is_counted_by_what_is_asked_for(run: Run) -> None:
    found = ok_json(run("stats", "--by", "project", "--json"))
    assert {row["group"]: (row["sessions"], row["turns"], row["calls"]) for row in found["rows"]} == {
        "/src/parser": (2, 4, 2),
        None: (1, 1, 1),
    }
    lines = [line.split() for line in ok(run("stats")).splitlines()]
    assert lines == [
        ["day", "sessions", "turns", "calls", "unknown", "input", "output", "cached"],
        ["2026-05-01", "3", "5", "3", "0", "3.0k", "101", "-"],
    ]


def test_a_call_without_a_price_is_said_so_and_prices_may_be_given(run: Run, tmp_path: Path) -> None:
    bare = run("cost")
    assert [line.split() for line in ok(bare).splitlines()[1:]] == [
        ["m-1", "2", "0", "3.0k", "100", "-", "-", "0", "2"],
        ["m-2", "1", "0", "5", "1", "-", "0.25", "0", "0"],
        ["total", "3", "0", "3.0k", "101", "-", "0.25", "0", "2"],
    ]
    assert bare.stderr == "2 calls without a price, in no sum: m-1; --prices FILE gives one\n"
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({"m-*": {"input": 1000, "output": 10_000}}))
    priced = run("cost", "--prices", str(table))
    assert [line.split()[6:] for line in ok(priced).splitlines()[1:]] == [
        ["4.00", "2", "0"],  # 3,000 read at 0.001 and 100 written at 0.01
        ["0.25", "0", "0"],
        ["4.25", "2", "0"],
    ]
    assert priced.stderr == ""


def test_a_range_of_turns_is_shown_by_its_indices(run: Run, place: Path) -> None:
    with trails.open(place) as store:
        session = store.create(id="long")
        for number in range(6):
            session.append("user", f"turn {number}")
        session.persist()
    for text, expected in (("2:4", [2, 3]), ("5", [5]), ("4:", [4, 5]), ("0,3:5", [0, 3, 4])):
        assert [turn["index"] for turn in ok_json(run("show", "long", "--range", text, "--json"))["turns"]] == expected
    shown = ok(run("show", "long@4", "--range", "3:"))
    assert ("turn 3" in shown, "turn 2" in shown, "turn 4" in shown) == (True, False, False)
    assert "there are no turns '5:9'" in run("show", "long", "--range", "5:9").stderr


def test_a_list_shows_what_was_made_since(run: Run, place: Path) -> None:
    assert len(ok(run("list", "-n", "1", "--page", "2")).splitlines()) == 2
    with trails.open(place) as store:
        store.create(id="newer").persist()
    assert ok(run("list")).splitlines()[1].startswith("newer")


@pytest.fixture
def said(place: Path) -> Path:
    """The store, with turns in which a search finds what stands in their JSON and in calls; the index knows them all."""
    with trails.open(place, durability="process") as store:
        talk = store.create(id="talk", agent="guide")
        talk.append("user", [{"type": "text", "text": "Die Straße nach Täsch"}, {"type": "other", "number": 1608}])
        talk.append(
            "assistant", "One moment", tool_calls=[ToolCall(id="c1", name="trains", arguments='{"to": "Täsch"}')]
        )
        talk.append("tool", "at noon", tool_call_id="c1")
        talk.append("user", "wanderweg, again")
        talk.persist()
        store.search("x")
    return place


def test_a_search_that_finds_copies_asks_the_store_which_of_them_count(said: Path, run: Run) -> None:
    with trails.open(said) as store:
        apart = store.load("talk").fork(id="apart")
        apart.append("user", "on its own")
        apart.persist()
        store.detach("apart")
    assert [line for line in ok(run("search", "strasse")).splitlines() if "talk" in line or "apart" in line] == [
        line for line in ok(run("search", "strasse")).splitlines() if line.startswith("talk")
    ]


@pytest.mark.parametrize(
    ("words", "name"),
    [(("tags",), "tags"), (("notes", "plan"), "notes"), (("branches", "plan"), "branches"), (("queries",), "queries")]
    + [((*words, "plan"), name) for words, name in ((("inbox", "list"), "messages"), (("inbox", "events"), "events"))],
)
def test_a_list_is_cut_at_its_limit_and_says_what_is_left(
    place: Path, words: tuple[str, ...], name: str, run: Run
) -> None:
    with trails.open(place) as store:
        ledger = trails.Ledger(store)
        for number in range(3):
            store.tags.add(f"tag-{number}", "plan")
            store.notes.add("plan", 0, f"note {number}")
            store.load("plan").fork(at=1).persist()
            ledger.receive("plan", f"message {number}")
    every = ok_json(run(*words, "--json"))
    cut = ok_json(run(*words, "-n", "2", "--json"))
    assert (cut[name], cut["more"], every["more"]) == (every[name][:2], len(every[name]) - 2, 0)
    assert len(every[name]) == 3 or name == "queries"
    left = run(*words, "--limit", "2")
    number = len(every[name])
    assert left.stderr == f"there is more: 2 of {number} are shown; -n {number} shows all\n"
    assert run(*words).stderr == ""


@pytest.mark.parametrize(("pager", "shown"), [("true", False), ("/no/such/pager", True)])
def test_a_pager_that_ends_at_once_ends_the_run_well_and_one_that_is_not_there_is_done_without(
    place: Path, pager: str, shown: bool
) -> None:
    code, screen = on_terminal(place, "queries", TRAILS_PAGER=pager)
    assert (code, "purpose" in screen, "Traceback" in screen) == (0, shown, False)


def test_calls_without_usage_are_said_to_be_unknown(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with trails.open(path, create=True) as store:
        session = store.create(id="s")
        session.append("assistant", "a", model="m", usage={"output_tokens": 2}, time=datetime(2026, 5, 1, tzinfo=UTC))
        session.append("assistant", "b", model="n", time=datetime(2026, 5, 1, tzinfo=UTC))
        session.persist()
    found = invoke("stats", "--by", "model", store=path)
    assert [line.split() for line in ok(found).splitlines()[1:]] == [
        ["m", "1", "-", "1", "0", "-", "2", "-"],
        ["n", "1", "-", "1", "1", "-", "-", "-"],
        ["total", "1", "-", "2", "1", "-", "2", "-"],
    ]
    assert found.stderr == "1 call with unknown usage, in no sum of tokens\n"
