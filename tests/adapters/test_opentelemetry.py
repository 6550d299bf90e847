"""Live GenAI spans: a conversation is a session, each call adds what is new, and spans and turns name each other."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import context as contexts
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span, Status, StatusCode, Tracer

import trails
from tests.support.machines import Size, examples
from trails import Repository
from trails.adapters.opentelemetry import (
    TrailsSpanExporter,
    TrailsSpanProcessor,
    find_turn,
    in_conversation,
    in_session,
    open_traces,
    span_meta,
    turn_attributes,
    turn_link,
)
from trails.errors import InvalidInput
from trails.exchange.file_import import import_bytes
from trails.exchange.traces import spans

pytestmark = pytest.mark.any_store
Json = dict[str, Any]


def _text(role: str, words: str) -> Json:
    return {"role": role, "parts": [{"type": "text", "content": words}]}


def _call(call_id: str) -> Json:
    part = {"type": "tool_call", "id": call_id, "name": "weather", "arguments": {"city": "Oslo"}}
    return {"role": "assistant", "parts": [part]}


def _result(call_id: str, response: Any = "snow") -> Json:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}


HI, HELLO, HOW = _text("user", "Hi"), _text("assistant", "Hello"), _text("user", "How are you?")
FINE, ASK, CALL, RESULT = _text("assistant", "Fine"), _text("user", "Weather?"), _call("c1"), _result("c1")


class _App:
    """A program that is traced."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    @contextmanager
    def span(self, operation: str, **attributes: Any) -> Iterator[Span]:
        told = {key.replace("__", "."): value for key, value in attributes.items() if value is not None}
        with self.tracer.start_as_current_span(operation) as span:
            span.set_attributes({"gen_ai.operation.name": operation, **told})
            yield span

    def chat(
        self, given: Sequence[Json] | None, answers: Sequence[Json], *, conversation: str | None = "C", **more: Any
    ) -> Span:
        """One call of a model."""
        messages = {"output": answers} if given is None else {"input": given, "output": answers}
        told = {f"gen_ai.{side}.messages": json.dumps(each) for side, each in messages.items()}
        with self.span("chat", gen_ai__conversation__id=conversation, **told, **more) as span:
            return span

    def tool(self, call_id: str, result: Any = "snow", *, failed: bool = False, **more: Any) -> Span:
        told = {"gen_ai.tool.call.id": call_id, "gen_ai.tool.call.result": result}
        with self.span("execute_tool", **told, **more) as span:
            if failed:
                span.set_status(Status(StatusCode.ERROR))
            return span


def _app(*processors: Any) -> _App:
    provider = TracerProvider(shutdown_on_exit=False)
    for each in processors:
        provider.add_span_processor(each)
    return _App(provider.get_tracer("test"))


@contextmanager
def _live(store: Repository) -> Iterator[_App]:
    """A program whose spans are stored as they end."""
    processor = TrailsSpanProcessor(TrailsSpanExporter(store), schedule_delay_millis=3_600_000)
    app = _app(processor)
    app.flush = processor._batch_processor.force_flush  # type: ignore[attr-defined]
    try:
        yield app
    finally:
        processor.shutdown()  # type: ignore[no-untyped-call] # of the SDK


def _ended(work: Callable[[_App], object]) -> list[ReadableSpan]:
    """The spans of some work, in the order in which they ended."""
    memory = InMemorySpanExporter()
    work(_app(SimpleSpanProcessor(memory)))
    return list(memory.get_finished_spans())


def _turns(store: Repository, session_id: str = "otel:C") -> list[tuple[str, str]]:
    return [(turn.role, _words(turn)) for turn in store.load(session_id)]


def _words(turn: Any) -> str:
    part = turn.content if isinstance(turn.content, str) else turn.content[0]
    return part if isinstance(part, str) else str(part.get("name") or part.get("response"))


def _ids(store: Repository) -> set[str]:
    return {record.id for record in store.list()}


# --- a conversation is a session


def test_each_call_adds_only_the_turns_that_are_new(store: Repository) -> None:
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    app.chat([HI], [HELLO])
    app.chat([HI, HELLO, HOW], [FINE])
    assert _turns(store) == [("user", "Hi"), ("assistant", "Hello"), ("user", "How are you?"), ("assistant", "Fine")]
    assert store.find({"conversation": "C"}).id == "otel:C"  # type: ignore[union-attr]
    assert store.verify().ok


