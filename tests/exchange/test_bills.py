"""Bills of sessions of each format, to the cent: the right amounts were added up by hand from what the provider charges.

A million tokens cost 3 dollars as input, 0.30 read from the cache, 3.75 written to it, 6 written to it for an hour, and 15
as output. Most files below have the same call in their own words: 1 million tokens of input that were not cached, 10 million
read from the cache, and an output of 1 million, of which 0.4 million are reasoning: 3 + 3 + 15 = 21 dollars.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support import inspect_logs
from trails.exchange.file_import import import_path

MILLION = 1_000_000
PRICES = {"m": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75, "cache_write_1h": 6}}
Json = dict[str, Any]


def lines(*values: Json) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def codex() -> tuple[str, str]:
    """The second count tells the first call again; the third is of another call: 1 million uncached, 1 million cached."""
    name = "019f0000-0000-7000-8000-00000000000a"
    first = {
        "input_tokens": 11 * MILLION, "cached_input_tokens": 10 * MILLION, "output_tokens": MILLION,
        "reasoning_output_tokens": 400_000, "total_tokens": 12 * MILLION,
    }  # fmt: skip
    second = {
        "input_tokens": 2 * MILLION, "cached_input_tokens": MILLION, "output_tokens": 0, "reasoning_output_tokens": 0,
        "total_tokens": 2 * MILLION,
    }  # fmt: skip
    both = {key: first[key] + second[key] for key in first}

    def said(role: str, text: str) -> tuple[str, Json]:
        kind = "input_text" if role == "user" else "output_text"
        return "response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    def counted(total: Json, last: Json) -> tuple[str, Json]:
        info = {"total_token_usage": total, "last_token_usage": last}
        return "event_msg", {"type": "token_count", "info": info}

    records = [
        ("session_meta", {"id": name, "timestamp": "2026-08-01T10:00:00Z", "cwd": "/w", "cli_version": "0.145.0"}),
        ("turn_context", {"cwd": "/w", "model": "m"}),
        said("user", "q"), said("assistant", "a"), counted(first, first), counted(first, first),
        said("user", "q2"), said("assistant", "b"), counted(both, second),
    ]  # fmt: skip
    stamp = "2026-08-01T10:00:00.000Z"
    told = [{"timestamp": stamp, "type": kind, "payload": payload} for kind, payload in records]
    return f"rollout-2026-08-01T10-00-00-{name}.jsonl", lines(*told)


def gemini() -> tuple[str, str]:
    tokens = {"input": 11 * MILLION, "cached": 10 * MILLION, "output": 600_000, "thoughts": 400_000, "tool": 0}
    said = [
        {"id": "1", "timestamp": "2026-08-01T10:00:00Z", "type": "user", "content": "q"},
        {"id": "2", "timestamp": "2026-08-01T10:00:01Z", "type": "gemini", "content": "a", "model": "m", "thoughts": [],
         "tokens": {**tokens, "total": 12 * MILLION}},
    ]  # fmt: skip
    file = {"sessionId": "g", "projectHash": "p", "startTime": "2026-08-01T10:00:00Z", "messages": said}
    return "session-2026-08-01T10-00-g.json", json.dumps(file)


def claude_code(**more: Any) -> tuple[str, str]:
    """One message over two lines, each of which tells its usage; 2 million were cached for 5 minutes, 1 million for an hour."""
    usage = {
        "input_tokens": MILLION, "cache_read_input_tokens": 10 * MILLION, "cache_creation_input_tokens": 3 * MILLION,
        "cache_creation": {"ephemeral_5m_input_tokens": 2 * MILLION, "ephemeral_1h_input_tokens": MILLION},
        "output_tokens": MILLION,
    }  # fmt: skip

    def record(number: int, kind: str, message: Json) -> Json:
        return {
            "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": "c", "type": kind,
            "timestamp": f"2026-08-01T10:00:0{number}.000Z", "cwd": "/w", "version": "2.1.0", "isSidechain": False,
            "message": message,
        }  # fmt: skip

    said = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": usage}
    return "c.jsonl", lines(
        record(0, "user", {"role": "user", "content": "q"}),
        record(1, "assistant", {**said, "content": [{"type": "text", "text": "a"}], "stop_reason": None}) | more,
        record(2, "assistant", {**said, "content": [{"type": "text", "text": "b"}], "stop_reason": "end_turn"}) | more,
    )


def spans(attributes: Json) -> tuple[str, str]:
    def value(each: Any) -> Json:
        return {"intValue": str(each)} if isinstance(each, int) else {"stringValue": each}

    span = {
        "traceId": "a" * 32, "spanId": "1" * 16, "name": "chat", "kind": 3, "startTimeUnixNano": "1785578400000000000",
        "endTimeUnixNano": "1785578401000000000",
        "attributes": [{"key": key, "value": value(each)} for key, each in attributes.items()],
    }  # fmt: skip
    scope = [{"scope": {"name": "s"}, "spans": [span]}]
    return "run.traces.json", json.dumps({"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": scope}]})


def otel() -> tuple[str, str]:
    """3 million tokens more are written to the cache: 11.25 dollars."""
    return spans({
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "m",
        "gen_ai.conversation.id": "o", "gen_ai.usage.input_tokens": 14 * MILLION,
        "gen_ai.usage.cache_read.input_tokens": 10 * MILLION, "gen_ai.usage.cache_creation.input_tokens": 3 * MILLION,
        "gen_ai.usage.output_tokens": MILLION,
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "q"}]}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "a"}]}]),
    })  # fmt: skip


def openinference() -> tuple[str, str]:
    return spans({
        "openinference.span.kind": "LLM", "llm.model_name": "m", "session.id": "i",
        "llm.token_count.prompt": 11 * MILLION, "llm.token_count.prompt_details.cache_read": 10 * MILLION,
        "llm.token_count.completion": MILLION, "llm.token_count.completion_details.reasoning": 400_000,
        "llm.token_count.total": 12 * MILLION,
        "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "q",
        "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "a",
    })  # fmt: skip


def langfuse() -> tuple[str, str]:
    usage = {
        "input": MILLION,
        "input_cached_tokens": 10 * MILLION,
        "output": 600_000,
        "output_reasoning_tokens": 400_000,
    }
    row = {
        "id": "1", "trace_id": "t", "project_id": "p", "type": "GENERATION", "start_time": "2026-01-02 03:04:01.000000",
        "input": json.dumps([{"role": "user", "content": "q"}]),
        "output": json.dumps({"role": "assistant", "content": "a"}),
        "provided_model_name": "m", "usage_details": {**usage, "total": 12 * MILLION},
    }  # fmt: skip
    return "observations.jsonl", lines(row)


def atif(**metrics: Any) -> tuple[str, str]:
    told = {"prompt_tokens": 11 * MILLION, "cached_tokens": 10 * MILLION, "completion_tokens": MILLION, **metrics}
    steps = [
        {"step_id": 1, "source": "user", "message": "q"},
        {"step_id": 2, "source": "agent", "message": "a", "metrics": told},
    ]
    agent = {"name": "a", "version": "1", "model_name": "m"}
    run = {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": agent, "steps": steps}
    return "trajectory.json", json.dumps(run)


def inspect_ai() -> tuple[str, str]:
    """As Inspect writes Claude's, of which the input leaves out what is cached."""
    usage = {
        "input_tokens": MILLION, "input_tokens_cache_read": 10 * MILLION, "output_tokens": MILLION,
        "reasoning_tokens": 400_000, "total_tokens": 12 * MILLION,
    }  # fmt: skip
    asked, answer = inspect_logs.said("user", "q", "q"), inspect_logs.said("assistant", "a", "a")
    call = inspect_logs.model_event("1", [[0, 1]], answer, model="m")
    call["output"] |= {"usage": usage, "model": "m"}
    log = inspect_logs.HEADER | {"samples": [inspect_logs.sample([asked, answer], events=[call], pool=[asked])]}
    return "log.json", json.dumps(log)


