"""Shape messages for OpenAI and Anthropic.

The shapes are OpenAI's chat messages and response items, and Anthropic's messages. The messages come from `repair_calls`:
every call is answered once, right after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from trails.context.messages import Block, Message, Picture, Piece, Thought, is_served_result, text_of
from trails.model.values import ToolCall

_Json = dict[str, Any]
OPENING: Final = "(What was said before is left out.)"
"""What the user says first for Anthropic, where the transcript shown begins with the assistant."""


# --- OpenAI's chat


def openai_messages(system: str | None, messages: Iterable[Message]) -> list[_Json]:
    """Return chat messages: `system`, `user`, `assistant` with `tool_calls`, and one of role `tool` an answer.

    What a model thought is left out; an image in a tool's answer is named, not shown. What the API gave or took beside
    (a refusal, a name, calls of custom tools, files) is given back.
    """
    entries: list[_Json] = [] if system is None else [{"role": "system", "content": system}]
    for message in messages:
        if message.role == "tool":
            entries.append({"role": "tool", "tool_call_id": message.call_id, "content": _flat(message.pieces)})
        elif message.role == "assistant":
            fields = _openai_said(message)
            if len(fields) > 1 or fields["content"]:
                entries.append({"role": "assistant"} | fields)
        elif shown := [piece for piece in message.pieces if not isinstance(piece, Thought) and piece != ""]:
            entries.append({"role": message.role, "content": _openai_content(shown)} | _beside(message))
    return entries


_OF_A_MESSAGE: Final = frozenset({"name", "reasoning_content", "reasoning", "reasoning_details"})
"""What a message of OpenAI's chat, or of an API that speaks like it, may have beside."""


def _beside(message: Message) -> _Json:
    return {name: message.fields[name] for name in message.fields if name in _OF_A_MESSAGE}


def _openai_said(message: Message) -> _Json:
    refusals = [p.part["refusal"] for p in message.pieces if isinstance(p, Block) and _is_refusal(p)]
    text = "\n".join(text_of(p) for p in message.pieces if text_of(p) and not (isinstance(p, Block) and _is_refusal(p)))
    fields: _Json = {"content": text or None} | _beside(message)
    if refusals:
        fields["refusal"] = "\n".join(refusals)
    if isinstance(audio := message.fields.get("audio"), dict) and "id" in audio:
        fields["audio"] = {"id": audio["id"]}
    if message.calls:
        fields["tool_calls"] = [_openai_call(call, message) for call in message.calls]
    return fields


def _is_refusal(block: Block) -> bool:
    return block.part.get("type") == "refusal" and isinstance(block.part.get("refusal"), str)


def _openai_call(call: ToolCall, message: Message) -> _Json:
    part = message.raw.get(call.id, {})
    if part.get("type") == "custom_tool_call":
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": part.get("input") or ""}}
    extra = message.fields.get("calls")
    beside = extra.get(call.id, {}) if isinstance(extra, dict) else {}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call)}} | beside


def _arguments(call: ToolCall) -> str:
    return call.arguments or "{}"


def _openai_content(pieces: Sequence[Piece]) -> str | list[_Json]:
    if not any(isinstance(piece, Picture) or _is_of(piece, _CHAT) for piece in pieces):
        return "\n".join(filter(None, map(text_of, pieces)))
    return [_openai_part(piece) for piece in pieces if isinstance(piece, Picture) or text_of(piece)]


_CHAT: Final = frozenset({"file", "input_audio"})


def _is_of(piece: Piece, kinds: frozenset[str]) -> bool:
    return isinstance(piece, Block) and piece.part.get("type") in kinds


def _openai_part(piece: Piece) -> _Json:
    if isinstance(piece, Picture):
        if piece.part is not None and piece.part.get("type") == "image_url":
            return dict(piece.part)
        return {"type": "image_url", "image_url": {"url": _url(piece)}}
    if isinstance(piece, Block) and _is_of(piece, _CHAT):
        return dict(piece.part)
    return {"type": "text", "text": text_of(piece)}


def _url(picture: Picture) -> str:
    return picture.url or f"data:{picture.media_type};base64,{picture.data}"


def _flat(pieces: Iterable[Piece]) -> str:
    return "\n".join("[image]" if isinstance(p, Picture) else text_of(p) for p in pieces if not isinstance(p, Thought))


# --- OpenAI's responses


def responses_items(system: str | None, messages: Iterable[Message]) -> _Json:
    """Return `input`, and `instructions` if there is a system prompt: items that the API gave are given back as they are."""
    items: list[_Json] = []
    for message in messages:
        if message.role == "tool":
            part = message.raw.get(message.call_id or "", {})
            if not str(part.get("type")).endswith("_output"):
                part = {"type": "function_call_output", "call_id": message.call_id, "output": _flat(message.pieces)}
            items.append(dict(part))
        elif message.role == "assistant":
            items += _items(message)
        elif any(_is_of(piece, _ITEMS) for piece in message.pieces):
            items += [dict(piece.part) for piece in message.pieces if isinstance(piece, Block)]
        elif message.pieces:
            items.append({"role": message.role, "content": _input_content(message.pieces)})
    return ({} if system is None else {"instructions": system}) | {"input": items}


_ITEMS: Final = frozenset({"message", "compaction", "item_reference"})
_CALL_ITEMS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})


