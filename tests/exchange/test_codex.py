"""Codex's rollouts: visible text once, the first header, forks that share, rollbacks, compactions, usage."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trails import Compaction, Repository
from trails.exchange.coding_agents import codex
from trails.exchange.file_import import import_path
from trails.exchange.merge import merge
from trails.exchange.source_transcript import SourceSession, SourceTurn, Transcript
from trails.model.content_parts import calls_in, plain_text, results_in

Line = dict[str, Any]


def line(kind: str, payload: Line, second: int = 0) -> Line:
    return {"timestamp": f"2026-01-02T03:04:{second:02}.000Z", "type": kind, "payload": payload}


def header(thread: str = "T", **more: Any) -> Line:
    return line("session_meta", {"id": thread, "timestamp": "2026-01-02T03:04:00.000Z", "cwd": "/w", **more})


def item(kind: str, **more: Any) -> Line:
    return line("response_item", {"type": kind, **more}, 1)


def event(kind: str, **more: Any) -> Line:
    return line("event_msg", {"type": kind, **more}, 2)


def said(role: str, *texts: str) -> Line:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text} for text in texts])


def asked(text: str) -> list[Line]:
    return [said("user", text), event("user_message", message=text)]


def answered(text: str) -> list[Line]:
    return [event("agent_message", message=text), said("assistant", text)]


def call(call_id: str) -> Line:
    return item("function_call", name="ls", arguments='{"p": "."}', call_id=call_id)


def output(call_id: str, value: Any = "done") -> Line:
    return item("function_call_output", call_id=call_id, output=value)


def tokens(number: int, window: int = 100) -> Line:
    last = {"input_tokens": window - 10, "cached_input_tokens": 5, "output_tokens": 10, "total_tokens": window}
    return event("token_count", info={"total_token_usage": {"total_tokens": number}, "last_token_usage": last})


def data_of(*lines: Line) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in lines).encode()


def parsed(*lines: Line, name: str = "rollout.jsonl") -> Transcript:
    return codex.parse([(name, data_of(*lines))])


def only(*lines: Line) -> SourceSession:
    [session] = parsed(header(), *lines).sessions
    return session


def texts(path: tuple[SourceTurn, ...]) -> list[tuple[str, str]]:
    return [(turn.role, plain_text(turn.content)) for turn in path]


# --- turns


def test_text_that_stands_twice_is_one_turn_whichever_comes_first() -> None:
    session = only(*asked("one"), *answered("two"), *reversed(asked("three")), *reversed(answered("four")))
    assert texts(session.paths[0]) == [("user", "one"), ("assistant", "two"), ("user", "three"), ("assistant", "four")]


def test_the_same_words_said_twice_are_two_turns() -> None:
    session = only(*asked("go on"), *answered("ok"), *asked("go on"), *answered("ok"))
    assert [text for _, text in texts(session.paths[0])] == ["go on", "ok", "go on", "ok"]


def test_an_event_that_no_item_repeats_makes_the_turn_itself_where_it_stands() -> None:
    lines = (event("user_message", message="yes"), call("c"), *asked("yes"), event("agent_message", message="done"))
    assert [text for _, text in texts(only(*lines).paths[0])] == ["yes", '[calls ls {"p": "."}]', "yes", "done"]


def test_events_of_before_items_were_written_at_once_are_told_once_too() -> None:
    reasoning = item(
        "reasoning", summary=[{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "so"}]
    )
    lines = (
        *asked("q"),
        event("agent_reasoning", text="hm"),
        event("agent_reasoning", text="so"),
        event("agent_message", message="a"),
        reasoning,
        said("assistant", "a"),
        call("c"),
    )
    assert texts(only(*lines).paths[0]) == [
        ("user", "q"),
        ("assistant", "hm\nso"),
        ("assistant", "a"),
        ("assistant", '[calls ls {"p": "."}]'),
    ]


def test_reasoning_that_only_an_event_tells_is_a_turn_once_nothing_can_repeat_it() -> None:
    start = (*asked("q"), event("agent_reasoning", text="hm"))
    waiting = parsed(header(), *start)
    assert texts(waiting.sessions[0].paths[0]) == [("user", "q")]
    assert waiting.notes == ("1 reasoning event(s) at the end wait for the item that repeats them",)
    assert [text for _, text in texts(only(*start, *asked("r")).paths[0])] == ["q", "hm", "r"]


def test_calls_and_outputs_of_every_kind_are_kept_with_their_ids_as_they_stand() -> None:
    patch = item("custom_tool_call", call_id="c2", name="apply_patch", input="*** Begin Patch")
    shell = item("local_shell_call", call_id="c3", status="completed", action={"type": "exec", "command": ["ls"]})
    failed = output("c3", {"content": "no", "success": False})
    path = only(
        *asked("q"),
        call("c1"),
        output("c1"),
        patch,
        item("custom_tool_call_output", call_id="c2", output="ok"),
        shell,
        failed,
    ).paths[0]
    contents: list[Any] = [turn.content for turn in path[1:]]
    assert contents[0] == [{"type": "function_call", "name": "ls", "arguments": '{"p": "."}', "call_id": "c1"}]
    assert [(c.id, c.name) for content in contents for c in calls_in(content)] == [
        ("c1", "ls"),
        ("c2", "apply_patch"),
        ("c3", "local_shell"),
    ]
    answers = [(r.call_id, r.is_error) for content in contents for r in results_in(content)]
    assert answers == [("c1", False), ("c2", False), ("c3", True)]
    assert [turn.role for turn in path[1:]] == ["assistant", "tool"] * 3


def test_the_last_turn_context_names_the_model_and_is_told_where_it_changes() -> None:
    context = {"cwd": "/w", "model": "m1", "effort": "high"}
    session = only(
        line("turn_context", context | {"turn_id": "1"}),
        *asked("q"),
        *answered("a"),
        line("turn_context", context | {"turn_id": "2"}),
        *asked("r"),
        line("turn_context", context | {"model": "m2"}),
        *answered("b"),
    )
    assert [turn.model for turn in session.paths[0]] == [None, "m1", None, "m2"]
    assert [turn.meta.get("turnContext") for turn in session.paths[0]] == [
        context,
        None,
        None,
        context | {"model": "m2"},
    ]


def test_a_token_count_is_the_usage_of_the_models_last_turn_and_told_again_is_not_counted_again() -> None:
    lines = (*asked("q"), call("c"), output("c"), tokens(100), tokens(100), *answered("a"), tokens(300, 200))
    path = only(*lines).paths[0]
    assert [turn.usage and turn.usage["total_tokens"] for turn in path] == [None, 100, None, 200]
    astray = parsed(header(), *asked("q"), tokens(1))
    assert astray.notes == ("1 token_count event(s) follow no turn of the model, and were not used",)


def test_a_token_count_that_comes_after_its_turn_was_imported_is_not_counted_and_the_report_says_so(
    store: Repository,
) -> None:
    lines = [header(), *asked("q"), *answered("a"), tokens(100), *asked("r"), *answered("b")]
    assert list(merge(store, parsed(*lines)).notes) == []
    late = merge(store, parsed(*lines, tokens(300, 200)))
    assert (late.turns_added, late.forks_created, late.changed) == (0, [], [])
    [note] = late.notes
    assert "codex:T: the source tells the usage of 1 turn(s) otherwise than they were imported" in note
    assert [turn.usage.get("total_tokens") for turn in store.load("codex:T").turns] == [None, 100, None, None]


def test_a_compaction_is_a_summary_turn_of_all_before_it() -> None:
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]}]
    compacted = line("compacted", {"message": "so far", "replacement_history": history}, 9)
    path = only(*asked("q"), *answered("a"), tokens(100), compacted, *asked("r")).paths[0]
    assert texts(path)[2:] == [("summary", "q\nso far"), ("user", "r")]  # all that the model is shown after it
    assert path[2].compaction == Compaction(summarised_through=1, tokens_before=100)
    remote = line(
        "compacted",
        {"message": "", "replacement_history": [*history, {"type": "compaction", "encrypted_content": "x"}]},
    )
    assert only(*asked("q"), remote).paths[0][1].content == [
        *history,
        {"type": "compaction", "encrypted_content": "x"},
    ]


def test_a_thread_keeps_its_header_and_its_instructions() -> None:
    [session] = parsed(
        header(base_instructions={"text": "You are Codex"}, cli_version="1"),
        event("thread_name_updated", thread_name="Trip"),
        *asked("q"),
    ).sessions
    assert (session.id, session.agent, session.title, session.system) == ("T", "codex", "Trip", "You are Codex")
    assert session.meta == {"cwd": "/w", "cli_version": "1"}
    assert session.created == datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def test_instructions_are_kept_with_the_session_only_where_no_message_tells_them() -> None:
    [told] = parsed(
        header(instructions="Be brief"), said("user", "<user_instructions>Be brief</user_instructions>")
    ).sessions
    [untold] = parsed(header(instructions="Be brief"), *asked("q")).sessions
    assert (told.meta.get("instructions"), untold.meta.get("instructions")) == (None, "Be brief")


# --- forks


def test_of_two_headers_the_first_counts_and_what_equals_the_parent_is_shared(store: Repository) -> None:
    parent = (*asked("q"), *answered("a"), *asked("old"))
    merge(store, parsed(header("P"), *parent))
    fork = parsed(header("F", forked_from_id="P"), header("P"), *parent[:4], *asked("new"), *answered("b"))
    assert fork.notes == ("line 2 is a second header (thread P), as forked files have; the first counts",)
    report = merge(store, fork)
    assert (report.forks_created, report.turns_added) == (["codex:F"], 2)
    loaded = store.load("codex:F")
    assert (loaded.parent_session_id, loaded.forked_at_index) == ("codex:P", 2)
    assert [turn.content for turn in loaded.turns] == ["q", "a", "new", "b"]
    assert merge(store, fork).turns_added == 0


def test_a_fork_finds_its_parent_in_the_same_import_also_when_it_comes_first(store: Repository, tmp_path: Path) -> None:
    (tmp_path / "day").mkdir()
    (tmp_path / "day" / "a.jsonl").write_bytes(data_of(header("F"), header("P"), *asked("q"), *asked("new")))
    (tmp_path / "day" / "b.jsonl").write_bytes(data_of(header("P"), *asked("q"), *asked("old")))
    report = import_path(store, tmp_path / "day")
    assert (report.sessions_created, report.forks_created, report.turns_added) == (["codex:P"], ["codex:F"], 3)


def test_a_fork_whose_parent_is_not_here_is_a_root_and_the_report_says_so(store: Repository) -> None:
    report = merge(store, parsed(header("F", forked_from_id="gone"), *asked("q")))
    assert report.sessions_created == ["codex:F"]
    assert "'codex:gone', which it names as its parent, shares no turn" in report.notes[0]


def test_a_thread_that_was_spawned_with_its_parents_turns_is_a_fork_of_it_and_the_report_says_so(
    store: Repository,
) -> None:
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "P", "forked_from_id": "i"}}}
    merge(store, parsed(header("P"), *asked("q")))
    report = merge(store, parsed(header("C", source=spawn), *asked("q"), *asked("task")))
    assert (report.forks_created, report.turns_added) == (["codex:C"], 1)
    assert report.notes == ["codex:C: was spawned with its parent's turns, and is kept as a fork of it"]


def test_what_a_rollback_takes_back_is_kept_as_a_fork(store: Repository) -> None:
    context = said("user", "<environment_context>x</environment_context>")
    transcript = parsed(
        header(),
        context,
        *asked("q"),
        *answered("a"),
        *asked("wrong"),
        *answered("b"),
        event("thread_rolled_back", num_turns=1),
        *asked("right"),
    )
    report = merge(store, transcript)
    assert [turn.content for turn in store.load("codex:T").turns][1:] == ["q", "a", "right"]
    [fork] = report.forks_created
    assert [turn.content for turn in store.load(fork).turns][1:] == ["q", "a", "wrong", "b"]
    assert store.load(fork).forked_at_index == 3
    assert merge(store, transcript).turns_added == 0
    all_back = only(context, *asked("q"), event("thread_rolled_back", num_turns=9), *asked("r"))
    assert [len(path) for path in all_back.paths] == [2, 2]


# --- files


def test_bare_lines_of_older_files_are_read(store: Repository) -> None:
    lines = (
        {"id": "T", "timestamp": "2025-06-01T00:00:00Z", "instructions": None},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]},
        {"record_type": "state"},
        {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "f"},
    )
    assert codex.sniff(data_of(*lines))
    transcript = parsed(*lines)
    assert transcript.problems == ()
    assert transcript.sessions[0].id == "T"
    assert [turn.role for turn in transcript.sessions[0].paths[0]] == ["user", "assistant", "tool"]


def whole(*items: Line, thread: str = "T", when: str = "2025-04-17T10:00:00.000Z") -> bytes:
    """A file of the first versions: one object, laid out over lines."""
    session = {"timestamp": when, "id": thread, "instructions": "Be brief."}
    return json.dumps({"session": session, "items": list(items)}, indent=2).encode()


def test_files_of_the_first_versions_are_one_object_and_grow_from_save_to_save(
    store: Repository, tmp_path: Path
) -> None:
    items: list[Line] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List it"}]},
        {"id": "rs_1", "type": "reasoning", "summary": [], "duration_ms": 3},
        {"id": "fc_1", "type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"output": "a.txt"}'},
        {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a.txt"}]},
    ]
    file = tmp_path / "rollout-2025-04-17-T.json"
    file.write_bytes(whole(*items[:3]))
    first = import_path(store, tmp_path)
    assert (first.sessions_created, first.turns_added, list(first.problems)) == (["codex:T"], 3, [])
    (tmp_path / "rollout-2025-04-18-T.json").write_bytes(whole(*items, when="2025-04-18T10:00:00.000Z"))
    assert (import_path(store, tmp_path).turns_added, import_path(store, tmp_path).turns_added) == (2, 0)
    turns = store.load("codex:T").turns
    assert [turn.role for turn in turns] == ["user", "assistant", "assistant", "tool", "assistant"]
    assert (turns[2].tool_calls[0].input, turns[3].tool_results[0].call_id) == ({"command": ["ls"]}, "c1")
    assert [turn.time for turn in turns] == [None] * 5
    assert store.record("codex:T").meta["instructions"] == "Be brief."


def test_what_is_wrong_in_a_file_of_the_first_versions_is_a_problem() -> None:
    for data, reason in (
        (whole({"role": "user"}), "is a response item without a type"),
        (whole()[:-4], "is not JSON"),
        (whole().replace(b"items", b"things"), "it has no session, or no items"),
        (whole().replace(b"[]", b"[7]"), "has an item that is no object"),
    ):
        transcript = codex.parse([("rollout.json", data)])
        assert reason in transcript.problems[0].reason
        assert transcript.sessions == ()


def test_a_file_without_a_header_is_named_by_its_file_and_one_without_either_is_no_rollout() -> None:
    thread = "019b64e5-57fa-7463-b644-fba7e456f905"
    named = parsed(*asked("q"), name=f"/d/rollout-2026-01-02T03-04-05-{thread}.jsonl")
    assert [session.id for session in named.sessions] == [thread]
    nameless = parsed(*asked("q"), name="x.jsonl")
    assert nameless.sessions == ()
    assert "neither a header nor its name says its thread's id" in nameless.problems[0].reason


def test_lines_that_cannot_be_used_are_problems_at_their_place_and_unknown_ones_are_counted() -> None:
    transcript = parsed(
        header(),
        {"what": 1},
        item("message", role="no role", content=[]),
        event("user_message"),
        line("compacted", {}),
        *asked("q"),
        line("future", {"x": 1}),
        item("ghost_snapshot", ghost_commit={}),
        item("new_kind", x=1),
    )
    assert [problem.line for problem in transcript.problems] == [2, 3, 4, 5]
    assert transcript.notes == (
        "1 record(s) of the unknown type 'future' made no turn; their texts are kept as metadata",
    )
    assert [turn.content for turn in transcript.sessions[0].paths[0]] == ["q", [{"type": "new_kind", "x": 1}]]
    assert transcript.records["response_item/ghost_snapshot"] == 1


def test_a_thread_without_a_message_is_noted_and_kept_as_nothing() -> None:
    transcript = parsed(header())
    assert (transcript.sessions, transcript.notes) == ((), ("thread T has no message: nothing to keep",))


# --- real and random files


def test_the_sample_rollouts_have_the_records_that_were_counted_independently(shared: Path, store: Repository) -> None:
    cases = json.loads((shared / "cases" / "data_other_expectations.json").read_text())["codex-rollout"]
    turns = {"ccl-canonical.jsonl": 9, "ccl-child-thread.jsonl": 4, "simonw-sample_codex_session.shortened.jsonl": 3}
    for name, facts in cases.items():
        report = import_path(store, shared / "data" / "codex-rollout" / name)
        assert report.sessions_created == [f"codex:{facts['thread_id']}"]
        assert report.records == {kind.rstrip("/"): count for kind, count in facts["types"].items()}
        loaded = store.load(report.sessions_created[0])
        assert [call.id for turn in loaded.turns for call in turn.tool_calls] == facts["calls"]
        assert [result.call_id for turn in loaded.turns for result in turn.tool_results] == facts["outputs"]
        assert len(loaded) == turns[name]
        assert report.problems == []
        assert import_path(store, shared / "data" / "codex-rollout" / name).turns_added == 0
    assert store.verify().ok


def test_the_policies_of_a_thread_are_found_by_the_query_for_auditors(memory: Repository, tmp_path: Path) -> None:
    first = {"cwd": "/w", "model": "m", "approval_policy": "never", "sandbox_policy": {"type": "read-only"}}
    lines = [
        header(),
        line("turn_context", first),
        *asked("q"),
        *answered("a"),
        line("turn_context", first | {"approval_policy": "on-request"}),
        *asked("r"),
        *answered("b"),
    ]
    file = tmp_path / "rollout.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    import_path(memory, file, format="codex")
    (record,) = memory.list()
    rows = {
        at: [
            (row["kind"], row["policy"])
            for row in memory.select("policies-in-force", session=record.id, at=at).to_dicts()
        ]
        for at in (1, 3)
    }
    sandbox = ("sandbox_policy", '{"type":"read-only"}')
    assert rows == {1: [("approval_policy", "never"), sandbox], 3: [("approval_policy", "on-request"), sandbox]}
