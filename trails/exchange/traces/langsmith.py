"""Read LangSmith's runs: JSON lines, an array, `{"runs": [...]}`, or nested.

A thread (`thread_id`, `session_id` or `conversation_id` of a run's metadata), or a trace that is in none, is a session. Runs are
read as spans are (see `otel`): the runs of models make the turns, with what tools gave where no message tells it; a run at the
top of a trace makes them where no run below it does.

Rules that are followed: times without a zone are UTC; a run's `trace_id` may be missing, it is that of the run above then; a
tool's run that names no call is that of the call of its name with its arguments that is not answered yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from trails.exchange.format_detection import outline_of_first, outline_of_listed
from trails.exchange.json_files import as_list, as_object, as_text, value_at, without_keys
from trails.exchange.source_transcript import Transcript
from trails.exchange.source_values import epoch_time, first_name, utc_time, valid_name
from trails.exchange.traces.otlp import Spans
from trails.exchange.traces.span_values import parse_embedded, read_steps, step
from trails.exchange.traces.spans import TraceSpan

SOURCE: Final = "langsmith"

_KINDS: Final = {"llm": "chat", "tool": "execute_tool", "embedding": "embeddings"}
_THREADS: Final = ("thread_id", "session_id", "conversation_id")
_COUNTS: Final = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "total_tokens": "total_tokens"}
_MODELS: Final = ("ls_model_name", "model_name", "model")

_Json = Mapping[str, Any]


def sniff(head: bytes) -> bool:
    """Tell whether a file holds runs of LangSmith.

    >>> sniff(b'{"id": "r", "run_type": "llm", "inputs": {'), sniff(b'{"runs": [{"id": "r", "run_type": "chain", "inputs": {')
    (True, True)
    """
    first = outline_of_first(head)
    run = outline_of_listed(head, {"runs"}) if "runs" in first else first
    return "run_type" in run and bool(run.keys() & {"inputs", "outputs", "trace_id", "dotted_order", "parent_run_id"})


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what files of runs (name and bytes of each) say together; nothing that they hold raises."""
    spans, titles = Spans(SOURCE, many=len(files) > 1), dict[str, str]()
    steps: list[tuple[str, TraceSpan, object, str]] = []
    for name, data in files:
        for line, value in spans.values(name, data):
            for run, trace in _runs_in(value, None):
                if (span := _span(line, run, trace)) is None:
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


def _span(line: int, run: object, trace: str | None) -> TraceSpan | None:
    held = as_object(run)
    identity = held.get("id")
    if not isinstance(identity, str) or not isinstance(held.get("run_type"), str):
        return None
    parent, kind = as_text(held.get("parent_run_id")), _KINDS.get(held["run_type"], "")
    told = value_at(held, "extra", "metadata")
    meta = told if isinstance(told, dict) else as_object(held.get("metadata"))
    thread = next((meta[key] for key in _THREADS if as_text(meta.get(key))), None)
    made = step(kind, held.get("inputs"), held.get("outputs"), is_top=parent is None, conversation=thread)
    made |= _of_a_model(held, meta) if kind == "chat" else {}
    failed = bool(held.get("error"))
    made |= {"error.type": held["error"]} if failed else {}
    name, start, end = str(held.get("name") or ""), _time(held.get("start_time")), _time(held.get("end_time"))
    own = without_keys(held, "child_runs")
    return TraceSpan(line, own, trace or identity, identity, parent, name, start, end, made, failed=failed)


def _of_a_model(run: _Json, meta: _Json) -> dict[str, Any]:
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
    reason = valid_name(about.get("finish_reason") or about.get("stop_reason"))
    return (
        made
        | {
            "gen_ai.response.model": first_name(about.get("model_name"), about.get("model"), *map(meta.get, _MODELS)),
            "metadata": meta or None,
            "llm.invocation_parameters": as_object(value_at(run, "extra", "invocation_params")),
            "gen_ai.provider.name": valid_name(meta.get("ls_provider")),
        }
        | ({"gen_ai.response.finish_reasons": [reason]} if reason else {})
    )


def _answer_in(outputs: object) -> _Json:
    """Return LangChain's first generation in a model's output, or the output."""
    held: Any = parse_embedded(outputs)
    for key in ("generations", 0, 0, "message", "kwargs"):
        inner = as_object(held).get(key) if isinstance(key, str) else next(iter(as_list(held)), None)
        held = held if inner is None else inner
    return as_object(held)


def _time(value: object) -> datetime | None:
    """Parse a time, or milliseconds since 1970; without a zone it is UTC."""
    return epoch_time(value, 1000) if type(value) in (int, float) else utc_time(value)
