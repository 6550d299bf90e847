"""Cline's sessions: those of its SDK, and the task folders of its extension with what a person was shown of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.accounts import unaccounted
from trails import Repository
from trails.exchange.coding_agents import cline
from trails.exchange.file_import import import_path
from trails.model.content_parts import plain_text
from trails.usage import cost_of, counts_of

pytestmark = pytest.mark.any_store

Json = dict[str, Any]
TASK = "1764791864800"
METRICS = {"inputTokens": 21, "outputTokens": 8, "cacheReadTokens": 3, "cacheWriteTokens": 1, "cost": 0.13}
MODEL = {"id": "claude-sonnet-4-6", "provider": "anthropic"}


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def session(own: str, *messages: Any, **more: Any) -> Json:
    head = {"version": 1, "updated_at": "2026-04-22T17:42:10.123Z", "agent": "lead", "sessionId": own}
    return head | {"messages": list(messages), "system_prompt": "You are a careful engineer"} | more


SAMPLES = json.loads(Path(__file__).with_name("samples").joinpath("cline.json").read_text("utf-8"))
TALK, HISTORY, SHOWN = SAMPLES["talk"], SAMPLES["history"], SAMPLES["shown"]
"""Messages of the SDK, those of a task, and what a person was shown of the task."""
USED = {
    "files_in_context": [{"path": "src/a-path-of-the-parser.py"}],
    "model_usage": [{"model_id": "a-model-of-the-provider"}],
}


def task_folder(place: Path, history: Any = HISTORY, shown: Any = SHOWN) -> Path:
    folder = place / "tasks" / TASK
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in (("api_conversation_history", history), ("ui_messages", shown), ("task_metadata", USED)):
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def said(store: Repository, own: str) -> list[tuple[str, str]]:
    return [(turn.role, plain_text(turn.content)) for turn in store.load(own).turns]


def test_a_session_of_the_sdk_comes_in_once_with_its_sub_agents_and_goes_on(store: Repository, tmp_path: Path) -> None:
    folder = tmp_path / "S"
    folder.mkdir()
    (folder / "S.messages.json").write_text(json.dumps(session("S", *TALK)))
    sent = [{"id": "x1", "role": "user", "content": [text("You are sent to look")]}]
    (folder / "agent-1.messages.json").write_text(
        json.dumps(session("S", *sent, agent="subagent", taskType="delegated-task-of-the-lead"))
    )
    report = import_path(store, tmp_path)
    assert (sorted(report.sessions_created), report.problems) == (["cline:S", "cline:S%2Fagent-1"], [])
    assert [role for role, _ in said(store, "cline:S")] == ["user", "assistant", "tool", "assistant"]
    turns = store.load("cline:S").turns
    counts = counts_of(turns[3].usage)
    assert (counts.input, counts.cache_read, counts.cache_write, counts.output) == (17, 3, 1, 8)
    assert (float(cost_of(turns[3].usage) or 0), turns[3].model, turns[1].usage) == (0.13, "claude-sonnet-4-6", {})
    assert turns[2].tool_results[0].call_id == "t1"
    assert store.record("cline:S%2Fagent-1").spawned_by == "cline:S"
    assert store.load("cline:S").system == "You are a careful engineer"
    assert unaccounted(store, report, [session("S", *TALK), sent]) == []
    assert import_path(store, tmp_path).turns_added == 0
    grown = [*TALK, {"id": "u3", "role": "user", "content": [text("Thanks")]}]
    (folder / "S.messages.json").write_text(json.dumps(session("S", *grown)))
    assert (import_path(store, folder / "S.messages.json").turns_added, said(store, "cline:S")[-1]) == (
        1,
        ("user", "Thanks"),
    )


@pytest.mark.parametrize("name", ["", "api_conversation_history.json", "ui_messages.json"])
def test_a_task_folder_has_the_usage_and_what_only_a_person_saw(store: Repository, tmp_path: Path, name: str) -> None:
    folder = task_folder(tmp_path)
    report = import_path(store, folder / name if name else tmp_path)
    assert (report.sessions_created, report.problems) == ([f"cline:{TASK}"], [])
    turns = store.load(f"cline:{TASK}").turns
    assert [turn.role for turn in turns] == ["user", "assistant", "tool", "user", "assistant"]
    counts = [counts_of(turn.usage) for turn in turns if turn.role == "assistant"]
    assert [(each.input, each.cache_read, each.cache_write, each.output) for each in counts] == [
        (1200, 10, 50, 340),
        (7, 1500, 0, 3),
    ]
    assert [each.get("ask") or each["say"] for each in turns[3].meta["cline"]["shown"]] == [
        "command",
        "api_req_started",
    ]
    assert f"{store.record(f'cline:{TASK}').created:%Y-%m-%d}" == "2025-12-03"
    assert unaccounted(store, report, [HISTORY, SHOWN, USED]) == []
    assert import_path(store, folder).turns_added == 0
    task_folder(tmp_path, history=[*HISTORY, {"role": "user", "content": [text("<feedback>\nThanks\n</feedback>")]}])
    assert import_path(store, folder).turns_added == 1


def test_files_are_told_from_what_only_looks_like_them() -> None:
    assert cline.sniff(json.dumps(session("S", *TALK)).encode())
    assert cline.sniff(json.dumps(HISTORY).encode())
    assert cline.sniff(json.dumps(SHOWN).encode())
    assert cline.sniff(json.dumps(USED).encode())
    assert not cline.sniff(b'[{"role": "user", "content": "hello"}]')
    assert not cline.sniff(b'[{"type": "say", "text": "x"}]')
