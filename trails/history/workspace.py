"""Share an open store among sessions: its quads, its reader, and the handles that may hold something unwritten.

A handle serves one thread at a time. A second thread gets an error, or waits if the first is soon done.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyoxigraph import NamedNode

from trails.errors import InvalidInput, StoreFailed, TrailsError
from trails.handles import Handle
from trails.history import backup_records, encryption, read_records, turn_builder
from trails.history.reader import Reader
from trails.history.removal import deletion
from trails.integrity.key_ring import Keys
from trails.model import iris, validation
from trails.model.values import SessionRecord
from trails.rdf import activity_records
from trails.rdf.activity_records import Deed
from trails.rows.store_rows import StoreRows
from trails.store.contract import QuadStore, read_only
from trails.store.embedded import EmbeddedStore, is_read_only
from trails.store.index.historical_store import PastStore
from trails.store.postgres.thin import ThinStore
from trails.store.remote.store import RemoteStore
from trails.suggestions import calling_line

if TYPE_CHECKING:
    from trails.history.watch import Feed


class OneThread:
    """A `with` block that one thread is in at a time: a second one is an error, unless the first went in by `patiently`.

    A handle's turns and what is pending of them must fit; two threads that append to one handle would mix them up.
    """

    __slots__ = ("_lock", "_patient", "_session_id")

    def __init__(self, session_id: str) -> None:
        self._lock = threading.RLock()
        self._patient: set[int] = set()
        self._session_id = session_id

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=bool(self._patient)):
            raise TrailsError(
                f"this handle on session {self._session_id!r} is being used by another thread right now; nothing was done. "
                "Give each thread its own handle (store.load), or let one thread at a time use this one"
            )

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Wait for another thread that is in, and let others wait meanwhile: for what is short and not to be refused."""
        mine = threading.get_ident()
        self._patient.add(mine)
        try:
            with self._lock:
                yield
        finally:
            self._patient.discard(mine)


_NOTHING: Final[AbstractContextManager[None]] = nullcontext()
_OPEN: Final[weakref.WeakSet[Workspace]] = weakref.WeakSet()


@atexit.register
def _close_at_exit() -> None:
    """Close what the program left open: all that is persisted is flushed, and what is pending warns."""
    with ExitStack() as each:  # all of them, also where one fails
        for workspace in list(_OPEN):
            each.callback(workspace.close)


