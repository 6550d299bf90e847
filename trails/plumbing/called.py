"""Queries of the catalogue that add up model calls, answered from the figures: the same rows as over the turns, in less time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any, Final, NamedTuple

import pyoxigraph as ox

from trails.history.workspace import Workspace
from trails.model import iris, validation
from trails.plumbing.index.figures import MOST_TOKENS
from trails.plumbing.index.keeper import FIGURES, Part
from trails.plumbing.index.sidefile import SideFile
from trails.rdf import vocab
from trails.rdf.query_files import QueryFile
from trails.store.contract import Solutions
from trails.usage import EXACT, total

_NEAR: Final = 200
"""Lines of the log that the figures may be behind: bringing these in takes less than a query over all turns of a large store."""
_Terms = Mapping[str, Sequence[ox.NamedNode | ox.Literal] | None]


_Tokens = tuple[int | None, int | None, int | None, int | None]
"""Input, output, read from and written to the provider's cache; None for what no call reported."""


class _Group(NamedTuple):
    """Calls that are added up together: those in one group that report the same cost."""

    key: tuple[str, ...]
    calls: int
    tokens: _Tokens
    cost: float | None
    timed: int
    took: int
    """Microseconds, of those calls whose beginning and end were told."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A query: what it groups by, and which columns it gives of each group after these."""

    by: tuple[str, ...]
    """Columns of `calls`."""
    columns: Callable[[_Sum], tuple[ox.Literal | None, ...]]
    parameter: str | None = None
    """The parameter that holds the first of what is grouped by to some values."""
    of_all: frozenset[str] = frozenset()
    """Columns of which a call has the least that is told anywhere; of the others, the least told where it was made."""


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    unpriced: int = 0
    tokens: _Tokens = (None, None, None, None)
    cost: Decimal | None = None
    timed: int = 0
    took: int = 0

    def add(self, found: _Group) -> None:
        self.calls += found.calls
        read, written, cached, caches = map(total, zip(self.tokens, found.tokens, strict=True))
        self.tokens = read, written, cached, caches
        self.timed += found.timed
        self.took += found.took
        if found.cost is None:
            self.unpriced += found.calls
        else:  # as it was reported, not as the nearest binary fraction: sums of these drift
            spent = EXACT.multiply(found.calls, Decimal(repr(found.cost)))
            self.cost = spent if self.cost is None else EXACT.add(self.cost, spent)

    def price(self) -> ox.Literal | None:
        """Return the sum of the costs as the engine gives it; None where none was reported."""
        if self.cost is None:
            return None
        return ox.Literal(validation.decimal(self.cost), datatype=vocab.DECIMAL)

    def seconds(self) -> ox.Literal:
        """Return how long the calls took as the engine gives it: a whole number where that was told of none."""
        if not self.timed:
            return vocab.integer(0)
        return ox.Literal(validation.decimal(EXACT.scaleb(Decimal(self.took), -6)), datatype=vocab.DECIMAL)


def _count(tokens: int | None) -> ox.Literal | None:
    return None if tokens is None else vocab.integer(tokens)


def _used(found: _Sum) -> tuple[ox.Literal | None, ...]:
    return vocab.integer(found.calls), *map(_count, found.tokens), found.price()


def _paid(found: _Sum) -> tuple[ox.Literal | None, ...]:
    return vocab.integer(found.calls), vocab.integer(found.unpriced), found.price()


def _lasted(found: _Sum) -> tuple[ox.Literal | None, ...]:
    spent = map(_count, found.tokens[:2])
    return vocab.integer(found.calls), vocab.integer(found.timed), found.seconds(), *spent, found.price()


_QUESTIONS: Final[Mapping[str, _Question]] = {
    "model-time": _Question(("principal", "provider", "model"), _lasted, "principal", frozenset({"provider", "model"})),
    "cost": _Question(("principal", "author", "model"), _paid, "principal"),
    "token-usage-by-model": _Question(("model",), _used),
    "token-usage-by-session": _Question(("home",), _used, "session"),
}
_TERMS: Final[Mapping[str, Callable[[str], ox.NamedNode | ox.Literal]]] = {
    "principal": lambda name: ox.NamedNode(iris.principal(name)),
    "author": ox.NamedNode,
    "model": ox.Literal,
    "provider": ox.Literal,
    "home": lambda session_id: ox.NamedNode(iris.session(session_id)),
}
"""By column of `calls`, what stands for its value in the answer."""
_VALUES: Final[Mapping[str, Callable[[str], str]]] = {"principal": iris.author_name, "home": iris.session_id}
"""By column that a parameter may hold to some values, the value that an IRI stands for."""


def answer(workspace: Workspace, query: QueryFile, values: Mapping[str, Any]) -> Solutions | None:
    """Return the rows of a query of the catalogue with its parameters as `QueryFile.bind` takes them.

    None where it must be asked of the store: it is no sum of model calls, the figures are not there or far behind, or it
    asks for one value twice.
    """
    asked = _QUESTIONS.get(query.name)
    if asked is None or query.folder == "core" or not is_near(workspace):
        return None
    given = query.terms(**values)
    wanted = None if asked.parameter is None else given[asked.parameter]
    if wanted is not None and len(set(wanted)) < len(wanted):
        return None
    only = None if wanted is None else [_VALUES[asked.by[0]](term.value) for term in wanted]
    sums = workspace.index.figures(lambda file: _sums(file, asked, only))
    if sums is None:
        return None
    terms = [(tuple(_TERMS[by](part) for by, part in zip(asked.by, key, strict=True)), sums[key]) for key in sums]
    rows = [
        (*group, *asked.columns(found))
        for group, found in sorted(terms, key=lambda each: [term.value for term in each[0]])
        if wanted is None or group[0] in wanted
    ]
    return solutions([column.name for column in query.columns], rows)


