"""Hooks of agents: what they are given, and what they must never do to the agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.commands import invoke
from tests.support.live_transcripts import claude_records, write_records
from trails.exchange.recording.agent_hook import transcripts_of, turn_of

THREAD = "0199a213-81c0-7800-8aa1-bbab2a035a53"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state-home"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "trails"


def hook(store: Path, told: object, *words: str, stdin: bool = True) -> subprocess.CompletedProcess[str]:
    """A hook as an agent runs it."""
    given = told if isinstance(told, str) else json.dumps(told)
    line = [sys.executable, "-m", "trails", "--store", str(store), "hook", *words, *([] if stdin else [given])]
    return subprocess.run(line, input=given if stdin else "", capture_output=True, text=True, timeout=60, check=False)


def notice(file: Path, event: str = "Stop") -> dict[str, Any]:
    return {"session_id": "S", "transcript_path": str(file), "cwd": "/home/alice", "hook_event_name": event}


def wait_for(store: Path, session: str, turns: int) -> list[str]:
    """Wait until a session has so many turns, and return the ids of the records that they came from."""
    deadline = time.monotonic() + 30
    while True:
        with trails.open(store) as opened:
            found = list(opened.load(session).turns) if session in opened else []
            if len(found) >= turns or time.monotonic() > deadline:
                return [each for turn in found for each in turn.source_ids]
        time.sleep(0.1)


def test_a_hook_records_what_is_new_in_the_transcript_and_says_nothing(tmp_path: Path, state: Path) -> None:
    store, file = tmp_path / "store", tmp_path / "S.jsonl"
    trails.open(store, create=True).close()
    for count in (4, 6):
        have = len(file.read_text().splitlines()) if file.exists() else 0
        write_records(file, claude_records("S", count - have, start=have))
        done = hook(store, notice(file), "--claude-code")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert wait_for(store, "claude-code:S", count) == [f"S-{number}" for number in range(count)]
    assert not (state / "hook.log").exists()


def test_many_hooks_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    store, file = tmp_path / "store", tmp_path / "S.jsonl"
    trails.open(store, create=True).close()
    for number in range(4):
        write_records(file, claude_records("S", 1, start=number))
        assert hook(store, notice(file, "PostToolUse")).returncode == 0
    assert wait_for(store, "claude-code:S", 4) == [f"S-{number}" for number in range(4)]
    with trails.open(store) as opened:
        assert (len(opened), opened.verify().ok) == (1, True)


@pytest.mark.parametrize(
    "told", ["", "no json", "[]", "{}", '{"transcript_path": 3}', '{"transcript_path": "S.jsonl"}']
)
def test_what_is_no_notice_goes_into_the_log_and_the_agent_goes_on(tmp_path: Path, state: Path, told: str) -> None:
    done = invoke("hook", store=tmp_path / "store", stdin=told)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert len((state / "hook.log").read_text().splitlines()) == 1


def test_a_store_that_is_not_there_goes_into_the_log_and_is_not_made(tmp_path: Path, state: Path) -> None:
    file = tmp_path / "S.jsonl"
    write_records(file, claude_records("S", 4))
    done = invoke("hook", "--record", file, store=tmp_path / "none")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert "there is no Trails store at" in (state / "hook.log").read_text()
    assert not (tmp_path / "none").exists()


def test_a_notice_of_codex_names_the_rollout_of_its_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    file = tmp_path / "sessions" / "2026" / "05" / "01" / f"rollout-2026-05-01T10-00-00-{THREAD}.jsonl"
    file.parent.mkdir(parents=True)
    file.touch()
    assert transcripts_of(json.dumps({"type": "agent-turn-complete", "thread-id": THREAD, "turn-id": "1"})) == [file]
    for thread in ("../../x", "*", None):
        with pytest.raises(ValueError, match="thread"):
            transcripts_of(json.dumps({"type": "agent-turn-complete", "thread-id": thread}))


def test_a_third_process_for_one_transcript_goes_away_since_the_second_reads_all(tmp_path: Path) -> None:
    program = (
        "import sys; from trails.exchange.recording.agent_hook import turn_of\n"
        "with turn_of('S') as ours: print(int(ours), flush=True); sys.stdin.read()"
    )

    def begin() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ},
        )

    with turn_of("other") as is_ours:
        assert is_ours
    first = begin()
    assert first.stdout is not None
    assert first.stdout.readline() == "1\n"
    second = begin()
    time.sleep(1.5)  # until it waits
    third = begin()
    assert third.communicate("")[0] == "0\n"
    first.communicate("")
    assert second.communicate("")[0] == "1\n"
