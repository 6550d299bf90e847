"""The tables of the rows, and the functions that their SQL calls."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from typing import Any, Final

from pyoxigraph import Literal

from trails.model import iris, validation
from trails.rows import row_codec, vector_tables
from trails.rows.turn_text import folded
from trails.store.log import sqlite
from trails.usage import EXACT

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, live INTEGER NOT NULL DEFAULT 0, catalog TEXT, tie INTEGER NOT NULL,
  created INTEGER, principal TEXT, agent TEXT, branch TEXT, state TEXT, kind TEXT, label TEXT, key TEXT, parent TEXT,
  starts_at INTEGER NOT NULL DEFAULT 0, title TEXT, project TEXT, project_name TEXT, prompt TEXT, prompt_at INTEGER,
  activity INTEGER, recorded INTEGER NOT NULL DEFAULT 0, odd INTEGER NOT NULL DEFAULT 0,
  own_turns INTEGER NOT NULL DEFAULT 0, calls INTEGER NOT NULL DEFAULT 0, unpriced INTEGER NOT NULL DEFAULT 0,
  input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, cost REAL NOT NULL DEFAULT 0,
  by_created INTEGER NOT NULL DEFAULT -62135596800000000, by_activity INTEGER NOT NULL DEFAULT -62135596800000000,
  by_turns INTEGER NOT NULL DEFAULT 0,
  by_tokens INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS sessions_created ON sessions (by_created, id) WHERE live;
CREATE INDEX IF NOT EXISTS sessions_activity ON sessions (by_activity, id) WHERE live;
CREATE INDEX IF NOT EXISTS sessions_turns ON sessions (by_turns, id) WHERE live;
CREATE INDEX IF NOT EXISTS sessions_tokens ON sessions (by_tokens, id) WHERE live;
CREATE INDEX IF NOT EXISTS sessions_principal ON sessions (principal, by_created, id) WHERE live;
CREATE INDEX IF NOT EXISTS sessions_project ON sessions (project_name, by_created, id) WHERE live;
CREATE TABLE IF NOT EXISTS meta (session INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS meta_session ON meta (session, key);
CREATE INDEX IF NOT EXISTS meta_value ON meta (key, substr(value, 1, 64));
CREATE TABLE IF NOT EXISTS kinds (
  number INTEGER PRIMARY KEY AUTOINCREMENT, role TEXT NOT NULL, branch TEXT NOT NULL, author TEXT NOT NULL, form INTEGER NOT NULL,
  UNIQUE (role, branch, author, form)
);
CREATE TABLE IF NOT EXISTS turns (
  number INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, place INTEGER NOT NULL, kind INTEGER NOT NULL, time INTEGER,
  counts INTEGER NOT NULL, flags INTEGER NOT NULL, text TEXT NOT NULL, digest BLOB NOT NULL, more TEXT
);
CREATE INDEX IF NOT EXISTS turns_place ON turns (session, place);
CREATE INDEX IF NOT EXISTS turns_digest ON turns (substr(digest, 1, 6));
CREATE INDEX IF NOT EXISTS turns_copies ON turns (digest) WHERE flags & 1;
CREATE INDEX IF NOT EXISTS turns_lacking ON turns (session) WHERE flags & 2;
CREATE TABLE IF NOT EXISTS calls (
  turn INTEGER NOT NULL, digest BLOB NOT NULL, rank INTEGER NOT NULL, home TEXT NOT NULL, principal TEXT, author TEXT,
  model TEXT NOT NULL, time INTEGER, input INTEGER, cache_read INTEGER, cache_write INTEGER, cache_write_1h INTEGER,
  output INTEGER, reasoning INTEGER, cost REAL, provider TEXT NOT NULL, began INTEGER, ended INTEGER, counts INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS calls_turn ON calls (turn);
CREATE INDEX IF NOT EXISTS calls_digest ON calls (digest);
CREATE INDEX IF NOT EXISTS calls_home ON calls (home);
CREATE INDEX IF NOT EXISTS calls_again ON calls (digest) WHERE NOT counts;
CREATE TABLE IF NOT EXISTS tool_calls (
  turn INTEGER NOT NULL, session INTEGER NOT NULL, place INTEGER NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL,
  position INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS tool_calls_turn ON tool_calls (turn);
CREATE INDEX IF NOT EXISTS tool_calls_session ON tool_calls (session, id);
CREATE INDEX IF NOT EXISTS tool_calls_place ON tool_calls (session, place);
CREATE INDEX IF NOT EXISTS tool_calls_name ON tool_calls (name, turn);
CREATE TABLE IF NOT EXISTS tool_answers (
  turn INTEGER NOT NULL, session INTEGER NOT NULL, place INTEGER NOT NULL, id TEXT NOT NULL, digest BLOB NOT NULL,
  rank INTEGER NOT NULL, failed INTEGER NOT NULL, refused INTEGER NOT NULL, began INTEGER, ended INTEGER,
  call_session INTEGER, call_place INTEGER, call_position INTEGER
);
CREATE INDEX IF NOT EXISTS tool_answers_turn ON tool_answers (turn);
CREATE INDEX IF NOT EXISTS tool_answers_session ON tool_answers (session, id);
CREATE INDEX IF NOT EXISTS tool_answers_call ON tool_answers (call_session, call_place);
CREATE TABLE IF NOT EXISTS rows_at (number INTEGER NOT NULL);
INSERT INTO rows_at SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM rows_at);
CREATE TABLE IF NOT EXISTS tags (name TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS zones (zone INTEGER PRIMARY KEY, newest INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS zone_kinds (kind INTEGER NOT NULL, zone INTEGER NOT NULL, PRIMARY KEY (kind, zone)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shards (shard INTEGER PRIMARY KEY, indexed INTEGER NOT NULL, dirty INTEGER NOT NULL DEFAULT 0);
"""
"""Turns are numbered as they come. A zone is 1,024 of them; `shards` says how far the texts of 65,536 are indexed (`texts_N`)."""


