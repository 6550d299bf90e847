"""The names that are nearest to one that is not there, for errors that say what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from typing import Final

_LONGEST: Final = 100
"""Of longer names, so much is compared."""
_MOST: Final = 1_000
"""Of more candidates, the first so many are compared: at most some 10 ms."""


def nearest(name: str, candidates: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return up to `most` of the candidates that look like a name, the nearest first; upper and lower case are alike.

    A candidate looks like it where their similarity (`difflib`'s ratio, 0 to 1) is at least `cutoff`, or where it holds
    the name (of 3 characters or more).

    >>> nearest("promt", ["prompt", "answer", "prompts"]), nearest("plan", ["claude-code:release-plan"])
    (['prompt', 'prompts'], ['claude-code:release-plan'])
    """
    from difflib import SequenceMatcher  # noqa: PLC0415 - only errors need it

    wanted = name.lower()[:_LONGEST]
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    scored: list[tuple[float, str]] = []
    for candidate in list(dict.fromkeys(candidates))[:_MOST]:
        plain = candidate.lower()[:_LONGEST]
        matcher.set_seq1(plain)
        if matcher.real_quick_ratio() >= cutoff and matcher.quick_ratio() >= cutoff:
            score = matcher.ratio()
            if score >= cutoff:
                scored.append((score, candidate))
                continue
        if len(wanted) > 2 and wanted in plain:
            scored.append((len(wanted) / len(plain) * cutoff, candidate))
    return [candidate for _, candidate in nlargest(most, scored, key=lambda found: found[0])]


def did_you_mean(name: str, candidates: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> str:
    """Return what an error message says after a name that is not there: the nearest in brackets, or nothing.

    >>> did_you_mean("promt", ["prompt", "answer"]), did_you_mean("x", ["answer"])
    (" (did you mean 'prompt'?)", '')
    """
    found = [repr(each) for each in nearest(name, candidates, most=most, cutoff=cutoff)]
    return f" (did you mean {' or '.join(found)}?)" if found else ""
