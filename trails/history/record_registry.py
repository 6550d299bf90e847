"""The kinds of records that there are: whatever goes over a store goes over these, and forgets none."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyoxigraph import NamedNode

from trails.history.annotation_kinds import ANNOTATIONS, SCORES, SIGNATURES
from trails.history.records.activities import ACTS
from trails.history.records.conversations import CONVERSATIONS, OVERRIDES
from trails.history.records.documents import DOCUMENTS
from trails.history.records.ledger_entries import ENTRIES
from trails.history.records.payloads import PAYLOADS
from trails.history.records.record_kind import RecordKind
from trails.history.records.refs import REFS
from trails.history.records.registers import REGISTERS
from trails.history.records.subagent_runs import RUNS

KINDS: Final[tuple[RecordKind, ...]] = (
    CONVERSATIONS, OVERRIDES, ENTRIES, ANNOTATIONS, SCORES, RUNS, ACTS, DOCUMENTS, SIGNATURES, REFS, PAYLOADS,
    REGISTERS,
)  # fmt: skip


def kinds_of_types(types: Collection[object]) -> RecordKind | None:
    """Return the kind of a record of the catalog, by its types; None for what is no such record."""
    return next((kind for kind in KINDS if not kind.types.isdisjoint(types)), None)


def kinds_beside(graph: str) -> tuple[RecordKind, str] | None:
    """Return the kind of records in a graph and the IRI of the session that it is beside; None for any other graph."""
    for kind in KINDS:
        if kind.beside is not None and (owner := kind.beside.owner(graph)) is not None:
            return kind, owner
    return None


def kind_graphs(session_iri: str) -> list[NamedNode]:
    """Return the graphs beside a session's."""
    return [kind.beside.of(session_iri) for kind in KINDS if kind.beside is not None]


def owner_of(graph: str) -> RecordKind | None:
    """Return the kind of records whose graph this is, where such graphs are beside no session's; None for any other graph."""
    return next((kind for kind in KINDS if kind.owns(graph)), None)
