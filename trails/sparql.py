"""Whether the text of a query from outside may run at all (its size, its nesting, what it begins with), and what is wrong
with one that is not SPARQL.

What a keyword is, and what a stack has to hold, is not for a look at the text to say: `outside` sees to both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from trails.errors import InvalidInput

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


def check(text: str) -> None:
    """Accept a query, or raise `InvalidInput`: over 64 KiB, nested deeper than 200, more than 1,000 UNIONs or OPTIONALs,
    more than 64 joined patterns, more than 50 triples of triples, or an update.

    >>> check('SELECT ("SERVICE <http://example.org>" AS ?text) {}')
    >>> check("DROP ALL")
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


def mistake(text: str, error: str) -> str:
    """Return a sentence on what is wrong with a text, and where, from what the engine said of it.

    >>> mistake("SELCT * {}", "error at 1:10: expected CONSTRUCT")
    "the query is not valid SPARQL: line 1, column 1, at 'SELCT * {}'; a query begins with SELECT, ASK, CONSTRUCT or DESCRIBE"
    """
    place = place_of(text, error)
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


def place_of(text: str, error: str) -> int | None:
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
