"""Find, check and bind the SPARQL files of `queries/`.

Every file is a whole query that runs unedited in any SPARQL console. What a caller may set is on lines of its own, marked
with a comment:

- ``VALUES ?turn { <urn:example> } #: turn`` - the list between the braces is replaced by the given values;
- any other line that ends in ``#: name`` holds exactly one IRI or number, which is replaced.

The folders are `core` (what Trails itself asks), `catalogue` (for users) and `audit` (for auditors, by theme). The header names
purpose, parameters and columns, and the theme of a query for auditors::

    # theme: one of `THEMES`, in the folder `audit` only
    # purpose: one sentence
    # about: a paragraph for readers who do not know SPARQL, over as many lines as it takes:
    #   the question, what the query walks, what a row is, what is left out
    # keywords: words that people ask with and the header does not use, if any; `trails queries --search` finds by them
    # param turn (turn): what it is            - kinds: session, turn, iri, text, integer, time; "optional" may follow
    # column source (iri): what it is
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import pyoxigraph as ox

from trails.errors import InvalidInput
from trails.model import iris, validation
from trails.rdf import vocab
from trails.suggestions import did_you_mean

_HEADER: Final = re.compile(
    r"#\s*(purpose|about|theme|keywords|param|column)\s*(?:(\w+)\s*\((\w+)(,\s*optional)?\))?\s*:\s*(.+)"
)
_CONTINUED: Final = re.compile(r"#   (\S.*)")
"""A further line of the paragraph."""
_MARKED: Final = re.compile(r"^(?P<line>.*?)\s*#:\s*(?P<name>\w+)\s*$")
_LIST: Final = re.compile(r"\{[^{}]*\}")
_CONSTANT: Final = re.compile(r"<[^<>\s=]*>|(?<![\w?:.-])\d+\b")
MAX_TERMS: Final = 1_000
"""The most values that one parameter is bound to: with a few more, the engine plans otherwise and takes ten times as long."""
_Item = TypeVar("_Item")
FOLDERS: Final = ("core", "catalogue", "audit")
THEMES: Final = {
    "context": "what a model was shown of a transcript, what not, and where that came from",
    "branches": "how sessions hang together: forks, what they share, keys, moves and aliases",
    "integrity": "whether the record is whole: gaps, heads, copies, times, checkpoints",
    "people": "who acted for whom, who influenced what, and what is kept about one person",
    "work": "what agents did: sub-agents, tools, models, results, tokens, time and cost",
    "removal": "what was taken away, by whom, by which rule, and what still repeats it",
    "registers": "what those who answer for a store keep beside it: incidents, purposes, reads, exports, backups",
}
"""The themes of the queries for auditors, in the order in which the guide tells them, and what each asks."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a caller may set in a query: a name, the kind of its value, whether it may be left out."""

    name: str
    kind: str
    optional: bool
    description: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a query's result."""

    name: str
    kind: str
    description: str


class BoundQuery(str):
    """The text of a query file with its parameters set, which says which file that is and what it is bound to."""

    __slots__ = ("name", "terms")

    name: str
    terms: dict[str, list[ox.NamedNode | ox.Literal] | None]


