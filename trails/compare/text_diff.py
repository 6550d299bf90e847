"""Diff sequences and words.

Aligning two sequences: the longest common subsequence, in time and space that have a bound.

The work is done on whole rows of the table at once, as bits of one large integer (Hyyrö, "Bit-parallel LCS-length
computation revisited", 2004): exact, and a hundred times faster than cell by cell.

What differs between two texts, word by word; line by line where they are too long for that.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

MAX_CELLS: Final = 2**27
"""Up to this many cells (11,585 by 11,585) the alignment is exact; it takes an eighth as many bytes."""

Pair = tuple[int, int]
"""A place on the left and the place on the right that it is aligned with."""


def match_sequences(left: Sequence[str], right: Sequence[str]) -> list[Pair]:
    """Return the places of equal elements that are kept, in order: a longest common subsequence.

    What both begin and end with is set aside first. Where more than `MAX_CELLS` lie between, elements that come once on
    each side are the anchors, and only what lies between two anchors is compared (a gap that is still too large is
    taken as different). The answer for (right, left) is the mirror of the answer for (left, right).

    >>> matches(["a", "b", "c"], ["a", "x", "c"])
    [(0, 0), (2, 2)]
    """
    if (len(left), list(left)) > (len(right), list(right)):
        return [(i, j) for j, i in match_sequences(right, left)]
    start = _common_start(left, right)
    end = _common_end(left, right, start)
    found = [(n, n) for n in range(start)]
    found += _match_between(left, right, (start, len(left) - end), (start, len(right) - end))
    found += [(len(left) - n, len(right) - n) for n in range(end, 0, -1)]
    return found


def is_exact_match(left: Sequence[str], right: Sequence[str]) -> bool:
    """Tell whether `matches` gives a longest common subsequence of two sequences, within `MAX_CELLS`."""
    start = _common_start(left, right)
    end = _common_end(left, right, start)
    return (len(left) - start - end) * (len(right) - start - end) <= MAX_CELLS


def _common_start(left: Sequence[str], right: Sequence[str]) -> int:
    shorter = min(len(left), len(right))
    return next((n for n in range(shorter) if left[n] != right[n]), shorter)


def _common_end(left: Sequence[str], right: Sequence[str], start: int) -> int:
    room = min(len(left), len(right)) - start
    return next((n for n in range(room) if left[-1 - n] != right[-1 - n]), room)


def _match_between(left: Sequence[str], right: Sequence[str], rows: Pair, columns: Pair) -> list[Pair]:
    """Return the matches inside a window of each side."""
    if rows[0] == rows[1] or columns[0] == columns[1]:
        return []
    if (rows[1] - rows[0]) * (columns[1] - columns[0]) <= MAX_CELLS:
        found = longest_increasing(left[slice(*rows)], right[slice(*columns)])
        return [(i + rows[0], j + columns[0]) for i, j in found]
    return _by_anchors(left, right, rows, columns)


def _by_anchors(left: Sequence[str], right: Sequence[str], rows: Pair, columns: Pair) -> list[Pair]:
    found: list[Pair] = []
    row, column = rows[0], columns[0]
    for anchor in (*_anchors(left, right, rows, columns), (rows[1], columns[1])):
        if (anchor[0] - row) * (anchor[1] - column) <= MAX_CELLS:
            found += _match_between(left, right, (row, anchor[0]), (column, anchor[1]))
        if anchor[0] < rows[1]:
            found.append(anchor)
        row, column = anchor[0] + 1, anchor[1] + 1
    return found


def _anchors(left: Sequence[str], right: Sequence[str], rows: Pair, columns: Pair) -> list[Pair]:
    """Return the longest increasing run of elements that come once on each side (patience sorting)."""
    once_left = {item for item, count in Counter(left[slice(*rows)]).items() if count == 1}
    once_right = {item for item, count in Counter(right[slice(*columns)]).items() if count == 1}
    place = {right[j]: j for j in range(*columns) if right[j] in once_right}
    unique = [(i, place[left[i]]) for i in range(*rows) if left[i] in once_left and left[i] in place]
    tops: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(unique):
        pile = bisect_left(tops, j)
        before.append(last[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [j]
        last[pile : pile + 1] = [number]
    kept: list[Pair] = []
    number = last[-1] if last else -1
    while number >= 0:
        kept.append(unique[number])
        number = before[number]
    return kept[::-1]


def longest_increasing(rows: Sequence[str], columns: Sequence[str]) -> list[Pair]:
    """Return a longest common subsequence of two sequences as pairs of places, in order."""
    wanted = _places(rows, columns)
    full = (1 << len(columns)) - 1
    size = len(columns) // 8 + 1
    state = full
    states = [full.to_bytes(size, "little")]
    for item in rows:
        if mask := wanted.get(item, 0):
            hit = state & mask
            state = ((state + hit) | (state - hit)) & full
        states.append(state.to_bytes(size, "little"))
    # A 0 at a column says that the common subsequence up to it is longer by one than up to the column before.
    found: list[Pair] = []
    row, column = len(rows), len(columns) - 1
    while row and column >= 0:
        byte, bit = column >> 3, 1 << (column & 7)
        if states[row][byte] & bit:
            column -= 1
        elif states[row - 1][byte] & bit:
            row -= 1
            found.append((row, column))
            column -= 1
        else:
            row -= 1
    return found[::-1]


def _places(rows: Sequence[str], columns: Sequence[str]) -> dict[str, int]:
    """Return for every element of the rows a number with a bit set for each column that it stands in."""
    size = len(columns) // 8 + 1
    bits: dict[str, bytearray] = {}
    asked = set(rows)
    for place, item in enumerate(columns):
        if item in asked:
            if item not in bits:
                bits[item] = bytearray(size)
            bits[item][place >> 3] |= 1 << (place & 7)
    return {item: int.from_bytes(row, "little") for item, row in bits.items()}


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


def diff_words(left: str, right: str) -> tuple[Span, ...]:
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
    if bounded and not is_exact_match(words_left, words_right):
        return None
    made = _Joined()
    i = j = 0
    for row, column in match_sequences(words_left, words_right):
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
    blocks = _word_blocks(found)
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


def _word_blocks(found: Sequence[Span]) -> list[tuple[str, str, str]]:
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
