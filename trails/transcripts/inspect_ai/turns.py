"""Turns of an Inspect message: what it says, and what the event that made it tells of the call."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from trails.model import Call
from trails.transcripts import checked
from trails.transcripts.inspect_ai.lines import Said
from trails.transcripts.source import Piece, SourceTurn
from trails.usage import with_source

_MESSAGE_OWN: Final = frozenset({"id", "role", "content", "tool_calls", "tool_call_id", "model"})
_CALL_OWN: Final = frozenset({"id", "function", "arguments"})
_OUTCOMES: Final = {"timeout": "timed-out", "approval": "refused"}
"""Of a tool's error, by its type; any other one is a failure."""

_Json = Mapping[str, Any]


def turn_of(said: Said, source_id: str, model: str | None) -> SourceTurn:
    """Return the turn that a message makes; `model` is who spoke where neither the message nor its event says so."""
    message = said.message
    role, content = message.get("role"), message.get("content")
    event = said.event or {}
    calls, extras = _calls(message.get("tool_calls"))
    error = message.get("error")
    meta = {key: value for key, value in message.items() if key not in _MESSAGE_OWN} | {"tool_calls": extras}
    answers = checked.name(message.get("tool_call_id")) if role == "tool" else None
    if role == "tool" and answers is None:
        meta["tool_call_id"] = message.get("tool_call_id")
    start, end = _times(event)
    spoke = role == "assistant"
    output = event.get("output") if spoke else None
    return SourceTurn(
        role=role if isinstance(role, str) else "",
        pieces=(Piece(source_id, _content(content)),),
        time=end or start,
        model=(checked.name(message.get("model") or event.get("model")) or model) if spoke else None,
        usage=_usage(output),
        stop_reason=_stop_reason(output, message.get("id")),
        tool_call_id=answers,
        is_error=role == "tool" and error is not None,
        tool_calls=calls,
        tool_results=({"call_id": answers, **_outcome(error), **_ran(start, end)},) if answers else (),
        call=Call(started=start, ended=end) if spoke and start and end else None,
        meta=checked.filled(meta),
    )


def _content(content: object) -> str | tuple[Any, ...]:
    """Return content as a turn has it; of any other kind than text or parts, as it is: checking the turn then tells."""
    if content is None:
        return ""
    return content if isinstance(content, str) else tuple(content) if isinstance(content, list) else (content,)


def _calls(calls: object) -> tuple[tuple[_Json, ...], dict[str, Any]]:
    """Return tool calls, and what they say beside what they ask for, by their ids."""
    made: list[_Json] = []
    extras: dict[str, Any] = {}
    for call in calls if isinstance(calls, list) else []:
        if not isinstance(call, dict):
            made.append({"id": None})  # checking the turn tells
            continue
        made.append({"id": call.get("id"), "name": call.get("function"), "arguments": call.get("arguments")})
        more = {key: value for key, value in call.items() if key not in _CALL_OWN}
        if more.get("type") == "function":
            del more["type"]
        if more := checked.filled(more):
            extras[str(call.get("id"))] = more
    return tuple(made), extras


def _times(event: _Json) -> tuple[datetime | None, datetime | None]:
    start, end = checked.text_time(event.get("timestamp")), checked.text_time(event.get("completed"))
    return start, None if start and end and end < start else end


def _ran(start: datetime | None, end: datetime | None) -> dict[str, Any]:
    return {"started": start, "ended": end} if start and end else {}


def _outcome(error: object) -> dict[str, Any]:
    if error is None:
        return {}
    kind = error.get("type") if isinstance(error, dict) else None
    return {"is_error": True, "outcome": _OUTCOMES.get(kind, "failed") if isinstance(kind, str) else "failed"}


def _usage(output: object) -> _Json | None:
    usage = output.get("usage") if isinstance(output, dict) else None
    return with_source(usage, "inspect") if isinstance(usage, dict) and usage else None


def _stop_reason(output: object, message_id: object) -> str | None:
    choices = output.get("choices") if isinstance(output, dict) else None
    listed = [each for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []
    for choice in listed:
        message = choice.get("message")
        if len(listed) == 1 or (isinstance(message, dict) and message.get("id") == message_id):
            return checked.name(choice.get("stop_reason"))
    return None
