"""What the model SDKs return, appended as it is and given back: real packages, over a transport that is not a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest

import trails
from trails import ContextOverflow, InvalidInput, Repository, Session

httpx: Any = pytest.importorskip("httpx2")

CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-x",
    "service_tier": "default",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "annotations": [],
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"at": "Zermatt"}'}}
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17},
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "gpt-x",
    "instructions": "Be brief.",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "weather",
            "arguments": "{}",
            "status": "completed",
        },
    ],
    "usage": {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 17,
    },
}
CLAUDE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "content": [
        {"type": "thinking", "thinking": "Snow?", "signature": "signed"},
        {"type": "text", "text": "Let me look.", "citations": None},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {"at": None}},
    ],
    "usage": {"input_tokens": 12, "output_tokens": 5},
}


def answering(body: Any, status: int = 200) -> Any:
    """Return a transport that gives one answer to everything; a list of events is a stream."""

    def answer(_: Any) -> Any:
        if isinstance(body, str):
            return httpx.Response(status, text=body, headers={"content-type": "text/event-stream"})
        return httpx.Response(status, json=body)

    return httpx.MockTransport(answer)


def asking_openai(body: Any, status: int = 200) -> openai.OpenAI:
    client = httpx.Client(transport=answering(body, status))
    return openai.OpenAI(api_key="k", base_url="http://model.test/v1", http_client=client, max_retries=0)


def asking_claude(body: Any, status: int = 200) -> anthropic.Anthropic:
    client = httpx.Client(transport=answering(body, status))
    return anthropic.Anthropic(api_key="k", base_url="http://model.test", http_client=client, max_retries=0)


def completion() -> Any:
    return asking_openai(CHAT).chat.completions.create(
        model="gpt-x", messages=[{"role": "user", "content": "Weather?"}]
    )


def response() -> Any:
    return asking_openai(RESPONSE).responses.create(model="gpt-x", input="Weather?")


def claude() -> Any:
    asked: Any = [{"role": "user", "content": "Weather?"}]
    return asking_claude(CLAUDE).messages.create(model="claude-x", max_tokens=100, messages=asked)


TEN_WAYS: dict[str, Callable[[Session], Any]] = {
    "a whole completion": lambda s: s.append_message(completion()),
    "its message": lambda s: s.append_message(completion().choices[0].message),
    "its message in its role": lambda s: s.append("assistant", completion().choices[0].message),
    "its message dumped": lambda s: s.append_message(completion().choices[0].message.model_dump()),
    "its message's fields": lambda s: s.append(
        "assistant", (made := completion()).choices[0].message.content, tool_calls=made.choices[0].message.tool_calls
    ),
    "a response": lambda s: s.append("assistant", response()),
    "a response's output": lambda s: s.extend(response().output)[-1],
    "an Anthropic message": lambda s: s.append_message(claude()),
    "its content": lambda s: s.append("assistant", claude().content),
    "its content in a message": lambda s: s.extend([{"role": "assistant", "content": claude().content}])[0],
}


@pytest.mark.parametrize("way", TEN_WAYS)
def test_each_natural_way_to_append_a_reply_works(memory: Repository, way: str) -> None:
    session = memory.session("chat")
    turn = TEN_WAYS[way](session)
    assert turn.role == "assistant"
    assert [(call.id, call.name) for call in turn.tool_calls] == [("c1", "weather")]
    session.persist()
    assert memory.verify().ok


@pytest.mark.parametrize("reply", [completion, response, claude])
def test_a_whole_reply_gives_model_usage_and_stop_reason(memory: Repository, reply: Callable[[], Any]) -> None:
    with memory.session("chat") as session:
        turn = session.append_message(reply())
    call = turn.facts.model_call
    assert call is not None
    assert call.model in ("gpt-x", "claude-x")
    assert call.stop_reason in ("tool_calls", "completed", "tool_use")
    rows: Any = memory.query("token-usage-by-model")
    (row,) = rows.to_dicts()
    assert (row["input"], row["output"]) == (12, 5)
    assert turn.meta["api"]["id"] in ("chatcmpl-1", "resp_1", "msg_1")


def test_what_a_caller_says_stands_before_what_the_reply_says(memory: Repository) -> None:
    with memory.session("chat") as session:
        turn = session.append_message(completion(), model="mine", meta={"n": 1})
    assert (turn.model, turn.meta) == ("mine", {"n": 1, "api": {"id": "chatcmpl-1", "service_tier": "default"}})


def test_claudes_blocks_are_kept_without_what_is_empty_and_with_what_the_model_gave(memory: Repository) -> None:
    with memory.session("chat") as session:
        assert session.append_message(claude()).content == [
            {"type": "thinking", "thinking": "Snow?", "signature": "signed"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "c1", "name": "weather", "input": {"at": None}},
        ]


# --- histories, there and back

CHAT_HISTORY: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?", "name": "bob"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"at":"Zermatt"}'}},
            {"id": "c2", "type": "custom", "custom": {"name": "sh", "input": "date"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "Snow"},
    {"role": "tool", "tool_call_id": "c2", "content": "Monday"},
    {"role": "assistant", "content": "Take the train.", "reasoning_content": "Snow blocks roads."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "And this?"},
            {"type": "image_url", "image_url": {"url": "https://host.test/a.png", "detail": "low"}},
            {"type": "file", "file": {"file_id": "f1"}},
        ],
    },
    {"role": "assistant", "content": None, "refusal": "I cannot say."},
    {"role": "system", "content": "The user left."},
]
CLAUDE_HISTORY: list[Any] = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Snow?", "signature": "signed"},
            {"type": "redacted_thinking", "data": "sealed"},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "snow"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
            {
                "type": "text",
                "text": "It may snow.",
                "citations": [{"type": "char_location", "cited_text": "snow", "document_index": 0}],
            },
            {"type": "tool_use", "id": "c1", "name": "weather", "input": {"at": None}},
            {"type": "thinking", "thinking": "And there?", "signature": "signed too"},
            {"type": "tool_use", "id": "c2", "name": "weather", "input": {"at": "Bern"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "Snow"},
            {
                "type": "tool_result",
                "tool_use_id": "c2",
                "content": [{"type": "text", "text": "Rain"}],
                "is_error": True,
            },
            {"type": "text", "text": "And this?", "cache_control": {"type": "ephemeral"}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Trains run."}},
            {"type": "image", "source": {"type": "file", "file_id": "f1"}},
        ],
    },
    {"role": "assistant", "content": "Take the train."},
]
ITEMS: list[Any] = [
    {"role": "user", "content": "Weather?"},
    *RESPONSE["output"],  # type: ignore[misc] # a list, in a dict of many types
    {"type": "function_call_output", "call_id": "c1", "output": "Snow"},
    {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "Roads."}]},
    {"role": "assistant", "content": "Take the train."},
]


def test_a_chat_history_comes_back_as_it_was(memory: Repository) -> None:
    with memory.session("chat") as session:
        assert len(session.extend(CHAT_HISTORY)) == 8
    assert session.system == "Be brief."
    assert memory.load("chat").context().openai() == CHAT_HISTORY


def test_a_history_for_claude_comes_back_as_it_was(memory: Repository) -> None:
    with memory.session("chat") as session:
        session.extend(CLAUDE_HISTORY)
    assert memory.load("chat").context().anthropic() == {"messages": CLAUDE_HISTORY}


def test_the_items_of_responses_come_back_as_they_were(memory: Repository) -> None:
    with memory.session("chat", system="Be brief.") as session:
        session.extend(ITEMS)
    assert memory.load("chat").context().responses() == {"instructions": "Be brief.", "input": ITEMS}


def test_a_history_of_one_api_is_shown_to_the_others(memory: Repository) -> None:
    with memory.session("chat") as session:
        session.append("user", "Weather?")
        session.append_message(response())
        session.append("tool", "Snow", tool_call_id="c1")
    shown: Any = session.context()
    assert shown.openai()[1]["content"] == "Let me look."
    assert [block["type"] for block in shown.anthropic()["messages"][1]["content"]] == ["text", "tool_use"]


def test_all_of_a_history_is_added_or_none_of_it(memory: Repository) -> None:
    with memory.session("chat") as session:
        with pytest.raises(InvalidInput, match="message 1 of the history cannot be taken: a message has a role"):
            session.extend([{"role": "system", "content": "Be brief."}, {"text": "?"}])
        with pytest.raises(InvalidInput, match="is empty"):
            session.extend([{"role": "user", "content": "Hi"}, {"role": "user", "content": ""}])
        assert (session.pending, session.system) == (0, None)


def test_another_system_prompt_is_refused_and_the_same_one_is_not_doubled(memory: Repository) -> None:
    with memory.session("chat", system="Be brief.") as session:
        session.extend(CHAT_HISTORY[:2])
        assert [turn.role for turn in session.turns] == ["user"]
        with pytest.raises(InvalidInput, match="system prompt is not that of session 'chat'"):
            session.extend([{"role": "system", "content": "Be long."}])


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ([{"role": "user"}], "a list of them goes to extend"),
        (CHAT | {"choices": CHAT["choices"] * 2}, "a completion with 2 choices"),  # type: ignore[operator] # a list
        ({"choices": [{"delta": {"content": "a"}}]}, r"chunk of a stream: write its text to session.streaming\(\)"),
        ({"role": "function", "name": "f", "content": "1"}, "former shape"),
        ({"role": "system", "content": "Be brief."}, "the system prompt is session 'chat''s own"),
        ({"role": "user", "content": 7}, "must be text or a list of parts, not int"),
        (7, "with the attributes role and content, not int"),
    ],
)
def test_what_is_no_message_is_refused(memory: Repository, message: Any, why: str) -> None:
    with memory.session("chat") as session, pytest.raises(InvalidInput, match=why):
        session.append_message(message)


def test_a_reply_in_another_role_is_refused(memory: Repository) -> None:
    with memory.session("chat") as session, pytest.raises(InvalidInput, match="one of role 'assistant', not 'user'"):
        session.append("user", completion())


def test_what_a_context_gives_is_what_the_sdks_take(memory: Repository) -> None:
    """The types are what mypy holds here: nothing is cast on the way from a session to a model and back."""
    with memory.session("chat", system="Be brief.") as session:
        session.append("user", "Weather?")
        asked = asking_openai(CHAT).chat.completions.create(model="gpt-x", messages=session.context().openai())
        said = asked.choices[0].message
        session.append("assistant", said.content, tool_calls=said.tool_calls, usage=asked.usage)
        session.append("tool", "Snow", tool_call_id="c1")
        message = asking_claude(CLAUDE).messages.create(model="claude-x", max_tokens=9, **session.context().anthropic())
        session.append("assistant", message.content)
        session.append("tool", "Snow", tool_call_id="c1")
        answer = asking_openai(RESPONSE).responses.create(model="gpt-x", **session.context().responses())
        session.extend(answer.output)
    assert len(session) == 8


# --- streams, and awaited clients


def events(*data: Any, named: bool = False) -> str:
    lines = [(f"event: {each['type']}\n" if named else "") + f"data: {json.dumps(each)}\n\n" for each in data]
    return "".join(lines) + ("" if named else "data: [DONE]\n\n")


CHUNKS = events(
    *(
        {
            "id": "1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "gpt-x",
            "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
        }
        for text in ("Take ", "the train.")
    )
)
CLAUDE_EVENTS = events(
    {"type": "message_start", "message": CLAUDE | {"content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Take the train."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
    named=True,
)


def test_the_final_message_of_claudes_stream_is_a_turn(memory: Repository) -> None:
    asked: Any = [{"role": "user", "content": "How?"}]
    with (
        memory.session("chat") as session,
        asking_claude(CLAUDE_EVENTS).messages.stream(model="claude-x", max_tokens=9, messages=asked) as stream,
    ):
        turn = session.append_message(stream.get_final_message())
    assert (turn.content, turn.model) == ([{"type": "text", "text": "Take the train."}], "claude-x")


def test_replies_of_awaited_clients_are_the_same(memory: Repository) -> None:
    async def ask() -> Any:
        client = httpx.AsyncClient(transport=answering(CHAT))
        asked = openai.AsyncOpenAI(api_key="k", base_url="http://model.test/v1", http_client=client)
        return await asked.chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "Weather?"}])

    with memory.session("chat") as session:
        assert session.append_message(asyncio.run(ask())).tool_calls[0].id == "c1"


# --- overflow

TOO_LONG: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: asking_openai(
            {
                "error": {
                    "message": "maximum context length is 8",
                    "type": "invalid_request_error",
                    "code": "context_length_exceeded",
                }
            },
            400,
        ).chat.completions.create(model="m", messages=[]),
        "chat",
    ),
    (
        lambda: asking_openai(
            {"error": {"message": "Your input exceeds the context window", "code": "context_length_exceeded"}}, 400
        ).responses.create(model="m", input="a"),
        "responses",
    ),
    (
        lambda: asking_claude(
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"},
            },
            400,
        ).messages.create(model="m", max_tokens=1, messages=[]),
        "anthropic",
    ),
]


@pytest.mark.parametrize(("call", "name"), TOO_LONG, ids=[name for _, name in TOO_LONG])
def test_the_sdks_own_overflow_is_recognised_and_compacted_away(
    memory: Repository, call: Callable[[], Any], name: str
) -> None:
    answers: Any = iter([call, lambda: "fits"])
    with memory.session("chat") as session:
        session.extend([{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}] * 2)
        assert session.run_with_compaction(lambda _: next(answers)(), lambda _: "short", keep_turns=1) == "fits"
    assert session.turns[-1].role == "summary"


def test_another_refusal_of_a_request_is_no_overflow(memory: Repository) -> None:
    def call(_: object) -> Any:
        body = {"error": {"message": "messages must not be empty", "type": "invalid_request_error"}}
        return asking_openai(body, 400).chat.completions.create(model="m", messages=[])

    with memory.session("chat") as session:
        session.append("user", "one")
        with pytest.raises(openai.BadRequestError):
            session.run_with_compaction(call, lambda _: "short")


def test_trails_own_overflow_is_one_and_other_errors_are_none() -> None:
    assert trails.context.is_overflow(ContextOverflow("too long"))
    assert not trails.context.is_overflow(ValueError("prompt is too long: 9 tokens > 8 maximum"))
