"""Copilot CLI's sessions: what becomes of each event, what is counted once, and that nothing is lost or raised on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.accounts import unaccounted
from trails import Repository
from trails.exchange.coding_agents import copilot
from trails.exchange.file_import import import_bytes, import_path
from trails.model.content_parts import plain_text
from trails.model.values import Compaction
from trails.usage import counts_of

pytestmark = pytest.mark.any_store

Json = dict[str, Any]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"


def event(n: int, kind: str, data: Json | None = None, **more: Any) -> Json:
    at = f"2026-06-17T10:{n // 60:02}:{n % 60:02}.000Z"
    return {"type": kind, "data": data or {}, "id": f"e{n}", "timestamp": at, "parentId": f"e{n - 1}", **more}


def start(n: int = 0, **more: Any) -> Json:
    told = {"sessionId": "S", "version": 1, "producer": "copilot-agent", "copilotVersion": "1.0.54"}
    context = {"cwd": "/home/ada/a-project-of-mine", "branch": "main"}
    return event(n, "session.start", told | {"startTime": "2026-06-17T09:59:59.000Z", "context": context} | more)


def user(n: int, text: str, **more: Any) -> Json:
    return event(n, "user.message", {"content": text, **more})


def answer(n: int, text: str, *calls: str, tokens: Any = 5, agent: Json | None = None, **more: Any) -> Json:
    asked = [
        {"toolCallId": each, "name": "bash", "arguments": {"command": f"run {each}"}, "type": "function"}
        for each in calls
    ]
    told = {"messageId": f"m{n}", "model": "gpt-6", "content": text, "toolRequests": asked}
    counted = {} if tokens is None else {"outputTokens": tokens}
    return event(n, "assistant.message", told | counted | more, **(agent or {}))


def ran(n: int, call: str, **more: Any) -> list[Json]:
    told = {"toolCallId": call, "toolName": "bash", "arguments": {"command": f"run {call}"}}
    result = {"content": f"output of {call}", "detailedContent": f"a long output of {call} for those who look"}
    return [
        event(n, "tool.execution_start", told | {"mcpServerName": "a-server-of-the-house"}),
        event(n + 1, "tool.execution_complete", {"toolCallId": call, "success": True, "result": result} | more),
    ]


def shutdown(n: int, **models: tuple[int, int, int]) -> Json:
    metrics = {
        name: {"requests": {"count": 1}, "usage": {"inputTokens": i, "outputTokens": o, "cacheReadTokens": c}}
        for name, (i, o, c) in models.items()
    }
    told = {
        "shutdownType": "routine",
        "modelMetrics": metrics,
        "codeChanges": {"filesModified": ["/home/ada/a-changed-file"]},
    }
    return event(n, "session.shutdown", told)


def log(*lines: Any) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def put(place: Path, *lines: Any) -> Path:
    file = place / "session-state" / "S" / "events.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(log(*lines))
    return file


def said(store: Repository, own: str = "copilot-cli:S") -> list[tuple[str, str]]:
    return [(turn.role, plain_text(turn.content)) for turn in store.load(own).turns]


TALK = [
    start(),
    event(1, "session.model_change", {"newModel": "gpt-6", "cause": "chosen by the one who asks"}),
    event(2, "system.message", {"role": "system", "content": "You are the terminal assistant"}),
    event(
        3, "hook.start", {"hookType": "userPromptSubmitted", "input": {"prompt": "something only the hook was told"}}
    ),
    user(4, "Look around", transformedContent="<current_datetime>now</current_datetime>\n\nLook around"),
    event(5, "assistant.turn_start", {"turnId": "0", "interactionId": "i"}),
    answer(6, "I look", "c1", "c2", reasoningText="They want me to look around"),
    *ran(7, "c1"),
    *ran(9, "c2", success=False, result=None, error={"code": "denied", "message": "this command was not allowed"}),
    event(11, "assistant.turn_end", {"turnId": "0"}),
    answer(12, "Two files"),
]


def test_each_event_becomes_a_turn_or_goes_with_one_and_no_text_is_lost(store: Repository, tmp_path: Path) -> None:
    file = put(tmp_path, *TALK)
    report = import_path(store, file)
    assert said(store) == [
        ("system", "You are the terminal assistant"),
        ("user", "Look around"),
        (
            "assistant",
            'They want me to look around\nI look\n[calls bash {"command": "run c1"}]\n[calls bash {"command": "run c2"}]',
        ),
        ("tool", "output of c1"),
        ("tool", "this command was not allowed"),
        ("assistant", "Two files"),
    ]
    turns = store.load("copilot-cli:S").turns
    assert [each.id for each in turns[2].tool_calls] == ["c1", "c2"]
    [result] = turns[4].tool_results
    assert (result.call_id, result.is_error) == ("c2", True)
    assert (f"{result.started:%S}", f"{result.ended:%S}") == ("09", "10")
    assert (turns[2].model, counts_of(turns[2].usage).output) == ("gpt-6", 5)
    assert [each["type"] for each in turns[1].meta["copilot"]["before"]] == ["hook.start"]
    assert unaccounted(store, report, TALK) == []
    again = import_path(store, file)
    assert (again.turns_added, again.sessions_created, again.problems) == (0, [], [])


def test_a_log_that_grew_goes_on_where_it_ended_wherever_it_was_cut(store: Repository, tmp_path: Path) -> None:
    for n in range(1, len(TALK) + 1):
        report = import_path(store, put(tmp_path, *TALK[:n]), final=True)
        assert (report.forks_created, report.changed, report.problems) == ([], [], [])
    assert [role for role, _ in said(store)] == ["system", "user", "assistant", "tool", "tool", "assistant"]


def test_chunks_of_one_call_are_one_turn_and_its_tokens_count_once(store: Repository, tmp_path: Path) -> None:
    one = answer(2, "First", tokens=9, apiCallId="a", chunkIndex=0, chunkCount=2, requestId="the-request-of-the-first")
    two = answer(3, "then", "c1", tokens=9, apiCallId="a", chunkIndex=1, chunkCount=2)
    held = import_path(store, put(tmp_path, start(), user(1, "Go"), one), final=False)
    assert (held.turns_added, held.turns_held) == (1, 1)
    report = import_path(store, put(tmp_path, start(), user(1, "Go"), one, two))
    assert said(store)[1:] == [("assistant", 'First\nthen\n[calls bash {"command": "run c1"}]')]
    [_, turn] = store.load("copilot-cli:S").turns
    assert counts_of(turn.usage).output == 9
    assert unaccounted(store, report, [one, two]) == []


def test_what_a_session_used_is_counted_once_whether_its_turns_or_its_shutdowns_tell(
    store: Repository, tmp_path: Path
) -> None:
    first = [
        start(),
        user(1, "a"),
        answer(2, "b", tokens=5),
        shutdown(3, **{"gpt-6": (100, 8, 60), "small": (10, 1, 0)}),
    ]
    then = [event(4, "session.resume", {}), user(5, "c"), answer(6, "d", tokens=7)]
    total = shutdown(7, **{"gpt-6": (250, 20, 160), "small": (10, 1, 0)})
    import_path(store, put(tmp_path, *first))
    import_path(store, put(tmp_path, *first, *then, total))
    turns = store.load("copilot-cli:S").turns
    assert [(turn.role, turn.model) for turn in turns if turn.role == "usage"] == [
        ("usage", "gpt-6"),
        ("usage", "small"),
        ("usage", "gpt-6"),
    ]
    counts = [counts_of(turn.usage) for turn in turns if turn.model == "gpt-6"]
    assert sum(each.input or 0 for each in counts) == 250 - 160
    assert sum(each.cache_read or 0 for each in counts) == 160
    assert sum(each.output or 0 for each in counts) == 20
    # a shutdown that tells less than the one before tells what was used since
    third = [
        event(8, "session.resume", {}),
        user(9, "e"),
        answer(10, "f", tokens=2),
        shutdown(11, **{"gpt-6": (30, 3, 0)}),
    ]
    import_path(store, put(tmp_path, *first, *then, total, *third))
    counts = [counts_of(turn.usage) for turn in store.load("copilot-cli:S").turns if turn.model == "gpt-6"]
    assert (sum(each.input or 0 for each in counts), sum(each.output or 0 for each in counts)) == (120, 23)


@pytest.mark.parametrize("way", ["agentId", "parentToolCallId"])
def test_a_sub_agent_is_a_session_of_its_own_spawned_by_the_one_that_called_it(
    store: Repository, tmp_path: Path, way: str
) -> None:
    mark: Json = {"agentId": "worker-1"} if way == "agentId" else {}
    old: Json = {} if way == "agentId" else {"parentToolCallId": "c1"}
    told = {
        "toolCallId": "c1",
        "agentName": "explore",
        "agentDisplayName": "Explore the folder",
        "agentDescription": "looks",
    }
    lines = [
        start(),
        user(1, "Go"),
        answer(2, "I send one", "c1"),
        event(3, "subagent.started", told, **mark),
        answer(4, "I am sent", "d1", agent=mark, **old),
        event(
            5,
            "tool.execution_complete",
            {"toolCallId": "d1", "success": True, "result": {"content": "seen"}} | old,
            **mark,
        ),
        event(6, "subagent.completed", told | {"totalTokens": 9}, **mark),
        event(7, "tool.execution_complete", {"toolCallId": "c1", "success": True, "result": {"content": "it saw"}}),
        answer(8, "Done"),
    ]
    report = import_path(store, put(tmp_path, *lines))
    child = "copilot-cli:S/worker-1" if way == "agentId" else "copilot-cli:S/c1"
    child = next(each for each in report.sessions_created if each != "copilot-cli:S")
    assert [role for role, _ in said(store)] == ["user", "assistant", "tool", "assistant"]
    assert said(store, child) == [("assistant", 'I am sent\n[calls bash {"command": "run d1"}]'), ("tool", "seen")]
    record = store.record(child)
    assert (record.spawned_by, record.meta["title"]) == ("copilot-cli:S", "Explore the folder")
    assert unaccounted(store, report, lines) == []


def test_a_summary_says_what_it_stands_for_and_a_compaction_that_failed_is_none(
    store: Repository, tmp_path: Path
) -> None:
    used = {"inputTokens": 40, "outputTokens": 7, "cacheReadTokens": 30, "model": "gpt-6"}
    done = {
        "success": True,
        "summaryContent": "<overview>We looked</overview>",
        "preCompactionTokens": 900,
        "trigger": "manual",
    }
    failed = event(3, "session.compaction_complete", {"success": False, "error": "there was nothing to compact"})
    lines = [
        *TALK[:1],
        user(1, "a"),
        answer(2, "b"),
        failed,
        event(4, "session.compaction_complete", done | {"compactionTokensUsed": used}),
        user(5, "c"),
    ]
    report = import_path(store, put(tmp_path, *lines))
    turn = store.load("copilot-cli:S").turns[2]
    assert (turn.role, turn.text) == ("summary", "<overview>We looked</overview>")
    assert turn.facts.compaction == Compaction(summarised_through=1, tokens_before=900, trigger="manual")
    assert (counts_of(turn.usage).input, counts_of(turn.usage).cache_read) == (10, 30)
    assert unaccounted(store, report, lines) == []


def test_an_image_is_shown_as_one_and_what_no_person_typed_is_not_theirs(store: Repository, tmp_path: Path) -> None:
    asset = event(1, "session.binary_asset", {"assetId": "sha256:ab", "mimeType": "image/png", "data": PNG})
    attached = [
        {
            "type": "file",
            "displayName": "shot.png",
            "path": "/home/ada/pictures/shot.png",
            "assetId": "sha256:ab",
            "mimeType": "image/png",
        },
        {"type": "selection", "text": "the lines that were selected", "displayName": "x"},
    ]
    lines = [
        start(),
        asset,
        user(2, "See", attachments=attached),
        user(3, "Go on by yourself", isAutopilotContinuation=True),
    ]
    report = import_path(store, put(tmp_path, *lines))
    [typed, injected] = store.load("copilot-cli:S").turns
    assert typed.content[1]["source"] == {"type": "base64", "media_type": "image/png", "data": PNG}
    assert (typed.author == injected.author, injected.author) == (False, "copilot-cli")
    assert unaccounted(store, report, lines) == []


def test_a_call_that_nobody_asked_for_in_words_is_a_turn_and_an_abort_is_told(
    store: Repository, tmp_path: Path
) -> None:
    lines = [
        start(),
        user(1, "Go"),
        *ran(2, "c9"),
        answer(4, "Now"),
        event(5, "abort", {"reason": "user initiated this abort"}),
    ]
    report = import_path(store, put(tmp_path, *lines))
    assert [role for role, _ in said(store)] == ["user", "assistant", "tool", "assistant"]
    call = store.load("copilot-cli:S").turns[-1].facts.model_call
    assert getattr(call, "stop_reason", None) == "aborted"
    assert unaccounted(store, report, lines) == []


def test_a_call_that_started_before_its_answer_is_told_once(store: Repository) -> None:
    begun, done = ran(2, "c1")
    data = "\n".join(
        json.dumps(each) for each in (start(), user(1, "go"), begun, answer(3, "so", "c1"), done | {"id": "e4"})
    )
    import_bytes(store, data.encode(), format="copilot-cli")
    loaded = store.load("copilot-cli:S").turns
    calls = [
        part["id"]
        for turn in loaded
        if not isinstance(turn.content, str)
        for part in turn.content
        if part.get("type") == "tool_use"
    ]
    assert calls == ["c1"]
    assert "so" in [plain_text(turn.content) for turn in loaded]


def test_files_of_the_first_versions_come_in_with_what_only_their_timeline_says(
    store: Repository, tmp_path: Path
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    held = {
        "sessionId": "H",
        "startTime": "2025-10-08T21:10:16.398Z",
        "chatMessages": [
            {"role": "user", "content": "List what is in here, please"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "a-file-that-is-there.txt"},
            {"role": "assistant", "content": "One file"},
        ],
        "timeline": [
            {
                "id": "t1",
                "type": "user",
                "text": "List what is in here, please",
                "timestamp": "2025-10-08T21:10:20.000Z",
            },
            {"id": "t2", "type": "info", "text": "A server was connected, as only the timeline says"},
        ],
    }
    file = tmp_path / "session_H_1.json"
    file.write_text(json.dumps(held))
    report = import_path(store, file)
    assert said(store, "copilot-cli:H") == [
        ("user", "List what is in here, please"),
        ("assistant", '[calls bash {"command": "ls"}]'),
        ("tool", "a-file-that-is-there.txt"),
        ("assistant", "One file"),
    ]
    turns = store.load("copilot-cli:H").turns
    assert (turns[2].tool_results[0].call_id, [each["id"] for each in turns[3].meta["copilot"]["timeline"]]) == (
        "c1",
        ["t2"],
    )
    assert unaccounted(store, report, held) == []
    assert import_path(store, file).turns_added == 0


def test_a_log_is_told_from_what_only_looks_like_one() -> None:
    assert copilot.sniff(log(*TALK))
    assert copilot.sniff(log(*TALK[4:]))
    assert not copilot.sniff(b'{"type": "user", "message": {}, "uuid": "u"}\n')
    assert not copilot.sniff(b'{"type": "session_meta", "payload": {}}\n')
