"""Messages in the shapes of the model APIs: OpenAI's chat messages, and Anthropic's messages with their system prompt.

Given are messages as `pairing.repair` leaves them: every call is answered right after it, once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from trails.context.messages import Message, Picture, Piece, Thought
from trails.model import ToolCall

_Json = dict[str, Any]
OPENING: Final = "(What was said before is left out.)"
"""What the user says first for Anthropic, where the transcript shown begins with the assistant."""


# --- OpenAI


def openai(system: str | None, messages: Iterable[Message]) -> list[_Json]:
    """Return chat messages: `system`, `user`, `assistant` with `tool_calls`, and one of role `tool` an answer.

    What a model thought is left out; an image in a tool's answer is named, not shown.
    """
    made: list[_Json] = [] if system is None else [{"role": "system", "content": system}]
    for message in messages:
        if message.role == "tool":
            made.append({"role": "tool", "tool_call_id": message.call_id, "content": _flat(message.pieces)})
        elif message.role == "assistant":
            text = "\n".join(piece for piece in message.pieces if isinstance(piece, str))
            if text or message.calls:
                made.append({"role": "assistant", "content": text or None} | _openai_calls(message.calls))
        elif shown := [piece for piece in message.pieces if not isinstance(piece, Thought) and piece != ""]:
            made.append({"role": message.role, "content": _openai_content(shown)})
    return made


def _openai_calls(calls: Sequence[ToolCall]) -> _Json:
    if not calls:
        return {}
    shown = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
        for call in calls
    ]
    return {"tool_calls": shown}


def _openai_content(pieces: Sequence[Piece]) -> str | list[_Json]:
    if all(isinstance(piece, str) for piece in pieces):
        return "\n".join(str(piece) for piece in pieces)
    return [
        {"type": "image_url", "image_url": {"url": _url(piece)}}
        if isinstance(piece, Picture)
        else {"type": "text", "text": piece}
        for piece in pieces
    ]


def _url(picture: Picture) -> str:
    return picture.url or f"data:{picture.media_type};base64,{picture.data}"


def _flat(pieces: Iterable[Piece]) -> str:
    return "\n".join("[image]" if isinstance(p, Picture) else p for p in pieces if not isinstance(p, Thought))


# --- Anthropic


def anthropic(system: str | None, messages: Iterable[Message]) -> _Json:
    """Return `messages`, in which user and assistant take turns, and `system` where there is one: the API takes no empty one.

    System messages of the transcript go to `system`. Answers to tool calls are blocks of a user's message; what a model
    thought is given back only with the signature that the API asks for.
    """
    every = list(messages)
    systems = [system or "", *(message.text for message in every if message.role == "system")]
    prompt = "\n\n".join(text for text in systems if text.strip())
    ids = _Ids()
    spoken = [
        ("assistant" if message.role == "assistant" else "user", _blocks(message, ids))
        for message in every
        if message.role != "system"
    ]
    made: list[_Json] = []
    for role, group in groupby((each for each in spoken if each[1]), key=lambda each: each[0]):
        made.append({"role": role, "content": [block for _, blocks in group for block in blocks]})
    if made and made[0]["role"] == "assistant":
        made.insert(0, {"role": "user", "content": [{"type": "text", "text": OPENING}]})
    return ({"system": prompt} if prompt else {}) | {"messages": made}


class _Ids:
    """Ids of calls as Anthropic accepts them, the same one each time; two ids never become one."""

    def __init__(self) -> None:
        self._made: dict[str, str] = {}

    def of(self, call_id: str) -> str:
        if call_id not in self._made:
            plain = re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)[:64]
            made, number = plain, 2
            while made in self._made.values():
                made, number = f"{plain[:60]}_{number}", number + 1
            self._made[call_id] = made
        return self._made[call_id]


def _blocks(message: Message, ids: _Ids) -> list[_Json]:
    pieces = [block for piece in message.pieces if (block := _block(piece)) is not None]
    if message.role == "tool":
        error = {"is_error": True} if message.is_error else {}
        return [{"type": "tool_result", "tool_use_id": ids.of(message.call_id or ""), "content": pieces} | error]
    if message.role != "assistant":  # what only an assistant may say
        pieces = [block for block in pieces if block["type"] in ("text", "image")]
    return pieces + [
        {"type": "tool_use", "id": ids.of(call.id), "name": call.name, "input": _input(call)} for call in message.calls
    ]


def _block(piece: Piece) -> _Json | None:
    if isinstance(piece, str):
        return {"type": "text", "text": piece} if piece.strip() else None  # the API refuses blank texts
    if isinstance(piece, Picture):
        if piece.data is not None:
            source = {"type": "base64", "media_type": piece.media_type, "data": piece.data}
        else:
            source = {"type": "url", "url": piece.url}
        return {"type": "image", "source": source}
    match piece.part:
        case {"type": "thinking", "thinking": str(text), "signature": str(signature)}:
            return {"type": "thinking", "thinking": text, "signature": signature}
        case {"type": "redacted_thinking", "data": str(data)}:
            return {"type": "redacted_thinking", "data": data}
    return None


def _input(call: ToolCall) -> _Json:
    value = {} if call.arguments is None else json.loads(call.arguments)
    return value if isinstance(value, dict) else {"arguments": value}
