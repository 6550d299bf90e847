"""The SQL of the log: portable statements, each for READ COMMITTED under the lock of the store's row."""

from __future__ import annotations

from typing import Final

FORMAT: Final = 1
"""The format of the tables that this version reads and writes."""

SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS trails_stores (
         id text PRIMARY KEY, name text NOT NULL UNIQUE, format integer NOT NULL,
         head bigint NOT NULL, digest bytea NOT NULL, erased bigint NOT NULL,
         made timestamptz NOT NULL DEFAULT now())""",
    """CREATE TABLE IF NOT EXISTS trails_records (
         store text NOT NULL, number bigint NOT NULL, commit_id text NOT NULL, flags integer NOT NULL,
         leaves bytea NOT NULL, body bytea, body_digest bytea NOT NULL, digest bytea NOT NULL,
         logged timestamptz NOT NULL DEFAULT now(),
         PRIMARY KEY (store, number), UNIQUE (store, commit_id))""",
    """CREATE TABLE IF NOT EXISTS trails_snapshots (
         store text NOT NULL, number bigint NOT NULL, part integer NOT NULL, data bytea NOT NULL,
         PRIMARY KEY (store, number, part))""",
)
MAKE: Final = """INSERT INTO trails_stores (id, name, format, head, digest, erased) VALUES (%s, %s, %s, 0, %s, 0)
    ON CONFLICT (name) DO NOTHING"""
FIND: Final = "SELECT id, format, head, digest, erased FROM trails_stores WHERE name = %s"
LOCK: Final = "SELECT head, digest, erased FROM trails_stores WHERE id = %s FOR UPDATE"
HEAD: Final = "SELECT head, digest, erased FROM trails_stores WHERE id = %s"
_COLUMNS: Final = "number, commit_id, flags, leaves, body, body_digest, digest"
TAIL: Final = f"SELECT {_COLUMNS} FROM trails_records WHERE store = %s AND number > %s ORDER BY number LIMIT %s"  # noqa: S608
ADD: Final = f"INSERT INTO trails_records (store, {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"  # noqa: S608
MOVE: Final = "UPDATE trails_stores SET head = %s, digest = %s WHERE id = %s"
TELL: Final = "SELECT pg_notify('trails', %s)"
DIGEST: Final = "SELECT digest FROM trails_records WHERE store = %s AND number = %s"
LEAVES: Final = "SELECT leaves FROM trails_records WHERE store = %s AND number <= %s ORDER BY number"
NEWEST: Final = "SELECT max(number) FROM trails_snapshots WHERE store = %s"
PARTS: Final = "SELECT data FROM trails_snapshots WHERE store = %s AND number = %s ORDER BY part"
ADD_PART: Final = """INSERT INTO trails_snapshots (store, number, part, data) VALUES (%s, %s, %s, %s)
    ON CONFLICT (store, number, part) DO NOTHING"""
DROP_SNAPSHOTS: Final = "DELETE FROM trails_snapshots WHERE store = %s AND number < %s"
ERASE: Final = "UPDATE trails_records SET body = NULL WHERE store = %s AND number <= %s AND body IS NOT NULL"
ERASED: Final = "UPDATE trails_stores SET erased = %s WHERE id = %s"
