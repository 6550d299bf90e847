"""Compare stored sessions and open handles: find their common ancestor, and read only the two tails after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from trails import compare
from trails.compare.alignment import SHOWN_PREFIX, Alignment, align_tails
from trails.compare.session_diff import Tail, diff_tails
from trails.compare.value_diff import Ancestor
from trails.errors import IntegrityError, InvalidInput
from trails.history.lookup import names
from trails.history.pending_session import Worktree
from trails.history.workspace import Workspace
from trails.integrity import digests
from trails.model import iris, lineage
from trails.model.values import SessionRecord, Turn


def diff_of(workspace: Workspace, left: Worktree | str, right: Worktree | str) -> compare.Diff:
    """Return what differs between two sessions, each a reference into a store or an open handle (with pending turns)."""
    return diff_between(_side(workspace, left), _side(workspace, right))


def diff_between(left: DiffSide, right: DiffSide) -> compare.Diff:
    """Return what differs between two sides: the shared prefix is found, and only the tails after it are read."""
    ancestor = _ancestor(left, right)
    common = ancestor.turns if ancestor else 0
    return diff_tails(_tail(left, common, ancestor), _tail(right, common, ancestor), ancestor)


MAX_ALIGNED: Final = 20


def alignment_of(workspace: Workspace, given: Sequence[Worktree | str]) -> Alignment:
    """Return several sessions beside each other, each a reference into a store or an open handle."""
    if not 2 <= len(given) <= MAX_ALIGNED:
        raise InvalidInput(f"an alignment is of 2 to {MAX_ALIGNED} sessions, not {len(given)}")
    sides = [_side(workspace, each) for each in given]
    if len({side.name for side in sides}) < len(sides):
        raise InvalidInput("an alignment names each session once")
    ancestors = [_ancestor(sides[0], side) for side in sides[1:]]
    common = min(0 if ancestor is None else ancestor.turns for ancestor in ancestors)
    start = max(0, common - SHOWN_PREFIX)
    prefix = sides[0].tail(start)[: common - start]
    digest = prefix[-1].digest if prefix else digests.GENESIS
    tails = []
    for side in sides:
        turns = side.tail(common)
        tails.append(Tail(side.name, side.session_id, common, turns, turns[-1].digest if turns else digest))
    return align_tails(tails, prefix)


def _tail(side: DiffSide, start: int, ancestor: Ancestor | None) -> Tail:
    turns = side.tail(start)
    last = turns[-1].digest if turns else ancestor.digest if ancestor else digests.GENESIS
    return Tail(side.name, side.session_id, start, turns, last)


def _side(workspace: Workspace, given: Worktree | str) -> DiffSide:
    if isinstance(given, Worktree):
        return OpenSide(given)
    if isinstance(given, str):
        return StoredSide(workspace, names.parse_revision(workspace, given))
    raise InvalidInput(f"a diff is of sessions: give a Session or a reference, not {type(given).__name__}")


class StoredSide:
    """A side that stands in the store."""

    def __init__(self, workspace: Workspace, place: names.Revision) -> None:
        """Look its lineage up; nothing of its turns is read."""
        self.name = iris.session_id(place.ref) if iris.is_session(place.ref) else place.ref
        self.session_id, self.workspace = place.session_id, workspace
        self._reader = workspace.reader
        self.runs = lineage.segments(self._reader.lineage(place.session_id), place.end)

    def digest(self, index: int) -> str | None:
        """Return the digest of the turn at an index: one look-up."""
        return self._reader.digest_in(self.runs, index)

    def stored(self) -> int:
        """Return how many turns there are, by a few look-ups."""
        return self._reader.length_of(self.runs)

    def tail(self, start: int) -> Sequence[Turn]:
        """Read the turns from an index on."""
        return self._reader.tail(self.runs, start, self.session_id)


class OpenSide:
    """A side that a handle holds, with what is pending."""

    def __init__(self, tree: Worktree) -> None:
        """Take the handle's turns as they are now."""
        self.name, self.session_id, self.workspace = tree.record.label or tree.id, tree.id, tree.workspace
        self._turns = tree.all_turns()
        self._stored = tree.first_pending
        self.runs = lineage.segments(tree.chain, self._stored)

    def digest(self, index: int) -> str | None:
        """Return the digest of the turn at an index."""
        return self._turns[index].digest if index < len(self._turns) else None

    def stored(self) -> int:
        """Return how many turns are not pending."""
        return self._stored

    def tail(self, start: int) -> Sequence[Turn]:
        """Return the turns from an index on."""
        return self._turns[start:]


