"""What the instrumentations of model SDKs say, over a transport that answers instead of a model, becomes the same session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider

from trails import Repository
from trails.adapters.opentelemetry import (
    TrailsLogProcessor,
    TrailsSpanExporter,
    TrailsSpanProcessor,
    find_turn,
    in_conversation,
)

pytestmark = pytest.mark.any_store
Json = dict[str, Any]
_WHY = "the instrumentation is not installed: it is in the group frameworks"
_TOOLS: Any = [
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
]


def _chat_answer(request: Any) -> Any:
    """OpenAI's model: it asks for the weather first."""
    number = len(json.loads(request.content)["messages"])
    function = {"name": "weather", "arguments": '{"city":"Oslo"}'}
    message: Json = {"role": "assistant", "content": "It snows."}
    if number == 2:
        calls = [{"id": "c1", "type": "function", "function": function}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    reason = "stop" if number > 2 else "tool_calls"
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    usage = {"prompt_tokens": 10 + number, "completion_tokens": 3, "total_tokens": 13 + number}
    return {
        "id": f"r{number}",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-x-1",
        "choices": choices,
        "usage": usage,
    }


def _claude_answer(request: Any) -> Any:
    """Anthropic's model: it asks for the weather first."""
    number = len(json.loads(request.content)["messages"])
    content = [{"type": "text", "text": "It snows."}]
    if number == 1:
        call = {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}}
        content = [{"type": "text", "text": "Let me see."}, call]  # type: ignore[list-item] # parts differ
    usage = {"input_tokens": 11 + number, "output_tokens": 3}
    reason = "tool_use" if number == 1 else "end_turn"
    about = {"id": f"r{number}", "type": "message", "role": "assistant", "model": "claude-x", "stop_sequence": None}
    return {**about, "content": content, "stop_reason": reason, "usage": usage}


def _client(kind: Any, answer: Callable[[Any], Any]) -> Any:
    """A client of an SDK, of whatever HTTP package it uses."""
    package: Any = httpx
    try:
        kind(api_key="k", http_client=httpx.Client())
    except TypeError:
        package = pytest.importorskip("httpx2")
    transport = package.MockTransport(lambda request: package.Response(200, json=answer(request)))
    return kind(api_key="k", http_client=package.Client(transport=transport))


def _ask_openai() -> None:
    client = _client(openai.OpenAI, _chat_answer)
    messages: Any = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Weather in Oslo?"}]
    answer = client.chat.completions.create(model="gpt-x", messages=messages, tools=_TOOLS)
    messages.append(answer.choices[0].message.model_dump(exclude_none=True))
    messages.append({"role": "tool", "tool_call_id": "c1", "content": "snow"})
    client.chat.completions.create(model="gpt-x", messages=messages, tools=_TOOLS)


def _ask_claude() -> None:
    client = _client(anthropic.Anthropic, _claude_answer)
    tools: Any = [{"name": "weather", "input_schema": {"type": "object"}}]
    asked: Any = {"model": "claude-x", "max_tokens": 100, "system": "Be short.", "tools": tools}
    messages: Any = [{"role": "user", "content": "Weather in Oslo?"}]
    answer = client.messages.create(**asked, messages=messages)
    messages.append({"role": "assistant", "content": [part.model_dump(exclude_none=True) for part in answer.content]})
    messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "snow"}]})
    client.messages.create(**asked, messages=messages)


@pytest.fixture(params=["SPAN_ONLY", "EVENT_ONLY"])
def capture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where OpenTelemetry's own instrumentation says the messages."""
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", request.param)
    return str(request.param)


@pytest.fixture
def providers(store: Repository) -> Iterator[dict[str, Any]]:
    """A program that is traced into the store."""
    exporter = TrailsSpanExporter(store)
    tracing, logs = TracerProvider(shutdown_on_exit=False), LoggerProvider(shutdown_on_exit=False)
    processor = TrailsSpanProcessor(exporter)
    tracing.add_span_processor(processor)
    logs.add_log_record_processor(TrailsLogProcessor(exporter))
    yield {"tracer_provider": tracing, "logger_provider": logs}
    tracing.shutdown()
    logs.shutdown()


def _record(module: str, kind: str, providers: dict[str, Any], work: Callable[[], None]) -> None:
    """Do some work that an instrumentation traces."""
    instrumentor = getattr(pytest.importorskip(module, reason=_WHY), kind)()
    instrumentor.instrument(**providers)
    try:
        with in_conversation("oslo"):
            work()
    finally:
        instrumentor.uninstrument()
    assert providers["tracer_provider"].force_flush()


def _check(store: Repository, roles: list[str], model: str, *, inputs: list[int]) -> None:
    session = store.load("otel:oslo")
    assert [record.id for record in store.list()] == ["otel:oslo"]
    assert [turn.role for turn in session] == roles
    first, second = (turn for turn in session if turn.role == "assistant")
    assert [(call.id, call.name, call.input) for call in first.tool_calls] == [("c1", "weather", {"city": "Oslo"})]
    (answer,) = (turn for turn in session if turn.tool_results)
    assert answer.tool_results[0].call_id == "c1"
    assert "snow" in answer.text
    assert "It snows." in second.text
    assert [turn.model for turn in (first, second)] == [model] * 2
    assert [(turn.usage["input_tokens"], turn.usage["output_tokens"]) for turn in (first, second)] == [
        (n, 3) for n in inputs
    ]
    assert find_turn(store, second.meta["trace"], second.meta["span"]) == second
    assert store.search("snows")[0].index == second.index
    assert store.verify().ok


_CHAT = ["system", "user", "assistant", "tool", "assistant"]


def test_opentelemetrys_own_of_openai(store: Repository, providers: dict[str, Any], capture: str) -> None:
    assert capture
    _record("opentelemetry.instrumentation.openai_v2", "OpenAIInstrumentor", providers, _ask_openai)
    _check(store, _CHAT, "gpt-x-1", inputs=[12, 14])


def test_openinferences_of_openai(store: Repository, providers: dict[str, Any]) -> None:
    providers.pop("logger_provider")
    _record("openinference.instrumentation.openai", "OpenAIInstrumentor", providers, _ask_openai)
    _check(store, _CHAT, "gpt-x-1", inputs=[12, 14])


def test_openinferences_of_anthropic(store: Repository, providers: dict[str, Any]) -> None:
    providers.pop("logger_provider")
    _record("openinference.instrumentation.anthropic", "AnthropicInstrumentor", providers, _ask_claude)
    _check(store, _CHAT, "claude-x", inputs=[12, 14])
    assert store.load("otel:oslo")[2].content == [{"type": "text", "text": "Let me see."}]


@pytest.mark.filterwarnings("ignore:Support for class-based:DeprecationWarning")  # of the instrumentation
def test_traceloops_of_openai(store: Repository, providers: dict[str, Any]) -> None:
    _record("opentelemetry.instrumentation.openai", "OpenAIInstrumentor", providers, _ask_openai)
    _check(store, _CHAT, "gpt-x-1", inputs=[12, 14])


def test_traceloops_of_anthropic(store: Repository, providers: dict[str, Any]) -> None:
    _record("opentelemetry.instrumentation.anthropic", "AnthropicInstrumentor", providers, _ask_claude)
    _check(store, ["user", "assistant", "user", "assistant"], "claude-x", inputs=[12, 14])
    assert store.load("otel:oslo").system == "Be short."