@dataclass(frozen=True, slots=True)
class QueryFile:
    """One file of `queries/`, parsed: its header, its text, and the text cut at the places to bind."""

    name: str
    folder: str
    purpose: str
    parameters: tuple[Parameter, ...]
    columns: tuple[Column, ...]
    text: str
    _pieces: tuple[str | _Slot, ...]
    keywords: str = ""
    """Words that people ask with and the rest of the header does not use, with spaces between them."""
    about: str = ""
    """A paragraph for readers who do not know SPARQL: the question, what the query walks, what a row is, what is left out."""
    theme: str = ""
    """What a query of the folder `audit` is about, one of `THEMES`; empty for the others."""

    def bind(self, **values: Any) -> BoundQuery:
        """Return the query with its parameters set. A parameter takes a value or a list of 1 to `MAX_TERMS` values.

        Raises `InvalidInput` for an unknown name, a missing one that is not optional, an empty list or one that is too
        long, or a value that is not of the parameter's kind.

        >>> "urn:trails:session:a>" in find("lineage").bind(session="a")
        True
        """
        terms = self.terms(**values)
        rendered = {
            each.name: None if (given := terms[each.name]) is None else [_rendered(term, each) for term in given]
            for each in self.parameters
        }
        pieces = (piece if isinstance(piece, str) else piece.fill(rendered[piece.name]) for piece in self._pieces)
        made = BoundQuery("".join(pieces))
        made.name, made.terms = self.name, terms
        return made

    def terms(self, **values: Any) -> dict[str, list[ox.NamedNode | ox.Literal] | None]:
        """Return by name the terms that `bind` sets the parameters to, None for what is left out; raise as it does."""
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in values.keys() - known.keys():
            raise InvalidInput(
                f"the query {self.name!r} has no parameter {name!r}{did_you_mean(name, known)}; it has: "
                f"{', '.join(known) or 'none'}"
            )
        terms: dict[str, list[ox.NamedNode | ox.Literal] | None] = {}
        for parameter in self.parameters:
            value = values.get(parameter.name)
            if value is None:
                if not parameter.optional:
                    raise InvalidInput(
                        f"the query {self.name!r} needs the parameter {parameter.name!r} ({parameter.kind})"
                    )
                terms[parameter.name] = None
            else:
                many = (
                    list(value) if isinstance(value, Sequence | set) and not isinstance(value, str | bytes) else [value]
                )
                if not many:
                    raise InvalidInput(f"the parameter {parameter.name!r} of the query {self.name!r} is an empty list")
                if len(many) > MAX_TERMS:
                    raise InvalidInput(
                        f"the parameter {parameter.name!r} of the query {self.name!r} takes up to {MAX_TERMS:,} values, "
                        f"not {len(many):,}; ask in portions, or ask for all of them at once and keep what you want"
                    )
                terms[parameter.name] = [_checked(item, parameter) for item in many]
        return terms


def batches(values: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Yield values in runs of up to `MAX_TERMS`, as one parameter is bound to them; nothing where there are none.

    >>> [len(batch) for batch in batches(range(2_100))]
    [1000, 1000, 100]
    """
    return (values[start : start + MAX_TERMS] for start in range(0, len(values), MAX_TERMS))


@dataclass(frozen=True, slots=True)
class _Slot:
    """A place in a query's text that a parameter fills; `default` is what stands in the file."""

    name: str
    is_list: bool
    default: str

    def fill(self, terms: list[str] | None) -> str:
        if self.is_list:
            return "{ " + ("UNDEF" if terms is None else " ".join(terms)) + " }"
        if terms is None:
            return self.default
        if len(terms) != 1:
            raise InvalidInput(f"the parameter {self.name!r} takes one value, not {len(terms)}")
        return terms[0]


def _checked(value: Any, parameter: Parameter) -> ox.NamedNode | ox.Literal:
    try:
        return _term(value, parameter.kind)
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"the parameter {parameter.name!r} takes {parameter.kind} ({parameter.description}): {error}"
        ) from error


def _rendered(term: ox.NamedNode | ox.Literal, parameter: Parameter) -> str:
    """Return a term as SPARQL text: the engine's own rendering of a validated term, so nothing can break out of it."""
    return term.value if parameter.kind == "integer" else str(term)  # LIMIT takes no typed literal


def _term(value: Any, kind: str) -> ox.NamedNode | ox.Literal:
    if kind == "integer":
        return vocab.integer(_whole(value))
    if isinstance(value, ox.NamedNode | ox.Literal):
        return value
    if kind == "time":
        moment = validation.time(datetime.fromisoformat(value) if isinstance(value, str) else value)
        return ox.Literal(moment.isoformat().replace("+00:00", "Z"), datatype=vocab.DATE_TIME)
    plain = validation.text(value, "a parameter")
    if kind == "text":
        return ox.Literal(plain)
    if kind in _MINTED and not plain.startswith("urn:trails:"):
        return ox.NamedNode(_MINTED[kind](plain))
    return ox.NamedNode(plain)


def _whole(value: Any) -> int:
    plain = isinstance(value, ox.Literal) and value.value.isascii() and value.value.isdecimal()
    number = validation.index(int(value.value) if plain else value, "an integer parameter")
    if number > validation.MAX_WHOLE:
        raise InvalidInput(f"it is over {validation.MAX_WHOLE:,}, the greatest that a query compares")
    return number


