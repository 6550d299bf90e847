"""OpenClaw's agents since 2026.8: entries and transcripts in a database, beside files of before, and while it is written to."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.accounts import unaccounted
from trails import Repository
from trails.errors import InvalidInput
from trails.exchange.file_import import import_path
from trails.exchange.openclaw import openclaw_files
from trails.model.content_parts import plain_text

pytestmark = pytest.mark.any_store

Json = dict[str, Any]
MAIN, CHILD = "agent:main:main", "agent:main:subagent:c-1"
START = 1_790_000_000_000
SCHEMA = """
    CREATE TABLE auth_profile_store (store_key TEXT PRIMARY KEY, store_json TEXT NOT NULL);
    INSERT INTO auth_profile_store VALUES ('primary', '{"key": "a secret that nobody may ever read"}');
    CREATE TABLE session_nodes (session_key TEXT NOT NULL PRIMARY KEY, current_session_id TEXT NOT NULL,
        entry_json TEXT NOT NULL, updated_at INTEGER NOT NULL, spawned_by TEXT) STRICT;
    CREATE TABLE session_windows (session_id TEXT NOT NULL PRIMARY KEY, session_key TEXT NOT NULL, previous_session_id TEXT,
        reason TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;
    CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT, event_zstd BLOB,
        created_at INTEGER NOT NULL, PRIMARY KEY (session_id, seq)) STRICT;
