"""A watcher records what becomes of files while agents work, and calls a change a turn's only where that is known."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.live_transcripts import claude_records, write_records
from trails import Repository
from trails.exchange.recording.watcher import Watcher

GAP = 0.12
"""Seconds between what one does and the next, more than clocks may differ by."""


class Desk:
    """A folder in which agents work, their transcripts, and a watcher of both."""

    def __init__(self, store: Repository, folder: Path) -> None:
        self.store = store
        self.work = folder / "work"
        self.work.mkdir()
        (self.work / "old.py").write_text("old\n")
        self.transcripts = folder / "transcripts"
        self.transcripts.mkdir()
        self.watcher = Watcher(store, [self.transcripts], settle=0.0, files_in=[self.work])

    def says(self, session: str, start: int, count: int = 1, cwd: str | None = None, **more: Any) -> None:
        """Let an agent write records: 0 is a prompt, 1 a call, 2 its answer, 3 a text, and so on."""
        time.sleep(GAP)
        records = [
            {**each, "cwd": cwd or str(self.work), **more} for each in claude_records(session, count, start=start)
        ]
        write_records(self.transcripts / f"{session}.jsonl", records)
        time.sleep(GAP)

    def writes(self, name: str, text: str) -> None:
        time.sleep(GAP)
        (self.work / name).write_text(text)

    def look(self) -> list[str]:
        return [event.reason for event in self.watcher.look() if event.kind in ("problem", "failed")]

    def history(self, session: str = "s") -> list[tuple[int, str, bool, int]]:
        found = self.store.load(f"claude-code:{session}").files.history()
        return [(each.index, each.path, each.outside, each.turns) for each in found]


@pytest.fixture
def desk(memory: Repository, tmp_path: Path) -> Desk:
    return Desk(memory, tmp_path)


def test_a_change_while_a_tool_ran_is_the_turns_and_any_other_is_nobodys(desk: Desk) -> None:
    desk.says("s", 0)
    assert desk.look() == []
    desk.says("s", 1)
    desk.look()
    desk.writes("new.py", "by the tool\n")
    desk.says("s", 2)
    desk.look()
    desk.says("s", 3)
    desk.look()
    desk.writes("old.py", "old\nby a person\n")
    desk.says("s", 4)
    desk.look()
    assert desk.history() == [
        (0, "old.py", True, 1),  # it was there before
        (2, "new.py", False, 1),
        (4, "old.py", True, 1),  # nobody's turn explains it: the agent was idle
    ]
    session = desk.store.load("claude-code:s")
    assert [(line.text, line.index) for line in session.files.blame("new.py")] == [("by the tool", 2)]
    assert [line.index for line in session.files.blame("old.py")] == [None, None]
    assert desk.store.verify().findings == ()


def test_turns_that_come_in_together_share_what_they_may_have_done(desk: Desk) -> None:
    desk.says("s", 0)
    desk.look()
    desk.says("s", 1)
    desk.writes("new.py", "x\n")
    desk.says("s", 2, 3)
    desk.says("s", 5)
    desk.writes("second.py", "y\n")
    desk.says("s", 6, 2)
    desk.look()
    assert desk.history()[1:] == [
        (2, "new.py", False, 1),  # no other tool ran before
        (6, "second.py", False, 5),  # the first tool may have written some of it, the second one was the last to
    ]


def test_a_deletion_is_the_turns_that_came_in_if_a_tool_ran(desk: Desk) -> None:
    desk.says("s", 0)
    desk.look()
    (desk.work / "old.py").unlink()
    desk.says("s", 1, 2)
    desk.look()
    assert desk.history()[1:] == [(2, "old.py", False, 1)]
    assert desk.store.load("claude-code:s").files.list() == []


def test_what_changes_after_the_last_turn_waits_for_the_next(desk: Desk) -> None:
    desk.says("s", 0)
    desk.look()
    desk.says("s", 1)
    desk.writes("new.py", "half\n")  # the tool still runs
    desk.look()
    assert desk.history() == [(0, "old.py", True, 1)]
    desk.says("s", 2)
    desk.look()
    assert desk.history()[1:] == [(2, "new.py", False, 1)]


def test_of_two_agents_in_one_folder_none_is_guessed(desk: Desk) -> None:
    for name in ("s", "t"):
        desk.says(name, 0)
    desk.look()
    for name in ("s", "t"):
        desk.says(name, 1)
    desk.look()
    desk.writes("new.py", "whose?\n")
    desk.says("s", 2)
    desk.look()
    desk.says("t", 2)
    desk.look()
    assert desk.history("s")[1:] == [(2, "new.py", True, 1)]
    assert desk.history("t")[1:] == [(2, "new.py", True, 1)]


@pytest.mark.parametrize("cwd", ["/nowhere/else", ""])
def test_an_agent_that_is_not_known_to_work_there_has_no_files(desk: Desk, cwd: str) -> None:
    for number in range(4):
        desk.says("s", number, cwd=cwd or "relative-to-nothing")
        desk.writes("new.py", f"{number}\n")
        desk.look()
    assert desk.history() == []


def test_what_was_said_before_the_watcher_began_has_no_files(desk: Desk) -> None:
    write_records(
        desk.transcripts / "s.jsonl",
        [{**each, "cwd": str(desk.work), "timestamp": "2026-01-01T10:00:00.000Z"} for each in claude_records("s", 4)],
    )
    desk.look()
    assert (len(desk.store.load("claude-code:s")), desk.history()) == (4, [])


def test_nothing_comes_in_twice_and_a_watcher_that_is_started_again_goes_on(desk: Desk) -> None:
    desk.says("s", 0)
    desk.look()
    desk.watcher = Watcher(desk.store, [desk.transcripts], settle=0.0, files_in=[desk.work])
    desk.look()
    desk.says("s", 1)
    desk.look()
    desk.writes("new.py", "x\n")
    desk.says("s", 2)
    desk.look()
    before = desk.history()
    assert before == [(0, "old.py", True, 1), (2, "new.py", False, 1)]
    Watcher(desk.store, [desk.transcripts], settle=0.0).look()
    assert desk.history() == before


def test_a_folder_that_cannot_be_looked_at_keeps_no_turn_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trails.session.work_folder.MAX_FILES", 0)
    desk.says("s", 0)
    assert any("has more than 0 files" in each for each in desk.look())
    assert len(desk.store.load("claude-code:s")) == 1


def test_what_is_left_out_is_told_once(desk: Desk) -> None:
    (desk.work / "big").write_bytes(b"b" * (1 << 20 | 1))
    os.mkfifo(desk.work / "pipe")
    desk.says("s", 0)
    told = desk.look()
    assert [each.partition(": it ")[2] for each in told] == [
        "has more than 1,048,576 bytes: its content is not kept",
        "is no file: a pipe, a socket or a device",
    ]
    desk.says("s", 1)
    assert desk.look() == []


def test_the_command_records_files_while_it_watches(tmp_path: Path) -> None:
    from tests.support.commands import invoke, ok

    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.py").write_text("x")
    later = "2126-01-01T10:00:00.000Z"  # said once the command has begun
    record = {**claude_records("s", 1)[0], "cwd": str(tmp_path / "work"), "timestamp": later}
    write_records(tmp_path / "s.jsonl", [record])
    place = tmp_path / "store.trails"
    ok(invoke("watch", tmp_path / "s.jsonl", "--create", "--once", "--files", tmp_path / "work", "--json", store=place))
    with trails.open(place) as store:
        assert [each.path for each in store.load("claude-code:s").files.list()] == ["a.py"]
    assert json.loads(ok(invoke("files", "claude-code:s", "--json", store=place)))["files"][0]["outside"]
