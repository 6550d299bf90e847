"""A session as an ATIF trajectory: answers with the step that asked, forks as copied context, sub-agents within."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.pages import grown
from trails import InvalidInput, Repository
from trails.exchange.exporters.session_family import SessionExport
from trails.exchange.file_import import export_session, import_bytes, import_path

CALL = {"id": "c1", "name": "ls", "arguments": '{"at": "/"}'}


def trajectory(store: Repository, session: str = "plan") -> tuple[Any, SessionExport]:
    out = io.BytesIO()
    report = export_session(store, session, "atif", out)
    return json.loads(out.getvalue()), report


def test_a_step_is_what_was_said_and_what_came_back(store: Repository) -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    session = store.create(id="plan", agent="planner", system="Be terse.")
    session.append("user", "Look", time=when)
    session.append(
        "assistant",
        [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}],
        tool_calls=[CALL],
        model="m-1",
        usage={"input_tokens": 7, "output_tokens": 3},
        time=when,
    )
    session.append("tool", "bin etc", tool_call_id="c1", is_error=True, time=when)
    session.persist()
    root, report = trajectory(store)
    assert (root["schema_version"], root["session_id"], root["trajectory_id"]) == ("ATIF-v1.7", "plan", "plan")
    assert root["agent"] == {"name": "planner", "version": "unknown", "model_name": "m-1"}
    assert root["steps"] == [
        {"step_id": 1, "source": "system", "message": "Be terse."},
        {"step_id": 2, "source": "user", "message": "Look", "timestamp": "2026-01-02T03:04:05Z"},
        {
            "step_id": 3,
            "source": "agent",
            "message": "I look.",
            "timestamp": "2026-01-02T03:04:05Z",
            "model_name": "m-1",
            "reasoning_content": "hm",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "ls", "arguments": {"at": "/"}}],
            "metrics": {"prompt_tokens": 7, "completion_tokens": 3},
            "observation": {"results": [{"source_call_id": "c1", "content": "bin etc", "extra": {"is_error": True}}]},
        },
    ]
    assert root["final_metrics"] == {"total_prompt_tokens": 7, "total_completion_tokens": 3, "total_steps": 3}
    assert (report.sessions, report.turns) == (("plan",), 3)


def test_tokens_that_were_not_reported_are_not_told_as_none_used(memory: Repository) -> None:
    session = memory.create(id="plan")
    session.append("assistant", "hi", model="m-1", usage={"input_tokens": None, "output_tokens": 3})
    session.persist()
    root, _ = trajectory(memory)
    assert root["steps"][0]["metrics"] == {"completion_tokens": 3}


def test_a_fork_begins_with_what_it_inherits_as_copied_context(memory: Repository) -> None:
    grown(memory)
    root, _ = trajectory(memory, "deep")
    assert [(step["message"], step.get("is_copied_context")) for step in root["steps"]] == [("a", True), ("y", None)]
    assert root["extra"] == {"trails": {"forked_from": "other", "forked_at_turn": 1}}


def test_an_answer_that_comes_late_or_in_a_fork_is_a_step_of_its_own(memory: Repository) -> None:
    session = memory.create(id="plan")
    session.append("assistant", "", tool_calls=[CALL])
    session.append("user", "Hurry")
    session.append("tool", "late", tool_call_id="c1")
    session.persist()
    fork = session.fork(at=1, id="fork")
    fork.append("tool", "other", tool_call_id="c1")
    fork.persist()
    root, report = trajectory(memory)
    apart = {"results": [{"content": "late", "extra": {"call_id": "c1"}}]}
    assert (root["steps"][2]["source"], root["steps"][2]["observation"]) == ("system", apart)
    assert "1 result: apart from the step that asked, the call's id beside it" in report.left_out
    root, _ = trajectory(memory, "fork")
    assert [step.get("is_copied_context") for step in root["steps"]] == [True, None]
    assert root["steps"][1]["observation"]["results"][0]["content"] == "other"


def test_what_it_spawned_stands_within_and_what_those_spawned_within_them(memory: Repository) -> None:
    tree = trails.Tree(memory)
    main = tree.main("alice", "web")
    main.append("user", "go")
    main.persist()
    child = main.spawn("branch", "look")
    child.append("user", "looking")
    child.persist()
    root, report = trajectory(memory, main.id)
    (inner,) = root["subagent_trajectories"]
    assert inner["steps"][-1]["message"] == "looking"
    assert report.sessions == (main.id, child.id)


def test_a_session_without_turns_is_no_trajectory(memory: Repository) -> None:
    memory.create(id="plan").persist()
    with pytest.raises(InvalidInput, match="'plan' has no turns"):
        trajectory(memory)


def test_arguments_that_are_no_object_stand_under_a_name(memory: Repository) -> None:
    session = memory.create(id="plan")
    session.append("assistant", "", tool_calls=[{"id": "c1", "name": "ls", "arguments": "[1, 2]"}])
    session.persist()
    root, report = trajectory(memory)
    assert root["steps"][0]["tool_calls"][0]["arguments"] == {"value": [1, 2]}
    assert "1 argument: no object, so under the name `value`" in report.left_out


@pytest.mark.parametrize(
    "name", ["embedded_v17.json", "invalid-json.trajectory.json", "openhands_hello-world.trajectory.json"]
)
def test_a_trajectory_that_came_in_goes_back_less_what_is_listed(shared: Path, memory: Repository, name: str) -> None:
    file = shared / "data" / "research" / "atif" / name
    import_path(memory, file)
    top = next(twig.node.id for twig in memory.forest() if twig.node.relation == "root")
    root, _ = trajectory(memory, top)
    came = json.loads(file.read_text())
    assert told(root) == told(came)


def told(root: Any) -> Any:
    """A trajectory without what may differ: its version, its id and that of a result's call where none was told, how it says
    that it is a fork, what a copied step has beside its text, and the order of sub-agents."""
    left = {
        key: value
        for key, value in root.items()
        if key not in ("schema_version", "subagent_trajectories", "trajectory_id")
    }
    left["extra"] = {key: value for key, value in root.get("extra", {}).items() if key != "trails"}
    left["steps"] = [step_of(step) for step in root["steps"]]
    inner = sorted(
        (told(each) for each in root.get("subagent_trajectories", [])), key=lambda each: str(each["agent"]["name"])
    )
    return {**left, "inner": inner}


def step_of(step: Any) -> Any:
    left = dict(step)
    if step.get("is_copied_context"):
        left.pop("extra", None)
    left.pop("model_name", None)
    results = [dict(result, source_call_id=None) for result in step.get("observation", {}).get("results", [])]
    return {**left, "observation": results}


def scored(store: Repository, session: str) -> list[tuple[str, Any, str, str | None, str | None, int | None]]:
    found = store.scores(session)
    return [(each.name, each.value, each.by, each.version, each.reason, each.start) for each in found]


def test_scores_that_count_come_back_with_their_authors_where_they_were_given(memory: Repository) -> None:
    with memory.session("plan") as plan:
        plan.append("user", "Look")
        plan.append("assistant", "I look.", tool_calls=[CALL])
        plan.append("tool", "bin etc", tool_call_id="c1")
    memory.score("plan", "tone", "rude", by="ann")
    memory.score("plan", "tone", "polite", by="ann", reason="It asks.")
    memory.score("plan#1", "right", True, by="agent:judge", version="2")
    memory.score("plan#2", "long", 0.5, by="agent:judge")
    memory.score("plan#0:2", "pace", 1, by="ann")
    root, report = trajectory(memory)
    assert "1 score of several turns: left out" in report.left_out
    with trails.open(":memory:") as other:
        for _ in range(2):
            import_bytes(other, json.dumps(root).encode())
        [session] = other.list()
        assert sorted(scored(other, session.id)) == [
            ("long", 0.5, "judge", None, None, 2),
            ("right", True, "judge", "2", None, 1),
            ("tone", "polite", "ann", None, "It asks.", None),
        ]
        assert "extra" not in session.meta
        assert trajectory(other, session.id)[0]["extra"] == root["extra"]


@pytest.mark.parametrize("odd", [3, [3], [{}], [{"name": 3}], [{"name": "a", "value": 1, "step_id": 9}], {"a": 1}])
def test_scores_that_are_none_raise_nothing_and_add_none(memory: Repository, odd: Any) -> None:
    steps = [{"step_id": 1, "source": "user", "message": "hi"}]
    file = {"schema_version": "ATIF-v1.7", "agent": {"name": "a"}, "steps": steps, "extra": {"trails": {"scores": odd}}}
    import_bytes(memory, json.dumps(file).encode(), format="atif")
    [session] = memory.list()
    assert not scored(memory, session.id)


def test_harbors_own_models_take_it(memory: Repository, shared: Path) -> None:
    trajectories = pytest.importorskip("harbor.models.trajectories", reason="pip install harbor (Python 3.12)")
    import_path(memory, shared / "data" / "research" / "atif")
    grown(memory)
    memory.score("plan", "tone", "polite", by="ann")
    for record in memory.list():
        root, _ = trajectory(memory, record.id)
        assert trajectories.Trajectory.model_validate(root).steps
