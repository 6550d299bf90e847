"""What a session of the tree hands to its parent when it ends: checked, put into words, and read back from its ledger."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, get_args

from trails import validate
from trails.errors import InvalidInput
from trails.model import Derivation, Value
from trails.records import entries
from trails.records.entry import LedgerEntry
from trails.records.tree_entries import ArtifactChange, ArtifactEntry, Result, Status, Transition

_SHA256: Final = re.compile("[0-9a-f]{64}")
_CHANGES: Final = get_args(ArtifactChange)


class Artifact(Value):
    """Something that a session created, modified or deleted: its URI, and its SHA-256 as 64 hex digits, where known."""

    uri: str
    change: ArtifactChange
    sha256: str | None = None


class SessionResult(Value):
    """How a session of the tree ended, and what it has to say of that. Its parent decides what becomes of it."""

    session_id: str
    parent_id: str | None
    """Whom it is for; None for a main."""
    status: Status
    summary: str | None
    """What it found, in words; None where it said nothing, or where that was taken out."""
    artifacts: tuple[Artifact, ...]
    memory_ids: tuple[str, ...]
    error: str | None
    """Why it did not complete."""
    time: datetime
    derivation: Derivation
    """How a turn names this result that is made from it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"derivation", "session_id", "parent_id", "time"})
        head = {"session": self.session_id, "parent": self.parent_id, "iri": self.derivation.iri}
        return head | plain | {"time": self.time.isoformat()}


class Report(NamedTuple):
    """What a result says, checked."""

    summary: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    memory_ids: tuple[str, ...] = ()


ArtifactLike = Artifact | Mapping[str, Any] | Sequence[str]
"""An artifact, a mapping with its fields, or (uri, change, sha256)."""


def report(
    kind: str, summary: str | None, artifacts: Iterable[ArtifactLike], memory_ids: Iterable[str], session: str
) -> Report:
    """Return what a result says, or raise `InvalidInput` for what cannot be kept, or for a worker's memory ids."""
    if isinstance(memory_ids, str) or isinstance(artifacts, str):
        raise InvalidInput("artifacts and memory_ids are lists, not one string")
    ids = tuple(sorted({validate.name(each, "a memory id") for each in memory_ids}))
    if ids and kind == "worker":
        raise InvalidInput(f"session {session!r} is a worker, and workers write no memory: it may return no memory ids")
    return Report(
        summary=None if summary is None else validate.text(summary, "summary"),
        artifacts=tuple(_artifact(each) for each in artifacts),
        memory_ids=ids,
    )


def _artifact(given: ArtifactLike) -> Artifact:
    uri, change, sha256 = _fields(given)
    if not validate.text(uri, "an artifact's uri"):
        raise InvalidInput("an artifact's uri must not be empty")
    if change not in _CHANGES:
        raise InvalidInput(f"what happened to the artifact {uri!r} is one of {', '.join(_CHANGES)}, not {change!r}")
    if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
        raise InvalidInput(f"the sha256 of the artifact {uri!r} must be 64 lower-case hex digits, not {sha256!r}")
    return Artifact.model_validate({"uri": uri, "change": change, "sha256": sha256})


def _fields(given: ArtifactLike) -> tuple[object, object, object]:
    if isinstance(given, Artifact):
        return given.uri, given.change, given.sha256
    if isinstance(given, Mapping):
        if not {"uri", "change"} <= given.keys() <= {"uri", "change", "sha256"}:
            raise InvalidInput(f"an artifact has uri, change and sha256, not {', '.join(map(str, given))}")
        return given["uri"], given["change"], given.get("sha256")
    if isinstance(given, str) or len(given) not in (2, 3):
        raise InvalidInput(f"an artifact is (uri, change, sha256), not {given!r}")
    return given[0], given[1], given[2] if len(given) == 3 else None


def told(session: str, kind: str, status: Status, said: Report, error: str | None) -> str:
    """Return a result in words, as a parent is shown it.

    >>> print(told("s1", "branch", "completed", Report("Take the train.", (Artifact(uri="a.md", change="created"),)), None))
    The branch s1 completed.
    <BLANKLINE>
    Take the train.
    <BLANKLINE>
    Artifacts: a.md (created)
    """
    how = {"completed": "completed", "failed": "failed", "expired": "expired", "cancelled": "was cancelled"}[status]
    parts = [f"The {kind} {session} {how}{'.' if error is None else f': {error}'}"]
    if said.summary:
        parts.append(said.summary)
    if said.artifacts:
        parts.append("Artifacts: " + ", ".join(f"{each.uri} ({each.change})" for each in said.artifacts))
    if said.memory_ids:
        parts.append("Memories: " + ", ".join(said.memory_ids))
    return "\n\n".join(parts)


def of_entries(parent: str | None, found: Iterable[LedgerEntry]) -> SessionResult | None:
    """Return the result that a session's ledger holds, or None where it has not ended."""
    by_number = {entry.number: entry for entry in found}
    result = next((entry for entry in by_number.values() if isinstance(entry, Result)), None)
    if result is None:
        return None
    end = by_number.get(result.transition)
    artifacts = [each for each in by_number.values() if isinstance(each, ArtifactEntry)]
    return SessionResult(
        session_id=result.session_id,
        parent_id=parent,
        status=result.status,
        summary=None if result.words is None else result.words.text,
        artifacts=tuple(
            Artifact(uri=each.uri, change=each.change, sha256=each.sha256)
            for each in sorted(artifacts, key=lambda entry: entry.number)
        ),
        memory_ids=result.memory_ids,
        error=end.reason if isinstance(end, Transition) else None,
        time=result.time,
        derivation=Derivation(session_id=result.session_id, number=result.number, digest=entries.row_digest(result)),
    )
