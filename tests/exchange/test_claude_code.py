"""Claude Code's files: what becomes a turn, a fork, a session; and that nothing is lost or raised on the way."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from trails.exchange.coding_agents import claude_code
from trails.exchange.coding_agents.claude_code import companions, parse, sniff
from trails.exchange.merge import merge
from trails.exchange.source_transcript import SourceSession, SourceTurn, Transcript
from trails.model.content_parts import calls_in, results_in

Record = dict[str, Any]


def record(uuid: str, parent: str | None, minute: int, kind: str, message: Any = None, **more: Any) -> Record:
    time = f"2026-01-05T{10 + minute // 60:02}:{minute % 60:02}:00.000Z"
    made: Record = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s1", "timestamp": time}
    made |= {"isSidechain": False, "userType": "external", "cwd": "/home/ada", "version": "2.1.0", "gitBranch": "main"}
    return made | ({} if message is None else {"message": message}) | more


def user(uuid: str, parent: str | None, minute: int, content: Any = "Hello", **more: Any) -> Record:
    return record(uuid, parent, minute, "user", {"role": "user", "content": content}, **more)


def assistant(uuid: str, parent: str | None, minute: int, *parts: Any, message_id: str = "", **more: Any) -> Record:
    content = list(parts) or [{"type": "text", "text": f"Answer {uuid}"}]
    message = {"id": message_id or f"msg_{uuid}", "role": "assistant", "model": "claude-x", "content": content}
    return record(uuid, parent, minute, "assistant", message | more.pop("message", {}), **more)


def result(uuid: str, parent: str | None, minute: int, call: str, **more: Any) -> Record:
    return user(uuid, parent, minute, [{"type": "tool_result", "tool_use_id": call, "content": "done"}], **more)


def boundary(uuid: str, logical: str | None, minute: int, **metadata: Any) -> Record:
    said = {"content": "Conversation compacted", "compactMetadata": metadata, "logicalParentUuid": logical}
    return record(uuid, None, minute, "system", subtype="compact_boundary", **said)


def call(call_id: str, name: str = "Bash", **arguments: Any) -> Record:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def lines(*records: Record) -> bytes:
    return "\n".join(json.dumps(each) for each in records).encode()


def parsed(*records: Record) -> Transcript:
    return parse([("s1.jsonl", lines(*records))])


def only_session(*records: Record) -> SourceSession:
    [session] = parsed(*records).sessions
    return session


def ids(path: tuple[SourceTurn, ...]) -> list[str]:
    return ["+".join(turn.source_ids) for turn in path]


def only_path(*records: Record) -> list[str]:
    [path] = only_session(*records).paths
    return ids(path)


# What a session is made of


def test_a_conversation_becomes_turns_with_their_times_models_and_usage() -> None:
    usage = {"input_tokens": 12, "output_tokens": 4, "cache_creation": {"ephemeral_5m_input_tokens": 2}}
    session = only_session(
        user("u1", None, 0, "Plan a trip"),
        assistant("a1", "u1", 1, text("Where to?"), message={"usage": usage, "stop_reason": "end_turn"}),
    )
    [[question, answer]] = session.paths
    assert (question.role, question.content, question.author, question.model) == ("user", "Plan a trip", None, None)
    assert question.time == datetime(2026, 1, 5, 10, 0, tzinfo=UTC)
    assert (answer.role, answer.content) == ("assistant", [text("Where to?")])
    assert (answer.model, answer.usage, answer.stop_reason) == ("claude-x", usage, "end_turn")


def test_a_session_is_claude_codes_own_and_keeps_what_every_line_repeats_once() -> None:
    session = only_session(user("u1", None, 7, slug="brave-hopper"), assistant("a1", "u1", 8, slug="brave-hopper"))
    assert (session.source, session.id, session.principal, session.agent) == ("claude-code", "s1", None, "claude-code")
    assert session.meta == {"cwd": "/home/ada", "gitBranch": "main", "version": "2.1.0", "slug": "brave-hopper"}
    assert session.created == datetime(2026, 1, 5, 10, 7, tzinfo=UTC)
    assert (session.spawned_by, session.continues, session.copied_from) == (None, None, None)


def test_a_turn_keeps_what_has_no_field_of_its_own_and_what_differs_from_the_session() -> None:
    session = only_session(
        user("u1", None, 0, isMeta=True, todos=[], permissionMode="plan", thinkingMetadata={"level": "high"}),
        assistant("a1", "u1", 1, requestId="req_1", gitBranch="topic", message={"stop_sequence": "END"}),
        result("r1", "a1", 2, "t1", toolUseResult={"stdout": "x"}, sourceToolAssistantUUID="a1"),
        assistant("a2", "r1", 3, isApiErrorMessage=True),
    )
    metas = [turn.meta for turn in session.paths[0]]
    assert metas == [
        {
            "parentUuid": None,
            "isMeta": True,
            "todos": [],
            "permissionMode": "plan",
            "thinkingMetadata": {"level": "high"},
        },
        {
            "parentUuid": "u1",
            "requestId": "req_1",
            "gitBranch": "topic",
            "messageId": "msg_a1",
            "message": {"stop_sequence": "END"},
        },
        {"parentUuid": "a1", "toolUseResult": {"stdout": "x"}, "sourceToolAssistantUUID": "a1"},
        {"parentUuid": "r1", "isApiErrorMessage": True, "messageId": "msg_a2"},
    ]


def test_a_line_with_tool_results_is_a_turn_of_the_tool() -> None:
    session = only_session(user("u1", None, 0), assistant("a1", "u1", 1, call("t1")), result("r1", "a1", 2, "t1"))
    assert [turn.role for turn in session.paths[0]] == ["user", "assistant", "tool"]


def test_one_message_over_several_lines_is_one_turn_where_its_first_line_stands() -> None:
    session = only_session(
        user("u1", None, 0),
        assistant("a1", "u1", 1, text("Looking"), message_id="m", message={"usage": {"output_tokens": 1}}),
        assistant("a2", "a1", 2, call("t1"), message_id="m", message={"usage": {"output_tokens": 2}}),
        result("r1", "a2", 3, "t1"),
        assistant("a3", "a2", 4, call("t2"), message_id="m", message={"stop_reason": "tool_use"}),
        result("r2", "a3", 5, "t2"),
        assistant("a4", "r2", 6, text("Done")),
    )
    [path] = session.paths
    assert ids(path) == ["u1", "a1+a2+a3", "r1", "r2", "a4"]
    assert path[1].content == [text("Looking"), call("t1"), call("t2")]
    assert (path[1].usage, path[1].stop_reason) == ({"output_tokens": 2}, "tool_use")
    assert path[1].time == datetime(2026, 1, 5, 10, 1, tzinfo=UTC)


def test_records_that_make_no_turn_are_counted_and_the_chain_passes_through_them() -> None:
    transcript = parsed(
        {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}, "isSnapshotUpdate": False},
        {"type": "queue-operation", "operation": "enqueue", "timestamp": "2026-01-05T10:00:00Z", "sessionId": "s1"},
        {"type": "pr-link", "sessionId": "s1"},
        record("p1", None, 0, "progress", data={}),
        user("u1", "p1", 1),
        assistant("a1", "u1", 2),
        record("x1", "a1", 3, "system", subtype="stop_hook_summary"),
        record("x2", "x1", 3, "system", subtype="api_error", content="text"),
        record("x3", "x2", 3, "system", subtype="microcompact_boundary"),
        record("x4", "x3", 3, "system", content="Running a hook"),
        user("u2", "x4", 4),
    )
    [session] = transcript.sessions
    assert [ids(path) for path in session.paths] == [["u1", "a1", "u2"]]
    assert transcript.records == {
        "file-history-snapshot": 1,
        "queue-operation": 1,
        "pr-link": 1,
        "progress": 1,
        "user": 2,
        "assistant": 1,
        "system/stop_hook_summary": 1,
        "system/api_error": 1,
        "system/microcompact_boundary": 1,
        "system": 1,
    }
    assert (transcript.problems, list(transcript.notes)) == ((), [])


def test_a_type_that_is_not_known_is_counted_and_noted() -> None:
    transcript = parsed(user("u1", None, 0), record("n1", "u1", 1, "novelty"), assistant("a1", "n1", 2))
    assert ids(transcript.sessions[0].paths[0]) == ["u1", "a1"]
    assert transcript.records["novelty"] == 1
    assert list(transcript.notes) == ["s1.jsonl: 1 records of the unknown type 'novelty' made no turn"]


# Forks and what only looks like one


def drawn(text: str) -> list[Record]:
    """Return the records that a line names, each as `id<parent@minute:call`, and `id/message` for the lines of one message.

    The first letter is the kind: user, assistant, result of a call, progress, x for another record of the system. A record
    follows the one before it in the line, and comes a minute later, unless it says otherwise; `<none` follows none, and
    `<list` names a list as what it follows.
    """
    made: list[Record] = []
    for token in text.split():
        [(uuid, message, parent, minute, called)] = re.findall(
            r"(\w+)(?:/(\w+))?(?:<(\w+))?(?:@(\d+))?(?::(\w+))?", token
        )
        follows: Any = {"": made[-1]["uuid"] if made else None, "none": None, "list": [1]}.get(parent, parent)
        place = follows, int(minute or len(made))
        match uuid[0]:
            case "u":
                made.append(user(uuid, *place))
            case "a":
                made.append(assistant(uuid, *place, *([call(called)] if called else []), message_id=message))
            case "r":
                made.append(result(uuid, *place, called))
            case "p":
                made.append(record(uuid, *place, "progress", data={}))
            case _:
                made.append(record(uuid, *place, "system", subtype="stop_hook_summary"))
    return made


@pytest.mark.parametrize(
    ("records", "paths"),
    [
        pytest.param("u1 a1 u2 a2 u3<a1 a3", "u1 a1 u3 a3, u1 a1 u2 a2", id="going back and typing again is a fork"),
        pytest.param("u1 u2 u3<u1 a3 a2<u2", "u1 u2 a2, u1 u3 a3", id="the main path has the last record"),
        pytest.param("u1 u2 u3<u1 a3 u4 u5<a3", "u1 u3 a3 u5, u1 u2, u1 u3 a3 u4", id="a fork in a fork"),
        pytest.param("u1 a1:t1 p1 r1<a1:t1 p2 u2", "u1 a1 r1 u2", id="progress beside a message is no fork"),
        pytest.param("u1 a1 x1 u2 u3<a1", "u1 a1 u3, u1 a1 u2", id="prompts behind silent records are a fork"),
        pytest.param(
            "u1 a1/m:t1 a2/m:t2 r1<a1:t1 r2<a2:t2 a3<r1 u2",
            "u1 a1+a2 r1 r2 a3 u2",
            id="results of parallel tools are no fork",
        ),
        pytest.param("u1 a1 u2@2 u3<a1@2 a3", "u1 a1 u2 u3 a3", id="prompts of one time are a replay"),
        pytest.param(
            "u1 a1:t1 u2 u3<a1 r1<a1:t1 a3<u3",
            "u1 a1 u3 r1 a3, u1 a1 u2",
            id="a late line goes to the branch written to",
        ),
        pytest.param("u1 a2<u2@3 u2<u1@2", "u1 u2 a2", id="a record written before the one it follows comes after it"),
    ],
)
def test_a_fork_is_what_a_user_typed_again_and_nothing_else(records: str, paths: str) -> None:
    session = only_session(*drawn(records))
    assert [" ".join(ids(path)) for path in session.paths] == paths.split(", ")
    first, *others = session.paths
    for other in others:  # what they begin with is shared
        length = next((n for n, (one, two) in enumerate(zip(ids(first), ids(other), strict=False)) if one != two), 0)
        assert first[:length] == other[:length]


# Links that do not hold


@pytest.mark.parametrize(
    ("records", "path", "continues", "note"),
    [
        ("u1 a1<none u2<none", "u1 a1 u2", None, "2 record(s), the first in line 2, name no record that they follow"),
        (
            "x1<gone u1",
            "u1",
            "gone",
            "session s1 follows the record 'gone', which is not here, which may be in the store",
        ),
        ("u1 a1 u2<gone u3<list", "u1 a1 u2 u3", None, "2 record(s), the first in line 3, follow a record that is not"),
        ("u1<u3 u2 u3 u4<u4", "u1 u2 u3 u4", None, "2 record(s), the first in line 1, follow each other in a circle"),
        ("u1 a1 u1<none@0", "u1 a1", None, ""),
    ],
)
def test_links_that_do_not_hold_cost_no_record_and_are_noted(
    records: str, path: str, continues: str | None, note: str
) -> None:
    transcript = parsed(*drawn(records))
    [session] = transcript.sessions
    assert ([" ".join(ids(each)) for each in session.paths], session.continues) == ([path], continues)
    assert [note in each for each in transcript.notes] == [True] * bool(note)
    assert transcript.problems == ()


def test_however_four_records_name_each_other_each_is_read_once() -> None:
    names = ("u1", "u2", "u3", "u4")
    for follows in product(names, repeat=4):
        transcript = parsed(
            *(user(name, parent, n) for n, (name, parent) in enumerate(zip(names, follows, strict=True)))
        )
        read = {each for path in transcript.sessions[0].paths for each in ids(path)}
        assert read == set(names), follows


def test_two_different_records_with_one_id_are_the_first_and_a_problem() -> None:
    transcript = parsed(user("u1", None, 0, "One"), assistant("a1", "u1", 1), user("u1", "a1", 2, "Two"))
    assert [turn.content for turn in transcript.sessions[0].paths[0]] == ["One", [text("Answer a1")]]
    [problem] = transcript.problems
    assert (problem.line, problem.reason) == (3, "has the id 'u1' of line 1, and says something else")
    assert '"Two"' in problem.text


@pytest.mark.parametrize("stamp", [None, "yesterday", "2026-01-05T10:00:00", 5, "0001-01-01T00:00:00+10:00"])
def test_a_time_that_says_no_zone_is_no_time(stamp: object) -> None:
    transcript = parsed(user("u1", None, 0), user("u2", "u1", 1, timestamp=stamp))
    assert [turn.time is None for turn in transcript.sessions[0].paths[0]] == [False, True]
    assert "1 record(s), the first in line 2, have no time that says its time zone" in transcript.notes[0]
    [[other_zone]] = only_session(user("u1", None, 0, timestamp="2026-01-05T12:00:00+02:00")).paths
    assert other_zone.time == datetime(2026, 1, 5, 10, 0, tzinfo=UTC)


# Lines that cannot be turns


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"message": "error"}, "has a message that is no object but a str"),
        ({"message": None}, "has no message"),
        ({"message": {"role": "user"}}, "has no content"),
        ({"message": {"role": "user", "content": None}}, "has no content"),
        (
            {"message": {"role": "user", "content": {"a": 1}}},
            "cannot be kept: content must be a string or a list of parts, not dict",
        ),
        (
            {"message": {"role": "user", "content": [1]}},
            "cannot be kept: a content part must be a mapping or a string, not int",
        ),
        ({"uuid": None}, "has no id (uuid)"),
        ({"sessionId": ""}, "has no session (sessionId)"),
        ({"type": None}, "has no type"),
        ({"type": ["user"]}, "has a type that is no text"),
        ({"x" * 101: 1}, "cannot be kept: a meta key must have 1 to 100 characters, not 101: "),
    ],
)
def test_a_message_that_cannot_be_kept_is_a_problem_and_the_rest_goes_on(bad: Record, reason: str) -> None:
    transcript = parsed(user("u1", None, 0), user("u2", "u1", 1) | bad, assistant("a1", "u2", 2))
    [problem] = transcript.problems
    assert problem.line == 2
    assert problem.reason.startswith(reason)
    assert ids(transcript.sessions[0].paths[0]) == ["u1", "a1"]


@pytest.mark.parametrize("kind", [{"v": "text"}, ["text"]])
def test_a_part_whose_type_is_no_text_raises_nothing(kind: object) -> None:
    transcript = parsed(user("u1", None, 0), assistant("a1", "u1", 1, {"type": kind, "text": "x"}))
    assert ids(transcript.sessions[0].paths[0]) == ["u1", "a1"]


def test_plain_strings_among_the_content_are_kept() -> None:
    [[turn]] = only_session(user("u1", None, 0, ["wow", text("yes")])).paths
    assert turn.content == ["wow", text("yes")]


def test_a_problem_says_in_which_of_several_files_it_is() -> None:
    transcript = parse([("a.jsonl", lines(user("u1", None, 0))), ("b.jsonl", b"{")])
    [problem] = transcript.problems
    assert problem.line == 1
    assert problem.file == "b.jsonl"


# Compactions


def compacted(**metadata: Any) -> list[Record]:
    return [
        user("u1", None, 0),
        assistant("a1", "u1", 1),
        boundary("b", "a1", 2, **metadata),
        user("c", "b", 2, "The story so far", isCompactSummary=True),
        user("u2", "c", 3),
    ]


def test_a_boundary_and_its_summary_are_one_summary_turn() -> None:
    [path] = only_session(*compacted(trigger="auto", preTokens=150_000)).paths
    assert ids(path) == ["u1", "a1", "b+c", "u2"]
    summary = path[2]
    assert (summary.role, summary.content) == ("summary", [text("The story so far")])
    assert summary.compaction is not None
    assert summary.compaction.model_dump(exclude_none=True) == {
        "summarised_through": 1,
        "tokens_before": 150_000,
        "trigger": "threshold",
    }
    assert summary.meta["boundary"]["content"] == "Conversation compacted"


@pytest.mark.parametrize(("said", "kept"), [("manual", "manual"), ("auto", "threshold"), ("api", "api"), (7, None)])
def test_what_caused_a_compaction_is_kept(said: object, kept: str | None) -> None:
    [path] = only_session(*compacted(trigger=said, preTokens="many")).paths
    assert path[2].compaction is not None
    assert (path[2].compaction.trigger, path[2].compaction.tokens_before) == (kept, None)


def test_a_boundary_whose_link_is_gone_follows_the_record_before_it() -> None:
    records = compacted()
    records[2]["logicalParentUuid"] = "gone"
    transcript = parsed(*records)
    assert ids(transcript.sessions[0].paths[0]) == ["u1", "a1", "b+c", "u2"]
    assert "1 record(s), the first in line 3, follow a record that is not here" in transcript.notes[0]


def test_a_compaction_after_a_fork_counts_along_its_own_branch() -> None:
    session = only_session(
        user("u1", None, 0),
        user("u2", "u1", 1),
        assistant("a2", "u2", 2),
        user("u3", "u1", 3),
        boundary("b", "u3", 4),
        user("c", "b", 4, isCompactSummary=True),
    )
    assert [ids(path) for path in session.paths] == [["u1", "u3", "b+c"], ["u1", "u2", "a2"]]
    assert session.paths[0][2].compaction == trails.Compaction(summarised_through=1)


def test_a_message_repeated_after_a_compaction_is_not_more_of_the_one_before() -> None:
    records = [*compacted(), assistant("a9", "u2", 4, message_id="msg_a1")]
    assert only_path(*records) == ["u1", "a1", "b+c", "u2", "a9"]


# Several sessions


def test_one_file_may_hold_two_sessions_and_the_second_goes_on_from_the_first() -> None:
    transcript = parsed(
        user("u1", None, 0),
        record("x1", "u1", 1, "system", subtype="turn_duration"),
        user("u2", "x1", 2, sessionId="s2"),
    )
    first, second = transcript.sessions
    assert (first.id, first.continues, ids(first.paths[0])) == ("s1", None, ["u1"])
    assert (second.id, second.continues, ids(second.paths[0])) == ("s2", "u1", ["u2"])


def test_a_session_that_begins_with_copies_goes_on_from_the_last_shared_record() -> None:
    first = [user("u1", None, 0), assistant("a1", "u1", 1)]
    copies = [each | {"sessionId": "s0", "version": "2.2.0"} for each in first]
    later = [*copies, user("u2", "a1", 9, sessionId="s0")]
    transcript = parse([("s0.jsonl", lines(*later)), ("s1.jsonl", lines(*first, assistant("a9", "a1", 3)))])
    resumed, original = transcript.sessions
    assert (resumed.id, resumed.continues, ids(resumed.paths[0])) == ("s0", "a1", ["u2"])
    assert (original.id, original.continues, ids(original.paths[0])) == ("s1", None, ["u1", "a1", "a9"])
    assert resumed.created == datetime(2026, 1, 5, 10, 9, tzinfo=UTC)


def test_a_resumed_session_is_kept_as_a_fork_that_shares_what_it_copied(memory: trails.Repository) -> None:
    first = [user("u1", None, 0), assistant("a1", "u1", 1), user("u5", "a1", 2)]
    later = [*(each | {"sessionId": "s0"} for each in first[:2]), user("u2", "a1", 9, "Again", sessionId="s0")]
    files = [("s0.jsonl", lines(*later)), ("s1.jsonl", lines(*first))]
    assert merge(memory, parse(files)).turns_added == 4
    resumed = memory.load("claude-code:s0")
    assert (resumed.parent_session_id, resumed.forked_at_index) == ("claude-code:s1", 2)
    assert [turn.source_ids for turn in resumed.turns] == [("u1",), ("a1",), ("u2",)]
    assert merge(memory, parse(files)).turns_added == 0


def test_a_copy_with_nothing_of_its_own_is_a_session_that_goes_on_from_all_of_it() -> None:
    first = [user("u1", None, 0), assistant("a1", "u1", 1)]
    again = [each | {"sessionId": "s2"} for each in first]
    transcript = parse([("s1.jsonl", lines(*first)), ("s2.jsonl", lines(*again))])
    assert [(s.id, s.continues, [ids(p) for p in s.paths]) for s in transcript.sessions] == [
        ("s1", None, [["u1", "a1"]]),
        ("s2", "a1", [[]]),
    ]


def test_a_branched_session_with_new_ids_shares_what_its_records_say_they_copy() -> None:
    first = [user("u1", None, 0), assistant("a1", "u1", 1)]
    origin = {"sessionId": "s1"}
    branch = [
        user("n1", None, 0, sessionId="s0", forkedFrom=origin | {"messageUuid": "u1"}),
        assistant("n2", "n1", 1, message_id="msg_a1", sessionId="s0", forkedFrom=origin | {"messageUuid": "a1"})
        | {"message": first[1]["message"]},
        user("n3", "n2", 5, sessionId="s0"),
    ]
    transcript = parse([("s0.jsonl", lines(*branch)), ("s1.jsonl", lines(*first))])
    assert [(s.id, s.continues, ids(s.paths[0])) for s in transcript.sessions] == [
        ("s0", "a1", ["n3"]),
        ("s1", None, ["u1", "a1"]),
    ]


# Sub-agents


def test_a_sub_agents_file_is_a_session_of_its_own_named_for_what_the_call_asked_for() -> None:
    asked = call("t1", "Task", subagent_type="Explore", prompt="Look around")
    side: Record = {"isSidechain": True, "agentId": "ab12"}
    transcript = parse(
        [
            (
                "s1.jsonl",
                lines(
                    user("u1", None, 0),
                    assistant("a1", "u1", 1, asked),
                    result("r1", "a1", 5, "t1", toolUseResult={"agentId": "ab12"}),
                ),
            ),
            (
                "s1/subagents/agent-ab12.jsonl",
                lines(user("g1", None, 2, "Something", **side), assistant("g2", "g1", 3, **side)),
            ),
        ]
    )
    main, sub = transcript.sessions
    assert (main.agent, ids(main.paths[0])) == ("claude-code", ["u1", "a1", "r1"])
    assert (sub.id, sub.spawned_by, sub.agent) == ("s1:agent-ab12", "s1", "Explore")
    assert [ids(path) for path in sub.paths] == [["g1", "g2"]]


def test_sub_agents_inside_the_main_file_are_told_apart_by_where_they_begin() -> None:
    asked = call("t1", "Task", subagent_type="Plan", prompt="Make a plan")
    transcript = parsed(
        user("u1", None, 0),
        assistant("a1", "u1", 1, asked),
        user("g1", None, 2, "Make a plan", isSidechain=True),
        user("h1", None, 2, "Warmup", isSidechain=True),
        assistant("g2", "g1", 3, isSidechain=True),
        assistant("h2", "h1", 3, isSidechain=True),
        result("r1", "a1", 4, "t1"),
    )
    found = [(s.id, s.agent, s.spawned_by, ids(s.paths[0])) for s in transcript.sessions]
    assert found == [
        ("s1", "claude-code", None, ["u1", "a1", "r1"]),
        ("s1:agent-g1", "Plan", "s1", ["g1", "g2"]),
        ("s1:agent-h1", "agent-h1", "s1", ["h1", "h2"]),
    ]


def test_a_sub_agent_that_follows_a_record_of_its_session_does_not_go_on_from_it() -> None:
    transcript = parsed(user("u1", None, 0), user("g1", "u1", 1, isSidechain=True, agentId="x"))
    assert [session.continues for session in transcript.sessions] == [None, None]


# Titles


SUMMARY: Record = {"type": "summary", "summary": "A trip", "leafUuid": "a1"}
NAMED: Record = {"type": "custom-title", "customTitle": "Mine", "sessionId": "s1"}


@pytest.mark.parametrize(
    ("before", "after", "titles"),
    [([SUMMARY], [], ["A trip"]), ([NAMED], [SUMMARY], ["Mine", "A trip"])],
    ids=["a summary of its leaf", "a name given by the user counts more"],
)
def test_a_session_has_the_name_that_counts_most(before: list[Record], after: list[Record], titles: list[str]) -> None:
    session = only_session(*before, user("u1", None, 0), assistant("a1", "u1", 1), *after)
    assert [session.title, *session.meta.get("otherTitles", [])] == titles


def test_a_summary_of_something_that_is_not_here_is_noted() -> None:
    transcript = parsed({"type": "summary", "summary": "Old", "leafUuid": "gone"}, user("u1", None, 0))
    assert transcript.sessions[0].title is None
    assert list(transcript.notes) == ["the summary in line 1 is of no session here, or has no text: 'Old'"]


# Files


def test_the_format_is_told_from_the_beginning_of_a_file() -> None:
    assert sniff(lines(user("u1", None, 0)))
    assert sniff(b'\xef\xbb\xbf{"type": "summary", "summary": "x", "leafUuid": "y"}')
    assert sniff(lines(user("u1", None, 0, "x" * 5_000))[:300])
    assert not sniff(b"")
    assert not sniff(b'{"type": "session", "version": 3, "id": "abc", "cwd": "/"}')
    assert not sniff(b'{"type": "message", "text": "{\\"parentUuid\\": 1}"}')


def test_a_session_file_comes_with_the_files_of_its_sub_agents(tmp_path: Path) -> None:
    below = tmp_path / "s1" / "subagents"
    below.mkdir(parents=True)
    for name in ("agent-b.jsonl", "agent-a.jsonl", "notes.txt"):
        (below / name).touch()
    for name in ("s2.jsonl", "s1.jsonl"):
        (tmp_path / name).touch()
    agents = [below / "agent-a.jsonl", below / "agent-b.jsonl"]
    assert companions(tmp_path / "s1.jsonl") == [tmp_path / "s1.jsonl", *agents]
    assert companions(tmp_path / "s2.jsonl") == [tmp_path / "s2.jsonl"]
    files = [tmp_path / "s1.jsonl", tmp_path / "s2.jsonl", *agents]
    assert [list(group) for group in claude_code.groups(files)] == [files]


def test_no_files_are_an_empty_transcript() -> None:
    assert parse([]) == parse([("empty.jsonl", b"")]) == Transcript((), (), Counter(), ())


# Real files, counted independently


NAMES = [
    "ccl-dag_compact_after_rewind", "ccl-edge_cases", "ccl-representative_messages", "ccl-session_b",
    "ccl-todowrite_examples", "entire-compact-linear", "entire-parallel-tools-7br", "entire-small-progress",
    "entire-tiny-orphan-parent", "entire-tiny-summary", "entire-user-rewind",
]  # fmt: skip


def distinct_turns(transcript: Transcript) -> list[SourceTurn]:
    return list({t.source_ids: t for s in transcript.sessions for path in s.paths for t in path}.values())


def parts(turns: list[SourceTurn]) -> Iterator[Any]:
    for turn in turns:
        if not isinstance(turn.content, str):
            yield from turn.content


@pytest.fixture(params=NAMES)
def real(request: pytest.FixtureRequest, shared: Path) -> tuple[Transcript, dict[str, Any]]:
    expected = json.loads((shared / "cases" / "data_other_expectations.json").read_text())["claude-code-jsonl"]
    assert sorted(expected) == sorted(f"{name}.jsonl" for name in NAMES)
    data = (shared / "data" / "claude-code-jsonl" / f"{request.param}.jsonl").read_bytes()
    assert sniff(data[:65_536])
    return parse([(request.param, data)]), expected[f"{request.param}.jsonl"]


def test_a_real_file_gives_the_sessions_forks_and_turns_counted_in_it(real: tuple[Transcript, dict[str, Any]]) -> None:
    transcript, expected = real
    turns = distinct_turns(transcript)
    assert [session.id for session in transcript.sessions] == expected["sessions"]
    assert sum(len(session.paths) - 1 for session in transcript.sessions) == expected["candidate_user_rewinds"]
    assert dict(transcript.records) == expected["types"]
    assert sum(turn.role == "assistant" for turn in turns) == expected["assistant_api_messages"]
    assert sum(turn.role == "summary" for turn in turns) == expected["compact_summaries"]
    asked, answered = {c.id for c in calls_in(parts(turns))}, {r.call_id for r in results_in(parts(turns))}
    assert (len(asked), len(answered)) == (expected["tool_use"], expected["tool_result"])
    assert (len(asked - answered), len(answered - asked)) == (
        expected["unanswered_tool_use"],
        expected["orphan_tool_result"],
    )
    assert sum("is not a JSON" in problem.reason for problem in transcript.problems) == expected["bad_lines"]
    typed = [
        turn
        for turn in turns
        if turn.role == "user"
        and not turn.meta.get("isMeta")
        and (
            isinstance(turn.content, str) or any(isinstance(p, dict) and p.get("type") == "text" for p in turn.content)
        )
    ]
    assert len(typed) == expected["typed_user_prompts"]


def test_every_record_of_a_real_file_that_says_something_is_in_a_turn_or_a_problem(
    real: tuple[Transcript, dict[str, Any]],
) -> None:
    transcript, expected = real
    kept = sum(len(turn.pieces) for turn in distinct_turns(transcript))
    spoken = sum(expected["types"].get(kind, 0) for kind in ("user", "assistant", "system/compact_boundary"))
    refused = sum(
        "is not a JSON" not in problem.reason and "no type" not in problem.reason for problem in transcript.problems
    )
    assert kept + refused == spoken


def test_a_real_file_is_kept_whole_by_a_store(real: tuple[Transcript, dict[str, Any]]) -> None:
    transcript, _ = real
    with trails.open(":memory:") as store:
        report = merge(store, transcript)
        assert len(report.problems) == len(transcript.problems)
        assert report.turns_added == len(distinct_turns(transcript))


def test_the_real_rewind_went_back_to_before_the_first_prompt(shared: Path) -> None:
    data = (shared / "data" / "claude-code-jsonl" / "entire-user-rewind.jsonl").read_bytes()
    [session] = parse([("f", data)]).sessions
    main, other = session.paths
    assert ["Caveat" in str(other[0].content), "/exit" in str(other[1].content), "Bye!" in str(other[2].content)] == [
        True
    ] * 3
    assert len(other) == 3
    assert str(main[0].content).startswith("ok, works, can you now tell me")


def test_single_real_messages_are_all_read_without_a_problem(shared: Path) -> None:
    for file in sorted((shared / "data" / "claude-code-jsonl" / "single-messages").glob("*.jsonl")):
        transcript = parse([(file.name, file.read_bytes())])
        assert transcript.problems == ()
        says_something = set(transcript.records) & {"user", "assistant"}
        assert len(distinct_turns(transcript)) == len(says_something), file.name


# Whatever the bytes

names = st.sampled_from(["u1", "u2", "u3", "u4", "", "s1", "s2"])
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | names,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("type"), inner, max_size=3)
    ),
    max_leaves=5,
)
contents = st.one_of(
    st.just("Hi"),
    st.lists(
        st.one_of(
            st.builds(call, names, subagent_type=names, prompt=st.just("Hi")),
            st.builds(lambda i: {"type": "tool_result", "tool_use_id": i}, names),
            st.just("plain"),
        ),
        max_size=2,
    ),
)
kinds = st.sampled_from(["user", "assistant", "system", "progress", "summary", "custom-title", "new"])
likely = st.fixed_dictionaries(
    {"type": kinds, "uuid": names, "sessionId": st.sampled_from(["s1", "s2"]), "parentUuid": st.none() | names},
    optional={
        "message": st.fixed_dictionaries({"content": contents}, optional={"id": names, "usage": junk, "model": junk}),
        "timestamp": st.sampled_from(["2026-01-05T10:00:00Z", "2026-01-05T11:00:00Z", "?"]),
        "subtype": st.just("compact_boundary"),
        "isCompactSummary": st.booleans(),
        "isSidechain": st.booleans(),
        "agentId": names,
        "toolUseResult": st.fixed_dictionaries({"agentId": names}) | junk,
        "forkedFrom": st.fixed_dictionaries({"sessionId": names, "messageUuid": names}) | junk,
        "leafUuid": names,
        "summary": junk,
    },
)


@st.composite
def any_lines(draw: st.DrawFn) -> bytes:
    made = []
    for _ in range(draw(st.integers(0, 8))):
        value: Any = draw(likely | junk)
        if isinstance(value, dict) and value and draw(st.integers(0, 4)) == 0:
            value[draw(st.sampled_from(sorted(value)))] = draw(junk)
        line = json.dumps(value).encode()
        made.append(line[: draw(st.integers(0, len(line)))] if draw(st.integers(0, 9)) == 0 else line)
    return b"\n".join(made)


@given(any_lines(), any_lines())
def test_every_message_is_in_exactly_one_place_whatever_the_lines_say(one: bytes, two: bytes) -> None:
    transcript = parse([("one", one), ("two", two)])
    pieces = Counter(
        (session.id, piece.source_id)
        for session in transcript.sessions
        for turn in {id(turn): turn for path in session.paths for turn in path}.values()
        for piece in turn.pieces
    )
    assert all(count == 1 for count in pieces.values())
    assert len({session.id for session in transcript.sessions}) == len(transcript.sessions)
    for session in transcript.sessions:
        leaves = [ids(path) for path in session.paths]
        assert len({tuple(leaf) for leaf in leaves}) == len(leaves)
        for path in session.paths:
            for index, turn in enumerate(path):
                if turn.compaction is not None:
                    assert turn.compaction.summarised_through == (index - 1 if index else None)


@given(any_lines())
def test_every_message_is_in_a_turn_or_a_problem_whatever_the_lines_say(data: bytes) -> None:
    transcript = parse([("one", data)])
    refused = {problem.line for problem in transcript.problems}
    kept = {source for turn in distinct_turns(transcript) for source in turn.source_ids}
    for number, line in enumerate(data.split(b"\n"), start=1):
        if number in refused or not line.strip():
            continue
        value = json.loads(line)
        if value["type"] in ("user", "assistant"):
            copied = value.get("forkedFrom")
            assert value["uuid"] in kept or (isinstance(copied, dict) and copied.get("messageUuid") in kept)


def test_a_call_that_the_user_refused_or_broke_off_says_so() -> None:
    refused, broken = "User rejected tool use", {"stdout": "", "interrupted": True}
    session = only_session(
        user("u1", None, 0),
        assistant("a1", "u1", 1, call("t1"), call("t2"), call("t3")),
        result("r1", "a1", 2, "t1", toolUseResult=refused),
        result("r2", "r1", 3, "t2", toolUseResult=broken),
        result("r3", "r2", 4, "t3", toolUseResult={"interrupted": False}),
    )
    assert [turn.tool_results for turn in session.paths[0][2:]] == [
        ({"call_id": "t1", "outcome": "refused"},),
        ({"call_id": "t2", "outcome": "cancelled"},),
        (),
    ]


def test_a_message_that_no_store_would_keep_is_a_problem_and_costs_no_other() -> None:
    deep: Any = "x"
    for _ in range(120):
        deep = [deep]
    transcript = parsed(
        user("a", None, 0),
        user("b", "a", 1, [{"type": "text", "text": "Hello", "deep": deep}]),
        user("c", "b", 2, "x" * 17_000_000),
        user("d", "c", 3, ["Hello", 3]),
        user("e", "d", 4, **{"k" * 101: "Hello"}),
        user("f", "e", 5),
    )
    assert [ids(path) for path in transcript.sessions[0].paths] == [["a", "f"]]
    assert [problem.line for problem in transcript.problems] == [2, 3, 4, 5]
