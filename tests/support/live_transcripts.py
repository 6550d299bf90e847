"""Transcripts as running agents write them, record by record."""

from __future__ import annotations

import json
from datetime import UTC, datetime
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
