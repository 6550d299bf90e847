"""Files that no importer knows: whose they seem to be, told from how they begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trails.transcripts import outline

_MAGIC: Final = (
    (b"PAR1", "a Parquet file: export it as JSON lines"),
    (b"ARROW1", "an Arrow file: export it as JSON lines"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x1f\x8b", "compressed with gzip: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"),
    (b"<!doctype html", "a page of HTML"),
)
_KEYS: Final = (
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


def seems(head: bytes, names: Sequence[str] | None = None) -> str | None:
    """Return what a file that begins with these bytes seems to be, or hold if it is a zip with such names; None if unknown.

    >>> seems(b'{"id": "c", "op_name": "llm", "inputs": {}}'), seems(b"PAR1\\x15"), seems(b"hello")
    ("Weave's calls", 'a Parquet file: export it as JSON lines', None)
    """
    if names is not None:
        shown = ", ".join(name[:80] for name in names[:3])
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"a zip of {shown}{more}" if names else "an empty zip"
    for begin, what in _MAGIC:
        if head[: len(begin)].lower() == begin.lower():
            return what
    keys = outline.of_first(head).keys()
    return next((what for wanted, what in _KEYS if keys >= wanted), None)
