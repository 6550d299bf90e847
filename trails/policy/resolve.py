"""Finding the one session that a name means, and what a session may see or lose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trails.errors import RequestRefused
from trails.keys.canonical import canonical_key
from trails.keys.parsing import parse_agent_key
from trails.keys.script import trim
from trails.keys.settings import KeySettings
from trails.policy.labels import check_label
from trails.policy.lists import Entries, ListQuery, combined_entries, is_asked, is_of_agent, last_update


def resolve_session(
    entries: Entries,
    *,
    key: str | None = None,
    session_id: str | None = None,
    label: str | None = None,
    agent_id: str | None = None,
    spawned_by: str | None = None,
    include_global: bool = False,
    include_unknown: bool = False,
    settings: KeySettings | None = None,
) -> str:
    """Return the key of the one session that exactly one of key, id and label names, or raise `RequestRefused`.

    A key may be any name of it ("main"). An id or a label must name one session alone: of several, none is chosen, and the
    error lists them. `agent_id` and `spawned_by` narrow all three down; with `spawned_by` a session finds what it spawned,
    and by key itself. The global and the unknown session are found by key, or where they are included.

    >>> store = {"agent:main:main": {"sessionId": "s-1", "label": "trip"}}
    >>> resolve_session(store, label="trip"), resolve_session(store, key="main")
    ('agent:main:main', 'agent:main:main')
    >>> resolve_session(store)
    Traceback (most recent call last):
    trails.errors.RequestRefused: Either key, sessionId, or label is required
    """
    given = [name for name in (key, session_id, label) if isinstance(name, str) and trim(name)]
    if len(given) > 1:
        raise RequestRefused("Provide either key, sessionId, or label (not multiple)")
    if not given:
        raise RequestRefused("Either key, sessionId, or label is required")
    if trim(key):
        return _by_key(entries, trim(key), agent_id, spawned_by, settings or KeySettings())
    query = ListQuery(
        include_global=include_global, include_unknown=include_unknown, spawned_by=spawned_by, agent_id=agent_id
    )
    asked = {one: entry for one, entry in combined_entries(entries, settings).items() if is_asked(one, entry, query)}
    if trim(session_id):
        name = trim(session_id)
        found = {one: entry for one, entry in asked.items() if name in (entry.get("sessionId"), one)}
        return _only(found, 8, f"No session found: {name}", f"Multiple sessions found for sessionId: {name}")
    name = check_label(label)
    found = {one: entry for one, entry in asked.items() if entry.get("label") == name}
    return _only(found, 2, f"No session found with label: {name}", f"Multiple sessions found with label: {name}")


def _by_key(entries: Entries, key: str, agent_id: str | None, spawned_by: str | None, settings: KeySettings) -> str:
    whole = canonical_key(key, settings)
    parsed = parse_agent_key(whole)
    plain = parsed.rest if parsed and parsed.agent_id == settings.default_agent else whole
    found = {name: entries[name] for name in (whole, key, plain) if name in entries}
    known = combined_entries(found, settings)
    entry = known.get(whole, next(iter(known.values()), None))
    if entry is None or not _is_within(whole, entry, agent_id, spawned_by):
        raise RequestRefused(f"No session found: {key}")
    return whole


def _is_within(key: str, entry: Mapping[str, Any], agent_id: str | None, spawned_by: str | None) -> bool:
    if agent_id is not None and not is_of_agent(key, agent_id):
        return False
    return not spawned_by or is_visible(key, entry, spawned_by)


def _only(found: Entries, most: int, none: str, several: str) -> str:
    """Return the one key of what was found; an error lists the latest keys, as many as the systems look at."""
    keys = sorted(found, key=lambda one: last_update(found[one]) or 0, reverse=True)
    if not keys:
        raise RequestRefused(none)
    if len(keys) > 1:
        raise RequestRefused(f"{several} ({', '.join(keys[:most])})")
    return keys[0]


def is_visible(key: str, entry: Mapping[str, Any] | None, requester_key: str) -> bool:
    """Tell whether a sandboxed session sees another: itself, and what it spawned.

    >>> is_visible("agent:main:subagent:1", {"spawnedBy": "agent:main:main"}, "agent:main:main")
    True
    >>> is_visible("agent:main:slack:group:dev", {}, "agent:main:main")
    False
    """
    return key == requester_key or (entry is not None and entry.get("spawnedBy") == requester_key)


def check_deletable(key: str, settings: KeySettings | None = None) -> str:
    """Return the stored key of what is to be deleted, or refuse the main session, under any of its names.

    >>> check_deletable("discord:group:dev")
    'agent:main:discord:group:dev'
    >>> check_deletable("main")
    Traceback (most recent call last):
    trails.errors.RequestRefused: Cannot delete the main session (agent:main:main).
    """
    known = settings or KeySettings()
    whole = canonical_key(key, known)
    if not whole:
        raise RequestRefused("key required")
    if whole == known.main_session_key:
        raise RequestRefused(f"Cannot delete the main session ({known.main_session_key}).")
    return whole
