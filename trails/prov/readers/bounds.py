"""What a PROV document may be at most: it is read whole, so what is larger or stranger is refused, not read."""

from __future__ import annotations

import json
from typing import Any, Final

from trails.errors import InvalidInput

MAX_BYTES: Final = 512 << 20
"""Bytes of one document."""
MAX_DEPTH: Final = 64
"""How deep JSON and XML may be nested; PROV's own formats need six levels."""


def decoded(data: bytes, what: str) -> str:
    """Return the text of a document, UTF-8 with or without a byte order mark; raise `InvalidInput` for what is none."""
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"the {what} document has {len(data):,} bytes, and {MAX_BYTES:,} at most are read; split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the {what} document is not UTF-8 at byte {error.start:,}; convert it first") from error


def json_object(data: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object that a document is.

    Raises `InvalidInput` for other JSON, for a key that an object has twice (one of the two would be lost) and for what
    is nested too deep.
    """
    text = decoded(data, what)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value] # None
            raise InvalidInput(
                f"the {what} document has an object with the key {twice[:120]!r} twice; keep one of them"
            )
        return made

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=_no_constant)
    except InvalidInput:
        raise
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"the document is not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the {what} document cannot be read: {f'{error}'[:200]}") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"the {what} document is no JSON object")
    return value


def _no_constant(name: str) -> Any:
    raise InvalidInput(f"the document holds {name}, which is no JSON")
