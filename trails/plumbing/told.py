"""What a host tells of a model call, and of the tool calls that a turn answers: checked. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from trails import validate
from trails.decoding import InvalidFields
from trails.errors import InvalidInput
from trails.model import Call, ContextUsed, ToolResult
from trails.plumbing import actors

_ALL: Final = ContextUsed()
_FIELDS: Final = frozenset(ToolResult.model_fields)


def call(given: Call | None) -> Call | None:
    """Return what is told of a model call as it is kept, None for nothing; raise `InvalidInput` for what cannot be."""
    if given is None:
        return None
    if not isinstance(given, Call):
        raise InvalidInput(f"call must be a trails.Call, not {type(given).__name__}")
    started, ended = _span(given.started, given.ended, "the model call")
    if given.prompt is not None and validate.index(given.prompt, "the version of the system prompt") == 0:
        raise InvalidInput("the versions of a system prompt are counted from 1; leave prompt out where there was none")
    values = {
        "started": started,
        "ended": ended,
        "provider": None if given.provider is None else validate.name(given.provider, "provider"),
        "prompt": given.prompt,
        "context": None if given.context is None else _context(given.context),
    }
    return None if all(value is None for value in values.values()) else Call.trusted(values)


def _context(given: ContextUsed) -> ContextUsed | None:
    if given == _ALL:
        return None
    for index in (given.through, given.summary, *given.left_out):
        if index is not None:
            validate.index(index, "the index of a turn in the context")
    return given.model_copy(update={"left_out": tuple(sorted(set(given.left_out)))})


def _span(started: datetime | None, ended: datetime | None, what: str) -> tuple[datetime | None, datetime | None]:
    """Return two times in UTC; raise `InvalidInput` where the end comes before the start."""
    first = None if started is None else validate.time(started, "started")
    last = None if ended is None else validate.time(ended, "ended")
    if first is not None and last is not None and first > last:
        raise InvalidInput(f"{what} ended at {last.isoformat()}, before it started at {first.isoformat()}")
    return first, last


# --- answers to tool calls


def results(given: Iterable[ToolResult | Mapping[str, Any]], found: Sequence[ToolResult]) -> tuple[ToolResult, ...]:
    """Return a turn's answers: those `found` in its content, with what is told of them, then the others that are `given`."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidInput(f"tool results must be several mappings or ToolResults, not {type(given).__name__}")
    told: dict[str, ToolResult] = {}
    for each in map(_result, given):
        if each.call_id in told:
            raise InvalidInput(f"the tool results tell of the call {each.call_id!r} twice; tell all of it in one")
        told[each.call_id] = each
    joined = []
    for answer in found:
        more = told.pop(answer.call_id, None)
        is_error = answer.is_error or (more is not None and more.is_error)
        joined.append(answer if more is None else more.model_copy(update={"is_error": is_error}))
    return (*joined, *told.values())


def _result(given: ToolResult | Mapping[str, Any]) -> ToolResult:
    if isinstance(given, Mapping):
        if unknown := sorted(str(key) for key in given if key not in _FIELDS):
            raise InvalidInput(f"a tool result has no {unknown[0]!r}; it has {', '.join(sorted(_FIELDS))}")
        try:
            given = ToolResult(**given)
        except InvalidFields as error:
            raise InvalidInput(f"a tool result cannot be kept: {error}") from error
    if not isinstance(given, ToolResult):
        raise InvalidInput(f"a tool result must be a mapping or a ToolResult, not {type(given).__name__}")
    call_id = validate.name(given.call_id, "a tool result's call_id")
    started, ended = _span(given.started, given.ended, f"the tool call {call_id!r}")
    names = {
        name: None if text is None else validate.name(text, f"a tool's {name}")
        for name, text in (("server", given.server), ("version", given.version), ("tool", given.tool))
    }
    people = {
        "approved_by": actors.named(given.approved_by, "approved_by"),
        "refused_by": actors.named(given.refused_by, "refused_by"),
    }
    return given.model_copy(update={"started": started, "ended": ended, **names, **people})
