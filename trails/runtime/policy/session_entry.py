"""Check and apply patches of session entries, merge entries and reset them.

An entry is what `sessions.json` holds for a key: JSON with OpenClaw's names. Unknown fields are kept as they are. A patch
is applied whole or not at all; it may write the names with underscores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from trails.errors import InvalidInput, RequestRefused
from trails.runtime.config_values import Json, Moment, js_text, lower, to_ms, trim, utf16_length
from trails.runtime.keys.session_key import is_subagent_key

MAX_LABEL: Final = 64
"""In UTF-16 code units."""


def check_label(value: object) -> str:
    """Return a label trimmed.

    Raise `RequestRefused`: it is a text of 1 to 64 UTF-16 code units.

    >>> check_label("  Briefing  ")
    'Briefing'
    >>> check_label("")
    Traceback (most recent call last):
    trails.errors.RequestRefused: invalid label: empty (trails guide errors/request-refused)
    """
    if not isinstance(value, str):
        raise RequestRefused("invalid label: must be a string")
    label = trim(value)
    if not label:
        raise RequestRefused("invalid label: empty")
    if utf16_length(label) > MAX_LABEL:
        raise RequestRefused(f"invalid label: too long (max {MAX_LABEL})")
    return label


def check_free_label(label: str, key: str, entries: Mapping[str, Json]) -> None:
    """Refuse a label that another session has.

    Case counts, and a session may keep its own.

    >>> check_free_label("Trip", "a", {"a": {"label": "Trip"}, "b": {"label": "trip"}})
    >>> check_free_label("Trip", "a", {"b": {"label": "Trip"}})
    Traceback (most recent call last):
    trails.errors.RequestRefused: label already in use: Trip (trails guide errors/request-refused)
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
    """Return whether a model thinks at the level "xhigh".

    Without a provider, by the model's name alone.

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


_PATCHABLE: Final = (
    "spawnedBy label model execNode thinkingLevel verboseLevel reasoningLevel elevatedLevel responseUsage execHost "
    "execSecurity execAsk groupActivation sendPolicy"
)
PATCHABLE: Final = tuple(_PATCHABLE.split())
"""The fields that a patch may name."""
_BY_SNAKE: Final = {re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name): name for name in PATCHABLE}
_KEPT_ON_RESET: Final = (
    "thinkingLevel verboseLevel reasoningLevel responseUsage sendPolicy model contextTokens label "
    "origin lastChannel lastTo skillsSnapshot"
)
KEPT_ON_RESET: Final = tuple(_KEPT_ON_RESET.split())
"""The fields that survive a reset that somebody asked for; one by the hour or by idleness keeps all but counters."""


def merge_entry(existing: Json | None, patch: Json, *, now: Moment, new_id: str) -> dict[str, Any]:
    """Return an entry with a patch's fields laid over it, unchecked: what the systems do with facts of their own.

    The session's id is the patch's, else the entry's, else `new_id`; `updatedAt` is the latest of the two and `now`.

    >>> merge_entry({"sessionId": "s", "updatedAt": 9}, {"channel": "slack"}, now=5, new_id="n")
    {'sessionId': 's', 'updatedAt': 9, 'channel': 'slack'}
    """
    old = dict(existing or {})
    latest = max(_updated(old), _updated(patch), to_ms(now))
    named = patch.get("sessionId") or old.get("sessionId") or new_id
    return {**old, **patch, "sessionId": named, "updatedAt": latest}


def _updated(entry: Json) -> int:
    value = entry.get("updatedAt")
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def touch_entry(existing: Json | None, *, now: Moment, new_id: str) -> dict[str, Any]:
    """Return an entry as it begins a change: an existing one with its time moved on, or a new one. Time never goes back.

    >>> touch_entry(None, now=5, new_id="n"), touch_entry({"label": "a", "updatedAt": 9}, now=5, new_id="n")
    ({'sessionId': 'n', 'updatedAt': 5}, {'label': 'a', 'updatedAt': 9})
    """
    if existing is None:
        return {"sessionId": new_id, "updatedAt": to_ms(now)}
    return {**existing, "updatedAt": max(_updated(existing), to_ms(now))}


def reset_entry(entry: Json | None, *, now: Moment, new_id: str) -> dict[str, Any]:
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


def renew_entry(entry: Json | None, *, now: Moment, new_id: str) -> dict[str, Any]:
    """Return an entry after a reset by the hour or by idleness: a new session's id and counters at 0; all else is kept.

    Overrides stay, since nobody asked to drop them. The transcript's file and memory flushes belong to the old session.

    >>> renewed = renew_entry({"sessionId": "s", "modelOverride": "m", "compactionCount": 3}, now=5, new_id="n")
    >>> renewed["sessionId"], renewed["modelOverride"], renewed["compactionCount"]
    ('n', 'm', 0)
    """
    kept = {name: value for name, value in (entry or {}).items() if name not in _OF_ONE_SESSION}
    return {**kept, **_begun(now, new_id), **_ZEROES, "compactionCount": 0}


def total_tokens(entry: Json) -> int:
    """Return an entry's tokens in all: as stored, else what was read and written.

    >>> total_tokens({"inputTokens": 10, "outputTokens": 20}), total_tokens({"totalTokens": 7, "inputTokens": 10})
    (30, 7)
    """
    total = entry.get("totalTokens")
    return int((entry.get("inputTokens") or 0) + (entry.get("outputTokens") or 0) if total is None else total)


def delivery_context(value: Json | None) -> dict[str, Any] | None:
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


class ModelRef(NamedTuple):
    """A model and who provides it."""

    provider: str
    model: str


@dataclass(frozen=True, kw_only=True)
class ModelHost:
    """What a host knows of models.

    `resolve` turns a request's text into an allowed model, or raises `InvalidInput`.
    """

    default: ModelRef
    resolve: Callable[[str], ModelRef] | None = None
    """None if the catalogue cannot be reached: a model can then be cleared, not set."""
    xhigh_models: Collection[str] = XHIGH_MODELS


def model_ref(text: str, default_provider: str) -> ModelRef:
    """Return a model written `provider/model`, or `model` of the default provider.

    >>> model_ref("openai/gpt-5.2", "anthropic"), model_ref("gpt-5.2", "openai")
    (ModelRef(provider='openai', model='gpt-5.2'), ModelRef(provider='openai', model='gpt-5.2'))
    """
    provider, slash, model = trim(text).partition("/")
    reference = ModelRef(trim(provider), trim(model)) if slash else ModelRef(default_provider, trim(provider))
    if not reference.provider or not reference.model:
        raise RequestRefused(f"invalid model: {trim(text)}")
    return reference


_DEFAULT: Final = ModelRef("anthropic", "claude-opus-4-5")
DEFAULT_HOST: Final = ModelHost(default=_DEFAULT, resolve=lambda text: model_ref(text, _DEFAULT.provider))
"""Of a host that gives none: the systems' own default model, and no catalogue, so that any well-formed model may be set."""


