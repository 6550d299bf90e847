"""The common formats of keys: what each looks like, and what only looks like it.

A format with a prefix of its own is told by that; what has none is told by the name that it is assigned to. Most of the
text that is scanned holds nothing: it is searched for the few letters that a rule's matches start with, and no more.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret. The group `secret` of the pattern, where it has one, else the whole match, is the secret."""

    kind: str
    pattern: re.Pattern[str]
    starts: tuple[str, ...] = ()
    """What a match begins with: it is looked for there only. None for a pattern that is looked for everywhere,"""
    words: tuple[str, ...] = ()
    """where the text has one of these, case aside."""
    holds: Callable[[str], bool] = lambda secret: True
    """Whether what matched is a secret indeed, and not a placeholder."""
    public: bool = False
    """Whether a secret of this kind begins with letters that all of its kind begin with, so that they may be shown."""


_BEFORE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
"""A key begins a word, or a part of one after "-" or "_" (within JSON and URLs, after what stands for another character)."""
_AFTER: Final = r"(?![A-Za-z0-9+/_-])"
"""A key of a fixed length ends there: what goes on is something else, as the base64 of an image."""

_SPOKEN: Final = (
    r"example|placeholder|redacted|(?<![a-z0-9])(?:your|dummy|sample|fake|test|insert|replace)(?![a-z])|changeme|foobar"
    r"|x{6}|\*{3}|\.{3}|…|0{8}"
)
_SAID_TO_BE_NONE: Final = re.compile(_SPOKEN, re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(rf"{_SPOKEN}|1234567890|abcdefgh", re.IGNORECASE)
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def is_random(secret: str, *, bits: float = 3.0) -> bool:
    """Tell whether a text could have been drawn by lot: no placeholder, with digits and letters, few of them repeated."""
    if _PLACEHOLDER.search(secret):
        return False
    return _has_digits_and_letters(secret) and _entropy(secret) >= bits


def _has_digits_and_letters(text: str) -> bool:
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)


def _entropy(text: str) -> float:
    """Return the Shannon entropy of a text's characters, in bits a character.

    >>> _entropy("aaaa"), _entropy("abcd")
    (0.0, 2.0)
    """
    counts = Counter(text).values()
    return sum(-n / len(text) * math.log2(n / len(text)) for n in counts) + 0.0


def _is_formed(secret: str) -> bool:
    """Tell whether a text whose form says what it is could be one, with digits or letters in a row in it too."""
    return not _SAID_TO_BE_NONE.search(secret) and _entropy(secret) >= 3.0


def _is_no_placeholder(secret: str) -> bool:
    return not _PLACEHOLDER.search(secret)


def _is_jwt(secret: str) -> bool:
    """Tell whether the first part is the header of a token: JSON that names an algorithm."""
    head = secret.partition(".")[0]
    try:
        decoded = base64.urlsafe_b64decode(head + "=" * (-len(head) % 4))
    except (binascii.Error, ValueError):
        return False
    return b'"alg"' in decoded or b'"enc"' in decoded


def _is_password_of_url(secret: str) -> bool:
    weak = {"password", "passwd", "pass", "secret", "pwd", "user", "username", "token", "postgres", "root", "admin"}
    return secret.lower() not in weak and not secret.isdigit() and _is_no_placeholder(secret)


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
    """Return the word, in lower case, by which a name says that it is of a secret; None where it does not."""
    found = _NAME.fullmatch(name[-_LONGEST_NAME:])
    if found is None or _INNOCENT.search(name):
        return None
    return str(found["password"] or found["word"]).lower()


