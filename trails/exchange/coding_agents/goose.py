"""Read Goose's sessions: its database, its exports, and older JSON lines.

A message holds texts, thoughts, images, tool requests and tool responses. A user's message that answers calls is a turn `tool`,
and one of the user's where it says more. Compaction puts a message that only the agent sees (`userVisible` is false) behind those
that it no longer sees: that is the summary. Notices of the program have the role `info`, which no model is shown. Compaction
writes all rows anew: so a message is known by its `id`, or by what it says. Usage is told for a session alone, and is metadata.

Read off block/goose: `session_manager.rs` (schema versions 5 to 17), `conversation/message.rs` and `legacy.rs`.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from trails.exchange.containers import Database
from trails.exchange.format_detection import outline_of_first
from trails.exchange.json_files import Json, as_object, as_text, objects_in, parse_json, value_at, without_keys
from trails.exchange.record_checks import Reading, combine_files, each_file
from trails.exchange.source_transcript import Piece, SourceTurn, Transcript
from trails.exchange.source_values import call_part, epoch_time, image_part, leftover, result_part, utc_time
from trails.model.values import Compaction

SOURCE: Final = "goose"
TABLES: Final = {
    "sessions": {"id", "working_dir", "extension_data"},
    "messages": {"session_id", "role", "content_json", "created_timestamp"},
}
_EXPORT: Final = frozenset({"id", "working_dir", "conversation"})
_LINES: Final = frozenset({"description", "message_count"})
"""What the first line of an early session always has; the oldest ones name no `working_dir`."""
_MILLISECONDS: Final = 100_000_000_000
"""Times from here on are in milliseconds, as `goose term log` writes them; all others are in seconds."""
_SESSION_OWN: Final = frozenset({"id", "name", "description", "created_at", "conversation", "parent_session_id"})
_MESSAGE_OWN: Final = frozenset({"id", "role", "content", "created"})
_REQUESTS: Final = ("toolRequest", "frontendToolRequest")


def sniff(head: bytes) -> bool:
    """Tell whether a file is an export of Goose, or one of its first sessions.

    >>> sniff(b'{"id": "1", "working_dir": "/w", "name": "n", "conversation": ['), sniff(b'{"messages": [')
    (True, False)
    """
    first = outline_of_first(head)
    return first.keys() >= _EXPORT or (first.keys() >= _LINES and not first.keys() & {"conversation", "messages"})


def rows(database: Database, name: str) -> Iterator[Transcript]:
    """Yield a database's sessions in the order of their creation."""
    try:
        for info in database.rows("SELECT * FROM sessions ORDER BY created_at, id"):
            reading = Reading()
            found = database.rows(
                "SELECT * FROM messages WHERE session_id = ?1 ORDER BY"
                " iif(created_timestamp >= ?2, created_timestamp / 1000, created_timestamp), id",
                info["id"],
                _MILLISECONDS,
            )
            messages = [_of_row(row, reading) for row in found]
            _session(info, messages, name, reading)
            yield combine_files([(name, reading)])
    except sqlite3.Error as error:
        reading = Reading()
        reading.refuse(0, f"the database is damaged: {error}; what could be read of it came in", name)
        yield combine_files([(name, reading)])


def _of_row(row: Json, reading: Reading) -> Json:
    """Return a row as the message in an export."""
    told: dict[str, Any] = {"id": row.get("message_id"), "role": row["role"], "created": row["created_timestamp"]}
    for column, key in (("content_json", "content"), ("metadata_json", "metadata")):
        held = row.get(column)
        try:
            told[key] = json.loads(held) if isinstance(held, str) else held
        except (ValueError, RecursionError) as error:
            reading.refuse(0, f"a message's {column} cannot be read: {error}", str(held)[:200])
            told[key] = held if key == "content" else None
    return told


def _read_file(name: str, data: bytes, reading: Reading) -> None:
    values = [value for _, value in reading.values(data)]
    if not values:
        reading.refuse(0, "is no session of Goose: it holds no JSON object", name)
        return
    head, *others = values
    if not isinstance(messages := head.get("conversation"), list):
        messages = others
        head = {**head, "id": head["id"] if isinstance(head.get("id"), str) else Path(name).stem}
    _session(head, messages, name, reading)


