"""The index of one open store: opened when somebody asks, and brought up to date before it answers."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeVar

from trails.display.progress import Progress, moving
from trails.errors import StoreFailed, TrailsError
from trails.model import iris
from trails.plumbing.index import ahead, changes, figures, sidefile, texts
from trails.plumbing.index.rows import (
    SessionRow,
    TurnRow,
    all_turns,
    first_asked,
    session_row,
    tags,
    turns_at,
    turns_from,
)
from trails.plumbing.index.sidefile import SideFile
from trails.plumbing.index.untrue import Untrue, as_damaged
from trails.rdf import vocab
from trails.store import maintenance
from trails.store.contract import QuadStore
from trails.store.embedded import EmbeddedStore
from trails.store.leaflog import NOTHING, Leaves
from trails.store.nearby import at_one_moment
from trails.store.view import ViewStore

_SEALED_AT_ONCE: Final = 32 << 20
"""Bytes up to which a file is sealed after each change; a greater one when it is closed."""
_SMALL: Final = 32 << 20
"""Bytes of all files up to which closing a store brings them up to date for a single line: in some tens of milliseconds."""
_LITTLE: Final = 200
"""Lines of the log that wait for others where the files are greater: whoever asks next reads them himself."""
_MUCH: Final = 25_000
"""Lines that others wrote and that closing a store reads for them, in some ten seconds."""
_WAITING: Final = {"resting": 100, "busy": 5_000}
"""Lines that wait for a file of the index when they are read into it, for whoever looks at the store beside this process: once
nothing is written for a while, and while much is, which that slows down."""
_SEALED_MEANWHILE: Final = 256 << 20
"""Bytes up to which a file is sealed then: summing it up takes up to a fifth of a second, beside other threads."""
_OVERTAKEN: Final = 3
"""How many times as long the log of a store as it is may be as it was: else little of its index is of use for what was."""
_NOTHING: Final = (vocab.RUN, None, None, vocab.CATALOG)
_LONG: Final = 1_000
"""Sessions from which on reading them takes so long that it is told how far it is."""
_Said = tuple[str, changes.Extent, SessionRow | None, Callable[[int | None], Sequence[TurnRow]]]
_Answer = TypeVar("_Answer")


class Writer(Protocol):
    """Brings sessions into one file of the index, within one transaction."""

    def known(self, session_id: str) -> int | None:
        """Return how many turns of its own a session has here; None where it is not here."""
        ...

    def remove(self, session_id: str) -> None:
        """Take out all that is here of a session."""
        ...

    def put(self, row: SessionRow) -> None:
        """Write what the catalog says of a session, new or changed."""
        ...

    def add(self, row: SessionRow, turns: Sequence[TurnRow]) -> None:
        """Add turns to those of a session that is here."""
        ...

    def rewrite(self, row: SessionRow, turns: Sequence[TurnRow], asked: Callable[[], tuple[str, int] | None]) -> bool:
        """Write turns of a session that is here as they are now; False where that cannot be done. `asked` gives its prompt."""
        ...

    def settle(self, *, erase: bool) -> None:
        """Do what is left to do once all are in; with `erase` nothing of what was taken out stays in the file's bytes."""
        ...


class Part(NamedTuple):
    """One file of the index: its name, what is in it, and who writes it."""

    name: str
    schema: str
    writer: Callable[[sqlite3.Connection], Writer]


FIGURES: Final = Part("figures.db", figures.SCHEMA, figures.Writer)
TEXTS: Final = Part("texts.db", texts.SCHEMA, texts.Writer)
PARTS: Final = (FIGURES, TEXTS)


def index_of(store: QuadStore) -> Index:
    """Return the index of a store: beside its files where it has any, else in memory."""
    if isinstance(store, ViewStore):
        return Index(store, Path(store.location), borrowed=True)
    if isinstance(store, EmbeddedStore):
        return Index(store, store.beside)
    return Index(store, None)


