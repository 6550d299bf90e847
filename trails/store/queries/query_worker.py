"""The process that queries from outside run in: it may be killed at any time, and the store notices nothing.

It is given a folder of the engine's files to read, or quads to load, and then queries. Answers go back while they are found.
"""

from __future__ import annotations

import math
import os
import pickle
import resource
import select
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, TypedDict, cast

import pyoxigraph as ox

from trails.errors import InvalidInput, TrailsError
from trails.rdf import query_guard, vocab
from trails.store.queries import written_answers
from trails.store.queries.written_answers import Formats, Full, QueryAnswer

FRAME: Final = struct.Struct("<cI")
"""What goes before each part: its kind, and how many bytes follow."""
OPENED: Final = b"o"
"""What was given is open, or loaded."""
HEAD: Final = b"h"
"""The form of an answer: a list of variables, `True` or `False`, or None for triples (pickled)."""
DATA: Final = b"d"
"""Some of the answer: TSV or N-Triples."""
END: Final = b"e"
"""The answer's end: whether there was more (pickled)."""
ERROR: Final = b"x"
"""An error of the query (pickled)."""
UNREADABLE: Final = b"u"
"""What was given cannot be opened (pickled text)."""
_GRACE: Final = 5.0
"""Seconds after its time in which a query is ended by who asked; after that this process ends by itself."""


class Request(TypedDict, total=False):
    """A query, or what it is to be asked of."""

    folder: str | None
    """A folder to be opened; None where quads follow, as parts that end with an empty one."""
    text: str
    dataset: dict[str, Any]
    """How the engine is asked. Nothing of it counts where the text names graphs itself and `is_free` is True."""
    is_free: bool
    base: str | None
    """What relative IRIs in the text are relative to; None where there may be none."""
    seconds: float
    max_rows: int | None
    memory: int | None
    formats: Formats | None
    """In which formats the answer is written, and refused as a whole where it has more rows; None: TSV or N-Triples."""


