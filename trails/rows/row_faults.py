"""Comparing the tables of the rows with what the log says, for `verify`.

What a table holds of a session is made again by the code that fills it, and compared in all its columns. What follows from other
rows, such as sums and which of several copies counts, is asked for again with the SQL that fills it.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from itertools import takewhile
from math import isclose
from typing import Any, Final, NamedTuple

from trails.errors import TrailsError
from trails.model import iris
from trails.model.validation import DECODING_ERRORS
from trails.rows import row_codec, row_schema, row_writer, text_index, vector_index, vector_tables
from trails.rows.row_codec import COPY, ODD, Statement, TurnRow

_EXTRA, _MISSING, _ORPHANS = "more rows than it should", "too few rows", "rows that belong to nothing"
_OWN: Final = {
    "calls": "SELECT * FROM calls WHERE turn IN (SELECT number FROM turns WHERE session = ?)",
    "tool_calls": "SELECT * FROM tool_calls WHERE session = ?",
    "tool_answers": "SELECT * FROM tool_answers WHERE session = ?",
}
_OWNER: Final = "(SELECT id FROM sessions WHERE number = session)"
_ORPHAN_ROWS: Final = {
    "turns": "SELECT DISTINCT NULL FROM turns WHERE session NOT IN (SELECT number FROM sessions)",
    "meta": "SELECT DISTINCT NULL FROM meta WHERE session NOT IN (SELECT number FROM sessions)",
    "calls": "SELECT DISTINCT home FROM calls WHERE turn NOT IN (SELECT number FROM turns)",
    "tool_calls": f"SELECT DISTINCT {_OWNER} FROM tool_calls WHERE turn NOT IN (SELECT number FROM turns)",
    "tool_answers": f"SELECT DISTINCT {_OWNER} FROM tool_answers WHERE turn NOT IN (SELECT number FROM turns)",
}
"""By table the sessions of rows that belong to no session or turn."""
_NOT_FIRST: Final = (
    "SELECT DISTINCT s.id FROM calls o JOIN turns t ON t.number = o.turn JOIN sessions s ON s.number = t.session"
    f" WHERE o.counts IS NOT (o.rowid IS ({row_writer.FIRST_CALL.format('o.digest')}))"
)
_COPIES: Final = (
    "SELECT t.number, t.counts, s.id FROM turns t JOIN sessions s ON s.number = t.session"
    " WHERE t.flags & 1 AND t.digest = ?"
)
_LAST: Final = "SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = ?"


class RowFault(NamedTuple):
    """Something in the tables that is not as the log says."""

    session_id: str | None
    what: str
    """A table's column, or a table and what is wrong with its rows."""


def is_stored(connection: sqlite3.Connection) -> bool:
    """Tell whether rows are kept beside their log, and not made in memory for whoever asks."""
    tables = "SELECT count(*) FROM sqlite_master WHERE name IN ('trails_stores', 'rows_at')"
    return int(connection.execute(tables).fetchone()[0]) == 2


def session_ids(connection: sqlite3.Connection) -> set[str]:
    """Return all sessions that have a row."""
    return {session_id for (session_id,) in connection.execute("SELECT id FROM sessions")}


# --- one session


