"""Check and apply patches of session entries: all of a patch, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from trails.errors import InvalidInput, RequestRefused
from trails.runtime.config_values import Moment, js_text, lower, trim
from trails.runtime.keys.session_key import is_subagent_key
from trails.runtime.policy.session_entry import (
    BY_SNAKE,
    PATCHABLE,
    XHIGH_MODELS,
    check_free_label,
    check_label,
    find_level,
    supports_xhigh,
    thinking_level,
    thinking_levels,
    touch_entry,
)


class ModelRef(NamedTuple):
    """A model and who provides it."""

    provider: str
    model: str


@dataclass(frozen=True, kw_only=True)
class ModelHost:
    """What a host knows of models. `resolve` turns a request's text into an allowed model, or raises `InvalidInput`."""

    default: ModelRef
    resolve: Callable[[str], ModelRef] | None = None
    """None where no catalogue is at hand: a model can then be cleared, not set."""
    xhigh_models: Collection[str] = XHIGH_MODELS


DEFAULT_HOST: Final = ModelHost(default=ModelRef("anthropic", "claude-opus-4-5"))
"""Of a host that gives none: the systems' own default model, and no catalogue."""


def model_ref(text: str, default_provider: str) -> ModelRef:
    """Return a model written `provider/model`, or `model` of the default provider.

    >>> model_ref("openai/gpt-5.2", "anthropic"), model_ref("gpt-5.2", "openai")
    (ModelRef(provider='openai', model='gpt-5.2'), ModelRef(provider='openai', model='gpt-5.2'))
    """
    provider, slash, model = trim(text).partition("/")
    found = ModelRef(trim(provider), trim(model)) if slash else ModelRef(default_provider, trim(provider))
    if not found.provider or not found.model:
        raise RequestRefused(f"invalid model: {trim(text)}")
    return found


Entries = Mapping[str, Mapping[str, Any]]
Entry = dict[str, Any]


def apply_patch(
    entries: Entries, key: str, patch: Mapping[str, Any], *, now: Moment, new_id: str, models: ModelHost = DEFAULT_HOST
) -> Entry:
    """Return the entry of a key as a patch leaves it, or raise `RequestRefused`; nothing is changed in place.

    A field that is not in the patch stays, None clears it, a value is checked and brought to its one form. One wrong field
    refuses the whole patch. Names may be those of `sessions.json` or Python's. A key without an entry gets one with `new_id`.

    `label` is unique among `entries`; `spawnedBy` is written once, for sub-agents only; another model drops the overrides of
    its credentials; the thinking level "xhigh" is refused for a model without it, and falls to "high" where a patch only
    changes the model.

    >>> apply_patch({}, "agent:main:main", {"thinking_level": "HIGH"}, now=5, new_id="n")
    {'sessionId': 'n', 'updatedAt': 5, 'thinkingLevel': 'high'}
    >>> apply_patch({}, "agent:main:main", {"sendPolicy": "deny", "label": ""}, now=5, new_id="n")
    Traceback (most recent call last):
    trails.errors.RequestRefused: invalid label: empty
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
    _set_choices(entry, wanted, _LEVELS)
    if "execNode" in wanted:
        _store(entry, "execNode", None if wanted["execNode"] is None else _text(wanted["execNode"], "execNode"))
    if "model" in wanted:
        _set_model(entry, wanted["model"], models)
    _check_xhigh(entry, wanted, models)
    _set_choices(entry, wanted, _POLICIES)
    return entry


def _named(patch: Mapping[str, Any]) -> Entry:
    """Return a patch under the names of `sessions.json`; refuse fields that cannot be patched."""
    named: Entry = {}
    for given, value in patch.items():
        name = BY_SNAKE[given].name if given in BY_SNAKE else given
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


_LEVELS: Final = (
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
