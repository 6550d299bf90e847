"""What Claude Code adds to a conversation: prompts typed while it works, texts for the model alone, agents of workflows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import Repository
from trails.exchange.file_import import import_bytes, import_path

SESSION = "11111111-1111-4111-8111-111111111111"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def line(kind: str, uuid: str, parent: str | None, second: int, session: str = SESSION, **more: Any) -> dict[str, Any]:
    """A record with its time, `second` seconds after ten o'clock."""
    time = f"2026-08-01T10:00:{second:02}.000Z"
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": session, "timestamp": time, **more}


def user(uuid: str, parent: str | None, second: int, text: str, **more: Any) -> dict[str, Any]:
    return line("user", uuid, parent, second, message={"role": "user", "content": text}, **more)


def assistant(uuid: str, parent: str | None, second: int, text: str, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "id": f"m-{uuid}", "model": "m-1", "content": [{"type": "text", "text": text}]}
    return line("assistant", uuid, parent, second, message=message | {"stop_reason": "end_turn"}, **more)


def attachment(uuid: str, parent: str | None, second: int, held: dict[str, Any], **more: Any) -> dict[str, Any]:
    return line("attachment", uuid, parent, second, attachment=held, **more)


def write(*lines: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(each).encode() for each in lines) + b"\n"


def turns(store: Repository, session: str = f"claude-code:{SESSION}") -> list[tuple[str, str]]:
    return [(turn.role, _text(turn.content)) for turn in store.load(session).turns]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@pytest.mark.parametrize(
    ("prompt", "more", "expected"),
    [
        ("and the tests", {"commandMode": "prompt"}, ("user", "and the tests")),
        ("and the tests", {}, ("user", "and the tests")),
        ("and the tests", {"commandMode": "prompt", "origin": {"kind": "human"}}, ("user", "and the tests")),
        ([{"type": "text", "text": "like this"}, IMAGE], {"commandMode": "prompt"}, ("user", "like this")),
        ("<task>done</task>", {"commandMode": "task-notification"}, ("attachment", "<task>done</task>")),
        ("automatic", {"commandMode": "prompt", "origin": {"kind": "system"}}, ("attachment", "automatic")),
    ],
)
def test_a_prompt_typed_while_it_works_is_the_users_and_a_notice_from_the_queue_is_not(
    memory: Repository, prompt: Any, more: dict[str, Any], expected: tuple[str, str]
) -> None:
    queued = {"type": "queued_command", "prompt": prompt, **more}
    data = write(
        user("u1", None, 0, "fix it"),
        {"type": "queue-operation", "operation": "enqueue", "content": "and the tests", "sessionId": SESSION},
        attachment("q1", "u1", 1, queued, rendered=[{"content": "<system-reminder>\nautomatic\n</system-reminder>"}])
        if prompt == "automatic"
        else attachment("q1", "u1", 1, queued),
        assistant("a1", "q1", 2, "Done."),
    )
    import_bytes(memory, data, format="claude-code")
    role, text = expected
    found = turns(memory)
    assert [found[0], found[2]] == [("user", "fix it"), ("assistant", "Done.")]
    assert found[1][0] == role
    assert text in found[1][1]
    again = import_bytes(memory, data, format="claude-code")
    assert again.turns_added == 0


