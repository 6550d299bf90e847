"""Brings the change of a commit into the rows."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyoxigraph import NamedNode, Quad

from trails.errors import TrailsError
from trails.model import iris
from trails.model.validation import DECODING_ERRORS
from trails.model.values import SessionRecord
from trails.rdf import vocab
from trails.rdf.session_records import decode_records
from trails.rows import row_codec, text_index, turn_text
from trails.rows.row_codec import COPY, FAR_PAST, ODD, PROMPT_LENGTH, REDACTED, Kind, Statement, TurnRow, micros, tie
from trails.store.log.erasing import is_of_property


def apply(
    connection: sqlite3.Connection,
    *,
    remove: Iterable[Quad] = (),
    add: Iterable[Quad] = (),
    drop: Iterable[str] = (),
    leaves: Iterable[str] = (),
) -> None:
    """Bring one change into the rows, within the caller's transaction: graphs dropped, then quads removed, then added.

    `drop` names graphs, and properties of which the log no longer has the value: what the rows have of these is removed.
    `leaves` are the lines that the change added to the log.
    """
    writer = _Writer(connection)
    lost: list[Quad] = []
    for each in drop:
        if " " in each:
            lost += writer.quads_of_property(each)
        else:
            writer.drop(each)
    writer.note_lengths(leaves)
    writer.put(remove=_by_graph([*remove, *lost]), add=_by_graph(add))
    writer.settle()
    if writer.has_new_turns:
        text_index.keep_up(connection)


def copy_turns(
    connection: sqlite3.Connection, source: sqlite3.Connection, ends: Mapping[str, tuple[int, str | None]]
) -> set[str]:
    """Copy the turns of sessions, by IRI, below an index, with their calls, into empty tables; return the sessions.

    A session is left out if its last turn there has another digest than is given, or if some of its turns are odd.
    """
    for table, columns in (("sessions", "number, id, tie"), ("kinds", "number, role, branch, author, form")):
        _copy(connection, table, columns, source.execute(f"SELECT {columns} FROM {table}"))
    copied: set[str] = set()
    for iri, (end, head) in ends.items():
        asked = "SELECT number FROM sessions WHERE id = ? AND NOT odd"
        (number,) = source.execute(asked, (iris.session_id(iri),)).fetchone() or (None,)
        last = source.execute("SELECT digest FROM turns WHERE session = ? AND place = ?", (number, end - 1)).fetchall()
        if number is None or (head is not None and [digest.hex() for (digest,) in last] != [head]):
            continue
        turns = f"SELECT {{}} FROM turns WHERE session = {number} AND place < {end}"
        _copy(connection, "turns", "*", source.execute(turns.format("*")))
        for table in ("calls", "tool_calls", "tool_answers"):
            rows = source.execute(f"SELECT * FROM {table} WHERE turn IN ({turns.format('number')})")
            _copy(connection, table, "*", rows)
        copied.add(iri)
    return copied


def _copy(connection: sqlite3.Connection, table: str, columns: str, rows: sqlite3.Cursor) -> None:
    into = table if columns == "*" else f"{table} ({columns})"
    connection.executemany(f"INSERT INTO {into} VALUES ({', '.join('?' * len(rows.description))})", rows)


class _Session:
    """A session as far as a change touches it."""

    __slots__ = ("changed", "end", "id", "iri", "last", "live", "number", "odd", "principal", "recount", "starts_at")

    def __init__(self, iri: str, session_id: str, row: tuple[Any, ...]) -> None:
        self.iri, self.id = iri, session_id
        self.number, self.live, self.starts_at, own_turns, principal, self.odd, self.last = row
        """`last` is no less than the greatest index of a turn before this change."""
        self.principal: str = principal or ""
        self.end: int = self.starts_at + own_turns
        self.recount = False
        """Whether its sums are to be made anew."""
        self.changed = False
        """Whether it came to life, or ended: what counts once may count elsewhere now."""


class _Writer:
    """Brings one change into the rows, within one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._sessions: dict[str, _Session] = {}
        self._kinds: dict[Kind, int] = {}
        self._homes: set[str] = set()
        self._calls: set[bytes | str] = set()
        """Digests of calls of which another one may count now."""
        self._turns: set[bytes] = set()
        """Digests of turns of which another copy may count now."""
        self._zones: set[int] = set()
        """Zones of the text index of which a turn changed or went."""
        self._unused: set[Kind] = set()
        """Kinds that may have lost their last turn."""
        self._bare: set[int] = set()
        """Sessions of which nothing may be left."""
        self._lengths: dict[str, int] = {}
        """How long the log says by now that transcripts are, as far as that is not written yet."""
        self.has_new_turns = False

    def put(self, *, remove: dict[str, list[Quad]], add: dict[str, list[Quad]]) -> None:
        """Bring in quads, by graph."""
        self._put_catalog(remove.pop(_CATALOG, ()), add.pop(_CATALOG, ()))
        graphs = list(filter(iris.is_session, {**remove, **add}))
        for graph in sorted(graphs, key=self._age) if len(graphs) > 1 else graphs:
            self._put_graph(graph, remove.get(graph, ()), add.get(graph, ()))

    def _age(self, graph: str) -> tuple[int, str]:
        """Return when a session was made: turns that come together are numbered in that order."""
        row = self._db.execute("SELECT by_created FROM sessions WHERE id = ?", (iris.session_id(graph),)).fetchone()
        return (row[0] if row else 0), graph

    # --- the catalog

    def _put_catalog(self, remove: Iterable[Quad], add: Iterable[Quad]) -> None:
        changed: dict[str, tuple[list[Statement], list[Statement]]] = defaultdict(lambda: ([], []))
        for at, quads in enumerate((remove, add)):
            for quad in quads:
                iri = str(getattr(quad.subject, "value", ""))
                if iris.is_session(iri):
                    changed[iri][at].append(("", quad.predicate.value, quad.object))  # type: ignore[arg-type] # no triples
                elif quad.object in (vocab.TAG, vocab.REF) and (name := iris.tag_name(iri)) is not None:
                    verb = "INSERT OR IGNORE INTO tags VALUES (?)" if at else "DELETE FROM tags WHERE name = ?"
                    self._db.execute(verb, (name,))
        for iri, (old, new) in changed.items():
            self._put_session(iri, old, new)

    def _put_session(self, iri: str, remove: Sequence[Statement], add: Sequence[Statement]) -> None:
        session_id = iris.session_id(iri)
        row = self._db.execute("SELECT catalog, live, principal FROM sessions WHERE id = ?", (session_id,)).fetchone()
        statements = dict.fromkeys(row_codec.decode_statements(row[0] if row else None))
        for each in remove:
            statements.pop(each, None)
        statements.update(dict.fromkeys(add))
        values, meta = session_values(iri, session_id, list(statements))
        names = ", ".join(values)
        update = ", ".join(f"{name} = excluded.{name}" for name in values if name != "id")
        self._db.execute(
            f"INSERT INTO sessions ({names}) VALUES ({', '.join(':' + name for name in values)})"
            f" ON CONFLICT (id) DO UPDATE SET {update}",
            values,
        )
        self._sessions.pop(iri, None)
        session = self._session(iri)
        self._db.execute("DELETE FROM meta WHERE session = ?", (session.number,))
        self._db.executemany(
            "INSERT INTO meta VALUES (?, ?, ?)",
            [(session.number, key, row_codec.as_json(value)) for key, value in meta.items()],
        )
        session.recount = True
        session.changed = row is not None and row[1] != session.live
        if row is not None and row[2] != session.principal:
            self._db.execute(_RUN_FOR, (session.principal, session.number))
        self._homes.add(session_id)

    def _session(self, iri: str) -> _Session:
        """Return a session; a row is made for one of which the catalog says nothing."""
        if iri not in self._sessions:
            session_id = iris.session_id(iri)
            row = self._db.execute(_TOUCHED, (session_id,)).fetchone()
            if row is None:
                self._db.execute("INSERT INTO sessions (id, tie) VALUES (?, ?)", (session_id, tie(session_id)))
                row = self._db.execute(_TOUCHED, (session_id,)).fetchone()
            self._sessions[iri] = _Session(iri, session_id, row)
        return self._sessions[iri]

    def note_lengths(self, lines: Iterable[str]) -> None:
        """Note how long the log says that transcripts are: none may be read that is shorter. `settle` writes it."""
        for line in lines:
            fields = line.split(" ")
            if (
                fields[0] in ("turns", "delete")
                and len(fields) == 5
                and fields[2].isdecimal()
                and iris.is_session(fields[1])
            ):
                self._lengths[fields[1]] = int(fields[2]) if fields[0] == "turns" else 0

    def quads_of_property(self, dropped: str) -> list[Quad]:
        """Return what the rows say of a property that a record drops (`trails.store.log.erasing`)."""
        graph, subject, _ = dropped.split(" ")
        if iris.is_session(graph):
            quads = self._quads_of_turn(graph, subject)
        elif graph == _CATALOG and iris.is_session(subject):
            quads = self._quads_of_session(subject)
        elif graph == _CATALOG:
            names = self._db.execute("SELECT name FROM tags").fetchall()
            quads = [
                Quad(NamedNode(iris.tag(name)), vocab.TYPE, kind, vocab.CATALOG) for (name,) in names for kind in _NAMES
            ]
        else:
            return []
        return [quad for quad in quads if is_of_property(dropped, quad)]

    def _quads_of_turn(self, graph: str, subject: str) -> list[Quad]:
        turn = "/".join(subject.split("/")[:2])
        _, row = self._find(self._session(graph), turn)
        statements = () if row is None else row_codec.row_statements(row)
        return [
            Quad(NamedNode(f"{turn}/{part}" if part else turn), NamedNode(predicate), term, NamedNode(graph))
            for part, predicate, term in statements
        ]

    def _quads_of_session(self, iri: str) -> list[Quad]:
        row = self._db.execute("SELECT catalog FROM sessions WHERE id = ?", (iris.session_id(iri),)).fetchone()
        statements = row_codec.decode_statements(row[0] if row else None)
        return [Quad(NamedNode(iri), NamedNode(predicate), term, vocab.CATALOG) for _, predicate, term in statements]

    # --- turns

    def drop(self, graph: str) -> None:
        """Remove the turns of a graph."""
        if iris.is_session(graph):
            session = self._session(graph)
            for number, row in self._rows(session, "session = ?", session.number):
                self._delete(session, number, row)

    def _put_graph(self, iri: str, remove: Iterable[Quad], add: Iterable[Quad]) -> None:
        removed, added = row_codec.turn_statements(remove), row_codec.turn_statements(add)
        if not removed and not added:
            return
        session = self._session(iri)
        new: list[TurnRow] = []
        for turn in dict.fromkeys([*removed, *added]):
            if not _may_be_turn(turn, added.get(turn, ())) and not session.odd:
                continue
            number, row = self._find(session, turn)
            if row is None:
                if (made := row_codec.make_turn_row(iri, turn, added.get(turn, ()))) is not None:
                    new.append(made)
                continue
            statements = dict.fromkeys(row_codec.row_statements(row))
            for each in removed.get(turn, ()):
                statements.pop(each, None)
            statements.update(dict.fromkeys(added.get(turn, ())))
            changed = row_codec.make_turn_row(iri, turn, statements)
            if changed is None:
                self._delete(session, number, row)
            elif changed[:8] != row[:8]:
                self._replace(session, number, row, changed)
        if new:
            self._insert(session, sorted(new, key=lambda each: each.place))

    def _find(self, session: _Session, turn: str) -> tuple[int, TurnRow | None]:
        """Return the number and the row of a turn; 0 and None for a new one."""
        name = turn.rpartition("/")[2].partition("-")[0]
        place = int(name) if name.isdecimal() and len(name) < _DIGITS else -1
        if place > session.last and not session.odd:
            return 0, None
        for number, row in self._rows(session, "session = ? AND place = ?", session.number, place):
            if row.iri == turn:
                return number, row
        if session.odd:
            for number, row in self._rows(session, f"session = ? AND flags & {ODD}", session.number):
                if row.iri == turn:
                    return number, row
        return 0, None

    def _rows(self, session: _Session, condition: str, *values: Any) -> list[tuple[int, TurnRow]]:
        rows = self._db.execute(
            "SELECT t.number, t.place, k.role, k.branch, k.author, k.form, t.time, t.text, t.digest, t.flags, t.more"
            f" FROM turns t JOIN kinds k ON k.number = t.kind WHERE {condition}",
            values,
        ).fetchall()
        return [(row[0], row_codec.read_turn_row(session.iri, row[1:])) for row in rows]

    def _insert(self, session: _Session, rows: Sequence[TurnRow]) -> None:
        last, has_copies = self._db.execute(_NEWEST).fetchone()
        self.has_new_turns = True
        self._db.executemany(
            "INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [self._values(number, session, row) for number, row in enumerate(rows, last + 1)],
        )
        for number, row in enumerate(rows, last + 1):
            if row.calls:
                self._put_calls(session, number, row)
        self._note_copies(rows, has_copies=has_copies)
        start = rows[0].place
        are_next = [row.place for row in rows] == list(range(start, start + len(rows))) and start == session.end
        if session.recount or not are_next or any(row.flags & ODD for row in rows):
            session.recount = True
            return
        session.end += len(rows)
        latest = max((row.time for row in rows if row.time is not None), default=None)
        prompts = ((prompt, row.place) for row in rows if (prompt := _prompt(*row.kind, row.text)))
        first, place = next(prompts, (None, None))
        told = {"turns": len(rows), "latest": latest, "number": session.number, "prompt": first, "place": place}
        self._db.execute(_GROW, told | {"recorded": self._lengths.pop(session.iri, None)})

    def _values(self, number: int, session: _Session, row: TurnRow) -> tuple[Any, ...]:
        return turn_values(number, session.number, self._kind(row.kind), row)

    def _kind(self, kind: Kind) -> int:
        if kind not in self._kinds:
            found = self._db.execute(KIND, kind).fetchone()
            if found is None:
                self._db.execute("INSERT INTO kinds (role, branch, author, form) VALUES (?, ?, ?, ?)", kind)
                found = self._db.execute(KIND, kind).fetchone()
            self._kinds[kind] = found[0]
        return self._kinds[kind]

    def _replace(self, session: _Session, number: int, old: TurnRow, new: TurnRow) -> None:
        self._forget(number, old)
        names = ("session", "place", "kind", "time", "counts", "flags", "text", "digest", "more")
        self._db.execute(
            f"UPDATE turns SET {', '.join(f'{name} = ?' for name in names)} WHERE number = ?",
            (*self._values(number, session, new)[1:], number),
        )
        self._put_calls(session, number, new)
        text_index.add(self._db, number, new)
        self._note_copies([old, new])
        session.recount = True

    def _delete(self, session: _Session, number: int, row: TurnRow) -> None:
        self._forget(number, row)
        self._db.execute("DELETE FROM turns WHERE number = ?", (number,))
        self._note_copies([row])
        session.recount = True

    def _put_calls(self, session: _Session, number: int, row: TurnRow) -> None:
        rows = call_rows(
            number,
            session.number,
            row,
            home=session.id,
            principal=session.principal,
            number_of=lambda iri: self._session(iri).number,
        )
        for table, values in rows.items():
            if values:
                marks = ", ".join("?" * len(values[0]))
                self._db.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
        for _, digest, _, home, *_ in rows["calls"]:
            self._calls.add(digest)
            self._homes.add(home)

    def _forget(self, number: int, row: TurnRow) -> None:
        """Remove what stands beside a turn's row: its text in the index, its calls and answers."""
        if text_index.remove(self._db, number, row):
            self._zones.add(text_index.zone_of(number))
        self._unused.add(row.kind)
        answered = "SELECT call_session FROM tool_answers WHERE turn = ? AND call_session IS NOT NULL"
        self._bare.update(session for (session,) in self._db.execute(answered, (number,)))
        for digest, home in self._db.execute("SELECT digest, home FROM calls WHERE turn = ?", (number,)).fetchall():
            self._calls.add(digest)
            self._homes.add(home)
        for table in ("calls", "tool_calls", "tool_answers"):
            self._db.execute(f"DELETE FROM {table} WHERE turn = ?", (number,))

    # --- what is made of these

    def _note_copies(self, rows: Iterable[TurnRow], *, has_copies: bool | None = None) -> None:
        """Note the turns of which there are copies; `has_copies` tells, if it is known, whether there are any at all."""
        asked = "SELECT EXISTS (SELECT 1 FROM turns WHERE flags & 1 AND digest = ?)"
        for row in rows:
            if not row.flags & COPY:
                if has_copies is None:
                    (has_copies,) = self._db.execute("SELECT EXISTS (SELECT 1 FROM turns WHERE flags & 1)").fetchone()
                if not has_copies or not self._db.execute(asked, (row.digest,)).fetchone()[0]:
                    continue
            self._turns.add(row.digest)

    def settle(self) -> None:
        """Make anew the sums of sessions, and let one of the calls and copies under a digest count."""
        lengths = [(length, self._session(iri).number) for iri, length in self._lengths.items()]
        self._db.executemany("UPDATE sessions SET recorded = ? WHERE number = ?", lengths)
        for session in self._sessions.values():
            if session.changed:
                self._turns.update(each for (each,) in self._db.execute(_COPIED, (session.number,)))
                self._calls.update(each for (each,) in self._db.execute(_CALLED, (session.number,)))
            if session.recount:
                self._count(session)
        for digest in self._calls:
            self._homes.update(
                home for (home,) in self._db.execute("SELECT home FROM calls WHERE digest = ?", (digest,))
            )
        each_call = [(digest,) for digest in self._calls]
        self._db.executemany("UPDATE calls SET counts = 0 WHERE digest = ? AND counts = 1", each_call)
        self._db.executemany(f"UPDATE calls SET counts = 1 WHERE rowid = ({FIRST_CALL.format('?')})", each_call)
        self._db.executemany(OF_CALLS.update("id = :id"), [{"id": home} for home in sorted(self._homes)])
        for turn in self._turns:
            self._db.executemany(
                "UPDATE turns SET counts = ? WHERE number = ?",
                [(counts, number) for number, counts in copies_that_count(self._db, turn)],
            )
        self._bare.update(session.number for session in self._sessions.values() if not session.live)
        self._db.executemany(f"DELETE FROM sessions WHERE number = ? AND {IS_BARE}", [(each,) for each in self._bare])
        if self._unused:  # turns changed or were deleted
            text_index.describe(self._db, self._zones)
            text_index.drop_kinds(self._db, [self._kind(kind) for kind in self._unused])

    def _count(self, session: _Session) -> None:
        self._db.execute(OF_TURNS.update("number = :number"), {"number": session.number})
        self._db.execute(
            "UPDATE sessions SET by_turns = starts_at + own_turns, by_activity = coalesce(activity, by_created),"
            " (prompt, prompt_at) = (?, ?) WHERE number = ?",
            (*first_prompt(self._db, session.number), session.number),
        )


