"""Finding turns by text: FTS5 says which turns hold its runs of three characters, and their texts are looked through.

Texts are indexed some hundred turns at a time, since that takes a fraction of the work: the newest are read without the index.
FTS5 keeps which turns have a run, and not where (`detail = none`): places take three times as much, and are no quicker to ask.
There is a table for each 65,536 turns, so that an erasure rewrites a small index, and within it zones of 1,024 turns of which
the newest time is known, so that a text which stands nearly everywhere is found in the newest zones alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

from trails.model import iris
from trails.rdf import vocab
from trails.rows import row_codec
from trails.rows.row_codec import FAR_PAST, JSON, TurnRow, text_of
from trails.rows.session_lists import Asked
from trails.rows.turn_text import TurnText, folded, turn_text

_TEXTS: Final = "text, content = '{}', columnsize = 0, tokenize = 'trigram case_sensitive 1', detail = none"
_SHARD: Final = 16
_ZONE: Final = 10
"""Bits of a turn's number within a shard, and within a zone."""
WAITING: Final = 256
"""Turns that wait to be indexed together."""
_FEW: Final = 256
"""Turns of a shard that are looked at all together; where more may hold a text, those of one zone after the other."""
_SCANNED: Final = 4
"""Zones that are read through for a text shorter than a run of three, before the index is asked for runs that begin so."""
GRAM: Final = 3
_GRAMS: Final = 8
"""So many runs of a text, those that look rarest, are looked for: each takes as long as the others."""
_FREQUENT: Final = " ETAOINSRHLDCUMFPGWYBVKXJQZ"
_PAD: Final = "\1\1"
"""Stands after each text, so that its last characters begin a run of three, too."""
_NEVER: Final = 1 << 63
LAST: Final = "SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'turns'"
"""The number of the last turn that there ever was."""
INDEXED: Final = "SELECT ifnull(max(indexed), 0) FROM shards"
"""The number of the last turn whose text is indexed."""
ZONES: Final[Mapping[str, str]] = {
    "zones": f"SELECT number >> {_ZONE}, max(ifnull(time, {FAR_PAST})) FROM turns WHERE number BETWEEN ? AND ? GROUP BY 1",
    "zone_kinds": f"SELECT DISTINCT kind, number >> {_ZONE} FROM turns WHERE number BETWEEN ? AND ?",
}
"""What is known of the zones of some turns that are indexed."""
IS_UNUSED: Final = "number NOT IN (SELECT kind FROM zone_kinds UNION SELECT kind FROM turns WHERE number > ?)"
"""Whether no turn has a kind: neither one that is indexed nor one after the last of these."""
_ROWS: Final = (
    "SELECT t.number, s.id, t.place, k.role, k.branch, k.author, k.form, t.time, t.text, t.digest, t.flags, t.more"
    " FROM turns t JOIN kinds k ON k.number = t.kind JOIN sessions s ON s.number = t.session"
)


# --- writing


def keep_up(connection: sqlite3.Connection) -> None:
    """Index the texts that wait, where there are so many."""
    last, indexed = connection.execute(f"SELECT ({LAST}), ({INDEXED})").fetchone()
    while last - indexed >= WAITING:
        shard = (indexed + 1) >> _SHARD
        until = min(last, (shard + 1 << _SHARD) - 1)
        _index(connection, shard, indexed + 1, until)
        indexed = until


def _index(connection: sqlite3.Connection, shard: int, first: int, last: int) -> None:
    connection.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS texts_{shard} USING fts5 ({_TEXTS.format('')})")
    connection.executemany(f"INSERT INTO texts_{shard} (rowid, text) VALUES (?, ?)", _texts(connection, first, last))
    connection.execute(
        "INSERT INTO shards (shard, indexed) VALUES (?, ?) ON CONFLICT (shard) DO UPDATE SET indexed = excluded.indexed",
        (shard, last),
    )
    describe(connection, range(zone_of(first), zone_of(last) + 1))