def serve() -> None:
    """Answer what comes through the standard input until there is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both: the one that waits ends this one
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.dup(1)
    os.dup2(2, 1)  # what is printed is no answer
    threading.Thread(target=_end_with_parent, daemon=True).start()
    engine = ox.Store()
    with os.fdopen(os.dup(0), "rb") as given:
        while (request := _received(given)) is not None:
            if "text" in request:
                _answer(engine, request, answers)
                continue
            del engine  # before the next one takes memory
            engine = ox.Store()
            try:
                engine = _opened(request["folder"], given)
                _send(answers, OPENED)
            except (OSError, RuntimeError, ValueError, MemoryError) as error:
                _send(answers, UNREADABLE, pickle.dumps(f"{error}"))


def _end_with_parent() -> None:
    """End this process when nobody can ask any more, whatever it does just then."""
    watch = select.poll()
    watch.register(0, 0)
    watch.poll()  # the other end of the pipe was closed
    os._exit(0)


def _received(given: IO[bytes]) -> Request | None:
    size = given.read(4)
    if len(size) < 4:
        return None
    request: Request = pickle.loads(given.read(int.from_bytes(size, "little")))  # noqa: S301 - of who started this
    return request


def _opened(folder: str | None, given: IO[bytes]) -> ox.Store:
    if folder is not None:
        return ox.Store.read_only(folder)
    engine = ox.Store()
    engine.bulk_load(cast(IO[bytes], _Parts(given)), ox.RdfFormat.N_QUADS)
    return engine


class _Parts:
    """A file to be read, which comes in parts."""

    def __init__(self, given: IO[bytes]) -> None:
        self._parts = self._all(given)
        self._rest = b""

    @staticmethod
    def _all(given: IO[bytes]) -> Iterator[bytes]:
        while size := int.from_bytes(given.read(4), "little"):
            yield given.read(size)

    def read(self, size: int = -1) -> bytes:
        """Return up to so many bytes; nothing at the end."""
        if not self._rest:
            self._rest = next(self._parts, b"")
        taken, self._rest = (self._rest, b"") if size < 0 else (self._rest[:size], self._rest[size:])
        return taken


def _answer(engine: ox.Store, request: Request, answers: int) -> None:
    text = request["text"]
    if not math.isinf(request["seconds"]):
        signal.setitimer(signal.ITIMER_REAL, request["seconds"] + _GRACE)  # without a handler that ends the process
    try:
        query_guard.judged(text, lambda: _within(request["memory"], lambda: _ask(engine, request, answers)))
        more = False
    except Full:
        more = True
    except Exception as error:  # noqa: BLE001 - whoever asked gets it
        _send(answers, ERROR, _pickled(error))
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    _send(answers, END, pickle.dumps(more))


def _pickled(error: Exception) -> bytes:
    if isinstance(error, TrailsError | MemoryError):
        error.__cause__ = error.__context__ = None
        return pickle.dumps(error)
    return pickle.dumps(TrailsError(f"the query failed: {error}"))


def _within(memory: int | None, work: Callable[[], None]) -> None:
    """Do some work that may take so many bytes more than there are now. If it takes more, the process ends.

    The stack of the thread that this is called on is there already: of a long query it is larger than most limits.
    """
    if memory is None:
        work()
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (_data() + memory, hard))
        work()
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _data() -> int:
    """Return how many bytes of memory this process has asked for; a great many where the system does not tell."""
    try:
        with Path("/proc/self/status").open(encoding="ascii") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData:"))
    except (OSError, StopIteration):
        return 1 << 40


def _ask(engine: ox.Store, request: Request, answers: int) -> None:
    text, dataset, most = request["text"], request["dataset"], request["max_rows"]
    if request["is_free"] and query_guard.names_graphs(text):
        dataset = {}
    try:
        result = engine.query(text, prefixes=vocab.PREFIXES, base_iri=request.get("base"), **dataset)
    except SyntaxError as error:
        raise InvalidInput(f"the query is not valid SPARQL: {error}") from error
    _send(answers, HEAD, pickle.dumps(_form(result)))
    formats = request.get("formats")
    if formats is not None:
        written_answers.write(result, formats, lambda data: _send(answers, DATA, data), most)
    elif isinstance(result, ox.QuerySolutions):
        result.serialize(cast(IO[bytes], _Sink(answers, most, 1)), format=ox.QueryResultsFormat.TSV)
    elif isinstance(result, ox.QueryTriples):
        result.serialize(cast(IO[bytes], _Sink(answers, most, 0)), format=ox.RdfFormat.N_TRIPLES)


def _form(result: QueryAnswer) -> tuple[str, ...] | bool | None:
    """Return what a `HEAD` says of an answer."""
    if isinstance(result, ox.QueryBoolean):
        return bool(result)
    if isinstance(result, ox.QuerySolutions):
        return tuple(variable.value for variable in result.variables)
    return None


class _Sink:
    """What the engine writes to: it sends on so many lines, and raises `Full` where there is one more."""

    def __init__(self, answers: int, most: int | None, heads: int) -> None:
        """`heads` is the number of lines that are no rows."""
        self._answers = answers
        self._left = None if most is None else most + heads

    def write(self, data: bytes) -> int:
        """Send some of an answer."""
        data = bytes(data)
        if self._left is None:
            _send(self._answers, DATA, data)
        elif data:
            lines = data.count(b"\n")
            if lines > self._left or (lines == self._left and not data.endswith(b"\n")):
                wanted, self._left = data[: _length(data, self._left)], 0  # the engine writes once more on its way out
                if wanted:
                    _send(self._answers, DATA, wanted)
                raise Full
            self._left -= lines
            _send(self._answers, DATA, data)
        return len(data)

    def flush(self) -> None:
        """Nothing waits here."""


def _length(data: bytes, lines: int) -> int:
    """Return how many bytes the first lines have."""
    end = 0
    for _ in range(lines):
        end = data.index(b"\n", end) + 1
    return end


def _send(answers: int, kind: bytes, data: bytes = b"") -> None:
    view = memoryview(FRAME.pack(kind, len(data)) + data)
    try:
        while view:
            view = view[os.write(answers, view) :]
    except BrokenPipeError:  # nobody reads it
        os._exit(0)
