"""OpenInference's spans in all their encodings, and GenAI messages that stand in log records beside their spans."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trails import Repository
from trails.exchange.file_import import import_path
from trails.exchange.source_transcript import Transcript
from trails.exchange.traces import otlp

ENCODINGS = ("otlp.json", "otlp.jsonl", "sdk_spans.jsonl")


def span(identity: str, kind: str, parent: str | None = None, **attributes: Any) -> dict[str, Any]:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    made: dict[str, Any] = {"trace_id": "t1", "span_id": identity, "parent_span_id": parent}
    made |= {"start_time": f"2026-01-02T03:04:{int(identity, 36) % 60:02}Z"}
    return made | {"attributes": {"openinference.span.kind": kind, **named}}


def parsed(*spans: dict[str, Any]) -> Transcript:
    return otlp.parse([("spans", "\n".join(map(json.dumps, spans)).encode())])


def texts(found: Transcript) -> list[list[Any]]:
    return [[turn.content for turn in session.paths[0]] for session in found.sessions]


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_real_run_has_its_sessions_calls_answers_and_tokens_in_each_encoding(shared: Path, name: str) -> None:
    counted = json.loads((shared / "data/research/data_research_expectations.json").read_text())[
        f"openinference/{name}"
    ]
    found = otlp.parse([(name, (shared / "data/research/openinference" / name).read_bytes())])
    assert not found.problems
    assert found.records == {f"span/{kind}": number for kind, number in counted["kinds"].items()}
    roles = {session.id: [turn.role for turn in session.paths[0]] for session in found.sessions}
    weather = ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert roles["sess-weather"] == weather
    assert roles["sess-team"] == ["system", "user", "assistant", "tool", "assistant"]
    assert roles["sess-chat"] == ["user", "assistant", "user", "assistant"]
    [helper] = [session for session in found.sessions if session.spawned_by is not None]
    assert (helper.agent, helper.spawned_by) == ("sub-helper", "sess-team")
    answers = [turn for session in found.sessions for turn in session.paths[0] if turn.usage]
    usages = [turn.usage or {} for turn in answers]
    assert sum(usage["input_tokens"] for usage in usages) == counted["prompt_tokens"]
    assert sum(usage["output_tokens"] for usage in usages) == counted["completion_tokens"]
    assert {turn.model for turn in answers} == set(counted["models"])


def test_attributes_are_kept_in_the_same_order_in_every_process(shared: Path) -> None:
    script = (
        "import sys; from trails.exchange.traces import otlp; "
        "found = otlp.parse([('', open(sys.argv[1], 'rb').read())]); print([each.paths for each in found.sessions])"
    )
    command = [sys.executable, "-c", script, str(shared / "data/research/openinference/otlp.json")]
    seeds = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2", "3")]
    assert len({subprocess.run(command, env=each, check=True, capture_output=True).stdout for each in seeds}) == 1


def test_messages_are_ordered_by_their_numbers_and_gaps_do_no_harm() -> None:
    given = {f"llm__input_messages__{n}__message__role": "user" for n in (2, 10, 0)}
    said = {f"llm__input_messages__{n}__message__content": str(n) for n in (2, 10, 0)}
    assert texts(parsed(span("1", "LLM", **given, **said))) == [["0", "2", "10"]]


@pytest.mark.parametrize("place", ["-1", "count", "9" * 30])
def test_a_message_without_a_place_costs_itself_and_is_reported(place: str) -> None:
    given = {f"llm__input_messages__{n}__message__role": "user" for n in (0, place)}
    said = {f"llm__input_messages__{n}__message__content": str(n) for n in (0, place)}
    found = parsed(span("1", "LLM", **given, **said))
    assert texts(found) == [["0"]]
    assert ["is no message" in problem.reason for problem in found.problems] == [True]


def test_a_place_may_be_a_great_number() -> None:
    given = {f"llm__input_messages__{n}__message__role": "user" for n in (10**9, 0)}
    said = {f"llm__input_messages__{n}__message__content": str(n) for n in (10**9, 0)}
    assert texts(parsed(span("1", "LLM", **given, **said))) == [["0", "1000000000"]]


def test_parts_of_a_message_are_kept() -> None:
    part = "llm__input_messages__0__message__contents__0__message_content"
    found = parsed(
        span(
            "1", "LLM", llm__input_messages__0__message__role="user", **{f"{part}__type": "text", f"{part}__text": "hi"}
        )
    )
    assert texts(found) == [[[{"type": "text", "text": "hi"}]]]


def test_values_count_where_no_messages_are_told() -> None:
    request = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
    answer = json.dumps({"choices": [{"message": {"role": "assistant", "content": "hello"}}]})
    assert texts(parsed(span("1", "LLM", input__value=request, output__value=answer))) == [["hi", "hello"]]
    assert texts(parsed(span("1", "AGENT", input__value="hi", output__value="hello"))) == [["hi", "hello"]]
    inner = span("2", "CHAIN", "1", input__value="inner")
    assert texts(parsed(span("1", "CHAIN", input__value="hi", output__value="hello"), inner)) == [["hi", "hello"]]


def test_lists_may_stand_as_they_are_and_the_kind_beside_the_attributes() -> None:
    held = {"llm": {"input_messages": [{"message": {"role": "user", "content": "hi"}}], "model_name": "m"}}
    phoenix = {
        "name": "call",
        "context": {"trace_id": "t1", "span_id": "s1"},
        "span_kind": "LLM",
        "parent_id": None,
        "start_time": "2026-01-02T03:04:05+00:00",
        "status_code": "ERROR",
        "attributes": held,
    }
    found = parsed(phoenix)
    assert texts(found) == [["hi"]]
    assert "1 chat span(s) failed, and have no answer" in found.notes


def test_what_kind_of_span_made_no_turn_is_said_and_whose_convention_a_strange_one_follows() -> None:
    strange = {"trace_id": "t", "span_id": "x", "parent_span_id": None, "attributes": {"traceloop.entity.input": "a"}}
    found = parsed(span("1", "RETRIEVER", input__value="q"), strange)
    assert "1 span(s) of the kind retriever made no turn" in found.notes
    assert any("Traceloop" in note for note in found.notes)


# --- log records


def test_messages_in_log_records_are_those_of_the_span_that_they_name(store: Repository, shared: Path) -> None:
    folder = shared / "data/research/otel"
    report = import_path(store, folder / "legacy_events.traces.json")
    assert report.files == 2
    assert (report.turns_added, report.problems) == (6 + 2 + 4 + 1, [])
    weather = store.load("otel:conv-weather")
    assert [turn.role for turn in weather.turns] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert [call.name for call in weather.turns[2].tool_calls] == ["get_weather", "get_weather"]
    assert weather.turns[2].usage == {"input_tokens": 20, "output_tokens": 7}


def test_log_records_alone_tell_the_messages_too(shared: Path) -> None:
    data = (shared / "data/research/otel/legacy_events.logs.json").read_bytes()
    assert otlp.sniff(data[: 1 << 16])
    found = otlp.parse([("logs", data)])
    assert sorted(len(session.paths[0]) for session in found.sessions) == [1, 2, 4, 6]
    assert "5 span(s) are told by their log records alone" in found.notes


def test_new_spans_have_the_calls_and_conversations_that_were_counted(shared: Path) -> None:
    counted = json.loads((shared / "data/research/data_research_expectations.json").read_text())["otel/genai_spans"]
    found = otlp.parse([("s", (shared / "data/research/otel/genai_spans.traces.json").read_bytes())])
    assert found.records == {f"span/{name}": number for name, number in counted["operations"].items()}
    usages = [turn.usage for session in found.sessions for turn in session.paths[0] if turn.usage]
    assert sum(usage["input_tokens"] for usage in usages) == counted["input_tokens"]
    assert sum(usage["output_tokens"] for usage in usages) == counted["output_tokens"]


def test_the_parameters_of_a_call_get_opentelemetrys_names_beside_their_own() -> None:
    told = json.dumps({"temperature": 0.2, "max_completion_tokens": 9, "stop": ["END"], "seed": None, "user": "u"})
    attributes = {
        "llm__output_messages__0__message__content": "a",
        "llm__output_messages__0__message__role": "assistant",
    }
    [[answer]] = [
        session.paths[0] for session in parsed(span("1", "LLM", llm__invocation_parameters=told, **attributes)).sessions
    ]
    assert answer.meta["attributes"] == {
        "gen_ai.request.temperature": 0.2,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.stop_sequences": ["END"],
        "llm.invocation_parameters": told,
    }
