"""Whether a query from outside may run: size, nesting, and no word that reaches out to other servers.

The engine connects to any server named by SERVICE or LOAD, and crashes the process on very long or deeply nested
queries; nothing switches that off. So the text is cut into SPARQL 1.1 tokens first (section 19.8 of the
recommendation), which keeps words inside strings, IRIs and comments out of the judgement.
"""

from __future__ import annotations

import re
from typing import Final

from trails.errors import InvalidInput

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 200
MAX_UNIONS: Final = 1000

_TOKEN: Final = re.compile(
    r'''
      (?P<skip>  \#[^\n\r]* | """(?:(?:"|"")?(?:[^"\\]|\\.))*""" | \'\'\'(?:(?:'|'')?(?:[^'\\]|\\.))*\'\'\'
               | "(?:[^"\\\n\r]|\\.)*" | '(?:[^'\\\n\r]|\\.)*' | <[^<>"{}|^`\\\x00-\x20]*> )
    | (?P<name>  [?$@][\w]+ | [\w.\-\u00B7]*:(?:[\w.\-:%]|\\.)* )
    | (?P<word>  [A-Za-z_]\w* )
    | (?P<open>  [({\[] )
    | (?P<close> [)}\]] )
    | (?P<other> . )
    ''',
    re.VERBOSE | re.DOTALL,
)
_OUTSIDE: Final = frozenset({"SERVICE", "LOAD"})


def check(text: str) -> None:
    """Accept a query, or raise `InvalidInput`: over 64 KiB, nested deeper than 200, more than 1,000 UNIONs or OPTIONALs,
    or with a bare SERVICE or LOAD.

    >>> check('SELECT ("SERVICE <http://example.org>" AS ?text) {}')
    >>> check("SELECT * { SERVICE <http://example.org/> { ?s ?p ?o } }")
    Traceback (most recent call last):
    trails.errors.InvalidInput: the query uses SERVICE, which reaches other servers and is not allowed here
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise InvalidInput(
            f"the query has {size:,} bytes; at most {MAX_BYTES:,} are allowed: split it, or query in steps"
        )
    _check_tokens(text)
    if (
        "\\" in text
    ):  # an engine may resolve \\u escapes before anything else (19.2), or only in strings: judge both readings
        _check_tokens(_unescape(text))


def _check_tokens(text: str) -> None:
    depth = branches = 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "word":
            word = token[0].upper()
            if word in _OUTSIDE:
                raise InvalidInput(f"the query uses {word}, which reaches other servers and is not allowed here")
            branches += word in ("UNION", "OPTIONAL", "MINUS")
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


_CODEPOINT: Final = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")


def _unescape(text: str) -> str:
    r"""Return the text with \u escapes resolved."""

    def character(found: re.Match[str]) -> str:
        code = int(found[1] or found[2], 16)
        resolved = chr(code) if code <= 0x10FFFF else "\N{REPLACEMENT CHARACTER}"
        return "\\" + resolved if resolved in "\"'\\" else resolved

    return _CODEPOINT.sub(character, text)
