"""Deleting what nobody uses any more, by age, number and size: off until asked for, and by the one rule of deleting.

Leaves go before what they depend on, so whole dead trees can go, and nothing that a session which stays depends on.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyoxigraph import Literal, NamedNode

from trails import iris, vocab
from trails.errors import HasChildren, InvalidInput, SessionNotFound
from trails.model import Value
from trails.plumbing import deletion, marks
from trails.plumbing.reader import Reader
from trails.records.deeds import Deed
from trails.records.terms import parse_time
from trails.store.contract import QuadStore

_TEXTS: Final = (vocab.VALUE, vocab.ARGUMENTS, vocab.META)


class Pruning(Value):
    """What `prune` deleted, or would delete."""

    sessions: tuple[str, ...]
    """The ids of the sessions that went, in that order."""
    needed: tuple[str, ...]
    """Sessions that were old enough to go and stay, because a session that stays depends on them or a tag names them."""
    text_bytes: int
    """How much text they held, in UTF-8 bytes; `vacuum` gives its space back."""
    dry_run: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return self.model_dump()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session as pruning sees it: when it was last used, and which sessions it depends on."""

    id: str
    last: datetime | None
    """When its last own turn was made, or else the session itself; None where nothing is known: such a one stays."""
    needs: frozenset[str] = frozenset()
    tagged: bool = False
    """Whether a tag names it: then it stays, as what a tag names does in git."""


def prune(
    store: QuadStore,
    reader: Reader,
    *,
    older_than: timedelta | None,
    keep_count: int | None,
    keep_bytes: int | None,
    dry_run: bool,
    deed: Deed,
) -> Pruning:
    """Delete sessions, those first whose last turn is oldest, until every limit that is given is kept, or nothing more can go."""
    if older_than is None and keep_count is None and keep_bytes is None:
        raise InvalidInput(
            "prune needs to know what may go: an age (older_than), a number (keep_count) or a size (keep_bytes)"
        )
    if older_than is not None and not isinstance(older_than, timedelta):
        raise InvalidInput(f"older_than is a timedelta, as timedelta(days=30), not {older_than!r:.80}")
    if older_than is not None and older_than < timedelta(0):
        raise InvalidInput(f"older_than must not be negative, and is {older_than}")
    found = candidates(store, reader)
    before = None if older_than is None else _ago(older_than)
    sizes = {} if keep_bytes is None else {each.id: text_bytes(store, each.id) for each in found}
    doomed = plan(found, before=before, keep_count=keep_count, keep_bytes=keep_bytes, sizes=sizes)
    deed = deed._replace(rule=rule(older_than=older_than, keep_count=keep_count, keep_bytes=keep_bytes))
    gone: list[str] = []
    freed = 0
    for session_id in doomed:
        size = sizes[session_id] if sizes else text_bytes(store, session_id)
        if dry_run or _deleted(store, reader, session_id, deed):
            gone.append(session_id)
            freed += size
    if not dry_run:
        deletion.sweep_pending(store)
    needed = sorted(
        each.id for each in found if before and each.last and each.last < before and each.id not in set(gone)
    )
    return Pruning(sessions=tuple(gone), needed=tuple(needed), text_bytes=freed, dry_run=dry_run)


def rule(*, older_than: timedelta | None, keep_count: int | None, keep_bytes: int | None) -> str:
    """Return the rule by which sessions go, as their tombstones name it.

    >>> rule(older_than=timedelta(days=90), keep_count=None, keep_bytes=1000)
    'prune: older than 7776000 s, keep 1000 bytes'
    """
    limits = (
        (None if older_than is None else older_than.total_seconds(), "older than {:.15g} s"),
        (keep_count, "keep {} sessions"),
        (keep_bytes, "keep {} bytes"),
    )
    return "prune: " + ", ".join(text.format(limit) for limit, text in limits if limit is not None)


def _ago(age: timedelta) -> datetime:
    try:
        return datetime.now(UTC) - age
    except OverflowError as error:
        raise InvalidInput(f"{age} ago is before the year 1") from error


def _deleted(store: QuadStore, reader: Reader, session_id: str, deed: Deed) -> bool:
    """Delete a session; False where another thread made something that depends on it, or deleted it, meanwhile."""
    try:
        deletion.delete(store, reader, session_id, deed=deed, cascade=False)
    except (HasChildren, SessionNotFound):
        return False
    return True


def plan(
    found: Iterable[Candidate],
    *,
    before: datetime | None = None,
    keep_count: int | None = None,
    keep_bytes: int | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[str]:
    """Return the ids of the sessions that should go, in the order in which they can: never one that others still need.

    All that were last used before `before` go; then the oldest, until at most `keep_count` sessions with at most
    `keep_bytes` are left.
    """
    alive = {each.id: each for each in found}
    needed = Counter(need for each in alive.values() for need in each.needs)
    size = sum((sizes or {}).values())
    free = [
        (each.last, each.id)
        for each in alive.values()
        if each.last is not None and not each.tagged and not needed[each.id]
    ]
    heapq.heapify(free)
    doomed: list[str] = []
    while free:
        too_old = before is not None and free[0][0] < before
        too_many = keep_count is not None and len(alive) > keep_count
        too_big = keep_bytes is not None and size > keep_bytes
        if not (too_old or too_many or too_big):
            break
        _, gone = heapq.heappop(free)
        doomed.append(gone)
        size -= (sizes or {}).get(gone, 0)
        for need in alive.pop(gone).needs & alive.keys():
            needed[need] -= 1
            last = alive[need].last
            if not needed[need] and last is not None and not alive[need].tagged:
                heapq.heappush(free, (last, need))
    return doomed


def candidates(store: QuadStore, reader: Reader) -> list[Candidate]:
    """Return all sessions with the time of their last turn, what they depend on, and whether a tag names them."""
    last = {
        iris.session_id(row["session"].value): parse_time(row["last"].value)
        for row in reader.select("last_times")
        if row["last"] is not None
    }
    found, tagged = [], {tag.session_id for tag in marks.tags(store)}
    for row in reader.select("tree"):
        if row["stored"].value == "true":
            session_id = iris.session_id(row["session"].value)
            created = None if row["created"] is None else parse_time(row["created"].value)
            needs = {iris.session_id(row[name].value) for name in ("parent", "spawner") if row[name] is not None}
            used = last.get(session_id, created)
            found.append(Candidate(session_id, used, frozenset(needs), tagged=session_id in tagged))
    return found


def text_bytes(store: QuadStore, session_id: str) -> int:
    """Return how much text a session's own turns hold: content, calls' arguments and metadata, in UTF-8 bytes."""
    graph = NamedNode(iris.session(session_id))
    quads = (quad for predicate in _TEXTS for quad in store.quads((None, predicate, None, graph)))
    return sum(len(quad.object.value.encode()) for quad in quads if isinstance(quad.object, Literal))
