"""Gather findings, and what the log says.

What is found wrong, as it is gathered.

What the log of a store says, as sessions are held against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from pyoxigraph import Quad

from trails.history import log_history, record_registry
from trails.history.log_leaves import redaction_leaves
from trails.history.records.record_kind import Checks, Evidence
from trails.history.removal import redaction
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.model.values import Finding
from trails.rdf import vocab
from trails.rdf.codec import subject_of, value_of
from trails.rows.row_faults import RowFault
from trails.store.contract import QuadStore


class Findings:
    """What was found so far, and the subjects of the catalog that a leaf of the log is about."""

    def __init__(self) -> None:
        """Nothing is found yet."""
        self.all: list[Finding] = []
        self.covered: set[str] = set()
        self.rows: list[RowFault] = []
        """What is wrong with the tables of the rows: `note_rows` makes findings of it."""

    def add(self, code: str, session_id: str | None, what: str, index: int | None = None) -> None:
        """Note what is wrong with a session, or with the store."""
        where = f"session {session_id!r}: " if session_id is not None else ""
        self.all.append(Finding(code=code, session_id=session_id, index=index, message=where + what))

    def stray(self, quad: Quad) -> None:
        """Note a quad that belongs to nothing."""
        self.add("stray", owner_of(quad), f"a quad that belongs to nothing: {quad}")

    def missing(self, quad: Quad) -> None:
        """Note a quad that should be there."""
        self.add("missing", owner_of(quad), f"a quad is missing: {quad}")

    def unproven(self, session_id: str, what: str, index: int | None = None) -> None:
        """Note what a checkpoint does not prove any more."""
        why = "since the checkpoint, so what stands there now is not proven by it; sign a new one"
        self.add("unproven", session_id, f"{what} {why}", index)

    def note_rows(self) -> None:
        """Note for each session in which tables its rows say other than its quads do."""
        for session_id in sorted({fault.session_id for fault in self.rows}, key=str):
            wrong = ", ".join(sorted({fault.what for fault in self.rows if fault.session_id == session_id}))
            what = (
                f"tables in the store's file say other than the log: {wrong}; `trails store vacuum` makes all rows anew"
            )
            self.add("rows-differ", session_id, what)

    def cover(self, quads: Iterable[Quad]) -> None:
        """Note that a leaf of the log is about the subjects of some quads."""
        self.covered.update(subject_of(quad) for quad in quads)


def owner_of(quad: Quad) -> str | None:
    """Return the id of the session that a quad belongs to, by its graph or its subject."""
    for node in (quad.graph_name, quad.subject):
        name = str(getattr(node, "value", ""))
        if iris.is_session(name):
            return iris.session_id(name)
    return None


_DIGITS = 16
"""Of a turn's digest, as many stand in its IRI."""


@dataclass(frozen=True, slots=True)
class LogState:
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


def log_state(store: QuadStore, since: int | None) -> LogState:
    """Return what the log of a store says; `since` is the number of its lines that a checkpoint covers."""
    made = dict(redaction_leaves(store))  # raises where the store is closed, which its log does not tell
    lines = store.log.lines()
    numbers = log_history.logged_redactions(lines)
    redacted = {value_of(quads, vocab.DIGEST) for leaf, quads in made.items() if leaf in numbers}
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
    return LogState(
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
