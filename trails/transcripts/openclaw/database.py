"""An agent's database of OpenClaw since 2026.8: `agents/<agent>/agent/openclaw-agent.sqlite`.

    transcript_events(session_id, seq, event_json or event_zstd)    the lines of each transcript, as pi writes them
    session_nodes(session_key, current_session_id, entry_json)      the entries by session key
    session_entries(session_key, session_id, entry_json)            the same, in the first versions (2026.7.2)
    session_windows(session_id, session_key, ...)                   what each transcript followed, and why

Read in openclaw/openclaw's `openclaw-agent-schema.sql` (schemas to 23, 2026.9) and its page on database schemas. Its other
tables, which hold keys among other things, are not read. Before 2026.8 the file has none of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from trails import unpacking
from trails.errors import InvalidInput
from trails.transcripts import jsonl, zstd
from trails.transcripts.databases import Database, Tables
from trails.transcripts.source import Problem

NAME: Final = "openclaw-agent.sqlite"
_EVENTS: Final = "transcript_events"
_ENTRIES: Final = (("session_nodes", "current_session_id"), ("session_entries", "session_id"))
_WINDOWS: Final = "session_windows"


class Stored(NamedTuple):
    """One transcript as its rows say it."""

    session_id: str
    lines: bytes
    """As a session file has them."""
    problems: tuple[str, ...]
    window: dict[str, Any]
    """What is said of the transcript as a whole."""


class Entry(NamedTuple):
    """One entry: its key, the session that it names, and what it holds, or why that cannot be used."""

    key: str
    session_id: str
    entry: dict[str, Any] | str


def holds(tables: Tables) -> bool:
    """Tell whether a database with these tables holds transcripts of an OpenClaw agent."""
    return tables.get(_EVENTS, frozenset()) >= {"session_id", "seq"} and bool(
        tables[_EVENTS] & {"event_json", "event_zstd"} and tables.keys() & {name for name, _ in _ENTRIES}
    )


def agent_of(path: Path, database: Database) -> str:
    """Return the agent that a database is of: by the folder that it stands in, or what it says itself."""
    if path.parent.name == "agent" and path.parent.parent.name:
        return path.parent.parent.name
    if "agent_id" in database.tables.get("schema_meta", ()):
        for row in database.rows("SELECT agent_id FROM schema_meta WHERE agent_id IS NOT NULL"):
            return str(row["agent_id"])
    return "main"


def entries(database: Database) -> Iterator[Entry]:
    """Yield all entries; raises `sqlite3.Error` where the database is damaged."""
    for table, current in _ENTRIES:
        if not database.tables.get(table, frozenset()) >= {"session_key", current, "entry_json"}:
            continue
        for row in database.rows(f"SELECT * FROM {table} ORDER BY session_key"):  # noqa: S608 - one of two names
            held = jsonl.read_object(str(row["entry_json"]).encode("utf-8", errors="replace"))
            if not isinstance(held, Problem):
                held.setdefault("sessionId", row[current])
                if isinstance(row.get("spawned_by"), str):
                    held.setdefault("spawnedBy", row["spawned_by"])
            yield Entry(str(row["session_key"]), str(row[current]), held.reason if isinstance(held, Problem) else held)
        return


def transcripts(database: Database) -> Iterator[Stored]:
    """Yield all transcripts, one after the other; raises `sqlite3.Error` where the database is damaged."""
    windows = {}
    if "session_id" in database.tables.get(_WINDOWS, ()):
        windows = {str(row["session_id"]): row for row in database.rows(f"SELECT * FROM {_WINDOWS}")}  # noqa: S608
    found = [row["session_id"] for row in database.rows(f"SELECT DISTINCT session_id FROM {_EVENTS} ORDER BY 1")]  # noqa: S608
    for own in found:
        lines, problems = [], []
        for row in database.rows(f"SELECT * FROM {_EVENTS} WHERE session_id = ? ORDER BY seq", own):  # noqa: S608
            line = _line(row)
            if isinstance(line, bytes):
                lines.append(line)
            else:
                problems.append(f"the event {row['seq']} of the session {own!r} {line}")
        window = {key: value for key, value in windows.get(str(own), {}).items() if value not in (None, "", own)}
        yield Stored(str(own), b"\n".join(lines), tuple(problems), window)


def _line(row: dict[str, Any]) -> bytes | str:
    """Return the line that a row holds, or why it holds none."""
    packed, data = row.get("event_zstd"), b""
    if isinstance(row.get("event_json"), str):
        data = row["event_json"].encode("utf-8", errors="replace")
    elif isinstance(packed, bytes):
        try:
            data = zstd.unpack(packed, unpacking.limit(len(packed)))
        except InvalidInput as error:
            return f"cannot be unpacked: {error}"
    if not data.strip():
        return "holds no text"
    return b" ".join(data.splitlines())  # within JSON a line break is a blank
