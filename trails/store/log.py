"""Where a store's commits are on record: the truth, of which the engine in each process is an index.

A log has one order for everybody who writes: each record has a number, one higher than that of the record before it. It
has two homes: files that one process at a time has open (`OwnLog` here, over the records of `commitlog.py`), and
PostgreSQL (`postgres/log.py`), to which many processes write, each with an index of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import pyoxigraph as ox

from trails.errors import StoreFailed
from trails.store.committing import Batch, Waiting
from trails.store.maintenance import Vacuumed


class LogIndex(Protocol):
    """The index that a log feeds, as the log sees it: an engine in this process, and how far it is."""

    @property
    def number(self) -> int:
        """The number of the last record that it has."""
        ...

    @property
    def has_failed(self) -> bool:
        """Whether it takes no more."""
        ...

    def refuse_failed(self) -> None:
        """Raise `StoreFailed` where it takes no more, or is closed."""
        ...

    def give_up(self, error: StoreFailed) -> None:
        """Take no more, because of what an error says of the log."""
        ...

    def writing(self) -> AbstractContextManager[object]:
        """Let no other thread commit, or bring in records, meanwhile."""
        ...

    def new_batch(self) -> Batch:
        """Return an empty batch, which judges commits over what the index has. Within `writing`."""
        ...

    def carry_out(self, batch: Batch) -> None:
        """Take in what was decided, and tell whoever waits for it. Within `writing`."""
        ...

    def settled_engine(self) -> ox.Store:
        """Return the engine once it has all that was carried out. Within `writing`."""
        ...

    def sync(self) -> bool:
        """Bring in what was committed anywhere; return whether there was anything."""
        ...

    def flush(self) -> None:
        """Bring everything that it has to disk, in the engine's own files."""
        ...

    def rebuild(self) -> Vacuumed:
        """Make its files anew from what is in it, so that nothing deleted is in any of them."""
        ...


class CommitLog(Protocol):
    """The log of a store. Whoever calls it with an index does so for that one index alone."""

    @property
    def location(self) -> str | None:
        """Where it is, as it may be shown; None where that is the folder of its index."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether other processes append to it, too, so that its index is but one of many."""
        ...

    @property
    def is_read_only(self) -> bool:
        """Whether it was opened to be read, so that nothing is appended to it here."""
        ...

    @property
    def erased_at(self) -> int:
        """Up to which line others took out what copies that were made before may hold; 0 where nobody else can."""
        ...

    @property
    def erased_with(self) -> int:
        """The number of the last record by which others did since the index was opened, known before it is carried out."""
        ...

    def append(self, waiting: Sequence[Waiting], index: LogIndex) -> Batch:
        """Judge commits in their order, each over all that is in the log, and append those that may be.

        This is where a commit is decided, and nowhere else. What is returned is for the index to carry out; first in it
        stands what others have appended since. A commit that cannot be appended gets its error, and the others are none
        the worse. Within `LogIndex.writing`.
        """
        ...

    def read_on(self, index: LogIndex) -> bool:
        """Let an index carry out all records that come after its own number; return whether there were any."""
        ...

    def follow(self, index: LogIndex) -> None:
        """Let an index get what others append as they append it, on a thread of the log's own, until the log is closed."""
        ...

    def snapshot(self, index: LogIndex) -> int:
        """Keep what the index has where an index can begin with it; return the number of its last record."""
        ...

    def alone(self, index: LogIndex, name: str) -> AbstractContextManager[None]:
        """Have nobody else, in any process, be within for the same name, and have here all that whoever was has written.

        It keeps two that do the same from doing it twice; what commits within may still be refused, as anywhere.
        """
        ...

    def erasing(self, index: LogIndex) -> AbstractContextManager[None]:
        """Take out of the log, before this ends, what commits within take out of the store for good."""
        ...

    def vacuum(self, index: LogIndex) -> Vacuumed:
        """Take all that is gone out of the log, and out of the files of its index (`LogIndex.rebuild`)."""
        ...

    def end(self, index: LogIndex) -> None:
        """Begin nothing any more: the index is about to be closed."""
        ...

    def close(self) -> None:
        """Let go of everything; the index is closed. Closing twice is allowed."""
        ...


class OwnLog:
    """The log of a store to which one process at a time writes, in files or in memory: the records of its own index.

    Nobody appends beside it: the lock of the folder sees to that. So what is decided over the index is decided over the log,
    and the index writes it down, and syncs it, as the first thing of carrying it out.
    """

    location: str | None = None
    is_shared = False
    is_read_only = False
    erased_at = 0
    erased_with = 0

    def append(self, waiting: Sequence[Waiting], index: LogIndex) -> Batch:
        batch = index.new_batch()
        batch.alone = len(waiting) == 1
        for each in waiting:
            batch.decide(each)
        return batch

    def read_on(self, index: LogIndex) -> bool:
        return False

    def follow(self, index: LogIndex) -> None:
        """There is nothing that does not come through the index."""

    def snapshot(self, index: LogIndex) -> int:
        index.flush()
        return index.number

    def alone(self, index: LogIndex, name: str) -> AbstractContextManager[None]:
        """There is no other process."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def erasing(self, index: LogIndex) -> Iterator[None]:
        """Let it be done. In the files it stays until `vacuum`."""
        yield

    def vacuum(self, index: LogIndex) -> Vacuumed:
        return index.rebuild()

    def end(self, index: LogIndex) -> None:
        """There is nothing that goes on beside the index."""

    def close(self) -> None:
        """The files are the index's, which has closed them."""
