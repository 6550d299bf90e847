"""opencode's JSON files: exports of sessions, and the folder of files that it kept until it had a database.

    opencode export SESSION                      {"info": ..., "messages": [{"info": ..., "parts": [...]}, ...]}
    storage/session/<project>/<session>.json     what a session says of itself
    storage/message/<session>/<message>.json     what a message says of itself
    storage/part/<message>/<part>.json           one part of a message
    storage/session/{info,message,part}/...      the same in the first versions

What its server answers when it is asked for a session's messages, a list of `{"info": ..., "parts": [...]}`, is read too.
The shapes are those of anomalyco/opencode from 0.3 (June 2025) to the `session_message` rows of 2026.

Rules that are followed: messages of a folder are in the order in which they were made, and their parts in that of their ids.
A session that begins as another one does, word by word and at the same moments, is a fork of it: opencode copies messages
into a fork under new ids, and names no parent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trails.transcripts import jsonl, outline
from trails.transcripts.checked import Reading
from trails.transcripts.opencode.session import Message, Session, gist, shared, source_session
from trails.transcripts.opencode.turns import mapping, named
from trails.transcripts.source import Problem, SourceSession, Transcript, files_at

_HELD: Final = re.compile(rb'"messages"\s*:\s*\[\s*(?:\]|\{\s*"(?:info|parts)"\s*:)')
_SESSION: Final = re.compile(rb'^\s*\{\s*"info"\s*:\s*\{[^{}\[\]]*"id"\s*:\s*"ses_')
_FOLDERS: Final = frozenset({"session", "message", "part"})
_DEEPEST: Final = 4


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is an export of opencode, or a file of its folder.

    >>> sniff(b'{"info": {"id": "ses_1"}, "messages": [{"info": {"id": "msg_1"')
    True
    >>> sniff(b'{"info": {"cost": 1}, "messages": [{"role": "user"}]}')
    False
    """
    first = outline.of_first(head)
    if first.keys() >= {"info", "messages"} or ("info" in first and len(first) == 1):
        return bool(_HELD.search(head) or _SESSION.match(head))
    if first.keys() >= {"info", "parts"}:
        return b'"sessionID"' in head
    own, session = first.get("id") or "", first.get("sessionID") or ""
    if own.startswith("ses_"):
        return first.keys() >= {"title", "time"}
    return session.startswith("ses_") and own.startswith(("msg_", "prt_"))


def find_files(path: Path) -> list[Path]:
    """Return the file with those that belong to its session, or all JSON files in a folder and below."""
    found = files_at(path, "*.json")
    if not path.is_file() or not path.name.startswith("ses_"):
        return found
    root = root_of(path)
    places = [root / "message" / path.stem, root / "session" / "message" / path.stem]
    messages = [file for place in places if place.is_dir() for file in sorted(place.glob("*.json"))]
    parts = [
        part
        for message in messages
        for place in (root / "part" / message.stem, root / "session" / "part" / path.stem / message.stem)
        if place.is_dir()
        for part in sorted(place.glob("*.json"))
    ]
    return [*found, *messages, *parts]


