"""The messages that a GenAI span carries, and the turns that they make.

They stand in the attributes `gen_ai.input.messages` and `gen_ai.output.messages` (JSON, as text or as values), on the span or
on its event `gen_ai.client.inference.operation.details`. In older conventions every message is a span event of its own
(`gen_ai.user.message`, …, `gen_ai.choice`), or `gen_ai.prompt` and `gen_ai.completion` hold the messages: as JSON, on the
span or on its events `gen_ai.content.prompt` and `gen_ai.content.completion`, or spread over an attribute a field, with the
message's number in its name (`gen_ai.prompt.0.role`, `gen_ai.completion.0.tool_calls.0.name`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trails.transcripts import checked
from trails.transcripts.otel.spans import TraceSpan, plain_json, read_json
from trails.transcripts.source import Piece, SourceTurn
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
_DEEPEST: Final = 20
_USAGE: Final = "gen_ai.usage."
_UNSPOKEN: Final = ("reasoning", "thinking")

_Json = Mapping[str, Any]


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


def messages_of(span: TraceSpan) -> SpanContent:
    """Return the messages of a span; nothing that stands in them raises."""
    faults: list[tuple[str, object]] = []
    holders = [span.attributes, *(held for name, held in span.events if name == _DETAILS)]
    told = holders
    found: dict[str, list[SpanMessage]] = {}
    for key in (INPUT, OUTPUT):
        raw = next((holder[key] for holder in holders if holder.get(key) is not None), None)
        found[key] = [] if raw is None else _listed(key, raw, faults)
    if not found[INPUT] and not found[OUTPUT]:
        for name, held in span.events:
            if name in _EVENTS or name == _CHOICE:
                message = _of_event(name, held)
                if message is None:
                    faults.append((f"has an event {name} that holds no message", held))
                else:
                    found[OUTPUT if name == _CHOICE else INPUT].append(message)
    if not found[INPUT] and not found[OUTPUT]:
        holders = [span.attributes, *(held for name, held in span.events if name in _CONTENTS)]
        found = {
            INPUT: _spread(_PROMPT, "user", holders, faults),
            OUTPUT: _spread(_COMPLETION, "assistant", holders, faults),
        }
    system = next((holder[SYSTEM] for holder in told if holder.get(SYSTEM) is not None), None)
    return SpanContent(tuple(found[INPUT]), tuple(found[OUTPUT]), _system(system), tuple(faults))


def tells_messages(key: str) -> bool:
    """Tell whether an attribute holds messages, or a field of one, in an older convention.

    >>> tells_messages("gen_ai.prompt.0.content"), tells_messages("gen_ai.completion"), tells_messages("gen_ai.prompt.name")
    (True, True, False)
    """
    return _SPREAD.fullmatch(key) is not None


def is_event(name: str) -> bool:
    """Tell whether an event of this name tells a message."""
    return name in _EVENTS or name in (_CHOICE, _DETAILS) or name in _CONTENTS


def usage_of(span: TraceSpan) -> dict[str, Any] | None:
    """Return the token usage of a span, under the names of the conventions without what they all begin with."""
    usage = {
        key.removeprefix(_USAGE): value
        for key, value in span.attributes.items()
        if key.startswith(_USAGE) and key != _USAGE and value is not None
    }
    return with_source(usage, "otel") if usage else None


def _listed(key: str, raw: object, faults: list[tuple[str, object]]) -> list[SpanMessage]:
    value = read_json(raw)
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        faults.append((f"has {key} that are no list of messages", raw))
        return []
    found = []
    for number, each in enumerate(value):
        message = _message(each)
        if message is None:
            faults.append((f"has {key}[{number}] that is no message: it needs a role, and parts or content", each))
        else:
            found.append(message)
    return found


# --- the oldest conventions


def _spread(key: str, role: str, holders: Sequence[_Json], faults: list[tuple[str, object]]) -> list[SpanMessage]:
    """Return the messages of `gen_ai.prompt` or `gen_ai.completion`: as JSON, as one text, or with an attribute a field."""
    whole = next((holder[key] for holder in holders if holder.get(key) is not None), None)
    if whole is not None:
        read = read_json(whole)
        listed = [read] if isinstance(read, dict) else read if isinstance(read, list) else [{"content": whole}]
    else:
        listed = _numbered(key, holders[0])
    found = []
    for number, each in enumerate(listed):
        message = _message(_plain_form(each), role)
        if message is None:
            faults.append((f"has {key}[{number}] that is no message: it needs content as text or parts", each))
        else:
            found.append(message)
    return found


def _numbered(key: str, attributes: _Json) -> list[Any]:
    """Return what attributes with numbers in their names stand for, in order of the numbers."""
    made: dict[str, Any] = {}
    for name, value in attributes.items():
        named = _SPREAD.fullmatch(name)
        if named is None or named[1] != key or named[2] is None or named[3].count(".") > _DEEPEST:
            continue
        steps = [str(named[2]), *named[3].split(".")]
        place: Any = made
        for step in steps[:-1]:
            place = place.setdefault(step, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):  # else the field is told as a whole too
            place[steps[-1]] = value
    listed = listed_by_number(made)
    return listed if isinstance(listed, list) else []


def listed_by_number(value: Any) -> Any:
    """Return objects whose keys are all numbers as lists in order of these, all the way down."""
    if not isinstance(value, dict):
        return value
    inner = {name: listed_by_number(each) for name, each in value.items()}
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
    parts = read_json(content) if isinstance(content, str) else None
    if parts and isinstance(parts, list) and all(isinstance(p, dict) and isinstance(p.get("type"), str) for p in parts):
        made["content"] = parts
    calls = read_json(made.get("tool_calls"))
    nameless = [c for c in calls if isinstance(c, dict) and not c.get("id")] if isinstance(calls, list) else []
    if isinstance(calls, list):
        made["tool_calls"] = [call for call in calls if call not in nameless]
    if nameless:
        content = made.get("content") or []
        said = [{"type": "text", "content": content}] if isinstance(content, str) else list(content)
        made["content"] = [*said, *({"type": "tool_call", **_named(call)} for call in nameless)]
    return made


# --- a message


def _message(raw: object, role: str | None = None) -> SpanMessage | None:
    if isinstance(raw, str):
        raw = read_json(raw)
    if not isinstance(raw, dict):
        return None
    spoken = raw.get("role", role)
    parts = raw.get("parts", raw.get("content"))
    if parts is None:
        parts = []
    if not isinstance(spoken, str) or not isinstance(parts, str | list):
        return None
    if isinstance(parts, list) and not all(isinstance(part, str | dict) for part in parts):
        return None
    calls = raw.get("tool_calls")
    tool_calls = tuple(each for each in calls if isinstance(each, dict)) if isinstance(calls, list) else ()
    answers = checked.name(raw.get("tool_call_id", raw.get("id") if spoken == "tool" else None))
    own = {"role", "parts", "content", "tool_calls", "tool_call_id", "finish_reason"}
    return SpanMessage(
        role=spoken,
        content=_content(parts),
        key=_key(spoken, parts, tool_calls, answers),
        meta=checked.filled({key: value for key, value in raw.items() if key not in own}),
        tool_calls=tool_calls,
        tool_call_id=answers,
        finish_reason=checked.name(raw.get("finish_reason")),
    )


def _of_event(name: str, held: _Json) -> SpanMessage | None:
    """Return the message of an event of older conventions: its fields are attributes, or stand in one as JSON."""
    fields = {key: value for key, value in held.items() if not key.startswith("gen_ai.")}
    for key in ("gen_ai.event.content", "message"):
        inner = read_json(held.get(key))
        if isinstance(inner, dict):
            fields = {k: v for k, v in fields.items() if k != key} | inner
            if isinstance(nested := read_json(inner.get("message")), dict):
                fields = {k: v for k, v in fields.items() if k != "message"} | nested
    calls = read_json(fields.get("tool_calls"))
    if isinstance(calls, list):
        fields["tool_calls"] = calls
    if isinstance(fields.get("content"), str) and isinstance(parts := read_json(fields["content"]), list):
        fields["content"] = parts
    if "content" not in fields and not isinstance(calls, list):
        return None
    return _message(fields, _EVENTS.get(name, "assistant"))


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
            arguments = part.get("arguments")
            read = read_json(arguments) if isinstance(arguments, str) else None
            return ["call", part.get("id"), part.get("name"), arguments if read is None else read]
        case "tool_call_response":
            answer = part.get("response", part.get("result"))
            read = read_json(answer) if isinstance(answer, str) else None
            return ["answer", part.get("id"), answer if read is None else read]
    return ["part", part]


def _system(raw: object) -> str | None:
    """Return the text of a system prompt: its text parts, one after the other."""
    if raw is None:
        return None
    value = read_json(raw)
    if isinstance(value, list):
        texts = [part.get("content") if isinstance(part, dict) else part for part in value]
        return "\n".join(text for text in texts if isinstance(text, str)) or None
    return raw if isinstance(raw, str) and raw else None