class Sums(NamedTuple):
    """Columns of `sessions` that follow from other tables."""

    columns: str
    select: str
    """Their values; `:number` and `:id` are the session's."""

    def update(self, condition: str) -> str:
        """Return the statement that fills them in."""
        return f"UPDATE sessions SET ({self.columns}) = ({self.select}) WHERE {condition}"


OF_TURNS: Final = Sums(
    "own_turns, activity, odd",
    "SELECT count(DISTINCT place) FILTER (WHERE is_own), max(time) FILTER (WHERE is_own), ifnull(sum(flags & 4 <> 0), 0)"
    " FROM (SELECT place, time, flags, place >= (SELECT starts_at FROM sessions WHERE number = :number) AS is_own"
    " FROM turns WHERE session = :number)",
)
OF_CALLS: Final = Sums(
    "calls, unpriced, input, output, cache_read, cache_write, cost, by_tokens",
    "SELECT count(*), count(*) - count(cost), sum(input), sum(output), sum(cache_read), sum(cache_write), ifnull(sum(cost), 0),"
    " ifnull(sum(input), 0) + ifnull(sum(output), 0) FROM calls WHERE home = :id AND counts",
)
KIND: Final = "SELECT number FROM kinds WHERE role = ? AND branch = ? AND author = ? AND form = ?"
IS_BARE: Final = (
    "catalog IS NULL AND NOT recorded AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.number)"
    " AND NOT EXISTS (SELECT 1 FROM tool_answers WHERE call_session = sessions.number)"
)
"""Whether nothing is said of a session any more."""
_CATALOG: Final = ""
_NAMES: Final = (vocab.TAG, vocab.REF)
"""Stands for the default graph, which is the catalog."""
_DIGITS: Final = 16
_ASKED: Final = (
    "SELECT t.place, t.text, k.form FROM turns t JOIN kinds k ON k.number = t.kind JOIN sessions s ON s.number = t.session"
    " WHERE t.session = ? AND t.place >= s.starts_at AND k.role = 'user' ORDER BY t.place, t.number"
)
_TOUCHED: Final = (
    "SELECT number, live, starts_at, own_turns, principal, odd,"
    " (SELECT ifnull(max(place), -1) FROM turns WHERE session = sessions.number) FROM sessions WHERE id = ?"
)
_NEWEST: Final = f"SELECT ({text_index.LAST}), EXISTS (SELECT 1 FROM turns WHERE flags & 1)"
"""The number of the last turn that there ever was, and whether any turn is a copy."""
_GROW: Final = """
UPDATE sessions SET own_turns = own_turns + :turns, by_turns = starts_at + own_turns + :turns,
  activity = coalesce(max(activity, :latest), activity, :latest),
  by_activity = coalesce(max(activity, :latest), activity, :latest, by_created),
  prompt = ifnull(prompt, :prompt), prompt_at = iif(prompt IS NULL, :place, prompt_at),
  recorded = ifnull(:recorded, recorded)
WHERE number = :number"""
"""Of turns that were added at the end; `max` of NULL and a number is NULL."""
_COPIED: Final = "SELECT digest FROM turns WHERE session = ? AND digest IN (SELECT digest FROM turns WHERE flags & 1)"
_CALLED: Final = "SELECT c.digest FROM calls c JOIN turns t ON t.number = c.turn WHERE t.session = ?"
_RUN_FOR: Final = (
    "UPDATE calls SET principal = ? WHERE rank <> 1 AND turn IN (SELECT number FROM turns WHERE session = ?)"
)
FIRST_CALL: Final = (
    "SELECT c.rowid FROM calls c JOIN turns t ON t.number = c.turn JOIN sessions s ON s.number = t.session"
    " WHERE c.digest = {} AND s.live ORDER BY c.rank, c.home, s.id, t.place LIMIT 1"
)
_OLDEST: Final = (
    "SELECT t.number FROM turns t JOIN sessions s ON s.number = t.session"
    " WHERE t.flags & 1 AND t.digest = ? AND s.live ORDER BY s.by_created, s.id, t.place, t.number"
)
_ORIGINAL: Final = (
    "SELECT 1 FROM turns t JOIN sessions s ON s.number = t.session"
    " WHERE substr(t.digest, 1, 6) = substr(:digest, 1, 6) AND t.digest = :digest AND s.live AND NOT t.flags & 1"
)


