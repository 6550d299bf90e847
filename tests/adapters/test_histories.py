"""Message histories for LangChain, pydantic-ai and Microsoft's Agent Framework: what they promise, and each one's messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from trails import Repository
from trails.errors import HasChildren, InvalidInput

pytest.importorskip("langchain_core")
pytest.importorskip("pydantic_ai")
pytest.importorskip("agent_framework")

from agent_framework import AgentResponse, AgentSession, Content, Message, SessionContext
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
)
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from pydantic_ai import Agent, BinaryContent, RequestUsage
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel

from trails.adapters.agent_framework import TrailsHistoryProvider
from trails.adapters.langchain import TrailsChatMessageHistory
from trails.adapters.pydantic_ai import TrailsHistory

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")


# --- LangChain

LANGCHAIN = [
    SystemMessage("Be brief.", id="m0"),
    HumanMessage(
        [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}]
    ),
    AIMessage(
        "Let me look.",
        id="run-1",
        name="planner",
        tool_calls=[{"id": "c1", "name": "weather", "args": {"place": "Zermatt"}}],
        invalid_tool_calls=[
            {"id": "c2", "name": "weather", "args": "{", "error": "no JSON", "type": "invalid_tool_call"}
        ],
        usage_metadata={"input_tokens": 30, "output_tokens": 6, "total_tokens": 36},
        response_metadata={"model_name": "m-1", "finish_reason": "tool_calls"},
        additional_kwargs={"refusal": None, "reasoning": ["x"]},
    ),
    ToolMessage("Snow", tool_call_id="c1", artifact={"depth": [1, 2.5]}, status="error"),
    AIMessage(""),
    AIMessageChunk(content="Take ", id="run-2"),
    ChatMessage(content="Arr", role="the pirate"),
]


def plain(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return messages as LangChain writes them."""
    return [message_to_dict(message) for message in messages]


def test_langchain_messages_come_back_as_they_were(store: Repository) -> None:
    history = TrailsChatMessageHistory("trip", store)
    assert history.messages == []
    history.add_messages(LANGCHAIN[:3])
    history.add_messages(LANGCHAIN[3:])
    assert plain(history.messages) == plain(LANGCHAIN)
    assert [type(message) for message in history.messages] == [type(message) for message in LANGCHAIN]
    assert plain(TrailsChatMessageHistory("trip", store).recent(2)) == plain(LANGCHAIN[-2:])
    assert store.verify().ok


def test_langchain_messages_are_turns_with_calls_model_and_usage(store: Repository) -> None:
    TrailsChatMessageHistory("trip", store, principal="alice", agent="planner").add_messages(LANGCHAIN[:4])
    session = store.load("trip")
    assert [turn.role for turn in session] == ["system", "user", "assistant", "tool"]
    assert (session[2].model, session[2].stop_reason, session[2].usage["output_tokens"]) == ("m-1", "tool_calls", 6)
    assert [(call.id, call.input) for call in session[2].tool_calls] == [("c1", {"place": "Zermatt"})]
    assert [(answer.call_id, answer.is_error) for answer in session[3].tool_results] == [("c1", True)]
    assert (session.principal, session.agent) == ("alice", "planner")
    assert [hit.index for hit in store.search("snow")] == [3]


def test_langchain_messages_that_json_cannot_carry_are_refused_together(store: Repository) -> None:
    history = TrailsChatMessageHistory("trip", store)
    with pytest.raises(InvalidInput, match="JSON cannot carry"):
        history.add_messages([HumanMessage("a"), ToolMessage("b", tool_call_id="c", artifact=object())])
    assert history.messages == []


def test_a_runnable_with_message_history_goes_on_where_it_was(store: Repository) -> None:
    asked: list[list[str]] = []

    def answer(messages: list[BaseMessage]) -> AIMessage:
        asked.append([str(message.content) for message in messages])
        return AIMessage(f"answer {len(asked)}")

    def history(session_id: str) -> TrailsChatMessageHistory:
        return TrailsChatMessageHistory(session_id, store)

    chain = RunnableWithMessageHistory(RunnableLambda(answer), history)
    config: Any = {"configurable": {"session_id": "trip"}}
    chain.invoke([HumanMessage("one")], config)
    asyncio.run(chain.ainvoke([HumanMessage("two")], config))
    assert asked == [["one"], ["one", "answer 1", "two"]]
    assert [turn.content for turn in store.load("trip")] == ["one", "answer 1", "two", "answer 2"]


