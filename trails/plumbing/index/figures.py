"""The figures: what the index knows of sessions, turns and model calls, written and asked for."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal

from trails.history.lookup.pages import tie_break
from trails.model import iris
from trails.plumbing.index.brevity import brief
from trails.plumbing.index.moments import FAR_PAST, micros
from trails.plumbing.index.untrue import Untrue

if TYPE_CHECKING:
    from trails.plumbing.index.rows import CallRow, SessionRow, TurnRow
    from trails.plumbing.index.sidefile import SideFile

SCHEMA: Final = """
CREATE TABLE sessions (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tie INTEGER NOT NULL,
  created INTEGER, principal TEXT, agent TEXT, branch TEXT, state TEXT, kind TEXT, label TEXT, key TEXT, parent TEXT,
  starts_at INTEGER, title TEXT, project TEXT, project_name TEXT, prompt TEXT, prompt_at INTEGER, activity INTEGER,
  own_turns INTEGER NOT NULL DEFAULT 0, calls INTEGER NOT NULL DEFAULT 0, unpriced INTEGER NOT NULL DEFAULT 0,
  input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, cost REAL NOT NULL DEFAULT 0,
  by_created INTEGER NOT NULL, by_activity INTEGER NOT NULL, by_turns INTEGER NOT NULL, by_tokens INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX sessions_created ON sessions (by_created, id);
CREATE INDEX sessions_activity ON sessions (by_activity, id);
CREATE INDEX sessions_turns ON sessions (by_turns, id);
CREATE INDEX sessions_tokens ON sessions (by_tokens, id);
CREATE INDEX sessions_principal ON sessions (principal, by_created, id);
CREATE INDEX sessions_project ON sessions (project_name, by_created, id);
CREATE TABLE meta (session INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL);
CREATE INDEX meta_session ON meta (session, key);
CREATE TABLE turns (
  session INTEGER NOT NULL, place INTEGER NOT NULL, time INTEGER, day INTEGER, counts INTEGER NOT NULL,
  copied INTEGER NOT NULL, digest INTEGER NOT NULL, writer TEXT, agent TEXT, lacks INTEGER NOT NULL,
  length INTEGER NOT NULL, answers INTEGER NOT NULL
);
CREATE INDEX turns_session ON turns (session);
CREATE INDEX turns_copies ON turns (digest) WHERE copied;
CREATE INDEX turns_lacking ON turns (session) WHERE lacks;
CREATE TABLE calls (
  holder INTEGER NOT NULL, digest TEXT NOT NULL, rank INTEGER NOT NULL, home TEXT NOT NULL, principal TEXT, author TEXT,
  model TEXT NOT NULL, time INTEGER, day INTEGER, input INTEGER, cache_read INTEGER, cache_write INTEGER,
  cache_write_1h INTEGER, output INTEGER, reasoning INTEGER, cost REAL,
  provider TEXT NOT NULL, began INTEGER, ended INTEGER, counts INTEGER NOT NULL
);
CREATE INDEX calls_holder ON calls (holder);
CREATE INDEX calls_digest ON calls (digest);
CREATE INDEX calls_home ON calls (home);
CREATE INDEX calls_again ON calls (digest) WHERE NOT counts;
CREATE TABLE tool_calls (session INTEGER NOT NULL, place INTEGER NOT NULL, id TEXT NOT NULL, name TEXT, call TEXT NOT NULL);
CREATE INDEX tool_calls_session ON tool_calls (session);
CREATE TABLE tool_answers (
  session INTEGER NOT NULL, place INTEGER NOT NULL, id TEXT NOT NULL, digest BLOB NOT NULL, rank INTEGER NOT NULL,
  failed INTEGER NOT NULL, refused INTEGER NOT NULL, began INTEGER, ended INTEGER, call TEXT
);
CREATE INDEX tool_answers_session ON tool_answers (session);
CREATE TABLE tags (name TEXT NOT NULL);
"""
_TURN: Final = (
    "session", "place", "time", "day", "counts", "copied", "digest", "writer", "agent", "lacks", "length", "answers",
)  # fmt: skip
"""The columns of a turn, in order."""
_SHORT: Final = 15
"""Hex digits of a digest that are kept, as a number: enough to tell a copy from another turn."""
_DAY: Final = 86_400_000_000
Sort = Literal["created", "activity", "turns", "tokens"]
SORTS: Final[tuple[Sort, ...]] = ("created", "activity", "turns", "tokens")


# --- writing


class Writer:
    """Brings sessions into the figures, within one transaction; what counts once is settled at its end, by `settle`."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._digests: dict[str, None] = {}
        self._homes: dict[str, None] = {}
        self._copies = False
        (self._last,) = database.execute("SELECT ifnull(max(rowid), 0) FROM turns").fetchone()

    def known(self, session_id: str) -> int | None:
        """Return how many turns of its own a session has here; None where it is not here."""
        row = self._database.execute("SELECT own_turns FROM sessions WHERE id = ?", (session_id,)).fetchone()
        return None if row is None else int(row[0])

    def remove(self, session_id: str) -> None:
        """Take out all that is here of a session."""
        found = self._database.execute("SELECT number FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if found is None:
            return
        for digest, home in self._database.execute("SELECT DISTINCT digest, home FROM calls WHERE holder = ?", found):
            self._digests[digest] = None
            self._homes[home] = None
        for text in (
            "DELETE FROM calls WHERE holder = ?",
            "DELETE FROM turns WHERE session = ?",
            "DELETE FROM tool_calls WHERE session = ?",
            "DELETE FROM tool_answers WHERE session = ?",
            "DELETE FROM meta WHERE session = ?",
            "DELETE FROM sessions WHERE number = ?",
        ):
            self._database.execute(text, found)
        self._copies = True

    def put(self, row: SessionRow) -> None:
        """Write what the catalog says of a session, new or changed; what is here of its turns stays."""
        created = FAR_PAST if row.created is None else row.created
        values = {
            "id": row.id, "tie": tie_break(row.id), "created": row.created, "principal": row.principal, "agent": row.agent,
            "branch": row.branch, "state": row.state, "kind": row.kind, "label": row.label, "key": row.key,
            "parent": row.parent, "starts_at": row.starts_at, "title": row.title, "project": row.project,
            "project_name": project_name(row.project), "by_created": created, "by_activity": created, "by_turns": row.starts_at,
        }  # fmt: skip
        columns = ", ".join(values)
        marks = ", ".join(f":{each}" for each in values)
        kept = ("id", "by_activity", "by_turns")
        update = ", ".join(f"{each} = excluded.{each}" for each in values if each not in kept)
        self._database.execute(
            f"INSERT INTO sessions ({columns}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {update}",  # noqa: S608 - our names
            values,
        )
        number = self._number(row.id)
        self._database.execute("DELETE FROM meta WHERE session = ?", (number,))
        meta = json.loads(row.meta) if row.meta else {}
        self._database.executemany(
            "INSERT INTO meta VALUES (?, ?, ?)", [(number, key, as_json(value)) for key, value in meta.items()]
        )
        self._homes[row.id] = None

    def tags(self, names: Iterable[str]) -> None:
        """Write which tags there are."""
        self._database.execute("DELETE FROM tags")
        self._database.executemany("INSERT INTO tags VALUES (?)", [(name,) for name in names])

    def add(self, row: SessionRow, turns: Sequence[TurnRow]) -> None:
        """Add turns to those of a session that is here."""
        if not turns:
            return
        number = self._number(row.id)
        self._database.executemany(
            f"INSERT INTO turns VALUES ({_marks(12)})",  # noqa: S608 - question marks
            [turn_values(number, turn) for turn in turns],
        )
        self._put_beside(number, iris.session(row.id), turns)
        asked = first_prompt(turns)
        if asked is not None:
            self._database.execute(
                "UPDATE sessions SET prompt = ?, prompt_at = ? WHERE number = ? AND prompt IS NULL", (*asked, number)
            )
        latest = last_time(turns)
        places = len({turn.place for turn in turns})
        self._database.execute(
            "UPDATE sessions SET own_turns = own_turns + ?, by_turns = starts_at + own_turns + ?,"
            " activity = CASE WHEN ? IS NULL OR activity > ? THEN activity ELSE ? END WHERE number = ?",
            (places, places, latest, latest, latest, number),
        )
        self._database.execute(
            "UPDATE sessions SET by_activity = COALESCE(activity, by_created) WHERE number = ?", (number,)
        )

    def rewrite(self, row: SessionRow, turns: Sequence[TurnRow], asked: Callable[[], tuple[str, int] | None]) -> bool:
        """Write turns of a session that is here as they are now; False where that is not plain. `asked` gives its prompt."""
        if len({turn.place for turn in turns}) < len(turns):
            return False
        number, own = self._number(row.id), iris.session(row.id)
        if not all(self._has_its_calls_alone(number, turn) for turn in turns):
            return False
        for turn in turns:
            place = (number, turn.place)
            values = dict(zip(_TURN, turn_values(number, turn), strict=True))
            changed = ", ".join(f"{name} = :{name}" for name in _TURN if name != "counts")
            self._database.execute(f"UPDATE turns SET {changed} WHERE session = :session AND place = :place", values)  # noqa: S608 - our names
            digests = {turn.digest, *(call.digest for call in turn.calls)}
            self._database.executemany(
                "DELETE FROM calls WHERE holder = ? AND digest = ?", [(number, digest) for digest in digests]
            )
            self._database.execute("DELETE FROM tool_calls WHERE session = ? AND place = ?", place)
            self._database.execute("DELETE FROM tool_answers WHERE session = ? AND place = ?", place)
            self._digests.update(dict.fromkeys(digests))
        self._put_beside(number, own, turns)
        (at,) = self._database.execute("SELECT prompt_at FROM sessions WHERE number = ?", (number,)).fetchone()
        if at in {turn.place for turn in turns}:
            self._database.execute(
                "UPDATE sessions SET prompt = ?, prompt_at = ? WHERE number = ?", (*(asked() or (None, None)), number)
            )
        return True

    def _has_its_calls_alone(self, number: int, turn: TurnRow) -> bool:
        """Tell whether no other turn of the session, as a copy of it or its original, has calls under the same digest."""
        digests = [call.digest for call in turn.calls]
        asked = "SELECT count(*) FROM calls WHERE holder = ? AND digest = ?"
        return all(
            self._database.execute(asked, (number, digest)).fetchone()[0] == digests.count(digest)
            for digest in {turn.digest, *digests}
        )

    def _put_beside(self, number: int, own: str, turns: Sequence[TurnRow]) -> None:
        """Write what turns tell of calls, and note what is to be settled."""
        self._database.executemany(
            f"INSERT INTO calls VALUES ({_marks(20)})",  # noqa: S608 - question marks
            [call_values(number, call) for turn in turns for call in turn.calls],
        )
        self._database.executemany(
            "INSERT INTO tool_calls VALUES (?, ?, ?, ?, ?)",
            [(number, *each) for turn in turns for each in tool_calls(own, turn)],
        )
        self._database.executemany(
            f"INSERT INTO tool_answers VALUES ({_marks(10)})",  # noqa: S608 - question marks
            [(number, *each) for turn in turns for each in tool_answers(own, turn)],
        )
        self._copies = self._copies or any(turn.is_copy for turn in turns)
        self._digests.update((call.digest, None) for turn in turns for call in turn.calls)
        self._homes.update((call.home, None) for turn in turns for call in turn.calls)

    def _number(self, session_id: str) -> int:
        return int(self._database.execute("SELECT number FROM sessions WHERE id = ?", (session_id,)).fetchone()[0])

    def settle(self, *, erase: bool) -> None:
        """Let of each call and each copied turn one count, and add up what sessions spent."""
        for digest in self._digests:
            homes = self._database.execute("SELECT home FROM calls WHERE digest = ?", (digest,))
            self._homes.update((home, None) for (home,) in homes)
        each = [(digest,) for digest in self._digests]
        self._database.executemany("UPDATE calls SET counts = 0 WHERE digest = ? AND counts = 1", each)
        self._database.executemany(
            "UPDATE calls SET counts = 1 WHERE rowid ="
            " (SELECT rowid FROM calls WHERE digest = ? ORDER BY rank, home, rowid LIMIT 1)",
            each,
        )
        self._database.executemany(
            "UPDATE sessions SET (calls, unpriced, input, output, cache_read, cache_write, cost, by_tokens) ="
            " (SELECT count(*), count(*) - count(cost), sum(input), sum(output), sum(cache_read), sum(cache_write),"
            "  ifnull(sum(cost), 0),"
            "  ifnull(sum(input), 0) + ifnull(sum(output), 0) FROM calls WHERE home = :id AND counts) WHERE id = :id",
            [{"id": home} for home in self._homes],
        )
        if self._copies or self._database.execute(_HAS_ORIGINALS, (self._last,)).fetchone()[0]:
            self._database.execute("UPDATE turns SET counts = 0 WHERE copied")
            self._database.execute(_COPIES)


_OLDEST: Final = """
SELECT turn FROM (
  SELECT turns.rowid AS turn,
    row_number() OVER (PARTITION BY digest ORDER BY sessions.by_created, sessions.id, place, turns.rowid) AS rank
  FROM turns JOIN sessions ON sessions.number = turns.session
  WHERE copied AND digest NOT IN
    (SELECT digest FROM turns WHERE NOT copied AND digest IN (SELECT digest FROM turns WHERE copied)))
WHERE rank = 1"""
"""Of the copies of a turn of which the original is gone, that of the oldest session counts, in whatever order they came."""
_HAS_ORIGINALS: Final = """
SELECT EXISTS (SELECT 1 FROM turns WHERE rowid > ? AND digest IN (SELECT digest FROM turns WHERE copied))"""
"""Whether turns came, behind the row that was the last, of which there are copies: of a session that was restored."""
_COPIES: Final = f"UPDATE turns SET counts = 1 WHERE rowid IN ({_OLDEST})"  # noqa: S608 - our own


def first_prompt(turns: Iterable[TurnRow]) -> tuple[str, int] | None:
    """Return what a user first asked in turns, and the index of that."""
    return next(((turn.prompt, turn.place) for turn in turns if turn.role == "user" and turn.prompt), None)


def last_time(turns: Iterable[TurnRow]) -> int | None:
    """Return when the newest of turns was made, as far as that is known."""
    return max((turn.time for turn in turns if turn.time is not None), default=None)


_AUTHORS: Final = ("urn:trails:principal:", "urn:trails:agent:")


def project_name(project: str | None) -> str | None:
    """Return what a project is found by, too: the name of its folder.

    >>> project_name("/home/ada/tidepool"), project_name("/"), project_name(None)
    ('tidepool', '/', None)
    """
    return None if project is None else PurePath(project).name or project


def turn_values(number: int, turn: TurnRow) -> tuple[Any, ...]:
    """Return the row of a turn of a session."""
    short = int(turn.digest[:_SHORT] or "0", 16)
    writer, agent = (turn.author if turn.author.startswith(kind) else None for kind in _AUTHORS)
    when = (turn.time, _day(turn.time))
    what = (turn.lacks, turn.length, turn.role == "assistant")
    return number, turn.place, *when, not turn.is_copy, turn.is_copy, short, writer, agent, *what


def tool_calls(session_iri: str, turn: TurnRow) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the calls that a turn of a session asks for."""
    for each in turn.asks:
        yield turn.place, each.call_id, each.name, each.iri.removeprefix(session_iri)


def tool_answers(session_iri: str, turn: TurnRow) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the tools' answers that a turn of a session brings."""
    for each in turn.answers:
        told = (each.is_error, each.is_refused, each.began, each.ended)
        call = None if each.call is None else each.call.removeprefix(session_iri)
        yield turn.place, each.call_id, brief(each.digest), each.rank, *told, call


def whole(session_iri: str, kept: str) -> str:
    """Return the IRI of a call of which is kept what follows the session's, where it is that session's own."""
    return kept if kept.startswith(_SESSION) else session_iri + kept  # a longer id may begin with its own: "ab" and "a"


_SESSION: Final = iris.session("")


def _marks(count: int) -> str:
    return ", ".join("?" * count)


MOST_TOKENS: Final = 1 << 53
"""Tokens of one call: what an older version stored may be more than SQLite adds up."""


def call_values(number: int, call: CallRow) -> tuple[Any, ...]:
    """Return the row of a model call that a turn of a session tells of."""
    who = (call.home, call.principal, call.author, call.model)
    return (
        number,
        call.digest,
        call.rank,
        *who,
        call.time,
        _day(call.time),
        *(each and min(each, MOST_TOKENS) for each in call.tokens),
        call.cost,
        call.provider,
        call.began,
        call.ended,
        1,
    )


def _day(time: int | None) -> int | None:
    return None if time is None else time // _DAY


def as_json(value: Any) -> str:
    """Return a metadata value as it is kept."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def miscounted(figures: SideFile) -> list[str]:
    """Return the ids of the sessions of which other calls or turns count than do by what is kept of all, or that did not spend
    what is kept as their sums."""
    return [session_id for text in (_WRONG_SUMS, _WRONG_CALLS, _WRONG_TURNS) for (session_id,) in figures.ask(text)]


_WRONG_SUMS: Final = """
WITH counted AS (
  SELECT home, input, output, cache_read, cache_write, cost,
    row_number() OVER (PARTITION BY digest ORDER BY rank, home, rowid) AS nth FROM calls
), spent AS (
  SELECT home, count(*) AS calls, count(*) - count(cost) AS unpriced, sum(input) AS input, sum(output) AS output,
    sum(cache_read) AS cache_read, sum(cache_write) AS cache_write, sum(cost) AS cost FROM counted WHERE nth = 1 GROUP BY home
)
SELECT s.id FROM sessions s LEFT JOIN spent c ON c.home = s.id
WHERE (s.calls, s.unpriced, s.input, s.output, s.cache_read, s.cache_write, s.by_tokens) IS NOT (
  ifnull(c.calls, 0), ifnull(c.unpriced, 0), c.input, c.output, c.cache_read, c.cache_write,
  ifnull(c.input, 0) + ifnull(c.output, 0)
) OR typeof(s.cost) <> 'real'  -- in another order it may end in another digit:
OR NOT (s.cost IS c.cost OR abs(s.cost - ifnull(c.cost, 0)) <= 1e-9 * max(1, abs(ifnull(c.cost, 0))))
"""
_WRONG_CALLS: Final = """
SELECT DISTINCT s.id FROM (
  SELECT holder, counts, row_number() OVER (PARTITION BY digest ORDER BY rank, home, rowid) = 1 AS may FROM calls
) c LEFT JOIN sessions s ON s.number = c.holder WHERE c.counts IS NOT c.may
"""
_WRONG_TURNS: Final = f"""
SELECT DISTINCT s.id FROM turns t LEFT JOIN sessions s ON s.number = t.session
WHERE t.counts IS NOT (NOT t.copied OR t.rowid IN ({_OLDEST}))
"""  # noqa: S608 - our own


# --- asking for sessions


class Asked:
    """Conditions on sessions, as SQL and its values."""

    def __init__(self) -> None:
        self.conditions: list[str] = []
        self.values: list[Any] = []

    def where(self, condition: str, *values: Any) -> None:
        """Add a condition."""
        self.conditions.append(f"({condition})")
        self.values += values

    def text(self) -> str:
        """Return all conditions as the WHERE of a SELECT; nothing where there are none."""
        return f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""


def asked_for(
    *,
    principal: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    meta: Mapping[str, Any] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    active_since: datetime | None = None,
    active_until: datetime | None = None,
) -> Asked:
    """Return the conditions on sessions (table `s`) that are given; each starts inclusive and ends exclusive."""
    asked = Asked()
    for column, value in (("principal", principal), ("agent", agent)):
        if value is not None:
            asked.where(f"s.{column} = ?", value)
    if project is not None:
        name = PurePath(project).name or project
        asked.where("s.project_name = ? AND (s.project = ? OR s.project_name = ?)", name, project, project)
    for key, value in (meta or {}).items():
        forms = [as_json(value), *([value] if isinstance(value, str) else [])]
        marks = ", ".join("?" * len(forms))
        asked.where(
            f"EXISTS (SELECT 1 FROM meta m WHERE m.session = s.number AND m.key = ? AND m.value IN ({marks}))",  # noqa: S608
            key,
            *forms,
        )
    for column, start, end in (("created", since, until), ("activity", active_since, active_until)):
        if start is not None:
            asked.where(f"s.by_{column} >= ?", micros(start))
        if end is not None:
            asked.where(f"s.by_{column} < ?", micros(end))
    return asked


PAGE_COLUMNS: Final = (
    "number", "id", "created", "principal", "agent", "branch", "state", "kind", "label", "key", "parent", "starts_at",
    "title", "project", "prompt", "prompt_at", "activity", "own_turns", "calls", "unpriced", "input", "output",
    "cache_read", "cache_write", "cost", "by_activity",
)  # fmt: skip


@cache
def _kinds() -> Mapping[str, Collection[type]]:
    """Return of which types the values of each column of a session may be, as the schema has them."""
    with closing(sqlite3.connect(":memory:")) as new:
        new.executescript(SCHEMA)
        columns = new.execute("PRAGMA table_info(sessions)").fetchall()
    types = {"INTEGER": int, "TEXT": str, "REAL": float}
    return {
        name: {types[kind]} if is_needed or is_key else {types[kind], type(None)}
        for _, name, kind, is_needed, _, is_key in columns
    }


def page(
    figures: SideFile, asked: Asked, sort: Sort, after: tuple[int, ...] | None, limit: int
) -> tuple[list[dict[str, Any]], tuple[int, int] | None]:
    """Return up to `limit` sessions, the greatest first, after a place (what the last is sorted by, and its tie), and the
    place where the page ends; None for that at the end."""
    if after is not None:
        last = figures.ask(f"SELECT id FROM sessions WHERE by_{sort} = ? AND tie = ?", after)  # noqa: S608 - our own name
        if last:
            asked.where(f"(s.by_{sort}, s.id) < (?, ?)", after[0], last[0][0])
        else:  # it was deleted, or changed: those like it may show again, and none is left out
            asked.where(f"s.by_{sort} <= ?", after[0])
    columns = ", ".join(f"s.{each}" for each in PAGE_COLUMNS)
    rows = figures.ask(
        f"SELECT s.by_{sort}, s.tie, {columns} FROM sessions s{asked.text()}"  # noqa: S608 - our own names
        f" ORDER BY s.by_{sort} DESC, s.id DESC LIMIT ?",
        [*asked.values, limit + 1],
    )
    found = [dict(zip(PAGE_COLUMNS, row[2:], strict=True)) for row in rows[:limit]]
    kinds = _kinds()
    if not all(type(value) in kinds[name] for row in found for name, value in row.items()):
        raise Untrue("a session has values of another kind than Trails writes")
    return found, (rows[limit - 1][0], rows[limit - 1][1]) if len(rows) > limit else None


def neighbours(figures: SideFile, session_id: str) -> list[str]:
    """Return the ids that come before and after one, in order of text, where there are any."""
    (row,) = figures.ask(
        "SELECT (SELECT max(id) FROM sessions WHERE id < ?), (SELECT min(id) FROM sessions WHERE id > ?)",
        (session_id, session_id),
    )
    return [each for each in row if each is not None]


def models(figures: SideFile, session_ids: Collection[str]) -> dict[str, list[str]]:
    """Return by session id the models that were called in sessions, in order of name."""
    found: dict[str, list[str]] = {}
    for session_id in session_ids:
        rows = figures.ask(
            "SELECT DISTINCT model FROM calls WHERE home = ? AND counts AND model <> '' ORDER BY model", (session_id,)
        )
        found[session_id] = [model for (model,) in rows]
    return found


def inherited_prompt(figures: SideFile, parent: str | None, below: int) -> str | None:
    """Return the first prompt that a session inherits: its nearest ancestor's own, below what it inherits of it."""
    found: str | None = None
    seen: set[str] = set()
    while parent is not None and parent not in seen:
        seen.add(parent)
        row = figures.ask("SELECT prompt, prompt_at, parent, starts_at FROM sessions WHERE id = ?", (parent,))
        if not row:
            return found
        prompt, at, parent, starts_at = row[0]
        if prompt is not None and at < below:
            found = prompt
        below = min(below, starts_at)
    return found


# --- statistics

By = Literal["day", "model", "project", "principal", "session"]
_SUMS: Final = (
    "count(*), sum(c.input), sum(c.cache_read), sum(c.cache_write), sum(c.cache_write_1h), sum(c.output), sum(c.reasoning),"
    " sum(c.cost)"
)
_IS_COUNTED: Final = "(c.input IS NOT NULL OR c.output IS NOT NULL)"
_PROMPT: Final = "ifnull(c.input, 0) + ifnull(c.cache_read, 0) + ifnull(c.cache_write, 0)"
SLOT: Final = 1_800_000_000
"""Microseconds: the calls of half an hour cost the same."""
_CALLS_BY: Final[Mapping[By, str]] = {
    "day": "c.day", "model": "c.model", "principal": "c.principal", "session": "c.home", "project": "s.project",
}  # fmt: skip
_TURNS_BY: Final[Mapping[By, str]] = {
    "day": "t.day", "principal": "s.principal", "session": "s.id", "project": "s.project",
}  # fmt: skip


def calls_by(figures: SideFile, by: By, asked: Asked) -> list[tuple[Any, ...]]:
    """Return (group, model, priced, counted, calls, tokens as `Counts` has them, cost) of the calls that count.

    `asked` has conditions on calls (`c`) and the sessions they were made in (`s`); `priced` is whether their cost is known,
    `counted` whether what they read and wrote is.
    """
    asked.where("c.counts")
    return figures.ask(
        f"SELECT {_CALLS_BY[by]}, c.model, c.cost IS NOT NULL, {_IS_COUNTED}, {_SUMS}"  # noqa: S608 - our own names
        f" FROM calls c LEFT JOIN sessions s ON s.id = c.home{asked.text()} GROUP BY 1, 2, 3, 4",
        asked.values,
    )


def unpriced_calls(figures: SideFile, by: By, asked: Asked, steps: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return (group, model, provider, slot, step, calls, tokens, cost) of the calls that count and report tokens and no cost.

    Those of a group have the same price: they were made in one `SLOT`, and their prompts lie between the same two `steps`.
    """
    asked.where("c.counts")
    asked.where("c.cost IS NULL")
    asked.where(_IS_COUNTED)
    step = " + ".join(f"({_PROMPT} > {int(each)})" for each in steps) or "0"
    return figures.ask(
        f"SELECT {_CALLS_BY[by]}, c.model, c.provider, c.time / {SLOT}, {step}, {_SUMS}"  # noqa: S608 - our own names
        f" FROM calls c LEFT JOIN sessions s ON s.id = c.home{asked.text()} GROUP BY 1, 2, 3, 4, 5",
        asked.values,
    )


def turns_by(figures: SideFile, by: By, asked: Asked) -> dict[Any, tuple[int, int]]:
    """Return by group (turns, sessions that have some of them), each copied turn once; `asked` is of turns (`t`, `s`)."""
    asked.where("t.counts")
    rows: Iterable[Any] = figures.ask(
        f"SELECT {_TURNS_BY[by]}, count(*), count(DISTINCT t.session)"  # noqa: S608 - our own names
        f" FROM turns t JOIN sessions s ON s.number = t.session{asked.text()} GROUP BY 1",
        asked.values,
    )
    return {row[0]: (row[1], row[2]) for row in rows}


def sessions_of_calls(figures: SideFile, by: By, asked: Asked) -> dict[Any, int]:
    """Return by group in how many sessions its calls were made."""
    asked.where("c.counts")
    rows = figures.ask(
        f"SELECT {_CALLS_BY[by]}, count(DISTINCT c.home)"  # noqa: S608 - our own names
        f" FROM calls c LEFT JOIN sessions s ON s.id = c.home{asked.text()} GROUP BY 1",
        asked.values,
    )
    return dict(rows)


def sessions_in_all(figures: SideFile, asked: Asked, *, of_turns: bool) -> int:
    """Return in how many sessions the turns, or the calls, are that are asked for."""
    tables, each = (
        ("turns t JOIN sessions s ON s.number = t.session", "t.session")
        if of_turns
        else ("calls c LEFT JOIN sessions s ON s.id = c.home", "c.home")
    )
    asked.where("t.counts" if of_turns else "c.counts")
    found = figures.ask(f"SELECT count(DISTINCT {each}) FROM {tables}{asked.text()}", asked.values)  # noqa: S608
    return int(found[0][0])
