"""The texts: which turns may hold a text, the newest first. The store's own texts decide whether one does.

Texts stand folded (upper and lower case alike), and FTS5 keeps which turns hold which three characters in a row: of those
that hold all of a text's, the text itself is looked for. Where they were kept with their places they would take three
times the texts' size instead of three quarters, and be no quicker to ask.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from trails import iris
from trails.plumbing.index.moments import FAR_PAST
from trails.plumbing.index.rows import SessionRow, TurnRow
from trails.plumbing.index.sidefile import SideFile

SCHEMA: Final = """
CREATE TABLE sessions (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, turns INTEGER NOT NULL DEFAULT 0);
CREATE TABLE docs (
  doc INTEGER PRIMARY KEY, session INTEGER NOT NULL, place INTEGER NOT NULL, time INTEGER NOT NULL, tail TEXT NOT NULL,
  role TEXT NOT NULL, author TEXT NOT NULL
);
CREATE INDEX docs_session ON docs (session);
CREATE TABLE tools (name TEXT NOT NULL, doc INTEGER NOT NULL, PRIMARY KEY (name, doc)) WITHOUT ROWID;
CREATE INDEX tools_doc ON tools (doc);
CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = 'trigram case_sensitive 1', detail = none);
"""
REWRITTEN_UP_TO: Final = 100_000
"""Turns up to which the index is written anew without what was taken out; a greater one is thrown away."""
_GRAM: Final = 3
_GRAMS: Final = 6
"""So many runs of characters, those that look rarest, narrow down where a text may stand: each takes as long as the others."""
_FREQUENT: Final = " ETAOINSRHLDCUMFPGWYBVKXJQZ"
"""The characters that stand nearly everywhere, the most frequent first."""
_SECOND: Final = 1_000_000
_BITS: Final = 24
"""A turn's number is the second it is of and, in so many bits, which one of that second: the newest has the greatest."""


class TooMuchTaken(Exception):
    """Texts were taken out of an index that is too great to be written anew for it."""


class Found(NamedTuple):
    """A turn that may be one of those looked for."""

    time: int
    """Microseconds since 1970; those of year 1 where unknown."""
    session_id: str
    place: int
    """The turn's index in its transcript."""
    iri: str


def folded(text: str) -> str:
    """Return text in which upper and lower case are alike, as the queries have it: `UCASE(LCASE(...))`.

    >>> folded("Straße") == folded("STRASSE"), folded("ὁδός") == folded("ὉΔΌΣ")
    (True, True)
    """
    return text.lower().upper()


def indexed(text: str) -> str:
    """Return text as the index has it: folded, with another character for NUL, which FTS5 takes for the end of a text.

    What it finds is read from the store, whose own text decides.
    """
    return folded(text).replace("\0", "\1")


# --- writing


