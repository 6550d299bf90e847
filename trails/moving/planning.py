"""What becomes of sessions when they go from one store to another: planned by reading both, before anything is written.

Two transcripts are compared by their digests. One that is the beginning of the other goes on there; where both went on, the
tail that comes has a fork of its own, whose name follows from the session and from the first turn that differs. So the same
tail has the same name whoever pushes it, and however often.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from trails import validate
from trails.errors import ForkDepthExceeded, InvalidInput
from trails.model import MAX_FORK_DEPTH, SessionRecord
from trails.session import Repository

Outcome = Literal["created", "forwarded", "forked", "unchanged", "behind", "deleted", "refused"]
"""`created`: it was not there. `forwarded`: it was there, and got the turns that it lacked. `forked`: both had gone on, and
what came stands in a fork. `unchanged`: all was there. `behind`: all was there, and more. `deleted`: it was deleted there, and
`restore` was not said. `refused`: see what is said of it."""
WRITES: Final = frozenset({"created", "forwarded", "forked"})
_NAME: Final = 8
"""Hex digits of a digest in the name of a tail."""


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of one session that goes to another store."""

    record: SessionRecord
    """The session where it comes from."""
    outcome: Outcome
    there: str
    """The id of the session that has its turns at the other side."""
    parent: str | None
    """The id there of the session that it inherits from."""
    start: int
    """How many of its turns are there already."""
    turns: int
    """How many it has."""
    head: str | None
    """The digest of the last one."""
    is_asked: bool
    """Whether it was asked for, and does not only come as an ancestor."""
    said: tuple[str, ...] = ()

    @property
    def is_tail(self) -> bool:
        """Whether its turns stand in a fork of the session there."""
        return self.there != self.record.id


def tail_name(session_id: str, digest: str) -> str:
    """Return the id of the fork that gets a tail, given the session and the digest of the first turn that differs.

    >>> tail_name("plan", "0123456789abcdef")
    'plan.01234567'
    """
    return f"{session_id[: validate.MAX_ID - _NAME - 1]}.{digest[:_NAME]}"


def digests(repository: Repository, session_id: str) -> list[str]:
    """Return the digests of a whole transcript, inherited turns included."""
    reader = repository.reader
    return [turn.digest for turn in reader.turns(reader.lineage(session_id))]


def common(mine: Sequence[str], theirs: Sequence[str]) -> int:
    """Return how many turns two transcripts share from the start.

    >>> common(["a", "b", "c"], ["a", "b", "d"]), common([], ["a"])
    (2, 0)
    """
    return next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))