def _texts(connection: sqlite3.Connection, first: int, last: int) -> Iterator[tuple[int, str]]:
    """Yield number and text of some turns, in order."""
    asked = (
        "SELECT t.number, t.text, k.form, t.more FROM turns t JOIN kinds k ON k.number = t.kind"
        " WHERE t.number BETWEEN ? AND ? ORDER BY t.number"
    )
    for number, *said in connection.execute(asked, (first, last)):
        yield number, indexed_text(*said)


def zone_of(number: int) -> int:
    """Return the zone that a turn is in."""
    return number >> _ZONE


def describe(connection: sqlite3.Connection, zones: Iterable[int]) -> None:
    """Make anew what is known of some zones, of which turns were indexed, changed or deleted."""
    (indexed,) = connection.execute(INDEXED).fetchone()
    for zone in zones:
        turns = zone << _ZONE, min((zone + 1 << _ZONE) - 1, indexed)
        for table, values in ZONES.items():
            connection.execute(f"DELETE FROM {table} WHERE zone = ?", (zone,))
            connection.execute(f"INSERT INTO {table} {values}", turns)


def drop_kinds(connection: sqlite3.Connection, kinds: Iterable[int]) -> None:
    """Delete those of some kinds that no turn has any more."""
    (indexed,) = connection.execute(INDEXED).fetchone()
    connection.executemany(f"DELETE FROM kinds WHERE {IS_UNUSED} AND number = ?", [(indexed, kind) for kind in kinds])


def indexed_text(text: str, form: int, more: str | None) -> str:
    """Return all texts of a turn as FTS5 gets them; NUL ends a text there, and is another character."""
    said = text_of_turn(text, form, more)
    texts = [*said.texts(), text] if form == JSON else said.texts()
    return folded("\n".join(texts)).replace("\0", "\1") + _PAD


def text_of_turn(text: str, form: int, more: str | None) -> TurnText:
    """Return what a turn says, by the text, form and statements that its row has."""
    return turn_text(text, form, _calls_in(more) if more else ())


def _calls_in(more: str) -> tuple[tuple[str, str], ...]:
    """Return name and arguments of each tool call that a row holds, in order."""
    if '"call/' not in more:
        return ()
    parts = row_codec.by_part(row_codec.decode_statements(more)).items()
    calls = {int(part.rpartition("/")[2]): own for part, own in parts if part.startswith("call/")}
    return tuple((text_of(calls[at], vocab.TOOL_NAME), text_of(calls[at], vocab.ARGUMENTS)) for at in sorted(calls))


def remove(connection: sqlite3.Connection, number: int, row: TurnRow) -> bool:
    """Take a turn out of the index and return whether it was there; `erase` leaves nothing of it in the file.

    What is known of its zone is made anew by `describe`.
    """
    shard = _shard_of(connection, number)
    if shard is None:
        return False
    text = indexed_text(row.text, row.kind.form, row.more)
    connection.execute(
        f"INSERT INTO texts_{shard} (texts_{shard}, rowid, text) VALUES ('delete', ?, ?)", (number, text)
    )
    connection.execute("UPDATE shards SET dirty = 1 WHERE shard = ?", (shard,))
    return True


def add(connection: sqlite3.Connection, number: int, row: TurnRow) -> None:
    """Index a turn anew that was taken out."""
    if (shard := _shard_of(connection, number)) is not None:
        text = indexed_text(row.text, row.kind.form, row.more)
        connection.execute(f"INSERT INTO texts_{shard} (rowid, text) VALUES (?, ?)", (number, text))


def _shard_of(connection: sqlite3.Connection, number: int) -> int | None:
    """Return the shard that a turn is indexed in; None while it waits."""
    found = connection.execute("SELECT indexed FROM shards WHERE shard = ?", (number >> _SHARD,)).fetchone()
    return number >> _SHARD if found is not None and number <= found[0] else None