def model_host(models: Collection[str]) -> ModelHost:
    """Return a host that allows some models, each written `provider/model`; the first is its default.

    >>> host = model_host(["openai/gpt-5.2", "anthropic/claude-opus-4-5"])
    >>> host.default, host.resolve("anthropic/claude-opus-4-5")
    (ModelRef(provider='openai', model='gpt-5.2'), ModelRef(provider='anthropic', model='claude-opus-4-5'))
    """
    if isinstance(models, str) or not models:
        raise InvalidInput(f"models is {models!r}; give a list of models, each written provider/model, or a ModelHost")
    allowed = [model_ref(each, _DEFAULT.provider) for each in models]

    def resolve(text: str) -> ModelRef:
        model = model_ref(text, allowed[0].provider)
        if model not in allowed:
            raise RequestRefused(f"model not allowed: {trim(text)}")
        return model

    return ModelHost(default=allowed[0], resolve=resolve)


Entries = Mapping[str, Json]
Entry = dict[str, Any]


def apply_patch(
    entries: Entries, key: str, patch: Json, *, now: Moment, new_id: str, models: ModelHost = DEFAULT_HOST
) -> Entry:
    """Return the entry of a key as a patch leaves it.

    Raise `RequestRefused`; nothing is changed in place.

    A field that is not in the patch stays, None clears it, a value is checked and brought to its one form. One wrong field
    refuses the whole patch. Names may be those of `sessions.json` or Python's. A key without an entry gets one with `new_id`.

    `label` is unique among `entries`; `spawnedBy` is written once, for sub-agents only; another model drops the overrides of
    its credentials; the thinking level "xhigh" is refused for a model without it, and falls to "high" if a patch only
    changes the model.

    >>> apply_patch({}, "agent:main:main", {"thinking_level": "HIGH"}, now=5, new_id="n")
    {'sessionId': 'n', 'updatedAt': 5, 'thinkingLevel': 'high'}
    >>> apply_patch({}, "agent:main:main", {"sendPolicy": "deny", "label": ""}, now=5, new_id="n")
    Traceback (most recent call last):
    trails.errors.RequestRefused: invalid label: empty (trails guide errors/request-refused)
    """
    wanted = _named(patch)
    existing = entries.get(key)
    entry = touch_entry(existing, now=now, new_id=new_id)
    if "spawnedBy" in wanted:
        _set_parent(entry, key, wanted["spawnedBy"])
    if "label" in wanted:
        label = None if wanted["label"] is None else check_label(wanted["label"])
        if label is not None:
            check_free_label(label, key, entries)
        _store(entry, "label", label)
    if "thinkingLevel" in wanted:
        _set_thinking(entry, wanted["thinkingLevel"], models)
    _set_choices(entry, wanted, _CHOICE_FIELDS)
    if "execNode" in wanted:
        _store(entry, "execNode", None if wanted["execNode"] is None else _text(wanted["execNode"], "execNode"))
    if "model" in wanted:
        _set_model(entry, wanted["model"], models)
    _check_xhigh(entry, wanted, models)
    _set_choices(entry, wanted, _POLICIES)
    return entry


