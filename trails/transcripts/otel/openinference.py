"""OpenInference's spans (Phoenix, Arize and what is instrumented for them), told in OpenTelemetry's own GenAI terms.

The kind of a span is the attribute `openinference.span.kind`, or `span_kind` in Phoenix's own JSON. Lists stand in attributes
with numbers in their names (`llm.input_messages.0.message.role`), or as they are. `input.value` says again what the messages
say, and counts where there are none: for model calls, for agents, and for chains at the top of their trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trails.transcripts import checked
from trails.transcripts.otel.messages import INPUT, OUTPUT, is_place, listed_by_number
from trails.transcripts.otel.spans import TraceSpan, read_json

KIND: Final = "openinference.span.kind"
_OPERATIONS: Final = {
    "LLM": "chat",
    "AGENT": "invoke_agent",
    "CHAIN": "invoke_workflow",
    "TOOL": "execute_tool",
    "EMBEDDING": "embeddings",
}
_NAMES: Final = {
    "session.id": "gen_ai.conversation.id",
    "agent.name": "gen_ai.agent.name",
    "tool.name": "gen_ai.tool.name",
    "llm.model_name": "gen_ai.response.model",
    "llm.provider": "gen_ai.provider.name",
    "llm.system": "gen_ai.system",
    "llm.token_count.prompt": "gen_ai.usage.input_tokens",
    "llm.token_count.completion": "gen_ai.usage.output_tokens",
    "llm.token_count.total": "gen_ai.usage.total_tokens",
    "llm.token_count.prompt_details.cache_read": "gen_ai.usage.cache_read.input_tokens",
    "llm.token_count.prompt_details.cache_write": "gen_ai.usage.cache_creation.input_tokens",
    "llm.token_count.completion_details.reasoning": "gen_ai.usage.reasoning.output_tokens",
}
_CALL_ID: Final = ("tool.id", "tool_call.id", "tool.call_id")
KEPT: Final = frozenset({"llm.invocation_parameters", "metadata", "tag.tags", "user.id", "llm.prompts", "error.type"})
"""Attributes that are kept with the answer under their own names."""
_DEEPEST: Final = 20

_Json = Mapping[str, Any]


def kind_of(span: TraceSpan) -> str | None:
    """Return what kind of span OpenInference says that it is, in capitals; None for one that it says nothing of."""
    found = span.text(KIND)
    if (
        found is None
        and isinstance(told := span.raw.get("span_kind"), str)
        and "gen_ai.operation.name" not in span.attributes
    ):
        found = told.rpartition(".")[2]
    return found.upper() if found and found.upper() not in ("INTERNAL", "CLIENT", "SERVER", "UNKNOWN", "") else None


def translate(span: TraceSpan) -> None:
    """Give a span of OpenInference the attributes that GenAI's conventions have for the same; leave any other alone."""
    kind = kind_of(span)
    if kind is None:
        return
    told = _nested(span.attributes)
    made: dict[str, Any] = {key: span.attributes[key] for key in KEPT if span.attributes.get(key) is not None}
    made["gen_ai.operation.name"] = _OPERATIONS.get(kind, kind.lower())
    made |= {new: found for old, new in _NAMES.items() if (found := _at(told, old)) is not None}
    if kind == "TOOL":
        made["gen_ai.tool.call.id"] = next((found for key in _CALL_ID if (found := _at(told, key)) is not None), None)
        made["gen_ai.tool.call.result"] = _at(told, "output.value")
    elif kind in ("LLM", "AGENT") or (kind == "CHAIN" and span.parent is None):
        made |= _said(told, is_model=kind == "LLM")
    parameters = read_json(_at(told, "llm.invocation_parameters"))
    if "gen_ai.response.model" not in made and isinstance(parameters, dict):
        made["gen_ai.request.model"] = parameters.get("model")
    if (reason := checked.name(_at(told, "llm.finish_reason"))) is not None:
        made["gen_ai.response.finish_reasons"] = [reason]
    span.attributes = made


def _said(told: _Json, *, is_model: bool) -> dict[str, Any]:
    """Return the messages of a span: those that it lists, else what its values say."""
    given, answers = (_messages(_at(told, f"llm.{side}_messages")) for side in ("input", "output"))
    if not given and (value := _at(told, "input.value")) is not None:
        given = _of_value(value, "user", is_model=is_model)
    if not answers and (value := _at(told, "output.value")) is not None:
        answers = _of_value(value, "assistant", is_model=is_model)
    return {INPUT: given or None, OUTPUT: answers or None}


def _messages(listed: object) -> list[Any]:
    found = []
    if isinstance(listed, dict) and (placed := sorted(filter(is_place, listed), key=int)):
        others = [{name: each} for name, each in listed.items() if not is_place(name)]  # no messages, which is reported
        listed = [*(listed[name] for name in placed), *others]
    for each in listed if isinstance(listed, list) else []:
        held = each.get("message") if isinstance(each, dict) else None
        found.append(_message(held) if isinstance(held, dict) else each)
    return found


def _message(held: _Json) -> dict[str, Any]:
    """Return a message in OpenAI's shape."""
    made: dict[str, Any] = {"role": held.get("role"), "content": held.get("content")}
    if isinstance(parts := held.get("contents"), list):
        made["content"] = [_part(each) for each in parts]
    calls = []
    for each in held.get("tool_calls") or [] if isinstance(held.get("tool_calls"), list) else []:
        call = each.get("tool_call") if isinstance(each, dict) else None
        if isinstance(call, dict):
            calls.append({"id": call.get("id"), "function": call.get("function")})
    if calls:
        made["tool_calls"] = calls
    if isinstance(old := held.get("function_call_name"), str):
        made["function_call"] = {"name": old, "arguments": held.get("function_call_arguments_json")}
    return made | {key: held[key] for key in ("tool_call_id", "name") if held.get(key) is not None}


def _part(each: object) -> object:
    held = each.get("message_content") if isinstance(each, dict) else None
    return dict(held) if isinstance(held, dict) else each


def _of_value(value: object, role: str, *, is_model: bool) -> list[Any]:
    """Return the messages that a span's input or output stands for: a provider's request or answer, else a text."""
    read = read_json(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value
    if is_model and isinstance(read, dict):
        choices = read.get("choices")
        found = read.get("messages") or [each.get("message") for each in _objects(choices)]
        if isinstance(found, list) and found and all(isinstance(each, dict) and each.get("role") for each in found):
            return found
    if (
        is_model
        and isinstance(read, list)
        and read
        and all(isinstance(each, dict) and each.get("role") for each in read)
    ):
        return read
    return [{"role": role, "content": value}] if isinstance(value, str) and value else []


def _objects(value: object) -> list[_Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _nested(attributes: _Json) -> dict[str, Any]:
    """Return attributes with dots in their names as objects in one another, and those with numbers as lists."""
    made: dict[str, Any] = {}
    for name, value in attributes.items():
        steps = name.split(".")
        place: Any = made
        for step in steps[:-1] if len(steps) <= _DEEPEST else ():
            place = place.setdefault(step, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.setdefault(steps[-1], value)
    found = listed_by_number(made)
    return found if isinstance(found, dict) else {}


def _at(told: _Json, path: str) -> Any:
    here: Any = told
    for step in path.split("."):
        here = here.get(step) if isinstance(here, dict) else None
    return here
