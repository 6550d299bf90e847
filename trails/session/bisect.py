"""Bisect: at which turn of a transcript an outcome flips, in as few tries as it takes.

What is tried are prefixes of the transcript. One that is good and one that is bad are given; each try halves what is
between, as `git bisect` does. A try may say that it cannot tell (skip): then another prefix near the middle is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trails import validate
from trails.errors import InvalidInput
from trails.model import Turn, Value

Predicate = Callable[[Sequence[Turn]], bool | None]
"""Tells of a prefix of a transcript whether it is good (True), bad (False), or cannot be told (None)."""


class Bisection(Value):
    """What `bisect` found out."""

    good: int
    """The longest prefix that is known to be good, as a number of turns."""
    bad: int
    """The shortest longer prefix that is known to be bad: where nothing was skipped, one turn more."""
    turn: Turn | None
    """The turn with which the outcome flips; None where skipped prefixes leave several to choose from."""
    candidates: tuple[Turn, ...]
    """The turns that it may be: that one, or those between the two prefixes."""
    tried: tuple[tuple[int, bool | None], ...]
    """What was tried, in order: the prefix's number of turns, and what the predicate said."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, ready for JSON."""
        return {
            "good": self.good,
            "bad": self.bad,
            "turn": self.turn.to_dict() if self.turn else None,
            "candidates": [turn.to_dict() for turn in self.candidates],
            "tried": [{"turns": length, "good": answer} for length, answer in self.tried],
        }


def bisect(turns: Sequence[Turn], predicate: Predicate, *, good: int, bad: int) -> Bisection:
    """Return with which turn a transcript turns from good to bad, between a prefix that is good and one that is bad.

    Raises `InvalidInput` where the ends are out of order or range, or are not what they are said to be.
    """
    if not callable(predicate):
        raise InvalidInput(f"bisect needs a function that tells of turns whether they are good, not {predicate!r}")
    if not validate.index(good, "good") < validate.index(bad, "bad") <= len(turns):
        raise InvalidInput(
            f"bisect needs a good prefix that is shorter than the bad one, within {len(turns)} turns; good is {good}, "
            f"bad is {bad}"
        )
    tried: list[tuple[int, bool | None]] = []

    def ask(length: int) -> bool | None:
        answer = predicate(turns[:length])
        if answer is not None and not isinstance(answer, bool):
            raise InvalidInput(f"the predicate gave {answer!r}; it must give True (good), False (bad) or None (skip)")
        tried.append((length, answer))
        return answer

    _require(ask(good), True, good)
    _require(ask(bad), False, bad)
    low, high = narrowed(good, bad, ask)
    return Bisection(
        good=low,
        bad=high,
        turn=turns[low] if high == low + 1 else None,
        candidates=tuple(turns[low:high]),
        tried=tuple(tried),
    )


def _require(answer: bool | None, wanted: bool, length: int) -> None:
    if answer is not wanted:
        said = "good" if wanted else "bad"
        found = "could not be told" if answer is None else "they are not"
        raise InvalidInput(
            f"the first {length} turns were said to be {said}, and {found}; give other ends with `good` and `bad`"
        )


def narrowed(good: int, bad: int, ask: Callable[[int], bool | None]) -> tuple[int, int]:
    """Return a good and a bad length with nothing between them but what was skipped.

    >>> narrowed(0, 100, lambda length: length < 73)
    (72, 73)
    """
    skipped: set[int] = set()
    misses = 0
    while open_lengths := [length for length in range(good + 1, bad) if length not in skipped]:
        # After a skip, the next try is not beside the skipped one: what breaks one prefix often breaks its neighbours.
        length = open_lengths[int(_spread(misses) * len(open_lengths))]
        answer = ask(length)
        if answer is None:
            skipped.add(length)
            misses += 1
        else:
            misses = 0
            good, bad = (length, bad) if answer else (good, length)
    return good, bad


def _spread(number: int) -> float:
    """Return places between 0 and 1 that lie apart from all before: 1/2, 1/4, 3/4, 1/8, 5/8 and so on (van der Corput).

    >>> [_spread(number) for number in range(5)]
    [0.5, 0.25, 0.75, 0.125, 0.625]
    """
    number += 1
    place, step = 0.0, 0.5
    while number:
        place += step * (number & 1)
        number >>= 1
        step /= 2
    return place
