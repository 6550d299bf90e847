"""Rows that are made of a store in two ways: of each commit, and of all of its quads."""

from __future__ import annotations

import sqlite3
from typing import Any

from trails.rows import row_schema, row_writer
from trails.store.embedded import EmbeddedStore

TABLES = {
    "sessions": "SELECT * FROM sessions ORDER BY id",
    "meta": "SELECT s.id, m.key, m.value FROM meta m JOIN sessions s ON s.number = m.session ORDER BY 1, 2",
    "turns": (
        "SELECT s.id, t.place, k.role, k.branch, k.author, k.form, t.time, t.counts, t.flags, t.text, t.digest, t.more"
        " FROM turns t JOIN sessions s ON s.number = t.session JOIN kinds k ON k.number = t.kind ORDER BY 1, 2, t.digest"
    ),
    "calls": (
        "SELECT s.id, t.place, c.* FROM calls c JOIN turns t ON t.number = c.turn JOIN sessions s ON s.number = t.session"
        " ORDER BY 1, 2, c.digest, c.rank, c.home"
    ),
    "tool_calls": "SELECT s.id, c.* FROM tool_calls c JOIN sessions s ON s.number = c.session ORDER BY 1, c.place, c.position",
    "tool_answers": (
        "SELECT s.id, c.*, o.id AS owner FROM tool_answers c JOIN sessions s ON s.number = c.session"
        " LEFT JOIN sessions o ON o.number = c.call_session ORDER BY 1, c.place, c.id, o.id, c.call_place, c.call_position"
    ),
    "tags": "SELECT name FROM tags ORDER BY 1",
}
_NUMBERS = {"number", "turn", "session", "call_session"}


def empty_rows() -> sqlite3.Connection:
    """Return empty tables in memory."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    row_schema.create_tables(made)
    row_schema.create_functions(made)
    return made


def filled_rows(store: EmbeddedStore) -> sqlite3.Connection:
    """Return the rows of all quads of a store."""
    made = empty_rows()
    row_writer.apply(made, add=store.quads((None, None, None, None)), leaves=store.log.lines())
    return made


def dump(rows: sqlite3.Connection) -> dict[str, list[dict[str, Any]]]:
    """Return all that rows say, without the numbers that depend on the order in which they came."""
    found = {}
    for table, text in TABLES.items():
        cursor = rows.execute(text)
        names = [column[0] for column in cursor.description]
        found[table] = [
            {name: value for name, value in zip(names, row, strict=True) if name not in _NUMBERS} for row in cursor
        ]
    return found
