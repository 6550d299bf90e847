"""OpenClaw's state folder: imported whole, exported whole, and nothing of it lost in silence."""

from __future__ import annotations

import contextlib
import json
import shutil
import stat
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.commands import invoke
from tests.support.machines import examples
from trails import InvalidInput, Repository, Router, TrailsError
from trails.exchange.file_import import import_path
from trails.exchange.openclaw.openclaw_export import export_folder
from trails.exchange.openclaw.openclaw_folder import import_folder
from trails.exchange.source_transcript import ImportReport
from trails.runtime.policy import from_ms
from trails.runtime.runs import Runs
from trails.runtime.runs.run_registry import Registry

pytestmark = pytest.mark.any_store

START = 1_769_594_400_000  # 2026-01-28T10:00:00Z
MAIN, OPS = "agent:main:main", "agent:ops:main"
GROUP = "agent:main:telegram:group:-1001"
TOPIC = f"{GROUP}:topic:7"
THREAD = "agent:main:slack:channel:c1:thread:1700.1"
CHILD, HELPER = "agent:main:subagent:5f0c", "agent:ops:subagent:77aa"

STATE: dict[str, Any] = json.loads(
    Path(__file__).with_name("samples").joinpath("openclaw_state.json").read_text("utf-8")
)
"""A state folder: the entries and the transcripts of two agents, and the runs of sub-agents."""
ENTRIES, RUNS, TRANSCRIPTS = STATE["entries"], STATE["runs"], STATE["transcripts"]


def header(session_id: str, **more: Any) -> dict[str, Any]:
    time = "2026-01-28T10:00:00.000Z"
    return {"type": "session", "version": 3, "id": session_id, "timestamp": time, "cwd": "/home/someone/clawd", **more}


def line(number: int, parent: int | None, message: Mapping[str, Any], tag: str = "a") -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"{tag}{number:07x}",
        "parentId": None if parent is None else f"{tag}{parent:07x}",
        "timestamp": f"2026-01-28T10:00:{number:02d}.000Z",
        "message": dict(message),
    }


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": START}


def said(text: str) -> dict[str, Any]:
    usage = {"input": 60, "output": 20, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 80}
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-opus-4-5",
        "usage": usage,
        "stopReason": "stop",
        "timestamp": START,
    }


MIRROR = {
    "role": "assistant",
    "content": [{"type": "text", "text": "Sent to you: in May."}],
    "api": "openai-responses",
    "provider": "clawdbot",
    "model": "delivery-mirror",
    "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0},
    "stopReason": "stop",
    "timestamp": START,
}
TALK = [line(1, None, user("When do we go?")), line(2, 1, said("In May.")), line(3, 2, MIRROR)]


def chat(session_id: str, *texts: str, tag: str) -> list[dict[str, Any]]:
    lines = [header(session_id)]
    for number, text in enumerate(texts, start=1):
        message = user(text) if number % 2 else said(text)
        lines.append(line(number, number - 1 or None, message, tag))
    return lines


def as_lines(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in lines)


