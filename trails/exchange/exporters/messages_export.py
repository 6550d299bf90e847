"""Transcripts as chat models are tuned on them: JSON lines of `{"messages": [...]}`, a line a session, in OpenAI's shape.

What came from such a file goes back as it was: the fields of its record and of each message. Of other sessions a line has what a
model was shown turn by turn, but no summaries: the turns that they stand for are there themselves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from trails.context import provider_messages
from trails.context.messages import HEADINGS, Thought, messages_of
from trails.exchange import json_files
from trails.exchange.exporters.session_family import Family, Member, SessionExport, report
from trails.exchange.json_files import as_list, as_object, without_keys
from trails.model.content_parts import calls_in, results_in
from trails.model.sdk_messages import API
from trails.model.values import ToolCall, Turn

FORMAT: Final = "messages"
_SOURCE: Final = "messages:"
"""What the source of a session begins with that was imported from such a file."""
_OF_A_RECORD: Final = ("tools", "parallel_tool_calls", "functions")
_ALWAYS: Final = ("ids, times, authors, models, usage, metadata, tags, notes, scores, and which turns branches share",)

_Json = dict[str, Any]
_LOST: Final = {
    "session": "without a message, so without a line", "summary turn": "what they stand for is there itself",
    "part": "thought by a model and not said", "turn": "nothing in it that a model is shown",
    "redacted turn": "[redacted] stands there", "unanswered tool call": "called, and never answered",
    "tool-calling session": "without definitions of the tools", "payload": "bytes beside the content",
}  # fmt: skip


def export(family: Family, out: BinaryIO) -> SessionExport:
    """Write a line for each session that was asked for, and return what was written; one without a message has no line."""
    lost: Counter[str] = Counter()
    for member in family.asked():
        record = _record(member, family.transcript(member), lost)
        if record["messages"]:
            out.write(json_files.json_line(record))
        else:
            lost["session"] += 1
    return report(FORMAT, family, _ALWAYS, _LOST, lost)


def _record(member: Member, turns: list[Turn], lost: Counter[str]) -> _Json:
    lost["redacted turn"] += sum(turn.redacted for turn in turns)
    lost["payload"] += sum(len(turn.payloads) for turn in turns)
    asked = {call.id for turn in turns for call in turn.tool_calls}
    lost["unanswered tool call"] += len(asked - {result.call_id for turn in turns for result in turn.tool_results})
    meta: dict[str, Any] = {}
    for record in reversed(member.chain):
        meta |= record.meta
    came = all((record.source_session or _SOURCE).startswith(_SOURCE) for record in member.chain)
    if came and member.chain[-1].source_session is not None:
        messages = [message for turn in turns for message in _as_it_was(turn, lost)]
        beside = meta
    else:
        messages = list(_as_shown(turns, lost))
        beside = {name: meta[name] for name in _OF_A_RECORD if isinstance(meta.get(name), list | bool)}
    if member.prompt is not None and not member.prompt.redacted:
        messages.insert(0, {"role": "system", "content": member.prompt.text})
    if asked and "tools" not in beside and "functions" not in beside:
        lost["tool-calling session"] += 1
    return {"messages": messages, **without_keys(beside, "messages")}


def _as_shown(turns: list[Turn], lost: Counter[str]) -> Iterator[_Json]:
    for turn in turns:
        if turn.role in HEADINGS:
            lost["summary turn"] += 1
            continue
        said = messages_of(turn)
        lost["part"] += sum(isinstance(piece, Thought) for each in said for piece in each.pieces)
        made = provider_messages.openai_messages(None, said)
        lost["turn"] += not made
        yield from made


def _as_it_was(turn: Turn, lost: Counter[str]) -> Iterator[_Json]:
    """Yield the message that a turn was made from; turns that were written here look like those that came."""
    if turn.role in HEADINGS or turn.role == "delivery":
        lost["summary turn" if turn.role in HEADINGS else "turn"] += 1
        return
    content: Any = "[redacted]" if turn.redacted else turn.content
    parts = as_list(content)
    in_parts = {call.id for call in calls_in(parts)}
    results = results_in(parts)
    kinds = {str(as_object(part).get("type")) for part in parts}
    is_anthropic = turn.role == "tool" and kinds == {"tool_result"}
    message: _Json = {"role": "user" if is_anthropic else turn.role, "content": content}
    if calls := [call for call in turn.tool_calls if call.id not in in_parts]:
        beside = as_object(turn.meta.get("tool_calls"))
        message["tool_calls"] = [_call(call, as_object(beside.get(call.id))) for call in calls]
        message["content"] = content or turn.meta.get("content")
    if isinstance(content, list) and (refusals := [p["refusal"] for p in content if _is_refusal(p)]):
        rest = [part for part in content if not _is_refusal(part)]
        only = rest[0] if len(rest) == 1 and isinstance(rest[0], dict) else {}
        said = only["text"] if only.keys() == {"type", "text"} and only["type"] == "text" else rest
        message |= {"content": said or turn.meta.get("content"), "refusal": "\n".join(refusals)}
    if turn.tool_results and not results:
        message["tool_call_id"] = turn.tool_results[0].call_id
    if turn.tool_results and not turn.redacted and turn.tool_results[0].is_error and not results:
        message["is_error"] = True
    if (call := turn.facts.model_call) is not None:
        told = {"model": call.model, "usage": call.usage, "stop_reason": call.stop_reason}
        message |= {name: value for name, value in told.items() if value}
    yield message | without_keys(turn.meta, *message, API)


def _is_refusal(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "refusal" and isinstance(part.get("refusal"), str)


def _call(call: ToolCall, told: _Json) -> _Json:
    arguments = call.arguments or "{}"
    if arguments.startswith('"'):  # a text that was no JSON, as models write it
        arguments = json.loads(arguments)
    if told.get("type") == "custom":
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": arguments}}
    function = {"name": call.name, "arguments": told.get("arguments", arguments)}
    return {"id": call.id, "type": "function", "function": function} | without_keys(told, "arguments")
