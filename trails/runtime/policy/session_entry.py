"""Define the fields, labels and levels of session entries.

An entry is what `sessions.json` holds for a key: JSON with OpenClaw's names. `to_snake` and `to_json` change the names;
unknown fields are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, NamedTuple

from trails.errors import RequestRefused
from trails.runtime.config_values import Moment, lower, to_ms, trim, utf16_length

MAX_LABEL: Final = 64
"""In UTF-16 code units."""


def check_label(value: object) -> str:
    """Return a label trimmed, or raise `RequestRefused`: it is a text of 1 to 64 UTF-16 code units.

    >>> check_label("  Briefing  ")
    'Briefing'
    >>> check_label("")
    Traceback (most recent call last):
    trails.errors.RequestRefused: invalid label: empty
    """
    if not isinstance(value, str):
        raise RequestRefused("invalid label: must be a string")
    label = trim(value)
    if not label:
        raise RequestRefused("invalid label: empty")
    if utf16_length(label) > MAX_LABEL:
        raise RequestRefused(f"invalid label: too long (max {MAX_LABEL})")
    return label


def check_free_label(label: str, key: str, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a label that another session has; case counts, and a session may keep its own.

    >>> check_free_label("Trip", "a", {"a": {"label": "Trip"}, "b": {"label": "trip"}})
    >>> check_free_label("Trip", "a", {"b": {"label": "Trip"}})
    Traceback (most recent call last):
    trails.errors.RequestRefused: label already in use: Trip
    """
    if any(other != key and entry.get("label") == label for other, entry in entries.items()):
        raise RequestRefused(f"label already in use: {label}")


XHIGH_MODELS: Final = ("openai/gpt-5.2", "openai-codex/gpt-5.2-codex", "openai-codex/gpt-5.1-codex")
"""The models that think at the level "xhigh"."""

_OFF: Final = "off false no 0"
_ON: Final = "on true yes 1"
_LEVELS: Final[Mapping[str, Mapping[str, str]]] = {
    "thinkingLevel": {
        "off": "off",
        "minimal": "min minimal think",
        "low": "low thinkhard think-hard think_hard on enable enabled",
        "medium": "mid med medium thinkharder think-harder harder",
        "high": "high ultra ultrathink thinkhardest highest max",
        "xhigh": "xhigh x-high x_high",
    },
    "verboseLevel": {"off": _OFF, "full": "full all everything", "on": f"{_ON} minimal"},
    "reasoningLevel": {
        "off": f"{_OFF} hide hidden disable disabled",
        "on": f"{_ON} show visible enable enabled",
        "stream": "stream streaming draft live",
    },
    "responseUsage": {
        "off": f"{_OFF} disable disabled",
        "tokens": f"{_ON} enable enabled tokens token tok minimal min",
        "full": "full session",
    },
    "elevatedLevel": {
        "off": _OFF,
        "full": "full auto auto-approve autoapprove",
        "ask": "ask prompt approval approve",
        "on": _ON,
    },
    "queueMode": {
        "steer": "steer steering queue queued",
        "interrupt": "interrupt interrupts abort",
        "followup": "followup follow-ups followups",
        "collect": "collect coalesce",
        "steer-backlog": "steer+backlog steer-backlog steer_backlog",
    },
}
"""For each field, the levels that are stored, and the words that people use for them."""


def find_level(field: str, word: str) -> str | None:
    """Return the level of a field that a word stands for, or None.

    >>> find_level("verboseLevel", "yes"), find_level("elevatedLevel", "Prompt"), find_level("reasoningLevel", "loud")
    ('on', 'ask', None)
    """
    return next((level for level, words in _LEVELS[field].items() if word.lower() in words.split()), None)


def thinking_level(value: str) -> str | None:
    """Return off, minimal, low, medium, high or xhigh.

    >>> thinking_level("HIGH"), thinking_level("ultrathink"), thinking_level("think-hard"), thinking_level("")
    ('high', 'high', 'low', None)
    """
    return find_level("thinkingLevel", value)


def queue_mode(value: str | None) -> str | None:
    """Return steer, interrupt, followup, collect or steer-backlog.

    >>> queue_mode(" Queue "), queue_mode("steer+backlog"), queue_mode(None)
    ('steer', 'steer-backlog', None)
    """
    return find_level("queueMode", trim(value)) if value else None


def supports_xhigh(provider: str | None, model: str | None, models: Collection[str] = XHIGH_MODELS) -> bool:
    """Tell whether a model thinks at the level "xhigh"; without a provider, by the model's name alone.

    >>> supports_xhigh("OpenAI", "gpt-5.2"), supports_xhigh(None, "gpt-5.2-codex"), supports_xhigh("anthropic", "gpt-5.2")
    (True, True, False)
    """
    name, where = lower(model), lower(provider)
    names = {each.lower() if where else each.lower().split("/")[-1] for each in models}
    return bool(name) and (f"{where}/{name}" if where else name) in names


