"""Rules that find secrets by prefix, shape and name.

`formats.toml` lists them. A secret with a prefix of its own is found by that; another one by what stands before it: the name
that it is assigned to, the option of a command, a header. Most text holds no secret: it is searched for the few letters that
a rule's matches hold, and no more.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

_SPOKEN: Final = (
    r"example|placeholder|redacted|(?<![a-z0-9])(?:your|dummy|sample|fake|test|insert|replace)(?![a-z])|changeme|foobar"
    r"|x{6}|\*{3}|\.{3}|…|0{8}"
)
_SAID_TO_BE_NONE: Final = re.compile(_SPOKEN, re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(rf"{_SPOKEN}|1234567890|abcdefgh", re.IGNORECASE)


def is_random(secret: str, *, bits: float = 3.0) -> bool:
    """Tell whether a text could have been drawn by lot: no placeholder, with digits and letters, few of them repeated."""
    return is_no_placeholder(secret) and has_digits_and_letters(secret) and _entropy(secret) >= bits


def is_drawn(secret: str) -> bool:
    """Tell the same of what stands behind a prefix that names never have: letters will do, where some are capitals."""
    kinds = (str.isdigit, str.isupper, str.islower)
    mixed = sum(any(map(of_kind, secret)) for of_kind in kinds) > 1
    return mixed and is_no_placeholder(secret) and _entropy(secret) >= 3.0


def is_formed(secret: str) -> bool:
    """Tell whether a text whose form says what it is could be one, with digits or letters in a row in it too."""
    return not _SAID_TO_BE_NONE.search(secret) and _entropy(secret) >= 3.0


def is_no_placeholder(secret: str) -> bool:
    """Tell whether nothing in a text says that it stands for another."""
    return not _PLACEHOLDER.search(secret)


def has_digits_and_letters(text: str) -> bool:
    """Tell whether a text has at least one of both."""
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)


def _entropy(text: str) -> float:
    """Return the Shannon entropy of a text's characters, in bits a character.

    >>> _entropy("aaaa"), _entropy("abcd")
    (0.0, 2.0)
    """
    counts = Counter(text).values()
    return sum(-n / len(text) * math.log2(n / len(text)) for n in counts) + 0.0


_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret in a text: its kind, and where it stands (`end` exclusive)."""

    kind: str
    start: int
    end: int
    public: bool = False
    """Whether its first letters are those of all secrets of its kind."""


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_")
    except (binascii.Error, ValueError):
        return b""


DISCORD: Final = "MD MT Mj Mz ND NT Nj Nz OD OT"
"""What a number begins with in base64."""


def _is_jwt(secret: str) -> bool:
    """Tell whether the first part is the header of a token: JSON that names an algorithm."""
    decoded = _decoded(secret.partition(".")[0])
    return b'"alg"' in decoded or b'"enc"' in decoded


def _is_password(secret: str) -> bool:
    weak = {"password", "passwd", "pass", "secret", "pwd", "user", "username", "token", "postgres", "root", "admin"}
    return secret.lower() not in weak and not secret.isdigit() and is_no_placeholder(secret)


def _is_given_password(secret: str) -> bool:
    """Tell the same of an argument, which may be a name, a path or a variable: one that is letters alone is none."""
    return (
        not re.match(r"[$%<\[{/~.]|-", secret)
        and not re.fullmatch(r"[a-z_]+|[A-Z_]+|[0-9.]+", secret)
        and _is_password(secret)
    )


