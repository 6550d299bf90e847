"""Import sessions of opencode: exports, its storage folder and its database.

    opencode export SESSION                      {"info": ..., "messages": [{"info": ..., "parts": [...]}, ...]}
    storage/session/<project>/<session>.json     what a session says of itself
    storage/message/<session>/<message>.json     what a message says of itself
    storage/part/<message>/<part>.json           one part of a message
    storage/session/{info,message,part}/...      the same in the first versions
    opencode.db                                  the tables `session`, `message`, `part`, `session_message`, since 1.2

What its server answers when it is asked for a session's messages, a list of `{"info": ..., "parts": [...]}`, is read too.
The shapes are those of anomalyco/opencode from 0.3 (June 2025) to the `session_message` rows of 2026.

Rules that are followed: messages of a folder are in the order in which they were made, and their parts in that of their ids.
A session that begins as another one does, word by word and at the same moments, is a fork of it: opencode copies messages
into a fork under new ids, and names no parent.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from trails.exchange import format_detection, json_files
from trails.exchange.coding_agents.opencode_turns import Session, add_session, gist, shared_meta
from trails.exchange.containers import Database
from trails.exchange.json_files import as_object, as_text, objects_in, without_keys
from trails.exchange.record_checks import Reading
from trails.exchange.source_transcript import Problem, Transcript, group_files
from trails.exchange.source_values import without_empty

_HELD: Final = re.compile(rb'"messages"\s*:\s*\[\s*(?:\]|\{\s*"(?:info|parts)"\s*:)')
_SESSION: Final = re.compile(rb'^\s*\{\s*"info"\s*:\s*\{[^{}\[\]]*"id"\s*:\s*"ses_')
_FOLDERS: Final = frozenset({"session", "message", "part"})
_DEEPEST: Final = 4
TABLES: Final = {
    "session": {"id", "parent_id", "title", "version", "time_created"},
    "message": {"id", "session_id", "time_created", "data"},
    "part": {"id", "message_id", "data"},
}
_PARTS: Final = """
    SELECT part.* FROM part JOIN message ON message.id = part.message_id WHERE message.session_id = ? ORDER BY part.id"""
_STRAYS: Final = """
    SELECT session_id, count(*) AS count FROM message WHERE session_id NOT IN (SELECT id FROM session) GROUP BY 1"""
_READ: Final = frozenset({*TABLES, "session_message", "todo"})
_NAMES: Final = {
    "parent_id": "parentID", "project_id": "projectID", "workspace_id": "workspaceID",
    "fork_session_id": "forkSessionID", "fork_message_id": "forkMessageID",
}  # fmt: skip
_JSON: Final = frozenset({"revert", "permission", "model", "metadata", "goal", "summary_diffs"})
_GROUPS: Final = ("time", "summary", "tokens", "share")
"""What the columns of these beginnings say stands in one object, where opencode exports a session."""


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is an export of opencode, or a file of its folder.

    >>> sniff(b'{"info": {"id": "ses_1"}, "messages": [{"info": {"id": "msg_1"')
    True
    >>> sniff(b'{"info": {"cost": 1}, "messages": [{"role": "user"}]}')
    False
    """
    first = format_detection.outline_of_first(head)
    if first.keys() >= {"info", "messages"} or ("info" in first and len(first) == 1):
        return bool(_HELD.search(head) or _SESSION.match(head))
    if first.keys() >= {"info", "parts"}:
        return b'"sessionID"' in head
    own, session = first.get("id") or "", first.get("sessionID") or ""
    if own.startswith("ses_"):
        return first.keys() >= {"title", "time"}
    return session.startswith("ses_") and own.startswith(("msg_", "prt_"))


