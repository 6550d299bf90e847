"""Tell a file's format from its first bytes.

What stands at the top of a file's first objects, read from its beginning alone: formats are told by it.

Not by what a text holds anywhere: an exported session repeats, deep within its records, fields of the format it came from.

Files that no importer knows: whose they seem to be, told from how they begin.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Collection, Sequence
from typing import Final

_JSON_TOKEN: Final = re.compile(rb'"((?:[^"\\]|\\.)*)("?)|[{}\[\]:,]', re.DOTALL)
"""A string (one without an end is cut off, and the last token), or a mark; numbers and words stand between."""
_OUTLINE_LINES: Final = 20

Outline = dict[str, str | None]


def outline_of_lines(head: bytes) -> list[Outline]:
    """Return the outlines of the objects on a file's first 20 lines.

    >>> outline_of_lines(b'{"type": "user", "message": {"id": "m"}}\\nnone\\n{"uu')
    [{'type': 'user', 'message': None}, {}]
    """
    lines = head.removeprefix(BOM_UTF8).split(b"\n")[:_OUTLINE_LINES]
    return [_outline(line, 0) for line in map(bytes.lstrip, lines) if line.startswith(b"{")]


def outline_of_first(head: bytes) -> Outline:
    """Return the outline of a file's first object; empty if it has none.

    An outline has the object's own keys, each with its value if that is a text, else None; what is cut off is left out.

    >>> outline_of_first(b'[{"title": "Plan", "mapping": {"n1": {"id": "n1"')
    {'title': 'Plan', 'mapping': None}
    """
    begin = head.removeprefix(BOM_UTF8).lstrip()
    if begin.startswith(b"["):
        begin = begin[1:].lstrip()
    return _outline(begin, 0) if begin.startswith(b"{") else {}


def outline_of_listed(head: bytes, names: Collection[str]) -> Outline:
    """Return the outline of the first object in a named list of the first object.

    >>> outline_of_listed(b'{"id": "c", "messages": [{"role": "user", "content": "Hi"', {"messages"})
    {'role': 'user', 'content': 'Hi'}
    """
    names_in_order = b"|".join(sorted(re.escape(name.encode()) for name in names))
    listed = re.search(rb'(?<!\\)"(?:%s)"\s*:\s*\[\s*(?=\{)' % names_in_order, head)
    return _outline(head, listed.end()) if listed else {}


def _outline(data: bytes, start: int) -> Outline:
    found: Outline = {}
    depth, said, key = 0, "", None
    for token in _JSON_TOKEN.finditer(data, start):
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


_MAGIC: Final = (
    (b"PAR1", "a Parquet file: export it as JSON lines"),
    (b"ARROW1", "an Arrow file: export it as JSON lines"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x1f\x8b", "compressed with gzip: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"),
    (b"<!doctype html", "a page of HTML"),
)
_KNOWN_KEYS: Final = (
    ({"op_name", "inputs"}, "Weave's calls"),
    ({"chat_messages", "uuid"}, "the data export of claude.ai"),
    ({"resourceMetrics"}, "OpenTelemetry's metrics, which hold no messages"),
    ({"custom_id", "response"}, "OpenAI's batch results"),
    ({"custom_id", "body"}, "OpenAI's batch requests"),
    ({"prompt", "completion"}, "pairs of a prompt and a completion"),
    ({"instruction", "output"}, "Alpaca's records"),
    ({"prompt", "chosen"}, "preferences without messages"),
    ({"requests", "responderUsername"}, "a chat of VS Code's Copilot"),
    ({"source", "action", "timestamp"}, "events of OpenHands"),
    ({"conversationId", "messages", "endpoint"}, "a conversation of LibreChat"),
    ({"title", "chat"}, "chats of Open WebUI"),
    ({"ts", "type", "say"}, "Cline's messages for its window"),
    ({"cells", "nbformat"}, "a notebook"),
)
"""Keys of a file's first object, and whose they are."""


def guess_origin(head: bytes, names: Sequence[str] | None = None) -> str | None:
    """Guess what a file of no known format is, by its first bytes.

    `names` are the members of a zip. Returns None if there is no guess.

    >>> guess_origin(b'{"id": "c", "op_name": "llm", "inputs": {}}'), guess_origin(b"PAR1\\x15"), guess_origin(b"hello")
    ("Weave's calls", 'a Parquet file: export it as JSON lines', None)
    """
    if names is not None:
        shown = ", ".join(name[:80] for name in names[:3])
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"a zip of {shown}{more}" if names else "an empty zip"
    for begin, what in _MAGIC:
        if head[: len(begin)].lower() == begin.lower():
            return what
    keys = outline_of_first(head).keys()
    return next((what for wanted, what in _KNOWN_KEYS if keys >= wanted), None)