def root_of(file: Path) -> Path:
    """Return the folder whose files are read together with a file: the one that holds `session`, `message` and `part`."""
    found = file.parent
    for folder in file.parents[:_DEEPEST]:
        if folder.name in _FOLDERS:
            found = folder.parent
    return found


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what exports and files of the folder (name and bytes of each) say; nothing that they hold raises."""
    held = _Held()
    for name, data in files:
        held.read(name, data, alone=len(files) == 1)
    made, reading = forks_after_origins(held.sessions(), held.reading), held.reading
    return Transcript(tuple(made), tuple(reading.problems), reading.records, tuple(reading.notes))


def forks_after_origins(sessions: Sequence[Session], reading: Reading) -> list[SourceSession]:
    """Return sessions, each with the earlier one that it is a fork of where it begins as that one does."""
    begun: dict[str, list[Session]] = {}
    made: list[SourceSession] = []
    for session in sorted(sessions, key=lambda each: (each.created, each.id)):
        key = repr(gist(session.messages[0])) if session.messages else ""
        earlier = begun.setdefault(key, []) if session.messages else []
        origin = max(earlier, key=lambda each: shared(session, each), default=None)
        made.append(source_session(session, reading, origin))
        earlier.append(session)
    return made


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
        values, problems = jsonl.read_values(data)
        self.reading.problems += [Problem(each.line, f"{self.where}{each.reason}", each.text) for each in problems]
        for line, value in values:
            self._value(name, line, value)
        if not values and not problems:
            self.reading.refuse(0, f"{self.where}holds nothing of opencode's", name)

    def _value(self, name: str, line: int, value: dict[str, Any]) -> None:
        own = named(value.get("id"))
        if isinstance(value.get("messages"), list) and isinstance(value.get("info"), dict):
            self._export(name, line, value)
        elif isinstance(value.get("parts"), list) and isinstance(value.get("info"), dict):
            session_id = named(value["info"].get("sessionID"))
            if session_id is None:
                self._refuse(line, "a message names no session", value)
            else:
                self._message(self.whole.setdefault(session_id, Session(session_id, name)), line, value)
        elif own is None:
            self._refuse(line, "is no session, message or part of opencode: it has no id", value)
        elif named(value.get("messageID")):
            self.reading.count(f"part {value.get('type')}")
            self.parts.setdefault(value["messageID"], []).append(value)
        elif named(value.get("sessionID")) and named(value.get("role")):
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
        told = [
            mapping(each).get("sessionID", mapping(mapping(each).get("info")).get("sessionID"))
            for each in value["messages"]
        ]
        own = named(info.get("id")) or next(filter(None, map(named, told)), None)
        if own is None:
            self._refuse(line, "is no session of opencode: it has no id", value)
            return
        self.reading.count("session")
        beside = {key: each for key, each in value.items() if key not in ("info", "messages")}
        session = Session(own, name, info, beside=beside)
        if own in self.whole:
            self.reading.notes.append(f"{self.where}session {own!r} stands there again; the last one was read")
        self.whole[own] = session
        for message in value["messages"]:
            self._message(session, line, message)

    def _message(self, session: Session, line: int, message: object) -> None:
        held = mapping(message)
        info = mapping(held.get("info"))
        if named(held.get("type")) and named(held.get("id")):
            self.reading.count(f"message {held['type']}")
            session.later.append(held)
            return
        if not named(info.get("id")) or not named(info.get("role")) or not isinstance(held.get("parts", []), list):
            self._refuse(
                line, f"a message of session {session.id[:80]!r} has no id, no role, or no list of parts", message
            )
            return
        self.reading.count("message")
        parts = []
        for n, part in enumerate(held.get("parts", [])):
            if isinstance(part, dict):
                self.reading.count(f"part {part.get('type')}")
                parts.append(part if named(part.get("id")) else part | {"id": f"{info['id']}/{n}"})
            else:
                self._refuse(line, f"message {info['id'][:80]!r} has a part that is no object", part)
        if beside := {key: each for key, each in held.items() if key not in ("info", "parts")}:
            info = info | {"beside": beside}
        session.messages.append((info, parts))

    # --- sessions

    def sessions(self) -> list[Session]:
        """Return all sessions, those of the folder with their messages."""
        found = dict(self.whole)
        for own, (name, info) in self.infos.items():
            if own in found and not found[own].info:
                found[own].info = info
            elif own not in found:
                found[own] = Session(own, name, info)
        for name, info in sorted(self.messages.values(), key=_made):
            own = info["sessionID"]
            if own in self.whole:
                continue  # the export has it too
            if own not in found:
                found[own] = Session(own, name)
                self.reading.notes.append(f"session {own!r}: what it says of itself is not there; its messages are")
            parts = sorted(self.parts.pop(info["id"], []), key=lambda part: str(part["id"]))
            found[own].messages.append((info, parts))
        for message, parts in self.parts.items():
            if not any(message == info["id"] for each in self.whole.values() for info, _ in each.messages):
                self.reading.refuse(
                    0, f"{len(parts)} part(s) are of message {message[:80]!r}, which is not there", parts
                )
        for session in found.values():
            _number_apart(session)
        return list(found.values())


def _made(named_message: tuple[str, Mapping[str, Any]]) -> tuple[float, str]:
    info = named_message[1]
    created = mapping(info.get("time")).get("created")
    return (created if isinstance(created, int | float) else 0, str(info["id"]))


def _number_apart(session: Session) -> None:
    """Give ids that stand twice in a session a number, so that each record has one of its own."""
    seen: set[str] = set()

    def apart(own: str) -> str:
        name, n = own, 1
        while name in seen:
            n += 1
            name = f"{own}~{n}"
        seen.add(name)
        return name

    messages: list[Message] = []
    for info, parts in session.messages:
        own = apart(info["id"])
        messages.append((info | {"id": own}, [part | {"id": apart(part["id"])} for part in parts]))
    session.messages = messages
    session.later = [each | {"id": apart(each["id"])} for each in session.later]