class Plan:
    """What becomes of sessions of one store, and of the ancestors that they need, at another."""

    def __init__(self, source: Repository, target: Repository, *, restore: bool) -> None:
        self._source = source
        self._target = target
        self._restore = restore
        self._steps: dict[str, Step] = {}
        self._known: dict[str, list[str]] = {}
        """The transcripts that the target will have, by session."""
        self._parents: dict[str, str | None] = {}
        """What sessions that it does not have yet will be forks of."""

    def steps(self, wanted: Iterable[str]) -> list[Step]:
        """Return a step for each session and each ancestor that it needs, ancestors first.

        Raises as `Repository.load` does where a session is missing at the source or its transcript is not whole.
        """
        asked = list(dict.fromkeys(wanted))
        needed: dict[str, tuple[SessionRecord, int]] = {}
        for session_id in asked:
            below: int | None = None
            for record in self._source.reader.lineage(session_id):
                before = needed.get(record.id, (record, 0))[1]
                needed[record.id] = record, max(before, 0 if below is None else below)
                below = record.starts_at if below is None else min(below, record.starts_at)
        depth = {each: len(self._source.reader.lineage(each)) for each in needed}
        for session_id in sorted(needed, key=lambda each: (depth[each], each)):
            record, need = needed[session_id]
            self._steps[session_id] = self._step(record, need, is_asked=session_id in asked)
        return list(self._steps.values())

    def _step(self, record: SessionRecord, need: int, *, is_asked: bool) -> Step:
        mine = digests(self._source, record.id)
        parent = None if record.parent_session_id is None else self._parent(record, record.parent_session_id, mine)
        above = None if parent is None else self._steps.get(record.parent_session_id or "")
        made = Step(record, "unchanged", record.id, parent, len(mine), len(mine), (mine or [None])[-1], is_asked)  # type: ignore[list-item] # None where there is no turn
        if above is not None and above.outcome in ("deleted", "refused"):
            why = f"its parent {above.record.id!r} is not there (a deleted one comes back with restore)"
            return _other(made, "refused", said=(why,))
        if (name := self._home_of_tail(record, mine)) is not None:
            return _other(made, "unchanged", there=name)
        return self._compared(made, mine, len(mine) if is_asked else need)

    def _parent(self, record: SessionRecord, parent: str, mine: Sequence[str]) -> str:
        """Return which session there has the turns that a fork inherits: the parent, or a fork that got a tail of it."""
        name = parent
        while name in self._known or name in self._target:
            shared = common(mine, self._transcript(name))
            if shared >= record.starts_at:
                return name
            name = tail_name(name, mine[shared])
        return self._steps[parent].there

    def _home_of_tail(self, record: SessionRecord, mine: Sequence[str]) -> str | None:
        """Return the session whose tail a session is by its name, where the target has all of that in it."""
        parent, at = record.parent_session_id, record.starts_at
        if parent is None or len(mine) <= at or record.id != tail_name(parent, mine[at]) or record.id in self._target:
            return None
        if parent not in self._target:
            return None
        return parent if self._transcript(parent)[: len(mine)] == list(mine) else None

    def _compared(self, made: Step, mine: list[str], need: int) -> Step:
        there, parent = made.there, made.parent
        while True:
            if self._target.reader.is_deleted(there) and not self._restore:
                return _other(made, "deleted", there=there, parent=parent)
            if there not in self._target and there not in self._known:
                return self._arriving(made, there, parent, mine)
            theirs = self._transcript(there)
            shared = common(mine, theirs)
            if shared == len(mine):
                is_behind = len(theirs) > len(mine)
                return _other(made, "behind" if is_behind else "unchanged", there=there, parent=parent)
            if shared >= need:
                return _other(made, "unchanged", there=there, parent=parent)  # an ancestor, and what is needed is there
            if shared == len(theirs):
                self._known[there] = mine
                return _other(made, "forwarded", there=there, parent=parent, start=shared)
            there, parent = tail_name(there, mine[shared]), there
            made = _other(made, made.outcome, start=shared)

    def _arriving(self, made: Step, there: str, parent: str | None, mine: list[str]) -> Step:
        if there != made.record.id:
            self._known[there] = mine
            if not self._is_of_one_branch(made.record.id, made.start):
                why = f"it stands as {there!r} with its whole transcript: its turns are of several branches"
                return _other(_without_parent(made), "forked", there=there, start=0, said=(why,))
            self._check_depth(there, parent)
            return _other(made, "forked", there=there, parent=parent)
        if parent is not None:
            start = made.record.starts_at
            if self._transcript(parent)[:start] != mine[:start]:
                why = f"its parent {parent!r} has other turns there below index {start}"
                return _other(made, "refused", said=(why,))
            self._check_depth(there, parent)
        self._known[there] = mine
        return _other(made, "created", start=made.record.starts_at)

    def _is_of_one_branch(self, session_id: str, start: int) -> bool:
        """Tell whether turns from an index on may stand in one fork: a fork's own turns are of one branch."""
        reader = self._source.reader
        return len({turn.branch for turn in reader.turns(reader.lineage(session_id))[start:]}) == 1

    def _transcript(self, session_id: str) -> list[str]:
        if session_id not in self._known:
            self._known[session_id] = digests(self._target, session_id)
        return self._known[session_id]

    def _check_depth(self, session_id: str, parent: str | None) -> None:
        """Take note of whose fork a session will be; raise `ForkDepthExceeded` where that has too many ancestors then."""
        self._parents[session_id] = parent
        depth, name = 0, session_id
        while (above := self._parents.get(name)) is not None:
            depth, name = depth + 1, above
        if name in self._target:
            depth += len(self._target.reader.lineage(name)) - 1
        if depth > MAX_FORK_DEPTH:
            raise ForkDepthExceeded(
                f"session {session_id!r} would have {depth} ancestors at {self._target.store.location}, and "
                f"{MAX_FORK_DEPTH} are allowed; flatten it first (`trails flatten`), and push what that makes"
            )


def _without_parent(step: Step) -> Step:
    return replace(step, parent=None)


def _other(
    step: Step,
    outcome: Outcome,
    *,
    there: str | None = None,
    parent: str | None = None,
    start: int | None = None,
    said: tuple[str, ...] = (),
) -> Step:
    changes: dict[str, Any] = {"there": there, "parent": parent, "start": start}
    return replace(
        step, outcome=outcome, said=said, **{name: each for name, each in changes.items() if each is not None}
    )


def refuse_same(source: Repository, target: Repository) -> None:
    """Raise `InvalidInput` where two stores are one."""
    here, there = source.store.location, target.store.location
    if source.store is target.store or (here != ":memory:" and os.path.realpath(here) == os.path.realpath(there)):
        raise InvalidInput(f"{there} is the store itself; name another one")
