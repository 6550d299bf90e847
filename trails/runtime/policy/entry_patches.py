"""Changing a session's entry by request: every field checked first, then all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from trails.errors import InvalidInput, RequestRefused
from trails.runtime.config_values import Moment, js_text, lower, trim
from trails.runtime.keys.session_key import is_subagent_key
from trails.runtime.policy.send_policy import normalize_activation, normalize_send_policy
from trails.runtime.policy.session_entry import (
    BY_SNAKE,
    PATCHABLE,
    XHIGH_MODELS,
    check_free_label,
    check_label,
    either,
    elevated_level,
    reasoning_level,
    supports_xhigh,
    thinking_level,
    thinking_levels,
    touch_entry,
    usage_display,
    verbose_level,
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
    entries: Entries,
    key: str,
    patch: Mapping[str, Any],
    *,
    now: Moment,
    new_id: str,
    models: ModelHost = DEFAULT_HOST,
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
    _set_parent(entry, existing, key, wanted)
    _set_label(entry, key, wanted, entries)
    _set_thinking(entry, existing, wanted, models)
    _set_choices(entry, wanted, _LEVELS)
    _set_node(entry, wanted)
    _set_model(entry, wanted, models)
    _check_xhigh(entry, wanted, models)
    _set_choices(entry, wanted, _POLICIES)
    return entry


def _named(patch: Mapping[str, Any]) -> Entry:
    """Return a patch under the names of `sessions.json`; a field that cannot be patched is refused."""
    named: Entry = {}
    for given, value in patch.items():
        name = BY_SNAKE[given].name if given in BY_SNAKE else given
        if name not in PATCHABLE:
            raise RequestRefused(f"{given} cannot be patched; what can is {', '.join(PATCHABLE)}")
        if name in named:
            raise RequestRefused(f"{name} is in the patch twice")
        named[name] = value
    return named


def _set_parent(entry: Entry, existing: Mapping[str, Any] | None, key: str, wanted: Entry) -> None:
    if "spawnedBy" not in wanted:
        return
    known = (existing or {}).get("spawnedBy")
    if wanted["spawnedBy"] is None:
        if known:
            raise RequestRefused("spawnedBy cannot be cleared once set")
        return
    parent = _text(wanted["spawnedBy"], "spawnedBy")
    if not is_subagent_key(key):
        raise RequestRefused("spawnedBy is only supported for subagent:* sessions")
    if known and known != parent:
        raise RequestRefused("spawnedBy cannot be changed once set")
    entry["spawnedBy"] = parent


def _text(value: object, name: str) -> str:
    found = js_text(value)
    if found is None:
        raise RequestRefused(f"invalid {name}: must be a string")
    if not trim(found):
        raise RequestRefused(f"invalid {name}: empty")
    return trim(found)


def _set_label(entry: Entry, key: str, wanted: Entry, entries: Entries) -> None:
    if "label" not in wanted:
        return
    if wanted["label"] is None:
        entry.pop("label", None)
        return
    label = check_label(wanted["label"])
    check_free_label(label, key, entries)
    entry["label"] = label


def _set_thinking(entry: Entry, existing: Mapping[str, Any] | None, wanted: Entry, models: ModelHost) -> None:
    if "thinkingLevel" not in wanted:
        return
    value = wanted["thinkingLevel"]
    level = "off" if value is None else thinking_level(js_text(value) or "")
    if level is None:
        known = existing or {}
        provider = trim(known.get("providerOverride")) or models.default.provider
        model = trim(known.get("modelOverride")) or models.default.model
        levels = "|".join(thinking_levels(provider, model, models.xhigh_models))
        raise RequestRefused(f"invalid thinkingLevel (use {levels})")
    _store(entry, "thinkingLevel", None if level == "off" else level)


def _store(entry: Entry, name: str, value: str | None) -> None:
    if value is None:
        entry.pop(name, None)
    else:
        entry[name] = value


class _Choice(NamedTuple):
    """A field of few values: how words become values, how an error lists them, and whether "off" is stored."""

    name: str
    read: Callable[[str], str | None]
    hint: str
    stores_off: bool = True
    only_text: bool = False


def _one_of(*words: str) -> Callable[[str], str | None]:
    return lambda value: lower(value) if lower(value) in words else None


_LEVELS: Final = (
    _Choice("verboseLevel", verbose_level, '"on"|"off"', only_text=True),
    _Choice("reasoningLevel", reasoning_level, '"on"|"off"|"stream"', stores_off=False),
    _Choice("responseUsage", usage_display, '"off"|"tokens"|"full"', stores_off=False),
    _Choice("elevatedLevel", elevated_level, '"on"|"off"|"ask"|"full"'),
    _Choice("execHost", _one_of("sandbox", "gateway", "node"), '"sandbox"|"gateway"|"node"'),
    _Choice("execSecurity", _one_of("deny", "allowlist", "full"), '"deny"|"allowlist"|"full"'),
    _Choice("execAsk", _one_of("off", "on-miss", "always"), '"off"|"on-miss"|"always"'),
)
_POLICIES: Final = (
    _Choice("sendPolicy", normalize_send_policy, '"allow"|"deny"'),
    _Choice("groupActivation", normalize_activation, '"mention"|"always"'),
)


def _set_choices(entry: Entry, wanted: Entry, choices: Iterable[_Choice]) -> None:
    for choice in choices:
        if choice.name not in wanted:
            continue
        value = wanted[choice.name]
        if value is None:
            entry.pop(choice.name, None)
            continue
        said = value if isinstance(value, str) else None if choice.only_text else js_text(value)
        found = choice.read(said) if said is not None else None
        if found is None:
            raise RequestRefused(f"invalid {choice.name} (use {choice.hint})")
        _store(entry, choice.name, None if found == "off" and not choice.stores_off else found)


def _set_node(entry: Entry, wanted: Entry) -> None:
    if "execNode" in wanted:
        value = wanted["execNode"]
        _store(entry, "execNode", None if value is None else _text(value, "execNode"))


_CREDENTIALS: Final = ("authProfileOverride", "authProfileOverrideSource", "authProfileOverrideCompactionCount")


def _set_model(entry: Entry, wanted: Entry, models: ModelHost) -> None:
    if "model" not in wanted:
        return
    chosen = models.default if wanted["model"] is None else _resolved(_text(wanted["model"], "model"), models)
    is_default = chosen == models.default
    _store(entry, "providerOverride", None if is_default else chosen.provider)
    _store(entry, "modelOverride", None if is_default else chosen.model)
    for name in _CREDENTIALS:
        entry.pop(name, None)


def _resolved(text: str, models: ModelHost) -> ModelRef:
    if models.resolve is None:
        raise RequestRefused("model catalog unavailable", code="UNAVAILABLE")
    try:
        return ModelRef(*models.resolve(text))
    except RequestRefused:
        raise
    except InvalidInput as refused:
        raise RequestRefused(f"{refused}") from refused


def _check_xhigh(entry: Entry, wanted: Entry, models: ModelHost) -> None:
    if entry.get("thinkingLevel") != "xhigh":
        return
    provider = entry.get("providerOverride", models.default.provider)
    if supports_xhigh(provider, entry.get("modelOverride", models.default.model), models.xhigh_models):
        return
    if "thinkingLevel" in wanted:
        raise RequestRefused(f'thinkingLevel "xhigh" is only supported for {either(models.xhigh_models)}')
    entry["thinkingLevel"] = "high"


_WIRE: Final[Mapping[str, tuple[str, ...]]] = {
    "sendPolicy": ("allow", "deny"),
    "groupActivation": ("mention", "always"),
    "responseUsage": ("off", "tokens", "full", "on"),
}


def check_wire_patch(patch: Mapping[str, Any]) -> None:
    """Refuse a patch that the systems' own wire format does not let through, before `apply_patch` reads it more kindly.

    It knows no other fields, takes texts and null alone, and words of `sendPolicy`, `groupActivation` and `responseUsage`
    exactly as stored.

    >>> check_wire_patch({"sendPolicy": "deny"})
    >>> check_wire_patch({"sendPolicy": " DENY "})
    Traceback (most recent call last):
    trails.errors.RequestRefused: invalid sendPolicy (use "allow"|"deny")
    """
    for name, value in _named(patch).items():
        if value is None:
            continue
        allowed = _WIRE.get(name)
        if allowed and value not in allowed:
            words = "|".join(f'"{word}"' for word in allowed)
            raise RequestRefused(f"invalid {name} (use {words})")
        if not isinstance(value, str) or not value:
            raise RequestRefused(f"invalid {name}: must be a string that is not empty")