def write(state: Path) -> Path:
    """Write the whole folder of the tests, and return it."""
    for agent, entries in ENTRIES.items():
        folder = state / "agents" / agent / "sessions"
        folder.mkdir(parents=True)
        (folder / "sessions.json").write_text(json.dumps(entries, ensure_ascii=False, indent=2), "utf-8")
        for name, lines in TRANSCRIPTS[agent].items():
            (folder / f"{name}.jsonl").write_text(as_lines(lines), "utf-8")
    (state / "subagents").mkdir()
    (state / "subagents" / "runs.json").write_text(json.dumps(RUNS), "utf-8")
    return state


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with two agents, a group with topics, a thread, sub-agents, and everything that may go wrong gently."""
    return write(tmp_path / "state")


def reasons(report: ImportReport) -> str:
    return "\n".join(problem.reason for problem in report.problems)


def change(state: Path, key: str, agent: str = "main", **fields: Any) -> None:
    """Change an entry of a folder, as OpenClaw does; None takes a field away."""
    file = state / "agents" / agent / "sessions" / "sessions.json"
    entries = json.loads(file.read_text("utf-8"))
    entry = entries.setdefault(key, {}) | fields
    entries[key] = {name: value for name, value in entry.items() if value is not None}
    file.write_text(json.dumps(entries), "utf-8")


# --- in


def test_every_entry_becomes_a_session_by_key_with_all_its_fields(store: Repository, state: Path) -> None:
    import_path(store, state)
    router = Router(store)
    for entries in ENTRIES.values():
        for key, entry in entries.items():
            assert router.entry(key if key.startswith("agent:") else f"agent:main:{key}") == entry
    assert router.resolve(label="desk") == MAIN
    assert store.verify().ok


SPOKEN = [
    (GROUP, "openclaw-main:g-1", ["Hello all", "Hello"]),
    (OPS, "openclaw-ops:m-1", ["Another agent's file of the same name"]),
    (TOPIC, "openclaw-main:g-1-topic-7", ["About hotels"]),
]
"""Keys of the state folder, the sessions that they name, and what is said there."""


def test_transcripts_become_the_turns_of_their_sessions(store: Repository, state: Path) -> None:
    report = import_path(store, state)
    router = Router(store)
    for key, name, texts in SPOKEN:
        session = router.session(key)
        assert (session.id, [turn.content[0]["text"] for turn in session.turns]) == (name, texts)
    # m-1: 3, g-1: 2, topics: 1 and 1, the thread: 1 of its own, c-1: 2, old-1: 1; ops: 1 and 1.
    assert report.turns_added == 13
    assert (report.records["entry"], report.records["entry new"]) == (9, 9)
    thread = router.session(THREAD)  # shares what it was forked from
    assert (thread.parent_session_id, thread.forked_at_index, len(thread)) == ("openclaw-main:m-1", 3, 4)
    session = router.session(MAIN)  # a delivery mirror is a record that no model is shown, and counts nothing
    assert [turn.role for turn in session.turns] == ["user", "assistant", "delivery"]
    delivery = session.turns[2]
    assert (delivery.content, delivery.model, delivery.usage) == (MIRROR["content"], None, {})
    assert "Sent to you" not in json.dumps(session.context().openai())
    assert store.record("openclaw-main:c-1").spawned_by == "openclaw-main:m-1"
    assert store.record("openclaw-ops:h-1").spawned_by == "openclaw-main:c-1"
    one, two = Runs(store).list()
    assert (one.run_id, one.child_session, one.requester_session) == ("run-1", "openclaw-main:c-1", "openclaw-main:m-1")
    assert (one.outcome, one.ended, one.cleanup_handled) == ("ok", from_ms(START + 900), True)
    assert (two.run_id, two.outcome, two.cleanup, two.extra) == ("run-2", None, "delete", {"tomorrow": [1]})


def test_runs_of_version_1_are_read(store: Repository, state: Path) -> None:
    kept: dict[str, Any] = {
        "runId": "run-legacy",
        "childSessionKey": CHILD,
        "requesterSessionKey": MAIN,
        "requesterDisplayKey": "main",
    }
    kept |= {"task": "old", "cleanup": "keep", "createdAt": 1}
    old = kept | {"announceCompletedAt": 9, "announceHandled": True}
    old |= {"requesterChannel": "whatsapp", "requesterAccountId": "legacy-account"}
    new = kept | {"cleanupCompletedAt": 9, "cleanupHandled": True}
    new |= {"requesterOrigin": {"channel": "whatsapp", "accountId": "legacy-account"}}
    (state / "subagents" / "runs.json").write_text(json.dumps({"version": 1, "runs": {"run-legacy": old}}))
    import_path(store, state)
    out = state.parent / "out"
    export_folder(store, out)
    written = json.loads((out / "subagents" / "runs.json").read_text())
    assert written == {"version": 2, "runs": {"run-legacy": new}}


def test_what_is_missing_or_has_no_entry_is_reported(store: Repository, state: Path) -> None:
    report = import_path(store, state)
    assert reasons(report) == (
        "the entry 'agent:ops:whatsapp:dm:+1555': its transcript gone.jsonl is not there; the entry is kept"
    )
    assert len(Router(store).session("agent:ops:whatsapp:dm:+1555")) == 0
    loose = next(note for note in report.notes if "no entry names" in note)
    assert loose.endswith("kept as sessions without a key: g-1-topic-8.jsonl, old-1.jsonl")
    assert store.record("openclaw-main:old-1").key is None


def test_each_way_to_name_the_folder_is_recognised(opener: Callable[[str], Repository], state: Path) -> None:
    ways = {".": 9, "agents": 9, "agents/main": 6, "agents/main/sessions": 6, "agents/main/sessions/sessions.json": 6}
    for number, (path, entries) in enumerate(ways.items()):
        with opener(f"{number}.trails") as store:
            assert import_path(store, state / path).records["entry"] == entries


def test_one_file_of_entries_brings_only_the_transcripts_that_it_names(memory: Repository, state: Path) -> None:
    import_path(memory, state / "agents" / "main" / "sessions" / "sessions.json")
    assert "openclaw-main:c-1" in memory
    assert "openclaw-main:old-1" not in memory


# --- again


def test_importing_again_adds_nothing(store: Repository, state: Path) -> None:
    import_path(store, state)
    before = set(store.store.quads((None, None, None, None)))
    report = import_path(store, state)
    assert (report.turns_added, report.sessions_created, report.forks_created) == (0, [], [])
    assert report.records["entry unchanged"] == 9
    assert (report.records["run new"], report.records["run changed"]) == (0, 0)
    assert set(store.store.quads((None, None, None, None))) == before


def test_what_grew_goes_on(store: Repository, state: Path) -> None:
    import_path(store, state)
    with (state / "agents" / "main" / "sessions" / "m-1.jsonl").open("a") as file:
        file.write(as_lines([line(4, 3, user("Fine."), "a") | {"id": "9999aaaa"}]))
    (state / "agents" / "ops" / "sessions" / "gone.jsonl").write_text(as_lines(chat("gone", "Here now", tag="2")))
    report = import_path(store, state)
    assert report.grown == ["openclaw-main:m-1", "openclaw-ops:gone"]
    assert len(Router(store).session("agent:ops:whatsapp:dm:+1555")) == 1
    assert report.problems == []
    export_folder(store, state.parent / "out")
    assert in_order(read_state(state.parent / "out")) == in_order(read_state(state))
    assert store.verify().ok


def test_an_entry_that_changed_is_changed_and_one_that_is_older_changes_nothing(store: Repository, state: Path) -> None:
    import_path(store, state)
    change(state, MAIN, updatedAt=START + 6_000, thinkingLevel="low", modelOverride=None, label="home")
    report = import_path(store, state)
    expected = {**ENTRIES["main"][MAIN], "updatedAt": START + 6_000, "thinkingLevel": "low", "label": "home"}
    del expected["modelOverride"], expected["another"]
    assert Router(store).entry(MAIN) == expected
    assert report.records["entry changed"] == 1
    assert f"{MAIN}: changed: another, label, modelOverride, thinkingLevel, updatedAt" in report.notes
    change(state, MAIN, updatedAt=START, thinkingLevel="minimal")
    report = import_path(store, state)
    assert report.records["entry older"] == 1
    assert Router(store).entry(MAIN)["thinkingLevel"] == "low"
    assert store.verify().ok


def test_a_key_that_began_anew_names_its_new_session_and_keeps_the_old_one(store: Repository, state: Path) -> None:
    import_path(store, state)
    (state / "agents" / "main" / "sessions" / "g-2.jsonl").write_text(as_lines(chat("g-2", "Anew", tag="3")))
    change(state, GROUP, sessionId="g-2", updatedAt=START + 50)
    report = import_path(store, state)
    router = Router(store)
    assert report.records["entry moved"] == 1
    assert sorted(router.sessions(GROUP)) == ["openclaw-main:g-1", "openclaw-main:g-2"]
    assert router.entry(GROUP)["sessionId"] == "g-2"
    assert store.verify().ok


def test_what_was_reset_here_stays_reset(store: Repository, state: Path) -> None:
    import_path(store, state)
    router = Router(store)
    new = router.reset(GROUP).session_id
    report = import_path(store, state)
    assert router.session(GROUP).id == new
    assert report.records["entry older"] == 1
    assert store.verify().ok


def test_a_run_that_ended_since_is_ended_here_and_never_goes_back(store: Repository, state: Path) -> None:
    import_path(store, state)
    file = state / "subagents" / "runs.json"
    later = json.loads(file.read_text())
    later["runs"]["run-2"] |= {"endedAt": START + 77, "outcome": {"status": "error", "error": "no model"}}
    earlier = file.read_text()
    file.write_text(json.dumps(later))
    assert import_path(store, state).records["run changed"] == 1
    run = Registry(store).get("run-2")
    assert (run.outcome, run.error, run.ended) == ("error", "no model", from_ms(START + 77))
    file.write_text(earlier)
    assert import_path(store, state).records["run changed"] == 0
    assert Registry(store).get("run-2").outcome == "error"
    assert store.verify().ok


def test_a_session_that_was_deleted_here_does_not_come_back(store: Repository, state: Path) -> None:
    import_path(store, state)
    store.delete("openclaw-main:cr-1")
    report = import_path(store, state)
    assert report.deleted == ["openclaw-main:cr-1"]
    assert any("'cron:daily'" in note and "deleted here" in note for note in report.notes)


# --- reported, never silent


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[1, 2]", "is not a JSON object but an array; none of its entries was imported"),
        ("{", "is not JSON"),
        ("", "is not JSON"),
        ('{"a": NaN}', "NaN is no JSON value"),
        ("\udcff", "is not UTF-8"),
    ],
)
def test_a_store_file_that_cannot_be_read_is_refused_and_its_transcripts_come(
    memory: Repository, state: Path, text: str, why: str
) -> None:
    (state / "agents" / "main" / "sessions" / "sessions.json").write_bytes(
        text.encode("utf-8", errors="surrogateescape")
    )
    report = import_path(memory, state)
    assert why in reasons(report)
    assert report.records["entry"] == 3  # those of the other agent
    assert "openclaw-main:m-1" in memory


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("text", "is not an object"),
        ({}, "has no sessionId"),
        ({"sessionId": 7}, "has no sessionId"),
        ({"sessionId": "../../etc/x"}, "cannot be the name of a file"),
        ({"sessionId": "x", "deep": json.loads("[" * 150 + "]" * 150)}, "nested deeper"),
    ],
)
def test_an_entry_that_is_none_is_reported_and_costs_nothing_else(
    memory: Repository, state: Path, entry: Any, why: str
) -> None:
    file = state / "agents" / "main" / "sessions" / "sessions.json"
    file.write_text(json.dumps({**ENTRIES["main"], "agent:main:bad": entry}))
    report = import_path(memory, state)
    assert "'agent:main:bad'" in reasons(report)
    assert why in reasons(report)
    assert report.records["entry new"] == 9


def test_a_label_that_two_sessions_have_stays_with_the_first_and_in_the_entry_of_the_other(
    store: Repository, state: Path
) -> None:
    change(state, OPS, "ops", label="desk")
    report = import_path(store, state)
    assert f"the entry '{OPS}': its label 'desk' belongs to '{MAIN}' already; it is kept in the entry only" in reasons(
        report
    )
    router = Router(store)
    assert router.entry(OPS)["label"] == "desk"
    assert store.list(label="desk")[0].id == "openclaw-main:m-1"
    assert "belongs to" in reasons(import_path(store, state))
    assert store.verify().ok


def test_of_two_entries_with_one_key_or_transcript_the_latest_counts_and_the_other_is_reported(
    memory: Repository, state: Path
) -> None:
    change(state, "main", sessionId="old-1", updatedAt=START + 9_999)
    change(state, "agent:main:copy", sessionId="c-1", updatedAt=1)
    report = import_path(memory, state)
    assert f"the entry '{MAIN}' was not imported: 'main' of the session 'old-1' has the same key" in reasons(report)
    assert "the entry 'agent:main:copy' was not imported" in reasons(report)
    assert Router(memory).session(MAIN).id == "openclaw-main:old-1"
    assert memory.verify().ok


def test_sessions_that_spawned_each_other_are_reported_and_one_link_is_left_out(
    memory: Repository, state: Path
) -> None:
    change(state, MAIN, spawnedBy=CHILD)
    report = import_path(memory, state)
    assert "comes from it itself" in reasons(report)
    assert memory.verify().ok


def test_a_path_outside_the_folder_is_honoured_and_never_written_to(
    store: Repository, state: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "elsewhere" / "special.jsonl"
    outside.parent.mkdir()
    outside.write_text(as_lines(chat("sp-1", "From outside", tag="5")))
    change(state, "agent:main:special", sessionId="sp-1", sessionFile=str(outside), updatedAt=START)
    before = outside.read_bytes()
    import_path(store, state, allow_outside=True)
    assert [t.content[0]["text"] for t in Router(store).session("agent:main:special").turns] == ["From outside"]
    out = tmp_path / "out"
    export_folder(store, out)
    assert outside.read_bytes() == before
    assert (out / "agents" / "main" / "sessions" / "special.jsonl").is_file()
    outside.unlink()
    with trails.open(":memory:") as other:
        import_path(other, out)
        assert len(Router(other).session("agent:main:special")) == 1


WORDS = "root:x:0:0:the words of another file"


def outside_file(tmp_path: Path) -> Path:
    """A file that is none of the folder's: a chat, with lines between that no import can use."""
    file = tmp_path / "elsewhere" / "special.jsonl"
    file.parent.mkdir()
    bad: list[Any] = [{"type": WORDS}, {"type": "label", "id": "l", "parentId": WORDS, "targetId": 1, "label": 2}]
    bad += [{"type": WORDS, "id": WORDS, "parentId": WORDS}, {"type": "message", "id": "x", "message": WORDS}]
    text = as_lines(chat("sp-1", "From outside", tag="5"))
    file.write_text(text + as_lines(bad) + WORDS + "\n")
    return file


