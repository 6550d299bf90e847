"""The packs of one open store: what is read of them, and when they are written and thrown away.

A pack is believed where its session is the one that is asked for and begins at the same index, where the store's log once
reached to the place at which it was written and tells of nothing since that was taken out of the session, and where the
store has the last turn that is read, whose IRI holds the digest over all turns before it. What it lacks is read from the
store. Only the owner of a store writes packs: once a while, of what was committed or read meanwhile.

What is taken out of a store is taken out of its packs before that is acknowledged: a mark stands in the folder meanwhile, by
which all packs are thrown away where a kill leaves it behind.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from pyoxigraph import NamedNode, Quad

from trails.errors import StoreFailed, TrailsError
from trails.files import open_plain, read_plain
from trails.model import iris
from trails.model.lineage import Owner, Segment
from trails.model.values import Turn
from trails.plumbing.index import changes
from trails.plumbing.packs import files
from trails.plumbing.packs.block import Block
from trails.plumbing.packs.erasures import ERASING, Erasures
from trails.rdf import vocab
from trails.store import maintenance, nearby
from trails.store.contract import QuadStore
from trails.store.embedded import EmbeddedStore
from trails.store.leaflog import Leaves
from trails.store.syncing import sync_folder
from trails.store.view import ViewStore

FOLDER: Final = maintenance.PACKS
_MARK: Final = "erasing"
_REACHED: Final = "reached"
"""The file that says how far the store's log reached when packs were last written: where the log never did, the store was put
back to an earlier state, and packs may hold what it never had."""
LEAST: Final = 64
"""Turns of its own from which on a session is packed: fewer are read from the store as quickly."""
_FREE: Final = 64 << 20
"""Bytes that packs leave free on the disk: the store needs them more."""
_HELD: Final = 8 << 20
"""Bytes of turns, about, that wait for the store to rest; twice as many never wait."""
_TURN: Final = 2_000
"""Bytes that a turn takes in memory, about, however little it says."""


_COUNTED: Final = 1_000
"""Runs of turns of which is known that the store has all that packs hold of them."""
_NO_END: Final = 1 << 31


def packs_of(store: QuadStore) -> Packs:
    """Return the packs of a store: those beside its files; none for one in memory."""
    if isinstance(store, ViewStore) and store.folder is not None:
        return Packs(store, _folder(store.folder), writes=False)
    if isinstance(store, EmbeddedStore) and store.beside is not None:
        return Packs(store, _folder(store.beside), writes=True, elsewhere=store)
    return Packs(store, None, writes=False)


def _folder(place: Path) -> Path:
    return place / maintenance.INDEX / FOLDER


def _is_of(block: Block, record: Owner) -> bool:
    """Tell whether a block is of a session, and of one that begins where it does."""
    return (block.session_id, block.starts_at) == (record.id, record.starts_at)


def _last_of(block: Block) -> Quad:
    """Return the quad that says where the last turn of a block stands, which is named by its digest."""
    last, session_iri = block.end - 1, iris.session(block.session_id)
    turn = NamedNode(iris.turn(session_iri, last, block.digest(last)))
    return Quad(turn, vocab.INDEX, vocab.integer(last), NamedNode(session_iri))


def weight(turn: Turn) -> int:
    """Return about how many bytes a turn takes in memory."""
    calls = sum(len(call.arguments or "") for call in turn.facts.tool_calls)
    return _TURN + len(turn.text) + len(turn.facts.meta_json or "") + calls


def _read_turns(stored: Callable[[str, int], Turn], session_id: str, indices: Iterable[int]) -> dict[int, Turn] | None:
    """Return a session's turns at some indices as the store has them; None where one cannot be read."""
    with suppress(ValueError, TrailsError):
        return {index: stored(session_id, index) for index in indices}
    return None


class Moment(NamedTuple):
    """A state of a store, and of what is derived from it."""

    number: int
    """That of the last commit that whoever reads sees."""
    epoch: int
    """See `Packs.epoch`."""


class _Before(NamedTuple):
    """A store before something is taken out of it."""

    reached: Leaves
    erased_at: int
    """See `EmbeddedStore`."""


@dataclass(slots=True)
class _Waiting:
    """Turns that follow on each other in a session, and are not packed yet."""

    starts_at: int
    number: int
    """That of the store's last commit before the first of them was read or written."""
    turns: list[Turn] = field(default_factory=list)


