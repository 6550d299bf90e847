"""Read the messages of a GenAI span, also in the attributes of OpenInference.

Messages stand in the attributes `gen_ai.input.messages` and `gen_ai.output.messages` (JSON, as text or as values), on the span or
on its event `gen_ai.client.inference.operation.details`. In older conventions every message is a span event of its own
(`gen_ai.user.message`, …, `gen_ai.choice`), or `gen_ai.prompt` and `gen_ai.completion` hold the messages: as JSON, on the
span or on its events `gen_ai.content.prompt` and `gen_ai.content.completion`, or spread over an attribute a field, with the
message's number in its name (`gen_ai.prompt.0.role`, `gen_ai.completion.0.tool_calls.0.name`).

OpenInference's spans (Phoenix, Arize and what is instrumented for them) are told in OpenTelemetry's own GenAI terms. The
kind of a span is the attribute `openinference.span.kind`, or `span_kind` in Phoenix's own JSON. Lists stand in attributes
with numbers in their names (`llm.input_messages.0.message.role`), or as they are. `input.value` says again what the messages
say, and counts where there are none: for model calls, for agents, and for chains at the top of their trace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trails.exchange.json_files import as_list, as_listed, as_object, as_text, objects_in, value_at, without_keys
from trails.exchange.source_transcript import Piece, SourceTurn
from trails.exchange.source_values import valid_name, without_empty
from trails.exchange.traces.spans import TraceSpan, plain_json, read_json
from trails.usage import with_source

INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
SYSTEM: Final = "gen_ai.system_instructions"
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_EVENTS: Final = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_CHOICE: Final = "gen_ai.choice"
_PROMPT: Final = "gen_ai.prompt"
_COMPLETION: Final = "gen_ai.completion"
_CONTENTS: Final = frozenset({"gen_ai.content.prompt", "gen_ai.content.completion"})
_SPREAD: Final = re.compile(r"(gen_ai\.prompt|gen_ai\.completion)(?:\.(\d{1,6})\.(.+))?", re.DOTALL)
_DEEPEST_CONTENT: Final = 20
_USAGE: Final = "gen_ai.usage."
_UNSPOKEN: Final = ("reasoning", "thinking")
_MESSAGE_OWN: Final = ("role", "parts", "content", "tool_calls", "tool_call_id", "finish_reason")

_Json = Mapping[str, Any]
OPENINFERENCE_KIND: Final = "openinference.span.kind"
_OPERATIONS: Final = {
    "LLM": "chat", "AGENT": "invoke_agent", "CHAIN": "invoke_workflow", "TOOL": "execute_tool",
    "EMBEDDING": "embeddings",
}  # fmt: skip
_NAMES: Final = {
    "session.id": "gen_ai.conversation.id", "agent.name": "gen_ai.agent.name", "tool.name": "gen_ai.tool.name",
    "llm.model_name": "gen_ai.response.model", "llm.provider": "gen_ai.provider.name", "llm.system": "gen_ai.system",
    "llm.token_count.prompt": "gen_ai.usage.input_tokens", "llm.token_count.completion": "gen_ai.usage.output_tokens",
    "llm.token_count.total": "gen_ai.usage.total_tokens",
    "llm.token_count.prompt_details.cache_read": "gen_ai.usage.cache_read.input_tokens",
    "llm.token_count.prompt_details.cache_write": "gen_ai.usage.cache_creation.input_tokens",
    "llm.token_count.completion_details.reasoning": "gen_ai.usage.reasoning.output_tokens",
}  # fmt: skip
_CALL_ID: Final = ("tool.id", "tool_call.id", "tool.call_id")
KEPT_ATTRIBUTES: Final = frozenset(
    {"llm.invocation_parameters", "metadata", "tag.tags", "user.id", "llm.prompts", "error.type"}
)
"""Attributes that are kept with the answer under their own names."""
_DEEPEST_NESTING: Final = 20


@dataclass(frozen=True, slots=True)
class SpanMessage:
    """A message of a span, and what tells whether another span's message is the same."""

    role: str
    content: str | tuple[Any, ...]
    key: str
    meta: _Json
    tool_calls: tuple[_Json, ...] = ()
    tool_call_id: str | None = None
    finish_reason: str | None = None

    def turn(self, source_id: str) -> SourceTurn:
        """Return the turn that it makes, without what its span says of it."""
        return SourceTurn(
            role=self.role,
            pieces=(Piece(source_id, self.content),),
            tool_calls=self.tool_calls,
            tool_call_id=self.tool_call_id,
            stop_reason=self.finish_reason,
            meta=self.meta,
        )