def companions(path: Path) -> list[Path]:
    """Return a file, with those of its session if it begins one."""
    if not path.name.startswith("ses_"):
        return [path]
    root, own = root_of(path), path.stem

    def files_in(*places: Path) -> list[Path]:
        return [file for place in places if place.is_dir() for file in sorted(place.glob("*.json"))]

    messages = files_in(root / "message" / own, root / "session" / "message" / own)
    names = [message.stem for message in messages]
    parts = [files_in(root / "part" / name, root / "session" / "part" / own / name) for name in names]
    return [path, *messages, *(file for files in parts for file in files)]


def owner(path: Path) -> Path:
    """Return the session's file of a message or of a part of one, if it is there; of any other file, the file itself."""
    root = root_of(path)
    if path.name.startswith("prt_"):
        holders = (
            folder.glob(f"*/{path.parent.name}.json") for folder in (root / "message", root / "session" / "message")
        )
        path = next((each for found in holders for each in found), path)
    if not path.name.startswith("msg_"):
        return path
    return next((root / "session").rglob(f"{path.parent.name}.json"), path)


def root_of(file: Path) -> Path:
    """Return the folder whose files are read together with a file: the one that holds `session`, `message` and `part`."""
    found = file.parent
    for folder in file.parents[:_DEEPEST]:
        if folder.name in _FOLDERS:
            found = folder.parent
    return found


