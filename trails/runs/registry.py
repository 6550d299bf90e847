"""The registry of sub-agents' runs over a store: entered, read, changed by compare-and-set, taken out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyoxigraph import NamedNode

from trails import iris, validate, vocab
from trails.errors import InvalidInput
from trails.plumbing import redaction_records, run_rows
from trails.plumbing.transaction import Proposal, Transaction
from trails.records.deeds import Deed
from trails.records.run import Run
from trails.session import Repository
from trails.store.contract import PreconditionFailed

_START: Final = datetime(1, 1, 1, tzinfo=UTC)
Step = Callable[[Run], dict[str, Any] | None]
"""What a run's change is: the fields that become others, or None for no change."""


class _Index:
    """Which runs of a store are open, and when which is archived: what a tick asks for, without reading all of them.

    One process owns a store, and all that it changes goes through a registry: so this is as the store is.
    """

    def __init__(self, repository: Repository) -> None:
        self.lock = threading.Lock()
        self.open = {run.run_id for run in run_rows.unfinished(repository.store)}
        self.archived_at = dict(run_rows.archive_times(repository.store))

    def note(self, run: Run) -> None:
        """Take note of a run as it is now."""
        with self.lock:
            if run.cleanup_completed is None:
                self.open.add(run.run_id)
            else:
                self.open.discard(run.run_id)
            if run.archive_at is None:
                self.archived_at.pop(run.run_id, None)
            else:
                self.archived_at[run.run_id] = run.archive_at

    def forget(self, run_id: str) -> None:
        """Take note that a run is gone."""
        with self.lock:
            self.open.discard(run_id)
            self.archived_at.pop(run_id, None)


_INDICES: WeakKeyDictionary[Repository, _Index] = WeakKeyDictionary()
_INDICES_LOCK = threading.Lock()


class Registry:
    """The runs of a store. Several registries of one store are one."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._store = repository.store

    @property
    def _index(self) -> _Index:
        with _INDICES_LOCK:
            found = _INDICES.get(self._repository)
            if found is None:
                found = _INDICES[self._repository] = _Index(self._repository)
            return found

    def note(self, run: Run) -> None:
        """Take note of a run that was stored with something else."""
        self._index.note(run)

    def find(self, run_id: str) -> Run | None:
        """Return a run by its id, or None."""
        return run_rows.read_one(self._store, validate.text(run_id, "the run's id"))

    def get(self, run_id: str) -> Run:
        """Return a run by its id, or raise `InvalidInput`."""
        run = self.find(run_id)
        if run is None:
            gone = run_rows.was_removed(self._store, run_id)
            what = "was cleaned up or archived" if gone else "is not in the registry"
            raise InvalidInput(f"the run {run_id!r} {what}; see `trails runs list`")
        return run

    def all(self) -> list[Run]:
        """Return all runs, in the order in which they were registered."""
        return run_rows.read(self._store)

    def of_session(self, session_id: str) -> list[Run]:
        """Return the runs in a session, and those that it asked for."""
        return run_rows.of_session(self._store, session_id)

    def in_session(self, session_id: str) -> list[Run]:
        """Return the runs in a session."""
        return run_rows.read(self._store, vocab.GENERATED, NamedNode(iris.session(session_id)))

    def due(self, now: datetime) -> list[Run]:
        """Return the runs whose time in the registry is over; only those are read."""
        index = self._index
        with index.lock:
            named = [run_id for run_id, moment in index.archived_at.items() if moment <= now]
        found = (self.find(run_id) for run_id in named)
        return sorted((run for run in found if run is not None), key=lambda run: (run.archive_at or now, run.run_id))

    def unfinished(self) -> list[Run]:
        """Return the runs that are not announced yet, in the order in which they were registered; only those are read."""
        index = self._index
        with index.lock:
            named = list(index.open)
        found = [run for run in map(self.find, named) if run is not None and run.cleanup_completed is None]
        return sorted(found, key=lambda run: (run.created or _START, run.run_id))

    def was_removed(self, run_id: str) -> bool:
        """Tell whether a run was in the registry and was taken out."""
        return run_rows.was_removed(self._store, run_id)

    def register(self, run: Run) -> None:
        """Enter a run, or raise `InvalidInput` where its id is known."""
        index = self._index
        try:
            run_rows.registered(run).commit(self._repository.store)
        except PreconditionFailed as failure:
            raise known(run.run_id) from failure
        index.note(run)

    def change(self, run_id: str, step: Step, also: Callable[[Run], Proposal] | None = None) -> Run | None:
        """Change a run in one commit (with what `also` gives for the run as it becomes); return it as it became.

        The step is taken on the run as it stands; where another writer was quicker, again on what that left. None where
        the run is gone or the step changes nothing.
        """
        index = self._index
        while True:
            run = self.find(run_id)
            fields = None if run is None else step(run)
            if run is None or fields is None:
                return None
            new, change = run_rows.changed(run, run.model_copy(update=fields))
            try:
                (change if also is None else change.joined(also(new))).commit(self._repository.store)
            except PreconditionFailed as failure:
                if failure.missing in change.require:
                    continue
                raise
            index.note(new)
            return new

    def remove(self, run_id: str, deed: Deed) -> bool:
        """Take a run out, as it stands; False where it is gone already."""
        index = self._index
        while True:
            run = self.find(run_id)
            if run is None:
                return False
            try:
                run_rows.removed(run, deed).commit(self._repository.store)
            except PreconditionFailed:
                continue
            index.forget(run_id)
            return True

    def withhold(self, run_id: str, deed: Deed) -> bool:
        """Take the texts of a run out for good; False where they were out already."""
        while True:
            run = self.get(run_id)
            remove, add = run_rows.withhold([run])
            if not remove:
                return False
            tx = Transaction()
            tx.take(remove)
            tx.add(add)
            redaction_records.record(tx, [run.iri], deed, place="run")
            try:
                tx.commit(self._repository.store)
            except PreconditionFailed:
                continue
            return True


def known(run_id: str) -> InvalidInput:
    """Return the error for a run's id that is in use, or was."""
    return InvalidInput(f"the registry has, or had, a run {run_id!r}; an id stands for one run: choose another")
