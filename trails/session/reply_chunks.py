"""Put the chunks of a streamed reply together, as `trails.model.sdk_messages` takes the whole reply.

Chunks are recognised by their shape: OpenAI's chat completions and responses, Anthropic's messages, LangChain's message
chunks and Vercel's text streams, as the SDKs' objects or as plain data. Nothing is stored here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from trails.errors import InvalidInput
from trails.model import sdk_messages

_Fields = Mapping[str, Any]
_LANGCHAIN: Final = ("content", "tool_call_chunks", "usage_metadata", "response_metadata", "additional_kwargs", "id")
UNFINISHED_REPLY: Final = "unfinished_calls"
"""The key of a cut turn's metadata for tool calls whose arguments had not come whole."""


class ReplyChunks:
    """The chunks of one reply: all of one kind, or plain text."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._reply: PartialReply | None = None
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """The text that came so far."""
        return "".join(self._texts)

    @property
    def has_any(self) -> bool:
        """Whether anything came that is worth keeping."""
        return bool(self._texts) or self._reply is not None

    def add(self, chunk: str | _Fields) -> None:
        """Take a text, or a chunk as `plain` gives it. Raises `InvalidInput` for one of another kind than those before."""
        if isinstance(chunk, str):
            if self._reply is not None:
                raise _mixed(self._reply.name, "plain text")
            self._texts.append(chunk)
            return
        kind = _kind_of(chunk)
        if kind is None:
            return
        if self._reply is None:
            if self._texts:
                raise _mixed("plain text", kind.name)
            self._reply = kind()
        elif type(self._reply) is not kind:
            raise _mixed(self._reply.name, kind.name)
        if text := self._reply.add(chunk):
            self._texts.append(text)

    def whole(self) -> sdk_messages.Given | None:
        """Return the reply as a turn takes it; None where plain text came, or nothing."""
        return None if self._reply is None else sdk_messages.read(self._reply.whole())

    def cut(self) -> sdk_messages.Given | None:
        """Return as much of a reply that broke off as a turn takes: calls whose arguments are not whole are in its metadata."""
        try:
            given = self.whole()
        except InvalidInput:  # it had hardly begun
            return None
        if given is None:
            return None
        calls = given.options.get("tool_calls", ())
        unfinished = [call for call in calls if not _is_whole(call)]
        parts = given.content if isinstance(given.content, list) else []
        unfinished += [part for part in parts if not _is_whole(part)]
        content: Any = [part for part in parts if _is_whole(part)] if isinstance(given.content, list) else given.content
        options = {**given.options, "tool_calls": [call for call in calls if _is_whole(call)]}
        if unfinished:
            options["meta"] = {**options.get("meta", {}), UNFINISHED_REPLY: unfinished}
        return sdk_messages.Given(given.role, content or self.text, options)


def plain_chunk(chunk: object) -> str | _Fields | None:
    """Return what a stream gave as text or plain data; None for nothing. Raises `InvalidInput` for what no SDK streams."""
    if chunk is None or isinstance(chunk, str):
        return chunk or None
    if isinstance(chunk, tuple) and len(chunk) == 2 and hasattr(chunk[0], "content"):  # LangGraph: (chunk, metadata)
        chunk = chunk[0]
    made = sdk_messages.plain(chunk)
    if hasattr(chunk, "tool_call_chunks"):
        made = {name: sdk_messages.plain(getattr(chunk, name, None)) for name in _LANGCHAIN}
    elif not isinstance(made, Mapping):
        made = sdk_messages.of_attributes(chunk)
    if not isinstance(made, Mapping):
        raise _unknown(type(chunk).__name__)
    wrapped = made.get("chunk")
    return cast("_Fields", wrapped if made.get("type") == "chunk" and isinstance(wrapped, Mapping) else made)


def _mixed(before: str, now: str) -> InvalidInput:
    return InvalidInput(f"a turn is streamed as one kind of chunks: {before} came before, and this is {now}")


def _unknown(what: str) -> InvalidInput:
    return InvalidInput(
        f"a stream is written as text, or as chunks of OpenAI, Anthropic, LangChain or Vercel, not {what}: give the text of "
        "the chunk, such as chunk.choices[0].delta.content"
    )


_DERIVED: Final = ("content.", "tool_calls.", "refusal.", "logprobs.")
"""What OpenAI's SDK makes of the chunks that it hands on, too."""


