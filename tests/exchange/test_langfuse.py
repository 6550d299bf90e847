"""Langfuse's traces and rows: a session or a trace is a session, in whatever shape the frameworks wrote their messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trails import Repository
from trails.exchange.file_import import import_bytes, import_path
from trails.exchange.source_transcript import Transcript
from trails.exchange.traces import langfuse

TRACES = {
    "autogen-2025-06-06": ["user", "assistant"],
    "claude-agent-2025-12-22": ["user", "assistant", "assistant", "assistant", "tool", "tool", "assistant"],
    "openai-agents-2025-09-30": ["user", "assistant", "tool", "assistant"],
    "langgraph-python-2025-08-22": ["user", "user", "assistant", "tool", "assistant"],
}
"""The roles of each trace's turns, counted in its generations' inputs and outputs."""


def row(identity: str, kind: str, given: Any = None, said: Any = None, **more: Any) -> dict[str, Any]:
    """Return an observation as the export writes it; its id is the second at which it starts."""
    texts = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in (("input", given), ("output", said))
    }
    made = {"id": identity, "trace_id": "t", "project_id": "p", "type": kind}
    return made | {"start_time": f"2026-01-02 03:04:{int(identity):02}.000000"} | texts | more


def parsed(*rows: Any) -> Transcript:
    return langfuse.parse([("rows.jsonl", "\n".join(map(json.dumps, rows)).encode())])


def texts(found: Transcript) -> list[list[Any]]:
    return [[turn.content for turn in path] for session in found.sessions for path in session.paths]


# --- real traces


@pytest.mark.parametrize("name", TRACES)
def test_a_real_trace_has_the_observations_roles_and_tokens_that_were_counted(shared: Path, name: str) -> None:
    key = f"langfuse/{name}.trace.json"
    counted = json.loads((shared / "data/research/data_research_expectations.json").read_text())[key]
    data = (shared / "data/research" / key).read_bytes()
    assert langfuse.sniff(data[: 1 << 16])
    found = langfuse.parse([(key, data)])
    assert not found.problems
    [session] = found.sessions
    assert session.id == (counted["session_id"] or counted["trace_ids"][0])
    assert session.meta["traces"] == counted["trace_ids"]
    assert [turn.role for turn in session.paths[0]] == TRACES[name]
    kinds = {f"observation/{kind}": number for kind, number in counted["types"].items()}
    assert {kind: number for kind, number in found.records.items() if kind != "score"} == kinds
    assert found.records.get("score", 0) == len(counted["scores"])
    usages = [turn.usage for turn in session.paths[0] if turn.usage]
    sums = {key: sum(usage[key] for usage in usages) for key in ("input", "output", "total")}
    assert sums == counted["usage_of_generations"]
    assert {turn.model for turn in session.paths[0] if turn.model} == set(counted["models"])


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_as_the_api_returns_it_says_what_its_download_says(memory: Repository, shared: Path, name: str) -> None:
    data = (shared / "data/research/langfuse" / f"{name}.trace.json").read_bytes()
    download = json.loads(data)
    messages = {"messages": [{"role": "user", "content": "Hi"}]}
    whole = {**download["trace"], "input": messages, "observations": download["observations"]}
    answer = json.dumps(whole).encode()
    assert texts(langfuse.parse([("", answer)])) == texts(langfuse.parse([("", data)]))
    [made] = import_bytes(memory, answer).sessions_created
    assert made.startswith("langfuse:")


def test_rows_of_an_export_say_the_same_as_the_traces(store: Repository, shared: Path) -> None:
    folder = shared / "data/research/langfuse"
    report = import_path(store, folder / "observations_v2.jsonl")
    lengths = {each: len(store.load(each)) for each in report.sessions_created}
    assert sorted(lengths.values()) == sorted(map(len, TRACES.values()))
    assert (report.turns_added, report.problems) == (18, [])
    again = import_path(store, folder / "observations_v2.jsonl")
    assert (again.turns_added, again.sessions_created) == (0, [])


def test_scores_stand_on_the_session_of_their_trace(memory: Repository, shared: Path, tmp_path: Path) -> None:
    folder = shared / "data/research/langfuse"
    for name in ("observations_v2.jsonl", "scores.jsonl"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    report = import_path(memory, tmp_path)
    assert (report.scores_added, import_path(memory, tmp_path).scores_added) == (7, 0)
    found = memory.scores("langfuse:097f1d8982fa909b8cffb14a166ec272")
    assert {score.name: score.value for score in found} == {"correctness": 0, "hallucination": 1, "toxicity": 0}
    assert {score.by for score in found} == {"eval"}


def test_a_score_of_an_observation_is_of_the_turn_that_it_answered() -> None:
    score = {"id": "s1", "trace_id": "t", "name": "ok", "value": 1, "data_type": "BOOLEAN", "observation_id": "1"}
    found = parsed(
        row("1", "GENERATION", "hi", "hello"),
        {**score, "author_user_id": "Ann"},
        {**score, "id": "s2", "trace_id": "u"},
    )
    [each] = found.sessions[0].scores
    assert (each.value, each.by, each.of) == (True, "Ann", "t/1/out/0")
    assert "1 score(s) are of traces that are not here, and are not kept" in found.notes


# --- observations


def test_rows_count_in_the_order_of_their_start_and_times_are_utc() -> None:
    found = parsed(row("9", "GENERATION", "later", "b"), row("1", "GENERATION", "first", "a"))
    [session] = found.sessions
    assert session.created is not None
    assert session.created.isoformat() == "2026-01-02T03:04:01+00:00"
    assert texts(found)[0] == ["first", "a"]


def test_a_tool_answers_the_call_of_its_name_and_arguments_where_no_message_does() -> None:
    calls = [{"id": f"c{n}", "function": {"name": "f", "arguments": json.dumps({"x": n})}} for n in (1, 2)]
    found = parsed(
        row("1", "GENERATION", "go", {"role": "assistant", "content": "", "tool_calls": calls}),
        row("2", "TOOL", {"x": 2}, "two", name="f"),
        row("3", "TOOL", {"x": 1}, "one", name="f"),
        row("4", "GENERATION", None, "done"),
    )
    [path] = found.sessions[0].paths
    answers: list[Any] = [part for turn in path if turn.role == "tool" for part in turn.content]
    assert [(each["id"], each["response"]) for each in answers] == [("c2", "two"), ("c1", "one")]
    assert path[-1].content == "done"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}], ["hi"]),
        ({"messages": [{"type": "human", "content": "hi"}]}, ["hi"]),
        ({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, ["hi"]),
        ({"prompt": "hi"}, ["hi"]),
        ({"system": "be kind", "messages": [{"role": "user", "content": "hi"}]}, ["be kind", "hi"]),
        ([[{"role": "user", "content": "hi"}]], ["hi"]),
    ],
)
def test_messages_are_read_in_the_shapes_of_frameworks(given: Any, expected: list[str]) -> None:
    assert texts(parsed(row("1", "GENERATION", given))) == [expected]


def test_calls_and_answers_of_the_ai_sdk_are_the_same_in_an_output_and_in_the_next_input() -> None:
    call = {"toolCallId": "c1", "toolName": "f", "args": {"x": 1}}
    user = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    asked = {"role": "assistant", "content": [{"type": "tool-call", **call}]}
    answer = {
        "role": "tool",
        "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "f", "result": "one"}],
    }
    found = parsed(
        row("1", "GENERATION", {"messages": [user]}, {"text": "", "toolCalls": [call]}),
        row("2", "GENERATION", {"messages": [user, asked, answer]}, {"role": "assistant", "content": "done"}),
    )
    [path] = found.sessions[0].paths
    assert [turn.role for turn in path] == ["user", "assistant", "tool", "assistant"]
    assert [call["id"] for call in path[1].tool_calls] == ["c1"]
    assert path[2].content == [{"type": "tool_call_response", "id": "c1", "response": "one"}]


def test_a_trace_without_a_generation_says_what_went_in_and_came_out() -> None:
    inner = row("2", "SPAN", "step", "step", parent_observation_id="1")
    found = parsed(row("1", "SPAN", "hi", {"answer": 3}), inner)
    assert texts(found) == [["hi", '{"answer": 3}']]
    assert "1 observation(s) of a program's steps made no turn" in found.notes


def test_what_makes_no_turn_is_said() -> None:
    found = parsed(row("1", "RETRIEVER", "q", "docs"), row("2", "GENERATION", {"x": 1}, "a"))
    assert "1 span(s) of the kind retriever made no turn" in found.notes
    assert "1 input(s) and output(s) of model calls hold no messages, and made no turn" in found.notes


def test_of_two_rows_of_one_id_the_first_counts() -> None:
    found = parsed(row("1", "GENERATION", "a", "first"), row("1", "GENERATION", "a", "second"))
    assert texts(found) == [["a", "first"]]
    assert "1 observation(s) stand twice; the first counts" in found.notes


def test_a_row_without_an_id_is_a_problem() -> None:
    found = parsed({**row("1", "GENERATION", "a", "b"), "id": None}, row("2", "GENERATION", "c", "d"))
    assert (len(found.problems), texts(found)) == (1, [["c", "d"]])
