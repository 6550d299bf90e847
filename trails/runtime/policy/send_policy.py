"""Decide whether a session may send or answer.

Whether a session may send: its own word, the rules of the configuration, the default.

When an agent answers in a group, and which tool calls are messages to people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, NamedTuple, Self

from trails.errors import InvalidInput
from trails.model.values import Value
from trails.runtime.config_values import check_fields, config_list, config_section, config_text, lower, trim
from trails.runtime.keys.key_resolution import CHANNELS
from trails.runtime.keys.session_key import SessionKey, parse_agent_key, parse_key

Decision = Literal["allow", "deny"]
ChatType = Literal["direct", "group", "channel"]


def normalize_send_policy(value: Any) -> Decision | None:
    """Return allow or deny, or None for anything else.

    >>> normalize_send_policy(" Allow "), normalize_send_policy("nope")
    ('allow', None)
    """
    word = lower(value) if isinstance(value, str) else ""
    return "allow" if word == "allow" else "deny" if word == "deny" else None


def normalize_chat_type(value: Any) -> ChatType | None:
    """Return direct, group or channel, or None for anything else; "dm" is direct.

    >>> normalize_chat_type("DM"), normalize_chat_type("crowd")
    ('direct', None)
    """
    match lower(value) if isinstance(value, str) else "":
        case "dm" | "direct":
            return "direct"
        case "group":
            return "group"
        case "channel":
            return "channel"
    return None


class SendRule(Value):
    """One rule: what it does, and what a session must be for it; what it does not name, any session is."""

    action: Decision
    channel: str | None = None
    chat_type: ChatType | None = None
    key_prefix: str | None = None
    raw_key_prefix: str | None = None
    """As `key_prefix`, of the whole key: later systems look at `key_prefix` in the key without its agent."""


class SendPolicy(Value):
    """The rules in their order, and what holds where none fits.

    >>> policy = SendPolicy.from_json({"rules": [{"action": "deny", "match": {"channel": "discord", "chatType": "group"}}]})
    >>> resolve_send_policy(policy, session_key="agent:main:discord:group:dev")
    'deny'
    """

    default: Decision = "allow"
    rules: tuple[SendRule, ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None, path: str = "session.sendPolicy") -> Self | None:
        """Read `{default, rules: [{action, match: {channel, chatType, keyPrefix, rawKeyPrefix}}]}`; None where there is none.

        As documented of these systems, an unknown default or action counts as allow, and a rule without a match fits every
        session. A field of another name, or a chat type that is none, raises `InvalidInput`: a mistyped rule would fit
        sessions that it does not mean.
        """
        if value is None:
            return None
        fields = config_section(value, path)
        check_fields(fields, path, ("default", "rules"))
        rules = enumerate(config_list(fields.get("rules"), f"{path}.rules"))
        return cls(
            default=normalize_send_policy(fields.get("default")) or "allow",
            rules=tuple(_rule(rule, f"{path}.rules[{place}]") for place, rule in rules if rule is not None),
        )


def _rule(value: Any, path: str) -> SendRule:
    fields = config_section(value, path)
    check_fields(fields, path, ("action", "match"))
    match = config_section(fields.get("match"), f"{path}.match")
    check_fields(match, f"{path}.match", ("channel", "chatType", "keyPrefix", "rawKeyPrefix"))
    told = config_text(match.get("chatType"), f"{path}.match.chatType")
    kind = normalize_chat_type(told)
    if trim(told) and kind is None:
        raise InvalidInput(f"{path}.match.chatType is {told!r}; use direct, dm, group or channel")
    return SendRule(
        action=normalize_send_policy(fields.get("action")) or "allow",
        channel=lower(config_text(match.get("channel"), f"{path}.match.channel")) or None,
        chat_type=kind,
        key_prefix=lower(config_text(match.get("keyPrefix"), f"{path}.match.keyPrefix")) or None,
        raw_key_prefix=lower(config_text(match.get("rawKeyPrefix"), f"{path}.match.rawKeyPrefix")) or None,
    )


class SendDecision(NamedTuple):
    """What was decided, and by what: "override", "rule", "default" or "no policy"; `rule` is the rule's place in the list."""

    decision: Decision
    by: Literal["override", "rule", "default", "no policy"]
    rule: int | None = None