def test_the_async_forms_of_a_langchain_history_do_the_same(store: Repository) -> None:
    async def work() -> list[list[Any]]:
        history = TrailsChatMessageHistory("trip", store)
        await history.aadd_messages([HumanMessage("a"), AIMessage("b")])
        before = await history.aget_messages()
        await history.aclear()
        return [[message.content for message in each] for each in (before, await history.aget_messages())]

    assert asyncio.run(work()) == [["a", "b"], []]


def test_what_is_cleared_stays_in_the_store(store: Repository) -> None:
    history = TrailsChatMessageHistory("trip", store)
    history.clear()
    history.add_messages([HumanMessage("a")])
    history.clear()
    history.add_messages([HumanMessage("b")])
    assert [message.content for message in history.messages] == ["b"]
    assert [hit.session_id for hit in store.search("a")]
    assert store.verify().ok


def test_a_fork_of_a_history_shares_its_beginning(store: Repository) -> None:
    history = TrailsChatMessageHistory("trip", store)
    history.add_messages([HumanMessage("a"), AIMessage("b"), HumanMessage("c")])
    other = history.fork("other", at=1)
    other.add_messages([AIMessage("z")])
    assert [message.content for message in other.messages] == ["a", "z"]
    assert [message.content for message in history.messages] == ["a", "b", "c"]
    assert len(store.list()) == 2
    with pytest.raises(InvalidInput, match="3 messages"):
        history.fork("third", at=4)


def test_a_turn_that_was_appended_in_trails_is_a_message(store: Repository) -> None:
    history = TrailsChatMessageHistory("trip", store)
    history.add_messages([HumanMessage("a")])
    with store.checkout("trip") as main:
        main.append("assistant", "b", tool_calls=[{"id": "c", "name": "ls", "arguments": {"path": "/"}}])
        main.append("tool", "c", tool_call_id="c")
    messages = history.messages
    assert [message.type for message in messages] == ["human", "ai", "tool"]
    assert isinstance(messages[1], AIMessage)
    assert messages[1].tool_calls[0]["args"] == {"path": "/"}


@pytest.mark.parametrize("name", ["trip", "with spaces", "x" * 400, "-dash", "ä/🙂"])
def test_a_history_may_have_any_name(store: Repository, name: str) -> None:
    TrailsChatMessageHistory(name, store).add_user_message("a")
    assert [message.content for message in TrailsChatMessageHistory(name, store).messages] == ["a"]


def test_eight_threads_add_to_one_history(store: Repository) -> None:
    def add(number: int) -> None:
        for turn in range(5):
            TrailsChatMessageHistory("trip", store).add_messages([HumanMessage(f"{number}-{turn}"), AIMessage("ok")])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(8)))
    texts = [message.content for message in TrailsChatMessageHistory("trip", store).messages]
    assert sorted(texts[::2]) == sorted(f"{number}-{turn}" for number in range(8) for turn in range(5))
    assert set(texts[1::2]) == {"ok"}


def test_a_history_opens_the_store_at_a_location_and_closes_it(tmp_path: Path) -> None:
    for _ in range(2):
        history = TrailsChatMessageHistory("trip", tmp_path / "store.trails")
        history.add_user_message("a")
        history.close()
    with trails.open(tmp_path / "store.trails") as store:
        assert len(store.load("trip")) == 2


