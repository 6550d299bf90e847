"""Find texts that repeat another one with few changes, by the runs of words that both have.

A pure function over texts. What it finds are candidates: a text that says the same in other words is not found, and one that
shares a phrase of everyday words may be.
"""

from __future__ import annotations

import re
from typing import Final

from trails.errors import InvalidInput

_WORD: Final = re.compile(r"\w+")
RUN: Final = 3
"""Words in a run."""
FEWEST: Final = 4
"""Runs below which a text is too short to tell a copy from chance."""


def word_runs(text: str) -> frozenset[tuple[str, ...]]:
    """Return all runs of three words in a text, whatever their case, spaces and punctuation.

    >>> sorted(word_runs("Plan a trip, then: Plan A trip!"))
    [('a', 'trip', 'then'), ('plan', 'a', 'trip'), ('then', 'plan', 'a'), ('trip', 'then', 'plan')]
    """
    words = [word.casefold() for word in _WORD.findall(text)]
    return frozenset(tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1))


def least_share(given: object, name: str) -> float:
    """Return the least share of runs that makes a text a candidate; raise `InvalidInput` for none above 0 and at most 1."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 1:
        raise InvalidInput(f"{name} is a share above 0, at most 1, not {given!r:.80}")
    return float(given)


def share_of(original: frozenset[tuple[str, ...]], other: str) -> float:
    """Return which share of the runs of an original stands in another text, from 0 to 1; 0 for an original of fewer than four.

    >>> share_of(word_runs("the code of the safe in the hall is 4711"), "So: the code of the safe in the cellar is 4711.")
    0.625
    """
    if len(original) < FEWEST:
        return 0.0
    return len(original & word_runs(other)) / len(original)