def groups(files: Sequence[Path]) -> Iterable[Sequence[Path]]:
    """Return the files that are read together: those of a storage folder, or of any other one."""
    return group_files(
        files, lambda file: root_of(file) if file.name.startswith(("ses_", "msg_", "prt_")) else file.parent
    )


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what exports and files of the folder (name and bytes of each) say; nothing that they hold raises."""
    held = _Held()
    for name, data in files:
        held.read(name, data, alone=len(files) == 1)
    begun: dict[str, list[Session]] = {}
    for session in sorted(held.sessions(), key=lambda each: (each.created, each.id)):
        earlier = begun.setdefault(repr(gist(session.messages[0])), []) if session.messages else []
        add_session(session, held.reading, _origin(session, earlier))
        earlier.append(session)
    return held.reading.transcript()


def _origin(session: Session, earlier: Sequence[Session]) -> Session | None:
    """Return the session that one is a fork of: it begins as that one does."""
    return max(earlier, key=lambda each: shared_meta(session, each), default=None)


# --- files


@dataclass(slots=True)
class _Held:
    """What stands in several files, on its way to sessions."""

    reading: Reading = field(default_factory=Reading)
    infos: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """What sessions say of themselves, each with its file."""
    whole: dict[str, Session] = field(default_factory=dict)
    """Sessions that stand in one file."""
    messages: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    parts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Parts by the ids of their messages."""
    where: str = ""
    """What problems begin with: the file's name, where there are several."""

    def read(self, name: str, data: bytes, *, alone: bool) -> None:
        """Read one file."""
        self.where = "" if alone else f"{name}: "
        values, problems = json_files.read_values(data)
        self.reading.problems += [Problem(each.line, f"{self.where}{each.reason}", each.text) for each in problems]
        for line, value in values:
            self._value(name, line, value)
        if not values and not problems:
            self.reading.refuse(0, f"{self.where}holds nothing of opencode's", name)

    def _value(self, name: str, line: int, value: dict[str, Any]) -> None:
        own = as_text(value.get("id"))
        if isinstance(value.get("messages"), list) and isinstance(value.get("info"), dict):
            self._export(name, line, value)
        elif isinstance(value.get("parts"), list) and isinstance(value.get("info"), dict):
            session_id = as_text(value["info"].get("sessionID"))
            if session_id is None:
                self._refuse(line, "a message names no session", value)
            else:
                self._message(self.whole.setdefault(session_id, Session(session_id, name)), line, value)
        elif own is None:
            self._refuse(line, "is no session, message or part of opencode: it has no id", value)
        elif as_text(value.get("messageID")):
            self.reading.count(f"part {value.get('type')}")
            self.parts.setdefault(value["messageID"], []).append(value)
        elif as_text(value.get("sessionID")) and as_text(value.get("role")):
            self.reading.count("message")
            self.messages[own] = name, value
        elif "title" in value or "time" in value:
            self.reading.count("session")
            self.infos[own] = name, value
        else:
            self._refuse(line, f"{own[:80]!r} is no session, message or part of opencode", value)

    def _refuse(self, line: int, reason: str, record: object) -> None:
        self.reading.refuse(line, f"{self.where}{reason}", record)

    def _export(self, name: str, line: int, value: dict[str, Any]) -> None:
        info = value["info"]
        messages = objects_in(value["messages"])
        told = [each.get("sessionID", as_object(each.get("info")).get("sessionID")) for each in messages]
        own = as_text(info.get("id")) or next(filter(None, map(as_text, told)), None)
        if own is None:
            self._refuse(line, "is no session of opencode: it has no id", value)
            return
        self.reading.count("session")
        beside = without_keys(value, "info", "messages")
        session = Session(own, name, info, beside=beside)
        if own in self.whole:
            self.reading.notes.append(f"{self.where}session {own!r} stands there again; the last one was read")
        self.whole[own] = session
        for message in value["messages"]:
            self._message(session, line, message)

    def _message(self, session: Session, line: int, message: object) -> None:
        held = as_object(message)
        info = as_object(held.get("info"))
        if as_text(held.get("type")) and as_text(held.get("id")):
            self.reading.count(f"message {held['type']}")
            session.later.append(held)
            return
        if not as_text(info.get("id")) or not as_text(info.get("role")) or not isinstance(held.get("parts", []), list):
            reason = f"a message of session {session.id[:80]!r} has no id, no role, or no list of parts"
            self._refuse(line, reason, message)
            return
        self.reading.count("message")
        parts = []
        for n, part in enumerate(held.get("parts", [])):
            if isinstance(part, dict):
                self.reading.count(f"part {part.get('type')}")
                parts.append(part if as_text(part.get("id")) else part | {"id": f"{info['id']}/{n}"})
            else:
                self._refuse(line, f"message {info['id'][:80]!r} has a part that is no object", part)
        if beside := without_keys(held, "info", "parts"):
            info = info | {"beside": beside}
        session.messages.append((info, parts))

    # --- sessions

    def sessions(self) -> list[Session]:
        """Return all sessions, those of the folder with their messages."""
        found = dict(self.whole)
        for own, (name, info) in self.infos.items():
            session = found.setdefault(own, Session(own, name))
            session.info = session.info or info
        for name, info in sorted(self.messages.values(), key=_made):
            own = info["sessionID"]
            if own in self.whole:
                continue  # the export has it too
            if own not in found:
                found[own] = Session(own, name)
                self.reading.notes.append(f"session {own!r}: what it says of itself is not there; its messages are")
            parts = sorted(self.parts.pop(info["id"], []), key=lambda part: str(part["id"]))
            found[own].messages.append((info, parts))
        known = {info["id"] for each in self.whole.values() for info, _ in each.messages}
        for message, parts in self.parts.items():
            if message not in known:
                reason = f"{len(parts)} part(s) are of message {message[:80]!r}, which is not there"
                self.reading.refuse(0, reason, parts)
        for session in found.values():
            _number_apart(session)
        return list(found.values())


def _made(named_message: tuple[str, Mapping[str, Any]]) -> tuple[float, str]:
    info = named_message[1]
    return _created(info), str(info["id"])


def _number_apart(session: Session) -> None:
    """Give ids that stand twice in a session a number, so that each record has one of its own."""
    seen: set[str] = set()

    def apart(record: dict[str, Any]) -> dict[str, Any]:
        names = (f"{record['id']}~{n}" if n > 1 else record["id"] for n in count(1))
        name = next(each for each in names if each not in seen)
        seen.add(name)
        return record | {"id": name}

    session.messages = [(apart(info), [apart(part) for part in parts]) for info, parts in session.messages]
    session.later = [apart(each) for each in session.later]


