"""opencode's database (`opencode.db`), since 1.2: the tables `session`, `message` and `part`, and `session_message`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trails.transcripts import jsonl
from trails.transcripts.checked import Reading
from trails.transcripts.databases import Database, Tables
from trails.transcripts.opencode.session import Session, gist, shared, source_session
from trails.transcripts.opencode.turns import mapping, named
from trails.transcripts.source import Problem, Transcript

_SIGNS: Final = {
    "session": frozenset({"id", "parent_id", "title", "version", "time_created"}),
    "message": frozenset({"id", "session_id", "time_created", "data"}),
    "part": frozenset({"id", "message_id", "data"}),
}
_READ: Final = frozenset({*_SIGNS, "session_message", "todo"})
_NAMES: Final = {
    "parent_id": "parentID",
    "project_id": "projectID",
    "workspace_id": "workspaceID",
    "fork_session_id": "forkSessionID",
    "fork_message_id": "forkMessageID",
}
_JSON: Final = frozenset({"revert", "permission", "model", "metadata", "goal", "summary_diffs"})
_GROUPS: Final = ("time", "summary", "tokens", "share")
"""What the columns of these beginnings say stands in one object, where opencode exports a session."""


def holds(tables: Tables) -> bool:
    """Tell whether a database with these tables is opencode's."""
    return all(tables.get(name, frozenset()) >= columns for name, columns in _SIGNS.items())


def rows(database: Database, name: str) -> Iterator[Transcript]:
    """Yield what a database says, a session at a time, those that others build on first."""
    reading = Reading()
    try:
        yield from _Rows(database, name, reading).transcripts()
    except sqlite3.Error as error:
        reading.refuse(0, f"the database is damaged: {error}; what could be read of it came in", name)
    yield _transcript(reading)


def _transcript(reading: Reading) -> Transcript:
    made = Transcript(
        tuple(reading.sessions), tuple(reading.problems), reading.records.copy(), tuple(reading.notes), refused_lines=0
    )
    reading.sessions, reading.problems, reading.notes = [], [], []
    reading.records.clear()
    return made


