"""The session of the OpenAI Agents SDK: items come back exactly, and are turns that all of Trails can read."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, SessionSettings, function_tool, set_tracing_disabled
from agents.memory import Session
from agents.testing import ScriptedModel
from hypothesis import example, given
from hypothesis import strategies as st
from openai.types.responses import (
    ResponseCodeInterpreterToolCall,
    ResponseComputerToolCall,
    ResponseFileSearchToolCall,
    ResponseFunctionToolCall,
    ResponseFunctionWebSearch,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_computer_tool_call import ActionScreenshot
from openai.types.responses.response_function_web_search import ActionSearch
from openai.types.responses.response_reasoning_item import Summary

import trails
from tests.adapters.writers import kill_one, run_together, write_items
from tests.support.machines import Size
from trails import Repository
from trails.adapters.openai_agents import TrailsSession
from trails.errors import InvalidInput

pytestmark = pytest.mark.any_store
set_tracing_disabled(True)


def run(work: Any) -> Any:
    return asyncio.run(work)


def _user(text: str) -> Any:
    return {"role": "user", "content": text}


def _message(text: str) -> ResponseOutputMessage:
    said = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(id="m", content=[said], role="assistant", status="completed", type="message")


# --- the protocol


def test_it_is_a_session_of_the_sdk(memory: Repository) -> None:
    session = TrailsSession("chat", memory, session_settings={"limit": 3})
    assert isinstance(session, Session)
    assert session.session_settings == SessionSettings(limit=3)


def test_items_come_back_in_order_as_many_as_are_asked_for(store: Repository) -> None:
    session = TrailsSession("chat", store, session_settings=SessionSettings(limit=2))
    items = [_user(str(number)) for number in range(5)]
    run(session.add_items(items[:3]))
    run(session.add_items(items[3:]))
    assert run(session.get_items(10)) == items
    assert run(session.get_items()) == items[3:]
    assert run(session.get_items(0)) == []
    assert run(session.get_items(-1)) == items
    assert run(TrailsSession("other", store).get_items()) == []


def test_popped_items_come_back_the_last_first_until_there_is_none(store: Repository) -> None:
    session = TrailsSession("chat", store)
    assert run(session.pop_item()) is None
    run(session.add_items([_user("a"), _user("b")]))
    assert [run(session.pop_item()), run(session.pop_item()), run(session.pop_item())] == [_user("b"), _user("a"), None]
    assert store.verify().ok


def test_what_is_added_behind_a_pop_or_a_clear_follows_what_is_left(store: Repository) -> None:
    session = TrailsSession("chat", store)
    run(session.add_items([_user("a"), _user("b")]))
    first = store.refs[session.ref_name].session_id
    run(session.pop_item())
    run(session.add_items([_user("c")]))
    assert run(session.get_items()) == [_user("a"), _user("c")]
    assert [turn.content for turn in store.load(first)] == ["a", "b"]
    assert store.record(store.refs[session.ref_name].session_id).parent_session_id == first
    run(session.clear_session())
    assert run(session.get_items()) == []
    run(session.add_items([_user("d")]))
    assert run(TrailsSession("chat", store).get_items()) == [_user("d")]
    assert store.verify().ok


def test_forty_pops_and_edits_never_run_out_of_forks(store: Repository) -> None:
    session = TrailsSession("chat", store)
    run(session.add_items([_user("a")]))
    for number in range(40):
        run(session.add_items([_user(f"try {number}")]))
        run(session.pop_item())
    assert run(session.get_items()) == [_user("a")]


def test_bad_arguments_are_refused(memory: Repository) -> None:
    with pytest.raises(InvalidInput, match="the session's id is empty"):
        TrailsSession("", memory)
    session = TrailsSession("chat", memory)
    for item in ("text", {"role": "user", "content": object()}):
        with pytest.raises(InvalidInput):
            run(session.add_items([_user("a"), item]))  # type: ignore[list-item]
    assert run(session.get_items()) == []


def test_it_opens_the_store_at_a_location_and_closes_it(tmp_path: Path) -> None:
    for text in ("a", "b"):
        session = TrailsSession("chat", tmp_path / "store.trails")
        run(session.add_items([_user(text)]))
        session.close()
    with trails.open(tmp_path / "store.trails") as store:
        session = TrailsSession("chat", store)
        assert run(session.get_items()) == [_user("a"), _user("b")]
        session.close()
        assert len(store) == 1


def test_no_two_ids_share_a_session(store: Repository) -> None:
    ids = ["chat", "chat/2", "chat%2F2", "Chat", " ", "x" * 300, "x" * 301, "é", "chat:b"]
    for each in ids:
        run(TrailsSession(each, store).add_items([_user(each)]))
    run(TrailsSession("chat", store).create_branch("b"))
    run(TrailsSession("chat", store, branch="b").add_items([_user("b")]))
    assert [run(TrailsSession(each, store).get_items()) for each in ids] == [[_user(each)] for each in ids]


# --- the codec

_TEXTS = st.text(max_size=20) | st.just("half \ud83d of a character")
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_PARTS = st.lists(
    _TEXTS
    | st.dictionaries(_TEXTS, _VALUES, max_size=3)
    | st.sampled_from(
        [{"type": "input_text", "text": "a"}, {"type": "tool_use"}, {"type": "function_call", "name": 1}]
    ),
    max_size=3,
)
_ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "system", "developer", "tool"]) | _TEXTS,
        "content": _TEXTS | _PARTS | _VALUES,
        "type": st.sampled_from(
            [
                *("message", "function_call", "function_call_output", "reasoning", "web_search_call", "mcp_call"),
                *(
                    "computer_call_output",
                    "shell_call",
                    "compaction",
                    "item_reference",
                    "unknown",
                    "mcp_approval_response",
                ),
            ]
        ),
        "call_id": _VALUES,
        "name": _TEXTS,
        "arguments": _TEXTS,
        "output": _VALUES,
        "id": _TEXTS,
        "more": _VALUES,
    },
)


_SHUFFLED = _ITEMS.flatmap(lambda item: st.permutations(list(item.items()))).map(dict)


@example(items=[{"content": "b", "role": "user"}])
@given(items=st.lists(_SHUFFLED, min_size=1, max_size=5))
def test_any_items_come_back_exactly(items: list[Any]) -> None:
    with trails.open(":memory:") as store:
        session = TrailsSession("chat", store)
        run(session.add_items(items))
        assert [json.dumps(each) for each in run(session.get_items())] == [json.dumps(each) for each in items]
        assert json.dumps(run(session.pop_item())) == json.dumps(items[-1])
        assert store.verify().ok


def test_the_sdks_own_items_come_back_exactly_and_are_native(store: Repository) -> None:
    made = [
        ResponseReasoningItem(id="r", summary=[Summary(text="Hm", type="summary_text")], type="reasoning"),
        _message("Let me look."),
        ResponseFunctionToolCall(arguments='{"place":"Zermatt"}', call_id="c1", name="weather", type="function_call"),
        ResponseFunctionWebSearch(
            id="w", action=ActionSearch(query="x", type="search"), status="completed", type="web_search_call"
        ),
        ResponseFileSearchToolCall(id="f", queries=["x"], status="completed", type="file_search_call"),
        ResponseCodeInterpreterToolCall(
            id="i", code="1", container_id="c", outputs=None, status="completed", type="code_interpreter_call"
        ),
        ResponseComputerToolCall(
            id="p",
            action=ActionScreenshot(type="screenshot"),
            call_id="c2",
            pending_safety_checks=[],
            status="completed",
            type="computer_call",
        ),
    ]
    items: list[Any] = [each.model_dump(exclude_unset=True) for each in made]
    items.append({"type": "function_call_output", "call_id": "c1", "output": "Snow"})
    session = TrailsSession("chat", store)
    run(session.add_items(items))
    assert [json.dumps(each) for each in run(session.get_items())] == [json.dumps(each) for each in items]
    turns = store.load(session.ref_name).turns
    assert [turn.role for turn in turns] == ["assistant"] * 7 + ["tool"]
    assert (turns[2].tool_calls[0].name, turns[2].tool_calls[0].arguments) == ("weather", '{"place":"Zermatt"}')
    assert turns[7].tool_results[0].call_id == "c1"
    assert [hit.index for hit in store.search("look")] == [1]


def test_turns_that_were_written_otherwise_or_redacted_are_items_that_say_the_same(store: Repository) -> None:
    session = TrailsSession("chat", store)
    run(session.add_items([_user("My key is 123456")]))
    with store.checkout(session.ref_name) as chat:
        chat.append("assistant", "Let me look.", tool_calls=[{"id": "c1", "name": "look", "arguments": {"at": 1}}])
        chat.append("tool", "A key", tool_call_id="c1")
        chat.append("event", "seen by nobody")
    store.redact(store.refs[session.ref_name].session_id, 0)
    items = run(session.get_items())
    assert items == [
        _user("[redacted]"),
        {"role": "assistant", "content": "Let me look."},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "A key"},
    ]
    assert run(session.get_items(2)) == items[2:]
    assert run(session.pop_item()) == items[3]


# --- runs


@function_tool
def weather(place: str) -> str:
    return f"Snow in {place}"


def test_a_run_keeps_its_messages_calls_and_usage(store: Repository) -> None:
    model = ScriptedModel()
    call = ResponseFunctionToolCall(arguments='{"place":"Zermatt"}', call_id="c1", name="weather", type="function_call")
    model.enqueue([call])
    model.enqueue([_message("Take skis.")])
    session = TrailsSession("chat", store, model="m-1")
    result = run(Runner.run(Agent(name="guide", model=model, tools=[weather]), "How is it?", session=session))
    assert result.final_output == "Take skis."
    turns = store.load(session.ref_name).turns
    assert [(turn.role, [each.name for each in turn.tool_calls]) for turn in turns] == [
        ("user", []),
        ("assistant", ["weather"]),
        ("tool", []),
        ("assistant", []),
    ]
    used = result.context_wrapper.usage
    assert sum(turn.usage.get("input_tokens", 0) for turn in turns) == used.input_tokens
    model.enqueue([_message("Yes.")])
    run(Runner.run(Agent(name="guide", model=model), "Sure?", session=session))
    assert [item.get("role", item.get("type")) for item in model.calls[-1].input] == [
        *("user", "function_call", "function_call_output", "assistant", "user")
    ]


def test_the_usage_of_a_run_is_counted_once(store: Repository) -> None:
    class Context:
        """A run's context, as far as a session reads it."""

        class usage:  # noqa: N801
            input_tokens, output_tokens = 10, 4

            class input_tokens_details:  # noqa: N801
                cached_tokens = 2

            class output_tokens_details:  # noqa: N801
                reasoning_tokens = 1

    context: Any = Context()
    session = TrailsSession("chat", store, model="m-1")
    run(session.add_items([_user("a")], wrapper=context))
    run(session.add_items([{"role": "assistant", "content": "b"}, _user("c")], wrapper=context))
    run(session.add_items([{"role": "assistant", "content": "d"}], wrapper=context))
    context.usage.input_tokens, context.usage.output_tokens = 25, 5
    run(session.add_items([{"role": "assistant", "content": "e"}], wrapper=context))
    turns = store.load(session.ref_name).turns
    assert [(turn.usage.get("input_tokens"), turn.usage.get("output_tokens")) for turn in turns] == [
        *((None, None), (10, 4), (None, None), (None, None), (15, 1))
    ]
    (row,) = store.select("token-usage-by-model").to_dicts()
    assert (row["model"], row["output"]) == ("m-1", 5)


