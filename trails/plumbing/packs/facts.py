"""What is recorded with a turn beyond its text, as short JSON and back. Pure.

What most turns have (a model call, tool calls, answers, source ids, metadata) is read back without being validated again:
a block's checksum says that it is what was written. The rest is the value's own JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from trails.model import NO_FACTS, PLAIN_RESULT, Facts, ModelCall, ToolCall, ToolResult

_RARE: Final = {"compaction", "meta_withheld", "quoted_from", "derived_from", "withheld"}


def encode(facts: Sequence[Facts]) -> str:
    """Return the facts of several turns as text, empty where none has any; `decode` and `made` give them back.

    >>> encode([NO_FACTS]), encode([NO_FACTS, Facts(source_ids=("a",))])
    ('', '[0,[null,[],[],["a"],null]]')
    """
    if all(each is NO_FACTS for each in facts):
        return ""
    return json.dumps([_short(each) for each in facts], ensure_ascii=False, separators=(",", ":"))


def _short(facts: Facts) -> Any:
    if facts.is_empty():
        return 0
    model = facts.model_call
    is_rare = any(getattr(facts, name) is not None for name in _RARE) or (model is not None and model.call is not None)
    if is_rare or any(result.told for result in facts.tool_results):
        return facts.model_dump(mode="json", exclude_defaults=True)
    return [
        None if model is None else [model.model, model.usage_json, model.stop_reason],
        [[call.id, call.name, call.arguments, call.withheld] for call in facts.tool_calls],
        [[result.call_id, result.is_error] for result in facts.tool_results],
        facts.source_ids,
        facts.meta_json,
    ]


def decode(text: str) -> list[Any]:
    """Return what `encode` wrote of each turn, of which `made` makes its facts; nothing where no turn had any.

    >>> [each.source_ids for each in made(decode(encode([NO_FACTS, Facts(source_ids=("a",))])))]
    [(), ('a',)]
    """
    found: list[Any] = json.loads(text) if text else []
    return found


def made(said: Iterable[Any]) -> list[Facts]:
    """Return the facts of turns, of what `decode` gave of them."""
    found = []
    for each in said:
        if not each:
            found.append(NO_FACTS)
        elif isinstance(each, dict):
            found.append(Facts.model_validate_json(json.dumps(each)))
        else:
            found.append(_common(each))
    return found


_facts, _model, _call, _result = Facts.maker(), ModelCall.maker(), ToolCall.maker(), ToolResult.maker()


def _common(said: list[Any]) -> Facts:
    model, calls, results, sources, meta = said
    if model is not None:
        name, usage, stop_reason = model
        model = _model({"model": name, "usage_json": usage, "stop_reason": stop_reason, "call": None})
    return _facts(
        {
            "model_call": model,
            "tool_calls": tuple(
                [
                    _call({"id": call_id, "name": name, "arguments": arguments, "withheld": withheld})
                    for call_id, name, arguments, withheld in calls
                ]
            )
            if calls
            else (),
            "tool_results": tuple(
                [_result(PLAIN_RESULT | {"call_id": call_id, "is_error": error}) for call_id, error in results]
            )
            if results
            else (),
            "compaction": None,
            "source_ids": tuple(sources),
            "meta_json": meta,
            "meta_withheld": None,
            "quoted_from": None,
            "derived_from": None,
            "withheld": None,
        }
    )
