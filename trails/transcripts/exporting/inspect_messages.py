"""Messages as Inspect AI has them: made of what a model is shown of a turn, or as they were where they came from a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trails.context.messages import Message, Picture, Piece, Thought, text_of
from trails.model import ToolCall, Turn
from trails.usage import source_of

_Json = dict[str, Any]

ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
"""The roles that Inspect knows."""
_NOT_A_MESSAGE: Final = frozenset({"branch", "from_anchor", "tool_calls"})


def as_it_was(turn: Turn, name: str) -> _Json:
    """Return the message that an imported turn was made from, under its id."""
    beside = _object(turn.meta.get("tool_calls"))
    message: _Json = {"id": name, "content": turn.content, "role": turn.role}
    if turn.tool_calls:
        message["tool_calls"] = [_call(call) | _object(beside.get(call.id)) for call in turn.tool_calls]
    if turn.tool_results:
        message["tool_call_id"] = turn.tool_results[0].call_id
    if turn.model is not None:
        message["model"] = turn.model
    return message | {key: value for key, value in turn.meta.items() if key not in _NOT_A_MESSAGE}


def _object(value: object) -> _Json:
    return value if isinstance(value, dict) else {}


def was_generated(turn: Turn) -> bool:
    """Tell whether an imported answer came of a model call that the log told of; a model alone is only who spoke."""
    made = turn.facts.model_call
    return made is not None and any((made.usage_json, made.stop_reason, made.call))


def shown(message: Message, turn: Turn) -> _Json:
    """Return a message that a model is shown of a turn, without an id."""
    made: _Json = {"role": message.role, "content": _content(message.pieces)}
    if message.role == "assistant":
        made |= {"source": "generate"} | ({} if turn.model is None else {"model": turn.model})
        if message.calls:
            made["tool_calls"] = [_call(call) for call in message.calls]
    if message.role == "tool":
        made |= {} if message.call_id is None else {"tool_call_id": message.call_id}
        made |= {"error": {"type": "unknown", "message": message.text}} if message.is_error else {}
    return made


def _content(pieces: Sequence[Piece]) -> str | list[_Json]:
    if len(pieces) == 1 and isinstance(pieces[0], str):
        return pieces[0]
    return [_part(piece) for piece in pieces] if pieces else ""


def _part(piece: Piece) -> _Json:
    if isinstance(piece, Picture):
        return {"type": "image", "image": piece.url or f"data:{piece.media_type};base64,{piece.data}"}
    if isinstance(piece, Thought):
        part = piece.part
        thoughts = (part[key] for key in ("thinking", "text", "reasoning", "content") if isinstance(part.get(key), str))
        return {"type": "reasoning", "reasoning": next(thoughts, "")}
    return {"type": "text", "text": text_of(piece)}


def text(message: _Json) -> str:
    """Return the texts of a message."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(
        str(part.get("text", "")) for part in content if isinstance(part, dict) and part.get("type") == "text"
    )


def arguments(call: ToolCall) -> _Json:
    """Return a call's arguments as the object that Inspect wants."""
    given = call.input
    return given if isinstance(given, dict) else {} if given is None else {"value": given}


def _call(call: ToolCall) -> _Json:
    return {"id": call.id, "function": call.name, "arguments": arguments(call), "type": "function"}


def usage(turn: Turn) -> _Json | None:
    """Return what a call used under Inspect's names; what came under them stays as it is."""
    if turn.facts.model_call is None or not turn.usage:
        return None
    is_own = {"input_tokens", "output_tokens", "total_tokens"} <= turn.usage.keys()
    if is_own and source_of(turn.usage) in ("inspect", "generic"):
        return {name: number for name, number in turn.usage.items() if isinstance(number, int | float)}
    counts, cost = turn.facts.model_call.counts, turn.facts.model_call.reported[2]
    told = {
        "input_tokens_cache_read": counts.cache_read,
        "input_tokens_cache_write": counts.cache_write,
        "reasoning_tokens": counts.reasoning,
        "total_cost": None if cost is None else float(cost),
    }
    return {
        "input_tokens": counts.input or 0,
        "output_tokens": counts.output or 0,
        "total_tokens": (counts.prompt or 0) + (counts.output or 0),
    } | {name: number for name, number in told.items() if number is not None}
