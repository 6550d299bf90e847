"""Read traces of steps: LangSmith's runs, MLflow's traces, and the messages in their inputs and outputs.

A thread of LangSmith (`thread_id`, `session_id` or `conversation_id` of a run's metadata), a session of MLflow
(`mlflow.trace.session` of a trace's metadata), and a trace that is in neither, is a session. Runs and spans are read as those of
OpenTelemetry (see `spans`): those of models make the turns, with the results of tools that no message contains. A run at the top
of a trace makes them if no run below it does.

LangSmith's runs are JSON lines, an array, `{"runs": [...]}`, or nested. Times without a zone are UTC. A run without a `trace_id`
has that of the run above. A tool's run that names no call belongs to the call with its name and arguments that has no answer yet.
MLflow's traces are those that `Trace.to_json` writes; both forms of spans, of MLflow 2 and 3, are known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from trails.exchange.format_detection import outline_of_first, outline_of_listed
from trails.exchange.json_files import Json, as_list, as_object, as_text, objects_in, value_at, without_keys
from trails.exchange.source_transcript import Transcript
from trails.exchange.source_values import epoch_time, first_name, parse_time, utc_time, valid_name, without_empty
from trails.exchange.traces.otlp import Spans
from trails.exchange.traces.spans import INPUT, OUTPUT, TraceSpan, read_json
from trails.model import message_shapes, validation

_LISTS: Final = ("messages", "contents", "generations", "choices", "candidates", "output", "input", "prompts")
"""Where an input or output has its messages, in this order."""
_WITHIN: Final = ("message", "content", "output", "response", "result", "return")
"""Where one holds a single message."""
_TEXTS: Final = (
    *("prompt", "question", "query", "text", "input"),
    *("output", "completion", "answer", "response", "content"),
)
_SYSTEMS: Final = ("system", "instructions")
_OF_A_MESSAGE: Final = ("role", "content", "tool_calls", "tool_call_id")
"""What is kept of a message: with more, spans that tell it again would tell another one."""


def messages_in(value: object, role: str) -> list[dict[str, Any]]:
    """Return the messages in an input or output, in OpenAI's shape.

    A single text becomes a message of `role`.

    >>> messages_in({"messages": [[{"type": "human", "content": "Hi"}]]}, "user"), messages_in({"answer": "Ho"}, "assistant")
    ([{'role': 'user', 'content': 'Hi'}], [{'role': 'assistant', 'content': 'Ho'}])
    """
    read = parse_embedded(value)
    if isinstance(read, str):
        return [{"role": role, "content": read}] if read else []
    if isinstance(read, list):
        return [message for each in read for message in messages_in(each, role)]
    if not isinstance(read, Mapping):
        return []
    if message_shapes.is_message(read):
        return [_kept(each) for each in _said(read)]
    return _within(read, role)


def _within(read: Json, role: str) -> list[dict[str, Any]]:
    """Return the messages in an object: a list, one message, or a text."""
    for name in _LISTS:
        if isinstance(inner := parse_embedded(read.get(name)), list) and (made := messages_in(inner, role)):
            before = next((read[key] for key in _SYSTEMS if as_text(read.get(key))), None)
            return [*([] if before is None else [{"role": "system", "content": before}]), *made]
    for name in _WITHIN:
        if isinstance(inner := parse_embedded(read.get(name)), Mapping) and (made := messages_in(inner, role)):
            return made
    return next(([{"role": role, "content": t}] for n in _TEXTS if (t := as_text(read.get(n)))), [])


def parse_embedded(value: object) -> Any:
    """Parse a JSON text of an object or list; return other values as they are."""
    read = read_json(value) if isinstance(value, str) and value.lstrip()[:1] in ('"', "{", "[") else None
    return value if read is None else read


def _beyond(given: Sequence[Json], answers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return an output without the input that it begins with."""
    repeats = len(answers) >= len(given) and all(a == b for a, b in zip(given, answers, strict=False))
    return list(answers[len(given) :] if repeats else answers)


def item_message(item: Json) -> dict[str, Any]:
    """Return an item of OpenAI's responses as a message of its chat."""
    kind, called = item["type"], item.get("call_id")
    if kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        return {"role": "assistant", "content": "", "tool_calls": [{"id": called, "function": function}]}
    if kind == "function_call_output":
        return {"role": "tool", "tool_call_id": called, "content": item.get("output")}
    content = item.get("content") if kind == "message" else [dict(item)]
    return {"role": item.get("role", "tool" if kind.endswith("_output") else "assistant"), "content": content}