def _items(message: Message) -> list[_Json]:
    items: list[_Json] = []
    for each in in_order(message):
        if isinstance(each, ToolCall):
            part = message.raw.get(each.id, {})
            if part.get("type") not in _CALL_ITEMS:
                part = {"type": "function_call", "call_id": each.id, "name": each.name, "arguments": _arguments(each)}
            items.append(dict(part))
        elif isinstance(each, Thought):
            items += [dict(each.part)] if each.part.get("type") == "reasoning" and "id" in each.part else []
        elif isinstance(each, Block) and _is_of(each, _ITEMS):
            items.append(dict(each.part))
        elif text := text_of(each):
            items.append({"role": "assistant", "content": text})
    return items


def _input_content(pieces: Sequence[Piece]) -> str | list[_Json]:
    if all(isinstance(piece, str) for piece in pieces):
        return "\n".join(map(text_of, pieces))
    return [part for piece in pieces if (part := _input_part(piece))]


def _input_part(piece: Piece) -> _Json | None:
    if isinstance(piece, Picture):
        if piece.part is not None and piece.part.get("type") == "input_image":
            return dict(piece.part)
        return {"type": "input_image", "detail": "auto", "image_url": _url(piece)}
    if isinstance(piece, Block) and piece.part.get("type") == "input_file":
        return dict(piece.part)
    return {"type": "input_text", "text": text_of(piece)} if text_of(piece) else None


def in_order(message: Message) -> list[Piece | ToolCall]:
    """Return what an assistant's message says and which calls it makes, in the order in which it did."""
    if not message.placed:
        return [*message.pieces, *message.calls]
    pieces: list[Piece | ToolCall] = list(message.pieces)
    for place, call in reversed(list(zip(message.placed, message.calls, strict=True))):
        pieces.insert(place, call)
    return pieces


# --- Anthropic


def anthropic_messages(system: str | None, messages: Iterable[Message]) -> _Json:
    """Return `messages`, in which user and assistant take turns, and `system` if there is one: the API takes no empty one.

    System messages of the transcript go to `system`. Answers to tool calls are blocks of a user's message; what a model
    thought is given back only with the signature that the API asks for.
    """
    every = list(messages)
    systems = [system or "", *(message.text for message in every if message.role == "system")]
    prompt = "\n\n".join(text for text in systems if text.strip())
    ids = _Ids()
    spoken = [
        ("assistant" if message.role == "assistant" else "user", _blocks(message, ids), message)
        for message in every
        if message.role != "system"
    ]
    entries: list[_Json] = []
    for role, group in groupby((each for each in spoken if each[1]), key=lambda each: each[0]):
        run = list(group)
        blocks: Any = [block for _, blocks, _ in run for block in blocks]
        if len(run) == 1 and run[0][2].is_text and run[0][2].role != "tool":
            blocks = run[0][2].text
        entries.append({"role": role, "content": blocks})
    if entries and entries[0]["role"] == "assistant":
        entries.insert(0, {"role": "user", "content": [{"type": "text", "text": OPENING}]})
    return ({"system": prompt} if prompt else {}) | {"messages": entries}


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
    if message.role == "tool":
        return [_tool_result(message, ids)]
    blocks = []
    for each in in_order(message):
        block = _tool_use(each, message, ids) if isinstance(each, ToolCall) else _block(each)
        if block is not None and (message.role == "assistant" or block["type"] in _SAID_BY_USERS):
            blocks.append(block)
    return blocks


_SAID_BY_USERS: Final = frozenset({"text", "image", "document", "search_result", "container_upload"})


def _tool_result(message: Message, ids: _Ids) -> _Json:
    blocks: Any = [block for piece in message.pieces if (block := _block(piece)) is not None]
    if message.is_text and blocks:
        blocks = message.text
    raw = message.raw.get(message.call_id or "", {})
    beside = {"cache_control": raw["cache_control"]} if raw.get("cache_control") else {}
    error = {"is_error": True} if message.is_error else {}
    return {"type": "tool_result", "tool_use_id": ids.of(message.call_id or ""), "content": blocks} | error | beside


def _tool_use(call: ToolCall, message: Message, ids: _Ids) -> _Json:
    raw = message.raw.get(call.id, {})
    beside = {
        name: raw[name] for name in ("cache_control", "caller") if raw.get(name) and raw.get("type") == "tool_use"
    }
    return {"type": "tool_use", "id": ids.of(call.id), "name": call.name, "input": _input(call)} | beside


def _block(piece: Piece) -> _Json | None:
    if isinstance(piece, str):
        return {"type": "text", "text": piece} if piece.strip() else None  # the API refuses blank texts
    if isinstance(piece, Picture):
        return _image(piece)
    if isinstance(piece, Block) and (piece.part.get("type") in _OWN or is_served_result(piece.part)):
        return dict(piece.part)
    if isinstance(piece, Block):
        return _block(piece.text)
    return _thought(piece)


def _thought(thought: Thought) -> _Json | None:
    match thought.part:
        case {"type": "thinking", "thinking": str(text), "signature": str(signature)}:
            return {"type": "thinking", "thinking": text, "signature": signature}
        case {"type": "redacted_thinking", "data": str(data)}:
            return {"type": "redacted_thinking", "data": data}
    return None


_OWN: Final = frozenset({"text", "image", "document", "search_result", "container_upload", "server_tool_use"})


def _image(picture: Picture) -> _Json:
    if picture.part is not None and picture.part.get("type") == "image" and "source" in picture.part:
        return dict(picture.part)
    if picture.data is not None:
        source = {"type": "base64", "media_type": picture.media_type, "data": picture.data}
    else:
        source = {"type": "url", "url": picture.url}
    return {"type": "image", "source": source}


def _input(call: ToolCall) -> _Json:
    value = {} if call.arguments is None else json.loads(call.arguments)
    return value if isinstance(value, dict) else {"arguments": value}
