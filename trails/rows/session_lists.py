"""Lists of sessions out of the rows: conditions, pages, first prompts and models."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import Any, Final, Literal, NamedTuple

from trails.rows import row_schema
from trails.rows.row_codec import as_json, first_text, micros, project_name

Sort = Literal["created", "activity", "turns", "tokens"]
SORTS: Final[tuple[Sort, ...]] = ("created", "activity", "turns", "tokens")


def _all(connection: sqlite3.Connection, text: str, values: Sequence[Any] = ()) -> list[Any]:
    return connection.execute(text, values).fetchall()


class Asked:
    """Conditions on sessions, as SQL and its values."""

    def __init__(self) -> None:
        self.conditions: list[str] = []
        self.values: list[Any] = []

    def where(self, condition: str, *values: Any) -> None:
        """Add a condition."""
        self.conditions.append(f"({condition})")
        self.values += values

    def where_either(self, other: Asked, ids: Sequence[str]) -> None:
        """Add that other conditions hold, or that a session is one of some."""
        either = f"({' AND '.join(other.conditions)}) OR s.id IN (SELECT value FROM json_each(?))"
        self.where(either, *other.values, json.dumps(ids))

    def text(self) -> str:
        """Return all conditions as the WHERE of a SELECT; nothing if there are none."""
        return f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""


def asked_for(
    *,
    principal: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    meta: Mapping[str, Any] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    active_since: datetime | None = None,
    active_until: datetime | None = None,
    model: str | None = None,
    text: str | None = None,
) -> Asked:
    """Return the conditions on sessions (table `s`) that are given; each starts inclusive and ends exclusive."""
    asked = Asked()
    for column, value in (("principal", principal), ("agent", agent)):
        if value is not None:
            asked.where(f"s.{column} = ?", value)
    if project is not None:
        name = PurePath(project).name or project
        asked.where("s.project_name = ? AND (s.project = ? OR s.project_name = ?)", name, project, project)
    for key, value in (meta or {}).items():
        forms = _forms(value)
        marks = ", ".join("?" * len(forms))
        asked.where(
            f"EXISTS (SELECT 1 FROM meta m WHERE m.session = s.number AND m.key = ? AND m.value IN ({marks}))",
            key,
            *forms,
        )
    for column, start, end in (("created", since, until), ("activity", active_since, active_until)):
        if start is not None:
            asked.where(f"s.by_{column} >= ?", micros(start))
        if end is not None:
            asked.where(f"s.by_{column} < ?", micros(end))
    if model is not None:
        asked.where("EXISTS (SELECT 1 FROM calls c WHERE c.home = s.id AND c.counts AND c.model = ?)", model)
    if text is not None:
        asked.where(f"holds_text({_NAMES}, ?)", text)
    return asked


_NAMES: Final = " || char(10) || ".join(f"ifnull(s.{column}, '')" for column in ("id", "label", "title", "prompt"))
"""What a session is called, a name a line: where a text is looked for."""


def _forms(value: object) -> list[str]:
    """Return the JSON texts that a value of the metadata may have: a text is also looked for as what it spells."""
    return [as_json(value), *([value] if isinstance(value, str) else [])]


def has_meta(meta: Mapping[str, Any], wanted: Mapping[str, Any], project: str | None = None) -> bool:
    """Tell whether metadata has each key of other metadata with its value, and a project, as the conditions on rows do.

    >>> has_meta({"topic": 3, "cwd": "/home/ada/tidepool"}, {"topic": "3"}, "tidepool")
    True
    """
    if not all(key in meta and as_json(meta[key]) in _forms(value) for key, value in wanted.items()):
        return False
    own = None if project is None else first_text(meta, "project", "cwd")
    return project is None or (own is not None and project in (own, project_name(own)))


def ids_with_meta(connection: sqlite3.Connection, meta: Mapping[str, Any], limit: int = -1) -> list[str]:
    """Return the ids of up to `limit` sessions (-1: of all) that have each key of `meta` with its value, newest first."""
    asked = Asked()
    for key, value in meta.items():
        forms = _forms(value)
        marks, starts = ", ".join("?" * len(forms)), ", ".join(["substr(?, 1, 64)"] * len(forms))
        asked.where(
            "s.number IN (SELECT m.session FROM meta m"
            f" WHERE m.key = ? AND substr(m.value, 1, 64) IN ({starts}) AND m.value IN ({marks}))",
            *[key, *forms, *forms],
        )
    asked.where("s.live")
    text = f"SELECT s.id FROM sessions s{asked.text()} ORDER BY s.by_created DESC, s.id DESC LIMIT ?"
    return [row[0] for row in _all(connection, text, [*asked.values, limit])]


PAGE_COLUMNS: Final = (
    "number", "id", "created", "principal", "agent", "branch", "state", "kind", "label", "key", "parent", "starts_at",
    "title", "project", "prompt", "prompt_at", "activity", "own_turns", "calls", "unpriced", "input", "output",
    "cache_read", "cache_write", "cost", "by_activity", "calls_without_usage",
)  # fmt: skip
_WITHOUT_USAGE: Final = (
    "iif(s.input IS NULL AND s.output IS NULL, s.calls, (SELECT count(*) FROM calls c"
    " WHERE c.home = s.id AND c.counts AND c.input IS NULL AND c.output IS NULL))"
)
"""How many of a session's calls reported neither input nor output tokens."""


