"""Text made fit for a terminal: nothing that a transcript or a file name holds may steer it."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable
from operator import methodcaller
from typing import Any, BinaryIO, Final, cast

from trails.legible import HARMLESS, PICTURES, STEERING, clean, count, one_line, shorten

__all__ = [
    "Escaping",
    "clean",
    "clean_csv",
    "count",
    "escaped",
    "escaping",
    "is_utf8",
    "one_line",
    "shorten",
    "to_json",
]

_ESCAPES: Final = {code: f"\\u{code:04x}" for code in {*PICTURES, *STEERING} - {ord("\r")}}


def clean_csv(text: str) -> str:
    """Return CSV that is as clean; all line ends stay, those of its rows and those in its cells.

    >>> clean_csv('a,b\\x1b\\rc\\r\\n')
    'a,b␛␍c\\r\\n'
    """
    return "\r\n".join(line.translate(HARMLESS) for line in text.split("\r\n"))


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


def is_utf8(stream: Any) -> bool:
    """Tell whether a stream takes every character."""
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"