def plain_messages(each: object, role: str) -> list[dict[str, Any]]:
    """Return what a value says that may be a message, of a role if it names none, in OpenAI's shape."""
    if isinstance(each, str):
        return [{"role": role, "content": each}]
    if not isinstance(each, dict):
        return []
    if not message_shapes.is_message(each):
        each = {"role": role, **each}
    return [_kept(message) for message in _said(each)] if message_shapes.is_message(each) else []


def _said(message: Json) -> list[dict[str, Any]]:
    return [item_message(message)] if message_shapes.is_item(message) else message_shapes.chat(message)


def _kept(message: Json) -> dict[str, Any]:
    made = {name: message[name] for name in _OF_A_MESSAGE if message.get(name) is not None}
    content = made.get("content", "")
    if isinstance(content, list) and len(content) == 1 and is_text_part(content[0]):
        content = content[0]["text"]
    content = content if isinstance(content, str | list) else json.dumps(content, ensure_ascii=False)
    return made | {"role": validation.standard_role(message["role"]) or message["role"], "content": content}


def is_text_part(part: object) -> bool:
    """Tell whether a part is a text, in the shape of any provider."""
    held = part if isinstance(part, Mapping) else {}
    return held.get("type") in ("text", "output_text", "input_text", None) and isinstance(held.get("text"), str)


def step(
    kind: str, given: object, answer: object, *, is_top: bool, agent: object = None, conversation: object = None
) -> dict[str, Any]:
    """Return the attributes of OpenTelemetry's conventions for a traced step.

    `kind` is the operation: `chat`, `execute_tool`, `invoke_agent`, `embeddings`, or empty for a step of a program. One at the
    top of a trace says what went in and came out.
    """
    operation = "invoke_workflow" if is_top and not kind else kind
    made: dict[str, Any] = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": conversation or None}
    if kind == "invoke_agent":
        made["gen_ai.agent.name"] = agent
    if kind == "execute_tool":
        identity, result = _result(answer)
        made |= {"gen_ai.tool.call.id": identity, "gen_ai.tool.call.result": result}
    elif kind in ("chat", "invoke_agent") or is_top:
        said, replies = messages_in(given, "user"), messages_in(answer, "assistant")
        if kind != "chat":
            replies = _beyond(said, replies)
            if not said and given not in (None, "", {}):
                said = [{"role": "user", "content": json.dumps(parse_embedded(given), ensure_ascii=False)}]
            said, replies = [*said, *replies[:-1]], replies[-1:]  # several answers would be choices
        made |= {INPUT: said or None, OUTPUT: replies or None}
    return made


def _result(answer: object) -> tuple[str | None, Any]:
    """Return a tool's result, and the call that it answers if it names one."""
    read = parse_embedded(answer)
    inner = parse_embedded(read.get("output")) if isinstance(read, Mapping) and "output" in read else read
    said = _said(inner) if isinstance(inner, Mapping) and message_shapes.is_message(inner) else []
    if len(said) == 1 and isinstance(said[0].get("tool_call_id"), str):
        return said[0]["tool_call_id"], said[0].get("content")
    return None, inner if inner is None or isinstance(inner, str) else json.dumps(inner, ensure_ascii=False)


def read_steps(
    spans: Spans, steps: Iterable[tuple[str, TraceSpan, object, str]], about: Callable[[str], dict[str, Any]]
) -> Transcript:
    """Return the sessions of steps: the file of each, its span, its input, and its kind of record.

    `about` returns the title and metadata that a trace gives to the session that begins with it.
    """
    calls = OpenCalls()
    for name, span, given, kind in sorted(steps, key=lambda step: step[1].order):
        calls.see(span, given, span.name)
        spans.take(name, span, kind)
    found = spans.transcript()
    sessions = []
    for session in found.sessions:
        told = about(next(iter(session.meta.get("traces", ())), session.id))
        sessions.append(replace(session, title=told.pop("title", None), meta={**session.meta, **told}))
    return replace(found, sessions=tuple(sessions))