def test_a_redacted_text_is_in_no_message_and_the_history_goes_on(store: Repository) -> None:
    async def work() -> list[str]:
        provider = TrailsHistoryProvider(store)
        await provider.save_messages("three", [Message("user", ["my pin is 4711"]), Message("assistant", ["ok"])])
        one, two = TrailsChatMessageHistory("one", store), TrailsHistory("two", store)
        await one.aadd_messages(
            [HumanMessage("my pin is 4711"), AIMessage("ok", additional_kwargs={"a": "my pin is 4711"})]
        )
        await two.aextend(
            [ModelRequest(parts=[UserPromptPart("my pin is 4711")]), ModelResponse(parts=[TextPart("ok")])]
        )
        store.redact_matching("my pin is 4711")
        store.redact(store.load("one").id, 1)
        await one.aadd_messages([HumanMessage("on")])
        read = [
            plain(await one.aget_messages()),
            dumped(await two.aload()),
            dicts(await provider.get_messages("three")),
        ]
        return [json.dumps(each) for each in read]

    texts = asyncio.run(work())
    assert [text for text in texts if "4711" in text] == []
    assert "(redacted)" in texts[0]
    assert store.verify().ok


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_JSON = st.dictionaries(_TEXT, _VALUE, max_size=3)
_CALL = st.builds(
    lambda identity, name, args: {"id": identity, "name": name, "args": args}, st.none() | _TEXT, _TEXT, _JSON
)
_SAID = _TEXT | st.lists(_TEXT | st.builds(lambda text: {"type": "text", "text": text}, _TEXT), max_size=2)
_LANGCHAIN = st.one_of(
    st.builds(HumanMessage, content=_SAID, id=st.none() | _TEXT, additional_kwargs=_JSON),
    st.builds(
        AIMessage, content=_SAID, id=st.none() | _TEXT, tool_calls=st.lists(_CALL, max_size=2), response_metadata=_JSON
    ),
    st.builds(
        ToolMessage, content=_SAID, tool_call_id=_TEXT, artifact=_VALUE, status=st.sampled_from(["success", "error"])
    ),
    st.builds(SystemMessage, content=_TEXT, name=st.none() | _TEXT),
    st.builds(ChatMessage, content=_TEXT, role=_TEXT),
)


@given(st.lists(_LANGCHAIN, max_size=4))
def test_any_langchain_messages_come_back_as_they_were(messages: list[BaseMessage]) -> None:
    with trails.open(":memory:") as store:
        history = TrailsChatMessageHistory("trip", store)
        history.add_messages(messages)
        assert plain(history.messages) == plain(messages)
        assert store.verify().ok


# --- pydantic-ai

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
PYDANTIC: list[ModelMessage] = [
    ModelRequest(
        parts=[
            SystemPromptPart("Be brief.", timestamp=NOON),
            UserPromptPart(["Look", BinaryContent(b"\x89PNG", media_type="image/png")], timestamp=NOON),
        ],
        instructions="Answer in English.",
    ),
    ModelResponse(
        parts=[
            ThinkingPart("hm", signature="s"),
            TextPart("Let me look."),
            ToolCallPart("weather", {"place": "Zermatt"}, "c1"),
        ],
        usage=RequestUsage(input_tokens=30, output_tokens=6),
        model_name="m-1",
        timestamp=NOON,
        finish_reason="tool_call",
    ),
    ModelRequest(
        parts=[ToolReturnPart("weather", {"snow": 1}, "c1", timestamp=NOON), UserPromptPart("Well?", timestamp=NOON)]
    ),
    ModelResponse(parts=[], timestamp=NOON),
]


def dumped(messages: Sequence[ModelMessage]) -> Any:
    """Return messages as pydantic-ai writes them."""
    return json.loads(ModelMessagesTypeAdapter.dump_json(list(messages)))


def test_pydantic_ai_messages_come_back_as_they_were(store: Repository) -> None:
    history = TrailsHistory("trip", store)
    assert history.load() == []
    history.extend(PYDANTIC[:2])
    history.extend(PYDANTIC[2:])
    assert dumped(history.load()) == dumped(PYDANTIC)
    assert [dumped(history.load(newest)) for newest in range(6)] == [
        dumped(PYDANTIC[4 - min(newest, 4) :]) for newest in range(6)
    ]
    assert store.verify().ok