def is_near(workspace: Workspace, part: Part = FIGURES) -> bool:
    """Tell whether the figures, or another part of the index, are there, and hold all but a little of what the log tells."""
    behind = workspace.index.behind(part)
    return behind <= _NEAR and behind < workspace.store.log.reached.lines


def solutions(names: Sequence[str], rows: Iterable[Sequence[ox.NamedNode | ox.Literal | None]]) -> Solutions:
    """Return rows as the engine gives them."""
    return Solutions(tuple(names), written=[["" if each is None else str(each) for each in row] for row in rows])


def _sums(file: SideFile, asked: _Question, only: Sequence[str] | None) -> dict[tuple[str, ...], _Sum] | None:
    """Return the sums by group, also of some others than `only` has; None where a call has more tokens than the figures keep."""
    scope, values = "", list[str]()
    if only is not None:
        scope, values = f" AND {asked.by[0]} IN ({', '.join('?' * len(only))})", list(only)
    within = "" if only is None else _OF_SOME.format(scope=scope)
    again = file.ask(_AGAIN.format(within=within), values)
    told_again = [dict(zip(_COLUMNS, row, strict=True)) for row in again]
    if file.ask(_MUCH.format(scope=scope), (MOST_TOKENS, *values)) or any(map(_is_much, told_again)):
        return None
    sums: dict[tuple[str, ...], _Sum] = defaultdict(_Sum)
    once = file.ask(_ONCE.format(by=", ".join(asked.by), scope=scope), values)
    for group in [*_told_once(once, len(asked.by)), *_told_again(told_again, asked)]:
        sums[group.key].add(group)
    return sums


_MUCH: Final = (
    "SELECT 1 FROM calls"
    " WHERE max(ifnull(input, 0), ifnull(output, 0), ifnull(cache_read, 0), ifnull(cache_write, 0)) >= ?{scope} LIMIT 1"
)
_ONCE: Final = (
    "SELECT {by}, count(*), sum(input), sum(output), sum(cache_read), sum(cache_write),"
    " count(ended - began), ifnull(sum(ended - began), 0), cost FROM calls"
    " WHERE counts AND digest NOT IN (SELECT digest FROM calls WHERE NOT counts){scope} GROUP BY {by}, cost"
)
_AGAIN: Final = (
    "SELECT digest, rank, home, principal, author, model, input, output, cache_read, cache_write, cost, provider, began, ended"
    " FROM calls"
    " WHERE digest IN (SELECT digest FROM calls WHERE NOT counts){within} ORDER BY digest, rank"
)
_OF_SOME: Final = " AND digest IN (SELECT digest FROM calls WHERE 1{scope})"
_COLUMNS: Final = (
    "digest", "rank", "home", "principal", "author", "model", "input", "output", "cache_read", "cache_write", "cost",
    "provider", "began", "ended",
)  # fmt: skip
_TOKENS: Final = _COLUMNS[6:10]
_ENDS: Final = ("began", "ended")


def _is_much(told: Mapping[str, Any]) -> bool:
    return any((told[name] or 0) >= MOST_TOKENS for name in _TOKENS)


def _told_once(rows: Iterable[Sequence[Any]], width: int) -> Iterator[_Group]:
    """Give the calls that one turn tells of."""
    for row in rows:
        yield _Group(tuple(row[:width]), row[width], tuple(row[width + 1 : width + 5]), row[-1], row[-3], row[-2])


def _told_again(told_again: Iterable[Mapping[str, Any]], asked: _Question) -> Iterator[_Group]:
    """Give the calls that copies tell of, too: where they were made as the queries find it, by the least rank and name."""
    for _, rows in groupby(told_again, key=lambda each: each["digest"]):
        told = list(rows)
        first = [each for each in told if each["rank"] == told[0]["rank"]]
        key = tuple(_least(by, [each[by] for each in (told if by in asked.of_all else first)]) for by in asked.by)
        read, written, cached, caches = (_told_least([each[name] for each in told]) for name in _TOKENS)
        costs = [each["cost"] for each in told]
        is_told = any(cost is not None for cost in costs)
        cost = min(cost or 0.0 for cost in costs) if is_told else None
        began, ended = (min((each[name] for each in told if each[name] is not None), default=None) for name in _ENDS)
        is_timed = began is not None and ended is not None
        yield _Group(
            key, 1, (read, written, cached, caches), cost, int(is_timed), (ended or 0) - (began or 0) if is_timed else 0
        )


def _told_least(counts: Sequence[int | None]) -> int | None:
    """Return the least of some counts, as the queries find it: one that is not told is 0 where another is."""
    return None if all(each is None for each in counts) else min(each or 0 for each in counts)


def _least(by: str, parts: Sequence[str]) -> str:
    return min(parts, key=lambda part: _TERMS[by](part).value)
