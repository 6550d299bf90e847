"""How values look on one line: the fields that say something, cut short, never a whole text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime
from reprlib import Repr
from typing import Any, Final

WIDTH: Final = 100
"""A line has at most so many characters."""
_TEXT: Final = 36


class _Short(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = self.maxtuple = self.maxlist = self.maxdict = 2
        self.maxstring = self.maxother = _TEXT

    def repr_datetime(self, moment: datetime, _: int) -> str:
        return f"'{moment.isoformat(timespec='seconds')}'"


_SHORT: Final = _Short()


def line(name: str, pairs: Iterable[tuple[str, Any]]) -> str:
    """Return `Name(field=value, ...)` of at most 100 characters: values are cut short, and what does not fit is left out.

    >>> line("Turn", [("index", 0), ("text", "x" * 1000)])
    "Turn(index=0, text='xxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxx')"
    """
    shown = f"{name[:_TEXT]}("
    comma = ""
    for field, value in pairs:
        more = f"{comma}{field}={_SHORT.repr(value)}".replace("\n", " ")
        if len(shown) + len(more) + len(", ...)") > WIDTH:
            return f"{shown}{comma}...)"
        shown, comma = shown + more, ", "
    return shown + ")"


class OneLine:
    """A dataclass (made with `repr=False`) that looks as `line` shows it, without the fields that have their defaults."""

    __slots__ = ()

    def __repr__(self) -> str:
        fields = dataclasses.fields(self)  # type: ignore[arg-type] # a dataclass, by what this is for
        pairs = ((each.name, getattr(self, each.name)) for each in fields if each.repr)
        defaults = {each.name: each.default for each in fields}
        return line(type(self).__name__, ((name, value) for name, value in pairs if not _is(value, defaults[name])))


def _is(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and value == default)
