"""Make text safe for a terminal, and values short.

Text made fit to be looked at: nothing that a transcript or a file name holds may steer what shows it.

How values look on one line: the fields that say something, cut short, never a whole text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime
from reprlib import Repr
from typing import Any, Final

PICTURES: Final = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"} | {
    127: "\N{SYMBOL FOR DELETE}"
}
_TURNING: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
STEERING: Final = (*range(0x80, 0xA0), 0x2028, 0x2029, *_TURNING)
HARMLESS: Final = PICTURES | {code: f"\\u{code:04x}" for code in STEERING}


def clean(text: str) -> str:
    """Return text with control characters and direction overrides made visible; tabs and line ends stay.

    >>> clean("a\\x1b[31mb\\r\\n")
    'a␛[31mb\\n'
    """
    return text.replace("\r\n", "\n").translate(HARMLESS)


def one_line(text: str) -> str:
    """Return text as one clean line.

    >>> one_line("two\\n  lines")
    'two lines'
    """
    return clean(" ".join(text.split()))


def cells(text: str) -> int:
    """Return how many cells of a terminal a line takes: two for each wide character, none for a combining mark.

    >>> cells("plan"), cells("東京"), cells("e\u0301")
    (4, 4, 1)
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - most text needs no table of widths

    return cell_len(text)


def shorten(text: str, limit: int) -> str:
    """Return text as one clean line of at most `limit` cells of a terminal, with an ellipsis where it was cut.

    >>> shorten("a long line", 7), shorten("東京タワー", 7)
    ('a long…', '東京タ…')
    """
    line = one_line(text if len(text) <= 8 * limit else text[: 8 * limit])
    if cells(line) <= limit:
        return line
    kept = line[: limit - 1]
    while cells(kept) >= limit:
        kept = kept[:-1]
    return f"{kept}…"


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Return a line filled with blanks up to a width in cells, before it if it stands to the `right`."""
    blanks = " " * (width - cells(text))
    return blanks + text if right else text + blanks


def shorten_name(text: str, limit: int) -> str:
    """Return text as one line of at most `limit` characters: what tells forks apart stands at the end of their names.

    >>> shorten_name("prompt~fork-00ff00ff", 12)
    'promp…ff00ff'
    """
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    half = limit // 2
    return f"{line[: limit - half - 1]}…{line[-half:]}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is due.

    >>> count(1, "turn"), count(2, "turn"), count(2, "branch")
    ('1 turn', '2 turns', '2 branches')
    """
    plural = f"{noun}es" if noun.endswith(("ch", "s")) else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


LINE_WIDTH: Final = 80
"""How wide what a person reads is, where no terminal says so."""
_START_WIDTH: Final = 48
NAME_WIDTH: Final = 26
"""How much of an id or a title stands in a line that says more."""
REPR_WIDTH: Final = 100
"""A line has at most so many characters."""
_REPR_TEXT: Final = 36


def tag_line(start: str, *parts: str | None) -> str:
    """Return `<start: part; part>` of at most 80 characters: what people know a thing by, and then what it says.

    >>> tag_line("Turn 0 user", "Plan a trip", None), tag_line("Tag v1")
    ('<Turn 0 user: Plan a trip>', '<Tag v1>')
    """
    begun = f"<{shorten(start, _START_WIDTH - 1)}"
    text = shorten("; ".join(filter(None, parts)), LINE_WIDTH - cells(begun) - len(": >"))
    return f"{begun}: {text}>" if text else f"{begun}>"


class _Short(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = self.maxtuple = self.maxlist = self.maxdict = 2
        self.maxstring = self.maxother = _REPR_TEXT

    def repr_datetime(self, moment: datetime, _: int) -> str:
        return f"'{moment.isoformat(timespec='seconds')}'"


_SHORT_REPR: Final = _Short()


def repr_line(name: str, pairs: Iterable[tuple[str, Any]]) -> str:
    """Return `Name(field=value, ...)` of at most 100 characters: values are cut short, and what does not fit is left out.

    >>> repr_line("Turn", [("index", 0), ("text", "x" * 1000)])
    "Turn(index=0, text='xxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxx')"
    """
    shown = f"{name[:_REPR_TEXT]}("
    comma = ""
    for field, value in pairs:
        more = f"{comma}{field}={_SHORT_REPR.repr(value)}".replace("\n", " ")
        if len(shown) + len(more) + len(", ...)") > REPR_WIDTH:
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
        return repr_line(
            type(self).__name__, ((name, value) for name, value in pairs if not _is(value, defaults[name]))
        )


def _is(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and value == default)
