"""Which stored figures of model calls an earlier version counted otherwise than this one does: pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from pyoxigraph import Literal, NamedNode

from trails import vocab
from trails.decoding import json_object
from trails.errors import TrailsError
from trails.older_usage import older_figures_of
from trails.records.turns import FIGURES, figure_facts, usage_facts

_Fact = tuple[NamedNode, Literal]
_FIGURES: Final = frozenset(FIGURES.values())
COUNTED: Final = (vocab.USAGE, *_FIGURES)
"""The properties that `recounts` reads."""


class Recount(NamedTuple):
    """A model call whose figures an earlier version counted."""

    call: Any
    """The call, as it was given."""
    usage: str
    """The reported usage, as JSON text."""
    stored: Sequence[_Fact]
    right: Sequence[_Fact]


def recounts(facts: Iterable[tuple[Any, NamedNode, Any]]) -> Iterator[Recount]:
    """Yield the calls among some facts whose figures stand as an earlier version counted them, and no longer are right.

    `facts` are (subject, property, value). Figures that no version counts so were altered: they are not among these.
    """
    usages: dict[Any, str] = {}
    stored: dict[Any, list[_Fact]] = defaultdict(list)
    for subject, prop, value in facts:
        if prop == vocab.USAGE and value.datatype == vocab.JSON:
            usages[subject] = value.value
        elif prop in _FIGURES:
            stored[subject].append((prop, value))
    for subject, usage in usages.items():
        figures = stored.get(subject, [])
        try:
            right = usage_facts(usage)
            if set(figures) != set(right) and set(figures) == set(figure_facts(older_figures_of(json_object(usage)))):
                yield Recount(subject, usage, figures, right)
        except (TrailsError, ValueError):  # a usage that Trails never writes
            continue