@pytest.mark.parametrize(
    ("held", "shown", "path"),
    [
        ({"type": "hook_additional_context", "content": ["remember X"], "hookName": "h"}, ["remember X"], None),
        (
            {
                "type": "nested_memory",
                "path": "/p/CLAUDE.md",
                "content": {"path": "/p/CLAUDE.md", "content": "Be brief."},
            },
            ["Be brief."],
            "/p/CLAUDE.md",
        ),
        (
            {
                "type": "file",
                "filename": "/p/a.py",
                "content": {"type": "text", "file": {"filePath": "/p/a.py", "content": "x = 1"}},
            },
            ["x = 1"],
            "/p/a.py",
        ),
        ({"type": "edited_text_file", "filename": "/p/b.py", "snippet": "1\ty = 2"}, ["1\ty = 2"], "/p/b.py"),
        ({"type": "hook_success", "hookEvent": "SessionStart", "content": "hello"}, ["hello"], None),
        ({"type": "from_tomorrow", "body": {"words": ["one", "two"]}}, ["one", "two"], None),
        ({"type": "hook_success", "hookEvent": "PostToolUse", "content": "quiet"}, [], None),
        ({"type": "command_permissions", "allowedTools": ["Bash"]}, [], None),
        ({"type": "hook_system_message", "content": "for the user's eyes"}, [], None),
        ({"type": "task_reminder", "content": []}, [], None),
    ],
)
def test_what_the_program_shows_the_model_is_a_turn_that_says_what_it_is(
    memory: Repository, held: dict[str, Any], shown: list[str], path: str | None
) -> None:
    data = write(user("u1", None, 0, "go"), attachment("h1", "u1", 1, held), assistant("a1", "h1", 2, "first"))
    import_bytes(memory, data, format="claude-code")
    added = [turn for turn in memory.load(f"claude-code:{SESSION}").turns if turn.role == "attachment"]
    parts = [part for turn in added for part in turn.content]
    about = {"type": "text", "attachment": held["type"]} | ({"path": path} if path else {})
    assert sorted(part["text"] for part in parts) == sorted(shown)
    assert all(part == about | {"text": part["text"]} for part in parts)
    said = json.dumps(memory.context(f"claude-code:{SESSION}", "next", max_tokens=9_999).openai())
    assert all(json.dumps(text)[1:-1] in said for text in shown)
    assert ("Added by the program, not typed by the user:" in said) == bool(shown)


def test_what_was_rendered_for_the_model_counts_and_is_kept_once(memory: Repository) -> None:
    held = {"type": "hook_additional_context", "content": ["remember all of X"], "hookEvent": "SessionStart"}
    rendered = [{"content": "<system-reminder>\nSessionStart: remember all of X\n</system-reminder>"}]
    data = write(
        attachment("h1", None, 0, held, rendered=rendered), user("u1", "h1", 1, "go"), assistant("a1", "u1", 2, "ok")
    )
    report = import_bytes(memory, data, format="claude-code")
    first = memory.load(f"claude-code:{SESSION}").turns[0]
    assert [part["text"] for part in first.content] == [rendered[0]["content"]]
    assert first.meta["attachment"] == {"type": "hook_additional_context", "hookEvent": "SessionStart"}
    assert report.left_out == []


def test_a_snapshot_of_the_prompt_gives_the_session_its_system_prompt(memory: Repository) -> None:
    snapshot = {"type": "prompt_snapshot", "systemPrompt": ["You are Claude.", "Be brief."], "tools": []}
    data = write(attachment("p1", None, 0, snapshot), user("u1", "p1", 1, "go"), assistant("a1", "u1", 2, "ok"))
    import_bytes(memory, data, format="claude-code")
    session = memory.load(f"claude-code:{SESSION}")
    assert [turn.role for turn in session.turns] == ["user", "assistant"]
    assert memory.context(session.id, "next", max_tokens=9_999).openai()[0] == {
        "role": "system",
        "content": "You are Claude.\n\nBe brief.",
    }


def test_a_prompt_typed_again_is_a_fork_and_takes_along_what_was_added_before_it(memory: Repository) -> None:
    data = write(
        user("u1", None, 0, "go"),
        assistant("a1", "u1", 1, "first"),
        attachment("h1", "a1", 2, {"type": "todo_reminder", "content": "the list"}),
        user("u2", "h1", 3, "left"),
        assistant("a2", "u2", 4, "went left"),
        attachment("h2", "a1", 5, {"type": "todo_reminder", "content": "the new list"}),
        user("u3", "h2", 6, "right"),
        assistant("a3", "u3", 7, "went right"),
    )
    import_bytes(memory, data, format="claude-code")
    texts = {tuple(text for _, text in turns(memory, record.id)) for record in memory.list()}
    assert texts == {
        ("go", "first", "the list", "left", "went left"),
        ("go", "first", "the new list", "right", "went right"),
    }


