"""Say which backups hold text that was taken out of a store since, by its register of backups and its log.

A backup holds what the log tells of up to where it reached then. Where a later line says that some of that was deleted or
redacted, the backup holds it still: the register says so, until the backup is marked as destroyed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from trails.errors import InvalidInput
from trails.history import log_leaves
from trails.history.records import registers
from trails.integrity import digests
from trails.integrity.leaves import Leaf, link_leaf, parse_leaf
from trails.model import iris
from trails.rdf import vocab
from trails.rdf.activity_records import Deed
from trails.rdf.register_records import Backup, Closing, HeldErasure
from trails.store.contract import QuadStore
from trails.store.leaflog import LeafLog
from trails.store.log import sqlite
from trails.store.log.sqlite import SqliteHome

NOTICE: Final = "ERASED-SINCE.txt"
"""The file in a backup's folder that says what the store has erased since: without any of its content."""
_CHUNK: Final = 1 << 20
_TAKING_OUT: Final = frozenset({"delete", "discard", "redact"})
"""The kinds of leaves that tell of something that was taken out."""


def describe_backup(folder: Path) -> tuple[str, int, int, str]:
    """Return the SHA-256 and the size of a backup's file, how many lines its log has, and the link of the last."""
    made, size = hashlib.sha256(), 0
    with (folder / sqlite.NAME).open("rb") as file:
        while piece := file.read(_CHUNK):
            made.update(piece)
            size += len(piece)
    with contextlib.closing(SqliteHome(folder / sqlite.NAME, is_read_only=True)) as home:
        reached = LeafLog(home, home.head().number).reached
    return made.hexdigest(), size, reached.lines, reached.link


def open_backups(store: QuadStore) -> list[Backup]:
    """Return the backups of the register that nobody said were destroyed, oldest first."""
    if not store.quads((None, vocab.TYPE, vocab.BACKUP, vocab.CATALOG)):
        return []
    closed = {each.closes for each in registers.read_entries(store, Closing)}
    return [each for each in registers.read_entries(store, Backup) if each.token not in closed]


class _Erased(NamedTuple):
    """A deletion or redaction, and which lines of the log tell of it and of what it took out, counted from 0."""

    act: str
    first: int
    """The line that first tells of what was taken out."""
    line: int

    def is_held_by(self, size: int) -> bool:
        """Tell whether a copy of the store in which the log has so many lines holds it."""
        return self.first < size <= self.line


def erased_since(store: QuadStore, lines: Sequence[str], size: int) -> list[str]:
    """Return the deletions and redactions that took out something that the first `size` lines of a log tell of, by IRI.

    Of what is said of a session beside its turns the log does not tell when it came: it counts if the session was there.
    """
    return list(dict.fromkeys(each.act for each in _erased(store, lines, size) if each.is_held_by(size)))


def _erased(store: QuadStore, lines: Sequence[str], since: int) -> list[_Erased]:
    """Return what was taken out by lines from `since` on: the log is gone through once."""
    acts = {leaf: quads[0].subject for leaf, quads in log_leaves.redaction_leaves(store) if quads}
    first: dict[str, int] = {}
    lengths: dict[str, list[tuple[int, int]]] = {}
    found: list[_Erased] = []
    for number, line in enumerate(lines):
        kind, subject, count, _ = line.split(" ", 3)
        first.setdefault(subject, number)
        if kind == "turns":
            lengths.setdefault(subject, []).append((int(count), number))
        elif kind == "register" and first[subject] < number >= since:  # an entry is logged again when a text leaves it
            found.append(_Erased(subject, first[subject], number))
        elif kind in _TAKING_OUT and number >= since:
            for act, home, index in _taken_out(parse_leaf(line)[0], acts):
                grown = lengths.get(home, [])
                came = first.get(home) if index is None else next((at for end, at in grown if end > index), None)
                found += [_Erased(act, came, number)] if came is not None else []
    return found


def _taken_out(leaf: Leaf, acts: Mapping[Leaf, object]) -> Iterator[tuple[str, str, int | None]]:
    """Yield the act that a line of the log tells of, of what, and at which index where that is a turn."""
    if leaf.kind == "delete":
        yield iris.deletion(leaf.session_iri), leaf.session_iri, None
    elif leaf.kind == "discard":
        yield leaf.session_iri, iris.removed_document(leaf.session_iri) or "", None
    elif leaf in acts:
        act = str(getattr(acts[leaf], "value", ""))
        if iris.is_session(leaf.session_iri):
            yield act, leaf.session_iri, leaf.count
        else:
            yield act, iris.session(iris.session_id(leaf.session_iri)), None


def note_held(store: QuadStore, deed: Deed) -> None:
    """Put into the register which backups hold what was erased since they were made, where that is not there yet.

    A backup that stands where it was made gets a notice beside it, which `restore` reads.
    """
    backups = open_backups(store)
    if not backups:
        return
    known = {(each.held_by, act) for each in registers.read_entries(store, HeldErasure) for act in each.erasures}
    erased = _erased(store, store.log.lines(), min(each.log_size for each in backups))
    made: list[HeldErasure] = []
    for backup in backups:
        held = dict.fromkeys(each.act for each in erased if each.is_held_by(backup.log_size))
        new = [act for act in held if (backup.token, act) not in known]
        if new:
            made.append(
                HeldErasure(
                    token=registers.new_token(),
                    by_iri=deed.by_iri,
                    time=deed.time,
                    leaf_salt=digests.new_salt(),
                    held_by=backup.token,
                    erasures=tuple(sorted(new)),
                )
            )
    if made:
        registers.keep_entries(store, None, made)
    places = {each.token: each for each in backups}
    for entry in made:
        _leave_notice(places[entry.held_by], entry)


def _leave_notice(backup: Backup, entry: HeldErasure) -> None:
    """Say in a backup's folder what was erased since; one that is elsewhere by now, or not writable, has none."""
    folder = Path(backup.place)
    with contextlib.suppress(OSError):
        if (folder / sqlite.NAME).stat().st_size == backup.size:
            with (folder / NOTICE).open("a", encoding="utf-8") as file:
                file.writelines(f"{act}\n" for act in entry.erasures)


def erased_since_backup(folder: Path, original: QuadStore | None) -> list[str]:
    """Return what was erased since a backup was made: by its notice, and by the log of the store that it is of."""
    found: dict[str, None] = {}
    try:
        found |= dict.fromkeys((folder / NOTICE).read_text("utf-8").split())
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # no such folder can be: the restore itself says that
            raise InvalidInput(
                f"the notice {folder / NOTICE} cannot be read ({error}): it says what was erased since that backup; make it "
                "readable, so that no erased text comes back"
            ) from error
    if original is not None:
        _, _, size, link = describe_backup(folder)
        lines = original.log.lines()
        if size <= len(lines) and (not size or link_leaf(lines[size - 1]) == link):
            found |= dict.fromkeys(erased_since(original, lines, size))
    return list(found)