parse: Final = each_file(_read_file)


def _session(info: Json, messages: Sequence[Any], name: str, reading: Reading) -> None:
    if (own := as_text(info.get("id"))) is None:
        reading.refuse(0, "is no session of Goose: it has no id", name)
        return
    reading.count("session")
    taken: Counter[str] = Counter()
    turns = [turn for message in messages for turn in _turns(message, taken, reading)]
    if not turns:
        reading.notes.append(f"session {own} has no message: nothing to keep")
        return
    meta = {key[:100]: _plain(value) for key, value in info.items() if key not in _SESSION_OWN}
    title, spawner = as_text(info.get("name") or info.get("description")), as_text(info.get("parent_session_id"))
    created = utc_time(info.get("created_at")) or turns[0].time
    reading.add_session(SOURCE, own, (turns,), meta, title=title, created=created, spawned_by=spawner)


def _plain(value: object) -> object:
    """Return a column's value: parsed JSON, or bytes as hex digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str) and value[:1] in ("{", "["):
        return value if (read := parse_json(value)) is None else read
    return value


def _turns(message: object, taken: Counter[str], reading: Reading) -> Iterator[SourceTurn]:
    held = as_object(message)
    if (role := as_text(held.get("role"))) is None:
        reading.refuse(0, "a message has no role", message)
        return
    reading.count(role)
    content = held.get("content")
    parts = objects_in(content)
    answers = [part for part in parts if part.get("type") == "toolResponse" and isinstance(part.get("id"), str)]
    rest = [_part(part) for part in parts if part not in answers]
    name = _name(held, taken)
    left = leftover(held, _MESSAGE_OWN)
    if not isinstance(content, list) or len(parts) < len(content):
        left["content"] = content
    created = held.get("created")
    is_long = isinstance(created, int | float) and created >= _MILLISECONDS
    time = epoch_time(created, 1000 if is_long else 1)
    made = []
    if answers:
        made.append(SourceTurn("tool", (Piece(f"{name}/results", tuple(map(_answer, answers))),), time=time, meta=left))
    if rest or not answers:
        own, meta = _role(role, held, parts), {} if answers else left
        compaction = Compaction() if own == "summary" else None
        made.append(SourceTurn(own, (Piece(name, tuple(rest)),), time=time, meta=meta, compaction=compaction))
    yield from (turn for turn in made if reading.keeps(turn, 0, "a message", message))


def _name(message: Json, taken: Counter[str]) -> str:
    name = as_text(message.get("id"))
    if name is None:
        said = json.dumps([message.get("role"), message.get("created"), message.get("content")], sort_keys=True)
        name = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    taken[name] += 1
    return name if taken[name] == 1 else f"{name}~{taken[name]}"


def _role(role: str, message: Json, parts: Sequence[Json]) -> str:
    told = as_object(message.get("metadata"))
    if parts and all(part.get("type") == "systemNotification" for part in parts):
        return "info"
    if told.get("userVisible") is False and told.get("agentVisible") is not False:
        return "summary" if role == "user" else "attachment"
    return role


def _part(part: Json) -> Json:
    """Return a part in the usual shape; unknown parts as they are."""
    kind, call = part.get("type"), as_object(part.get("toolCall"))
    asked = as_object(call.get("value")) or call
    if kind in _REQUESTS and isinstance(part.get("id"), str) and isinstance(asked.get("name"), str):
        made = call_part(part["id"], asked["name"], asked.get("arguments") or {})
        return made | without_keys(part, "type", "id", "toolCall")
    if kind == "image" and isinstance(part.get("data"), str):
        return image_part(part.get("mimeType"), part["data"])
    if kind == "systemNotification" and isinstance(part.get("msg"), str):
        return {"type": "text", "text": part["msg"], **without_keys(part, "type", "msg")}
    return part


def _answer(part: Json) -> Json:
    result = part.get("toolResult")
    result = result if isinstance(result, dict) else {"value": result}
    value = result.get("value")
    inner = value.get("content", value) if isinstance(value, dict) else value
    failed = result.get("status") == "error" or value_at(value, "isError") is True
    return result_part(part["id"], result.get("error") if inner is None else inner, failed=failed)
