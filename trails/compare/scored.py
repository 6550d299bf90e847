"""Columns of scores in a comparison: one for each name, or for each name and scorer where several scored it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from trails import iris
from trails.records.scores import ScoreValue

SCORE: Final = "score."
"""What stands before a score's name in a column's name."""


class Scored(NamedTuple):
    """By what a session was scored: the score's name, the scorer's IRI and version."""

    name: str
    by_iri: str
    version: str | None


def columns(every: Iterable[Scored]) -> dict[Scored, str]:
    """Return the name of the column of each: `score.NAME`, with `@SCORER/VERSION` behind it where several gave the name.

    What several scorers gave is never put into one column: neither of two is taken for the right one.

    >>> grader, bob = Scored("ok", "urn:trails:agent:grader", "2"), Scored("ok", "urn:trails:principal:bob", None)
    >>> list(columns([grader]).values()), list(columns([grader, bob]).values())
    (['score.ok'], ['score.ok@agent:grader/2', 'score.ok@bob'])
    """
    by_name: dict[str, set[Scored]] = defaultdict(set)
    for each in every:
        by_name[each.name].add(each)
    found: dict[Scored, str] = {}
    for name, scorers in sorted(by_name.items()):
        for each in sorted(scorers, key=lambda each: (_scorer(each), each.by_iri)):
            column = SCORE + name if len(scorers) == 1 else f"{SCORE}{name}@{_scorer(each)}"
            found[each] = column if column not in found.values() else f"{column} ({each.by_iri} {each.version!r})"
    return found


def _scorer(each: Scored) -> str:
    name = iris.author_name(each.by_iri)
    return (f"agent:{name}" if iris.is_agent(each.by_iri) else name) + (f"/{each.version}" if each.version else "")


def cells(scores: Mapping[Scored, ScoreValue], names: Mapping[Scored, str]) -> dict[str, float | str | None]:
    """Return a branch's cells in the columns of scores: a truth value as 1 or 0, which has a mean; None where none is."""
    return {column: _cell(scores.get(each)) for each, column in names.items()}


def _cell(value: ScoreValue | None) -> float | str | None:
    return int(value) if isinstance(value, bool) else value
