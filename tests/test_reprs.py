"""Everything public looks as what it is: on one line, or as a table of 80 columns, and never shows a whole text or a secret."""

from __future__ import annotations

import dataclasses
import inspect
from datetime import UTC, datetime
from typing import Any

import pytest

import trails
from tests.support.everything import everything
from tests.support.sessions import say
from trails import Repository
from trails.display import terminal_text
from trails.display.tables import Kind, PlainTable
from trails.display.text_table import draw
from trails.model.values import Finding, SealedTurn, Value

PUBLIC = [getattr(trails, name) for name in trails.__all__]
CLASSES = [
    each for each in PUBLIC if inspect.isclass(each) and not issubclass(each, BaseException) and each is not trails.Page
]
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: str(kind.__name__))
def test_every_public_class_says_itself_how_it_looks(kind: type[object]) -> None:
    made = kind.__repr__
    assert made is not object.__repr__
    assert made.__module__.startswith("trails.")
    if dataclasses.is_dataclass(kind):
        assert "__create_fn__" not in made.__qualname__
        assert inspect.getsourcefile(inspect.unwrap(made)), "made by dataclasses"


@pytest.mark.slow
def test_what_stands_in_a_full_store_looks_short(memory: Repository) -> None:
    everything(memory)
    seen = 0
    for record in memory:
        session = memory.load(record)
        shown: list[object] = [record, session, session.context(), *session, *memory.notes.list(record)]
        shown += [part for turn in session for part in (*turn.tool_calls, *turn.tool_results)]
        shown += [turn.facts.model_call for turn in session]
        for value in [*shown, *memory.tags.list(), memory.list(), memory.verify(), memory.diff(record, record)]:
            text = repr(value)
            seen += 1
            is_table = isinstance(value, trails.Page)
            assert max(map(len, text.splitlines())) <= (80 if is_table else terminal_text.REPR_WIDTH), text
            assert is_table or "\n" not in text
            assert " object at 0x" not in text
    assert seen > 50


def test_a_long_text_is_cut_in_a_turn_and_a_diff(memory: Repository) -> None:
    plan = say(memory.create(id="plan" * 50, label="l" * 64), "secret " * 1000, "x\ny\n" * 99)
    fork = say(plan.fork(at=1, id="fork" * 50), "z" * 9999)
    for value in (*plan, plan, plan.record, fork.record, plan.diff(fork), *plan.diff(fork).entries):
        assert len(repr(value)) <= 100 + (180 if value is plan else 0), repr(value)
        assert "\n" not in str(value)
    assert repr(plan[0]) == f"<Turn 0 user: {'secret ' * 9}s…>"


def test_a_turn_shows_its_role_and_the_beginning_of_its_text_on_one_safe_line(memory: Repository) -> None:
    call = trails.ToolCall(id="c1", name="weather", arguments='{"place": "Zermatt"}')
    with memory.session("plan", agent="amy") as plan:
        plan.append("user", "Plan the release,\n\x1b[31mplease.")
        plan.append("assistant", "", tool_calls=[call])
        plan.append("assistant", [{"type": "text", "text": "First, freeze the branch."}])
        plan.append("user", "x" * 81)
    assert list(map(str, plan)) == [
        "<Turn 0 user: Plan the release, ␛[31mplease.>",
        '<Turn 1 assistant: -> weather {"place": "Zermatt"}>',
        "<Turn 2 assistant: First, freeze the branch.>",
        f"<Turn 3 user: {'x' * 64}…>",
    ]
    assert len(repr(plan[3])) == 80
    memory.redact("plan", 0, reason="asked")
    assert repr(memory.load("plan")[0]) == "<Turn 0 user: (redacted)>"


def test_a_report_shows_its_verdict_and_prints_its_findings() -> None:
    good = trails.VerifyReport(sessions=1, turns=1200)
    assert str(good) == repr(good) == "<VerifyReport: nothing is wrong; 1 session, 1,200 turns>"
    finding = Finding(code="wrong-digest", message="its text\nwas changed", session_id="plan", index=3)
    bad = trails.VerifyReport(sessions=2, turns=5, findings=(finding,) * 22, up_to=7)
    assert repr(bad) == "<VerifyReport: 22 findings; 2 sessions, 5 turns; up to commit 7>"
    lines = str(bad).splitlines()
    assert len(lines) == 22
    assert lines[1] == "  wrong-digest plan@3: its text was changed"
    assert lines[-1] == "  and 2 more findings"


def test_a_context_shows_what_is_in_it_and_how_many_tokens(memory: Repository) -> None:
    def words(text: str) -> int:
        return len(text.split())

    plan = say(memory.create(id="plan"), "one two three", "four", "five six")
    # each message takes 4 tokens beside its words: 7 + 5 + 6, and 5 for the query
    whole = plan.context("why?", counter=words)
    assert repr(whole) == "<Context: 3 turns, 23 tokens; with query>"
    cut = dataclasses.replace(whole, max_tokens=1000, dropped=range(2))
    assert repr(cut) == "<Context: 3 turns, 23 of 1,000 tokens; 2 turns left out; with query>"


