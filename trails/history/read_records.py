"""Put reads on record in a store's register: who read what, when, how often, and through what. None of the data is in it.

Reads are gathered in memory and written some at a time, by a thread of their own: equal ones become one entry, with the times
of the first and the last. What is not written yet when a process is killed is lost. Writing the register reads nothing that
is put on record, and a query of the register is one more read.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, NamedTuple

from trails.errors import TrailsError
from trails.history.records import registers
from trails.integrity import digests
from trails.rdf.register_records import RecordReading
from trails.store.contract import QuadStore

DELAY: Final = 2.0
"""Seconds for which reads are gathered."""
_MOST_AT_ONCE: Final = 500
"""Entries of one commit."""
WITHIN: Final = ContextVar("WITHIN", default=False)
"""Whether something is read for an export or an audit, which is on record as a whole."""
PART_OF_READ: Final = ContextVar("PART_OF_READ", default=False)
"""The same for a request to a server and for a command, which may make exports."""
THROUGH: Final = ContextVar("THROUGH", default="python")
"""Through what is read: python, command or mcp; a server says itself which of its parts."""


class _Read(NamedTuple):
    by_iri: str
    through: str
    action: str
    sessions: tuple[str, ...]
    query: str | None
    query_digest: str | None


class ReadRegister:
    """The reads of one open store that are to be put on record."""

    def __init__(self, store: QuadStore, *, is_on: bool) -> None:
        """Gather nothing unless it `is_on`."""
        self.is_on = is_on
        self._store = store
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._pending: dict[_Read, tuple[datetime, datetime, int]] = {}
        self._timer: threading.Timer | None = None

    def note(
        self,
        by_iri: str,
        action: str,
        sessions: Iterable[str] = (),
        *,
        through: str | None = None,
        query: str | None = None,
        text: str | None = None,
    ) -> None:
        """Take note of a read; `query` is the name of a query, or `text` what was asked, of which a digest is kept."""
        if not self.is_on or WITHIN.get() or PART_OF_READ.get():
            return
        digest = None if text is None else hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        read = _Read(by_iri, through or THROUGH.get(), action, tuple(sorted(set(sessions))), query, digest)
        now = datetime.now(UTC)
        with self._lock:
            first, _, count = self._pending.get(read, (now, now, 0))
            self._pending[read] = first, now, count + 1
            if self._timer is None:
                self._timer = threading.Timer(DELAY, self._write_patiently)
                self._timer.daemon = True
                self._timer.start()

    def _write_patiently(self) -> None:
        with suppress(TrailsError):  # what could not be written is tried again, at the latest when the store closes
            self.write()

    def write(self) -> None:
        """Write all that was gathered; raise what a commit raises, and keep what could not be written."""
        with self._lock:
            timer, self._timer = self._timer, None
            if timer is not None:
                timer.cancel()
        with self._writing:
            while self._pending:
                with self._lock:
                    some = dict(list(self._pending.items())[:_MOST_AT_ONCE])
                    for read in some:
                        del self._pending[read]
                try:
                    registers.keep_entries(self._store, None, [_entry(*each) for each in some.items()])
                except BaseException:
                    self._put_back(some)
                    raise

    def _put_back(self, some: dict[_Read, tuple[datetime, datetime, int]]) -> None:
        with self._lock:
            for read, (first, last, count) in some.items():
                _, newest, more = self._pending.get(read, (first, last, 0))
                self._pending[read] = first, newest, count + more


def _entry(read: _Read, times: tuple[datetime, datetime, int]) -> RecordReading:
    first, last, count = times
    return RecordReading(
        token=registers.new_token(),
        by_iri=read.by_iri,
        time=last,
        leaf_salt=digests.new_salt(),
        started=first,
        through=read.through,
        action=read.action,
        used=read.sessions,
        query=read.query,
        query_digest=read.query_digest,
        count=count,
    )
