"""Find which ranges of texts stand verbatim in others, in time that grows with their lengths, whatever they hold.

A pure function over texts. Ranges are of characters (Unicode code points), and these are compared one by one: nothing is
folded, decoded or normalised. Every run of so many characters that stands in a text to be searched is looked up at each place of
the sources, and extended from there. The scan goes on at the end of the longest match, so no character is compared more than a
bounded number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

SHORTEST: Final = 12
"""Characters below which a common text tells little."""
_PLACES: Final = 4
"""Places of one run that are kept of each source,"""
_SOURCES: Final = 8
"""and sources of which they are kept, the earliest."""
_BACK: Final = 64
"""How much further back than forth a match is extended."""


class Source(NamedTuple):
    """A text that may have been copied from, and its time: only what is later can have been copied from it."""

    text: str
    time: int


class CopiedRange(NamedTuple):
    """That a text from `start` to `end` (exclusive) stands in the source of a number, from `place` on."""

    start: int
    end: int
    source: int
    place: int


class CopiedText:
    """Where the runs of some texts stand in the sources that they may have been copied from.

    >>> copied = CopiedText(["mail it to eve@example.com"], [Source("Contact: eve@example.com.", 0)])
    >>> copied.ranges("mail it to eve@example.com", before=1)
    [CopiedRange(start=10, end=26, source=0, place=8)]
    """

    def __init__(self, searched: Iterable[str], sources: Sequence[Source], shortest: int = SHORTEST) -> None:
        """Look through the sources, given in the order of their times, for runs of `shortest` characters of the texts."""
        runs = {text[at : at + shortest] for text in searched for at in range(len(text) - shortest + 1)}
        self._sources, self._shortest = sources, shortest
        self._places: dict[str, dict[int, list[int]]] = {}
        for number, source in enumerate(sources):
            text = source.text
            for at in range(len(text) - shortest + 1) if runs else ():
                if (run := text[at : at + shortest]) in runs:
                    self._keep(run, number, at)

    def _keep(self, run: str, number: int, at: int) -> None:
        places = self._places.setdefault(run, {})
        if number in places:
            if len(places[number]) < _PLACES:
                places[number].append(at)
        elif len(places) < _SOURCES:
            places[number] = [at]

    def ranges(self, text: str, before: int) -> list[CopiedRange]:
        """Return which ranges of a text stand in sources from before a time, in order.

        Every character that stands in a common run is in one of them. Of ranges within each other the longest is given, for each
        of the first eight sources that have it in full.
        """
        found: list[CopiedRange] = []
        at, shortest = 0, self._shortest
        while at <= len(text) - shortest:
            matches = list(self._matches(text, at, before))
            if not matches:
                at += 1
                continue
            end = max(each.end for each in matches)
            start = min(each.start for each in matches if each.end == end)
            found += [each for each in matches if (each.start, each.end) == (start, end)]
            at = end - shortest + 1  # what begins before and goes on after the end has a run here
        return found

    def _matches(self, text: str, at: int, before: int) -> Iterator[CopiedRange]:
        """Give the longest match with each source that has the run at a place of a text."""
        for number, places in self._places.get(text[at : at + self._shortest], {}).items():
            source = self._sources[number]
            if source.time < before:
                matches = [_extended(text, at, source.text, place, number) for place in places]
                yield max(matches, key=lambda each: (each.end, -each.start))


def _extended(text: str, at: int, other: str, place: int, number: int) -> CopiedRange:
    """Extend a common run to both sides."""
    length = common_length(text, at, other, place)
    most = min(at, place, length + _BACK)
    back = 0
    while back < most and text[at - back - 1] == other[place - back - 1]:
        back += 1
    return CopiedRange(at - back, at + length, number, place - back)


def common_length(text: str, at: int, other: str, place: int) -> int:
    """Return how many characters two texts have in common from two places on.

    >>> common_length("copied text", 0, "not copied test", 4)
    9
    """
    length, step, most = 0, 32, min(len(text) - at, len(other) - place)
    while length < most and _is_same(text, at + length, other, place + length, min(step, most - length)):
        length, step = min(length + step, most), step * 2
    while step > 1:
        step //= 2
        if length + step <= most and _is_same(text, at + length, other, place + length, step):
            length += step
    return length


def _is_same(text: str, at: int, other: str, place: int, size: int) -> bool:
    return text[at : at + size] == other[place : place + size]
