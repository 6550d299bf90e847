"""Token counts and costs can be added up; what an imported transcript tells otherwise is kept, and not counted."""

from __future__ import annotations

import io
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import InvalidInput, Repository
from trails.compare import diff
from trails.exchange.file_import import export_session
from trails.history import turn_builder
from trails.model import iris
from trails.rdf import query_files, vocab
from trails.store.contract import Change

ABSURD: tuple[dict[str, Any], ...] = (
    {"input_tokens": 10**400},
    {"input_tokens": 10**5000},
    {"input_tokens": 10**12 + 1},
    {"output_tokens": -1},
    {"input_tokens": "3"},
    {"input_tokens": True},
    {"input_tokens": 2.5},
    {"prompt_tokens": {"y": 1}},
    {"cache_read_input_tokens": "none"},
    {"total_tokens": [1]},
    {"cost": 1e308},
    {"cost": -0.5},
    {"cost": "0.01"},
    {"cost": True},
    {"cost": {"total": "0.01"}},
)


@pytest.mark.parametrize("usage", ABSURD, ids=range(len(ABSURD)))
def test_a_usage_that_could_not_be_added_up_is_refused_before_the_turn_is_there(
    memory: Repository, usage: dict[str, Any]
) -> None:
    session = memory.create(id="s")
    with pytest.raises(InvalidInput, match=rf"usage has .* for '{next(iter(usage))}'; give .* to 1,000,000,000,000"):
        session.append("assistant", "a", usage=usage)
    assert len(session) == 0


def test_a_usage_may_leave_counts_out_and_tell_more_than_counts(memory: Repository) -> None:
    session = memory.create(id="s")
    usage = {
        "input_tokens": 10**12,
        "cache_read_input_tokens": None,
        "cost": {"input": 0.5, "total": 1},
        "service_tier": "standard",
        "server_tool_use": {"web_search_requests": 0},
    }
    assert session.append("assistant", "a", usage=usage).usage == usage


def test_a_summary_and_the_counters_of_a_key_take_no_such_usage_either(memory: Repository) -> None:
    from trails.context import Summary

    session = memory.create(id="s")
    for text in ("a", "b", "c"):
        session.append("user", text)
    with pytest.raises(InvalidInput, match="usage has '3' for 'input_tokens'"):
        session.compact(lambda _: Summary("so far", usage={"input_tokens": "3"}), keep_turns=1)
    router = trails.Router(memory)
    router.session("main")
    with pytest.raises(InvalidInput, match="usage has '3' for 'input_tokens'"):
        router.count("main", {"input_tokens": "3"})


def imported(store: Repository, *usages: dict[str, Any]) -> None:
    """A session whose turns have usages as an importer hands them on."""
    session = store.create(id="s")
    session.append("user", "a")
    for usage in usages:
        session.worktree.append(turn_builder.make_draft("assistant", "b", model="m", usage=usage))
    session.persist()


def test_what_an_imported_transcript_tells_is_kept_and_left_out_of_the_totals(store: Repository) -> None:
    told: list[dict[str, Any]] = [
        {"input_tokens": 10**30, "output_tokens": 2, "cost": 0.5},
        {"input_tokens": True, "prompt_tokens": 7, "cost": 1e308},
        {"output_tokens": "3"},
    ]
    imported(store, *told)
    assert [turn.usage for turn in store.load("s").turns[1:]] == told
    row = {
        "model": "m",
        "calls": 3,
        "calls_without_usage": 1,  # the last: its count is no number
        "unpriced": 2,
        "input": 7,
        "output": 2,
        "cache_read": None,
        "cache_write": None,
        "cost": Decimal("0.5"),
    }
    assert store.query("token-usage-by-model").to_dicts() == [row]  # type: ignore[union-attr] # a SELECT
    (priced,) = store.query("cost").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert (priced["calls"], priced["unpriced"], priced["cost"]) == (3, 2, Decimal("0.5"))
    (compared,) = store.compare("s", columns=["input_tokens", "output_tokens", "cost"])
    assert dict(compared) == {"input_tokens": 7, "output_tokens": 2, "cost": 0.5}
    assert store.verify().ok


def test_a_cost_of_many_digits_does_not_take_the_total_away(store: Repository) -> None:
    imported(store, {"cost": 3e-7 / 7}, {"cost": 1e-30}, {"cost": 0.25})
    (row,) = store.query("token-usage-by-model").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert row["cost"] == Decimal("0.250000042857142857")  # 3e-7 / 7 is 4.2857142857142857...e-8


def test_counts_that_an_older_version_stored_end_no_comparison(store: Repository, tmp_path: Path) -> None:
    imported(store, {"input_tokens": 5, "cost": 0.5})
    (call,) = store.store.quads((None, vocab.INPUT_TOKENS, None, NamedNode(iris.session("s"))))
    huge = Quad(call.subject, call.predicate, Literal("1" + "0" * 400, datatype=vocab.INTEGER), call.graph_name)
    store.store.commit(Change(remove=(call,), add=(huge,)))
    found = store.compare("s", group_by="branch", columns=["tokens", "cost"])
    assert [(row["tokens"], row["cost"]) for row in found] == [(None, 0.5)]
    pytest.importorskip("matplotlib")
    found.plot(tmp_path / "forest.svg", color_by="tokens")


