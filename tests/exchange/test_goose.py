"""Goose's sessions: database, exports and the JSON lines of its first versions say the same."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from trails import InvalidInput, Repository
from trails.exchange.file_import import import_bytes, import_path

SCHEMA = """
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, name TEXT, description TEXT, session_type TEXT, working_dir TEXT, created_at TIMESTAMP,
  updated_at TIMESTAMP, extension_data TEXT, total_tokens INTEGER, input_tokens INTEGER, output_tokens INTEGER,
  parent_session_id TEXT
);
CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL, role TEXT NOT NULL, content_json TEXT NOT NULL,
  created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP, tokens INTEGER, metadata_json TEXT
);
"""
CALL = {"status": "success", "value": {"name": "shell", "arguments": {"command": "ls"}}}
RESULT = {"status": "success", "value": {"content": [{"type": "text", "text": "a.py"}], "isError": False}}
MESSAGES: list[dict[str, Any]] = [
    {"id": "m1", "role": "user", "created": 1785578400, "content": [{"type": "text", "text": "Look around, please"}]},
    {"id": "m2", "role": "assistant", "created": 1785578401, "content": [
        {"type": "thinking", "thinking": "Hm", "signature": "s"}, {"type": "text", "text": "I look."},
        {"type": "toolRequest", "id": "c1", "toolCall": CALL}]},
    {"id": "m3", "role": "user", "created": 1785578402, "content": [{"type": "toolResponse", "id": "c1", "toolResult": RESULT}]},
    {"id": "m4", "role": "assistant", "created": 1785578403, "content": [
        {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "Compaction complete"}]},
    {"id": "m5", "role": "user", "created": 1785578404, "content": [{"type": "text", "text": "A summary of all"}],
     "metadata": {"userVisible": False, "agentVisible": True}},
    {"id": "m6", "role": "assistant", "created": 1785578405, "content": [{"type": "text", "text": "Done."}]},
]  # fmt: skip
INFO = {
    "id": "20260801_1",
    "name": "Look around",
    "working_dir": "/w",
    "created_at": "2026-08-01T10:00:00Z",
    "extension_data": {},
}
ROLES = ["user", "assistant", "tool", "info", "summary", "assistant"]


def database(
    path: Path, messages: list[dict[str, Any]] = MESSAGES, *, parent: str | None = None, own: str = "20260801_1"
) -> None:
    with closing(sqlite3.connect(path)) as db:
        if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sessions'").fetchone():
            db.executescript(SCHEMA)
        db.execute("DELETE FROM messages WHERE session_id = ?", (own,))  # as a compaction does
        told = (own, "Look around", "", "user", "/w", "2026-08-01 10:00:00", "", "{}", 17, 12, 5, parent)
        db.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", told)
        for each in messages:
            content, metadata = json.dumps(each["content"]), json.dumps(each.get("metadata"))
            db.execute(
                "INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (each["id"], own, each["role"], content, each["created"], metadata),
            )
        db.commit()


def write(path: Path, form: str, messages: list[dict[str, Any]] = MESSAGES) -> Path:
    if form == "database":
        database(path / "sessions.db", messages)
        return path / "sessions.db"
    if form == "export":
        (path / "session.json").write_text(json.dumps({**INFO, "conversation": messages}))
        return path / "session.json"
    head = {"working_dir": "/w", "description": "Look around", "message_count": len(messages)}
    (path / "20260801_1.jsonl").write_text("\n".join(map(json.dumps, (head, *messages))))
    return path / "20260801_1.jsonl"


@pytest.mark.parametrize("form", ["database", "export", "lines"])
def test_a_session_comes_in_once_with_its_calls_and_answers(store: Repository, tmp_path: Path, form: str) -> None:
    folder = tmp_path / "goose"
    folder.mkdir()
    report = import_path(store, write(folder, form, MESSAGES[:4]), final=True)
    assert report.sessions_created == ["goose:20260801_1"]
    grown = import_path(store, write(folder, form), final=True)
    assert (grown.grown, grown.turns_added, grown.changed) == (["goose:20260801_1"], 2, [])
    assert import_path(store, write(folder, form), final=True).turns_added == 0
    session = store.load("goose:20260801_1")
    assert [turn.role for turn in session.turns] == ROLES
    assert [(call.name, json.loads(call.arguments or "")) for call in session.turns[1].tool_calls] == [
        ("shell", {"command": "ls"})
    ]
    assert [result.call_id for result in session.turns[2].tool_results] == ["c1"]
    assert store.select("open-tool-calls").to_dicts() == []
    assert [row for row in report.left_out if row.is_prose] == []
    said = [str(message["content"]) for message in store.context("goose:20260801_1", "next", max_tokens=9_999).openai()]
    assert not [text for text in said if "Compaction complete" in text or "Look around" in text]
    assert [text for text in said if "A summary of all" in text]


@pytest.mark.parametrize("child_first", [True, False])
def test_a_sub_agents_session_is_linked_to_who_spawned_it(
    memory: Repository, tmp_path: Path, child_first: bool
) -> None:
    for own, parent in (("b", "a"), ("a", None)) if child_first else (("a", None), ("b", "a")):
        database(tmp_path / f"{own}.db", own=own, parent=parent)
        import_path(memory, tmp_path / f"{own}.db", final=True)
    assert {record.id: record.spawned_by for record in memory.list()} == {"goose:a": None, "goose:b": "goose:a"}


def test_a_failed_call_is_an_error_and_a_damaged_row_is_reported(memory: Repository, tmp_path: Path) -> None:
    failed = {
        **MESSAGES[2],
        "content": [{"type": "toolResponse", "id": "c1", "toolResult": {"status": "error", "error": "no"}}],
    }
    database(tmp_path / "s.db", [MESSAGES[0], MESSAGES[1], failed])
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        db.execute("UPDATE messages SET content_json = '[{\"type\"' WHERE message_id = 'm1'")
        db.commit()
    report = import_path(memory, tmp_path / "s.db", final=True)
    assert any("content_json cannot be read" in problem.reason for problem in report.problems)
    assert [result.is_error for turn in memory.load("goose:20260801_1").turns for result in turn.tool_results] == [True]


def test_a_file_that_says_nothing_is_no_session(memory: Repository) -> None:
    report = import_bytes(memory, json.dumps({**INFO, "conversation": []}).encode())
    assert (list(memory.list()), report.turns_added) == ([], 0)
    with pytest.raises(InvalidInput, match="no transcript"):
        import_bytes(memory, b'{"working_dir": "/w"}')


def test_a_command_logged_in_milliseconds_stands_where_it_was_run(memory: Repository, tmp_path: Path) -> None:
    logged = {**MESSAGES[0], "id": "t1", "created": 1785578401000, "content": [{"type": "text", "text": "$ ls"}]}
    database(tmp_path / "s.db", [MESSAGES[0], logged])
    import_path(memory, tmp_path / "s.db", final=True)
    database(tmp_path / "s.db", [MESSAGES[0], logged, *MESSAGES[1:3]])
    report = import_path(memory, tmp_path / "s.db", final=True)
    assert (report.grown, report.changed) == (["goose:20260801_1"], [])
    turns = memory.load("goose:20260801_1").turns
    assert [turn.role for turn in turns] == ["user", "user", "assistant", "tool"]
    assert turns[1].time == turns[2].time


def test_the_oldest_sessions_name_no_folder(memory: Repository, tmp_path: Path) -> None:
    head = {"description": "Look around", "message_count": 3}
    (tmp_path / "20250101_120000.jsonl").write_text("\n".join(map(json.dumps, (head, *MESSAGES[:3]))))
    report = import_path(memory, tmp_path / "20250101_120000.jsonl", final=True)
    assert report.sessions_created == ["goose:20250101_120000"]
    assert [len(turn.tool_calls) for turn in memory.load("goose:20250101_120000").turns] == [0, 1, 0]


def test_a_damaged_database_is_refused_in_words(memory: Repository, tmp_path: Path) -> None:
    said = [{"type": "text", "text": "x" * 900}]
    database(tmp_path / "s.db", [{**MESSAGES[0], "id": f"m{i}", "content": said} for i in range(200)])
    whole = (tmp_path / "s.db").read_bytes()
    (tmp_path / "s.db").write_bytes(whole[:-40960] + b"\xff" * 40960)
    with pytest.raises(InvalidInput, match="SQLite database that cannot be read"):
        import_path(memory, tmp_path / "s.db", final=True)
    assert list(memory.list()) == []
