"""The texts: which turns hold a text, the newest first.

FTS5 keeps which turns hold which three characters in a row, of texts that are folded (upper and lower case alike): of those
that hold all of a text's, what they say is looked through. Where the runs were kept with their places they would take three
times the texts' size instead of three quarters, and be no quicker to ask.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trails import iris
from trails.plumbing import pages
from trails.plumbing.index.brevity import brief, whole
from trails.plumbing.index.moments import FAR_PAST
from trails.plumbing.index.said import Said, folded

if TYPE_CHECKING:
    from trails.plumbing.index.rows import SessionRow, TurnRow
    from trails.plumbing.index.sidefile import SideFile

SCHEMA: Final = """
CREATE TABLE sessions (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, turns INTEGER NOT NULL DEFAULT 0);
CREATE TABLE docs (
  doc INTEGER PRIMARY KEY, session INTEGER NOT NULL, place INTEGER NOT NULL, time INTEGER NOT NULL, tail TEXT,
  role TEXT NOT NULL, author TEXT NOT NULL, digest BLOB NOT NULL, copied INTEGER NOT NULL
);
CREATE TABLE said (doc INTEGER PRIMARY KEY, what BLOB NOT NULL);
CREATE INDEX docs_session ON docs (session);
CREATE TABLE tools (name TEXT NOT NULL, doc INTEGER NOT NULL, PRIMARY KEY (name, doc)) WITHOUT ROWID;
CREATE INDEX tools_doc ON tools (doc);
CREATE VIRTUAL TABLE grams USING fts5 (text, content = '', tokenize = 'trigram case_sensitive 1', detail = none);
"""
REWRITTEN_UP_TO: Final = 100_000
"""Turns up to which the index is written anew without what was taken out; a greater one is thrown away."""
_GRAM: Final = 3
_GRAMS: Final = 6
"""So many runs of characters, those that look rarest, narrow down where a text may stand: each takes as long as the others."""
_FREQUENT: Final = " ETAOINSRHLDCUMFPGWYBVKXJQZ"
"""The characters that stand nearly everywhere, the most frequent first."""
_EFFORT: Final = 4
"""How hard zlib tries: more takes longer, and saves little of texts as short as a turn's."""
_SECOND: Final = 1_000_000
_HELD: Final = 16 << 20
"""Characters of texts that wait until they are given to FTS5 in the order of their turns' numbers."""
_BITS: Final = 24
"""A turn's number is the second it is of and, in so many bits, which one of that second: the newest has the greatest."""

_COLUMNS: Final = "d.time, s.id, d.place, d.tail, d.role, d.author, d.digest, d.copied, t.what"


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
    role: str = ""
    author: str = ""
    digest: str = ""
    is_copy: bool = False
    said: Said | None = None
    """What it says; None where that is not known here, as the four before are not."""


class Kept(NamedTuple):
    """What is kept of a turn."""

    doc: tuple[int, int, str | None, str, str, bytes | str, bool]
    """Index, time (that of year 1 where unknown), what its IRI has after its session's where that is not index and digest,
    role, author, digest, whether a copy."""
    what: bytes
    """What it says, as `_read` takes it."""
    tools: frozenset[str]


def kept_of(turn: TurnRow, start: int) -> Kept:
    """Return what is kept of a turn, the first `start` characters of whose IRI are its session's."""
    time, said = FAR_PAST if turn.time is None else turn.time, turn.said
    tail = turn.iri[start:]
    return Kept(
        (
            turn.index,
            time,
            None if tail == _tail(turn.index, turn.digest) else tail,
            turn.role,
            turn.author,
            brief(turn.digest),
            turn.is_copy,
        ),
        json.dumps([said.shown, said.within, said.calls], ensure_ascii=False).encode(),
        frozenset(said.tools),
    )


def _tail(index: int, digest: str) -> str:
    return iris.turn("", index, digest)


def packed(what: bytes) -> bytes:
    """Return what a turn says as the file has it: compressed, where that makes it shorter."""
    return min(what, zlib.compress(what, _EFFORT), key=len)


def unpacked(kept: bytes) -> bytes:
    """Return what a turn says as it was before `packed`."""
    return kept if kept.startswith(b"[") else zlib.decompress(kept)


def indexed(text: str) -> str:
    """Return text as FTS5 gets it: folded, with another character for NUL, which it takes for the end of a text."""
    return folded(text).replace("\0", "\1")


# --- writing


