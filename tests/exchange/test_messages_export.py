"""Sessions as JSON lines that chat models are tuned on: a line a branch, whole, with its calls and its tools."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import grown
from trails import Repository
from trails.exchange.exporters.session_family import SessionExport
from trails.exchange.file_import import export_session, import_bytes, import_path

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]


def lines(store: Repository, session: str = "plan", *, forks: bool = True) -> tuple[list[Any], SessionExport]:
    out = io.BytesIO()
    report = export_session(store, session, "messages", out, forks=forks)
    return [json.loads(line) for line in out.getvalue().splitlines()], report


def test_each_branch_is_a_line_with_its_whole_transcript(store: Repository) -> None:
    grown(store)
    found, report = lines(store)
    assert [[(m["role"], m["content"]) for m in line["messages"]] for line in found] == [
        [("user", "a"), ("user", "b"), ("user", "c")],
        [("user", "a"), ("user", "b"), ("assistant", "x")],
        [("user", "a"), ("user", "y")],
    ]
    assert report.sessions == ("plan", "other", "deep")
    assert len(lines(store, "deep", forks=False)[0]) == 1


def test_calls_answers_the_system_prompt_and_tools_stand_where_openai_has_them(memory: Repository) -> None:
    session = memory.create(id="plan", system="Be terse.", meta={"tools": TOOLS, "cwd": "/home"})
    session.append("user", "Weather in Oslo?")
    session.append("assistant", "", tool_calls=[{"id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'}])
    session.append("tool", "2 C", tool_call_id="c1")
    session.append("assistant", [{"type": "thinking", "thinking": "cold"}, {"type": "text", "text": "2 degrees."}])
    session.persist()
    (line,), report = lines(memory)
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    assert line == {
        "messages": [
            {"role": "system", "content": "Be terse."},
            {"role": "user", "content": "Weather in Oslo?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "2 C"},
            {"role": "assistant", "content": "2 degrees."},
        ],
        "tools": TOOLS,
    }
    assert report.left_out[1:] == ("1 part: thought by a model and not said",)


def test_what_a_line_cannot_say_is_counted(memory: Repository) -> None:
    session = memory.create(id="plan")
    session.append("user", "secret")
    session.append("assistant", "", tool_calls=[{"id": "c1", "name": "weather", "arguments": "{}"}])
    session.append("delivery", "sent")
    session.append("summary", "All of it.")
    session.persist()
    memory.redact("plan", 0)
    session.fork(at=0, id="empty").persist()
    (line,), report = lines(memory)
    assert [message["role"] for message in line["messages"]] == ["user", "assistant"]
    assert line["messages"][0]["content"] == "[redacted]"
    assert report.left_out[1:] == (
        "1 session: without a message, so without a line",
        "1 summary turn: what they stand for is there itself",
        "1 turn: nothing in it that a model is shown",
        "1 redacted turn: [redacted] stands there",
        "1 unanswered tool call: called, and never answered",
        "1 tool-calling session: without definitions of the tools",
    )


def test_a_line_is_a_line_whatever_breaks_stand_in_a_text(memory: Repository) -> None:
    session = memory.create(id="plan")
    session.append("user", "one\ntwo\r\u2028three\x00")
    session.persist()
    out = io.BytesIO()
    export_session(memory, "plan", "messages", out)
    assert out.getvalue().count(b"\n") == 1
    assert json.loads(out.getvalue())["messages"] == [{"role": "user", "content": "one\ntwo\r\u2028three\x00"}]


@pytest.mark.parametrize(("name", "others"), [("toy_chat_fine_tuning.jsonl", []), ("openai_tools.jsonl", [1, 3])])
def test_lines_that_came_in_go_back_equal(shared: Path, memory: Repository, name: str, others: list[int]) -> None:
    """But for a message without `content`, which says null then, and for the old `function_call`, which is a tool call."""
    file = shared / "data" / "research" / "messages" / name
    came = [json.loads(line) for line in file.read_text().splitlines() if line]
    import_path(memory, file)
    found = [line for twig in memory.forest() for line in lines(memory, twig.node.id, forks=False)[0]]
    assert len(found) == len(came)
    assert [place for place, line in enumerate(came) if line not in found] == others


def openai_call(arguments: str, **more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}, **more}


@pytest.mark.parametrize(
    "message",
    [
        {"content": "", "tool_calls": [openai_call("{}")]},
        {"content": None, "tool_calls": [openai_call("{}")]},
        {"content": None, "tool_calls": [openai_call("")]},
        {"content": None, "tool_calls": [openai_call("no JSON")]},
        {"content": None, "tool_calls": [openai_call('"a text"')]},
        {"content": None, "tool_calls": [openai_call('"no end')]},
        {"content": None, "tool_calls": [openai_call("{}", index=0)]},
        {"content": "Sorry", "refusal": "no"},
        {"content": "", "refusal": "no"},
        {"content": None, "refusal": "no"},
    ],
)
def test_a_message_comes_back_as_it_was(memory: Repository, message: dict[str, Any]) -> None:
    record = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", **message}]}
    import_bytes(memory, json.dumps(record).encode())
    [session] = memory.list()
    assert lines(memory, session.id)[0] == [record]


def test_two_sessions_that_call_tools_are_named_in_the_plural(memory: Repository) -> None:
    session = memory.create(id="plan")
    session.append("assistant", "", tool_calls=[{"id": "c1", "name": "f", "arguments": "{}"}])
    session.persist()
    session.fork(id="other").persist()
    assert "2 tool-calling sessions: without definitions of the tools" in lines(memory)[1].left_out


def test_a_line_is_one_for_readers_too_that_end_lines_at_more_than_lf(memory: Repository) -> None:
    text = "a\u2028b\u2029c\x85d"
    with memory.session("plan") as plan:
        plan.append("user", text)
    out = io.BytesIO()
    export_session(memory, "plan", "messages", out)
    [line] = out.getvalue().decode().splitlines()
    assert json.loads(line)["messages"][0]["content"] == text
