"""Store what several handles have to write in one commit: all of it, or nothing.

A part may need what another part writes, as the fork of a new session does; that is not looked for in the store. What a part
forbids, no other part may write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

from pyoxigraph import Quad

from trails.history.log_leaves import LeafMaker
from trails.history.pending_session import Step, Worktree
from trails.history.transaction import Proposal, Refusal, Transaction
from trails.integrity.leaves import Leaf
from trails.store.contract import PreconditionFailed, QuadStore
from trails.store.pattern import Found, Preview


@dataclass(frozen=True, slots=True)
class Part:
    """What one handle has to write."""

    tx: Transaction | None = None
    """What is written beside the turns of a session, or without any."""
    tree: Worktree | None = None
    """The session whose news are written."""
    done: Callable[[], None] = lambda: None
    """What is done once all of it is written."""
    otherwise: Refusal | None = None
    """Makes the error for a precondition of `tx` that says nothing itself."""
    seen: object = None
    """The store's token before what `tx` requires was last seen to hold: while it is the same, that is not looked up."""


def commit_together(store: QuadStore, make: Callable[[], Sequence[Part]]) -> int:
    """Write all parts in one commit, and return how many turns that were; where it is refused, nothing is written.

    `make` gives the parts, once more where a commit before this one was done of which no answer came. Raises the error of the
    part whose precondition does not hold.
    """
    written = 0
    while True:
        parts = make()
        if not parts:
            return written
        with ExitStack() as held:
            begun = _begin(parts, held)
            try:
                _joined(begun).commit(store)
            except PreconditionFailed as failure:
                settled = [each.tree.settle_lost() for each in begun if each.tree is not None]
                if all(each is None for each in settled):
                    raise next(filter(None, (each.error(failure) for each in begun)), failure) from failure
                written += sum(each or 0 for each in settled)
                continue
            except BaseException as error:
                for each in begun:
                    each.fail(error)
                raise
            return written + sum(each.end() for each in begun)


_Each = TypeVar("_Each")


@dataclass(frozen=True, slots=True)
class _Begun:
    """A part whose commit is made, with the session's own share of it."""

    part: Part
    step: Step | None

    @property
    def tree(self) -> Worktree | None:
        return self.part.tree

    def changes(self) -> list[Proposal]:
        beside = [] if self.part.tx is None else [self.part.tx.change(seen=self.part.seen)]
        return beside if self.step is None else [self.step.change, *beside]

    def end(self) -> int:
        """Take it for written; return how many turns that were."""
        written = 0 if self.tree is None or self.step is None else self.tree.end_commit(self.step)
        self.part.done()
        return written

    def fail(self, error: BaseException) -> None:
        """Remember that it may have been written."""
        if self.tree is not None and self.step is not None:
            self.tree.note_failed(self.step, error)

    def error(self, failure: PreconditionFailed) -> Exception | None:
        """Return the error that a precondition means which did not hold, if this part asked for it."""
        if self.part.tx is not None and self.part.tx.change().asked_for(failure):
            return self.part.tx.error(failure, self.part.otherwise)
        if self.step is not None and self.step.change.asked_for(failure):
            return self.step.error(failure)
        return None


def _begin(parts: Sequence[Part], held: ExitStack) -> list[_Begun]:
    """Make the commits of parts; their sessions, and texts that are copied, are held until the commit is done."""
    for tree in (part.tree for part in parts if part.tree is not None):
        held.enter_context(tree.alone)
        if tree.make_copies is not None:
            held.enter_context(tree.workspace.rewriting())
            tree.take_copies()
    return [_Begun(part, None if part.tree is None else part.tree.begin_commit()) for part in parts]


def _joined(parts: Sequence[_Begun]) -> Proposal:
    """Return the one commit of all parts; raise the `PreconditionFailed` of one whose conditions another one breaks."""
    changes = [begun.changes() for begun in parts]
    owners: dict[Quad, int] = {}
    for number, own in enumerate(changes):
        for quad in (quad for change in own for quad in change.add):
            owners.setdefault(quad, number)
    added = Found(owners)
    for number, own in enumerate(changes):
        for pattern in (pattern for change in own for pattern in change.forbid):
            found = [quad for quad in added.matching(pattern) if owners[quad] != number]
            if found:
                raise PreconditionFailed(matched=found)
    every = [change for own in changes for change in own]
    seen = [change.seen for change in every if change.require]
    return Proposal(
        seen=seen[0] if all(each == seen[0] for each in seen) and seen else None,
        add=list(owners),
        remove=_all(change.remove for change in every),
        require=[quad for quad in _all(change.require for change in every) if quad not in owners],
        forbid=_all(change.forbid for change in every),
        makers=[_once(maker for change in every for maker in change.makers)],
    )


def _all(groups: Iterable[Iterable[_Each]]) -> list[_Each]:
    return list(dict.fromkeys(each for group in groups for each in group))


def _once(makers: Iterable[LeafMaker]) -> LeafMaker:
    """Return the maker of the leaves of several, each leaf once: two parts may change one row."""
    every = list(makers)

    def made(after: Preview) -> list[Leaf]:
        return list(dict.fromkeys(leaf for maker in every for leaf in maker(after)))

    return made