def test_an_answer_has_the_model_the_usage_the_times_and_the_place_of_its_span(store: Repository) -> None:
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    told: Json = {"gen_ai.response.model": "m-1", "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 2}
    span = app.chat([HI], [HELLO], **told, gen_ai__provider__name="openai", gen_ai__response__finish_reasons=["stop"])
    answer = store.load("otel:C")[1]
    assert (answer.model, answer.usage, answer.stop_reason) == ("m-1", {"input_tokens": 7, "output_tokens": 2}, "stop")
    assert answer.call is not None
    assert (answer.call.provider, answer.call.ended) == ("openai", answer.time)
    context = span.get_span_context()
    assert (answer.meta["trace"], answer.meta["span"]) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")


def test_an_input_that_leaves_the_history_is_a_fork_and_so_is_another_answer(store: Repository) -> None:
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    app.chat([HI], [HELLO])
    app.chat([HI, HELLO, HOW], [FINE])
    app.chat([HI, HELLO, ASK], [CALL])
    app.chat([HI], [FINE])
    forks = {record.forked_at_index: _turns(store, record.id) for record in store.branches("otel:C")}
    assert forks == {
        2: [("user", "Hi"), ("assistant", "Hello"), ("user", "Weather?"), ("assistant", "weather")],
        1: [("user", "Hi"), ("assistant", "Fine")],
    }
    assert len(store.load("otel:C")) == 4


def test_a_fork_is_made_from_the_session_that_has_the_turns_however_often_a_history_is_left(store: Repository) -> None:
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    app.chat([HI], [HELLO])
    app.chat([HI, HELLO, HOW], [FINE])
    app.chat([HI, HELLO, ASK], [CALL])
    app.chat([HI, HELLO, ASK, CALL, RESULT], [FINE])
    app.chat([HI, HELLO, ASK, CALL, _result("c1", "rain")], [HELLO])
    app.chat([HI, HELLO, _text("user", "Bye")], [FINE])
    placed = {
        _turns(store, record.id)[-2][1]: (record.parent_session_id, record.forked_at_index) for record in store.list()
    }
    asked = next(record.id for record in store.list() if _turns(store, record.id)[-2][1] == "snow")
    assert placed == {
        "How are you?": (None, None), "snow": ("otel:C", 2), "rain": (asked, 4), "Bye": ("otel:C", 2),
    }  # fmt: skip


def test_a_history_that_is_left_more_often_than_forks_are_deep_is_kept(store: Repository) -> None:
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    history: list[Json] = []
    for number in range(36):
        history = [*history, _text("user", f"{number}")]
        app.chat(history, [_text("assistant", "no")])
        app.chat(history, [_text("assistant", f"answer {number}")])
        history.append(_text("assistant", f"answer {number}"))
    held = [[str(turn.content) for turn in store.load(record.id)] for record in store.list(limit=200)]
    wanted = [words for number in range(36) for words in (f"{number}", f"answer {number}")]
    assert [each for each in held if each[-1] == "answer 35"] == [wanted]
    assert store.verify().ok


def test_a_program_that_cuts_its_history_goes_on_in_one_session(store: Repository) -> None:
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    history: list[Json] = []
    for number in range(10):
        history.append(_text("user", f"question {number}"))
        app.chat([_text("system", "Be kind"), *history[-5:]], [_text("assistant", f"answer {number}")])
        history.append(_text("assistant", f"answer {number}"))
    assert (len(store), len(store.load("otel:C"))) == (1, 21)
    _app(SimpleSpanProcessor(TrailsSpanExporter(store))).chat([*history[-2:], HOW], [FINE])
    assert (len(store), len(store.load("otel:C"))) == (1, 23)


def test_a_trace_without_a_conversation_is_a_session_named_by_the_trace(store: Repository) -> None:
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    span = app.chat([HI], [HELLO], conversation=None)
    assert _ids(store) == {f"otel:{span.get_span_context().trace_id:032x}"}


def test_another_exporter_goes_on_with_the_session_as_the_store_has_it(opener: Callable[[str], Repository]) -> None:
    for given_messages, answer in (
        ([ASK], CALL),
        ([ASK, CALL, RESULT], HELLO),
        ([ASK, CALL, RESULT, HELLO, HOW], FINE),
    ):
        with opener("agent.trails") as store:
            _app(SimpleSpanProcessor(TrailsSpanExporter(store))).chat(given_messages, [answer])
    with opener("agent.trails") as store:
        if store.store.location != ":memory:":
            assert [role for role, _ in _turns(store)] == [
                "user",
                "assistant",
                "tool",
                "assistant",
                "user",
                "assistant",
            ]
            assert _ids(store) == {"otel:C"}


_PARTS = st.one_of(
    st.builds(lambda words: {"type": "text", "content": words}, st.text(max_size=5)),
    st.builds(
        lambda name, arguments: {"type": "tool_call", "id": "c", "name": name, "arguments": arguments},
        st.sampled_from(["a", "b"]),
        st.one_of(
            st.none(), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), st.sampled_from(["x", "{}"])
        ),
    ),
    st.builds(
        lambda response: {"type": "tool_call_response", "id": "c", "response": response},
        st.one_of(st.text(max_size=4), st.lists(st.integers(), max_size=2)),
    ),
    st.builds(lambda words: {"type": "reasoning", "content": words}, st.text(max_size=3)),
)


