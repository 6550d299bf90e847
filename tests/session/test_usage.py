"""Token counts and costs can be added up; what an imported transcript tells otherwise is kept, and not counted."""

from __future__ import annotations

from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import InvalidInput, Repository
from trails.compare import diff
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
