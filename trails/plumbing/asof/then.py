"""What a log says that there was at an earlier place of it, and what became of that since; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from trails import iris
from trails.integrity.leaves import LEDGER_KINDS
from trails.plumbing import logged

_CHANGES: Final = frozenset({"change", "detach"})
_OF_RUNS: Final = frozenset({"run", "task", "remove"})
_ENTRIES: Final = frozenset({*LEDGER_KINDS, "said"})


@dataclass(slots=True)
class Then:
    """What there was when a log had its first `size` lines."""

    size: int
    sessions: dict[str, logged.SessionLog]
    """The sessions that were there, by id."""
    known: frozenset[str]
    """The ids of all sessions that the log told of by then, those that were deleted too."""
    changes: Counter[str] = field(default_factory=Counter)
    """By session id, how often what may change of it was logged since."""
    detached: set[str] = field(default_factory=set)
    """The ids of the sessions that were cut loose from their parents since."""
    later: set[str] = field(default_factory=set)
    """The IRIs of runs, ledger entries and documents that the log tells of only since."""
    redacted: set[tuple[str, int | None]] = field(default_factory=set)
    """The (session id, index) of the turns that were redacted since; no index where it was something else of the session."""
    went_on: set[str] = field(default_factory=set)
    """The ids of the sessions of which such runs and entries as were there have changed since."""

    def end(self, session_id: str) -> int | None:
        """Return how many turns a session's transcript had; None where none of its own was logged."""
        log = self.sessions.get(session_id)
        return log.heads[-1][0] if log is not None and log.heads else None


def then(lines: Sequence[str], size: int) -> Then:
    """Return what a log says that there was when it had its first `size` lines."""
    before = logged.by_session(lines[:size])
    found = Then(size, {each: log for each, log in before.items() if not log.deleted}, frozenset(before))
    seen: set[str] = set()
    for number, line in enumerate(lines):
        kind, iri, count, *_ = line.split(" ")
        if kind in _CHANGES:
            if number >= size:
                found.changes[iris.session_id(iri)] += 1
                if kind == "detach":
                    found.detached.add(iris.session_id(iri))
        elif kind == "redact" and number >= size:
            found.redacted.add((iris.session_id(iri), int(count) if iris.is_session(iri) else None))
        elif kind in _OF_RUNS or kind in _ENTRIES or kind == "document":
            what = f"{iri}/ledger/{count}" if kind in _ENTRIES else iri
            if number < size:
                seen.add(what)
            elif what not in seen:
                found.later.add(what)
            elif iris.is_session(iri.partition("/")[0]):
                found.went_on.add(iris.session_id(iri.partition("/")[0]))
    return found
