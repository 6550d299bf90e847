"""Gemini CLI's chats: thoughts, calls and results; a file that was rewritten adds what is new; what was rewound is a fork."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import Repository
from trails.exchange.coding_agents import gemini
from trails.exchange.file_import import import_path
from trails.exchange.merge import merge
from trails.exchange.source_transcript import SourceTurn, Transcript
from trails.model.content_parts import plain_text

Message = dict[str, Any]
HEAD = {"sessionId": "S", "projectHash": "p", "startTime": "2026-01-10T02:08:00.000Z"}


def message(message_id: str, kind: str = "user", content: Any = None, **more: Any) -> Message:
    said = f"text of {message_id}" if content is None else content
    return {"id": message_id, "timestamp": "2026-01-10T02:08:26.108Z", "type": kind, "content": said, **more}


def call(call_id: str, output: Any = "done", status: str = "success", **more: Any) -> Message:
    key = "output" if status == "success" else "error"
    answer = {"functionResponse": {"id": call_id, "name": "ls", "response": {key: output}}}
    made = {"id": call_id, "name": "ls", "args": {"p": "."}, "status": status, "timestamp": "2026-01-10T02:09:00.000Z"}
    return made | ({} if output is None else {"result": [answer]}) | more


def data_of(*messages: Message, **head: Any) -> bytes:
    return json.dumps(HEAD | head | {"messages": list(messages)}, indent=2).encode()


def lines_of(*records: Any) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in (HEAD, *records)).encode()


def parsed(data: bytes, name: str = "session-1.json") -> Transcript:
    return gemini.parse([(name, data)])


def only(*messages: Message) -> tuple[SourceTurn, ...]:
    [session] = parsed(data_of(*messages)).sessions
    [path] = session.paths
    return path


def said(store: Repository, session: str) -> list[tuple[str, str]]:
    return [(turn.role, plain_text(turn.content)) for turn in store.load(session).turns]


# --- turns


def test_a_message_of_gemini_keeps_its_thoughts_its_text_its_calls_and_its_usage() -> None:
    thought = {"subject": "Plan", "description": "first look", "timestamp": "2026-01-10T02:08:30.000Z"}
    tokens = {"input": 12, "output": 3, "total": 15}
    path = only(
        message("q"),
        message("a", "gemini", "Looking", thoughts=[thought], tokens=tokens, model="g", toolCalls=[call("c")]),
    )
    assert [turn.role for turn in path] == ["user", "assistant", "tool"]
    assert path[1].content == [
        {"type": "thought", **thought},
        {"type": "text", "text": "Looking"},
        {"type": "tool_use", "id": "c", "name": "ls", "input": {"p": "."}},
    ]
    assert (path[1].usage, path[1].model) == (tokens, "g")
    assert path[2].content == [{"type": "tool_result", "tool_use_id": "c", "content": "done"}]
    assert plain_text(path[1].content) == 'first look\nLooking\n[calls ls {"p": "."}]'


def test_a_result_that_is_more_than_a_text_stays_as_it_stands_and_one_that_failed_is_an_error() -> None:
    odd = [{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "x", "more": 1}}}]
    calls = [call("c1", result=odd), call("c2", "denied", "error"), call("c3", None, "cancelled"), call("c4", {"a": 1})]
    path = only(message("a", "gemini", "", toolCalls=calls, displayContent="shown"))
    contents: list[Any] = [turn.content for turn in path]
    assert [part["content"] for part in contents[1]] == [odd, "denied", calls[3]["result"]]
    assert [part.get("is_error") for part in contents[1]] == [None, True, None]
    assert [part["id"] for part in contents[0]] == ["c1", "c2", "c3", "c4"]
    assert path[0].meta["displayContent"] == "shown"
    assert path[0].meta["toolCalls"] == [{"id": "c2", "status": "error"}, {"id": "c3", "status": "cancelled"}]


def test_messages_of_the_program_keep_their_type_as_role_and_unknown_ones_are_noted() -> None:
    transcript = parsed(
        data_of(message("i", "info"), message("w", "warning"), message("e", "error"), message("x", "other"))
    )
    assert [turn.role for turn in transcript.sessions[0].paths[0]] == ["info", "warning", "error", "other"]
    assert transcript.notes == ("message 'x' has the unknown type 'other', kept as its role",)


def test_parts_of_the_api_are_kept_and_their_calls_and_results_are_found_and_not_told_twice(store: Repository) -> None:
    asked = {"functionCall": {"id": "c", "name": "ls", "args": {}}}
    answer = {"functionResponse": {"id": "c", "name": "ls", "response": {"output": "f"}}}
    merge(
        store,
        parsed(
            data_of(
                message("a", "gemini", [{"text": "x"}, asked], toolCalls=[call("c")]), message("r", "user", [answer])
            )
        ),
    )
    turns = store.load("gemini-cli:S").turns
    assert [turn.content for turn in turns] == [[{"text": "x"}, asked], [answer]]
    assert ([c.id for c in turns[0].tool_calls], [r.call_id for r in turns[1].tool_results]) == (["c"], ["c"])


# --- files that grow


def test_a_message_that_got_calls_after_it_was_saved_gets_them_as_a_turn_and_is_counted_once(store: Repository) -> None:
    tokens = {"input": 5, "output": 1, "total": 6}
    before = message("a", "gemini", "I look", tokens=tokens)
    merge(store, parsed(data_of(message("q"), before)))
    grown = parsed(data_of(message("q"), before | {"toolCalls": [call("c")]}, message("b", "gemini", "Done")))
    report = merge(store, grown)
    assert (report.grown, report.changed, report.forks_created, report.turns_added) == (["gemini-cli:S"], [], [], 3)
    assert said(store, "gemini-cli:S") == [
        ("user", "text of q"),
        ("assistant", "I look"),
        ("assistant", '[calls ls {"p": "."}]'),
        ("tool", "done"),
        ("assistant", "Done"),
    ]
    assert sum(turn.usage.get("total", 0) for turn in store.load("gemini-cli:S").turns) == 6
    assert merge(store, grown).turns_added == 0


def test_a_later_line_for_a_message_counts_in_place_of_the_earlier_one() -> None:
    saved = message("a", "gemini", "Hi", tokens=None)
    transcript = parsed(
        lines_of(message("q"), saved, {"$set": {"summary": "Greeting"}}, saved | {"toolCalls": [call("c")]})
    )
    [session] = transcript.sessions
    assert [turn.role for turn in session.paths[0]] == ["user", "assistant", "tool"]
    assert session.title == "Greeting"
    assert transcript.records == {"user": 1, "gemini": 1, "$set": 1}


def test_what_is_rewound_or_left_out_of_a_new_list_is_kept_as_a_fork(store: Repository) -> None:
    transcript = parsed(
        lines_of(message("q"), message("a", "gemini"), message("wrong"), {"$rewindTo": "wrong"}, message("right"))
    )
    report = merge(store, transcript)
    assert [text for _, text in said(store, "gemini-cli:S")] == ["text of q", "text of a", "text of right"]
    [fork] = report.forks_created
    assert [text for _, text in said(store, fork)] == ["text of q", "text of a", "text of wrong"]
    assert merge(store, transcript).turns_added == 0
    replaced = parsed(
        lines_of(message("q"), message("a", "gemini"), {"$set": {"messages": [message("s", content="so far")]}})
    )
    assert [[turn.source_ids[0] for turn in path] for path in replaced.sessions[0].paths] == [["s"], ["q", "a"]]
    assert "leaves some out" in replaced.notes[0]


def test_a_sub_agents_chat_belongs_to_the_session_whose_folder_it_stands_in(store: Repository, tmp_path: Path) -> None:
    chats = tmp_path / "chats"
    (chats / "S").mkdir(parents=True)
    (chats / "S" / "W.jsonl").write_bytes(
        json.dumps(HEAD | {"sessionId": "W", "kind": "subagent"}).encode() + b"\n" + json.dumps(message("w")).encode()
    )
    (chats / "session-2026.json").write_bytes(data_of(message("q")))
    (tmp_path / "logs.json").write_text("[]")
    report = import_path(store, tmp_path)
    assert report.sessions_created == ["gemini-cli:S", "gemini-cli:W"]
    assert store.record("gemini-cli:W").spawned_by == "gemini-cli:S"


# --- what cannot be used


def test_of_two_messages_with_one_id_in_a_list_the_last_counts_and_the_other_is_a_problem() -> None:
    transcript = parsed(data_of(message("q"), message("r"), message("q", content="another"), message("r")))
    assert [plain_text(turn.content) for turn in transcript.sessions[0].paths[0]] == ["another", "text of r"]
    [problem] = transcript.problems
    assert problem.reason == "message 3 has the id of an earlier one and takes its place"
    assert "text of q" in problem.text


def test_what_is_no_message_is_a_problem_and_the_others_are_read() -> None:
    bad_call = call("c") | {"id": ""}
    transcript = parsed(
        data_of(
            message("q"), {"id": ""}, {"id": "x"}, message("a", "gemini", toolCalls=[bad_call]), message("b", "no role")
        )
    )
    assert [turn.source_ids[0] for turn in transcript.sessions[0].paths[0]] == ["q", "a"]
    assert [problem.reason.split(":")[0][:40] for problem in transcript.problems] == [
        "message 2 is no message",
        "message 3 ('x') has no type",
        "message 'a' has a tool call without an i",
        "message 'b' cannot be kept",
    ]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"sessionId": "", "projectHash": "p"}', b"[1]", b'{"messages": []}'])
def test_a_file_without_a_session_is_a_problem(data: bytes) -> None:
    transcript = parsed(data)
    assert transcript.sessions == ()
    assert transcript.problems[-1].reason == "is no chat of Gemini CLI: it says no sessionId"


# --- real and random files


def test_the_real_chats_have_the_counts_that_were_taken_independently(shared: Path, store: Repository) -> None:
    cases = json.loads((shared / "cases" / "data_other_expectations.json").read_text())["gemini-cli-json"]
    for name, facts in cases.items():
        with trails.open(":memory:") as fresh:
            for held in (fresh, store):  # alone, and where an earlier state of the same chat may be already
                report = import_path(held, shared / "data" / "gemini-cli-json" / name)
                assert (report.problems, report.changed, report.forks_created) == ([], [], [])
                assert report.records == facts["types"]
                turns = held.load(f"gemini-cli:{facts['sessionId']}").turns
                assert len({call.id for turn in turns for call in turn.tool_calls}) == facts["toolCalls"]
                results = [result for turn in turns for result in turn.tool_results]
                assert (
                    Counter("error" if result.is_error else "success" for result in results) == facts["toolCallStatus"]
                )
                assert sum(turn.usage.get("total", 0) for turn in turns) == facts["tokens_total"]
                assert {turn.model for turn in turns if turn.model} == set(facts["models"])
                assert import_path(held, shared / "data" / "gemini-cli-json" / name).turns_added == 0
            assert (
                Counter(t.role for t in fresh.load(f"gemini-cli:{facts['sessionId']}").turns)["assistant"]
                == facts["types"]["gemini"]
            )
    assert store.verify().ok


def test_two_states_of_one_chat_in_a_folder_are_one_session(store: Repository, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.json").write_bytes(data_of(message("q"), message("a", "gemini")))
    (tmp_path / "a" / "2.json").write_bytes(data_of(message("q")))
    report = import_path(store, tmp_path / "a")
    assert (report.sessions_created, report.turns_added) == (["gemini-cli:S"], 2)


GROWN = (
    [message("q")],
    [message("q"), message("a", "gemini", "I look")],
    [message("q"), message("a", "gemini", "I look", toolCalls=[call("c", None, "executing")])],
    [message("q"), message("a", "gemini", "I look", toolCalls=[call("c"), call("d", None, "scheduled")])],
    [message("q"), message("a", "gemini", "I look", toolCalls=[call("c"), call("d")]), message("r")],
    [
        message("q"),
        message("a", "gemini", "I look", toolCalls=[call("c"), call("d")]),
        message("r"),
        message("b", "gemini"),
    ],
)
"""A chat as it was saved six times, each on top of the one before."""


def states(folder: Path) -> list[Path]:
    folder.mkdir()
    for number, messages in enumerate(GROWN):
        name = folder / f"{'fbdace'[number]}.json"  # in no order of time
        name.write_bytes(data_of(*messages, lastUpdated=f"2026-01-10T02:0{number}:00.000Z"))
    return [folder / f"{letter}.json" for letter in "fbdace"]


def told(store: Repository) -> list[tuple[str, Any]]:
    return [(turn.role, turn.content) for turn in store.load("gemini-cli:S").turns]


def test_states_of_a_chat_in_one_folder_come_to_what_the_last_of_them_alone_says(tmp_path: Path) -> None:
    files = states(tmp_path / "chats")
    with trails.open(":memory:") as alone, trails.open(":memory:") as store:
        import_path(alone, files[-1])
        report = import_path(store, tmp_path / "chats")
        assert told(store) == told(alone)
        assert (report.sessions_created, report.forks_created, report.changed) == (["gemini-cli:S"], [], [])
        assert len(report.notes) == 5  # one for each state but the last
        assert import_path(store, tmp_path / "chats").turns_added == 0


def test_an_earlier_state_that_is_imported_after_a_later_one_adds_nothing_and_is_told(tmp_path: Path) -> None:
    files = states(tmp_path / "chats")
    with trails.open(":memory:") as store:
        import_path(store, files[-1])
        before = told(store)
        for file in files[::-1]:
            report = import_path(store, file)
            assert (report.turns_added, report.forks_created, report.changed) == (0, [], [])
            assert report.unchanged == ["gemini-cli:S"]
        assert told(store) == before
        assert [record.id for record in store.list()] == ["gemini-cli:S"]
        told_at = (
            "a state of the source (saved 2026-01-10T02:02:00+00:00) holds nothing that is not here; nothing was added"
        )
        assert import_path(store, files[2]).notes == [f"gemini-cli:S: {told_at}"]
        assert import_path(store, files[-1]).notes == []


@pytest.mark.parametrize("order", [(5, 0, 3), (2, 5, 4), (1, 4, 3, 2), (3, 1, 5, 0, 4, 2), (4, 5, 1), (0, 2, 1, 5, 3)])
def test_states_in_any_order_make_no_fork_and_lose_nothing(order: tuple[int, ...], tmp_path: Path) -> None:
    files = states(tmp_path / "chats")
    with trails.open(":memory:") as store:
        for number in order:
            report = import_path(store, files[number])
            assert (report.forks_created, report.changed) == ([], [])
        turns = store.load("gemini-cli:S").turns
        calls = sorted(c.id for turn in turns for c in turn.tool_calls)
        results = sorted(r.call_id for turn in turns for r in turn.tool_results)
        assert (calls, results) == ((["c", "d"], ["c", "d"]) if max(order) > 3 else (["c"], ["c"]))
        assert store.verify().ok


def test_an_earlier_state_with_what_was_taken_back_later_is_a_fork_still(tmp_path: Path) -> None:
    first, last = tmp_path / "1.json", tmp_path / "2.json"
    first.write_bytes(data_of(message("q"), message("wrong"), lastUpdated="2026-01-10T02:01:00.000Z"))
    last.write_bytes(data_of(message("q"), message("right"), lastUpdated="2026-01-10T02:02:00.000Z"))
    with trails.open(":memory:") as store:
        report = import_path(store, tmp_path)
        assert said(store, "gemini-cli:S") == [("user", "text of q"), ("user", "text of right")]
        [fork] = report.forks_created
        assert said(store, fork) == [("user", "text of q"), ("user", "text of wrong")]
        assert import_path(store, first).turns_added == 0


def test_an_earlier_state_that_said_something_else_is_kept() -> None:
    def state(content: str, minute: int) -> Transcript:
        return parsed(data_of(message("a", "gemini", content), lastUpdated=f"2026-01-10T02:0{minute}:00.000Z"))

    with trails.open(":memory:") as store:
        merge(store, state("all of it", 2))
        [changed] = merge(store, state("all", 1)).changed
        assert said(store, changed) == [("assistant", "all")]
