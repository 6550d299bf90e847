"""The texts: which turns hold a text, the newest first.

Turns that follow on each other in a session are kept together, up to eight, as a run: packed, and with a checksum.
Of each part of a run, some two turns, FTS5 keeps which three characters in a row stand in it somewhere, of texts that are
folded (upper and lower case alike); of those runs of which a part holds all of a text's, what the turns say is looked through.

A run for each turn would take twice as much and more: what is said is packed better together, three characters that stand
in both turns of a part are listed once, and the lists name parts by small numbers. Longer parts would take less, and hold
nearly every three characters there are, so that more is looked through in vain.
Where the lists had places, too, they would take three times the texts' size, and be no quicker to ask.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import accumulate, chain, pairwise
from random import random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trails.history.lookup import pages
from trails.model import iris
from trails.plumbing.index.moments import FAR_PAST
from trails.plumbing.index.said import Said, folded
from trails.plumbing.index.untrue import Untrue, as_damaged

if TYPE_CHECKING:
    from trails.plumbing.index.rows import SessionRow, TurnRow
    from trails.plumbing.index.sidefile import SideFile

SCHEMA: Final = """
CREATE TABLE sessions (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, turns INTEGER NOT NULL DEFAULT 0);
CREATE TABLE runs (
  run INTEGER PRIMARY KEY, session INTEGER NOT NULL, newest INTEGER NOT NULL, oldest INTEGER NOT NULL, weight INTEGER NOT NULL,
  turns BLOB NOT NULL
);
CREATE INDEX runs_session ON runs (session);
CREATE INDEX runs_newest ON runs (newest, oldest);
CREATE TABLE marks (mark TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (mark, run)) WITHOUT ROWID;
CREATE VIRTUAL TABLE grams USING fts5 (
  text, content = '', columnsize = 0, tokenize = 'trigram case_sensitive 1', detail = none
);
"""
REWRITTEN_UP_TO: Final = 300_000
"""Turns up to which the index is written anew without what was taken out; a greater one is thrown away."""
_FULL: Final = 8 << 10
"""Characters from which on a run is full."""
_LEAST: Final = _FULL // 8
"""Characters that a turn counts for at least: a run has so many turns at most."""
_PART: Final = _FULL // 4
"""Characters from which on a part of a run is full, in which runs of three characters are looked for."""
_PARTS: Final = 3
"""In so many bits is which part of a run it is."""
GRAM: Final = 3
_GRAMS: Final = 12
"""So many runs of characters, those that look rarest, narrow down where a text may stand: each takes as long as the others."""
_FREQUENT: Final = " ETAOINSRHLDCUMFPGWYBVKXJQZ"
"""The characters that stand nearly everywhere, the most frequent first."""
_EFFORT: Final = 6
"""How hard zlib tries: more takes longer, and saves little."""
_OURS: Final = "urn:trails:"
_HELD: Final = 16 << 20
"""Characters of texts that wait until they are given to FTS5 in the order of their runs' numbers."""


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
    is_copy: bool = False
    said: Said | None = None
    """What it says; None where that is not known here, as the three before are not."""


class Kept(NamedTuple):
    """What is kept of a turn."""

    place: int
    time: int
    """Microseconds since 1970; those of year 1 where unknown."""
    name: str
    """What its IRI has of its digest; where that is not all which follows on its session's and its index, that with a slash."""
    role: str
    author: str
    is_copy: int
    shown: str
    within: tuple[str, ...] | None
    calls: tuple[tuple[str, str], ...]
    """What it says, as `Said` has it."""
    stored: str | None
    """Its content as it is stored, where that is not just what is shown."""

    @property
    def said(self) -> Said:
        """What it says."""
        return Said(self.shown, self.within, self.calls)

    @property
    def marks(self) -> set[str]:
        """What may be looked for beside a text: who spoke, in which role, and which tools were called."""
        return {_of_role(self.role), _of_author(self.author), *(_of_tool(name) for name, _ in self.calls)}

    @property
    def weight(self) -> int:
        """Characters that it counts for."""
        said = (self.shown,) if self.within is None else self.within
        return max(_LEAST, sum(map(len, said)) + sum(len(arguments) for _, arguments in self.calls))


