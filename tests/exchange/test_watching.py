"""Transcripts that are followed while agents write them."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import trails
from tests.support.live_transcripts import claude_records, write_records
from trails import Repository
from trails.errors import InvalidInput
from trails.exchange.file_import import import_path
from trails.exchange.recording import growth
from trails.exchange.recording.file_state import FileStates
from trails.exchange.recording.watcher import Watcher, WatchEvent

RECORDS = 8
"""Two rounds of a prompt, a call, its result and an answer."""


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """The folder that agents write into."""
    folder = tmp_path / "agents"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder for what programs keep."""
    folder = tmp_path / "state-home"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


def contents(store: Repository, session: str = "claude-code:S") -> list[str]:
    """The ids of the source's records that a session's turns came from, in order."""
    return [each for turn in store.load(session).turns for each in turn.source_ids]


def ids(count: int, session: str = "S") -> list[str]:
    return [f"{session}-{number}" for number in range(count)]


def recorded(events: list[WatchEvent]) -> int:
    return sum(event.turns for event in events if event.kind == "recorded")


def rest(file: Path) -> None:
    """Let a file be as one that nobody has written to for a while."""
    os.utime(file, (time.time() - 60,) * 2)


# --- looks


def test_each_look_brings_in_what_was_written_since_the_one_before(store: Repository, agents: Path) -> None:
    file = agents / "S.jsonl"
    watcher = Watcher(store, [agents])
    assert list(watcher.look()) == []
    for count in (1, 4, 5, 8):
        have = len(file.read_text().splitlines()) if file.exists() else 0
        write_records(file, claude_records("S", count - have, start=have))
        rest(file)
        assert recorded(list(watcher.look())) == count - have
        assert contents(store) == ids(count)
    assert store.verify().ok


