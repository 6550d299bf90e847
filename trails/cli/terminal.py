"""Text made fit for a terminal: nothing that a transcript or a file name holds may steer it."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable
from operator import methodcaller
from typing import Any, BinaryIO, Final, cast

_PICTURES: Final = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"} | {
    127: "\N{SYMBOL FOR DELETE}"
}
_TURNING: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_STEERING: Final = (*range(0x80, 0xA0), 0x2028, 0x2029, *_TURNING)
_HARMLESS: Final = _PICTURES | {code: f"\\u{code:04x}" for code in _STEERING}
_ESCAPES: Final = {code: f"\\u{code:04x}" for code in {*_PICTURES, *_STEERING} - {ord("\r")}}


def clean(text: str) -> str:
    """Return text with control characters and direction overrides made visible; tabs and line ends stay.

    >>> clean("a\\x1b[31mb\\r\\n")
    'a␛[31mb\\n'
    """
    return text.replace("\r\n", "\n").translate(_HARMLESS)


def clean_csv(text: str) -> str:
    """Return CSV that is as clean; all line ends stay, those of its rows and those in its cells.

    >>> clean_csv('a,b\\x1b\\rc\\r\\n')
    'a,b␛␍c\\r\\n'
    """
    return "\r\n".join(line.translate(_HARMLESS) for line in text.split("\r\n"))


def escaped(text: str) -> str:
    """Return JSON, Turtle, N-Triples or TSV that means the same, with what could steer a terminal as `\\uXXXX`.

    >>> escaped('"a\\u202eb"')
    '"a\\\\u202eb"'
    """
    return text.translate(_ESCAPES)


def to_json(value: Any, *, ascii_only: bool = False, indent: int | None = 2) -> str:
    """Return a value as JSON that no terminal obeys: equal to it, with what could steer one escaped.

    What is not plain in it stands as its `to_dict` has it.

    >>> to_json({"a": "\\x9b2J\\u202e"}, indent=None)
    '{"a": "\\\\u009b2J\\\\u202e"}'
    """
    return escaped(json.dumps(value, ensure_ascii=ascii_only, indent=indent, default=methodcaller("to_dict")))


class Escaping:
    """A file that writes UTF-8 of JSON lines, N-Quads or TriG to another as `escaped` returns it, however it is cut."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def write(self, data: bytes) -> int:
        """Write bytes; those of a character that is not whole yet wait for the rest of it. Returns how many were taken."""
        self._out.write(escaped(self._decoder.decode(data)).encode())
        return len(data)

    def writelines(self, lines: Iterable[bytes]) -> None:
        """Write several pieces."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the file below."""
        self._out.flush()


def escaping(out: BinaryIO) -> BinaryIO:
    """Return a file that writes to `out` what means the same and steers no terminal; see `Escaping`."""
    return cast(BinaryIO, Escaping(out))


def one_line(text: str) -> str:
    """Return text as one clean line.

    >>> one_line("two\\n  lines")
    'two lines'
    """
    return clean(" ".join(text.split()))


def shorten(text: str, limit: int) -> str:
    """Return text as one clean line of at most `limit` characters, with an ellipsis where it was cut.

    >>> shorten("a long line", 7)
    'a long…'
    """
    line = one_line(text if len(text) <= 4 * limit else text[: 4 * limit])
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is due.

    >>> count(1, "turn"), count(2, "turn"), count(2, "branch")
    ('1 turn', '2 turns', '2 branches')
    """
    plural = f"{noun}es" if noun.endswith(("ch", "s")) else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