class Writer:
    """Brings the texts of sessions into the index, within one transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._next: dict[int, int] = {}
        self._taken = False
        self._grams: list[tuple[int, str]] = []
        self._characters = 0

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
        self._put_grams()
        for (doc,) in docs:
            ((what,),) = self._database.execute("SELECT what FROM said WHERE doc = ?", (doc,))
            gone = (doc, _all_of(_read(what)))
            self._database.execute("INSERT INTO grams (grams, rowid, text) VALUES ('delete', ?, ?)", gone)
        self._database.executemany("DELETE FROM said WHERE doc = ?", docs)
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
        said: list[tuple[Any, ...]] = []
        tools: list[tuple[str, int]] = []
        for turn in turns:
            kept = kept_of(turn, start)
            doc = self._doc(kept.doc[1] // _SECOND)
            docs.append((doc, number, *kept.doc))
            said.append((doc, packed(kept.what)))
            text = _all_of(turn.said)
            self._grams.append((doc, text))
            self._characters += len(text)
            tools += ((name, doc) for name in kept.tools)
        self._database.executemany("INSERT INTO docs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", docs)
        self._database.executemany("INSERT INTO said VALUES (?, ?)", said)
        if self._characters >= _HELD:
            self._put_grams()
        self._database.executemany("INSERT INTO tools VALUES (?, ?)", tools)
        places = len({turn.index for turn in turns})
        self._database.execute("UPDATE sessions SET turns = turns + ? WHERE number = ?", (places, number))

    def _put_grams(self) -> None:
        """Give FTS5 what waits for it, in order: whatever comes out of order has it begin another part of its index."""
        self._grams.sort()
        self._database.executemany("INSERT INTO grams (rowid, text) VALUES (?, ?)", self._grams)
        self._grams.clear()
        self._characters = 0

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
        self._put_grams()
        if not self._taken or not erase:
            return
        if self._database.execute("SELECT count(*) FROM docs").fetchone()[0] > REWRITTEN_UP_TO:
            raise TooMuchTaken
        self._database.execute("INSERT INTO grams (grams) VALUES ('optimize')")


def _all_of(said: Said) -> str:
    """Return all texts of a turn as FTS5 gets them: to take a turn out it must be given just what was put in."""
    return indexed("\n".join(said.texts()))


def _read(kept: bytes) -> Said:
    shown, within, calls = json.loads(unpacked(kept))
    return Said(
        shown,
        None if within is None else tuple(within),
        tuple((name, arguments) for name, arguments in calls),
    )


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
    by_grams = wanted is not None and len(wanted) >= _GRAM and not session_ids
    if wanted is not None and by_grams:
        where("grams MATCH ?", _grams(wanted))
    if tool is not None:
        where("c.name = ?", tool)
    if role is not None:
        where("d.role = ?", role)
    for column, some in (("d.author", authors), ("s.id", session_ids)):
        if some:
            where(f"{column} IN ({', '.join('?' * len(some))})", *some)
    tables = _tables(by_grams=by_grams, has_tool=tool is not None, of_sessions=bool(session_ids))
    key = {"grams g": "g.rowid", "tools c": "c.doc"}.get(tables[0], "d.doc")
    if until is not None:
        where(f"{key} < ?", (until // _SECOND - FAR_PAST // _SECOND + 1) << _BITS)
    rows = texts.each(
        f"SELECT d.doc >> {_BITS}, {_COLUMNS}"  # noqa: S608 - our own
        f" FROM {' CROSS JOIN '.join(tables)} WHERE {' AND '.join([*_joined(tables), *conditions])} ORDER BY {key} DESC",
        values,
    )
    yield from _in_order(rows, until, text)


def _tables(*, by_grams: bool, has_tool: bool, of_sessions: bool) -> list[str]:
    """Return the tables to look in, in the order in which they are gone through: of few sessions, all turns are looked at."""
    named = ["grams g"] if by_grams else []
    named += ["tools c"] if has_tool else []
    return ["sessions s", "docs d", *named, "said t"] if of_sessions else [*named, "docs d", "sessions s", "said t"]


def _joined(tables: Sequence[str]) -> list[str]:
    found = ["s.number = d.session", "t.doc = d.doc"]
    found += ["d.doc = g.rowid"] if "grams g" in tables else []
    return [*found, "c.doc = d.doc"] if "tools c" in tables else found


def _in_order(rows: Iterable[tuple[Any, ...]], until: int | None, text: str | None) -> Iterator[Found]:
    """Yield the turns of each second that hold a text somewhere, in their own order."""
    wanted = None if text is None else folded(text)
    group: list[Found] = []
    second: int | None = None
    for of, time, session_id, place, tail, role, author, kept, is_copy, what in rows:
        if of != second:
            yield from _sorted(group)
            group, second = [], of
        said = _read(what)
        if (until is None or time <= until) and (
            wanted is None or any(wanted in folded(each) for each in said.texts())
        ):
            digest = whole(kept)
            iri = iris.session(session_id) + (_tail(place, digest) if tail is None else tail)
            group.append(Found(time, session_id, place, iri, role, author, digest, bool(is_copy), said))
    yield from _sorted(group)


def _sorted(group: list[Found]) -> list[Found]:
    return sorted(group, key=lambda found: (-found.time, iris.session(found.session_id), -found.place))


class Place(NamedTuple):
    """Where a page ends: its last turn's time, its session in short, and its index."""

    time: int
    session: int
    turn: int


def place_in(cursor: str | None) -> Place | None:
    """Return where the page before ended; raises `InvalidInput` for a text that is no cursor."""
    return None if cursor is None else Place(*pages.places_of(cursor, len(Place._fields)))


def cursor_at(last: Found) -> str:
    """Return the cursor of the page that ends with a turn."""
    return pages.cursor_of(*_place_of(last))


def _place_of(found: Found) -> Place:
    return Place(found.time, pages.tie(found.session_id), found.place)


def after(found: Iterator[Found], place: Place | None) -> Iterator[Found]:
    """Yield what comes after a place; where what stood there is gone, all of its time, so that nothing is left out."""
    if place is None:
        yield from found
        return
    same: list[Found] = []
    for each in found:
        if each.time > place.time:
            continue
        if each.time < place.time:
            yield from chain(same, [each], found)
            return
        same = [] if _place_of(each) == place else [*same, each]
    yield from same


def _grams(wanted: str) -> str:
    """Return the query for those runs of three characters of a text that look rarest."""
    runs = dict.fromkeys(wanted[at : at + _GRAM] for at in range(len(wanted) - _GRAM + 1))
    rarest = sorted(runs, key=lambda run: -sum(_rarity(character) for character in run))
    return " AND ".join('"' + run.replace('"', '""') + '"' for run in rarest[:_GRAMS])


def _rarity(character: str) -> int:
    found = _FREQUENT.find(character)
    return len(_FREQUENT) if found < 0 else found