def is_dirty(connection: sqlite3.Connection) -> bool:
    """Tell whether something is left of removed texts."""
    return connection.execute("SELECT 1 FROM shards WHERE dirty").fetchone() is not None


def erase(connection: sqlite3.Connection) -> None:
    """Rewrite what FTS5 only marked as removed: after this nothing of a removed text is in the index."""
    for (shard,) in connection.execute("SELECT shard FROM shards WHERE dirty").fetchall():
        connection.execute(f"INSERT INTO texts_{shard} (texts_{shard}) VALUES ('optimize')")
        connection.execute("UPDATE shards SET dirty = 0 WHERE shard = ?", (shard,))


# --- comparing


def start_of(shard: int) -> int:
    """Return the number of the first turn of a shard."""
    return shard << _SHARD


def end_of(shard: int, indexed: int) -> int:
    """Return the number of the last turn of a shard that is indexed, if the last one of all is `indexed`."""
    return min((shard + 1 << _SHARD) - 1, indexed)


def copy_of(connection: sqlite3.Connection, shard: int) -> sqlite3.Connection:
    """Return a copy of the index of a shard in memory, as the table `texts` beside the texts that it should be of.

    FTS5 can compare the two there: the index that is stored has no texts beside it.
    """
    (indexed,) = connection.execute("SELECT indexed FROM shards WHERE shard = ?", (shard,)).fetchone()
    copy = sqlite3.connect(":memory:", isolation_level=None)
    copy.execute("CREATE TABLE said (number INTEGER PRIMARY KEY, text TEXT)")
    copy.executemany("INSERT INTO said VALUES (?, ?)", _texts(connection, start_of(shard), indexed))
    copy.execute(f"CREATE VIRTUAL TABLE texts USING fts5 ({_TEXTS.format('said')}, content_rowid = 'number')")
    for table, marks in (("config", "?, ?"), ("data", "?, ?"), ("idx", "?, ?, ?")):
        stored = connection.execute(f"SELECT * FROM texts_{shard}_{table}").fetchall()
        if table == "config" and stored != copy.execute("SELECT * FROM texts_config").fetchall():
            raise sqlite3.DatabaseError("it is configured otherwise")
        copy.execute(f"DELETE FROM texts_{table}")
        copy.executemany(f"INSERT INTO texts_{table} VALUES ({marks})", stored)
    return copy


# --- asking


class FoundTurn(NamedTuple):
    """A turn that a search found."""

    number: int
    session_id: str
    row: TurnRow
    text: TurnText

    @property
    def time(self) -> int:
        """Microseconds since 1970; those of the year 1 where unknown."""
        return FAR_PAST if self.row.time is None else self.row.time

    @property
    def order(self) -> tuple[int, str, int, str]:
        """Where it stands: by time, the newest first, then by session and from the last index."""
        return -self.time, iris.session(self.session_id), -self.row.place, self.row.iri


class Wanted(NamedTuple):
    """What is looked for; None and nothing stand for anything."""

    text: str | None = None
    tool: str | None = None
    role: str | None = None
    authors: Sequence[str] = ()
    until: int | None = None
    """The time of the first turn, inclusive."""
    since: int | None = None
    """The time of the last turn, inclusive; a turn without a time is none of them."""
    model: str | None = None
    sessions: Asked | None = None
    """Conditions on the sessions that own the turns."""

    def fits(self, time: int, text: TurnText) -> bool:
        """Tell whether a turn with a time and a text is looked for."""
        return (
            (self.until is None or time <= self.until)
            and (self.tool is None or self.tool in text.tools)
            and text.says(self.text, self.tool)
        )

    def condition(self) -> tuple[str, list[Any]]:
        """Return what the rows say of it as SQL, with its values."""
        parts, values = ["s.live", "t.place >= s.starts_at"], list[Any]()
        if self.role is not None:
            parts.append("k.role = ?")
            values.append(self.role)
        if self.authors:
            parts.append(f"k.author IN ({', '.join('?' * len(self.authors))})")
            values += self.authors
        if self.tool is not None:
            parts.append("EXISTS (SELECT 1 FROM tool_calls c WHERE c.turn = t.number AND c.name = ?)")
            values.append(self.tool)
        if self.since is not None:
            parts.append("t.time >= ?")
            values.append(self.since)
        if self.model is not None:
            parts.append("EXISTS (SELECT 1 FROM calls c WHERE c.turn = t.number AND c.model = ?)")
            values.append(self.model)
        if self.sessions is not None:
            parts += self.sessions.conditions
            values += self.sessions.values
        return " AND ".join(parts), values


