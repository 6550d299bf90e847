"""The text of a turn and of its tool calls: where a text stands in it, and the snippet around that. Pure."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from trails.integrity.key_ring import PREFIX
from trails.model import content_parts

_PLAIN, _JSON, _REDACTED = range(3)
ENCRYPTED: Final = "(encrypted)"
"""What is shown of a text that is encrypted."""
_AROUND: Final = 60
"""How many characters of a turn are shown on each side of what was found."""


class TurnText(NamedTuple):
    """What a turn says, as far as a search finds and shows it."""

    shown: str
    """What a person would read of it."""
    within: tuple[str, ...] | None
    """The texts and numbers in its content, where that is not just what is shown."""
    calls: tuple[tuple[str, str], ...]
    """The tools that it calls, in order, each with its arguments."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that it calls, in order."""
        return tuple(name for name, _ in self.calls)

    def texts(self, tool: str | None = None) -> Iterator[str]:
        """Yield every text that a search finds: with a tool, of the calls those of it alone."""
        yield from (self.shown,) if self.within is None else self.within
        for name, arguments in self.calls:
            if tool in (None, name):
                yield arguments
                yield from of_json(arguments)

    def says(self, text: str | None, tool: str | None) -> bool:
        """Tell whether a text stands in what was said or in the calls looked for, upper and lower case alike."""
        if text is None:
            return True
        wanted = folded(text)
        return any(wanted in folded(each) for each in self.texts(tool))

    def snippet(self, text: str | None, tool: str | None) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Return one line of what stands around a text, or without one of what was said, and where the text is in it."""
        asked = [f"{name} {arguments}" for name, arguments in self.calls if tool in (None, name)]
        return _snippet(asked if tool and text is None else [self.shown, *asked], text)


def turn_text(text: str, form: int, calls: tuple[tuple[str, str], ...] = ()) -> TurnText:
    """Return what a turn's stored content says, with its tool calls; of a redacted one nothing is found.

    `form` is 0 for plain text, 1 for JSON and 2 for what is left of a redacted text.
    """
    calls = tuple((name, ENCRYPTED if is_encrypted(arguments) else arguments) for name, arguments in calls)
    if is_encrypted(text):
        return TurnText(ENCRYPTED, (), calls)
    if form == _PLAIN:
        return TurnText(text, None, calls)
    if form == _REDACTED:
        return TurnText(text, (), calls)
    try:
        value = json.loads(text)
        return TurnText(content_parts.plain_text(value), tuple(strings(value)), calls)
    except (ValueError, RecursionError, TypeError, AttributeError):  # JSON that Trails never writes
        return TurnText(text, None, calls)


def is_encrypted(text: str) -> bool:
    """Tell whether a stored text, or the JSON of one, is an encrypted one.

    >>> is_encrypted("trails-encrypted:1:AAAA"), is_encrypted("Plan a trip")
    (True, False)
    """
    return text.startswith((PREFIX, f'"{PREFIX}'))


def folded(text: str) -> str:
    """Return text in which upper and lower case are alike, as the queries have it: `UCASE(LCASE(...))`.

    >>> folded("Straße") == folded("STRASSE"), folded("ὁδός") == folded("ὉΔΌΣ")
    (True, True)
    """
    return text.lower().upper()


def of_json(text: str) -> Iterator[str]:
    """Yield the texts within a text that is JSON, keys too; nothing where it is none."""
    try:
        return strings(json.loads(text), keys=True)
    except (ValueError, RecursionError):  # arguments that a model wrote, and that are no JSON
        return iter(())


def strings(value: Any, *, keys: bool = False) -> Iterator[str]:
    """Yield the texts and numbers within a JSON value; of keys only where asked, and not what type a part is."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            yield from each if keys else ()
            waiting += [held for key, held in each.items() if keys or key != "type"]
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str):
            yield each
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield json.dumps(each)


def _place_of(text: str, wanted: str) -> int:
    """Return where a text holds another one, which is folded; -1 where it does not."""
    at = folded(text).find(wanted)
    if at <= 0 or text.isascii():
        return at
    reached = 0
    for place, character in enumerate(text):  # a few characters are longer when they are folded
        if reached >= at:
            return place
        reached += len(folded(character))
    return len(text)


def written(text: str) -> tuple[str, str]:
    """Return how JSON may have a text: as it is written here, and as a model writes it that escapes all but ASCII."""
    return json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]


def _snippet(found_in: list[str], wanted: str | None) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return one line of what stands around a text, in the first of some texts that has it, and where it stands in that.

    >>> _snippet(["We take the train to Zermatt."], "TRAIN")
    ('We take the train to Zermatt.', ((12, 17),))
    """
    forms = [""] if wanted is None else [folded(form) for form in (wanted, *written(wanted))]
    for text in found_in:
        at = max(_place_of(text, form) for form in forms)
        if at >= 0 and text:
            start, end = max(0, at - _AROUND), at + len(wanted or "") + _AROUND
            line = " ".join(text[start:end].split())
            shown = f"{'…' if start else ''}{line}{'…' if end < len(text) else ''}"
            return shown, () if wanted is None else _matches(shown, [" ".join(form.split()) for form in forms])
    return _snippet(found_in, None) if wanted is not None and any(found_in) else ("", ())


def _matches(line: str, forms: list[str]) -> tuple[tuple[int, int], ...]:
    """Return where a line holds one of some folded texts: (start, end) for each place, in order, none within another.

    >>> _matches("Alps, ALPS", ["ALPS"])
    ((0, 4), (6, 10))
    """
    whole, ends = "", [0]
    for character in line:
        whole += folded(character)
        ends.append(len(whole))
    found: list[tuple[int, int]] = []
    for form in dict.fromkeys(filter(None, forms)):
        at = whole.find(form)
        while at >= 0:
            found.append((bisect_right(ends, at) - 1, bisect_left(ends, at + len(form))))
            at = whole.find(form, at + len(form))
        if found:
            break
    return tuple(found)