class Packs:
    """The packs of a store. What is in doubt is not used, and what cannot be written is left out: nothing is raised for it."""

    def __init__(
        self, store: QuadStore, folder: Path | None, *, writes: bool, elsewhere: EmbeddedStore | None = None
    ) -> None:
        """Nothing is read or written yet. What is from before texts went `elsewhere` is neither believed nor packed."""
        self._elsewhere = elsewhere
        self._erasures = Erasures()
        self._store = store
        self._folder = folder
        self._writes = writes
        self._lock = threading.RLock()
        self._waiting: dict[str, _Waiting] = {}
        self._held = 0
        self._counted: dict[tuple[str, int, int | None], tuple[object, int | None]] = {}
        self._erasing = 0
        self._pid = os.getpid()
        self.epoch = 0
        """Rises whenever something is taken out of the store: turns that were read before are not packed any more."""

    @property
    def folder(self) -> Path | None:
        """Where the packs are; None where there are none."""
        return self._folder

    # --- reading

    def blocks(self, runs: Sequence[Segment]) -> list[list[Block]]:
        """Return, for each of some runs of sessions' own, the blocks that hold its turns, from its beginning on.

        A run has none where there is doubt. What blocks are held against is looked up once all of them are read: one look-up
        right after another takes a third of the time that it takes after some 100 kB of turns.
        """
        folder = self._usable
        if folder is None:
            return [[] for _ in runs]
        found = [self._read(folder, run) for run in runs]
        doubted = [each for each in found if each]
        while doubted:
            true = self._are_true([each[-1] for each in doubted])
            doubted = [each for each, is_true in zip(doubted, true, strict=True) if not is_true]
            for each in doubted:
                each.pop()
            doubted = [each for each in doubted if each]
        return [each if each and each[0].start <= run.start else [] for each, run in zip(found, runs, strict=True)]

    def last(self, record: Owner) -> Block | None:
        """Return the last block that a pack holds of a session's own turns; None where there is doubt."""
        folder = self._usable
        if folder is None:
            return None
        try:
            last = files.last(files.path_of(folder, record.id))
        except OSError:
            return None
        return last if last is not None and _is_of(last, record) and self._is_true(last) else None

    def note_count(self, run: Segment, token: object, number: int | None) -> None:
        """Take note that the store, when it gave a token, had as many turns in a run as packs hold.

        `number` is that of its last commit then, where it had no turns behind them; else None.
        """
        if len(self._counted) >= _COUNTED:
            self._counted = {}
        self._counted[run.record.id, run.start, run.end] = token, number

    def were_counted(self, run: Segment, token: object) -> bool:
        """Tell whether that was noted of a run, and nothing was removed from the store since."""
        return self._noted_of(run)[0] == token

    def were_all(self, run: Segment, number: int) -> bool:
        """Tell whether it was noted that no turns were behind a run, and nothing was committed since."""
        return self._noted_of(run)[1] == number

    def _noted_of(self, run: Segment) -> tuple[object, int | None]:
        return self._counted.get((run.record.id, run.start, run.end), (None, None))

    @property
    def _usable(self) -> Path | None:
        """The folder of the packs, where they can be believed just now."""
        folder = self._folder
        return None if folder is None or self._erasing or self._may_be_marked(folder) else folder

    @staticmethod
    def _may_be_marked(folder: Path) -> bool:
        """Tell whether the mark stands in the folder, or this process cannot tell, since it may not look into it."""
        try:
            return (folder / _MARK).exists()
        except OSError:
            return True

    @staticmethod
    def _read(folder: Path, run: Segment) -> list[Block]:
        """Return the blocks that a pack has of a run; none where they are not of its session. The store is not asked."""
        end = _NO_END if run.end is None else run.end
        if end <= run.start:
            return []
        try:
            found = files.read(folder, run.record.id, run.start, end)
        except OSError:
            return []
        return found if all(_is_of(each, run.record) for each in found) else []

    def _is_true(self, block: Block) -> bool:
        (true,) = self._are_true([block])
        return true

    def _are_true(self, blocks: Sequence[Block]) -> list[bool]:
        """Tell of each block whether the store is where it was written or beyond, lost nothing of it, and has its last turn."""
        erased_at, log = 0 if self._elsewhere is None else self._elsewhere.erased_at, self._store.log
        reached = {place: place.lines >= erased_at and log.holds(place) for place in {each.place for each in blocks}}
        there = nearby.holds(self._store, [_last_of(each) for each in blocks])
        return [
            has_last and reached[each.place] and not self._erasures.are_after(each.place, each.session_id, log)
            for each, has_last in zip(blocks, there, strict=True)
        ]

    # --- writing

    def now(self) -> Moment:
        """Return what is to be taken down before turns are read or written, and given to `note` with them."""
        return Moment(self._store.number, self.epoch)

    def note(self, record: Owner, turns: Sequence[Turn], since: Moment) -> None:
        """Take note of turns of a session's own that are in the store since a moment, to be packed when there is time."""
        if not self._writes or not turns or turns[0].session_id != record.id:
            return
        with self._lock:
            if self._erasing or since.epoch != self.epoch:
                return
            if record.id in self._waiting and self._waiting[record.id].number < self._erased_with:
                self._drop(record.id)
            held = self._waiting.setdefault(record.id, _Waiting(record.starts_at, since.number))
            if held.turns and (held.starts_at != record.starts_at or held.turns[-1].index + 1 != turns[0].index):
                turns = self._going_on(held, record, turns)
                if not turns:
                    return
                held = self._waiting.setdefault(record.id, _Waiting(record.starts_at, since.number))
            held.number = min(held.number, since.number)
            held.turns += turns
            self._held += sum(map(weight, turns))
            if self._held > 2 * _HELD:
                self.bring_up()

    def _going_on(self, held: _Waiting, record: Owner, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Return those of some turns that come after what is held; what these do not go on from is dropped."""
        end = held.turns[-1].index + 1
        if held.starts_at == record.starts_at and held.turns[0].index <= turns[0].index <= end:
            return turns[end - turns[0].index :]
        self._drop(record.id)
        return turns

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be packed that it is to be written although the store is busy."""
        return self._held > _HELD

    def _drop(self, session_id: str) -> None:
        self._held -= sum(map(weight, self._waiting.pop(session_id).turns))

    def bring_up(self) -> None:
        """Write what waits to be packed."""
        if os.getpid() != self._pid:  # a forked child: another thread of the parent may have held the lock
            return
        with self._lock:
            if not self._waiting or self._erasing or self._folder is None:
                return
            waiting, self._waiting, self._held = self._waiting, {}, 0
            with suppress(OSError, TrailsError, ValueError):  # what was committed is not lost by it
                if (self._folder / _MARK).exists() or shutil.disk_usage(self._folder.parent.parent).free < _FREE:
                    return
                reached = self._store.log.reached
                files.put(self._folder / _REACHED, json.dumps(reached).encode())
                for session_id, each in waiting.items():
                    if each.number >= self._erased_with:
                        self._pack(self._folder, session_id, each, reached)
                        self._unpack(self._folder, session_id, each)

    def _pack(self, folder: Path, session_id: str, waiting: _Waiting, reached: Leaves) -> None:
        path, turns = files.path_of(folder, session_id), waiting.turns
        end = waiting.starts_at
        if path.exists():
            last = files.last(path)
            if last is None or last.starts_at != waiting.starts_at or not self._is_true(last):
                path.unlink()
            else:
                end = last.end
        elif turns[-1].index + 1 - waiting.starts_at < LEAST:
            return
        new = [turn for turn in turns if turn.index >= end]
        if new and new[0].index == end:
            with suppress(ValueError):
                files.extend(path, new, session_id, waiting.starts_at, reached)

    def _unpack(self, folder: Path, session_id: str, waiting: _Waiting) -> None:
        """Remove a pack where others took text out of the store while it was written: they removed those that were there."""
        if waiting.number < self._erased_with:
            files.path_of(folder, session_id).unlink(missing_ok=True)

    @property
    def _erased_with(self) -> int:
        return 0 if self._elsewhere is None else self._elsewhere.erased_with

    # --- upkeep

    @contextmanager
    def erasing(self, stored: Callable[[str, int], Turn]) -> Iterator[None]:
        """Take out of the packs, before this ends, what is taken out of the store meanwhile; on disk, by any name.

        `stored` reads a session's own turn at an index from the store. A pack of which single turns were redacted is written
        anew without them: to read it again from the store takes a hundred times as long.
        """
        if not self._writes or self._folder is None:
            yield
            return
        before = _Before(self._store.log.reached, 0 if self._elsewhere is None else self._elsewhere.erased_at)
        with self._lock, self._in_words():
            self._forget()
            if self._folder.exists():
                self._set_mark(self._folder)
            self._erasing += 1  # nothing is packed meanwhile
        try:
            yield
        finally:
            with self._lock, self._in_words():
                self._forget()
                self._erasing -= 1
                if self._folder.exists():
                    self._take_out(self._folder, before, stored)
                    if not self._erasing:
                        (self._folder / _MARK).unlink(missing_ok=True)

    def _forget(self) -> None:
        with self._lock:
            self._waiting, self._held = {}, 0
            self.epoch += 1

    @staticmethod
    def _set_mark(folder: Path) -> None:
        os.close(open_plain(folder / _MARK, os.O_WRONLY | os.O_CREAT))
        sync_folder(folder)

    def _take_out(self, folder: Path, before: _Before, stored: Callable[[str, int], Turn]) -> None:
        """Rewrite or remove the packs of sessions that are not as they were; of all, where nobody can say which."""
        lines, reached = self._store.log.since(before.reached)
        changed, redacted = changes.of_lines(lines), changes.redacted_turns(lines)
        parents = set()
        for path in files.all_of(folder) if changed is None else ():
            path.unlink()
            parents.add(path.parent)
        for session_id, extent in (changed or {}).items():
            path = files.path_of(folder, session_id)
            if extent in ("redacted", "anew") and path.exists():
                parents.add(path.parent)
                turns = None if extent == "anew" else _read_turns(stored, session_id, redacted[session_id])
                if turns is None or not self._rewrite(path, turns, before, reached):
                    path.unlink()
        for parent in parents:
            sync_folder(parent)

    def _rewrite(self, path: Path, turns: Mapping[int, Turn], before: _Before, reached: Leaves) -> bool:
        """Write a pack anew, with turns that were redacted in it; tell whether it was believed until then, and could be."""
        try:
            made, places = files.rewritten(path, turns, reached)
            if self._were_true(places, next(iter(turns.values())).session_id, before):
                made.replace(path)
                return True
        except (OSError, ValueError):
            pass
        files.new_path(path).unlink(missing_ok=True)
        return False

    def _were_true(self, places: Iterable[Leaves], session_id: str, before: _Before) -> bool:
        """Tell whether what was written as of some places was believed: nothing was taken out of the session since."""
        log, oldest = self._store.log, min(places, key=lambda place: place.lines)
        if before.erased_at > oldest.lines or not all(map(log.holds, places)):
            return False
        lines = log.since(oldest)[0][: max(0, before.reached.lines - oldest.lines)]
        changed = changes.of_lines(line for line in lines if line.startswith(ERASING))
        return changed is not None and session_id not in changed

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreFailed(
                f"the packs of the store {self._store.location} cannot be changed ({error}), and would keep what is taken "
                f"out; remove the folder {self._folder}: it is made again"
            ) from error

    def sweep(self) -> None:
        """Throw away all packs where a kill met somebody who took something out, or where the store is not as it was."""
        if not self._writes or self._folder is None or not os.access(self._folder, os.X_OK):
            return
        if (self._folder / _MARK).exists():
            self.empty()
        elif not self._is_ahead(self._folder / _REACHED):
            with suppress(StoreFailed):  # none of them is believed
                self.empty()

    def _is_ahead(self, path: Path) -> bool:
        """Tell whether the store's log reached to where it was when packs were written."""
        try:
            lines, size, link = json.loads(read_plain(path))
            return self._store.log.holds(Leaves(lines, size, link))
        except (OSError, ValueError, TypeError):
            return False

    def empty(self) -> None:
        """Throw away all packs; they are made again when sessions are written and read."""
        with self._lock:
            self._forget()
            if self._folder is not None and self._writes:
                with self._in_words():
                    if self._folder.exists():
                        shutil.rmtree(self._folder)
                        sync_folder(self._folder.parent)

    def close(self) -> None:
        """Write what waits."""
        self.bring_up()

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is being taken out of the store just now."""
        return not self._erasing

    def there(self) -> Iterator[Path]:
        """Yield the packs that there are."""
        if self._folder is not None:
            yield from files.all_of(self._folder)
