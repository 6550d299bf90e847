"""The store contract: what a store of quads must do. `trails.testing` is its conformance suite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar, overload

import pyoxigraph as ox

from trails.display import html, tables, text_table
from trails.display.tables import Kind, PlainTable, Tabular
from trails.display.terminal_text import LINE_WIDTH, count, shorten_name
from trails.errors import NoSuchName, StoreReadOnly, TrailsError
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.rdf import vocab
from trails.store import tsv
from trails.store.leaflog import LeafLog
from trails.store.pattern import Pattern
from trails.store.tsv import Term, Values, to_python

Durability = Literal["disk", "process"]
"""`disk`: a commit returns when it survives a power cut. `process`: when it survives the death of this process."""


@dataclass(frozen=True, slots=True)
class Change:
    """One commit: all of it happens or none.

    `require` are quads that must exist and `forbid` patterns that must match nothing, both checked under the write lock.
    `drop` are graphs that go with all their quads, before anything is added.
    `leaves` go to the store's log with the commit, and `also_add` and `also_remove` are quads that were made with them, new each
    time: a repeat is told without them. `read` is what of the store they were made from, by pattern (None: all of it): the
    commit happens only while that is as it was. `as_of` is the store's `number` from before it was read: while nobody has
    committed since, nothing is looked up.
    `seen` says when `require` was last seen to hold: the store's `token` before that; while the store still gives the same
    one, it still holds and is not looked up. `writer` stands for whoever knows, from its own last commit, that nothing
    in the graphs of `forbid` matches: while nobody else writes to such a graph, it is not looked up either.
    """

    add: Sequence[ox.Quad] = ()
    remove: Sequence[ox.Quad] = ()
    require: Sequence[ox.Quad] = ()
    forbid: Sequence[Pattern] = ()
    drop: Sequence[ox.NamedNode] = ()
    seen: object = None
    writer: object = None
    leaves: Sequence[Leaf] = ()
    also_add: Sequence[ox.Quad] = ()
    also_remove: Sequence[ox.Quad] = ()
    read: Mapping[Pattern, Sequence[ox.Quad]] | None = field(default_factory=dict)
    as_of: int | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a commit that was not refused, and how far the store's log was then.

    `written` is True where this call wrote it, False where it had all happened before: a repeat after an answer that was
    lost, say. `number` is that of the last record then, its own where it was written; `link` is that of the log's last line,
    which stands for all lines before it.
    """

    written: bool
    number: int
    link: str


_Cell = TypeVar("_Cell")
_FEW: Final = 1000
"""Rows that are made at once, and kept where there are no more."""


class PreconditionFailed(TrailsError):
    """A commit's precondition did not hold; nothing was written.

    `missing` is the required quad that does not exist, or `matched` the quads that matched a forbidden pattern (the
    first 100 of them), of which `present` is the first. `is_outdated` is True where all that held, and what the leaves of the
    change were made from is not as it was read: read it again, and make them anew.
    """

    def __init__(
        self, *, missing: ox.Quad | None = None, matched: Sequence[ox.Quad] = (), is_outdated: bool = False
    ) -> None:
        self.missing = missing
        self.matched = tuple(matched)
        self.present = self.matched[0] if matched else None
        self.is_outdated = is_outdated
        said = (
            f"required but missing: {_shown(missing)}" if missing else f"forbidden but present: {_shown(self.present)}"
        )
        super().__init__("what the change was made from is not as it was read" if is_outdated else said)


def _shown(quad: ox.Quad | None) -> str:
    """Return what an error says of a quad: no value and no name, which may be what was taken out just now."""
    if quad is None:
        return ""
    subject = str(quad.subject)
    kind = iris.kind_of_name(subject.strip("<>"))
    return f"a value of {quad.predicate} of {subject if kind is None else f'one of <{kind}...>'}"


def read_only(location: str, remedy: str = "open it without") -> StoreReadOnly:
    """Return the error for whatever would write to a store that was opened to be read."""
    return StoreReadOnly(
        f"the store {location} was opened with read_only=True, so nothing can be written through it; {remedy}"
    )


