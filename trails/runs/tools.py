"""The two tools that a model is offered, `sessions_spawn` and `sessions_send`: their schemas, and reading a call's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trails.errors import RequestRefused
from trails.keys.configuration import section
from trails.runs.sending import DEFAULT_TIMEOUT, SendRequest

_TEXT: Final = {"type": "string"}

SPAWN: Final[Mapping[str, Any]] = {
    "name": "sessions_spawn",
    "description": "Start a sub-agent on a task in a session of its own. Its result is announced to you when it ends.",
    "parameters": {
        "type": "object",
        "properties": {
            "task": _TEXT | {"description": "What the sub-agent is to do."},
            "label": _TEXT | {"description": "What people call it, up to 64 characters.", "maxLength": 64},
            "agentId": _TEXT | {"description": "The agent that runs it, where that is another one."},
            "model": _TEXT | {"description": "The model, in place of the usual one."},
            "thinking": _TEXT | {"description": "The thinking level, in place of the usual one."},
            "runTimeoutSeconds": {"type": "number", "minimum": 0, "description": "How long it may take; 0: no limit."},
            "cleanup": {"type": "string", "enum": ["delete", "keep"], "description": "What becomes of its session."},
        },
        "required": ["task"],
    },
}
SEND: Final[Mapping[str, Any]] = {
    "name": "sessions_send",
    "description": "Send a message to another session, named by its key or its label, and wait for the answer.",
    "parameters": {
        "type": "object",
        "properties": {
            "sessionKey": _TEXT | {"description": "The session's key."},
            "label": _TEXT | {"description": "The session's label, where you have no key."},
            "agentId": _TEXT | {"description": "The agent whose session has the label."},
            "message": _TEXT | {"description": "What to say."},
            "timeoutSeconds": {
                "type": "number",
                "minimum": 0,
                "description": f"How long to wait for an answer; 0: not at all. {DEFAULT_TIMEOUT} by default.",
            },
        },
        "required": ["message"],
    },
}


def read_send(parameters: Mapping[str, Any], *, sandboxed: bool, channel: str | None) -> SendRequest:
    """Read the parameters of `sessions_send`; wrong and unknown ones raise `RequestRefused`.

    >>> read_send({"message": "Hello", "label": "desk", "timeoutSeconds": 2.9}, sandboxed=False, channel=None).timeout_seconds
    2
    """
    fields = section(parameters, "sessions_send")
    names = SEND["parameters"]["properties"]
    for name in fields:
        if name not in names:
            raise RequestRefused(f"sessions_send has no parameter {name}; it has {', '.join(names)}")
    return SendRequest.of(
        message=fields.get("message", ""),
        session_key=fields.get("sessionKey"),
        label=fields.get("label"),
        agent_id=fields.get("agentId"),
        timeout_seconds=fields.get("timeoutSeconds", DEFAULT_TIMEOUT),
        sandboxed=sandboxed,
        requester_channel=channel,
    )