# One letter and what is peculiar to each: a mark is some twenty bytes in each run. Two that are alike do no harm.


def _of_role(role: str) -> str:
    return f"r{role}"


def _of_author(author: str) -> str:
    return f"a{author.removeprefix(_OURS)}"


def _of_tool(name: str) -> str:
    return f"t{name}"


def kept_of(turn: TurnRow, start: int) -> Kept:
    """Return what is kept of a turn, the first `start` characters of whose IRI are its session's."""
    time, rest = FAR_PAST if turn.time is None else turn.time, turn.iri[start:]
    begin = iris.turn("", turn.place, "")
    is_plain = rest == iris.turn("", turn.place, turn.digest)
    name = rest[len(begin) :] if is_plain else f"/{rest}"
    return Kept(turn.place, time, name, turn.role, turn.author, int(turn.is_copy), *turn.said, turn.stored)


def _iri(session_id: str, kept: Kept) -> str:
    name, session_iri = kept.name, iris.session(session_id)
    return session_iri + name[1:] if name.startswith("/") else iris.turn(session_iri, kept.place, name)


def packed(turns: Sequence[Kept]) -> bytes:
    """Return turns that follow on each other as a run has them: as columns, places and times as differences, compressed.

    >>> kept = [Kept(3, 10, "00ff", "user", "urn:x", 0, "Hello", None, (), None)]
    >>> kept += [Kept(4, 12, "ff00", "user", "urn:x", 0, "", (), (), "[]")]
    >>> unpacked(packed(kept)) == kept
    True
    """
    places, times, *others = zip(*turns, strict=True)
    columns = [_differences(places), _differences(times), *others]
    return zlib.compress(json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode(), _EFFORT)


def unpacked(data: bytes) -> list[Kept]:
    """Return the turns of a run. Raises `sqlite3.DatabaseError` where its bytes are not as they were written."""
    try:
        places, times, names, roles, authors, copies, shown, within, calls, stored = json.loads(zlib.decompress(data))
        columns = (
            *(accumulate(places), accumulate(times), names, roles, authors, copies, shown),
            (None if each is None else tuple(each) for each in within),
            (tuple((name, arguments) for name, arguments in each) for each in calls),
            stored,
        )
        return [Kept(*each) for each in zip(*columns, strict=True)]
    except (zlib.error, ValueError, TypeError) as error:
        raise sqlite3.DatabaseError("what a run of turns says is not as it was written") from error


def _differences(numbers: Sequence[int]) -> list[int]:
    return [numbers[0], *(after - before for before, after in pairwise(numbers))]


def indexed(text: str) -> str:
    """Return text as FTS5 gets it: folded, with another character for NUL, which it takes for the end of a text."""
    return folded(text).replace("\0", "\1")


# --- writing


