"""Tell from the log and the catalog what a store held earlier.

The log proves everything that never changes. Of what may change, it proves as much as is still as it was.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Self

from pyoxigraph import Literal, NamedNode, Quad

from trails.history import log_history, log_leaves, record_registry
from trails.integrity.leaves import LEDGER_KINDS
from trails.model import iris
from trails.model.values import Finding, VerifyReport
from trails.rdf import vocab
from trails.rdf.codec import parse_time, term_text
from trails.store.contract import QuadStore
from trails.store.index.historical_store import PastStore

LINKS: Final = frozenset(link for kind in record_registry.KINDS for link in kind.links)
"""The properties by which a record names its session."""


@dataclass(slots=True)
class Catalog:
    """The catalog by subject, and what is taken out of it and put into it."""

    subjects: dict[str, list[Quad]]
    starts: dict[str, int] = field(default_factory=dict)
    """By the id of a session that was a fork then and is none now, its fork index."""

    @classmethod
    def of(cls, store: QuadStore) -> Self:
        """Return the catalog of a store."""
        subjects: dict[str, list[Quad]] = defaultdict(list)
        for quad in store.quads((None, None, None, vocab.CATALOG)):
            subjects[term_text(quad.subject)].append(quad)
        return cls(dict(subjects))

    def owners(self, subject: str) -> set[str]:
        """Return the ids of the sessions that a subject belongs to."""
        home = subject.partition("/")[0]
        if iris.is_session(home):
            return {iris.session_id(home)}
        named = [quad.object for quad in self.subjects[subject] if quad.predicate in LINKS]
        linked = {term_text(each) for each in named if isinstance(each, NamedNode)}
        found = {iris.session_id(each) for each in linked if iris.is_session(each)}
        through = (each for each in linked if each in self.subjects and not iris.is_session(each) and each != subject)
        return found or {owner for each in through for owner in self.owners(each)}

    def changed_at(self, subject: str) -> datetime | None:
        """Return when a record was made that is logged with its session's row, as one more change of it; None for others."""
        home, _, rest = subject.partition("/")
        if iris.is_session(home) and not rest.startswith(("act/", "signature/", "system/", "import")):
            return None
        return time_of(self.subjects[subject])


def has_type(subjects: Mapping[str, Sequence[Quad]], subject: str, kind: NamedNode) -> bool:
    """Tell whether a subject is of a type."""
    return any(quad.object == kind for quad in subjects.get(subject, ()))


def time_of(quads: Sequence[Quad]) -> datetime | None:
    """Return the latest time that is said of something."""
    return max(_times(quads), default=None)


def earliest_time(quads: Sequence[Quad]) -> datetime | None:
    """Return the earliest time that is said of something."""
    return min(_times(quads), default=None)


def _times(quads: Sequence[Quad]) -> Iterator[datetime]:
    texts = (q.object.value for q in quads if isinstance(q.object, Literal) and q.object.datatype == vocab.DATE_TIME)
    return map(parse_time, texts)


def one_text(quads: Sequence[Quad], predicate: NamedNode) -> str | None:
    """Return what is said of something by a property, as text."""
    return next((term_text(quad.object) for quad in quads if quad.predicate == predicate), None)


_CHANGES: Final = frozenset({"change", "detach"})
_OF_RUNS: Final = frozenset({"run", "task", "remove", "discard", "document", "ref", "register"})
_ENTRIES: Final = frozenset({*LEDGER_KINDS, "said"})
_RECORDS: Final = _OF_RUNS | _ENTRIES