_TABLES: Final = re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", SCHEMA)
_INDEXES: Final = re.findall(r"CREATE INDEX IF NOT EXISTS (\w+)", SCHEMA)


class _DecimalSum:
    """Adds up decimals exactly, each so many times, where the sum of floats drifts."""

    def __init__(self) -> None:
        self._sum: Decimal | None = None

    def step(self, value: float | None, times: int) -> None:
        if value is not None:
            spent = EXACT.multiply(times, Decimal(repr(value)))
            self._sum = spent if self._sum is None else EXACT.add(self._sum, spent)

    def finalize(self) -> str | None:
        return None if self._sum is None else validation.decimal(self._sum)


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "session_iri": iris.session,
    "principal_iri": iris.principal,
    "turn_iri": lambda session_id, place, digest: iris.turn(iris.session(session_id), place, digest.hex()),
    "turn_lacks": lambda role, more: row_codec.lacks(role, row_codec.by_part(row_codec.decode_statements(more))),
    "content_term": lambda text, form: str(Literal(text, datatype=row_codec.DATATYPES[form])),
    "holds_text": lambda text, wanted: folded(wanted) in folded(text),
    "seconds": lambda micros: validation.decimal(EXACT.scaleb(Decimal(micros), -6)),
}
"""What the SQL beside the catalogue's queries calls."""


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables that are missing, within the caller's transaction if there is one."""
    for statement in SCHEMA.split(";\n"):
        connection.execute(statement)
    vector_tables.create_tables(connection)


def _columns() -> Mapping[str, Sequence[str]]:
    with closing(sqlite3.connect(":memory:")) as made:
        create_tables(made)
        return {table: [row[1] for row in made.execute(f"PRAGMA table_info({table})")] for table in _TABLES}


def has_all_tables(connection: sqlite3.Connection) -> bool:
    """Tell whether no table is missing, and no index of one."""
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'index')")}
    return there.issuperset([*_TABLES, *_INDEXES])


def drop_tables(connection: sqlite3.Connection) -> None:
    """Remove all rows with their tables, as far as they are there, within the caller's transaction."""
    vector_tables.drop_tables(connection)
    shards = "SELECT name FROM sqlite_master WHERE name GLOB 'texts_[0-9]*' AND sql LIKE 'CREATE VIRTUAL TABLE%'"
    for table in [*(name for (name,) in connection.execute(shards).fetchall()), *_TABLES]:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    for _ in connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchall():
        connection.execute("DELETE FROM sqlite_sequence WHERE name IN ('turns', 'kinds')")


def create_functions(connection: sqlite3.Connection) -> None:
    """Give a connection the functions that SQL calls, unless it has them."""
    with _LOCK:
        if getattr(connection, "has_functions", False):
            return  # SQLite refuses to replace a function while another thread reads on the connection
        for name, function in _FUNCTIONS.items():
            connection.create_function(name, -1, function, deterministic=True)
        aggregate: Any = _DecimalSum
        connection.create_aggregate("decimal_sum", 2, aggregate)
        if isinstance(connection, sqlite.Connection):
            connection.has_functions = True


_LOCK: Final = threading.Lock()
"""Held while functions are created: several threads read on one connection."""


COLUMNS: Final = _columns()
"""The columns of each table, in order."""