def pi(**more: Any) -> tuple[str, str]:
    usage = {
        "input": MILLION, "output": MILLION, "cacheRead": 10 * MILLION, "cacheWrite": 3 * MILLION, "cacheWrite1h": MILLION,
        "totalTokens": 15 * MILLION, **more,
    }  # fmt: skip

    def entry(identity: str, parent: str | None, message: Json) -> Json:
        stamp = "2026-08-01T10:00:00.000Z"
        return {"type": "message", "id": identity, "parentId": parent, "timestamp": stamp, "message": message}

    return "2026-08-01T10-00-00-000Z_S.jsonl", lines(
        {"type": "session", "version": 3, "id": "S", "timestamp": "2026-08-01T10:00:00.000Z", "cwd": "/tmp"},
        entry("a", None, {"role": "user", "content": "q", "timestamp": 1}),
        entry("b", "a", {
            "role": "assistant", "content": [{"type": "text", "text": "a"}], "provider": "p", "model": "m",
            "usage": usage, "stopReason": "stop", "timestamp": 2,
        }),
    )  # fmt: skip


def mini_swe_agent() -> tuple[str, str]:
    usage = {"prompt_tokens": 11 * MILLION, "completion_tokens": MILLION, "prompt_tokens_details": {"cached_tokens": 1}}
    said = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a", "extra": {"cost": 0.42, "response": {"model": "m", "usage": usage}}},
    ]
    config = {"model": {"model_name": "m"}}
    info = {"exit_status": "Submitted", "submission": "", "config": config, "mini_version": "1.1.0"}
    run = {"info": info, "messages": said, "trajectory_format": "mini-swe-agent-1.1"}
    return "run.traj.json", json.dumps(run)


