"""Upkeep: the files of a store rebuilt, copied while it is used, and dumped."""

from __future__ import annotations

import os

from trails.errors import InvalidInput
from trails.files import as_path
from trails.handles import Handle
from trails.plumbing import deletion, pack_upkeep, recounting, sweep
from trails.plumbing.workspace import Workspace
from trails.progress import Progress, moving
from trails.store import dumping
from trails.store.contract import QuadStore, read_only
from trails.store.embedded import EmbeddedStore
from trails.store.maintenance import Vacuumed
from trails.store.reading import EngineReader
from trails.store.view import is_read_only


class Maintenance(Handle, public=True):
    """The upkeep of a store: `store.maintenance`."""

    def __init__(self, workspace: Workspace, owner: object) -> None:
        """Not for callers: `store.maintenance` is there."""
        self._store = workspace.store
        self._workspace = workspace
        self._owner = owner  # a store that nobody holds is closed

    def vacuum(self) -> Vacuumed:
        """Rebuild the store's files so that nothing deleted or redacted is in any of them; return their sizes.

        Takes as much free space again as the store has; other threads read on meanwhile. Backups, dumps and exports
        that were made before still hold the text. Model calls whose tokens an earlier version counted otherwise are counted
        anew. In memory there is nothing to do. What is derived beside the store (the
        index of figures and texts, packed transcripts) is made anew, too. Of a store in PostgreSQL, the indexes of other
        processes that have not caught up are named in `behind`: they lose the text with their next `sync`.
        """
        deletion.sweep_pending(self._store)
        sweep.sweep_names(self._store)
        recounting.count_anew(self._store, self._workspace.reader.ids())
        done = embedded(self._store, "vacuum").vacuum()
        self._workspace.index.rebuild()
        pack_upkeep.rebuild(self._workspace.packs, self._workspace.reader)
        return done

    def backup(self, destination: str | os.PathLike[str]) -> None:
        """Write a whole copy of the store as it is now into a new folder, while other threads go on.

        A backup is a store: `trails.session.restore.restore` copies it back, and it can be opened where it stands.
        Raises `InvalidInput` where something stands at `destination`, or for a store in memory.
        """
        embedded(self._store, "back up").backup(as_path(destination, "the place of a backup"))

    def dump(
        self, file: str | os.PathLike[str], *, replace: bool = False, progress: Progress | bool | None = None
    ) -> int:
        """Write everything to a gzip file of sorted N-Quads and return how many; equal stores give equal files.

        `trails.session.restore.load` makes a store of it. The log is not in it: see `backup`. Raises `InvalidInput`
        where the file is there and `replace` is False, or cannot be there, and `TrailsError` where the disk is full.
        `progress` is called with how much is done, how much there is, and what is worked on; True draws a bar, in a notebook
        or on a terminal's stderr.
        """
        place = as_path(file, "the file of a dump")
        if not isinstance(self._store, EngineReader):
            raise InvalidInput(f"{self._store.location} is no store of this process: dump it where it is kept")
        with moving(progress, "dumping") as move:
            return dumping.dump(self._store, place, move, replace=replace)


def embedded(store: QuadStore, what: str) -> EmbeddedStore:
    """Return a store that is kept by this process; raise `InvalidInput` for another, which cannot be `what` here."""
    if is_read_only(store):
        raise read_only(store.location)
    if not isinstance(store, EmbeddedStore):
        raise InvalidInput(f"{store.location} is no store of this process: {what} it where it is kept")
    return store