class Workspace(Handle):
    """What all handles on the sessions of one open store have in common: the store is open as long as one of them is there."""

    def __init__(
        self,
        store: QuadStore,
        actor: str | None = None,
        *,
        record_reads: bool = False,
        scan: str | None = None,
        keys: Keys | None = None,
    ) -> None:
        """Nothing is read yet; `actor` is the IRI of who the process says it is, `keys` are those of its sessions."""
        self.encryption = encryption.use_keys(store, keys)
        """The keys that new sessions are encrypted with, and encrypted ones read; None without keys."""
        self.scan = turn_builder.check_screening(scan)
        """What becomes of a turn in which a secret is found, where `append` does not say."""
        self.record_reads = record_reads
        """Whether what is read out of the store is kept on record."""
        self.reads = read_records.ReadRegister(store, is_on=record_reads)
        """The register of what is read, but for exports and audits, which are on record by themselves."""
        self.store = store
        self.actor = actor
        self.rows = StoreRows(store)
        """Sessions, turns, calls and texts in SQL."""
        self.reader = Reader(store, None if isinstance(store, ThinStore) else self.rows, decrypts=True)
        if isinstance(store, EmbeddedStore):
            store.follow(self._take_out)
        self._merging = threading.RLock()
        self._rewriting = threading.RLock()
        self._rewriters = 0
        """How many are within `rewriting`, each within the other: all of one thread."""
        self.closed = False
        self.holders: weakref.WeakSet[Any] = weakref.WeakSet()
        """What may hold turns that are not written when the store closes: their `warn_if_pending` warns of them."""
        self.feed: Feed | None = None
        """What tells subscribers what is committed, where there are any."""
        self._pid = os.getpid()
        self._opened_at = calling_line()
        _OPEN.add(self)

    def _take_out(self) -> None:
        with suppress(TrailsError):  # whoever opens the store next does it
            self.rows.erase()

    def refresh(self, wanted: bool = True) -> bool:
        """See everything that was acknowledged before this call, if that is wanted; return whether there is something new."""
        has_news = wanted and isinstance(self.store, EmbeddedStore | RemoteStore | ThinStore) and self.store.sync()
        if wanted:
            self.rows.refresh()
        return has_news

    def catch_up(self) -> None:
        """See everything that was acknowledged before this call, for what goes on from there: as others show it by themselves.

        It costs a trip to the server for a store in PostgreSQL, and nothing for others and for a store that is only read. It
        waits for a server that is away, as a commit does.
        """
        if isinstance(self.store, ThinStore):
            self.store.expire()
        if isinstance(self.store, EmbeddedStore) and self.store.commits.is_remote and not self.read_only:
            self.store.sync(is_patient=True)
            self.rows.refresh()

    def start_anew(self) -> None:
        """Forget what was read, of a store as it was: something was removed from it."""
        self.rows.start_anew()

    def recalling(self) -> AbstractContextManager[None]:
        """Return what is held around reads that may be as old as the handle that they are for, if the store is far away."""
        return self.store.recalling() if isinstance(self.store, RemoteStore) else _NOTHING

    def ahead(self, operation: str, *args: Any, **options: Any) -> AbstractContextManager[None]:
        """Return what is held around an operation that reads much: a store that is far away is asked for all of it at once."""
        return self.store.ahead(operation, *args, **options) if isinstance(self.store, RemoteStore) else _NOTHING

    @contextmanager
    def erasing(self) -> Iterator[None]:
        """Take out of all that is derived from the store, before this ends, what is taken out of the store meanwhile."""
        store = self.store
        if isinstance(store, RemoteStore):
            raise InvalidInput(f"text is taken out of {store.location} by its server: open the store there for this")
        with (
            self.rewriting(),
            store.erasing() if isinstance(store, EmbeddedStore) else nullcontext(),
            self.rows.erasing(),
        ):
            yield
        if not self.read_only:
            self.note_held()

    def note_held(self) -> None:
        """Put on record which backups hold what was erased since they were made."""
        if isinstance(self.store, EmbeddedStore):
            backup_records.note_held(self.store, Deed(self.keeper(), datetime.now(UTC)))

    @contextmanager
    def rewriting(self) -> Iterator[None]:
        """Rewrite what is stored: whoever does begins with all that the one before wrote, of whatever thread and process.

        Who takes texts out or copies turns reads much, and writes what follows from that: a commit cannot hold it all to be as
        it was read, since others append meanwhile.
        """
        store = self.store
        if isinstance(store, ThinStore):
            raise store.needs_whole("a rewriting (delete, redact, detach, flatten)")
        with self._rewriting:
            is_outer = not self._rewriters
            with store.alone("rewriting") if is_outer and isinstance(store, EmbeddedStore) else nullcontext():
                self._rewriters += 1
                try:
                    yield
                finally:
                    self._rewriters -= 1

    def sweep(self) -> None:
        """End the deletions that a process left half done, and take out what they were to take out.

        Whoever may append to a log and not rewrite it leaves that to those who may.
        """
        with suppress(StoreFailed), self.erasing():
            deletion.sweep_pending(self.store)

    @contextmanager
    def merging(self, name: str) -> Iterator[None]:
        """Let one session of a file come in, by its name: two that came in beside each other would each make its forks.

        In this process one comes in at a time; one of the same name in another process comes in before or after it.
        """
        store = self.store
        if isinstance(store, ThinStore):
            raise store.needs_whole("an import")
        with self._merging, store.alone(f"import {name}") if isinstance(store, EmbeddedStore) else nullcontext():
            yield

    def who(self, by: str | None) -> str:
        """Return the IRI of who does something: whoever is named, else the process's own actor, else one that is unknown."""
        return activity_records.actor_of(by, self.actor)

    def note_read(self, action: str, *session_ids: str, query: str | None = None, text: str | None = None) -> None:
        """Take note of a read by the process's own actor, where the store keeps a record of reads."""
        if self.reads.is_on:
            self.reads.note(self.who(None), action, session_ids, query=query, text=text)

    def keeper(self) -> str:
        """Return the IRI of who does what falls due by a rule: the process's own actor, else the program."""
        return self.actor or activity_records.STORE_KEEPER

    def deed(self, by: str | None, reason: str | None = None, rule: str | None = None) -> Deed:
        """Return that somebody does something now."""
        why = None if reason is None else validation.text(reason, "reason")
        return Deed(self.who(by), datetime.now(UTC), why, rule)

    # --- its end

    def close(self) -> None:
        """Close the store, and warn of what was appended and not persisted; doing it twice is allowed."""
        if self.closed:
            return
        self.closed = True
        try:
            for holder in list(self.holders):
                holder.warn_if_pending()
            if self.feed is not None:
                self.feed.close()
            self.reads.write()
        finally:
            self.rows.close()
            self.store.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Close a store that nobody can use any more; what was appended to its sessions has warned by itself."""
        if getattr(self, "closed", True) or is_finalizing():
            return  # the modules that closing needs may be gone, and all that was acknowledged is on disk
        if isinstance(self.store, PastStore) or self.store.location == ":memory:" or self.is_forked:
            return
        what = f"the store {self.store.location} was not closed; use `with trails.open(...)`"
        try:
            warnings.warn_explicit(what, ResourceWarning, *self._opened_at)
        finally:
            self.close()

    @property
    def is_forked(self) -> bool:
        """Whether this is a copy in a forked child: the parent has the store, and what is pending there."""
        return os.getpid() != self._pid

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written: the store was opened to be read, or is shown as it was."""
        return isinstance(self.store, PastStore) or is_read_only(self.store)

    def check_writable(self) -> None:
        """Raise `StoreReadOnly` where nothing can be written: what is begun now could never be stored."""
        if self.read_only:
            raise read_only(self.store.location, "open it without, in one process at a time")

    def check_open(self, session_id: str) -> None:
        """Raise `StoreFailed` where the store is closed, `StoreReadOnly` where nothing more of a session can be stored."""
        if self.closed:
            raise StoreFailed(
                f"session {session_id!r} takes nothing more: its store {self.store.location} is closed; open that again "
                "and load the session"
            )
        self.check_writable()

    def session_id(self, session: object) -> str:
        """Return the id that a session's id or IRI says, whether or not such a session is stored."""
        if isinstance(session, NamedNode):
            session = session.value
        if isinstance(session, str) and session.startswith("urn:trails:"):
            if not iris.is_session(session):
                raise InvalidInput(f"{session!r} is not the IRI of a session")
            return iris.session_id(session)
        return validation.session_id(session)

    def record(self, session: str) -> SessionRecord:
        """Return the record of a session, an id or an IRI, without its turns; raise `SessionNotFound` where there is none."""
        return self.reader.record(self.session_id(session))


class Facet(Handle):
    """A part of what an open store offers, such as `store.tags`: the store is open as long as it is there."""

    def __init__(self, workspace: Workspace) -> None:
        """Not for callers: the store has it."""
        self._workspace = workspace
