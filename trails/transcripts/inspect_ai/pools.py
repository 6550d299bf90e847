"""What a sample keeps once and refers to: long texts as attachments, the messages that model calls were given as a pool.

A reference is `attachment://` with a hash, or with a number in chunked samples, anywhere in a text. A model call's
`input_refs` are half-open ranges of the pool's indices.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final

_REFERENCE: Final = re.compile(r"attachment://([0-9a-f]{32}|[0-9]{1,9})(?![0-9a-zA-Z])")
_MOST_RESOLVED: Final = 256 << 20
"""Characters that the texts of one sample may get longer by: a short one may be named a million times."""
_MOST_GIVEN: Final = 1_000_000
"""Messages that one model call may name."""

_Json = Mapping[str, Any]


class Attachments:
    """The texts that a sample refers to."""

    def __init__(self, texts: object) -> None:
        self._texts: _Json = texts if isinstance(texts, dict) else {}
        self._left = _MOST_RESOLVED
        self.missing: dict[str, None] = {}
        """References to what is not there."""
        self.is_full = False
        """Whether some were left as they are, since the texts would grow without bound."""

    def put_in(self, value: Any) -> Any:
        """Return a value with each reference in its texts replaced by what it refers to; one to nothing stays."""
        if isinstance(value, str):
            return _REFERENCE.sub(self._text, value) if "attachment://" in value else value
        if isinstance(value, dict):
            return {key: self.put_in(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.put_in(each) for each in value]
        return value

    def _text(self, found: re.Match[str]) -> str:
        text = self._texts.get(found[1])
        if not isinstance(text, str):
            self.missing.setdefault(found[0])
            return found[0]
        self._left -= len(text)
        if self._left < 0:
            self.is_full = True
            return found[0]
        return text


class Pool:
    """Messages by their index; of a chunked sample some may be missing."""

    def __init__(self, messages: object) -> None:
        if isinstance(messages, list):
            messages = dict(enumerate(messages))
        elif not isinstance(messages, dict) or not all(type(index) is int for index in messages):
            messages = {}
        self._messages: Mapping[int, Any] = messages
        self._indices = sorted(self._messages)

    def __getitem__(self, index: int) -> Any:
        return self._messages[index]

    def indices(self, ranges: object) -> list[int] | None:
        """Return the indices that half-open ranges name, in their order; None for what are no ranges, or name too much."""
        if not isinstance(ranges, list):
            return None
        found: list[int] = []
        for each in ranges:
            if not (isinstance(each, list) and len(each) == 2 and all(type(end) is int for end in each)):
                return None
            first, last = (bisect_left(self._indices, end) for end in each)
            if each[0] < 0 or last - first != each[1] - each[0] or len(found) + last - first > _MOST_GIVEN:
                return None
            found += self._indices[first:last]
        return found


def joined(chunks: Sequence[tuple[int, object]]) -> dict[int, Any]:
    """Return the items of chunks, each a list that begins at an index, by index."""
    return {
        start + place: item for start, chunk in chunks if isinstance(chunk, list) for place, item in enumerate(chunk)
    }