def thinking_levels(provider: str | None, model: str | None, models: Collection[str] = XHIGH_MODELS) -> tuple[str, ...]:
    """Return the levels that a model can think at, as errors list them.

    >>> "|".join(thinking_levels("anthropic", "claude-opus-4-5")), thinking_levels("z.ai", "glm")
    ('off|minimal|low|medium|high', ('off', 'on'))
    """
    if lower(provider) in ("zai", "z.ai", "z-ai"):
        return ("off", "on")
    levels = ("off", "minimal", "low", "medium", "high")
    return (*levels, "xhigh") if supports_xhigh(provider, model, models) else levels


FieldKind = Literal["text", "number", "flag", "choice", "object"]


class EntryField(NamedTuple):
    """One field of an entry."""

    name: str
    """As in `sessions.json`."""
    snake: str
    kind: FieldKind
    allowed: tuple[str, ...] = ()
    """The values of a choice, as stored."""
    patchable: bool = False
    kept_on_reset: bool = False
    """Whether it survives a reset that somebody asked for; one by the hour or by idleness keeps all but counters."""


_CHOICES: Final = {
    "chatType": "direct group channel",
    "thinkingLevel": "minimal low medium high xhigh",
    "verboseLevel": "on off full",
    "reasoningLevel": "on stream",
    "elevatedLevel": "on off ask full",
    "responseUsage": "tokens full",
    "ttsAuto": "off always inbound tagged",
    "execHost": "sandbox gateway node",
    "execSecurity": "deny allowlist full",
    "execAsk": "off on-miss always",
    "authProfileOverrideSource": "auto user",
    "groupActivation": "mention always",
    "sendPolicy": "allow deny",
    "queueMode": "steer followup collect steer-backlog steer+backlog queue interrupt",
    "queueDrop": "old new summarize",
}
_NAMES: Final[Mapping[FieldKind, str]] = {
    "text": "sessionId sessionFile spawnedBy lastHeartbeatText label displayName channel groupId subject groupChannel "
    "space lastChannel lastTo lastAccountId modelProvider model claudeCliSessionId providerOverride modelOverride "
    "authProfileOverride execNode",
    "number": "updatedAt lastHeartbeatSentAt inputTokens outputTokens totalTokens contextTokens compactionCount "
    "memoryFlushAt memoryFlushCompactionCount queueDebounceMs queueCap authProfileOverrideCompactionCount",
    "flag": "systemSent abortedLastRun groupActivationNeedsSystemIntro",
    "object": "origin deliveryContext cliSessionIds skillsSnapshot systemPromptReport lastThreadId",
    "choice": " ".join(_CHOICES),
}
_PATCHABLE: Final = (
    "label spawnedBy execNode model thinkingLevel verboseLevel reasoningLevel elevatedLevel responseUsage execHost "
    "execSecurity execAsk groupActivation sendPolicy"
)
_KEPT_ON_RESET: Final = (
    "thinkingLevel verboseLevel reasoningLevel responseUsage sendPolicy model contextTokens label "
    "origin lastChannel lastTo skillsSnapshot"
)

FIELDS: Final[tuple[EntryField, ...]] = tuple(
    EntryField(
        name,
        re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name),
        kind,
        tuple(_CHOICES.get(name, "").split()),
        name in _PATCHABLE.split(),
        name in _KEPT_ON_RESET.split(),
    )
    for kind, names in _NAMES.items()
    for name in names.split()
)
"""Every field that the systems store. `lastThreadId` is a text or a number."""

BY_NAME: Final = {field.name: field for field in FIELDS}
BY_SNAKE: Final = {field.snake: field for field in FIELDS}
PATCHABLE: Final = tuple(field.name for field in FIELDS if field.patchable)
KEPT_ON_RESET: Final = tuple(field.name for field in FIELDS if field.kept_on_reset)


