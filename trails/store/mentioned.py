"""Which graphs a query can read, told by its text: for stores that have a graph only once somebody asks for it.

What is not plainly told is all of them: no answer may depend on what was asked before.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)
      | (?P<iri><[^<>"{}|^`\\\s]*>)
      | (?P<text>\"{3}(?:(?:\"|\"\")?(?:[^"\\]|\\.))*\"{3}|'{3}(?:(?:'|'')?(?:[^'\\]|\\.))*'{3}
          |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<variable>[?$]\w+)
      | (?P<word>[^\W\d][\w:.-]*)
      | (?P<other>[^\\])""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORD: Final = re.compile(r"graph|from|service", re.IGNORECASE)


def graphs_of(text: str) -> Collection[str] | None:
    """Return the IRIs of the named graphs that a query can read; None for all that there are.

    >>> graphs_of("SELECT ?s { ?s ?p ?o }"), graphs_of("SELECT ?s { GRAPH <urn:a> { ?s ?p ?o } }")
    ([], ['urn:a'])
    >>> graphs_of("SELECT ?g { GRAPH ?g { ?s ?p ?o } }") is None
    True
    """
    tokens = _tokens(text)
    if tokens is None:
        return None
    found: list[str] = []
    for place, (kind, word) in enumerate(tokens):
        if kind != "word" or not _KEYWORD.search(word.partition(":")[0]):
            continue  # what follows a colon is the rest of a name
        after = tokens[place + 1] if place + 1 < len(tokens) else ("", "")
        if word.upper() != "GRAPH" or after[0] != "iri":
            return None
        found.append(after[1][1:-1])
    return found


def _tokens(text: str) -> list[tuple[str, str]] | None:
    """Return the (kind, text) of what a query is made of, or None where that is not plain."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        kind = match.lastgroup or ""
        if kind == "other" and match[0] in "\"'":
            return None  # a text that does not end
        if kind != "skip":
            found.append((kind, match[0]))
        at = match.end()
    return found
