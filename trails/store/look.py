"""Looking at a store beside its owner: a copy of its files at one moment, and the engine over it.

What is copied is believed only when, after the copying, the folders still stand at their paths, the engine's list of files
is as it was, and nobody opened the store meanwhile; else it is thrown away and done again. Everything that was acknowledged
before the first look is in it: the owner tells up to which record its engine has the commits (`position`).
"""

from __future__ import annotations

import os
import random
import stat
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from errno import ENOENT
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox

from trails.errors import StoreFailed
from trails.store import capture, engines, lockfile, maintenance, marker, position
from trails.store.capture import Keeper, Moved
from trails.store.commitlog import Leaves, RecordFiles
from trails.store.frames import Frame
from trails.store.leaflog import LeafLog
from trails.store.position import Position
from trails.store.reached import before_held, holds_bulk, quads_in, reached

LIMIT: Final = 10.0
"""Seconds after which looking is given up."""
_WAIT: Final = (0.001, 0.02)
"""Seconds between two looks, from and to."""
_STALLED: Final = 1.0
"""Seconds without progress after which an owner that is not there any more is taken for dead, and damage for damage."""
_READ: Final = (marker.NAME, maintenance.POSITION, maintenance.LOG)
"""The files that a look reads beside those of the two folders."""
_CHECKED: Final = 20_000
"""Quads that are looked up to tell where a copy ends; where the owner is further ahead of its engine, that is waited for."""


class NeedsOwner(StoreFailed):
    """The store must be opened once by somebody who may write: to recover it, or to find out that it is open elsewhere."""