class Writer:
    """Brings the texts of sessions into the index, within one transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._taken = False
        self._next = database.execute("SELECT coalesce(max(run), 0) + 1 FROM runs").fetchone()[0]
        self._first = self._next
        self._came: dict[int, str] = {}
        self._went: dict[int, str] = {}
        """By the number of a part, the texts of it that FTS5 is still to be given, and those that it is to forget."""
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
        for run, turns in self._database.execute("SELECT run, turns FROM runs WHERE session = ?", found).fetchall():
            self._take(run, unpacked(turns))
            self._taken = True
        self._database.execute("DELETE FROM sessions WHERE number = ?", found)

    def put(self, row: SessionRow) -> None:
        """Note that a session is here."""
        self._database.execute("INSERT INTO sessions (id) VALUES (?) ON CONFLICT (id) DO NOTHING", (row.id,))

    def add(self, row: SessionRow, turns: Sequence[TurnRow]) -> None:
        """Add turns to those of a session that is here."""
        if not turns:
            return
        (number,) = self._database.execute("SELECT number FROM sessions WHERE id = ?", (row.id,)).fetchone()
        start = len(iris.session(row.id))
        for run in _cut(self._going_on(number, [kept_of(turn, start) for turn in turns]), _FULL):
            self._give(number, run)
        places = len({turn.place for turn in turns})
        self._database.execute("UPDATE sessions SET turns = turns + ? WHERE number = ?", (places, number))

    def rewrite(self, row: SessionRow, turns: Sequence[TurnRow], _asked: object) -> bool:
        """Write turns of a session that is here as they are now, in the runs that hold them; False where one is not found."""
        (number,) = self._database.execute("SELECT number FROM sessions WHERE id = ?", (row.id,)).fetchone()
        start, new = len(iris.session(row.id)), {turn.iri: turn for turn in turns}
        runs = [
            run for (run,) in self._database.execute("SELECT run FROM runs WHERE session = ? ORDER BY run", (number,))
        ]
        while new:
            run = self._run_of(runs, next(iter(new.values())).place)
            kept = [] if run is None else self._turns_in(run)
            made = [new.pop(_iri(row.id, turn), None) for turn in kept]
            if run is None or not any(made):
                return False
            self._take(run, kept)
            self._taken = True
            self._write(
                number,
                run,
                [old if turn is None else kept_of(turn, start) for old, turn in zip(kept, made, strict=True)],
            )
        return True

    def _run_of(self, runs: Sequence[int], place: int) -> int | None:
        """Return which of a session's runs, in order, holds the turn at an index: what comes later has later turns."""
        at = bisect_right(runs, place, key=lambda run: self._turns_in(run)[0].place) - 1
        return runs[at] if at >= 0 else None

    def _turns_in(self, run: int) -> list[Kept]:
        (data,) = self._database.execute("SELECT turns FROM runs WHERE run = ?", (run,)).fetchone()
        return unpacked(data)

    def _going_on(self, session: int, turns: list[Kept]) -> list[Kept]:
        """Return turns after those of a session's last runs, which are taken out, where these have room and are no longer.

        So a session to which turns are added one by one has few short runs, and each turn is written a few times.
        """
        asked = "SELECT run, weight, turns FROM runs WHERE session = ? ORDER BY run DESC LIMIT 1"
        while last := self._database.execute(asked, (session,)).fetchone():
            run, weight, before = last
            if weight >= _FULL or weight > sum(turn.weight for turn in turns):
                break
            kept = unpacked(before)
            self._take(run, kept)
            turns = kept + turns
        return turns

    def _give(self, session: int, turns: Sequence[Kept]) -> None:
        """Write a new run of turns."""
        self._next += 1
        self._write(session, self._next - 1, turns)

    def _write(self, session: int, run: int, turns: Sequence[Kept]) -> None:
        times = [turn.time for turn in turns]
        weight = sum(turn.weight for turn in turns)
        values = (run, session, max(times), min(times), weight, packed(turns))
        self._database.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", values)
        self._database.executemany("INSERT INTO marks VALUES (?, ?)", ((mark, run) for mark in _marks_of(turns)))
        for part, text in _parts(run, turns):
            self._came[part] = text
            self._note(text)

    def _take(self, run: int, turns: Sequence[Kept]) -> None:
        """Take out a run of turns."""
        self._database.execute("DELETE FROM runs WHERE run = ?", (run,))
        self._database.executemany(
            "DELETE FROM marks WHERE mark = ? AND run = ?", ((mark, run) for mark in _marks_of(turns))
        )
        for part, text in _parts(run, turns):
            if self._came.pop(part, None) is None:
                self._went[part] = text
                self._note(text)

    def _note(self, text: str) -> None:
        self._characters += len(text)
        if self._characters >= _HELD:
            self._put_grams()

    def _put_grams(self) -> None:
        """Give FTS5 what waits for it, in order: whatever comes out of order has it begin another part of its index."""
        gone, new = sorted(self._went.items()), sorted(self._came.items())
        self._database.executemany("INSERT INTO grams (grams, rowid, text) VALUES ('delete', ?, ?)", gone)
        self._database.executemany("INSERT INTO grams (rowid, text) VALUES (?, ?)", new)
        self._went.clear()
        self._came.clear()
        self._characters = 0

    def settle(self, *, erase: bool) -> None:
        """Leave nothing of the texts that were taken out: FTS5 only marks them, until all of it is written anew.

        So is an index of which most is new: it is smaller then.
        """
        self._put_grams()
        if self._taken and erase:
            if self._database.execute("SELECT total(turns) FROM sessions").fetchone()[0] > REWRITTEN_UP_TO:
                raise TooMuchTaken
        elif self._next == self._first or not self._is_mostly_new():
            return
        self._database.execute("INSERT INTO grams (grams) VALUES ('optimize')")

    def _is_mostly_new(self) -> bool:
        (runs,) = self._database.execute("SELECT count(*) FROM runs").fetchone()
        return bool(2 * (self._next - self._first) >= runs)


