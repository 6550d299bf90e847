"""Branches side by side: what was counted by hand, grouped, sorted, and in every form that researchers take it in."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped] # it ships no types
import pyarrow as pa  # it ships no types
import pyoxigraph as ox
import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.commands import Run, ok
from tests.support.machines import examples
from trails import IndexGap, InvalidInput, Repository, SessionNotFound, TrailsError
from trails.compare.comparison import COLUMNS, Comparison
from trails.model import iris
from trails.model.values import SealedTurn
from trails.rdf import vocab
from trails.rdf.turn_quads import turn_quads
from trails.store.contract import Change

pytestmark = pytest.mark.any_store


def day(number: int) -> datetime:
    return datetime(2026, 3, number, 12, tzinfo=UTC)


def usage(given: int, made: int, cost: float | None = None) -> dict[str, Any]:
    return {"input_tokens": given, "output_tokens": made} | ({} if cost is None else {"cost": cost})


def fill(store: Repository) -> None:
    """prompt (5 turns) <- a (at 3) <- c (at 2, inside what a inherits) and d (at 5, its end); prompt <- b (at 3)."""
    prompt = store.create(id="prompt", label="the prompt", principal="alice", agent="planner", created=day(1))
    prompt.append("user", "Plan a trip")
    call = {"id": "c1", "name": "search", "arguments": {}}
    prompt.append("assistant", "I look.", model="m-1", usage=usage(10, 5, 0.01), tool_calls=[call])
    prompt.append("tool", "found", tool_call_id="c1")
    prompt.append("assistant", "By train.", model="m-1", usage=usage(20, 7))
    prompt.append("user", "Thanks")
    prompt.persist()

    meta = {"temperature": 0.2, "arm": "x", "seed": 1, "good": True, "params": {"k": [1, 2]}}
    a = prompt.fork(at=3, id="a", label="first", principal="bob", meta=meta, created=day(2))
    a.append("assistant", "Answer | A\nin two lines", model="m-2", usage=usage(30, 9, 0.02))
    a.append("user", "Go on")
    a.persist()

    b = prompt.fork(at=3, id="b", meta={"temperature": 1, "arm": "y", "seed": 2, "good": False}, created=day(3))
    calls = [{"id": "c2", "name": "search", "arguments": {}}, {"id": "c3", "name": "sum", "arguments": {}}]
    b.append("assistant", [{"type": "text", "text": "B, "}, "then."], model="m-2")
    b.append("tool", "3", tool_call_id="c3")
    parts = [{"type": "tool_use", "id": "c4", "name": "sum", "input": {"text": "not said"}}]
    b.append("assistant", parts, model="m-1", usage=usage(1, 1), tool_calls=calls)
    b.persist()

    c = a.fork(at=2, id="c", meta={"temperature": 0.2, "arm": "x"}, created=day(4))
    c.append("user", "Never mind")
    c.persist()
    d = a.fork(id="d", created=day(5))
    d.append("assistant", "D", model="m-2", usage=usage(100, 50, 0.5))
    d.persist()

    other = store.create(id="other", created=day(6))
    other.append("assistant", "no branch of it", usage=usage(7, 7))
    other.fork(id="other-fork").persist()
    store.create(id="helper", spawned_by="prompt", created=day(7)).persist()


@pytest.fixture
def filled(store: Repository) -> Repository:
    fill(store)
    return store


@pytest.fixture(scope="module")
def ready() -> Iterator[Repository]:
    """The same in memory, for what only reads."""
    with trails.open(":memory:") as opened:
        fill(opened)
        yield opened


@pytest.fixture(scope="module")
def compared(ready: Repository) -> Comparison:
    return ready.compare("prompt")


def column(found: Comparison, name: str) -> list[Any]:
    return [row[name] for row in found.arranged(columns=["session", name])]


def by_session(found: Comparison, name: str) -> dict[str, Any]:
    return {row["session"]: row[name] for row in found.arranged(columns=["session", name])}


# --- what a row says


def test_a_row_stands_for_the_root_and_for_each_fork_as_in_a_tree(filled: Repository) -> None:
    assert column(filled.compare("prompt"), "session") == ["prompt", "a", "c", "d", "b"]


@pytest.mark.parametrize("root", ["prompt", "the prompt", "urn:trails:session:prompt"])
def test_a_root_is_named_by_id_label_or_iri(compared: Comparison, ready: Repository, root: str) -> None:
    assert ready.compare(root) == compared


EXPECTED: dict[str, list[Any]] = {  # of prompt, a, c, d, b
    "label": ["the prompt", "first", None, None, None],
    "parent": [None, "prompt", "a", "a", "prompt"],
    "fork_index": [None, 3, 2, 5, 3],
    "turns": [5, 5, 3, 6, 6],
    "own_turns": [5, 2, 1, 1, 3],
    "calls": [2, 1, 0, 1, 2],
    "calls_without_usage": [0, 0, 0, 0, 1],  # the first answer of b
    "input_tokens": [30, 30, None, 100, 1],
    "output_tokens": [12, 9, None, 50, 1],
    "tokens": [42, 39, None, 150, 2],
    "cost": [0.01, 0.02, None, 0.5, None],
    # a inherits turn 1 of prompt; c does too, for it leaves a at 2; d also inherits what a owns; b as a
    "total_calls_without_usage": [0, 0, 0, 0, 1],
    "total_input_tokens": [30, 40, 10, 140, 11],
    "total_output_tokens": [12, 14, 5, 64, 6],
    "total_tokens": [42, 54, 15, 204, 17],
    "total_cost": [0.01, 0.03, 0.01, 0.53, 0.01],
    "tool_calls": [1, 0, 0, 0, 3],
    "tools": [{"search": 1}, {}, {}, {}, {"sum": 2, "search": 1}],
    "models": [["m-1"], ["m-2"], [], ["m-2"], ["m-1", "m-2"]],
    "last_answer": ["By train.", "Answer | A\nin two lines", None, "D", "B, \nthen."],
    "principal": ["alice", "bob", "bob", "bob", "alice"],
    "agent": ["planner"] * 5,
    "state": ["active"] * 5,
    "created": [day(1), day(2), day(4), day(5), day(3)],
    "meta.arm": [None, "x", "x", None, "y"],
    "meta.good": [None, True, None, None, False],
    "meta.params": [None, {"k": [1, 2]}, None, None, None],
    "meta.seed": [None, 1, None, None, 2],
    "meta.temperature": [None, 0.2, 0.2, None, 1],
}


def test_the_columns_hold_what_was_counted_by_hand(filled: Repository) -> None:
    found = filled.compare("prompt")
    assert {name: column(found, name) for name in EXPECTED} == EXPECTED
    assert [name.partition("-")[0] for name in column(found, "branch")] == ["main", "fork", "fork", "fork", "fork"]
    assert set(found.columns) == {*EXPECTED, "session", "branch"}


def test_every_column_that_is_always_there_is_tested_here() -> None:
    assert set(COLUMNS) == {name for name in EXPECTED if not name.startswith("meta.")} | {"session", "branch"}


def test_a_fork_can_be_the_root_and_still_counts_what_it_inherits(filled: Repository) -> None:
    found = filled.compare("a")
    assert by_session(found, "total_tokens") == {"a": 54, "c": 15, "d": 204}
    assert by_session(found, "turns") == {"a": 5, "c": 3, "d": 6}


def test_a_session_without_forks_is_a_row_alone(ready: Repository) -> None:
    assert column(ready.compare("d"), "session") == ["d"]
    assert column(ready.compare("helper"), "turns") == [0]


def test_a_detached_fork_is_compared_no_more_and_counts_its_copies_as_its_own(filled: Repository) -> None:
    filled.detach("a")
    assert column(filled.compare("prompt"), "session") == ["prompt", "b"]
    found = filled.compare("a")
    assert by_session(found, "own_turns") == {"a": 5, "c": 1, "d": 1}
    assert by_session(found, "tokens") == {"a": 54, "c": None, "d": 150}
    assert by_session(found, "total_tokens") == {"a": 54, "c": 15, "d": 204}


def test_copies_that_an_unfinished_detach_left_below_the_fork_index_do_not_count(filled: Repository) -> None:
    before = filled.compare("prompt")
    sealed = filled.reader.sealed(filled.load("prompt").turns[:3])
    copies = [SealedTurn(turn=one.turn.model_copy(update={"session_id": "a"}), salt=one.salt) for one in sealed]
    filled.store.commit(Change(add=[quad for copy in copies for quad in turn_quads(copy)]))
    assert filled.compare("prompt") == before


def test_a_picked_turn_counts_in_both_branches_and_its_call_once_in_the_queries(store: Repository) -> None:
    plan = store.create(id="plan")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "By train", model="m-1", usage=usage(10, 1, 1.0))
    plan.persist()
    other = plan.fork(at=1, id="other")
    other.append("assistant", "On foot", model="m-1", usage=usage(5, 1, 0.5))
    other.cherry_pick("plan", 1)
    other.persist()
    rows = [(row["session"], row["input_tokens"], row["cost"]) for row in store.compare("plan").rows]
    assert rows == [("plan", 10, 1.0), ("other", 15, 1.5)]
    spent = store.query("token-usage-by-session").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert {row["session"].removeprefix("urn:trails:session:"): row["input"] for row in spent} == {
        "plan": 10,
        "other": 5,
    }


def test_a_deleted_fork_has_no_row(filled: Repository) -> None:
    filled.delete("d")
    assert column(filled.compare("prompt"), "session") == ["prompt", "a", "c", "b"]


def test_a_redacted_answer_is_not_given_and_no_earlier_one_in_its_place(filled: Repository) -> None:
    filled.redact("prompt", 3)
    assert by_session(filled.compare("prompt"), "last_answer")["prompt"] is None


def test_an_answer_is_found_behind_many_turns_that_only_call_tools(store: Repository) -> None:
    session = store.create(id="s")
    session.append("assistant", "said long ago")
    for number in range(45):
        session.append("assistant", [{"type": "tool_use", "id": f"c{number}", "name": "ls", "input": {}}])
    session.persist()
    assert column(store.compare("s"), "last_answer") == ["said long ago"]


def test_pending_turns_are_not_compared(filled: Repository) -> None:
    loaded = filled.load("b")
    loaded.append("assistant", "not stored yet")
    assert by_session(filled.compare("prompt"), "turns")["b"] == 6
    loaded.discard_pending()


def test_what_a_comparison_gives_cannot_change_it(compared: Comparison) -> None:
    compared.rows[4]["tools"]["search"] = 99
    compared.rows[1]["meta.params"]["k"].append(3)
    assert compared.rows[4]["tools"] == {"sum": 2, "search": 1}
    assert compared.rows[1]["meta.params"] == {"k": [1, 2]}


# --- a fork point


def test_a_fork_point_has_the_branches_that_leave_the_root_there(filled: Repository) -> None:
    assert column(filled.compare("prompt", at=3), "session") == ["a", "b"]
    assert column(filled.compare("prompt", at=2), "session") == ["c"]
    assert column(filled.compare("a", at=5), "session") == ["d"]


@pytest.mark.parametrize(
    ("at", "complaint"),
    [
        (4, r"no branch leaves session 'prompt' at 4; branches leave it at 2 \(1\), 3 \(2\)"),
        (6, "has 5 turns"),
        (-1, "0 or more"),
        (True, "whole number"),
    ],
)
def test_a_fork_point_without_branches_is_refused(
    compared: Comparison, ready: Repository, at: int, complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        ready.compare("prompt", at=at)


# --- what is refused


def test_an_unknown_session_is_an_error(filled: Repository) -> None:
    with pytest.raises(SessionNotFound, match="there is no session, label or tag 'nowhere'"):
        filled.compare("nowhere")
    with pytest.raises(InvalidInput, match="a session is named by its id"):
        filled.compare(None)  # type: ignore[arg-type] # what is refused


@pytest.mark.parametrize("option", ["columns", "group_by", "sort_by"])
def test_an_unknown_column_is_refused_with_the_names_there_are(
    compared: Comparison, ready: Repository, option: str
) -> None:
    with pytest.raises(
        InvalidInput, match=r"no column 'meta\.temp' .* session, label, .* meta\.seed, meta\.temperature"
    ):
        ready.compare("prompt", **{option: ["tokens", "meta.temp"]})  # type: ignore[arg-type] # one of three
    with pytest.raises(InvalidInput, match="at least one column"):
        ready.compare("prompt", **{option: []})  # type: ignore[arg-type] # one of three


@pytest.mark.parametrize("index", [1, 4])
def test_a_missing_turn_is_an_error_that_says_whose(filled: Repository, index: int) -> None:
    node = iris.session("prompt")
    quads = filled.store.quads((None, vocab.INDEX, None, ox.NamedNode(node)))
    gone = [quad for quad in quads if quad.object == ox.Literal(index)]
    filled.store.commit(Change(remove=gone))
    if index == 4:  # the last one: then nothing shows that it is missing, and nobody inherits it
        assert by_session(filled.compare("prompt"), "turns")["prompt"] == 4
        return
    with pytest.raises(IndexGap, match="'prompt' cannot be compared: it owns 4 turns from 0 to 4"):
        filled.compare("a")


def test_a_parent_that_lost_inherited_turns_is_an_error(filled: Repository) -> None:
    graph = ox.NamedNode(iris.session("prompt"))
    quads = filled.store.quads((None, vocab.INDEX, None, graph))
    filled.store.commit(Change(remove=[quad for quad in quads if int(quad.object.value) >= 2]))  # type: ignore[union-attr] # numbers
    with pytest.raises(IndexGap, match="turn 2, which 'prompt' owns, is missing"):
        filled.compare("prompt")


# --- sorted and grouped


def test_rows_are_sorted_with_missing_values_last_either_way(compared: Comparison) -> None:
    assert column(compared.arranged(sort_by="tokens"), "session") == ["b", "a", "prompt", "d", "c"]
    assert column(compared.arranged(sort_by="tokens", descending=True), "session") == ["d", "prompt", "a", "b", "c"]


def test_rows_with_equal_values_keep_the_order_of_the_next_column_and_then_of_the_tree(compared: Comparison) -> None:
    assert column(compared.arranged(sort_by=["meta.temperature", "turns"]), "session") == ["c", "a", "b", "prompt", "d"]
    assert column(compared.arranged(sort_by="agent", descending=True), "session") == ["prompt", "a", "c", "d", "b"]


def test_rows_are_sorted_by_columns_of_any_kind(compared: Comparison) -> None:
    for name in compared.columns:
        assert sorted(column(compared.arranged(sort_by=name), "session")) == ["a", "b", "c", "d", "prompt"]


def test_groups_have_their_values_in_common_and_stand_in_their_order(compared: Comparison) -> None:
    found = compared.arranged(group_by="meta.arm", sort_by="tokens")
    assert [(dict(group.key), [row["session"] for row in group.rows]) for group in found.groups] == [
        ({"meta.arm": None}, ["prompt"]),
        ({"meta.arm": "x"}, ["a", "c"]),
        ({"meta.arm": "y"}, ["b"]),
        ({"meta.arm": None}, ["d"]),
    ]
    assert [group.name for group in found.groups] == ["(root)", "x", "y", "(missing)"]
    assert column(found, "session") == ["prompt", "a", "c", "b", "d"]


def test_groups_carry_the_statistics_of_the_numbers_there_are(compared: Comparison) -> None:
    forks = compared.arranged(group_by="state").groups[1]  # a, c, d and b; c has no tokens
    assert forks.aggregates["tokens"].to_dict() == {
        "n": 3, "missing": 1, "mean": pytest.approx(191 / 3), "sd": pytest.approx(77.02164, abs=1e-4), "median": 39,
        "ci_low": 2.0, "ci_high": 150.0, "min": 2, "max": 150, "sum": 191,
    }  # fmt: skip
    x = compared.arranged(group_by="meta.arm").groups[1]  # a, and c without tokens
    assert x.aggregates["tokens"].to_dict() == {
        "n": 1, "missing": 1, "mean": 39.0, "sd": None, "median": 39,
        "ci_low": None, "ci_high": None, "min": 39, "max": 39, "sum": 39,
    }  # fmt: skip
    assert "meta.temperature" not in compared.arranged(group_by="meta.arm").groups[3].aggregates  # of d, which has none
    assert "fork_index" not in x.aggregates
    assert "last_answer" not in x.aggregates


def test_a_whole_number_and_its_float_are_one_group_and_true_is_another(store: Repository) -> None:
    root = store.create(id="r")
    for number, value in enumerate([1, 1.0, True, "1", 0.5]):
        root.fork(id=f"f{number}", meta={"v": value}, created=day(number + 1)).persist()
    found = store.compare("r", at=0, group_by="meta.v")
    assert [[row["session"] for row in group.rows] for group in found.groups] == [["f2"], ["f4"], ["f0", "f1"], ["f3"]]


def test_numbers_that_no_float_can_hold_are_kept_whole_and_not_reckoned_with(memory: Repository) -> None:
    root = memory.create(id="r")
    for number, value in enumerate([10**400, -(10**400), 2.5]):
        root.fork(id=f"f{number}", meta={"v": value, "w": 10**30 + number}, created=day(number + 1)).persist()
    found = memory.compare("r", at=0, group_by="state", sort_by="meta.v")
    assert column(found, "meta.v") == [-(10**400), 2.5, 10**400]
    assert "meta.v" not in found.groups[0].aggregates
    assert found.groups[0].aggregates["meta.w"].sum == 3 * 10**30 + 3
    assert found.groups[0].aggregates["meta.w"].max == 10**30 + 2
    assert found.to_pandas()["meta.v"].tolist() == [-(10**400), 2.5, 10**400]
    assert found.to_arrow()["meta.v"].to_pylist() == [f"-1{'0' * 400}", "2.5", f"1{'0' * 400}"]
    assert [each.count(str(10**400)) for each in (found.to_csv(), found.to_markdown(), found.to_json())] == [2, 2, 2]


def test_groups_of_several_columns(compared: Comparison) -> None:
    found = compared.arranged(group_by=["principal", "models"])
    keys = [tuple(group.key.values()) for group in found.groups]
    assert keys == [("alice", ("m-1",)), ("alice", ("m-1", "m-2")), ("bob", ()), ("bob", ("m-2",))]
    assert [len(group) for group in found.groups] == [1, 1, 1, 2]
    assert [group.name for group in found.groups] == ["(root)", "alice, m-1; m-2", "bob, (missing)", "bob, m-2"]


# --- the forms


def test_json_holds_the_rows_and_the_groups(compared: Comparison) -> None:
    found = compared.arranged(columns=["session", "tokens", "tools", "created"], group_by="meta.arm")
    plain = json.loads(found.to_json())
    assert (plain["root"], plain["at"], plain["columns"]) == ("prompt", None, ["session", "tokens", "tools", "created"])
    assert plain["rows"][3] == {
        "session": "b",
        "tokens": 2,
        "tools": {"sum": 2, "search": 1},
        "created": "2026-03-03T12:00:00+00:00",
    }
    assert (plain["groups"][2]["name"], plain["groups"][2]["key"]) == ("y", {"meta.arm": "y"})
    assert plain["groups"][2]["sessions"] == ["b"]
    assert plain["groups"][2]["aggregates"]["tokens"]["sum"] == 2


def test_csv_gives_every_cell_back(compared: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(compared.to_csv(), newline="")))
    assert [row["session"] for row in rows] == ["prompt", "a", "c", "d", "b"]
    assert rows[1]["last_answer"] == "Answer | A\nin two lines"
    assert [row["tokens"] for row in rows] == ["42", "39", "", "150", "2"]
    assert (rows[4]["tools"], rows[4]["models"]) == ("sum=2; search=1", "m-1; m-2")
    assert (rows[1]["meta.good"], rows[1]["meta.params"]) == ("true", '{"k": [1, 2]}')
    assert rows[1]["created"] == "2026-03-02T12:00:00+00:00"


def test_csv_of_groups_has_a_row_a_group(compared: Comparison) -> None:
    found = compared.arranged(columns=["session", "tokens", "meta.seed"], group_by="meta.arm")
    assert found.to_csv(groups=True, figures=["n", "missing", "mean", "sum"]).split("\r\n") == [
        "group,meta.arm,count,tokens.n,tokens.missing,tokens.mean,tokens.sum",
        "(root),,1,1,0,42.0,42",
        "x,x,2,1,1,39.0,39",
        "y,y,1,1,0,2.0,2",
        "(missing),,1,1,0,150.0,150",
        "",
    ]
    assert found.table(groups=True).kinds["tokens.sd"] == "number"
    assert len(found.table(groups=True).kinds) == 3 + 10  # all figures of tokens; a seed is no amount


def test_markdown_shows_text_as_it_is(memory: Repository) -> None:
    session = memory.create(id="s")
    session.append("assistant", "a | b\n<b>*bold*</b> _x_ snake_case & `code` [l](u) \\")
    session.persist()
    found = memory.compare("s", columns=["session", "tokens", "last_answer"])
    assert found.to_markdown() == (
        "| session | tokens | last_answer |\n"
        "| --- | ---: | --- |\n"
        "| s |  | a \\| b<br>&lt;b&gt;\\*bold\\*&lt;/b&gt; \\_x\\_ snake_case &amp; \\`code\\` \\[l\\](u) \\\\ |\n"
    )


def test_groups_are_refused_where_nothing_is_grouped(compared: Comparison) -> None:
    with pytest.raises(InvalidInput, match="no groups"):
        compared.to_csv(groups=True)


def test_a_data_frame_has_typed_columns(compared: Comparison) -> None:
    frame = compared.to_pandas()
    assert list(frame.columns) == list(compared.columns)
    assert frame["turns"].dtype == "int64"
    assert frame["tokens"].dtype == "Int64"
    assert frame["tokens"].isna().tolist() == [False, False, True, False, False]
    assert frame["cost"].dtype == "float64"
    assert frame["meta.good"].dtype == "boolean"
    assert frame["meta.temperature"].dtype == "float64"
    assert str(frame["created"].dtype) == "datetime64[us, UTC]"
    assert frame["created"][0] == pd.Timestamp("2026-03-01T12:00Z")
    assert frame["tools"][4] == {"sum": 2, "search": 1}
    assert frame["models"][4] == ["m-1", "m-2"]
    assert frame.groupby("meta.arm")["turns"].mean().to_dict() == {"x": 4.0, "y": 6.0}
    assert frame["label"].isna().tolist() == [False, False, True, True, True]


def test_a_data_frame_of_groups_has_a_row_a_group(compared: Comparison) -> None:
    found = compared.arranged(columns="tokens", group_by="principal")
    frame = found.to_pandas(groups=True, figures=["mean", "max"])
    assert frame.to_dict("records") == [
        {"group": "(root)", "principal": "alice", "count": 1, "tokens.mean": 42.0, "tokens.max": 42},
        {"group": "alice", "principal": "alice", "count": 1, "tokens.mean": 2.0, "tokens.max": 2},
        {"group": "bob", "principal": "bob", "count": 3, "tokens.mean": 94.5, "tokens.max": 150},
    ]


def test_an_arrow_table_has_typed_columns(compared: Comparison) -> None:
    table = compared.to_arrow()
    kinds = {field.name: field.type for field in table.schema}
    assert kinds["tokens"] == pa.int64()
    assert kinds["cost"] == pa.float64()
    assert kinds["tools"] == pa.map_(pa.string(), pa.int64())
    assert kinds["models"] == pa.list_(pa.string())
    assert kinds["created"] == pa.timestamp("us", tz="UTC")
    assert kinds["meta.good"] == pa.bool_()
    assert table["tokens"].to_pylist() == [42, 39, None, 150, 2]
    assert table["tools"].to_pylist()[4] == [("sum", 2), ("search", 1)]
    assert table["models"].to_pylist()[4] == ["m-1", "m-2"]
    assert table["meta.params"].to_pylist() == [None, '{"k": [1, 2]}', None, None, None]
    assert table["meta.temperature"].to_pylist() == [None, 0.2, 0.2, None, 1.0]


def test_metadata_of_mixed_types_and_numbers_over_64_bits_come_out_whole(store: Repository) -> None:
    root = store.create(id="r")
    metas: list[dict[str, Any]] = [{"mixed": 1, "big": 2**70}, {"mixed": "one", "big": 1}, {"mixed": None}]
    for number, meta in enumerate(metas):
        root.fork(meta=meta, created=day(number + 1)).persist()
    found = store.compare("r", at=0, columns=["meta.mixed", "meta.big"])
    assert found.to_arrow().to_pydict() == {"meta.mixed": ["1", '"one"', None], "meta.big": [str(2**70), "1", None]}
    assert found.to_pandas()["meta.mixed"].tolist() == [1, "one", None]
    assert found.to_pandas()["meta.big"].tolist() == [2**70, 1, None]
    ids = [row["session"] for row in found.showing("session")]
    assert found.to_csv().split("\r\n") == [
        "session,meta.mixed,meta.big", f"{ids[0]},1,{2**70}", f'{ids[1]},"""one""",1', f"{ids[2]},,", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("package", "extra", "use"),
    [
        ("pandas", "pandas", Comparison.to_pandas),
        ("pyarrow", "arrow", Comparison.to_arrow),
        ("matplotlib", "plot", lambda found: found.plot("never.svg")),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(
    compared: Comparison, monkeypatch: pytest.MonkeyPatch, package: str, extra: str, use: Callable[[Comparison], Any]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(TrailsError, match=rf"`{package}`: pip install 'trails\[{extra}\]'"):
        use(compared)


# --- metadata as facts


def asked(store: Repository, pattern: str) -> list[str]:
    rows: Any = store.query(f"SELECT ?s {{ ?s a trails:Session . {pattern} }} ORDER BY ?s")
    return [iris.session_id(row["s"].value) for row in rows]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("?s <urn:trails:meta:temperature> ?t FILTER(?t > 0.5)", ["b"]),
        ("?s <urn:trails:meta:temperature> ?t FILTER(?t <= 0.2)", ["a", "c"]),
        ("?s <urn:trails:meta:temperature> ?t FILTER(?t = 1)", ["b"]),
        ("?s <urn:trails:meta:temperature> ?t ; <urn:trails:meta:seed> ?n FILTER(?t + ?n < 2)", ["a"]),
        ("?s <urn:trails:meta:good> true", ["a"]),
        ("?s <urn:trails:meta:arm> 'x'", ["a", "c"]),
        ("?s <urn:trails:meta:params> ?p FILTER(DATATYPE(?p) = rdf:JSON)", ["a"]),
    ],
)
def test_metadata_is_asked_for_by_its_type(ready: Repository, pattern: str, expected: list[str]) -> None:
    assert asked(ready, pattern) == expected


def test_sparql_reckons_with_numbers_in_metadata(filled: Repository) -> None:
    rows: Any = filled.query(
        "SELECT ?arm (AVG(?t) AS ?mean) { ?s <urn:trails:meta:arm> ?arm ; <urn:trails:meta:temperature> ?t } "
        "GROUP BY ?arm ORDER BY ?arm"
    )
    assert rows.to_dicts() == [{"arm": "x", "mean": 0.2}, {"arm": "y", "mean": 1.0}]


@given(
    value=st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=9))
)
@examples(25)
def test_metadata_comes_back_with_its_type(value: object) -> None:
    with trails.open(":memory:") as store:
        try:
            store.create(id="r", meta={"v": value}).persist()
        except InvalidInput:
            assert isinstance(value, str)  # a lone surrogate
            return
        (found,) = column(store.compare("r"), "meta.v")
        assert (found, type(found)) == (value, type(value))


# --- any forest


@st.composite
def forests(draw: st.DrawFn) -> list[tuple[int, int, list[int]]]:
    """Forks as (which session before it, fork index in thousandths of its length, tokens of its turns; 0 for a user's)."""
    return [
        (draw(st.integers(0, number)), draw(st.integers(0, 1000)), draw(st.lists(st.integers(0, 99), max_size=4)))
        for number in range(draw(st.integers(1, 7)))
    ]


@given(shape=forests())
@examples(25)
def test_a_row_agrees_with_the_transcript_that_load_gives(shape: list[tuple[int, int, list[int]]]) -> None:
    with trails.open(":memory:") as store:
        sessions = [store.create(id="r")]
        for number, (above, place, tokens) in enumerate([(0, 0, [0, 5, 0, 7]), *shape]):
            parent = sessions[above]
            made = parent if number == 0 else parent.fork(at=len(parent) * place // 1000, id=f"f{number}")
            for count in tokens:
                made.append(
                    "assistant" if count else "user", f"t{count}", usage={"input_tokens": count} if count else None
                )
            made.persist()
            sessions += [made] if number else []
        rows = {row["session"]: row for row in store.compare("r")}
        assert set(rows) == {session.id for session in sessions}
        for session_id, row in rows.items():
            turns = store.load(session_id).turns
            own = [turn for turn in turns if turn.session_id == session_id]
            assert (row["turns"], row["own_turns"]) == (len(turns), len(own))
            assert row["total_input_tokens"] == (sum(t.usage.get("input_tokens", 0) for t in turns) or None)
            assert row["input_tokens"] == (sum(t.usage.get("input_tokens", 0) for t in own) or None)
            assert row["last_answer"] == next((t.content for t in own[::-1] if t.role == "assistant"), None)


# --- the command


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("compare") / "store.trails"
    with trails.open(made, create=True, durability="process") as store:
        fill(store)
    return made


@pytest.fixture
def run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`trails compare ...` on that store, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return partial(run, "compare")


def lines(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in ok(result).splitlines()]


def test_the_command_prints_a_line_a_branch(run: Run) -> None:
    printed = lines(run("the prompt"))
    assert printed[0].startswith("name at turns own tokens cost tools models meta.arm")
    assert [line.split()[0] for line in printed[1:]] == ["the", "first", "c", "d", "b"]
    assert "Answer | A in two lines" in printed[2]
    assert "5 branches" in run("prompt").stderr


def test_the_command_groups_and_sorts(run: Run) -> None:
    printed = lines(run("prompt", "--group-by", "meta.arm", "--sort-by", "tokens", "--columns", "session, tokens"))
    assert [line for line in printed if line and "─" not in line] == [
        "(root): 1 branch", "session tokens", "prompt 42",
        "meta.arm = x: 2 branches", "session tokens", "a 39", "c",
        "n 1 (1 missing)", "mean 39", "sd", "median 39", "95% of mean", "min 39", "max 39", "sum 39",
        "meta.arm = y: 1 branch", "session tokens", "b 2",
        "meta.arm = (missing): 1 branch", "session tokens", "d 150",
    ]  # fmt: skip
    printed = lines(run("prompt", "--group-by", "meta.arm", "--groups-only", "--columns", "tokens"))
    assert [line for line in printed if "─" not in line] == [
        "branches meta.arm tokens",
        "1 (root) 42",
        "2 x 39 of 1",
        "1 y 2",
        "1 150",
    ]
    printed = lines(run("prompt", "--group-by", "principal", "--groups-only", "--columns", "tokens"))
    assert printed[-1] == "3 bob 94.5 ± 78.49 (39 to 150) of 2"


def test_the_command_leaves_out_what_a_narrow_terminal_has_no_room_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    result = run("prompt")
    assert all(len(line) <= 60 for line in result.stdout.splitlines())
    assert "no room for meta.params, models, tools" in result.stderr  # one branch alone has params
    assert "the prompt" in result.stdout


def test_the_command_gives_json_csv_and_markdown(run: Run, compared: Comparison) -> None:
    drawn_by_lot = {"branch"}
    columns = ",".join(name for name in compared.columns if name not in drawn_by_lot)
    expected = compared.arranged(columns=columns.split(","))
    printed = json.loads(run("prompt", "--json", "--columns", columns).stdout)
    assert printed.pop("as_of").startswith("19-")  # the log of each store has salts of its own
    assert printed == {name: value for name, value in expected.to_dict().items() if name != "as_of"}
    assert run("prompt", "--format", "csv", "--columns", columns).stdout_bytes.decode() == expected.to_csv()
    assert run("prompt", "--format", "markdown", "--columns", columns).stdout == expected.to_markdown()


def test_groups_fit_a_terminal_of_eighty_columns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with trails.open("wide.trails", create=True) as store:
        root = store.create(id=f"claude-code:{'0a1b2c3d' * 4}", label="wide")
        root.append("user", "Plan a trip")
        root.persist()
        for number in range(6):
            fork = root.fork(
                meta={"arm": "xy"[number % 2] * 9, "heat": number / 7, "model": "a-model-with-a-long-name"}
            )
            fork.append("assistant", "Take the train. " * 9, usage={"input_tokens": 10**number, "output_tokens": 7})
            fork.persist()
            store.score(fork, "accuracy", number / 3, by="bob")
    monkeypatch.setenv("COLUMNS", "80")
    for options in ((), ("--groups-only",), ("--groups-only", "--columns", "tokens,score.accuracy,total_tokens")):
        printed = ok(run("wide", "--store", "wide.trails", "--group-by", "meta.arm", *options))
        assert max(map(len, printed.splitlines())) <= 80
        assert "tokens" in printed
        assert "score.accuracy" in printed
    assert "…" in ok(
        run("wide", "--store", "wide.trails", "--group-by", "meta.arm")
    )  # ids are cut, and end as they end


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["prompt", "--caption", "Two arms"], "give --format latex"),
        (["prompt", "--sort-by", "nope"], "no column 'nope'"),
        (["prompt", "--at", "4"], "no branch leaves"),
        (["prompt", "--color-by", "tokens"], "give --plot FILE"),
        (["prompt", "--groups-only"], "--group-by NAMES"),
        (["prompt", "--plot", "forest.eps"], "let it end in .svg, .pdf or .png"),
        (["prompt", "--plot", "forest.svg", "--color-by", "nope"], "no column 'nope'"),
    ],
)
def test_wrong_usage_is_one_line_and_writes_nothing(
    run: Run, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stdout == ""
    assert not list(tmp_path.glob("forest.*"))


def test_the_command_draws_and_does_not_replace_a_file_unless_forced(run: Run, tmp_path: Path) -> None:
    assert run("prompt", "--plot", "forest.svg", "--color-by", "meta.arm").stdout == ""
    assert (tmp_path / "forest.svg").read_text("utf-8").startswith("<?xml")
    assert "is there already" in run("prompt", "--plot", "forest.svg").stderr
    assert json.loads(run("prompt", "--plot", "forest.svg", "--force", "--json").stdout)["root"] == "prompt"
