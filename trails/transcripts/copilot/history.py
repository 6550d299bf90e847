"""The files of Copilot CLI's first versions: `~/.copilot/history-session-state/<session>.json`, each rewritten on each save.

`chatMessages` are the messages that the model was shown, in OpenAI's shape, without ids and times: a message is named by its
place. `timeline` is what a user was shown. It repeats them: what it says beyond them stands in the metadata of the last turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trails.transcripts import checked, duplicates, jsonl, outline
from trails.transcripts.checked import Reading
from trails.transcripts.source import Piece, Problem, SourceSession, SourceTurn

SOURCE: Final = "copilot-cli"
META: Final = "copilot"
_OWN: Final = frozenset({"sessionId", "startTime", "chatMessages", "timeline"})
_MESSAGE_OWN: Final = frozenset({"role", "content", "tool_calls", "tool_call_id"})


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is such a file."""
    first = outline.of_first(head)
    return first.keys() >= {"sessionId"} and bool(first.keys() & {"chatMessages", "timeline"})


def read(name: str, data: bytes) -> Reading:
    """Return what a file says."""
    reading = Reading()
    held = jsonl.read_object(data, notes=reading.notes)
    if isinstance(held, Problem):
        reading.problems.append(held)
        return reading
    session_id, messages = held.get("sessionId"), held.get("chatMessages", [])
    if not isinstance(session_id, str) or not session_id or not isinstance(messages, list):
        reading.refuse(0, "is no session of Copilot CLI: it has no sessionId, or no list of messages", held)
        return reading
    turns: list[SourceTurn] = []
    for n, message in enumerate(messages):
        reading.count("message")
        turn = _turn(f"{session_id}/{n}", message) if isinstance(message, dict) else None
        reason = "has no role" if turn is None else checked.fault(turn)
        if turn is None or reason is not None:
            reading.refuse(0, f"message {n} cannot be kept: {reason}", message)
        else:
            turns.append(turn)
    meta = {key: value for key, value in held.items() if key not in _OWN}
    if left := duplicates.with_more(held.get("timeline"), messages):
        if turns:
            turns[-1] = _with(turns[-1], left)
        else:
            meta["timeline"] = left
    reading.sessions.append(
        SourceSession(
            source=SOURCE,
            id=session_id,
            paths=(tuple(turns),),
            created=checked.text_time(held.get("startTime")),
            agent=SOURCE,
            meta=reading.meta(0, checked.filled(meta)),
            open_in=name,
        )
    )
    return reading


def _turn(own: str, message: Mapping[str, Any]) -> SourceTurn | None:
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        return None
    left = {key: value for key, value in message.items() if key not in _MESSAGE_OWN}
    calls = message.get("tool_calls")
    parts: list[Any] = [] if content in (None, "") else [content] if not isinstance(content, list) else content
    parts = [{"type": "text", "text": each} if isinstance(each, str) else each for each in parts]
    for call in calls if isinstance(calls, list) else []:
        made = _call(call)
        if made is not None:
            parts.append(made)
        else:
            left.setdefault("tool_calls", []).append(call)
    if not all(isinstance(each, dict) for each in parts):
        left["content"], parts = content, []
    answers = message.get("tool_call_id")
    is_answer = role == "tool" and checked.name(answers) is not None
    if answers is not None and not is_answer:
        left["tool_call_id"] = answers
    plain = content if isinstance(content, str) and not calls else None
    return SourceTurn(
        role=role,
        pieces=(Piece(own, plain if plain is not None else tuple(parts) or ""),),
        tool_call_id=answers if is_answer else None,
        meta={META: left} if left else {},
    )


def _call(call: object) -> dict[str, Any] | None:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        return None
    own, tool = call.get("id"), checked.name(function.get("name"))
    if not isinstance(own, str) or not own or tool is None:
        return None
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        parsed = jsonl.read_object(b'{"it":' + arguments.encode("utf-8", errors="replace") + b"}")
        arguments = parsed["it"] if isinstance(parsed, dict) and set(parsed) == {"it"} else arguments
    return {"type": "tool_use", "id": own, "name": tool, "input": arguments}


def _with(turn: SourceTurn, timeline: list[Any]) -> SourceTurn:
    noted = turn.meta.get(META, {})
    return SourceTurn(
        turn.role, turn.pieces, tool_call_id=turn.tool_call_id, meta={META: {**noted, "timeline": timeline}}
    )
