"""Conversations as records: each is a session, calls and answers without ids are paired in order, a preference is a fork."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.machines import examples
from trails import Repository
from trails.exchange.chats import message_lists
from trails.exchange.file_import import import_bytes, import_path
from trails.exchange.formats import format_named
from trails.exchange.source_transcript import SourceSession, Transcript

FILES = ("openai_tools.jsonl", "reason_tool_use.jsonl", "sharegpt_tools.json", "toy_chat_fine_tuning.jsonl")


def parsed(*records: Any) -> Transcript:
    return format_named("messages").read([("file", "\n".join(json.dumps(record) for record in records).encode())])


def only(record: Any) -> SourceSession:
    [session] = parsed(record).sessions
    return session


@pytest.mark.parametrize("name", FILES)
def test_a_real_file_has_the_conversations_messages_and_calls_that_were_counted(shared: Path, name: str) -> None:
    counted = json.loads((shared / "data/research/data_research_expectations.json").read_text())[f"messages/{name}"]
    data = (shared / "data/research/messages" / name).read_bytes()
    assert message_lists.sniff(data[: 1 << 16])
    found = format_named("messages").read([(name, data)])
    assert not found.problems
    assert [len(session.paths[0]) for session in found.sessions] == counted["lengths"]
    assert found.records == {"record": counted["conversations"], **counted["roles"]}
    turns = [turn for session in found.sessions for turn in session.paths[0]]
    told = counted["function_call_messages"] + counted.get("deprecated_function_calls", 0)
    calls = sum(counted["tool_calls"].values()) + counted["content_part_kinds"].get("tool_call", 0)
    assert sum(len(turn.tool_calls) for turn in turns) == told + calls
    assert sum(turn.tool_call_id is not None for turn in turns) == counted["tool_results"]
    assert sum("tools" in session.meta for session in found.sessions) <= counted["records_with_tools"]


def test_importing_a_file_again_adds_nothing_and_a_grown_one_its_new_records(store: Repository, tmp_path: Path) -> None:
    one, other = ({"messages": [{"role": "user", "content": text}]} for text in ("a", "b"))
    file = tmp_path / "train.jsonl"
    file.write_text(json.dumps(one))
    first = import_path(store, file)
    file.write_text(f"{json.dumps(other)}\n{json.dumps(one)}\n")
    again = import_path(store, file)
    assert (len(first.sessions_created), len(again.sessions_created), again.turns_added) == (1, 1, 1)
    assert again.unchanged == first.sessions_created


def test_records_that_say_the_same_are_sessions_of_their_own() -> None:
    record = {"messages": [{"role": "user", "content": "a"}]}
    found = parsed(record, record)
    assert len({session.id for session in found.sessions}) == 2
    assert "1 record(s) say the same as one before, and are sessions of their own" in found.notes


def test_sharegpt_has_its_roles_calls_and_answers_as_others_have_them() -> None:
    call = json.dumps([{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}])
    session = only(
        {
            "system": "Be terse.",
            "conversations": [
                {"from": "human", "value": "hi"},
                {"from": "function_call", "value": call},
                {"from": "observation", "value": "1"},
                {"from": "observation", "value": "2"},
                {"from": "gpt", "value": "done"},
            ],
        }
    )
    assert session.system == "Be terse."
    assert [turn.role for turn in session.paths[0]] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [call["name"] for call in session.paths[0][1].tool_calls] == ["f", "g"]
    assert [turn.tool_call_id for turn in session.paths[0]] == [None, None, "call-1", "call-2", None]


def test_an_answer_is_not_taken_for_one_to_calls_that_others_were_answered_after() -> None:
    def asks() -> dict[str, str]:
        return {"from": "function_call", "value": json.dumps([{"name": "f"}, {"name": "g"}])}

    said = [asks(), {"from": "observation", "value": "both"}, asks(), {"from": "observation", "value": "both"}]
    path = only({"conversations": said}).paths[0]
    assert [turn.tool_call_id for turn in path] == [None, "call-1", None, "call-3"]


def test_a_call_that_names_no_tool_stays_a_text() -> None:
    found = parsed({"conversations": [{"from": "function_call", "value": "run it"}]})
    assert found.sessions[0].paths[0][0].content == "run it"
    assert "1 call(s) are told as a text that names no tool; the text is kept" in found.notes


def test_what_a_record_prefers_and_what_not_are_two_endings(memory: Repository) -> None:
    user = {"role": "user", "content": "hi"}
    good, bad = ({"role": "assistant", "content": text} for text in ("good", "bad"))
    shapes = (
        {"messages": [user], "chosen": good, "rejected": bad},
        {"chosen": [user, good], "rejected": [user, bad]},
        {"input": {"messages": [user]}, "preferred_output": [good], "non_preferred_output": [bad]},
    )
    for shape in shapes:
        main, fork = only(shape).paths
        assert [turn.content for turn in (*main, *fork)] == ["hi", "good", "hi", "bad"]
        assert main[0] is fork[0]
    report = import_bytes(memory, json.dumps(shapes[0]).encode())
    [fork_id] = report.forks_created
    assert memory.load(fork_id).forked_at_index == 1


def test_a_weight_a_name_and_a_refusal_are_kept() -> None:
    said = {"role": "assistant", "content": None, "refusal": "no", "weight": 0, "name": "bot"}
    [turn] = only({"messages": [said]}).paths[0]
    assert (turn.content, turn.meta) == ([{"type": "refusal", "refusal": "no"}], {"weight": 0, "name": "bot"})


def test_what_is_no_record_or_message_is_reported_and_the_rest_is_read() -> None:
    found = parsed({"messages": [{"role": "user", "content": "a"}, {"content": "b"}, 7]}, {"text": "c"})
    assert [len(session.paths[0]) for session in found.sessions] == [1]
    reasons = [problem.reason for problem in found.problems]
    assert reasons == ["message 1 has no role; it has 'content'", "message 2 has no role", reasons[2]]
    assert "holds no conversation" in reasons[2]


@given(data=st.data())
@examples(60)
def test_a_file_cut_anywhere_loses_no_whole_record(data: st.DataObject) -> None:
    whole = "\n".join(json.dumps({"messages": [{"role": "user", "content": str(n)}]}) for n in range(5)).encode()
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    found = format_named("messages").read([("file", cut)])
    assert len(found.sessions) >= cut.count(b"\n")
    assert len(found.sessions) + len(found.problems) == max(1, cut.count(b"\n") + bool(cut.rpartition(b"\n")[2]))


# --- messages of other frameworks

SHAPES: dict[str, dict[str, list[Any]]] = json.loads(
    Path(__file__).with_name("samples").joinpath("message_shapes.json").read_text("utf-8")
)
"""Messages of each framework, and of each turn that they make: its role, the tool it calls, the call it answers."""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", ["record", "bare", "lines", "bare lines"])
def test_messages_of_each_framework_make_turns_with_their_calls_and_results(
    memory: Repository, shape: str, layout: str
) -> None:
    given, expected = SHAPES[shape]["messages"], SHAPES[shape]["turns"]
    data = {
        "record": json.dumps({"messages": given}),
        "bare": json.dumps(given, indent=1),
        "lines": "\n".join(map(json.dumps, given)),
        "bare lines": f"{json.dumps(given)}\n{json.dumps([*given, {'role': 'user', 'content': 'more'}])}",
    }[layout]
    format_ = "messages" if shape == "a role of its own" else None
    report = import_bytes(memory, data.encode(), format=format_)
    assert not report.problems
    assert len(report.sessions_created) == (2 if layout == "bare lines" else 1)
    turns = memory.load(report.sessions_created[0]).turns
    made = [
        [
            turn.role,
            next((call.name for call in turn.tool_calls), None),
            next((each.call_id for each in turn.tool_results), None),
        ]
        for turn in turns
    ]
    assert made == expected
    calls = [call for turn in turns for call in turn.tool_calls if call.name == "ls"]
    assert all(json.loads(call.arguments or "") in ({"path": "/"}, "/") for call in calls)


def test_a_failed_call_of_a_ui_message_has_its_error_as_its_result(memory: Repository) -> None:
    failed = {"toolName": "rm", "toolCallId": "c2", "state": "output-error", "errorText": "denied"}
    said = {"role": "assistant", "parts": [{"type": "dynamic-tool", **failed}]}
    report = import_bytes(memory, json.dumps([said]).encode())
    [_, answer] = memory.load(report.sessions_created[0]).turns
    assert (answer.content, answer.tool_results[0].is_error) == ("denied", True)


def test_a_langchain_message_tells_its_model_usage_and_stop_reason() -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    said = {
        "type": "ai",
        "content": "ho",
        "usage_metadata": usage,
        "response_metadata": {"model_name": "m-1", "finish_reason": "stop"},
    }
    [turn] = only({"messages": [said]}).paths[0]
    assert (turn.model, turn.usage, turn.stop_reason) == ("m-1", usage, "stop")


def test_a_bare_list_that_grew_is_the_same_session(memory: Repository) -> None:
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    first = import_bytes(memory, json.dumps(said).encode())
    grown = import_bytes(memory, json.dumps([*said, {"role": "user", "content": "more"}]).encode())
    assert (grown.grown, grown.turns_added) == (first.sessions_created, 1)


UNREAD: tuple[tuple[str, Any, str], ...] = (
    ("no role at all", {"messages": [{"content": "a text without a role"}]}, "has no role; it has 'content'"),
    ("another system's", {"messages": [{"info": {"role": "user"}, "parts": []}]}, "has no role; it has 'info'"),
    ("no messages", {"messages": []}, "holds no message that can be read"),
    ("a list of people", [{"name": "Ann", "role": "admin"}], "holds no conversation"),
)


@pytest.mark.parametrize(("what", "data", "reason"), UNREAD, ids=[each[0] for each in UNREAD])
def test_a_file_of_which_nothing_can_be_read_stores_no_session(
    memory: Repository, what: str, data: Any, reason: str
) -> None:
    assert not message_lists.sniff(json.dumps(data).encode()), what
    report = import_bytes(memory, json.dumps(data).encode(), format="messages")
    assert not list(memory.list())
    assert any(reason in problem.reason for problem in report.problems)
