"""Pages of transcripts as JSON, kept while nothing of what they show has changed: what is asked for most."""

from __future__ import annotations

import gzip
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from trails.errors import InvalidInput
from trails.history.lookup import names
from trails.integrity import digests, leaves
from trails.model import iris, lineage
from trails.model.values import SessionRecord, Turn
from trails.serve.answers import entity_tag, render
from trails.session.repository import Repository
from trails.store.embedded import EmbeddedStore
from trails.store.leaflog import Leaves

MOST: Final = 1000
"""Turns of one page."""
LAST: Final = 50
"""Turns of a page that says nothing of its bounds."""
_BYTES: Final = 64 << 20
_OF_ROW: Final = frozenset({"create", "fork", "turns"})
"""What changes a session's transcript alone."""
_BESIDE: Final = frozenset(
    {"sync", "close", "ref", "task", "document", "discard", "run", "remove", "register"}
) | frozenset(leaves.LEDGER_KINDS)
"""What changes no transcript."""


class Bounds(NamedTuple):
    """Which turns are asked for."""

    last: int | None = None
    first: int | None = None
    end: int | None = None

    def within(self, length: int) -> tuple[int, int]:
        """Return the first index and the end, exclusive, of a transcript of a length; a page is never longer than `MOST`.

        Raises `InvalidInput` for bounds that contradict each other.

        >>> Bounds().within(120), Bounds(last=5).within(120), Bounds(first=10).within(120), Bounds(first=9).within(5000)
        ((70, 120), (115, 120), (10, 120), (9, 1009))
        """
        if self.last is not None and (self.first, self.end) != (None, None):
            raise InvalidInput("`last` stands alone; give either it, or `from` and `to`")
        if (self.first, self.end) == (None, None):
            return max(0, length - (LAST if self.last is None else self.last)), length
        first, end = min(self.first or 0, length), length if self.end is None else min(self.end, length)
        if self.end is not None and self.end < (self.first or 0):
            raise InvalidInput(f"`to` is exclusive and not before `from`: {self.end} is before {self.first}")
        return first, min(max(first, end), first + MOST)


@dataclass(frozen=True)
class Page:
    """A page of a transcript."""

    body: bytes
    tag: str
    lines: int = 0
    """How far the log reached before it was read."""

    @cached_property
    def zipped(self) -> bytes:
        """The body, compressed; made once for all who ask."""
        return gzip.compress(self.body, compresslevel=4, mtime=0)


def read_page(store: Repository, session_id: str, bounds: Bounds) -> Page:
    """Return a page of a session's transcript as JSON."""
    chain = names.find_lineage(store.workspace, session_id)
    reader = store.reader
    length = reader.length(chain)
    first, end = bounds.within(length)
    turns = reader.part_of_transcript(chain, length).stored.between(first, end, block=0) if first < end else []
    head = turns[-1].digest if turns and end == length else head_at(store, chain, length)
    wanted_end = length if bounds.end is None else min(bounds.end, length)
    body = render(
        {
            "session": session_id,
            "head": head,
            "length": length,
            "from": first,
            "next": end if end < wanted_end else None,
            "turns": [turn.to_dict() for turn in turns],
        }
    )
    changed = any(map(_is_changed, turns))
    return Page(body, entity_tag(head, body if changed else None))


def head_at(store: Repository, chain: Sequence[SessionRecord], length: int) -> str:
    """Return the digest of the last of so many turns."""
    found = store.reader.digest_in(lineage.segments(chain, length), length - 1) if length else None
    return found or digests.GENESIS


def _is_changed(turn: Turn) -> bool:
    """Tell whether something was taken out of a turn, so that its digest says less than what is shown."""
    facts = turn.facts
    return turn.redacted or bool(
        facts.withheld or facts.meta_withheld or facts.content_digest or any(c.withheld for c in facts.tool_calls)
    )


class KeptPages:
    """Pages of transcripts, the least used of which go where they take more than a number of bytes."""

    def __init__(self, store: Repository, most_bytes: int = _BYTES) -> None:
        self._store = store
        self._most = most_bytes
        self._pages: OrderedDict[tuple[str, Bounds], Page] = OrderedDict()
        self._bytes = 0
        self._changed: dict[str, int] = {}
        """Up to which line of the log it is known of a session that it changed."""
        self._all_changed = 0
        self._seen: Leaves = store.store.log.reached
        self._lock = threading.Lock()

    def page(self, name: str, bounds: Bounds) -> Page:
        """Return a page of the session with a name, as it is now."""
        quads = self._store.store
        if isinstance(quads, EmbeddedStore):
            quads.poll()
        lines = self._look()
        found = self._kept(name, bounds)
        if found is None:
            session_id = self._store.resolve(name)
            found = None if session_id == name else self._kept(session_id, bounds)
            if found is None:
                page = read_page(self._store, session_id, bounds)
                found = Page(page.body, page.tag, lines)
                self._keep((session_id, bounds), found)
        return found

    def _kept(self, session_id: str, bounds: Bounds) -> Page | None:
        """Return a page that is kept, if nothing of it has changed."""
        with self._lock:
            kept = self._pages.get((session_id, bounds))
            if kept is None or kept.lines < max(self._changed.get(session_id, 0), self._all_changed):
                return None
            self._pages.move_to_end((session_id, bounds))
            return kept

    def _look(self) -> int:
        """Note which sessions have changed, and return how many lines the log has."""
        log = self._store.store.log
        if log.reached != self._seen:
            with self._lock:
                told, reached = log.since(self._seen)
                self._note(told, self._seen.lines)
                self._seen = reached
        return self._seen.lines

    def _note(self, told: list[str], before: int) -> None:
        for number, line in enumerate(told, before + 1):
            kind, subject, _ = line.split(" ", 2)
            if kind in _OF_ROW or (kind == "change" and not iris.is_redaction(subject)):
                self._changed[iris.session_id(subject)] = number
            elif kind not in _BESIDE:
                self._all_changed = number
                self._changed.clear()

    def _keep(self, key: tuple[str, Bounds], page: Page) -> None:
        with self._lock:
            old = self._pages.pop(key, None)
            self._bytes -= len(old.body) if old else 0
            self._pages[key] = page
            self._bytes += len(page.body)
            while self._bytes > self._most:
                _, gone = self._pages.popitem(last=False)
                self._bytes -= len(gone.body)