"""


def header(own: str, **more: Any) -> Json:
    return {
        "type": "session",
        "version": 3,
        "id": own,
        "timestamp": "2026-09-21T10:00:00.000Z",
        "cwd": "/home/ada",
        **more,
    }


def message(own: str, parent: str | None, role: str, text: str) -> Json:
    said = {"role": role, "content": [{"type": "text", "text": text}]}
    at = {"id": own, "parentId": parent, "timestamp": "2026-09-21T10:00:01.000Z"}
    return {"type": "message", **at, "message": said}


TALK = [
    header("m-1"),
    message("a1", None, "user", "Plan a trip to somewhere warm"),
    message("a2", "a1", "assistant", "Where would you like to go?"),
]
SENT = [
    header("c-1"),
    message("b1", None, "user", "Look up the weather, please"),
    message("b2", "b1", "assistant", "Sunny"),
]
ENTRIES = {
    MAIN: {"sessionId": "m-1", "updatedAt": START, "displayName": "the main conversation", "chatType": "direct"},
    CHILD: {"sessionId": "c-1", "updatedAt": START + 1, "spawnedBy": MAIN},
}


def state(place: Path, transcripts: dict[str, list[Json]], entries: dict[str, Json], agent: str = "main") -> Path:
    file = place / "agents" / agent / "agent" / "openclaw-agent.sqlite"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as db:
        fill(db, transcripts, entries)
    return file


def fill(db: sqlite3.Connection, transcripts: dict[str, list[Json]], entries: dict[str, Json]) -> None:
    db.executescript(SCHEMA)
    for key, entry in entries.items():
        row = (key, entry["sessionId"], json.dumps(entry), entry["updatedAt"], entry.get("spawnedBy"))
        db.execute("INSERT INTO session_nodes VALUES (?, ?, ?, ?, ?)", row)
    for own, lines in transcripts.items():
        db.execute(
            "INSERT INTO session_windows VALUES (?, ?, NULL, 'initial', ?, ?)", (own, f"key of {own}", START, START)
        )
        for seq in reversed(range(len(lines))):  # rows stand in no order
            add(db, own, seq, lines[seq])
    db.commit()


def add(db: sqlite3.Connection, own: str, seq: int, event: Json) -> None:
    db.execute("INSERT INTO transcript_events VALUES (?, ?, ?, NULL, ?)", (own, seq, json.dumps(event), START + seq))


def said(store: Repository, own: str) -> list[tuple[str, str]]:
    return [(turn.role, plain_text(turn.content)) for turn in store.load(own).turns]


def test_entries_transcripts_and_who_spawned_whom_come_in_and_again_add_nothing(
    store: Repository, tmp_path: Path
) -> None:
    state(tmp_path, {"c-1": SENT, "m-1": TALK}, ENTRIES)
    report = import_path(store, tmp_path)
    assert (sorted(report.sessions_created), report.problems) == (["openclaw-main:c-1", "openclaw-main:m-1"], [])
    assert said(store, "openclaw-main:m-1") == [
        ("user", "Plan a trip to somewhere warm"),
        ("assistant", "Where would you like to go?"),
    ]
    assert trails.Router(store).session(MAIN).id == "openclaw-main:m-1"
    assert store.record("openclaw-main:c-1").spawned_by == "openclaw-main:m-1"
    assert unaccounted(store, report, [TALK, SENT]) == []
    again = import_path(store, tmp_path)
    assert (again.turns_added, again.sessions_created, again.problems) == (0, [], [])


@pytest.mark.parametrize(
    "at", ["agents", "agents/main", "agents/main/agent", "agents/main/agent/openclaw-agent.sqlite"]
)
def test_a_part_of_the_state_folder_is_enough(tmp_path: Path, at: str) -> None:
    state(tmp_path, {"m-1": TALK}, {MAIN: ENTRIES[MAIN]})
    with trails.open(":memory:") as store:
        report = import_path(store, tmp_path / at)
        assert (report.sessions_created, report.problems) == (["openclaw-main:m-1"], [])


def test_a_transcript_that_came_in_from_a_file_goes_on_in_the_database(store: Repository, tmp_path: Path) -> None:
    sessions = tmp_path / "old" / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "sessions.json").write_text(json.dumps({MAIN: ENTRIES[MAIN]}))
    (sessions / "m-1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in TALK))
    import_path(store, tmp_path / "old")
    grown = [*TALK, message("a3", "a2", "user", "To the sea")]
    state(tmp_path / "new", {"m-1": grown}, {MAIN: ENTRIES[MAIN] | {"updatedAt": START + 5}})
    report = import_path(store, tmp_path / "new")
    assert (report.grown, report.turns_added) == (["openclaw-main:m-1"], 1)
    # files that a migration left behind say nothing new
    state(tmp_path / "old", {"m-1": grown}, {MAIN: ENTRIES[MAIN] | {"updatedAt": START + 5}})
    report = import_path(store, tmp_path / "old")
    assert (report.turns_added, report.sessions_created, report.problems) == (0, [], [])
    assert sum("and counts" in note for note in report.notes) == 2


def test_a_database_that_is_written_to_stays_as_it_is_and_shows_what_was_committed(
    store: Repository, tmp_path: Path
) -> None:
    file = tmp_path / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        fill(db, {"m-1": TALK}, {MAIN: ENTRIES[MAIN]})
        add(db, "m-1", 3, message("a3", "a2", "user", "not committed"))
        before = {each.name: each.read_bytes() for each in file.parent.iterdir()}
        report = import_path(store, tmp_path)
        assert {each.name: each.read_bytes() for each in file.parent.iterdir()} == before
    assert (report.turns_added, report.problems) == (2, [])


def test_a_packed_event_is_unpacked(store: Repository, tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    file = state(tmp_path, {"m-1": TALK}, {MAIN: ENTRIES[MAIN]})
    packed = zstandard.ZstdCompressor().compress(json.dumps(message("a3", "a2", "user", "To the sea")).encode())
    with closing(sqlite3.connect(file)) as db:
        db.execute("INSERT INTO transcript_events VALUES ('m-1', 3, NULL, ?, 0)", (packed,))
        db.execute("INSERT INTO transcript_events VALUES ('m-1', 4, NULL, ?, 0)", (packed[:9],))
        db.execute("INSERT INTO transcript_events VALUES ('m-1', 5, NULL, NULL, 0)")
        db.commit()
    report = import_path(store, tmp_path)
    assert said(store, "openclaw-main:m-1")[-1] == ("user", "To the sea")
    assert sum("the event 4" in each.reason or "the event 5" in each.reason for each in report.problems) == 2


def test_what_a_database_holds_beside_is_not_read_and_one_without_transcripts_says_nothing(
    store: Repository, tmp_path: Path
) -> None:
    file = state(tmp_path, {"m-1": TALK}, {MAIN: ENTRIES[MAIN]})
    import_path(store, tmp_path)
    dump = json.dumps([turn.to_dict() for turn in store.load("openclaw-main:m-1").turns], default=str)
    assert "nobody may ever read" not in dump
    with closing(sqlite3.connect(file)) as db:
        db.executescript("DROP TABLE transcript_events; DROP TABLE session_nodes; DROP TABLE session_windows;")
    assert openclaw_files.find_layout(file) is None
    report = import_path(store, tmp_path)
    assert (report.problems, report.turns_added) == ([], 0)


def test_a_damaged_database_and_odd_rows_are_problems_in_words(tmp_path: Path) -> None:
    many = [header("m-1"), *(message(f"a{n}", f"a{n - 1}" if n else None, "user", "x" * 900) for n in range(30))]
    whole = state(tmp_path, {"m-1": many}, ENTRIES).read_bytes()
    file = tmp_path / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    for at in range(4096, len(whole), 4096 * 2):
        file.write_bytes(whole[:at] + b"\xff" * 4096 + whole[at + 4096 :])
        with trails.open(":memory:") as store:
            try:
                report = import_path(store, tmp_path)
            except InvalidInput:
                continue
            assert report.problems or report.turns_added == 30
    file = state(
        tmp_path,
        {"m-1": [*TALK, {"type": "message"}], "../x": TALK, "e": []},
        ENTRIES | {"odd": {"sessionId": "../y", "updatedAt": 1}},
    )
    with closing(sqlite3.connect(file)) as db:
        db.execute("UPDATE session_nodes SET entry_json = '[1]' WHERE session_key = ?", (CHILD,))
        db.commit()
    with trails.open(":memory:") as store:
        report = import_path(store, tmp_path)
        assert said(store, "openclaw-main:m-1")[0] == ("user", "Plan a trip to somewhere warm")
        assert len(report.problems) == 4
