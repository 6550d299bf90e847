"""Run functions in worker processes, handle Ctrl-C while threads work, and pause garbage collection.

Each worker process applies one function of a module to the items that it is given. Workers are new Python processes. They are not
forks, because an engine and its threads do not survive one, and not `multiprocessing`'s, because that runs the user's main module
again. Values are pickled and sent through pipes that no other process has.

Python raises `KeyboardInterrupt` between any two steps of the main thread, also between taking a lock that it shares with a
pool's threads and the block that releases it. Then the threads would wait for ever. So an interrupt is noted at once, and raised
at a point where nothing is half done.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from contextlib import contextmanager, suppress
from queue import Empty, Queue, SimpleQueue
from types import FrameType
from typing import IO, Any, Final, TypeVar

_LENGTH: Final = struct.Struct("<Q")
_START: Final = "from trails.workers import serve; serve()"
_PATIENCE: Final = 5.0
"""Seconds that a process is waited for which was told to end."""


_LOOK: Final = 0.2
"""Seconds after which the main thread looks whether it was interrupted, while it waits for threads."""


_Answer = tuple[Any, Any] | BaseException
_Done = TypeVar("_Done")


class WorkersFailed(Exception):
    """A process ended or failed before it gave its answer: what is left must be done in this one."""


def count() -> int:
    """Return how many processes are worth having beside this one, which waits for them: 0 where there is one core, or no
    Python to start."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if cores > 1 and is_python() else 0


def is_python() -> bool:
    """Tell whether there is a Python to start: not where this one is part of a program that was frozen."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def each(begin: str, given: Any, pieces: Sequence[Any], processes: int, *, ahead: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield (piece, answer) for each piece, in the order in which they are done; with one process, as they are given.

    No more than `ahead` answers wait for the one who asks for them (0: as many as there are). `begin` is `module:function`:
    called with `given` in each process, it returns the function that is called with pieces. Raises `WorkersFailed` where a
    process does not answer; nothing is left running when this ends, however it does.
    """
    wanted: SimpleQueue[Any] = SimpleQueue()
    for piece in pieces:
        wanted.put(piece)
    done: Queue[_Answer] = Queue(ahead)
    running: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(min(processes, len(pieces))):
            running.append(started(_START))  # noqa: PERF401 - those that were started end, where one cannot be
        threads = [_fed(process, begin, given, wanted, done) for process in running]
        for _ in pieces:
            answer = done.get()
            if isinstance(answer, BaseException):
                raise WorkersFailed(f"{answer}") from answer
            yield answer
        for thread, process in zip(threads, running, strict=True):
            thread.join()
            _let_end(process)
    finally:
        for process in running:
            _ended(process)
        while True:  # a thread may wait until there is room for its answer
            try:
                done.get_nowait()
            except Empty:
                break


def started(code: str) -> subprocess.Popen[bytes]:
    """Return a process of this Python that runs some code, with pipes to and from it; raise `WorkersFailed`."""
    if not is_python():
        raise WorkersFailed("no process can be started: there is no Python to be found")
    paths = [os.path.abspath(path) for path in sys.path]  # noqa: PTH100 - "" is where this process was started
    try:
        return subprocess.Popen(  # noqa: S603 - this very Python
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
    except OSError as error:
        raise WorkersFailed(f"no process can be started: {error}") from error


def _fed(
    process: subprocess.Popen[bytes],
    begin: str,
    given: Any,
    wanted: SimpleQueue[Any],
    done: Queue[_Answer],
) -> threading.Thread:
    """Start the thread that hands a process its pieces, one after the other."""

    def feed() -> None:
        try:
            assert process.stdin is not None  # noqa: S101 - both are pipes
            assert process.stdout is not None  # noqa: S101
            _send(process.stdin, (begin, given))
            while True:
                try:
                    piece = wanted.get_nowait()
                except Empty:
                    return
                _send(process.stdin, piece)
                done.put((piece, _received(process.stdout)))
        except BaseException as error:  # noqa: BLE001 - whoever waits for answers must hear of it
            done.put(error)

    thread = threading.Thread(target=feed, name="trails-worker", daemon=True)
    thread.start()
    return thread


def _let_end(process: subprocess.Popen[bytes]) -> None:
    """Let a process that has nothing more to do clear up behind itself."""
    with suppress(OSError, subprocess.TimeoutExpired):
        if process.stdin is not None:
            process.stdin.close()
        process.wait(_PATIENCE)


def _ended(process: subprocess.Popen[bytes]) -> None:
    """End a process: one that is at work is killed, since nobody waits for its answer any more."""
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE)
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError, ValueError):
            if pipe is not None:
                pipe.close()