def test_a_session_in_which_only_the_program_spoke_is_not_kept(memory: Repository) -> None:
    held = {"type": "hook_additional_context", "content": ["remember X"]}
    report = import_bytes(memory, write(attachment("h1", None, 0, held)), format="claude-code")
    assert (list(memory.list()), report.turns_added) == ([], 0)


@pytest.mark.parametrize("by", ["file", "folder", "agent first"])
def test_agents_of_workflows_come_in_and_are_linked_to_who_spawned_them(tmp_path: Path, by: str) -> None:
    main = tmp_path / "p" / f"{SESSION}.jsonl"
    agent = tmp_path / "p" / SESSION / "subagents" / "workflows" / "wf_1" / "agent-abc.jsonl"
    agent.parent.mkdir(parents=True)
    main.write_bytes(write(user("u1", None, 0, "go"), assistant("a1", "u1", 5, "done")))
    more = {"isSidechain": True, "agentId": "abc"}
    agent.write_bytes(write(user("x1", None, 1, "sub job", **more), assistant("x2", "x1", 2, "sub done", **more)))
    order = {"file": [main], "folder": [tmp_path], "agent first": [agent, main]}[by]
    with trails.open(":memory:") as store:
        for path in order:
            import_path(store, path, final=True)
        spawned = {record.id: record.spawned_by for record in store.list()}
    assert spawned == {f"claude-code:{SESSION}": None, f"claude-code:{SESSION}:agent-abc": f"claude-code:{SESSION}"}


WAITED = "and run the whole test suite"
DONE = assistant("a1", "u1", 4, "Done.")
ENQUEUED = {"type": "queue-operation", "operation": "enqueue", "content": WAITED, "sessionId": SESSION}


def left(operation: str, **more: Any) -> dict[str, Any]:
    return {"type": "queue-operation", "operation": operation, "sessionId": SESSION, **more}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([ENQUEUED, left("remove"), DONE], [WAITED, "Done."]),
        ([ENQUEUED, left("remove", content=WAITED), DONE], [WAITED, "Done."]),
        ([ENQUEUED, left("dequeue"), DONE], [WAITED, "Done."]),
        ([ENQUEUED | {"content": [{"type": "text", "text": WAITED}]}, left("dequeue"), DONE], [WAITED, "Done."]),
        ([ENQUEUED, left("dequeue"), DONE, user("u2", "a1", 5, WAITED)], ["Done.", WAITED]),
        ([ENQUEUED, left("popAll"), left("remove"), DONE], ["Done."]),
        ([ENQUEUED, DONE], ["Done."]),
        ([DONE, ENQUEUED, left("remove")], ["Done."]),
        ([ENQUEUED | {"content": "/compact the whole conversation"}, left("dequeue"), DONE], ["Done."]),
        ([ENQUEUED | {"content": "<task-notification>a</task-notification>"}, left("remove"), DONE], ["Done."]),
        (
            [
                ENQUEUED,
                left("remove"),
                attachment("q1", "u1", 2, {"type": "queued_command", "prompt": "another prompt"}),
                DONE | {"parentUuid": "q1"},
            ],
            ["another prompt", "Done."],
        ),
        (
            [
                ENQUEUED,
                left("remove", content=WAITED, reason="absorbed_mid_turn"),
                attachment("q1", "u1", 2, {"type": "queued_command", "prompt": "another prompt"}),
                DONE | {"parentUuid": "q1"},
            ],
            [WAITED, "another prompt", "Done."],
        ),
        ([left("remove", content=WAITED), DONE], [WAITED, "Done."]),
        ([ENQUEUED | {"content": "other"}, left("remove", content=WAITED), DONE], [WAITED, "Done."]),
        ([ENQUEUED | {"content": "g"}, left("dequeue"), DONE], ["g", "Done."]),
        ([ENQUEUED | {"content": "go"}, left("dequeue"), DONE], ["go", "Done."]),
        ([ENQUEUED, left("dequeue"), DONE, user("u2", "a1", 5, f"first\n{WAITED}")], ["Done.", f"first\n{WAITED}"]),
    ],
    ids=[
        "removed",
        "removed by its text",
        "taken",
        "parts",
        "delivered as a line",
        "handed back",
        "still waiting",
        "no answer yet",
        "a command",
        "a notice",
        "deleted by the user, as this version writes deliveries",
        "absorbed, in a version that writes deliveries",
        "removed by a text that no line enqueues",
        "removed while another waits",
        "a text that is part of an earlier word",
        "a text that its user had typed before",
        "delivered together with another",
    ],
)
def test_a_prompt_that_only_the_queue_tells_is_the_users_where_it_left_the_queue(
    memory: Repository, lines: list[dict[str, Any]], expected: list[str]
) -> None:
    data = write(user("u1", None, 0, "go"), *lines)
    report = import_bytes(memory, data, format="claude-code")
    assert turns(memory) == [("user", "go"), *((("assistant" if t == "Done." else "user"), t) for t in expected)]
    assert any("only in the queue" in note for note in report.notes) == (
        expected[-1] == "Done." and expected[0] in (WAITED, "g", "go")
    )
    assert import_bytes(memory, data, format="claude-code").turns_added == 0