def read_rows(database: Database, name: str) -> Iterator[Transcript]:
    """Yield what a database says, a session at a time, those that others build on first."""
    reading = Reading()
    try:
        yield from _DatabaseRows(database, name, reading).transcripts()
    except sqlite3.Error as error:
        reading.refuse(0, f"the database is damaged: {error}; what could be read of it came in", name)
    yield _transcript(reading)


def _transcript(reading: Reading) -> Transcript:
    made = replace(reading.transcript(), refused_lines=0)
    reading.sessions, reading.problems, reading.notes = [], [], []
    reading.records.clear()
    return made


class _DatabaseRows:
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
            earlier = begun.setdefault(repr(gist(session.messages[0])), []) if session.messages else []
            silent = _DatabaseRows(self._database, self._name, Reading())
            before = [silent._session(infos[each]) for each in earlier]
            add_session(session, self._reading, _origin(session, before))
            earlier.append(own)
            yield _transcript(self._reading)
        for row in self._database.rows(_STRAYS):
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
            if not as_text(row.get("id")):
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
                info[group] = as_object(info.get(group)) | {rest: told}
            else:
                info[_NAMES.get(column, column)] = told
        return info

    def _json(self, text: object, what: str) -> Any:
        """Return what a text of JSON says, or the text where it cannot be read, which is a problem."""
        data = text.encode("utf-8", errors="replace") if isinstance(text, str) else text
        held = json_files.read_object(b'{"it":' + data + b"}") if isinstance(data, bytes) else None
        if isinstance(held, dict):
            return held["it"]
        why = held.reason if held else "is no text"
        self._reading.refuse(0, f"{what} {why}", text if isinstance(text, str) else repr(text)[:200])
        return text

    def _session(self, info: dict[str, Any]) -> Session:
        own = info["id"]
        session = Session(own, self._name, info)
        parts: dict[str, list[dict[str, Any]]] = {}
        for row in self._database.rows(_PARTS, own):
            if (part := self._data(row, "part", messageID=row["message_id"])) is not None:
                self._reading.count(f"part {part.get('type')}")
                parts.setdefault(row["message_id"], []).append(part)
        for row in self._database.rows("SELECT * FROM message WHERE session_id = ? ORDER BY time_created, id", own):
            message = self._data(row, "message", sessionID=own)
            if message is not None and as_text(message.get("role")):
                self._reading.count("message")
                session.messages.append((message, parts.pop(row["id"], [])))
            elif message is not None:
                self._reading.refuse(0, f"message {message['id'][:80]!r} has no role", message)
        self._add_later(session)
        if "todo" in self._database.tables:
            todos = self._database.rows("SELECT * FROM todo WHERE session_id = ?", own)
            session.beside |= without_empty({"todos": [without_keys(each, "session_id") for each in todos]})
        return session

    def _data(self, row: Mapping[str, Any], kind: str, **named_ids: str) -> dict[str, Any] | None:
        """Return the object that a row holds, with its id; None where it cannot be used, which is a problem."""
        own = row.get("id")
        if not as_text(own):
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
            what = "row(s) of session_message are no later than its last message, and repeat what `message` says"
            self._reading.notes.append(f"session {session.id!r}: {repeated} {what}")


def _created(info: Mapping[str, Any]) -> float:
    created = as_object(info.get("time")).get("created")
    return created if isinstance(created, int | float) else 0


def _shown(row: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value)[:200] for key, value in row.items()}


def _parents_first(infos: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield sessions in their order, but each after the one that spawned it, if that is there."""
    done: set[str] = set()
    for start in infos:
        chain: list[str] = []
        own: str | None = start
        while own is not None and own in infos and own not in done:
            chain.append(own)
            done.add(own)
            own = as_text(infos[own].get("parentID"))
        yield from reversed(chain)