class Moment:
    """A store as it was at one moment."""

    def __init__(self, engine: ox.Store, number: int, log: LeafLog, keeper: Keeper, told: Told) -> None:
        """Take what `look` made."""
        self.engine: ox.Store | None = engine
        self.number = number
        """The last record of the commit log that is in it."""
        self.log = log
        self.told = told
        self.folder = keeper.folder
        """Where the engine's files are, for other processes too, until this is closed."""
        self._drop = weakref.finalize(self, keeper.drop)

    def close(self) -> None:
        """Let go of the engine, then of the files, once no query uses it any more: none is waited for. Twice is allowed."""
        _USED.add(self)
        for each in list(_USED):
            each._close_unless_used()

    def _close_unless_used(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None and sys.getrefcount(engine) > _UNUSED:
            self.engine = engine  # by a query that nobody waits for: the next who closes one looks again
            return
        del engine
        _USED.discard(self)
        self.log.close()
        self._drop()


_USED: Final[set[Moment]] = set()
"""Those that were closed while a query was under way, which needs their files to its end."""
_UNUSED: Final = 2
"""References to an engine that nobody uses: the variable that is asked about, and the asking."""


@dataclass(frozen=True, slots=True)
class Told:
    """What was found at a store's place before anything was copied: what its owner told, and which folder its engine has."""

    position: Position | None
    folder: os.stat_result
    note: dict[str, Any]
    """What the store's marker says."""
    store_id: bytes

    @property
    def is_closed(self) -> bool:
        """Whether the owner ended in good order."""
        return self.position is None or self.position.is_closed


class _Attempt:
    """The folders that one attempt holds, and what it knows of the whole look."""

    def __init__(self, path: Path, wanted: int) -> None:
        self.path = path
        self.wanted = wanted
        """The record that must be in it at least: what was acknowledged before the first attempt."""
        self.held: list[int] = []

    def close(self) -> None:
        """Close the folders."""
        while self.held:
            os.close(self.held.pop())


def look(path: Path) -> Moment:
    """Return a store as it is now, without touching it: with everything that was acknowledged before this was called.

    Raises `NeedsOwner` where it must be recovered first, `StoreFailed` where it cannot be read, or is rewritten so fast that
    for 10 seconds no copy of it was of one moment.
    """
    begun = time.monotonic()
    wanted: int | None = None
    progress, since = -1, begun
    trouble: StoreFailed | None = None
    while True:
        try:
            store_id = marker.store_id(path)
            told_now = position.read(path / maintenance.POSITION, store_id)
            if wanted is None and told_now is not None and not told_now.is_closed:
                wanted = told_now.recorded
            return _look_once(path, store_id, told_now, wanted or 0)
        except Moved as moved:
            now = time.monotonic()
            applied = -1 if told_now is None else told_now.applied
            if applied != progress:
                progress, since = applied, now
            refuse_unreadable(path, moved)
            trouble = moved.__cause__ if isinstance(moved.__cause__, StoreFailed) else None
            if isinstance(trouble, engines.TooManyFiles):
                raise trouble from None
            if now - since > _STALLED:
                _refuse_dead(path, told_now, wanted or 0)
                if trouble is not None:
                    raise trouble from None
                _refuse_left(path, told_now)
            if now - begun > LIMIT:
                raise _too_fast(path) from moved
        time.sleep(random.uniform(*_WAIT))  # noqa: S311 - so that two readers do not stay in step


def _is_of_rights(error: BaseException | None) -> bool:
    """Tell whether an error comes of what this user may not do."""
    return error is not None and (isinstance(error, PermissionError) or _is_of_rights(error.__cause__))


def refuse_unreadable(path: Path, error: BaseException) -> None:
    """Raise `StoreFailed` where an error comes of what this user may not read of a store: nothing else helps then."""
    if not _is_of_rights(error):
        return
    quads, commits = path / maintenance.QUADS, path / maintenance.COMMITS
    for place in (path, *(path / name for name in _READ), commits, *_within(commits), quads, *_within(quads)):
        if _is_denied(place):
            raise StoreFailed(
                f"the store {path} cannot be read by this user: {place} is for its owner alone, as all that a store makes is. "
                "Read it as that user, or have the owner make a copy (`trails copy`) and allow reading that (chmod -R a+rX); of "
                "the store itself that lasts until it writes on"
            ) from error


def _is_denied(place: Path) -> bool:
    try:
        needed = os.R_OK | os.X_OK if stat.S_ISDIR(place.stat().st_mode) else os.R_OK
    except OSError:
        return False  # it is gone, or in a folder that was named before
    return not os.access(place, needed, effective_ids=os.access in os.supports_effective_ids)


def _within(folder: Path) -> list[Path]:
    """Return what is in a folder that can be looked into."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _refuse_dead(path: Path, told: Position | None, wanted: int) -> None:
    """Raise `NeedsOwner` where commits wait for an engine whose process has ended."""
    if (
        told is not None
        and not told.is_closed
        and told.applied < wanted
        and not lockfile.is_held(path / maintenance.LOCK)
    ):
        raise needs_owner(path, "the process that had it open was killed, and some of its commits are in its log alone")


def _refuse_left(path: Path, told: Position | None) -> None:
    """Raise `NeedsOwner` where nobody is there who will yet write what a reader needs: looks differ for no other reason."""
    if (told is not None and told.is_closed) or lockfile.is_held(path / maintenance.LOCK):
        return
    if told is None:
        raise needs_owner(
            path, f"its file {maintenance.POSITION!r}, which says how far it was written, is missing or damaged"
        )
    raise needs_owner(path, "the process that made or opened it was killed before it could be read")


def _too_fast(path: Path) -> StoreFailed:
    return StoreFailed(
        f"the store {path} is being rewritten: for {LIMIT:.0f} seconds no two looks at it agreed; try again. "
        "If that lasts, its owner cannot write any more: close it there"
    )


def needs_owner(path: Path, why: str) -> NeedsOwner:
    """Return the error for a store that somebody must open first."""
    return NeedsOwner(f"the store {path} cannot be read as it is: {why}; open it once to write, and it is put right")


def _look_once(path: Path, store_id: bytes, told: Position | None, wanted: int) -> Moment:
    """Return the store as it is, or raise `Moved` where what was copied is not of one moment or lacks something."""
    _refuse_unseen(path, told)
    if told is not None and not told.is_closed and (told.applied < wanted or told.is_loading):
        raise Moved
    attempt = _Attempt(path, wanted)
    try:
        root = _held(attempt, path)
        top = _engine_folder(attempt, root, is_closed=told is None or told.is_closed)
        found = Told(told, os.fstat(top), marker.read(path), store_id)
        keeper = _copied(attempt, top, found)
        try:
            copied = _check_place(attempt, store_id, told)
            return _opened(attempt, store_id, found, keeper, copied)
        except BaseException:  # an interrupt too
            keeper.drop()
            raise
    finally:
        attempt.close()


def _refuse_unseen(path: Path, told: Position | None) -> None:
    """Raise `NeedsOwner` where what an owner wrote may not be seen here."""
    if told is None:
        noted = lockfile.note(path / maintenance.LOCK)
        if noted is None:
            return  # a copy that nobody has opened yet
        if position.boot_id() is not None and noted.get("boot") == position.boot_id():
            raise Moved  # its owner is just opening it
        raise needs_owner(
            path, "it was last opened by an older version of Trails, which does not tell readers how far it came"
        )
    if not told.is_closed and not told.is_of_this_boot:
        raise needs_owner(
            path,
            "it is open on another machine, or was when this one went down, so what was written last is not sure to be seen",
        )


def _held(attempt: _Attempt, path: Path) -> int:
    attempt.held.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    return attempt.held[-1]


def _engine_folder(attempt: _Attempt, root: int, *, is_closed: bool) -> int:
    maintenance.refuse_links(attempt.path)
    try:
        attempt.held.append(
            os.open(maintenance.QUADS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
        )
    except OSError as error:
        if error.errno != ENOENT or not is_closed:
            raise Moved from error
        if maintenance.left_over(attempt.path):
            raise needs_owner(attempt.path, "a vacuum of it was cut short") from error
        maintenance.refuse_missing(attempt.path)
        raise Moved from error
    if is_closed:
        maintenance.refuse_missing(attempt.path)
    return attempt.held[-1]


def _copied(attempt: _Attempt, top: int, found: Told) -> Keeper:
    """Return a copy of the engine's files, kept in the best way that works here; raise `Moved` where it is of no one moment."""
    ways = capture.keepers(attempt.path, capture.count_tables(top))
    whole = attempt.path / maintenance.QUADS if found.is_closed else None
    refused: list[str] = []
    """Why there is no place for a copy, of each way for which there is none."""
    for number, way in enumerate(ways, 1):
        keeper: Keeper | None = None
        try:
            keeper = way()
            seen = capture.copy(top, keeper, whole)
            if not capture.is_unchanged(top, seen):
                raise Moved
            return keeper
        except BaseException as error:  # an interrupt too
            if keeper is not None:
                keeper.drop()
            if not isinstance(error, OSError):
                raise
            refuse_unreadable(attempt.path, error)
            refused += [f"{error}"] if keeper is None else []
            if number == len(ways):
                unreadable = engines.unreadable(attempt.path, error)
                is_for_files = keeper is not None or isinstance(unreadable, engines.TooManyFiles)
                raise (unreadable if is_for_files else _no_place(attempt.path, refused)) from error
    raise AssertionError("there is always a last way")


def _no_place(path: Path, refused: Sequence[str]) -> StoreFailed:
    return StoreFailed(
        f"the store {path} cannot be read here: it is read through a folder with links to its files, and there is no place for "
        f"one ({'; '.join(dict.fromkeys(refused))}). Make room where temporary files go, or name another place for them "
        "(TMPDIR=FOLDER); the store itself is not what is refused"
    )


def _check_place(attempt: _Attempt, store_id: bytes, told: Position | None) -> Position | None:
    """Raise `Moved` where another store or folder stands in its place, or somebody opened it since; return what is told now."""
    now = position.read(attempt.path / maintenance.POSITION, store_id)
    if (None if now is None else now.opening) != (None if told is None else told.opening):
        raise Moved
    if told is not None and told.is_closed and now is not None and not now.is_closed:
        raise Moved
    try:
        for held, path in zip(attempt.held, (attempt.path, attempt.path / maintenance.QUADS), strict=True):
            if not os.path.samestat(os.fstat(held), path.stat()):
                raise Moved
    except OSError as error:
        raise Moved from error
    return now


def _opened(attempt: _Attempt, store_id: bytes, found: Told, keeper: Keeper, copied: Position | None) -> Moment:
    """Return a copy as a moment; `copied` is what the owner told once it was made."""
    base, last, frames = _records(attempt.path, store_id, is_closed=found.is_closed)
    _check_place(attempt, store_id, found.position)
    if found.is_closed and frames:
        raise needs_owner(attempt.path, "it was not closed in good order")
    applied = last if found.position is None or found.is_closed else found.position.applied
    since = applied if copied is None or found.is_closed else copied.applied
    if not last - len(frames) <= applied <= last or holds_bulk(frames, applied, since):
        raise Moved
    if copied is not None and copied.is_loading:
        raise Moved
    frames = before_held(frames, since)
    later = [frame for frame in frames if frame.number > applied]
    if sum(quads_in(frame.record) for frame in later) > _CHECKED:
        raise Moved
    try:
        engine = ox.Store.read_only(str(keeper.folder))
    except (OSError, RuntimeError) as error:
        raise Moved from engines.unreadable(attempt.path, error)
    try:
        number = reached(frames, applied, _having(engine), _sizing(engine))
        if number < attempt.wanted:
            raise Moved
        log = _log_up_to(attempt.path, base, frames, number, believe=found.is_closed)
        return Moment(engine, number, log, keeper, found)
    finally:
        del engine  # an error that is kept keeps no engine


def _records(path: Path, store_id: bytes, *, is_closed: bool) -> tuple[Leaves, int, list[Frame]]:
    """Return where the log of leaves was before the records that wait for the engine's flush, the last one's number, and them.

    Beside a writer, what looks like damage may be half of what it writes: it counts where it stays.
    """
    try:
        log = RecordFiles(path / maintenance.COMMITS, store_id, read_only=True)
    except StoreFailed as error:
        if is_closed:
            raise
        raise Moved from error
    try:
        return log.base, log.last, log.records
    finally:
        log.close()


def _log_up_to(path: Path, base: Leaves, frames: Sequence[Frame], number: int, *, believe: bool) -> LeafLog:
    lines = [line for frame in takewhile(lambda each: each.number <= number, frames) for line in frame.record.leaves]
    try:
        log = LeafLog(path / maintenance.LOG, base, lines, believe=believe, read_only=True)
    except FileNotFoundError as error:
        if not believe:
            raise Moved from error
        raise needs_owner(path, f"its file {maintenance.LOG!r} is missing") from error
    if log.lacks_lines:
        log.close()
        raise Moved
    return log


def _having(engine: ox.Store) -> Callable[[Sequence[bytes]], list[bool]]:
    def has(lines: Sequence[bytes]) -> list[bool]:
        text = b"".join(line + b"\n" for line in lines)
        return [quad in engine for quad in ox.parse(text, format=ox.RdfFormat.N_QUADS)] if text else []

    return has


def _sizing(engine: ox.Store) -> Callable[[str], int]:
    return lambda graph: sum(1 for _ in engine.quads_for_pattern(None, None, None, ox.NamedNode(graph)))
