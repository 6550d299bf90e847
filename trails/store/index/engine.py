"""The engine of one open store: opened when something is first asked, and given commits when somebody reads what they may change.

A small store has its engine in memory, any other in a private folder that begins with the newest snapshot. Whatever is wrong with
files of the engine, it is made anew from the log.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import pyoxigraph as ox

from trails.display.progress import Progress, made_anew
from trails.errors import StoreFailed, StoreLocked
from trails.store.index import engine_filling
from trails.store.index.index_folder import IndexFolder, Mark, Private
from trails.store.index.reading import Gate
from trails.store.log.commit_batch import Batch
from trails.store.log.commit_log import Log
from trails.store.log.log_maintenance import Behind
from trails.store.log.records import START, CommitRecord, Unpacked
from trails.store.pattern import Mentions, Pattern

_Done = TypeVar("_Done")
_SMALL: Final = 10_000
"""Quads up to which the engine is in memory: filling it takes less than a tenth of a second."""
_TRIES: Final = 3
"""How often files of the engine are tried, while others may delete them."""
_SMALL_FILE: Final = 1 << 20
"""Bytes of the log's file up to which its quads are taken for so few."""
_STEP: Final = 16 << 20
"""Bytes of quads, written as lines, after which it is looked at whether a snapshot is due of an engine that is being filled."""
_SAVE_SECONDS: Final = 2.0
"""Seconds after which one is due: what a kill costs, at most, besides a step."""
_SNAPSHOT_EVERY: Final = 40_000
"""Quads after which a new snapshot is made, each thousand bytes of text counted as one more: whoever opens the store reads no
more than those from the log."""
_SNAPSHOT_SECONDS: Final = 300.0
"""Seconds after which a snapshot is made of fewer, if there are more than `_SMALL`."""
_SNAPSHOT: Final = "snapshot"
"""The name that is held by the one process of a machine that makes a snapshot."""
_PATIENCE: Final = 120.0
"""Seconds for which a snapshot that was asked for waits until another process has made its own."""
_TOGETHER: Final = 8_000
"""Quads that wait for somebody who reads, before the engine gets them in the background."""
_UNPACKED: Final = 500
"""Quads that wait as such: the garbage collector goes through them again and again. More wait as the text of their records."""
_MOST: Final = 100_000
"""Quads that wait at most: whoever commits more waits until the engine has them."""