@dataclass(frozen=True, slots=True)
class SpanContent:
    """What a span says: what the model was given, what it answered (each a choice), the system prompt, and what is wrong."""

    given: tuple[SpanMessage, ...]
    answers: tuple[SpanMessage, ...]
    system: str | None
    faults: tuple[tuple[str, object], ...]


def span_messages(span: TraceSpan) -> SpanContent:
    """Return the messages of a span; nothing that stands in them raises."""
    faults: list[tuple[str, object]] = []
    holders = [span.attributes, *(held for name, held in span.events if name == _DETAILS)]
    found: dict[str, list[SpanMessage]] = {key: _listed(key, holders, faults) for key in (INPUT, OUTPUT)}
    if not any(found.values()):
        for name, held in span.events:
            if name not in _EVENTS and name != _CHOICE:
                continue
            if (message := _of_event(name, held)) is None:
                faults.append((f"has an event {name} that holds no message", held))
            else:
                found[OUTPUT if name == _CHOICE else INPUT].append(message)
    if not any(found.values()):
        old = [span.attributes, *(held for name, held in span.events if name in _CONTENTS)]
        both = ((INPUT, _PROMPT, "user"), (OUTPUT, _COMPLETION, "assistant"))
        found = {key: _spread(name, role, old, faults) for key, name, role in both}
    system = _system(_first(holders, SYSTEM))
    return SpanContent(tuple(found[INPUT]), tuple(found[OUTPUT]), system, tuple(faults))


def _first(holders: Sequence[_Json], key: str) -> Any:
    return next((holder[key] for holder in holders if holder.get(key) is not None), None)


def tells_messages(key: str) -> bool:
    """Tell whether an attribute holds messages, or a field of one, in an older convention.

    >>> tells_messages("gen_ai.prompt.0.content"), tells_messages("gen_ai.completion"), tells_messages("gen_ai.prompt.name")
    (True, True, False)
    """
    return _SPREAD.fullmatch(key) is not None


def is_event(name: str) -> bool:
    """Tell whether an event of this name tells a message."""
    return name in _EVENTS or name in (_CHOICE, _DETAILS) or name in _CONTENTS


def span_usage(span: TraceSpan) -> dict[str, Any] | None:
    """Return the token usage of a span, under the names of the conventions without what they all begin with."""
    told = {key: value for key, value in span.attributes.items() if key.startswith(_USAGE) and value is not None}
    usage = {key.removeprefix(_USAGE): value for key, value in told.items() if key != _USAGE}
    return with_source(usage, "otel") if usage else None


def _listed(key: str, holders: Sequence[_Json], faults: list[tuple[str, object]]) -> list[SpanMessage]:
    if (raw := _first(holders, key)) is None:
        return []
    if isinstance(value := read_json(raw), dict | list):
        return _messages(key, as_listed(value), "a role, and parts or content", faults)
    faults.append((f"has {key} that are no list of messages", raw))
    return []


def _messages(
    key: str, listed: Sequence[object], needs: str, faults: list[tuple[str, object]], role: str | None = None
) -> list[SpanMessage]:
    """Return the messages of a list; what is none is a fault."""
    read = [_message(each, role) for each in listed]
    for number, (each, message) in enumerate(zip(listed, read, strict=True)):
        if message is None:
            faults.append((f"has {key}[{number}] that is no message: it needs {needs}", each))
    return [message for message in read if message is not None]


# --- the oldest conventions


def _spread(key: str, role: str, holders: Sequence[_Json], faults: list[tuple[str, object]]) -> list[SpanMessage]:
    """Return the messages of `gen_ai.prompt` or `gen_ai.completion`: as JSON, as one text, or with an attribute a field."""
    whole = _first(holders, key)
    if whole is not None:
        read = read_json(whole)
        listed = as_listed(read) if isinstance(read, dict | list) else [{"content": whole}]
    else:
        named = [
            (found, holders[0][name]) for name in holders[0] if (found := _SPREAD.fullmatch(name)) and found[1] == key
        ]
        told = {f"{found[2]}.{found[3]}": value for found, value in named if found[2] is not None}
        listed = as_list(_nested(told, _DEEPEST_CONTENT + 2, skip=True))
    return _messages(key, [*map(_plain_form, listed)], "content as text or parts", faults, role)


def lists_from_numbers(value: Any) -> Any:
    """Return objects whose keys are all numbers as lists in order of these, all the way down."""
    if not isinstance(value, dict):
        return value
    inner = {name: lists_from_numbers(each) for name, each in value.items()}
    if inner and all(map(is_place, inner)):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


def is_place(name: str) -> bool:
    """Tell whether a name is a place in a list: a number from 0.

    >>> is_place("10"), is_place("-1"), is_place("count")
    (True, False, False)
    """
    return name.isascii() and name.isdecimal() and len(name) < 20


