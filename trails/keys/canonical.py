"""The one form of each key under which a session is stored, and the shorter ones by which people and tools name it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trails.keys.building import agent_main_key, build_key
from trails.keys.ids import DEFAULT_MAIN_KEY, normalize_agent_id
from trails.keys.parsing import parse_agent_key, parse_key
from trails.keys.script import trim
from trails.keys.settings import KeySettings


def main_session_key(config: Mapping[str, Any] | KeySettings | None = None) -> str:
    """Return the key of the main session: of the default agent, or "global" where all share one.

    The default agent is the one so marked, else the first in the list, else "main".

    >>> main_session_key({"agents": {"list": [{"id": "first"}, {"id": "Second", "default": True}]}})
    'agent:second:main'
    """
    return _settings(config).main_session_key


def _settings(config: Mapping[str, Any] | KeySettings | None) -> KeySettings:
    return config if isinstance(config, KeySettings) else KeySettings.from_json(config)


def canonicalize_main_alias(
    session_key: str, *, agent_id: str | None, config: Mapping[str, Any] | KeySettings | None
) -> str:
    """Return an agent's main session for every name of it, and any other key unchanged.

    >>> canonicalize_main_alias("main", agent_id="ops", config={"session": {"mainKey": "work"}})
    'agent:ops:work'
    """
    raw, settings = trim(session_key), _settings(config)
    whole = agent_main_key(agent_id, settings.main_key)
    if raw not in (DEFAULT_MAIN_KEY, settings.main_key, whole, agent_main_key(agent_id)):
        return raw
    return "global" if settings.scope == "global" else whole


def to_store_key(
    request_key: str | None, *, agent_id: str | None, main_key: str | None = None, fold_case: bool = False
) -> str:
    """Return the agent-prefixed key of what a request names: the agent's main session for "main" or nothing.

    Structure words are put in lower case; opaque ids only with `fold_case`.

    >>> to_store_key("Discord:Group:AbC", agent_id="Ops"), to_store_key("main", agent_id="ops", main_key="work")
    ('agent:ops:discord:group:AbC', 'agent:ops:work')
    """
    raw = trim(request_key)
    if not raw or raw == DEFAULT_MAIN_KEY:
        return agent_main_key(agent_id, main_key)
    key = raw if raw.lower().startswith("agent:") else f"agent:{normalize_agent_id(agent_id)}:{raw}"
    if fold_case:
        return key.lower()
    return build_key(parse_key("agent:" + key[len("agent:") :]))


def to_request_key(store_key: str | None) -> str | None:
    """Return a key without its agent; None for nothing.

    >>> to_request_key("agent:main:discord:group:1"), to_request_key("plain")
    ('discord:group:1', 'plain')
    """
    raw = trim(store_key)
    parsed = parse_agent_key(raw)
    return parsed.rest if parsed else raw or None


def canonical_key(session_key: str, config: Mapping[str, Any] | KeySettings | None = None) -> str:
    """Return the key under which a session is stored, for any name of it that a caller may use.

    "main" and the main key are the main session of the default agent (or "global"); a key without an agent is the default
    agent's; "global" and "unknown" stand alone. The agent's id is normalised, opaque ids are kept.

    >>> canonical_key("discord:group:123", {"agents": {"list": [{"id": "ops", "default": True}]}})
    'agent:ops:discord:group:123'
    """
    raw, settings = trim(session_key), _settings(config)
    if raw in ("", "global", "unknown"):
        return raw
    parsed = parse_agent_key(raw)
    if parsed is not None:
        whole = build_key(parse_key(raw))
        return canonicalize_main_alias(whole, agent_id=parsed.agent_id, config=settings)
    if raw in (DEFAULT_MAIN_KEY, settings.main_key):
        return settings.main_session_key
    stored = store_key_of_agent(raw, settings.default_agent)
    return stored if parse_agent_key(stored) is None else build_key(parse_key(stored))  # without empty segments


def store_key_of_agent(key: str, agent_id: str | None) -> str:
    """Return a key of an agent's own store as it stands among all agents' keys.

    >>> store_key_of_agent("main", "ops"), store_key_of_agent("global", "ops")
    ('agent:ops:main', 'global')
    """
    if key in ("global", "unknown") or key.startswith("agent:"):
        return key
    return f"agent:{normalize_agent_id(agent_id)}:{key}"


def display_key(key: str, *, alias: str, main_key: str) -> str:
    """Return a key as tools show it: "main" for the main session, under whatever name.

    >>> display_key("work", alias="work", main_key="work")
    'main'
    """
    return DEFAULT_MAIN_KEY if key in (alias, main_key) else key


def internal_key(key: str, *, alias: str) -> str:
    """Return the key that the word "main" stands for, and any other key unchanged.

    >>> internal_key("main", alias="global")
    'global'
    """
    return alias if key == DEFAULT_MAIN_KEY else key


def is_main_key(key: str, config: Mapping[str, Any] | KeySettings | None = None) -> bool:
    """Tell whether a key, under any of its names, is some agent's main session or the global one.

    >>> is_main_key("main"), is_main_key("agent:ops:main"), is_main_key("agent:main:discord:group:1")
    (True, True, False)
    """
    settings = _settings(config)
    whole = canonical_key(key, settings)
    parsed = parse_agent_key(whole)
    return whole == "global" or (parsed is not None and parsed.rest in (settings.main_key, DEFAULT_MAIN_KEY))
