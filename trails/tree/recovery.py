"""Taking the tree up again after a restart: mains and suspended branches come back, what was at work has failed.

What an active branch or worker had in memory went with its process; its parent is told, in the commit that says so. A
restart that is cut short goes on with the next one, and nobody is told twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from trails import iris
from trails.tree.index import Live
from trails.tree.lifecycle import Lifecycle
from trails.tree.transaction import told_by

_BATCH: Final = 100
"""Sessions that fail in one commit."""
_BULK: Final = 20
"""So many ledgers are looked up one by one; for more, the ends of all ledgers are read at once."""
_WHY: Final = "it was at work when its process ended, and what it had not stored is gone"
_RULE: Final = "restart: what was at work has failed"


def recover(lifecycle: Lifecycle, now: datetime) -> list[str]:
    """Read the tree from the store, once per open store; return the ids of the sessions that have failed."""
    with lifecycle.runtime.lock:
        if lifecycle.runtime.recovered:
            return []
        lifecycle.runtime.reload()
        lifecycle.runtime.recovered = True
        return lifecycle.attempt(lambda: _fail_interrupted(lifecycle, now))


def _fail_interrupted(lifecycle: Lifecycle, now: datetime) -> list[str]:
    index = lifecycle.runtime.index
    interrupted = sorted(
        (each for each in index if each.state == "active" and each.kind != "main"),
        key=lambda each: (each.depth, each.id),
    )
    if len(interrupted) > _BULK:
        _read_ends(lifecycle)
    rest = iter(interrupted)
    while batch := list(islice(rest, _BATCH)):
        _fail(lifecycle, batch, now)
    return [each.id for each in interrupted]


def _read_ends(lifecycle: Lifecycle) -> None:
    """Take note of where every ledger ends, in one query."""
    for session, last in lifecycle.repository.reader.select("last_entries"):
        lifecycle.runtime.book.runtime.wrote(iris.session_id(session.value), int(last.value))


def _fail(lifecycle: Lifecycle, batch: Sequence[Live], now: datetime) -> None:
    sessions = {each for live in batch for each in told_by(lifecycle.runtime.index, live)}
    with lifecycle.step(sessions, lifecycle.deed(lifecycle.keeper(), now, _RULE)) as step:
        for live in batch:
            step.end(live, "failed", "failed", grace=lifecycle.grace, error=_WHY, doomed=True)
        lifecycle.commit(step)
