"""Which turns a signed checkpoint does not cover: they were written after it, and only a newer one vouches for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from trails.plumbing import logged
from trails.session import Repository

COLUMNS = ("session", "first", "turns")


def uncovered(repository: Repository, size: int, only: Collection[str] | None = None) -> Iterator[tuple[str, int, int]]:
    """Yield what the first `size` lines of the log do not tell of: a session's id, its first such own turn, how many there are.

    `only` keeps to some sessions. The log is no RDF, so this is no query.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.persist()
    ...     size = len(store.store.log.lines())
    ...     _ = plan.append("user", "By train"); _ = plan.persist()
    ...     list(uncovered(store, size)), list(uncovered(store, 0))
    ([('plan', 1, 1)], [('plan', 0, 2)])
    """
    for session_id, log in sorted(logged.by_session(repository.store.log.lines()).items()):
        if log.deleted or session_id not in repository or (only is not None and session_id not in only):
            continue
        start = repository.record(session_id).starts_at
        last = max((count for count, _, _ in log.heads), default=start)
        covered = max((count for count, _, number in log.heads if number < size), default=start)
        first = max(start, covered)
        if first < last:
            yield session_id, first, last - first