def to_snake(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry's fields under Python's names; unknown fields keep theirs.

    >>> to_snake({"sessionId": "s", "thinkingLevel": "low", "myField": 1})
    {'session_id': 's', 'thinking_level': 'low', 'myField': 1}
    """
    return {BY_NAME[name].snake if name in BY_NAME else name: value for name, value in entry.items()}


def to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields under the names of `sessions.json`; unknown fields keep theirs.

    >>> to_json({"session_id": "s", "myField": 1})
    {'sessionId': 's', 'myField': 1}
    """
    return {BY_SNAKE[name].name if name in BY_SNAKE else name: value for name, value in values.items()}


def merge_entry(
    existing: Mapping[str, Any] | None, patch: Mapping[str, Any], *, now: Moment, new_id: str
) -> dict[str, Any]:
    """Return an entry with a patch's fields laid over it, unchecked: what the systems do with facts of their own.

    The session's id is the patch's, else the entry's, else `new_id`; `updatedAt` is the latest of the two and `now`.

    >>> merge_entry({"sessionId": "s", "updatedAt": 9}, {"channel": "slack"}, now=5, new_id="n")
    {'sessionId': 's', 'updatedAt': 9, 'channel': 'slack'}
    """
    old = dict(existing or {})
    latest = max(_updated(old), _updated(patch), to_ms(now))
    named = patch.get("sessionId") or old.get("sessionId") or new_id
    return {**old, **patch, "sessionId": named, "updatedAt": latest}


def _updated(entry: Mapping[str, Any]) -> int:
    value = entry.get("updatedAt")
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def touch_entry(existing: Mapping[str, Any] | None, *, now: Moment, new_id: str) -> dict[str, Any]:
    """Return an entry as it begins a change: an existing one with its time moved on, or a new one. Time never goes back.

    >>> touch_entry(None, now=5, new_id="n"), touch_entry({"label": "a", "updatedAt": 9}, now=5, new_id="n")
    ({'sessionId': 'n', 'updatedAt': 5}, {'label': 'a', 'updatedAt': 9})
    """
    if existing is None:
        return {"sessionId": new_id, "updatedAt": to_ms(now)}
    return {**existing, "updatedAt": max(_updated(existing), to_ms(now))}


def reset_entry(entry: Mapping[str, Any] | None, *, now: Moment, new_id: str) -> dict[str, Any]:
    """Return an entry after a reset that somebody asked for: a new session's id, counters at 0, and few fields kept.

    Kept are levels, the model in use, send policy, label and where it was last heard of (`KEPT_ON_RESET`). Overrides of
    the model and `spawnedBy` go.

    >>> reset_entry({"sessionId": "s", "label": "trip", "modelOverride": "m", "inputTokens": 7}, now=5, new_id="n")
    {'sessionId': 'n', 'updatedAt': 5, 'systemSent': False, 'abortedLastRun': False, 'label': 'trip', 'inputTokens': 0,
    'outputTokens': 0, 'totalTokens': 0}
    """
    old = entry or {}
    kept = {name: old[name] for name in KEPT_ON_RESET if old.get(name) is not None}
    return {**_begun(now, new_id), **kept, **_ZEROES}


_ZEROES: Final = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
_OF_ONE_SESSION: Final = frozenset({"sessionFile", "memoryFlushAt", "memoryFlushCompactionCount"})


def _begun(now: Moment, new_id: str) -> dict[str, Any]:
    return {"sessionId": new_id, "updatedAt": to_ms(now), "systemSent": False, "abortedLastRun": False}


def renew_entry(entry: Mapping[str, Any] | None, *, now: Moment, new_id: str) -> dict[str, Any]:
    """Return an entry after a reset by the hour or by idleness: a new session's id and counters at 0; all else is kept.

    Overrides stay, since nobody asked to drop them. The transcript's file and memory flushes belong to the old session.

    >>> renewed = renew_entry({"sessionId": "s", "modelOverride": "m", "compactionCount": 3}, now=5, new_id="n")
    >>> renewed["sessionId"], renewed["modelOverride"], renewed["compactionCount"]
    ('n', 'm', 0)
    """
    kept = {name: value for name, value in (entry or {}).items() if name not in _OF_ONE_SESSION}
    return {**kept, **_begun(now, new_id), **_ZEROES, "compactionCount": 0}


def total_tokens(entry: Mapping[str, Any]) -> int:
    """Return an entry's tokens in all: as stored, else what was read and written.

    >>> total_tokens({"inputTokens": 10, "outputTokens": 20}), total_tokens({"totalTokens": 7, "inputTokens": 10})
    (30, 7)
    """
    total = entry.get("totalTokens")
    return int((entry.get("inputTokens") or 0) + (entry.get("outputTokens") or 0) if total is None else total)


def delivery_context(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return where an answer goes (`channel`, `to`, `accountId`, `threadId`), trimmed, the channel in lower case; None if empty.

    >>> delivery_context({"channel": " WhatsApp ", "accountId": " acct-main ", "to": ""})
    {'channel': 'whatsapp', 'accountId': 'acct-main'}
    """
    if not isinstance(value, Mapping):
        return None
    context: dict[str, Any] = {}
    for name in ("channel", "to", "accountId", "threadId"):
        part = value.get(name)
        if isinstance(part, str) and trim(part):
            context[name] = lower(part) if name == "channel" else trim(part)
        elif name == "threadId" and isinstance(part, int) and not isinstance(part, bool):
            context[name] = part
    return context or None
