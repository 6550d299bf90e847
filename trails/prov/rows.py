"""What a store holds as PROV statements, read predicate by predicate: only what a PROV statement can come from is fetched."""

from __future__ import annotations

from itertools import chain
from typing import Final

from trails import queries, vocab
from trails.decoding import decodes
from trails.prov.facts import Object, statements
from trails.prov.mapping import BUNDLE_OF_MENTION, INFLUENCERS, Terms, trails_terms
from trails.prov.statements import BLANK, Bundle, Document, Value
from trails.store import tsv
from trails.store.contract import QuadStore

_RDF_TYPE: Final = vocab.RDF + "type"


@decodes
def recorded(store: QuadStore) -> Document:
    """Return all that a store holds in PROV, without other attributes, as one history.

    The graphs of a store are one history in pieces, a session's own turns in each, and name the same things by the same
    IRIs: read as one, an order that runs in a circle through several of them is found too.
    """
    terms = trails_terms()
    facts: dict[str, list[tuple[str, Object]]] = {}
    for predicate in _predicates(terms):
        pairs = _pairs(store, predicate)
        if pairs:
            facts[predicate] = pairs
    return Document([Bundle(None, statements(facts, terms, attributes=False))], vocab.PREFIXES)


def _predicates(terms: Terms) -> list[str]:
    """Return what is fetched: relations, times, and the parts of qualified statements, each once."""
    parts = chain.from_iterable(form.places for form in terms.qualified.values())
    known = [_RDF_TYPE, *terms.relations, *terms.times, *terms.qualified, *parts, *INFLUENCERS, BUNDLE_OF_MENTION]
    return list(dict.fromkeys(known))


def _pairs(store: QuadStore, predicate: str) -> list[tuple[str, Object]]:
    rows = store.table(queries.find("prov_pairs").bind(predicate=predicate))
    return [(_node(subject), _object(value)) for subject, value in rows]


def _node(term: str) -> str:
    return term if term.startswith(BLANK) else tsv.iri(term)


def _object(term: str) -> Object:
    if term[0] == "<":
        return term[1:-1]
    if term.startswith(BLANK):
        return term
    return Value(tsv.date_time(term) or "", vocab.DATE_TIME.value)
