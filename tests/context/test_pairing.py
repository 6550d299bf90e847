"""Tool calls and their answers: the repair as upstream does it, and what is done before it so that nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trails import Repository
from trails.context.assembly import MISSING_RESULT, prepare_messages, repair_calls
from trails.context.messages import Message, messages_of
from trails.model.values import ToolCall


def asked(*ids: str, text: str = "") -> Message:
    return Message("assistant", (text,) if text else (), tuple(ToolCall(id=i, name="ls", arguments="{}") for i in ids))


def answer(call_id: str, text: str = "done") -> Message:
    return Message("tool", (text,), call_id=call_id)


def user(text: str = "later") -> Message:
    return Message("user", (text,))


def shown(messages: tuple[Message, ...] | list[Message]) -> list[str]:
    return [
        "assistant:" + "+".join(call.id for call in message.calls)
        if message.calls
        else f"tool:{message.call_id}{':made-up' if message.synthetic else ''}"
        if message.role == "tool"
        else message.role
        for message in messages
    ]


# --- as upstream


def from_openclaw(store: Repository, messages: list[dict[str, Any]]) -> list[Message]:
    """Return what a model is shown of a transcript in OpenClaw's shape, appended here turn by turn."""
    session = store.create()
    for message in messages:
        call_id = message.get("toolCallId") or message.get("toolUseId")
        role = {"toolResult": "tool"}.get(message["role"], message["role"])
        session.append(role, message["content"], tool_call_id=call_id, is_error=message.get("isError") is True)
    found = [each for turn in session.turns for each in messages_of(turn)]
    session.discard_pending()
    return found


def test_every_case_is_repaired_as_upstream_repairs_it(memory: Repository, shared: Path) -> None:
    cases = json.loads((shared / "cases" / "openclaw_tool_pairing_repair.json").read_text())["cases"]
    assert len(cases) > 5
    for case in cases:
        done, expected = repair_calls(from_openclaw(memory, case["input"])), case["expected"]
        sequence = [
            message.role
            if message.role != "tool"
            else f"toolResult:{message.call_id}" + (":synthetic-error" if message.synthetic else "")
            for message in done.messages
        ]
        assert sequence == expected["sequence"], case["name"]
        assert list(done.added) == expected["added"], case["name"]
        assert done.dropped_duplicate == expected["droppedDuplicate"], case["name"]
        assert done.dropped_orphan == expected["droppedOrphan"], case["name"]
        assert done.changed == expected["changed"], case["name"]
        assert all(message.is_error for message in done.messages if message.synthetic)


def test_a_made_up_answer_says_so_and_is_an_error() -> None:
    (_, made_up) = repair_calls([asked("a")]).messages
    assert (made_up.call_id, made_up.text, made_up.is_error, made_up.synthetic) == ("a", MISSING_RESULT, True, True)


def test_an_answer_without_an_id_is_an_orphan() -> None:
    done = repair_calls([asked("a"), Message("tool", ("x",)), answer("a")])
    assert (shown(done.messages), done.dropped_orphan) == (["assistant:a", "tool:a"], 1)


def test_what_is_in_order_comes_back_as_it_was_given() -> None:
    given_messages = [user(), asked("a"), answer("a"), Message("assistant", ("done",))]
    done = repair_calls(given_messages)
    assert done.messages == tuple(given_messages)
    assert done.to_dict() == {"added": [], "dropped_duplicate": 0, "dropped_orphan": 0, "changed": False}


# --- before the repair


def test_parallel_calls_in_messages_of_their_own_keep_their_answers() -> None:
    messages = [asked("a", text="I look."), asked("b"), answer("a"), answer("b"), user()]
    done = repair_calls(prepare_messages(messages))
    assert shown(done.paired) == ["assistant:a+b", "tool:a", "tool:b", "user"]
    assert done.added == ()
    assert done.paired[0].text == "I look."


def test_messages_of_the_assistant_are_left_apart_where_no_answer_asks_for_more() -> None:
    messages = [Message("assistant", ("Hm.",)), asked("a"), answer("a"), asked("b"), Message("assistant", ("So.",))]
    assert shown(prepare_messages(messages)) == shown(messages)


def test_ids_that_are_used_again_keep_their_own_answers() -> None:
    messages = [
        asked("c"),
        answer("c", "one"),
        user(),
        asked("c"),
        answer("c", "two"),
        asked("c"),
        answer("c", "three"),
    ]
    done = repair_calls(prepare_messages(messages))
    calls = [call.id for message in done.paired for call in message.calls]
    assert calls == ["c", "c-2", "c-3"]
    answers = [(message.call_id, message.text) for message in done.paired if message.role == "tool"]
    assert answers == [("c", "one"), ("c-2", "two"), ("c-3", "three")]


def test_two_calls_with_one_id_in_a_message_get_the_answers_in_order() -> None:
    done = repair_calls(
        prepare_messages([asked("c", "c"), answer("c", "one"), answer("c", "two"), answer("c", "three")])
    )
    assert [(m.call_id, m.text) for m in done.paired if m.role == "tool"] == [("c", "one"), ("c-2", "two")]


def test_a_doubled_answer_in_place_is_shown_once() -> None:
    """Upstream counts and changes nothing here; what a model is shown must have it once, and the second one is counted."""
    done = repair_calls([asked("a"), answer("a", "one"), answer("a", "two")])
    assert (done.changed, done.dropped_duplicate) == (False, 1)
    assert [message.text for message in done.paired] == ["", "one"]


messages = st.lists(
    st.one_of(
        st.builds(user),
        st.lists(st.sampled_from("abc"), max_size=3).map(lambda ids: asked(*ids, text="x")),
        st.builds(answer, st.sampled_from("abcd")),
    ),
    max_size=15,
)


@given(messages)
def test_after_the_repair_every_call_is_answered_right_after_it_and_once(given_messages: list[Message]) -> None:
    done = repair_calls(prepare_messages(given_messages))
    expected: list[str] = []
    for message in done.paired:
        if message.role == "tool":
            assert message.call_id == expected.pop(0)
        else:
            assert expected == []
            expected = [call.id for call in message.calls]
    assert expected == []
    ids = [call.id for message in done.paired for call in message.calls]
    assert len(ids) == len(set(ids))
    people = [message for message in given_messages if message.role == "user"]
    assert [message for message in done.paired if message.role == "user"] == people
    assert len(done.added) == sum(message.synthetic for message in done.paired)
    again = repair_calls(done.paired)
    assert again.paired == done.paired
    assert again.added == ()