def rows_of_graph(iri: str, quads: Iterable[Quad]) -> list[TurnRow]:
    """Return the rows of all turns in a session's graph, in order of index."""
    made = [
        row_codec.make_turn_row(iri, turn, statements)
        for turn, statements in row_codec.turn_statements(quads).items()
        if _may_be_turn(turn, statements)
    ]
    return sorted((row for row in made if row is not None), key=lambda row: row.place)


def _may_be_turn(iri: str, statements: Iterable[Statement]) -> bool:
    """Tell whether an IRI is that of a turn; those of an earlier version are told by what is said of them."""
    is_named = iri.rpartition("/")[2][:1].isdecimal()
    return is_named or any(not part and predicate == vocab.INDEX.value for part, predicate, _ in statements)


def _prompt(role: str, _branch: str, _author: str, form: int, text: str) -> str:
    """Return the beginning of what a user asked, on one line; nothing for another's turn, and for a redacted one."""
    return "" if role != "user" or form == REDACTED else prompt_line(text, form)


def prompt_line(text: str, form: int) -> str:
    """Return the beginning of a turn's stored content, on one line; see `turn_text.turn_text` for its form."""
    shown = turn_text.turn_text(text, form).shown
    return row_codec.one_line(shown[: 4 * PROMPT_LENGTH])[:PROMPT_LENGTH]