def find(connection: sqlite3.Connection, wanted: Wanted, session_ids: Sequence[str] = ()) -> Iterator[FoundTurn]:
    """Yield the turns that are looked for in their order, of copies one; with `session_ids` all that these sessions own."""
    if session_ids:
        marks = ", ".join("?" * len(session_ids))
        yield from sorted(look(connection, wanted, f"s.id IN ({marks})", session_ids), key=lambda each: each.order)
        return
    search = _Search(connection, wanted)
    found: list[tuple[Any, FoundTurn]] = []
    for newest, condition, values in search.regions():
        while found and found[0][1].time > newest:
            yield heappop(found)[1]
        for each in look(connection, wanted, f"t.counts AND {condition}", values):
            search.hits += 1
            heappush(found, (each.order, each))
    while found:
        yield heappop(found)[1]


def look(connection: sqlite3.Connection, wanted: Wanted, condition: str, values: Sequence[Any]) -> Iterator[FoundTurn]:
    """Yield the turns that are looked for among the rows that a condition holds for."""
    also, more = wanted.condition()
    for row in connection.execute(f"{_ROWS} WHERE {condition} AND {also}", [*values, *more]).fetchall():
        text = text_of_turn(row[8], row[6], row[11])
        if wanted.fits(FAR_PAST if row[7] is None else row[7], text):
            turn = row_codec.read_turn_row(iris.session(row[1]), row[2:], whole=False)
            yield FoundTurn(row[0], row[1], turn, text)


def candidates(connection: sqlite3.Connection, text: str) -> list[int]:
    """Return the numbers of all turns that may hold a text: of at least three characters."""
    (indexed,) = connection.execute(INDEXED).fetchone()
    found = [number for (number,) in connection.execute("SELECT number FROM turns WHERE number > ?", (indexed,))]
    match = _grams(folded(text).replace("\0", "\1"))
    for (shard,) in connection.execute("SELECT shard FROM shards").fetchall():
        rows = connection.execute(f"SELECT rowid FROM texts_{shard} WHERE texts_{shard} MATCH ?", (match,))
        found += (number for (number,) in rows)
    return found


_Region = tuple[int, str, Sequence[Any]]
"""The newest time of some turns, and a condition on their rows with its values."""


