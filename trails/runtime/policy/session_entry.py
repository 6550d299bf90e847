"""Define the fields, labels and levels of session entries.

What a session's label may be.

The words that people use for levels, brought to the few that are stored. None is what no word stands for.

The fields of a session entry: one table of names, kinds, values, and what may change them.

An entry is what `sessions.json` holds for a key: JSON with the systems' own names. Functions here and beside take and give
entries in that form; `to_snake` and `to_json` change the names, and fields that nobody knows are kept as they are.
"""

from __future__ import annotations

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

Words = dict[str, tuple[str, ...]]
_THINKING: Final[Words] = {
    "off": ("off",),
    "minimal": ("min", "minimal", "think"),
    "low": ("low", "thinkhard", "think-hard", "think_hard", "on", "enable", "enabled"),
    "medium": ("mid", "med", "medium", "thinkharder", "think-harder", "harder"),
    "high": ("high", "ultra", "ultrathink", "thinkhardest", "highest", "max"),
    "xhigh": ("xhigh", "x-high", "x_high"),
}
_OFF: Final = ("off", "false", "no", "0")
_ON: Final = ("on", "true", "yes", "1")
_VERBOSE: Final[Words] = {"off": _OFF, "full": ("full", "all", "everything"), "on": (*_ON, "minimal")}
_REASONING: Final[Words] = {
    "off": (*_OFF, "hide", "hidden", "disable", "disabled"),
    "on": (*_ON, "show", "visible", "enable", "enabled"),
    "stream": ("stream", "streaming", "draft", "live"),
}
_USAGE: Final[Words] = {
    "off": (*_OFF, "disable", "disabled"),
    "tokens": (*_ON, "enable", "enabled", "tokens", "token", "tok", "minimal", "min"),
    "full": ("full", "session"),
}
_ELEVATED: Final[Words] = {
    "off": _OFF,
    "full": ("full", "auto", "auto-approve", "autoapprove"),
    "ask": ("ask", "prompt", "approval", "approve"),
    "on": _ON,
}
_QUEUE: Final[Words] = {
    "steer": ("steer", "steering", "queue", "queued"),
    "interrupt": ("interrupt", "interrupts", "abort"),
    "followup": ("followup", "follow-ups", "followups"),
    "collect": ("collect", "coalesce"),
    "steer-backlog": ("steer+backlog", "steer-backlog", "steer_backlog"),
}


def _find(words: Words, value: str) -> str | None:
    word = value.lower()
    return next((level for level, known in words.items() if word in known), None)


def thinking_level(value: str) -> str | None:
    """Return off, minimal, low, medium, high or xhigh.

    >>> thinking_level("HIGH"), thinking_level("ultrathink"), thinking_level("think-hard"), thinking_level("")
    ('high', 'high', 'low', None)
    """
    return _find(_THINKING, value)


def verbose_level(value: str) -> str | None:
    """Return off, on or full.

    >>> verbose_level("yes"), verbose_level("everything"), verbose_level("loud")
    ('on', 'full', None)
    """
    return _find(_VERBOSE, value)


def reasoning_level(value: str) -> str | None:
    """Return off, on or stream.

    >>> reasoning_level("hidden"), reasoning_level("live")
    ('off', 'stream')
    """
    return _find(_REASONING, value)


def usage_display(value: str) -> str | None:
    """Return off, tokens or full.

    >>> usage_display("on"), usage_display("session")
    ('tokens', 'full')
    """
    return _find(_USAGE, value)


def elevated_level(value: str) -> str | None:
    """Return off, on, ask or full.

    >>> elevated_level("auto-approve"), elevated_level("prompt")
    ('full', 'ask')
    """
    return _find(_ELEVATED, value)


def queue_mode(value: str | None) -> str | None:
    """Return steer, interrupt, followup, collect or steer-backlog.

    >>> queue_mode(" Queue "), queue_mode("steer+backlog"), queue_mode(None)
    ('steer', 'steer-backlog', None)
    """
    return _find(_QUEUE, trim(value)) if value else None


def supports_xhigh(provider: str | None, model: str | None, models: Collection[str] = XHIGH_MODELS) -> bool:
    """Tell whether a model thinks at the level "xhigh"; without a provider, by the model's name alone.

    >>> supports_xhigh("OpenAI", "gpt-5.2"), supports_xhigh(None, "gpt-5.2-codex"), supports_xhigh("anthropic", "gpt-5.2")
    (True, True, False)
    """
    name, where = lower(model), lower(provider)
    if not name:
        return False
    return any(
        (f"{where}/{name}" if where else name) == (known.lower() if where else known.lower().split("/")[-1])
        for known in models
    )