LEADS: dict[str, Callable[[Path], tuple[str, str | None, Path | None]]] = {
    "absolute": lambda outside: (str(outside), None, None),
    "dots": lambda outside: (f"../../../../{outside.parent.name}/{outside.name}", None, None),
    "link": lambda outside: ("special.jsonl", "special.jsonl", outside),
    "linked folder": lambda outside: ("sub/special.jsonl", "sub", outside.parent),
}
"""How an entry leads out of the folder: what it says, and a link with what it leads to."""


def lead_out(state: Path, outside: Path, how: str) -> None:
    told, link, target = LEADS[how](outside)
    if link and target:
        (state / "agents" / "main" / "sessions" / link).symlink_to(target)
    change(state, "agent:main:special", sessionId="sp-1", sessionFile=told, updatedAt=START)


@pytest.mark.parametrize("how", LEADS)
def test_a_transcript_outside_of_the_folder_is_not_read_unless_that_is_allowed(
    memory: Repository, state: Path, tmp_path: Path, how: str
) -> None:
    lead_out(state, outside_file(tmp_path), how)
    report = import_path(memory, state)
    assert len(Router(memory).session("agent:main:special")) == 0
    assert "the entry 'agent:main:special': its transcript special.jsonl lies outside of the folder" in reasons(report)
    assert "--allow-outside" in reasons(report)
    assert WORDS not in report.model_dump_json()
    assert "From outside" not in report.model_dump_json()
    allowed = import_path(memory, state, allow_outside=True)
    assert [t.content[0]["text"] for t in Router(memory).session("agent:main:special").turns] == ["From outside"]
    assert "what it holds is not shown" in reasons(allowed)
    assert WORDS not in allowed.model_dump_json()
    assert "root:x" not in allowed.model_dump_json()


