"""Properties that records drop where erased text was taken out of them: how a line names one, and what it is of. Pure.

An IRI may be of a name that somebody chose, as those of people, tools, tags and keys are. Once that name is gone from the
store, a line has a digest in its place: whoever is behind finds by it what is to go, and nobody else reads the name there.
Who guesses a name can still try it, as long as the line is there.
"""

from __future__ import annotations

import hmac
from typing import Final

import pyoxigraph as ox

from trails.model import iris
from trails.store.pattern import Pattern

_MARK: Final = "^"
"""What stands in no IRI."""
_DIGITS: Final = 32


def line(graph: str, subject: str, predicate: str) -> str:
    """Return how a record names a property that it drops; "" is the default graph."""
    return f"{graph} {subject} {predicate}"


def blurred(iri: str, key: str) -> str:
    """Return an IRI with a digest in the place of the name in it, by a key that nobody guesses; any other as it is.

    >>> blurred("urn:trails:principal:ann", "00ff")
    'urn:trails:principal:^00ff.d52e6afb2d36d497480024f0bcc5cfce'
    >>> blurred("urn:trails:session:plan", "00ff")
    'urn:trails:session:plan'
    """
    kind = iris.kind_of_name(iri)
    return iri if kind is None else f"{kind}{_MARK}{key}.{_digest(iri, key)}"


def is_blurred(dropped: str) -> bool:
    """Tell whether a line has a digest in the place of a name."""
    return _MARK in dropped


def pattern(dropped: str) -> Pattern:
    """Return a pattern that all of a property matches; other quads may, too, where `is_blurred`: see `is_of`.

    >>> pattern("urn:g urn:trails:tag:^00ff.aa urn:p")
    (None, <NamedNode value=urn:p>, None, <NamedNode value=urn:g>)
    """
    graph, subject, predicate = dropped.split(" ")
    return (
        None if _MARK in subject else ox.NamedNode(subject),
        None if _MARK in predicate else ox.NamedNode(predicate),
        None,
        ox.NamedNode(graph) if graph else ox.DefaultGraph(),
    )


def is_of(dropped: str, quad: ox.Quad) -> bool:
    """Tell whether a quad that matches the pattern of a property is of it."""
    _, subject, predicate = dropped.split(" ")
    return _is_meant(subject, getattr(quad.subject, "value", "")) and _is_meant(predicate, quad.predicate.value)


def _is_meant(named: str, iri: str) -> bool:
    kind, mark, rest = named.partition(_MARK)
    if not mark:
        return iri == named
    key, _, digest = rest.partition(".")
    return iri.startswith(kind) and hmac.compare_digest(_digest(iri, key), digest)


def _digest(iri: str, key: str) -> str:
    return hmac.digest(key.encode(), iri.encode(), "sha256").hex()[:_DIGITS]