def _plain_form(raw: object) -> object:
    """Return a message of the oldest conventions as newer ones have it: parts as values, calls without an id as parts."""
    if not isinstance(raw, dict):
        return raw
    made = dict(raw)
    if made.get("role") == "model":  # Gemini's word
        made["role"] = "assistant"
    content = made.get("content")
    parts = as_list(read_json(content)) if isinstance(content, str) else []
    if parts and all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts):
        made["content"] = content = parts
    calls = read_json(made.get("tool_calls"))
    nameless = [call for call in objects_in(calls) if not call.get("id")]
    if isinstance(calls, list):
        made["tool_calls"] = [call for call in calls if call not in nameless]
    if nameless:
        said = [{"type": "text", "content": content}] if content and isinstance(content, str) else list(content or ())
        made["content"] = [*said, *({"type": "tool_call", **_named(call)} for call in nameless)]
    return made


# --- a message


def _message(raw: object, role: str | None = None) -> SpanMessage | None:
    raw = read_json(raw)
    if not isinstance(raw, dict):
        return None
    spoken, parts = raw.get("role", role), raw.get("parts", raw.get("content"))
    parts = [] if parts is None else parts
    if not isinstance(spoken, str) or not (
        isinstance(parts, str) or (isinstance(parts, list) and all(isinstance(part, str | dict) for part in parts))
    ):
        return None
    calls = tuple(objects_in(raw.get("tool_calls")))
    answers = valid_name(raw.get("tool_call_id", raw.get("id") if spoken == "tool" else None))
    meta = without_empty(without_keys(raw, *_MESSAGE_OWN))
    key, reason = _key(spoken, parts, calls, answers), valid_name(raw.get("finish_reason"))
    return SpanMessage(spoken, _content(parts), key, meta, calls, answers, reason)


def _of_event(name: str, held: _Json) -> SpanMessage | None:
    """Return the message of an event of older conventions: its fields are attributes, or stand in one as JSON."""
    fields = {key: value for key, value in held.items() if not key.startswith("gen_ai.")}
    for key in ("gen_ai.event.content", "message"):
        if isinstance(inner := read_json(held.get(key)), dict):
            fields = without_keys(fields, key) | inner
            if isinstance(nested := read_json(inner.get("message")), dict):
                fields = without_keys(fields, "message") | nested
    if isinstance(calls := read_json(fields.get("tool_calls")), list):
        fields["tool_calls"] = calls
    if isinstance(fields.get("content"), str) and isinstance(parts := read_json(fields["content"]), list):
        fields["content"] = parts
    is_told = "content" in fields or isinstance(calls, list)
    return _message(fields, _EVENTS.get(name, "assistant")) if is_told else None


def _content(parts: str | Sequence[Any]) -> str | tuple[Any, ...]:
    """Return a message's content: the text where one text part is all there is, else the parts as they stand."""
    match parts:
        case str():
            return parts
        case [{"type": "text", "content": str(text)} as part] if len(part) == 2:
            return text
    return tuple(parts)


def _key(role: str, parts: str | Sequence[Any], calls: Sequence[_Json], answers: str | None) -> str:
    """Return what two messages have in common that say the same, though one was told back without its reasoning."""
    listed = [parts] if isinstance(parts, str) else parts
    said = [_part_key(part) for part in listed if not (isinstance(part, dict) and part.get("type") in _UNSPOKEN)]
    asked = [_part_key({"type": "tool_call", "id": c.get("id"), **_named(c)}) for c in calls]
    return plain_json([role, [each for each in said if each != ["text", ""]], asked, answers])


def _named(call: _Json) -> _Json:
    function = call.get("function")
    named = function if isinstance(function, dict) else call
    return {"name": named.get("name"), "arguments": named.get("arguments")}


def _part_key(part: object) -> list[Any]:
    if isinstance(part, str):
        return ["text", part]
    if not isinstance(part, dict):
        return ["part", part]
    match part.get("type"):
        case "text":
            return ["text", part.get("content", part.get("text"))]
        case "tool_call":
            return ["call", part.get("id"), part.get("name"), _read_if_json(part.get("arguments"))]
        case "tool_call_response":
            return ["answer", part.get("id"), _read_if_json(part.get("response", part.get("result")))]
    return ["part", part]


def _read_if_json(value: object) -> Any:
    read = read_json(value)
    return value if read is None else read


def _system(raw: object) -> str | None:
    """Return the text of a system prompt: its text parts, one after the other."""
    value = read_json(raw)
    if isinstance(value, list):
        texts = [part.get("content") if isinstance(part, dict) else part for part in value]
        return "\n".join(text for text in texts if isinstance(text, str)) or None
    return as_text(raw)


