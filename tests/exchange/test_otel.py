"""GenAI spans: the history is told again in each, and stands once; what leaves it is a fork; tools, agents, usage."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.machines import examples
from trails import Call, Repository
from trails.exchange.file_import import import_path
from trails.exchange.merge import merge
from trails.exchange.source_transcript import SourceTurn, Transcript
from trails.exchange.traces import otlp
from trails.model.content_parts import plain_text

Json = dict[str, Any]
START = 1_767_322_800  # 2026-01-02T03:00:00Z


def text(role: str, words: str, **more: Any) -> Json:
    return {"role": role, "parts": [{"type": "text", "content": words}], **more}


def calling(call_id: str, arguments: Any = None) -> Json:
    part = {"type": "tool_call", "id": call_id, "name": "weather", "arguments": arguments or {"city": "Rome"}}
    return {"role": "assistant", "parts": [part]}


def result(call_id: str, response: Any = "sunny") -> Json:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}


def span(
    span_id: str, second: int, given: list[Json] | None = None, answers: list[Json] | None = None, *,
    operation: str = "chat", conversation: str | None = "C", parent: str | None = None, trace: str = "t1", **more: Any
) -> Json:  # fmt: skip
    """A flat span."""
    attributes: Json = {"gen_ai.operation.name": operation}
    if conversation is not None:
        attributes["gen_ai.conversation.id"] = conversation
    for key, messages in (("input", given), ("output", answers)):
        if messages is not None:
            attributes[f"gen_ai.{key}.messages"] = json.dumps(messages)
    attributes |= {key.replace("__", "."): value for key, value in more.items()}
    start = (START + second) * 10**9
    made = {"trace_id": trace, "span_id": span_id, "parent_span_id": parent, "name": operation}
    times = {"start_time_unix_nano": start, "end_time_unix_nano": start + 500_000_000}
    return made | times | {"attributes": attributes}


def wrapped(value: Any) -> Json:
    if isinstance(value, list):
        return {"arrayValue": {"values": [wrapped(each) for each in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def exported(*spans: Json) -> bytes:
    """The same spans as an OTLP/JSON export."""
    made = []
    for each in spans:
        ids = {"traceId": each["trace_id"], "spanId": each["span_id"], "parentSpanId": each["parent_span_id"] or ""}
        times = {f"{side}TimeUnixNano": str(each[f"{side}_time_unix_nano"]) for side in ("start", "end")}
        attributes = [{"key": key, "value": wrapped(value)} for key, value in each["attributes"].items()]
        made.append(ids | times | {"name": each["name"], "attributes": attributes, "events": each.get("events", [])})
    scope = {"scope": {"name": "x"}, "spans": made}
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]}).encode()


def lines(*spans: Json) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in spans).encode()


def parsed(*spans: Json) -> Transcript:
    return otlp.parse([("spans.jsonl", lines(*spans))])


def words(path: tuple[SourceTurn, ...]) -> list[str]:
    return [plain_text(turn.content) for turn in path]


def paths(*spans: Json) -> list[list[str]]:
    [session] = parsed(*spans).sessions
    return [words(path) for path in session.paths]


TALK = (
    span("s1", 1, [text("user", "q")], [text("assistant", "a", finish_reason="stop")]),
    span("s2", 2, [text("user", "q"), text("assistant", "a"), text("user", "r")], [text("assistant", "b")]),
)


# --- the history


def test_the_history_that_every_span_tells_again_stands_once() -> None:
    assert paths(*TALK) == [["q", "a", "r", "b"]]
    assert paths(*reversed(TALK)) == [["q", "a", "r", "b"]]  # spans count by their start, not by their place


def test_a_span_tells_when_its_call_and_its_tools_ran_and_who_served_the_model(memory: Repository) -> None:
    ran: dict[str, Any] = {"operation": "execute_tool", "gen_ai__tool__call__id": "c1"}
    backwards = span(
        "s3", 9, [text("user", "q"), calling("c1"), result("c1"), text("user", "r")], [text("assistant", "b")]
    )
    backwards["end_time_unix_nano"] = START * 10**9
    merge(
        memory,
        parsed(
            span("s1", 1, [text("user", "q")], [calling("c1")], gen_ai__provider__name="acme"),
            span("s2", 3, **ran),
            backwards,
        ),
    )
    [record] = memory.list()
    turns = memory.load(record.id).turns
    start = datetime.fromtimestamp(START, UTC)
    half, first, third = timedelta(milliseconds=500), start + timedelta(seconds=1), start + timedelta(seconds=3)
    assert turns[1].call == Call(started=first, ended=first + half, provider="acme")
    [answer] = turns[2].tool_results
    assert (answer.started, answer.ended, turns[2].author) == (third, third + half, "weather")
    assert [turn.call for turn in (turns[0], turns[2], turns[3], turns[4])] == [None] * 4
    assert memory.verify().ok


def test_a_span_gives_its_answer_its_time_its_model_its_usage_and_what_else_it_says() -> None:
    usage: dict[str, Any] = {"gen_ai__usage__input_tokens": 7, "gen_ai__usage__output_tokens": 2}
    named: dict[str, Any] = {
        "gen_ai__request__model": "m",
        "gen_ai__response__model": "m-1",
        "gen_ai__agent__name": "guide",
    }
    [session] = parsed(
        span(
            "s1",
            1,
            [text("user", "q")],
            [text("assistant", "a", finish_reason="stop")],
            **usage,
            **named,
            gen_ai__request__top_p=1,
        )
    ).sessions
    question, answer = session.paths[0]
    assert (session.id, session.agent) == ("C", "guide")
    assert (answer.model, answer.usage, answer.stop_reason) == ("m-1", {"input_tokens": 7, "output_tokens": 2}, "stop")
    assert question.time == session.created == datetime(2026, 1, 2, 3, 0, 1, tzinfo=UTC)
    assert answer.time == datetime(2026, 1, 2, 3, 0, 1, 500_000, tzinfo=UTC)
    assert answer.meta["attributes"] == {"gen_ai.request.model": "m", "gen_ai.request.top_p": 1}
    assert answer.author is None


def test_an_answer_that_is_told_back_without_its_reasoning_or_with_its_arguments_as_text_is_the_same() -> None:
    thinking = {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, calling("c")["parts"][0]]}
    back = calling("c", json.dumps({"city": "Rome"}))
    made = paths(
        span("s1", 1, [text("user", "q")], [thinking]),
        span("s2", 2, [text("user", "q"), back, result("c")], [text("assistant", "Sunny")]),
    )
    assert made == [["q", 'hm\n[calls weather {"city": "Rome"}]', "sunny", "Sunny"]]


def test_an_input_that_leaves_the_history_is_a_fork_and_the_report_says_where(store: Repository) -> None:
    other = span("s3", 3, [text("user", "q"), text("assistant", "a"), text("user", "x")], [text("assistant", "c")])
    transcript = parsed(*TALK, other)
    report = merge(store, transcript)
    assert (report.sessions_created, report.turns_added) == (["otel:C"], 6)
    [fork] = report.forks_created
    assert store.load(fork).forked_at_index == 2
    assert [turn.content for turn in store.load(fork).turns] == ["q", "a", "x", "c"]
    assert report.notes == ["C: the input of span s3 leaves the history after 2 message(s); it is kept as a fork"]
    assert merge(store, transcript).turns_added == 0
    assert store.verify().ok


def test_an_input_that_tells_only_the_end_of_the_history_goes_on_from_there(store: Repository) -> None:
    def talk(*words: str) -> list[Json]:
        return [text("user" if word.startswith("q") else "assistant", word) for word in words]

    rules = text("system", "rules")
    told = [
        span("s1", 1, [rules, *talk("q1")], talk("a1")),
        span("s2", 2, [rules, *talk("q1", "a1", "q2")], talk("a2")),
        span("s3", 3, [rules, *talk("a1", "q2", "a2", "q3")], talk("a3")),
        span("s4", 4, talk("a3", "q4"), talk("a4")),  # one answer alone is no history: both have it by chance
        span("s5", 5, talk("q3", "a3", "q5"), talk("a5")),
    ]
    transcript = parsed(*told)
    report = merge(store, transcript)
    assert [turn.content for turn in store.load("otel:C")] == ["rules", "q1", "a1", "q2", "a2", "q3", "a3", "q5", "a5"]
    [fork] = report.forks_created
    assert (store.load(fork).forked_at_index, [turn.content for turn in store.load(fork)]) == (0, ["a3", "q4", "a4"])
    assert "C: 2 input(s) leave out the beginning of the history; they go on from its end" in report.notes
    assert merge(store, transcript).turns_added == 0


def test_another_answer_to_the_same_input_is_a_fork_and_the_same_answer_again_is_nothing_new() -> None:
    first, again = TALK[0], span("s9", 9, [text("user", "q")], [text("assistant", "other")])
    assert paths(first, again) == [["q", "a"], ["q", "other"]]
    assert paths(first, span("s9", 9, [text("user", "q")], [text("assistant", "a")])) == [["q", "a"]]
    choices = span("s1", 1, [text("user", "q")], [text("assistant", "a"), text("assistant", "b")])
    assert paths(choices) == [["q", "a"], ["q", "b"]]
    assert paths(*TALK, again) == [["q", "a", "r", "b"], ["q", "other"]]


def test_an_answer_whose_input_is_not_told_follows_what_came_before_and_is_noted() -> None:
    transcript = parsed(TALK[0], span("s2", 2, None, [text("assistant", "more")]))
    assert words(transcript.sessions[0].paths[0]) == ["q", "a", "more"]
    assert transcript.notes == ("C: 1 span(s) tell no input; their answers follow what came before",)


# --- sessions


def test_a_conversation_may_go_over_several_traces_and_a_trace_without_an_id_is_a_session_itself() -> None:
    transcript = parsed(
        span("s1", 1, [text("user", "q")], [text("assistant", "a")], trace="t1"),
        span("s2", 2, [text("user", "q"), text("assistant", "a"), text("user", "r")], [], trace="t2"),
        span("s1", 3, [text("user", "alone")], [], trace="t3", conversation=None),
    )
    assert [(session.id, words(session.paths[0])) for session in transcript.sessions] == [
        ("C", ["q", "a", "r"]),
        ("t3", ["alone"]),
    ]
    assert transcript.sessions[0].meta == {"traces": ["t1", "t2"]}
    assert transcript.notes == ("trace t3 has no conversation id; the trace names the session",)


def test_a_span_is_of_the_conversation_and_the_agent_of_the_spans_above_it_and_an_agents_span_repeats_what_is_below() -> (
    None
):
    above = span(
        "w", 0, [text("user", "q")], [text("assistant", "b")], operation="invoke_agent", gen_ai__agent__name="guide"
    )
    below = [each | {"parent_span_id": "w"} for each in TALK]
    for each in below:
        each["attributes"] = {k: v for k, v in each["attributes"].items() if k != "gen_ai.conversation.id"}
    transcript = parsed(above, *below)
    [session] = transcript.sessions
    assert (session.id, session.agent, [words(path) for path in session.paths]) == (
        "C",
        "guide",
        [["q", "a", "r", "b"]],
    )
    assert transcript.notes == ("1 span(s) of agents repeat what the spans below them say, and made no turn",)
    assert transcript.records == {"span/invoke_agent": 1, "span/chat": 2}
    assert paths(above) == [["q", "b"]]  # where nothing below it speaks, its messages are all there is


def test_an_agent_within_an_agent_whose_history_begins_anew_is_a_session_spawned_by_the_other(
    store: Repository,
) -> None:
    outer = span("o", 0, operation="invoke_agent", gen_ai__agent__name="boss")
    inner = span("i", 2, operation="invoke_agent", parent="o", gen_ai__agent__name="worker")
    transcript = parsed(
        outer,
        span("s1", 1, [text("user", "q")], [text("assistant", "wait")], parent="o"),
        inner,
        span("s2", 3, [text("user", "task")], [text("assistant", "done")], parent="i"),
        span(
            "s3",
            4,
            [text("user", "q"), text("assistant", "wait"), text("user", "?")],
            [text("assistant", "b")],
            parent="o",
        ),
    )
    merge(store, transcript)
    assert [turn.content for turn in store.load("otel:C").turns] == ["q", "wait", "?", "b"]
    record = store.record("otel:C:agent-i")
    assert (record.spawned_by, record.agent) == ("otel:C", "worker")


def test_the_system_prompt_is_the_sessions_and_a_change_of_it_is_noted() -> None:
    def prompted(each: Json, prompt: str) -> Json:
        more = {"gen_ai.system_instructions": json.dumps([{"type": "text", "content": prompt}])}
        return each | {"attributes": each["attributes"] | more}

    transcript = parsed(prompted(TALK[0], "Be kind"), prompted(TALK[1], "Be brief"))
    assert transcript.sessions[0].system == "Be kind"
    assert transcript.notes == ("C: 2 system prompts were in force; the first is the session's",)


# --- tools


def tool(span_id: str, second: int, call_id: str, response: str, **more: Any) -> Json:
    told: dict[str, Any] = {
        "gen_ai__tool__call__id": call_id,
        "gen_ai__tool__call__result": response,
        "gen_ai__tool__name": "weather",
    }
    return span(span_id, second, operation="execute_tool", **told, **more)


def test_a_tools_span_is_a_turn_where_no_message_tells_its_result_and_the_message_that_comes_later_is_the_same(
    store: Repository,
) -> None:
    first = span("s1", 1, [text("user", "q")], [calling("c")])
    report = merge(store, parsed(first, tool("x", 2, "c", "sunny")))
    assert report.turns_added == 3
    turn = store.load("otel:C").turns[2]
    assert (turn.role, turn.content) == ("tool", result("c")["parts"])
    assert [answer.call_id for answer in turn.tool_results] == ["c"]
    later = span("s2", 3, [text("user", "q"), calling("c"), result("c")], [text("assistant", "Sunny")])
    report = merge(store, parsed(first, tool("x", 2, "c", "sunny"), later))
    assert (report.grown, report.turns_added, report.changed) == (["otel:C"], 1, [])


def test_a_tool_that_failed_says_so_and_one_that_nobody_called_is_no_turn() -> None:
    first = span("s1", 1, [text("user", "q")], [calling("c")])
    failed = tool("x", 2, "c", '{"reason": "down"}') | {"status": {"code": 2}}
    [session] = parsed(first, failed, tool("y", 3, "unknown", "z")).sessions
    content: Any = session.paths[0][2].content
    [part] = content
    assert (part["response"], part["is_error"]) == ({"reason": "down"}, True)
    assert len(session.paths[0]) == 3


# --- shapes of files


@pytest.mark.parametrize("write", [exported, lines, lambda *spans: json.dumps(list(spans)).encode()])
def test_an_otlp_export_and_flat_spans_say_the_same(write: Any) -> None:
    data = write(*TALK)
    assert otlp.sniff(data)
    transcript = otlp.parse([("x", data)])
    assert [words(path) for path in transcript.sessions[0].paths] == [["q", "a", "r", "b"]]
    assert transcript.problems == ()
    assert transcript.sessions[0].created == datetime(2026, 1, 2, 3, 0, 1, tzinfo=UTC)


def test_spans_as_the_sdks_console_exporter_writes_them_are_read() -> None:
    written = {
        "name": "chat m",
        "context": {"trace_id": "0xaa", "span_id": "0x01", "trace_state": "[]"},
        "parent_id": None,
        "start_time": "2026-01-02T03:00:01.000000Z",
        "end_time": "2026-01-02T03:00:02.000000Z",
        "status": {"status_code": "UNSET"},
        "attributes": TALK[0]["attributes"],
        "events": [],
    }
    second = written | {"context": {"trace_id": "0xaa", "span_id": "0x02"}, "attributes": TALK[1]["attributes"]}
    data = f"{json.dumps(written, indent=4)}\n{json.dumps(second, indent=4)}\n".encode()
    assert otlp.sniff(data)
    [session] = otlp.parse([("x", data)]).sessions
    assert words(session.paths[0]) == ["q", "a", "r", "b"]
    assert session.created == datetime(2026, 1, 2, 3, 0, 1, tzinfo=UTC)


def test_messages_in_span_events_are_read_in_the_new_and_in_the_old_way() -> None:
    bare = span("s1", 1)
    details = {
        "name": "gen_ai.client.inference.operation.details",
        "attributes": {"gen_ai.input.messages": [text("user", "q")]},
    }
    assert [words(p) for p in parsed(bare | {"events": [details]}).sessions[0].paths] == [["q"]]
    old = [
        {"name": "gen_ai.user.message", "attributes": {"content": "q"}},
        {"name": "gen_ai.choice", "attributes": {"index": 0, "finish_reason": "stop", "message": '{"content": "a"}'}},
    ]
    [path] = parsed(bare | {"events": old}).sessions[0].paths
    assert [(turn.role, turn.content) for turn in path] == [("user", "q"), ("assistant", "a")]
    assert path[1].stop_reason == "stop"


def spread(prompts: list[Json], completions: list[Json]) -> Json:
    """Attributes as OpenLLMetry writes them: one a field of a message, in no order."""
    found: Json = {}
    for key, messages in (("gen_ai.prompt", prompts), ("gen_ai.completion", completions)):
        for number, message in enumerate(messages):
            for name, value in message.items():
                if name == "tool_calls":
                    for n, each in enumerate(value):
                        found |= {f"{key}.{number}.tool_calls.{n}.{k}": v for k, v in each.items()}
                else:
                    found[f"{key}.{number}.{name}"] = value
    return dict(reversed(found.items()))


def test_messages_that_are_spread_over_attributes_are_put_together(store: Repository) -> None:
    prompts: list[Json] = [{"role": "system", "content": "Be brief."}]
    prompts += [{"role": "user", "content": json.dumps([{"type": "text", "text": "Weather?"}])}]
    call = {"id": "c1", "name": "weather", "arguments": '{"city": "Rome"}'}
    asks: Json = {"role": "assistant", "tool_calls": [call], "finish_reason": "tool_calls"}
    first = span("a", 0)
    first["attributes"] |= spread(prompts, [asks]) | {
        "gen_ai.usage.prompt_tokens": 9,
        "gen_ai.usage.completion_tokens": 4,
    }
    told = [*prompts, {"role": "assistant", "content": "", "tool_calls": [call]}]
    told += [{"role": "tool", "content": f"sunny {n}", "tool_call_id": "c1"} for n in range(1)]
    told += [{"role": "user", "content": f"Sure? {n}"} for n in range(9)]
    second = span("b", 1)
    second["attributes"] |= spread(told, [{"role": "model", "content": "[1, 2] is no list of parts"}])
    transcript = parsed(first, second)
    assert not transcript.problems
    merge(store, transcript)
    turns = store.load("otel:C").turns
    assert [(turn.role, plain_text(turn.content)) for turn in turns] == [
        ("system", "Be brief."),
        ("user", "Weather?"),
        ("assistant", ""),
        ("tool", "sunny 0"),
        *(("user", f"Sure? {n}") for n in range(9)),
        ("assistant", "[1, 2] is no list of parts"),
    ]
    assert turns[2].tool_calls[0].input == {"city": "Rome"}
    assert turns[3].tool_results[0].call_id == "c1"
    assert turns[2].usage == {"prompt_tokens": 9, "completion_tokens": 4}
    assert parsed(first).sessions[0].paths[0][2].stop_reason == "tool_calls"
    assert "attributes" not in turns[2].meta
    assert store.compare("otel:C").rows[0]["tokens"] == 13
    assert merge(store, parsed(first, second)).turns_added == 0


def test_calls_without_an_id_and_messages_in_one_attribute_are_read_too() -> None:
    first = span("a", 0)
    first["attributes"] |= spread(
        [{"content": "Weather?"}], [{"content": "I look.", "tool_calls": [{"name": "weather", "arguments": "{}"}]}]
    )
    whole = span("b", 1, conversation="D")
    whole["attributes"] |= {"gen_ai.prompt": '[{"role": "user", "content": "Hi"}]', "gen_ai.completion": "Hello"}
    events = span("c", 2, conversation="E")
    events["events"] = [
        {"name": "gen_ai.content.prompt", "attributes": {"gen_ai.prompt": '[{"role": "user", "content": "Hi"}]'}},
        {"name": "gen_ai.content.completion", "attributes": {"gen_ai.completion": '[{"content": "Hello"}]'}},
    ]
    bad = span("d", 3, conversation="F")
    bad["attributes"] |= {f"gen_ai.prompt.0.{'a.' * 5000}b": 1, f"gen_ai.prompt.0.z.{'7' * 5000}": 1}
    bad["attributes"] |= {
        "gen_ai.prompt.0.content": 7,
        "gen_ai.completion.0.content": "Hello",
        "gen_ai.prompt.0.x.y": 1,
    }
    transcript = parsed(first, whole, events, bad)
    assert [[(turn.role, plain_text(turn.content)) for turn in each.paths[0]] for each in transcript.sessions] == [
        [("user", "Weather?"), ("assistant", "I look.\n[calls weather {}]")],
        [("user", "Hi"), ("assistant", "Hello")],
        [("user", "Hi"), ("assistant", "Hello")],
        [("assistant", "Hello")],
    ]
    assert len(transcript.problems) == 1


def test_messages_in_the_shape_of_the_chat_api_keep_their_calls_and_answers(store: Repository) -> None:
    asked = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    answer = {"role": "tool", "content": "x", "tool_call_id": "c"}
    merge(store, parsed(span("s1", 1, [{"role": "user", "content": "q"}, asked, answer], [text("assistant", "b")])))
    turns = store.load("otel:C").turns
    assert [call.id for call in turns[1].tool_calls] == ["c"]
    assert [found.call_id for found in turns[2].tool_results] == ["c"]


def test_spans_of_a_trace_may_stand_in_several_files_and_twice(store: Repository, tmp_path: Path) -> None:
    (tmp_path / "spans").mkdir()
    (tmp_path / "spans" / "1.jsonl").write_bytes(lines(TALK[1]))
    (tmp_path / "spans" / "2.json").write_bytes(exported(*TALK))
    (tmp_path / "spans" / "3.jsonl").write_bytes(lines(TALK[1]))
    report = import_path(store, tmp_path / "spans")
    assert (report.sessions_created, report.turns_added) == (["otel:C"], 4)
    assert any("stand twice" in note for note in report.notes)


# --- what cannot be used


def test_spans_without_messages_are_counted_and_what_is_none_is_a_problem_at_its_line() -> None:
    broken = span("s3", 3)
    broken["attributes"]["gen_ai.input.messages"] = "not json"
    half = span("s4", 4, [{"no": "role"}, text("user", "q"), text("no role", "x")])
    http = {"trace_id": "t1", "span_id": "s5", "name": "GET", "attributes": {}}
    transcript = parsed(span("s2", 2), broken, half, http, {"what": 1})
    assert [(problem.line, problem.reason.split(":")[0]) for problem in transcript.problems] == [
        (5, "is no span"),
        (2, "span s3 has gen_ai.input.messages that are no list of messages"),
        (3, "span s4 has gen_ai.input.messages[0] that is no message"),
        (3, "span s4 has a message that cannot be kept"),
    ]
    assert words(transcript.sessions[0].paths[0]) == ["q"]
    assert transcript.records == {"span/chat": 3, "span/other": 1}
    assert transcript.notes[0].startswith("2 chat span(s) carry no messages")


@given(
    turns=st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), min_size=1, max_size=8),
    cut=st.integers(0, 8),
)
@examples(30)
def test_whatever_histories_spans_tell_each_is_held_whole_and_importing_again_adds_nothing(
    turns: list[tuple[int, str]], cut: int
) -> None:
    told: list[list[str]] = []
    spans = []
    for number, (keep, word) in enumerate(turns):
        before = told[-1][: -keep or None] if told else []
        given_words = [*before, word] if len(before) % 2 == 0 else [*before[:-1], word]
        told.append([*given_words, f"answer {number}"])
        messages = [text("assistant" if n % 2 else "user", each) for n, each in enumerate(given_words)]
        spans.append(span(f"s{number}", number, messages, [text("assistant", f"answer {number}")]))
    with trails.open(":memory:") as store:
        merge(store, parsed(*spans[: max(1, cut)]))
        merge(store, parsed(*spans))
        held = [[turn.content for turn in store.load(record.id).turns] for record in store.list()]
        assert all(any(each[: len(path)] == path for each in held) for path in told)
        assert merge(store, parsed(*spans)).turns_added == 0
        assert store.verify().ok


def test_a_file_of_many_spans_is_read_in_a_few_times_its_size() -> None:
    said = [text("user" if turn % 2 == 0 else "assistant", f"{turn} " + "word " * 200) for turn in range(8)]
    lines = [
        json.dumps(
            span(f"s{trace}-{turn}", turn, said[:turn], [said[turn]], conversation=f"C{trace}", trace=f"t{trace}")
        )
        for trace in range(20)
        for turn in range(1, 8, 2)
    ]
    data = "\n".join(lines).encode()
    tracemalloc.start()
    try:
        found = otlp.parse([("spans.jsonl", data)])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [len(session.paths[0]) for session in found.sessions] == [8] * 20
    assert most < 3.2 * len(data)


def test_spans_of_traceloop_name_their_session_their_agents_and_their_tools(store: Repository) -> None:
    def of(kind: str | None, name: str = "") -> Json:
        told = {"traceloop__association__properties__session_id": "trip"}
        return told | ({"traceloop__span__kind": kind, "traceloop__entity__name": name} if kind else {})

    flat = [
        span("top", 0, conversation=None, operation="", **of("workflow", "plan")),
        span("outer", 1, conversation=None, operation="", parent="top", **of("agent", "guide")),
        span("s1", 2, [text("user", "q")], [calling("c1")], conversation=None, parent="outer", **of(None)),
        span("inner", 3, conversation=None, operation="", parent="outer", **of("agent", "scout")),
        span("s2", 4, [text("user", "look")], [text("assistant", "snow")], conversation=None, parent="inner", **of(None)),
        span("tool", 5, conversation=None, operation="", parent="outer", **of("tool", "weather"),
             gen_ai__tool__call__id="c1", gen_ai__tool__call__result="snow"),
    ]  # fmt: skip
    for each in flat:
        if each["attributes"]["gen_ai.operation.name"] == "":
            del each["attributes"]["gen_ai.operation.name"]
    merge(store, parsed(*flat))
    session = store.load("otel:trip")
    assert ([turn.role for turn in session], session.agent) == (["user", "assistant", "tool"], "guide")
    [inner] = [store.load(record.id) for record in store.list() if record.id != "otel:trip"]
    assert (inner.record.spawned_by, inner.agent, len(inner)) == ("otel:trip", "scout", 2)
