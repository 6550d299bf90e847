"""A store's quads as plain Python, for counts that share nothing with a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import trails
from trails import Repository
from trails.rdf import vocab

TRAILS, PROV = vocab.TRAILS, vocab.PROV
SESSION = "urn:trails:session:"


class PlainQuads:
    """All quads of a store as (subject, predicate, object, graph) of texts; "" is the graph of the catalog."""

    def __init__(self, store: Repository) -> None:
        self.store = store
        self.quads: list[tuple[str, str, str, str]] = []
        self.datatypes: dict[tuple[str, str], str] = {}
        self._of: dict[tuple[str, str], list[str]] = {}
        self._pairs: dict[str, list[tuple[str, str]]] = {}
        for quad in store.store.quads((None, None, None, None)):
            subject, predicate, value = _text(quad.subject), _short(quad.predicate.value), _text(quad.object)
            graph = _text(quad.graph_name) if quad.graph_name != vocab.CATALOG else ""
            self.quads.append((subject, predicate, value, graph))
            self._of.setdefault((subject, predicate), []).append(value)
            self._pairs.setdefault(predicate, []).append((subject, value))
            if hasattr(quad.object, "datatype"):
                self.datatypes[subject, predicate] = _short(quad.object.datatype.value)

    def pairs(self, predicate: str) -> list[tuple[str, str]]:
        """Return subject and object of every quad with a predicate, as `trails:index` or `prov:used`."""
        return self._pairs.get(predicate, [])

    def value(self, subject: str, predicate: str) -> str | None:
        """Return the one object of a subject's predicate, or None."""
        return next(iter(self.values(subject, predicate)), None)

    def values(self, subject: str, predicate: str) -> list[str]:
        """Return all objects of a subject's predicate."""
        return self._of.get((subject, predicate), [])

    def of_class(self, name: str) -> list[str]:
        """Return what is of a class of ours, by its name."""
        return [subject for subject, value in self.pairs("rdf:type") if value == TRAILS + name]

    def sessions(self) -> Iterator[Any]:
        """Yield the record of every session that is stored."""
        yield from self.store.list(limit=1000)

    def transcripts(self) -> Iterator[tuple[Any, Sequence[trails.Turn]]]:
        """Yield every session's record with its transcript, as `load` reads it."""
        for record in self.sessions():
            yield record, self.store.load(record.id).turns

    def asked(self, name: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return what a query of the catalogue answers: what these counts are held against."""
        rows: list[dict[str, Any]] = self.store.query(name, **parameters).to_dicts()  # type: ignore[union-attr] # a SELECT
        return rows


def _text(term: Any) -> str:
    return str(getattr(term, "value", term))


def _short(iri: str) -> str:
    for prefix, namespace in vocab.PREFIXES.items():
        if iri.startswith(namespace):
            return f"{prefix}:{iri.removeprefix(namespace)}"
    return iri


def session_of(iri: str) -> str:
    """Return the IRI of the session whose part something is."""
    return SESSION + iri.removeprefix(SESSION).partition("/")[0]