def test_a_pydantic_ai_message_is_as_many_turns_as_it_says(store: Repository) -> None:
    TrailsHistory("trip", store).extend(PYDANTIC)
    session = store.load("trip")
    assert [turn.role for turn in session] == ["system", "user", "assistant", "tool", "user", "assistant"]
    assert [(call.name, call.input) for call in session[2].tool_calls] == [("weather", {"place": "Zermatt"})]
    assert (session[2].model, session[2].usage["input_tokens"], session[2].time) == ("m-1", 30, NOON)
    assert [answer.call_id for answer in session[3].tool_results] == ["c1"]


def test_an_agents_runs_go_on_from_the_history(store: Repository) -> None:
    agent = Agent(TestModel(custom_output_text="Where to?"), system_prompt="Be brief.")
    history = TrailsHistory("trip", store)
    first = asyncio.run(agent.run("Plan a trip", message_history=history.load()))
    history.extend(first.new_messages())
    second = asyncio.run(agent.run("To the Alps", message_history=history.load()))
    history.extend(second.new_messages())
    assert history.load() == second.all_messages()
    assert [turn.content for turn in store.load("trip") if turn.role == "user"] == ["Plan a trip", "To the Alps"]


def test_saving_all_messages_stores_what_is_new(store: Repository) -> None:
    history = TrailsHistory("trip", store)
    assert [history.save(PYDANTIC[:count]) for count in (1, 3, 3, 4)] == [1, 2, 0, 1]
    assert len(store.load("trip")) == 6


def test_a_history_that_was_rewritten_goes_on_from_what_both_have(store: Repository) -> None:
    history = TrailsHistory("trip", store)
    history.save(PYDANTIC)
    shorter = [PYDANTIC[0], ModelResponse(parts=[TextPart("A summary")], timestamp=NOON)]
    assert history.save(shorter) == 1
    assert dumped(history.load()) == dumped(shorter)
    assert [hit.index for hit in store.search("Well")] == [4]


def test_a_history_processor_sees_what_was_loaded(store: Repository) -> None:
    seen: list[int] = []

    def newest(messages: list[ModelMessage]) -> list[ModelMessage]:
        seen.append(len(messages))
        return messages[-3:]

    agent = Agent(TestModel(custom_output_text="ok"), capabilities=[ProcessHistory(newest)])
    history = TrailsHistory("trip", store)
    for number in range(3):
        result = asyncio.run(agent.run(f"question {number}", message_history=history.load()))
        history.extend(result.new_messages())
    assert seen == [1, 3, 5]
    assert len(history.load()) == 6


def test_a_pydantic_ai_history_is_rewound_and_forked_at_a_message(store: Repository) -> None:
    history = TrailsHistory("trip", store)
    history.extend(PYDANTIC)
    other = history.fork("other", at=3)
    history.rewind(1)
    assert dumped(history.load()) == dumped(PYDANTIC[:1])
    assert dumped(other.load()) == dumped(PYDANTIC[:3])
    with pytest.raises(InvalidInput, match="1 messages"):
        history.rewind(2)


def test_the_async_forms_of_a_pydantic_ai_history_do_the_same(store: Repository) -> None:
    async def work() -> list[int]:
        history = TrailsHistory("trip", store)
        await history.aextend(PYDANTIC[:2])
        saved = await history.asave(PYDANTIC)
        other = await history.afork("other", at=2)
        await history.arewind(1)
        return [saved, len(await history.aload()), len(await other.aload())]

    assert asyncio.run(work()) == [2, 1, 2]


def test_a_turn_of_trails_is_a_pydantic_ai_message(store: Repository) -> None:
    with store.checkout("trip", create=True) as main:
        main.append("user", "a")
        main.append("assistant", "b", tool_calls=[{"id": "c", "name": "ls", "arguments": {"path": "/"}}])
        main.append("tool", "c", tool_call_id="c")
    messages = TrailsHistory("trip", store).load()
    assert [type(message).__name__ for message in messages] == ["ModelRequest", "ModelResponse", "ModelRequest"]
    assert [part.part_kind for message in messages for part in message.parts] == [
        "user-prompt",
        "text",
        "tool-call",
        "tool-return",
    ]


