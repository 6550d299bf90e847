"""Read MLflow's traces (`Trace.to_json`), of MLflow 2 and 3.

A session of MLflow (`mlflow.trace.session` of a trace's metadata), or a trace that is in none, is a session. Spans are read as
those of OpenTelemetry (see `otel`): those of models make the turns, with what tools gave where no message tells it; a span at
the top of a trace makes them where no span below it does. Both forms of spans are known, that of MLflow 2 and that of MLflow 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trails.exchange.format_detection import outline_of_first
from trails.exchange.json_files import as_object, as_text
from trails.exchange.source_transcript import Transcript
from trails.exchange.source_values import epoch_time, first_name, parse_time, without_empty
from trails.exchange.traces.otlp import Spans
from trails.exchange.traces.span_values import parse_embedded, read_steps, step
from trails.exchange.traces.spans import TraceSpan

SOURCE: Final = "mlflow"

_KINDS: Final = {"AGENT": "invoke_agent", "TOOL": "execute_tool", "EMBEDDING": "embeddings"} | dict.fromkeys(
    ("LLM", "CHAT_MODEL"), "chat"
)
_INPUTS: Final = "mlflow.spanInputs"
_OUTPUTS: Final = "mlflow.spanOutputs"
_TYPE: Final = "mlflow.spanType"
_USAGE: Final = "mlflow.chat.tokenUsage"
_MODELS: Final = ("mlflow.llm.model", "gen_ai.response.model", "gen_ai.request.model", "model", "model_name")
_SESSION: Final = "mlflow.trace.session"

_TOLD: Final = frozenset({_INPUTS, _OUTPUTS, _TYPE, _USAGE})

_Json = Mapping[str, Any]


def sniff(head: bytes) -> bool:
    """Tell whether a file holds traces of MLflow.

    >>> sniff(b'{"info": {"trace_id": "tr-1", "trace_location": {}}, "data": {"spans": [')
    True
    """
    first = outline_of_first(head)
    signs = {'"trace_location"', '"mlflow.trace_schema.version"'} | (
        {'"spans"', '"mlflow.'} if "data" in first else set()
    )
    return first.get("info", "") is None and any(sign.encode() in head for sign in signs)


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what files of traces (name and bytes of each) say together; nothing that they hold raises."""
    spans, infos = Spans(SOURCE, many=len(files) > 1), dict[str, _Json]()
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
                if (span := _span(line, each, attributes, trace, info)) is None:
                    spans.refuse(name, line, "is no span: it has no id", each)
                    continue
                infos.setdefault(span.trace, info)
                kind = f"span/{str(attributes.get(_TYPE) or 'other')[:50]}"
                steps.append((name, span, attributes.get(_INPUTS), kind))
    return read_steps(spans, steps, lambda trace: _about(infos.get(trace, {})))


def _about(info: _Json) -> dict[str, Any]:
    """Return the name, user and tags that a trace gives to its session."""
    tags = as_object(info.get("tags"))
    own = {key: value for key, value in tags.items() if not key.startswith("mlflow.")}
    more = without_empty({"tags": own, "user": _metadata(info).get("mlflow.trace.user")})
    return {**more, "title": as_text(tags.get("mlflow.traceName"))}


def _metadata(info: _Json) -> _Json:
    return as_object(info.get("trace_metadata", info.get("request_metadata")))


def _attributes(span: object) -> dict[str, Any]:
    """Return a span's attributes, parsed: MLflow writes each as JSON, texts too."""
    held = as_object(as_object(span).get("attributes"))
    return {key: value if (read := parse_embedded(value)) is None else read for key, value in held.items()}


def _span(line: int, span: object, attributes: dict[str, Any], trace: str, info: _Json) -> TraceSpan | None:
    """Return a span; None if it has no id."""
    held = as_object(span)
    context = as_object(held.get("context"))
    identity = as_text(held.get("span_id") or context.get("span_id"))
    if identity is None:
        return None
    parent = held.get("parent_span_id") or held.get("parent_id")
    kind = _KINDS.get(str(attributes.get(_TYPE)).upper(), "")
    status = held.get("status")
    code, why = (
        status.get(key) if isinstance(status, dict) else held.get(f"status_{key}") for key in ("code", "message")
    )
    failed = "ERROR" in str(code).upper()
    given, answer, session = attributes.get(_INPUTS), attributes.get(_OUTPUTS), _metadata(info).get(_SESSION)
    made = step(kind, given, answer, is_top=not parent, agent=held.get("name"), conversation=session)
    if kind == "chat":
        made |= {f"gen_ai.usage.{key}": value for key, value in as_object(attributes.get(_USAGE)).items()}
        made["gen_ai.response.model"] = first_name(*map(attributes.get, _MODELS), as_object(given).get("model"))
        made["metadata"] = without_empty({key: value for key, value in attributes.items() if key not in _TOLD})
    made |= {key: value for key, value in attributes.items() if key.startswith("gen_ai.") and key not in made}
    made |= {"error.type": why} if failed else {}
    own, name = held.get("trace_id") or context.get("trace_id"), str(held.get("name") or "")
    parent, start, end = parent if isinstance(parent, str) else None, _time(held, "start"), _time(held, "end")
    return TraceSpan(line, held, trace or str(own or identity), identity, parent, name, start, end, made, failed=failed)


def _time(span: _Json, side: str) -> Any:
    nanoseconds = span.get(f"{side}_time_unix_nano", span.get(f"{side}_time"))
    if isinstance(nanoseconds, str) and nanoseconds.isdecimal():
        nanoseconds = int(nanoseconds)
    if type(nanoseconds) is not int:
        return parse_time(nanoseconds)
    return epoch_time(nanoseconds, 10**9) if abs(nanoseconds) < 2**64 else None
