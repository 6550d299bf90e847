"""The entries that the session tree writes into the ledger of a session, frozen, and between them and quads. Pure.

The first entry of a session of the tree is the transition by which it was made; what it was told (its task, a context
summary) follows, then every change of its state, and with the last one its result and what that lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode

from trails import iris
from trails import vocab as v
from trails.integrity.leaves import Kind
from trails.records.entry import (
    LedgerEntry,
    Pairs,
    Properties,
    decode_words,
    entry_node,
    entry_number,
    moment,
    one,
)
from trails.records.terms import time_literal

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
            before=self.before, after=self.after, by=by, time=self.time, reason=self.reason, kept_as=self.kept_as
        )


class Cancellation(LedgerEntry):
    """The request to a session to end by a time."""

    by_iri: str
    time: datetime
    ends_by: datetime

    @property
    def reason(self) -> str | None:
        """Why; None where nobody said so, or where that was taken out."""
        return None if self.words is None else self.words.text

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain values, ready for JSON."""
        return self._plain(by=iris.author_name(self.by_iri), time=self.time, ends_by=self.ends_by, reason=self.reason)


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


# --- to quads


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


def pairs(entry: TreeEntry) -> Pairs:
    """Give the properties of an entry, without its number and its text."""
    match entry:
        case Transition():
            yield from _transition(entry)
        case Cancellation():
            yield from _activity(v.CANCELLATION, entry.by_iri, entry.time)
            yield v.ENDS_BY, time_literal(entry.ends_by)
        case Brief():
            yield v.TYPE, v.TASK_BRIEF if entry.what == "task" else v.CONTEXT_SUMMARY
            yield v.TYPE, v.ENTITY
            yield v.ATTRIBUTED_TO, NamedNode(entry.by_iri)
            yield v.TIME, time_literal(entry.time)
        case Result():
            yield v.TYPE, v.SESSION_RESULT
            yield v.TYPE, v.ENTITY
            yield v.STATUS, RdfLiteral(entry.status)
            for each in entry.memory_ids:
                yield v.MEMORY_ID, RdfLiteral(each)
            yield v.GENERATED_BY, entry_node(entry, entry.transition)
            yield v.TIME, time_literal(entry.time)
        case ArtifactEntry():
            yield from _artifact(entry)


def _activity(type_: NamedNode, by_iri: str, time: datetime) -> Pairs:
    yield v.TYPE, type_
    yield v.TYPE, v.ACTIVITY
    yield v.ASSOCIATED_WITH, NamedNode(by_iri)
    yield v.ENDED_AT, time_literal(time)


def _transition(entry: Transition) -> Pairs:
    yield from _activity(v.TRANSITION, entry.by_iri, entry.time)
    yield v.FROM_STATE, None if entry.before is None else RdfLiteral(entry.before)
    yield v.TO_STATE, RdfLiteral(entry.after)
    for number in entry.used:
        yield v.USED, entry_node(entry, number)
    yield v.KEPT_AS, None if entry.kept_as is None else NamedNode(iris.session(entry.kept_as))


def _artifact(entry: ArtifactEntry) -> Pairs:
    yield v.TYPE, v.ARTIFACT
    yield v.TYPE, v.ENTITY
    yield v.ARTIFACT_OF, entry_node(entry, entry.result)
    yield v.INVALIDATED_BY if entry.change == "deleted" else v.GENERATED_BY, entry_node(entry, entry.transition)
    yield v.URI, RdfLiteral(entry.uri)
    yield v.ARTIFACT_CHANGE, RdfLiteral(entry.change)
    yield v.SHA256, None if entry.sha256 is None else RdfLiteral(entry.sha256)


# --- from quads


def decode(made: type[TreeEntry], session_id: str, number: int, properties: Properties) -> TreeEntry:
    """Return an entry of a class; what does not fit raises ValueError or `IntegrityError`."""
    text = v.ERROR if made in SAYING_WHY else v.VALUE
    common = {"session_id": session_id, "number": number, "words": decode_words(properties, text)}
    return made.model_validate(common | _FIELDS[made](properties))


def _decode_transition(properties: Properties) -> dict[str, Any]:
    kept = one(properties, v.KEPT_AS)
    return _decode_activity(properties) | {
        "before": one(properties, v.FROM_STATE),
        "after": one(properties, v.TO_STATE),
        "used": tuple(sorted(iris.entry_number(each.value) or 0 for each in properties.get(v.USED, []))),
        "kept_as": None if kept is None else iris.session_id(kept),
    }


def _decode_activity(properties: Properties) -> dict[str, Any]:
    return {"by_iri": one(properties, v.ASSOCIATED_WITH), "time": moment(properties, v.ENDED_AT)}


def _decode_cancellation(properties: Properties) -> dict[str, Any]:
    return _decode_activity(properties) | {"ends_by": moment(properties, v.ENDS_BY)}


def _decode_brief(properties: Properties) -> dict[str, Any]:
    return {
        "what": "task" if v.TASK_BRIEF in properties.get(v.TYPE, []) else "context",
        "by_iri": one(properties, v.ATTRIBUTED_TO),
        "time": moment(properties, v.TIME),
    }


def _decode_result(properties: Properties) -> dict[str, Any]:
    return {
        "status": one(properties, v.STATUS),
        "memory_ids": tuple(sorted(each.value for each in properties.get(v.MEMORY_ID, []))),
        "transition": entry_number(properties, v.GENERATED_BY),
        "time": moment(properties, v.TIME),
    }


def _decode_artifact(properties: Properties) -> dict[str, Any]:
    made_by = entry_number(properties, v.GENERATED_BY)
    return {
        "result": entry_number(properties, v.ARTIFACT_OF),
        "transition": entry_number(properties, v.INVALIDATED_BY) if made_by is None else made_by,
        "uri": one(properties, v.URI),
        "change": one(properties, v.ARTIFACT_CHANGE),
        "sha256": one(properties, v.SHA256),
    }


_FIELDS: Final = {
    Transition: _decode_transition,
    Cancellation: _decode_cancellation,
    Brief: _decode_brief,
    Result: _decode_result,
    ArtifactEntry: _decode_artifact,
}


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