BILLS = {
    "codex, with a count that is told twice": (codex(), 21 + 3 + 0.30),
    "gemini": (gemini(), 21.0),
    "claude-code, with a message over two lines": (claude_code(), 3 + 3 + 2 * 3.75 + 6 + 15),
    "otel": (otel(), 21 + 3 * 3.75),
    "openinference": (openinference(), 21.0),
    "langfuse": (langfuse(), 21.0),
    "atif": (atif(), 21.0),
    "atif, of an agent whose model writes to the cache": (
        atif(prompt_tokens=14 * MILLION, extra={"cache_creation_input_tokens": 3 * MILLION}),
        21 + 3 * 3.75,
    ),
    "inspect": (inspect_ai(), 21.0),
    "pi": (pi(), 3 + 3 + 2 * 3.75 + 6 + 15),
}
REPORTED = {
    "pi": (pi(cost={"input": 1, "output": 0.25, "cacheRead": 0, "cacheWrite": 0, "total": 1.25}), 1.25),
    "mini-swe-agent": (mini_swe_agent(), 0.42),
    "claude-code before 1.0": (claude_code(costUSD=0.07), 0.07),
    "atif": (atif(cost_usd=0.11), 0.11),
    "atif, with the cost beside": (atif(extra={"cost": 0.13}), 0.13),
}


def total_of(folder: Path, file: tuple[str, str]) -> Any:
    place = folder / file[0]
    place.write_text(file[1])
    with trails.open(":memory:") as store:
        report = import_path(store, place, final=True)
        assert report.problems == []
        assert store.verify().ok
        return store.cost(prices=PRICES).total


@pytest.mark.parametrize("name", BILLS)
def test_a_bill_is_right_to_the_cent(name: str, tmp_path: Path) -> None:
    file, cost = BILLS[name]
    total = total_of(tmp_path, file)
    assert round(total.cost, 6) == round(cost, 6)
    assert (total.reported, total.unpriced) == (0, 0)


@pytest.mark.parametrize("name", REPORTED)
def test_a_cost_that_a_file_tells_itself_is_the_bill(name: str, tmp_path: Path) -> None:
    file, cost = REPORTED[name]
    total = total_of(tmp_path, file)
    assert (round(total.cost, 6), total.reported, total.estimated) == (cost, 1, 0)


def test_reasoning_is_a_part_of_the_output_and_the_cache_of_an_hour_one_of_what_is_written(tmp_path: Path) -> None:
    total = total_of(tmp_path, gemini())
    assert (total.output_tokens, total.reasoning_tokens, total.cache_write_tokens) == (MILLION, 400_000, None)
    total = total_of(tmp_path, claude_code())
    assert (total.cache_write_tokens, total.cache_write_1h_tokens) == (3 * MILLION, MILLION)
