"""Read sessions, heads, lengths and changes from the log.

The log says how many turns a transcript has after each batch. A transcript is checked against that when it is read,
because turns that are missing at its end leave no gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from trails.errors import IndexGap, IntegrityError
from trails.integrity import leaves
from trails.integrity.leaves import SALTED, Leaf
from trails.model import iris
from trails.model.values import Happened

_ROW_KINDS: Final = frozenset({"create", "fork", "change", "detach", "delete"})
REPEATABLE_LEAVES: Final = "was logged again"
"""How a fault ends that a redaction of a name, which is logged too, explains."""
_FIRST: Final = frozenset({"create", "fork"})


def record_number(fault: str) -> int:
    """Return the number of the leaf that a fault tells of; -1 for none."""
    number = fault.removeprefix("leaf ").partition(":")[0].partition(" ")[0]
    return int(number) if number.isdecimal() else -1


@dataclass(slots=True)
class SessionLog:
    """What the log says of one session."""

    heads: list[tuple[int, str, int]] = field(default_factory=list)
    """(turns in the transcript, head digest, number of the leaf) after each batch, since it was last made."""
    former: list[tuple[int, str]] = field(default_factory=list)
    """(turns, head digest) after each batch before it was deleted, where it was."""
    made_with: str | None = None
    """The digest of what it was made with; after a deletion, of its tombstone."""
    renamed: str | None = None
    """The digest of its tombstone as it was logged once more: right where a redaction took a name out of it."""
    first: str | None = None
    """The digest of what it was made with at first: it may have been deleted and have come back."""
    row: str | None = None
    """The digest of all else that is said of it; None where that is nothing."""
    is_old: bool = False
    """Whether an older version logged its row last: with one digest, and no salt."""
    began: int = -1
    """The number of the leaf that first said that it was made."""
    deleted: bool = False
    is_fork: bool = False
    """Whether it is a fork: one that was detached is none."""
    redone_at: int | None = None
    redone: bool = False
    """Whether what it was made with was logged again before it had turns, as it is for a transcript that was missing."""
    faults: list[str] = field(default_factory=list)
    """What the log says of it that Trails never logs."""
    events: list[tuple[int, Happened]] = field(default_factory=list)
    """(number of the leaf, what happened) for each change, detach, deletion and return of it."""

    def take(self, kind: str, count: int, digest: str, number: int) -> None:
        """Take note of a leaf for the row."""
        salted = digest.startswith(SALTED)
        if kind in _FIRST:
            self._made(kind, digest, number, salted=salted)
        elif kind == "delete":
            self._deleted(digest, number)
        elif self.deleted and salted:
            self.faults.append(f"leaf {number} changes a session that was deleted")
        elif not self.deleted:
            if salted and self.is_old:
                self.faults.append(f"leaf {number} is salted, and what the session was made with is not")
            self.row = digest
            self.is_fork = self.is_fork and kind != "detach"
            if not count or kind == "detach" or not salted:
                self.events.append((number, "changed" if kind == "change" else "detached"))

    def _made(self, kind: str, digest: str, number: int, *, salted: bool) -> None:
        if self.deleted:
            if salted and self.first is not None and digest != self.first:
                self.faults.append(f"leaf {number}: it was deleted and came back as another one")
            self.former, self.heads = self.known(), []
            self.events.append((number, "returned"))
        elif self.made_with is not None and self.is_old and salted:
            self.events.append((number, "salted"))
        elif digest == self.made_with and salted:
            self.events.append((number, "returned"))  # its row was lost, and an export brought it back
        elif self.made_with is not None and kind == "create" and salted and not self.heads:
            self.redone, self.redone_at, self.first = True, number, None
            self.events.append((number, "made anew"))
        elif self.made_with is not None:
            self.faults.append(f"leaf {number}: what it was made with {REPEATABLE_LEAVES}")
        if self.began < 0:
            self.began = number
        self.made_with, self.row, self.deleted, self.is_old = digest, None if salted else digest, False, not salted
        self.is_fork = kind == "fork"
        if salted and self.first is None:
            self.first = digest

    def _deleted(self, digest: str, number: int) -> None:
        if self.deleted:
            if digest != self.made_with:
                self.faults.append(f"leaf {number}: its deletion {REPEATABLE_LEAVES}")
                self.renamed = digest
            return
        self.made_with, self.renamed, self.row, self.deleted = digest, None, None, True
        self.is_old = not digest.startswith(SALTED)
        self.events.append((number, "deleted"))

    def returning(self) -> SessionLog:
        """Return what the log would say of a session that was deleted if it came back now, without turns yet."""
        return SessionLog(former=self.known())

    def known(self) -> list[tuple[int, str]]:
        """Return the heads that it had: of a former life as far as it came back as that, and of its last one."""
        back = self._came_back_at(self.former)
        former = self.former if back is None else [each for each in self.former if each[0] <= back]
        return [*former, *((count, head) for count, head, _ in self.heads)]

    def _came_back_at(self, former: Sequence[tuple[int, str]]) -> int | None:
        """Return how many turns it had when it was as before it was deleted, or as earlier; None where no head says so.

        What was appended after that is its own.
        """
        longest = max((count for count, _ in former), default=0)
        return next((count for count, head, _ in self.heads if count >= longest or (count, head) in former), None)

    def came_back_with_others(self, digest_at: Mapping[int, str], start: int) -> bool:
        """Tell whether a session that was deleted came back with other turns than it had, or than the first of those.

        `digest_at` are the digests of its own turns by index, from `start` on; those that were appended since are as they are.
        """
        own = [(count, head) for count, head in self.former if count > start]
        if not own or not self.heads:
            return False
        back = self._came_back_at(own)
        return back is None or any(count <= back and digest_at.get(count - 1) != head for count, head in own)

    def would_come_back_with_others(self, digest_at: Mapping[int, str], start: int) -> bool:
        """Tell whether a session that was deleted would have other turns than it had, or than those up to one of its commits.

        `digest_at` are the digests of its own turns by index, from `start` on.
        """
        length = max(digest_at, default=start - 1) + 1
        own = [(count, head) for count, head in self.former if count > start]
        if any(count <= length and digest_at.get(count - 1) != head for count, head in own):
            return True
        is_shorter = any(count > length for count, _ in own)
        return is_shorter and (length, digest_at.get(length - 1)) not in own


def logs_by_session(lines: Sequence[str]) -> dict[str, SessionLog]:
    """Return what the log says of each session, by id; lines that are no leaves are left to `check_links`."""
    found: dict[str, SessionLog] = {}
    any_salted = False
    for number, line in enumerate(lines):
        # A log has a line for every commit: `leaves.parse_leaf` would take ten times as long.
        fields = line.split(" ")
        if len(fields) != 5 or not fields[2].isdecimal() or (fields[0] != "turns" and fields[0] not in _ROW_KINDS):
            continue
        kind, iri, count, digest, _ = fields
        log = found.get(iri)
        if log is None:
            log = found[iri] = SessionLog()
        if kind == "turns":
            log.heads.append((int(count), digest, number))
            continue
        log.take(kind, int(count), digest, number)
        if digest.startswith(SALTED):
            any_salted = True
        elif any_salted:
            log.faults.append(f"leaf {number} is without a salt, and leaves before it have theirs")
    return {iris.session_id(iri): log for iri, log in found.items() if iris.is_session(iri)}


def logged_redactions(lines: Sequence[str]) -> dict[Leaf, int]:
    """Return the leaves of redactions in the log, with their numbers; lines that are no leaves are left to `check_links`."""
    found = {}
    for number, line in enumerate(lines):
        if line.startswith("redact "):
            with suppress(IntegrityError):
                found[leaves.parse_leaf(line)[0]] = number
    return found


def first_record_of_this_version(lines: Sequence[str]) -> int:
    """Return the number of the first leaf that no older version wrote; the number of lines where there is none."""
    new = ("said ", "task ", "remove ", "detach ")
    for number, line in enumerate(lines):
        if line.startswith(new) or f" {SALTED}" in line:
            return number
    return len(lines)


LENGTH_PAUSES: Final = (0.0, 0.005, 0.05)
"""Seconds between looking again where the log has turns on record that are not read yet. The store is not held meanwhile:
whoever holds it may wait for the thread that looks."""


def shorten_lengths(session_id: str, length: int, recorded: int) -> IndexGap:
    """Return the error for a transcript that lacks turns at its end."""
    missing = f"turn {length} is" if recorded == length + 1 else f"turns {length} to {recorded - 1} are"
    return IndexGap(
        f"session {session_id!r} cannot be read: {missing} missing at its end, for the store's log has {recorded} turns on "
        f"record; restore {session_id!r} from an export or a backup (no shorter transcript is given)"
    )


_NO_CHANGE: Final = frozenset(leaves.LEDGER_KINDS) - {"transition", "cancel", "result"} | {
    "sync", "close", "said", "run", "task", "remove", "document", "discard", "ref", "register",
}  # fmt: skip
"""What changes neither a session's row nor its turns."""


def changed_sessions(lines: Iterable[str]) -> set[str] | None:
    """Return the ids of the sessions of which a row or turns changed; None if that may be all.

    That is so for a text that was taken out wherever it stood, and for a line that Trails never writes.

    >>> from trails.integrity.leaves import Leaf, START
    >>> changed_sessions([Leaf("turns", "urn:trails:session:a", 2, "ab" * 32).line(START)])
    {'a'}
    """
    found: set[str] = set()
    for line in lines:
        try:
            leaf, _ = leaves.parse_leaf(line)
        except IntegrityError:
            return None
        if leaf.kind in _NO_CHANGE:
            continue
        if not iris.is_session(leaf.session_iri):
            return None
        found.add(iris.session_id(leaf.session_iri))
    return found