def _kind_of(chunk: _Fields) -> type[PartialReply] | None:
    """Return of which kind a chunk is; None for one that repeats what others say."""
    kind = str(chunk.get("type") or "")
    if isinstance(chunk.get("choices"), list):
        return ChatReply
    if "tool_call_chunks" in chunk or kind == "AIMessageChunk":
        return LangChainReply
    if kind.startswith("response."):
        return ResponseReply
    if kind in _CLAUDE:
        return ClaudeReply
    if kind in _VERCEL:
        return VercelReply
    if "snapshot" in chunk or kind.startswith(_DERIVED) or kind in ("ping", "keepalive"):
        return None
    if kind == "error":
        raise InvalidInput(
            f"the model's stream ended with an error: {chunk.get('error') or chunk.get('message') or chunk!r:.200}"
        )
    raise _unknown(f"one with {', '.join(map(repr, list(chunk)[:6])) or 'nothing'}")


def _is_whole(call: object) -> bool:
    """Tell whether the arguments of a call have come whole; of what is no call, that it is."""
    if not isinstance(call, Mapping):
        return True
    function = call.get("function")
    given = [
        call.get("arguments"),
        call.get("args"),
        function.get("arguments") if isinstance(function, Mapping) else None,
    ]
    given += [call.get("input")] if call.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use") else []
    return all(_is_json(each) for each in given if isinstance(each, str))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _grow(into: dict[str, Any], more: _Fields, *, joined: Iterable[str]) -> None:
    """Add the fields of a delta: those named in `joined` are pieces of text, of others the last one holds."""
    for name, value in more.items():
        if isinstance(value, str) and name in joined:
            into[name] = (into.get(name) or "") + value
        elif value not in (None, "", {}, []):
            into[name] = value


# --- OpenAI's chat completions


class ChatReply:
    """A chat completion: deltas of one message, its calls by their index, and usage in the last chunk."""

    name = "a chat completion"
    _texts: Final = ("content", "refusal", "reasoning_content", "reasoning")

    def __init__(self) -> None:
        self._said: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: dict[Any, dict[str, Any]] = {}
        self._choice: dict[str, Any] = {}

    def add(self, chunk: _Fields) -> str:
        _grow(self._said, {name: value for name, value in chunk.items() if name != "choices"}, joined=())
        text = ""
        for choice in chunk["choices"]:
            if choice.get("index", 0) != 0:
                raise InvalidInput("a stream with several choices is not one message: ask for one (n=1)")
            _grow(self._choice, {name: value for name, value in choice.items() if name != "delta"}, joined=())
            delta = choice.get("delta") or {}
            _grow(
                self._message, {name: each for name, each in delta.items() if name != "tool_calls"}, joined=self._texts
            )
            for call in delta.get("tool_calls") or ():
                self._add_call(call)
            text += delta.get("content") or ""
        return text

    def _add_call(self, delta: _Fields) -> None:
        place = delta.get("index")
        if place is None:  # as some servers stream: a call with an id of its own begins one
            begins = delta.get("id") and all(call.get("id") != delta["id"] for call in self._calls.values())
            place = len(self._calls) if begins or not self._calls else len(self._calls) - 1
        call = self._calls.setdefault(place, {})
        _grow(
            call, {name: each for name, each in delta.items() if name not in ("function", "custom", "index")}, joined=()
        )
        for name in ("function", "custom"):
            if isinstance(delta.get(name), Mapping):
                _grow(call.setdefault(name, {}), delta[name], joined=("arguments", "input"))

    def whole(self) -> dict[str, Any]:
        message = dict(self._message)
        if self._calls:
            message["tool_calls"] = [self._calls[place] for place in sorted(self._calls)]
        return {**self._said, "choices": [{**self._choice, "message": message}]}


# --- OpenAI's responses

_PIECES: Final = {
    "output_text": "text", "refusal": "refusal", "reasoning_text": "text", "reasoning_summary_text": "text",
    "function_call_arguments": "arguments", "mcp_call_arguments": "arguments", "custom_tool_call_input": "input",
}  # fmt: skip
"""Of which field of an item, or of a part of it, a delta is a piece."""


