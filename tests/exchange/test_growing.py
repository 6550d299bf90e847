"""Files that are imported while they are still written: what comes of them is what the whole file alone would be."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.commands import invoke, ok
from trails import Repository
from trails.exchange.file_import import RESTED, import_path

Record = dict[str, Any]
BEGUN = [datetime.now(UTC)]
"""When the test began that runs."""
FOLDERS = {"claude-code-jsonl": "claude-code", "codex-rollout": "codex", "pi-session-jsonl": "pi"}


def contents(store: Repository) -> list[list[Any]]:
    """All that the turns of all sessions say: not which session goes by which id, which a rewind decides."""
    return sorted(
        (
            [
                [turn.role, turn.content, turn.model, turn.usage, turn.meta, turn.source_ids, str(turn.time)]
                for turn in session.turns
            ]
            for session in (store.load(record.id) for record in store.list())
        ),
        key=repr,
    )


def imported(file: Path, *states: bytes, **how: Any) -> list[list[Any]]:
    """What is in a store after a file was imported in each of some states, one after the other."""
    with trails.open(":memory:") as store:
        for data in states:
            file.write_bytes(data)
            import_path(store, file, **how)
        return contents(store)


def real_files(shared: Path, *, long: bool) -> list[tuple[Path, str]]:
    """The real files that are written line by line; those of less than 100 kB unless the long figures are asked for."""
    found = [(file, name) for folder, name in FOLDERS.items() for file in (shared / "data" / folder).glob("*.jsonl")]
    return sorted((file, name) for file, name in found if long or file.stat().st_size < 100_000)


@pytest.mark.slow
def test_a_real_file_that_was_cut_after_any_record_and_grew_is_as_if_it_came_whole(
    shared: Path, tmp_path: Path, long: bool
) -> None:
    tried = 0
    for file, name in real_files(shared, long=long):
        lines = file.read_bytes().splitlines(keepends=True)
        whole = imported(tmp_path / file.name, b"".join(lines), format=name, final=False)
        every = 1 if long else max(1, len(lines) // (5 if len(lines) < 40 and name == "claude-code" else 1))
        for cut in range(1 + tried % every, len(lines), every):
            part = b"".join(lines[:cut])
            assert imported(tmp_path / file.name, part, b"".join(lines), format=name, final=False) == whole, (
                file.name,
                cut,
            )
            tried += 1
    assert tried >= (357 if long else 30)


def test_a_real_file_that_grew_record_by_record_is_as_if_it_came_whole(
    shared: Path, tmp_path: Path, long: bool
) -> None:
    names = ["entire-parallel-tools-7br", "entire-tiny-summary", "ccl-dag_compact_after_rewind"]
    for name in [*names, "entire-compact-linear", "entire-user-rewind"] if long else names:
        lines = (shared / "data" / "claude-code-jsonl" / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
        file = tmp_path / f"{name}.jsonl"
        states = [b"".join(lines[: n + 1]) for n in range(len(lines))]
        assert imported(file, *states, final=False) == imported(file, states[-1], final=False), name


def test_a_real_file_that_has_rested_is_imported_with_its_last_message(
    shared: Path, tmp_path: Path, long: bool
) -> None:
    for file, name in real_files(shared, long=long):
        copy = tmp_path / file.name
        taken = imported(copy, file.read_bytes(), format=name, final=True)
        os.utime(copy, (time.time() - RESTED - 60,) * 2)
        with trails.open(":memory:") as store:
            report = import_path(store, copy, format=name)
            assert (contents(store), report.turns_held) == (taken, 0), file.name


# --- Claude Code


def record(uuid: str, kind: str, message: Any = None, **more: Any) -> Record:
    parent = chr(ord(uuid) - 1) if uuid > "a" else None
    base = {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "S",
        "timestamp": ord(uuid) - 97,
    }
    return base | ({} if message is None else {"message": message}) | more


def asked(uuid: str, content: Any = "Do it", **more: Any) -> Record:
    return record(uuid, "user", {"role": "user", "content": content}, **more)


def said(uuid: str, part: Any, stop: str | None = None, message: str = "M") -> Record:
    content = [{"type": "text", "text": part}] if isinstance(part, str) else [part]
    return record(uuid, "assistant", {"id": message, "role": "assistant", "content": content, "stop_reason": stop})


def call(call_id: str) -> Record:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {}}


def result(uuid: str, call_id: str) -> Record:
    return asked(uuid, [{"type": "tool_result", "tool_use_id": call_id, "content": "done"}])


def lines(records: Sequence[Record]) -> bytes:
    """Write records as a program would that does so now: their times are given in seconds after the test's beginning."""
    return b"".join(json.dumps(_timed(each)).encode() + b"\n" for each in records)


