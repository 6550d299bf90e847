"""What stands at the top of a file's first objects, read from its beginning alone: formats are told by it.

Not by what a text holds anywhere: an exported session repeats, deep within its records, fields of the format it came from.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Collection
from typing import Final

_TOKEN: Final = re.compile(rb'"((?:[^"\\]|\\.)*)("?)|[{}\[\]:,]', re.DOTALL)
"""A string (one without an end is cut off, and the last token), or a mark; numbers and words stand between."""
_LINES: Final = 20

Outline = dict[str, str | None]


def of_lines(head: bytes) -> list[Outline]:
    """Return the outlines of the first 20 lines of a file that begins with these bytes, those that begin an object.

    >>> of_lines(b'{"type": "user", "message": {"id": "m"}}\\nnone\\n{"uu')
    [{'type': 'user', 'message': None}, {}]
    """
    lines = head.removeprefix(BOM_UTF8).split(b"\n")[:_LINES]
    return [_outline(line, 0) for line in map(bytes.lstrip, lines) if line.startswith(b"{")]


def of_first(head: bytes) -> Outline:
    """Return the outline of the object that a file begins with, or of the first one in its list; empty for any other.

    An outline has the object's own keys, each with its value if that is a text, else None; what is cut off is left out.

    >>> of_first(b'[{"title": "Plan", "mapping": {"n1": {"id": "n1"')
    {'title': 'Plan', 'mapping': None}
    """
    begin = head.removeprefix(BOM_UTF8).lstrip()
    if begin.startswith(b"["):
        begin = begin[1:].lstrip()
    return _outline(begin, 0) if begin.startswith(b"{") else {}


def of_listed(head: bytes, names: Collection[str]) -> Outline:
    """Return the outline of the first object in the list that a file's first object has under one of some names.

    >>> of_listed(b'{"id": "c", "messages": [{"role": "user", "content": "Hi"', {"messages"})
    {'role': 'user', 'content': 'Hi'}
    """
    key: str | None
    key, said, is_listed = None, "", False
    for token in _TOKEN.finditer(head):
        match token[0][:1]:
            case b"{" | b"[":
                if token[0] == b"{" and is_listed:
                    return _outline(head, token.start())
                is_listed = token[0] == b"[" and key in names
                key = None
            case b'"':
                said, key = token[1].decode("utf-8", errors="replace"), None
            case b":":
                key = said
            case _:
                key = None
    return {}


def _outline(data: bytes, start: int) -> Outline:
    found: Outline = {}
    depth, said, key = 0, "", None
    for token in _TOKEN.finditer(data, start):
        match token[0][:1]:
            case b"{" | b"[":
                depth, key = depth + 1, None
            case b"}" | b"]":
                depth -= 1
                if depth == 0:
                    break
            case b'"' if depth == 1 and token[2]:
                said = token[1].decode("utf-8", errors="replace")
                if key is not None:
                    found[key], key = said, None
            case b":" if depth == 1:
                key = said
                found[key] = None
            case b"," if depth == 1:
                key = None
    return found
