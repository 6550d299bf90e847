"""What differs between two JSON values, place by place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from trails.diff import sequences
from trails.diff.words import Span, spans

MAX_DEPTH: Final = 100
"""Values nested deeper than this are compared as a whole."""

EditKind = Literal["added", "removed", "changed"]
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Edit:
    """One place in a JSON value that differs.

    `path` is a JSONPath such as `$.items[2].name`: as it stands on the left for what was removed or changed, on the
    right for what was added. `left` and `right` are the values as JSON text, None where there is none.
    """

    kind: EditKind
    path: str
    left: str | None
    right: str | None

    @property
    def words(self) -> tuple[Span, ...]:
        """What differs inside, word by word, where a text was changed into another; else empty."""
        if self.left is None or self.right is None:
            return ()
        old, new = json.loads(self.left), json.loads(self.right)
        return spans(old, new) if isinstance(old, str) and isinstance(new, str) else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the edit as plain values, ready for JSON; a side is left out where it has no value."""
        plain: dict[str, Any] = {"kind": self.kind, "path": self.path}
        if self.left is not None:
            plain["left"] = json.loads(self.left)
        if self.right is not None:
            plain["right"] = json.loads(self.right)
        return plain


def canonical(value: Any) -> str:
    """Return the JSON text of a value with sorted keys: equal for values that differ in the order of keys alone."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def canonical_text(text: str) -> str:
    """Return JSON text in canonical form; text that is no JSON, or is nested too deep to be read, as it is."""
    try:
        return canonical(json.loads(text))
    except (ValueError, RecursionError):
        return text


def compare(left: Any, right: Any) -> tuple[Edit, ...]:
    """Return what differs between two JSON values; empty where they differ in nothing but the order of keys.

    Items of lists are aligned, so an item put in front changes one place, not all. 1, 1.0 and true are different.

    >>> [(e.kind, e.path, e.left, e.right) for e in compare({"to": "Bern", "n": 1}, {"n": 2, "by": ["train"]})]
    [('removed', '$.to', '"Bern"', None), ('changed', '$.n', '1', '2'), ('added', '$.by', None, '["train"]')]
    """
    return tuple(_edits(left, right, "$", 0))


def _edits(left: Any, right: Any, path: str, depth: int) -> Iterator[Edit]:
    if depth < MAX_DEPTH and isinstance(left, Mapping) and isinstance(right, Mapping):
        yield from _object_edits(left, right, path, depth + 1)
    elif depth < MAX_DEPTH and isinstance(left, list) and isinstance(right, list):
        yield from _list_edits(left, right, path, depth + 1)
    elif (old := canonical(left)) != (new := canonical(right)):
        yield Edit("changed", path, old, new)


def _object_edits(left: Mapping[str, Any], right: Mapping[str, Any], path: str, depth: int) -> Iterator[Edit]:
    for key, value in left.items():
        place = path + _step(key)
        if key in right:
            yield from _edits(value, right[key], place, depth)
        else:
            yield Edit("removed", place, canonical(value), None)
    for key, value in right.items():
        if key not in left:
            yield Edit("added", path + _step(key), None, canonical(value))


def _list_edits(left: Sequence[Any], right: Sequence[Any], path: str, depth: int) -> Iterator[Edit]:
    yield from _item_edits(list(enumerate(left)), list(enumerate(right)), path, depth)


def compare_lists(left: Sequence[tuple[int, Any]], right: Sequence[tuple[int, Any]]) -> tuple[Edit, ...]:
    """Return what differs between some of the items of two lists, each given with its place in its list."""
    return tuple(_item_edits(left, right, "$", 1))


def _item_edits(
    left: Sequence[tuple[int, Any]], right: Sequence[tuple[int, Any]], path: str, depth: int
) -> Iterator[Edit]:
    kept = sequences.matches([canonical(item) for _, item in left], [canonical(item) for _, item in right])
    i = j = 0
    for row, column in (*kept, (len(left), len(right))):
        paired = min(row - i, column - j)
        for (place, old), (_, new) in zip(left[i : i + paired], right[j : j + paired], strict=True):
            yield from _edits(old, new, f"{path}[{place}]", depth)
        for place, old in left[i + paired : row]:
            yield Edit("removed", f"{path}[{place}]", canonical(old), None)
        for place, new in right[j + paired : column]:
            yield Edit("added", f"{path}[{place}]", None, canonical(new))
        i, j = row + 1, column + 1


def _step(key: str) -> str:
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"