class _Search:
    """Where turns may be that are looked for, the newest first."""

    def __init__(self, connection: sqlite3.Connection, wanted: Wanted) -> None:
        self._db = connection
        self._wanted = wanted
        self._indexed = 0
        self.hits = 0
        """How many turns were found by now."""
        text = None if wanted.text is None else folded(wanted.text).replace("\0", "\1")
        self._short = text if text is not None and len(text) < GRAM else None
        self._match = _grams(text) if text is not None and len(text) >= GRAM else None

    def regions(self) -> Iterator[_Region]:
        """Yield where to look."""
        (indexed,) = self._db.execute(INDEXED).fetchone()
        yield _NEVER, "t.number > ?", (indexed,)
        self._indexed = indexed
        zones = self._zones()
        if self._match is None and self._short is None:
            yield from (self._whole(newest, zone) for newest, zone in zones)
            return
        if self._short is not None:
            for at, (newest, zone) in enumerate(zones):
                if at >= _SCANNED and self.hits < at:  # it is rare: few runs begin so
                    zones = zones[at:]
                    break
                yield self._whole(newest, zone)
            else:
                return
        yield from self._matching(zones)

    def _zones(self) -> list[tuple[int, int]]:
        """Return newest time and number of each zone that may hold a turn of those looked for, the newest first."""
        conditions, values = ["TRUE"], list[Any]()
        wanted = self._wanted
        if wanted.role is not None or wanted.authors:
            also, values = wanted._replace(tool=None).condition()
            kinds = " AND ".join(part for part in also.split(" AND ") if part.startswith("k."))
            conditions.append(
                f"zone IN (SELECT zone FROM zone_kinds JOIN kinds k ON k.number = zone_kinds.kind WHERE {kinds})"
            )
        if wanted.tool is not None:
            conditions.append(f"zone IN (SELECT turn >> {_ZONE} FROM tool_calls WHERE name = ?)")
            values.append(wanted.tool)
        text = f"SELECT newest, zone FROM zones WHERE {' AND '.join(conditions)} ORDER BY newest DESC, zone DESC"
        return self._db.execute(text, values).fetchall()

    def _whole(self, newest: int, zone: int) -> _Region:
        last = min((zone + 1 << _ZONE) - 1, self._indexed)
        return newest, "t.number BETWEEN ? AND ?", (zone << _ZONE, last)

    def _matching(self, zones: list[tuple[int, int]]) -> Iterator[_Region]:
        """Yield the turns in zones that the index finds: all of a shard where they are few, else those of each zone."""
        by_shard: dict[int, list[tuple[int, int]]] = {}
        for newest, zone in zones:
            by_shard.setdefault(zone >> _SHARD - _ZONE, []).append((newest, zone))
        waiting = sorted(((own[0][0], shard, -1) for shard, own in by_shard.items()), reverse=True)
        heap = [(-newest, -shard, zone) for newest, shard, zone in waiting]
        while heap:
            newest, shard, zone = heappop(heap)
            if zone >= 0:
                first, last = zone << _ZONE, (zone + 1 << _ZONE) - 1
                yield self._found(-newest, self._ask(-shard, first, last, _NEVER))
                continue
            allowed = {zone for _, zone in by_shard[-shard]}
            found = self._ask(-shard, 0, _NEVER, _FEW)
            if len(found) < _FEW:
                yield self._found(-newest, [number for number in found if number >> _ZONE in allowed])
                continue
            for of_zone, zone in by_shard[-shard]:
                heappush(heap, (-of_zone, shard, zone))

    @staticmethod
    def _found(newest: int, numbers: Iterable[int]) -> _Region:
        return newest, f"t.number IN ({', '.join(map(str, numbers))})", ()

    def _ask(self, shard: int, first: int, last: int, most: int) -> list[int]:
        if (match := self._match or self._beginning(shard)) is None:
            return []
        text = f"SELECT rowid FROM texts_{shard} WHERE texts_{shard} MATCH ? AND rowid BETWEEN ? AND ? LIMIT ?"
        return [
            number for (number,) in self._db.execute(text, (match, first, min(last, _NEVER - 1), min(most, _NEVER - 1)))
        ]

    def _beginning(self, shard: int) -> str | None:
        """Return the query for the runs in a shard that begin with a short text; None where there are none."""
        short = self._short or ""
        self._db.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.runs_{shard} USING fts5vocab (main, texts_{shard}, instance)"
        )
        terms = self._db.execute(
            f"SELECT DISTINCT term FROM temp.runs_{shard} WHERE term >= ? AND term < ?",
            (short, short + chr(0x10FFFF)),
        )
        return " OR ".join(_quoted(term) for (term,) in terms) or None


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
