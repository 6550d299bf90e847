"""Checking a session's own turns against their digests: pure functions over rows as they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from trails import iris
from trails.integrity import digests
from trails.model import NO_FACTS, Facts, Finding, SealedTurn, SessionRecord, Turn


class StoredTurn(NamedTuple):
    """One turn's row: exactly what the store says, not yet believed."""

    iri: str
    index: int  # type: ignore[assignment] # hides tuple.index, which nobody calls here
    role: str
    text: str
    structured: bool
    redacted: bool
    author_iri: str
    digest: str
    salt: str
    branch: str
    time: datetime | None
    facts: Facts = NO_FACTS

    def sealed(self, session_id: str) -> SealedTurn:
        """Return the row as a turn with its salt."""
        turn = Turn(
            session_id=session_id,
            index=self.index,
            role=self.role,
            branch=self.branch,
            author_iri=self.author_iri,
            time=self.time,
            text=self.text,
            structured=self.structured,
            redacted=self.redacted,
            digest=self.digest,
            facts=self.facts,
        )
        return SealedTurn(turn=turn, salt=self.salt)


def recomputed(row: StoredTurn, previous: str) -> str:
    """Return the digest that a row should have after the turn with the digest `previous`.

    A redacted turn has its content's digest in the place of the salt.
    """
    return digests.turn_digest(
        previous=previous,
        index=row.index,
        branch=row.branch,
        role=row.role,
        author=iris.author_key(row.author_iri),
        time=row.time,
        content=row.salt if row.redacted else digests.content_digest(row.text, row.salt, structured=row.structured),
        facts=digests.facts_digest(row.facts, row.salt),
    )


def standing(row: StoredTurn, previous: str) -> str:
    """Return the digest of a row as it stands, whatever was taken out of it: see `digests.standing_digest`."""
    content = row.salt if row.redacted else digests.content_digest(row.text, row.salt, structured=row.structured)
    return digests.standing_digest(
        previous=previous,
        index=row.index,
        branch=row.branch,
        role=row.role,
        author=iris.author_key(row.author_iri),
        time=row.time,
        content=content,
        facts=digests.facts_digest(row.facts, row.salt),
        left=digests.facts_digest(row.facts.model_copy(update={"withheld": None}), row.salt),
    )


def is_true(row: StoredTurn, previous: str, stands_as: str | None) -> bool:
    """Tell whether a row fits its digest, after the turn with the digest `previous`.

    `stands_as` is what a logged redaction says that the row is since then; without one, nothing but content, call
    arguments, metadata and request may be gone. Only the names of author and role may keep a row with one from fitting
    its own digest: that covers them as they were.
    """
    fits = recomputed(row, previous) == row.digest
    if stands_as is None:
        return fits and row.facts.withheld is None
    unnamed = iris.is_unnamed(row.author_iri) or row.role == iris.UNNAMED
    return standing(row, previous) == stands_as and (fits or unnamed)


def check_run(
    record: SessionRecord, rows: Sequence[StoredTurn], previous: str, stands_as: Mapping[str, str] | None = None
) -> list[Finding]:
    """Check the turns that a session owns, in order of index, from the digest before its first one.

    `stands_as` is by the digest of a turn what the newest logged redaction of more than its texts says that it is now.

    Every turn is held against the digest stored for the turn before it, so that one altered turn gives one finding (its
    own) and not one for each turn after it.
    """
    findings = []
    wanted, session_iri, is_fork = record.starts_at, record.iri, record.parent_session_id is not None
    for row in rows:
        index = row.index
        if index != wanted:
            kind = "duplicate-index" if index < wanted else "index-gap"
            what = f"a second turn at index {index}" if index < wanted else f"no turn {wanted}"
            findings.append(_finding(kind, record, min(index, wanted), f"has {what}"))
        if not is_true(row, previous, (stands_as or {}).get(row.digest)):
            findings.append(
                _finding("digest-mismatch", record, index, f"turn {index} was altered: its digest does not fit it")
            )
        if row.iri != iris.turn(session_iri, index, row.digest):
            findings.append(
                _finding("wrong-iri", record, index, f"turn {index} has the IRI of another turn: {row.iri}")
            )
        if not iris.is_of_author(row.author_iri):
            what = f"turn {index} names its author by an IRI that is not the one of the name: {row.author_iri}"
            findings.append(_finding("wrong-iri", record, index, what))
        if is_fork and row.branch != record.branch and index >= record.starts_at:
            what = f"turn {index} is of branch {row.branch!r}, not {record.branch!r}"
            findings.append(_finding("wrong-branch", record, index, what))
        previous, wanted = row.digest, index + 1
    return findings


def _finding(code: str, record: SessionRecord, index: int | None, what: str) -> Finding:
    return Finding(code=code, session_id=record.id, index=index, message=f"session {record.id!r}: {what}")


def first_by_index(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with the first bad turn of each session first."""
    return sorted(findings, key=lambda f: (f.session_id or "", f.index if f.index is not None else -1, f.code))