def test_a_file_that_is_no_transcript_at_all_is_shown_by_no_word_of_it(memory: Repository, state: Path) -> None:
    for number, told in enumerate(["/etc/passwd", "../../../../../../../../../etc/passwd"]):
        change(state, f"agent:main:x{number}", sessionId=f"x-{number}", sessionFile=told, updatedAt=START)
    for allowed in (False, True):
        report = import_path(memory, state, allow_outside=allowed)
        for line in Path("/etc/passwd").read_text().splitlines():
            assert line not in report.model_dump_json()
        assert len(Router(memory).session("agent:main:x0")) == 0


@pytest.mark.parametrize("name", ["agents/main/sessions/sessions.json", "subagents/runs.json", "agents/ops"])
def test_entries_and_runs_outside_of_the_folder_are_not_read_unless_that_is_allowed(
    memory: Repository, state: Path, tmp_path: Path, name: str
) -> None:
    (state / name).rename(tmp_path / "moved")
    (state / name).symlink_to(tmp_path / "moved")
    report = import_path(memory, state)
    assert "lies outside of the folder" in reasons(report)
    with trails.open(":memory:") as other, trails.open(":memory:") as plain:
        import_path(other, state, allow_outside=True)
        (state / name).unlink()
        (tmp_path / "moved").rename(state / name)
        import_path(plain, state)
        assert sorted(r.id for r in other.list()) == sorted(r.id for r in plain.list())


