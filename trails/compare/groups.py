"""Branches put together: by equal values in columns, by patterns of their names, by how they came out. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from trails import tables
from trails.compare.statistics import Aggregate
from trails.errors import InvalidInput
from trails.tables import Kind

ROOT: Final = "(root)"
MISSING: Final = "(missing)"
ARM: Final = "arm"
"""The column that says which of the patterns given a branch's label or id matches."""
OUTCOME: Final = ("parent", "fork_index", "own_turns", "models", "tools", "last_answer")
"""Branches that agree in these came out the same, however many tokens each took."""
_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """The branches that have the same values in the columns grouped by, in order, and aggregates of all numeric columns.

    The session whose forks are compared is a group of its own, named `(root)`: what is tried on its forks was not tried on
    it. Where several are compared, those of them are in it that have no value in any of the columns. Any other is named by
    its values, with `(missing)` for none. A column in which no branch of the group has a number has no aggregate, nor have
    places, identifiers (`Repository.compare` says which) or what is grouped by.
    """

    name: str
    key: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    aggregates: Mapping[str, Aggregate]

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the group as plain values, ready for JSON: its branches by session id, all its aggregates."""
        return {
            "name": self.name,
            "key": tables.plain(self.key),
            "count": len(self),
            "aggregates": {name: aggregate.to_dict() for name, aggregate in self.aggregates.items()},
            "sessions": [row["session"] for row in self.rows],
        }


def grouped(
    rows: Sequence[_Row], by: Sequence[str], kinds: Mapping[str, Kind], roots: Collection[str]
) -> tuple[Group, ...]:
    """Return the groups of rows that have the same values in some columns, the roots' first, then in order of the values."""
    apart = frozenset(
        row["session"]
        for row in rows
        if row["session"] in roots and (len(roots) == 1 or all(row[name] is None for name in by))
    )
    found: dict[tuple[Any, ...], list[_Row]] = {}
    for row in rows:
        values = tuple(rank(row[name]) for name in by)
        found.setdefault((row["session"] not in apart, values), []).append(row)
    numeric = [name for name, kind in kinds.items() if kind in ("integer", "number") and name not in by]
    return tuple(
        _group(ROOT if not is_fork else _name(members[0], by, kinds), members, by, numeric)
        for (is_fork, _), members in sorted(found.items())
    )


def _group(name: str, members: Sequence[_Row], by: Sequence[str], numeric: Sequence[str]) -> Group:
    reckoned = {column: Aggregate.of([row[column] for row in members]) for column in numeric}
    aggregates = {column: found for column, found in reckoned.items() if found is not None}
    return Group(name, {column: members[0][column] for column in by}, tuple(members), aggregates)


def _name(row: _Row, by: Sequence[str], kinds: Mapping[str, Kind]) -> str:
    values = (" ".join(tables.text(row[column], kinds[column]).split()) for column in by)
    return ", ".join(value or MISSING for value in values)


def named_by_what_differs(groups: Sequence[Group], kinds: Mapping[str, Kind]) -> list[Group]:
    """Return groups named by those of their values alone in which they differ, the root aside; by all where none differs."""
    forks = [group for group in groups if group.name != ROOT]
    by = list(groups[0].key) if groups else []
    differ = [column for column in by if len({rank(group.key[column]) for group in forks}) > 1] or by
    return [each if each.name == ROOT else replace(each, name=_name(each.key, differ, kinds)) for each in groups]


def rank(value: Any) -> tuple[Any, ...]:
    """Return what orders the values of a column: numbers, texts (upper and lower case alike), the rest; missing last.

    Values with the same rank are the same value; 1 and 1.0 are, True is another.
    """
    match value:
        case None:
            return (9,)
        case bool():
            return (0, value)
        case int() | float():
            return (1, value)
        case str():
            return (2, value.casefold(), value)
        case datetime() | tuple():  # times, and names of models
            return (3, value)
    return (4, json.dumps(tables.plain(value), sort_keys=True))


# --- arms by the pattern of a name


def patterns(arms: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Return arms by name, each with its pattern; a pattern given alone is its own name.

    Raises `InvalidInput` for no arm and for what is no text.
    """
    if isinstance(arms, str):
        raise InvalidInput(f"arms are several patterns, not one text: arms=[{arms!r}, ...]")
    found = dict(arms) if isinstance(arms, Mapping) else {pattern: pattern for pattern in arms}
    if not found:
        raise InvalidInput("name at least one arm, or leave the arms out")
    for name, pattern in found.items():
        if any(type(text) is not str or not text.strip() for text in (name, pattern)):
            raise InvalidInput(f"an arm is a name with a pattern, both texts, not {name!r} with {pattern!r}")
    return found


def arm_of(row: _Row, arms: Mapping[str, str]) -> str | None:
    """Return the first arm whose pattern matches a branch's label or, where it has none, its id; None for no such arm.

    In a pattern `*` is any text, `?` any character, `[ab]` one of some; upper and lower case differ.

    >>> arm_of({"label": "few-shot 3", "session": "s"}, {"few": "few-*", "rest": "*"})
    'few'
    """
    called = row["label"] or row["session"]
    return next((name for name, pattern in arms.items() if fnmatchcase(called, pattern)), None)


# --- identifiers

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")
_IDENTIFYING: Final = frozenset({"id", "ids", "uuid", "guid", "seed", "index", "idx", "hash", "digest", "pid", "port"})


def is_identifier(key: str) -> bool:
    """Tell by the name of a metadata key that its numbers say which, not how much: its last word is `id`, `seed` or alike.

    >>> [is_identifier(key) for key in ("seed", "run_id", "runId", "random-seed", "paid", "temperature")]
    [True, True, True, True, False, False]
    """
    words = _WORD.findall(key)
    return bool(words) and words[-1].lower() in _IDENTIFYING