@pytest.mark.parametrize(
    ("text", "more", "role"),
    [
        ("a task is done", {"origin": {"kind": "task-notification"}}, "attachment"),
        ("<task-notification>done</task-notification>", {}, "attachment"),
        ("a prompt", {"origin": {"kind": "human"}}, "user"),
        ("a prompt about <task-notification>", {}, "user"),
        ("a prompt", {"origin": ["odd"]}, "user"),
    ],
)
def test_a_notice_of_a_background_task_is_not_the_users(
    memory: Repository, text: str, more: dict[str, Any], role: str
) -> None:
    data = write(user("u1", None, 0, "go"), user("u2", "u1", 1, text, **more), assistant("a1", "u2", 2, "ok"))
    import_bytes(memory, data, format="claude-code")
    assert turns(memory) == [("user", "go"), (role, text), ("assistant", "ok")]


@pytest.mark.parametrize(
    ("held", "line_of_user"),
    [({"source_uuid": "u2"}, {}), ({}, {"promptSource": "queued"})],
    ids=["by its id", "by its text"],
)
def test_a_prompt_that_is_an_attachment_and_a_line_is_one_turn(
    memory: Repository, held: dict[str, Any], line_of_user: dict[str, Any]
) -> None:
    queued = {"type": "queued_command", "prompt": WAITED, **held}
    data = write(
        user("u1", None, 0, "go"),
        attachment("q1", "u1", 1, queued),
        user("u2", "q1", 2, WAITED, **line_of_user),
        assistant("a1", "u2", 3, "Done."),
    )
    import_bytes(memory, data, format="claude-code")
    assert turns(memory) == [("user", "go"), ("user", WAITED), ("assistant", "Done.")]


@pytest.mark.parametrize("rendered", [None, [{"content": [{"type": "text", "text": "Read a.png"}]}]])
def test_an_image_that_a_user_mentioned_is_shown_as_an_image(memory: Repository, rendered: Any) -> None:
    file: dict[str, Any] = {"base64": "iVBORw0KGgoAAAANSUhEUg==", "type": "image/png", "originalSize": 16}
    held = {"type": "file", "filename": "/p/a.png", "content": {"type": "image", "file": file}}
    more = {} if rendered is None else {"rendered": rendered}
    data = write(user("u1", None, 0, "see"), attachment("f1", "u1", 1, held, **more), assistant("a1", "f1", 2, "ok"))
    import_bytes(memory, data, format="claude-code")
    turn = memory.load(f"claude-code:{SESSION}").turns[1]
    source = {"type": "base64", "media_type": "image/png", "data": file["base64"]}
    image = {"type": "image", "source": source, "attachment": "file", "path": "/p/a.png"}
    text = {"type": "text", "text": "Read a.png", "attachment": "file", "path": "/p/a.png"}
    assert list(turn.content) == ([image] if rendered is None else [text, image])
    assert file["base64"] not in json.dumps(dict(turn.meta))


