"""Read messages from the inputs and outputs of traced steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from trails.exchange.json_files import as_text, objects_in
from trails.exchange.source_transcript import Transcript
from trails.exchange.traces.otlp import Spans
from trails.exchange.traces.span_messages import INPUT, OUTPUT
from trails.exchange.traces.spans import TraceSpan, read_json
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

_Json = Mapping[str, Any]


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


def _within(read: _Json, role: str) -> list[dict[str, Any]]:
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


def _beyond(given: Sequence[_Json], answers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return an output without the input that it begins with."""
    repeats = len(answers) >= len(given) and all(a == b for a, b in zip(given, answers, strict=False))
    return list(answers[len(given) :] if repeats else answers)


def item_message(item: _Json) -> dict[str, Any]:
    """Return an item of OpenAI's responses as a message of its chat."""
    kind, called = item["type"], item.get("call_id")
    if kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        return {"role": "assistant", "content": "", "tool_calls": [{"id": called, "function": function}]}
    if kind == "function_call_output":
        return {"role": "tool", "tool_call_id": called, "content": item.get("output")}
    content = item.get("content") if kind == "message" else [dict(item)]
    return {"role": item.get("role", "tool" if kind.endswith("_output") else "assistant"), "content": content}


def _said(message: _Json) -> list[dict[str, Any]]:
    return [item_message(message)] if message_shapes.is_item(message) else message_shapes.chat(message)


def _kept(message: _Json) -> dict[str, Any]:
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


def _calls_of(message: _Json) -> list[tuple[str, str, Any]]:
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