class OpenCalls:
    """The unanswered calls of each trace, to find the call of a tool's span."""

    def __init__(self) -> None:
        self._open: dict[str, list[tuple[str, str, Any]]] = {}

    def see(self, span: TraceSpan, given: object, name: object) -> None:
        """Add the calls of a model's answer, or give a tool's span its call's id."""
        here = self._open.setdefault(span.trace, [])
        if span.operation == "chat":
            for message in span.attributes.get(OUTPUT) or []:
                here += _calls_of(message)
        elif span.operation == "execute_tool":
            value, own = parse_embedded(given), span.attributes.get("gen_ai.tool.call.id")
            possible = [value, value.get("input")] if isinstance(value, dict) else [value]
            same = [call for call in here if (call[0] == own if own else call[1] == name)]
            call = next((call for call in same if call[2] in possible), same[0] if len(same) == 1 else None)
            if call is not None:
                here.remove(call)
                span.attributes["gen_ai.tool.call.id"] = call[0]


def _calls_of(message: Json) -> list[tuple[str, str, Any]]:
    """Return (id, name, arguments) of each call of a message."""
    asked = [
        (call.get("id"), call["function"])
        for call in objects_in(message.get("tool_calls"))
        if isinstance(call.get("function"), dict)
    ]
    calls = [(call_id, str(held.get("name")), parse_embedded(held.get("arguments"))) for call_id, held in asked]
    parts = (part for part in objects_in(message.get("content")) if part.get("type") == "tool_use")
    calls += [(part.get("id"), str(part.get("name")), part.get("input")) for part in parts]
    return [(call_id, name, arguments) for call_id, name, arguments in calls if isinstance(call_id, str)]


# --- LangSmith

LANGSMITH: Final = "langsmith"

_RUN_KINDS: Final = {"llm": "chat", "tool": "execute_tool", "embedding": "embeddings"}
_THREADS: Final = ("thread_id", "session_id", "conversation_id")
_COUNTS: Final = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "total_tokens": "total_tokens"}
_RUN_MODELS: Final = ("ls_model_name", "model_name", "model")


def sniff_langsmith(head: bytes) -> bool:
    """Tell whether a file holds runs of LangSmith.

    >>> sniff_langsmith(b'{"id": "r", "run_type": "llm", "inputs": {')
    True
    >>> sniff_langsmith(b'{"runs": [{"id": "r", "run_type": "chain", "inputs": {')
    True
    """
    first = outline_of_first(head)
    run = outline_of_listed(head, {"runs"}) if "runs" in first else first
    return "run_type" in run and bool(run.keys() & {"inputs", "outputs", "trace_id", "dotted_order", "parent_run_id"})


