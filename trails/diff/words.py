"""What differs between two texts, word by word; line by line where they are too long for that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from trails.diff import sequences

MAX_TEXT: Final = 1_000_000
"""Texts with more characters than this, both together, are compared by lines, never by words."""

Side = Literal["equal", "left", "right"]

_SINGLE: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Scripts written without spaces: each character counts as a word."""
_WORD: Final = re.compile(rf"(\s*)([{_SINGLE}]|[^\W{_SINGLE}]+|[^\w\s]|\Z)")
_LINE: Final = re.compile(r"()([^\n]*\n|[^\n]+\Z|\Z)")


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text that both sides have, or only one of them."""

    side: Side
    text: str

    def to_dict(self) -> dict[str, str]:
        """Return the span as plain values, ready for JSON."""
        return {"side": self.side, "text": self.text}


def spans(left: str, right: str) -> tuple[Span, ...]:
    """Return what differs between two texts as spans, in order; no text is lost.

    The spans of side "equal" and "left" together are `left`, those of "equal" and "right" are `right`. The unit is a
    word, a mark or a run of spaces; words that two texts share by chance, between longer differences, count as different.
    Where both texts together have more than 1,000,000 characters, or more than `sequences.MAX_CELLS` pairs of words lie
    between the first and the last difference (about 11,000 words a side), the unit is a line.

    >>> [(span.side, span.text) for span in spans("Go to Bern by train.", "Go to Bern by bus.")]
    [('equal', 'Go to Bern by '), ('left', 'train'), ('right', 'bus'), ('equal', '.')]
    """
    if left == right:
        return (Span("equal", left),) if left else ()
    if not left or not right:
        return (Span("left", left),) if left else (Span("right", right),)
    if len(left) + len(right) <= MAX_TEXT:
        found = _compared(_WORD.findall(left), _WORD.findall(right), bounded=True)
        if found is not None:
            return _tidied(found)
    return tuple(_compared(_LINE.findall(left), _LINE.findall(right), bounded=False) or ())


_Token = tuple[str, str]
"""The spaces before a word, and the word."""


def _compared(left: Sequence[_Token], right: Sequence[_Token], *, bounded: bool) -> list[Span] | None:
    """Return the spans of two texts in tokens, or None where there are too many of them for an exact answer."""
    words_left, words_right = [word for _, word in left], [word for _, word in right]
    if bounded and not sequences.is_exact(words_left, words_right):
        return None
    made = _Joined()
    i = j = 0
    for row, column in sequences.matches(words_left, words_right):
        made.add("left", "".join(space + word for space, word in left[i:row]))
        made.add("right", "".join(space + word for space, word in right[j:column]))
        (space, word), (other_space, _) = left[row], right[column]
        if space == other_space:
            made.add("equal", space + word)
        else:
            made.add("left", space)
            made.add("right", other_space)
            made.add("equal", word)
        i, j = row + 1, column + 1
    made.add("left", "".join(space + word for space, word in left[i:]))
    made.add("right", "".join(space + word for space, word in right[j:]))
    return made.spans()


class _Joined:
    """Spans under way: what differs is gathered, left and right, until both sides agree again."""

    def __init__(self) -> None:
        self._done: list[Span] = []
        self._equal: list[str] = []
        self._left: list[str] = []
        self._right: list[str] = []

    def add(self, side: Side, text: str) -> None:
        if not text:
            return
        if side == "equal":
            self._close_changes()
            self._equal.append(text)
            return
        self._close_equal()
        (self._left if side == "left" else self._right).append(text)

    def spans(self) -> list[Span]:
        self._close_equal()
        self._close_changes()
        return self._done

    def _close_equal(self) -> None:
        if self._equal:
            self._done.append(Span("equal", "".join(self._equal)))
            self._equal.clear()

    def _close_changes(self) -> None:
        left, right = "".join(self._left), "".join(self._right)
        self._left.clear()
        self._right.clear()
        if left and right and (shared := _shared_spaces(left, right)):
            before = self._done.pop().text if self._done else ""
            self._done.append(Span("equal", before + left[:shared]))
            left, right = left[shared:], right[shared:]
        if left:
            self._done.append(Span("left", left))
        if right:
            self._done.append(Span("right", right))


def _shared_spaces(left: str, right: str) -> int:
    """Return how many spaces both texts begin with: they belong to what is equal before."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (mine, other) in pairs if mine != other or not mine.isspace()), min(len(left), len(right)))


def _tidied(found: Sequence[Span]) -> tuple[Span, ...]:
    """Take equal spans for differences where they are no longer than the differences on both sides of them.

    Two texts about different things share "the" and commas; a reader gains nothing from seeing those kept. (The rule is
    that of `diff_cleanupSemantic` in Google's diff-match-patch.)
    """
    blocks = _blocks(found)
    kept: list[tuple[str, str, str]] = []
    for block in blocks:
        equal, left, right = block
        while kept and equal and _is_short(equal, kept[-1], (left, right)):
            before = kept.pop()
            left, right = before[1] + equal + left, before[2] + equal + right
            equal = before[0]
        kept.append((equal, left, right))
    made = _Joined()
    for equal, left, right in kept:
        made.add("equal", equal)
        made.add("left", left)
        made.add("right", right)
    return tuple(made.spans())


def _blocks(found: Sequence[Span]) -> list[tuple[str, str, str]]:
    """Return spans as blocks of what is equal, and what then is only left and only right."""
    blocks: list[tuple[str, str, str]] = []
    equal = left = right = ""
    for span in found:
        if span.side == "equal":
            if equal or left or right:
                blocks.append((equal, left, right))
            equal, left, right = span.text, "", ""
        elif span.side == "left":
            left = span.text
        else:
            right = span.text
    blocks.append((equal, left, right))
    return blocks


def _is_short(equal: str, before: tuple[str, str, str], after: tuple[str, str]) -> bool:
    length = len(equal)
    return length <= max(len(before[1]), len(before[2])) and length <= max(len(after[0]), len(after[1]))
