"""One entry of a pi session file, and the turn that it makes.

==========================================  ====================  =====================================================
entry (and the role of its message)         role of the turn      what becomes of it
==========================================  ====================  =====================================================
message, user                               user                  content
message, assistant                          assistant             content; model, usage, stopReason
message, assistant, a delivery mirror       delivery              content; all else stays in the metadata: no model said it
message, toolResult                         tool                  content; toolCallId, isError
message, bashExecution                      bash                  output
message, custom; custom_message             custom                content
message, branchSummary; branch_summary      branch_summary        summary
message, compactionSummary                  compaction_summary    summary (no compaction of the chain: it drops nothing)
message, any other role                     that role             content
compaction                                  summary               summary; `Compaction` with indices of its own path
model_change, thinking_level_change, custom no turn               kept in the metadata of the next turn (`piBefore`), or
                                                                  of the session (`piAfter`) where no turn follows
label; session_info                         no turn               the session's metadata `labels`; its title; `piAside`
==========================================  ====================  =====================================================

What of an entry does not fit a turn's own fields stands in the turn's metadata `pi`: the entry, without what became the
turn's own. So `pi_export` can write the entry again. A field `trails` in an entry or a header is `pi_export`'s: what a
turn from elsewhere says that pi's own fields cannot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from pydantic import Field, ValidationError

from trails.context.messages import DELIVERY
from trails.errors import InvalidInput
from trails.exchange.json_files import without_keys
from trails.exchange.record_checks import parse_time
from trails.exchange.source_transcript import Piece, SourceTurn
from trails.history import turn_builder
from trails.model import content_parts, validation
from trails.model.values import Call, Compaction, ToolResult, Value
from trails.usage import with_source

ROLES: Final = {
    "user": "user", "assistant": "assistant", "toolResult": "tool", "bashExecution": "bash", "custom": "custom",
    "branchSummary": "branch_summary", "compactionSummary": "compaction_summary",
}  # fmt: skip
"""The roles of messages and the turns' roles that they become."""
ENTRY_ROLES: Final = {"compaction": "summary", "branch_summary": "branch_summary", "custom_message": "custom"}
"""The types of entries that make a turn without being a message, and the turns' roles."""
CONTENT_KEYS: Final = {
    "bashExecution": "output", "branchSummary": "summary", "compactionSummary": "summary", "compaction": "summary",
    "branch_summary": "summary",
}  # fmt: skip
"""Where the text stands that becomes a turn's content, by message role or entry type; elsewhere it is `content`."""

BETWEEN: Final = frozenset({"model_change", "thinking_level_change", "custom"})
OF_SESSION: Final = frozenset({"label", "session_info"})
_MAX_NUMBER: Final = 2**53
_MIRROR: Final = "delivery-mirror"

_Json = dict[str, Any]


class Noted(Value):
    """What `pi_export` notes in an entry, in the field `trails`: values that pi's own fields cannot give."""

    part_of: str | None = None
    """The id of the entry that the whole turn is read from; this one repeats a part of it where pi needs it."""
    plain: bool = False
    """The content is the text of the only part, or an empty one where there is none beside the calls."""
    beside: int = Field(default=0, ge=0)
    """How many parts, the last ones, are calls that were given beside the content and are no part of it."""
    tool_calls: tuple[dict[str, Any], ...] = ()
    content: str | tuple[dict[str, Any] | str, ...] = ""
    role: str = ""
    author: str | None = None
    time: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    stop_reason: str | None = None
    tool_call_id: str | None = None
    is_error: bool = False
    tool_results: tuple[ToolResult, ...] = ()
    call: Call | None = None
    compaction: Compaction | None = None
    meta: dict[str, Any] = Field(default_factory=dict)


class NotedHeader(Value):
    """What `pi_export` notes in a header, in the field `trails`."""

    principal: str | None = None
    agent: str | None = None
    system: str | None = None


def read_entry(
    data: Mapping[str, Any], before: Sequence[_Json], places: Mapping[str, int], turns: Sequence[SourceTurn]
) -> SourceTurn | _Json | None:
    """Return the turn that an entry makes, the entry if it is kept with the next turn, or None for neither.

    `before` are the entries kept since the turn before, `turns` the path's turns so far, and `places` says which index
    the first turn at or after an entry of the path has. Raises `InvalidInput` for an entry that cannot be used.
    """
    kind, noted = data["type"], Noted()
    if "trails" in data:
        noted = read_noted(Noted, data["trails"])
    if kind in OF_SESSION or noted.part_of is not None:
        return None
    if kind in BETWEEN:
        kept = without_keys(data, "parentId")
        validation.meta({"piBefore": [kept]})
        return kept
    if kind != "message" and kind not in ENTRY_ROLES:
        raise InvalidInput(f"has a type that is not known: {kind[:80]!r}")
    turn = _apply(noted, _read_turn(data, before, places, turns))
    turn_builder.make_draft(**turn_fields(turn))  # raises for what no store would keep
    return turn


def turn_fields(turn: SourceTurn) -> _Json:
    """Return what a store would keep of a source turn, as the arguments of `draft.make`."""
    names = (
        "role", "content", "author", "time", "model", "usage", "stop_reason", "tool_calls", "tool_call_id", "is_error",
        "tool_results", "call", "compaction",
    )  # fmt: skip
    return {name: getattr(turn, name) for name in names} | {"meta": turn.meta or None, "timed": False}


_NotedKind = TypeVar("_NotedKind", Noted, NotedHeader)


