"""Records that repeat what others of their file say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_LONG: Final = 20
"""Characters of a text from which on it is looked for."""


def with_more(records: object, said: object) -> list[Any]:
    """Return the records of a list in which a long text stands that other records do not say; times count for none.

    >>> with_more([{"text": "Where would you like to go?"}, {"text": "A server was connected"}], ["Where would you like to go?"])
    [{'text': 'A server was connected'}]
    """
    known = json.dumps(said, ensure_ascii=False)
    entries = records if isinstance(records, list) else [] if records is None else [records]
    return [each for each in entries if not all(_is_in(text, known) for text in _texts(each))]


def _is_in(text: str, known: str) -> bool:
    quoted = json.dumps(text, ensure_ascii=False)[1:-1]
    return len(text) < _LONG or quoted in known or json.dumps(quoted, ensure_ascii=False)[1:-1] in known


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9TZ:.+-]+", value):
            yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)
