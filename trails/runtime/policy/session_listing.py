"""List sessions, and find the one that a name means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, Self

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from trails.errors import InvalidInput, RequestRefused
from trails.model.values import Value
from trails.runtime import config_values
from trails.runtime.config_values import Json, Moment, Section, is_number, lower, trim
from trails.runtime.keys.key_resolution import KeySettings, canonical_key, group_display_name, store_key_of_agent
from trails.runtime.keys.session_key import classify_key, normalize_agent_id, parse_agent_key, parse_group_key
from trails.runtime.policy.session_entry import check_label, total_tokens

Entries = Mapping[str, Json]
TITLE_UNITS: Final = 60
"""The length of a title, in UTF-16 code units."""
_MINUTE: Final = 60_000


class ListQuery(Value):
    """What a list of sessions is to show.

    By default all but the global and the unknown session.
    """

    include_global: bool = False
    include_unknown: bool = False
    spawned_by: str | None = None
    label: str | None = None
    agent_id: str | None = None
    search: str | None = None
    """A part of the name, label, subject, id or key, in any case."""
    active_minutes: float | None = None
    limit: float | None = None

    @classmethod
    def from_json(cls, value: Json | None) -> Self:
        """Read the parameters of `sessions.list`.

        Others, and those of the wrong kind, raise `InvalidInput`.
        """
        names = {to_camel(name): name for name in cls.model_fields}
        fields = Section(value, "sessions.list", (*names, *_COLUMNS)).fields
        try:
            return cls.model_validate(
                {names[name]: given for name, given in fields.items() if name in names}, strict=True
            )
        except ValidationError as wrong:
            first = wrong.errors()[0]
            name = to_camel(str(first["loc"][0]))
            raise InvalidInput(f"sessions.list.{name} is of the wrong kind: {first['input']!r}") from None


_COLUMNS: Final = ("includeDerivedTitles", "includeLastMessage")
"""Parameters that ask for more columns: a list has all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRow:
    """One session of a list: its key, its entry as stored, and what is derived of both."""

    key: str
    entry: Json
    kind: Literal["global", "unknown", "group", "direct"]
    display_name: str | None = None
    channel: str | None = None
    updated_at: int | None = None
    total_tokens: int = 0

    @property
    def session_id(self) -> str | None:
        """The id of the session."""
        return self.entry.get("sessionId")

    @property
    def label(self) -> str | None:
        """The session's label."""
        return self.entry.get("label")


def combined_entries(entries: Entries, settings: KeySettings | None = None) -> dict[str, Json]:
    """Return entries under keys of one form: one without an agent is the default agent's. The newer of two entries wins.

    >>> list(combined_entries({"main": {"sessionId": "s"}, "global": {"sessionId": "g"}}))
    ['agent:main:main', 'global']
    """
    agent = (settings or KeySettings()).default_agent
    combined: dict[str, Json] = {}
    for key, entry in entries.items():
        whole = store_key_of_agent(key, agent)
        merged: dict[str, Any] = {}
        for each in sorted((combined.get(whole, {}), entry), key=lambda each: last_update(each) or 0):
            merged |= each
        if spawner := trim(merged.get("spawnedBy")):
            merged["spawnedBy"] = store_key_of_agent(spawner, agent)
        combined[whole] = merged
    return combined


def last_update(entry: Json) -> int | None:
    """Return when an entry was last updated, in milliseconds since 1970, if it says so."""
    value: Any = entry.get("updatedAt")
    return int(value) if is_number(value) else None


def list_sessions(
    entries: Entries, query: ListQuery | None = None, *, now: Moment, settings: KeySettings | None = None
) -> list[SessionRow]:
    """Return the sessions that a query asks for, the latest updated first.

    >>> entries = {"agent:main:main": {"updatedAt": 5}, "agent:main:slack:group:dev": {"updatedAt": 9, "subject": "Dev"}}
    >>> [(row.key, row.display_name) for row in list_sessions(entries, now=10)]
    [('agent:main:slack:group:dev', 'slack:g-dev'), ('agent:main:main', None)]
    """
    asked = query or ListQuery()
    combined = combined_entries(entries, settings)
    rows = [_row(key, entry) for key, entry in combined.items() if is_asked(key, entry, asked)]
    rows.sort(key=lambda row: row.updated_at or 0, reverse=True)
    if needle := lower(asked.search):
        rows = [row for row in rows if needle in _searched_text(row)]
    if asked.active_minutes is not None and math.isfinite(asked.active_minutes):
        since = config_values.to_ms(now) - max(1, math.floor(asked.active_minutes)) * _MINUTE
        rows = [row for row in rows if (row.updated_at or 0) >= since]
    if asked.limit is not None and math.isfinite(asked.limit):
        rows = rows[: max(1, math.floor(asked.limit))]
    return rows


def is_asked(key: str, entry: Json, asked: ListQuery) -> bool:
    """Return whether a query asks for a session, by all but its search, its time and its limit."""
    alone = key in ("global", "unknown")
    if (key == "global" and not asked.include_global) or (key == "unknown" and not asked.include_unknown):
        return False
    if asked.agent_id is not None and (alone or not is_of_agent(key, asked.agent_id)):
        return False
    if asked.spawned_by and (alone or entry.get("spawnedBy") != asked.spawned_by):
        return False
    label = trim(asked.label)
    return not label or entry.get("label") == label


def is_of_agent(key: str, agent_id: str) -> bool:
    """Return whether a key belongs to an agent."""
    parsed = parse_agent_key(key)
    return parsed is not None and normalize_agent_id(parsed.agent_id) == normalize_agent_id(agent_id)