class Engine:
    """An engine, what it does not have yet, and its snapshots.

    `lock` is held by whoever opens or changes it, and taken after the store's write lock. Readers are inside `gate`.
    """

    def __init__(self, log: Log, folder: Path | None, number: int) -> None:
        """Nothing is opened yet. `number` is that of the last record of the log that the store has brought in."""
        self.gate = Gate()
        self.lock = threading.RLock()
        self.store: ox.Store | None = None
        self._log = log
        self._index = None if folder is None else IndexFolder(folder)
        self._private: Private | None = None
        self._is_stale = False
        """Whether it is to be opened anew: its files are damaged, or hold what a vacuum removed."""
        self._is_anew = False
        """Whether no snapshot is to be used for that."""
        self.read_at = 0
        """The end of the log when what it has was read: what others rewrote after that it has as it was before."""
        self._position = 0
        """The last record that it has."""
        self._number = number
        """The last record that it has, or that is pending."""
        self._unsaved = 0
        """Quads that came in since the last snapshot, counted as `_SNAPSHOT_EVERY` says."""
        self._saved_at = time.monotonic()
        self._saved = 0
        """The last record in the last snapshot that is known here."""
        self._keeps = False
        """Whether what is committed is kept: not before it is opened, which reads all of that from the log."""
        self._pending: deque[Batch] = deque()
        self._pending_lock = threading.Lock()
        self._pending_size = 0
        self._is_opaque = False
        """Whether what is pending may match any pattern."""
        self._mentions = Mentions()
        """What the quads that are pending speak of."""
        self._unmentioned: list[Batch] = []
        """Those that are pending, but not in that yet: most commits nobody asks for."""
        self._unpacked: list[Batch] = []
        """Those that are pending with their quads."""
        self._unpacked_size = 0
        self._worker: threading.Thread | None = None
        self._is_closed = False

    # --- what is committed

    def take(self, batch: Batch) -> None:
        """Keep a batch of commits for later. Doing it twice is allowed."""
        with self._pending_lock:
            if self._number >= batch.last:
                return
            if self._keeps:
                self._pack()
                self._unmentioned.append(batch)
                self._unpacked.append(batch)
                self._unpacked_size += batch.size
                self._is_opaque = self._is_opaque or batch.is_opaque
                self._pending_size += batch.size
                self._pending.append(batch)
            self._number = batch.last
        if self._pending_size >= _MOST:
            self._bring_up_quietly()
        elif self._pending_size >= _TOGETHER:
            self._in_background(self._bring_up_quietly)

    @property
    def is_ready(self) -> bool:
        """Whether it is open, and may be used as it is."""
        return self.store is not None and not self._is_stale

    def awaits(self, pattern: Pattern | None) -> bool:
        """Tell whether what is pending may match a pattern."""
        if not self._pending:
            return False
        return pattern is None or self._is_opaque or self._mentioned().may_match(pattern)

    def _mentioned(self) -> Mentions:
        with self._pending_lock:
            return self._mention()

    def _mention(self) -> Mentions:
        """Bring up what the pending quads speak of. Within the lock."""
        for batch in self._unmentioned:
            self._mentions.add(batch.added)
        self._unmentioned.clear()
        return self._mentions

    def _pack(self) -> None:
        """Let go of pending quads, if there are many. Within the lock; all of them are carried out."""
        if self._unpacked_size >= _UNPACKED:
            self._mention()
            for batch in self._unpacked:
                batch.pack()
            self._unpacked.clear()
            self._unpacked_size = 0

    def bring_up(self) -> None:
        """Open it if it is not there, or not to be used any more, and give it what is pending. Never within the gate.

        Raises `StoreFailed` if that cannot be done, also from the log.
        """
        with self.lock:
            if self._is_closed:
                raise StoreFailed(f"the store {self._log.location} is closed; open it again")
            self._again(self._open_and_apply, is_damaged=True)

    def _again(self, work: Callable[[], _Done], *, is_damaged: bool = False) -> _Done:
        """Return what comes of work with files of the engine, done again if it fails: anybody may delete or damage them, and
        all of it comes from the log. Raises `StoreFailed` if it fails each time."""
        for tries_left in reversed(range(_TRIES)):
            try:
                return work()
            except (OSError, RuntimeError, MemoryError) as error:
                if not tries_left or engine_filling.has_too_many_files(error):
                    raise engine_filling.unreadable(self._log.location, error) from error
                self.forget(is_damaged=is_damaged)
        raise AssertionError("the last try returns or raises")

    def _open_and_apply(self) -> None:
        if not self.is_ready:
            self._open()
        self._apply()

    def _bring_up_quietly(self) -> None:
        with suppress(StoreFailed):  # whoever reads next is told
            self.bring_up()

    def _in_background(self, work: Callable[[], None]) -> bool:
        """Begin some work on a thread, unless one is at work; return whether it was begun."""
        if self._worker is not None and self._worker.is_alive():
            return False
        thread = threading.Thread(target=work, name="trails-index", daemon=True)
        with suppress(RuntimeError, MemoryError):  # no thread may begin just now: a later commit does it
            thread.start()
            self._worker = thread  # not before: who joins it on another thread waits for its end
            return True
        return False

    def _apply(self) -> None:
        """Give the engine what is pending. Doing it twice is allowed: an interrupt may come at any point."""
        with self._pending_lock:  # meanwhile, commits may be packed
            batches = list(self._pending)
            settled = [each for batch in batches for each in batch.settled]
        if not batches:
            return
        assert self.store is not None  # noqa: S101 - whoever calls this has opened it
        added = [quad for each in settled for quad in each.add]
        is_packed = any(each.is_packed for each in settled)
        if is_packed or any(batch.removes for batch in batches) or len(added) >= engine_filling.BULK_FROM:
            records = [each.record for each in settled]
            self.gate.alone(partial(engine_filling.fill, self.store, records))
        else:
            self.store.extend(added)
        self._unsaved += sum(each.size for each in settled)
        self._has_up_to(batches[-1].last)

    def _has_up_to(self, number: int) -> None:
        """Note that it has all records up to a number."""
        with self._pending_lock:
            self._position = number
            while self._pending and self._pending[0].last <= number:
                self._pending.popleft()
            left = set(map(id, self._pending))
            self._unpacked = [batch for batch in self._unpacked if id(batch) in left]
            self._unpacked_size = sum(batch.size for batch in self._unpacked)
            self._mentions, self._unmentioned = Mentions(), list(self._pending)
            self._pending_size = sum(batch.size for batch in self._pending)
            self._is_opaque = any(batch.is_opaque for batch in self._pending)

    # --- opening

    def _open(self) -> None:
        """Open an engine on the newest snapshot that is of this log, and bring in the records that follow."""
        with self._pending_lock:
            self._keeps, until = True, self._number
        private, engine, mark = self._begun(until)
        try:
            with made_anew("making the index") as move:
                unsaved = self._filled(engine, private, mark, until, move)
        except BaseException:
            del engine
            if private is not None:
                private.close()
            raise
        old = self._private

        def put() -> None:
            self.store, self._private, self._unsaved, self._is_stale = engine, private, unsaved, False
            self.read_at, self._is_anew = _read_at(mark, until), False
            self._saved, self._saved_at = mark.number, time.monotonic()

        self.gate.alone(put)
        self._has_up_to(until)
        if old is not None:
            old.close()

    def _filled(self, engine: ox.Store, private: Private | None, start: Mark, until: int, move: Progress | None) -> int:
        """Let an engine have all records up to a number; return how many quads came in since its last snapshot.

        On the way, snapshots are made: whoever is killed goes on from the last one.
        """
        number, digest, unsaved, saved_at = start.number, start.digest, 0, time.monotonic()
        while number < until:
            rows = deque[Unpacked]()
            records = self._log.records(number, until, digest)
            try:
                unsaved += engine_filling.fill(engine, _told(records, start.number, until, move, rows))
            except (SyntaxError, ValueError) as error:
                raise engine_filling.not_ours(self._log.location, number + 1, rows[-1].row.number, error) from error
            number, digest = rows[-1].row.number, rows[-1].row.digest
            if private is not None and number < until and time.monotonic() - saved_at >= _SAVE_SECONDS:
                self._publish(engine, private, Mark(number, digest, self._log.erased, _read_at(start, until)))
                unsaved, saved_at = 0, time.monotonic()
        return unsaved

    def _begun(self, until: int) -> tuple[Private | None, ox.Store, Mark]:
        """Return an engine that holds what a snapshot does, or nothing, and which state that is."""
        nothing = Mark(0, START, 0, 0)
        if self._index is None:
            return None, ox.Store(), nothing
        passed = {each.folder for each in self._index.snapshots()} if self._is_anew else set[Path]()
        while snapshot := next((each for each in self._index.snapshots() if each.folder not in passed), None):
            passed.add(snapshot.folder)  # and look again: another process may put a newer one in its place
            mark = snapshot.mark
            is_ours = mark.number <= until and self._log.home.digest(mark.number) == mark.digest
            if not is_ours or mark.erased < self._log.erased or not self._index.is_whole(snapshot):
                if mark.number <= until:  # else another process is further than this one
                    self._index.discard(snapshot)
                continue
            engine_filling.spare_address_space()
            try:
                private = self._index.open_private(snapshot)
                return private, ox.Store(str(private.quads)), mark
            except (OSError, RuntimeError) as error:
                if engine_filling.has_too_many_files(error):
                    raise
                self._index.discard(snapshot)
        if self._log.home.size() <= _SMALL_FILE:
            return None, ox.Store(), nothing
        engine_filling.spare_address_space()
        private = self._index.open_private(None)
        return private, ox.Store(str(private.quads)), nothing

    def forget(self, *, is_damaged: bool = False) -> None:
        """Have it opened anew before it is next used; if it is damaged, on no snapshot that is there."""
        self._is_stale = True
        if is_damaged and self._index is not None:
            self._index.discard_all()

    def read_anew(self) -> None:
        """Have it made anew from the log, and from no snapshot, before it is next used."""
        self._is_stale = self._is_anew = True

    def is_repaired(self, error: Exception) -> bool:
        """Have it made anew from the log if an error says that its files are damaged; return whether it was."""
        if self._index is None or not engine_filling.is_damage(error):
            return False
        self.forget(is_damaged=True)
        return True

    # --- files

    def copy(self, name: str, *, derives: bool = False) -> Path | None:
        """Return a folder with a copy of its files as it is now, which goes with it; None if it is in memory.

        With `derives`, the copy has what follows from its quads too.
        """
        with self.lock:
            if self._private is None or self.store is None:
                return None
            folder = self._private.folder / name
            try:
                self.store.backup(str(folder))
                if derives:
                    engine_filling.derive(folder)
            except (OSError, RuntimeError):
                return None
            return folder

    def save_soon(self) -> None:
        """Make a snapshot in the background if enough came in since the last one."""
        if self._index is None or self._log.is_read_only or self.store is None:
            return
        unsaved = self._unsaved + self._pending_size
        is_late = time.monotonic() - self._saved_at >= _SNAPSHOT_SECONDS
        if unsaved >= (_SMALL if self._private is None or is_late else _SNAPSHOT_EVERY):
            self._in_background(self._save_quietly)

    def _save_quietly(self) -> None:
        """Make a snapshot, unless another process makes one, or has made one since this one did."""
        with suppress(StoreFailed), self._log.alone_here(_SNAPSHOT) as is_alone:
            newest = (
                0 if self._index is None else max((each.mark.number for each in self._index.snapshots()), default=0)
            )
            if is_alone and newest <= self._saved:
                self._again(self._save)
            else:
                self._saved, self._saved_at, self._unsaved = newest, time.monotonic(), 0

    def save(self) -> int:
        """Publish a snapshot of it as it is now; return the number of its last record. One in memory moves to files then.

        Raises `StoreLocked` if another process of this machine makes one for too long.
        """
        with self._log.alone_here(_SNAPSHOT, patience=_PATIENCE) as is_alone:
            if not is_alone:
                raise StoreLocked(
                    f"another process has been making a snapshot of {self._log.location} for {_PATIENCE:.0f} seconds; wait for it"
                )
            return self._again(self._save)

    def _save(self) -> int:
        with self.lock:
            self.bring_up()
            assert self.store is not None  # noqa: S101 - it was brought up
            if self._index is None:
                return self._position
            private, mark, self._unsaved = self._private, self._mark(), 0
            self._saved, self._saved_at = mark.number, time.monotonic()
            if private is None:
                self._publish_copy(self.store, self._index)
                self._open()
                return mark.number
            files = _copied(self.store, private)
        private.sums = dict(self._index.publish(files, mark, private.sums).sums)
        return mark.number

    def _publish(self, engine: ox.Store, private: Private, mark: Mark) -> None:
        """Make a snapshot of an engine that is being filled, if the disk lets us."""
        if self._index is None or self._log.is_read_only:
            return
        with suppress(OSError, RuntimeError, StoreFailed), self._log.alone_here(_SNAPSHOT) as is_alone:
            if is_alone:
                private.sums = dict(self._index.publish(_copied(engine, private), mark, private.sums).sums)

    def _mark(self) -> Mark:
        return Mark(self._position, self._log.home.digest(self._position) or START, self._log.erased, self.read_at)

    def _publish_copy(self, store: ox.Store, index: IndexFolder) -> None:
        """Write all quads into new files, and make them a snapshot."""
        holder = index.open_private(None)
        try:
            engine_filling.copy_quads(store, holder.folder / "new")
            index.publish(holder.folder / "new", self._mark(), {})
        finally:
            holder.close()

    def rebuild(self) -> int:
        """Write all quads into new files, make them the only snapshot, and go on with that; return how many quads there are.

        No file of the index holds anything then that was deleted.
        """
        return self._again(self._rebuild)

    def _rebuild(self) -> int:
        with self.lock:
            self.bring_up()
            assert self.store is not None  # noqa: S101 - it was brought up
            count = len(self.store)
            if self._index is None:
                return count
            self._index.discard_all()
            if self._private is not None:
                self._publish_copy(self.store, self._index)
                self._open()
            self._index.sweep()
        return count

    def sweep(self) -> None:
        """Remove the files that processes that were killed have left. Raises OSError if the disk does not let us look."""
        if self._index is not None:
            self._index.sweep()

    def others(self) -> tuple[Behind, ...]:
        """Return the engines of other living processes."""
        found = [] if self._index is None else self._index.others(self._private)
        return tuple(Behind(f"{each['host']}:{each['pid']}", each["name"], False, None) for each in found)

    # --- the end

    def join(self) -> None:
        """Wait for what goes on in the background."""
        if self._worker is not None and self._worker is not threading.current_thread():
            self._worker.join()

    def close(self, *, saves: bool) -> None:
        """Let it go, and its files; with `saves`, what opening it again would take long to read is made a snapshot first."""
        if saves and self._private is not None and self._unsaved + self._pending_size >= _SMALL:
            self._save_quietly()
        with self.lock:
            self._is_closed = True
            self.gate.alone(self._drop)

    def _drop(self) -> None:
        private, self.store, self._private = self._private, None, None
        if private is not None:
            private.close()

    def abandon(self) -> None:
        """Keep the engine for ever, in a forked child, and let go of the lock of its files there."""
        engine_filling.keep_for_ever(self.store)
        if self._private is not None:
            self._private.let_go()


def _read_at(begun: Mark, until: int) -> int:
    """Return where the log ended when what an engine begins with was read."""
    return begun.read_at if begun.number else until


def _copied(engine: ox.Store, private: Private) -> Path:
    """Return a folder with a copy of an engine's files, which goes with the engine's own."""
    files = private.folder / "new"
    shutil.rmtree(files, ignore_errors=True)
    engine.backup(str(files))
    return files


def _told(
    rows: Iterable[Unpacked], start: int, end: int, move: Progress | None, last: deque[Unpacked]
) -> Iterator[CommitRecord]:
    """Yield the records of rows until they have `_STEP` bytes of quads, and tell how far they are; `last` gets the last one."""
    size = 0
    for row in rows:
        last.clear()
        last.append(row)
        yield row.record
        size += len(row.record.add)
        if move is not None:
            move(row.row.number - start, end - start, "")
        if size >= _STEP:
            return