class ResponseReply:
    """A response: its last event has all of it; until then, the items that were begun and what was added to them."""

    name = "a response"

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._items: dict[int, dict[str, Any]] = {}

    def add(self, chunk: _Fields) -> str:
        kind, place = str(chunk["type"]).removeprefix("response."), chunk.get("output_index", 0)
        if isinstance(chunk.get("response"), Mapping):
            self._response = dict(chunk["response"])
        elif kind.startswith("output_item."):
            self._items[place] = _copied(chunk["item"])
        elif kind in ("content_part.added", "reasoning_summary_part.added"):
            self._part(chunk).update(_copied(chunk["part"]))
        elif kind.endswith(".delta") and kind.removesuffix(".delta") in _PIECES:
            field, delta = _PIECES[kind.removesuffix(".delta")], str(chunk.get("delta") or "")
            into = self._part(chunk) if "content_index" in chunk or "summary_index" in chunk else self._item(place)
            into[field] = (into.get(field) or "") + delta
            return delta if kind == "output_text.delta" else ""
        return ""

    def _item(self, place: int) -> dict[str, Any]:
        return self._items.setdefault(place, {"type": "message", "role": "assistant", "content": []})

    def _part(self, chunk: _Fields) -> dict[str, Any]:
        """Return the part of an item of which an event tells, made where it is not there yet."""
        is_summary = "summary_index" in chunk
        item, at = self._item(chunk.get("output_index", 0)), chunk["summary_index" if is_summary else "content_index"]
        parts = item.setdefault("summary" if is_summary else "content", [])
        while len(parts) <= at:
            parts.append({"type": "summary_text" if is_summary else "output_text"})
        return cast("dict[str, Any]", parts[at])

    def whole(self) -> dict[str, Any]:
        items = [self._items[place] for place in sorted(self._items)]
        return {**self._response, "output": self._response.get("output") or items}


def _copied(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(json.dumps(value)))


# --- Anthropic's messages

_CLAUDE: Final = frozenset({
    "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
})  # fmt: skip
_DELTAS: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class ClaudeReply:
    """A message of Anthropic's: blocks by their index, and counts that are added up to by each event that has some."""

    name = "a message of Anthropic's"

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"role": "assistant", "content": []}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}

    def add(self, chunk: _Fields) -> str:
        kind, place = chunk["type"], chunk.get("index", 0)
        if kind == "message_start":
            self._message = _copied(chunk["message"])
        elif kind == "content_block_start":
            self._blocks[place] = _copied(chunk["content_block"])
        elif kind == "content_block_delta":
            return self._add_delta(place, chunk["delta"])
        elif kind == "message_delta":
            _grow(self._message, chunk.get("delta") or {}, joined=())
            usage = dict(self._message.get("usage") or {})
            _grow(usage, chunk.get("usage") or {}, joined=())
            self._message["usage"] = usage
        return ""

    def _add_delta(self, place: int, delta: _Fields) -> str:
        block = self._blocks.setdefault(place, {"type": "text", "text": ""})
        kind = delta["type"]
        if kind == "input_json_delta":
            self._inputs[place] = self._inputs.get(place, "") + (delta.get("partial_json") or "")
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        elif kind in _DELTAS:
            field = _DELTAS[kind]
            block[field] = (block.get(field) or "") + (delta.get(field) or "")
        return str(delta.get("text") or "") if kind == "text_delta" else ""

    def whole(self) -> dict[str, Any]:
        blocks = [dict(self._blocks[place]) for place in sorted(self._blocks)]
        for block, place in zip(blocks, sorted(self._blocks), strict=True):
            if given := self._inputs.get(place):
                block["input"] = json.loads(given) if _is_json(given) else given
        return {**self._message, "content": blocks}


# --- LangChain's message chunks