@dataclass(slots=True)
class PastFacts:
    """What there was when a log had its first `size` lines."""

    size: int
    sessions: dict[str, log_history.SessionLog]
    """The sessions that were there, by id."""
    known: frozenset[str]
    """The ids of all sessions that the log told of by then, those that were deleted too."""
    ever: frozenset[str]
    """The ids of all sessions that the log tells of now."""
    returned: frozenset[str] = frozenset()
    """The ids of those known by then that were deleted, by then or since, and came back since."""
    otherwise: frozenset[str] = frozenset()
    """The ids of those of them that came back without the last turn that they had, or with a name that was redacted by then."""
    changes: Counter[str] = field(default_factory=Counter)
    """By session id, how often what may change of it was logged since."""
    detached: set[str] = field(default_factory=set)
    """The ids of the sessions that were cut loose from their parents since."""
    ledgers: set[str] = field(default_factory=set)
    """The ids of the sessions whose ledgers got records since, or others in their place."""
    later: set[str] = field(default_factory=set)
    """The IRIs of runs, ledger entries and documents that the log tells of only since."""
    others: set[str] = field(default_factory=set)
    """What runs, documents and refs are called that were there then, and were changed or taken out since."""
    redacted: set[tuple[str, int | None]] = field(default_factory=set)
    """The (session id, index) of the turns that were redacted since; no index where it was something else of the session."""
    went_on: set[str] = field(default_factory=set)
    """The ids of the sessions of which such runs and entries as were there have changed since."""

    def since(self, kind: str, iri: str, count: int) -> None:
        """Take note of a later line that tells of a session."""
        if kind in _CHANGES:
            self.changes[iris.session_id(iri)] += 1
        if kind == "detach":
            self.detached.add(iris.session_id(iri))
        if kind == "redact":
            self.redacted.add((iris.session_id(iri), count if iris.is_session(iri) else None))

    def record_since(self, iri: str, what: str, *, known: bool) -> None:
        """Take note of a later line that tells of a record: `known` where there was that record by then."""
        run, document = iris.run_id(iri), iris.removed_document(iri)
        if not known:
            self.later.add(what)
        elif run is None and iris.is_session(iri):
            self.went_on.add(iris.session_id(iri))
        if iris.is_session(iri):
            self.ledgers.add(iris.session_id(iri))
        if run is not None and known:
            self.others.add(repr(run))
        if document is not None:
            self.others.add(document.rpartition(":")[2][:16])
        if known and iri.startswith(iris.ref_log("")):
            self.others.add(iri)

    def had(self, session_id: str, index: int | None) -> bool:
        """Tell whether there was, or had been, a turn by then, or (None) something else of a session.

        Of one that was deleted by then nothing is left but who redacted what, and how many turns it had is not asked.
        """
        if session_id not in self.known:
            return False
        return index is None or session_id not in self.sessions or index < (self.end(session_id) or 0)

    def end(self, session_id: str) -> int | None:
        """Return how many turns a session's transcript had; None where none of its own was logged."""
        log = self.sessions.get(session_id)
        return log.heads[-1][0] if log is not None and log.heads else None


def facts_at(lines: Sequence[str], size: int) -> PastFacts:
    """Return what a log says that there was when it had its first `size` lines."""
    before = log_history.logs_by_session(lines[:size])
    there = {each: log for each, log in before.items() if not log.deleted}
    now = log_history.logs_by_session(lines)
    returned = {each for each in before if any(at >= size and what == "returned" for at, what in now[each].events)}
    otherwise = {each for each in returned & there.keys() if not _came_back_as(there[each], now[each])}
    found = PastFacts(size, there, frozenset(before), frozenset(now), frozenset(returned), frozenset(otherwise))
    seen: set[str] = set()
    for number, line in enumerate(lines):
        kind, iri, count, *_ = line.split(" ")
        if kind in _RECORDS:
            what = f"{iri}/ledger/{count}" if kind in _ENTRIES else iri
            if number >= size:
                found.record_since(iri, what, known=what in seen)
                found.later.update([iris.run_removal(iri)] if kind == "remove" else [])
                continue
            seen.add(what)
        elif number >= size:
            found.since(kind, iri, int(count))
    return found


def _came_back_as(was: log_history.SessionLog, now: log_history.SessionLog) -> bool:
    """Tell whether a session came back with all turns that it had; it always does with what it was made with at first."""
    return was.first in (None, was.made_with) and (not was.heads or was.heads[-1][:2] in now.known())


_ROW: Final = "row-altered"


def judge_past(store: PastStore, report: VerifyReport) -> VerifyReport:
    """Return a report without the findings that only say that a session was changed since: its older row is nowhere.

    The same goes for what is redacted by now. What it was made with is held against the log as for every other.
    """
    log, held = log_history.logs_by_session(store.log.lines()), store.held

    def is_real(finding: Finding) -> bool:
        session_id = finding.session_id
        if (session_id, finding.index) in held.redacted and finding.code != "rolled-back":
            return False
        if session_id is None and finding.code in (_ROW, "rolled-back"):
            return not any(name in finding.message for name in held.went_on)
        if finding.code in (_ROW, "rolled-back") and finding.index is None and session_id in held.returned:
            return False  # neither its row of then nor its tombstone is anywhere
        if finding.code == "bad-row" and session_id in held.ledgers:
            return False  # a message was taken up, or a turn told of it, later
        if session_id not in held.changed or finding.code != _ROW:
            return True
        row = log_leaves.row_of(store, session_id)
        return not row.is_tombstone and row.made_with != log[session_id].made_with

    return report.model_copy(update={"findings": tuple(each for each in report.findings if is_real(each))})