def _chat_call(words: str, arguments: str) -> Json:
    asked = {"id": "k", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": words, "tool_calls": [asked]}


_MESSAGES = st.one_of(
    st.builds(
        lambda role, parts: {"role": role, "parts": parts},
        st.sampled_from(["user", "assistant", "tool"]),
        st.lists(_PARTS, max_size=3),
    ),
    st.builds(_chat_call, st.text(max_size=3), st.sampled_from(["{}", '{"a": 1}', "no JSON"])),
    st.builds(lambda words: {"role": "tool", "tool_call_id": "k", "content": words}, st.text(max_size=3)),
)


@given(messages=st.lists(_MESSAGES, min_size=1, max_size=3))
@examples(60)
def test_a_stored_turn_is_known_again_when_a_span_tells_it(messages: list[Json]) -> None:
    with trails.open(":memory:") as store:
        _app(SimpleSpanProcessor(TrailsSpanExporter(store))).chat(messages, [HELLO])
        (span,) = _ended(lambda app: app.chat(messages, [HELLO]))
        told = spans.span_messages(next(iter(spans.spans_in(0, json.loads(span.to_json())))))  # type: ignore[arg-type]
        keys = [spans.turn_key(turn) for turn in store.load("otel:C")]
        assert keys == [message.key for message in (*told.given, *told.answers)]
        _app(SimpleSpanProcessor(TrailsSpanExporter(store))).chat([*messages, HELLO, HOW], [FINE])
        assert (len(store), len(store.load("otel:C"))) == (1, len(messages) + 3)


def test_a_redacted_turn_stays_redacted_and_the_session_goes_on(store: Repository) -> None:
    exporter = TrailsSpanExporter(store)
    app = _app(SimpleSpanProcessor(exporter))
    app.chat([HI], [HELLO])
    store.redact("otel:C", 0)
    for each in (app, _app(SimpleSpanProcessor(TrailsSpanExporter(store)))):
        each.chat([HI, HELLO, HOW], [FINE])
    assert _ids(store) == {"otel:C"}
    assert [turn.redacted for turn in store.load("otel:C")] == [True, False, False, False]


def test_a_conversation_whose_session_was_deleted_begins_another_one(store: Repository) -> None:
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    app.chat([HI], [HELLO])
    store.delete("otel:C")
    app.chat([HI, HELLO, HOW], [FINE])
    (found,) = _ids(store)
    assert (found != "otel:C", len(store.load(found))) == (True, 4)


def test_turns_that_another_writer_appended_are_seen(store: Repository) -> None:
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    app.chat([HI], [HELLO])
    other = store.load("otel:C")
    other.append("user", "How are you?")
    other.persist()
    app.chat([HI, HELLO, HOW], [FINE])
    assert (len(store), len(store.load("otel:C"))) == (1, 4)


# --- tools and agents


def test_tools_tell_when_they_ran_and_their_result_stands_once(store: Repository) -> None:
    with _live(store) as app, app.span("invoke_agent", gen_ai__agent__name="guide", gen_ai__conversation__id="C"):
        app.chat([ASK], [CALL])
        tool = app.tool("c1")
        app.chat([ASK, CALL, RESULT], [HELLO])
    session = store.load("otel:C")
    assert [role for role, _ in _turns(store)] == ["user", "assistant", "tool", "assistant"]
    assert session[1].tool_calls[0].name == "weather"
    (result,) = session[2].tool_results
    assert (result.call_id, result.is_error) == ("c1", False)
    assert result.started is not None
    assert int(result.started.timestamp() * 1000) == tool.start_time // 10**6  # type: ignore[attr-defined]
    assert session.agent == "guide"


def test_a_result_that_no_message_tells_is_stored_when_the_trace_ends_and_a_later_message_is_the_same(
    store: Repository,
) -> None:
    with _live(store) as app:
        with app.span("invoke_agent", gen_ai__conversation__id="C"):
            app.chat([ASK], [CALL])
            app.tool("c1", "snow, 2 cm", failed=True)
            app.flush()  # type: ignore[attr-defined]
            assert [role for role, _ in _turns(store)] == ["user", "assistant"]
        app.flush()  # type: ignore[attr-defined]
        assert _turns(store)[2] == ("tool", "snow, 2 cm")
        assert store.load("otel:C")[2].tool_results[0].is_error
        app.chat([ASK, CALL, _result("c1", {"snow": "2 cm"}), HOW], [FINE])
    assert (len(store), len(store.load("otel:C"))) == (1, 5)


def test_an_agents_span_that_repeats_what_is_below_makes_no_turn_and_one_that_says_more_does(store: Repository) -> None:
    own = {"gen_ai.input.messages": json.dumps([HI]), "gen_ai.output.messages": json.dumps([FINE])}
    with _live(store) as app:
        with app.span("invoke_agent", gen_ai__conversation__id="C", **own):
            app.chat([_text("system", "Be kind"), HI], [HELLO])
            app.flush()  # type: ignore[attr-defined]
        with app.span("invoke_agent", gen_ai__conversation__id="D", **own):
            pass
    assert _turns(store, "otel:C") == [("system", "Be kind"), ("user", "Hi"), ("assistant", "Hello")]
    assert _turns(store, "otel:D") == [("user", "Hi"), ("assistant", "Fine")]
    assert _ids(store) == {"otel:C", "otel:D"}


@pytest.mark.parametrize("is_live", [True, False])
def test_an_agent_within_an_agent_is_a_session_that_the_other_one_spawned(store: Repository, *, is_live: bool) -> None:
    def work(app: _App) -> None:
        with app.span("invoke_agent", gen_ai__agent__name="guide", gen_ai__conversation__id="C"):
            app.chat([ASK], [CALL])
            with app.span("invoke_agent", gen_ai__agent__name="scout"):
                app.chat([HI], [HELLO], conversation=None)
                app.chat([HI, HELLO, HOW], [FINE], conversation=None)
            app.chat([ASK, CALL, RESULT], [HELLO])

    if is_live:
        with _live(store) as app:
            work(app)
    else:
        work(_app(SimpleSpanProcessor(TrailsSpanExporter(store))))
    (inner,) = _ids(store) - {"otel:C"}
    record = store.load(inner).record
    assert (record.spawned_by, record.agent, len(store.load(inner))) == ("otel:C", "scout", 4)
    assert [role for role, _ in _turns(store)] == ["user", "assistant", "tool", "assistant"]


# --- when spans are stored


def test_without_the_processor_spans_wait_for_the_end_of_their_trace(store: Repository) -> None:
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    with app.span("invoke_agent", gen_ai__conversation__id="C"):
        app.chat([HI], [HELLO], conversation=None)
        assert len(store) == 0
    assert _turns(store) == [("user", "Hi"), ("assistant", "Hello")]


def test_with_the_processor_spans_are_stored_as_they_end_once_their_conversation_is_known(store: Repository) -> None:
    with _live(store) as app:
        with app.span("invoke_agent", gen_ai__conversation__id="C"):
            app.chat([HI], [HELLO], conversation=None)
            app.flush()  # type: ignore[attr-defined]
            assert _turns(store) == [("user", "Hi"), ("assistant", "Hello")]
        with app.span("invoke_agent") as agent:
            app.chat([HI], [HELLO], conversation=None)
            app.flush()  # type: ignore[attr-defined]
            assert len(store) == 1
            agent.set_attribute("gen_ai.conversation.id", "late")
    assert _turns(store, "otel:late") == [("user", "Hi"), ("assistant", "Hello")]


def test_a_flush_and_a_shutdown_store_what_waits(store: Repository) -> None:
    exporter = TrailsSpanExporter(store)
    app = _app(SimpleSpanProcessor(exporter))
    with app.span("invoke_agent"):
        app.chat([HI], [HELLO])
        assert exporter.force_flush()
        assert len(store.load("otel:C")) == 2
    exporter.shutdown()
    assert exporter.export(_ended(lambda app: app.chat([HI], [FINE]))) is SpanExportResult.FAILURE
    assert len(store) == 1


def test_if_too_many_spans_wait_the_oldest_are_stored_before_their_trace_ends(
    store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_traces, "MOST_WAITING", 2)
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    with app.span("invoke_agent"):
        app.chat([HI], [HELLO])
        app.chat([HI, HELLO, HOW], [FINE])
        assert len(store) == 0
        app.chat([HI, HELLO, HOW, FINE, ASK], [CALL])
        assert len(store.load("otel:C")) == 6


def test_a_trace_that_never_ends_is_remembered_in_part(store: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_traces, "MOST_OUTLINES", 5)
    exporter = TrailsSpanExporter(store)
    app = _app(TrailsSpanProcessor(exporter, schedule_delay_millis=3_600_000), SimpleSpanProcessor(exporter))
    with app.span("invoke_agent", gen_ai__conversation__id="C") as top:
        for number in range(20):
            app.chat([_text("user", f"{number}")], [HELLO])
        (trace,) = (exporter.open_traces._traces[f"{top.get_span_context().trace_id:032x}"],)
        assert (len(trace.outlines), len(trace.waiting)) == (5, 0)
    exporter.shutdown()
    assert len(store) == 20


def test_what_comes_after_the_end_of_its_trace_is_stored_at_once(store: Repository) -> None:
    with _live(store) as app:
        with app.span("invoke_agent", gen_ai__conversation__id="C"):
            late = app.tracer.start_span("chat", context=contexts.get_current())
        app.flush()  # type: ignore[attr-defined]
        late.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([HELLO])})
        late.end()
        app.flush()  # type: ignore[attr-defined]
        assert _turns(store) == [("assistant", "Hello")]