class Solutions(Sequence[ox.QuerySolution], Tabular):
    """The materialised rows of a SELECT; each row gives its RDF terms by name (`row["turn"]`) or position (`row[0]`)."""

    def __init__(
        self,
        variables: tuple[str, ...],
        rows: list[ox.QuerySolution] | None = None,
        *,
        written: Sequence[list[str]] | None = None,
        truncated: bool = False,
    ) -> None:
        """Have rows, or the terms of each row as TSV has them (`store.tsv`): these become rows when one is asked for."""
        self.variables = variables
        self.truncated = truncated
        """Whether there are more rows than the query was allowed (`max_rows`), which are not here."""
        self._made = rows
        self._written = written

    @classmethod
    def joined(cls, variables: tuple[str, ...], parts: Iterable[Solutions]) -> Solutions:
        """Return the rows of several answers to queries with the same variables, one after the other."""
        found = list(parts)
        if all(part._written is not None for part in found):
            return cls(variables, written=[line for part in found for line in part._written or ()])
        return cls(variables, [row for part in found for row in part])

    def first(self, count: int) -> Solutions:
        """Return these rows, or so many of them and `truncated` where there are more."""
        if len(self) <= count:
            return self
        if self._written is not None:
            return Solutions(self.variables, written=self._written[:count], truncated=True)
        return Solutions(self.variables, self._rows[:count], truncated=True)

    @property
    def _rows(self) -> list[ox.QuerySolution]:
        if self._made is None:
            self._made = tsv.parsed(self.variables, self._written or [])
        return self._made

    def _columns(self) -> list[list[Term | None]]:
        return _turned([tuple(row) for row in self], len(self.variables))

    @overload
    def __getitem__(self, index: int) -> ox.QuerySolution: ...
    @overload
    def __getitem__(self, index: slice) -> list[ox.QuerySolution]: ...
    def __getitem__(self, index: int | slice) -> ox.QuerySolution | list[ox.QuerySolution]:
        if isinstance(index, str):
            raise NoSuchName(f"a Solutions has no [{index!r:.40}]{tables.AS_FRAME}")
        if self._written is None or len(self._written) <= _FEW:
            return self._rows[index]
        if isinstance(index, slice):
            return tsv.parsed(self.variables, self._written[index])
        return tsv.parsed(self.variables, [self._written[index]])[0]

    def __len__(self) -> int:
        return len(self._rows if self._written is None else self._written)

    def __iter__(self) -> Iterator[ox.QuerySolution]:
        if self._written is None or len(self._written) <= _FEW:
            return iter(self._rows)
        return self._read(self._written)

    def _read(self, written: Iterable[list[str]]) -> Iterator[ox.QuerySolution]:
        lines = iter(written)
        while some := list(islice(lines, _FEW)):
            yield from tsv.parsed(self.variables, some)

    def __repr__(self) -> str:
        more = ", there are more" if self.truncated else ""
        heading = f"<Solutions {' '.join('?' + name for name in self.variables)}: {count(len(self), 'row')}{more}>"
        return text_table.draw(heading, self._for_people(), total=len(self))

    def _for_people(self) -> PlainTable:
        """Return the first rows, IRIs as a query may write them, of long ones the beginning and the end that tells them apart."""
        width = max(LINE_WIDTH // max(len(self.variables), 1) - 2, text_table.NARROWEST)
        shown = Solutions(self.variables, self[: text_table.MOST_ROWS])
        texts = shown.table()
        rows = [dict(row) for row in texts.rows]
        for row, terms in zip(rows, shown, strict=True):
            iris = (name for name in self.variables if isinstance(terms[name], ox.NamedNode))
            row.update((name, shorten_name(_with_prefix(row[name]), width)) for name in iris)
        return PlainTable(texts.kinds, rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each row as a dict of Python values: numbers, booleans, times and strings; IRIs as strings; unbound None."""
        names = self.variables
        if self._written is None:
            return [dict(zip(names, map(to_python, row), strict=True)) for row in self._rows]
        if not names:
            return [{} for _ in self._written]
        columns = [map(Values().__getitem__, column) for column in _turned(self._written, len(names))]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def table(self) -> PlainTable:
        """Return the rows as a table whose columns have the kinds of what stands in them; unbound is None.

        Whole numbers, numbers (as floats), booleans and times with a zone are such where the whole column is; a column with
        rdf:JSON has what that says, and text beside it as text; all else is text, IRIs too.
        """
        columns = {name: _column(terms) for name, terms in zip(self.variables, self._columns(), strict=True)}
        cells = zip(*(values for _, values in columns.values()), strict=True)
        return PlainTable(
            {name: kind for name, (kind, _) in columns.items()},
            [dict(zip(self.variables, row, strict=True)) for row in cells],
        )

    @html.safe
    def _repr_html_(self) -> str:
        first = Solutions(self.variables, self[: html.MOST_ROWS]).table()
        right = [name for name, kind in first.kinds.items() if kind in tables.NUMERIC]
        rows = [[tables.text(row[name], kind) for name, kind in first.kinds.items()] for row in first.rows]
        return html.box(count(len(self), "row"), [html.table(self.variables, rows, right=right, total=len(self))])


def _with_prefix(iri: str) -> str:
    """Return an IRI as a query may write it: by a prefix that each query has, where there is one."""
    named = (f"{prefix}:{iri.removeprefix(base)}" for prefix, base in vocab.PREFIXES.items() if iri.startswith(base))
    return next(named, iri)


class Triples(list[ox.Triple], Tabular):
    """The triples of a CONSTRUCT or DESCRIBE, materialised."""

    truncated = False
    """Whether there are more triples than the query was allowed (`max_rows`), which are not here."""

    def __repr__(self) -> str:
        return f"<Triples: {len(self)}{', there are more' if self.truncated else ''}>"

    def table(self) -> PlainTable:
        """Return the triples as a table of three columns of text; a literal as its text alone."""
        names = ("subject", "predicate", "object")
        rows = [{name: getattr(term := getattr(triple, name), "value", str(term)) for name in names} for triple in self]
        return PlainTable(dict.fromkeys(names, "text"), rows)


Result = Solutions | bool | list[ox.Triple]
"""SELECT gives solutions, ASK a bool, CONSTRUCT and DESCRIBE a list of triples (`Triples`)."""


_NUMBERS: Final = frozenset({vocab.INTEGER, vocab.DECIMAL, vocab.DOUBLE, ox.NamedNode(vocab.XSD + "float")})
_KINDS: Final[dict[ox.NamedNode | None, Kind]] = {
    **dict.fromkeys(_NUMBERS, "number"),
    vocab.INTEGER: "integer",
    vocab.BOOLEAN: "boolean",
    vocab.DATE_TIME: "time",
}


def _turned(rows: Sequence[Sequence[_Cell]], width: int) -> list[list[_Cell]]:
    """Return the columns of rows that have so many cells."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def _column(terms: Sequence[Term | None]) -> tuple[Kind, list[Any]]:
    """Return what a column of terms holds, and its values."""
    kind = _kind({getattr(term, "datatype", None) for term in terms if term is not None})
    values = [to_python(term) for term in terms]
    if kind == "number":
        return kind, [None if value is None else float(value) for value in values]
    if kind == "json":
        return kind, [value if _is_json(term) else _text(term) for term, value in zip(terms, values, strict=True)]
    if kind == "text" or (kind == "time" and not all(value is None or _has_zone(value) for value in values)):
        return "text", [_text(term) for term in terms]
    return kind, values


def _kind(datatypes: set[ox.NamedNode | None]) -> Kind:
    """Return what a column holds in which such datatypes stand; IRIs have none."""
    if vocab.JSON in datatypes:
        return "json"
    if len(datatypes) == 1:
        return _KINDS.get(next(iter(datatypes)), "text")
    return "number" if datatypes and datatypes <= _NUMBERS else "text"


def _has_zone(value: object) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def _is_json(term: Term | None) -> bool:
    return isinstance(term, ox.Literal) and term.datatype == vocab.JSON


def _text(term: Term | None) -> str | None:
    return None if term is None else str(getattr(term, "value", term))


class Matching(Protocol):
    """Whatever can be asked for quads by pattern: a store, or a `Preview` of one."""

    def quads(self, pattern: Pattern) -> list[ox.Quad]:
        """Return all quads that match a pattern."""
        ...


class QuadStore(Protocol):
    """A store of quads. Every method raises `StoreFailed` once the store is closed, failed, or in a forked child."""

    @property
    def location(self) -> str:
        """The path, URL or `:memory:` that the store was opened with."""
        ...

    @property
    def folder(self) -> Path | None:
        """The folder that is the store; None where there is none."""
        ...

    @property
    def log(self) -> LeafLog:
        """The append-only log of the store's commits."""
        ...

    @property
    def token(self) -> object:
        """What stands for all that is there: while the store gives an equal one, nothing that was there is gone.

        The store alone makes it and reads it (`Change.seen`); it means nothing to another store, nor in another process.
        """
        ...

    @property
    def number(self) -> int:
        """The number of the last commit that whoever reads here sees: it grows with every commit, from 0."""
        ...

    def query(
        self, text: str, *, union: bool = False, graph: ox.NamedNode | ox.BlankNode | ox.DefaultGraph | None = None
    ) -> Result:
        """Return all results of a SPARQL query.

        With `union`, the default graph is the union of all graphs; with `graph`, it is that one, and the query sees no other.
        """
        ...

    def table(self, text: str) -> list[list[str]]:
        """Return all rows of a SELECT as terms written as in TSV (`store.tsv` reads them); quick beside other threads."""
        ...

    def rows(self, text: str) -> Iterator[list[str]]:
        """Yield all rows of a SELECT as `table` returns them, as they are at the call, and hold few of them in memory."""
        ...

    def commit(self, change: Change) -> Committed:
        """Do a change whole; return whether it was written now or had all happened before (a retry), and where the log is.

        Raises `PreconditionFailed` when a requirement does not hold, `StoreFailed` when writing failed.
        """
        ...

    def quads(self, pattern: Pattern) -> list[ox.Quad]:
        """Return all quads that match a pattern."""
        ...

    def flush(self) -> None:
        """Bring everything written so far to disk in its final files."""
        ...

    def close(self) -> None:
        """Flush and release the store. Closing twice is allowed."""
        ...

    def __len__(self) -> int:
        """Return the number of quads."""
        ...