def _row(key: str, entry: Json) -> SessionRow:
    group = parse_group_key(key)
    channel = entry.get("channel") or (group.channel if group else None)
    name = entry.get("displayName")
    if name is None and channel:
        name = group_display_name(
            key=key,
            provider=channel,
            subject=entry.get("subject"),
            group_channel=entry.get("groupChannel"),
            space=entry.get("space"),
            group_id=group.id if group else None,
        )
    elif name is None:
        name = entry.get("label") or (entry.get("origin") or {}).get("label")
    return SessionRow(
        key=key,
        entry=entry,
        kind=classify_key(key, entry),
        display_name=None if name is None else str(name),
        channel=channel,
        updated_at=last_update(entry),
        total_tokens=total_tokens(entry),
    )


def _searched_text(row: SessionRow) -> str:
    texts = (row.display_name, row.label, row.entry.get("subject"), row.session_id, row.key)
    return "\0".join(text for text in texts if isinstance(text, str)).lower()


def session_title(entry: Json | None, first_user_message: str | None = None) -> str | None:
    """Return how a list entitles a session: its name, its subject, the start of its first message, or its id and day.

    A message is cut after 60 UTF-16 code units, at a space where one is near, and no character is split.

    >>> session_title({"sessionId": "abc123"}, "Hello,  how are you?")
    'Hello, how are you?'
    >>> session_title({"sessionId": "abcd1234-5678", "updatedAt": 1710498600000})
    'abcd1234 (2024-03-15)'
    """
    if entry is None:
        return None
    for name in ("displayName", "subject"):
        title = entry.get(name)
        if isinstance(title, str) and trim(title):
            return trim(title)
    if message := config_values.single_spaced(first_user_message or ""):
        return _cut(message)
    session = entry.get("sessionId")
    return _id_and_day(session, entry.get("updatedAt")) if isinstance(session, str) and session else None


def _cut(text: str) -> str:
    if config_values.utf16_length(text) <= TITLE_UNITS:
        return text
    cut = config_values.first_utf16(text, TITLE_UNITS - 1)
    space = cut.rfind(" ")
    return f"{cut[:space] if config_values.utf16_length(cut[: max(space, 0)]) > TITLE_UNITS * 0.6 else cut}…"


def _id_and_day(name: str, updated: Any) -> str:
    if isinstance(updated, str):
        try:
            updated = datetime.fromisoformat(updated)
        except ValueError:
            raise InvalidInput(f"updatedAt of session {name!r} is no time: {updated!r}") from None
    moment = updated.replace(tzinfo=updated.tzinfo or UTC) if isinstance(updated, datetime) else updated
    milliseconds = (
        config_values.to_ms(moment) if isinstance(moment, datetime) else int(moment) if is_number(moment) else 0
    )
    start = config_values.first_utf16(name, 8)
    return f"{start} ({config_values.from_ms(milliseconds).date().isoformat()})" if milliseconds > 0 else start


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
    and by key itself. The global and the unknown session are found by key, or if they are included.

    >>> store = {"agent:main:main": {"sessionId": "s-1", "label": "trip"}}
    >>> resolve_session(store, label="trip"), resolve_session(store, key="main")
    ('agent:main:main', 'agent:main:main')
    >>> resolve_session(store)
    Traceback (most recent call last):
    trails.errors.RequestRefused: Either key, sessionId, or label is required (trails guide errors/request-refused)
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
    name = trim(session_id) or check_label(label)
    matches = [
        (last_update(entry) or 0, each)
        for each, entry in combined_entries(entries, settings).items()
        if is_asked(each, entry, query)
        and (name in (entry.get("sessionId"), each) if trim(session_id) else entry.get("label") == name)
    ]
    # an error lists the latest keys, as many as OpenClaw looks at
    keys = [each for _, each in sorted(matches, key=lambda pair: pair[0], reverse=True)]
    if not keys:
        raise RequestRefused(f"No session found{'' if trim(session_id) else ' with label'}: {name}")
    if len(keys) > 1:
        what, most = ("for sessionId", 8) if trim(session_id) else ("with label", 2)
        raise RequestRefused(f"Multiple sessions found {what}: {name} ({', '.join(keys[:most])})")
    return keys[0]


def _by_key(entries: Entries, key: str, agent_id: str | None, spawned_by: str | None, settings: KeySettings) -> str:
    whole = canonical_key(key, settings)
    parsed = parse_agent_key(whole)
    plain = parsed.rest if parsed and parsed.agent_id == settings.default_agent else whole
    named = {name: entries[name] for name in (whole, key, plain) if name in entries}
    known = combined_entries(named, settings)
    entry = known.get(whole, next(iter(known.values()), None))
    if (
        entry is None
        or (agent_id is not None and not is_of_agent(whole, agent_id))
        or (spawned_by and not is_visible(whole, entry, spawned_by))
    ):
        raise RequestRefused(f"No session found: {key}")
    return whole


def is_visible(key: str, entry: Json | None, requester_key: str) -> bool:
    """Return whether a sandboxed session sees another: itself, and what it spawned.

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
    trails.errors.RequestRefused: Cannot delete the main session (agent:main:main). (trails guide errors/request-refused)
    """
    known = settings or KeySettings()
    whole = canonical_key(key, known)
    if not whole:
        raise RequestRefused("key required")
    if whole == known.main_session_key:
        raise RequestRefused(f"Cannot delete the main session ({known.main_session_key}).")
    return whole
