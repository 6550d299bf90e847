"""The words that people use for levels, brought to the few that are stored. None is what no word stands for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from trails.keys.script import lower, trim

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