def _timed(each: Record) -> Record:
    seconds = each.get("timestamp")
    return (
        each
        if not isinstance(seconds, int)
        else each | {"timestamp": (BEGUN[0] + timedelta(seconds=seconds)).isoformat()}
    )


@pytest.fixture(autouse=True)
def _begin() -> None:
    BEGUN[0] = datetime.now(UTC)


ENDS: list[tuple[str, list[Record], int]] = [
    ("a text without a stop reason", [asked("a"), said("b", "Yes")], 1),
    ("a text with one", [asked("a"), said("b", "Yes", "end_turn")], 0),
    ("the last of several lines with one", [asked("a"), said("b", "Hm"), said("c", "Yes", "end_turn")], 0),
    ("a thought with one", [asked("a"), said("b", {"type": "thinking", "thinking": "Hm"}, "end_turn")], 1),
    ("a text whose stop reason is a call", [asked("a"), said("b", "I look", "tool_use")], 1),
    ("a call whose stop reason may be that of further ones", [asked("a"), said("b", call("t"), "tool_use")], 1),
    ("a call that waits", [asked("a"), said("b", call("t"))], 1),
    ("results of its own calls", [asked("a"), said("b", call("t")), result("c", "t")], 2),
    ("a prompt", [asked("a"), said("b", "Yes"), asked("c")], 0),
    ("another message", [asked("a"), said("b", "Yes"), said("c", "More", "end_turn", "N")], 0),
    ("another message that is open", [asked("a"), said("b", "Yes"), said("c", "More", None, "N")], 1),
    (
        "the word that the turn is over",
        [asked("a"), said("b", "Yes"), record("c", "system", subtype="turn_duration")],
        0,
    ),
    ("progress", [asked("a"), said("b", call("t")), record("c", "progress", data={})], 1),
    ("a message of the program's own", [asked("a"), said("b", call("t")), asked("c", "Caveat", isMeta=True)], 2),
    (
        "a boundary without its summary",
        [asked("a"), said("b", "Yes"), record("c", "system", subtype="compact_boundary")],
        1,
    ),
    ("a prompt alone", [asked("a")], 0),
]


@pytest.mark.parametrize(("records", "held"), [each[1:] for each in ENDS], ids=[each[0] for each in ENDS])
def test_of_a_file_just_written_what_may_not_be_whole_is_kept_back_and_told(
    records: list[Record], held: int, tmp_path: Path
) -> None:
    file = tmp_path / "S.jsonl"
    file.write_bytes(lines(records))
    with trails.open(":memory:") as store:
        report = import_path(store, file)
        before = len(store.load("claude-code:S"))
        assert report.turns_held == held
        told = f"claude-code:S: {held} turn(s) at the end of {file} were kept back"
        assert [note.startswith(told) for note in report.notes] == ([True] if held else [])
        later = import_path(store, file, final=True)
        assert (later.turns_added, later.turns_held, len(store.load("claude-code:S"))) == (held, 0, before + held)
        again = import_path(store, file)
        assert (again.turns_added, again.turns_held) == (0, 0)  # what is here already is not kept back


def test_a_file_that_has_rested_is_taken_whole_and_one_that_is_growing_never(tmp_path: Path) -> None:
    file = tmp_path / "S.jsonl"
    file.write_bytes(lines([asked("a"), said("b", "Yes")]))
    old = time.time() - RESTED - 60
    os.utime(file, (old, old))
    with trails.open(":memory:") as store:
        assert import_path(store, file, final=False).turns_held == 1
        assert import_path(store, file).turns_added == 1


def test_a_new_copy_of_an_old_file_is_taken_whole_unless_it_ends_with_a_thought(tmp_path: Path) -> None:
    def of_old(records: Sequence[Record]) -> list[Record]:
        return [each | {"timestamp": f"2025-01-01T10:00:{n:02}Z"} for n, each in enumerate(records)]

    file = tmp_path / "S.jsonl"
    thought = {"type": "thinking", "thinking": "Hm", "signature": "s"}
    for end, held in ((said("b", "Yes"), 0), (said("b", call("t")), 0), (said("b", thought), 1)):
        file.write_bytes(lines(of_old([asked("a"), end])))
        with trails.open(":memory:") as store:
            assert import_path(store, file).turns_held == held


def test_a_real_file_that_was_just_copied_is_taken_whole(shared: Path, tmp_path: Path) -> None:
    for file, name in real_files(shared, long=False):
        copy = tmp_path / file.name
        copy.write_bytes(file.read_bytes())
        with trails.open(":memory:") as store:
            assert import_path(store, copy, format=name).turns_held == 0, file.name