DiffSide = StoredSide | OpenSide
"""A transcript as one side of a diff."""


# --- the common ancestor


def _ancestor(left: DiffSide, right: DiffSide) -> Ancestor | None:
    """Return where two sides last agree: as far as lineage says, then as far as digests do."""
    by_lineage = _shared_by_lineage(left, right) if left.workspace is right.workspace else 0
    if by_lineage:
        digest = left.digest(by_lineage - 1)
        if digest is None:
            _refuse_missing(left, right, by_lineage - 1)
        else:
            _check_fork_heads(left, right, by_lineage, digest)
    common = _shared_by_digests(left, right, by_lineage)
    if not common:
        return None
    return Ancestor(
        turns=common,
        digest=left.digest(common - 1) or "",
        session_id=lineage.owner_at(left.runs, common - 1) or left.session_id,
        found_by="lineage" if common == by_lineage else "digests",
    )


def _shared_by_lineage(left: DiffSide, right: DiffSide) -> int:
    """Return how many turns the same sessions own on both sides from the beginning on: told from the records alone."""
    shared = 0
    for mine, other in zip(left.runs, right.runs, strict=False):
        if mine.record.id != other.record.id or mine.start != other.start:
            break
        if mine.end is None and other.end is None:
            return min(left.stored(), right.stored())
        shared = min(end for end in (mine.end, other.end) if end is not None)
        if mine.end != other.end:
            break
    return shared


def _refuse_missing(left: DiffSide, right: DiffSide, index: int) -> None:
    """Raise `IndexGap` where the last turn that two lineages share by their records is not there; it may lack its digest."""
    for side in (left, right):
        owner = lineage.owner_at(side.runs, index)
        if owner not in (None, side.session_id) and not side.workspace.reader.owns(owner, index):
            raise lineage.gap(side.session_id, index, side.runs)


def _check_fork_heads(left: DiffSide, right: DiffSide, shared: int, digest: str) -> None:
    """Accept a common ancestor if each fork made there noted the digest that stands there; else `IntegrityError`."""
    forks = [run.record for side in (left, right) for run in side.runs if run.record.forked_at_index == shared]
    for record in forks:
        assert isinstance(record, SessionRecord)  # noqa: S101 - both sides have read the rows of all their sessions
        if record.fork_head and digest != record.fork_head:
            raise IntegrityError(
                f"session {record.id!r} was forked after turn {shared - 1} with digest {record.fork_head[:16]}..., but that "
                f"turn now has {digest[:16]}...: the history was altered; restore the parent from an export or a backup"
            )


def _shared_by_digests(left: DiffSide, right: DiffSide, start: int) -> int:
    """Return how many turns both sides begin with, of which `start` are known: a digest covers all turns before it."""

    def same(index: int) -> bool:
        digest = left.digest(index)
        return digest is not None and digest == right.digest(index)

    last = _last_true(same, start)
    return start if last is None else last + 1


def _last_true(holds: Callable[[int], bool], first: int) -> int | None:
    """Return the last index from `first` on at which something holds; None where it does not at `first`.

    Once it does not hold, it must never hold again. Asks about twice as often as the distance has binary digits.

    >>> _last_true(lambda n: n < 1000, 5), _last_true(lambda n: n < 1000, 1000)
    (999, None)
    """
    if not holds(first):
        return None
    low, step = first, 1
    while holds(low + step):
        low, step = low + step, step * 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
