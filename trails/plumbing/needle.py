"""A text that is looked for, in whatever form it may stand: plain, escaped as in JSON (JSON within JSON too), or as in IRIs.

Pure functions over strings and terms. The text is looked for exactly: letter by letter, upper and lower case apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from trails.errors import InvalidInput
from trails.model import iris, validation

SHORTEST: Final = 2
"""Characters below which a text would be found nearly everywhere."""
_DEEPEST: Final = 8
"""How often escaped text is unescaped: JSON within JSON doubles its backslashes at every level."""
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"\\/bfnrt]))")
_PLAIN: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Needle:
    """A text that is looked for."""

    def __init__(self, text: str) -> None:
        """Look for a text; raise `InvalidInput` for one that is too short to be looked for."""
        self.text = validation.text(text, "the text to look for")
        if len(self.text.strip()) < SHORTEST:
            raise InvalidInput(
                f"the text to look for must have {SHORTEST} characters or more beside spaces, not {self.text!r}: "
                "a shorter one stands nearly everywhere"
            )
        if self.text in iris.UNNAMED:
            raise InvalidInput(f"{self.text!r} is part of {iris.UNNAMED!r}, which stands where something was taken out")

    def within(self, value: str) -> bool:
        """Tell whether a string holds the text, in any of its forms."""
        return any(self.text in form for form in forms(value))

    def scrubbed(self, value: Any) -> Any:
        """Return a JSON value without the text: every string, key or number that holds it is replaced as a whole."""
        match value:
            case dict():
                made: dict[str, Any] = {}
                for key, each in value.items():
                    name = _unused({*made, *value}) if self.within(key) else key
                    made[name] = self.scrubbed(each)
                return made
            case list():
                return [self.scrubbed(each) for each in value]
            case str():
                return iris.UNNAMED if self.within(value) else value
            case None | bool():
                return value
            case _:
                return iris.UNNAMED if self.within(json.dumps(value)) else value


def _unused(taken: set[str]) -> str:
    """Return a key for what stood under one that had to go."""
    names = (iris.UNNAMED if number == 1 else f"{iris.UNNAMED}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def forms(value: str) -> Iterator[str]:
    """Give a string as it is, without percent-encoding, and unescaped as often as it takes.

    >>> list(forms('{"a": "caf\\\\u00e9"}'))
    ['{"a": "caf\\\\u00e9"}', '{"a": "café"}']
    """
    yield value
    if "%" in value:
        yield unquote(value)
    for _ in range(_DEEPEST):
        if "\\" not in value:
            return
        value = _ESCAPE.sub(_unescaped, value)
        # A character beyond U+FFFF is escaped as two halves, which only together are one.
        value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        yield value


def _unescaped(found: re.Match[str]) -> str:
    code, letter = found.groups()
    return chr(int(code, 16)) if code else _PLAIN.get(letter, letter)