@pytest.mark.parametrize(
    ("subtype", "is_shown"), [("local_command", True), ("informational", False), ("api_error", False)]
)
def test_of_the_systems_records_the_model_is_shown_its_local_commands_alone(
    memory: Repository, subtype: str, is_shown: bool
) -> None:
    printed = "<local-command-stdout>Set model to m-2</local-command-stdout>"
    data = write(
        user("u1", None, 0, "go"),
        assistant("a1", "u1", 1, "done"),
        line("system", "s1", "a1", 2, subtype=subtype, content=printed, level="info"),
        user("u2", "s1", 3, "more"),
        assistant("a2", "u2", 4, "fine"),
    )
    report = import_bytes(memory, data, format="claude-code")
    added = [turn for turn in memory.load(f"claude-code:{SESSION}").turns if turn.role == "attachment"]
    part = {"type": "text", "text": printed, "attachment": "local_command"}
    assert [list(turn.content) for turn in added] == ([[part]] if is_shown else [])
    assert all(printed not in json.dumps(dict(turn.meta)) for turn in added)
    said = json.dumps(memory.context(f"claude-code:{SESSION}", "next", max_tokens=9_999).openai())
    assert (printed in said) == is_shown
    assert ("content" in [row.place for row in report.left_out]) != is_shown


def test_a_failed_calls_notice_is_the_programs_and_no_model_is_shown_it(memory: Repository) -> None:
    notice = assistant("e1", "u1", 1, "API Error: 529 Overloaded", isApiErrorMessage=True)
    notice["message"]["model"] = "<synthetic>"
    data = write(user("u1", None, 0, "go"), notice, user("u2", "e1", 2, "try again"), assistant("a1", "u2", 3, "fine"))
    import_bytes(memory, data, format="claude-code")
    assert [role for role, _ in turns(memory)] == ["user", "error", "user", "assistant"]
    context = memory.context(f"claude-code:{SESSION}", "next", max_tokens=9_999).openai()
    assert [each["content"] for each in context] == ["go", "try again", "fine", "next"]


def test_a_notice_that_an_earlier_version_took_for_an_answer_stays_one_session(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    notice = assistant("e1", "u1", 1, "API Error: 529 Overloaded", isApiErrorMessage=True)
    notice["message"]["model"] = "<synthetic>"
    data = write(user("u1", None, 0, "go"), notice)
    with monkeypatch.context() as earlier:
        earlier.setattr("trails.exchange.coding_agents.claude_code._role", lambda record: record.kind)
        import_bytes(memory, data, format="claude-code")
    report = import_bytes(memory, data + write(user("u2", "e1", 2, "try again")), format="claude-code")
    assert (report.turns_added, len(list(memory.list()))) == (1, 1)


def test_what_the_window_shows_of_a_session_is_counted_with_its_reason(memory: Repository) -> None:
    states: list[dict[str, Any]] = [
        {"type": "last-prompt", "lastPrompt": "what the user typed last of all", "sessionId": SESSION},
        {"type": "agent-name", "agentName": "the agent that has a long name", "sessionId": SESSION},
        {"type": "pr-link", "prUrl": "https://example.org/o/r/pull/123", "prNumber": 123, "sessionId": SESSION},
    ]
    report = import_bytes(memory, write(user("u1", None, 0, "go"), DONE, *states), format="claude-code")
    assert sorted((row.place, row.count) for row in report.left_out) == [
        ("agentName", 1),
        ("lastPrompt", 1),
        ("prUrl", 1),
    ]
    assert all("window" in row.reason for row in report.left_out)
    assert not any("unknown type" in note for note in report.notes)