def test_metadata_as_great_as_floats_are_have_a_mean_and_no_colour(memory: Repository, tmp_path: Path) -> None:
    root = memory.create(id="root")
    root.append("user", "a")
    for heat in (1.7e308, 1.7e308, 10**308):
        root.fork(meta={"heat": heat}).persist()
    found = memory.compare("root", at=1, group_by="branch", columns=["meta.heat"])
    assert max(group.aggregates["meta.heat"].mean for group in found.groups) == 1.7e308
    whole = memory.compare("root", at=1, group_by="own_turns", columns=["meta.heat"])
    assert whole.groups[0].aggregates["meta.heat"].mean == pytest.approx(1.4666666666666667e308)
    pytest.importorskip("matplotlib")
    with pytest.raises(InvalidInput, match="colours have no scale for numbers beyond 1e"):
        found.plot(tmp_path / "forest.svg", color_by="meta.heat")


def test_costs_are_added_up_exactly_whatever_a_program_has_set_for_its_own_sums(store: Repository) -> None:
    with localcontext(prec=3):
        with store.session("s") as chat:
            for cost in (123.456, 0.001, 1_000_000_000_000, 0.1, 0.2):
                chat.append("assistant", "Hi", model="m", usage={"cost": cost})
        store.summaries()  # has figures made, which answer the query
        (named,) = store.select("token-usage-by-model").to_dicts()
        (plain,) = store.select(query_files.find("token-usage-by-model").bind()).to_dicts()
        found = diff([], store.load("s").turns)
    assert named == plain
    assert (named["cost"], found.right.counts.cost) == (Decimal("1000000000123.757"),) * 2


def test_a_source_that_nobody_knows_is_refused_and_one_that_is_known_is_counted_by(memory: Repository) -> None:
    session = memory.create(id="s")
    usage = {"input_tokens": 1000, "cache_read_input_tokens": 900, "output_tokens": 5}
    with pytest.raises(InvalidInput, match=r"usage names the source 'otle'; name one of openai-chat, "):
        session.append("assistant", "a", usage=usage | {"source": "otle"})
    turn = session.append("assistant", "a", usage=usage | {"source": "otel"})
    assert turn.facts.model_call is not None
    assert turn.facts.model_call.counts == (100, 900, None, None, 5, None)


def tell(store: Repository) -> None:
    """Three sessions: of four calls one tells no usage, one tells 0 tokens; of two calls none tells any; one tells 0."""
    usages: dict[str, list[dict[str, Any] | None]] = {
        "some": [{"input_tokens": 3, "output_tokens": 2, "cost": 0.5}, {"output_tokens": 4}, None, {"input_tokens": 0}],
        "none": [None, {"service_tier": "standard"}],
        "nil": [{"input_tokens": 0, "output_tokens": 0, "cost": 0}],
    }
    for name, told in usages.items():
        session = store.create(id=name)
        session.append("user", "Hello")
        for usage in told:
            session.append("assistant", "Yes", model=f"m-{name}", usage=usage)
        session.persist()


TOLD: dict[str, tuple[Any, ...]] = {  # calls, those without usage, those without a cost, input, output, cost
    "some": (4, 1, 3, 3, 6, 0.5),
    "none": (2, 2, 2, None, None, None),
    "nil": (1, 0, 0, 0, 0, 0),
}


def test_unknown_usage_is_unknown_in_every_sum_and_each_says_how_many_calls_told_none(store: Repository) -> None:
    tell(store)
    sums = ["calls", "calls_without_usage", "unpriced", "input", "output", "cost"]
    for row in store.select("token-usage-by-session").to_dicts():
        assert tuple(row[name] for name in sums) == TOLD[iris.session_id(row["session"])]
    for row in store.select("token-usage-by-model").to_dicts():
        assert tuple(row[name] for name in sums) == TOLD[row["model"][2:]]
    for row in store.select("model-time").to_dicts():
        assert tuple(row[name] for name in sums) == TOLD[row["model"][2:]]
        assert (row["timed"], row["seconds"]) == (0, None)
    for row in store.select("cost").to_dicts():
        assert (row["calls"], row["unpriced"], row["cost"]) == tuple(TOLD[row["model"][2:]][at] for at in (0, 2, 5))
    stats = store.stats(by="model")
    for line in stats:
        sums_of = (
            line.calls,
            line.calls_without_usage,
            line.unpriced,
            line.input_tokens,
            line.output_tokens,
            line.cost,
        )
        assert sums_of == TOLD[str(line.group)[2:]]
    assert (stats.total.calls, stats.total.calls_without_usage) == (7, 3)
    assert store.cost(by="session").total.calls_without_usage == 3


def test_unknown_usage_is_unknown_in_lists_comparisons_and_pages(memory: Repository) -> None:
    tell(memory)
    for each in memory.summaries():
        known = (each.calls, each.calls_without_usage, each.input_tokens, each.output_tokens, each.cost)
        assert known == tuple(TOLD[each.id][at] for at in (0, 1, 3, 4, 5))
    for name, counts in TOLD.items():
        columns = ["calls", "calls_without_usage", "total_calls_without_usage", "input_tokens", "output_tokens", "cost"]
        (row,) = memory.compare(name, columns=columns)
        assert tuple(row.values()) == tuple(counts[at] for at in (0, 1, 1, 3, 4, 5))
    tail = memory.diff("some", "none").left.counts
    assert (tail.calls, tail.calls_without_usage, tail.input_tokens) == (4, 1, 3)
    shown = {
        "some": ">3 in, 6 out (1 call without usage)<",
        "none": ">unknown (2 calls without usage)<",
        "nil": ">0 in, 0 out<",
    }
    for name, tokens in shown.items():
        page = io.BytesIO()
        export_session(memory, name, "html", page)
        assert tokens in page.getvalue().decode()
