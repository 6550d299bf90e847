"""Asking queries from outside in processes that can be ended: one query at a time in each, and a few processes for all stores.

A process keeps what it was asked of last, so that the next query of the same finds it open.
"""

from __future__ import annotations

import atexit
import math
import os
import pickle
import select
import shutil
import signal
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

import pyoxigraph as ox

from trails import workers
from trails.errors import InvalidInput, QueryEnded, QueryTimeout, QueryTooLarge, TrailsError
from trails.rdf import query_guard
from trails.store import tsv
from trails.store.contract import Result, Solutions, Triples
from trails.store.queries import query_worker
from trails.store.queries.query_worker import FRAME, Request
from trails.store.queries.written_answers import Formats

TIMEOUT: Final = 300.0
"""Seconds for a query from outside where nobody says how many."""
MEMORY: Final = 128
"""MiB that a query with a limit may take, where nobody says how many."""
ANSWER: Final = 32 << 20
"""Bytes of an answer that is held whole, where memory is limited."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What queries from outside may take; None is the default."""

    timeout: float | None = None
    max_rows: int | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidInput` for what is no limit."""
        timeout: object = self.timeout
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0
        ):
            raise InvalidInput(f"timeout is a number of seconds above 0 (math.inf: no limit), not {timeout!r:.80}")
        for name in ("max_rows", "memory"):
            value: object = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                what = "a number of rows" if name == "max_rows" else "a number of MiB"
                raise InvalidInput(f"{name} is {what}, 1 or more, not {value!r:.80}")

    def over(self, default: QueryLimits) -> QueryLimits:
        """Return these limits, with those of a default where there is none."""
        pairs = ((getattr(self, name), getattr(default, name)) for name in self.__slots__)
        return QueryLimits(*(own if own is not None else other for own, other in pairs))

    @property
    def is_set(self) -> bool:
        """Whether there is any limit."""
        return self != QueryLimits()

    @property
    def seconds(self) -> float:
        """The seconds that a query may take; infinite where there is no limit."""
        return TIMEOUT if self.timeout is None else float(self.timeout)

    @property
    def bytes(self) -> int | None:
        """The bytes that a query may take in its process; None where there is no limit."""
        if self.memory is not None:
            return self.memory * _MIB
        limited = self.max_rows is not None or (self.timeout is not None and not math.isinf(self.timeout))
        return MEMORY * _MIB if limited else None

    @property
    def answer(self) -> int | None:
        """The bytes that an answer may have which is held whole; None where there is no limit."""
        size = self.bytes
        return None if size is None else max(ANSWER, size // 4)


NO_LIMITS: Final = QueryLimits()


MOST: Final = 4
"""Queries at a time, where nobody allows more; the next one waits."""
_START: Final = "from trails.store.queries.query_worker import serve; serve()"
_OPENING: Final = 600.0
"""Seconds after which a process that does not open what it is given is given up."""
_LOOK: Final = 0.05
"""Seconds after which whoever waits looks whether anybody still wants the answer."""
_STANDS_BACK: Final = 1.0
"""Seconds after which a query lets others have the processor first."""
_NICE: Final = 10
_BLOATED: Final = 24 << 20
"""Bytes that a process may have kept of a query, until it is ended for that."""
_PART: Final = 1 << 16
_SIZE: Final = struct.Struct("<I")


class NoProcess(TrailsError):
    """No process can be started here, or none reads what it is given."""


class Source:
    """What a store holds at one moment, for a process to read: a folder of the engine's files, or quads that are sent."""

    def __init__(
        self,
        location: str,
        owner: object,
        version: object,
        *,
        dump: Callable[[IO[bytes]], object],
    ) -> None:
        """`owner` stands for the store, `version` for the moment."""
        self.location = location
        self.owner = weakref.ref(owner)  # the same one for each source of a store, which may go
        self.version = version
        self.folder: str | None = None
        self.dump = dump

    def keep(self, folder: Path) -> None:
        """Have a copy of the engine's files read, which is removed with this."""
        self.folder = str(folder)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


class _Process:
    """A process, and what it has open."""

    def __init__(self) -> None:
        self.source: Source | None = None
        self.opened_with = 0
        """The bytes of memory that it took once its source was open."""
        self.ended: TrailsError | None = None
        """Why it was ended, if somebody did."""
        self._long_from = math.inf
        """When its query will be a long one, by the clock."""
        try:
            self.process = workers.started(_START)
        except workers.WorkersFailed as error:
            raise NoProcess(f"queries with a limit run in a process of their own, and {error}") from error
        assert self.process.stdin is not None  # noqa: S101 - both are pipes
        assert self.process.stdout is not None  # noqa: S101
        self._given, self._answers = self.process.stdin, self.process.stdout.fileno()
        self._unread = bytearray()
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)

    def send(self, request: Request) -> None:
        """Give it a request; raise OSError where it is gone."""
        self._long_from = time.monotonic() + _STANDS_BACK if "text" in request else math.inf
        data = pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL)
        self._given.write(_SIZE.pack(len(data)) + data)
        self._given.flush()

    def send_quads(self, source: Source) -> None:
        """Give it all quads of a source."""
        source.dump(cast(IO[bytes], _Parts(self._given)))
        self._given.write(_SIZE.pack(0))
        self._given.flush()

    def received(self, deadline: float, left: threading.Event | None) -> tuple[bytes, bytes] | None:
        """Return the kind and the data of the next part; None where the process is gone.

        Raises `QueryTimeout`, without a message, after the deadline, and `QueryEnded` once nobody waits any more.
        """
        size = FRAME.size
        while True:
            if len(self._unread) >= FRAME.size:
                kind, length = FRAME.unpack_from(self._unread)
                size = FRAME.size + length
                if len(self._unread) >= size:
                    data = bytes(memoryview(self._unread)[FRAME.size : size])
                    del self._unread[:size]
                    return kind, data
            now = time.monotonic()
            patience = deadline - now
            if patience <= 0:
                raise QueryTimeout("")
            if now > self._long_from:
                self._stand_back()
            if left is not None and left.is_set():
                raise QueryEnded("nobody waits for the query any more")
            if self._poll.poll(min(patience, _LOOK) * 1000):
                part = os.read(self._answers, max(_PART, size - len(self._unread)))
                if not part:
                    return None
                self._unread += part

    def _stand_back(self) -> None:
        """Have a long query take the processor only where nobody else wants it: the next one has another thread."""
        self._long_from = math.inf
        with suppress(OSError):  # the process may be gone, and not every system has this
            for thread in (int(task.name) for task in Path(f"/proc/{self.process.pid}/task").iterdir()):
                if thread != self.process.pid:
                    os.setpriority(os.PRIO_PROCESS, thread, _NICE)

    def kill(self, why: TrailsError | None = None) -> None:
        """End it at once."""
        self.ended = self.ended or why
        self.process.kill()

    def gone(self) -> int:
        """Return by which signal it went, 0 for none, once it is gone and nothing of it is left."""
        self.process.kill()
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self.source = None
        return max(0, -code)

    def drop(self) -> None:
        """Have it let go of what it has open."""
        self.source = None
        self.send({"folder": None})
        self._given.write(_SIZE.pack(0))
        self._given.flush()
        if self.received(time.monotonic() + 1, None) is None:
            raise BrokenPipeError

    @property
    def memory(self) -> int:
        """The bytes that it takes; 0 where the system does not tell."""
        with suppress(OSError, ValueError):
            told = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii")
            return int(told.split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return 0


class _Parts:
    """A file to be written, which is sent in parts."""

    def __init__(self, given: IO[bytes]) -> None:
        self._given = given

    def write(self, data: bytes) -> int:
        """Send some."""
        data = bytes(data)
        if data:
            self._given.write(_SIZE.pack(len(data)) + data)
        return len(data)

    def flush(self) -> None:
        """It is flushed in the end."""


class _Pool:
    """The processes of this one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._idle: list[_Process] = []
        self._busy: dict[_Process, object] = {}
        """The owner of what each is asked of."""
        self.most = MOST

    def taken(self, source: Source, deadline: float, left: threading.Event | None) -> _Process:
        """Return a process for one query: one that has its source open, if there is one."""
        with self._changed:
            while not self._idle and len(self._busy) >= self.most:
                patience = deadline - time.monotonic()
                if patience <= 0 or (left is not None and left.is_set()):
                    raise QueryTimeout("")
                self._changed.wait(min(patience, _LOOK))
            having = (each for each in self._idle if _has(each, source))
            process = next(having, self._idle[-1] if self._idle else None)
            if process is None:
                process = _Process()
            else:
                self._idle.remove(process)
            self._busy[process] = source.owner
            return process

    def give_back(self, process: _Process, *, well: bool) -> int:
        """Let others have a process, or end it where it is not well; return the signal by which it went."""
        is_kept = well and process.ended is None
        code = 0 if is_kept else process.gone()
        with self._changed:
            self._busy.pop(process, None)
            if is_kept and process.ended is None:
                self._idle.append(process)
            elif is_kept:
                process.gone()
            self._changed.notify()
        return code

    def end(self, owner: object, error: QueryEnded, patience: float) -> None:
        """End all queries of a store that are not done after some seconds, and have nothing of it open any more."""
        deadline, owner = time.monotonic() + patience, weakref.ref(owner)
        with self._changed:
            while (busy := [each for each, of in self._busy.items() if of is owner]) and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())
            for each in busy:
                each.kill(error)
            idle = [each for each in self._idle if each.source is not None and each.source.owner is owner]
            for each in idle:
                self._idle.remove(each)
                try:
                    each.drop()
                except (
                    BaseException
                ) as failure:  # an interrupt too: the next query would read what this one was answered
                    each.gone()
                    if not isinstance(failure, OSError | TrailsError):
                        raise
                else:
                    self._idle.append(each)

    def close(self) -> None:
        """End all of them."""
        with self._changed:
            for each in (*self._idle, *self._busy):
                each.kill()
            for each in self._idle:
                each.gone()
            self._idle.clear()


_pool = _Pool()


def _anew() -> None:
    global _pool  # noqa: PLW0603 - the parent's processes are none of a forked child's
    _kept.append(_pool)
    _pool = _Pool()


_kept: Final[list[_Pool]] = []
"""A parent's: their pipes stay open in a forked child, and nothing is ended from there."""
os.register_at_fork(after_in_child=_anew)


@atexit.register
def _close() -> None:
    _pool.close()


def _has(process: _Process, source: Source) -> bool:
    held = process.source
    return held is not None and held.owner is source.owner and held.version == source.version


def allow(count: int) -> None:
    """Let so many queries run at a time, if that is more than may now."""
    _pool.most = max(_pool.most, count)


def end(owner: object, error: QueryEnded, patience: float = 0.0) -> None:
    """End the queries of a store that are not done after some seconds, with an error for who asked, and let go of it."""
    _pool.end(owner, error, patience)


class Answer:
    """An answer that is still coming. It must be read to its end, or closed, on any thread."""

    def __init__(
        self,
        source: Source,
        text: str,
        limits: QueryLimits,
        *,
        dataset: dict[str, Any],
        is_free: bool = False,
        formats: Formats | None = None,
        base: str | None = None,
        on_begin: Callable[[], object] | None = None,
    ) -> None:
        """Ask a text, which `query_guard.check_text` has accepted. Where `is_free`, the dataset counts only where
        the text names none. With `formats` the answer comes in the one for its form. Relative IRIs in it are
        relative to `base`. `on_begin` is called once it runs: before that, a process may have to be started.

        Raises `NoProcess` where there is none to ask, else as `parts` does.
        """
        self.limits = limits
        self.more = False
        """Whether there were more rows than were wanted; known in the end."""
        self._pool, self._source = _pool, source
        self._left = query_guard.left.get()
        self._begun = time.monotonic()
        self._deadline = self._begun + limits.seconds
        self._process: _Process | None = None
        with self._failing():
            self._send(
                source,
                {
                    "text": text,
                    "dataset": dataset,
                    "is_free": is_free,
                    "seconds": limits.seconds,
                    "max_rows": limits.max_rows,
                    "memory": limits.bytes,
                    "formats": formats,
                    "base": base,
                },
            )
            if on_begin is not None:
                on_begin()
            kind, data = self._next()
        assert kind == query_worker.HEAD  # noqa: S101 - it comes first
        self.form: tuple[str, ...] | bool | None = pickle.loads(data)  # noqa: S301 - of a process that this one started
        """The variables of a SELECT, the answer of an ASK, None for triples."""
        if isinstance(self.form, bool) and formats is None:
            for _ in self.parts():
                pass

    def _send(self, source: Source, request: Request) -> None:
        """Give a request to a process that has the source open; an idle one may have gone meanwhile."""
        for _ in range(self._pool.most + 1):
            process = self._process = self._pool.taken(source, self._deadline, self._left)
            try:
                if not _has(process, source):
                    self._give(process, source)
                process.send(request)
                return
            except OSError:
                self._let_go(well=False)
                if process.ended is not None:
                    raise process.ended from None
        raise NoProcess(f"the processes for queries of {source.location} go away before they can read it")

    def _give(self, process: _Process, source: Source) -> None:
        """Have a process open a source; it takes none of the query's time."""
        begun = time.monotonic()
        process.source = source
        unreadable = ""
        for folder in (source.folder, None) if source.folder is not None else (None,):
            process.send({"folder": folder})
            if folder is None:
                process.send_quads(source)
            kind, data = process.received(begun + _OPENING, self._left) or (b"", b"")
            if not kind:
                raise BrokenPipeError("it ended")
            if kind == query_worker.OPENED:
                break
            unreadable = pickle.loads(data)  # noqa: S301 - of a process that this one started
        else:
            raise NoProcess(f"the process for queries cannot read {source.location}: {unreadable}")
        process.opened_with = process.memory
        self._begun = time.monotonic()
        self._deadline = self._begun + self.limits.seconds

    def parts(self) -> Iterator[bytes]:
        """Yield the answer as it comes: in the format for its form, else TSV, or N-Triples.

        Raises `QueryTimeout`, `QueryTooLarge`, `QueryEnded`, and what is wrong with the query.
        """
        while True:
            with self._failing():
                kind, data = self._next()
            if kind == query_worker.END:
                self.more = pickle.loads(data)  # noqa: S301 - of a process that this one started
                assert self._process is not None  # noqa: S101 - it is given back here
                self._let_go(well=self._process.memory - self._process.opened_with < _BLOATED)
                return
            yield data

    def _next(self) -> tuple[bytes, bytes]:
        process = self._process
        if process is None:
            raise QueryEnded("the answer was closed")
        found = process.received(self._deadline, self._left)
        if found is None:
            code = self._let_go(well=False)
            raise process.ended or self._fallen(code)
        if found[0] == query_worker.ERROR:
            self._let_go(well=True)
            error = pickle.loads(found[1])  # noqa: S301 - of a process that this one started
            raise self.too_large() if isinstance(error, MemoryError) else error
        return found

    def _fallen(self, code: int) -> TrailsError:
        if code in (signal.SIGABRT, signal.SIGBUS):  # how the engine ends where it gets no memory
            return self.too_large()
        if code == signal.SIGALRM:
            return self._timeout()
        how = f"by {signal.Signals(code).name}" if code else "by itself"
        return TrailsError(f"the query in {self._source.location} failed: the process that it ran in ended {how}")

    def _timeout(self) -> QueryTimeout:
        return QueryTimeout(
            f"the query in {self._source.location} was ended after {time.monotonic() - self._begun:.1f} seconds, of "
            f"{self.limits.seconds:g} that it may take: name more in it (a session's graph, a type), add a LIMIT within the "
            "part that is large, or give it a longer timeout="
        )

    def too_large(self, held: int | None = None) -> QueryTooLarge:
        """Return the error for a query that takes more memory than it may, or whose answer has more bytes."""
        what = (
            f"took more than {(self.limits.bytes or 0) >> 20} MiB of memory"
            if held is None
            else f"has an answer of more than {held >> 20} MiB"
        )
        return QueryTooLarge(
            f"the query in {self._source.location} {what} and was ended: add a LIMIT, sort and group less, read it row "
            "by row (store.rows), or allow more (query_memory=MIB at trails.open)"
        )

    def _failing(self) -> _Failing:
        return _Failing(self)

    def close(self) -> None:
        """End the query where it still runs. Twice is allowed."""
        self._let_go(well=False)

    def _let_go(self, *, well: bool) -> int:
        process, self._process = self._process, None
        return 0 if process is None else self._pool.give_back(process, well=well)

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.close()


class _Failing:
    """What is raised within, an interrupt too, ends the query; a time that is over gets its message."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        process = self._answer._process
        self._answer.close()
        if process is not None and process.ended is not None:
            raise process.ended from None
        if isinstance(error, QueryTimeout) and not error.message:
            raise self._answer._timeout() from None
        if isinstance(error, OSError):
            raise TrailsError(f"the process that a query ran in went away: {error}") from error


def result(answer: Answer) -> Result:
    """Return a whole answer, which is held as the text that came until its rows are asked for."""
    if isinstance(answer.form, bool):
        return answer.form
    most, held = answer.limits.answer, bytearray()
    if most is not None and answer.form is None:
        most //= 4  # triples take many times their text
    for part in answer.parts():
        held += part
        if most is not None and len(held) > most:
            answer.close()
            raise answer.too_large(most)
    if answer.form is None:
        triples = Triples(quad.triple for quad in ox.parse(bytes(held), format=ox.RdfFormat.N_TRIPLES))
        triples.truncated = answer.more
        return triples
    return Solutions(answer.form, written=tsv.Lines(held), truncated=answer.more)


class Rows(Iterator[ox.QuerySolution]):
    """The rows of a SELECT, read one after the other while they are found. Read them all, or use `with` or `close`."""

    def __init__(self, answer: Answer, variables: tuple[str, ...]) -> None:
        """`store.rows` makes them."""
        self.variables = variables
        """The names of the columns."""
        self._answer = answer
        self._rows = self._read()

    def _read(self) -> Iterator[ox.QuerySolution]:
        unread = b""
        is_first = True
        for part in self._answer.parts():
            *lines, unread = (unread + part).split(b"\n")
            if is_first and lines:
                is_first, lines = False, lines[1:]
            yield from tsv.parsed(self.variables, [line.decode().split("\t") for line in lines])

    def __next__(self) -> ox.QuerySolution:
        return next(self._rows)

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Rows {' '.join('?' + name for name in self.variables)}>"

    @property
    def truncated(self) -> bool:
        """Whether there were more rows than `max_rows`; known once all are read."""
        return self._answer.more

    def close(self) -> None:
        """End the query where it still runs. Twice is allowed."""
        self._answer.close()