def thinking_levels(provider: str | None, model: str | None, models: Collection[str] = XHIGH_MODELS) -> tuple[str, ...]:
    """Return the levels that a model can think at, as errors list them.

    >>> "|".join(thinking_levels("anthropic", "claude-opus-4-5")), thinking_levels("z.ai", "glm")
    ('off|minimal|low|medium|high', ('off', 'on'))
    """
    if lower(provider) in ("zai", "z.ai", "z-ai"):
        return ("off", "on")
    levels = ("off", "minimal", "low", "medium", "high")
    return (*levels, "xhigh") if supports_xhigh(provider, model, models) else levels


def either(names: Collection[str]) -> str:
    """Return names as a sentence lists them.

    >>> either(["a", "b", "c"]), either(["a"])
    ('a, b or c', 'a')
    """
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


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


THINKING: Final = ("minimal", "low", "medium", "high", "xhigh")
QUEUE_MODES: Final = ("steer", "followup", "collect", "steer-backlog", "steer+backlog", "queue", "interrupt")


def _snake(name: str) -> str:
    return "".join(f"_{character.lower()}" if character.isupper() else character for character in name)


def _fields(kind: FieldKind, names: str) -> list[EntryField]:
    return [EntryField(name, _snake(name), kind) for name in names.split()]


def _choice(name: str, *allowed: str, patchable: bool = False) -> EntryField:
    return EntryField(name, _snake(name), "choice", allowed, patchable)


_KEPT_ON_RESET: Final = "thinkingLevel verboseLevel reasoningLevel responseUsage sendPolicy model contextTokens label"
_KEPT_OF_ORIGIN: Final = "origin lastChannel lastTo skillsSnapshot"
_KEPT: Final = frozenset(f"{_KEPT_ON_RESET} {_KEPT_OF_ORIGIN}".split())
_PATCHABLE_TEXTS: Final = frozenset({"label", "spawnedBy", "execNode", "model"})

FIELDS: Final[tuple[EntryField, ...]] = tuple(
    field._replace(
        patchable=field.patchable or field.name in _PATCHABLE_TEXTS,
        kept_on_reset=field.name in _KEPT,
    )
    for field in [
        *_fields("text", "sessionId sessionFile spawnedBy lastHeartbeatText label displayName channel groupId subject"),
        *_fields("text", "groupChannel space lastChannel lastTo lastAccountId modelProvider model claudeCliSessionId"),
        *_fields("text", "providerOverride modelOverride authProfileOverride execNode"),
        *_fields(
            "number", "updatedAt lastHeartbeatSentAt inputTokens outputTokens totalTokens contextTokens compactionCount"
        ),
        *_fields("number", "memoryFlushAt memoryFlushCompactionCount queueDebounceMs queueCap"),
        *_fields("number", "authProfileOverrideCompactionCount"),
        *_fields("flag", "systemSent abortedLastRun groupActivationNeedsSystemIntro"),
        *_fields("object", "origin deliveryContext cliSessionIds skillsSnapshot systemPromptReport lastThreadId"),
        _choice("chatType", "direct", "group", "channel"),
        _choice("thinkingLevel", *THINKING, patchable=True),
        _choice("verboseLevel", "on", "off", "full", patchable=True),
        _choice("reasoningLevel", "on", "stream", patchable=True),
        _choice("elevatedLevel", "on", "off", "ask", "full", patchable=True),
        _choice("responseUsage", "tokens", "full", patchable=True),
        _choice("ttsAuto", "off", "always", "inbound", "tagged"),
        _choice("execHost", "sandbox", "gateway", "node", patchable=True),
        _choice("execSecurity", "deny", "allowlist", "full", patchable=True),
        _choice("execAsk", "off", "on-miss", "always", patchable=True),
        _choice("authProfileOverrideSource", "auto", "user"),
        _choice("groupActivation", "mention", "always", patchable=True),
        _choice("sendPolicy", "allow", "deny", patchable=True),
        _choice("queueMode", *QUEUE_MODES),
        _choice("queueDrop", "old", "new", "summarize"),
    ]
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
    found: dict[str, Any] = {}
    for name in ("channel", "to", "accountId", "threadId"):
        told = value.get(name)
        if isinstance(told, str) and trim(told):
            found[name] = trim(told).lower() if name == "channel" else trim(told)
        elif name == "threadId" and isinstance(told, int) and not isinstance(told, bool):
            found[name] = told
    return found or None
