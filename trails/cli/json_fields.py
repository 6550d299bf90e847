"""`--json=FIELDS`: the fields of an answer that are asked for, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import click

from trails.errors import InvalidInput
from trails.suggestions import did_you_mean

WHOLE: Final = "*"
"""What stands for `--json` without fields."""
_MORE: Final = ("cursor", "more")
"""What says that a list goes on: it stays beside the fields of the rows."""


class JsonOption(click.Option):
    """`--json`, a flag that takes fields after an equals sign.

    Of a command without arguments, the next word can only be the fields. Of another, it is an argument.
    """

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Have the parser never take an argument of the command for the fields."""
        super().add_to_parser(parser, ctx)
        match = parser._match_long_opt  # click has no other way to tell `--json=a` from `--json a`
        has_arguments = any(isinstance(each, click.Argument) for each in ctx.command.params)

        def match_long(opt: str, value: str | None, state: Any) -> None:
            is_bare = opt in self.opts and value is None and has_arguments
            match(opt, WHOLE if is_bare else value, state)

        parser._match_long_opt = match_long


def hint(typed: Sequence[str]) -> str:
    """Return what to say in an error if a list of words follows `--json`, which was taken for an argument.

    >>> hint(["show", "--json", "id,title"])
    '; for fields of the JSON, write --json=id,title'
    """
    word = dict(pairwise(typed)).get("--json", "")
    return f"; for fields of the JSON, write --json={word}" if "," in word else ""


def select(value: Any, fields: Sequence[str], also: Sequence[str] = ()) -> Any:
    """Return of an answer what the fields name: keys of it, or of the rows of its only list if it is a dict.

    A dot goes on to what stands within: `turns.text`. A field that some rows lack is None there; those in `also` may be missing
    everywhere. Raises `InvalidInput` for one that is nowhere, with those that there are. Where there are no rows, none is
    looked for: what may be asked for never depends on how many a store has.

    >>> select({"sessions": [{"id": "a", "turns": 1}, {"id": "b", "turns": 2}], "cursor": None}, ["id"])
    {'sessions': [{'id': 'a'}, {'id': 'b'}], 'cursor': None}
    >>> select({"session": {"id": "a", "label": "x"}, "turns": []}, ["session.id"])
    {'session': {'id': 'a'}}
    """
    if isinstance(value, list | tuple):
        return _picked([value], fields, also)[0]
    answer = _plain(value, fields)
    lists = [name for name, rows in answer.items() if isinstance(rows, list | tuple) and answer is value]
    inner = [each for each in fields if each.partition(".")[0] not in {*answer, *also}]
    if len(lists) != 1 or not inner:
        return _picked([answer], fields, also)[0]
    outer = _picked([answer], [each for each in fields if each not in inner], also)[0]
    more = {name: answer[name] for name in _MORE if name in answer}
    return {**outer, lists[0]: _picked([answer[lists[0]]], inner)[0], **more}


def _picked(values: Sequence[Any], fields: Sequence[str], also: Sequence[str] = ()) -> list[Any]:
    """Return the fields of values that are alike: a row each, or a list of rows; what one row has, all may be asked for."""
    names: dict[str, list[str]] = {}
    for each in fields:
        name, dot, below = each.partition(".")
        names.setdefault(name, []).extend([below] if dot else [])
    given = [
        row for value in values for row in (value if isinstance(value, list | tuple) else [value]) if row is not None
    ]
    if plain := [row for row in given if not _is_row(row)]:
        raise InvalidInput(
            f"{plain[0]!r} has no field {fields[0]!r}: it is a plain value; leave out what follows the dot"
        )
    rows = [_plain(row, names) for row in given]
    there = dict.fromkeys(key for row in rows for key in row)
    for name in names:
        if rows and name not in there and name not in also:
            raise InvalidInput(f"there is no field {name!r}{did_you_mean(name, there)}; there are: {', '.join(there)}")
    columns = {name: [row.get(name) for row in rows] for name in names}
    columns |= {name: _picked(columns[name], below) for name, below in names.items() if below and name not in fields}
    picked = iter([{name: column[at] for name, column in columns.items()} for at in range(len(rows))])
    return [
        [next(picked) for row in value if row is not None]
        if isinstance(value, list | tuple)
        else None
        if value is None
        else next(picked)
        for value in values
    ]


def _is_row(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "to_dict")


def _plain(value: Any, names: Iterable[str]) -> Mapping[str, Any]:
    """Return a row's own keys, and of the names those that it has beyond them, such as a turn's text or missing model."""
    if isinstance(value, Mapping):
        return value
    plain: dict[str, Any] = value.to_dict()
    for name in names:
        if name not in plain and name.isidentifier() and not name.startswith("_"):
            found = getattr(value, name, ...)
            if isinstance(found, str | int | float | None) or found in ({}, [], ()):
                plain[name] = found or None if isinstance(found, dict | list | tuple) else found
    return plain
