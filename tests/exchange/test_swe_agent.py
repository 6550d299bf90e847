"""SWE-agent's trajectories: the history is the transcript, demonstrations are not; steps where there is no history."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trails import Repository
from trails.exchange.coding_agents import swe_agent
from trails.exchange.file_import import import_path
from trails.exchange.merge import merge
from trails.exchange.openclaw import pi_export
from trails.exchange.source_transcript import SourceSession, Transcript

Message = dict[str, Any]


def said(role: str, content: Any, **more: Any) -> Message:
    return {"role": role, "content": content, "agent": "main", **more}


def call(call_id: str, name: str = "bash", arguments: str = '{"command": "ls"}') -> Message:
    return {"type": "function", "id": call_id, "function": {"name": name, "arguments": arguments}}


def step(action: str, observation: str, **more: Any) -> Message:
    return {"action": action, "observation": observation, "response": f"I run {action}", "thought": "", **more}


HISTORY = (
    said("system", "You are a programmer", message_type="system_prompt"),
    said("user", "Fix it"),
    said("assistant", "Look first", thought="Look first", action="ls", tool_calls=[call("c1")], message_type="action"),
    said("tool", "a.py", tool_call_ids=["c1"], message_type="observation"),
)


def parsed(data: Any, name: str = "runs/one.traj") -> Transcript:
    return swe_agent.parse([(name, json.dumps(data).encode())])


def only(data: Any, name: str = "runs/one.traj") -> SourceSession:
    [session] = parsed(data, name).sessions
    return session


# --- turns


def test_every_message_of_the_history_is_a_turn_with_its_calls_and_answers(store: Repository) -> None:
    merge(store, parsed({"history": HISTORY}))
    [record] = store.list()
    turns = store.load(record.id).turns
    assert [(turn.role, turn.content) for turn in turns] == [(m["role"], m["content"]) for m in HISTORY]
    assert [(c.id, c.name, c.arguments) for c in turns[2].tool_calls] == [("c1", "bash", '{"command": "ls"}')]
    assert [result.call_id for result in turns[3].tool_results] == ["c1"]
    assert turns[2].meta == {"agent": "main", "action": "ls", "message_type": "action"}
    assert store.verify().ok


def test_demonstrations_make_no_turn_and_are_counted() -> None:
    demo = said("user", "Here is a demonstration", is_demo=True)
    transcript = parsed({"history": [HISTORY[0], demo, *HISTORY[1:]]})
    assert [turn.content for turn in transcript.sessions[0].paths[0]] == [m["content"] for m in HISTORY]
    assert transcript.records == {"system": 1, "user": 2, "assistant": 1, "tool": 1}
    assert transcript.notes == ("one.traj: 1 message(s) of demonstrations are no part of the run and made no turn",)


def test_steps_tell_what_the_history_does_not_and_the_configuration_the_model_and_the_problem() -> None:
    config = {"agent": {"model": {"name": "gpt-x"}}, "problem_statement": {"id": "fix-1"}}
    data = {
        "environment": "main",
        "history": HISTORY,
        "trajectory": [step("ls", "a.py", execution_time=0.5, state={"open_file": "n/a"})],
        "info": {"exit_status": "submitted", "submission": "diff"},
        "replay_config": json.dumps(config),
    }
    transcript = parsed(data)
    [session] = transcript.sessions
    assert session.id.startswith("fix-1-")
    assert (session.title, session.agent) == ("one", "swe-agent")
    assert session.meta == {"environment": "main", "model": "gpt-x", "exit_status": "submitted", "submission": "diff"}
    answer = session.paths[0][2]
    assert (answer.model, answer.meta["step"]) == ("gpt-x", {"execution_time": 0.5, "state": {"open_file": "n/a"}})
    assert transcript.notes == ("one.traj: replay_config: not kept",)


def test_what_a_run_submitted_is_found_by_its_key_and_stands_with_the_turn_that_submitted_it(store: Repository) -> None:
    patch = "--- a/x.py\n+++ b/x.py\r\n"
    merge(store, parsed({"history": HISTORY, "info": {"exit_status": "submitted", "submission": patch}}))
    rows: Any = store.query("sessions-by-meta", key="urn:trails:meta:submission")
    assert [row["value"] for row in rows.to_dicts()] == [patch]
    [record] = store.list()
    assert record.meta["submission"] == patch
    assert [turn.meta.get("submission") for turn in store.load(record.id).turns] == [None, None, None, patch]
    assert json.dumps(patch)[1:-1].encode() in pi_export.export_session(store, record.id)


def test_a_run_that_is_imported_before_it_submits_has_the_submission_with_its_last_turn(store: Repository) -> None:
    merge(store, parsed({"history": HISTORY, "info": {"submission": None}}))
    more = (*HISTORY, said("assistant", "Submit", action="submit"), said("tool", "ok"))
    report = merge(store, parsed({"history": more, "info": {"submission": "diff"}}))
    [grown] = report.grown
    assert [turn.meta.get("submission") for turn in store.load(grown).turns] == [None] * 5 + ["diff"]
    assert merge(store, parsed({"history": more, "info": {"submission": "diff"}})).turns_added == 0


@pytest.mark.parametrize("found", ["", None, [], {}])
def test_a_run_that_submitted_nothing_says_nothing_of_it(found: Any) -> None:
    session = only({"history": HISTORY, "info": {"submission": found}})
    assert session.meta == {}
    assert not any("submission" in turn.meta for turn in session.paths[0])


def test_steps_that_do_not_match_the_history_are_noted_and_not_used() -> None:
    transcript = parsed({"history": HISTORY, "trajectory": [step("ls", "a.py"), step("cat", "x")]})
    assert transcript.notes == ("one.traj: 2 steps do not match 1 messages of the model: not used",)


def test_content_in_parts_is_kept_and_several_answers_in_one_message_are_noted() -> None:
    parts = [{"type": "text", "text": "f", "cache_control": {"type": "ephemeral"}}]
    transcript = parsed({"history": [*HISTORY, said("tool", parts, tool_call_ids=["c1", "c2"])]})
    last = transcript.sessions[0].paths[0][-1]
    assert (last.content, last.tool_call_id, last.meta["tool_call_ids"]) == (parts, "c1", ["c1", "c2"])
    assert "history[4] answers 2 calls" in transcript.notes[0]


def test_a_file_with_steps_alone_has_two_turns_a_step() -> None:
    transcript = parsed({"trajectory": [step("ls", "a.py", state="{}"), step("submit", "")]})
    assert [(turn.role, turn.content) for turn in transcript.sessions[0].paths[0]] == [
        ("assistant", "I run ls"),
        ("tool", "a.py"),
        ("assistant", "I run submit"),
        ("tool", ""),
    ]
    assert transcript.notes == ("one.traj: has no history; its turns are the steps of the trajectory",)
    assert transcript.sessions[0].paths[0][0].meta == {"action": "ls", "state": "{}"}


# --- which run a file is


def test_a_file_that_is_moved_or_renamed_or_grows_is_the_same_run_and_another_run_is_not(store: Repository) -> None:
    first = merge(store, parsed({"history": HISTORY}))
    assert merge(store, parsed({"history": HISTORY}, "elsewhere/two.traj")).unchanged == first.sessions_created
    more = said("assistant", "Done", tool_calls=[call("c2", "submit", "{}")])
    report = merge(store, parsed({"history": [*HISTORY, more]}))
    assert (report.grown, report.turns_added) == (first.sessions_created, 1)
    other = [*HISTORY[:2], said("assistant", "Look first", tool_calls=[call("c9")])]
    assert merge(store, parsed({"history": other})).sessions_created != first.sessions_created
    assert len(store.list()) == 2


def test_a_folder_of_runs_is_imported_run_by_run(store: Repository, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        history = [*HISTORY[:2], said("assistant", f"I am {name}")]
        (tmp_path / "runs" / name / f"{name}.traj").write_text(json.dumps({"history": history}))
    report = import_path(store, tmp_path / "runs")
    assert (len(report.sessions_created), report.turns_added, report.files) == (2, 6, 2)
    assert sorted(str(store.record(each).meta["title"]) for each in report.sessions_created) == ["one", "two"]


# --- what cannot be used


def test_what_cannot_be_used_is_a_problem_with_its_place_and_the_rest_is_read() -> None:
    bad = [
        "text",
        said("user", 5),
        said("no role", "x"),
        said("assistant", "x", tool_calls=[{"id": "c"}, call("c3")]),
        said("tool", "y", tool_call_ids=[None]),
    ]
    transcript = parsed({"history": [*HISTORY, *bad]})
    path = transcript.sessions[0].paths[0]
    assert [turn.content for turn in path[4:]] == ["x", "y"]
    assert [c["id"] for c in path[4].tool_calls] == ["c3"]
    assert [problem.reason.split(" ")[0] for problem in transcript.problems] == [
        f"history[{n}]" for n in (4, 5, 6, 7, 8)
    ]


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"history": 3}', b'{"history"'])
def test_a_file_that_is_no_trajectory_is_a_problem(data: bytes) -> None:
    transcript = swe_agent.parse([("x.traj", data)])
    assert transcript.sessions == ()
    assert transcript.problems


# --- real and random files


def test_the_real_trajectories_have_the_counts_that_were_taken_independently(shared: Path, store: Repository) -> None:
    cases = json.loads((shared / "cases" / "data_other_expectations.json").read_text())["swe-agent-traj"]
    for name, facts in cases.items():
        file = shared / "data" / "swe-agent-traj" / name
        report = import_path(store, file)
        [session] = report.sessions_created
        turns = store.load(session).turns
        demos = facts["history"] - len(turns)
        assert demos == 0
        assert Counter(turn.role for turn in turns) == facts["roles"] == report.records
        assert sum(len(turn.tool_calls) for turn in turns) == facts["tool_calls"]
        assert sum("step" in turn.meta for turn in turns) == facts["steps"]
        history = json.loads(file.read_text())["history"]
        assert [turn.content for turn in turns] == [message["content"] for message in history]
        submitted = json.loads(file.read_text()).get("info", {}).get("submission")
        assert store.record(session).meta.get("submission") == turns[-1].meta.get("submission") == submitted
        assert import_path(store, file).turns_added == 0
    assert store.verify().ok