def page(
    connection: sqlite3.Connection,
    asked: Asked,
    sort: Sort,
    after: tuple[int, ...] | None,
    limit: int,
    *,
    ascending: bool = False,
) -> tuple[list[dict[str, Any]], tuple[int, int] | None]:
    """Return up to `limit` sessions, the greatest first unless `ascending`, and the place where the page ends, or None.

    A place is what the last session is sorted by, and its tie; the page begins after `after`.
    """
    asked.where("s.live")
    row_schema.create_functions(connection)  # a text is looked for by one of them
    beyond, direction = (">", "ASC") if ascending else ("<", "DESC")
    if after is not None:
        last = _all(connection, f"SELECT id FROM sessions WHERE by_{sort} = ? AND tie = ?", after)
        if last:
            asked.where(f"(s.by_{sort}, s.id) {beyond} (?, ?)", after[0], last[0][0])
        else:  # it was deleted, or changed: those like it may show again, and none is left out
            asked.where(f"s.by_{sort} {beyond}= ?", after[0])
    columns = ", ".join([*(f"s.{each}" for each in PAGE_COLUMNS[:-1]), _WITHOUT_USAGE])
    rows = _all(
        connection,
        f"SELECT s.by_{sort}, s.tie, {columns} FROM sessions s{asked.text()}"
        f" ORDER BY s.by_{sort} {direction}, s.id {direction} LIMIT ?",
        [*asked.values, limit + 1],
    )
    found = [dict(zip(PAGE_COLUMNS, row[2:], strict=True)) for row in rows[:limit]]
    return found, (rows[limit - 1][0], rows[limit - 1][1]) if len(rows) > limit else None


class LastTurn(NamedTuple):
    """A session, and where its transcript ends."""

    session_id: str
    created: int | None
    """In microseconds since 1970."""
    length: int
    digest: str | None
    """The last turn's; None if the session has no turns of its own."""
    values: tuple[str | None, ...]
    """JSON of the metadata that was asked for; None for what the session has not."""


def last_turns(
    connection: sqlite3.Connection, wanted: Mapping[str, str], keys: Sequence[str], starts: Sequence[str] = ()
) -> list[LastTurn]:
    """Return the sessions with some metadata, each with its last turn and its metadata under some other keys.

    Sessions whose id starts with one of `starts` are among them, whatever their metadata is.
    """
    with_meta = asked_for(meta=wanted)
    ways = [" AND ".join(with_meta.conditions) or "TRUE", *["s.id >= ? AND s.id < ?"] * len(starts)]
    ranges = [bound for start in starts for bound in (start, start + chr(sys.maxunicode))]
    asked = Asked()
    asked.where(" OR ".join(f"({way})" for way in ways), *with_meta.values, *ranges)
    asked.where("s.live")
    joins = "".join(f" LEFT JOIN meta k{n} ON k{n}.session = s.number AND k{n}.key = ?" for n in range(len(keys)))
    values = "".join(f", k{n}.value" for n in range(len(keys)))
    last = " LEFT JOIN turns t ON t.session = s.number AND t.place = s.starts_at + s.own_turns - 1 AND s.own_turns > 0"
    rows = _all(
        connection,
        f"SELECT s.id, s.created, s.starts_at + s.own_turns, t.digest{values} FROM sessions s{joins}{last}{asked.text()}",
        [*keys, *asked.values],
    )
    return [LastTurn(row[0], row[1], row[2], row[3] and row[3].hex(), tuple(row[4:])) for row in rows]