def _by_graph(quads: Iterable[Quad]) -> dict[str, list[Quad]]:
    found: dict[str, list[Quad]] = defaultdict(list)
    for quad in quads:
        found[getattr(quad.graph_name, "value", "")].append(quad)
    return found


def turn_values(number: int, session: int, kind: int | None, row: TurnRow) -> tuple[Any, ...]:
    """Return what `turns` holds of a turn; of a copy that counts for its original `counts` changes afterwards."""
    return number, session, row.place, kind, row.time, not row.flags & COPY, row.flags, row.text, row.digest, row.more


def call_rows(
    number: int, session: int, row: TurnRow, *, home: str, principal: str, number_of: Callable[[str], int | None]
) -> dict[str, list[tuple[Any, ...]]]:
    """Return by table what stands there of a turn's model calls, tool calls and answers.

    `home` and `principal` are the turn's session and whom that runs for; `number_of` numbers a session by its IRI.
    """
    place = (number, session, row.place)
    return {
        "calls": [
            (number, digest, rank, called_in or home, called_for or principal, *call, 1)
            for digest, rank, called_in, called_for, *call in row.calls.model
        ],
        "tool_calls": [(*place, *each) for each in row.calls.tools],
        "tool_answers": [(*place, *answer, *_place_of(call, number_of)) for *answer, call in row.calls.answers],
    }