def _is_basic_auth(secret: str) -> bool:
    try:
        user, _, password = base64.b64decode(secret, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return False
    return bool(user) and _is_password(password) and password.isprintable()


def is_assigned_secret(name: str, value: str) -> bool:
    """Tell whether a value that is assigned to a name is a secret: the name says so, and the value could be one.

    >>> is_assigned_secret("OPENAI_API_KEY", "q8ZkT3vB1nXw7RpL2mYc"), is_assigned_secret("max_tokens", "4096")
    (True, False)
    """
    word = _secret_word(name)
    if word is None:
        return False
    if len(value) > _LONGEST_VALUE or _UUID.fullmatch(value) or _NOT_A_VALUE.search(value):
        return False
    if word.startswith("p") and "key" not in word:
        return len(value) >= _SHORTEST_PASSWORD and is_random(value, bits=2.5)
    return len(value) >= _SHORTEST_KEY and is_random(value)


@lru_cache(maxsize=4096)
def _secret_word(name: str) -> str | None:
    """Return the word, in lower case, by which a name says that it is of a secret; None if it does not."""
    match = _NAME.fullmatch(name[-_LONGEST_NAME:])
    if match is None or _INNOCENT.search(name):
        return None
    return str(match["password"] or match["word"]).lower()


_LONGEST_NAME: Final = 80
_LONGEST_VALUE: Final = 1000
_SHORTEST_PASSWORD: Final = 8
_SHORTEST_KEY: Final = 16
_WORDS: Final = (
    r"(?:api|secret|access|private|auth|encryption|signing|account|master|service)[_-]?key"
    r"|(?:client|app|shared|webhook|signing)?[_-]?secret|(?:access|auth|bearer|refresh|session|api|bot|id)?[_-]?token"
    r"|passwords?|passwd|passphrase|pass|pwd|credentials?|(?:personal_|access_|devops_|ext_)?pat"
)
_NAME: Final = re.compile(
    rf"(?:.*[^A-Za-z]|.*[a-z](?=[A-Z]))?(?P<word>(?i:{_WORDS}))|.*(?P<password>(?i:passwords?|passwd))", re.DOTALL
)
_INNOCENT: Final = re.compile(
    r"(?i:public|page|next|cursor|continuation|cancel|csrf|xsrf|count|cache|hash|invalid|expired|missing|no[_-])"
)
"""Names that end as those of secrets do, and are none."""
_NOT_A_VALUE: Final = re.compile(
    r"""
    ^[$%<\[{(]                    # a variable, a placeholder
    | ^(?:process|os|import|self|this|config|settings|env|args|options|params|request|req|ctx|data|secrets)\.  # code
    | [\s(){}\[\]<>|;"'`,]        # code, a sentence
    | ^(?:https?|file|urn|sha\d*)[:-]   # a place, a digest
    | ^(?:\.{0,2}|~)/             # a path
    | ^[A-Za-z_]+(?:[._/:-][A-Za-z_]+)*$    # words
    | ^(?!eyJ)[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$   # what an object has
    | (?:Key|Type|Token|Secret|Password|Credential)s?$  # the name of a type
    | ^[A-Za-z]+(?:_[A-Za-z]+)+_?\d{1,3}$  # a name with a number
    """,
    re.VERBOSE,
)


LONG_WORD: Final = re.compile(r"[A-Za-z0-9_.~+/=:%-]{20,}")
"""What holds every key with a form of its own: a text without one has none, and most texts have few."""
BEFORE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
"""A key begins a word, or a part of one after "-" or "_" (within JSON and URLs, after what stands for another character)."""
AFTER: Final = r"(?![A-Za-z0-9+/_-])"
"""A key ends there: what goes on is something else, as the base64 of an image."""


_LETTERS: Final = {
    "AN": "[A-Za-z0-9]",
    "HEX": "[0-9a-f]",
    "URL": "[A-Za-z0-9_-]",
    "B64": "[A-Za-z0-9+/]",
    "UUID": _UUID.pattern,
    "BEFORE": BEFORE,
    "AFTER": AFTER,
    "ARGUMENT": r"(?P<quote>\\*[\"'])?(?P<secret>(?(quote)[^\s\"'`\\]{4,200}|[^\s\"'`\\<>|;&()]{4,200}))",
    "SAME_COMMAND": r"(?:[^\n|;]|\\\n){0,400}?",
}
"""What the names in braces stand for in `formats.toml`; an argument is a password in quotes or without."""
_CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "drawn": is_drawn,
    "formed": is_formed,
    "random": is_random,
    "no-placeholder": is_no_placeholder,
    # no telling prefix: capitals, small letters and digits
    "mixed": lambda body: is_random(body) and body.upper() != body and body.lower() != body,
    # the first part, of which two letters are cut off, is a number in base64
    "bot": lambda body: any(_decoded(start + body.partition(".")[0]).isdigit() for start in DISCORD.split()),
    "slack": lambda body: is_formed(body) and has_digits_and_letters(body[2:]),
    "encoded-key": lambda body: b"PRIVATE KEY" in _decoded(body[: len(body) // 4 * 4]),
    "grafana-key": lambda body: b'","id":' in _decoded("eyJrIjoi" + body.rstrip("=")),
    "jwt": _is_jwt,
    "password": _is_password,
    "given-password": _is_given_password,
    "basic-auth": _is_basic_auth,
    "private-key": lambda secret: re.search(r"[A-Za-z0-9+/]{32}", secret) is not None,
    "header-token": lambda secret: (
        is_random(secret) and not _UUID.fullmatch(secret) and not _NOT_A_VALUE.search(secret)
    ),
    "any": lambda secret: True,
}


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{([A-Z_0-9]+)\}", lambda found: _LETTERS.get(found[1], found[0]), text))


class Rule(NamedTuple):
    """One kind of secret: the group `secret` of the pattern, or else the whole match."""

    kind: str
    pattern: re.Pattern[str]
    words: tuple[str, ...]
    """A text that has a match holds one of these, case aside."""
    holds: Callable[[str], bool]
    """Whether a match is a secret, and not a placeholder."""
    public: bool
    """Whether the first letters of a secret may be shown: all of its kind begin with them."""


class _Form(NamedTuple):
    """A form of keys with a prefix."""

    prefix: str
    kind: str
    body: re.Pattern[str]
    holds: Callable[[str], bool]
    alone: bool
    """Whether it begins a word: behind "-" and "_" its few letters stand in the base64 of other things too."""


FORMATS: Final = tomllib.loads(Path(__file__).with_name("formats.toml").read_text("utf-8"))
RULES: Final = tuple(
    Rule(
        each["kind"],
        _pattern(each["pattern"]),
        tuple(each["words"]),
        _CHECKS[each.get("check", "any")],
        each.get("public", False),
    )
    for each in FORMATS["rules"]
)
_FORMS: Final[dict[str, list[_Form]]] = defaultdict(list)
"""The forms of keys with a prefix, by the first two characters."""
for _kind, _prefixes, _body, *_more in FORMATS["prefixes"]:
    for _prefix in _prefixes.split():
        _holds = _CHECKS[_more[0] if _more else "drawn"]
        _FORMS[_prefix[:2]].append(_Form(_prefix, _kind, _pattern(f"(?:{_body}){{AFTER}}"), _holds, "alone" in _more))
_HEADS: Final = "|".join(re.escape(head) for head in sorted(_FORMS))
_HEAD: Final = re.compile(rf"[^A-Za-z0-9](?:(?<=\\)[nrt]|(?<=%)[0-9A-Fa-f]{{2}})?(?=(?P<head>{_HEADS}))")
"""What may begin a key, and stands before it."""


def prefixed_secrets(text: str, start: int, end: int) -> Iterator[Secret]:
    """Yield the keys with a prefix in one long word of a text."""
    done = start
    places = [match.start("head") for match in _HEAD.finditer(text, max(0, start - 1), end)]
    for at in places if start else [0, *places]:
        for form in _FORMS.get(text[at : at + 2], ()) if at >= done else ():
            match = form.body.match(text, at + len(form.prefix)) if text.startswith(form.prefix, at) else None
            if match and form.holds(match[0]) and not (form.alone and at and text[at - 1] in "-_"):
                yield Secret(form.kind, at, match.end(), public=len(form.prefix) > 2)
                done = match.end()
                break


ASSIGNMENT: Final = re.compile(
    r"(?P<word>[kKsStTpPcC](?i:eys?|ecrets?|okens?|asswords?|asswd|assphrase|ass|at|wd|redentials?))"
    r"\\*[\"']?\s{0,8}(?:=>|:=|[:=])\s{0,8}"
    r"(?P<quote>\\*[\"'`])?(?P<secret>(?(quote)[^\s\"'`\\]{8,1000}|(?:[^\s\"'`\\,;&)}\]]|&(?!\w+=)){8,1000}))"
)
"""A value that is assigned to what may be the name of a secret; `name_before` gives the whole name."""
ASSIGNMENT_WORDS: Final = ("key", "secret", "token", "pass", "_pat", "pwd", "credential")
"""Of which every match of `ASSIGNMENT` holds one, case aside."""
ASSIGNED_KIND: Final = "password"
"""The kind of what is a secret only by the name that it is assigned to."""
_NAME_BEFORE: Final = re.compile(r"(?:(?<=\\)[nrt])?([A-Za-z0-9_.-]{0,60})\Z")


_AWS_SECRET: Final = re.compile(r"[A-Za-z0-9+/]{40}")
_AWS_NAME: Final = re.compile(r"aws|secret", re.IGNORECASE)


def assigned_kind(before: str, value: str) -> str:
    """Return what kind of secret a value is, by its form and by what stands before it."""
    return "aws-secret-key" if _AWS_SECRET.fullmatch(value) and _AWS_NAME.search(before) else ASSIGNED_KIND


def name_before(text: str, start: int, end: int) -> str:
    """Return the name that ends at `end` and of which the word from `start` on is a part."""
    match = _NAME_BEFORE.search(text, max(0, start - 60), start)
    return (match[1] if match else "") + text[start:end]
