"""Decide whether a query from outside may run, and run it on a thread whose stack no text overflows.

The text is checked for its size, its nesting and how it begins; the engine itself judges whether the query would reach another
server. A text that is not SPARQL gets an error that names the place.

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

So one bound holds for all of them: every byte of a text gets 16 KiB of stack, four times what the worst form takes. Only pages
that are touched take memory. The depth of the data does not matter (paths over a chain of 20,000 nodes took 24 kB).
"""

from __future__ import annotations

import io
import re
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import product
from string import ascii_lowercase
from typing import TYPE_CHECKING, Final, TypeVar

import pyoxigraph as ox

from trails.errors import InvalidInput, TrailsError
from trails.model import iris
from trails.rdf import vocab

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 200
MAX_UNIONS: Final = 1000
MAX_PATTERNS: Final = 64
"""Patterns that are joined with each other. The engine's plan of n of them takes n^4 steps and more: 64 of one subject took 0.1
seconds, 100 took 0.5, 150 took 2.5 and 600 did not end; 32 joined UNIONs, which count twice, took 0.2 seconds at most."""
MAX_TRIPLES_OF_TRIPLES: Final = 50
"""Triples that stand in triples may be in a result, and whoever reads it there does so on a stack of their own (from some 2,000
levels on 256 kB are not enough, nor from 200 on 64 kB, nor does Python recurse so far)."""

_TOKEN: Final = re.compile(
    r'''
      (?P<skip>  \s+ | \#[^\n\r]* | """(?:(?:"|"")?(?:[^"\\]|\\.))*""" | \'\'\'(?:(?:'|'')?(?:[^'\\]|\\.))*\'\'\'
               | "(?:[^"\\\n\r]|\\.)*" | '(?:[^'\\\n\r]|\\.)*' | <[^<>"{}|^`\\\x00-\x20]*> )
    | (?P<name>  [?$@][\w]+ | [\w.\-\u00B7]{0,100}+:(?:[\w.\-:%]|\\.)* )
    | (?P<word>  [A-Za-z_]\w* )
    | (?P<open>  [({\[] )
    | (?P<close> [)}\]] )
    | (?P<other> . )
    ''',
    re.VERBOSE | re.DOTALL,
)
"""What a name may hold is looked at over so many characters only: `1-1-1-1` to its end from every `1` took 15 seconds."""
_PROLOGUE: Final = re.compile(
    r"(?:\s|#[^\n\r]*+|BASE\s*+<[^<>]*+>|PREFIX\s*+[^\s:<>#]*+:\s*+<[^<>]*+>)*+", re.IGNORECASE
)
_FORM: Final = re.compile("SELECT|ASK|CONSTRUCT|DESCRIBE", re.IGNORECASE)
_UPDATE: Final = re.compile(r"(?:INSERT|DELETE|LOAD|CLEAR|DROP|CREATE|ADD|MOVE|COPY|WITH)\b", re.IGNORECASE)
_TRIPLE_TERM: Final = re.compile("TRIPLE|<<", re.IGNORECASE)
_ENGINE_ERROR: Final = re.compile(r"error at (\d+):(\d+): expected (?:one of )?(.*)", re.DOTALL)
_KEYWORDS: Final = re.compile(r"[A-Z_]{2,}(?:, [A-Z_]{2,})*")
_REASON: Final = re.compile(r"(?<![\w\"'\[])[A-Z]\w*(?: \w+)+")
_WORD: Final = re.compile(r"\w*")
_SHOWN: Final = 30


