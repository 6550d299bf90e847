"""Decide whether a session may send or answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar, get_args

from trails.errors import InvalidInput
from trails.model.values import Value
from trails.runtime.config_values import Section, lower, trim
from trails.runtime.keys.key_resolution import CHANNELS
from trails.runtime.keys.session_key import parse_agent_key, parse_key

Decision = Literal["allow", "deny"]
ChatType = Literal["direct", "group", "channel"]
_Word = TypeVar("_Word", bound=str)


def _known_word(value: Any, words: tuple[_Word, ...]) -> _Word | None:
    text = lower(value) if isinstance(value, str) else ""
    return next((word for word in words if word == text), None)


def normalize_send_policy(value: Any) -> Decision | None:
    """Return allow or deny, or None for anything else.

    >>> normalize_send_policy(" Allow "), normalize_send_policy("nope")
    ('allow', None)
    """
    return _known_word(value, get_args(Decision))


def normalize_chat_type(value: Any) -> ChatType | None:
    """Return direct, group or channel, or None for anything else.

    "dm" is direct.

    >>> normalize_chat_type("DM"), normalize_chat_type("crowd")
    ('direct', None)
    """
    return "direct" if _known_word(value, ("dm",)) else _known_word(value, get_args(ChatType))


class SendRule(Value):
    """One rule: what it does, and what a session must be for it.

    What it does not name, any session is.
    """

    action: Decision
    channel: str | None = None
    chat_type: ChatType | None = None
    key_prefix: str | None = None
    raw_key_prefix: str | None = None
    """As `key_prefix`, of the whole key: later systems look at `key_prefix` in the key without its agent."""


class SendPolicy(Value):
    """The rules in their order, and what holds if none fits.

    >>> policy = SendPolicy.from_json({"rules": [{"action": "deny", "match": {"channel": "discord", "chatType": "group"}}]})
    >>> resolve_send_policy(policy, session_key="agent:main:discord:group:dev")
    'deny'
    """

    default: Decision = "allow"
    rules: tuple[SendRule, ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None, path: str = "session.sendPolicy") -> Self | None:
        """Read `{default, rules: [{action, match: {channel, chatType, keyPrefix, rawKeyPrefix}}]}`.

        None if there is none.

        As documented of these systems, an unknown default or action counts as allow, and a rule without a match fits every
        session. A field of another name, or a chat type that is none, raises `InvalidInput`: a mistyped rule would fit
        sessions that it does not mean.
        """
        if value is None:
            return None
        fields = Section(value, path, ("default", "rules"))
        return cls(
            default=normalize_send_policy(fields.get("default")) or "allow",
            rules=tuple(_rule(rule, place) for place, rule in fields.items("rules") if rule is not None),
        )


def _rule(value: Any, path: str) -> SendRule:
    fields = Section(value, path, ("action", "match"))
    match = fields.section("match", ("channel", "chatType", "keyPrefix", "rawKeyPrefix"))
    chat_type = normalize_chat_type(match.text("chatType"))
    if trim(match.text("chatType")) and chat_type is None:
        raise InvalidInput(f"{path}.match.chatType is {match.get('chatType')!r}; use direct, dm, group or channel")
    return SendRule(
        action=normalize_send_policy(fields.get("action")) or "allow",
        channel=lower(match.text("channel")) or None,
        chat_type=chat_type,
        key_prefix=lower(match.text("keyPrefix")) or None,
        raw_key_prefix=lower(match.text("rawKeyPrefix")) or None,
    )


class SendDecision(NamedTuple):
    """What was decided, and by what: "override", "rule", "default" or "no policy".

    `rule` is the rule's place in the list.
    """

    decision: Decision
    by: Literal["override", "rule", "default", "no policy"]
    rule: int | None = None


def resolve_send_policy(policy: SendPolicy | None, **session: Any) -> Decision:
    """Return whether a session may send: "allow" or "deny".

    See `explain_send_policy`.
    """
    return explain_send_policy(policy, **session).decision


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
    if none denies; then the default. The channel is the one given, else the entry's `channel` or `lastChannel`, else
    what the key says. A rule that denies a channel reads it from every form of key, with an agent before it or without; one
    that allows reads it from `CHANNEL:group:ID` and `CHANNEL:channel:ID` only, so that doubt never opens. Prefixes are
    put in lower case, keys are not. `strip_agent` makes `keyPrefix` fit the key without its agent too, as later systems and
    `Router` do.

    >>> deny = SendPolicy.from_json({"rules": [{"action": "deny", "match": {"keyPrefix": "cron:"}}, {"action": "allow"}]})
    >>> explain_send_policy(deny, session_key="cron:daily")
    SendDecision(decision='deny', by='rule', rule=0)
    """
    facts, key = entry or {}, session_key or ""
    override = normalize_send_policy(facts.get("sendPolicy"))
    if override is not None:
        return SendDecision(override, "override")
    if policy is None:
        return SendDecision("allow", "no policy")
    parts, agent = parse_key(key), parse_agent_key(key)
    keys = (key, agent.rest) if agent and strip_agent else (key,)
    names = (lower(name) for name in (channel, facts.get("channel"), facts.get("lastChannel")) if isinstance(name, str))
    words = [part for part in key.split(":") if part]
    plain = lower(words[0]) if len(words) >= 3 and words[1] in ("group", "channel") else None
    channel = next(filter(None, names), None) or plain or None
    kind = normalize_chat_type(chat_type if chat_type is not None else facts.get("chatType"))
    kind = kind or ("group" if ":group:" in key else "channel" if ":channel:" in key else None)
    denied_channel = channel or lower(parts.channel) or None
    denied_kind = kind or normalize_chat_type(parts.kind)

    def fits(rule: SendRule) -> bool:
        strict = rule.action == "deny" and rule.channel is not None
        return (
            rule.channel in (None, denied_channel if strict else channel)
            and rule.chat_type in (None, denied_kind if strict else kind)
            and key.startswith(rule.raw_key_prefix or "")
            and any(each.startswith(rule.key_prefix or "") for each in keys)
        )

    fitting = [(place, rule.action) for place, rule in enumerate(policy.rules) if fits(rule)]
    for action in ("deny", "allow"):
        for place, found in fitting:
            if found == action:
                return SendDecision(found, "rule", place)
    return SendDecision(policy.default, "default")


Activation = Literal["mention", "always"]
CORE_MESSAGING_TOOLS: Final = frozenset({"sessions_send", "message"})


def normalize_activation(value: Any) -> Activation | None:
    """Return mention or always, or None for anything else.

    >>> normalize_activation(" Always "), normalize_activation("never")
    ('always', None)
    """
    return _known_word(value, get_args(Activation))


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
    """Return whether an agent answers a message: always in a direct chat.

    In a group as its activation says.

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
    """Return whether a tool sends messages: a core one, or the tool of a channel. `channels` are those whose tools send.

    >>> is_messaging_tool("sessions_send"), is_messaging_tool("Slack"), is_messaging_tool("read")
    (True, True, False)
    """
    return name in CORE_MESSAGING_TOOLS or lower(name) in channels