def _send(pipe: IO[bytes], value: Any) -> None:
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def _received(pipe: IO[bytes]) -> Any:
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise WorkersFailed("a process ended before it was done")
    (size,) = _LENGTH.unpack(head)
    data = pipe.read(size)
    if len(data) < size:
        raise WorkersFailed("a process ended before it was done")
    return pickle.loads(data)  # noqa: S301 - of a process that this one started


def serve() -> None:
    """Do what comes through the standard input, in a process that `each` started, until there is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both: the one that waits ends this one
    given, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what is printed is no answer
    gc.disable()  # what is made here has no circles, and goes with its piece
    work: Callable[[Any], Any] | None = None
    for value in _values(given):
        if work is None:
            begin, first = value
            module, _, name = begin.partition(":")
            work = getattr(__import__(module, fromlist=[name]), name)(first)
        else:
            _send(answers, work(value))


def _values(pipe: IO[bytes]) -> Iterable[Any]:
    with suppress(WorkersFailed):
        while True:
            yield _received(pipe)


@contextmanager
def hold_interrupts(stop: Callable[[], object] | None = None) -> Iterator[Callable[[], None]]:
    """Give what raises an interrupt that came meanwhile, for where nothing is half done; the block's end does it too.

    `stop` is called as soon as it comes, amid whatever the main thread does, so it takes no lock that is shared with another
    thread. A second interrupt is raised at once, for whoever does not want to wait. In a thread that gets none, and where
    the host has a handler of its own, nothing is held back.

    >>> with hold_interrupts() as give_way:
    ...     give_way()
    """
    came = False

    def take(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            signal.default_int_handler(number, frame)
        came = True
        if stop is not None:
            stop()

    def give_way() -> None:
        if came:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread() or not _is_default():
        yield give_way
        return
    signal.signal(signal.SIGINT, take)
    try:
        yield give_way
        give_way()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def completed(futures: Iterable[Future[_Done]]) -> Iterator[Future[_Done]]:
    """Yield what threads do as each is done, and let an interrupt be handled meanwhile.

    An interrupt that comes just before the main thread begins to wait does not end that wait, so no wait is long.
    """
    waiting = set(futures)
    while waiting:
        with suppress(TimeoutError):
            for future in as_completed(waiting, timeout=_LOOK):
                waiting.discard(future)
                yield future


def _is_default() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


_SELDOM_THRESHOLD: Final = 20_000
"""New values after which it looks, for Python's 700: that is a fifth of an import's time where a program has imported much."""


_lock: Final = threading.Lock()
_before: Final[list[tuple[int, int, int]]] = []
"""What Python's thresholds were, once for each block that is under way."""


@contextmanager
def collect_seldom() -> Iterator[None]:
    """Have Python's collector look less often within a block, on all threads; it is as before once the last one has ended.

    Where it looks as seldom already, or not at all, it is left alone, and so is whatever somebody sets meanwhile.
    """
    with _lock:
        _before.append(_before[0] if _before else gc.get_threshold())
        if len(_before) == 1 and 0 < _before[0][0] < _SELDOM_THRESHOLD:
            gc.set_threshold(_SELDOM_THRESHOLD, *_before[0][1:])
    try:
        yield
    finally:
        with _lock:
            before = _before.pop()
            if not _before and gc.get_threshold() == (_SELDOM_THRESHOLD, *before[1:]):
                gc.set_threshold(*before)