def openinference_kind(span: TraceSpan) -> str | None:
    """Return what kind of span OpenInference says that it is, in capitals; None for one that it says nothing of."""
    found = span.text(OPENINFERENCE_KIND)
    told = span.raw.get("span_kind") if "gen_ai.operation.name" not in span.attributes else None
    if found is None and isinstance(told, str):
        found = told.rpartition(".")[2]
    return found.upper() if found and found.upper() not in ("INTERNAL", "CLIENT", "SERVER", "UNKNOWN", "") else None


def translate_openinference(span: TraceSpan) -> None:
    """Give a span of OpenInference the attributes that GenAI's conventions have for the same; leave any other alone."""
    kind = openinference_kind(span)
    if kind is None:
        return
    told = as_object(_nested(span.attributes, _DEEPEST_NESTING))
    kept = (key for key in KEPT_ATTRIBUTES if span.attributes.get(key) is not None)
    made: dict[str, Any] = {key: span.attributes[key] for key in kept}
    made["gen_ai.operation.name"] = _OPERATIONS.get(kind, kind.lower())
    made |= {new: found for old, new in _NAMES.items() if (found := _at(told, old)) is not None}
    if kind == "TOOL":
        made["gen_ai.tool.call.id"] = next((found for key in _CALL_ID if (found := _at(told, key)) is not None), None)
        made["gen_ai.tool.call.result"] = _at(told, "output.value")
    elif kind in ("LLM", "AGENT") or (kind == "CHAIN" and span.parent is None):
        for key, side, role in ((INPUT, "input", "user"), (OUTPUT, "output", "assistant")):
            listed = _oi_messages(_at(told, f"llm.{side}_messages"))
            made[key] = listed or _of_value(_at(told, f"{side}.value"), role, is_model=kind == "LLM") or None
    parameters = read_json(_at(told, "llm.invocation_parameters"))
    if "gen_ai.response.model" not in made and isinstance(parameters, dict):
        made["gen_ai.request.model"] = parameters.get("model")
    if (reason := valid_name(_at(told, "llm.finish_reason"))) is not None:
        made["gen_ai.response.finish_reasons"] = [reason]
    span.attributes = made


def _oi_messages(listed: object) -> list[Any]:
    if isinstance(listed, dict) and (placed := sorted(filter(is_place, listed), key=int)):
        others = [{name: each} for name, each in listed.items() if not is_place(name)]  # no messages, which is reported
        listed = [*(listed[name] for name in placed), *others]
    held = ((each, value_at(each, "message")) for each in as_list(listed))
    return [_oi_message(message) if isinstance(message, dict) else each for each, message in held]


def _oi_message(held: _Json) -> dict[str, Any]:
    """Return a message in OpenAI's shape."""
    made: dict[str, Any] = {"role": held.get("role"), "content": held.get("content")}
    if isinstance(parts := held.get("contents"), list):
        inner = ((each, value_at(each, "message_content")) for each in parts)
        made["content"] = [dict(part) if isinstance(part, dict) else each for each, part in inner]
    calls = [each.get("tool_call") for each in objects_in(held.get("tool_calls"))]
    if asked := [{"id": call.get("id"), "function": call.get("function")} for call in objects_in(calls)]:
        made["tool_calls"] = asked
    if isinstance(old := held.get("function_call_name"), str):
        made["function_call"] = {"name": old, "arguments": held.get("function_call_arguments_json")}
    return made | {key: held[key] for key in ("tool_call_id", "name") if held.get(key) is not None}


def _of_value(value: object, role: str, *, is_model: bool) -> list[Any]:
    """Return the messages that a span's input or output stands for: a provider's request or answer, else a text."""
    read = read_json(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value
    found: Any = read
    if isinstance(read, dict):
        found = read.get("messages") or [each.get("message") for each in objects_in(read.get("choices"))]
    if is_model and as_list(found) and all(isinstance(each, dict) and each.get("role") for each in found):
        return list(found)
    return [{"role": role, "content": value}] if isinstance(value, str) and value else []


def _nested(attributes: _Json, deepest: int, *, skip: bool = False) -> Any:
    """Return attributes with dots in their names as objects in one another, and those with numbers as lists.

    A name of more steps stands at the top, or is left out with `skip`; the first of two values for one place counts.
    """
    made: dict[str, Any] = {}
    for name, value in attributes.items():
        steps = name.split(".")
        is_deep = len(steps) > deepest
        place: Any = made
        for step in () if is_deep else steps[:-1]:
            place = place.setdefault(step, {}) if isinstance(place, dict) else None
        if isinstance(place, dict) and not (is_deep and skip):
            place.setdefault(steps[-1], value)
    return lists_from_numbers(made)


def _at(told: _Json, path: str) -> Any:
    return value_at(told, *path.split("."))