def _named(patch: Json) -> Entry:
    """Return a patch under the names of `sessions.json`.

    Refuse fields that cannot be patched.
    """
    named: Entry = {}
    for given, value in patch.items():
        name = _BY_SNAKE.get(given, given)
        if name not in PATCHABLE:
            raise RequestRefused(f"{given} cannot be patched; what can is {', '.join(PATCHABLE)}")
        if name in named:
            raise RequestRefused(f"{name} is in the patch twice")
        named[name] = value
    return named


def _set_parent(entry: Entry, key: str, value: object) -> None:
    known = entry.get("spawnedBy")
    if value is None:
        if known:
            raise RequestRefused("spawnedBy cannot be cleared once set")
        return
    parent = _text(value, "spawnedBy")
    if not is_subagent_key(key):
        raise RequestRefused("spawnedBy is only supported for subagent:* sessions")
    if known and known != parent:
        raise RequestRefused("spawnedBy cannot be changed once set")
    entry["spawnedBy"] = parent


def _text(value: object, name: str) -> str:
    text = js_text(value)
    if text is None:
        raise RequestRefused(f"invalid {name}: must be a string")
    if not trim(text):
        raise RequestRefused(f"invalid {name}: empty")
    return trim(text)


def _set_thinking(entry: Entry, value: object, models: ModelHost) -> None:
    level = "off" if value is None else thinking_level(js_text(value) or "")
    if level is None:
        provider = trim(entry.get("providerOverride")) or models.default.provider
        model = trim(entry.get("modelOverride")) or models.default.model
        levels = "|".join(thinking_levels(provider, model, models.xhigh_models))
        raise RequestRefused(f"invalid thinkingLevel (use {levels})")
    _store(entry, "thinkingLevel", None if level == "off" else level)


def _store(entry: Entry, name: str, value: str | None) -> None:
    if value is None:
        entry.pop(name, None)
    else:
        entry[name] = value


class _Choice(NamedTuple):
    """A field of few values: the values that an error lists, how words become values, and whether "off" is stored."""

    name: str
    values: str
    read: Callable[[str], str | None] | None = None
    """None if only the values themselves are understood, in any case."""
    stores_off: bool = True
    only_text: bool = False


_CHOICE_FIELDS: Final = (
    _Choice("verboseLevel", "on off", partial(find_level, "verboseLevel"), only_text=True),
    _Choice("reasoningLevel", "on off stream", partial(find_level, "reasoningLevel"), stores_off=False),
    _Choice("responseUsage", "off tokens full", partial(find_level, "responseUsage"), stores_off=False),
    _Choice("elevatedLevel", "on off ask full", partial(find_level, "elevatedLevel")),
    _Choice("execHost", "sandbox gateway node"),
    _Choice("execSecurity", "deny allowlist full"),
    _Choice("execAsk", "off on-miss always"),
)
_POLICIES: Final = (_Choice("sendPolicy", "allow deny"), _Choice("groupActivation", "mention always"))


def _quoted(words: Iterable[str]) -> str:
    return "|".join(f'"{word}"' for word in words)


def _set_choices(entry: Entry, wanted: Entry, choices: Iterable[_Choice]) -> None:
    for choice in choices:
        if choice.name not in wanted:
            continue
        value, values = wanted[choice.name], choice.values.split()
        word = value if isinstance(value, str) or choice.only_text else js_text(value)
        if value is None:
            level = None
        elif not isinstance(word, str):
            level = ""
        elif choice.read is not None:
            level = choice.read(word) or ""
        else:
            level = lower(word) if lower(word) in values else ""
        if level == "":
            raise RequestRefused(f"invalid {choice.name} (use {_quoted(values)})")
        _store(entry, choice.name, None if level == "off" and not choice.stores_off else level)


def _set_model(entry: Entry, value: object, models: ModelHost) -> None:
    chosen = models.default if value is None else _resolve_model(_text(value, "model"), models)
    is_default = chosen == models.default
    _store(entry, "providerOverride", None if is_default else chosen.provider)
    _store(entry, "modelOverride", None if is_default else chosen.model)
    for name in ("authProfileOverride", "authProfileOverrideSource", "authProfileOverrideCompactionCount"):
        entry.pop(name, None)


def _resolve_model(text: str, models: ModelHost) -> ModelRef:
    if models.resolve is None:
        raise RequestRefused("model catalog unavailable", code="UNAVAILABLE")
    try:
        return ModelRef(*models.resolve(text))
    except RequestRefused:
        raise
    except InvalidInput as refused:
        raise RequestRefused(f"{refused}") from refused


def _check_xhigh(entry: Entry, wanted: Entry, models: ModelHost) -> None:
    provider = entry.get("providerOverride", models.default.provider)
    model = entry.get("modelOverride", models.default.model)
    if entry.get("thinkingLevel") != "xhigh" or supports_xhigh(provider, model, models.xhigh_models):
        return
    if "thinkingLevel" in wanted:
        *others, last = models.xhigh_models
        names = f"{', '.join(others)} or {last}" if others else last
        raise RequestRefused(f'thinkingLevel "xhigh" is only supported for {names}')
    entry["thinkingLevel"] = "high"