def test_a_state_folder_that_is_itself_reached_by_a_link_is_read(
    memory: Repository, state: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(state)
    assert "outside" not in reasons(import_path(memory, tmp_path / "link"))
    assert len(Router(memory).session(MAIN)) == 3


def test_the_command_reads_what_lies_outside_only_when_told(state: Path, tmp_path: Path) -> None:
    lead_out(state, outside_file(tmp_path), "absolute")
    common = ["--store", str(tmp_path / "store.trails"), "import", str(state), "--create"]
    refused = invoke(*common)
    assert refused.exit_code == 0
    assert "lies outside of the folder" in refused.stderr
    read = invoke(*common, "--allow-outside")
    assert "lies outside" not in read.stderr
    assert WORDS not in refused.stderr + read.stderr


# --- out


def read_state(state: Path) -> dict[str, Any]:
    """Return all that a folder holds, as JSON values by path."""
    found: dict[str, Any] = {}
    for file in sorted(state.rglob("*.json*")):
        text = file.read_text("utf-8")
        name = str(file.relative_to(state))
        found[name] = [json.loads(each) for each in text.splitlines()] if file.suffix == ".jsonl" else json.loads(text)
    return found


def in_order(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def test_what_was_imported_is_exported_whole(store: Repository, state: Path, tmp_path: Path) -> None:
    import_path(store, state)
    report = export_folder(store, tmp_path / "out")
    assert (report.agents, report.entries, report.transcripts, report.runs) == (["main", "ops"], 9, 10, 2)
    expected, written = read_state(state), read_state(tmp_path / "out")
    assert sorted(written) == sorted(expected)
    for name, value in expected.items():
        if name.endswith(".jsonl"):
            assert [in_order(each) for each in written[name]] == [in_order(each) for each in value], name
        else:
            assert in_order(written[name]) == in_order(value), name


def test_the_export_of_an_import_of_an_export_is_the_same_to_the_byte(
    memory: Repository, state: Path, tmp_path: Path
) -> None:
    import_path(memory, state)
    export_folder(memory, tmp_path / "one")
    with trails.open(":memory:") as second:
        import_path(second, tmp_path / "one")
        export_folder(second, tmp_path / "two")
    one, two = (
        {str(f.relative_to(tmp_path / n)): f.read_bytes() for f in (tmp_path / n).rglob("*") if f.is_file()}
        for n in ("one", "two")
    )
    assert two == one


def test_branches_of_a_transcript_go_back_into_its_one_file(store: Repository, state: Path, tmp_path: Path) -> None:
    file = state / "agents" / "main" / "sessions" / "c-1.jsonl"
    other = line(3, 1, said("No: in June."), "e")
    main_path = line(4, 2, user("Thanks"), "e")
    file.write_text(as_lines([*TRANSCRIPTS["main"]["c-1"], other, main_path]))
    import_path(store, state)
    export_folder(store, tmp_path / "out")
    with trails.open(":memory:") as again:
        import_path(again, tmp_path / "out")
        assert [t.content[0]["text"] for t in Router(again).session(CHILD).turns] == [
            "look it up",
            "It is in May.",
            "Thanks",
        ]
        (fork,) = again.branches("openclaw-main:c-1")
        assert again.load(fork.id).turns[1].content[0]["text"] == "No: in June."


def test_files_are_for_their_owner_alone_and_nothing_half_written_stays(
    memory: Repository, state: Path, tmp_path: Path
) -> None:
    import_path(memory, state)
    export_folder(memory, tmp_path / "out")
    files = [each for each in (tmp_path / "out").rglob("*") if each.is_file()]
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    assert {each.suffix for each in files} == {".json", ".jsonl"}


def test_an_agent_alone_is_exported_with_the_runs_that_concern_it(
    memory: Repository, state: Path, tmp_path: Path
) -> None:
    import_path(memory, state)
    export_folder(memory, tmp_path / "out", agents=["ops"])
    assert sorted(each.name for each in (tmp_path / "out" / "agents").iterdir()) == ["ops"]
    assert list(json.loads((tmp_path / "out" / "subagents" / "runs.json").read_text())["runs"]) == ["run-2"]
    with pytest.raises(InvalidInput, match="no agent 'nobody' to export; there are main, ops"):
        export_folder(memory, tmp_path / "more", agents=["nobody"])


def test_a_folder_that_holds_something_is_not_written_over_unasked(memory: Repository, state: Path) -> None:
    import_path(memory, state)
    with pytest.raises(InvalidInput, match="is not empty"):
        export_folder(memory, state)
    export_folder(memory, state, force=True)
    assert (state / "agents" / "main" / "sessions" / "g-1-topic-8.jsonl").is_file()


def test_sessions_that_were_made_here_are_exported_too_and_come_back(store: Repository, tmp_path: Path) -> None:
    router = Router(store)
    ledger = trails.Ledger(store)
    for inbound in (
        trails.Inbound(channel="telegram", kind="group", peer="-5", sender="1", content="Hello"),
        trails.Inbound(
            channel="telegram", kind="group", peer="-5", sender="1", thread="9", topic=True, content="In a topic"
        ),
        trails.Inbound(channel="slack", kind="channel", peer="c", sender="1", thread="2", content="In a thread"),
    ):
        ledger.process(router.route(inbound).session_id, lambda running: "Hi.")
    router.reset("agent:main:telegram:group:-5")
    router.patch("agent:main:telegram:group:-5", {"label": "trip", "thinkingLevel": "low"})
    export_folder(store, tmp_path / "out")
    with trails.open(":memory:") as other:
        report = import_path(other, tmp_path / "out")
        assert report.problems == []
        again = Router(other)
        for info in router.list():
            assert again.entry(info.key) == router.entry(info.key)
            texts = [turn.text for turn in router.session(info.key).turns]
            assert [turn.text for turn in again.session(info.key).turns] == texts


def test_a_patch_here_keeps_the_sessions_own_id(store: Repository, state: Path) -> None:
    import_path(store, state)
    router = Router(store)
    router.patch(TOPIC, {"thinkingLevel": "low"})
    assert router.entry(TOPIC)["sessionId"] == "g-1"


# --- the command line


def test_the_commands_import_and_export_the_folder(state: Path, tmp_path: Path) -> None:
    run = partial(invoke, store=tmp_path / "s.trails")
    done = run("import", "--create", str(state))
    assert done.exit_code == 0, done.output
    assert "imported 13 turns" in done.output
    done = run("export", "--format", "openclaw", "-o", str(tmp_path / "out"), "--json")
    assert json.loads(done.stdout)["agents"] == ["main", "ops"]
    assert run("export", "--format", "openclaw", "-o", str(tmp_path / "out")).exit_code == 2
    assert run("export", "--format", "openclaw").exit_code == 2
    assert run("export", "--format", "pi").exit_code == 2
    done = run("export", "--format", "openclaw", "-o", str(tmp_path / "one"), "--agent", "ops")
    assert "wrote 3 keys, 2 transcripts, 1 run of 1 agent" in done.output


# --- malformed


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
RECORDS = [*RUNS["runs"].values(), *(entry for entries in ENTRIES.values() for entry in entries.values())]
NAMES = st.sampled_from(sorted({name for record in RECORDS for name in record}))
VALUES = JSON | st.sampled_from(["m-1", "../m-1.jsonl", "/", "", MAIN, "agent:", "\x00", "x" * 300])
ENTRY = st.dictionaries(NAMES | st.text(max_size=6), VALUES, max_size=5) | JSON
KEYS = st.sampled_from([MAIN, "main", "global", "", ":", "agent:main:dm:x", "agent:main:direct:x"])
STORE = st.dictionaries(KEYS | st.text(max_size=8), ENTRY)


@examples(30)
@given(entries=STORE, runs=JSON | st.fixed_dictionaries({"version": st.sampled_from([1, 2, 3]), "runs": STORE}))
def test_whatever_stands_in_the_files_only_documented_errors_come(
    tmp_path_factory: pytest.TempPathFactory, entries: Any, runs: Any
) -> None:
    state = tmp_path_factory.mktemp("odd")
    folder = state / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    (state / "subagents").mkdir()
    (folder / "sessions.json").write_text(json.dumps(entries))
    (folder / "m-1.jsonl").write_text(as_lines(TRANSCRIPTS["main"]["m-1"]))
    (state / "subagents" / "runs.json").write_text(json.dumps(runs))
    with trails.open(":memory:") as store:
        import_folder(store, state)
        count = len(store.store.quads((None, None, None, None)))
        import_folder(store, state)
        assert len(store.store.quads((None, None, None, None))) == count
        assert store.verify().ok
        export_folder(store, state / "out")
    shutil.rmtree(state)


@examples(30)
@given(data=st.data())
def test_files_with_bytes_changed_raise_only_documented_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    state = write(tmp_path_factory.mktemp("changed") / "state")
    files = sorted(each for each in state.rglob("*") if each.is_file())
    file = data.draw(st.sampled_from(files))
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=4))
        if not content:
            break
    file.write_bytes(bytes(content))
    with trails.open(":memory:") as store:
        with contextlib.suppress(TrailsError):
            import_path(store, state)
        assert store.verify().ok
    shutil.rmtree(state)
