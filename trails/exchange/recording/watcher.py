"""Follow the transcripts of running agents into a store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Final

from trails.errors import InvalidInput, TrailsError
from trails.exchange import formats
from trails.exchange.formats import Format
from trails.exchange.recording import growth, transcript_files
from trails.exchange.recording.file_state import FileRead, FileStates
from trails.exchange.recording.work_recorder import WorkRecorder
from trails.files import as_path
from trails.session import Repository
from trails.session.work_folder import WorkFolder

INTERVAL: Final = 0.5
"""Seconds between two looks, unless a look takes long."""
_SHARE: Final = 10
"""A watcher rests so many times as long as a look at unchanged files takes: it uses at most a tenth of a processor for them."""
_LONGEST_REST: Final = 1.0
_TOGETHER: Final = 32 << 20
"""Bytes of new files of a folder that are read together, so that sessions that copy each other are seen as forks."""
_MOST_PROBLEMS: Final = 10_000
"""How many problems a watcher remembers, so as not to tell them again."""
_SHORT: Final = 0.2
"""Seconds for which a file may be read without a rest after it."""
_LONGEST_WAIT: Final = 35.0
"""Seconds for which what waits is waited for where a watcher ends when it has settled down."""
_AGAIN: Final = (1.0, 30.0)
"""Seconds after which what failed is tried again: at first, and at most; each failure doubles them."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One thing that a watcher did or met."""

    kind: str
    """`recorded` (turns came in), `held` (turns at a file's end wait until they are whole), `problem` (a file, or a line of
    one, cannot be used) or `failed` (the store could not take it; it is tried again)."""
    file: str
    format: str = ""
    sessions: tuple[str, ...] = ()
    """The ids of the sessions that are new or grown, secrets in them masked."""
    turns: int = 0
    line: int = 0
    reason: str = ""
    delay: float | None = None
    """Seconds from the file's last change to the commit; None for files that were there before the watcher."""

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values, ready for JSON."""
        every = {
            "event": self.kind, "file": self.file, "format": self.format, "sessions": list(self.sessions),
            "turns": self.turns, "line": self.line, "reason": self.reason, "delay": self.delay,
        }  # fmt: skip
        return {name: value for name, value in every.items() if value not in ("", 0, None, [])}


@dataclass(slots=True)
class _Failure:
    """A file that could not be read or stored, and when it is tried again."""

    stamp: transcript_files.Stamp
    due: float
    wait: float
    is_of_file: bool
    """Whether the file cannot be read, and not the store be written."""


@dataclass(slots=True)
class Watcher:
    """Follows files and folders into a store: each look brings in what was written since the one before.

    A file is read again only if it changed. What is in the store already never comes in twice, whoever brought it. A line
    that is not whole yet waits, and so does a message at a file's end that may still get more: `settle` seconds after the
    last write, and longer if it cannot be whole as it is.

    >>> import tempfile, trails
    >>> with tempfile.TemporaryDirectory() as folder, trails.open(":memory:") as store:
    ...     line = '{"parentUuid":null,"sessionId":"s","uuid":"u1","type":"user","message":{"role":"user","content":"Hi"}}'
    ...     _ = (Path(folder) / "s.jsonl").write_text(f"{line}\\n")
    ...     watcher = Watcher(store, [folder])
    ...     [(event.kind, event.turns) for event in watcher.look()], list(watcher.look())
    ([('recorded', 1)], [])
    """

    repository: Repository
    paths: Sequence[str | PathLike[str]]
    states: FileStates = field(default_factory=lambda: FileStates(None))
    redact_secrets: bool = False
    by: str | None = None
    settle: float = growth.SETTLE
    files_in: Sequence[str | PathLike[str]] = ()
    """Folders in which the agents work: what becomes of their files is recorded with the turns, see `work_recorder`."""
    _work: WorkRecorder | None = None
    _places: list[Path] = field(init=False)
    _reads: dict[str, FileRead] = field(init=False)
    _failures: dict[str, _Failure] = field(default_factory=dict)
    _rests: dict[str, float] = field(default_factory=dict)
    """When files whose reading takes long are looked at again: they take half of the time at most."""
    _seen_problems: set[tuple[str, int, str]] = field(default_factory=set)
    _seen_files: frozenset[str] = frozenset()
    _looks: int = 0
    _is_following: bool = False
    _began: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self._places = [as_path(path, "what to watch").expanduser().absolute() for path in self.paths]
        if not self._places:
            raise InvalidInput("name at least one file or folder to watch")
        if self.files_in:
            folders = [WorkFolder(as_path(each, "a folder of the work").expanduser()) for each in self.files_in]
            self._work = WorkRecorder(folders, self._began)
        self.states.believe(self.repository)
        self._reads = self.states.all()

    @property
    def files(self) -> int:
        """How many files the last look saw."""
        return len(self._seen_files)

    def follow(self, is_over: Callable[[], bool], rest: Callable[[float], object] = time.sleep) -> Iterator[WatchEvent]:
        """Yield what happens until `is_over` says so; it is asked before each file.

        `rest` waits for the next look, so many seconds or less.
        """
        self._is_following = True
        while not is_over():
            began = time.monotonic()
            busy = False
            for event in self.look(is_over):
                busy = busy or event.kind == "recorded"
                yield event
            spent = time.monotonic() - began
            rest(INTERVAL if busy else min(max(INTERVAL, _SHARE * spent), _LONGEST_REST))

    def settle_down(self, deadline: float, rest: Callable[[float], object] = time.sleep) -> Iterator[WatchEvent]:
        """Yield what happens until nothing waits that comes in within seconds, or until a deadline (`time.monotonic`)."""
        while True:
            yield from self.look()
            now = time.time()
            seen = [read for path, read in self._reads.items() if path in self._seen_files]
            waits = [read.due - now for read in seen if read.due is not None]
            waits += [failure.due - now for failure in self._failures.values() if not failure.is_of_file]
            wait = max(0.0, min(waits, default=_LONGEST_WAIT))
            if wait >= _LONGEST_WAIT or time.monotonic() + wait > deadline:
                return
            rest(wait)

    def look(self, is_over: Callable[[], bool] = lambda: False) -> Iterator[WatchEvent]:
        """Bring in what changed since the last look, and yield what happened."""
        problems: dict[str, str] = {}
        stamps: dict[str, transcript_files.Stamp] = {}
        for path in transcript_files.walk(self._places, problems):
            try:
                stamps[path] = transcript_files.stamp_of(path)
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    problems[path] = f"cannot be read: {error.strerror or error}"
        self._seen_files = frozenset(stamps)
        for path, reason in problems.items():
            yield from self._problem(path, 0, reason)
        self._forget_gone(stamps)
        changed = [path for path, stamp in stamps.items() if self._is_due(path, stamp)]
        # of old files, which nobody waits for, the newest come first
        changed.sort(key=lambda path: -transcript_files.changed_at(stamps[path]))
        for form, unit in self._units(changed, stamps, problems):
            goes_on = True
            while goes_on:  # a long file comes in parts
                if is_over():
                    return
                yield from self._take(form, unit, stamps)
                goes_on = any(self._reads[str(path)].due == 0.0 for path in unit if str(path) in self._reads)
        for path, reason in problems.items():
            yield from self._problem(path, 0, reason)
        self._looks += 1

    def _is_due(self, path: str, stamp: transcript_files.Stamp) -> bool:
        now = time.time()
        if self._is_following and now < self._rests.get(path, 0.0):
            return False
        failure = self._failures.get(path)
        if failure is not None:
            return now >= failure.due
        read = self._reads.get(path)
        return read is None or read.stamp != stamp or (read.due is not None and now >= read.due)

    def _forget_gone(self, stamps: Mapping[str, transcript_files.Stamp]) -> None:
        """Forget files below the watched folders that are not there any more."""
        roots = [str(place) for place in self._places]
        gone = [
            path for path in self._reads
            if path not in stamps and any(path == root or path.startswith(f"{root}/") for root in roots)
        ]  # fmt: skip
        if gone and not any(not place.exists() for place in self._places):
            self.states.forget(gone)
            for path in gone:
                del self._reads[path]
                self._failures.pop(path, None)

    def _units(
        self, changed: Sequence[str], stamps: Mapping[str, transcript_files.Stamp], problems: dict[str, str]
    ) -> Iterator[tuple[Format, list[Path]]]:
        """Yield the files that are read together, of those that changed: the new ones of a folder, or one session's."""
        new: dict[Format, list[Path]] = {}
        taken: set[str] = set()
        unknown: dict[str, FileRead] = {}
        for path in changed:
            known = self._reads.get(path)
            try:
                form = self._format_of(path, stamps[path])
            except FileNotFoundError:
                continue
            except (OSError, TrailsError) as error:
                problems[path] = f"cannot be read: {getattr(error, 'strerror', None) or error}"
                self._fail(path, stamps[path], is_of_file=True)
                continue
            if form is None:
                unknown[path] = FileRead(stamps[path])
            elif known is None or not known.format:
                new.setdefault(form, []).append(Path(path))
            elif path not in taken:
                unit = transcript_files.unit_of(form, Path(path))
                taken.update(map(str, unit))
                yield form, list(unit)
        self._remember(unknown)
        for form, files in new.items():
            yield from self._new_units(form, files, stamps)

    def _format_of(self, path: str, stamp: transcript_files.Stamp) -> Format | None:
        """Return a file's format: of one that only grew, as it was."""
        known = self._reads.get(path)
        if known is not None and known.format and known.stamp[:2] == stamp[:2] and known.stamp[2] <= stamp[2]:
            return formats.format_named(known.format)
        return transcript_files.detect(path)

    def _new_units(
        self, form: Format, files: Sequence[Path], stamps: Mapping[str, transcript_files.Stamp]
    ) -> Iterator[tuple[Format, list[Path]]]:
        databases = [file for file in files if file.name.endswith(transcript_files.DATABASES)]
        yield from ((form, [file]) for file in databases)
        for group in form.groups([file for file in files if file not in databases]):
            size = sum(stamps[str(file)][2] for file in group)
            if len(group) > 1 and size <= _TOGETHER and self._looks == 0:
                yield form, list(group)
                continue
            taken: set[Path] = set()
            for file in group:
                if file not in taken:
                    unit = transcript_files.unit_of(form, file)
                    taken.update(unit)
                    yield form, list(unit)

    def _take(
        self, form: Format, unit: Sequence[Path], stamps: Mapping[str, transcript_files.Stamp]
    ) -> Iterator[WatchEvent]:
        """Bring in files that are read together, and yield what happened."""
        paths = [str(path) for path in unit]
        known = {path: self._reads[path] for path in paths if path in self._reads}
        began = time.monotonic()
        attach = None if self._work is None else self._work.attach
        how = growth.Recording(self.repository, self.redact_secrets, self.by, self.settle, attach)
        try:
            taken = growth.record(how, form, paths, known)
        except FileNotFoundError:  # gone while it was read: the next look sees what is there
            return
        except (OSError, TrailsError) as error:
            is_file = isinstance(error, InvalidInput | OSError)
            for path in paths:
                self._fail(path, stamps.get(path, ()), is_of_file=is_file)
            reason = f"{getattr(error, 'strerror', None) or error}"
            if is_file:
                yield from self._problem(paths[0], 0, reason)
            else:
                yield WatchEvent("failed", paths[0], form.name, reason=reason)
            return
        spent = time.monotonic() - began
        for path in paths:
            self._failures.pop(path, None)
            self._rests.pop(path, None)
            if spent > _SHORT:
                self._rests[path] = time.time() + spent
        self._remember(taken.reads)
        yield from self._events(form, paths[0], taken)
        if self._work is not None:
            while self._work.left_out:
                each = next(iter(self._work.left_out))
                del self._work.left_out[each]
                yield from self._problem(each.path, 0, f"left out of the files: it {each.reason}")

    def _events(self, form: Format, path: str, taken: growth.Taken) -> Iterator[WatchEvent]:
        report = taken.report
        shown = report.shown_ids()
        sessions = [*shown["sessions_created"], *shown["forks_created"], *shown["grown"], *shown["changed"]]
        if report.turns_added:
            changed = max((transcript_files.changed_at(read.stamp) for read in taken.reads.values()), default=0.0)
            delay = None if changed < self._began else round(max(0.0, time.time() - changed), 3)
            distinct = tuple(dict.fromkeys(sessions))
            yield WatchEvent("recorded", path, form.name, distinct, report.turns_added, delay=delay)
        if report.turns_held:
            yield WatchEvent("held", path, form.name, turns=report.turns_held)
        for each in report.problems:
            yield from self._problem(each.file or path, each.line, each.reason)

    def _remember(self, reads: Mapping[str, FileRead]) -> None:
        if reads:
            self._reads.update(reads)
            self.states.keep(reads, self.repository.store.log.reached)

    def _fail(self, path: str, stamp: transcript_files.Stamp, *, is_of_file: bool) -> None:
        before = self._failures.get(path)
        wait = _AGAIN[0] if before is None or before.stamp != stamp else min(before.wait * 2, _AGAIN[1])
        self._failures[path] = _Failure(stamp, time.time() + wait, wait, is_of_file)

    def _problem(self, file: str, line: int, reason: str) -> Iterator[WatchEvent]:
        """Yield a problem that was not told before."""
        key = (file, line, reason)
        if key not in self._seen_problems:
            if len(self._seen_problems) >= _MOST_PROBLEMS:
                self._seen_problems.clear()
            self._seen_problems.add(key)
            yield WatchEvent("problem", file, line=line, reason=reason)
