"""Transcripts as running agents write them, record by record."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any


def claude_records(session: str, count: int, *, start: int = 0) -> list[dict[str, Any]]:
    """Records of Claude Code, in turns of a prompt, a call, its result and an answer, each following the one before."""
    return [_claude_record(session, number) for number in range(start, start + count)]


def _claude_record(session: str, number: int) -> dict[str, Any]:
    kind, message = _message(session, number)
    return {
        "parentUuid": f"{session}-{number - 1}" if number else None,
        "isSidechain": False,
        "cwd": "/home/alice/site",
        "version": "2.1.200",
        "sessionId": session,
        "type": kind,
        "message": message,
        "uuid": f"{session}-{number}",
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }


def _message(session: str, number: int) -> tuple[str, dict[str, Any]]:
    usage = {"input_tokens": 10, "output_tokens": 4}
    call = f"call-{session}-{number - number % 4 + 1}"
    match number % 4:
        case 0:
            return "user", {"role": "user", "content": f"Question {number} of {session}"}
        case 1:
            part = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": f"ls {number}"}}
        case 2:
            result = {"type": "tool_result", "tool_use_id": call, "content": f"file-{number}"}
            return "user", {"role": "user", "content": [result]}
        case _:
            part = {"type": "text", "text": f"Answer {number} of {session}"}
    stop = "tool_use" if number % 4 == 1 else "end_turn"
    about = {"id": f"msg-{session}-{number}", "type": "message", "role": "assistant", "model": "m-1"}
    return "assistant", {**about, "content": [part], "stop_reason": stop, "usage": usage}


def write_records(file: Path, records: list[dict[str, Any]]) -> None:
    """Append records to a file, each with one write, as agents do."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab", buffering=0) as out:
        for record in records:
            out.write(json.dumps(record).encode() + b"\n")


def codex_records(thread: str, turns: int, *, start: int = 0) -> list[dict[str, Any]]:
    """Lines of a rollout of Codex, after its header: turns of a question, a call, its output and an answer."""
    return [line for number in range(start, start + turns) for line in _codex_turn(thread, number)]


def codex_header(thread: str) -> dict[str, Any]:
    """The first line of a rollout."""
    return _codex_line(
        0, 0, "session_meta", {"id": thread, "timestamp": "2026-05-01T10:00:00.000Z", "cwd": "/home/alice"}
    )


def _codex_line(turn: int, place: int, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    when = datetime(2026, 5, 1, 10, tzinfo=UTC) + timedelta(seconds=turn, milliseconds=place)
    return {
        "timestamp": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "type": kind,
        "payload": payload,
    }


def _codex_turn(thread: str, turn: int) -> list[dict[str, Any]]:
    usage = {"input_tokens": 10 + turn, "cached_input_tokens": 0, "output_tokens": 4, "total_tokens": 14 + turn}
    call = f"call-{turn}"
    told = [
        ("event_msg", {"type": "task_started", "turn_id": f"{turn}"}),
        ("turn_context", {"cwd": "/home/alice", "model": f"m-{turn // 10}"}),
        ("response_item", _codex_message("user", "input_text", f"Question {turn}")),
        ("event_msg", {"type": "user_message", "message": f"Question {turn}"}),
        ("response_item", {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": call}),
        ("response_item", {"type": "function_call_output", "call_id": call, "output": f"file-{turn}"}),
        ("response_item", _codex_message("assistant", "output_text", f"Answer {turn} of {thread}")),
        ("event_msg", {"type": "agent_message", "message": f"Answer {turn} of {thread}"}),
        ("event_msg", {"type": "token_count", "info": {"last_token_usage": usage}}),
        ("event_msg", {"type": "task_complete", "turn_id": f"{turn}"}),
    ]
    return [_codex_line(turn, place, kind, payload) for place, (kind, payload) in enumerate(told)]


def _codex_message(role: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def pi_records(session: str, turns: int) -> list[dict[str, Any]]:
    """All lines of a session file of pi: its header, and turns of a question and an answer, with changes of the model."""
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": session, "timestamp": "2026-05-01T10:00:00.000Z", "cwd": "/home/alice"}
    ]
    for turn in range(turns):
        if turn % 10 == 5:
            lines.append(_pi_line(lines, {"type": "model_change", "provider": "p", "modelId": f"m-{turn}"}))
        asked = {"role": "user", "content": f"Question {turn}"}
        said = {"role": "assistant", "content": [{"type": "text", "text": f"Answer {turn}"}], "stopReason": "stop"}
        for message in (asked, {**said, "model": "m-1", "usage": {"input": 10, "output": turn}}):
            lines.append(_pi_line(lines, {"type": "message", "message": message}))
    return lines


def _pi_line(before: list[dict[str, Any]], told: dict[str, Any]) -> dict[str, Any]:
    place = len(before)
    when = datetime(2026, 5, 1, 10, tzinfo=UTC) + timedelta(seconds=place)
    parent = None if place == 1 else before[-1]["id"]
    stamp = when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"id": f"{place:08x}", "parentId": parent, "timestamp": stamp, **told}
