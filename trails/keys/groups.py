"""From a message's envelope to a key: which group or sender it is of, and how a group is called."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from trails.keys.building import agent_main_key
from trails.keys.canonical import to_store_key
from trails.keys.ids import fold
from trails.keys.script import lower, trim
from trails.model import Value

CHANNELS: Final = ("telegram", "whatsapp", "discord", "slack", "signal", "imessage", "googlechat")
"""The networks of the systems' own; a host with others passes its list."""
_SURFACES: Final = frozenset({*CHANNELS, "webchat"})
_UNSAFE: Final = re.compile(r"[^a-z0-9#@._+-]+")
_NOT_OF_A_NUMBER: Final = re.compile(r"[^0-9+]")


class GroupResolution(Value):
    """The group that a message is of: its short key, its network, its id, and whether it is a group or a channel."""

    key: str
    channel: str
    id: str
    chat_type: Literal["group", "channel"]


def resolve_group_key(
    context: Mapping[str, Any], *, channels: Collection[str] = _SURFACES, fold_case: bool = False
) -> GroupResolution | None:
    """Return the group or channel that a message's envelope names, or None for a direct message.

    `context` has the names of the systems' envelopes: `From` (`discord:group:123`, `123@g.us`), `ChatType`, `Provider`.
    `channels` are the networks that may stand before the id.

    >>> resolve_group_key({"From": "12345-678@g.us"}).key
    'whatsapp:group:12345-678@g.us'
    >>> resolve_group_key({"From": "+1555"}) is None
    True
    """
    sender, told = trim(_text(context.get("From"))), lower(_text(context.get("ChatType")))
    is_whatsapp = sender.lower().endswith("@g.us")
    marked = ":group:" in sender or ":channel:" in sender
    if not (told in ("group", "channel") or marked or is_whatsapp):
        return None
    parts = [part for part in sender.split(":") if part]
    head = lower(parts[0]) if parts else ""
    led = bool(head) and head in channels
    channel = head if led else _provider(context, is_whatsapp)
    if not channel:
        return None
    second = lower(parts[1]) if len(parts) > 1 else ""
    kind = (
        second
        if second in ("group", "channel")
        else ("channel" if ":channel:" in sender or told == "channel" else "group")
    )
    kept = parts[2:] if second in ("group", "channel") else parts[1:]
    name = fold(":".join(kept) if led else sender, fold_case=fold_case)
    if not name:
        return None
    return GroupResolution(
        key=f"{channel}:{kind}:{name}", channel=channel, id=name, chat_type="channel" if kind == "channel" else "group"
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _provider(context: Mapping[str, Any], is_whatsapp: bool) -> str:
    provider = context.get("Provider")
    if isinstance(provider, str):
        return lower(provider)
    return "whatsapp" if is_whatsapp else ""


def derive_session_key(scope: str, context: Mapping[str, Any], *, fold_case: bool = False) -> str:
    """Return the short key of a message: "global", its group's, its sender's number, or "unknown".

    >>> derive_session_key("per-sender", {"From": "whatsapp:+1 555"}), derive_session_key("per-sender", {})
    ('+1555', 'unknown')
    """
    if scope == "global":
        return "global"
    group = resolve_group_key(context, fold_case=fold_case)
    if group is not None:
        return group.key
    sender = _text(context.get("From"))
    return phone_number(sender) if sender else "unknown"


def phone_number(text: str) -> str:
    """Return a sender as a number of digits with a plus before it, as E.164 has it.

    >>> phone_number("whatsapp:+49 (170) 123"), phone_number("0049")
    ('+49170123', '+0049')
    """
    digits = _NOT_OF_A_NUMBER.sub("", trim(text.removeprefix("whatsapp:")))
    return digits if digits.startswith("+") else f"+{digits}"


def resolve_session_key(
    scope: str, context: Mapping[str, Any], *, main_key: str | None = None, fold_case: bool = False
) -> str:
    """Return the key of the session that a message belongs to, where direct messages share the main session.

    A `SessionKey` in the envelope wins. Groups and channels have sessions of their own.

    >>> resolve_session_key("per-sender", {"From": "+1555"}, main_key="primary")
    'agent:main:primary'
    """
    told = trim(_text(context.get("SessionKey")))
    if told:
        return fold(told, fold_case=fold_case)
    short = derive_session_key(scope, context, fold_case=fold_case)
    if scope == "global":
        return short
    if ":group:" in short or ":channel:" in short:
        return to_store_key(short, agent_id=None, fold_case=fold_case)
    return agent_main_key(None, main_key)


def group_display_name(
    *,
    key: str,
    provider: str | None = None,
    subject: str | None = None,
    group_channel: str | None = None,
    space: str | None = None,
    group_id: str | None = None,
) -> str:
    """Return how lists call a group: its network, and its room, subject or id in plain characters.

    >>> group_display_name(key="k", provider="discord", group_channel="#general", space="friends")
    'discord:friends#general'
    >>> group_display_name(key="k", provider="telegram", group_id="-100123")
    'telegram:g-100123'
    """
    network = lower(provider) or "group"
    room, where = trim(group_channel), trim(space)
    detail = room or trim(subject) or where
    if room and where:
        detail = f"{where}{'' if room.startswith('#') else '#'}{room}"
    raw = detail or trim(group_id) or key
    token = _plain(raw) or _plain(_shortened(raw))
    if not group_channel and token.startswith("#"):
        token = token.lstrip("#")
    if token and token[0] not in "@#" and not token.startswith("g-") and "#" not in token:
        token = f"g-{token}"
    return f"{network}:{token}" if token else network


def _plain(text: str) -> str:
    dashed = re.sub(r"\s+", "-", lower(text))
    return re.sub(r"-{2,}", "-", _UNSAFE.sub("-", dashed)).strip("-.")


def _shortened(text: str) -> str:
    whole = trim(text)
    return whole if len(whole) <= 14 else f"{whole[:6]}...{whole[-4:]}"
