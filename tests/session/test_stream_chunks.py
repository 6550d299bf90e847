"""What SDKs stream is one turn: the same as their whole reply makes, and as much as came of one that broke off."""

from __future__ import annotations

import gc
import json
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

import trails
from trails import InvalidInput, PendingTurnsWarning, Repository, Turn


def chat_chunk(delta: dict[str, Any] | None, reason: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    return {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x", "choices": choices, **more}


def call_delta(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    name = more.pop("name", None)
    return {"tool_calls": [{"index": index, "function": {"name": name, "arguments": arguments}, **more}]}


CHAT = [
    chat_chunk({"role": "assistant", "content": ""}),
    chat_chunk({"content": "Let me "}),
    chat_chunk({"content": "look."}),
    chat_chunk(call_delta(0, "", id="k1", type="function", name="weather")),
    chat_chunk(call_delta(1, "", id="k2", type="function", name="weather")),
    chat_chunk(call_delta(0, '{"at": "Ber')),
    chat_chunk(call_delta(1, '{"at": "Rome"}')),
    chat_chunk(call_delta(0, 'lin"}')),
    chat_chunk({}, "tool_calls"),
    chat_chunk(None, usage={"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}),
]
CLAUDE = [
    {"type": "message_start", "message": {
        "id": "m1", "type": "message", "role": "assistant", "model": "claude-x", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": 12, "output_tokens": 1, "cache_read_input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Snow"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "?"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "signed"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Let me "}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "look."}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2,
     "content_block": {"type": "tool_use", "id": "k1", "name": "weather", "input": {}}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"at": '}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '"Berlin"}'}},
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": {"output_tokens": 25}},
    {"type": "message_stop"},
]  # fmt: skip
ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Snow?"}]},
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}]},
    {"type": "function_call", "id": "fc_1", "call_id": "k1", "name": "weather", "arguments": '{"at": "Berlin"}',
     "status": "completed"},
]  # fmt: skip
RESPONSE: dict[str, Any] = {
    "id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress", "model": "gpt-x", "output": [],
    "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
}  # fmt: skip
WHOLE_RESPONSE = {
    **RESPONSE, "status": "completed", "output": ITEMS,
    "usage": {"input_tokens": 12, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 5,
              "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 17},
}  # fmt: skip
RESPONSES: list[dict[str, Any]] = [
    {"type": "response.created", "response": RESPONSE},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}},
    {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0,
     "part": {"type": "summary_text", "text": ""}},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "Snow?"},
    {"type": "response.output_item.done", "output_index": 0, "item": ITEMS[0]},
    {"type": "response.output_item.added", "output_index": 1, "item": {**ITEMS[1], "content": []}},
    {"type": "response.content_part.added", "output_index": 1, "content_index": 0,
     "part": {"type": "output_text", "text": "", "annotations": []}},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Let me "},
    {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "look."},
    {"type": "response.output_item.added", "output_index": 2, "item": {**ITEMS[2], "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"at": '},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '"Berlin"}'},
    {"type": "response.completed", "response": WHOLE_RESPONSE},
]  # fmt: skip


def lang(content: Any = "", calls: Iterable[dict[str, Any]] = (), **more: Any) -> SimpleNamespace:
    fields: dict[str, Any] = {"usage_metadata": None, "response_metadata": {}, "additional_kwargs": {}, "id": "run-1"}
    return SimpleNamespace(type="AIMessageChunk", content=content, tool_call_chunks=list(calls), **{**fields, **more})


LANG = [
    lang("Let me ", usage_metadata={"input_tokens": 12, "output_tokens": 0, "total_tokens": 12}),
    lang("look."),
    lang(calls=[{"name": "weather", "args": "", "id": "k1", "index": 0}]),
    lang(calls=[{"name": None, "args": '{"at": ', "id": None, "index": 0}]),
    lang(calls=[{"name": None, "args": '"Berlin"}', "id": None, "index": 0}]),
    lang(
        response_metadata={"model_name": "gpt-x", "finish_reason": "tool_calls"},
        usage_metadata={"input_tokens": 0, "output_tokens": 5, "total_tokens": 5},
    ),
]
VERCEL = [
    {"type": "start"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "Let me "},
    {"type": "text-delta", "id": "t", "delta": "look."},
    {"type": "text-end", "id": "t"},
    {"type": "tool-input-available", "toolCallId": "k1", "toolName": "weather", "input": {"at": "Berlin"}},
    {"type": "finish", "finishReason": "tool-calls", "totalUsage": {"inputTokens": 12, "outputTokens": 5}},
]


def chat_objects() -> list[Any]:
    return [ChatCompletionChunk.model_validate(each) for each in CHAT]


def chat_whole() -> Any:
    state = ChatCompletionStreamState()
    for each in chat_objects():
        state.handle_chunk(each)
    return state.get_final_completion()


def claude_objects() -> list[Any]:
    return [TypeAdapter(RawMessageStreamEvent).validate_python(each) for each in CLAUDE]


def claude_whole() -> Any:
    snapshot, buffers = None, dict[int, bytes]()
    for each in claude_objects():
        snapshot = accumulate_event(event=each, current_snapshot=snapshot, json_bufs=buffers)
    return snapshot


def response_objects() -> list[Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    return [
        adapter.validate_python({"sequence_number": 0, "item_id": "i", "logprobs": [], **each}) for each in RESPONSES
    ]


def streamed(store: Repository, chunks: Iterable[Any], **options: Any) -> Turn:
    session = store.create()
    with session.streaming("assistant", **options) as turn:
        for chunk in chunks:
            turn.write(chunk)
    return store.load(session.id)[-1]


def appended(store: Repository, reply: Any) -> Turn:
    with store.create() as session:
        return session.append_message(reply)


def facts(turn: Turn) -> dict[str, Any]:
    """All that a turn says, but for when and where."""
    told = turn.to_dict()
    return {
        name: told[name] for name in told if name not in ("index", "time", "digest", "session", "iri", "branch", "head")
    }


SAME: dict[str, tuple[Callable[[], list[Any]], Callable[[], Any]]] = {
    "openai chat": (lambda: CHAT, chat_whole),
    "openai chat, objects": (chat_objects, chat_whole),
    "anthropic": (lambda: CLAUDE, claude_whole),
    "anthropic, objects": (claude_objects, claude_whole),
    "openai responses": (lambda: RESPONSES, lambda: WHOLE_RESPONSE),
    "openai responses, objects": (response_objects, lambda: WHOLE_RESPONSE),
}


@pytest.mark.parametrize(("chunks", "whole"), SAME.values(), ids=SAME)
def test_a_stream_is_the_turn_that_its_whole_reply_is(
    memory: Repository, chunks: Callable[[], list[Any]], whole: Callable[[], Any]
) -> None:
    made, wanted = streamed(memory, chunks()), appended(memory, whole())
    assert facts(made) == facts(wanted)
    assert made.tool_calls[0].id == "k1"
    assert json.loads(made.tool_calls[0].arguments or "") == {"at": "Berlin"}


KINDS: dict[str, tuple[Any, Any, str | None, str]] = {
    "openai chat": (CHAT, {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}, "gpt-x", "tool_calls"),
    "anthropic": (
        CLAUDE, {"input_tokens": 12, "output_tokens": 25, "cache_read_input_tokens": 3}, "claude-x", "tool_use",
    ),
    "openai responses": (RESPONSES, WHOLE_RESPONSE["usage"], "gpt-x", "completed"),
    "langchain": (LANG, {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}, "gpt-x", "tool_calls"),
    "langchain, data": (
        [vars(each) for each in LANG], {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}, "gpt-x", "tool_calls",
    ),
    "langgraph": (
        [(each, {"node": "n"}) for each in LANG], {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17},
        "gpt-x", "tool_calls",
    ),
    "vercel": (VERCEL, {"inputTokens": 12, "outputTokens": 5}, None, "tool-calls"),
}  # fmt: skip


@pytest.mark.parametrize(("chunks", "usage", "model", "reason"), KINDS.values(), ids=KINDS)
def test_each_kind_of_stream_gives_text_calls_usage_model_and_stop_reason(
    memory: Repository, chunks: Any, usage: Any, model: str | None, reason: str
) -> None:
    turn = streamed(memory, chunks)
    text = turn.content if isinstance(turn.content, str) else json.dumps(turn.content)
    assert "Let me look." in text
    assert next((call.id, call.name, json.loads(call.arguments or "")) for call in turn.tool_calls) == (
        "k1",
        "weather",
        {"at": "Berlin"},
    )
    assert usage.items() <= turn.usage.items()
    assert turn.model == model
    assert turn.stop_reason == reason


def test_what_sdks_make_of_their_own_chunks_is_not_counted_twice(memory: Repository) -> None:
    mixed: list[Any] = []
    for each in CLAUDE:
        mixed += [each, {"type": "text", "text": "Let me ", "snapshot": "Let me "}]
    for made in (
        streamed(memory, mixed),
        streamed(
            memory, [{"type": "chunk", "chunk": each} for each in CHAT] + [{"type": "content.done", "content": "x"}]
        ),
    ):
        assert json.dumps(made.content).count("Let me look.") == 1


@pytest.mark.parametrize(
    "chunks", [CHAT, CLAUDE, RESPONSES, LANG, VERCEL], ids=["chat", "claude", "response", "lang", "vercel"]
)
def test_a_stream_that_breaks_off_anywhere_is_a_cut_turn_with_what_came(memory: Repository, chunks: list[Any]) -> None:
    for end in range(1, len(chunks)):
        session = memory.create()
        with pytest.raises(ConnectionError), session.streaming("assistant") as turn:  # noqa: PT012 - within the block
            for chunk in chunks[:end]:
                turn.write(chunk)
            raise ConnectionError
        (made,) = memory.load(session.id)
        assert (made.stop_reason, made.meta["failed"]) == ("failed-partial", "ConnectionError")
        assert turn.text in (made.content if isinstance(made.content, str) else json.dumps(made.content))
        for call in made.tool_calls:
            assert json.loads(call.arguments or "{}") in ({}, {"at": "Berlin"}, {"at": "Rome"})
    assert memory.verify().ok


def test_arguments_that_had_not_come_whole_are_no_call_and_not_lost(memory: Repository) -> None:
    session = memory.create()
    with pytest.raises(ConnectionError), session.streaming("assistant") as turn:  # noqa: PT012 - within the block
        for chunk in CHAT[:7]:
            turn.write(chunk)
        raise ConnectionError
    (made,) = memory.load(session.id)
    assert [call.id for call in made.tool_calls] == ["k2"]
    assert made.meta["unfinished_calls"][0]["function"]["arguments"] == '{"at": "Ber'


BAD: dict[str, tuple[list[Any], str]] = {
    "text after chunks": ([CHAT[1], "text"], "a chat completion came before, and this is plain text"),
    "chunks after text": (["text", CLAUDE[0]], "plain text came before, and this is a message of Anthropic's"),
    "two kinds": ([CHAT[1], CLAUDE[0]], "one kind of chunks"),
    "several choices": ([chat_chunk({"content": "a"}), {"choices": [{"index": 1, "delta": {}}]}], "several choices"),
    "a number": ([7], "not int: give the text of the chunk"),
    "bytes": ([b"text"], "not bytes"),
    "another shape": ([{"delta": "a"}], "not one with 'delta'"),
    "an error of the model's": ([CLAUDE[0], {"type": "error", "error": {"message": "Overloaded"}}], "Overloaded"),
}


@pytest.mark.parametrize(("chunks", "said"), BAD.values(), ids=BAD)
def test_what_is_no_stream_of_one_reply_is_refused(memory: Repository, chunks: list[Any], said: str) -> None:
    session = memory.create()
    with pytest.raises(InvalidInput, match=said), session.streaming("assistant") as turn:  # noqa: PT012 - the same
        for chunk in chunks:
            turn.write(chunk)


# --- without a block


def test_a_stream_without_a_block_is_stored_by_finish_which_takes_what_append_takes(store: Repository) -> None:
    session = store.create(id="chat")
    session.append("user", "How?")
    streaming = session.streaming("assistant")
    streaming.write("By train.")
    turn = streaming.finish(
        model="m-1",
        usage={"input_tokens": 3, "output_tokens": 4},
        stop_reason="stop",
        meta={"n": 1},
        tool_calls=[{"id": "k1", "name": "look", "arguments": {}}],
    )
    assert turn == store.load("chat")[-1]
    assert (turn.content, turn.model, turn.stop_reason, turn.meta) == ("By train.", "m-1", "stop", {"n": 1})
    assert (turn.usage["output_tokens"], turn.tool_calls[0].name) == (4, "look")
    for write in (lambda: streaming.write("more"), streaming.finish):
        with pytest.raises(InvalidInput, match="is complete"):
            write()


def test_finish_may_give_the_whole_text(memory: Repository) -> None:
    with memory.session("chat") as session, session.streaming("assistant") as turn:
        turn.write("By tr")
        assert turn.finish("By train.", stop_reason="stop") is None
    assert (turn.turn.content, turn.turn.stop_reason) == ("By train.", "stop")  # type: ignore[union-attr] # it is stored


def test_a_stream_that_is_never_ended_warns_and_is_found_by_the_next_to_open_the_store(tmp_path: Path) -> None:
    with trails.open(tmp_path / "x", create=True) as store:
        session = store.session("chat")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            session.streaming("assistant").write("By train.")
            gc.collect()
        assert [each.category for each in caught] == [PendingTurnsWarning]
        assert "9 characters that was streamed to session 'chat' was never ended" in str(caught[0].message)
        assert caught[0].filename == __file__
        kept = session.streaming("assistant")
        for chunk in CHAT[:7]:
            kept.write(chunk)
        with pytest.warns(PendingTurnsWarning, match="never ended: whoever opens the store next"):
            store.close()
    with trails.open(tmp_path / "x") as store:
        turns = [turn for each in store for turn in store.load(each.id)]
    found = {(turn.content, turn.stop_reason, len(turn.tool_calls)) for turn in turns}
    assert found == {("By train.", "failed-partial", 0), ("Let me look.", "failed-partial", 1)}


def test_a_stream_that_was_never_written_to_is_nothing(memory: Repository) -> None:
    memory.session("chat").streaming("assistant")
    gc.collect()
    assert len(memory.load("chat")) == 0


def test_an_awaited_stream_without_a_block_is_stored_by_finish() -> None:
    async def talk() -> list[object]:
        async with trails.aio.open(":memory:") as store, await store.session("chat") as chat:
            streaming = chat.streaming("assistant")
            for chunk in CHAT:
                await streaming.write(chunk)
            await streaming.finish(meta={"n": 1})
            return [(each.content, each.meta["n"]) for each in chat.turns]

    assert anyio.run(talk) == [("Let me look.", 1)]


def test_a_call_of_langchains_without_arguments_is_one_with_none(memory: Repository) -> None:
    turn = streamed(memory, [lang(calls=[{"name": "now", "args": "", "id": "k1", "index": 0}])])
    assert turn.tool_calls[0].arguments == "{}"