def session_faults(
    connection: sqlite3.Connection, session_id: str, statements: list[Statement], recorded: int
) -> Iterator[RowFault]:
    """Yield what is wrong with the row of a session and its metadata.

    `statements` is what the catalog says of it, `recorded` how long the log says that its transcript is.
    """
    rows = connection.execute("SELECT * FROM sessions WHERE id = ?", (session_id,)).fetchall()
    if not rows:
        yield RowFault(session_id, f"sessions has {_MISSING}")
        return
    row = dict(zip(row_schema.COLUMNS["sessions"], rows[0], strict=True))
    number, activity = row["number"], row["activity"]
    values, meta = row_writer.session_values(iris.session(session_id), session_id, statements)
    values |= {
        "recorded": recorded,
        "by_turns": row["starts_at"] + row["own_turns"],
        "by_activity": row["by_created"] if activity is None else activity,
    }
    for sums in (row_writer.OF_TURNS, row_writer.OF_CALLS):
        names = sums.columns.split(", ")
        made = connection.execute(sums.select, {"number": number, "id": session_id}).fetchone()
        values |= zip(names, made, strict=True)
    values["prompt"], values["prompt_at"] = row_writer.first_prompt(connection, number)
    for column, value in values.items():
        if row[column] != value and not (column == "cost" and isclose(row[column] or 0, value, rel_tol=1e-9)):
            yield RowFault(session_id, f"sessions.{column}")
    stored = connection.execute("SELECT * FROM meta WHERE session = ?", (number,)).fetchall()
    expected = [(number, key, row_codec.as_json(value)) for key, value in meta.items()]
    yield from _differences(session_id, "meta", stored, expected)


def turn_faults(connection: sqlite3.Connection, session_id: str, rows: Sequence[TurnRow]) -> Iterator[RowFault]:
    """Yield what is wrong with what the tables hold of a session's turns, given the rows that its quads make, in order.

    Nothing is said of a session with turns that Trails never writes: they are always read from its quads.
    """
    session = connection.execute("SELECT number, principal FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if session is None or any(row.flags & ODD for row in rows):
        return
    number, principal = session
    stored = connection.execute("SELECT * FROM turns WHERE session = ? ORDER BY place, number", (number,)).fetchall()
    if len(stored) != len(rows):
        yield RowFault(session_id, f"turns has {_EXTRA if len(stored) > len(rows) else _MISSING}")
        return
    kinds = {kind: _kind_number(connection, kind) for kind in {row.kind for row in rows}}
    expected = [
        row_writer.turn_values(at[0], number, kinds[row.kind], row) for at, row in zip(stored, rows, strict=True)
    ]
    if any(row.flags & COPY for row in rows):  # which copy counts is compared for all sessions together
        counts = row_schema.COLUMNS["turns"].index("counts")
        expected = [
            (*made[:counts], at[counts], *made[counts + 1 :]) if row.flags & COPY else made
            for at, made, row in zip(stored, expected, rows, strict=True)
        ]
    yield from _differences(session_id, "turns", stored, expected)
    calls: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _OWN}
    for at, row in zip(stored, rows, strict=True):
        if row.statements:
            made = row_writer.call_rows(
                at[0],
                number,
                row,
                home=session_id,
                principal=principal or "",
                number_of=lambda iri: _session_number(connection, iri),
            )
            for table, values in made.items():
                calls[table] += values
    for table, values in calls.items():
        beside = connection.execute(_OWN[table], (number,)).fetchall()
        # which of several calls counts, in the last column, is compared for all sessions together
        sides = [[each[:-1] for each in side] if table == "calls" else side for side in (beside, values)]
        yield from _differences(session_id, table, *sides)


def _kind_number(connection: sqlite3.Connection, kind: row_codec.Kind) -> int | None:
    row = connection.execute(row_writer.KIND, kind).fetchone()
    return None if row is None else row[0]


def _session_number(connection: sqlite3.Connection, iri: str) -> int | None:
    row = connection.execute("SELECT number FROM sessions WHERE id = ?", (iris.session_id(iri),)).fetchone()
    return None if row is None else row[0]


def _differences(
    session_id: str | None, table: str, stored: Sequence[tuple[Any, ...]], expected: Sequence[tuple[Any, ...]]
) -> Iterator[RowFault]:
    """Yield the columns in which some rows differ from others, whatever their order."""
    if stored == expected:
        return
    extra, missing = Counter(stored), Counter(expected)
    extra, missing = extra - missing, missing - extra
    if extra.total() != missing.total():
        yield RowFault(session_id, f"{table} has {_EXTRA if extra.total() > missing.total() else _MISSING}")
        return
    names = row_schema.COLUMNS[table]
    pairs = zip(*(sorted(rows.elements(), key=repr) for rows in (extra, missing)), strict=True)
    columns = {name for pair in pairs for name, *values in zip(names, *pair, strict=False) if values[0] != values[1]}
    yield from (RowFault(session_id, f"{table}.{column}") for column in sorted(columns))