class Writer:
    """Brings the texts of sessions into the index, within one transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._next: dict[int, int] = {}
        self._taken = False

    def known(self, session_id: str) -> int | None:
        """Return how many turns of its own a session has here; None where it is not here."""
        row = self._database.execute("SELECT turns FROM sessions WHERE id = ?", (session_id,)).fetchone()
        return None if row is None else int(row[0])

    def remove(self, session_id: str) -> None:
        """Take out all that is here of a session."""
        found = self._database.execute("SELECT number FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if found is None:
            return
        docs = self._database.execute("SELECT doc FROM docs WHERE session = ?", found).fetchall()
        self._taken = self._taken or bool(docs)
        self._database.executemany("DELETE FROM texts WHERE rowid = ?", docs)
        self._database.executemany("DELETE FROM tools WHERE doc = ?", docs)
        self._database.execute("DELETE FROM docs WHERE session = ?", found)
        self._database.execute("DELETE FROM sessions WHERE number = ?", found)

    def put(self, row: SessionRow) -> None:
        """Note that a session is here."""
        self._database.execute("INSERT INTO sessions (id) VALUES (?) ON CONFLICT (id) DO NOTHING", (row.id,))

    def add(self, row: SessionRow, turns: Sequence[TurnRow]) -> None:
        """Add turns to those of a session that is here."""
        number = self._database.execute("SELECT number FROM sessions WHERE id = ?", (row.id,)).fetchone()[0]
        start = len(iris.session(row.id))
        docs: list[tuple[Any, ...]] = []
        texts: list[tuple[int, str]] = []
        tools: list[tuple[str, int]] = []
        for turn in turns:
            time = FAR_PAST if turn.time is None else turn.time
            doc = self._doc(time // _SECOND)
            docs.append((doc, number, turn.index, time, turn.iri[start:], turn.role, turn.author))
            texts.append((doc, indexed("\n".join(turn.texts))))
            tools += ((name, doc) for name in set(turn.tools))
        self._database.executemany("INSERT INTO docs VALUES (?, ?, ?, ?, ?, ?, ?)", docs)
        self._database.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", texts)
        self._database.executemany("INSERT INTO tools VALUES (?, ?)", tools)
        places = len({turn.index for turn in turns})
        self._database.execute("UPDATE sessions SET turns = turns + ? WHERE number = ?", (places, number))

    def _doc(self, second: int) -> int:
        """Return the number of the next turn of a second; later ones are greater."""
        first = (second - FAR_PAST // _SECOND) << _BITS
        if second not in self._next:
            row = self._database.execute(
                "SELECT max(doc) FROM docs WHERE doc >= ? AND doc < ?", (first, first + (1 << _BITS))
            ).fetchone()
            self._next[second] = first if row[0] is None else row[0] + 1
        doc = self._next[second]
        self._next[second] += 1
        return doc

    def settle(self, *, erase: bool) -> None:
        """Leave nothing of the texts that were taken out: FTS5 only marks them, until all of it is written anew."""
        if not self._taken or not erase:
            return
        if self._database.execute("SELECT count(*) FROM docs").fetchone()[0] > REWRITTEN_UP_TO:
            raise TooMuchTaken
        self._database.execute("INSERT INTO texts (texts) VALUES ('optimize')")


# --- asking


def candidates(
    texts: SideFile,
    *,
    text: str | None,
    tool: str | None = None,
    role: str | None = None,
    authors: Iterable[str] = (),
    session_ids: Iterable[str] = (),
    until: int | None = None,
) -> Iterator[Found]:
    """Yield the turns that may hold a text, each once, as searches show them: by time, the newest first, then by session
    and from the last index. None and nothing stand for anything; `until` is the time of the first, inclusive."""
    conditions: list[str] = []
    values: list[Any] = []

    def where(condition: str, *more: Any) -> None:
        conditions.append(condition)
        values.extend(more)

    wanted = None if text is None else indexed(text)
    session_ids, authors = list(session_ids), list(authors)
    tables = _tables(has_text=wanted is not None, has_tool=tool is not None, of_sessions=bool(session_ids))
    if wanted is not None:
        if len(wanted) >= _GRAM and not session_ids:
            where("texts MATCH ?", _grams(wanted))
        where("instr(t.text, ?) > 0", wanted)
    if tool is not None:
        where("c.name = ?", tool)
    if role is not None:
        where("d.role = ?", role)
    for column, some in (("d.author", authors), ("s.id", session_ids)):
        if some:
            where(f"{column} IN ({', '.join('?' * len(some))})", *some)
    key = {"texts t": "t.rowid", "tools c": "c.doc"}.get(tables[0], "d.doc")
    if until is not None:
        where(f"{key} < ?", (until // _SECOND - FAR_PAST // _SECOND + 1) << _BITS)
    rows = texts.each(
        f"SELECT d.doc >> {_BITS}, d.time, s.id, d.place, d.tail FROM {' CROSS JOIN '.join(tables)}"  # noqa: S608 - our own
        f" WHERE {' AND '.join([*_joined(tables), *conditions])} ORDER BY {key} DESC",
        values,
    )
    yield from _in_order(rows, until)


def _tables(*, has_text: bool, has_tool: bool, of_sessions: bool) -> list[str]:
    """Return the tables to look in, in the order in which they are gone through: of few sessions, all turns are looked at."""
    named = ["texts t"] if has_text else []
    named += ["tools c"] if has_tool else []
    return ["sessions s", "docs d", *named] if of_sessions else [*named, "docs d", "sessions s"]


def _joined(tables: Sequence[str]) -> list[str]:
    found = ["s.number = d.session"]
    found += ["d.doc = t.rowid"] if "texts t" in tables else []
    return [*found, "c.doc = d.doc"] if "tools c" in tables else found


def _in_order(rows: Iterable[tuple[int, int, str, int, str]], until: int | None) -> Iterator[Found]:
    """Yield the turns of each second in their own order."""
    group: list[Found] = []
    second: int | None = None
    for of, time, session_id, place, tail in rows:
        if of != second:
            yield from _sorted(group)
            group, second = [], of
        if until is None or time <= until:
            group.append(Found(time, session_id, place, iris.session(session_id) + tail))
    yield from _sorted(group)


def _sorted(group: list[Found]) -> list[Found]:
    return sorted(group, key=lambda found: (-found.time, iris.session(found.session_id), -found.place))


def _grams(wanted: str) -> str:
    """Return the query for those runs of three characters of a text that look rarest."""
    runs = dict.fromkeys(wanted[at : at + _GRAM] for at in range(len(wanted) - _GRAM + 1))
    rarest = sorted(runs, key=lambda run: -sum(_rarity(character) for character in run))
    return " AND ".join('"' + run.replace('"', '""') + '"' for run in rarest[:_GRAMS])


def _rarity(character: str) -> int:
    found = _FREQUENT.find(character)
    return len(_FREQUENT) if found < 0 else found
