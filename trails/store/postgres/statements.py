"""The SQL of the log: portable statements, each for READ COMMITTED under the lock of the store's row."""

from __future__ import annotations

from functools import cache
from typing import Final

from trails.store.log.records import STEP_BYTES

FORMAT: Final = 1
"""The format of the tables that this version reads and writes."""

SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS trails_stores (
         id text PRIMARY KEY, name text NOT NULL UNIQUE, format integer NOT NULL,
         head bigint NOT NULL, digest bytea NOT NULL, erased bigint NOT NULL, due bigint NOT NULL,
         made timestamptz NOT NULL DEFAULT now(), indexed bigint NOT NULL DEFAULT 0)""",
    """CREATE TABLE IF NOT EXISTS trails_records (
         store text NOT NULL, number bigint NOT NULL, commit_id text NOT NULL, flags integer NOT NULL,
         leaves bytea NOT NULL, body bytea NOT NULL, body_digest bytea NOT NULL, digest bytea NOT NULL, rewritten bytea,
         logged timestamptz NOT NULL DEFAULT now(),
         PRIMARY KEY (store, number), UNIQUE (store, commit_id))""",
)
MAKE_SUBJECTS: Final = (
    "ALTER TABLE trails_stores ADD COLUMN IF NOT EXISTS indexed bigint NOT NULL DEFAULT 0",
    """CREATE TABLE IF NOT EXISTS trails_subjects (
         store text NOT NULL, subject bigint NOT NULL, number bigint NOT NULL, parent bigint,
         PRIMARY KEY (store, subject, number))""",
    "CREATE INDEX IF NOT EXISTS trails_subjects_parent ON trails_subjects (store, subject, parent) WHERE parent IS NOT NULL",
)
"""By the key of a session, in which records something is said of it. It is whole up to the store's `indexed`: a writer that
does not fill it leaves that behind its head."""
HAS_SUBJECTS: Final = """SELECT CASE WHEN to_regclass('trails_subjects') IS NULL THEN NULL
    ELSE has_table_privilege('trails_subjects', 'INSERT')
     AND has_column_privilege('trails_stores', 'indexed', 'UPDATE') END"""
INDEXED: Final = "SELECT indexed, head FROM trails_stores WHERE id = %s"
ADD_SUBJECTS: Final = """INSERT INTO trails_subjects (number, subject, parent, store)
    SELECT made.number, made.subject, made.parent, CAST(%s AS text)
    FROM unnest(CAST(%s AS bigint[]), CAST(%s AS bigint[]), CAST(%s AS bigint[])) AS made (number, subject, parent)
    ON CONFLICT DO NOTHING"""
DROP_SUBJECTS: Final = "DELETE FROM trails_subjects WHERE store = %s AND number = %s AND subject = ANY(%s)"
SUBJECTS: Final = "SELECT number, subject, parent FROM trails_subjects WHERE store = %s AND number = ANY(%s)"
MOVE_INDEXED: Final = "UPDATE trails_stores SET indexed = %s WHERE id = %s AND indexed = %s"
TAKE: Final = """WITH RECURSIVE wanted (subject, after) AS (
      SELECT asked.subject, asked.after FROM unnest(CAST(%s AS bigint[]), CAST(%s AS bigint[])) AS asked (subject, after)
      UNION
      SELECT about.parent, CAST(0 AS bigint) FROM wanted JOIN trails_subjects AS about
        ON about.store = %s AND about.subject = wanted.subject AND about.parent IS NOT NULL
        WHERE wanted.after = 0 AND about.parent <> ALL(CAST(%s AS bigint[]))),
    found AS (
      SELECT ARRAY(SELECT about.number FROM wanted JOIN trails_subjects AS about
        ON about.store = %s AND about.subject = wanted.subject AND about.number > wanted.after) AS numbers,
        ARRAY(SELECT wanted.subject FROM wanted) AS subjects)
    SELECT log.head, log.digest, log.erased, log.due, log.indexed, CASE WHEN record.number = log.head THEN found.subjects END,
      record.number = ANY(found.numbers), before.digest, record.number, record.commit_id, record.flags, record.leaves,
      CASE WHEN record.number = ANY(found.numbers) THEN record.body ELSE substring(record.body FROM 1 FOR %s) END,
      record.body_digest, record.digest, record.rewritten
    FROM trails_stores AS log CROSS JOIN found
      LEFT JOIN trails_records AS record ON record.store = log.id AND record.number = ANY(log.head || found.numbers)
      LEFT JOIN trails_records AS before ON before.store = log.id AND before.number = record.number - 1
    WHERE log.id = %s ORDER BY record.number"""
"""All records about some keys, each after a number, and those about the ancestors of forks that were not asked for yet, each with
the digest of the record before it; the beginning of the last record of the log; and where the log ends. One statement: all is of
one moment."""
WITH_ID: Final = "SELECT number FROM trails_records WHERE store = %s AND commit_id = %s"
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
FIND: Final = """SELECT id, COALESCE(to_jsonb(trails_stores) ->> 'identity', id), format, head, digest, erased, due
    FROM trails_stores WHERE name = %s"""
"""The identity is a column that only a store has whose copy was told from its original."""
ADD_IDENTITY: Final = "ALTER TABLE trails_stores ADD COLUMN IF NOT EXISTS identity text"
SET_IDENTITY: Final = "UPDATE trails_stores SET identity = %s WHERE id = %s"
TABLES: Final = """SELECT nspname, relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    JOIN unnest(CAST(%s AS text[])) WITH ORDINALITY AS wanted (name, place) ON pg_class.oid = to_regclass(quote_ident(name))
    ORDER BY place"""
PARTITIONS: Final = """SELECT format('%%I.%%I', nspname, relname) FROM pg_inherits
    JOIN pg_class ON pg_class.oid = inhrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE inhparent = ANY(CAST(CAST(%s AS text[]) AS regclass[])) ORDER BY 1"""
"""The partitions that an owner made of some tables, as SQL writes their names."""
IS_LIMITED: Final = "SELECT row_security_active('trails_stores')"
PLACE: Final = """SELECT system_identifier, oid, pg_is_in_recovery() FROM pg_control_system(), pg_database
    WHERE datname = current_database()"""
"""Which server and which database this is, and whether a standby: it has those of its primary, a restored dump has others."""
DATABASE: Final = "SELECT 0, oid FROM pg_database WHERE datname = current_database()"
IS_STANDBY: Final = "SELECT pg_is_in_recovery()"
REST: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
BOUNDED: Final = """SELECT set_config('lock_timeout', '20000', true),
    set_config('idle_in_transaction_session_timeout', '30000', true)"""
"""Milliseconds, for this transaction alone: a holder of the row that was stopped is cut off by the server, and nobody waits
for it for ever. A pooler would give what is set for a connection to whoever gets that next."""
LOCK: Final = "SELECT head, digest, erased, due FROM trails_stores WHERE id = %s FOR UPDATE"
HEAD: Final = "SELECT head, digest, erased, due FROM trails_stores WHERE id = %s"
_COLUMNS: Final = "number, commit_id, flags, leaves, body, body_digest, digest, rewritten"
_TAIL: Final = f"SELECT {_COLUMNS} FROM trails_records WHERE store = %s AND number > %s ORDER BY number LIMIT %s"  # noqa: S608
TAIL: Final = f"""SELECT {_COLUMNS} FROM (
      SELECT {_COLUMNS}, sum(octet_length(body)) OVER (ORDER BY number) - octet_length(body) AS bytes_before
      FROM ({_TAIL}) AS following) AS counted
    WHERE bytes_before < {STEP_BYTES} ORDER BY number"""  # noqa: S608
"""At least one record, if any follows, and then as many as fit into a step."""
BEFORE: Final = f"SELECT {_COLUMNS} FROM trails_records WHERE store = %s AND number <= %s ORDER BY number DESC LIMIT %s"  # noqa: S608
ADD: Final = f"INSERT INTO trails_records (store, {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"  # noqa: S608
_NEW_END: Final = "UPDATE trails_stores SET head = %s, digest = %s, due = GREATEST(due, %s)"
_FOLLOWS: Final = ", indexed = CASE WHEN indexed = head THEN CAST(%s AS bigint) ELSE indexed END"
MOVE: Final = f"{_NEW_END} WHERE id = %s"
MOVE_WITH_SUBJECTS: Final = f"{_NEW_END}{_FOLLOWS} WHERE id = %s"
_UNTIL: Final = "set_config('lock_timeout', '20000', true) IS NOT NULL"
"""A condition that always holds: the setting is made as a row is looked at, before it is waited for. So it takes no statement."""
_ROW: Final = "(CAST(%s AS bigint), %s, CAST(%s AS integer), %s, %s, %s, %s, CAST(%s AS bytea))"


@cache
def at_once(rows: int, *, indexes: bool) -> bytes:
    """Return the statement that appends so many rows where the log still ends as its writer knows it, and else nothing.

    It has one row where it did. Its parameters are the new head, digest and due, if it `indexes` the new head again, the store,
    the head and digest that are known, then each row, if it `indexes` those of `ADD_SUBJECTS` without the store, and the
    channel of those who listen and what they are told.
    """
    told = """, told AS (INSERT INTO trails_subjects (store, number, subject, parent)
        SELECT moved.id, made.number, made.subject, made.parent FROM moved CROSS JOIN
        unnest(CAST(%s AS bigint[]), CAST(%s AS bigint[]), CAST(%s AS bigint[])) AS made (number, subject, parent)
        ON CONFLICT DO NOTHING)"""
    return f"""WITH moved AS ({_NEW_END}{_FOLLOWS if indexes else ""} WHERE id = %s AND head = %s AND digest = %s
        AND {_UNTIL} RETURNING id),
        added AS (INSERT INTO trails_records (store, {_COLUMNS})
        SELECT moved.id, {", ".join(f"row.{each}" for each in _COLUMNS.split(", "))} FROM moved CROSS JOIN
        (VALUES {", ".join([_ROW] * rows)}) AS row ({_COLUMNS})){told if indexes else ""}
        SELECT pg_notify(%s, %s) FROM moved""".encode()  # noqa: S608 - constants


SETTINGS: Final = """SELECT current_setting('server_version'), current_setting('fsync'),
    current_setting('synchronous_commit'), current_setting('full_page_writes'), now()"""
LACKS: Final = """SELECT CASE WHEN to_regclass(CAST(%s AS text)) IS NULL THEN false
    ELSE NOT has_table_privilege(CAST(%s AS text), CAST(%s AS text)) END"""
LACKS_COLUMN: Final = """SELECT CASE WHEN to_regclass(CAST(%s AS text)) IS NULL THEN false
    ELSE NOT has_column_privilege(CAST(%s AS text), CAST(%s AS text), CAST(%s AS text)) END"""
WHO_ANSWERS: Final = "SELECT pg_backend_pid()"
"""Behind a pooler that is not the process that the connection was told of."""
IN_USE: Final = "SELECT pg_try_advisory_lock_shared(CAST(%s AS bigint))"
"""Held by a connection for as long as it lives: the server lets go of it where a process is killed, which no row could tell."""
HOLD: Final = """SELECT pg_try_advisory_xact_lock(CAST(%s AS bigint)),
    set_config('idle_in_transaction_session_timeout', '0', true)"""
"""Held until the end of the transaction, which may be long."""
ALONE: Final = ("SET LOCAL lock_timeout = 1000", "SELECT pg_advisory_xact_lock(CAST(%s AS bigint))")
"""What waits a moment for all who say so: a process that was just killed is there until the server has seen that."""
REMOVE: Final = (
    "DELETE FROM trails_records WHERE store = %s",
    "DELETE FROM trails_stores WHERE id = %s",
)
"""What takes a store out of the database, under the lock of its row."""
FORGET_SUBJECTS: Final = "DELETE FROM trails_subjects WHERE store = %s"
FORGET_ALL: Final = "DELETE FROM trails_readers WHERE store = %s"
TELL: Final = "SELECT pg_notify(%s, %s)"
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
FIGURES: Final = """SELECT head, due, erased,
    (SELECT logged FROM trails_records WHERE store = trails_stores.id AND number = head),
    pg_is_in_recovery(),
    CASE WHEN pg_is_in_recovery() THEN GREATEST(0, EXTRACT(EPOCH FROM now() - pg_last_xact_replay_timestamp())) END,
    (SELECT count(DISTINCT waits.pid) FROM pg_locks AS waits JOIN pg_locks AS has ON has.pid = waits.pid
      WHERE NOT waits.granted AND has.locktype = 'relation' AND has.relation = CAST('trails_stores' AS regclass)
      AND has.database = (SELECT oid FROM pg_database WHERE datname = current_database())),
    COALESCE((SELECT EXTRACT(EPOCH FROM max(now() - xact_start)) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()), 0),
    COALESCE((SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(CAST('trails_records' AS regclass))
      WHERE isleaf), pg_total_relation_size(CAST('trails_records' AS regclass)))
    FROM trails_stores WHERE id = %s"""
SECONDS_SINCE: Final = """SELECT number - 1, GREATEST(0, EXTRACT(EPOCH FROM now() - logged)) FROM trails_records
    WHERE store = %s AND number = ANY(%s)"""
STANDBYS: Final = """SELECT application_name, COALESCE(state, 'hidden'), COALESCE(sync_state, 'hidden'),
    EXTRACT(EPOCH FROM replay_lag) FROM pg_stat_replication ORDER BY application_name, pid"""