# --- all sessions


def store_faults(connection: sqlite3.Connection, tags: Collection[str], number: int) -> Iterator[RowFault]:
    """Yield what is wrong with the tables as a whole.

    `tags` are those in the catalog, `number` is the last record's.
    """
    if connection.execute("SELECT number FROM rows_at").fetchall() != [(number,)]:
        yield RowFault(None, "rows_at.number")
    for table, owners in _ORPHAN_ROWS.items():
        yield from (RowFault(owner, f"{table} has {_ORPHANS}") for (owner,) in connection.execute(owners).fetchall())
    bare = connection.execute(f"SELECT id FROM sessions WHERE {row_writer.IS_BARE}").fetchall()
    yield from (RowFault(session_id, f"sessions has {_EXTRA}") for (session_id,) in bare)
    yield from _differences(None, "tags", connection.execute("SELECT * FROM tags").fetchall(), [(tag,) for tag in tags])
    yield from (RowFault(session_id, "calls.counts") for (session_id,) in connection.execute(_NOT_FIRST).fetchall())
    for (digest,) in connection.execute("SELECT DISTINCT digest FROM turns WHERE flags & 1").fetchall():
        counting = dict(row_writer.copies_that_count(connection, digest))
        for turn, counts, session_id in connection.execute(_COPIES, (digest,)).fetchall():
            if counts != counting.get(turn, counts):
                yield RowFault(session_id, "turns.counts")
    yield from _numbering_faults(connection)


def schema_faults(connection: sqlite3.Connection) -> Iterator[RowFault]:
    """Yield tables and indexes that are not as they are made, and what else may change rows.

    If there are any, nothing else can be compared.
    """
    objects = (
        "SELECT type, name, sql FROM sqlite_master WHERE type IN ('trigger', 'view') OR"
        " name NOT LIKE 'sqlite~_%' ESCAPE '~' AND name NOT LIKE 'trails~_%' ESCAPE '~' AND name NOT LIKE 'texts~_%' ESCAPE '~'"
    )
    with closing(sqlite3.connect(":memory:")) as fresh:
        row_schema.create_tables(fresh)
        if (model := vector_tables.model_of(connection)) is not None:
            vector_tables.start(fresh, model)
        made = set(fresh.execute(objects).fetchall())
    for kind, name, _ in sorted(made ^ set(connection.execute(objects).fetchall())):
        yield RowFault(None, f"the {kind} {name}")


def _numbering_faults(connection: sqlite3.Connection) -> Iterator[RowFault]:
    """Yield what is wrong with how turns, their kinds and their zones are numbered, and up to where they are indexed."""
    (indexed,) = connection.execute(text_index.INDEXED).fetchone()
    (last,) = connection.execute(text_index.LAST).fetchone()
    for table in ("turns", "kinds"):
        (most,) = connection.execute(f"SELECT ifnull(max(number), 0) FROM {table}").fetchone()
        if most > connection.execute(_LAST, (table,)).fetchone()[0]:
            yield RowFault(None, f"{table}.number")
    unused = f"SELECT EXISTS (SELECT 1 FROM kinds WHERE {text_index.IS_UNUSED})"
    if connection.execute(unused, (indexed,)).fetchone()[0]:
        yield RowFault(None, f"kinds has {_ORPHANS}")
    for table, values in text_index.ZONES.items():
        expected = connection.execute(values, (0, indexed)).fetchall()
        yield from _differences(None, table, connection.execute(f"SELECT * FROM {table}").fetchall(), expected)
    shards = connection.execute("SELECT shard, indexed, dirty FROM shards ORDER BY shard").fetchall()
    if any(until != text_index.end_of(shard, indexed) for shard, until, _ in shards):
        yield RowFault(None, "shards.indexed")
    if any(dirty not in (0, 1) for *_, dirty in shards):
        yield RowFault(None, "shards.dirty")
    if vector_index.has_strays(connection):
        yield RowFault(None, "vectors.turn")
    if not last - text_index.WAITING < indexed <= last:
        yield RowFault(None, "shards.indexed")
    tables = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'texts~_%' ESCAPE '~'").fetchall()
    if {int(re.findall(r"\d+", name)[0]) for (name,) in tables} != {shard for shard, *_ in shards}:
        yield RowFault(None, "shards has other rows than there are indexes of texts")


