"""Aligning two sequences: the longest common subsequence, in time and space that have a bound.

The work is done on whole rows of the table at once, as bits of one large integer (Hyyrö, "Bit-parallel LCS-length
computation revisited", 2004): exact, and a hundred times faster than cell by cell.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final

MAX_CELLS: Final = 2**27
"""Up to this many cells (11,585 by 11,585) the alignment is exact; it takes an eighth as many bytes."""

Pair = tuple[int, int]
"""A place on the left and the place on the right that it is aligned with."""


def matches(left: Sequence[str], right: Sequence[str]) -> list[Pair]:
    """Return the places of equal elements that are kept, in order: a longest common subsequence.

    What both begin and end with is set aside first. Where more than `MAX_CELLS` lie between, elements that come once on
    each side are the anchors, and only what lies between two anchors is compared (a gap that is still too large is
    taken as different). The answer for (right, left) is the mirror of the answer for (left, right).

    >>> matches(["a", "b", "c"], ["a", "x", "c"])
    [(0, 0), (2, 2)]
    """
    if (len(left), list(left)) > (len(right), list(right)):
        return [(i, j) for j, i in matches(right, left)]
    start = _common_start(left, right)
    end = _common_end(left, right, start)
    found = [(n, n) for n in range(start)]
    found += _between(left, right, (start, len(left) - end), (start, len(right) - end))
    found += [(len(left) - n, len(right) - n) for n in range(end, 0, -1)]
    return found


def is_exact(left: Sequence[str], right: Sequence[str]) -> bool:
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


def _between(left: Sequence[str], right: Sequence[str], rows: Pair, columns: Pair) -> list[Pair]:
    """Return the matches inside a window of each side."""
    if rows[0] == rows[1] or columns[0] == columns[1]:
        return []
    if (rows[1] - rows[0]) * (columns[1] - columns[0]) <= MAX_CELLS:
        found = longest(left[slice(*rows)], right[slice(*columns)])
        return [(i + rows[0], j + columns[0]) for i, j in found]
    return _by_anchors(left, right, rows, columns)


def _by_anchors(left: Sequence[str], right: Sequence[str], rows: Pair, columns: Pair) -> list[Pair]:
    found: list[Pair] = []
    row, column = rows[0], columns[0]
    for anchor in (*_anchors(left, right, rows, columns), (rows[1], columns[1])):
        if (anchor[0] - row) * (anchor[1] - column) <= MAX_CELLS:
            found += _between(left, right, (row, anchor[0]), (column, anchor[1]))
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


def longest(rows: Sequence[str], columns: Sequence[str]) -> list[Pair]:
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