def parse_langsmith(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what files of runs (name and bytes of each) say together; nothing that they hold raises."""
    spans, titles = Spans(LANGSMITH, many=len(files) > 1), dict[str, str]()
    steps: list[tuple[str, TraceSpan, object, str]] = []
    for name, data in files:
        for line, value in spans.values(name, data):
            for run, trace in _runs_in(value, None):
                if (span := _run_span(line, run, trace)) is None:
                    spans.refuse(name, line, "is no run of LangSmith: it has no id or no run_type", run)
                    continue
                steps.append((name, span, span.raw.get("inputs"), f"run/{str(span.raw.get('run_type'))[:50]}"))
                if span.parent is None:
                    titles.setdefault(span.trace, span.name)
    return read_steps(spans, steps, lambda trace: {"title": titles.get(trace) or None})


def _runs_in(value: object, trace: str | None) -> Iterator[tuple[object, str | None]]:
    """Yield each run of an object with its trace, outer runs first."""
    if not isinstance(value, dict):
        yield value, trace
        return
    if isinstance(value.get("runs"), list) and "run_type" not in value:
        for each in value["runs"]:
            yield from _runs_in(each, None)
        return
    own = value.get("trace_id") or trace or (value.get("id") if not value.get("parent_run_id") else None)
    own = own or _trace_in(value.get("dotted_order"))
    yield value, own if isinstance(own, str) else None
    for child in as_list(value.get("child_runs")):
        linked = {"parent_run_id": value.get("id"), **child} if isinstance(child, dict) else child
        yield from _runs_in(linked, own if isinstance(own, str) else None)


def _trace_in(order: object) -> str | None:
    """Return the id of the top run in a dotted order."""
    return order.split(".")[0].partition("Z")[2] or None if isinstance(order, str) else None


def _run_span(line: int, run: object, trace: str | None) -> TraceSpan | None:
    held = as_object(run)
    identity = held.get("id")
    if not isinstance(identity, str) or not isinstance(held.get("run_type"), str):
        return None
    parent, kind = as_text(held.get("parent_run_id")), _RUN_KINDS.get(held["run_type"], "")
    told = value_at(held, "extra", "metadata")
    meta = told if isinstance(told, dict) else as_object(held.get("metadata"))
    thread = next((meta[key] for key in _THREADS if as_text(meta.get(key))), None)
    made = step(kind, held.get("inputs"), held.get("outputs"), is_top=parent is None, conversation=thread)
    made |= _of_a_model(held, meta) if kind == "chat" else {}
    failed = bool(held.get("error"))
    made |= {"error.type": held["error"]} if failed else {}
    name, start, end = str(held.get("name") or ""), _run_time(held.get("start_time")), _run_time(held.get("end_time"))
    own = without_keys(held, "child_runs")
    return TraceSpan(line, own, trace or identity, identity, parent, name, start, end, made, failed=failed)


def _of_a_model(run: Json, meta: Json) -> dict[str, Any]:
    """Return the model, provider, usage and cost of a model's run."""
    answer = _answer_in(run.get("outputs"))
    about = as_object(answer.get("response_metadata"))
    usage = answer.get("usage_metadata") or answer.get("usage") or meta.get("usage_metadata")
    counts = {ours: run[name] for name, ours in _COUNTS.items() if type(run.get(name)) is int}
    told = {**usage, "source": "langchain"} if isinstance(usage, dict) and usage else counts
    cost = run.get("total_cost")
    cost = float(cost) if isinstance(cost, str) and cost.replace(".", "", 1).isdecimal() else cost
    if type(cost) in (int, float) and told:
        told = {**told, "cost": cost}
    made: dict[str, Any] = {f"gen_ai.usage.{key}": value for key, value in told.items()}
    named = first_name(about.get("model_name"), about.get("model"), *map(meta.get, _RUN_MODELS))
    made |= {"gen_ai.response.model": named, "gen_ai.provider.name": valid_name(meta.get("ls_provider"))}
    parameters = as_object(value_at(run, "extra", "invocation_params"))
    made |= {"metadata": meta or None, "llm.invocation_parameters": parameters}
    reason = valid_name(about.get("finish_reason") or about.get("stop_reason"))
    return made | ({"gen_ai.response.finish_reasons": [reason]} if reason else {})


def _answer_in(outputs: object) -> Json:
    """Return LangChain's first generation in a model's output, or the output."""
    held: Any = parse_embedded(outputs)
    for key in ("generations", 0, 0, "message", "kwargs"):
        inner = as_object(held).get(key) if isinstance(key, str) else next(iter(as_list(held)), None)
        held = held if inner is None else inner
    return as_object(held)


def _run_time(value: object) -> datetime | None:
    """Parse a time, or milliseconds since 1970; without a zone it is UTC."""
    return epoch_time(value, 1000) if type(value) in (int, float) else utc_time(value)


# --- MLflow

MLFLOW: Final = "mlflow"

_SPAN_KINDS: Final = {"AGENT": "invoke_agent", "TOOL": "execute_tool", "EMBEDDING": "embeddings"} | dict.fromkeys(
    ("LLM", "CHAT_MODEL"), "chat"
)
_INPUTS: Final = "mlflow.spanInputs"
_OUTPUTS: Final = "mlflow.spanOutputs"
_TYPE: Final = "mlflow.spanType"
_USAGE: Final = "mlflow.chat.tokenUsage"
_SPAN_MODELS: Final = ("mlflow.llm.model", "gen_ai.response.model", "gen_ai.request.model", "model", "model_name")
_SESSION: Final = "mlflow.trace.session"

_TOLD: Final = frozenset({_INPUTS, _OUTPUTS, _TYPE, _USAGE})


def sniff_mlflow(head: bytes) -> bool:
    """Tell whether a file holds traces of MLflow.

    >>> sniff_mlflow(b'{"info": {"trace_id": "tr-1", "trace_location": {}}, "data": {"spans": [')
    True
    """
    first = outline_of_first(head)
    signs = {'"trace_location"', '"mlflow.trace_schema.version"'} | (
        {'"spans"', '"mlflow.'} if "data" in first else set()
    )
    return first.get("info", "") is None and any(sign.encode() in head for sign in signs)


def parse_mlflow(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what files of traces (name and bytes of each) say together; nothing that they hold raises."""
    spans, infos = Spans(MLFLOW, many=len(files) > 1), dict[str, Json]()
    steps: list[tuple[str, TraceSpan, object, str]] = []
    for name, data in files:
        for line, value in spans.values(name, data):
            info, listed = value.get("info"), as_object(value.get("data")).get("spans")
            if not isinstance(info, dict) or not isinstance(listed, list):
                spans.refuse(name, line, "is no trace of MLflow: it has no info or no spans", value)
                continue
            trace = str(info.get("trace_id") or info.get("request_id") or "")
            for each in listed:
                attributes = _attributes(each)
                if (span := _mlflow_span(line, each, attributes, trace, info)) is None:
                    spans.refuse(name, line, "is no span: it has no id", each)
                    continue
                infos.setdefault(span.trace, info)
                kind = f"span/{str(attributes.get(_TYPE) or 'other')[:50]}"
                steps.append((name, span, attributes.get(_INPUTS), kind))
    return read_steps(spans, steps, lambda trace: _about(infos.get(trace, {})))


def _about(info: Json) -> dict[str, Any]:
    """Return the name, user and tags that a trace gives to its session."""
    tags = as_object(info.get("tags"))
    own = {key: value for key, value in tags.items() if not key.startswith("mlflow.")}
    more = without_empty({"tags": own, "user": _trace_metadata(info).get("mlflow.trace.user")})
    return {**more, "title": as_text(tags.get("mlflow.traceName"))}


def _trace_metadata(info: Json) -> Json:
    return as_object(info.get("trace_metadata", info.get("request_metadata")))


def _attributes(span: object) -> dict[str, Any]:
    """Return a span's attributes, parsed: MLflow writes each as JSON, texts too."""
    held = as_object(as_object(span).get("attributes"))
    return {key: value if (read := parse_embedded(value)) is None else read for key, value in held.items()}


def _mlflow_span(line: int, span: object, attributes: dict[str, Any], trace: str, info: Json) -> TraceSpan | None:
    """Return a span; None if it has no id."""
    held = as_object(span)
    context = as_object(held.get("context"))
    identity = as_text(held.get("span_id") or context.get("span_id"))
    if identity is None:
        return None
    parent = held.get("parent_span_id") or held.get("parent_id")
    kind = _SPAN_KINDS.get(str(attributes.get(_TYPE)).upper(), "")
    status = held.get("status")
    code, why = (
        status.get(key) if isinstance(status, dict) else held.get(f"status_{key}") for key in ("code", "message")
    )
    failed = "ERROR" in str(code).upper()
    given, answer, session = attributes.get(_INPUTS), attributes.get(_OUTPUTS), _trace_metadata(info).get(_SESSION)
    made = step(kind, given, answer, is_top=not parent, agent=held.get("name"), conversation=session)
    if kind == "chat":
        made |= {f"gen_ai.usage.{key}": value for key, value in as_object(attributes.get(_USAGE)).items()}
        made["gen_ai.response.model"] = first_name(*map(attributes.get, _SPAN_MODELS), as_object(given).get("model"))
        made["metadata"] = without_empty({key: value for key, value in attributes.items() if key not in _TOLD})
    made |= {key: value for key, value in attributes.items() if key.startswith("gen_ai.") and key not in made}
    made |= {"error.type": why} if failed else {}
    own, name = held.get("trace_id") or context.get("trace_id"), str(held.get("name") or "")
    parent, start, end = (
        parent if isinstance(parent, str) else None,
        _mlflow_time(held, "start"),
        _mlflow_time(held, "end"),
    )
    return TraceSpan(line, held, trace or str(own or identity), identity, parent, name, start, end, made, failed=failed)


def _mlflow_time(span: Json, side: str) -> Any:
    nanoseconds = span.get(f"{side}_time_unix_nano", span.get(f"{side}_time"))
    if isinstance(nanoseconds, str) and nanoseconds.isdecimal():
        nanoseconds = int(nanoseconds)
    if type(nanoseconds) is not int:
        return parse_time(nanoseconds)
    return epoch_time(nanoseconds, 10**9) if abs(nanoseconds) < 2**64 else None
