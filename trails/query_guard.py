"""Guarding queries from outside: none reaches another server or ends the process, as the engine itself judges it.

They run on a thread of their own, with a stack that no text overflows.

The engine (pyoxigraph 0.5.13) parses, plans, evaluates and frees a query by recursion, and a stack that runs out ends the
process. Every form of query that grows was measured for the stack that it touches (x86-64, at 8 KiB and 64 KiB of text;
the two agree, so it grows in proportion):

===================================  =======================  ==================
chain                                bytes of stack a member  a byte of the text
===================================  =======================  ==================
``{`` that nothing closes            3,830                    3,830
``{}`` nested                        3,830                    1,915
``(`` that nothing closes, ``STR(``  1,800 and 8,800          1,790
DESCRIBE, ORDER BY lists             3,210                    1,600 and 1,070
``( 1 1 1 )``, ``! ! !``             2,050 and 900            1,020 and 900
``* / + -``                          1,220                    610
``|| &&``, HAVING                    900                      300
``a/a``, ``a|a``, object lists       1,030, 770 and 1,030     510, 390 and 340
BIND, projections, MINUS, OPTIONAL   3,240                    230 to 460
EXISTS in EXISTS, sub-SELECTs        11,900 and 7,200         740 and 650
triples, GRAPH, groups, VALUES       1,040 to 1,300           80 to 150
===================================  =======================  ==================

So one bound holds for all of them, and no chain has to be told from another: every byte of a text brings 16 KiB of stack,
four times what the worst takes. Only what is touched takes memory. The depth of the data plays no part (paths over a chain
of 20,000 nodes took 24 kB).
"""

from __future__ import annotations

import io
import re
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from itertools import product
from string import ascii_lowercase
from typing import TYPE_CHECKING, Final, TypeVar

import pyoxigraph as ox

from trails import sparql, vocab
from trails.errors import InvalidInput, TrailsError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STACK_PER_BYTE: Final = 16 * 1024
STACK_FOR_ALL: Final = 4 * 1024 * 1024
"""What Python and the data take, whatever the text."""
_LARGEST: Final = STACK_FOR_ALL + sparql.MAX_BYTES * STACK_PER_BYTE

_REACHES_OUT: Final = re.compile("service|load", re.IGNORECASE | re.ASCII)
_OR_NAMES_GRAPHS: Final = re.compile("service|load|from", re.IGNORECASE | re.ASCII)
_PADDING: Final = "\n" + " " * 32
"""After a text that is looked through for a mistake: the engine looks as far ahead as its keywords are long."""

_Answer = TypeVar("_Answer")
_starting: Final = threading.Lock()


class _Asked(threading.local):
    """What a thread of ours knows of whoever waits for it: `given_up` once nobody does."""

    given_up: threading.Event | None = None


_asked: Final = _Asked()
left: Final[ContextVar[threading.Event | None]] = ContextVar("left", default=None)
"""Set by whoever waits for a thread that asks queries, once that has no use for the answers any more."""


def answer(text: str, ask: Callable[[], _Answer]) -> _Answer:
    """Return what `ask` gives for a query from outside, called on a thread that the text cannot hurt.

    `ask` must return nothing of the engine that is still alive, such as an iterator. Raises what `ask` raises, and
    `InvalidInput` before it is called for what `sparql.check` refuses and for whatever reaches other servers; text that is
    not SPARQL gets a message with the place. An interrupt (Ctrl-C) is raised at once, and the query ends with its next row.

    >>> answer("ASK {}", lambda: True)
    True
    >>> answer("SELECT * { SERVICESILENT<http://example.org/>{} }", lambda: True)
    Traceback (most recent call last):
    trails.errors.InvalidInput: the query uses SERVICE (line 1, column 12), which reaches other servers and is not allowed here
    """
    sparql.check(text)
    return judged(text, ask)


def judged(text: str, ask: Callable[[], _Answer]) -> _Answer:
    """Do as `answer` does with a text that `sparql.check` has accepted."""

    def work() -> _Answer:
        _refuse_reaching_out(text)
        try:
            return ask()
        except InvalidInput as error:
            if isinstance(error.__cause__, SyntaxError):
                raise InvalidInput(sparql.mistake(text, _syntax_error(text) or str(error.__cause__))) from error
            raise

    return on_thread(work, len(text.encode()))


def on_thread(work: Callable[[], _Answer], size: int) -> _Answer:
    """Return what `work` gives, called on a thread of its own with the stack for a query of `size` bytes.

    Raises what it raises, without the values that its frames held: what belongs to the engine is freed where it was made.
    Where whoever waits for this thread has `left`, the work ends with its next row, or next 8 kB of what is `written`.
    """
    outcome: list[_Answer] = []
    failure: list[BaseException] = []
    given_up = left.get() or threading.Event()

    def run() -> None:
        _asked.given_up = given_up
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            _clear(error)
            failure.append(error)

    thread = threading.Thread(target=run, name="trails-query", daemon=True)
    _start(thread, min(STACK_FOR_ALL + size * STACK_PER_BYTE, _LARGEST))
    try:
        thread.join()
    except BaseException:  # an interrupt of whoever waits: the query's thread ends when it may
        given_up.set()
        raise
    if failure:
        error = failure.pop()
        if isinstance(error, Exception):
            raise error
        raise TrailsError(f"the engine gave up on the query: {error}") from error  # a panic is no Exception
    return outcome.pop()