def test_the_age_that_counts_is_that_of_the_sessions_own_file(tmp_path: Path) -> None:
    live = [asked("a"), said("b", "Hm", None, "O")]
    live = [each | {"sessionId": "L", "uuid": f"l{each['uuid']}", "parentUuid": None} for each in live]
    (tmp_path / "S.jsonl").write_bytes(lines([asked("a"), said("b", "Yes")]))
    (tmp_path / "L.jsonl").write_bytes(lines(live))
    old = time.time() - RESTED - 60
    os.utime(tmp_path / "S.jsonl", (old, old))
    with trails.open(":memory:") as store:
        report = import_path(store, tmp_path)
        assert (len(store.load("claude-code:S")), len(store.load("claude-code:L")), report.turns_held) == (2, 1, 1)


def test_a_message_that_another_session_goes_on_from_is_whole(tmp_path: Path) -> None:
    (tmp_path / "S.jsonl").write_bytes(lines([asked("a"), said("b", "Yes")]))
    (tmp_path / "R.jsonl").write_bytes(lines([asked("c") | {"sessionId": "R"}]))
    with trails.open(":memory:") as store:
        report = import_path(store, tmp_path)
        assert report.turns_held == 0
        assert [turn.role for turn in store.load("claude-code:R").turns] == ["user", "assistant", "user"]


def used(one: Record, **usage: Any) -> Record:
    return one | {"message": one["message"] | {"usage": usage, "model": "m"}}


def test_what_is_counted_with_a_part_of_a_message_is_not_counted_with_its_rest(tmp_path: Path) -> None:
    file = tmp_path / "S.jsonl"
    first = used(said("b", "I look", "tool_use"), input_tokens=812, output_tokens=14, cost={"total": 0.1})
    grown = used(said("c", call("t"), "tool_use"), input_tokens=812, output_tokens=61, cost={"total": 0.3})
    states = [[asked("a"), first], [asked("a"), first, grown], [asked("a"), first, grown, said("d", "Ok", None, "N")]]
    with trails.open(":memory:") as store:
        notes = []
        for state in states:
            file.write_bytes(lines(state))
            notes += import_path(store, file, final=True).notes
        turns = store.load("claude-code:S").turns
        assert [turn.usage for turn in turns] == [
            {},
            {"input_tokens": 812, "output_tokens": 14, "cost": {"total": 0.1}},
            {"input_tokens": 0, "output_tokens": 47, "cost": {"total": 0.2}},
            {},
        ]
        [row] = store.stats(by="session")
        assert (row.input_tokens, row.output_tokens) == (812, 61)
        assert [note[:50] for note in notes] == ["claude-code:S: 1 turn(s) had been imported in part"]


def test_the_rest_of_a_message_whose_usage_was_told_in_full_is_no_second_call(tmp_path: Path) -> None:
    file = tmp_path / "S.jsonl"
    each = [said("b", call("t"), "tool_use"), said("c", call("s"), "tool_use")]
    parts = [used(part, input_tokens=3, output_tokens=9) for part in each]
    with trails.open(":memory:") as store:
        for state in (parts[:1], parts, parts):
            file.write_bytes(lines([asked("a"), *state]))
            import_path(store, file, final=True)
        [row] = store.stats(by="session")
        assert (row.turns, row.calls, row.input_tokens, row.output_tokens) == (3, 1, 3, 9)
        assert [turn.meta.get("stop_reason") for turn in store.load("claude-code:S").turns] == [None, None, "tool_use"]


def test_usage_that_counts_here_otherwise_than_the_source_tells_it_is_told(tmp_path: Path) -> None:
    file = tmp_path / "S.jsonl"
    with trails.open(":memory:") as store:
        told = []
        for output in (9, 9, 7, 11):
            file.write_bytes(lines([asked("a"), used(said("b", "Yes", "end_turn"), output_tokens=output)]))
            told.append([note[:46] for note in import_path(store, file, final=True).notes])
        otherwise = ["claude-code:S: the source tells the usage of 1"]
        assert told == [[], [], otherwise, otherwise]


def test_a_sub_agents_last_message_is_whole_once_the_agent_has_answered(tmp_path: Path) -> None:
    agent = [asked("a"), said("b", "Done", None, "A")]
    agent = [each | {"isSidechain": True, "agentId": "x", "uuid": f"x{each['uuid']}"} for each in agent]
    agent[0]["parentUuid"], agent[1]["parentUuid"] = None, "xa"
    own = [asked("a"), said("b", call("t"), "tool_use")]
    folder = tmp_path / "S" / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-x.jsonl").write_bytes(lines(agent))
    (tmp_path / "S.jsonl").write_bytes(lines(own))
    with trails.open(":memory:") as store:
        assert import_path(store, tmp_path / "S.jsonl").turns_held == 2  # the agent's, and the call that started it
        answered = [*own, result("c", "t") | {"toolUseResult": {"agentId": "x"}}, said("d", "So", "end_turn", "N")]
        (tmp_path / "S.jsonl").write_bytes(lines(answered))
        assert import_path(store, tmp_path / "S.jsonl").turns_held == 0
        assert len(store.load("claude-code:S:agent-x")) == 2


