"""ATIF: a step is a turn and one for each result, sub-agents are spawned, copied steps are shared with where they come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trails import Repository
from trails.exchange.coding_agents import atif
from trails.exchange.file_import import import_path
from trails.exchange.source_transcript import SourceSession, Transcript

FILES = (
    "embedded_v17.json",
    "invalid-json.trajectory.json",
    "openhands_hello-world.trajectory.json",
    "summarization/trajectory.json",
    "summarization/trajectory.summarization-1-answers.json",
    "summarization/trajectory.summarization-1-questions.json",
    "summarization/trajectory.summarization-1-summary.json",
)


def step(source: str, message: Any, **more: Any) -> dict[str, Any]:
    return {"step_id": 1, "source": source, "message": message, **more}


def trajectory(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    agent = {"name": "helper", "version": "1", "model_name": "gpt-x"}
    return {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": agent, "steps": list(steps), **more}


def parsed(root: Any, **others: Any) -> Transcript:
    files = {"one.json": root, **{f"{name}.json": other for name, other in others.items()}}
    return atif.parse([(name, json.dumps(each).encode()) for name, each in files.items()])


def only(root: Any) -> SourceSession:
    [session] = parsed(root).sessions
    return session


CALL = {"tool_call_id": "c1", "function_name": "ls", "arguments": {"path": "/"}}
HI, LOOK = step("user", "hi"), step("agent", "look", tool_calls=[CALL], observation={"results": [{"content": "a.py"}]})


# --- real trajectories


@pytest.mark.parametrize("name", FILES)
def test_a_real_trajectory_has_the_steps_calls_results_and_tokens_that_were_counted(shared: Path, name: str) -> None:
    counted = json.loads((shared / "data/research/data_research_expectations.json").read_text())[f"atif/{name}"]
    data = (shared / "data/research/atif" / name).read_bytes()
    assert atif.sniff(data[: 1 << 16])
    found = atif.parse([(name, data)])
    assert not found.problems
    session = found.sessions[0]
    assert len(found.sessions) == 1 + len(counted["subagent_trajectories"])
    assert len(session.paths[0]) == counted["steps"] + counted["observation_results"]
    spoken = [turn for turn in session.paths[0] if turn.role != "tool"]
    calls = [call["id"] for turn in spoken for call in turn.tool_calls]
    assert calls == [each[1] for each in counted["tool_calls"]]
    usages = [turn.usage or {} for turn in spoken]
    assert sum(usage.get("prompt_tokens", 0) for usage in usages) == counted["step_prompt_tokens"]
    assert sum(usage.get("completion_tokens", 0) for usage in usages) == counted["step_completion_tokens"]
    assert session.meta["final_metrics"] == counted["final_metrics"]
    assert sum(isinstance(turn.content, list) for turn in spoken) == counted["reasoning_steps"]
    assert session.agent == counted["agent"]


@pytest.mark.parametrize("name", ["embedded_v17.json", "summarization/trajectory.json"])
def test_sub_agents_come_along_and_what_they_copied_is_shared(store: Repository, shared: Path, name: str) -> None:
    report = import_path(store, shared / "data/research/atif" / name)
    root, questions = report.sessions_created
    summary, answers = map(store.load, report.forks_created)
    assert store.record(questions).spawned_by == root
    # three steps with two results of the parent's; the answers also copy two steps of the summary's
    assert (len(summary), summary.forked_at_index) == (7, 5)
    assert (len(answers), answers.forked_at_index) == (9, 7)
    assert (summary.meta["spawned_by"], summary.meta["spawned_at_step"]) == (root.removeprefix("atif:"), 5)
    assert report.turns_added == 18 + 2 + 2 + 2
    again = import_path(store, shared / "data/research/atif" / name)
    assert (again.turns_added, again.sessions_created, again.forks_created, again.changed) == (0, [], [], [])


# --- a trajectory


def test_a_step_is_one_answer_and_its_results() -> None:
    call, answer = only(trajectory(LOOK)).paths[0]
    assert (call.role, call.content, call.model) == ("assistant", "look", "gpt-x")
    assert (answer.role, answer.content, answer.tool_call_id) == ("tool", "a.py", "c1")


def test_results_are_paired_in_order_only_where_there_are_as_many_as_calls() -> None:
    more = {**LOOK, "observation": {"results": [{"content": "a"}, {"content": "b"}]}}
    assert [turn.tool_call_id for turn in only(trajectory(more)).paths[0]] == [None, None, None]


def test_reasoning_metrics_and_what_else_a_step_says_are_kept() -> None:
    metrics = {"prompt_tokens": 5, "completion_tokens": 2, "cost_usd": 0.5, "logprobs": [-0.1]}
    said = step(
        "agent",
        "yes",
        reasoning_content="hm",
        metrics=metrics,
        reasoning_effort="low",
        timestamp="2026-01-02T03:04:05Z",
    )
    [turn] = only(trajectory(said)).paths[0]
    assert turn.content == [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "yes"}]
    assert turn.usage == {"prompt_tokens": 5, "completion_tokens": 2, "cost": 0.5}
    assert turn.meta == {"reasoning_effort": "low", "metrics": {"logprobs": [-0.1]}}
    assert turn.time is not None


def test_a_step_without_a_model_call_names_no_model() -> None:
    assert only(trajectory(step("agent", "done", llm_call_count=0))).paths[0][0].model is None


def test_a_continuation_shares_the_steps_that_it_copied(memory: Repository, tmp_path: Path) -> None:
    copied = [{**each, "is_copied_context": True} for each in (HI, LOOK)]
    first = trajectory(HI, LOOK, step("agent", "one"), continued_trajectory_ref="two.json")
    (tmp_path / "one.json").write_text(json.dumps(first))
    (tmp_path / "two.json").write_text(json.dumps(trajectory(*copied, step("agent", "two"))))
    report = import_path(memory, tmp_path / "one.json")
    [fork_id] = report.forks_created
    fork = memory.load(fork_id)
    assert (report.files, len(fork), fork.forked_at_index) == (2, 4, 3)


def test_copies_of_what_is_not_here_are_kept_and_missing_files_are_named() -> None:
    ref = {"trajectory_path": "gone.json"}
    asks = step("system", "hand over", observation={"results": [{"subagent_trajectory_ref": [ref]}]})
    found = parsed(trajectory({**HI, "is_copied_context": True}, asks))
    assert len(found.sessions[0].paths[0]) == 3
    assert "1 sub-agent(s) are referred to whose trajectory is not here" in found.notes
    assert "1 turn(s) are copies of what is not here, and are kept" in found.notes


def test_a_reference_reads_no_file_outside_the_folder(memory: Repository, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.json").write_text(json.dumps(trajectory(step("user", "secret"))))
    (inner / "one.json").write_text(json.dumps(trajectory(HI, continued_trajectory_ref="../secret.json")))
    assert import_path(memory, inner / "one.json").files == 1


def test_a_step_of_no_known_source_is_reported() -> None:
    found = parsed(trajectory(HI, step("robot", "beep")))
    assert [turn.content for turn in found.sessions[0].paths[0]] == ["hi"]
    assert "step 2 has no source" in found.problems[0].reason