def _place_of(call: str | None, number_of: Callable[[str], int | None]) -> tuple[int | None, int | None, int | None]:
    """Return session, place and position of a tool call."""
    if call is None:
        return None, None, None
    try:
        turn, position = iris.turn_index(call), iris.position(call)
    except ValueError:  # no call of ours: `verify` says so
        return None, None, None
    return number_of(call.partition("/")[0]), turn, position


def copies_that_count(connection: sqlite3.Connection, digest: bytes) -> list[tuple[int, bool]]:
    """Return the numbers of the copies of a turn, and whether each counts: that of the oldest session if there is no original."""
    has_original = connection.execute(_ORIGINAL, {"digest": digest}).fetchone() is not None
    copies = connection.execute(_OLDEST, (digest,)).fetchall()
    return [(number, at == 0 and not has_original) for at, (number,) in enumerate(copies)]


def first_prompt(connection: sqlite3.Connection, session: int) -> tuple[str | None, int | None]:
    """Return the beginning of what a user asked first in the turns that a session owns, and the turn's index."""
    for place, text, form in connection.execute(_ASKED, (session,)):
        if prompt := _prompt("user", "", "", form, text):
            return prompt, place
    return None, None


def session_values(iri: str, session_id: str, statements: list[Statement]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the columns of a session by what the catalog says of it, and its metadata."""
    record: SessionRecord | None = None
    live = any(predicate == vocab.TYPE.value and term == vocab.SESSION for _, predicate, term in statements)
    try:
        record = decode_records((iri, predicate, term) for _, predicate, term in statements).get(session_id)
    except (*DECODING_ERRORS, TrailsError):
        live = False  # the queries say what is wrong with it
    meta = {} if record is None else dict(record.meta)
    project = row_codec.first_text(meta, "project", "cwd")
    created = None if record is None else micros(record.created)
    values = {
        "id": session_id,
        "tie": tie(session_id),
        "live": live,
        "catalog": row_codec.encode_statements(statements),
        "created": created,
        "starts_at": 0 if record is None else record.starts_at,
        "parent": None if record is None else record.parent_session_id,
        "title": row_codec.first_text(meta, "title"),
        "project": project,
        "project_name": row_codec.project_name(project),
        "by_created": FAR_PAST if created is None else created,
        **{
            name: getattr(record, name, None)
            for name in ("principal", "agent", "branch", "state", "kind", "label", "key")
        },
    }
    return values, meta