def test_the_command_says_what_was_kept_back_and_takes_it_when_asked(tmp_path: Path) -> None:
    file, store = tmp_path / "S.jsonl", tmp_path / "store.trails"
    file.write_bytes(lines([asked("a"), said("b", "Yes")]))

    def run(*more: str) -> tuple[str, str]:
        done = invoke("import", file, *more, store=store)
        return ok(done), done.stderr

    out, err = run("--create", "-v")
    assert "imported 1 turn from 1 file" in out
    assert "1 turn(s) at the end of" in err
    assert "--final" in err
    assert json.loads(run("--json")[0])["turns_held"] == 1
    assert "imported 1 turn from 1 file" in run("--final")[0]


# --- Codex and Gemini CLI


def line(kind: str, **payload: Any) -> Record:
    return {"timestamp": 0, "type": kind, "payload": payload}


def item(kind: str, **more: Any) -> Record:
    return line("response_item", type=kind, **more)


def event(kind: str, **more: Any) -> Record:
    return line("event_msg", type=kind, **more)


def count(total: int) -> Record:
    return event(
        "token_count", info={"total_token_usage": {"total_tokens": total}, "last_token_usage": {"total_tokens": total}}
    )


def spoken(role: str, text: str, **more: Any) -> Record:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}], **more)


ROLLOUT = [
    line("session_meta", id="T"),
    event("user_message", message="Do it"),
    spoken("user", "Do it", id="u1"),
    event("agent_reasoning", text="Hm"),
    item("reasoning", summary=[{"type": "summary_text", "text": "Hm"}]),
    item("function_call", name="ls", arguments="{}", call_id="c1"),
    item("function_call_output", call_id="c1", output="a"),
    count(10),
    item("function_call", name="cat", arguments="{}", call_id="c2"),
    count(25),
    item("function_call_output", call_id="c2", output="b"),
    event("agent_message", message="Done"),
    spoken("assistant", "Done", phase="final"),
    count(31),
    event("task_complete", last_agent_message="Done"),
    event("user_message", message="Again"),
    spoken("user", "Again"),
    event("agent_message", message="Yes"),
    spoken("assistant", "Yes"),
]


def test_a_rollout_that_was_cut_after_any_line_and_grew_is_as_if_it_came_whole(tmp_path: Path) -> None:
    file = tmp_path / "rollout-1.jsonl"
    whole = imported(file, lines(ROLLOUT))
    assert [[turn[0], turn[3].get("total_tokens")] for turn in whole[0]] == [
        ["user", None], ["assistant", None], ["assistant", 10], ["tool", None], ["assistant", 25], ["tool", None],
        ["assistant", 31], ["user", None],
    ]  # fmt: skip
    for cut in range(1, len(ROLLOUT)):
        assert imported(file, lines(ROLLOUT[:cut]), lines(ROLLOUT)) == whole, cut
    assert imported(file, *(lines(ROLLOUT[: n + 1]) for n in range(len(ROLLOUT)))) == whole
    with trails.open(":memory:") as store:
        file.write_bytes(lines(ROLLOUT[:15]))
        assert import_path(store, file).turns_held == 0  # the task is complete
        file.write_bytes(lines(ROLLOUT))
        assert import_path(store, file).turns_held == 1
        assert import_path(store, file, final=True).turns_added == 1


def test_a_chat_whose_last_calls_go_on_keeps_them_back_until_they_have_ended(tmp_path: Path) -> None:
    def chat(*states: str) -> bytes:
        calls: list[Record] = [
            {"id": f"c{n}", "name": "ls", "args": {}, "status": state} for n, state in enumerate(states)
        ]
        for each in calls:
            if each["status"] == "success":
                each["result"] = [{"text": "x"}]
        messages = [
            {"id": "q", "type": "user", "content": "Do"},
            {"id": "a", "type": "gemini", "content": "I look", "toolCalls": calls},
        ]
        return json.dumps({"sessionId": "S", "projectHash": "p", "messages": messages}).encode()

    file = tmp_path / "session-1.json"
    whole = imported(file, chat("success", "success"))
    assert len(whole[0]) == 3
    assert imported(file, chat("success", "executing"), chat("success", "success")) == whole
    assert imported(file, chat("scheduled"), chat("success", "awaiting_approval"), chat("success", "success")) == whole