_LONGEST_NAME: Final = 80
_LONGEST_VALUE: Final = 1000
_SHORTEST_PASSWORD: Final = 8
_SHORTEST_KEY: Final = 16
_WORDS: Final = (
    r"(?:api|secret|access|private|auth|encryption|signing|account|master|service)[_-]?key"
    r"|(?:client|app|shared|webhook|signing)?[_-]?secret|(?:access|auth|bearer|refresh|session|api|bot|id)?[_-]?token"
    r"|passwords?|passwd|passphrase|pwd|credentials?"
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

RULES: Final = (
    Rule(
        "private-key",
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?:(?!-----).){40,20000}-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"|(?:[\s\"'+>|]|\\[nr])*(?:[A-Za-z0-9+/=]{16,}(?:[\s\"'+>|]|\\[nr])*)+)",
            re.DOTALL,
        ),
        ("-----BEGIN ",),
        holds=lambda secret: re.search(r"[A-Za-z0-9+/]{32}", secret) is not None,
        public=True,
    ),
    Rule(
        "anthropic-key",
        re.compile(rf"{_BEFORE}sk-ant-[a-z0-9]+-[A-Za-z0-9_-]{{20,}}"),
        ("sk-ant-",),
        holds=is_random,
        public=True,
    ),
    Rule(
        "openrouter-key", re.compile(rf"{_BEFORE}sk-or-v1-[0-9a-f]{{40,}}"), ("sk-or-",), holds=is_random, public=True
    ),
    Rule(
        "openai-key",
        re.compile(
            rf"{_BEFORE}sk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{{20,}}|[A-Za-z0-9]{{32,}}{_AFTER})",
        ),
        ("sk-",),
        holds=is_random,
        public=True,
    ),
    Rule(
        "aws-access-key",
        re.compile(rf"{_BEFORE}(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{{16}}(?![A-Za-z0-9+/=_-])"),
        ("AKIA", "ASIA", "ABIA", "ACCA"),
        holds=_is_no_placeholder,
        public=True,
    ),
    Rule(
        "github-token",
        re.compile(
            rf"{_BEFORE}(?:gh[pousr]_[A-Za-z0-9]{{36,}}|github_pat_[A-Za-z0-9]{{22}}_[A-Za-z0-9]{{59}}){_AFTER}"
        ),
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        holds=is_random,
        public=True,
    ),
    Rule(
        "gitlab-token",
        re.compile(rf"{_BEFORE}gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent)-[A-Za-z0-9_-]{{20,}}"),
        ("glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glft-", "glsoat-", "glagent-"),
        holds=is_random,
        public=True,
    ),
    Rule(
        "slack-token",
        re.compile(rf"{_BEFORE}(?:xox[abeoprs]-(?:[0-9]-)?[A-Za-z0-9-]{{20,}}|xapp-[0-9]-[A-Za-z0-9-]{{20,}})"),
        ("xox", "xapp-"),
        holds=lambda secret: _is_formed(secret) and _has_digits_and_letters(secret[5:]),
        public=True,
    ),
    Rule(
        "slack-webhook",
        re.compile(r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{30,}"),
        ("https://hooks.slack.com/",),
        holds=is_random,
        public=True,
    ),
    Rule(
        "discord-webhook",
        re.compile(r"https://discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,}"),
        ("https://discord",),
        public=True,
    ),
    Rule(
        "stripe-key",
        re.compile(rf"{_BEFORE}(?:[sr]k_(?:live|test)_[A-Za-z0-9]{{16,}}|whsec_[A-Za-z0-9+/=]{{24,}}){_AFTER}"),
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
        holds=is_random,
        public=True,
    ),
    Rule(
        "google-api-key",
        re.compile(rf"{_BEFORE}AIza[A-Za-z0-9_-]{{35}}(?![A-Za-z0-9+/=_-])"),
        ("AIza",),
        holds=is_random,
        public=True,
    ),
    Rule(
        "google-oauth-token",
        re.compile(rf"{_BEFORE}(?:GOCSPX-[A-Za-z0-9_-]{{28}}|ya29\.[A-Za-z0-9_-]{{30,}}){_AFTER}"),
        ("GOCSPX-", "ya29."),
        holds=is_random,
        public=True,
    ),
    Rule(
        "jwt",
        re.compile(rf"{_BEFORE}eyJ[A-Za-z0-9_-]{{10,1000}}+\.eyJ[A-Za-z0-9_-]{{10,}}+\.[A-Za-z0-9_-]{{16,}}={{0,2}}"),
        ("eyJ",),
        holds=_is_jwt,
        public=True,
    ),
    Rule("npm-token", re.compile(rf"{_BEFORE}npm_[A-Za-z0-9]{{36}}{_AFTER}"), ("npm_",), holds=is_random, public=True),
    Rule(
        "pypi-token",
        re.compile(rf"{_BEFORE}pypi-[A-Za-z0-9_-]{{50,}}"),
        ("pypi-",),
        holds=is_random,
        public=True,
    ),
    Rule(
        "huggingface-token",
        re.compile(rf"{_BEFORE}(?:hf_[A-Za-z0-9]{{34,}}|api_org_[A-Za-z0-9]{{34}}){_AFTER}"),
        ("hf_", "api_org_"),
        holds=_is_formed,
        public=True,
    ),
    Rule(
        "sendgrid-key",
        re.compile(rf"{_BEFORE}SG\.[A-Za-z0-9_-]{{16,32}}\.[A-Za-z0-9_-]{{16,64}}{_AFTER}"),
        ("SG.",),
        holds=is_random,
        public=True,
    ),
    Rule(
        "twilio-key",
        re.compile(rf"{_BEFORE}SK[0-9a-f]{{32}}(?![A-Za-z0-9+/=_-])"),
        ("SK",),
        holds=is_random,
        public=True,
    ),
    Rule(
        "azure-storage-key",
        re.compile(r"AccountKey=(?P<secret>[A-Za-z0-9+/]{80,90}={0,2})"),
        ("AccountKey=",),
        holds=is_random,
    ),
    Rule(
        "azure-sas-signature",
        re.compile(r"[?&]sig=(?P<secret>[A-Za-z0-9%+/=]{40,})"),
        ("?sig=", "&sig="),
        holds=is_random,
    ),
    Rule(
        "service-token",
        re.compile(
            rf"{_BEFORE}(?:dop_v1_[0-9a-f]{{64}}|gsk_[A-Za-z0-9]{{40,}}|xai-[A-Za-z0-9]{{60,}}|pplx-[A-Za-z0-9]{{40,}}"
            r"|r8_[A-Za-z0-9]{37}|dapi[0-9a-f]{32}|shp(?:at|ca|pa|ss)_[0-9a-f]{32}|lin_api_[A-Za-z0-9]{40}"
            r"|ntn_[A-Za-z0-9]{40,}|hvs\.[A-Za-z0-9_-]{24,}|tskey-[a-z]{1,20}-[A-Za-z0-9-]{20,200}+|sbp_[0-9a-f]{40}"
            r"|figd_[A-Za-z0-9_-]{40,200}+|AGE-SECRET-KEY-1[A-Z0-9]{58}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}"
            rf"){_AFTER}"
        ),
        (
            *("dop_v1_", "gsk_", "xai-", "pplx-", "r8_", "dapi", "shpat_", "shpca_", "shppa_", "shpss_", "lin_api_"),
            *("ntn_", "hvs.", "tskey-", "sbp_", "figd_", "AGE-SECRET-KEY-1", "PMAK-"),
        ),
        holds=is_random,
        public=True,
    ),
    Rule(
        "telegram-token",
        re.compile(rf"(?<=[0-9]{{8}}):AA[A-Za-z0-9_-]{{33}}{_AFTER}"),
        (":AA",),
        holds=is_random,
    ),
    Rule(
        "url-credentials",
        re.compile(r"://[^\s/:@\"'`<>\\]{0,100}:(?P<secret>[^\s/@\"'`<>\\{}$*\[\]]{3,200})@[A-Za-z0-9\[]"),
        ("://",),
        holds=_is_password_of_url,
    ),
    Rule(
        "bearer-token",
        re.compile(
            r"(?:[bB](?i:earer|asic)\s{1,4}|[xX](?i:-api-key)\\*[\"']?:\s*\\*[\"']?)(?P<secret>[A-Za-z0-9._~+/-]{20,2000}={0,2})"
        ),
        words=("bearer", "basic", "x-api-key"),
        holds=lambda secret: is_random(secret) and not _UUID.fullmatch(secret) and not _NOT_A_VALUE.search(secret),
    ),
)

ASSIGNMENT: Final = re.compile(
    r"(?P<word>[kKsStTpPcC](?i:eys?|ecrets?|okens?|asswords?|asswd|assphrase|wd|redentials?))"
    r"\\*[\"']?\s{0,8}(?:=>|:=|[:=])\s{0,8}"
    r"(?P<quote>\\*[\"'`])?(?P<secret>(?(quote)[^\s\"'`\\]{8,1000}|(?:[^\s\"'`\\,;&)}\]]|&(?!\w+=)){8,1000}))"
)
"""A value that is assigned to what may be the name of a secret; `name_before` gives the whole name."""
ASSIGNMENT_WORDS: Final = ("key", "secret", "token", "passw", "passphrase", "pwd", "credential")
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
    found = _NAME_BEFORE.search(text, max(0, start - 60), start)
    return (found[1] if found else "") + text[start:end]
