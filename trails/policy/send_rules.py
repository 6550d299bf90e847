"""Whether a session may send: its own word, the rules of the configuration, the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Self

from trails.errors import InvalidInput
from trails.keys.configuration import listed, only, section, text
from trails.keys.parsing import SessionKey, parse_agent_key, parse_key
from trails.keys.script import lower, trim
from trails.model import Value

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
        fields = section(value, path)
        only(fields, path, ("default", "rules"))
        rules = enumerate(listed(fields.get("rules"), f"{path}.rules"))
        return cls(
            default=normalize_send_policy(fields.get("default")) or "allow",
            rules=tuple(_rule(rule, f"{path}.rules[{place}]") for place, rule in rules if rule is not None),
        )


def _rule(value: Any, path: str) -> SendRule:
    fields = section(value, path)
    only(fields, path, ("action", "match"))
    match = section(fields.get("match"), f"{path}.match")
    only(match, f"{path}.match", ("channel", "chatType", "keyPrefix", "rawKeyPrefix"))
    told = text(match.get("chatType"), f"{path}.match.chatType")
    kind = normalize_chat_type(told)
    if trim(told) and kind is None:
        raise InvalidInput(f"{path}.match.chatType is {told!r}; use direct, dm, group or channel")
    return SendRule(
        action=normalize_send_policy(fields.get("action")) or "allow",
        channel=lower(text(match.get("channel"), f"{path}.match.channel")) or None,
        chat_type=kind,
        key_prefix=lower(text(match.get("keyPrefix"), f"{path}.match.keyPrefix")) or None,
        raw_key_prefix=lower(text(match.get("rawKeyPrefix"), f"{path}.match.rawKeyPrefix")) or None,
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
