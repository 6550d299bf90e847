"""The registry of sub-agents' runs over a store: entered, read, changed by compare-and-set, taken out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from pyoxigraph import Literal, NamedNode

from trails import iris, validate, vocab
from trails.errors import InvalidInput
from trails.session import Repository, runbook
from trails.session.runentry import Run
from trails.store.contract import Change, PreconditionFailed

Step = Callable[[Run], dict[str, Any] | None]
"""What a run's change is: the fields that become others, or None for no change."""


class Registry:
    """The runs of a store."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._store = repository.store

    def find(self, run_id: str) -> Run | None:
        """Return a run by its id, or None."""
        return runbook.read_one(self._store, validate.text(run_id, "the run's id"))

    def get(self, run_id: str) -> Run:
        """Return a run by its id, or raise `InvalidInput`."""
        run = self.find(run_id)
        if run is None:
            gone = runbook.was_removed(self._store, run_id)
            what = "was cleaned up or archived" if gone else "is not in the registry"
            raise InvalidInput(f"the run {run_id!r} {what}; see `trails runs`")
        return run

    def all(self) -> list[Run]:
        """Return all runs, in the order in which they were registered."""
        return runbook.read(self._store)

    def of_session(self, session_id: str) -> list[Run]:
        """Return the runs in a session, and those that it asked for."""
        return runbook.of_session(self._store, session_id)

    def in_session(self, session_id: str) -> list[Run]:
        """Return the runs in a session."""
        return runbook.read(self._store, vocab.GENERATED, NamedNode(iris.session(session_id)))

    def due(self, now: datetime) -> list[Run]:
        """Return the runs whose time in the registry is over; only those are read."""
        found = []
        for quad in self._store.quads((None, vocab.ARCHIVE_AT, None, vocab.CATALOG)):
            if isinstance(quad.object, Literal) and datetime.fromisoformat(quad.object.value) <= now:
                run = self.find(iris.run_id(str(getattr(quad.subject, "value", ""))) or "")
                if run is not None:
                    found.append(run)
        return sorted(found, key=lambda run: (run.archive_at or now, run.run_id))

    def unfinished(self) -> list[Run]:
        """Return the runs that are not announced yet, in the order in which they were registered."""
        return [run for run in self.all() if run.cleanup_completed is None]

    def was_removed(self, run_id: str) -> bool:
        """Tell whether a run was in the registry and was taken out."""
        return runbook.was_removed(self._store, run_id)

    def register(self, run: Run) -> None:
        """Enter a run, or raise `InvalidInput` where its id is known."""
        try:
            self._repository.commit(runbook.registered(run))
        except PreconditionFailed as failure:
            raise known(run.run_id) from failure

    def change(self, run_id: str, step: Step, also: Callable[[Run], Change] | None = None) -> Run | None:
        """Change a run in one commit (with what `also` gives for the run as it becomes); return it as it became.

        The step is taken on the run as it stands; where another writer was quicker, again on what that left. None where
        the run is gone or the step changes nothing.
        """
        while True:
            run = self.find(run_id)
            fields = None if run is None else step(run)
            if run is None or fields is None:
                return None
            new, change = runbook.changed(run, run.model_copy(update=fields))
            try:
                self._repository.commit(change if also is None else change.joined(also(new)))
            except PreconditionFailed as failure:
                if failure.missing in change.require:
                    continue
                raise
            return new

    def remove(self, run_id: str, at: datetime) -> bool:
        """Take a run out, as it stands; False where it is gone already."""
        while True:
            run = self.find(run_id)
            if run is None:
                return False
            try:
                self._repository.commit(runbook.removed(run, at))
            except PreconditionFailed:
                continue
            return True

    def withhold(self, run_id: str) -> bool:
        """Take the texts of a run out for good; False where they were out already."""
        while True:
            remove, add = runbook.withhold([self.get(run_id)])
            if not remove:
                return False
            try:
                self._repository.commit(Change(add=add, remove=remove, require=remove))
            except PreconditionFailed:
                continue
            return True


def known(run_id: str) -> InvalidInput:
    """Return the error for a run's id that is in use, or was."""
    return InvalidInput(f"the registry has, or had, a run {run_id!r}; an id stands for one run: choose another")
