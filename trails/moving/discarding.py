"""Taking a copy that was not finished out of its database."""

from __future__ import annotations

import contextlib
import os

from trails.errors import InvalidInput, StoreFailed
from trails.model import Value
from trails.opening import store_at
from trails.plumbing import unfinished
from trails.store.embedded import EmbeddedStore
from trails.store.postgres.address import is_address
from trails.store.postgres.log import PostgresLog


class Discarded(Value):
    """What was taken out of a database."""

    location: str
    commits: int
    """How many commits its log had."""


def discard(location: str | os.PathLike[str]) -> Discarded:
    """Remove a copy in PostgreSQL that was not finished, and all that its database holds of it; return what it was.

    A store of which the copy was finished, or that was made otherwise, is never removed: only one that is marked as the half of
    a copy, or in which nothing was ever committed. Where a process has it open, as a copy that goes on has, nothing is removed
    either.

    Raises `InvalidInput` where there is no such store, or it is a whole one, or in a folder, which is deleted as any other;
    `StoreFailed` where another process has it open or writes to it meanwhile, or the user of the database may not delete.
    """
    place = os.fspath(location)
    if not is_address(place):
        raise InvalidInput(
            f"{place} is in no database: a copy in a folder, or a dump, that was not finished is deleted as any other"
        )
    with contextlib.closing(store_at(place)) as store:
        if store.number and not unfinished.is_half_copied(store):
            raise InvalidInput(
                f"{store.location} is a whole store, and not a copy that was not finished; nothing was removed"
            )
        if not _log_of(store).remove_store(store):
            raise StoreFailed(
                f"{store.location} was written to just now: a copy into it goes on; nothing was removed. End that first"
            )
        return Discarded(location=store.location, commits=store.number)


def _log_of(store: EmbeddedStore) -> PostgresLog:
    assert isinstance(store.commits, PostgresLog)  # noqa: S101 - of that address
    return store.commits