class LangChainReply:
    """A message of LangChain's: texts and calls in pieces, counts that are summed up, facts of which the last one holds."""

    name = "a message of LangChain's"

    def __init__(self) -> None:
        self._parts: list[dict[str, Any]] = []
        self._calls: dict[Any, dict[str, Any]] = {}
        self._usage: dict[str, Any] = {}
        self._said: dict[str, Any] = {}
        self._meta: dict[str, Any] = {}

    def add(self, chunk: _Fields) -> str:
        for call in chunk.get("tool_call_chunks") or ():
            place = call.get("index")
            into = self._calls.setdefault(call.get("id") or len(self._calls) if place is None else place, {"args": ""})
            _grow(into, {name: call.get(name) for name in ("name", "id", "args")}, joined=("args",))
        _sum(self._usage, chunk.get("usage_metadata") or {})
        _grow(self._meta, chunk.get("response_metadata") or {}, joined=())
        extra = {name: each for name, each in (chunk.get("additional_kwargs") or {}).items() if name != "tool_calls"}
        _grow(self._said.setdefault("additional_kwargs", {}), extra, joined=("reasoning_content", "refusal"))
        if chunk.get("id"):
            self._said["id"] = chunk["id"]
        content = chunk.get("content") or ()
        return "".join(self._add_part(part) for part in ([content] if isinstance(content, str) else content))

    def _add_part(self, part: Any) -> str:
        part = {"type": "text", "text": part} if isinstance(part, str) else dict(part)
        if part.get("type") in ("tool_use", "input_json_delta", "tool_call_chunk"):
            return ""  # the call's own pieces say that, too
        last = self._parts[-1] if self._parts else {}
        if (last.get("type"), last.get("index")) == (part.get("type"), part.get("index")):
            _grow(last, part, joined=("text", "thinking", "reasoning", "signature"))
        else:
            self._parts.append(part)
        return str(part.get("text") or "")

    def whole(self) -> dict[str, Any]:
        calls = [
            {**call, "args": json.loads(call["args"]) if _is_json(call["args"]) else call["args"] or {}}
            for call in self._calls.values()
        ]
        parts = [{name: each for name, each in part.items() if name != "index"} for part in self._parts]
        is_text = len(parts) == 1 and set(parts[0]) == {"type", "text"}
        content = parts[0]["text"] if is_text else parts or ""
        said = {"type": "ai", "content": content, "tool_calls": calls, "response_metadata": self._meta, **self._said}
        return said | ({"usage_metadata": self._usage} if self._usage else {})


def _sum(into: dict[str, Any], more: _Fields) -> None:
    """Add counts, those within others too, as LangChain adds the counts of its chunks."""
    for name, value in more.items():
        if isinstance(value, Mapping):
            _sum(into.setdefault(name, {}), value)
        elif isinstance(value, int | float):
            into[name] = into.get(name, 0) + value


# --- Vercel's text streams

_VERCEL: Final = frozenset({
    "text-delta", "text-start", "text-end", "reasoning-delta", "reasoning-start", "reasoning-end",
    "start", "finish", "tool-call", "tool-input-start", "tool-input-delta", "tool-input-end",
    "tool-input-available", "start-step", "finish-step", "step-start", "step-finish", "message-metadata",
    "stream-start", "response-metadata",
})  # fmt: skip


class VercelReply:
    """A message of Vercel's AI SDK: deltas of text and reasoning, calls that come whole, and counts at the end."""

    name = "a stream of Vercel's AI SDK"

    def __init__(self) -> None:
        self._parts: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._said: dict[str, Any] = {}

    def add(self, chunk: _Fields) -> str:
        kind = chunk["type"]
        if kind in ("text-delta", "reasoning-delta"):
            text = next(
                (each for name in ("delta", "textDelta", "text") if isinstance(each := chunk.get(name), str)), ""
            )
            name = kind.removesuffix("-delta")
            if not self._parts or self._parts[-1]["type"] != name:
                self._parts.append({"type": name, "text": ""})
            self._parts[-1]["text"] += text
            return text if name == "text" else ""
        if kind in ("tool-call", "tool-input-available"):
            given: Any = next((chunk[name] for name in ("input", "args") if name in chunk), {})
            arguments = given if isinstance(given, str) else json.dumps(given)
            function = {"name": chunk.get("toolName"), "arguments": arguments}
            self._calls.append({"id": chunk.get("toolCallId"), "type": "function", "function": function})
        usage = chunk.get("totalUsage") or chunk.get("usage")
        reason = chunk.get("finishReason")
        said = {"usage": usage, "stop_reason": reason.get("unified") if isinstance(reason, Mapping) else reason}
        _grow(self._said, {**said, "model": chunk.get("modelId")}, joined=())
        return ""

    def whole(self) -> dict[str, Any]:
        is_text = all(part["type"] == "text" for part in self._parts)
        content: Any = "".join(part["text"] for part in self._parts) if is_text else self._parts
        return {"role": "assistant", "content": content, "tool_calls": self._calls, **self._said}


PartialReply = ChatReply | ResponseReply | ClaudeReply | LangChainReply | VercelReply
"""A reply in the making: `add` takes a chunk and returns the text that it adds, `whole` gives the reply as its API would."""
