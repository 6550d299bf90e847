"""Session files of pi and OpenClaw: read as their own program reads them, and written so that nothing is lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.machines import examples
from trails import Compaction, Repository
from trails.exchange.merge import merge
from trails.exchange.openclaw import pi_session_file
from trails.exchange.openclaw.pi_export import export_session
from trails.exchange.source_transcript import Piece, SourceSession, SourceTurn, Transcript
from trails.history import turn_builder
from trails.model.content_parts import holds_anything

HEADER = {"type": "session", "version": 3, "id": "S", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/tmp"}
PI_ROLES = {"tool": "toolResult", "bash": "bashExecution", "branch_summary": "branchSummary"}
PI_ROLES |= {"summary": "compactionSummary", "compaction_summary": "compactionSummary"}


def file_of(*entries: Mapping[str, Any], header: Mapping[str, Any] = HEADER) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in (header, *entries))


def user(entry_id: str, parent: str | None, text: str = "hi", **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text, "timestamp": 1735689600000}
    base = {"type": "message", "id": entry_id, "parentId": parent, "timestamp": "2025-01-01T00:00:00.000Z"}
    return base | {"message": message} | more


def read(*entries: Mapping[str, Any], header: Mapping[str, Any] = HEADER) -> Transcript:
    return pi_session_file.parse([("one.jsonl", file_of(*entries, header=header))])


def ids(path: Sequence[SourceTurn]) -> list[str]:
    return [turn.pieces[0].source_id for turn in path]


def paths(transcript: Transcript) -> list[list[str]]:
    return [ids(path) for path in transcript.sessions[0].paths]


def cases(shared: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((shared / "cases" / name).read_text())["cases"]
    return found


def files(shared: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (shared / "data" / "pi-session-jsonl").glob("*.jsonl")}


# --- what upstream makes of a file


def in_context(path: Sequence[SourceTurn]) -> list[str]:
    """The roles that pi's model sees, by pi's rule: the last summary, what it keeps but other summaries, the rest."""
    last = max((at for at, turn in enumerate(path) if turn.compaction), default=None)
    if last is None:
        return [PI_ROLES.get(turn.role, turn.role) for turn in path]
    compaction = path[last].compaction
    assert compaction is not None
    kept = [] if compaction.first_kept is None else path[compaction.first_kept : last]
    seen = [path[last], *(turn for turn in kept if not turn.compaction), *path[last + 1 :]]
    return [PI_ROLES.get(turn.role, turn.role) for turn in seen]


def test_every_real_file_reads_as_upstream_reads_it(shared: Path) -> None:
    expected = json.loads((shared / "cases" / "data_pi_expectations.json").read_text())["files"]
    found = files(shared)
    assert found.keys() == expected.keys()
    for name, facts in expected.items():
        transcript = pi_session_file.parse([(name, found[name])])
        (session,) = transcript.sessions
        assert transcript.problems == (), name
        assert session.id == facts["sessionId"]
        assert session.meta["version"] == facts["onDiskVersion"]
        assert session.meta.get("parentSession") == facts["parentSession"]
        assert dict(transcript.records) == facts["types"] | {"session": 1}
        assert len(session.paths) == facts["leaves"]
        context = in_context(session.paths[0])
        assert len(context) == facts["contextFromLastEntry"]["count"], name
        assert Counter(context) == facts["contextFromLastEntry"]["roles"], name
        by_leaf = {ids(path)[-1]: len(path) for path in session.paths}
        assert all(by_leaf[leaf["leafId"]] == leaf["count"] for leaf in facts.get("leavesContext", []))


def test_a_file_loads_or_not_as_upstream_has_it(shared: Path) -> None:
    for case in cases(shared, "pi_file_load.json"):
        transcript = pi_session_file.parse([("f.jsonl", (case["text"] or "").encode())])
        assert transcript.records == Counter(case["expectedEntryTypes"]), case["name"]
        loads = bool(case["expectedEntryTypes"])
        assert len(transcript.sessions) == loads
        assert loads or transcript.problems[0].line == 0


def test_a_line_cut_off_is_a_problem_and_a_second_header_a_note(shared: Path) -> None:
    texts = {case["name"]: case["text"] for case in cases(shared, "pi_file_load.json")}
    cut = pi_session_file.parse([("f", texts["truncated last line"].encode())])
    assert [problem.line for problem in cut.problems] == [3]
    assert cut.problems[0].text == '{"type":"message","id":"1","pa'
    twice = pi_session_file.parse([("f", texts["duplicate header"].encode())])
    assert twice.problems == ()
    assert twice.notes == ("line 2 is a second header; the first one counts",)


def test_migration_gives_what_upstream_gives(shared: Path) -> None:
    by_name = {case["name"]: case for case in cases(shared, "pi_migration.json")}
    before = json.dumps(by_name["v1 -> v3"]["input"])
    header, *entries = pi_session_file.migrate(by_name["v1 -> v3"]["input"])
    assert json.dumps(by_name["v1 -> v3"]["input"]) == before
    expected = by_name["v1 -> v3"]["expected"]
    made = [entry["id"] for entry in entries]
    assert header["version"] == expected["version"]
    assert [entry["parentId"] for entry in entries] == [at and made[at - 1] for at in expected["parentChain"]]
    assert all(len(each) == 8 and int(each, 16) >= 0 for each in made)
    assert entries[2]["firstKeptEntryId"] == made[expected["compactionFirstKeptPointsAtIndex"] - 1]
    assert "firstKeptEntryIndex" not in entries[2]
    assert entries[3]["message"]["role"] == expected["lastRole"]
    for name in ("v2 -> v3", "v3 unchanged"):
        assert pi_session_file.migrate(by_name[name]["input"]) == by_name[name]["expected"]
    at_header = pi_session_file.migrate(by_name["v1 compaction pointing at header -> no firstKeptEntryId"]["input"])
    assert "firstKeptEntryId" not in at_header[1]


def test_a_version_1_file_that_has_grown_gives_the_same_ids_again(shared: Path) -> None:
    lines = files(shared)["specstory-v1_legacy.jsonl"].splitlines(keepends=True)
    short = pi_session_file.parse([("f", b"".join(lines[:3]))]).sessions[0].paths[0]
    long = pi_session_file.parse([("f", b"".join(lines))]).sessions[0].paths[0]
    assert (len(short), len(long)) == (2, 5)
    assert long[:2] == short


def test_trees_have_the_leaves_and_roots_that_upstream_finds(shared: Path) -> None:
    by_name = {case["name"]: case for case in cases(shared, "pi_tree_fork.json")}
    forked = by_name["createBranchedSession(5)"]
    found = read(*forked["entries"])
    assert paths(found) == [forked["expected"]["ids"], ["1", "2", "3", "4"]]
    assert found.sessions[0].meta["labels"] == {"2": "keep", "4": "drop"}
    orphan = read(*by_name["tree: orphan becomes root"]["entries"])
    assert paths(orphan) == [["9"], ["1"]]
    assert "line 3: the parent 'missing' is not in the file; its path stands alone" in orphan.notes
    cleared = read(*by_name["tree: label then clear"]["entries"])
    assert paths(cleared) == [["1"]]
    assert "labels" not in cleared.sessions[0].meta


def test_contexts_come_out_as_upstream_builds_them(shared: Path) -> None:
    checked = 0
    for case in cases(shared, "pi_context.json"):
        entries = case["entries"]
        if not entries or case["leafId"] not in ("(omitted)", entries[-1]["id"]):
            continue
        context = [text.partition(":")[0] for text in case["expected"]["context"]]
        assert in_context(read(*entries).sessions[0].paths[0]) == context, case["name"]
        checked += 1
    assert checked >= 8


# --- our own rules


def test_the_last_line_is_the_main_path_and_that_is_noted() -> None:
    found = read(user("a", None), user("b", "a"), user("c", "a"))
    assert paths(found) == [["a", "c"], ["a", "b"]]
    assert found.notes == ("there are 2 leaves; the last line ('c') is the main one, as pi reads it",)
    main, other = found.sessions[0].paths
    assert main[0] is other[0]


def test_a_path_that_only_begins_another_is_left_out_unless_it_is_the_main_one() -> None:
    label = {"type": "label", "id": "l", "parentId": "a", "targetId": "a", "label": "x"}
    assert paths(read(user("a", None), label, user("b", "a"))) == [["a", "b"]]
    assert paths(read(user("a", None), user("b", "a"), label)) == [["a"], ["a", "b"]]


def test_parents_in_a_circle_are_problems_and_the_rest_is_read() -> None:
    found = read(user("a", None), user("b", "c"), user("c", "b"), user("d", "c"), user("e", "a"))
    assert paths(found) == [["a", "e"]]
    assert [problem.line for problem in found.problems] == [3, 4, 5]
    assert {problem.reason for problem in found.problems} == {"has parents that run in a circle"}


def test_an_entry_that_names_itself_as_its_parent_is_a_root() -> None:
    found = read(user("a", None), user("self", "self"), user("b", "self"), user("c", "b"))
    assert paths(found) == [["self", "b", "c"], ["a"]]
    assert found.problems == ()
    assert "line 3 names itself as its parent; it is a root, and its path stands alone" in found.notes
    assert paths(read(user("self", "self"))) == [["self"]]


def test_an_id_used_twice_keeps_the_first_line_and_reports_the_second() -> None:
    found = read(user("a", None, "one"), user("a", None, "two"), user("a", None, "one"))
    assert [turn.content for turn in found.sessions[0].paths[0]] == ["one"]
    assert [problem.line for problem in found.problems] == [3]
    assert found.notes == ("line 4 repeats line 2",)


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "x", "parentId": "a"},
        {"type": "message", "parentId": "a"},
        {"type": "message", "id": "x", "parentId": 7},
        {"type": "message", "id": "x", "parentId": "a"},
        {"type": "message", "id": "x", "parentId": "a", "message": {"content": "no role"}},
        {"type": "novelty", "id": "x", "parentId": "a"},
        {"type": "label", "id": "x", "parentId": "a", "targetId": 3, "label": "y"},
    ],
)
def test_an_entry_that_cannot_be_used_is_a_problem_with_its_line_and_text(entry: dict[str, Any]) -> None:
    found = read(user("a", None), entry)
    assert paths(found) == [["a"]]
    (problem,) = found.problems
    assert (problem.line, json.loads(problem.text)) == (3, entry)


@pytest.mark.parametrize("header", [{"type": "session", "id": 5}, {**HEADER, "version": 4}, {**HEADER, "version": "3"}])
def test_a_header_that_cannot_be_read_makes_no_session(header: dict[str, Any]) -> None:
    found = read(user("a", None), header=header)
    assert (found.sessions, found.problems[0].line) == ((), 0)


def test_a_compaction_names_what_it_keeps_by_index_on_its_own_path() -> None:
    compaction = {"type": "compaction", "id": "c", "parentId": "m", "summary": "S", "tokensBefore": 7}
    model = {"type": "model_change", "id": "m", "parentId": "b", "provider": "p", "modelId": "x"}
    kept = read(user("a", None), user("b", "a"), model, {**compaction, "firstKeptEntryId": "b"}, user("d", "c"))
    turn = kept.sessions[0].paths[0][2]
    assert (turn.role, turn.content) == ("summary", "S")
    assert turn.compaction == Compaction(summarised_through=0, first_kept=1, tokens_before=7)
    nothing = read(user("a", None), user("b", "a"), model, {**compaction, "firstKeptEntryId": "gone"})
    assert nothing.sessions[0].paths[0][2].compaction == Compaction(summarised_through=1, tokens_before=7)
    assert nothing.notes == ("line 5: the compaction keeps nothing of what stands before it on its path",)


def test_what_stands_between_turns_goes_with_the_next_turn_and_names_to_the_session() -> None:
    level = {"type": "thinking_level_change", "id": "t", "parentId": None, "thinkingLevel": "high"}
    found = read(level, user("a", "t"), {"type": "session_info", "id": "n", "parentId": "a", "name": "Trip"})
    (turn,) = found.sessions[0].paths[0]
    assert turn.meta["thinkingLevel"] == "high"
    assert turn.meta["piBefore"] == [{key: value for key, value in level.items() if key != "parentId"}]
    assert found.sessions[0].title == "Trip"


def test_a_time_without_a_zone_is_no_time() -> None:
    turns = read(user("a", None, timestamp="2025-01-01T00:00:00"), user("b", "a", timestamp=3)).sessions[0].paths[0]
    assert [turn.time for turn in turns] == [None, None]


@pytest.mark.parametrize(
    ("parent", "expected"),
    [
        ("/elsewhere/one.jsonl", "P"),
        ("C:\\sessions\\one.jsonl", "P"),
        ("/x/2026-01-02T03-04-05-678Z_0a0b-11.jsonl", "0a0b-11"),
        ("/x/some-session.jsonl", "some-session"),
        ("0a0b-11", "0a0b-11"),
    ],
)
def test_the_session_that_a_file_was_copied_from_is_found_by_file_or_by_name(parent: str, expected: str) -> None:
    first = file_of(user("a", None), header={**HEADER, "id": "P"})
    second = file_of(user("a", None), user("b", "a"), header={**HEADER, "parentSession": parent})
    found = pi_session_file.parse([("/here/one.jsonl", first), ("/here/two.jsonl", second)])
    assert [session.copied_from for session in found.sessions] == [None, expected]


def test_a_fork_made_by_copying_shares_its_turns_with_its_parent_in_the_store(memory: Repository) -> None:
    first = file_of(user("a", None), user("b", "a"), header={**HEADER, "id": "P"})
    second = file_of(user("a", None), user("c", "a"), header={**HEADER, "parentSession": "one.jsonl"})
    report = merge(memory, pi_session_file.parse([("two.jsonl", second), ("one.jsonl", first)]))
    assert (report.sessions_created, report.forks_created, report.turns_added) == (["pi:P"], ["pi:S"], 3)
    assert (memory.record("pi:S").parent_session_id, memory.record("pi:S").forked_at_index) == ("pi:P", 1)


def test_a_pi_file_is_told_by_its_first_object() -> None:
    assert pi_session_file.sniff(b"not json\n" + file_of(user("a", None))[:200])
    assert pi_session_file.sniff(
        file_of(header={**HEADER, "version": 4})
    )  # so that reading it can say what is wrong with it
    no_header_first = b'{"type": "user", "id": "x"}\n' + file_of()
    for data in (b"", b'{"type": "session_meta", "id": "x"}', b'{"type": "session"}', no_header_first):
        assert not pi_session_file.sniff(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = (
    *("type", "id", "parentId", "timestamp", "message", "summary", "firstKeptEntryId", "firstKeptEntryIndex"),
    *("tokensBefore", "customType", "content", "targetId", "label", "name", "thinkingLevel", "trails", "version"),
    *("parentSession", "cwd"),
)
MESSAGE_KEYS = ("content", "usage", "model", "toolCallId", "isError", "output", "summary", "stopReason")
WORDS = ("session", "message", "compaction", "label", "custom", "custom_message", "session_info", "a", "b", "c", "S")
VALUES = (
    JSON
    | st.sampled_from(WORDS)
    | st.fixed_dictionaries(
        {"role": st.sampled_from((*pi_session_file.ROLES, "odd", "")) | JSON},
        optional=dict.fromkeys(MESSAGE_KEYS, JSON),
    )
)
ENTRIES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8)


@given(st.lists(ENTRIES, max_size=8), st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3)), max_size=3))
def test_no_bytes_make_reading_raise(entries: list[dict[str, Any]], cuts: list[tuple[int, bytes]]) -> None:
    data = file_of(*entries)
    for place, junk in cuts:
        data = data[:place] + junk + data[place + len(junk) :]
    transcript = pi_session_file.parse([("f", data)])
    assert transcript.sessions or transcript.problems
    with trails.open(":memory:") as store:
        assert [problem for problem in merge(store, transcript).problems if problem.reason.startswith("session")] == []


# --- writing


def reread(store: Repository, session_id: str) -> tuple[SourceSession, Transcript]:
    transcript = pi_session_file.parse([("exported.jsonl", export_session(store, session_id))])
    assert transcript.problems == ()
    assert len(transcript.sessions[0].paths) == 1
    return transcript.sessions[0], transcript


@pytest.mark.slow
def test_a_session_from_pi_is_written_as_it_was_read(shared: Path, memory: Repository) -> None:
    for name, data in files(shared).items():
        original = pi_session_file.parse([(name, data)])
        merge(memory, original)
        (session,) = original.sessions
        again, _ = reread(memory, f"pi:{session.id}")
        assert again.paths[0] == session.paths[0], name
        assert (again.id, again.created, again.title) == (session.id, session.created, session.title)
        assert dict(again.meta) == dict(session.meta) | {"version": 3}


def test_the_entries_of_a_version_3_file_come_back_value_for_value(shared: Path, memory: Repository) -> None:
    data = files(shared)["specstory-fields.jsonl"]
    merge(memory, pi_session_file.parse([("f", data)]))
    written = export_session(memory, "pi:fields-uuid")
    assert [json.loads(line) for line in written.splitlines()] == [json.loads(line) for line in data.splitlines()]


FACTS = ("role", "content", "time", "model", "usage", "tool_calls", "tool_results", "author", "compaction", "meta")


def facts(store: Repository, session_id: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(turn, name) for name in FACTS) for turn in store.load(session_id).turns]


def test_a_session_from_elsewhere_comes_back_equal_after_a_journey_through_pi(memory: Repository) -> None:
    s = memory.create(id="plan", principal="alice", agent="planner", system="Be brief")
    s.append("user", "What is here?", time=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC))
    call = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "/"}}
    usage = {"input_tokens": 3, "output_tokens": 4}
    s.append("assistant", [{"type": "text", "text": "Look"}, call], model="m-1", usage=usage, stop_reason="tool_use")
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": "bin", "is_error": True}
    s.append("user", [answer, {"type": "text", "text": "and?"}])
    s.append("tool", "text answer", tool_call_id="t1")
    s.append("summary", "All said", compaction=Compaction(summarised_through=2, first_kept=3, trigger="manual"))
    s.append("system", "Note", author="agent:warden", meta={"why": "test"})
    s.append("assistant", "Done")
    s.persist()
    fork = s.fork(at=6, principal="bob")
    fork.append("user", "Another")
    fork.persist()
    for session_id in ("plan", fork.id):
        session, transcript = reread(memory, session_id)
        with trails.open(":memory:") as other:
            merge(other, transcript)
            assert facts(other, f"pi:{session.id}") == facts(memory, session_id)
            loaded = other.load(f"pi:{session.id}")
            assert (loaded.principal, loaded.agent, loaded.system) == (
                memory.load(session_id).principal,
                "planner",
                "Be brief",
            )


CALL = {"id": "t1", "name": "ls", "arguments": {"path": "/"}}
EXACT = {"id": "t2", "name": "ls", "arguments": '{"path":  "/", "n": 1.50}'}
"""Arguments that pi, which keeps them as an object, cannot write as they stand."""


@pytest.mark.parametrize(
    "content", ["Look", "", [{"type": "text", "text": "Look"}], [{"type": "text", "text": "a"}, "b"]]
)
@pytest.mark.parametrize("calls", [[CALL], [CALL, EXACT], [{"id": "t3", "name": "ls", "arguments": "no JSON"}]])
@pytest.mark.parametrize("role", ["assistant", "user", "critic"])
def test_calls_given_beside_the_content_come_back_beside_it(
    memory: Repository, role: str, content: Any, calls: list[dict[str, Any]]
) -> None:
    s = memory.create(id="s")
    s.append(role, content, tool_calls=calls)
    s.append("tool", "bin", tool_call_id=calls[0]["id"])
    s.persist()
    _, transcript = reread(memory, "s")
    with trails.open(":memory:") as other:
        merge(other, transcript)
        assert facts(other, "pi:s") == facts(memory, "s")
        back = other.load("pi:s").turns[0]
        assert back.content == content
        assert [call.id for call in back.tool_calls] == [call["id"] for call in calls]
        twice = pi_session_file.parse([("again.jsonl", export_session(other, "pi:s"))])
        assert [turn.content for turn in twice.sessions[0].paths[0]] == [content, "bin"]


def test_pi_sees_calls_given_beside_a_text_where_it_looks_for_them(memory: Repository) -> None:
    s = memory.create(id="s")
    s.append("assistant", "Look", tool_calls=[CALL])
    s.append("assistant", "", tool_calls=[CALL])
    s.persist()
    _, first, second = [json.loads(line) for line in export_session(memory, "s").splitlines()]
    shown = {"type": "toolCall", "id": "t1", "name": "ls", "arguments": {"path": "/"}}
    assert first["message"]["content"] == [{"type": "text", "text": "Look"}, shown]
    assert second["message"]["content"] == [shown]


@pytest.mark.parametrize("beside", [3, -1, "x"])
def test_a_note_of_calls_that_are_not_there_is_a_problem(beside: Any) -> None:
    found = read(user("a", None), user("b", "a", trails={"beside": beside}))
    assert paths(found) == [["a"]]
    assert [problem.line for problem in found.problems] == [3]


def test_a_session_from_elsewhere_has_the_shapes_that_pi_reads(memory: Repository) -> None:
    s = memory.create(id="s")
    s.append("assistant", [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}], model="m")
    s.append("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "bin"}, {"type": "text", "text": "and?"}])
    s.append("summary", "S", compaction=Compaction(first_kept=1, tokens_before=9))
    s.persist()
    header, *entries = [json.loads(line) for line in export_session(memory, "s").splitlines()]
    assert (header["type"], header["version"], header["id"]) == ("session", 3, "s")
    asked, answered, rest, compaction = entries
    assert [entry["parentId"] for entry in entries] == [None, asked["id"], answered["id"], rest["id"]]
    assert asked["message"]["content"] == [{"type": "toolCall", "id": "t1", "name": "ls", "arguments": {}}]
    assert asked["message"]["stopReason"] == "toolUse"
    tool = answered["message"]
    assert (tool["role"], tool["toolCallId"], tool["toolName"], tool["isError"]) == ("toolResult", "t1", "ls", False)
    assert tool["content"] == [{"type": "text", "text": "bin"}]
    assert rest["message"]["content"] == [{"type": "text", "text": "and?"}]
    assert (compaction["type"], compaction["firstKeptEntryId"], compaction["tokensBefore"]) == (
        "compaction",
        answered["id"],
        9,
    )


def test_a_turn_without_a_time_gets_one_for_pi_and_loses_it_again_on_import(memory: Repository) -> None:
    created = datetime(2026, 5, 6, tzinfo=UTC)
    turn = SourceTurn("user", (Piece("1", "hi"),))
    merge(memory, Transcript(sessions=(SourceSession("other", "x", ((turn,),), created=created),)))
    (line,) = export_session(memory, "other:x").splitlines()[1:]
    assert json.loads(line)["timestamp"] == "2026-05-06T00:00:00.000Z"
    assert reread(memory, "other:x")[0].paths[0][0].time is None


def test_a_fork_is_written_whole_and_names_its_parent(memory: Repository) -> None:
    s = memory.create(id="root")
    s.append("user", "one")
    s.append("user", "two")
    fork = s.fork(at=1, id="child")
    fork.append("user", "three")
    fork.persist()
    session, _ = reread(memory, "child")
    assert [turn.content for turn in session.paths[0]] == ["one", "three"]
    assert session.copied_from == "root"


def test_a_fork_and_its_parent_share_their_turns_again_after_both_were_written_and_read(
    memory: Repository,
) -> None:
    s = memory.create(id="root")
    for text in ("one", "two", "three"):
        s.append("user", text)
    fork = s.fork(at=2, id="child", principal="bob")
    fork.append("user", "other")
    fork.persist()
    both = [(f"{name}.jsonl", export_session(memory, name)) for name in ("child", "root")]
    with trails.open(":memory:") as other:
        report = merge(other, pi_session_file.parse(both))
        assert (report.turns_added, report.forks_created) == (4, ["pi:child"])
        assert (other.record("pi:child").parent_session_id, other.record("pi:child").forked_at_index) == ("pi:root", 2)
        assert [turn.content for turn in other.load("pi:child").turns] == ["one", "two", "other"]


@pytest.mark.parametrize("depth", [99, 200, 900, 100_000])
def test_a_line_nested_too_deeply_is_a_problem_and_nothing_worse(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    entry = b'{"type":"custom","id":"x","parentId":"a","data":' + nested + b"}\n"
    found = pi_session_file.parse([("f", file_of(user("a", None)) + entry + file_of(user("b", "a")))])
    assert paths(found)[0] == ["a", "b"]
    assert [problem.line for problem in found.problems] == [3]


def test_labels_and_the_title_are_written_for_the_entries_that_are_on_the_path(memory: Repository) -> None:
    label = {"type": "label", "id": "l", "parentId": "b", "targetId": "a", "label": "keep"}
    name = {"type": "session_info", "id": "n", "parentId": "l", "name": "Trip"}
    off = {"type": "label", "id": "o", "parentId": "n", "targetId": "gone", "label": "drop"}
    merge(memory, read(user("a", None), user("b", "a"), label, name, off))
    session, transcript = reread(memory, "pi:S")
    assert (session.title, session.meta["labels"]) == ("Trip", {"a": "keep"})
    assert transcript.records["label"] == 1


PARTS = st.lists(
    st.one_of(
        st.text(max_size=4),
        st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=4)),
        st.builds(
            lambda at, value: {"type": "tool_use", "id": f"t{at}", "name": "n", "input": value}, st.integers(0, 2), JSON
        ),
        st.builds(
            lambda at, text: {"type": "tool_result", "tool_use_id": f"t{at}", "content": text}, st.integers(0, 2), JSON
        ),
        st.builds(lambda value: {"type": "thinking", "thinking": value}, JSON),
        st.dictionaries(st.text(max_size=4), JSON, max_size=2),
    ),
    max_size=3,
)
SOURCE_TURNS = st.fixed_dictionaries(
    {
        "role": st.sampled_from(("user", "assistant", "tool", "system", "summary", "bash")),
        "content": st.text(min_size=1, max_size=6) | PARTS.filter(holds_anything),
    },
    optional={
        "time": st.datetimes(min_value=datetime(1, 1, 2), timezones=st.just(UTC)),  # noqa: DTZ001 - Hypothesis adds the zone
        "model": st.sampled_from(("m", "n")),
        "usage": st.dictionaries(st.sampled_from(("input", "input_tokens", "cost", "x")), JSON, max_size=3),
        "stop_reason": st.sampled_from(("stop", "end_turn", "odd")),
        "tool_call_id": st.sampled_from(("t0", "t1")),
        "author": st.sampled_from(("carol", "agent:other")),
        "compaction": st.builds(
            Compaction, first_kept=st.none() | st.integers(0, 3), tokens_before=st.none() | st.just(5)
        ),
        "meta": st.dictionaries(st.sampled_from(("pi", "piBefore", "k")), JSON, max_size=2),
    },
)


@examples(30)
@given(st.lists(SOURCE_TURNS, max_size=5))
def test_any_session_comes_back_equal_after_a_journey_through_pi(turns: list[dict[str, Any]]) -> None:
    with trails.open(":memory:") as store, trails.open(":memory:") as other:
        s = store.create(
            id="s", principal="alice", created=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=7)
        )
        for turn in turns:
            s.worktree.append(
                turn_builder.make_draft(**turn)
            )  # as importers do: any usage that a transcript tells is kept
        s.persist()
        _, transcript = reread(store, "s")
        merge(other, transcript)
        assert facts(other, "pi:s") == facts(store, "s")