class _Rows:
    """Reads the rows of one database."""

    def __init__(self, database: Database, name: str, reading: Reading) -> None:
        self._database = database
        self._name = name
        self._reading = reading

    def transcripts(self) -> Iterator[Transcript]:
        begun: dict[str, list[str]] = {}
        infos = {info["id"]: info for info in self._infos()}
        self._left_alone()
        for own in _parents_first(infos):
            session = self._session(infos[own])
            key = repr(gist(session.messages[0])) if session.messages else ""
            earlier = begun.setdefault(key, []) if session.messages else []
            before = [self._session(infos[each], Reading()) for each in earlier]
            origin = max(before, key=lambda each: shared(session, each), default=None)
            self._reading.sessions.append(source_session(session, self._reading, origin))
            earlier.append(own)
            yield _transcript(self._reading)
        for row in self._database.rows(
            "SELECT session_id, count(*) AS count FROM message WHERE session_id NOT IN (SELECT id FROM session) GROUP BY 1"
        ):
            reason = f"{row['count']} message(s) are of session {row['session_id']!r}, which is not there"
            self._reading.refuse(0, reason, self._name)

    def _left_alone(self) -> None:
        others = [table for table in sorted(self._database.tables) if table not in _READ]
        counts: dict[str, int] = {}
        for table in others:
            quoted = table.replace('"', '""')
            [row] = self._database.rows(f'SELECT count(*) AS count FROM "{quoted}"')  # noqa: S608 - its own tables
            counts |= {table: row["count"]} if row["count"] else {}
        if counts:
            told = ", ".join(f"{table} ({count:,})" for table, count in counts.items())
            self._reading.notes.append(f"tables that hold no turns were not read, with their rows: {told}")

    def _infos(self) -> Iterator[dict[str, Any]]:
        for row in self._database.rows("SELECT * FROM session ORDER BY time_created, id"):
            if not named(row.get("id")):
                self._reading.refuse(0, "a row of `session` has no id", _shown(row))
                continue
            self._reading.count("session")
            yield self._info(row)

    def _info(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a row says of a session, under the names that an export has."""
        info: dict[str, Any] = {}
        for column, value in row.items():
            if value is None:
                continue
            told = value.hex() if isinstance(value, bytes) else value
            if column in _JSON and isinstance(value, str):
                told = self._json(value, f"session {row['id']!r}: its {column}")
            group, _, rest = column.partition("_")
            if group in _GROUPS and rest:
                info[group] = mapping(info.get(group)) | {rest: told}
            else:
                info[_NAMES.get(column, column)] = told
        return info

    def _json(self, text: object, what: str) -> Any:
        """Return what a text of JSON says, or the text where it cannot be read, which is a problem."""
        data = text.encode("utf-8", errors="replace") if isinstance(text, str) else text
        held = jsonl.read_object(b'{"it":' + data + b"}") if isinstance(data, bytes) else None
        if isinstance(held, dict):
            return held["it"]
        why = held.reason if isinstance(held, Problem) else "is no text"
        self._reading.refuse(0, f"{what} {why}", text if isinstance(text, str) else repr(text)[:200])
        return text

    def _session(self, info: dict[str, Any], reading: Reading | None = None) -> Session:
        if reading is not None:
            return _Rows(self._database, self._name, reading)._session(info)
        own = info["id"]
        session = Session(own, self._name, info)
        parts: dict[str, list[dict[str, Any]]] = {}
        for row in self._database.rows(
            "SELECT part.* FROM part JOIN message ON message.id = part.message_id WHERE message.session_id = ? ORDER BY part.id",
            own,
        ):
            if (part := self._data(row, "part", messageID=row["message_id"])) is not None:
                self._reading.count(f"part {part.get('type')}")
                parts.setdefault(row["message_id"], []).append(part)
        for row in self._database.rows("SELECT * FROM message WHERE session_id = ? ORDER BY time_created, id", own):
            message = self._data(row, "message", sessionID=own)
            if message is not None and named(message.get("role")):
                self._reading.count("message")
                session.messages.append((message, parts.pop(row["id"], [])))
            elif message is not None:
                self._reading.refuse(0, f"message {message['id'][:80]!r} has no role", message)
        self._add_later(session)
        if "todo" in self._database.tables:
            todos = list(self._database.rows("SELECT * FROM todo WHERE session_id = ?", own))
            told = [{key: value for key, value in each.items() if key != "session_id"} for each in todos]
            session.beside |= {"todos": told} if told else {}
        return session

    def _data(self, row: Mapping[str, Any], kind: str, **named_ids: str) -> dict[str, Any] | None:
        """Return the object that a row holds, with its id; None where it cannot be used, which is a problem."""
        own = row.get("id")
        if not named(own):
            self._reading.refuse(0, f"a row of `{kind}` has no id", _shown(row))
            return None
        held = self._json(row.get("data"), f"{kind} {own!r}")
        if not isinstance(held, dict):
            if isinstance(held, list) or held is None:
                self._reading.refuse(0, f"{kind} {own!r} is no object", _shown(row))
            return None
        return held | {"id": own} | named_ids

    def _add_later(self, session: Session) -> None:
        """Add what stands in `session_message`: as far as `message` holds it, opencode writes both."""
        columns = self._database.tables.get("session_message", frozenset())
        if not columns >= {"id", "session_id", "type", "data"}:
            return
        order = "seq" if "seq" in columns else "time_created, id"
        query = f"SELECT * FROM session_message WHERE session_id = ? ORDER BY {order}"  # noqa: S608 - one of two orders
        last = max((_created(info) for info, _ in session.messages), default=-1.0)
        repeated = 0
        for row in self._database.rows(query, session.id):
            message = self._data(row, "session_message", type=row["type"], sessionID=session.id)
            if message is None:
                continue
            self._reading.count(f"message {message['type']}")
            if "time" not in message and "time_created" in row:
                message["time"] = {"created": row["time_created"]}
            if _created(message) > last:
                session.later.append(message)
            else:
                repeated += 1
        if repeated:
            self._reading.notes.append(
                f"session {session.id!r}: {repeated} row(s) of session_message are no later than its last message, and "
                "repeat what `message` says"
            )


def _created(info: Mapping[str, Any]) -> float:
    created = mapping(info.get("time")).get("created")
    return created if isinstance(created, int | float) else 0


def _shown(row: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value)[:200] for key, value in row.items()}


def _parents_first(infos: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield sessions in their order, but each after the one that spawned it, where that is there."""
    done: set[str] = set()
    for start in infos:
        chain: list[str] = []
        own: str | None = start
        while own is not None and own in infos and own not in done and own not in chain:
            chain.append(own)
            own = named(infos[own].get("parentID"))
        done.update(chain)
        yield from reversed(chain)
