"""What is recorded with turns beyond their text, as short JSON and back: equal values of a block stand there once.

What most turns have (a model call, tool calls, answers, source ids, metadata) is read back without being validated again:
a block's checksum says that it is what was written. The rest is the value's own JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from trails.model.values import NO_FACTS, PLAIN_RESULT, Facts, ModelCall, ToolCall, ToolResult

_RARE: Final = {"compaction", "meta_withheld", "quoted_from", "derived_from", "withheld"}
_NOTHING: Final = 0
"""Stands for no facts, and is their number; among facts it stands for no calls, answers or source ids."""


def encode(facts: Sequence[Facts]) -> tuple[bytes, str]:
    """Return a number for the facts of each of up to 250 turns, and what the numbers stand for, as text; `Recorded` reads it.

    >>> encode([NO_FACTS, NO_FACTS])
    (b'\\x00\\x00', '')
    >>> encode([Facts(source_ids=("a",)), NO_FACTS, Facts(source_ids=("a",))])
    (b'\\x01\\x00\\x01', '[[],[0,[null,0,0,["a"],null]]]')
    """
    models: dict[Any, int] = {}
    said: dict[Any, int] = {_NOTHING: _NOTHING}
    numbers = bytes([said.setdefault(_short(each, models), len(said)) for each in facts])
    return numbers, json.dumps([[*models], [*said]], ensure_ascii=False, separators=(",", ":")) if any(numbers) else ""


def _short(facts: Facts, models: dict[Any, int]) -> Any:
    """Return facts in short, of which a model call is its number among `models`, or where they are rare, as their own JSON."""
    if facts.is_empty():
        return _NOTHING
    model = facts.model_call
    is_rare = any(getattr(facts, name) is not None for name in _RARE) or (model is not None and model.call is not None)
    if is_rare or any(result.told for result in facts.tool_results):
        return facts.model_dump_json(exclude_defaults=True)
    return (
        None if model is None else models.setdefault((model.model, model.usage_json, model.stop_reason), len(models)),
        tuple([(call.id, call.name, call.arguments, call.withheld) for call in facts.tool_calls]) or _NOTHING,
        tuple([(result.call_id, result.is_error) for result in facts.tool_results]) or _NOTHING,
        facts.source_ids or _NOTHING,
        facts.meta_json,
    )


def of_short(said: Sequence[list[Any]]) -> list[Facts]:
    """Return facts that are given in short, as `Recorded.short` gives what is not rare.

    >>> of_short([[["m", None, None], 0, [["c", False]], 0, None]])[0].tool_results[0].call_id
    'c'
    """
    models: dict[Any, int] = {}
    numbered = [[None if m is None else models.setdefault(tuple(m), len(models)), *more] for m, *more in said]
    return _common(_model_calls(models), numbered)


def _model_calls(models: Iterable[Sequence[str | None]]) -> list[ModelCall]:
    return ModelCall.trusted_all(
        [{"model": name, "usage_json": usage, "stop_reason": why, "call": None} for name, usage, why in models]
    )


class Recorded:
    """What is recorded with the turns of a block: each different value is made once, when it is asked for."""

    __slots__ = ("_made", "_models", "_said")
    _said: list[Any]

    def __init__(self, text: str) -> None:
        """Take what `encode` wrote."""
        models: list[Any]
        models, self._said = json.loads(text) if text else ([], [_NOTHING])
        self._models = _model_calls(models)
        self._made: list[Facts | None] = [NO_FACTS, *[None] * (len(self._said) - 1)]

    def of(self, numbers: bytes) -> list[Facts]:
        """Return the facts that some turns have by their numbers.

        >>> Recorded('[[],[0,[null,0,0,["a"],null]]]').of(b"\\x01\\x00")[0].source_ids
        ('a',)
        """
        made, said = self._made, self._said
        new = [each for each in set(numbers) if made[each] is None]
        if new:
            common = [each for each in new if not isinstance(said[each], str)]
            for number, facts in zip(common, _common(self._models, [said[each] for each in common]), strict=True):
                made[number] = facts
            for number in new:
                if isinstance(said[number], str):
                    made[number] = Facts.model_validate_json(said[number])
        return list(map(made.__getitem__, numbers))  # type: ignore[arg-type] # each of them is made

    def short(self, numbers: bytes) -> list[Any]:
        """Return by their numbers what some turns have, in short: 0 for nothing, JSON for what is rare, else a list.

        That has name, usage and reason to stop of the model call, or None; calls and answers, each a list of lists, and source
        ids, or 0; and the metadata, or None.

        >>> Recorded('[[["m",null,null]],[0,[0,0,[["c",false]],0,null]]]').short(b"\\x01\\x00")
        [[['m', None, None], 0, [['c', False]], 0, None], 0]
        """
        made = [[each.model, each.usage_json, each.stop_reason] for each in self._models]
        said = [
            [None if each[0] is None else made[each[0]], *each[1:]] if isinstance(each, list) else each
            for each in self._said
        ]
        return list(map(said.__getitem__, numbers))


def _common(models: Sequence[ModelCall], said: Sequence[Any]) -> list[Facts]:
    """Return facts that are no rare ones; what many have in common is copied, in two thirds of the time of writing it."""
    made = []
    calls: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for model, asked, answered, sources, meta in said:
        values = _NONE.copy()
        if model is not None:
            values["model_call"] = models[model]
        for call_id, name, arguments, withheld in asked or ():
            calls.append({"id": call_id, "name": name, "arguments": arguments, "withheld": withheld})
        for call_id, is_error in answered or ():
            result = _PLAIN.copy()
            result["call_id"] = call_id
            result["is_error"] = is_error
            results.append(result)
        if sources:
            values["source_ids"] = tuple(sources)
        values["meta_json"] = meta
        made.append(values)
    each_call, each_result = iter(ToolCall.trusted_all(calls)), iter(ToolResult.trusted_all(results))
    for values, (_, asked, answered, _, _) in zip(made, said, strict=True):
        if asked:
            values["tool_calls"] = tuple(islice(each_call, len(asked)))
        if answered:
            values["tool_results"] = tuple(islice(each_result, len(answered)))
    return Facts.trusted_all(made)


_NONE: Final = dict(NO_FACTS)
_PLAIN: Final = {"call_id": "", "is_error": False} | PLAIN_RESULT
