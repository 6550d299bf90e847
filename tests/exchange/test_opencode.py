"""opencode's sessions: the same from its export, its folder and its database; nothing twice, nothing lost, nothing raised."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.accounts import unaccounted
from trails import Repository, Turn
from trails.errors import InvalidInput
from trails.exchange.coding_agents import opencode
from trails.exchange.file_import import import_path
from trails.exchange.source_transcript import ImportReport
from trails.model.content_parts import plain_text
from trails.model.values import Compaction
from trails.usage import cost_of, counts_of

pytestmark = pytest.mark.any_store

Json = dict[str, Any]
START = 1_785_578_400_000
FORMS = ("export", "folder", "database")


def session(own: str = "ses_1", n: int = 0, **more: Any) -> Json:
    time = {"created": START + n, "updated": START + 9_000}
    told = {"slug": "calm-otter", "projectID": "p1", "directory": "/home/ada", "title": f"Title of {own}"}
    return {"id": own, **told, "version": "1.2.3", "time": time, **more}


def user(own: str, n: int, *parts: Json, of: str = "ses_1", **more: Any) -> Json:
    model = {"providerID": "openai", "modelID": "gpt-5.3"}
    info = {
        "id": own,
        "sessionID": of,
        "role": "user",
        "time": {"created": START + n},
        "agent": "build",
        "model": model,
    }
    return message(info | more, parts or (text(f"Question {own}"),))


def assistant(own: str, n: int, *parts: Json, of: str = "ses_1", **more: Any) -> Json:
    info: Json = {
        "id": own,
        "sessionID": of,
        "role": "assistant",
        "parentID": "msg_1",
        "mode": "build",
        "agent": "build",
    }
    info |= {"modelID": "gpt-5.3", "providerID": "openai", "cost": 0.01, "finish": "stop"}
    info |= {"tokens": {"input": 10, "output": 5, "reasoning": 3, "cache": {"read": 90, "write": 2}}}
    info |= {"path": {"cwd": "/home/ada/work-in-progress", "root": "/home/ada"}}
    info |= {"time": {"created": START + n, "completed": START + n + 500}}
    return message(info | more, parts or (text(f"Answer {own}"),))


def message(info: Json, parts: Sequence[Json]) -> Json:
    ids = {"sessionID": info["sessionID"], "messageID": info["id"]}
    numbered = [{"id": f"prt_{info['id'][4:]}_{n}"} | ids | part for n, part in enumerate(parts)]
    return {"info": {key: value for key, value in info.items() if value is not None}, "parts": numbered}


def text(said: str, **more: Any) -> Json:
    return {"type": "text", "text": said, **more}


def tool(call: str, n: int = 0, **state: Any) -> Json:
    done: Json = {"status": "completed", "input": {"command": "ls"}, "output": f"files of {call}"}
    done |= {"title": "List all the files in here"}
    ran = {"metadata": {"exit": 0}, "time": {"start": START + n, "end": START + n + 50}}
    return {"type": "tool", "callID": call, "tool": "bash", "state": done | ran | state}


def exported(info: Json, *messages: Json, **more: Any) -> Json:
    return {"info": info, "messages": list(messages), **more}


def written(place: Path, form: str, *sessions: Json) -> Path:
    """Write sessions as a form of opencode has them, and return what is to be imported."""
    place.mkdir(exist_ok=True)
    if form == "export":
        for each in sessions:
            (place / f"{each['info']['id']}.json").write_text(json.dumps(each, indent=2))
        return place
    if form == "folder":
        for each in sessions:
            put(place / "storage" / "session" / "p1" / f"{each['info']['id']}.json", each["info"])
            for held in each["messages"]:
                info = held["info"]
                put(place / "storage" / "message" / info["sessionID"] / f"{info['id']}.json", info)
                for part in held["parts"]:
                    put(place / "storage" / "part" / info["id"] / f"{part['id']}.json", part)
        return place
    file = place / "opencode.db"
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as db:
        fill(db, *sessions)
    return file


def put(file: Path, value: Json) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


def fill(db: sqlite3.Connection, *sessions: Json) -> None:
    db.executescript(
        """CREATE TABLE project (id text PRIMARY KEY, worktree text NOT NULL);
        CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL,
            directory text NOT NULL, title text NOT NULL, version text NOT NULL, share_url text, summary_additions integer,
            revert text, time_created integer NOT NULL, time_updated integer NOT NULL);
        CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
            time_updated integer NOT NULL, data text NOT NULL);
        CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
            time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
        CREATE INDEX part_session_idx ON part (session_id);
        CREATE TABLE session_message (id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL,
            seq integer NOT NULL, time_created integer NOT NULL, data text NOT NULL);
        INSERT INTO project VALUES ('p1', '/home/ada');"""
    )
    for each in sessions:
        info = each["info"]
        revert = json.dumps(info["revert"]) if "revert" in info else None
        times = info["time"]["created"], info["time"]["updated"]
        told = info["projectID"], info.get("parentID"), info["slug"], info["directory"], info["title"], info["version"]
        db.execute(
            "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, revert, time_created, "
            "time_updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (info["id"], *told, revert, *times),
        )
        for held in each["messages"]:
            add_message(db, held)
    db.commit()


def add_message(db: sqlite3.Connection, held: Json) -> None:
    said = held["info"]
    kept = {key: value for key, value in said.items() if key not in ("id", "sessionID")}
    at = said["time"]["created"]
    db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (said["id"], said["sessionID"], at, at, json.dumps(kept)))
    for part in held["parts"]:
        data = {key: value for key, value in part.items() if key not in ("id", "sessionID", "messageID")}
        row = (part["id"], said["id"], said["sessionID"], at, at, json.dumps(data))
        db.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)


def said(store: Repository, own: str) -> list[tuple[str, str]]:
    return [(turn.role, plain_text(turn.content)) for turn in store.load(own).turns]


def stopped(turn: Turn) -> str | None:
    call = turn.facts.model_call
    return call.stop_reason if call else None


def added(report: ImportReport) -> tuple[int, int, int, list[str]]:
    return (
        len(report.sessions_created),
        len(report.forks_created) + len(report.changed),
        report.turns_added,
        [problem.reason for problem in report.problems],
    )


STEP = {"type": "step-finish", "reason": "tool-calls", "cost": 0.004}
TALK = exported(
    session(),
    user("msg_1", 0, text("Look around, please, and tell me")),
    assistant(
        "msg_2",
        1000,
        {"type": "step-start", "snapshot": "5f" * 20},
        {"type": "reasoning", "text": "The user wants a look around", "time": {"start": START + 1000}},
        text("I look around first"),
        tool("c1", 1100),
        tool("c2", 1200, status="error", error="there is no such command here"),
        STEP | {"tokens": {"input": 10, "output": 5, "reasoning": 3, "cache": {"read": 90, "write": 2}, "total": 110}},
        {"type": "patch", "hash": "ab" * 20, "files": ["/home/ada/changed-by-the-step.txt"]},
        finish="tool-calls",
    ),
    assistant("msg_3", 2000, text("There are two files")),
)
SAID = [
    ("user", "Look around, please, and tell me"),
    ("assistant", 'I look around first\n[calls bash {"command": "ls"}]\n[calls bash {"command": "ls"}]'),
    ("tool", "files of c1\nthere is no such command here"),
    ("assistant", "There are two files"),
]


# --- one session in every form


@pytest.mark.parametrize("form", FORMS)
def test_a_session_is_the_same_from_each_form_comes_in_once_and_loses_no_text(
    store: Repository, tmp_path: Path, form: str
) -> None:
    report = import_path(store, written(tmp_path / form, form, TALK))
    assert added(report) == (1, 0, 4, [])
    turns = store.load("opencode:ses_1").turns
    assert [turn.role for turn in turns] == [role for role, _ in SAID]
    assert all(each in turns[1].text for each in ("I look around first", "The user wants a look around"))
    assert [(call.id, call.name) for call in turns[1].tool_calls] == [("c1", "bash"), ("c2", "bash")]
    assert [(each.call_id, each.is_error) for each in turns[2].tool_results] == [("c1", False), ("c2", True)]
    assert unaccounted(store, report, TALK) == []
    again = import_path(store, tmp_path / form)
    assert added(again) == (0, 0, 0, [])


@pytest.mark.parametrize("first", FORMS)
@pytest.mark.parametrize("then", FORMS)
def test_what_came_in_from_one_form_is_known_in_another(
    store: Repository, tmp_path: Path, first: str, then: str
) -> None:
    import_path(store, written(tmp_path / first, first, TALK))
    grown = TALK | {"messages": [*TALK["messages"], user("msg_4", 3000), assistant("msg_5", 4000)]}
    report = import_path(store, written(tmp_path / f"{then}-then", then, grown))
    assert added(report) == (0, 0, 2, [])
    assert said(store, "opencode:ses_1")[-2:] == [("user", "Question msg_4"), ("assistant", "Answer msg_5")]


def test_usage_leaves_out_what_was_cached_and_each_step_counts_once(store: Repository, tmp_path: Path) -> None:
    tokens = {"input": 4, "output": 2, "reasoning": 1, "cache": {"read": 6, "write": 0}}
    steps = [
        {"type": "step-start"},
        tool("c1"),
        STEP | {"tokens": tokens, "cost": 0.25},
        {"type": "step-start"},
        text("done"),
        STEP | {"tokens": tokens | {"input": 7}, "cost": 0.5, "reason": "stop"},
    ]
    talk = exported(session(), user("msg_1", 0), assistant("msg_2", 1, *steps, cost=0.75), assistant("msg_3", 2))
    import_path(store, written(tmp_path / "one", "export", talk))
    turns = [turn for turn in store.load("opencode:ses_1").turns if turn.role == "assistant"]
    counts = [counts_of(turn.usage) for turn in turns]
    assert [(each.input, each.cache_read, each.cache_write) for each in counts] == [(4, 6, 0), (7, 6, 0), (10, 90, 2)]
    assert [(each.output, each.reasoning) for each in counts] == [(3, 1), (3, 1), (8, 3)]
    assert [float(cost_of(turn.usage) or 0) for turn in turns] == [0.25, 0.5, 0.01]
    assert [stopped(turn) for turn in turns] == ["tool-calls", "stop", "stop"]
    assert {turn.model for turn in turns} == {"gpt-5.3"}


# --- sub-agents, forks, what was undone, summaries


@pytest.mark.parametrize("form", FORMS)
def test_a_session_of_a_task_is_spawned_whatever_the_order_of_the_rows(
    store: Repository, tmp_path: Path, form: str
) -> None:
    child = exported(
        session("ses_0", n=-5, parentID="ses_1"), user("msg_8", 0, of="ses_0"), assistant("msg_9", 1, of="ses_0")
    )
    import_path(store, written(tmp_path / form, form, child, TALK))
    assert store.record("opencode:ses_0").spawned_by == "opencode:ses_1"
    assert len(store.load("opencode:ses_0").turns) == 2


@pytest.mark.parametrize("form", FORMS)
def test_a_copy_under_new_ids_is_a_fork_of_the_session_that_it_was_made_of(
    store: Repository, tmp_path: Path, form: str
) -> None:
    renamed = json.loads(json.dumps(TALK["messages"][:2]).replace("msg_", "msg_7").replace("ses_1", "ses_2"))
    for held in renamed:
        for part in held["parts"]:
            part["id"] = f"prt_7{part['id'][4:]}"
    copy = exported(
        session("ses_2", n=3000, title="Title of ses_1 (fork #1)"), *renamed, user("msg_79", 5000, of="ses_2")
    )
    place = written(tmp_path / form, form, TALK, copy)
    import_path(store, place)
    fork = store.record("opencode:ses_2")
    assert (fork.parent_session_id, fork.forked_at_index) == ("opencode:ses_1", 3)
    assert said(store, "opencode:ses_2") == [*said(store, "opencode:ses_1")[:3], ("user", "Question msg_79")]
    assert added(import_path(store, place)) == (0, 0, 0, [])


@pytest.mark.parametrize("form", FORMS)
def test_what_was_undone_is_a_fork_and_what_is_said_instead_goes_on(
    store: Repository, tmp_path: Path, form: str
) -> None:
    place, undone = tmp_path / form, {"messageID": "msg_3", "snapshot": "cd" * 20, "diff": "--- a/file +++ b/file"}
    report = import_path(store, written(place, form, TALK | {"info": session(revert=undone)}))
    assert added(report) == (1, 1, 4, [])
    [fork] = report.forks_created
    assert [role for role, _ in said(store, "opencode:ses_1")] == ["user", "assistant", "tool"]
    assert said(store, fork)[-1] == ("assistant", "There are two files")
    assert unaccounted(store, report, undone) == []
    assert added(import_path(store, place)) == (0, 0, 0, [])


def test_a_summary_says_from_where_on_the_session_is_kept_and_what_asked_for_it(
    store: Repository, tmp_path: Path
) -> None:
    asked = user("msg_4", 3000, {"type": "compaction", "auto": True, "tail_start_id": "msg_3"})
    summed = assistant("msg_5", 4000, text("What we did so far: we looked"), summary=True, mode="compaction")
    talk = exported(session(), *TALK["messages"], asked, summed, user("msg_6", 5000))
    import_path(store, written(tmp_path / "one", "export", talk))
    turn = store.load("opencode:ses_1").turns[4]
    assert turn.role == "summary"
    assert turn.compaction == Compaction(summarised_through=2, first_kept=3, trigger="auto")
    assert turn.meta["opencode"]["before"][0]["message"]["id"] == "msg_4"


# --- files that grow, are cut, or are hostile


@pytest.mark.parametrize("form", FORMS)
def test_a_message_that_is_not_whole_is_kept_back_and_comes_in_once(
    store: Repository, tmp_path: Path, form: str
) -> None:
    now = int(time.time() * 1000) - START
    begun = assistant("msg_2", now, tool("c1", now, status="running", output=None), time={"created": START + now})
    first = exported(session(), user("msg_1", now - 5), begun)
    report = import_path(store, written(tmp_path / form, form, first))
    assert (report.turns_added, report.turns_held) == (1, 1)
    whole = exported(session(), user("msg_1", now - 5), assistant("msg_2", now, tool("c1", now), text("done")))
    assert added(import_path(store, written(tmp_path / form, form, whole))) == (0, 0, 3, [])
    assert [role for role, _ in said(store, "opencode:ses_1")] == ["user", "assistant", "tool", "assistant"]


def test_a_running_tool_that_was_taken_gets_its_answer_later(store: Repository, tmp_path: Path) -> None:
    running = exported(session(), user("msg_1", 0), assistant("msg_2", 1, tool("c1", status="running", output=None)))
    import_path(store, written(tmp_path / "one", "export", running), final=True)
    done = exported(session(), user("msg_1", 0), assistant("msg_2", 1, tool("c1")), user("msg_3", 9))
    report = import_path(store, written(tmp_path / "one", "export", done))
    assert added(report) == (0, 0, 2, [])
    assert [role for role, _ in said(store, "opencode:ses_1")] == ["user", "assistant", "tool", "user"]


def test_a_damaged_database_is_a_problem_in_words(store: Repository, tmp_path: Path) -> None:
    many = [user(f"msg_{n:03}", n, text("x" * 700)) for n in range(40)]
    whole = written(tmp_path / "db", "database", exported(session(), *many)).read_bytes()
    file = tmp_path / "broken.db"
    for at in range(4096, len(whole), 4096 * 3):
        file.write_bytes(whole[:at] + b"\xff" * 4096 + whole[at + 4096 :])
        with trails.open(":memory:") as fresh:
            try:
                report = import_path(fresh, file)
            except InvalidInput as error:
                refused = f"{error}"
            else:
                refused = "" if report.turns_added == 40 else report.problems[0].reason
            assert not refused or "SQLite" in refused or "damaged" in refused or "is not JSON" in refused
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInput):
        import_path(store, file)


# --- databases


def test_a_database_that_is_written_to_is_read_as_of_its_last_commit_and_stays_as_it_is(
    store: Repository, tmp_path: Path
) -> None:
    file = tmp_path / "opencode" / "opencode.db"
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        fill(db, TALK)
        add_message(db, user("msg_4", 3000))
        db.commit()
        add_message(db, user("msg_5", 4000))  # not committed
        before = {each.name: each.read_bytes() for each in file.parent.iterdir()}
        report = import_path(store, file)
        assert {each.name: each.read_bytes() for each in file.parent.iterdir()} == before
    assert added(report) == (1, 0, 5, [])
    assert said(store, "opencode:ses_1")[-1] == ("user", "Question msg_4")


def test_a_database_at_rest_leaves_nothing_beside_it_and_may_stand_where_nobody_may_write(
    store: Repository, tmp_path: Path
) -> None:
    file = written(tmp_path / "db", "database", TALK)
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    file.chmod(0o400)
    file.parent.chmod(0o500)
    before = file.parent.stat().st_mtime_ns  # of a folder: when a file was last made in it, or removed
    try:
        assert added(import_path(store, file.parent)) == (1, 0, 4, [])
        assert ([each.name for each in file.parent.iterdir()], file.parent.stat().st_mtime_ns) == (
            ["opencode.db"],
            before,
        )
    finally:
        file.parent.chmod(0o700)


def test_a_database_of_another_program_is_named_and_not_guessed_at(store: Repository, tmp_path: Path) -> None:
    file = tmp_path / "opencode.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE session (id text, messages text)")
        db.commit()
    with pytest.raises(InvalidInput, match="SQLite database"):
        import_path(store, file)


def test_messages_of_the_newest_versions_follow_those_of_the_older_ones(store: Repository, tmp_path: Path) -> None:
    file = written(tmp_path / "db", "database", TALK)
    later = [
        ("msg_3x", "assistant", START + 2000, {"content": [], "time": {"created": START + 2000}}),
        ("msg_6", "agent-switched", START + 5000, {"agent": "a-plan-of-its-own-making"}),
        (
            "msg_7",
            "user",
            START + 6000,
            {"text": "Go on, please", "files": [{"uri": "file:///home/ada/notes-of-mine.md"}]},
        ),
        (
            "msg_8",
            "assistant",
            START + 7000,
            {
                "agent": "build",
                "model": {"id": "gpt-6", "providerID": "openai"},
                "content": [
                    {"type": "reasoning", "text": "It wants me to go on"},
                    {
                        "type": "tool",
                        "id": "c9",
                        "name": "read",
                        "state": {
                            "status": "completed",
                            "input": {"path": "notes"},
                            "content": [{"type": "text", "text": "what the notes say"}],
                            "structured": {"seen": "a line that is only here"},
                        },
                        "time": {"created": START + 7000, "ran": START + 7001, "completed": START + 7002},
                    },
                ],
                "finish": "tool-calls",
                "cost": 0.5,
                "tokens": {"input": 1, "output": 2, "reasoning": 0, "cache": {"read": 3, "write": 0}},
                "time": {"created": START + 7000, "completed": START + 7100},
            },
        ),
        ("msg_9", "compaction", START + 8000, {"reason": "auto", "summary": "All of it in short", "recent": "the end"}),
    ]
    with closing(sqlite3.connect(file)) as db:
        for seq, (own, kind, at, data) in enumerate(later):
            row = (own, "ses_1", kind, seq, at, json.dumps(data))
            db.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?)", row)
        db.commit()
    report = import_path(store, file)
    assert [role for role, _ in said(store, "opencode:ses_1")[4:]] == ["user", "assistant", "tool", "summary"]
    turns = store.load("opencode:ses_1").turns
    assert (turns[5].model, stopped(turns[5]), counts_of(turns[5].usage).input) == ("gpt-6", "tool-calls", 1)
    assert turns[6].tool_results[0].call_id == "c9"
    assert turns[7].facts.compaction == Compaction(summarised_through=6, trigger="auto")
    assert any("repeat what `message` says" in note for note in report.notes)
    assert unaccounted(store, report, [list(each) for each in later]) == []
    assert added(import_path(store, file)) == (0, 0, 0, [])


# --- which files


def test_exports_are_told_from_what_only_looks_like_them() -> None:
    assert opencode.sniff(json.dumps(TALK).encode())
    assert opencode.sniff(json.dumps(TALK["messages"]).encode())
    assert not opencode.sniff(b'{"info": {"instance": "ses_1"}, "messages": [{"role": "user", "content": "x"}]}')
    assert not opencode.sniff(b'{"messages": [{"role": "user", "content": "info"}]}')


def test_a_session_file_of_the_folder_brings_its_messages_and_a_message_alone_says_what_it_lacks(
    store: Repository, tmp_path: Path
) -> None:
    place = written(tmp_path / "folder", "folder", TALK) / "storage"
    assert added(import_path(store, place / "session" / "p1" / "ses_1.json")) == (1, 0, 4, [])
    with trails.open(":memory:") as other:
        report = import_path(other, place / "part" / "msg_1" / "prt_1_0.json")
    assert added(report)[:3] == (0, 0, 0)
    assert "which is not there" in report.problems[0].reason