def test_a_file_that_did_not_change_is_not_read_again(
    memory: Repository, agents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ABC":
        write_records(agents / f"{name}.jsonl", claude_records(name, 4))
        rest(agents / f"{name}.jsonl")
    (agents / "settings.json").write_text("{}")
    states = FileStates(tmp_path / "watch.db")
    assert recorded(list(Watcher(memory, [agents], states).look())) == 12
    read: list[list[str]] = []
    record = growth.record

    def counted(how: growth.Recording, form: object, paths: list[str], known: object) -> growth.Taken:
        read.append(paths)
        return record(how, form, paths, known)  # type: ignore[arg-type]

    monkeypatch.setattr(growth, "record", counted)
    watcher = Watcher(memory, [agents], states)
    assert (list(watcher.look()), list(watcher.look()), read) == ([], [], [])
    write_records(agents / "B.jsonl", claude_records("B", 1, start=4))
    rest(agents / "B.jsonl")
    assert recorded(list(watcher.look())) == 1
    assert read == [[str(agents / "B.jsonl")]]
    states.close()


def test_half_a_line_waits_until_its_end_is_written(memory: Repository, agents: Path) -> None:
    file = agents / "S.jsonl"
    write_records(file, claude_records("S", 4))
    line = json.dumps(claude_records("S", 1, start=4)[0]).encode()
    watcher = Watcher(memory, [agents])
    with file.open("ab") as out:
        out.write(line[:100])
        out.flush()
        rest(file)
        assert [(event.kind, event.turns) for event in watcher.look()] == [("recorded", 4)]
        out.write(line[100:] + b"\n")
    rest(file)
    assert recorded(list(watcher.look())) == 1
    assert contents(memory) == ids(5)


def test_a_message_at_the_end_waits_for_its_other_lines_and_no_longer_than_it_takes_to_settle(
    memory: Repository, agents: Path
) -> None:
    file = agents / "S.jsonl"
    write_records(file, claude_records("S", 2))
    watcher = Watcher(memory, [agents])
    assert [(event.kind, event.turns) for event in watcher.look()] == [("recorded", 1), ("held", 1)]
    thought, said = claude_records("S", 1, start=5)[0], claude_records("S", 1, start=2)[0]
    write_records(file, [said])
    os.utime(file)
    time.sleep(growth.SETTLE)
    os.utime(file)  # it is written all the time
    assert recorded(list(watcher.look())) == 2
    thought["message"]["content"] = [{"type": "thinking", "thinking": "Hm", "signature": "s"}]
    thought["parentUuid"] = "S-2"
    write_records(file, [thought])
    os.utime(file, (time.time() - 5,) * 2)
    assert [(event.kind, event.turns) for event in watcher.look()] == [("held", 1)]


def test_a_file_that_was_cut_or_replaced_takes_nothing_out_of_the_store(memory: Repository, agents: Path) -> None:
    file = agents / "S.jsonl"
    write_records(file, claude_records("S", RECORDS))
    rest(file)
    watcher = Watcher(memory, [agents])
    list(watcher.look())
    file.write_bytes(b"")
    assert list(watcher.look()) == []
    write_records(file, claude_records("S", 4))
    rest(file)
    assert recorded(list(watcher.look())) == 0
    new = agents / "new"
    write_records(new, claude_records("S", RECORDS + 2))
    new.replace(file)
    rest(file)
    assert recorded(list(watcher.look())) == 2
    assert contents(memory) == ids(RECORDS + 2)
    file.rename(agents / "moved.jsonl")
    assert recorded(list(watcher.look())) == 0
    write_records(agents / "moved.jsonl", claude_records("S", 2, start=RECORDS + 2))
    rest(agents / "moved.jsonl")
    assert recorded(list(watcher.look())) == 2
    assert len(memory) == 1


def test_files_and_folders_that_are_new_are_followed(memory: Repository, agents: Path) -> None:
    watcher = Watcher(memory, [agents, agents / "later"])
    list(watcher.look())
    for name, file in (("A", agents / "a" / "b" / "A.jsonl"), ("L", agents / "later" / "L.jsonl")):
        write_records(file, claude_records(name, 4))
        rest(file)
        assert recorded(list(watcher.look())) == 4
        assert contents(memory, f"claude-code:{name}") == ids(4, name)


@pytest.mark.parametrize("length", [4, 400])
def test_sub_agents_of_a_session_are_linked_to_it_whichever_file_grew(
    memory: Repository, agents: Path, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, sub = agents / "S.jsonl", agents / "S" / "subagents" / "agent-x.jsonl"
    records = claude_records("S", length)
    task = {"subagent_type": "explorer", "prompt": "Question 0 of S", "description": "look"}
    records[-3]["message"]["content"] = [{"type": "tool_use", "id": "call-task", "name": "Task", "input": task}]
    write_records(main, records)
    rest(main)
    watcher = Watcher(memory, [agents])
    list(watcher.look())
    if length > 100:  # of the session, too, only the end is read
        monkeypatch.delattr(growth, "_record_whole")
    side = [
        {**record, "agentId": "x", "isSidechain": True, "uuid": f"x{record['uuid']}",
         "parentUuid": record["parentUuid"] and f"x{record['parentUuid']}"}
        for record in claude_records("S", 4)
    ]  # fmt: skip
    for count in (2, 4):
        write_records(sub, side[count - 2 : count])
        rest(sub)
        assert recorded(list(watcher.look())) == 2
    agent = memory.load("claude-code:S:agent-x").record
    assert (agent.spawned_by, agent.agent) == ("claude-code:S", "explorer")
    assert len(memory.load("claude-code:S")) == length


def test_what_cannot_be_read_is_told_once_and_the_rest_goes_on(memory: Repository, agents: Path) -> None:
    write_records(agents / "S.jsonl", claude_records("S", 4))
    rest(agents / "S.jsonl")
    with (agents / "S.jsonl").open("ab") as out:
        out.write(b"no record\n")
    rest(agents / "S.jsonl")
    (agents / "loop.jsonl").symlink_to(agents / "loop.jsonl")
    watcher = Watcher(memory, [agents])
    problems = [(Path(event.file).name, event.line) for event in watcher.look() if event.kind == "problem"]
    assert problems == [("loop.jsonl", 0), ("S.jsonl", 5)]
    assert contents(memory) == ids(4)
    write_records(agents / "S.jsonl", claude_records("S", 1, start=4))
    rest(agents / "S.jsonl")
    assert [event.kind for event in watcher.look()] == ["recorded"]


def test_a_store_that_was_made_anew_gets_everything_again(
    opener: Callable[[str], Repository], agents: Path, tmp_path: Path
) -> None:
    write_records(agents / "S.jsonl", claude_records("S", 4))
    rest(agents / "S.jsonl")
    states = FileStates(tmp_path / "watch.db")
    for name in ("one", "two"):
        with opener(name) as store:
            assert recorded(list(Watcher(store, [agents], states).look())) == 4
            assert list(Watcher(store, [agents], states).look()) == []
    states.close()


def test_a_damaged_state_is_begun_anew(tmp_path: Path, memory: Repository, agents: Path) -> None:
    write_records(agents / "S.jsonl", claude_records("S", 4))
    rest(agents / "S.jsonl")
    (tmp_path / "watch.db").write_bytes(b"SQLite format 3\0" + b"damaged, and long enough to be read as one" * 20)
    states = FileStates(tmp_path / "watch.db")
    assert recorded(list(Watcher(memory, [agents], states).look())) == 4
    states.close()


def test_another_file_in_the_place_of_the_state_is_left_as_it_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE mine (x)")
    (tmp_path / "text").write_bytes(b"what somebody wrote")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "other.db", tmp_path / "text", tmp_path / "pipe", Path("/dev/null")):
        before = path.stat()
        with pytest.raises(InvalidInput, match="no state of a watcher"):
            FileStates(path)
        assert (path.stat().st_ino, path.stat().st_size, path.stat().st_mode) == (
            before.st_ino,
            before.st_size,
            before.st_mode,
        )
    assert (tmp_path / "text").read_bytes() == b"what somebody wrote"


def test_a_pipe_is_reported_and_a_name_of_any_bytes_is_followed(
    tmp_path: Path, memory: Repository, agents: Path
) -> None:
    os.mkfifo(agents / "pipe.jsonl")
    odd = Path(os.fsdecode(os.fsencode(agents) + b"/S\xff.jsonl"))
    write_records(odd, claude_records("S", 4))
    rest(odd)
    states = FileStates(tmp_path / "watch.db")
    events = list(Watcher(memory, [agents], states).look())
    assert [(event.kind, Path(event.file).name) for event in events if event.kind == "problem"] == [
        ("problem", "pipe.jsonl")
    ]
    assert recorded(events) == 4
    assert list(Watcher(memory, [agents], states).look()) == [each for each in events if each.kind == "problem"]
    assert import_path(memory, odd).turns_added == 0
    assert memory.proofs.verify().ok
    states.close()


def test_a_state_that_cannot_be_written_holds_nothing_up(tmp_path: Path, memory: Repository, agents: Path) -> None:
    states, other = FileStates(tmp_path / "watch.db"), sqlite3.connect(tmp_path / "watch.db", isolation_level=None)
    states._db.execute("PRAGMA busy_timeout = 10")
    other.execute("BEGIN IMMEDIATE")
    watcher = Watcher(memory, [agents], states)
    for start in (0, 4):
        write_records(agents / "S.jsonl", claude_records("S", 4, start=start))
        rest(agents / "S.jsonl")
        assert recorded(list(watcher.look())) == 4
    other.execute("ROLLBACK")
    other.close()
    assert states.all() == {}
    write_records(agents / "S.jsonl", claude_records("S", 1, start=8))
    rest(agents / "S.jsonl")
    assert recorded(list(watcher.look())) == 1
    assert set(states.all()) == {str(agents / "S.jsonl")}
    states.close()
    with pytest.raises(InvalidInput, match="name another file"):
        FileStates(agents)


def test_a_session_that_was_watched_has_one_record_of_its_import(memory: Repository, agents: Path) -> None:
    file = agents / "S.jsonl"
    watcher = Watcher(memory, [agents])
    for start in range(0, RECORDS, 2):
        write_records(file, claude_records("S", 2, start=start))
        rest(file)
        list(watcher.look())
    assert len(contents(memory)) == RECORDS
    imports = memory.query("imported-sessions")
    assert not isinstance(imports, bool)
    assert len(imports) == 1
    assert memory.verify().ok


def test_an_import_of_what_was_watched_adds_nothing(memory: Repository, agents: Path) -> None:
    file = agents / "S.jsonl"
    watcher = Watcher(memory, [agents])
    for number in range(RECORDS):
        write_records(file, claude_records("S", 1, start=number))
        rest(file)
        list(watcher.look())
    report = import_path(memory, agents, final=True)
    assert (report.turns_added, report.unchanged) == (0, ["claude-code:S"])


# --- the program


@contextmanager
def watching(store: Path, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A `trails watch` of its own process, that has begun."""
    line = [sys.executable, "-m", "trails", "--store", str(store), "watch", str(folder), "--create", "--json", *more]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert json.loads(process.stdout.readline())["event"] == "watching"
        yield process
    finally:
        process.kill()
        process.stdout.close()
        process.stderr.close()
        process.wait()


def test_a_record_is_in_the_store_soon_after_its_write_and_a_signal_ends_it(tmp_path: Path, agents: Path) -> None:
    with watching(tmp_path / "store", agents) as process:
        write_records(agents / "S.jsonl", claude_records("S", 4))
        assert process.stdout is not None
        event = json.loads(process.stdout.readline())
        assert (event["event"], event["turns"]) == ("recorded", 4)
        assert event["delay"] < 2
        process.send_signal(signal.SIGTERM)
        out, problems = process.communicate(timeout=30)
        assert (json.loads(out), problems, process.returncode) == (
            {"event": "stopped", "files": 1, "sessions": 1, "turns": 4},
            "",
            0,
        )


@pytest.mark.slow
def test_a_watcher_that_is_killed_at_any_time_loses_and_doubles_nothing(
    tmp_path: Path, agents: Path, long: bool
) -> None:
    chance, store, written = random.Random(31), tmp_path / "store", 0
    for _ in range(200 if long else 3):
        with watching(store, agents) as process:
            for _ in range(chance.randint(1, 3)):
                write_records(agents / "S.jsonl", claude_records("S", 1, start=written))
                written += 1
                time.sleep(chance.random() * 0.4)
            process.kill()
    rest(agents / "S.jsonl")
    with trails.open(store) as opened:
        list(Watcher(opened, [agents]).look())
        assert contents(opened) == ids(written)
        assert opened.verify().ok


@pytest.mark.slow
def test_two_watchers_of_one_store_bring_each_record_in_once(tmp_path: Path, agents: Path) -> None:
    store = tmp_path / "store"
    with watching(store, agents, "--state", str(tmp_path / "a.db")), watching(store, agents):
        for number in range(RECORDS):
            for name in "ST":
                write_records(agents / f"{name}.jsonl", claude_records(name, 1, start=number))
            time.sleep(0.25)
        deadline = time.monotonic() + 30
        with trails.open(store) as opened:
            while time.monotonic() < deadline:
                opened.refresh()
                if all(f"claude-code:{name}" in opened for name in "ST") and all(
                    len(opened.load(f"claude-code:{name}")) == RECORDS for name in "ST"
                ):
                    break
                time.sleep(0.2)
    with trails.open(store) as opened:
        assert {name: contents(opened, f"claude-code:{name}") for name in "ST"} == {n: ids(RECORDS, n) for n in "ST"}
        assert len(opened) == 2
        assert opened.verify().ok


def test_watch_once_brings_in_what_is_there_and_ends(tmp_path: Path, agents: Path) -> None:
    from tests.support.commands import invoke, ok

    write_records(agents / "S.jsonl", claude_records("S", 4))
    rest(agents / "S.jsonl")
    shutil.copy(agents / "S.jsonl", agents / "copy.jsonl")
    result = invoke("watch", agents, "--once", "--create", store=tmp_path / "store")
    assert ok(result).startswith("claude-code:S: 4 turns from ")
    assert "recorded 4 turns in 1 session from 2 files" in result.stderr
    assert ok(invoke("watch", agents, "--once", store=tmp_path / "store")) == ""