def resolve_send_policy(
    policy: SendPolicy | None,
    *,
    entry: Mapping[str, Any] | None = None,
    session_key: str | None = None,
    channel: str | None = None,
    chat_type: str | None = None,
    strip_agent: bool = False,
) -> Decision:
    """Return whether a session may send: "allow" or "deny". See `explain_send_policy`."""
    return explain_send_policy(
        policy, entry=entry, session_key=session_key, channel=channel, chat_type=chat_type, strip_agent=strip_agent
    ).decision


def explain_send_policy(
    policy: SendPolicy | None,
    *,
    entry: Mapping[str, Any] | None = None,
    session_key: str | None = None,
    channel: str | None = None,
    chat_type: str | None = None,
    strip_agent: bool = False,
) -> SendDecision:
    """Return whether a session may send, and what decided.

    The session's own `sendPolicy` (of its entry) wins. Then the first rule that denies and fits; a rule that allows only
    where none denies; then the default. The channel is the one given, else the entry's `channel` or `lastChannel`, else
    what the key says. A rule that denies a channel reads it from every form of key, with an agent before it or without; one
    that allows reads it from `CHANNEL:group:ID` and `CHANNEL:channel:ID` only, so that doubt never opens. Prefixes are
    put in lower case, keys are not. `strip_agent` makes `keyPrefix` fit the key without its agent too, as later systems and
    `Router` do.

    >>> deny = SendPolicy.from_json({"rules": [{"action": "deny", "match": {"keyPrefix": "cron:"}}, {"action": "allow"}]})
    >>> explain_send_policy(deny, session_key="cron:daily")
    SendDecision(decision='deny', by='rule', rule=0)
    """
    facts = entry or {}
    override = normalize_send_policy(facts.get("sendPolicy"))
    if override is not None:
        return SendDecision(override, "override")
    if policy is None:
        return SendDecision("allow", "no policy")
    asked = _Sender.of(facts, session_key or "", channel, chat_type, strip_agent=strip_agent)
    allowed: int | None = None
    for place, rule in enumerate(policy.rules):
        if asked.fits(rule):
            if rule.action == "deny":
                return SendDecision("deny", "rule", place)
            allowed = place if allowed is None else allowed
    if allowed is not None:
        return SendDecision("allow", "rule", allowed)
    return SendDecision(policy.default, "default")


class _Sender(NamedTuple):
    """What is known of the session that would send: as told, and as its key says to a rule that denies."""

    key: str
    stripped: str | None
    channel: str | None
    chat_type: ChatType | None
    denied_channel: str | None
    denied_type: ChatType | None

    @classmethod
    def of(
        cls, entry: Mapping[str, Any], key: str, channel: str | None, chat_type: str | None, *, strip_agent: bool
    ) -> Self:
        told = next(
            (
                lower(one)
                for one in (channel, entry.get("channel"), entry.get("lastChannel"))
                if isinstance(one, str) and lower(one)
            ),
            None,
        ) or _plain_channel(key)
        kind = normalize_chat_type(chat_type if chat_type is not None else entry.get("chatType")) or _plain_type(key)
        parts, agent = parse_key(key), parse_agent_key(key)
        return cls(
            key=key,
            stripped=agent.rest if agent and strip_agent else None,
            channel=told,
            chat_type=kind,
            denied_channel=told or lower(parts.channel) or None,
            denied_type=kind or _type_of(parts),
        )

    def fits(self, rule: SendRule) -> bool:
        """Tell whether a rule is about this session."""
        strict = rule.action == "deny" and rule.channel is not None
        if rule.channel is not None and rule.channel != (self.denied_channel if strict else self.channel):
            return False
        if rule.chat_type is not None and rule.chat_type != (self.denied_type if strict else self.chat_type):
            return False
        if rule.raw_key_prefix is not None and not self.key.startswith(rule.raw_key_prefix):
            return False
        prefix = rule.key_prefix
        return prefix is None or any(key.startswith(prefix) for key in (self.key, self.stripped) if key is not None)


def _plain_channel(key: str) -> str | None:
    parts = [part for part in key.split(":") if part]
    return lower(parts[0]) or None if len(parts) >= 3 and parts[1] in ("group", "channel") else None


def _plain_type(key: str) -> ChatType | None:
    return "group" if ":group:" in key else "channel" if ":channel:" in key else None


def _type_of(parts: SessionKey) -> ChatType | None:
    """Return the chat type that a key's form says: main sessions, jobs and runs have none."""
    return "direct" if parts.kind == "dm" else normalize_chat_type(parts.kind)


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