def _cut(turns: Iterable[Kept], full: int) -> Iterator[list[Kept]]:
    """Yield turns in pieces, all of which but the last have that weight and are no longer than they must be for it."""
    run: list[Kept] = []
    weight = 0
    for turn in turns:
        run.append(turn)
        weight += turn.weight
        if weight >= full:
            yield run
            run, weight = [], 0
    if run:
        yield run


def _parts(run: int, turns: Sequence[Kept]) -> Iterator[tuple[int, str]]:
    """Yield the parts of a run, each by its number in FTS5, with its texts."""
    for number, part in enumerate(_cut(turns, _PART)):
        yield run << _PARTS | number, _texts_of(part)


def _texts_of(turns: Iterable[Kept]) -> str:
    """Return all texts of turns as FTS5 gets them: to take them out it must be given just what was put in."""
    return indexed("\n".join(text for turn in turns for text in (*turn.said.texts(), turn.stored or "")))


def _marks_of(turns: Iterable[Kept]) -> set[str]:
    return set[str]().union(*(turn.marks for turn in turns))


# --- held against the store


def all_runs(texts: SideFile) -> Iterator[tuple[str | None, list[Kept], bool]]:
    """Yield each run: the id of its session, its turns, and whether it is found by what they say, each once.

    The id is None where there is no such session, and of what is left of runs that are not there.
    """
    rows = texts.each(
        "SELECT s.id, r.run, r.newest, r.oldest, typeof(r.weight), r.turns"
        " FROM runs r LEFT JOIN sessions s ON s.number = r.session"
    )
    in_all = 0
    for session_id, run, newest, oldest, weight, data in rows:
        turns = unpacked(data)
        times, marks = [turn.time for turn in turns], _marks_of(turns)
        ((marked,),) = texts.ask(f"SELECT count(*) FROM marks WHERE {_in('mark', marks)} AND run = ?", (*marks, run))  # noqa: S608 - our own
        in_all += len(marks)
        said = (newest, oldest, weight, marked) == (max(times), min(times), "integer", len(marks))
        yield session_id, turns, said and _are_listed(texts, dict(_parts(run, turns)))
    if texts.ask("SELECT count(*) FROM marks") != [(in_all,)]:
        yield None, [], False  # there are marks of runs that are not there


def _are_listed(texts: SideFile, parts: dict[int, str]) -> bool:
    """Tell whether each part of a run is found by three characters in a row out of its texts: any, others each time."""
    first, last = min(parts), max(parts)
    left = {part: text for part, text in parts.items() if len(text) >= GRAM}
    while left:
        _, text = left.popitem()
        at = int(random() * (len(text) - GRAM + 1))  # noqa: S311 - nobody gains by guessing it
        gram = text[at : at + GRAM]
        found = {part for (part,) in texts.ask(_LISTED, (_quoted(gram), first, last))}
        having = {part for part, text in parts.items() if gram in text}  # most stand in more than one
        if not having <= found:
            return False
        left = {part: text for part, text in left.items() if part not in having}
    return True


_LISTED: Final = "SELECT rowid FROM grams WHERE grams MATCH ? AND rowid BETWEEN ? AND ?"


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
    authors, session_ids = frozenset(authors), list(session_ids)
    wanted = None if text is None else folded(text)

    def fits(turn: Kept) -> bool:
        return (
            (until is None or turn.time <= until)
            and (role is None or turn.role == role)
            and (not authors or turn.author in authors)
            and (tool is None or any(name == tool for name, _ in turn.calls))
            and (wanted is None or any(wanted in folded(each) for each in turn.said.texts()))
        )

    marks = [[_of_role(role)]] if role is not None else []
    marks += [[_of_tool(tool)]] if tool is not None else []
    marks += [[_of_author(author) for author in authors]] if authors else []
    found: list[tuple[tuple[int, str, int, str], Found]] = []
    with as_damaged():  # what a consumer raises does not come here
        for newest, run in _runs(texts, text, marks, session_ids, until):
            while found and found[0][1].time > newest:
                yield heappop(found)[1]
            session_id, turns = _run(texts, run)
            for turn in filter(fits, turns):
                each = _found(session_id, turn)
                heappush(found, (_order(each), each))
        while found:
            yield heappop(found)[1]


