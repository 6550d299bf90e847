"""The catalog of a store by subject: whose each is, and when it was recorded. Pure, once it is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Self

from pyoxigraph import Literal, NamedNode, Quad

from trails.history import record_registry
from trails.model import iris
from trails.rdf import vocab
from trails.rdf.codec import parse_time
from trails.store.contract import QuadStore

LINKS: Final = frozenset(link for kind in record_registry.KINDS for link in kind.links)
"""The properties by which a record names its session."""


@dataclass(slots=True)
class Catalog:
    """The catalog by subject, and what is taken out of it and put into it."""

    subjects: dict[str, list[Quad]]
    starts: dict[str, int] = field(default_factory=dict)
    """By the id of a session that was a fork then and is none now, its fork index."""

    @classmethod
    def of(cls, store: QuadStore) -> Self:
        """Return the catalog of a store."""
        subjects: dict[str, list[Quad]] = defaultdict(list)
        for quad in store.quads((None, None, None, vocab.CATALOG)):
            subjects[text_of(quad.subject)].append(quad)
        return cls(dict(subjects))

    def owners(self, subject: str) -> set[str]:
        """Return the ids of the sessions that a subject belongs to."""
        home = subject.partition("/")[0]
        if iris.is_session(home):
            return {iris.session_id(home)}
        named = [quad.object for quad in self.subjects[subject] if quad.predicate in LINKS]
        linked = {text_of(each) for each in named if isinstance(each, NamedNode)}
        found = {iris.session_id(each) for each in linked if iris.is_session(each)}
        through = (each for each in linked if each in self.subjects and not iris.is_session(each) and each != subject)
        return found or {owner for each in through for owner in self.owners(each)}

    def changed_at(self, subject: str) -> datetime | None:
        """Return when a record was made that is logged with its session's row, as one more change of it; None for others."""
        home, _, rest = subject.partition("/")
        if iris.is_session(home) and not rest.startswith(("act/", "signature/", "system/", "import")):
            return None
        return time_of(self.subjects[subject])


def has_type(subjects: Mapping[str, Sequence[Quad]], subject: str, kind: NamedNode) -> bool:
    """Tell whether a subject is of a type."""
    return any(quad.object == kind for quad in subjects.get(subject, ()))


def time_of(quads: Sequence[Quad]) -> datetime | None:
    """Return the latest time that is said of something."""
    return max(_times(quads), default=None)


def earliest_time(quads: Sequence[Quad]) -> datetime | None:
    """Return the earliest time that is said of something."""
    return min(_times(quads), default=None)


def _times(quads: Sequence[Quad]) -> Iterator[datetime]:
    texts = (q.object.value for q in quads if isinstance(q.object, Literal) and q.object.datatype == vocab.DATE_TIME)
    return map(parse_time, texts)


def one_text(quads: Sequence[Quad], predicate: NamedNode) -> str | None:
    """Return what is said of something by a property, as text."""
    return next((text_of(quad.object) for quad in quads if quad.predicate == predicate), None)


def text_of(term: object) -> str:
    """Return an IRI, or the text of a literal."""
    return str(getattr(term, "value", term))