def check_text(text: str) -> None:
    """Accept a query, or raise `InvalidInput`: over 64 KiB, nested deeper than 200, more than 1,000 UNIONs or OPTIONALs,
    more than 64 joined patterns, more than 50 triples of triples, or an update.

    >>> check_text('SELECT ("SERVICE <http://example.org>" AS ?text) {}')
    >>> check_text("DROP ALL")
    Traceback (most recent call last):
    trails.errors.InvalidInput: the query is not valid SPARQL: DROP (line 1, column 1) begins an update, and queries only ...
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise InvalidInput(
            f"the query has {size:,} bytes; at most {MAX_BYTES:,} are allowed: split it, or query in steps"
        )
    if update := _UPDATE.match(text, _beginning(text)):
        raise InvalidInput(
            f"the query is not valid SPARQL: {update[0].upper()} ({line_and_column(text, update.start())}) begins an "
            "update, and queries only read; write through sessions (append, persist, delete)"
        )
    if len(_TRIPLE_TERM.findall(text)) > MAX_TRIPLES_OF_TRIPLES:
        raise InvalidInput(
            f"the query makes more than {MAX_TRIPLES_OF_TRIPLES} triples of triples (TRIPLE, <<); split it"
        )
    _check_tokens(text)
    _check_patterns(text)


_HIDDEN: Final = ("value", "arguments", "meta", "request", "payloadName", "bytesPart")
"""The local names of the properties whose texts may be encrypted."""
_NAMES_HIDDEN: Final = re.compile(rf"[:#](?:{'|'.join(_HIDDEN)})\b")
_OF_META: Final = iris.meta("")
_LOOKS_INTO: Final = re.compile(
    r"\b(CONTAINS|REGEX|STRSTARTS|STRENDS|STRBEFORE|STRAFTER|REPLACE|SUBSTR|STRLEN|[LU]CASE|MD5|SHA(?:1|256|384|512))\s*\(",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"\"[^\"\n]|'[^'\n]")
_ANY_PROPERTY: Final = re.compile(r"(?:[?$]\w+|<[^>]*>|[\w.-]*:[\w.-]+)\s+[?$]\w+\s+(?:[?$]\w+|[\"'])")
_OBJECT_OF_HIDDEN: Final = re.compile(rf"[:#](?:{'|'.join(_HIDDEN)})\b[^\s?$]*\s+[?$](\w+)")
_OBJECT_OF_ANY: Final = re.compile(r"[?$]\w+\s+[?$]\w+\s+[?$](\w+)")
_LISTS: Final = re.compile(r"(?:SELECT|GROUP\s+BY|ORDER\s+BY|VALUES)\b[^{\n]*", re.IGNORECASE)
"""Lists of variables, which are no triples."""
_VARIABLE: Final = re.compile(r"[?$](\w+)")
_MADE: Final = re.compile(r"\bAS\s+[?$](\w+)")
_COMMENT: Final = re.compile(r"^\s*#.*$", re.MULTILINE)


def check_encrypted(text: str, *, is_ours: bool = False) -> None:
    """Accept a query over texts some of which are encrypted, or raise `InvalidInput`: what looks into them finds nothing there.

    A query may show what is stored. It may not compare it: not by a function on texts, nor, in a text that is not one of ours,
    with a text that is written in it.

    >>> check_encrypted("SELECT ?text { ?turn prov:value ?text }")
    >>> check_encrypted('SELECT * { ?turn prov:value ?text FILTER(CONTAINS(STR(?text), "Alps")) }')
    Traceback (most recent call last):
    trails.errors.InvalidInput: the query looks into texts, and texts of this store are encrypted: ...
    """
    asked = _COMMENT.sub("", text)
    into = _LOOKS_INTO.search(asked)
    if _OF_META in asked:
        is_refused = True
    elif is_ours:
        is_refused = _looks_into_hidden(asked)
    else:
        sees_texts = _NAMES_HIDDEN.search(asked) or _ANY_PROPERTY.search(_LISTS.sub("", asked))
        objects = _OBJECT_OF_HIDDEN.findall(asked)
        joins_texts = len(objects) > len(set(objects))
        is_refused = bool(sees_texts) and (into is not None or joins_texts or _QUOTED.search(asked) is not None)
    if is_refused:
        raise InvalidInput(
            "the query looks into texts, and texts of this store are encrypted: it would find nothing in them. Query what stays "
            "plain (roles, authors, tools, models, times, sizes), or look through the turns of loaded sessions"
        )


def _looks_into_hidden(asked: str) -> bool:
    """Tell whether a query of the catalogue has a function on texts in a line with what a hidden property gives.

    Its own texts are written so: a function stands in one line with what it is given.
    """
    hidden = {*_OBJECT_OF_HIDDEN.findall(asked), *_OBJECT_OF_ANY.findall(_LISTS.sub("", asked))}
    lines = asked.splitlines()
    before = -1
    while len(hidden) > before:
        before = len(hidden)
        hidden.update(
            made for line in lines for made in _MADE.findall(line) if not hidden.isdisjoint(_VARIABLE.findall(line))
        )
    of_texts = [line for line in lines if _LOOKS_INTO.search(line) and '"urn:' not in line]  # the others look at names
    return any(not hidden.isdisjoint(_VARIABLE.findall(line)) for line in of_texts)


def _beginning(text: str) -> int:
    """Return where a query's form stands, after the declarations, spaces and comments before it."""
    found = _PROLOGUE.match(text)
    return found.end() if found else 0


