"""Finding secrets in text, and taking them out: pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from trails.secrets import rules
from trails.secrets.prefixes import LONG_WORD, Secret, prefixed

SHORTEST: Final = 8
"""No text below this length holds a secret."""
_SHOWN: Final = 4
_NEAR: Final = 30
"""How many characters before a name may say what it is of."""
_ROUNDS: Final = 8
_SIGNS: Final = "-_.:=&/ "
_UNLIKE: Final = "\u0131\u0130\u017f\u212a"
"""Letters that a pattern takes for an i, an s or a k where case is left aside, and that are others in lower case."""
_ESCAPE: Final = re.compile(r"(?<!\\)\\+u(?P<code>00[0-7][0-9a-fA-F])")
"""An ASCII character as JSON may write it: secrets have no others."""
_MARK: Final = re.compile(r"\[redacted: [a-z0-9-]+\]")


Detector = Callable[[str], Sequence[Secret]]
"""Returns the secrets of a text in their order, none within another."""


def builtin(text: str) -> tuple[Secret, ...]:
    """Return the secrets of the common formats in a text, in their order; those that overlap are one.

    >>> [each.kind for each in builtin("export GITHUB_TOKEN=ghp_16C7e42F292c6912E7710c838347Ae178B4a")]
    ['github-token']
    """
    return through_escapes(text, _builtin) if len(text) >= SHORTEST else ()


def _builtin(text: str) -> tuple[Secret, ...]:
    return joined(found_in(text, folded(text)))


def through_escapes(text: str, detector: Detector) -> tuple[Secret, ...]:
    """Return what a detector finds in a text, and in what it says once JSON's escapes in it are read, where they stand.

    JSON within JSON has its backslashes doubled, and doubled again: any number of them begins an escape. Where a text has
    none of an ASCII character, it is looked through once.

    >>> text = '{"key": "\\\\u006epm_q8ZkT3vB1nXw7RpL2mYcD5sG9hJ4kF6aE0tU"}'
    >>> [text[each.start : each.start + 9] for each in through_escapes(text, builtin)]
    ['\\\\u006epm_']
    """
    found = tuple(detector(text))
    if "\\u00" not in text:
        return found
    pieces: list[str] = []
    places: list[int] = []
    """Where each character of the pieces begins in the text, and at last where that ends."""
    end = 0
    for escape in _ESCAPE.finditer(text):
        pieces += [text[end : escape.start()], chr(int(escape["code"], 16))]
        places += [*range(end, escape.start()), escape.start()]
        end = escape.end()
    if not pieces:
        return found
    said = "".join([*pieces, text[end:]])
    places += range(end, len(text) + 1)
    more = [replace(each, start=places[each.start], end=places[each.end]) for each in detector(said)]
    return joined([*found, *more]) if more else found


def unescaped(text: str) -> str:
    r"""Return a text with the ASCII characters that JSON's escapes in it stand for.

    >>> unescaped(r"\u0073k-\\u0031"), unescaped("\\n")
    ('sk-1', '\\n')
    """
    return _ESCAPE.sub(lambda escape: chr(int(escape["code"], 16)), text) if "\\u00" in text else text


def folded(text: str) -> str | None:
    """Return a text in lower case, to look for words in; None where a pattern that leaves case aside may see others in it.

    >>> folded("API-Key"), folded("to\u212aen")
    ('api-key', None)
    """
    if not text.isascii() and any(letter in text for letter in _UNLIKE):
        return None
    return text.lower()


def found_in(text: str, low: str | None) -> Iterator[Secret]:
    """Yield what `builtin` joins, of a text and what `folded` makes of it."""
    long_words = [match.span() for match in LONG_WORD.finditer(text)]
    for start, end in long_words:
        yield from prefixed(text, start, end)
    joined_words = "\n".join([text[start:end] for start, end in long_words])
    for match, rule in _matches(text, low, joined_words):
        group = "secret" if "secret" in rule.pattern.groupindex else 0
        if rule.holds(match[group]):
            yield Secret(rule.kind, *match.span(group), public=rule.public)
    if not has_one(low, rules.ASSIGNMENT_WORDS):
        return
    for match in rules.ASSIGNMENT.finditer(text):
        name = rules.name_before(text, match.start(), match.end("word"))
        within_url = text.endswith("/", 0, match.end("word") - len(name))  # the user of one, before its password
        if not within_url and rules.is_assigned_secret(name, match["secret"]):
            before = text[max(0, match.start() - _NEAR) : match.end("word")]
            yield Secret(rules.assigned_kind(before, match["secret"]), *match.span("secret"))


def has_one(low: str | None, words: Sequence[str]) -> bool:
    """Tell whether a text, as `folded` returns it, may hold one of some words."""
    if low is None:
        return True
    for word in words:  # noqa: SIM110 - a generator takes twice as long, and this is done for every text
        if word in low:
            return True
    return False


def _matches(text: str, low: str | None, long_words: str) -> Iterator[tuple[re.Match[str], rules.Rule]]:
    absent = "".join([sign for sign in _SIGNS if sign not in text])  # the base64 of an image has few of them
    heads, within = _possible(absent)
    for sign, offset, rule in within:
        if sign in long_words:
            for match in _matches_at(text, rule.pattern, (at - offset for at in _places(text, sign) if at >= offset)):
                yield match, rule
    for head, rule in heads:
        if low is not None and head in low:
            for match in _matches_at(text, rule.pattern, _places(low, head)):
                yield match, rule
    for rule in _ANYWHERE if low is not None else rules.RULES:
        if has_one(low, rule.words):
            for match in rule.pattern.finditer(text):
                yield match, rule


_ANYWHERE: Final = tuple(rule for rule in rules.RULES if rule.words)


@cache
def _possible(
    absent: str,
) -> tuple[tuple[tuple[str, rules.Rule], ...], tuple[tuple[str, int, rules.Rule], ...]]:
    """Return the heads, and what stands within, of rules whose matches have none of some signs; each with its rule."""
    kept = [rule for rule in rules.RULES if not set(rule.signs) & set(absent)]
    heads = tuple((head, rule) for rule in kept for head in rule.heads if not set(head) & set(absent))
    return heads, tuple((sign, offset, rule) for rule in kept for sign, offset in rule.within)


def _matches_at(text: str, pattern: re.Pattern[str], places: Iterable[int]) -> Iterator[re.Match[str]]:
    end = 0
    for at in places:
        match = pattern.match(text, at) if at >= end else None
        if match:
            end = match.end()
            yield match


def _places(text: str, head: str) -> Iterator[int]:
    at = text.find(head)
    while at >= 0:
        yield at
        at = text.find(head, at + 1)


def joined(found: Iterable[Secret]) -> tuple[Secret, ...]:
    """Return secrets in their order, with those that overlap joined into one, of the kind that was given first."""
    ranked = [(each.start, rank, each) for rank, each in enumerate(found)]
    if not ranked:
        return ()
    done: list[tuple[int, Secret]] = []
    for start, rank, each in sorted(ranked, key=lambda one: one[:2]):
        if done and start < done[-1][1].end:
            before, last = done[-1]
            first = last if before < rank else each
            done[-1] = min(before, rank), Secret(first.kind, last.start, max(last.end, each.end), first.public)
        else:
            done.append((rank, each))
    return tuple(each for _, each in done)


def mark(kind: str) -> str:
    """Return what stands in the place of a secret that was taken out.

    >>> mark("openai-key")
    '[redacted: openai-key]'
    """
    return f"[redacted: {kind}]"


def redact(text: str, detector: Detector = builtin) -> str:
    """Return a text with a mark in the place of each secret.

    >>> redact("Authorization: Bearer q8ZkT3vB1nXw7RpL2mYc")
    'Authorization: Bearer [redacted: bearer-token]'
    """
    for _ in range(_ROUNDS):  # what stood against a secret may be one too, once that is gone
        pieces: list[str] = []
        end = 0
        for each in detector(text):
            pieces += [text[end : each.start], mark(each.kind)]
            end = each.end
        if not pieces:
            break
        text = "".join([*pieces, text[end:]])
    return text


def hint(text: str, secret: Secret) -> str:
    """Return what may be shown of a secret: its length, and its first letters where those are its kind's and it is long.

    >>> key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    >>> hint(key, builtin(key)[0])
    'ghp_… (40 characters)'
    """
    said = unescaped(text[secret.start : secret.end])
    shown = said[:_SHOWN] if secret.public and len(said) >= _SHOWN * 5 else ""
    return f"{shown}… ({len(said)} characters)"


def is_redaction_of(text: str, other: str) -> bool:
    """Tell whether a text is another one with secrets taken out: whatever stands there in the place of its marks.

    >>> is_redaction_of("key [redacted: npm-token].", "key npm_q8Z."), is_redaction_of("key.", "key.")
    (True, False)
    """
    pieces = _MARK.split(text)
    if len(pieces) == 1 or not other.startswith(pieces[0]):
        return False
    at = len(pieces[0])
    for piece in pieces[1:-1]:
        at = other.find(piece, at + 1)
        if at < 0:
            return False
        at += len(piece)
    last = pieces[-1]
    return len(other) - len(last) > at and other.endswith(last)
