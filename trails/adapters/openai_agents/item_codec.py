"""Turn the items of the OpenAI Agents SDK into turns, and turns into the same items again.

Each item is one turn. A message is a turn in its role with its content. A function call, an output, a reasoning item or a call of
a hosted tool is a turn with the item as its one part, in the role `assistant` or `tool`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trails.adapters.json_objects import check_json
from trails.context.messages import messages_of
from trails.context.provider_messages import responses_items
from trails.errors import InvalidInput
from trails.history.turn_builder import Draft, make_draft
from trails.model import validation
from trails.model.values import Turn

Item = Mapping[str, Any]
KEPT: Final = "openaiItem"
"""The metadata key for what an item says beyond role and content: the item without its content, the whole item as JSON text, or
True where the item is the turn's one part and its type does not say so."""
_PLAIN_ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
"""The roles of the SDK: a turn in one of them says its item's role without metadata."""
_ITEM_TYPES: Final = frozenset({"reasoning", "compaction", "item_reference", "mcp_list_tools", "mcp_approval_request"})
_ITEM_ENDINGS: Final = ("_call", "_call_output")
_ANSWER_ENDINGS: Final = ("_output", "_response")


def draft_of(item: Item, **facts: Any) -> Draft:
    """Return the turn of an item; `facts` are further options of `make_draft`, such as `usage`.

    Raises `InvalidInput` for what is no JSON object and for what is too long.
    """
    if not isinstance(item, Mapping):
        raise InvalidInput(f"an item is a mapping, not {type(item).__name__}: give it as the SDK's input items are")
    check_json(item, "an item")
    try:
        if _is_message(item):
            return _message_draft(item, facts)
        return _part_draft(item, facts)
    except InvalidInput:  # seldom: text with half a character, very deep nesting, a number that is none
        return _text_draft(item, facts)


def _is_message(item: Item) -> bool:
    role, content = item.get("role"), item.get("content")
    has_parts = isinstance(content, list) and all(isinstance(part, dict | str) for part in content)
    is_message = item.get("type", "message") == "message" and isinstance(role, str)
    return is_message and role != "" and (isinstance(content, str) or has_parts)


def _message_draft(item: Item, facts: Mapping[str, Any]) -> Draft:
    content, role = item["content"], item["role"]
    is_plain = isinstance(content, str) and [*item] == ["role", "content"] and role in _PLAIN_ROLES
    meta = None if is_plain else {KEPT: {**item, "content": None}}
    return make_draft(role, content, meta=meta, as_content=True, **facts)


def _part_draft(item: Item, facts: Mapping[str, Any]) -> Draft:
    kind = item.get("type")
    meta = None if _says_its_type(kind) else {KEPT: True}
    role = "tool" if isinstance(kind, str) and kind.endswith(_ANSWER_ENDINGS) else "assistant"
    try:
        return make_draft(role, [dict(item)], meta=meta, **facts)
    except InvalidInput:  # a call without a name, an answer without an id
        return make_draft(role, [dict(item)], meta=meta, as_content=True, **facts)


def _says_its_type(kind: object) -> bool:
    return isinstance(kind, str) and (kind in _ITEM_TYPES or kind.endswith(_ITEM_ENDINGS))


def _text_draft(item: Item, facts: Mapping[str, Any]) -> Draft:
    try:
        exact = json.dumps(item)
        readable = json.dumps(item, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the item cannot be kept as JSON: {error}") from error
    role = item["role"] if _is_message(item) and validation.fits(item["role"]) else "assistant"
    try:
        return make_draft(role, readable.decode("utf-16-le", "replace"), meta={KEPT: exact}, **facts)
    except InvalidInput:
        return make_draft("assistant", readable.decode("utf-16-le", "replace"), meta={KEPT: exact}, **facts)


def items_of(turn: Turn) -> list[dict[str, Any]]:
    """Return the item of a turn as it was; of a turn that was written otherwise, or redacted, the items that say the same."""
    meta_json = turn.facts.meta_json
    kept: Any = turn.meta.get(KEPT) if meta_json is not None and KEPT in meta_json else None
    if turn.redacted:
        return _redacted_items(turn)
    if kept is None:
        return [_plain_item(turn)] if _is_plain(turn) else list(_others(turn))
    if isinstance(kept, str):
        try:
            return [json.loads(kept)]
        except ValueError:  # a text in it was redacted, and with it all of it
            return list(_others(turn))
    if kept is True:
        return [turn.content[0]]
    return [kept | {"content": turn.content}] if _is_whole(kept, turn) else list(_others(turn))


def _redacted_items(turn: Turn) -> list[dict[str, Any]]:
    """Return what is left of a redacted turn: its calls, or one item that says that it was redacted."""
    items = list(_others(turn))
    calls = [item for item in items if "call_id" in item]
    return calls or items


def _is_whole(kept: Mapping[str, Any], turn: Turn) -> bool:
    """Tell whether a redaction left the words by which a message is one."""
    has_type = kept.get("type", "message") == "message" and kept.get("redacted") != "message"
    return has_type and kept.get("role") == turn.role and "content" in kept


def _is_plain(turn: Turn) -> bool:
    """Tell whether a turn without metadata is an item's: a message's text, or the part that an item is."""
    if not turn.structured:
        return not (turn.tool_calls or turn.tool_results) and turn.role in _PLAIN_ROLES
    content = turn.content
    return len(content) == 1 and isinstance(content[0], dict) and _says_its_type(content[0].get("type"))


def _plain_item(turn: Turn) -> dict[str, Any]:
    content = turn.content
    return {"role": turn.role, "content": content} if isinstance(content, str) else dict(content[0])


def _others(turn: Turn) -> Iterator[dict[str, Any]]:
    yield from responses_items(None, messages_of(turn))["input"]
