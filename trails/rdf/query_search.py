"""Find ready-made queries by a question in a reader's own words.

Each word of the question counts for the queries whose header has it, more where it is rare, and more in a name, a purpose or
the keywords than in what is said of parameters and columns. No network and no model: `# keywords:` lines have the synonyms.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from trails.rdf.query_files import QueryFile

_WORD: Final = re.compile(r"[a-z0-9]+")
_COMMON_WORDS: Final = (
    "a all am an and any anything are as at be been before both but by can could did do does done for from gave get give given "
    "go got had has have how i if in into is it its made make may me much my no nor not of on one or our out over own should so "
    "some somebody something than that the their them then there these they this those through to under up us was we were what "
    "when where which who whom whose why will with would you your"
)
_COMMON: Final = frozenset(_COMMON_WORDS.split())
_ENDINGS: Final = (
    "ations",
    "ation",
    "ings",
    "ing",
    "ions",
    "ion",
    "ers",
    "ies",
    "ied",
    "ed",
    "er",
    "es",
    "s",
    "e",
    "y",
)
_SHORTEST: Final = 3
_NAME, _KEYWORDS, _PURPOSE, _REST = 2.0, 2.0, 1.5, 0.4


def stems(text: str) -> list[str]:
    """Return the words of a text that say something, without their endings, in order.

    >>> stems("Who approved the tools?"), stems("approving a tool")
    (['approv', 'tool'], ['approv', 'tool'])
    """
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in _COMMON]


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word.removesuffix(ending)
    return word


def ranked(question: str, queries: Iterable[QueryFile]) -> list[QueryFile]:
    """Return the queries that have a word of the question in their headers, those that fit best first.

    >>> from trails.rdf import query_files
    >>> ranked("who let a tool run?", query_files.catalogue().values())[0].name
    'tool-approvals'
    """
    weights = [(query, _weights(query)) for query in queries]
    having = Counter(stem for _, words in weights for stem in words)
    asked = set(stems(question))
    scores = [
        (sum(words[stem] * math.log(1 + len(weights) / having[stem]) for stem in asked if stem in words), query)
        for query, words in weights
    ]
    return [query for score, query in sorted(scores, key=lambda each: (-each[0], each[1].name)) if score > 0]


def _weights(query: QueryFile) -> dict[str, float]:
    """Return the words of a query's header and how much each counts: the most of the places that it stands in."""
    described = " ".join(
        [*(each.description for each in query.parameters), *(each.description for each in query.columns)]
    )
    weights: dict[str, float] = {}
    for text, weight in (
        (described, _REST),
        (query.purpose, _PURPOSE),
        (query.keywords, _KEYWORDS),
        (query.name, _NAME),
    ):
        weights |= {stem: max(weight, weights.get(stem, 0)) for stem in stems(text)}
    return weights