def neighbours(connection: sqlite3.Connection, session_id: str) -> list[str]:
    """Return the ids that come before and after one, in order of text, where there are any."""
    (row,) = _all(
        connection,
        "SELECT (SELECT max(id) FROM sessions WHERE id < ? AND live), (SELECT min(id) FROM sessions WHERE id > ? AND live)",
        (session_id, session_id),
    )
    return [each for each in row if each is not None]


def models(connection: sqlite3.Connection, session_ids: Collection[str]) -> dict[str, list[str]]:
    """Return by session id the models that were called in sessions, in order of name."""
    found: dict[str, list[str]] = {}
    for session_id in session_ids:
        rows = _all(
            connection,
            "SELECT DISTINCT model FROM calls WHERE home = ? AND counts AND model <> '' ORDER BY model",
            (session_id,),
        )
        found[session_id] = [model for (model,) in rows]
    return found


def inherited_prompt(connection: sqlite3.Connection, parent: str | None, below: int) -> str | None:
    """Return the first prompt that a session inherits: its nearest ancestor's own, below what it inherits of it."""
    found: str | None = None
    seen: set[str] = set()
    while parent is not None and parent not in seen:
        seen.add(parent)
        row = _all(
            connection, "SELECT prompt, prompt_at, parent, starts_at FROM sessions WHERE id = ? AND live", (parent,)
        )
        if not row:
            return found
        prompt, at, parent, starts_at = row[0]
        if prompt is not None and at < below:
            found = prompt
        below = min(below, starts_at)
    return found


# --- names for those who type

MOST_NAMES: Final = 100
_LATEST: Final = 20_000
"""Rows in which names are looked for, the latest, if no index helps."""
_SESSIONS: Final = (("sessions", "id"), ("sessions", "label"))
_PLACES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "session": _SESSIONS,
    "ref": (*_SESSIONS, ("tags", "name")),
    "tag": (("tags", "name"),),
    "principal": (("sessions", "principal"),),
    "agent": (("sessions", "agent"),),
    "project": (("sessions", "project_name"),),
    "model": (("calls", "model"),),
}


def names_beginning(connection: sqlite3.Connection, kind: str, start: str) -> list[str]:
    """Return names of a kind that begin with `start`, in order.

    A kind is "session" (ids and labels), "ref" (tags too), "tag", "principal", "agent", "project" or "model". Of each, up to
    `MOST_NAMES` are returned, and the first and the last of all in order: what these have in common all have in common.
    """
    return sorted({name for table, column in _PLACES[kind] for name in _names(connection, table, column, start)})


def _names(connection: sqlite3.Connection, table: str, column: str, start: str) -> set[str]:
    asked = f"FROM {table} WHERE {column} >= ? AND {column} < ? AND {column} <> ''"
    if table == "sessions":
        asked += " AND live"
    if column not in ("id", "name"):  # which have an index to look in
        asked += f" AND rowid > (SELECT max(rowid) - {_LATEST} FROM {table})"
    bounds = (start, start + chr(0x10FFFF))
    ends = _all(connection, f"SELECT min({column}), max({column}) {asked}", bounds)[0]
    latest = {"sessions": "by_activity", "tags": "name"}.get(table, "rowid")
    text = f"SELECT DISTINCT {column} {asked} ORDER BY {latest} DESC LIMIT {MOST_NAMES}"
    return {name for (name,) in _all(connection, text, bounds)} | {name for name in ends if name is not None}