# --- nothing twice, nothing lost


def _run(app: _App) -> None:
    with app.span("invoke_agent", gen_ai__conversation__id="C"):
        app.chat([ASK], [CALL])
        app.tool("c1")
        app.chat([ASK, CALL, RESULT], [HELLO])
    app.chat(None, [FINE])


def test_spans_that_come_again_add_nothing(store: Repository) -> None:
    sent = _ended(_run)
    exporter = TrailsSpanExporter(store)
    for _ in range(2):
        assert exporter.export(sent) is SpanExportResult.SUCCESS
    assert TrailsSpanExporter(store).export(sent) is SpanExportResult.SUCCESS
    assert (len(store), len(store.load("otel:C"))) == (1, 5)


def test_importing_the_same_spans_from_a_file_adds_nothing(store: Repository) -> None:
    sent = _ended(_run)
    TrailsSpanExporter(store).export(sent)
    lines = [json.dumps(json.loads(span.to_json())) for span in sent]
    report = import_bytes(store, "\n".join(lines).encode())
    assert (report.turns_added, len(store)) == (0, 1)


def test_a_store_that_fails_costs_the_program_nothing_and_all_is_stored_later(
    store: Repository, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = TrailsSpanExporter(store)
    first, second = _ended(lambda app: app.chat([HI], [HELLO])), _ended(lambda app: app.chat([HI, HELLO, HOW], [FINE]))
    third = _ended(lambda app: app.chat([HI, HELLO, HOW, FINE, ASK], [CALL]))

    def fail(_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
        broken.setattr(type(store), "commit", fail)
        assert exporter.export(first) is SpanExportResult.FAILURE
        assert exporter.export(first) is SpanExportResult.FAILURE
    assert "could not be stored" in caplog.text
    assert len(store) == 0
    assert exporter.export(second) is SpanExportResult.SUCCESS
    assert exporter.export(first) is SpanExportResult.SUCCESS
    with monkeypatch.context() as broken:
        broken.setattr("trails.session.batch.commit_together", lambda *_: fail(None))
        assert exporter.export(third) is SpanExportResult.FAILURE
    assert exporter.export(third) is SpanExportResult.SUCCESS
    assert (len(store), len(store.load("otel:C"))) == (1, 6)


def test_a_store_that_is_closed_makes_an_export_fail_and_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    store = trails.open(":memory:")
    exporter = TrailsSpanExporter(store)
    store.close()
    with caplog.at_level(logging.ERROR):
        _app(SimpleSpanProcessor(exporter)).chat([HI], [HELLO])
        assert exporter.force_flush() is False
        exporter.shutdown()
    assert "could not be" in caplog.text


def test_a_message_that_no_store_keeps_costs_itself_and_is_logged(
    store: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = TrailsSpanExporter(store)
    bad = {"role": "no role " * 50, "parts": [{"type": "text", "content": "x"}]}
    app = _app(SimpleSpanProcessor(exporter))
    app.chat([HI, bad], [HELLO])
    app.chat([HI, bad, HELLO, HOW], [FINE])
    assert [role for role, _ in _turns(store)] == ["user", "assistant", "user", "assistant"]
    assert "cannot be kept" in caplog.text


def test_what_is_no_genai_span_or_says_nothing_makes_nothing(store: Repository) -> None:
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    with app.tracer.start_as_current_span("GET /"), app.span("chat"):
        pass
    assert len(store) == 0


def test_threads_that_export_different_conversations_and_the_same_one_lose_and_double_nothing(
    store: Repository,
) -> None:
    exporter = TrailsSpanExporter(store)

    def talk(number: int) -> None:
        history: list[Json] = []
        app = _app(SimpleSpanProcessor(exporter))
        for call in range(5):
            history.append(_text("user", f"{number}: {call}"))
            app.chat(history, [HELLO], conversation=f"C{number}")
            history.append(HELLO)
            app.chat([_text("user", f"{number}: {call}")], [FINE], conversation="shared")

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(store.load(f"otel:C{number}")) for number in range(8)] == [10] * 8
    shared = [store.load(record.id) for record in store.list(limit=100) if "shared" in record.id]
    assert sorted(str(session[len(session) - 2].content) for session in shared) == sorted(
        f"{number}: {call}" for number in range(8) for call in range(5)
    )


def test_two_writers_of_one_conversation_agree(opener: Callable[[str], Repository]) -> None:
    with ExitStack() as opened:
        one = opened.enter_context(opener("agent.trails"))
        other = one if one.store.location == ":memory:" else opened.enter_context(opener("agent.trails"))
        apps = [_app(SimpleSpanProcessor(TrailsSpanExporter(store))) for store in (one, other)]
        history: list[Json] = []
        for call in range(6):
            history.append(_text("user", f"{call}"))
            apps[call % 2].chat(history, [HELLO])
            history.append(HELLO)
        one.refresh()
        assert (len(one), len(one.load("otel:C"))) == (1, 12)


_PROGRAM = """
import json, sys
import trails
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from trails.adapters.opentelemetry import TrailsSpanExporter
place, conversation, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(TrailsSpanExporter(trails.open(place))))
tracer, history = provider.get_tracer("program"), []
for number in range(calls):
    for role in ("user", "assistant"):
        message = {"role": role, "parts": [{"type": "text", "content": f"{role} {number}"}]}
        if role == "assistant":
            told = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": conversation,
                    "gen_ai.input.messages": json.dumps(history), "gen_ai.output.messages": json.dumps([message])}
            tracer.start_span("chat", attributes=told).end()
        history.append(message)
    print(number, flush=True)
"""


def _program(place: Path, conversation: str, calls: int) -> subprocess.Popen[str]:
    """A process that calls a model again and again, each time with its whole history."""
    command = [sys.executable, "-c", _PROGRAM, str(place), conversation, str(calls)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_program_that_is_killed_and_begins_again_loses_and_doubles_nothing(tmp_path: Path, size: Size) -> None:
    place, chance, done = tmp_path / "store.trails", random.Random(31), 0
    trails.open(place, create=True).close()
    for _ in range(200 if size == "long" else 10):
        with _program(place, "C", 1000) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 12)):
                process.stdout.readline()
            time.sleep(chance.random() * 0.005)
            os.kill(process.pid, signal.SIGKILL)
            told = process.communicate()[0].split()
        with trails.open(place) as store:
            session = store.load("otel:C")
            done = max(done, *(2 * (int(number) + 1) for number in told), 2)
            assert len(session) >= done
            assert [str(turn.content) for turn in session] == [
                f"{role} {number}" for number in range(len(session) // 2) for role in ("user", "assistant")
            ]
            assert len(store) == 1
    with trails.open(place) as store:
        assert store.verify().ok


@pytest.mark.slow
def test_processes_that_trace_into_one_store_agree(tmp_path: Path) -> None:
    place = tmp_path / "store.trails"
    trails.open(place, create=True).close()
    running = [_program(place, "C", 10) for _ in range(7)] + [_program(place, "D", 10)]
    for process in running:
        with process:
            process.communicate()
            assert process.returncode == 0
    with trails.open(place) as store:
        assert {record.id: len(store.load(record.id)) for record in store.list()} == {"otel:C": 20, "otel:D": 20}
        assert store.verify().ok


# --- links, both ways


def test_a_turn_is_found_by_its_span_and_links_back_to_it(store: Repository) -> None:
    app = _app(SimpleSpanProcessor(TrailsSpanExporter(store)))
    context = app.chat([HI], [HELLO]).get_span_context()
    turn = find_turn(store, context.trace_id, context.span_id)
    assert turn is not None
    assert turn_attributes(turn) == {"trails.session.id": "otel:C", "trails.turn.index": 1, "trails.turn.iri": turn.iri}
    assert find_turn(store, f"{context.trace_id:032x}", f"{context.span_id:016x}") == turn
    link = turn_link(turn)
    assert link is not None
    assert (link.context.trace_id, link.context.span_id) == (context.trace_id, context.span_id)
    assert find_turn(store, 1, 1) is None
    assert turn_link(store.load("otel:C")[0]) is None


def test_spans_are_stamped_with_the_session_that_they_go_to(store: Repository) -> None:
    with _live(store) as app, in_conversation("trip 1"):
        span = app.chat([HI], [HELLO], conversation=None)
        with app.span("invoke_agent", gen_ai__conversation__id="trip 1"):
            below = app.tool("none")
    told = [dict(each.attributes)["trails.session.id"] for each in (span, below)]  # type: ignore[attr-defined]
    assert told == ["otel:trip%201"] * 2
    assert _ids(store) == {"otel:trip%201"}
    with pytest.raises(InvalidInput), in_conversation(""):
        pass


def test_spans_of_a_session_that_the_program_writes_name_it_and_make_no_turns(store: Repository) -> None:
    session = store.create(id="plan")
    session.append("user", "Hi")
    with _live(store) as app, in_session(session):
        with app.span("chat", **{"gen_ai.output.messages": json.dumps([HELLO])}) as span:
            session.append("assistant", "Hello", meta=span_meta())
        app.chat([HI], [HELLO], conversation="C")
    session.persist()
    told = dict(span.attributes)  # type: ignore[attr-defined]
    assert (told["trails.session.id"], told["trails.turn.index"]) == ("plan", 1)
    assert _ids(store) == {"plan"}
    link = turn_link(session[1])
    assert link is not None
    assert link.context.span_id == span.get_span_context().span_id
    assert span_meta() == {}


def test_an_exporter_opens_a_store_by_its_location_and_closes_it_with_its_shutdown(tmp_path: Path) -> None:
    exporter = TrailsSpanExporter(tmp_path / "store.trails")
    _app(SimpleSpanProcessor(exporter)).chat([HI], [HELLO])
    exporter.shutdown()
    with trails.open(tmp_path / "store.trails") as store:
        assert len(store.load("otel:C")) == 2
    with pytest.raises(InvalidInput):
        TrailsSpanExporter(7)  # type: ignore[arg-type]


def test_a_store_that_is_the_programs_stays_open(store: Repository) -> None:
    TrailsSpanExporter(store).shutdown()
    assert len(store) == 0