def _check_tokens(text: str) -> None:
    depth = branches = 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "word":
            branches += token[0].upper() in ("UNION", "OPTIONAL", "MINUS")
        elif token.lastgroup == "open":
            depth += 1
            if depth > MAX_DEPTH:
                raise InvalidInput(f"the query is nested deeper than {MAX_DEPTH}")
        elif token.lastgroup == "close":
            depth -= 1
        elif token.lastgroup == "other" and token[0] in "!-+^":
            branches += 1  # chains of unary operators nest as deeply as brackets
    if branches > MAX_UNIONS:
        raise InvalidInput(f"the query joins more than {MAX_UNIONS:,} alternatives; split it")


@dataclass(slots=True)
class _Group:
    """What stands between two brackets: how many patterns are joined there, as far as the text has been read."""

    bracket: str
    kind: str = ""
    """The keyword before it, where that is one of those of `_BEFORE`."""
    patterns: int = 0
    last: int = 0
    """How many of them are those of the group within that ended last."""
    is_begun: bool = False
    """Whether a pattern has begun that has not ended."""

    def end_pattern(self) -> None:
        self.patterns += self.is_begun
        self.is_begun = False

    def read(self, what: str, *, before_digit: bool) -> None:
        """Take note of a token that stands between patterns, or in one."""
        if what == "/":
            self.patterns += 1
        elif what in ";," or (what == "." and not before_digit):
            self.end_pattern()
        elif not what.isspace() and what[0] != "#":
            self.is_begun = True

    def take(self, inner: _Group) -> None:
        """Count the patterns of a group within, which has ended; raise `InvalidInput` where they are too many."""
        inner.end_pattern()
        if inner.patterns > MAX_PATTERNS and inner.kind != "CONSTRUCT":
            raise InvalidInput(
                f"the query joins more than {MAX_PATTERNS} patterns in one group, and planning that many takes too long; ask "
                "for them in several queries"
            )
        if inner.bracket == "[":
            self.patterns += inner.patterns
        elif inner.kind in ("OPTIONAL", "MINUS", "EXISTS"):  # planned by itself
            self.last = int(inner.kind == "OPTIONAL")
            self.patterns += self.last
        elif inner.kind == "UNION":  # as its largest alternative, and twice at least
            most = max(2, self.last, inner.patterns)
            self.patterns, self.last = self.patterns + most - self.last, most
        elif inner.bracket == "{":
            self.patterns, self.last = self.patterns + inner.patterns, inner.patterns


_BEFORE: Final = frozenset({"UNION", "OPTIONAL", "MINUS", "EXISTS", "CONSTRUCT"})
_BETWEEN: Final = frozenset({"FILTER", "BIND", "VALUES", "GRAPH", "OPTIONAL", "MINUS", "UNION"})


def _check_patterns(text: str) -> None:
    """Raise `InvalidInput` where more patterns are joined than the engine plans in no time.

    What is not counted (members of lists) is for the query's time to bound.
    """
    groups = [_Group("{")]
    kind = ""
    for token in _TOKEN.finditer(text):
        here, what = groups[-1], token[0]
        if token.lastgroup == "word":
            kind = _kind_after(what.upper(), kind, here)
        elif token.lastgroup == "open":
            here.is_begun &= what != "{"  # a graph's name stands there, or a list of variables
            groups.append(_Group(what, kind))
            kind = kind if what != "{" else ""
        elif token.lastgroup == "close" and len(groups) > 1:
            groups[-2].take(groups.pop())
        elif here.bracket != "(":
            here.read(what, before_digit=text[token.end() : token.end() + 1].isdigit())


def _kind_after(word: str, kind: str, here: _Group) -> str:
    """Return by which keyword the next group is introduced."""
    if word in _BETWEEN:
        here.end_pattern()
    return word if word in _BEFORE else "" if word == "WHERE" else kind


_SQL: Final = re.compile(
    r"\s*(?:SELECT\s[^{}?$]*\sFROM\s+\w+\b(?!\s*:)[^{}]*$|(?:INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM\s+\w+|CREATE\s+TABLE)\b)",
    re.IGNORECASE,
)


