"""Codex's threads of 2026: spawned agents, reviews, messages between agents, calls within code, reverts, packed files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.exchange.test_codex import (
    Line,
    answered,
    asked,
    call,
    data_of,
    event,
    header,
    item,
    line,
    only,
    output,
    parsed,
    said,
    texts,
    tokens,
)
from trails import InvalidInput, Repository
from trails.exchange import containers
from trails.exchange.coding_agents import codex
from trails.exchange.file_import import import_bytes, import_path
from trails.exchange.merge import merge

SPAWN: dict[str, Any] = {"subagent": {"thread_spawn": {"parent_thread_id": "P", "depth": 1, "agent_role": "explorer"}}}


def at(second: int, *lines: Line) -> list[Line]:
    return [each | {"timestamp": f"2026-01-02T03:04:{second:02}.000Z"} for each in lines]


def counted(text: str, number: int) -> list[Line]:
    """An answer of 10 output tokens."""
    return [*answered(text), tokens(number)]


HISTORY = at(1, *asked("q1"), call("c1"), output("c1"), *counted("a1", 100))
"""4 turns and a model call, said before the child was spawned."""
PARENT = [header("P"), *HISTORY, *at(40, *asked("q2"), *counted("a2", 200))]
CHILD = [
    *at(20, line("session_meta", {"id": "C", "timestamp": "2026-01-02T03:04:20.000Z", "source": SPAWN})),
    *HISTORY,
    *at(21, *asked("task"), *counted("found", 200)),
]


def output_tokens(store: Repository) -> int:
    return sum(row["output"] for row in store.select("token-usage-by-model").to_dicts())


def owned(store: Repository, session_id: str) -> list[str]:
    return [turn.text for turn in store.load(session_id).turns if turn.session_id == session_id]


# --- spawned threads


def test_a_spawned_thread_that_repeats_its_parents_history_shares_it_and_counts_only_its_own_calls(
    store: Repository,
) -> None:
    transcript = codex.parse([("c", data_of(*CHILD)), ("p", data_of(*PARENT))])
    merge(store, transcript)
    record = store.record("codex:C")
    assert (record.parent_session_id, record.forked_at_index, record.spawned_by) == ("codex:P", 4, "codex:P")
    assert record.agent == "explorer"
    assert owned(store, "codex:C") == ["task", "found"]
    assert output_tokens(store) == 30  # a1, a2 and found
    assert merge(store, transcript).turns_added == 0


def test_a_spawned_thread_that_comes_before_its_parent_counts_no_call_of_that_and_is_linked_later(
    store: Repository,
) -> None:
    merge(store, parsed(*CHILD))
    assert output_tokens(store) == 10
    assert len(store.load("codex:C")) == 6  # nothing is lost where the parent never comes
    assert store.record("codex:C").meta["spawnedBy"] == "codex:P"
    merge(store, parsed(*PARENT))
    assert store.record("codex:C").spawned_by == "codex:P"
    assert output_tokens(store) == 30
    assert [merge(store, parsed(*each)).turns_added for each in (CHILD, PARENT)] == [0, 0]
    assert store.verify().ok


def test_a_history_that_is_repeated_in_part_is_left_to_the_parent_that_has_all_of_it(store: Repository) -> None:
    merge(store, parsed(*PARENT))
    told_again = at(
        1, event("mcp_tool_call_end", call_id="c1", invocation={"server": "s", "tool": "t", "arguments": {}})
    )
    without_calls = [*CHILD[:3], *told_again, *(each for each in CHILD[3:] if each["payload"].get("call_id") is None)]
    report = merge(store, parsed(*without_calls))
    assert owned(store, "codex:C") == ["task", "found"]
    assert any("its first 4 turn(s) are its spawner's, told again" in note for note in report.notes)
    assert (store.record("codex:C").spawned_by, output_tokens(store)) == ("codex:P", 30)
    assert merge(store, parsed(*without_calls)).turns_added == 0


def test_a_history_is_known_by_the_ids_of_its_turns_where_its_lines_have_the_time_of_their_copy(
    store: Repository,
) -> None:
    spawned, before = "019f0000-5000-7000-8000-00000000000c", "019f0000-1000-7000-8000-000000000001"
    lines = at(
        21, event("task_started", turn_id=before), *HISTORY, event("task_complete", turn_id=before), *asked("task")
    )
    merge(store, parsed(header(spawned, source=SPAWN), *lines, *counted("found", 200)))
    assert output_tokens(store) == 10


def test_a_spawned_thread_with_the_same_instructions_alone_is_no_fork(store: Repository) -> None:
    rules = said("developer", "be careful")
    merge(store, parsed(header("P"), rules, *asked("q"), *answered("a")))
    report = merge(store, parsed(header("C", source=SPAWN), rules, *asked("task")))
    assert (store.record("codex:C").parent_session_id, report.notes) == (None, [])


@pytest.mark.parametrize(
    ("fields", "agent"),
    [
        ({"source": {"subagent": {"other": "guardian"}}, "parent_thread_id": "P"}, "guardian"),
        ({"source": {"subagent": "review"}, "parent_thread_id": "P"}, "review"),
        ({"source": {"subagent": "review"}, "forked_from_id": "P"}, "review"),
        ({"source": "cli", "thread_source": "guardian_review", "session_id": "P"}, "codex"),
    ],
)
def test_guardians_and_reviews_are_linked_to_who_spawned_them_in_any_order(
    store: Repository, fields: dict[str, Any], agent: str
) -> None:
    parent, child = parsed(header("P"), *asked("q")), parsed(header("G", **fields), *asked("check"))
    merge(store, child)
    merge(store, parent)
    record = store.record("codex:G")
    assert (record.spawned_by, record.agent) == ("codex:P", agent)
    assert store.verify().ok


# --- what other agents and the program say


MESSAGE = {"author": "/root", "recipient": "/root/w", "content": "look at x", "trigger_turn": True}


@pytest.mark.parametrize(
    "lines",
    [
        [line("inter_agent_communication", MESSAGE)],
        [
            item(
                "agent_message",
                author="/root",
                recipient="/root/w",
                content=[{"type": "input_text", "text": "look at x"}],
            )
        ],
        [said("assistant", json.dumps(MESSAGE))],
        [
            item("agent_message", author="/root", content=[{"type": "input_text", "text": "look at x"}]),
            line("inter_agent_communication", MESSAGE),
        ],
    ],
)
def test_a_message_of_another_agent_is_one_turn_of_that_agent_with_no_model_and_no_usage(lines: list[Line]) -> None:
    context = line("turn_context", {"model": "m"})
    path = only(context, *lines, *answered("looked"), tokens(5)).paths[0]
    assert texts(path) == [("user", "look at x"), ("assistant", "looked")]
    assert [(turn.author, turn.model, turn.usage is None) for turn in path] == [
        ("agent:/root", None, True),
        (None, "m", False),
    ]


def test_errors_and_notices_are_kept_and_no_model_is_shown_them(store: Repository) -> None:
    notices = (
        event("error", message="limit reached"),
        event("warning", message="slow"),
        event("background_event", message="retry"),
    )
    merge(store, parsed(header(), *asked("q"), *notices, *answered("a")))
    turns = store.load("codex:T").turns
    assert [turn.role for turn in turns] == ["user", "error", "warning", "info", "assistant"]
    assert [message["content"] for message in store.context("codex:T", "next").openai()] == ["q", "a", "next"]


def test_other_events_and_records_stand_in_the_metadata_of_the_next_turn_or_of_the_session() -> None:
    state = line("world_state", {"state": {"note": "a long note of the world"}})
    session = only(
        *asked("q"), state, event("task_complete", turn_id="t"), *answered("a"), event("turn_aborted", reason="x")
    )
    when = {"timestamp": "2026-01-02T03:04:02.000Z"}
    assert session.paths[0][1].meta["eventsBefore"] == [
        {
            "timestamp": "2026-01-02T03:04:00.000Z",
            "type": "world_state",
            "payload": {"state": {"note": "a long note of the world"}},
        },
        when | {"type": "task_complete", "turn_id": "t"},
    ]
    assert session.meta["eventsAfter"] == [when | {"type": "turn_aborted", "reason": "x"}]


# --- calls


def test_calls_of_every_kind_are_calls_with_their_answers(store: Repository) -> None:
    lines = (
        *asked("q"),
        item("tool_search_call", call_id="t1", execution="client", arguments={"query": "x"}),
        item("tool_search_output", call_id="t1", status="completed", tools=[{"name": "ls"}]),
        event("web_search_end", call_id="ws1", query="news"),
        item("web_search_call", status="completed", action={"type": "search", "query": "news"}),
        item("web_search_call", id="ws2", status="completed", action={"type": "search", "query": "more"}),
        event("web_search_end", call_id="call-2", query="more"),  # of another id, and the same search
        item("image_generation_call", id="ig1", status="completed", revised_prompt="a cat", result="aGk="),
        item("custom_tool_call", call_id="x1", name="exec", input="await tools.ls()"),
        event("exec_command_end", call_id="n1", command=["ls"], aggregated_output="a.txt", exit_code=2),
        event("dynamic_tool_call_request", callId="n2", tool="buy", arguments={"n": 1}),
        event("dynamic_tool_call_response", call_id="n2", tool="buy", arguments={"n": 1}, success=True),
        event("item_completed", item={"type": "McpToolCall", "id": "n3", "server": "s", "tool": "t", "arguments": {}}),
        event("exec_command_end", call_id="x1", command=["js"], exit_code=0),
        item("custom_tool_call_output", call_id="x1", output="done"),
    )
    merge(store, parsed(header(), *lines))
    turns = store.load("codex:T").turns
    asked_for = [(each.id, each.name) for turn in turns for each in turn.tool_calls]
    assert asked_for == [
        ("t1", "tool_search"),
        ("ws1", "web_search"),
        ("ws2", "web_search"),
        ("ig1", "image_generation"),
        ("x1", "exec"),
        ("n1", "exec_command"),
        ("n2", "buy"),
        ("n3", "s.t"),
    ]
    gave = {each.call_id: each.is_error for turn in turns for each in turn.tool_results}
    assert gave == dict.fromkeys(("t1", "ws1", "ws2", "ig1", "x1", "n2", "n3"), False) | {"n1": True}
    assert store.select("open-tool-calls").to_dicts() == []
    shown: list[Any] = [*store.context("codex:T", "next").openai()]
    calls = [each["id"] for message in shown for each in message.get("tool_calls", [])]
    assert calls == ["t1", "x1"]  # what ran within code, and at the provider, no model is shown as a call of its own


def test_a_custom_call_of_openais_chat_is_taken_as_a_call(memory: Repository) -> None:
    session = memory.create(id="s")
    given = {"id": "c", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin"}}
    turn = session.append("assistant", "", tool_calls=[given])
    session.append_message({"role": "assistant", "content": None, "tool_calls": [given | {"id": "d"}]})
    session.persist()
    assert [(each.id, each.name, each.input) for t in session.turns for each in t.tool_calls] == [
        ("c", "apply_patch", "*** Begin"),
        ("d", "apply_patch", "*** Begin"),
    ]
    assert turn.index == 0


# --- counts of tokens


def test_each_model_call_counts_once_however_often_its_usage_is_told() -> None:
    first = {"input_tokens": 90, "cached_input_tokens": 5, "output_tokens": 10, "total_tokens": 100}
    record = line("token_usage_record", {"thread_id": "T", "usage": first})
    later = {"total_token_usage": {"input_tokens": 170, "output_tokens": 30}, "last_token_usage": None}
    total = {"total_token_usage": {"input_tokens": 90, "output_tokens": 10}, "last_token_usage": first}
    transcript = parsed(
        header(), *asked("q"), call("c"), record, event("token_count", info=total), event("token_count", info=total),
        output("c"), *answered("a"), event("token_count", info=later), event("token_count", info=None),
    )  # fmt: skip
    usages = [turn.usage for turn in transcript.sessions[0].paths[0] if turn.role == "assistant"]
    assert usages == [first, {"input_tokens": 80, "output_tokens": 20}]
    assert transcript.notes == ()  # no count was left over


def test_the_usage_of_a_compaction_is_its_summarys() -> None:
    path = only(
        line("turn_context", {"model": "m"}),
        *asked("q"),
        *counted("a", 1),
        tokens(2, 200),
        line("compacted", {"message": "s"}),
    ).paths[0]
    assert [(turn.role, turn.model, turn.usage and turn.usage["total_tokens"]) for turn in path] == [
        ("user", None, None),
        ("assistant", "m", 100),
        ("summary", "m", 200),
    ]


# --- reverted threads


def numbered(start: int, *lines: Line) -> list[Line]:
    return [each | {"ordinal": start + number} for number, each in enumerate(lines)]


def test_a_reverted_thread_goes_on_in_its_last_file_and_what_was_taken_back_is_a_fork(
    store: Repository, tmp_path: Path
) -> None:
    first = numbered(
        0, header(), said("user", "q"), said("assistant", "a"), said("user", "wrong"), said("assistant", "b")
    )
    base = {"thread_id": "T", "end_ordinal_exclusive": 3, "end_byte_offset": 9}
    second = numbered(3, header(history_base=base), said("user", "right"), said("assistant", "c"))
    thread = "11111111-1111-4111-8111-111111111111"
    days = [tmp_path / "sessions" / "2026" / "01" / day for day in ("02", "03")]
    for day, name, lines in zip(
        days, ("2026-01-02T03-04-05-{}", "2026-01-03T03-04-05-{}_r2"), (first, second), strict=True
    ):
        day.mkdir(parents=True)
        (day / f"rollout-{name.format(thread)}.jsonl").write_bytes(data_of(*lines))
    import_path(store, tmp_path)
    assert [turn.text for turn in store.load("codex:T").turns] == ["q", "a", "right", "c"]
    [fork] = store.branches("codex:T")
    assert [turn.text for turn in store.load(fork.id).turns] == ["q", "a", "wrong", "b"]
    for again in (tmp_path, next(days[1].iterdir())):  # the later file alone brings the earlier one
        assert import_path(store, again).turns_added == 0


def test_a_message_of_another_agent_begins_a_turn_that_a_rollback_counts() -> None:
    path = only(*asked("q"), *answered("a"), line("inter_agent_communication", MESSAGE), *answered("b"),
                event("thread_rolled_back", num_turns=1), *asked("r")).paths[0]  # fmt: skip
    assert [text for _, text in texts(path)] == ["q", "a", "r"]


# --- packed files


def packed(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard", reason="the package zstandard (extra zstd) is not installed")
    made: bytes = zstandard.ZstdCompressor().compress(data)
    return made


def test_packed_rollouts_are_read_alone_and_in_folders_and_what_is_broken_is_a_problem(
    store: Repository, tmp_path: Path
) -> None:
    (tmp_path / "rollout-a.jsonl.zst").write_bytes(packed(data_of(header("A"), *asked("q"))))
    (tmp_path / "rollout-b.jsonl").write_bytes(data_of(header("B"), *asked("q")))
    assert import_path(store, tmp_path / "rollout-a.jsonl.zst").sessions_created == ["codex:A"]
    (tmp_path / "c.jsonl.zst").write_bytes(containers.ZSTD_SIGNATURE + b"no frame")
    report = import_path(store, tmp_path)
    assert (report.sessions_created, report.unchanged) == (["codex:B"], ["codex:A"])
    [problem] = report.problems
    assert problem.file.endswith("c.jsonl.zst")
    assert "cannot be unpacked" in problem.reason
    assert import_bytes(store, packed(data_of(header("D"), *asked("q")))).sessions_created == ["codex:D"]


def test_a_packed_rollout_that_unpacks_to_too_much_and_one_without_the_package_are_refused(
    memory: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rollout-a.jsonl.zst"
    file.write_bytes(packed(data_of(header("A"), *asked("a" * (17 << 20)))))
    with pytest.raises(InvalidInput, match="unpacks to more than"):
        import_path(memory, file)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(InvalidInput, match=r"pip install 'trails\[zstd\]'"):
        import_path(memory, file)


FILE = (
    header(),
    line("turn_context", {"model": "m"}),
    *asked("q"),
    event("agent_reasoning", text="hm"),
    item("reasoning", summary=[{"type": "summary_text", "text": "hm"}]),
    call("c"),
    tokens(1),
    output("c"),
    *answered("a"),
    tokens(2),
    line("compacted", {"message": "so far"}),
    *reversed(asked("r")),
    event("thread_rolled_back", num_turns=1),
    *asked("s"),
    *answered("b"),
)
GROWING = (
    header(),
    *asked("q"),
    event("web_search_end", call_id="ws1", query="news"),
    item("web_search_call", status="completed", action={"type": "search", "query": "news"}),
    event("web_search_end", call_id="ws2", query="no item has it"),
    item("custom_tool_call", call_id="x1", name="exec", input="x"),
    event("exec_command_end", call_id="n1", command=["ls"], aggregated_output="a", exit_code=0),
    item("custom_tool_call_output", call_id="x1", output="d"),
    event("error", message="limit"),
    *answered("a"),
    tokens(2),
    event("task_complete", turn_id="x"),
    line("inter_agent_communication", MESSAGE),
    item("agent_message", author="/root", content=[{"type": "input_text", "text": "look at x"}]),
    *answered("b"),
    tokens(3),
    line("compacted", {"message": "so far"}),
    event("context_compacted"),
    *asked("r"),
    event("thread_rolled_back", num_turns=1),
    *asked("s"),
    *answered("c"),
)


def _contents(store: Repository) -> list[list[Any]]:
    return sorted([[(t.role, t.content) for t in store.load(record.id).turns] for record in store.list()], key=str)


@pytest.mark.parametrize("lines", [FILE, GROWING], ids=["items", "events"])
def test_a_file_that_is_imported_after_any_line_gives_in_the_end_what_the_whole_gives(lines: tuple[Line, ...]) -> None:
    with trails.open(":memory:") as whole:
        merge(whole, parsed(*lines))
        expected = _contents(whole)
    for length in range(3, len(lines)):
        with trails.open(":memory:") as store:
            merge(store, parsed(*lines[:length]))
            assert merge(store, parsed(*lines)).changed == []
            assert _contents(store) == expected
            assert merge(store, parsed(*lines)).turns_added == 0


def test_each_prefix_of_a_spawned_thread_imported_first_gives_what_the_whole_gives() -> None:
    for length in range(2, len(CHILD)):
        with trails.open(":memory:") as store:
            merge(store, parsed(*CHILD[:length]))
            assert merge(store, parsed(*CHILD)).changed == []
            assert [turn.text for turn in store.load("codex:C").turns][-2:] == ["task", "found"]
            assert len(store.load("codex:C")) == 6
