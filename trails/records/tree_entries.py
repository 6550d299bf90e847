"""The entries that the session tree writes into the ledger of a session, frozen, and between them and quads. Pure.

The first entry of a session of the tree is the transition by which it was made; what it was told (its task, a context
summary) follows, then every change of its state, and with the last one its result and what that lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal

from pyoxigraph import NamedNode

from trails import iris
from trails import vocab as v
from trails.integrity.leaves import Kind
from trails.records.entry import LedgerEntry
from trails.records.schema import ENTRIES, ENTRY, IRI, SESSION, TEXT, TEXTS, TIME, Field, Node, Table

TreeState = Literal["active", "suspended", "completed", "failed", "expired"]
"""Where a session of the tree stands."""
Status = Literal["completed", "failed", "expired", "cancelled"]
"""How a session of the tree ended."""
ArtifactChange = Literal["created", "modified", "deleted"]
"""What a session did to an artifact."""
ENDED: Final = frozenset({"completed", "failed", "expired"})
"""The states that no session leaves any more."""


class Transition(LedgerEntry):
    """A change of a session's state: from which (None: it was made), to which, who, when, and why."""

    before: TreeState | None
    after: TreeState
    by_iri: str
    time: datetime
    rule: str | None = None
    """The rule by which it fell due, where nobody asked for it."""
    used: tuple[int, ...] = ()
    """The entries that the session was made with: its task and its context summary."""
    kept_as: str | None = None
    """The id of the fork that holds the turns that another writer's turns stood in the way of."""

    @property
    def reason(self) -> str | None:
        """Why it happened; None where nobody said so, or where that was taken out."""
        return None if self.words is None else self.words.text

    def to_dict(self) -> dict[str, Any]:
        """Return the transition as plain values, ready for JSON."""
        by = iris.author_name(self.by_iri)
        return self._plain(
            before=self.before,
            after=self.after,
            by=by,
            time=self.time,
            rule=self.rule,
            reason=self.reason,
            kept_as=self.kept_as,
        )