class Index:
    """The index of a store. It never holds more than the store says: what is in doubt is thrown away and read again."""

    def __init__(self, store: QuadStore, folder: Path | None, *, borrowed: bool = False) -> None:
        """Nothing is opened yet. `folder` is the store's own, None for one in memory; `borrowed` one of another process."""
        self._store = store
        self._folder = None if folder is None else folder / maintenance.INDEX
        self._borrowed = borrowed
        self._lock = threading.RLock()
        self._erasing = 0
        """How many are taking something out of the store just now: nothing is sealed meanwhile."""
        self._files: dict[Part, SideFile] = {}
        self._copies: set[Part] = set()
        """Files of another process that are copied: one was changed while it was read, or has other bytes than were sealed."""
        self._anew: set[Part] = set()
        """Files that were not believed once they were open: what is wrong with an answer is not theirs any more."""
        self._untrue: set[Part] = set()
        """Those of them that held what Trails never writes, of which `verify` is still to tell."""
        self._began = store.log.reached
        self._keeper: threading.Thread | None = None
        self.progress: Progress | bool | None = None
        """What is told how far it is, in sessions, while much is read into it that somebody waits for; as `moving` takes it."""
        self._now: Index | None = None
        """The index of the store as it is, where this one is of the same store as it was."""
        self._is_stale = False
        self._closed = False
        self._pid = os.getpid()
        _OPENED.add(self)

    def start_from(self, now: Index) -> None:
        """Begin each file with a copy of what the store as it is has: this store is that one as it was.

        Only the sessions that the log tells of since are then read. Call it before anything is asked.
        """
        self._now = now

    def start_anew(self) -> None:
        """Throw all of it away before the next answer: what it was read from has less by now, and the log does not say so."""
        self._is_stale = True

    # --- asking

    def ask(self, part: Part, ask: Callable[[SideFile], _Answer]) -> _Answer:
        """Return what a function finds in a file, which holds all that was committed before this call."""
        self._store.quads(_NOTHING)  # raises where the store is not to be used: closed, or another process's
        with self._lock:
            if self._is_stale:
                self._is_stale = False
                while self._files:
                    self._files.popitem()[1].close()
            try:
                return self._asked(part, ask)
            except (OSError, sqlite3.Error):  # nothing can be written there, or no more of it
                self._opened(part).leave()
                return ask(self._up_to_date(part))

    def _asked(self, part: Part, ask: Callable[[SideFile], _Answer]) -> _Answer:
        is_untrue = False
        try:
            with nullcontext() if part in self._anew else as_damaged():
                answer = ask(file := self._up_to_date(part))
            if file.is_as_left:
                return answer
        except sqlite3.Error as error:  # damaged while it was open, or of values that Trails never writes
            self._anew.add(part)
            is_untrue = isinstance(error, Untrue) and self._opened(part).is_as_left
        if (file := self._opened(part)).is_in_place and not file.is_as_left:
            self._copy(part)
        else:
            file.empty()
        answer = ask(self._up_to_date(part))
        if is_untrue:  # the file was, and not what was asked
            self._untrue.add(part)
        return answer

    def _copy(self, part: Part) -> None:
        """Let go of another process's file that is read in its place: from now on it is copied."""
        self._copies.add(part)
        self._files.pop(part).close()

    def figures(self, ask: Callable[[SideFile], _Answer]) -> _Answer:
        """Return what a function finds in the figures; it must not hand out anything that is read later."""
        return self.ask(FIGURES, ask)

    def texts(self, ask: Callable[[SideFile], _Answer]) -> _Answer:
        """Return what a function finds in the texts, as `figures` does. `has_texts` tells whether there are any."""
        return self.ask(TEXTS, ask)

    @property
    def has_texts(self) -> bool:
        """Whether this machine's SQLite can keep texts so that they are found."""
        return _has_trigrams()

    # --- keeping it up to date

    def _path(self, part: Part) -> Path | None:
        return None if self._folder is None else self._folder / part.name

    def _opened(self, part: Part) -> SideFile:
        if part not in self._files:
            waits = self._has_living_owner()
            at = self._store.log.reached if self._borrowed and not (waits or part in self._copies) else None
            self._files[part] = SideFile(self._path(part), part.schema, borrowed=self._borrowed, waits=waits, at=at)
            if self._now is not None:
                self._take_over(part, self._now)
        return self._files[part]

    def _has_living_owner(self) -> bool:
        """Whether another process may change the files just now."""
        return self._borrowed and isinstance(self._store, ViewStore) and self._store.has_living_owner

    def _take_over(self, part: Part, now: Index) -> None:
        """Copy a file of the store as it is, and read what the log tells of since; where that is much, begin with nothing."""
        file, log, reached = self._files[part], now._store.log, self._store.log.reached
        if log.reached.lines > _OVERTAKEN * reached.lines:
            return
        now.ask(part, file.take_over)
        later = changes.of_lines(log.since(reached)[0])  # after the copy: it may be further than the log was before
        if later is None:
            file.empty()
            return
        try:
            self._write([part], dict.fromkeys(later, "anew"), reached)
        except texts.TooMuchTaken:
            file.empty()

    def _up_to_date(self, part: Part) -> SideFile:
        file, log = self._opened(part), self._store.log
        if file.is_in_place and (not file.is_as_left or file.place != log.reached or self._has_living_owner()):
            # An owner will change it: what is copied before that need not be read anew.
            self._files.pop(part).close()
            file = self._opened(part)
        if not file.is_as_left:
            file.empty()
        if not log.holds(file.place) and not (self._borrowed and self._turned_back(part, file)):
            file.empty()
        if file.place != log.reached or file.place == NOTHING:  # a log without lines tells nothing of what there is
            try:
                self._bring_up([part])
            except texts.TooMuchTaken:
                file.empty()
                self._bring_up([part])
        return file

    def _turned_back(self, part: Part, file: SideFile) -> bool:
        """Bring a copy of a file that is ahead of what this process sees back to that; return whether it can be done."""
        lines = self._store.log.until(file.place)
        later = None if lines is None else changes.of_lines(lines)
        if later is None:
            return False
        self._write([part], dict.fromkeys(later, "anew"), self._store.log.reached)
        return True

    def _bring_up(self, parts: Sequence[Part], *, most: int = _SEALED_AT_ONCE) -> None:
        """Bring files that are equally far into line with the store; what the store says is read once for all of them."""
        files = [self._opened(part) for part in parts]
        (place,) = {file.place for file in files}
        # A line is in the log a moment before the engine has what it tells of.
        lines, reached = at_one_moment(self._store, lambda: self._store.log.since(place))
        wanted = changes.of_lines(lines) if place != NOTHING else None
        if wanted is None:
            for file in files:
                if place != NOTHING:
                    file.empty()
            wanted = dict.fromkeys(self._session_ids(), "anew")
        self._write(parts, wanted, reached, changes.redacted_turns(lines))
        if not self._erasing:
            for file in files:
                file.seal(most=most)

    def _write(
        self,
        parts: Sequence[Part],
        wanted: Mapping[str, changes.Extent],
        reached: Leaves,
        redacted: Mapping[str, Collection[int]] = MappingProxyType({}),
    ) -> None:
        with ExitStack() as stack:
            writers = [part.writer(stack.enter_context(self._opened(part).writing(reached))) for part in parts]
            moves = stack.enter_context(moving(self._told(len(wanted)), "indexing"))
            for done, (session_id, extent, row, turns) in enumerate(self._said(wanted)):
                if moves:
                    moves(done, len(wanted), session_id)
                with as_damaged():
                    for writer in writers:
                        if extent != "redacted" or not self._rewrite(writer, row, turns, redacted[session_id]):
                            _bring_in(writer, session_id, row, "anew" if extent == "redacted" else extent, turns)
            with as_damaged():
                for writer in writers:
                    if isinstance(writer, figures.Writer):
                        writer.tags(tags(self._store))
                    writer.settle(erase=not self._borrowed)

    def _said(self, wanted: Mapping[str, changes.Extent]) -> Iterator[_Said]:
        """Give what the store says of sessions: many that are read anew are read in processes beside this one."""
        left = dict(wanted)
        for session_id, said in ahead.read(self._store, [each for each, extent in wanted.items() if extent == "anew"]):
            del left[session_id]
            yield session_id, "anew", said.row, lambda _, turns=said.turns: turns  # type: ignore[misc] # a default binds it
        for session_id, extent in left.items():
            row = session_row(self._store, session_id)
            yield session_id, extent, row, cache(partial(self._turns, row))  # of both files the same turns, as a rule

    def _rewrite(
        self,
        writer: Writer,
        row: SessionRow | None,
        turns: Callable[[int | None], Sequence[TurnRow]],
        redacted: Collection[int],
    ) -> bool:
        """Bring in a session of which single turns were redacted; False where all of it is to be read anew."""
        if row is None or (known := writer.known(row.id)) is None:
            return False
        writer.put(row)
        below = sorted(index for index in redacted if index < row.starts_at + known)
        if not writer.rewrite(row, turns_at(self._store, row, below), partial(first_asked, self._store, row)):
            return False
        writer.add(row, turns(known))
        return True

    def _told(self, sessions: int) -> Progress | bool | None:
        is_waited_for = threading.current_thread() is not self._keeper
        return self.progress if sessions >= _LONG and is_waited_for else None

    def _turns(self, row: SessionRow | None, known: int | None) -> Sequence[TurnRow]:
        """Return the turns of a session, or those that come after so many of its own; none of one that is gone."""
        if row is None:
            return []
        if known is None:
            return all_turns(self._store, row)
        return turns_from(self._store, row, row.starts_at + known)

    def _session_ids(self) -> list[str]:
        rows = self._store.quads((None, vocab.TYPE, vocab.SESSION, vocab.CATALOG))
        named = [quad.subject.value for quad in rows]  # type: ignore[union-attr] # IRIs
        return [iris.session_id(name) for name in named if iris.is_session(name)]  # others are for verify to find

    # --- upkeep

    @contextmanager
    def erasing(self) -> Iterator[None]:
        """Take out of the index, before this ends, what is taken out of the store meanwhile; on disk, by any name.

        Files are without a seal until then: what a kill leaves of them is thrown away when the store is opened next.
        """
        with self._lock, self._in_words():
            self._erasing += 1
            try:
                for part in self.there():
                    self._doubt(part)
            except BaseException:
                self._erasing -= 1
                raise
        try:
            yield
        finally:
            with self._lock, self._in_words():
                self._erasing -= 1
                for part in self.there():
                    self._caught_up(part)
                    if not self._erasing:
                        self._opened(part).seal(sync=True)

    def take_out(self) -> None:
        """Take out of the files what others have taken out of the store by now.

        Nothing is raised: where it is cut short, whoever opens the store next does it. A great file is not sealed before there
        is time: others may take out much, one after the other.
        """
        mark = None if self._folder is None else self._folder / maintenance.ERASED
        if self._closed or self._borrowed or mark is None:
            return
        with suppress(sqlite3.Error, OSError, TrailsError, ValueError), self._lock:
            if mark.exists():
                for part in self.there():
                    self._doubt(part)
                    self._caught_up(part)
                mark.unlink()

    def _doubt(self, part: Part) -> None:
        """Let a file be doubted from now on; one that stands beside the store and is not what is used here is removed."""
        file, path = self._opened(part), self._path(part)
        if file.where is None and path is not None and not self._borrowed:
            sidefile.throw_away(path)
        file.break_seal()

    def _caught_up(self, part: Part) -> None:
        """Bring a file up to date, or throw it away where it is too far behind, too great or damaged: it is not waited for."""
        file = self._opened(part)
        try:
            if self._goes_on(file):
                self._bring_up([part])
            else:
                file.empty()
        except (sqlite3.Error, texts.TooMuchTaken):
            file.empty()

    def _goes_on(self, file: SideFile) -> bool:
        """Tell whether what is in a file need not be read anew."""
        log = self._store.log
        if not file.is_as_left or file.place == NOTHING or not log.holds(file.place):
            return False
        return changes.of_lines(log.since(file.place)[0]) is not None

    def sweep(self) -> None:
        """Throw away files that have no seal: whoever wrote them was killed, maybe while something was taken out."""
        if self._folder is not None and not self._borrowed:
            for part in PARTS:
                with suppress(OSError):  # where nothing may be written, nothing is read either
                    sidefile.sweep(self._folder / part.name)

    def empty(self) -> None:
        """Throw all of it away; it is made again when somebody asks."""
        with self._lock, self._in_words():
            for part in self.there():
                self._opened(part).empty()

    def rebuild(self) -> None:
        """Make anew what there is of it."""
        with self._lock, self._in_words():
            for part in (parts := self.there()):
                self._doubt(part)
                self._opened(part).empty()
            if parts:
                self._bring_up(parts)  # what the store says is read once

    def behind(self, part: Part) -> int:
        """Return how many lines of the log came since a file of the index was brought up to date."""
        file, path = self._files.get(part), self._path(part)
        place = file.place if file is not None else NOTHING if path is None else sidefile.sealed_place(path)
        return self._store.log.reached.lines - (place.lines if self._store.log.holds(place) else 0)

    def keep_up(self, *, resting: bool) -> None:
        """Begin to bring the files up to date, on a thread of its own, where much waits: others who look at the store need not.

        For the store to call. Nothing is raised: whoever asks next does what could not be done.
        """
        if self._closed or os.getpid() != self._pid or (self._keeper is not None and self._keeper.is_alive()):
            return
        least = _WAITING["resting" if resting else "busy"]
        self._keeper = threading.Thread(target=self._keep_up, args=(least,), name="trails-index", daemon=True)
        self._keeper.start()

    def _keep_up(self, least: int) -> None:
        with suppress(sqlite3.Error, OSError, TrailsError, ValueError), self._lock:
            if not self._closed and not self._erasing and max(map(self.behind, self._kept())) >= least:
                self._bring_up_all(most=_SEALED_MEANWHILE)

    def close(self) -> None:
        """Let go of the files, once what this process committed is in them: those who only read need not find it out then.

        Much that others committed is left to whoever asks next, and so is a little where the files are great.
        """
        if os.getpid() != self._pid:
            return
        self._closed = True
        with self._lock, suppress(sqlite3.Error, OSError, TrailsError):
            if self._folder is not None and not self._borrowed:
                self._bring_up_at_end()
        with self._lock, suppress(sqlite3.Error):
            for file in self._files.values():
                file.close()
            self._files.clear()

    def _bring_up_at_end(self) -> None:
        written = self._store.log.reached.lines - self._began.lines
        least = 1 if self._size() <= _SMALL else _LITTLE
        if written and any(least <= self.behind(part) <= written + _MUCH for part in self._kept()):
            for part in self._kept():
                self._opened(part)  # one that is not as it was sealed is empty now, and may be far behind
            if all(self.behind(part) <= written + _MUCH for part in self._kept()):
                self._bring_up_all()

    def _bring_up_all(self, *, most: int = _SEALED_AT_ONCE) -> None:
        log, parts = self._store.log, self._kept()
        files = [self._opened(part) for part in parts]
        if len({file.place for file in files}) == 1 and log.holds(files[0].place) and files[0].place != log.reached:
            with suppress(texts.TooMuchTaken):
                self._bring_up(parts, most=most)
                return
        for part in parts:
            self._up_to_date(part).seal(most=most)

    def _kept(self) -> tuple[Part, ...]:
        return PARTS if self.has_texts else (FIGURES,)

    def _size(self) -> int:
        paths = [path for part in PARTS if (path := self._path(part)) is not None and path.exists()]
        return sum(path.stat().st_size for path in paths)

    def abandon(self) -> None:
        """Leave the files, in a forked child, to the parent: a child that closed them could write to them."""
        for file in self._files.values():
            file.leak()

    def there(self) -> list[Part]:
        """Return which files there are: in use, or beside the store."""
        if self._borrowed:
            return list(self._files)
        return [
            part for part in PARTS if part in self._files or ((path := self._path(part)) is not None and path.exists())
        ]

    def readable(self) -> list[Part]:
        """Return which files there are that this process may read, and would answer from: nobody like it is misled by others."""
        try:
            return [part for part in PARTS if self._is_believed(part)] if self._borrowed else self.there()
        except OSError:  # a folder that it may not look into
            return list(self._files)

    def _is_believed(self, part: Part) -> bool:
        """Tell whether another process's file is used here, or sealed and so near that it would be; its owner is waited for."""
        path, place, left = self._path(part), NOTHING, sidefile.TRIES if self._has_living_owner() else 1
        while path is not None and path.exists() and left and (place := sidefile.sealed_place(path)) == NOTHING:
            left -= 1
            time.sleep(sidefile.PAUSE if left else 0)
        near = abs(place.lines - self._store.log.reached.lines) <= _MUCH
        return part in self._files or (place != NOTHING and near)

    def held(self, part: Part, ask: Callable[[SideFile], _Answer]) -> _Answer:
        """Return what a function finds in a file, brought up to date, while nobody commits; all bytes of it are read before.

        Raises `NotAsSealed` for one that was believed, and has other bytes: it is begun anew, or not believed here any more.
        """
        self._store.quads(_NOTHING)
        with self._lock:
            is_first = part not in self._files
            file = self._opened(part)
            if file.was_refused and (is_first or self._borrowed):
                raise Untrue("it says otherwise than its seal how far the log reached")
            if part in self._untrue:
                if not self._borrowed:
                    self._untrue.discard(part)
                raise Untrue("it held what Trails never writes, and answers out of it may have been wrong")
            if file.is_as_left and not file.is_whole():
                self._believe_no_more(part, file)
                raise sidefile.NotAsSealed
            if file.is_in_place and file.place == self._store.log.reached:
                try:
                    answer = ask(file)
                    if file.is_as_left:
                        return answer
                except sqlite3.Error:
                    if file.is_as_left:  # else its owner wrote to it meanwhile
                        raise
            if file.is_in_place:
                self._copy(part)  # its owner may commit all the same
            return at_one_moment(self._store, lambda: ask(self._up_to_date(part)))

    def _believe_no_more(self, part: Part, file: SideFile) -> None:
        if file.is_in_place:
            self._copy(part)
        else:
            file.empty()

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise StoreFailed(
                f"the index of the store {self._store.location} cannot be changed ({error}), and would keep what is taken "
                f"out; remove the folder {self._folder}: it is made again"
            ) from error


_OPENED: Final[weakref.WeakSet[Index]] = weakref.WeakSet()


def _abandon_all() -> None:
    for index in list(_OPENED):
        index.abandon()


os.register_at_fork(after_in_child=_abandon_all)


def _bring_in(
    writer: Writer,
    session_id: str,
    row: SessionRow | None,
    extent: changes.Extent,
    turns: Callable[[int | None], Sequence[TurnRow]],
) -> None:
    known = None if extent == "anew" else writer.known(session_id)
    if row is None or known is None:
        writer.remove(session_id)
    if row is None:
        return
    if known is None or extent == "row":
        writer.put(row)
    writer.add(row, turns(known))


@cache
def _has_trigrams() -> bool:
    with closing(sqlite3.connect(":memory:")) as database:
        try:
            database.executescript(texts.SCHEMA)
        except sqlite3.Error:
            return False
        return True
