"""Whatever stands in a field, reading a file raises nothing but errors of ours, in every format."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

import trails
from tests.support.machines import Size
from trails import TrailsError
from trails.exchange.file_import import import_bytes
from trails.exchange.formats import format_named
from trails.exchange.merge import merge

AT = "2026-08-01T10:00:00.000Z"
HOSTILE: list[Any] = [
    None,
    True,
    -1,
    10**30,
    "",
    "x",
    [],
    [[]],
    {},
    {"type": []},
    ["text"],
    [{"type": "text", "text": None}],
]
CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"at": "."}'}}
USAGE = {"prompt_tokens": 12, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}}
ASKED = {"role": "assistant", "content": "I look.", "tool_calls": [CALL], "extra": {
    "cost": 0.01, "timestamp": 1.5, "actions": [{"command": "ls"}], "response": {"model": "m-1", "usage": USAGE}}}  # fmt: skip
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "a.py", "extra": {"raw_output": "a.py", "returncode": 0}}
CHAT = [{"role": "user", "content": "Look"}, ASKED, ANSWER]


def _claude(kind: str, uuid: str, parent: str | None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s1", "timestamp": AT, **more}


def _part(number: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"id": f"p{number}", "messageID": "m2", "sessionID": "s1", "type": kind, **more}


STATE = {"status": "completed", "input": {"at": "."}, "output": "a.py", "time": {"start": 1, "end": 2}}
FILES: dict[str, list[Any]] = {
    "claude-code": [
        _claude("attachment", "h1", None, attachment={"type": "hook_success", "hookEvent": "SessionStart", "content": "hi"}),
        _claude("user", "u1", "h1", message={"role": "user", "content": [{"type": "text", "text": "Look"}]}),
        {"type": "queue-operation", "operation": "enqueue", "content": "and on", "sessionId": "s1", "timestamp": AT},
        _claude("attachment", "q1", "u1", rendered=[{"content": "and on"}], attachment={
            "type": "queued_command", "prompt": "and on", "commandMode": "prompt", "origin": {"kind": "human"}}),
        _claude("assistant", "a1", "q1", costUSD=0.01, message={
            "role": "assistant", "id": "m1", "model": "m-1", "stop_reason": "end_turn",
            "content": [{"type": "tool_use", "id": "c1", "name": "ls", "input": {}}],
            "usage": {"input_tokens": 1, "cache_creation": {"ephemeral_1h_input_tokens": 2}}}),
        _claude("user", "r1", "a1", toolUseResult={"agentId": "x"}, message={
            "role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.py"}]}),
    ],
    "codex": [
        {"timestamp": AT, "type": "session_meta", "payload": {
            "id": "t1", "timestamp": AT, "source": {"subagent": {"thread_spawn": {"parent_thread_id": "t0"}}}}},
        {"timestamp": AT, "type": "response_item", "payload": {
            "type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look"}]}},
        {"timestamp": AT, "type": "response_item", "payload": {
            "type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "patch"}},
        {"timestamp": AT, "type": "response_item", "payload": {
            "type": "custom_tool_call_output", "call_id": "c1", "output": "done"}},
        {"timestamp": AT, "type": "event_msg", "payload": {
            "type": "token_count", "info": {"last_token_usage": {"input_tokens": 9, "cached_input_tokens": 4}}}},
        {"timestamp": AT, "type": "compacted", "payload": {"message": "all", "replacement_history": [{"type": "message"}]}},
    ],
    "copilot-cli": [
        {"id": "e1", "parentId": None, "timestamp": AT, "type": "session.start", "data": {
            "sessionId": "s1", "version": 1, "startTime": AT, "context": {"cwd": "/w"}}},
        {"id": "e2", "parentId": "e1", "timestamp": AT, "type": "user.message", "data": {
            "content": "Look", "attachments": [{"type": "file", "path": "a.py"}]}},
        {"id": "e3", "parentId": "e2", "timestamp": AT, "type": "assistant.message", "data": {
            "messageId": "m1", "content": "I look.", "toolRequests": [{"toolCallId": "c1", "name": "ls", "arguments": {}}]}},
        {"id": "e4", "parentId": "e3", "timestamp": AT, "type": "tool.execution_complete", "data": {
            "toolCallId": "c1", "success": True, "result": {"content": "a.py"}}},
        {"id": "e5", "parentId": "e4", "timestamp": AT, "type": "session.shutdown", "data": {
            "modelMetrics": {"m-1": {"usage": {"inputTokens": 9, "outputTokens": 3}}}}},
    ],
    "opencode": [{"info": {"id": "s1", "title": "t", "version": "1.0", "time": {"created": 1, "updated": 2}}, "messages": [
        {"info": {"id": "m1", "sessionID": "s1", "role": "user", "time": {"created": 1}},
         "parts": [{"id": "p0", "messageID": "m1", "sessionID": "s1", "type": "text", "text": "Look"}]},
        {"info": {"id": "m2", "sessionID": "s1", "role": "assistant", "modelID": "m-1", "providerID": "p", "cost": 0.01,
                  "time": {"created": 2, "completed": 3}, "tokens": {"input": 3, "output": 4, "cache": {"read": 1}}},
         "parts": [_part(1, "reasoning", text="Hm"), _part(2, "tool", callID="c1", tool="ls", state=STATE),
                   _part(3, "step-finish", reason="stop", cost=0.01, tokens={"input": 3, "cache": {"write": 2}})]},
    ]}],
    "goose": [{"id": "s1", "name": "n", "working_dir": "/w", "created_at": AT, "extension_data": {}, "conversation": [
        {"id": "m1", "role": "user", "created": 1, "content": [{"type": "text", "text": "Look"}]},
        {"id": "m2", "role": "assistant", "created": 2, "metadata": {"userVisible": True}, "content": [
            {"type": "toolRequest", "id": "c1", "toolCall": {"status": "success", "value": {"name": "ls", "arguments": {}}}}]},
        {"id": "m3", "role": "user", "created": 3, "content": [{"type": "toolResponse", "id": "c1", "toolResult": {
            "status": "success", "value": {"content": [{"type": "text", "text": "a.py"}]}}}]}]}],
    "messages": [{"messages": CHAT}],
    "mini-swe-agent": [{"trajectory_format": "mini-swe-agent-1.1", "messages": CHAT, "info": {
        "exit_status": "Submitted", "submission": "x", "model_stats": {"instance_cost": 0.01, "api_calls": 1}}}],
    "langsmith": [
        {"id": "a", "name": "llm", "run_type": "llm", "trace_id": "t", "start_time": AT, "end_time": AT,
         "inputs": {"messages": [CHAT]}, "outputs": {"generations": [[{"message": {"type": "ai", "data": ASKED}}]]},
         "extra": {"metadata": {"thread_id": "x"}}},
        {"id": "b", "name": "ls", "run_type": "tool", "trace_id": "t", "parent_run_id": "a", "start_time": AT,
         "inputs": {"input": "."}, "outputs": {"output": "a.py"}},
    ],
    "mlflow": [{"info": {"trace_id": "tr", "trace_metadata": {"mlflow.trace.session": "x"}}, "data": {"spans": [
        {"trace_id": "b", "span_id": "a", "name": "chat", "start_time_unix_nano": 1785578401000000000, "attributes": {
            "mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": {"model": "m-1", "messages": CHAT},
            "mlflow.spanOutputs": {"choices": [{"message": ASKED}], "usage": USAGE}}}]}}],
    "gemini-cli": [{"sessionId": "s1", "projectHash": "p", "startTime": AT, "messages": [
        {"id": "m1", "timestamp": AT, "type": "user", "content": "Look"},
        {"id": "m2", "timestamp": AT, "type": "gemini", "content": "ok", "model": "m-1", "thoughts": [{"subject": "s"}],
         "tokens": {"input": 9, "cached": 4, "thoughts": 2},
         "toolCalls": [{"id": "c1", "name": "ls", "args": {}, "status": "success", "result": [{"functionResponse": {}}]}]},
        {"id": "m3", "timestamp": AT, "type": "error", "content": "Quota exceeded"}]}],
    "atif": [{"schema_version": "ATIF-v1.7", "trajectory_id": "r", "agent": {"name": "a", "model_name": "m-1"},
        "continued_trajectory_ref": "one.json", "steps": [
            {"step_id": 1, "source": "user", "message": "Look", "timestamp": AT},
            {"step_id": 2, "source": "agent", "message": "", "reasoning_content": "Hm",
             "metrics": {"prompt_tokens": 3, "extra": {}}, "tool_calls": [{"tool_call_id": "c1",
                 "function_name": "ls", "arguments": {}}], "observation": {"results": [
                {"source_call_id": "c1", "content": "a.py", "subagent_trajectory_ref": [{"trajectory_id": "t"}]}]}}],
        "extra": {"trails": {"scores": [{"name": "ok", "value": 1, "step_id": 2}]}},
        "subagent_trajectories": [{"trajectory_id": "t", "steps": [
            {"step_id": 1, "source": "user", "message": "Look", "is_copied_context": True}]}]}],
    "chatgpt": [{"id": "c", "title": "t", "create_time": 1.5, "current_node": "b", "mapping": {
        "r": {"id": "r", "parent": None, "children": ["a"]},
        "a": {"id": "a", "parent": "r", "children": ["b", "x"], "message": {"id": "a", "author": {"role": "user"},
              "create_time": 2.5, "content": {"content_type": "text", "parts": ["Look"]}}},
        "b": {"id": "b", "parent": "a", "children": [], "message": {"id": "b", "author": {"role": "assistant"},
              "content": {"content_type": "code", "text": "ls"},
              "metadata": {"model_slug": "m-1", "finish_details": {"type": "stop"}}}},
        "x": {"id": "x", "parent": "a", "children": [], "message": {"id": "x", "author": {"role": "tool"},
              "content": {"content_type": "multimodal_text", "parts": [{"image": 1}, "a.py"]}}}}}],
    "cline": [{"version": 1, "updated_at": AT, "agent": "lead", "sessionId": "s1", "system_prompt": "Help", "messages": [
        {"id": "m1", "role": "user", "ts": 1785578401000, "content": [{"type": "text", "text": "Look"}]},
        {"id": "m2", "role": "assistant", "modelInfo": {"id": "m-1", "provider": "p"}, "metrics": {"inputTokens": 9, "cost": 0.1},
         "content": [{"type": "tool_use", "id": "c1", "name": "ls", "input": {}}]},
        {"id": "m3", "role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.py"},
                                                 {"type": "text", "text": "and on"}]}]}],
    "swe-agent": [{"environment": "e", "replay_config": "{}", "history": [
        {"role": "system", "content": "s"}, {"role": "user", "content": "demo", "is_demo": True},
        {"role": "assistant", "content": "I look.", "thought": "I look.", "tool_calls": [CALL]},
        {"role": "tool", "content": [{"type": "text", "text": "a.py"}], "tool_call_ids": ["c1"]}],
        "trajectory": [{"action": "ls", "observation": "a.py", "execution_time": 0.5, "state": {}}],
        "info": {"submission": "patch", "exit_status": "submitted", "model_stats": {"cost": 1}}}],
    "langfuse": [
        {"trace": {"id": "t", "sessionId": "s", "metadata": "{}", "tags": [],
                   "scores": [{"id": "x", "trace_id": "t", "name": "n", "value": 1}]},
         "observations": [{"id": "3", "trace_id": "t", "type": "AGENT", "input": "a", "output": "b",
                           "costDetails": {"total": 0.1}}]},
        {"data": [{"id": "4", "trace_id": "t", "type": "GENERATION", "start_time": "2026-01-02 03:04:05.000000", "output": "x",
                   "input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}],
                   "usage_details": {"input": 1}}]},
        {"id": "5", "trace_id": "t", "project_id": "p", "type": "GENERATION", "start_time": "2026-01-02 03:04:06.000000",
         "input": [{"role": "user", "content": "a"}],
         "output": {"choices": [{"message": {"role": "assistant", "content": "ok"}}]}},
        {"id": "6", "trace_id": "t", "type": "TOOL", "name": "f", "input": {"x": 1}, "output": "two",
         "parent_observation_id": "5"}],
}  # fmt: skip


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


@pytest.mark.parametrize("name", FILES)
def test_any_value_in_any_field_is_read_or_reported(name: str, size: Size) -> None:
    lines = FILES[name]
    count = sum(1 for _ in _places(lines))
    assert count > 25
    with trails.open(":memory:") as store:
        assert import_bytes(store, _written(lines), format=name).turns_added >= 3
    step = {"quick": 13, "all": 4, "long": 1}[size]
    for number in range(count * len(HOSTILE)):
        if number % step:
            continue
        changed = copy.deepcopy(lines)
        holder, key = list(_places(changed))[number // len(HOSTILE)]
        holder[key] = copy.deepcopy(HOSTILE[number % len(HOSTILE)])
        with trails.open(":memory:") as store:
            try:
                import_bytes(store, _written(changed), format=name)
                assert import_bytes(store, _written(changed), format=name).turns_added == 0
                for record in store.list():
                    store.context(record.id, "next", max_tokens=5_000).openai()
            except TrailsError:
                continue


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_or_garbled_anywhere_raises_nothing_and_is_not_lost_in_silence(
    name: str, size: Size
) -> None:
    whole = _written(FILES[name])
    for at in range(1, len(whole), {"quick": 199, "all": 31, "long": 3}[size]):
        garbled = whole[:at] + bytes([at * 7 % 256]) + whole[at + 1 :]
        for data in (whole[:at], garbled, garbled[: len(whole) - at]):
            found = format_named(name).read([("file", data)])
            assert found.sessions or found.problems or found.notes or found.records
            with trails.open(":memory:") as store:
                merge(store, found)
                assert store.verify().ok


def _written(lines: list[Any]) -> bytes:
    return b"\n".join(json.dumps(line).encode() for line in lines)