def syntax_mistake(text: str, error: str) -> str:
    """Return a sentence on what is wrong with a text, and where, from what the engine said of it.

    >>> syntax_mistake("SELCT * {}", "error at 1:10: expected CONSTRUCT")
    "the query is not valid SPARQL: line 1, column 1, at 'SELCT * {}'; a query begins with SELECT, ASK, CONSTRUCT or DESCRIBE"
    """
    place = mistake_place(text, error)
    if _SQL.match(text):
        return (
            "the query is not valid SPARQL, and looks like SQL: write patterns of triples in braces, as in "
            "SELECT ?turn { ?turn a trails:Turn }; `trails queries` lists ready-made ones"
        )
    if place is None:
        return f"the query is not valid SPARQL: {error}"
    if not text.strip():
        return "the query is not valid SPARQL: it is empty"
    at_end = not text[place:].strip()
    place = min(place, len(text.rstrip()))
    if reason := _REASON.search(error.partition("expected")[2]):
        return f"the query is not valid SPARQL: {reason[0]} (before {line_and_column(text, place)})"
    if at_end:
        return f"the query is not valid SPARQL: it ends too early, at {line_and_column(text, place)}"
    after, begins = "", _beginning(text)
    if place <= end_of_word(text, begins) and not _FORM.match(text, begins):
        place, after = begins, "; a query begins with SELECT, ASK, CONSTRUCT or DESCRIBE"
    here = text[place:].strip().splitlines()[0][:_SHOWN]
    return f"the query is not valid SPARQL: {line_and_column(text, place)}, at {here!r}{after}"


def mistake_place(text: str, error: str) -> int | None:
    """Return the offset in a text that an error of the engine is about, None for an error of another form.

    The engine names the place that it got to, and for a keyword that is after as many characters as the keyword has: it
    takes so many, and then looks whether they are the keyword.
    """
    found = _ENGINE_ERROR.match(error)
    if found is None:
        return None
    line, column, expected = int(found[1]), int(found[2]), found[3]
    lines = text.split("\n")
    place = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    if _KEYWORDS.fullmatch(expected):
        place -= max(map(len, expected.split(", ")))
    return max(0, min(place, len(text)))


def end_of_word(text: str, start: int) -> int:
    """Return where the letters and digits end that stand from an offset on."""
    found = _WORD.match(text, start)
    return found.end() if found else start


def line_and_column(text: str, place: int) -> str:
    """Return an offset in a text as people count: lines and columns from 1.

    >>> line_and_column("ASK\\n{ ? }", 6)
    'line 2, column 3'
    """
    return f"line {text.count(chr(10), 0, place) + 1}, column {place - text.rfind(chr(10), 0, place)}"


STACK_PER_BYTE: Final = 16 * 1024
STACK_FOR_ALL: Final = 4 * 1024 * 1024
"""What Python and the data take, whatever the text."""
_LARGEST: Final = STACK_FOR_ALL + MAX_BYTES * STACK_PER_BYTE

_REACHES_OUT: Final = re.compile("service|load", re.IGNORECASE | re.ASCII)
_OR_NAMES_GRAPHS: Final = re.compile("service|load|from", re.IGNORECASE | re.ASCII)
_ANY_BASE: Final = "http://localhost/"
"""What relative IRIs are read against to look for a keyword: whether they may stand there is for who asks the query."""
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


def guard_answer(text: str, ask: Callable[[], _Answer]) -> _Answer:
    """Return what `ask` gives for a query from outside, called on a thread that the text cannot hurt.

    `ask` must return nothing of the engine that is still alive, such as an iterator. Raises what `ask` raises, and
    `InvalidInput` before it is called for what `check_text` refuses and for whatever reaches other servers; text that is
    not SPARQL gets a message with the place. An interrupt (Ctrl-C) is raised at once, and the query ends with its next row.

    >>> guard_answer("ASK {}", lambda: True)
    True
    >>> guard_answer("SELECT * { SERVICESILENT<http://example.org/>{} }", lambda: True)
    Traceback (most recent call last):
    trails.errors.InvalidInput: the query uses SERVICE (line 1, column 12), which reaches other servers ... (trails ...
    """
    check_text(text)
    return judged(text, ask)


def judged(text: str, ask: Callable[[], _Answer]) -> _Answer:
    """Do as `answer` does with a text that `check_text` has accepted."""

    def work() -> _Answer:
        _refuse_reaching_out(text)
        try:
            return ask()
        except InvalidInput as error:
            if isinstance(error.__cause__, SyntaxError):
                raise InvalidInput(syntax_mistake(text, _syntax_error(text) or str(error.__cause__))) from error
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
    place = mistake_place(text, wrong)
    for word in words:
        if place is not None and word.start() <= place <= end_of_word(text, word.end()):
            raise InvalidInput(
                f"the query uses {word[0].upper()} ({line_and_column(text, word.start())}), "
                "which reaches other servers and is not allowed here"
            )
    doubt = next((word.start() for word in words if word[0].upper() == "SERVICE"), None)
    hint = "" if doubt is None else f" (or SERVICE is meant, {line_and_column(text, doubt)}, which is not allowed)"
    raise InvalidInput(syntax_mistake(text, wrong) + hint)


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
        ox.Store().query(harmless + _PADDING, prefixes=vocab.PREFIXES, base_iri=_ANY_BASE)
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
