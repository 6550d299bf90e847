"""When an agent answers in a group, and which tool calls are messages to people."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, NamedTuple

from trails.keys.groups import CHANNELS
from trails.keys.script import lower, trim
from trails.policy.send_rules import normalize_chat_type

Activation = Literal["mention", "always"]
CORE_MESSAGING_TOOLS: Final = frozenset({"sessions_send", "message"})
_SENDING: Final = frozenset({"send", "thread-reply"})
_COMMAND: Final = re.compile(r"/activation(?:\s*:\s*|\s+)?([a-zA-Z]+)?\s*", re.ASCII)


def normalize_activation(value: Any) -> Activation | None:
    """Return mention or always, or None for anything else.

    >>> normalize_activation(" Always "), normalize_activation("never")
    ('always', None)
    """
    word = lower(value) if isinstance(value, str) else ""
    return "mention" if word == "mention" else "always" if word == "always" else None


class ActivationCommand(NamedTuple):
    """A message `/activation ...`, and the mode that it names, if it names one."""

    mode: Activation | None


def parse_activation_command(body: str) -> ActivationCommand | None:
    """Return what a message `/activation mention` or `/activation always` asks for, or None if it is another message.

    >>> parse_activation_command("/activation always"), parse_activation_command("hello") is None
    (ActivationCommand(mode='always'), True)
    """
    found = _COMMAND.fullmatch(trim(body).lower())
    return None if found is None else ActivationCommand(normalize_activation(found[1]))


def should_respond(
    *,
    chat_type: str | None,
    activation: Any = None,
    default: Activation = "mention",
    was_mentioned: bool = False,
    implicit_mention: bool = False,
    has_any_mention: bool = False,
    can_detect_mention: bool = True,
    control_command: bool = False,
    command_authorised: bool = False,
) -> bool:
    """Tell whether an agent answers a message: always in a direct chat; in a group as its activation says.

    `activation` is the session's, `default` the configuration's for the group. Where a mention is asked for, these count
    as one: being named (`was_mentioned`), a reply to the agent and the like (`implicit_mention`), and an authorised
    sender's command in a message that names nobody (`has_any_mention` says whether it names anybody). Where the network
    cannot tell mentions, all messages are answered.

    >>> should_respond(chat_type="group"), should_respond(chat_type="group", was_mentioned=True)
    (False, True)
    >>> should_respond(chat_type="group", activation="always"), should_respond(chat_type="direct")
    (True, True)
    """
    if normalize_chat_type(chat_type) not in ("group", "channel"):
        return True
    if (normalize_activation(activation) or default) == "always" or not can_detect_mention:
        return True
    commanded = control_command and command_authorised and not has_any_mention
    return was_mentioned or implicit_mention or commanded


def is_messaging_tool(name: str, *, channels: Collection[str] = CHANNELS) -> bool:
    """Tell whether a tool sends messages: a core one, or the tool of a channel. `channels` are those whose tools send.

    >>> is_messaging_tool("sessions_send"), is_messaging_tool("Slack"), is_messaging_tool("read")
    (True, True, False)
    """
    return name in CORE_MESSAGING_TOOLS or lower(name) in channels


def is_messaging_send(
    name: str,
    arguments: Mapping[str, Any],
    *,
    channels: Collection[str] = CHANNELS,
    sends: Callable[[str, Mapping[str, Any]], bool] | None = None,
) -> bool:
    """Tell whether a tool call sends a message, and does not just read or react.

    `sends` decides for a channel's own tool, as each has other arguments: by default a call with an address `to`.

    >>> is_messaging_send("message", {"action": "send"}), is_messaging_send("message", {"action": "react"})
    (True, False)
    """
    if name == "sessions_send":
        return True
    if name == "message":
        action = arguments.get("action")
        return isinstance(action, str) and trim(action) in _SENDING
    if lower(name) not in channels:
        return False
    return sends(lower(name), arguments) if sends else bool(arguments.get("to"))