_TIME = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(lambda time: time.replace(tzinfo=UTC))  # noqa: DTZ001
_REQUEST_PART: Any = st.one_of(
    st.builds(UserPromptPart, content=_TEXT, timestamp=_TIME),
    st.builds(SystemPromptPart, content=_TEXT, timestamp=_TIME),
    st.builds(ToolReturnPart, tool_name=_TEXT, content=_VALUE, tool_call_id=_TEXT, timestamp=_TIME),
)
_RESPONSE_PART: Any = st.one_of(
    st.builds(TextPart, content=_TEXT),
    st.builds(ThinkingPart, content=_TEXT, signature=st.none() | _TEXT),
    st.builds(ToolCallPart, tool_name=_TEXT, args=st.none() | _TEXT | _JSON, tool_call_id=_TEXT),
)
_PYDANTIC = st.one_of(
    st.builds(ModelRequest, parts=st.lists(_REQUEST_PART, max_size=3), instructions=st.none() | _TEXT),
    st.builds(ModelResponse, parts=st.lists(_RESPONSE_PART, max_size=3), model_name=st.none() | _TEXT, timestamp=_TIME),
)


@given(st.lists(_PYDANTIC, max_size=4))
def test_any_pydantic_ai_messages_come_back_as_they_were(messages: list[ModelMessage]) -> None:
    with trails.open(":memory:") as store:
        history = TrailsHistory("trip", store)
        history.extend(messages)
        assert dumped(history.load()) == dumped(messages)
        assert store.verify().ok


# --- Microsoft's Agent Framework

FRAMEWORK = [
    Message("system", ["Be brief."]),
    Message("user", ["Look", Content.from_data(data=b"\x89PNG", media_type="image/png")], message_id="u1"),
    Message(
        "assistant",
        [
            Content.from_text_reasoning(text="hm"),
            "Let me look.",
            Content.from_function_call(call_id="c1", name="weather", arguments={"place": "Zermatt"}),
            Content.from_usage({"input_token_count": 30, "output_token_count": 6, "total_token_count": 36}),
        ],
        author_name="planner",
        message_id="a1",
        additional_properties={"n": [1]},
    ),
    Message("tool", [Content.from_function_result(call_id="c1", result="Snow")]),
    Message("assistant", []),
]