def shards(connection: sqlite3.Connection) -> dict[str | int, int]:
    """Return how many turns are in each part of the index of texts, which `text_faults` compares with them."""
    rows = connection.execute("SELECT shard, indexed FROM shards").fetchall()
    return {shard: indexed - text_index.start_of(shard) + 1 for shard, indexed in rows}


def text_faults(connection: sqlite3.Connection, shard: int) -> Iterator[RowFault]:
    """Yield what is wrong with a part of the index of texts: whether each text is in it, and nothing else."""
    try:
        with closing(text_index.copy_of(connection, shard)) as copy:
            copy.execute("INSERT INTO texts (texts, rank) VALUES ('integrity-check', 1)")
            wrong = copy.execute(_STRAY).fetchone()[0] or _is_misled(copy)
    except (sqlite3.DatabaseError, TrailsError, *DECODING_ERRORS):
        wrong = True
    if wrong:
        yield RowFault(None, f"texts_{shard}")


def _is_misled(copy: sqlite3.Connection) -> bool:
    """Tell whether a search by FTS5 may look on the wrong page, which its integrity check does not notice.

    `texts_idx` says with what each page of a segment begins: the shortest text that is greater than all on the pages before it.
    (Where a merge was continued, it says the whole of what a page begins with.) Pages of which texts were merged into another
    segment may be gone already.
    """
    first: dict[int, int] = {}
    begins: dict[tuple[int, int], tuple[bytes, bytes]] = {}
    before = b""
    for segment, page, block in copy.execute(_PAGES):
        terms = _terms(block)
        if page == 1:
            begins[segment, page] = b"", b""
        elif segment in first and terms:
            shared = takewhile(lambda pair: pair[0] == pair[1], zip(before, terms[0], strict=False))
            begins[segment, page] = terms[0][: len(list(shared)) + 1], terms[0]
        first.setdefault(segment, page)
        before = terms[-1] if terms else before
    rows = copy.execute("SELECT segid, pgno >> 1, term FROM texts_idx").fetchall()
    stored = {
        (segment, page): term
        for segment, page, term in rows
        if page > first.get(segment, 0) or page == first.get(segment) == 1
    }
    return stored.keys() != begins.keys() or any(term not in begins[at] for at, term in stored.items())


_PAGES: Final = (
    "SELECT id >> 37, id & 0x7FFFFFFF, block FROM texts_data WHERE id >> 37 AND NOT id >> 31 & 63 ORDER BY id"
)
"""The pages of an index of FTS5 on which terms stand: a row's number has the segment, the page's kind and its number."""
_STRAY: Final = "SELECT EXISTS (SELECT 1 FROM texts_data WHERE NOT id >> 37 AND id NOT IN (1, 10))"
"""Whether there is anything beside pages and the two rows that say how much there is, and in which segments."""


def _terms(page: bytes) -> list[bytes]:
    """Return the terms that begin on a page of FTS5, in order."""
    end = int.from_bytes(page[2:4])
    terms, at, footer = list[bytes](), 0, end
    while footer < len(page):
        step, footer = _varint(page, footer)
        at += step
        kept, start = _varint(page, at) if terms else (0, at)
        length, start = _varint(page, start)
        terms.append((terms[-1][:kept] if terms else b"") + page[start : start + length])
    return terms


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number as SQLite writes it, and where it ends."""
    value = 0
    while True:
        value = value << 7 | data[at] & 0x7F
        at += 1
        if data[at - 1] < 0x80:
            return value, at