def holding(texts: SideFile, text: str) -> Iterator[tuple[str, str]]:
    """Yield session id and IRI of each turn whose content has a text in it as it is stored, upper and lower case alike."""
    wanted = folded(text)
    for _, run in _runs(texts, text, [], [], None):
        session_id, turns = _run(texts, run)
        for turn in turns:
            if wanted in folded(turn.shown if turn.stored is None else turn.stored):
                yield session_id, _iri(session_id, turn)


def _run(texts: SideFile, run: int) -> tuple[str, list[Kept]]:
    """Return the id of a run's session, and its turns."""
    for session_id, data in texts.ask(_TURNS, (run,)):
        if isinstance(session_id, str):
            return session_id, unpacked(data)
    raise Untrue("a run of turns belongs to no session")


_TURNS: Final = "SELECT s.id, r.turns FROM runs r JOIN sessions s ON s.number = r.session WHERE r.run = ?"


def _runs(
    texts: SideFile, text: str | None, marks: Iterable[Sequence[str]], session_ids: Sequence[str], until: int | None
) -> Iterator[tuple[int, int]]:
    """Yield the runs that may hold what is looked for, each with the time of its newest turn, by that: the newest first."""
    conditions, values = ["TRUE"], list[Any]()

    def where(condition: str, *more: Any) -> None:
        conditions.append(condition)
        values.extend(more)

    wanted = None if text is None else indexed(text)
    if wanted is not None and len(wanted) >= GRAM and not session_ids:
        where(f"run IN (SELECT rowid >> {_PARTS} FROM grams WHERE grams MATCH ?)", _grams(wanted))  # noqa: S608 - our own
    for some in marks:
        where(f"run IN (SELECT run FROM marks WHERE {_in('mark', some)})", *some)  # noqa: S608 - our own
    if until is not None:
        where("oldest <= ?", until)
    by = "runs_newest"  # in which all stands that is asked for: no run is read to put them in order
    if session_ids:
        by = "runs_session"  # few sessions have few runs, all of which are looked at
        where(f"session IN (SELECT number FROM sessions WHERE {_in('id', session_ids)})", *session_ids)  # noqa: S608 - our own
    return texts.each(
        f"SELECT newest, run FROM runs INDEXED BY {by} WHERE {' AND '.join(conditions)} ORDER BY newest DESC",  # noqa: S608 - our own
        values,
    )


def _in(column: str, values: Collection[str]) -> str:
    return f"{column} IN ({', '.join('?' * len(values))})"


def _found(session_id: str, turn: Kept) -> Found:
    iri = _iri(session_id, turn)
    return Found(turn.time, session_id, turn.place, iri, turn.role, turn.author, bool(turn.is_copy), turn.said)


def _order(found: Found) -> tuple[int, str, int, str]:
    return -found.time, iris.session(found.session_id), -found.place, found.iri


class Place(NamedTuple):
    """Where a page ends: its last turn's time, its session in short, and its index."""

    time: int
    session: int
    turn: int


def place_in(cursor: str | None) -> Place | None:
    """Return where the page before ended; raises `InvalidInput` for a text that is no cursor."""
    return None if cursor is None else Place(*pages.parse_cursor(cursor, len(Place._fields)))


def cursor_at(last: Found) -> str:
    """Return the cursor of the page that ends with a turn."""
    return pages.make_cursor(*_place_of(last))


def _place_of(found: Found) -> Place:
    return Place(found.time, pages.tie_break(found.session_id), found.place)


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
    runs = dict.fromkeys(wanted[at : at + GRAM] for at in range(len(wanted) - GRAM + 1))
    rarest = sorted(runs, key=lambda run: -sum(_rarity(character) for character in run))
    return " AND ".join(map(_quoted, rarest[:_GRAMS]))


def _quoted(run: str) -> str:
    return '"' + run.replace('"', '""') + '"'


def _rarity(character: str) -> int:
    found = _FREQUENT.find(character)
    return len(_FREQUENT) if found < 0 else found