def read_noted(kind: type[_NotedKind], value: object) -> _NotedKind:
    """Return what `pi_export` noted, or raise `InvalidInput`."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(f"has a field `trails` that cannot be read: {error.errors()[0]['msg']}") from error


def _apply(noted: Noted, turn: SourceTurn) -> SourceTurn:
    """Return a turn with what was noted in its entry in the place of what pi's own fields gave."""
    given = noted.model_fields_set
    fields: _Json = {name: getattr(noted, name) for name in given - {"part_of", "plain", "beside", "content", "time"}}
    if "time" in given:
        fields["time"] = parse_time(noted.time)
    content: str | list[Any] = turn.content
    if noted.beside:
        calls = content[-noted.beside :] if isinstance(content, list) else []
        if len(content_parts.calls_in(calls)) != noted.beside:
            raise InvalidInput("has a field `trails` that counts calls beside its content, and they are not there")
        content = content[: -noted.beside]
        fields.setdefault("tool_calls", tuple(calls))
    if "content" in given:
        fields["pieces"] = (Piece(turn.pieces[0].source_id, noted.content),)
    elif noted.plain or noted.beside:
        plain = only_text(content) if noted.plain else content
        if plain is None:
            raise InvalidInput("has a field `trails` that calls its content plain, and it is not a single text")
        fields["pieces"] = (Piece(turn.pieces[0].source_id, plain if isinstance(plain, str) else tuple(plain)),)
    return replace(turn, **fields) if fields else turn


def only_text(content: str | list[Any]) -> str | None:
    """Return the text of content's only part, an empty one of no parts, None for any other content."""
    match content:
        case []:
            return ""
        case [{"type": "text", "text": str(text), **more}] if not more:
            return text
    return None


def _read_turn(
    data: Mapping[str, Any], before: Sequence[_Json], places: Mapping[str, int], turns: Sequence[SourceTurn]
) -> SourceTurn:
    left = without_keys(data, "id", "parentId", "trails")
    is_message = left["type"] == "message"
    if is_message:
        if not isinstance(left.get("message"), dict):
            raise InvalidInput("has no message")
        left["message"] = holder = dict(left["message"])
        kind = validation.role(holder.get("role"))
        role = DELIVERY if _is_mirror(holder) else ROLES.get(kind, kind)
    else:
        holder, kind = left, left["type"]
        role = ENTRY_ROLES[kind]
    content = _take_content(holder, CONTENT_KEYS.get(kind, "content"))
    fields: _Json = {"time": _take_time(left)}
    if is_message and role == "assistant":
        fields |= {"model": _take_name(holder, "model"), "stop_reason": _take_name(holder, "stopReason")}
        if isinstance(usage := holder.get("usage"), dict) and usage:
            fields["usage"] = with_source(holder.pop("usage"), "pi")
    elif is_message and kind == "toolResult":
        fields["tool_call_id"] = _take_name(holder, "toolCallId")
        if fields["tool_call_id"] is not None and isinstance(holder.get("isError"), bool):
            fields["is_error"] = holder.pop("isError")
    elif kind == "compaction" and not is_message:
        fields["compaction"] = _take_compaction(left, places, turns)
    meta: _Json = {"pi": left}
    if before:
        meta["piBefore"] = list(before)
    levels = [level for e in before if isinstance(level := e.get("thinkingLevel"), str)]
    if levels:
        meta["thinkingLevel"] = levels[-1]
    return SourceTurn(role=role, pieces=(Piece(data["id"], content),), meta=meta, **fields)


def _is_mirror(message: Mapping[str, Any]) -> bool:
    """Tell whether a message is OpenClaw's record of what it sent out over a channel."""
    kind = message.get("role"), message.get("model")
    return kind == ("assistant", _MIRROR) and message.get("provider") in ("clawdbot", "openclaw")


def _take_content(holder: _Json, key: str) -> str | tuple[Any, ...]:
    """Return a message's text or parts, taken out of it; what is neither stays in place, beside an empty text."""
    value = holder.get(key)
    if isinstance(value, str):
        return str(holder.pop(key))
    if isinstance(value, list) and all(isinstance(part, dict | str) for part in value):
        return tuple(holder.pop(key))
    return ""


def _take_name(holder: _Json, key: str) -> str | None:
    try:
        name = validation.name(holder.get(key), key)
    except InvalidInput:
        return None  # it stays where it is, in the turn's metadata
    del holder[key]
    return name


def _take_time(holder: _Json) -> datetime | None:
    """Return an entry's time; its text stays where writing the time again would give another text, or none."""
    time = parse_time(holder.get("timestamp"))
    if time is not None and write_time(time) == holder["timestamp"]:
        del holder["timestamp"]
    return time


def write_time(time: datetime) -> str:
    """Return a time as pi writes it: UTC, milliseconds (microseconds only where there are any), `Z`."""
    precision = "microseconds" if time.microsecond % 1000 else "milliseconds"
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def _take_compaction(left: _Json, places: Mapping[str, int], turns: Sequence[SourceTurn]) -> Compaction:
    """Return what a compaction stands for. Everything before the first entry kept is summarised; if that entry is not
    on the path before it, nothing is kept, as pi reads it.
    """
    index, kept_id, tokens = len(turns), left.get("firstKeptEntryId"), left.get("tokensBefore")
    first_kept = places.get(kept_id, index) if isinstance(kept_id, str) else index
    if first_kept < index and turns[first_kept].source_ids == (kept_id,):
        del left["firstKeptEntryId"]
    if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens < _MAX_NUMBER:
        del left["tokensBefore"]
    else:
        tokens = None
    return Compaction(
        summarised_through=first_kept - 1 if first_kept > 0 else None,
        first_kept=first_kept if first_kept < index else None,
        tokens_before=tokens,
    )
