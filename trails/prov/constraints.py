"""Validity by PROV-CONSTRAINTS (W3C, 2013): whether statements can be a history of anything at all.

A document is valid where each of its bundles is, and the statements outside them are, and no two bundles have one name
(section 7.2). Each is checked for itself. Statements are what is decided on, not RDF, which cannot tell `-` from a value
that is left open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from trails.prov.findings import BUNDLE, Finding, broken
from trails.prov.impossible import impossible
from trails.prov.ordering import circles_of, order_of
from trails.prov.statements import Document
from trails.prov.timing import Timing, timed
from trails.prov.unification import Unified


@dataclass(frozen=True, slots=True)
class Validation:
    """The verdict on a document: what breaks PROV-CONSTRAINTS and, where it was asked for, what its times say beside that."""

    statements: int
    bundles: int
    findings: Sequence[Finding]
    timing: Timing | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was found: by W3C's constraints and, where times were compared, by those too."""
        return not self.findings and (self.timing is None or not self.timing.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return {
            "valid": not self.findings,
            "statements": self.statements,
            "bundles": self.bundles,
            "findings": [each.to_dict() for each in self.findings],
            "timed": None if self.timing is None else self.timing.to_dict(),
        }


def check(document: Document, *, skew: float | None = None) -> Validation:
    """Return the verdict on a document.

    `skew` is the number of seconds by which clocks may differ, from 0; with None times are not compared. Whatever the
    times, they change nothing about validity by W3C's constraints, which look at the order that statements imply.

    >>> from trails.prov.statements import Bundle, Statement
    >>> check(Document([Bundle(None, [Statement("wasDerivedFrom", None, ("urn:a", None, None, None, None))])])).findings[0].name
    'optional-placeholders'
    """
    found: list[Finding] = list(_names(document))
    timings: list[Timing] = []
    for bundle in document.bundles:
        unified = Unified(bundle.statements)
        order = order_of(unified)
        own = chain(unified.findings, impossible(unified), circles_of(order, unified))
        found += [replace(each, bundle=bundle.name) for each in own]
        if skew is not None:
            timings.append(timed(order, unified, skew, bundle.name))
    timing = None if skew is None else Timing.joined(timings, skew)
    return Validation(document.statements, sum(each.name is not None for each in document.bundles), found, timing)


def _names(document: Document) -> Iterator[Finding]:
    seen: set[str] = set()
    for bundle in document.bundles:
        if bundle.name in seen:
            yield replace(
                broken(BUNDLE, f"two bundles are named {bundle.name}", [str(bundle.name)], []), bundle=bundle.name
            )
        if bundle.name is not None:
            seen.add(bundle.name)