def test_a_context_that_cannot_keep_to_its_budget_says_so(memory: Repository) -> None:
    def words(text: str) -> int:
        return len(text.split())

    plan = say(memory.create(id="plan"), "one two three", "four", "five six")
    # the first turn is pinned and takes 4 + 3, the newest always stays and takes 4 + 2
    context = plan.context(max_tokens=1, counter=words)
    assert repr(context) == "<Context: 2 turns, 13 of 1 tokens, over the budget; 1 turn left out>"
    assert str(context).splitlines() == [
        repr(context),
        "kind    index  role  tokens  text",
        "pinned      0  user       7  one two three",
        "turn        2  user       6  five six",
        "what cannot be left out takes 13 of 1 tokens (pinned turns 7, newest turns 6)",
    ]


def test_a_value_shows_what_it_holds_and_not_what_it_lacks() -> None:
    call = trails.ToolCall(id="c1", name="weather", arguments='{"place": "Zermatt"}')
    assert repr(call) == """ToolCall(id='c1', name='weather', arguments='{"place": "Zermatt"}')"""
    tag = trails.Tag(
        name="v1", session_id="plan", length=2, digest="0" * 64, author_iri="urn:trails:principal:a", time=NOW
    )
    assert repr(tag) == (
        "Tag(name='v1', session_id='plan', length=2, digest='000000000000000...0000000000000000', ...)"
    )
    assert str(tag) == repr(tag)


def test_a_salt_is_not_shown(memory: Repository) -> None:
    plan = say(memory.create(id="plan"), "a")
    sealed = memory.reader.sealed(list(plan))[0]
    assert isinstance(sealed, SealedTurn)
    assert sealed.salt not in repr(sealed)


@pytest.mark.parametrize("value", [{"a": 1}, [1] * 9, ("x",) * 9, "x" * 999, b"x" * 999, object(), NOW, 10**300])
def test_a_line_is_never_longer_than_it_may_be(value: Any) -> None:
    text = terminal_text.repr_line("Name" * 50, [(f"field{number}", value) for number in range(20)])
    assert len(text) <= 100
    assert text.endswith(("...)", ")"))


def test_a_value_of_a_host_is_a_value(memory: Repository) -> None:
    assert all(issubclass(kind, Value) for kind in (trails.Turn, trails.Run, trails.SessionRecord))
    assert repr(memory.tags) == "<Tags>"


def test_a_page_shows_its_rows_with_titles_first_and_digests_last(memory: Repository) -> None:
    say(memory.create(id="plan", label="The plan"), "Plan it")
    shown = repr(memory.summaries()).splitlines()
    assert shown[0] == "<Page: 1 item>"
    assert shown[1].split() == ["name", "id", "turns", "last_activity"]
    assert shown[2].startswith("The plan  plan      1  20")
    say(memory.create(id="trip", meta={"title": "A trip"}), "Go")
    records = repr(memory.list()).splitlines()
    assert records[1].split()[:3] == ["title", "label", "id"]
    assert records[2].split()[:3] == ["A", "trip", "trip"]
    assert records[3].split()[:3] == ["The", "plan", "plan"]
    page = str(memory.search("Plan")).splitlines()
    assert page[1].split()[:3] == ["snippet", "session", "index"]
    assert page[2].startswith("Plan it")
    assert max(map(len, page)) <= 80
    assert str(memory.search("nothing")) == "<Page: 0 items>"
    listed = memory.search("Plan")._repr_html_()
    assert listed.index("Plan it") < listed.index(memory.load("plan")[0].digest[:12])
    assert memory.load("plan")[0].digest not in listed


def test_a_drawn_table_fits_80_columns_and_marks_what_it_cuts() -> None:
    kinds: dict[str, Kind] = {"text": "text", "turns": "integer", "time": "time", "more": "text", "other": "text"}
    row: dict[str, Any] = {"text": "a\x1b\n" * 40, "turns": 12, "time": NOW, "more": "m" * 50, "other": "o" * 50}
    rows: list[dict[str, Any]] = [*[row] * 20, dict.fromkeys(kinds), row]
    lines = draw("<T>", PlainTable(kinds, rows)).splitlines()
    # 80 = 20 to 25 for each of two texts, 5 for the number, 16 for the time and 6 between; the third has no room
    assert lines[1].split() == ["text", "turns", "time", "more"]
    assert len(lines[2]) == 80
    assert lines[2].startswith("a␛ a␛ a␛")
    assert lines[2].count("…") == 2
    assert "     12  2026-05-01 12:00  mmm" in lines[2]
    assert lines[-2:] == ["and 2 more rows", "no room for other"]
    assert len(lines) == 24


