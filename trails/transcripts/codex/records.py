"""What the records of a rollout say beside response items: agents' messages, notices, calls that only events tell. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from trails.transcripts import checked

_Json = Mapping[str, Any]

NOTICES: Final = {
    "error": "error",
    "stream_error": "error",
    "warning": "warning",
    "guardian_warning": "warning",
    "deprecation_notice": "warning",
    "background_event": "info",
}
"""Events that the program showed to its user, and no model saw: the role of the turn of each."""
_NOTICE_TEXTS: Final = ("message", "summary", "details", "additional_details")
EVENT: Final = "event"
"""The role of a turn that holds a call which the model did not ask for by an item: a command within code, for one."""


class AgentMessage(NamedTuple):
    """What one agent said to another."""

    author: str
    content: str | tuple[Any, ...]
    text: str
    meta: dict[str, Any]


def agent_message(payload: _Json) -> AgentMessage | None:
    """Return the message that a record or a response item holds; None where it has no content.

    >>> agent_message({"author": "/root", "recipient": "/root/w", "content": "look"}).meta
    {'recipient': '/root/w'}
    """
    content, encrypted = payload.get("content"), payload.get("encrypted_content")
    parts = content if isinstance(content, list) else []
    if isinstance(encrypted, str) and encrypted:
        held = [{"type": "input_text", "text": content}] if isinstance(content, str) and content else parts
        parts = [*held, {"type": "encrypted_content", "encrypted_content": encrypted}]
    if not parts and not (isinstance(content, str) and content):
        return None
    beside = {k: v for k, v in payload.items() if k not in ("type", "author", "content", "encrypted_content")}
    author = payload.get("author")
    name = checked.name(f"agent:{author}") if isinstance(author, str) and author else None
    if name is None:
        beside |= {"author": author}
    texts = texts_of(parts) if parts else [str(content)]
    plain = texts[0] if len(texts) == 1 and len(parts) < 2 else tuple(parts)
    return AgentMessage(name or "agent:unknown", plain, "\n".join(texts), checked.filled(beside))


def agent_message_in(content: object) -> AgentMessage | None:
    """Return the message between agents that an assistant's message holds as JSON, as versions of early 2026 wrote it."""
    texts = texts_of(content) if isinstance(content, list) else [content] if isinstance(content, str) else []
    if len(texts) != 1 or not texts[0].lstrip().startswith("{"):
        return None
    try:
        value = json.loads(texts[0])
    except ValueError:
        return None
    is_one = isinstance(value, dict) and {"author", "recipient", "content"} <= value.keys()
    return agent_message(value) if is_one else None


def notice_text(payload: _Json) -> str:
    """Return what a notice says, its texts a line each."""
    return "\n".join(text for key in _NOTICE_TEXTS if isinstance(text := payload.get(key), str) and text)


# --- calls that events tell


class EventCall(NamedTuple):
    """A call, its answer, or both, as an event tells them."""

    id: str
    name: str | None
    """None where the event tells the answer alone."""
    arguments: Any
    answer: dict[str, Any] | None
    is_error: bool


class _Shape(NamedTuple):
    name: str
    arguments: tuple[str, ...]
    """The keys that hold the arguments; the only one that is an object is taken as they are."""
    answers: bool = True


_SHELL: Final = _Shape("exec_command", ("command", "cwd", "workdir"))
_PATCH: Final = _Shape("apply_patch", ("changes",))
_SEARCH: Final = _Shape("web_search", ("query", "action"))
_NAMED: Final = _Shape("", ("arguments",))
_IMAGE: Final = _Shape("image_generation", ("revised_prompt",))
_SHAPES: Final = {
    "exec_command_end": _SHELL,
    "CommandExecution": _SHELL,
    "patch_apply_end": _PATCH,
    "FileChange": _PATCH,
    "web_search_end": _SEARCH,
    "WebSearch": _SEARCH,
    "mcp_tool_call_end": _NAMED,
    "McpToolCall": _NAMED,
    "dynamic_tool_call_request": _Shape("", ("arguments",), answers=False),
    "dynamic_tool_call": _NAMED,
    "dynamic_tool_call_response": _NAMED,
    "DynamicToolCall": _NAMED,
    "view_image_tool_call": _Shape("view_image", ("path",)),
    "ImageView": _Shape("view_image", ("path",)),
    "image_generation_end": _IMAGE,
    "ImageGeneration": _IMAGE,
    "CollabAgentToolCall": _Shape("", ("prompt", "model")),
    "FunctionCallOutput": _Shape("", ()),
}
"""How events and completed items tell a call, and what it gave."""
_IDS: Final = ("call_id", "callId", "id")
_FAILED: Final = frozenset({"failed", "declined", "error", "errored", "cancelled"})


def event_call(payload: _Json) -> EventCall | None:
    """Return the call that an event, or the item that it completed, tells; None for any other event.

    >>> event_call({"type": "exec_command_end", "call_id": "c", "command": ["ls"], "exit_code": 1}).is_error
    True
    """
    kind = payload.get("type")
    shape = _SHAPES.get(kind) if isinstance(kind, str) else None
    if kind == "Extension" and isinstance(payload.get("kind"), str):
        shape = _Shape(payload["kind"].replace(".", "_"), ("query", "action", "arguments"))
    call_id = next((v for key in _IDS if isinstance(v := payload.get(key), str) and v), None)
    if shape is None or call_id is None:
        return None
    invocation = payload.get("invocation")
    held = {**payload, **invocation} if isinstance(invocation, dict) else dict(payload)
    name = shape.name or _tool_name(held)
    arguments = {key: held[key] for key in shape.arguments if held.get(key) is not None}
    given = arguments["arguments"] if shape.arguments == ("arguments",) and len(arguments) == 1 else arguments
    spent = {"type", "invocation", "tool", "server", "namespace", "arguments", *shape.arguments, *_IDS}
    rest = {key: value for key, value in held.items() if key not in spent} if shape.answers else None
    return EventCall(call_id, name, given, rest, rest is not None and has_failed(rest))


def _tool_name(held: _Json) -> str | None:
    names = [held.get(key) for key in ("server", "namespace", "tool")]
    return ".".join(each for each in names if isinstance(each, str) and each) or None


def has_failed(answer: _Json) -> bool:
    """Tell whether what a call gave says that it failed."""
    result, code = answer.get("result"), answer.get("exit_code")
    inner = result.get("Ok", result) if isinstance(result, dict) else {}
    told = isinstance(inner, dict) and (inner.get("isError") is True or inner.get("is_error") is True)
    status = answer.get("status")
    return (
        told
        or (isinstance(result, dict) and "Err" in result)
        or answer.get("success") is False
        or code not in (None, 0)
        or (isinstance(status, str) and status in _FAILED)
    )


def call_part(call: EventCall) -> dict[str, Any]:
    """Return the part of a turn that makes such a call."""
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}


def answer_part(call_id: str, answer: _Json, *, is_error: bool) -> dict[str, Any]:
    """Return the part of a turn that answers a call."""
    made = {"type": "tool_call_response", "id": call_id, "response": dict(answer)}
    return made | {"is_error": True} if is_error else made


def texts_of(parts: object) -> list[str]:
    """Return the texts of parts, in order.

    >>> texts_of([{"type": "input_text", "text": "a"}, {"type": "input_image"}])
    ['a']
    """
    found: list[Any] = parts if isinstance(parts, list) else []
    return [part["text"] for part in found if isinstance(part, dict) and isinstance(part.get("text"), str)]