_MINTED: Final = {
    "session": lambda plain: iris.session(validation.session_id(plain)),
    "principal": iris.principal,
    "agent": iris.agent,
}
"""The kinds whose values may be plain names."""


def folder() -> Path:
    """Return the folder of the query files: inside an installed package, or at the top of a source checkout."""
    here = Path(__file__).parent.parent
    installed = here / "_data" / "queries"
    return installed if installed.is_dir() else here.parent / "queries"


def names() -> list[str]:
    """Return the names of the ready-made queries, in order, without reading any."""
    return sorted(name for name, path in _paths().items() if path.parent.name != "core")


@cache
def _paths() -> dict[str, Path]:
    """Return where each query file of `FOLDERS` is, by name (its file name without `.rq`)."""
    return {path.stem: path for name in FOLDERS for path in (folder() / name).glob("*.rq")}


@cache
def _load(name: str) -> QueryFile:
    path = _paths()[name]
    return parse(name, path.parent.name, path.read_text("utf-8"))


def load_all() -> dict[str, QueryFile]:
    """Return every query file by name."""
    return {name: _load(name) for name in sorted(_paths())}


def exists(name: str) -> bool:
    """Tell whether there is a query file with a name."""
    return name in _paths()


def catalogue() -> dict[str, QueryFile]:
    """Return the ready-made queries for users and auditors, by name."""
    return {name: query for name, query in load_all().items() if query.folder != "core"}


def by_theme(theme: str) -> dict[str, QueryFile]:
    """Return the queries for auditors on one of `THEMES`, by name."""
    return {name: query for name, query in load_all().items() if query.folder == "audit" and query.theme == theme}


def find(name: str) -> QueryFile:
    """Return a query file by name, or raise `InvalidInput` with the names there are."""
    if not exists(name):
        near = did_you_mean(name, catalogue())
        there = f"`trails queries` lists all {len(catalogue())}, and --search finds one by what it answers"
        raise InvalidInput(f"there is no query named {name!r}{near}; {there}")
    return _load(name)


def parse(name: str, folder_name: str, text: str) -> QueryFile:
    """Return a query file from its text; a header or marker that is not as documented raises `InvalidInput`."""
    texts: dict[str, str] = {}
    parameters, columns, pieces = list[Parameter](), list[Column](), list[str | _Slot]()
    last = ""
    for line in text.splitlines(keepends=True):
        if header := _HEADER.match(line):
            last, item, kind, optional, description = header.groups()
            if last == "param":
                parameters.append(Parameter(item, kind, bool(optional), description.strip()))
            elif last == "column":
                columns.append(Column(item, kind, description.strip()))
            else:
                texts[last] = description.strip()
        elif last == "about" and (more := _CONTINUED.match(line)):
            texts["about"] += f" {more[1].strip()}"
        if marked := _MARKED.match(line):
            pieces += _cut(name, marked["line"], marked["name"])
        else:
            pieces.append(line)
    purpose, theme = texts.get("purpose", ""), texts.get("theme", "")
    slots = {piece.name for piece in pieces if isinstance(piece, _Slot)}
    declared = {parameter.name for parameter in parameters}
    if not purpose or slots != declared:
        raise InvalidInput(f"query {name!r}: header and markers differ (purpose {purpose!r}, {declared} and {slots})")
    if folder_name == "audit" and theme not in THEMES:
        raise InvalidInput(f"query {name!r}: its theme is {theme!r}, and one of {', '.join(THEMES)} is wanted")
    return QueryFile(
        name,
        folder_name,
        purpose,
        tuple(parameters),
        tuple(columns),
        text,
        tuple(pieces),
        keywords=texts.get("keywords", ""),
        about=texts.get("about", ""),
        theme=theme,
    )


def _cut(name: str, line: str, parameter: str) -> list[str | _Slot]:
    is_list = line.lstrip().startswith("VALUES")
    found = list((_LIST if is_list else _CONSTANT).finditer(line))
    if len(found) != 1:
        raise InvalidInput(
            f"query {name!r}: the marked line {line.strip()!r} needs one place to bind, has {len(found)}"
        )
    start, end = found[0].span()
    return [line[:start], _Slot(parameter, is_list, line[start:end]), line[end:] + "\n"]
