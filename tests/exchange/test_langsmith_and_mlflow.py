"""Runs of LangSmith and traces of MLflow: the same agent's run makes the same session, each message once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trails import Repository
from trails.exchange.file_import import import_bytes

Json = dict[str, Any]


def dumped(kind: str, content: str, **more: Any) -> Json:
    """A message as LangChain dumps it into a run."""
    name = ["langchain", "schema", "messages", kind]
    return {"lc": 1, "type": "constructor", "id": name, "kwargs": {"content": content, **more}}


CALL = {"name": "weather", "args": {"at": "Zermatt"}, "id": "c1", "type": "tool_call"}
USAGE = {"input_tokens": 20, "output_tokens": 4, "total_tokens": 24, "input_token_details": {"cache_read": 15}}
ASKS = dumped("AIMessage", "", tool_calls=[CALL])
SAYS = dumped("AIMessage", "It snows", usage_metadata=USAGE, response_metadata={"model_name": "m-1"})
BEGIN = [dumped("SystemMessage", "Be brief"), dumped("HumanMessage", "How is it there?")]
RESULT = dumped("ToolMessage", "Snow", tool_call_id="c1")


def run(identity: str, kind: str, second: int, inputs: Any, outputs: Any, **more: Any) -> Json:
    time = f"2026-08-01T10:00:0{second}"
    made: Json = {
        "id": identity,
        "name": more.pop("name", kind),
        "run_type": kind,
        "inputs": inputs,
        "outputs": outputs,
    }
    made |= {"trace_id": "top", "parent_run_id": None if identity == "top" else "top"}
    made |= {"start_time": f"{time}.000000", "end_time": f"{time}.500000"}
    return made | {"extra": {"metadata": {"thread_id": "thread-1"}}} | more


RUNS = [
    run("top", "chain", 0, {"messages": [BEGIN[1]]}, {"messages": [BEGIN[1], ASKS, RESULT, SAYS]}, name="agent"),
    run("a", "llm", 1, {"messages": [BEGIN]}, {"generations": [[{"text": "", "message": ASKS}]]}),
    run("b", "tool", 2, {"input": "{'at': 'Zermatt'}"}, {"output": RESULT}, name="weather"),
    run("c", "llm", 3, {"messages": [[*BEGIN, ASKS, RESULT]]}, {"generations": [[{"text": "", "message": SAYS}]]}),
]


def span(identity: str, kind: str, second: int, inputs: Any, outputs: Any, **more: Any) -> Json:
    told = {"mlflow.spanType": kind, "mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs, **more}
    start = (1785578400 + second) * 10**9
    made: Json = {"trace_id": "b64", "span_id": identity, "parent_span_id": "" if identity == "top" else "top"}
    made |= {"name": "weather" if kind == "TOOL" else kind.lower(), "events": []}
    made |= {"start_time_unix_nano": start, "end_time_unix_nano": start + 1}
    made |= {"status": {"code": "STATUS_CODE_OK", "message": ""}}
    return made | {"attributes": {key: json.dumps(value) for key, value in told.items()}}


HI = [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "How is it there?"}]
OPENAI_CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"at": "Zermatt"}'}}
OPENAI_ASKS = {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}
OPENAI_RESULT = {"role": "tool", "tool_call_id": "c1", "content": "Snow"}
SPANS = [
    span("top", "CHAIN", 0, {"question": "How is it there?"}, {"answer": "It snows"}),
    span("a", "CHAT_MODEL", 1, {"model": "m-1", "messages": HI}, {"choices": [{"message": OPENAI_ASKS}]}),
    span("b", "TOOL", 2, {"at": "Zermatt"}, "Snow"),
    span(
        "c",
        "CHAT_MODEL",
        3,
        {"model": "m-1", "messages": [*HI, OPENAI_ASKS, OPENAI_RESULT]},
        {"choices": [{"message": {"role": "assistant", "content": "It snows"}}]},
        **{"mlflow.chat.tokenUsage": {"input_tokens": 20, "output_tokens": 4, "total_tokens": 24}},
    ),
]
INFO = {
    "trace_id": "tr-1",
    "trace_location": {"type": "MLFLOW_EXPERIMENT"},
    "trace_metadata": {"mlflow.trace.session": "thread-1"},
    "tags": {"mlflow.traceName": "agent", "team": "maps"},
}
TRACE = {"info": INFO, "data": {"spans": SPANS}}


def nested(runs: list[Json]) -> Json:
    """The same runs within the one at the top, as a client has them that loads a run with its children."""
    children = [{key: value for key, value in each.items() if key != "trace_id"} for each in runs[1:]]
    return {**runs[0], "child_runs": children}


FILES: dict[str, tuple[str, bytes]] = {
    "runs, one a line": ("langsmith", "\n".join(map(json.dumps, reversed(RUNS))).encode()),
    "an array of runs": ("langsmith", json.dumps(RUNS).encode()),
    "an object with runs": ("langsmith", json.dumps({"runs": RUNS}).encode()),
    "runs within runs": ("langsmith", json.dumps(nested(RUNS)).encode()),
    "a trace": ("mlflow", json.dumps(TRACE).encode()),
    "an array of traces": ("mlflow", json.dumps([TRACE]).encode()),
}
TURNS = [
    ("system", "Be brief"),
    ("user", "How is it there?"),
    ("assistant", ""),
    ("tool", "Snow"),
    ("assistant", "It snows"),
]


@pytest.mark.parametrize("what", FILES)
def test_a_run_of_an_agent_is_one_session_with_each_message_once(memory: Repository, what: str) -> None:
    format_, data = FILES[what]
    report = import_bytes(memory, data)
    assert report.sessions_created == [f"{format_}:thread-1"]
    assert not report.problems
    session = memory.load(report.sessions_created[0])
    assert [(turn.role, turn.text) for turn in session.turns] == TURNS
    asks, result, says = session.turns[2:]
    assert [(call.id, call.name, json.loads(call.arguments or "")) for call in asks.tool_calls] == [
        ("c1", "weather", {"at": "Zermatt"})
    ]
    assert [each.call_id for each in result.tool_results] == ["c1"]
    assert says.model == "m-1"
    assert says.facts.model_call is not None
    cached = 15 if format_ == "langsmith" else 0
    assert (says.facts.model_call.counts.input, says.facts.model_call.counts.output) == (20 - cached, 4)
    assert session.record.meta["title"] == "agent"
    assert import_bytes(memory, data).turns_added == 0


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (RUNS[0], ["How is it there?", "", "Snow", "It snows"]),
        ({**TRACE, "data": {"spans": SPANS[:1]}}, ["How is it there?", "It snows"]),
    ],
)
def test_the_conversation_at_the_top_counts_where_no_model_is_told_below(
    memory: Repository, data: Json, texts: list[str]
) -> None:
    report = import_bytes(memory, json.dumps(data).encode())
    assert [turn.text for turn in memory.load(report.sessions_created[0]).turns] == texts


def test_a_tools_last_result_is_kept_though_no_model_was_told_it(memory: Repository) -> None:
    report = import_bytes(memory, json.dumps(RUNS[1:3]).encode())
    last = memory.load(report.sessions_created[0]).turns[-1]
    assert (last.role, [each.call_id for each in last.tool_results]) == ("tool", ["c1"])
    assert "Snow" in last.text


def test_a_file_without_a_run_stores_nothing_and_says_why(memory: Repository) -> None:
    for format_ in ("langsmith", "mlflow"):
        report = import_bytes(memory, b'{"id": 3}', format=format_)
        assert not list(memory.list())
        assert report.problems[0].reason.startswith("is no ")