def dicts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as the framework writes them."""
    return [message.to_dict() for message in messages]


def test_agent_framework_messages_come_back_as_they_were(store: Repository) -> None:
    async def work() -> None:
        provider = TrailsHistoryProvider(store)
        assert await provider.get_messages("trip") == []
        await provider.save_messages("trip", FRAMEWORK[:2])
        await provider.save_messages("trip", FRAMEWORK[2:])
        assert dicts(await provider.get_messages("trip")) == dicts(FRAMEWORK)
        assert await provider.get_messages(None) == []
        assert dicts(await TrailsHistoryProvider(store, newest=2).get_messages("trip")) == dicts(FRAMEWORK[-2:])

    asyncio.run(work())
    assert store.verify().ok


def test_agent_framework_messages_are_turns_with_calls_and_usage(store: Repository) -> None:
    asyncio.run(TrailsHistoryProvider(store).save_messages("trip", FRAMEWORK))
    session = store.load("trip")
    assert [turn.role for turn in session] == ["system", "user", "assistant", "tool", "assistant"]
    assert session[0].content == "Be brief."
    assert [(call.id, call.name, call.input) for call in session[2].tool_calls] == [
        ("c1", "weather", {"place": "Zermatt"})
    ]
    assert (session[2].usage["input_tokens"], session[2].usage["output_tokens"]) == (30, 6)
    assert (session[3].content, [answer.call_id for answer in session[3].tool_results]) == ("Snow", ["c1"])


def test_a_replayed_transcript_is_not_stored_again(store: Repository) -> None:
    async def work() -> int:
        provider = TrailsHistoryProvider(store)
        for end in (2, 4, 5, 5):
            await provider.save_messages("trip", FRAMEWORK[:end])
        return len(await provider.get_messages("trip"))

    assert asyncio.run(work()) == 5


def test_an_agent_loads_and_stores_its_history(store: Repository) -> None:

    async def turn(text: str, answer: str) -> list[str]:
        provider, session = TrailsHistoryProvider(store), AgentSession(session_id="trip")
        context = SessionContext(session_id="trip", input_messages=[Message("user", [text])])
        call: dict[str, Any] = {"agent": None, "session": session, "context": context, "state": {}}
        await provider.before_run(**call)
        context._response = AgentResponse(messages=[Message("assistant", [answer])])
        await provider.after_run(**call)
        return [message.text for message in context.get_messages(include_input=True)]

    assert asyncio.run(turn("one", "first")) == ["one"]
    assert asyncio.run(turn("two", "second")) == ["one", "first", "two"]
    assert [each.content for each in store.load("trip")] == ["one", "first", "two", "second"]


def test_excluded_messages_are_left_out_if_that_is_wanted(store: Repository) -> None:
    messages = [Message("user", ["a"], additional_properties={"_excluded": True}), Message("user", ["b"])]

    async def work(**options: Any) -> list[str]:
        return [message.text for message in await TrailsHistoryProvider(store, **options).get_messages("trip")]

    asyncio.run(TrailsHistoryProvider(store).save_messages("trip", messages))
    assert asyncio.run(work()) == ["a", "b"]
    assert asyncio.run(work(skip_excluded=True)) == ["b"]


def test_an_agent_frameworks_history_is_forked_and_rewound(store: Repository) -> None:
    async def work() -> list[list[str]]:
        provider = TrailsHistoryProvider(store)
        await provider.save_messages("trip", [Message("user", [text]) for text in "abc"])
        await provider.fork("trip", "other", at=2)
        await provider.rewind("trip", 1)
        return [[message.text for message in await provider.get_messages(each)] for each in ("trip", "other")]

    assert asyncio.run(work()) == [["a"], ["a", "b"]]


_CONTENT = st.one_of(
    st.builds(Content.from_text, _TEXT),
    st.builds(lambda text: Content.from_text_reasoning(text=text), _TEXT),
    st.builds(lambda data: Content.from_data(data=data, media_type="image/png"), st.binary(max_size=20)),
    st.builds(
        lambda call, name, args: Content.from_function_call(call_id=call, name=name, arguments=args),
        _TEXT,
        _TEXT,
        _JSON,
    ),
    st.builds(lambda call, result: Content.from_function_result(call_id=call, result=result), _TEXT, _TEXT),
)
_FRAMEWORK = st.builds(
    Message,
    st.sampled_from(["user", "assistant", "system", "tool"]) | _TEXT,
    st.lists(_CONTENT, max_size=3),
    author_name=st.none() | _TEXT,
    message_id=st.none() | _TEXT,
)


@given(st.lists(_FRAMEWORK, max_size=4))
def test_any_agent_framework_messages_come_back_as_they_were(messages: list[Message]) -> None:
    async def work() -> None:
        with trails.open(":memory:") as store:
            provider = TrailsHistoryProvider(store)
            await provider.save_messages("trip", messages)
            assert dicts(await provider.get_messages("trip")) == dicts(messages)
            assert store.verify().ok

    asyncio.run(work())


# --- what a redaction or a removal leaves

_WORDS = (
    "user", "assistant", "tool", "human", "ai", "content", "contents", "type", "parts", "role", "messages", "message",
    "kind", "request", "text", "id", "data", "args", "tool_calls", "name", "part_kind", "call", "json", "message_part",
)  # fmt: skip


@pytest.mark.parametrize("word", _WORDS)
def test_a_redaction_of_a_word_of_the_frameworks_leaves_every_message_readable(word: str) -> None:
    calling = {"id": "c9", "name": "weather", "args": {"place": "Zermatt"}}
    with trails.open(":memory:") as store:
        one, two, three = TrailsChatMessageHistory("1", store), TrailsHistory("2", store), TrailsHistoryProvider(store)
        one.add_messages([HumanMessage("Hello"), AIMessage("Look", tool_calls=[calling]), AIMessage("Bye")])
        two.extend(PYDANTIC[:3])
        asyncio.run(three.save_messages("3", FRAMEWORK[:4]))
        store.redact_matching(word)
        texts: list[list[Any]] = [
            [message.text for message in one.messages],
            [message.parts[-1].part_kind for message in two.load()],
            [len(message.contents) for message in asyncio.run(three.get_messages("3"))],
        ]
        assert texts[0] == ["Hello", "Look", "Bye"]
        assert texts[1][0] == texts[1][2] == "user-prompt"
        assert [count > 0 for count in texts[2]] == [True] * 4
        assert [len(message.parts) > 0 for message in two.load()] == [True] * 3
        one.add_user_message("on")
        assert one.messages[-1].text == "on"
        assert store.verify().ok


def test_a_call_whose_key_was_redacted_comes_from_the_turn() -> None:
    with trails.open(":memory:") as store:
        history = TrailsHistory("trip", store)
        history.extend([ModelResponse(parts=[ToolCallPart("weather", {"place": "Zermatt"}, "c1")])])
        store.redact_matching("args")
        part = history.load()[0].parts[0]
        assert isinstance(part, ToolCallPart)
        assert part.args_as_dict() == {"place": "Zermatt"}


def test_the_other_prompts_of_a_redacted_request_stay(store: Repository) -> None:
    history = TrailsHistory("trip", store)
    history.extend(
        [ModelRequest(parts=[SystemPromptPart(each), UserPromptPart("Well?")]) for each in ("my pin is 4711", "a")]
    )
    store.redact_matching("my pin is 4711")
    contents = [[part["content"] for part in message["parts"]] for message in dumped(history.load())]
    assert contents == [["(redacted)", "Well?"], ["a", "Well?"]]


def test_a_request_whose_last_prompt_is_redacted_is_one_message(store: Repository) -> None:
    history = TrailsHistory("trip", store)
    history.extend([ModelRequest(parts=[SystemPromptPart("a"), UserPromptPart("my pin is 4711")])])
    store.redact_matching("my pin is 4711")
    assert [[part.part_kind for part in message.parts] for message in history.load()] == [
        ["system-prompt", "user-prompt"]
    ]


def test_an_answer_that_is_redacted_comes_back_with_a_text_that_says_so(store: Repository) -> None:
    history = TrailsHistory("trip", store)
    history.extend([ModelResponse(parts=[TextPart("your pin is 4711")])])
    store.redact_matching("your pin is 4711")
    assert [part["content"] for part in dumped(history.load())[0]["parts"]] == ["(redacted)"]


def test_a_redacted_history_is_saved_without_storing_it_again(store: Repository) -> None:
    history = TrailsHistory("trip", store)
    history.extend([ModelRequest(parts=[UserPromptPart("my pin is 4711")]), *PYDANTIC[1:]])
    store.redact_matching("my pin is 4711")
    assert history.load() == history.load()
    assert [history.save([*history.load(), ModelRequest(parts=[UserPromptPart(text)])]) for text in "ab"] == [1, 1]
    assert len(store.list()) == 1
    with store.checkout("trip") as main:
        main.append("assistant", "from Trails")
    assert history.save([*history.load(), ModelRequest(parts=[UserPromptPart("c")])]) == 1
    assert len(store.list()) == 1


def test_a_history_that_was_deleted_begins_anew(store: Repository) -> None:
    one, two, three = TrailsChatMessageHistory("1", store), TrailsHistory("2", store), TrailsHistoryProvider(store)
    for _ in range(2):
        one.add_user_message("a")
        two.extend(PYDANTIC[:1])
        asyncio.run(three.save_messages("3", FRAMEWORK[:1]))
        assert [len(one.messages), len(two.load()), len(asyncio.run(three.get_messages("3")))] == [1, 1, 1]
        for record in list(store.list()):
            store.delete(record.id, children="cascade")
    assert [one.messages, two.load(), asyncio.run(three.get_messages("3"))] == [[], [], []]
    one.clear()
    assert two.save(PYDANTIC[:2]) == 2
    with pytest.raises(InvalidInput, match="2 messages"):
        two.rewind(3)


# --- deletion, and what is refused


def test_a_deleted_history_is_gone_with_what_was_cleared_and_its_forks_stay(store: Repository) -> None:
    history = TrailsChatMessageHistory("trip", store)
    history.add_messages([HumanMessage("cherry one"), AIMessage("b")])
    other = history.fork("other")
    other.add_user_message("c")
    history.clear()
    history.add_user_message("cherry two")
    history.delete()
    assert [hit.session_id for hit in store.search("cherry")] == [store.refs["other"].session_id]
    assert [ref.name for ref in store.refs] == ["other"]
    assert [message.content for message in other.messages] == ["cherry one", "b", "c"]
    assert history.messages == []
    history.add_user_message("new")
    assert [message.content for message in history.messages] == ["new"]
    other.delete()
    asyncio.run(other.adelete())
    assert store.search("cherry") == []
    assert [message.content for message in history.messages] == ["new"]
    assert len(store.list()) == 1
    assert store.verify().ok


def test_a_history_whose_turns_another_name_needs_is_not_deleted(store: Repository) -> None:
    history = TrailsHistory("trip", store)
    history.extend(PYDANTIC)
    other = history.fork("other", at=1)
    with pytest.raises(HasChildren, match="other"):
        history.delete()
    assert len(history.load()) == 4
    other.delete()
    assert len(history.load()) == 4
    store.tags.add("v1", store.refs["trip"].session_id)
    with pytest.raises(HasChildren, match="v1"):
        history.delete()
    store.tags.remove("v1")
    asyncio.run(history.adelete())
    assert (history.load(), len(store.list())) == ([], 0)


def test_an_agent_frameworks_history_is_deleted(store: Repository) -> None:
    async def work() -> list[Message]:
        provider = TrailsHistoryProvider(store)
        await provider.save_messages("trip", FRAMEWORK)
        await provider.delete("trip")
        await provider.delete("never")
        return await provider.get_messages("trip")

    assert asyncio.run(work()) == []
    assert len(store.list()) == 0


def test_a_history_whose_name_was_erased_is_deleted_by_its_id(store: Repository) -> None:
    history = TrailsChatMessageHistory("cherry", store)
    history.add_user_message("I am cherry")
    session_id = store.refs["cherry"].session_id
    store.redact_matching("cherry")
    assert history.messages == []
    store.delete(session_id, children="cascade")
    assert len(store.list()) == 0


def test_a_fork_takes_no_name_of_another_history(store: Repository) -> None:
    history = TrailsChatMessageHistory("trip", store)
    history.add_user_message("a")
    for name in ("trip", "other", "other"):
        if name == "other" and name not in store.refs:
            history.fork(name)
            continue
        with pytest.raises(InvalidInput, match="choose another name"):
            history.fork(name)


def test_what_no_history_can_take_is_refused(store: Repository) -> None:
    one, two, three = TrailsChatMessageHistory("1", store), TrailsHistory("2", store), TrailsHistoryProvider(store)
    one.add_user_message("a")
    two.extend(PYDANTIC[:1])
    wrong: Any
    for wrong in ("x", b"x", None, {"role": "user"}, ["x"], [None], [{"role": "user", "content": "x"}]):
        for add in (one.add_messages, two.extend, two.save):
            with pytest.raises(InvalidInput, match="message"):
                add(wrong)
        with pytest.raises(InvalidInput, match="message"):
            asyncio.run(three.save_messages("3", wrong))
    for part in (UserPromptPart("\ud800"), ToolReturnPart("f", object(), "c")):
        with pytest.raises(InvalidInput, match="cannot carry"):
            two.extend([*PYDANTIC, ModelRequest(parts=[part])])
    for wrong in ("1", 1.5, -1, 2, True):
        for count in (one.fork, two.fork):
            with pytest.raises(InvalidInput):
                count("new", wrong)
        with pytest.raises(InvalidInput):
            two.rewind(wrong)
    for wrong in ("1", 1.5, -1):
        for read in (one.recent, two.load):
            with pytest.raises(InvalidInput):
                read(wrong)
    for wrong in (None, 5, "\ud800"):
        for make in (TrailsChatMessageHistory, TrailsHistory):
            with pytest.raises(InvalidInput, match="name of a history"):
                make(wrong, store)
    with pytest.raises(InvalidInput, match="name of a history"):
        asyncio.run(three.get_messages("\ud800"))
    assert [len(one.messages), len(two.load()), len(store.list())] == [1, 1, 2]
