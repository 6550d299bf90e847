"""Diff sequences and words.

Two sequences are aligned by their longest common subsequence, in bounded time and space. The work is done on whole rows of
the table at once, as bits of one large integer (Hyyrö, "Bit-parallel LCS-length computation revisited", 2004): exact, and a
hundred times faster than cell by cell. Texts are compared word by word, or line by line if they are too long for that.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
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

    >>> match_sequences(["a", "b", "c"], ["a", "x", "c"])
    [(0, 0), (2, 2)]
    """
    if (len(left), list(left)) > (len(right), list(right)):
        return [(i, j) for j, i in match_sequences(right, left)]
    start = _common_start(left, right)
    end = _common_end(left, right, start)
    pairs = [(n, n) for n in range(start)]
    pairs += _match_between(left, right, (start, len(left) - end), (start, len(right) - end))
    pairs += [(len(left) - n, len(right) - n) for n in range(end, 0, -1)]
    return pairs


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
        pairs = common_subsequence(left[slice(*rows)], right[slice(*columns)])
        return [(i + rows[0], j + columns[0]) for i, j in pairs]
    return _by_anchors(left, right, rows, columns)


def _by_anchors(left: Sequence[str], right: Sequence[str], rows: Pair, columns: Pair) -> list[Pair]:
    pairs: list[Pair] = []
    row, column = rows[0], columns[0]
    for anchor in (*_anchors(left, right, rows, columns), (rows[1], columns[1])):
        if (anchor[0] - row) * (anchor[1] - column) <= MAX_CELLS:
            pairs += _match_between(left, right, (row, anchor[0]), (column, anchor[1]))
        if anchor[0] < rows[1]:
            pairs.append(anchor)
        row, column = anchor[0] + 1, anchor[1] + 1
    return pairs


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


def common_subsequence(rows: Sequence[str], columns: Sequence[str]) -> list[Pair]:
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
    pairs: list[Pair] = []
    row, column = len(rows), len(columns) - 1
    while row and column >= 0:
        byte, bit = column >> 3, 1 << (column & 7)
        if states[row][byte] & bit:
            column -= 1
        elif states[row - 1][byte] & bit:
            row -= 1
            pairs.append((row, column))
            column -= 1
        else:
            row -= 1
    return pairs[::-1]


def _places(rows: Sequence[str], columns: Sequence[str]) -> dict[str, int]:
    """Return for every element of the rows a number with a bit set for each column that it stands in."""
    size = len(columns) // 8 + 1
    bits: dict[str, bytearray] = {}
    wanted = set(rows)
    for place, item in enumerate(columns):
        if item in wanted:
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

    >>> [(span.side, span.text) for span in diff_words("Go to Bern by train.", "Go to Bern by bus.")]
    [('equal', 'Go to Bern by '), ('left', 'train'), ('right', 'bus'), ('equal', '.')]
    """
    if left == right:
        return (Span("equal", left),) if left else ()
    if not left or not right:
        return (Span("left", left),) if left else (Span("right", right),)
    if len(left) + len(right) <= MAX_TEXT:
        old, new = _WORD.findall(left), _WORD.findall(right)
        if is_exact_match([word for _, word in old], [word for _, word in new]):
            return _spans(_without_chance(_blocks(_pieces(old, new))))
    return _spans(_blocks(_pieces(_LINE.findall(left), _LINE.findall(right))))


_Token = tuple[str, str]
"""The spaces before a word, and the word."""
_Block = tuple[str, str, str]
"""What is equal, and what then is only left and only right."""


def _pieces(left: Sequence[_Token], right: Sequence[_Token]) -> Iterator[_Block]:
    """Yield the pieces of two texts in tokens."""
    i = j = 0
    for row, column in match_sequences([word for _, word in left], [word for _, word in right]):
        yield "", "".join(map("".join, left[i:row])), "".join(map("".join, right[j:column]))
        (space, word), (other_space, _) = left[row], right[column]
        if space == other_space:
            yield space + word, "", ""
        else:
            yield "", space, other_space
            yield word, "", ""
        i, j = row + 1, column + 1
    yield "", "".join(map("".join, left[i:])), "".join(map("".join, right[j:]))


def _blocks(pieces: Iterable[_Block]) -> list[_Block]:
    """Join pieces: a block ends when both sides agree again. Spaces that both sides begin with belong to what is equal."""
    joined: list[tuple[list[str], list[str], list[str]]] = [([], [], [])]
    for piece in pieces:
        if piece[0] and any(map(any, joined[-1][1:])):
            joined.append(([], [], []))
        for texts, text in zip(joined[-1], piece, strict=True):
            texts.append(text)
    blocks = []
    for equal, left, right in (map("".join, texts) for texts in joined):
        spaces = takewhile(lambda pair: pair[0] == pair[1] and pair[0].isspace(), zip(left, right, strict=False))
        shared = sum(1 for _ in spaces)
        blocks.append((equal + left[:shared], left[shared:], right[shared:]))
    return blocks


def _without_chance(blocks: Iterable[_Block]) -> list[_Block]:
    """Take equal texts for differences if they are no longer than the differences on both sides of them.

    Two texts about different things share "the" and commas; a reader gains nothing from seeing those kept. (The rule is
    that of `diff_cleanupSemantic` in Google's diff-match-patch.)
    """
    kept: list[_Block] = []
    for block in blocks:
        equal, left, right = block
        while kept and equal and all(len(equal) <= max(map(len, sides)) for sides in (kept[-1][1:], (left, right))):
            before = kept.pop()
            equal, left, right = before[0], before[1] + equal + left, before[2] + equal + right
        kept.append((equal, left, right))
    return _blocks(kept)


def _spans(blocks: Iterable[_Block]) -> tuple[Span, ...]:
    sides: tuple[Side, ...] = ("equal", "left", "right")
    return tuple(Span(side, text) for block in blocks for side, text in zip(sides, block, strict=True) if text)