# --- several writers


def test_eight_threads_lose_nothing_and_double_nothing(store: Repository) -> None:
    def write(writer: int) -> None:
        session = TrailsSession("chat", store)
        for number in range(5):
            run(session.add_items([_user(f"{writer}-{number}-a"), _user(f"{writer}-{number}-b")]))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = [item["content"] for item in run(TrailsSession("chat", store).get_items())]
    assert sorted(texts) == sorted(f"{w}-{n}-{part}" for w in range(8) for n in range(5) for part in "ab")
    assert all(texts[at][:-1] == texts[at + 1][:-1] for at in range(0, len(texts), 2))
    popped: list[str] = []

    def take() -> None:
        session = TrailsSession("chat", store)
        while (item := run(session.pop_item())) is not None:
            popped.append(item["content"])

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(popped) == sorted(texts)


@pytest.mark.slow
@pytest.mark.parametrize("pops", [False, True])
def test_processes_on_one_session_lose_nothing_and_double_nothing(tmp_path: Path, pops: bool) -> None:
    place, writers, count = tmp_path / "store.trails", 8, 20
    trails.open(place, create=True).close()
    said = run_together(write_items, place, writers, count, pops=pops)
    with trails.open(place) as store:
        left = [item["content"] for item in run(TrailsSession("chat", store).get_items())]
        assert store.verify().ok
    popped = [text for sign, text in said if sign == "-"]
    assert len(popped) == (writers * count // 2 if pops else 0)
    assert sorted([*left, *popped]) == sorted(text for sign, text in said if sign == "+")


@pytest.mark.slow
@pytest.mark.parametrize("pops", [False, True])
def test_a_kill_leaves_each_call_done_or_not_begun(tmp_path: Path, size: Size, pops: bool) -> None:
    place, chance = tmp_path / "store.trails", random.Random(31)
    trails.open(place, create=True).close()
    before: list[str] = []
    for round_ in range(200 if size == "long" else 20):
        said = kill_one(write_items, place, f"r{round_}", chance, pops=pops)
        for sign, text in said:
            if sign == "+":
                before.append(text)
            else:
                assert before.pop() == text
        with trails.open(place) as store:
            after = [item["content"] for item in run(TrailsSession("chat", store).get_items())]
        assert after in (before, [*before, f"r{round_}-{len(said)}"], before[:-1] if pops else before)
        before = after
    with trails.open(place) as store:
        assert store.verify().ok


# --- branches


def test_a_branch_shares_items_and_goes_on_alone(store: Repository) -> None:
    session = TrailsSession("chat", store)
    with pytest.raises(InvalidInput, match="no items yet"):
        run(session.create_branch("early"))
    run(session.add_items([_user("a"), _user("b")]))
    run(session.create_branch("try: 2", before=1))
    run(session.add_items([_user("c")]))
    assert (session.branch, run(session.get_items())) == ("try: 2", [_user("a"), _user("c")])
    run(session.switch_to_branch("main"))
    assert run(session.get_items()) == [_user("a"), _user("b")]
    assert run(TrailsSession("chat", store, branch="try: 2").get_items()) == [_user("a"), _user("c")]
    assert run(session.list_branches()) == ["main", "try: 2"]
    with pytest.raises(InvalidInput, match="has a branch 'try: 2' already"):
        run(session.create_branch("try: 2"))
    with pytest.raises(InvalidInput, match="has no branch 'else'; it has main, try: 2"):
        run(session.switch_to_branch("else"))
    with pytest.raises(InvalidInput, match="is in use"):
        run(session.delete_branch("main"))
    run(session.delete_branch("try: 2"))
    assert run(session.list_branches()) == ["main"]
    assert store.verify().ok


def test_deleting_a_session_deletes_what_was_ever_added(store: Repository) -> None:
    session, other = TrailsSession("chat", store), TrailsSession("chat/2", store)
    run(other.add_items([_user("kept")]))
    for text in ("first", "second", "third"):
        run(session.add_items([_user(text)]))
        run(session.clear_session())
    run(session.add_items([_user("fourth")]))
    run(session.create_branch("b"))
    run(session.delete_session())
    assert (run(session.get_items()), run(session.list_branches()), len(store)) == ([], ["main"], 1)
    run(session.add_items([_user("anew")]))
    assert (run(session.get_items()), run(other.get_items())) == ([_user("anew")], [_user("kept")])
    assert store.verify().ok


def test_a_text_that_is_redacted_wherever_it_stands_leaves_the_rest_of_the_items(store: Repository) -> None:
    session = TrailsSession("chat", store)
    items: Any = [
        {"role": "user", "content": "Hi", "note": "the key 123456"},
        {"role": "user", "content": "Half \ud83d", "note": "the key 123456"},
        _user("Go on"),
    ]
    run(session.add_items(items))
    store.redact_matching("123456")
    first, second, third = run(session.get_items())
    assert (first, third) == ({"role": "user", "content": "Hi", "note": "redacted"}, _user("Go on"))
    assert (second["role"], "123456" in json.dumps(second)) == ("user", False)
    assert store.verify().ok


def test_words_of_the_adapter_can_be_redacted_and_each_message_is_still_one(memory: Repository) -> None:
    call: Any = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
    for word in ("role", "type", "content", "message", "openaiItem", "assistant"):
        session: Any = TrailsSession(f"chat-{word[:2]}", memory)
        run(
            session.add_items(
                [_user("Hi"), {"content": "Hey", "role": "assistant", "type": "message", "id": "m"}, call]
            )
        )
        memory.redact_matching(word)
        first, second, *_ = run(TrailsSession(session.session_id, memory).get_items())
        assert (first, second.get("content"), "redacted" in second) == (_user("Hi"), "Hey", False), word
    assert memory.verify().ok


def test_a_redacted_call_is_one_item_without_its_arguments(store: Repository) -> None:
    session: Any = TrailsSession("chat", store)
    call: Any = {"type": "function_call", "call_id": "1", "name": "f", "arguments": '{"key":"123456"}'}
    run(session.add_items([_user("Hi"), call, {"type": "reasoning", "id": "r", "summary": []}]))
    for index in (1, 2):
        store.redact(store.refs[session.ref_name].session_id, index)
    _, second, third = run(session.get_items())
    assert (second["type"], second["call_id"], "123456" in json.dumps(second)) == ("function_call", "1", False)
    assert third == {"role": "assistant", "content": "[redacted]"}


@pytest.mark.parametrize("role", ["critic", "usr", "User", "model", "summary", "info"])
def test_a_role_of_the_users_own_comes_back(memory: Repository, role: str) -> None:
    session: Any = TrailsSession("chat", memory)
    run(session.add_items([{"role": role, "content": "x"}]))
    assert run(session.get_items()) == [{"role": role, "content": "x"}]


def test_a_session_that_another_handle_deleted_begins_anew(store: Repository) -> None:
    one, other = TrailsSession("chat", store), TrailsSession("chat", store)
    run(one.add_items([_user("first")]))
    run(other.delete_session())
    assert (run(one.get_items()), run(one.pop_item())) == ([], None)
    run(one.add_items([_user("anew")]))
    run(other.add_items([_user("more")]))
    assert run(one.get_items()) == run(other.get_items()) == [_user("anew"), _user("more")]
    run(other.delete_session())
    run(one.add_items([_user("again")]))
    assert run(other.get_items()) == [_user("again")]


@pytest.mark.parametrize(
    "items",
    [
        [_user("Hi"), {"role": "user", "content": "x", "more": {1: 2}}],
        [_user("Hi"), 1],
        "Hi",
        {"a": 1},
        5,
    ],
)
def test_items_that_are_no_json_objects_are_refused_before_anything_is_stored(memory: Repository, items: Any) -> None:
    session = TrailsSession("chat", memory)
    with pytest.raises(InvalidInput):
        run(session.add_items(items))
    assert (run(session.get_items()), len(memory)) == ([], 0)


def test_wrong_arguments_are_refused_in_words(memory: Repository) -> None:
    session: Any = TrailsSession("chat", memory)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: session.get_items("1"),
        lambda: session.switch_to_branch(None),
        lambda: session.delete_branch(5),
        lambda: session.create_branch("b", before="0"),
    )
    for work in calls:
        with pytest.raises(InvalidInput):
            run(work())
    with pytest.raises(InvalidInput):
        TrailsSession("chat", memory, branch=None)  # type: ignore[arg-type]
