"""The SQL of the log: portable statements, each for READ COMMITTED under the lock of the store's row."""

from __future__ import annotations

from functools import cache
from typing import Final

FORMAT: Final = 1
"""The format of the tables that this version reads and writes."""

SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS trails_stores (
         id text PRIMARY KEY, name text NOT NULL UNIQUE, format integer NOT NULL,
         head bigint NOT NULL, digest bytea NOT NULL, erased bigint NOT NULL, due bigint NOT NULL,
         made timestamptz NOT NULL DEFAULT now())""",
    """CREATE TABLE IF NOT EXISTS trails_records (
         store text NOT NULL, number bigint NOT NULL, commit_id text NOT NULL, flags integer NOT NULL,
         leaves bytea NOT NULL, body bytea NOT NULL, body_digest bytea NOT NULL, digest bytea NOT NULL, rewritten bytea,
         logged timestamptz NOT NULL DEFAULT now(),
         PRIMARY KEY (store, number), UNIQUE (store, commit_id))""",
)
MAKE_READERS: Final = """CREATE TABLE IF NOT EXISTS trails_readers (
    store text NOT NULL, index_name text NOT NULL, process text NOT NULL, number bigint NOT NULL, erased bigint NOT NULL,
    closed boolean NOT NULL, heard timestamptz NOT NULL,
    PRIMARY KEY (store, index_name))"""
"""A table that tells and decides nothing: stores without it, of before it was there, have the same format."""
UNHURRIED: Final = "SET LOCAL synchronous_commit = off"
REGISTER: Final = """INSERT INTO trails_readers (store, index_name, process, number, erased, closed, heard)
    VALUES (%s, %s, %s, %s, %s, %s, now())
    ON CONFLICT (store, index_name) DO UPDATE SET process = EXCLUDED.process, number = EXCLUDED.number,
    erased = EXCLUDED.erased, closed = EXCLUDED.closed, heard = EXCLUDED.heard"""
READERS: Final = """SELECT index_name, process, number, erased, closed, heard FROM trails_readers
    WHERE store = %s AND heard >= now() - CAST(%s AS integer) * INTERVAL '1 day' ORDER BY heard DESC, index_name"""
FORGET: Final = "DELETE FROM trails_readers WHERE store = %s AND index_name = %s"
FORGET_OLD: Final = """DELETE FROM trails_readers
    WHERE store = %s AND heard < now() - CAST(%s AS integer) * INTERVAL '1 day'"""
MAKE: Final = """INSERT INTO trails_stores (id, name, format, head, digest, erased, due)
    VALUES (%s, %s, %s, 0, %s, 0, 0)
    ON CONFLICT (name) DO NOTHING"""
FIND: Final = "SELECT id, format, head, digest, erased, due FROM trails_stores WHERE name = %s"
REST: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
LOCK: Final = "SELECT head, digest, erased, due FROM trails_stores WHERE id = %s FOR UPDATE"
HEAD: Final = "SELECT head, digest, erased, due FROM trails_stores WHERE id = %s"
_COLUMNS: Final = "number, commit_id, flags, leaves, body, body_digest, digest, rewritten"
TAIL: Final = f"SELECT {_COLUMNS} FROM trails_records WHERE store = %s AND number > %s ORDER BY number LIMIT %s"  # noqa: S608
ADD: Final = f"INSERT INTO trails_records (store, {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"  # noqa: S608
MOVE: Final = "UPDATE trails_stores SET head = %s, digest = %s, due = GREATEST(due, %s) WHERE id = %s"
_MOVED: Final = """WITH moved AS (UPDATE trails_stores SET head = %s, digest = %s, due = GREATEST(due, %s)
    WHERE id = %s AND head = %s AND digest = %s RETURNING id)"""
_ROW: Final = "(CAST(%s AS bigint), %s, CAST(%s AS integer), %s, %s, %s, %s, CAST(%s AS bytea))"


@cache
def at_once(rows: int) -> bytes:
    """Return the statement that appends so many rows where the log still ends as its writer knows it, and else nothing.

    It has one row where it did. Its parameters are the new head, digest and due, the store, the head and digest that are
    known, then each row, and what those who listen are told.
    """
    return f"""{_MOVED}, added AS (INSERT INTO trails_records (store, {_COLUMNS})
        SELECT moved.id, {", ".join(f"row.{each}" for each in _COLUMNS.split(", "))} FROM moved CROSS JOIN
        (VALUES {", ".join([_ROW] * rows)}) AS row ({_COLUMNS})) SELECT pg_notify('trails', %s) FROM moved""".encode()  # noqa: S608 - constants


SETTINGS: Final = """SELECT current_setting('server_version'), current_setting('fsync'),
    current_setting('synchronous_commit'), current_setting('full_page_writes'), now()"""
LACKS: Final = """SELECT CASE WHEN to_regclass(CAST(%s AS text)) IS NULL THEN false
    ELSE NOT has_table_privilege(CAST(%s AS text), CAST(%s AS text)) END"""
LACKS_COLUMN: Final = """SELECT CASE WHEN to_regclass(CAST(%s AS text)) IS NULL THEN false
    ELSE NOT has_column_privilege(CAST(%s AS text), CAST(%s AS text), CAST(%s AS text)) END"""
IN_USE: Final = "SELECT pg_try_advisory_lock_shared(CAST(%s AS bigint))"
"""Held by a connection for as long as it lives: the server lets go of it where a process is killed, which no row could tell."""
HOLD: Final = "SELECT pg_try_advisory_lock(CAST(%s AS bigint))"
LET_GO: Final = "SELECT pg_advisory_unlock(CAST(%s AS bigint))"
ALONE: Final = ("SET LOCAL lock_timeout = 1000", "SELECT pg_advisory_xact_lock(CAST(%s AS bigint))")
"""What waits a moment for all who say so: a process that was just killed is there until the server has seen that."""
REMOVE: Final = (
    "DELETE FROM trails_records WHERE store = %s",
    "DELETE FROM trails_stores WHERE id = %s",
)
"""What takes a store out of the database, under the lock of its row."""
FORGET_ALL: Final = "DELETE FROM trails_readers WHERE store = %s"
TELL: Final = "SELECT pg_notify('trails', %s)"
DIGEST: Final = "SELECT digest FROM trails_records WHERE store = %s AND number = %s"
REWRITE: Final = """UPDATE trails_records SET body = %s, body_digest = %s, rewritten = %s
    WHERE store = %s AND number = %s AND rewritten IS NOT DISTINCT FROM CAST(%s AS bytea)"""
ROWS: Final = f"SELECT {_COLUMNS} FROM trails_records WHERE store = %s AND number = ANY(%s) ORDER BY number"  # noqa: S608
STATING: Final = f"SELECT {_COLUMNS} FROM trails_records WHERE store = %s AND flags & %s <> 0 ORDER BY number"  # noqa: S608
HAS_SNAPSHOTS: Final = "SELECT to_regclass('trails_snapshots') IS NOT NULL"
DROP_SNAPSHOTS: Final = "DELETE FROM trails_snapshots WHERE store = %s"
"""Earlier versions kept quads there, which may hold what is erased."""
TRY_REWRITING: Final = "UPDATE trails_records SET body = body, rewritten = rewritten WHERE store = %s AND number = 0"
RID: Final = "UPDATE trails_stores SET due = 0 WHERE id = %s AND due <= %s"
ERASED: Final = "UPDATE trails_stores SET erased = GREATEST(erased, %s) WHERE id = %s"