class Cancellation(LedgerEntry):
    """The request to a session to end by a time."""

    by_iri: str
    time: datetime
    rule: str | None = None
    """The rule by which it fell due, where nobody asked for it."""
    ends_by: datetime

    @property
    def reason(self) -> str | None:
        """Why; None where nobody said so, or where that was taken out."""
        return None if self.words is None else self.words.text

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain values, ready for JSON."""
        by = iris.author_name(self.by_iri)
        return self._plain(by=by, time=self.time, rule=self.rule, ends_by=self.ends_by, reason=self.reason)


class Brief(LedgerEntry):
    """What a session was told when it was made: its task, or the context that its parent summed up for it."""

    what: Literal["task", "context"]
    by_iri: str
    time: datetime


class Result(LedgerEntry):
    """How a session ended, and what it has to say of that: the entry; `trails.tree.SessionResult` is the whole."""

    status: Status
    memory_ids: tuple[str, ...] = ()
    transition: int
    """The number of the transition that it came with."""
    time: datetime


class ArtifactEntry(LedgerEntry):
    """Something that a session created, modified or deleted, as its result lists it."""

    result: int
    transition: int
    uri: str
    change: ArtifactChange
    sha256: str | None = None


TreeEntry = Transition | Cancellation | Brief | Result | ArtifactEntry

TYPES: Final[Mapping[NamedNode, type[TreeEntry]]] = {
    v.TRANSITION: Transition,
    v.CANCELLATION: Cancellation,
    v.TASK_BRIEF: Brief,
    v.CONTEXT_SUMMARY: Brief,
    v.SESSION_RESULT: Result,
    v.ARTIFACT: ArtifactEntry,
}
"""The class of each entry by the type that it is stored with."""
SAYING_WHY: Final = (Transition, Cancellation)
"""The entries whose text is a reason."""


# --- kept


_MADE_BY: Final = (
    Field("by_iri", v.ASSOCIATED_WITH, IRI),
    Field("time", v.ENDED_AT, TIME),
    Field("rule", v.RULE, TEXT),
)
TABLES: Final[Mapping[type[LedgerEntry], Table]] = {
    Transition: Table(
        (v.TRANSITION, v.ACTIVITY),
        (
            *_MADE_BY,
            Field("before", v.FROM_STATE, TEXT),
            Field("after", v.TO_STATE, TEXT),
            Field("used", v.USED, ENTRIES),
            Field("kept_as", v.KEPT_AS, SESSION),
        ),
    ),
    Cancellation: Table((v.CANCELLATION, v.ACTIVITY), (*_MADE_BY, Field("ends_by", v.ENDS_BY, TIME))),
    Brief: Table((v.ENTITY,), (Field("by_iri", v.ATTRIBUTED_TO, IRI), Field("time", v.TIME, TIME))),
    Result: Table(
        (v.SESSION_RESULT, v.ENTITY),
        (
            Field("status", v.STATUS, TEXT),
            Field("memory_ids", v.MEMORY_ID, TEXTS),
            Field("transition", v.GENERATED_BY, ENTRY),
            Field("time", v.TIME, TIME),
        ),
    ),
    ArtifactEntry: Table(
        (v.ARTIFACT, v.ENTITY),
        (
            Field("result", v.ARTIFACT_OF, ENTRY),
            Field("transition", v.GENERATED_BY, ENTRY, when=lambda entry: entry.change != "deleted"),
            Field("transition", v.INVALIDATED_BY, ENTRY, when=lambda entry: entry.change == "deleted"),
            Field("uri", v.URI, TEXT),
            Field("change", v.ARTIFACT_CHANGE, TEXT),
            Field("sha256", v.SHA256, TEXT),
        ),
    ),
}
"""How each class is kept; what of a brief is its type, beside."""


def kind(entry: TreeEntry) -> Kind:
    """Return the kind of the leaf for an entry."""
    match entry:
        case Transition():
            return "transition"
        case Cancellation():
            return "cancel"
        case Brief():
            return "brief"
        case Result():
            return "result"
        case ArtifactEntry():
            return "artifact"


def brief_type(brief: Brief) -> NamedNode:
    """Return the type that says what a brief is."""
    return v.TASK_BRIEF if brief.what == "task" else v.CONTEXT_SUMMARY


def brief_what(types: Collection[Node]) -> Literal["task", "context"]:
    """Return what a brief is, by its types."""
    return "task" if v.TASK_BRIEF in types else "context"


# --- what must fit


def faults(entry: TreeEntry, found: Mapping[int, LedgerEntry]) -> Iterator[str]:
    """Give what of an entry does not fit the other entries of its ledger."""
    match entry:
        case Transition():
            yield from _transition_faults(entry, found)
        case Result() | ArtifactEntry():
            end = found.get(entry.transition)
            if not isinstance(end, Transition) or end.after not in ENDED:
                yield "came with no transition to an end"
            if isinstance(entry, ArtifactEntry) and not isinstance(found.get(entry.result), Result):
                yield "belongs to no result"


def _transition_faults(entry: Transition, found: Mapping[int, LedgerEntry]) -> Iterator[str]:
    earlier = [each for each in found.values() if isinstance(each, Transition) and each.number < entry.number]
    before = max(earlier, key=lambda each: each.number, default=None)
    if entry.before != (None if before is None else before.after):
        stood = "no state" if before is None else before.after
        yield f"leaves the state {entry.before}, and the session was in {stood}"
    if not all(isinstance(found.get(number), Brief) for number in entry.used):
        yield "names a task or context summary that is not there"
    results = [each for each in found.values() if isinstance(each, Result) and each.transition == entry.number]
    if len(results) != (entry.after in ENDED):
        yield f"has {len(results)} results: a result is lost or doubled"
