"""Names of PROV documents: prefixes in scope, and the whole IRIs that names with prefixes stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trails import vocab
from trails.errors import InvalidInput
from trails.prov.statements import BLANK

DEFAULT: Final = ""
"""The prefix of names that are written without one."""
PREDECLARED: Final = {"prov": vocab.PROV, "xsd": vocab.XSD, "rdf": vocab.RDF, "rdfs": vocab.RDFS}
"""Prefixes that hold in every document: PROV-N declares prov and xsd; the other two are what everybody means by them."""


class Scope:
    """The prefixes in scope at a place of a document; those of a bundle come over those around it."""

    def __init__(self, prefixes: Mapping[str, str] | None = None, outer: Scope | None = None) -> None:
        """Begin with the prefixes around it, which nothing here changes."""
        around = PREDECLARED if outer is None else outer.prefixes
        self._prefixes: dict[str, str] = {**around, **(prefixes or {})}
        self._known: dict[str, str] = {}

    @property
    def prefixes(self) -> dict[str, str]:
        """All prefixes in scope, and the namespaces that they stand for."""
        return dict(self._prefixes)

    def declare(self, prefix: str, namespace: str) -> None:
        """Let a prefix stand for a namespace from here on."""
        self._prefixes[prefix] = namespace
        self._known.clear()

    def iri(self, name: str) -> str:
        """Return the IRI that a name stands for; names of blank nodes stay as they are.

        Raises `InvalidInput` for a prefix that nothing declares.

        >>> Scope({"ex": "http://example.org/"}).iri("ex:a")
        'http://example.org/a'
        """
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._resolved(name)
        return known

    def _resolved(self, name: str) -> str:
        if name.startswith(BLANK):
            return name
        prefix, colon, local = name.partition(":")
        if colon and prefix in self._prefixes:
            return self._prefixes[prefix] + local
        if not colon and DEFAULT in self._prefixes:
            return self._prefixes[DEFAULT] + name
        if colon:
            raise InvalidInput(f"the prefix {prefix[:80]!r} of {name[:120]!r} is declared nowhere")
        raise InvalidInput(f"{name[:120]!r} has no prefix, and no default namespace is declared")

    def iri_or_whole(self, name: str) -> str:
        """Return the IRI that a name stands for, or the name itself where it is a whole IRI (as JSON-LD has them)."""
        prefix, colon, rest = name.partition(":")
        if colon and prefix not in self._prefixes and (rest.startswith("//") or prefix == "urn"):
            return name
        return self.iri(name)
