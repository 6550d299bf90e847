"""The kinds of records that there are: whatever goes over a store goes over these, and forgets none."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyoxigraph import NamedNode

from trails.plumbing.acts import ACTS
from trails.plumbing.conversations import CONVERSATIONS
from trails.plumbing.documents import DOCUMENTS
from trails.plumbing.kind import Kind
from trails.plumbing.ledger_entries import ENTRIES
from trails.plumbing.marks import ANNOTATIONS
from trails.plumbing.overrides import OVERRIDES
from trails.plumbing.run_rows import RUNS
from trails.plumbing.scores import SCORES
from trails.plumbing.signatures import SIGNATURES

KINDS: Final[tuple[Kind, ...]] = (
    CONVERSATIONS, OVERRIDES, ENTRIES, ANNOTATIONS, SCORES, RUNS, ACTS, DOCUMENTS, SIGNATURES,
)  # fmt: skip


def of_types(types: Collection[object]) -> Kind | None:
    """Return the kind of a record of the catalog, by its types; None for what is no such record."""
    return next((kind for kind in KINDS if not kind.types.isdisjoint(types)), None)


def beside(graph: str) -> tuple[Kind, str] | None:
    """Return the kind of records in a graph and the IRI of the session that it is beside; None for any other graph."""
    for kind in KINDS:
        if kind.beside is not None and (owner := kind.beside.owner(graph)) is not None:
            return kind, owner
    return None


def graphs(session_iri: str) -> list[NamedNode]:
    """Return the graphs beside a session's."""
    return [kind.beside.of(session_iri) for kind in KINDS if kind.beside is not None]


def owner(graph: str) -> Kind | None:
    """Return the kind of records whose graph this is, where such graphs are beside no session's; None for any other graph."""
    return next((kind for kind in KINDS if kind.owns(graph)), None)
