"""Delete sessions, maintain the files of a store, and check a stored session against what a caller asks for.

A session that others depend on is kept, deleted with them, or detached from them first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from trails.display.progress import Progress, moving
from trails.errors import HasChildren, InvalidInput, SessionNotFound
from trails.files import as_path
from trails.history import backup_records, hold_guard, migrations, transaction
from trails.history.lookup import names, vectors
from trails.history.pending_session import Worktree
from trails.history.records import registers
from trails.history.removal import deletion, detach
from trails.history.workspace import Facet, Workspace
from trails.integrity import digests
from trails.model import validation
from trails.model.values import SessionRecord
from trails.rdf.activity_records import Deed
from trails.rdf.register_records import Backup
from trails.rows.vector_index import VectorIndex
from trails.store import dumping
from trails.store.contract import QuadStore, read_only
from trails.store.embedded import EmbeddedStore, is_read_only
from trails.store.index.reading import EngineReader
from trails.store.log.log_maintenance import Vacuumed
from trails.store.remote.store import RemoteStore

ChildPolicy = Literal["refuse", "cascade", "detach"]


def delete_session(
    workspace: Workspace,
    session: names.Name,
    *,
    children: ChildPolicy = "refuse",
    by: str | None = None,
    reason: str | None = None,
    rule: str | None = None,
) -> list[str]:
    """Delete a session, leaving a tombstone; return the ids of all sessions that were deleted.

    While sessions depend on it (forks or spawned ones), `children` says what happens: "refuse" raises
    `HasChildren`, "cascade" deletes them too, "detach" first copies to its forks what they inherit. A session that
    a tag names is kept, unless "cascade" takes the tag too; notes go with the last copy of their turn. The rows go in
    one commit, the turns are swept afterwards. `by` names who deletes, a principal or `agent:NAME`; else it is the
    process's own actor (see `trails.open`), and `agent:unknown` where there is none. That stays, with the `reason`,
    and the `rule` where a program deletes by one. Deleted text stays in the store's files until `vacuum`, and in
    backups.
    """
    if children not in ("refuse", "cascade", "detach"):
        raise InvalidInput(f'children is "refuse", "cascade" or "detach", not {children!r}')
    if isinstance(workspace.store, RemoteStore):
        wanted = session if isinstance(session, str) else names.resolve_name(workspace, session, exact=True)
        who = workspace.who(by)
        done = workspace.store.act("delete", session=wanted, children=children, by=who, reason=reason, rule=rule)
        return [str(each) for each in done]
    record = workspace.reader.record(names.resolve_name(workspace, session, exact=True))
    deed = workspace.deed(by, reason, None if rule is None else validation.text(rule, "rule"))
    with workspace.erasing():
        return _delete(workspace, record, children, by, deed)


def _delete(
    workspace: Workspace, record: SessionRecord, children: ChildPolicy, by: str | None, deed: Deed
) -> list[str]:
    store, reader = workspace.store, workspace.reader
    while True:
        if children == "detach":
            deletion.refuse_tagged(store, record.id)
            hold_guard.refuse_held(store, record.id)
            for branch in reader.branches(record.id):
                with suppress(SessionNotFound):  # deleted meanwhile
                    detach.detach_session(store, reader, branch.id, workspace.deed(by))
        try:
            deleted = deletion.delete_session(store, reader, record.id, deed=deed, cascade=children == "cascade")
            break
        except HasChildren:
            if children != "detach" or not reader.branches(record.id):
                raise  # else another fork was made meanwhile
    deletion.sweep_pending(store)
    return deleted


class Maintenance(Facet, public=True, reached="store.maintenance"):
    """The upkeep of a store: `store.maintenance`."""

    def vacuum(self) -> Vacuumed:
        """Rebuild the store's files so that nothing deleted or redacted is in any of them; return their sizes.

        Takes as much free space again as the store has; other threads read on meanwhile. Backups, dumps and exports
        that were made before still hold the text. Model calls whose tokens an earlier version counted otherwise are counted
        anew. In memory there is nothing to do. The rows of sessions and turns are made anew, too. Of a store in PostgreSQL, the
        indexes of other
        processes that have not caught up are named in `behind`: they lose the text with their next `sync`.
        """
        store = embedded_store(self._workspace.store, "vacuum")
        self._workspace.rows.rebuild()  # first: whatever was done to them, commits fill them
        deletion.sweep_pending(store)
        transaction.sweep_names(store)
        migrations.recount_usage(store, self._workspace.reader.ids())
        self._workspace.rows.erase()
        return store.vacuum()

    def make_vectors(
        self, model: str | os.PathLike[str] | None = None, *, progress: Progress | bool | None = None
    ) -> VectorIndex:
        """Make the vectors of all turns that lack them, for searches by meaning, and return what there is now.

        `model` is the folder of an embedding model; without it, it is the model that made those that are there, at first that of
        the extra `semantic`. Vectors of another model are removed first. A search with `semantic` does this too. `progress` is
        as for `dump`. Raises `InvalidInput` for a folder without a model, and where this process may not write to the store.
        """
        with moving(progress, "embedding turns") as move:
            return vectors.make(self._workspace, model, move)

    def drop_vectors(self) -> bool:
        """Remove all vectors and make none from now on; return whether there were any.

        Nothing of them is left in the store's files. Raises `InvalidInput` where this process may not write to the store.
        """
        return self._workspace.rows.drop_vectors()

    def backup(self, destination: str | os.PathLike[str]) -> None:
        """Write a whole copy of the store as it is now into a new folder, while other threads go on.

        A backup is a store: `trails.session.store_restore.restore_store` copies it back, and it can be opened where it stands.
        The store's register of backups then has it, with its digest and how far its log goes (`store.registers.backups`).
        Raises `InvalidInput` where something stands at `destination`, or for a store in memory.
        """
        place = as_path(destination, "the place of a backup").absolute()
        embedded_store(self._workspace.store, "back up").backup(place)
        sha256, size, log_size, log_head = backup_records.describe_backup(place)
        deed = self._workspace.deed(None)
        made = Backup(
            token=registers.new_token(),
            by_iri=deed.by_iri,
            time=deed.time,
            leaf_salt=digests.new_salt(),
            place=str(place),
            sha256=sha256,
            size=size,
            log_size=log_size,
            log_head=log_head,
        )
        registers.keep_entries(self._workspace.store, self._workspace.reader, [made])

    def dump(
        self, file: str | os.PathLike[str], *, replace: bool = False, progress: Progress | bool | None = None
    ) -> int:
        """Write everything to a gzip file of sorted N-Quads and return how many; equal stores give equal files.

        `trails.session.store_restore.load_dump` makes a store of it. The log is not in it: see `backup`. Raises `InvalidInput`
        where the file is there and `replace` is False, or cannot be there, and `TrailsError` where the disk is full.
        `progress` is called with how much is done, how much there is, and what is worked on; True draws a bar, in a notebook
        or on a terminal's stderr.
        """
        place = as_path(file, "the file of a dump")
        if not isinstance(self._workspace.store, EngineReader):
            raise InvalidInput(
                f"{self._workspace.store.location} is no store of this process: dump it where it is kept"
            )
        with moving(progress, "dumping") as move:
            return dumping.dump(self._workspace.store, place, move, replace=replace)


def embedded_store(store: QuadStore, what: str) -> EmbeddedStore:
    """Return a store that is kept by this process; raise `InvalidInput` for another, which cannot be `what` here."""
    if is_read_only(store):
        raise read_only(store.location)
    if not isinstance(store, EmbeddedStore):
        raise InvalidInput(f"{store.location} is no store of this process: {what} it where it is kept")
    return store


def check_existing(tree: Worktree, said: Mapping[str, str | None], meta: Mapping[str, Any] | None) -> None:
    """Raise `InvalidInput` where a stored session says something else; what is None, or not given, is not compared.

    Of `meta`, each key that is given is compared, and others may stand there too.
    """
    for name, wanted in said.items():
        if wanted is not None:
            _compare(tree.id, name, tree.system if name == "system" else getattr(tree.record, name), wanted)
    stored = tree.record.meta
    for key, value in (meta or {}).items():
        _compare(tree.id, f"meta[{key!r}]", stored.get(key), value)


_REMEDIES = {
    "system": "give no system prompt, or change it with set_system()",
    "label": "give no label, or change it with set_label()",
}


def _compare(session_id: str, name: str, stored: object, wanted: object) -> None:
    if stored != wanted:
        remedy = _REMEDIES.get(name, f"give no {name}, or take another id")
        raise InvalidInput(
            f"session {session_id!r} is stored with {name}={_shown(stored)}, not {_shown(wanted)}: nothing is changed by "
            f"asking for it; {remedy}"
        )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}..."
