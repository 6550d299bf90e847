"""mini-swe-agent's trajectories: `extra` tells time, model, usage and cost; exit status and submission are metadata."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trails import Repository
from trails.exchange.file_import import import_bytes, import_path

RUN: dict[str, Any] = json.loads(Path(__file__).with_name("samples").joinpath("mini_swe_agent.json").read_text("utf-8"))
RESPONSE = RUN["messages"][2]["extra"]["response"]


def test_a_run_has_its_turns_calls_usage_and_cost(memory: Repository) -> None:
    report = import_bytes(memory, json.dumps(RUN).encode())
    assert not report.problems
    [record] = memory.list()
    turns = memory.load(record.id).turns
    assert [turn.role for turn in turns] == ["system", "user", "assistant", "tool", "exit"]
    answer, result = turns[2], turns[3]
    assert [call.arguments for call in answer.tool_calls] == ['{"command": "ls"}']
    assert [each.call_id for each in result.tool_results] == ["call_0"]
    assert (answer.model, answer.usage) == ("m-1", {**RESPONSE["usage"], "cost": 0.0004})
    assert answer.time == datetime(2026, 4, 10, 6, 26, 35, 300000, tzinfo=UTC)
    kept = {"id": RESPONSE["id"], "model": "m-1", "choices": [{"finish_reason": "tool_calls", "index": 0}]}
    assert answer.meta["extra"] == {"actions": [{"command": "ls", "tool_call_id": "call_0"}], "response": kept}
    assert result.meta == {"extra": {"returncode": 0}}
    assert (record.meta["exit_status"], record.meta["submission"]) == ("Submitted", "diff --git a/a.py b/a.py")
    assert (record.agent, record.meta["mini_version"]) == ("mini-swe-agent", "2.2.7")


def test_an_answer_of_the_responses_api_is_one_turn_with_its_items(memory: Repository) -> None:
    item = {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"}
    reply = {
        "object": "response",
        "id": "r",
        "model": "m-2",
        "status": "completed",
        "output": [item],
        "extra": {"cost": 1},
    }
    result = {"type": "function_call_output", "call_id": "c1", "output": "a.py"}
    import_bytes(memory, json.dumps({**RUN, "messages": [RUN["messages"][1], reply, result]}).encode())
    [record] = memory.list()
    _, answer, answered = memory.load(record.id).turns
    assert (answer.role, answer.model, [call.id for call in answer.tool_calls]) == ("assistant", "m-2", ["c1"])
    assert (answer.usage, answered.role, answered.tool_results[0].call_id) == ({"cost": 1}, "tool", "c1")


def test_a_run_that_grew_is_the_same_session_in_whatever_file(memory: Repository, tmp_path: Path) -> None:
    first, later = tmp_path / "one.traj.json", tmp_path / "moved.traj.json"
    first.write_text(json.dumps({**RUN, "messages": RUN["messages"][:3]}))
    later.write_text(json.dumps(RUN))
    created = import_path(memory, first).sessions_created
    report = import_path(memory, later)
    assert (report.grown, report.turns_added) == (created, 2)


@pytest.mark.parametrize("data", [{**RUN, "messages": []}, {**RUN, "messages": [{"content": "a"}]}, {"info": 3}])
def test_a_run_without_a_message_stores_no_session(memory: Repository, data: Any) -> None:
    report = import_bytes(memory, json.dumps(data).encode(), format="mini-swe-agent")
    assert report.problems
    assert not list(memory.list())
