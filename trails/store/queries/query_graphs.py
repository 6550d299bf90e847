"""Which graphs a query can read, told by its text: for stores that have a graph only once somebody asks for it.

What is not plainly told is all of them: no answer may depend on what was asked before.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
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
    >>> graphs_of("SELECT ?s { VALUES ?g { <urn:a> <urn:b> } GRAPH ?g { ?s ?p ?o } }")
    ['urn:a', 'urn:b']
    >>> graphs_of("SELECT ?g { GRAPH ?g { ?s ?p ?o } }") is None
    True
    """
    tokens = _tokens(text)
    if tokens is None:
        return None
    found: list[str] = []
    groups: list[_Group] = [_Group()]
    for place, (kind, word) in enumerate(tokens):
        if word == "{" and kind == "other":
            groups.append(_Group())
        elif word == "}" and kind == "other":
            if len(groups) == 1 or not groups[-1].is_told:
                return None
            found += groups.pop().graphs
        elif kind == "word" and word.upper() == "VALUES":
            groups[-1].values.update(_values(tokens[place + 1 :]))
        elif kind == "word" and _KEYWORD.search(word.partition(":")[0]):  # what follows a colon is the rest of a name
            after = tokens[place + 1] if place + 1 < len(tokens) else ("", "")
            if word.upper() != "GRAPH" or after[0] not in ("iri", "variable"):
                return None
            groups[-1].named.append(after[1])
    return found if len(groups) == 1 and not groups[0].named else None


@dataclass(slots=True)
class _Group:
    """What stands between two braces: a GRAPH beside a VALUES of its variable reads the graphs that this lists, and no more."""

    named: list[str] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_told(self) -> bool:
        return all(each.startswith("<") or each in self.values for each in self.named)

    @property
    def graphs(self) -> list[str]:
        return [iri[1:-1] for each in self.named for iri in self.values.get(each, [each])]


def _values(tokens: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the IRIs that a list binds one variable to, given what follows the word VALUES; nothing for any other list."""
    if len(tokens) < 3 or tokens[0][0] != "variable" or tokens[1][1] != "{":
        return {}
    found: list[str] = []
    for kind, word in tokens[2:]:
        if word == "}":
            return {tokens[0][1]: found}
        if kind != "iri":
            return {}
        found.append(word)
    return {}


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
