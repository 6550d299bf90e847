"""What the log of a store says, as sessions are held against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from pyoxigraph import Quad

from trails.history import log_history, record_registry
from trails.history.log_leaves import redaction_leaves
from trails.history.records.record_kind import Checks, Evidence
from trails.history.removal import redaction
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.rdf import vocab
from trails.store.contract import QuadStore

_DIGITS = 16
"""Of a turn's digest, as many stand in its IRI."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the log says, and what the catalog says of redactions."""

    lines: Sequence[str]
    since: int | None
    """The number of the log's lines that a checkpoint covers."""
    sessions: Mapping[str, log_history.SessionLog]
    numbers: Mapping[Leaf, int]
    """The redactions that were logged, with the numbers of their lines."""
    made: Mapping[Leaf, Sequence[Quad]]
    """The redactions that the catalog has."""
    redacted: Set[str]
    """The digests of the turns whose redaction is in both."""
    stands_as: Mapping[str, str]
    """By a turn's digest what the newest logged redaction of more than its texts says that it is now."""
    stands_anew: Set[str]
    """Those of them that came after the checkpoint."""
    taken: Set[str]
    """The IRIs of all that logged redactions took a text out of."""
    checks: Sequence[Checks]
    """What is wrong with the records of each kind."""

    def was_renamed(self, session_id: str) -> bool:
        """Tell whether a logged redaction took a name out of what never changes of a session otherwise."""
        iri = iris.session(session_id)
        return iri in self.taken or iris.deletion(iri) in self.taken

    def is_newer(self, fault: str, began: int = -1) -> bool:
        """Tell whether a fault of something that a checkpoint covers came after it."""
        return self.since is not None and began < self.since <= log_history.record_number(fault)


def known(store: QuadStore, since: int | None) -> Known:
    """Return what the log of a store says; `since` is the number of its lines that a checkpoint covers."""
    made = dict(redaction_leaves(store))  # raises where the store is closed, which its log does not tell
    lines = store.log.lines()
    numbers = log_history.logged_redactions(lines)
    redacted = {_digest_of(quads) for leaf, quads in made.items() if leaf in numbers}
    starts = {digest[:_DIGITS] for digest in redacted if digest}
    stands_as = redaction.current_redactions(store, numbers.keys())
    stands_anew: set[str] = set()
    if since is not None:
        then = redaction.current_redactions(store, [leaf for leaf, number in numbers.items() if number < since])
        stands_anew = {digest for digest, said in stands_as.items() if then.get(digest) != said}
    taken = redaction.redacted_parts(store, numbers.keys())
    evidence = Evidence(
        store=store,
        lines=lines,
        old=log_history.first_record_of_this_version(lines),
        since=since,
        taken=taken,
        is_redacted=lambda turn: turn.rpartition("-")[2] in starts,  # also of a copy: the digest in its IRI is the same
    )
    return Known(
        lines=lines,
        since=since,
        sessions=log_history.logs_by_session(lines),
        numbers=numbers,
        made=made,
        redacted=redacted,
        stands_as=stands_as,
        stands_anew=stands_anew,
        taken=taken,
        checks=[kind.checks(evidence) for kind in record_registry.KINDS],
    )


def _digest_of(quads: Sequence[Quad]) -> str:
    return next((str(q.object.value) for q in quads if q.predicate == vocab.DIGEST), "")  # type: ignore[union-attr] # a literal