def rows(result: Iterable[_Answer]) -> list[_Answer]:
    """Return all that an iterator of the engine gives; on a thread that nobody waits for any more, raise `TrailsError`."""
    given_up = _asked.given_up
    if given_up is None:
        return list(result)
    found: list[_Answer] = []
    for row in result:
        if given_up.is_set():
            raise TrailsError(_NOBODY_WAITS)
        found.append(row)
    return found


def written(result: ox.QuerySolutions) -> bytes:
    """Return all rows of a SELECT as TSV; raise as `rows` does, where nobody waits once some 8 kB of them are there."""
    given_up = _asked.given_up
    sink = io.BytesIO() if given_up is None else _Sink(given_up)
    result.serialize(sink, format=ox.QueryResultsFormat.TSV)
    return sink.getvalue()


class _Sink(io.BytesIO):
    """What the engine writes rows to, until it is given up."""

    def __init__(self, given_up: threading.Event) -> None:
        super().__init__()
        self._given_up = given_up

    def write(self, data: ReadableBuffer, /) -> int:
        if self._given_up.is_set():
            raise TrailsError(_NOBODY_WAITS)
        return super().write(data)


_NOBODY_WAITS: Final = "nobody waits for the query any more"


def _start(thread: threading.Thread, stack: int) -> None:
    """Start a thread with a stack of so many bytes. The size is the whole process's until the next one is set."""
    with _starting:
        before = threading.stack_size()
        try:
            threading.stack_size(stack)
            thread.start()
        except (RuntimeError, ValueError) as error:
            raise TrailsError(
                f"there is no room for a thread with a stack of {stack // 2**20:,} MiB, which a query of this length "
                f"needs ({error}): shorten the query, or raise the process's limit of address space (ulimit -v)"
            ) from error
        finally:
            threading.stack_size(before)


def _clear(error: BaseException | None) -> None:
    """Empty the frames that an error and what led to it hold."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _refuse_reaching_out(text: str) -> None:
    """Raise `InvalidInput` where SERVICE or LOAD is a keyword in a text, or where the text is not SPARQL.

    The engine needs no space around a keyword (`trueSERVICE`, `1e5SERVICE`), so where one begins is for it alone to say: it
    reads the text with the words replaced, over nothing. In a string, an IRI, a name or a comment one word does as well as
    another; where a keyword stood, there is a syntax error. Escapes (`\\u0053`) make no keywords, the engine knows them in
    strings and IRIs only.
    """
    words = list(_REACHES_OUT.finditer(text))
    if not words:
        return
    wrong = _syntax_error(text)
    if wrong is None:
        return
    place = sparql.place_of(text, wrong)
    for word in words:
        if place is not None and word.start() <= place <= sparql.end_of_word(text, word.end()):
            raise InvalidInput(
                f"the query uses {word[0].upper()} ({sparql.line_and_column(text, word.start())}), "
                "which reaches other servers and is not allowed here"
            )
    doubt = next((word.start() for word in words if word[0].upper() == "SERVICE"), None)
    hint = (
        "" if doubt is None else f" (or SERVICE is meant, {sparql.line_and_column(text, doubt)}, which is not allowed)"
    )
    raise InvalidInput(sparql.mistake(text, wrong) + hint)


def names_graphs(text: str) -> bool:
    """Tell whether a query says with FROM or FROM NAMED which graphs it is over: where the engine finds that keyword.

    To be asked within `answer`, of a text that is SPARQL.

    >>> names_graphs("SELECT * FROM <urn:a> {}"), names_graphs("SELECT ?from { ?from ?p 'FROM' }")
    (True, False)
    """
    return "from" in text.lower() and _syntax_error(text, _OR_NAMES_GRAPHS) is not None


def _syntax_error(text: str, words: re.Pattern[str] = _REACHES_OUT) -> str | None:
    """Return what the engine finds wrong with a text without some keywords, None where it is SPARQL."""
    stand_ins = _stand_ins(text, words)
    harmless = words.sub(lambda word: stand_ins[word[0]], text)
    try:
        ox.Store().query(harmless + _PADDING, prefixes=vocab.PREFIXES)
    except SyntaxError as error:
        return str(error)
    except (OSError, RuntimeError, ValueError):  # it was read, and failed on what it computes
        return None
    return None


def _stand_ins(text: str, pattern: re.Pattern[str]) -> dict[str, str]:
    """Return for each spelling of the words in a text another one of its length, which no keyword begins with.

    None stands in the text, so that no prefix is declared by it, and variables that differ stay so.
    """
    lower = text.lower()
    words = {length: _unused(lower, length) for length in (len("load"), len("service"))}
    return {spelling: next(words[len(spelling)]) for spelling in set(pattern.findall(text))}


def _unused(text: str, length: int) -> Iterator[str]:
    for rest in product(ascii_lowercase, repeat=length - 1):
        if (word := "q" + "".join(rest)) not in text:
            yield word
