"""Structured content: which parts ask for a tool, which answer one, and what a person would read of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trails.errors import InvalidInput
from trails.model import validation
from trails.model.values import ToolCall, ToolResult

# part type: (key of the call's id, key of the tool's name, key of the arguments)
_CALLS = {
    "tool_use": ("id", "name", "input"),  # Anthropic messages, Claude Code
    "server_tool_use": ("id", "name", "input"),
    "toolCall": ("id", "name", "arguments"),  # pi, OpenClaw
    "toolUse": ("id", "name", "arguments"),  # OpenClaw, earlier
    "functionCall": ("id", "name", "arguments"),
    "function_call": ("call_id", "name", "arguments"),  # OpenAI responses, Codex
    "custom_tool_call": ("call_id", "name", "input"),
    "local_shell_call": ("call_id", "name", "action"),
    "tool_search_call": ("call_id", "name", "arguments"),
    "web_search_call": ("id", "name", "action"),
    "image_generation_call": ("id", "name", "revised_prompt"),
    "tool_call": ("id", "name", "arguments"),  # OpenTelemetry GenAI
}
# OpenAI responses: calls that name no tool
_TOOL_OF = {
    "local_shell_call": "local_shell",
    "tool_search_call": "tool_search",
    "web_search_call": "web_search",
    "image_generation_call": "image_generation",
}
SERVED = ("web_search_call", "image_generation_call")
"""Calls of tools that the provider itself ran: no answer is given to a model beside them."""
# part type: key of the id of the call that is answered
_RESULTS = {
    "tool_result": "tool_use_id",
    "function_call_output": "call_id",
    "custom_tool_call_output": "call_id",
    "local_shell_call_output": "call_id",
    "tool_search_output": "call_id",
    "tool_call_response": "id",
}


def arguments_json(value: Any) -> str:
    """Return a tool's arguments as JSON text; text that is JSON already is kept byte for byte.

    Text that is no JSON, or JSON nested deeper than can be kept, is kept as one string.
    """
    if isinstance(value, str):
        validation.text(value, "tool arguments")
        if validation.is_nested_too_deep(value):
            return validation.to_json(value, "tool arguments")
        try:
            json.loads(value)
        except ValueError:
            return validation.to_json(value, "tool arguments")
        return value
    return validation.to_json(value, "tool arguments")


def holds_anything(content: object) -> bool:
    """Tell whether content has anything in it: text, or a part that says more than an empty text. Blanks are text.

    A part that has a type alone says it by that, unless it is one of text.

    >>> holds_anything("hi"), holds_anything([""]), holds_anything([{"type": "text", "text": ""}])
    (True, False, False)
    >>> holds_anything([{"type": "divider"}])
    True
    """
    if isinstance(content, str):
        return content != ""
    parts = content if isinstance(content, list | tuple) else [content]
    return any(_is_type_alone(part) or _holds_anything(part) for part in parts)


def _is_type_alone(part: object) -> bool:
    return isinstance(part, Mapping) and part.keys() == {"type"} and part["type"] not in (None, "", "text")


def _holds_anything(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(name != "type" and _holds_anything(each) for name, each in value.items())
    if isinstance(value, list | tuple):
        return any(map(_holds_anything, value))
    return value is not None and value != ""


def calls_in(parts: Iterable[Any]) -> tuple[ToolCall, ...]:
    """Return the tool calls that stand among content parts, in order, in any of the shapes known above.

    >>> calls_in([{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}])
    (ToolCall(id='t1', name='ls', arguments='{}'),)
    """
    return tuple(_calls(parts))


def _calls(parts: Iterable[Any]) -> Iterator[ToolCall]:
    for part in map(_typed, parts):
        if isinstance(part, Mapping) and isinstance(kind := part.get("type"), str) and kind in _CALLS:
            id_key, name_key, arguments_key = _CALLS[kind]
            call_id, tool = part.get(id_key), _TOOL_OF.get(kind) or part.get(name_key)
            if isinstance(call_id, str) and call_id and isinstance(tool, str) and tool:
                yield ToolCall(id=call_id, name=tool, arguments=arguments_json(part.get(arguments_key)))


def results_in(parts: Iterable[Any]) -> tuple[ToolResult, ...]:
    """Return the answers to tool calls that stand among content parts, in order."""
    return tuple(
        ToolResult(call_id=part[_RESULTS[kind]], is_error=_is_error(part))
        for part in map(_typed, parts)
        if isinstance(part, Mapping)
        and isinstance(kind := part.get("type"), str)
        and kind in _RESULTS
        and isinstance(part.get(_RESULTS[kind]), str)
        and part[_RESULTS[kind]]
    )


def answer_in(content: Any, call_id: str) -> Any:
    """Return what content says in answer to a call: the body of the part that names it, else all of the content.

    >>> answer_in([{"type": "tool_result", "tool_use_id": "t1", "content": "Snow"}], "t1"), answer_in("Snow", "t1")
    ('Snow', 'Snow')
    """
    for part in map(_typed, content if isinstance(content, list) else ()):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if isinstance(kind, str) and kind in _RESULTS and part.get(_RESULTS[kind]) == call_id:
            return next((part[key] for key in _BODY_KEYS if key in part), "")
    return content


def without_call(part: Any) -> Any:
    """Return a content part without what identifies a call (its ids, drawn anew each time) and without its arguments.

    >>> without_call({"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "/"}})
    {'type': 'tool_use', 'name': 'ls'}
    """
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or (kind not in _CALLS and kind not in _RESULTS):
        return part
    id_key, _, arguments_key = _CALLS[kind] if kind in _CALLS else (_RESULTS[kind], "", "")
    return {key: value for key, value in part.items() if key not in ("id", id_key, arguments_key)}


def _typed(part: Any) -> Any:
    """Return a part that has no type and names one by its only key (the Gemini API) as the tool part that it is."""
    if isinstance(part, Mapping) and "type" not in part:
        if isinstance(call := part.get("functionCall"), Mapping):
            arguments = {} if call.get("args") is None else call["args"]
            return {"type": "tool_call", "id": call.get("id"), "name": call.get("name"), "arguments": arguments}
        if isinstance(answer := part.get("functionResponse"), Mapping):
            return {"type": "tool_call_response", "id": answer.get("id"), "response": answer.get("response")}
    return part


def _is_error(part: Mapping[str, Any]) -> bool:
    output = part.get("output")
    return part.get("is_error") is True or (isinstance(output, Mapping) and output.get("success") is False)


def given_calls(calls: Iterable[ToolCall | Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    """Return tool calls that a caller gave: `ToolCall` values, or mappings in OpenAI's or a plain shape.

    A plain mapping has `id`, `name` and `arguments`; OpenAI's chat shape has `id` and `function` (name, arguments), or
    `custom` (name, input) with the type `custom`.
    """
    if not isinstance(calls, Iterable):
        raise InvalidInput(f"tool calls must be several mappings or ToolCalls, not {type(calls).__name__}")
    return tuple(_given_call(call) for call in calls)


def _given_call(call: ToolCall | Mapping[str, Any]) -> ToolCall:
    if isinstance(call, ToolCall):
        validation.text(call.id, "a tool call's id")
        validation.text(call.name, "a tool call's name")
        if call.arguments is not None:
            validation.json_text(call.arguments, "tool arguments")
        return call
    if not isinstance(call, Mapping):
        raise InvalidInput(f"a tool call must be a mapping or a ToolCall, not {type(call).__name__}")
    function = call.get("custom") if call.get("type") == "custom" else call.get("function")
    named = function if isinstance(function, Mapping) else call
    arguments = named.get("arguments", named.get("input"))
    for field, given in (("id", call.get("id")), ("name", named.get("name"))):
        if given is None:
            example = '{"id": "c1", "name": "weather", "arguments": {"place": "Zermatt"}}'
            raise InvalidInput(f"a tool call has no {field!r}; it looks like {example}")
    return ToolCall(
        id=validation.name(call.get("id"), "a tool call's id"),
        name=validation.name(named.get("name"), "a tool call's name"),
        arguments=arguments_json({} if arguments is None else arguments),
    )


def is_thought(part: Any) -> bool:
    """Tell whether a part of a turn's content is what a model thought, and did not say.

    >>> is_thought({"type": "thinking", "thinking": "Hm."}), is_thought({"text": "Hm.", "thought": True}), is_thought("Hm.")
    (True, True, False)
    """
    if not isinstance(part, Mapping):
        return False
    kind = part.get("type") or part.get("content_type")
    return (isinstance(kind, str) and kind in _THOUGHTS) or part.get("thought") is True


def plain_text(content: Any) -> str:
    """Return what a person would read of a turn's content: its texts, and a line for each tool call and result.

    >>> plain_text([{"type": "text", "text": "Look:"}, {"type": "tool_use", "id": "t", "name": "ls", "input": {"a": 1}}])
    'Look:\\n[calls ls {"a": 1}]'
    """
    if isinstance(content, str):
        return content
    return (
        "\n".join(filter(None, (_part_text(part) for part in content)))
        if isinstance(content, Sequence)
        else str(content)
    )


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    part = _typed(part)
    if not isinstance(part, Mapping):
        return json.dumps(part, ensure_ascii=False)
    kind = part.get("type")
    if isinstance(kind, str) and kind in _CALLS:
        _, name_key, arguments_key = _CALLS[kind]
        arguments = part.get(arguments_key)
        shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return f"[calls {_TOOL_OF.get(kind) or part.get(name_key)} {shown}]"
    if isinstance(kind, str) and kind in _RESULTS:
        body = part.get("content", part.get("output", part.get("response", part.get("result", part.get("tools")))))
        return plain_text(body) if isinstance(body, str | list) else json.dumps(body, ensure_ascii=False)
    texts: list[Any] = [part[key] for key in _TEXT_KEYS if isinstance(part.get(key), str)]
    texts += [part[key] for key in _NESTED_KEYS if isinstance(part.get(key), list) and part[key]]
    return plain_text(texts[0]) if texts else f"[{kind or part.get('content_type') or 'part'}]"


_THOUGHTS = frozenset({"thinking", "reasoning", "redacted_thinking", "thoughts"})
_BODY_KEYS = ("content", "output", "response", "result", "tools")
_TEXT_KEYS = ("text", "refusal", "thinking", "content", "description", "result")
_NESTED_KEYS = ("parts", "thoughts", "content", "summary")  # ChatGPT's content, OpenAI's reasoning