def test_a_comparison_prints_its_table(memory: Repository) -> None:
    plan = say(memory.create(id="plan"), "a", "b")
    say(plan.fork(at=1, id="other"), "c")
    lines = str(memory.compare("plan", columns=["session", "turns"])).splitlines()
    assert lines[0].startswith("<Comparison of 'plan': ")
    assert lines[1] == "session  turns"
    assert "other        2" in lines[2:]


def test_a_comparison_of_arms_prints_their_scores_before_all_else(memory: Repository) -> None:
    plan = say(memory.create(id="plan", meta={"arm": "base"}), "a", "b")
    say(plan.fork(at=1, id="other", meta={"arm": "bold"}), "c")
    memory.score("other", "quality", 0.75)
    names = str(memory.compare("plan", group_by="meta.arm")).splitlines()[1].split()
    assert names[:4] == ["group", "meta.arm", "count", "score.quality.mean"]


def test_a_record_and_a_summary_show_the_title_first_and_then_whose_they_are_on_one_line(memory: Repository) -> None:
    plan = say(
        memory.create(id="plan", principal="alice", label="trip", meta={"title": "The\x1b Alps"}), "Plan it", "When?"
    )
    fork = say(plan.fork(at=1, id="f" * 200), "x" * 500)
    say(memory.create(id="bare", principal="bob", label="named"), "Hello")
    assert repr(plan.record) == str(plan.record) == "<SessionRecord plan: The␛ Alps; alice, agent>"
    assert repr(fork.record) == f"<SessionRecord {'f' * 12}…{'f' * 13}: alice, agent; fork of plan at 1>"
    assert repr(memory.load("bare").record) == "<SessionRecord bare: named; bob, agent>"
    day = f"{plan[0].time:%Y-%m-%d}"
    summaries = {each.id: each for each in memory.summaries()}
    assert repr(summaries["plan"]) == str(summaries["plan"]) == f"<SessionSummary plan: The␛ Alps; 2 turns; last {day}>"
    assert repr(summaries["bare"]) == f"<SessionSummary bare: named; 1 turn; last {day}>"
    assert len(repr(summaries["f" * 200])) == 80
    html = plan.record._repr_html_()
    assert html.index("The␛ Alps") < html.index("alice")
    assert fork.record.fork_head is not None
    assert fork.record.fork_head not in fork.record._repr_html_()
    assert fork.record.fork_head[:12] in fork.record._repr_html_()


def test_a_hit_shows_where_it_is_and_what_was_found_on_one_line(memory: Repository) -> None:
    say(memory.create(id="plan"), "Plan a trip\nto the \x1bAlps")
    say(memory.create(id="i" * 200), "Alps " * 40)
    long, short = memory.search("Alps")
    assert repr(short) == str(short) == "<Hit plan@0 user: Plan a trip to the ␛Alps>"
    assert repr(long).startswith(f"<Hit {'i' * 12}…{'i' * 13}@0 user: Alps Alps")
    assert len(repr(long)) == 80


def test_rows_of_a_query_and_scores_are_printed_as_tables_of_80_columns(memory: Repository) -> None:
    say(memory.create(id="plan"), "one", "two")
    memory.score("plan", "tone", "polite", by="bob", reason="It asks.")
    asked = "SELECT ?role ?s ?kind { ?s a trails:Session . ?t a trails:Turn ; trails:role ?role . BIND(prov:Agent AS ?kind) }"
    assert str(memory.select(asked)).splitlines() == [
        "<Solutions ?role ?s ?kind: 2 rows>",
        "role  s                        kind",
        "user  urn:trails:session:plan  prov:Agent",
        "user  urn:trails:session:plan  prov:Agent",
    ]
    many = str(memory.select("SELECT ?s ?p ?o { ?s ?p ?o }")).splitlines()
    assert max(map(len, many)) <= 80
    assert len(many) == 23  # a heading, the names, 20 rows, and how many more there are
    assert many[-1].startswith("and ")
    assert many[-1].endswith(" more rows")
    assert str(memory.select("SELECT ?s { ?s a trails:Nothing }")) == "<Solutions ?s: 0 rows>"
    assert str(memory.scores("plan")).splitlines()[1:] == [
        "name  session  value   end  by   reason    time",
        f"tone  plan     polite    2  bob  It asks.  {memory.scores('plan')[0].time:%Y-%m-%d %H:%M}",
    ]


def test_what_calls_cost_is_printed_by_group(memory: Repository) -> None:
    plan = memory.create(id="plan")
    plan.append("user", "a")
    plan.append("assistant", "b", model="m-1", usage={"input_tokens": 10, "output_tokens": 20, "cost": 0.25})
    plan.persist()
    assert str(memory.stats(by="model")).splitlines() == [
        "<Statistics by model: 1 row, 1 call>",
        "model  calls  input_tokens  output_tokens    cost  unpriced",
        "m-1        1            10             20  0.2500         0",
    ]
