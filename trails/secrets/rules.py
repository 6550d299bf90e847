"""Rules that find secrets by shape and name.

A secret with a prefix of its own is found by that (`prefixes.py`); another one by what stands before it: the name that it is
assigned to, the option of a command, a header. Most text holds no secret: it is searched for the few letters that a rule's
matches hold, and no more.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from trails.secrets.prefixes import AFTER, BEFORE, is_drawn, is_no_placeholder, is_random


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret. The group `secret` of the pattern, where it has one, else the whole match, is the secret."""

    kind: str
    pattern: re.Pattern[str]
    words: tuple[str, ...] = ()
    """A text that has a match holds one of these, case aside."""
    holds: Callable[[str], bool] = lambda secret: True
    """Whether what matched is a secret indeed, and not a placeholder."""
    public: bool = False
    """Whether a secret of this kind begins with letters that all of its kind begin with, so that they may be shown."""


_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def _is_jwt(secret: str) -> bool:
    """Tell whether the first part is the header of a token: JSON that names an algorithm."""
    head = secret.partition(".")[0]
    try:
        decoded = base64.urlsafe_b64decode(head + "=" * (-len(head) % 4))
    except (binascii.Error, ValueError):
        return False
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


_ARGUMENT: Final = r"(?P<quote>\\*[\"'])?(?P<secret>(?(quote)[^\s\"'`\\]{4,200}|[^\s\"'`\\<>|;&()]{4,200}))"
"""A password that a command is given, in quotes or without."""
_SAME_COMMAND: Final = r"(?:[^\n|;]|\\\n){0,400}?"

RULES: Final = (
    Rule(
        "private-key",
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?:(?!-----).){40,20000}-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"|(?:[\s\"'+>|]|\\[nr])*(?:[A-Za-z0-9+/=]{16,}(?:[\s\"'+>|]|\\[nr])*)+)",
            re.DOTALL,
        ),
        words=("-----begin ",),
        holds=lambda secret: re.search(r"[A-Za-z0-9+/]{32}", secret) is not None,
        public=True,
    ),
    Rule(
        "slack-webhook",
        re.compile(r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{30,}"),
        words=("https://hooks.slack.com/",),
        holds=is_random,
        public=True,
    ),
    Rule(
        "discord-webhook",
        re.compile(r"https://discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,}"),
        words=("https://discord",),
        public=True,
    ),
    Rule(
        "jwt",
        re.compile(rf"{BEFORE}eyJ[A-Za-z0-9_-]{{10,1000}}+\.eyJ[A-Za-z0-9_-]{{10,}}+\.[A-Za-z0-9_-]{{16,}}={{0,2}}"),
        words=("eyj",),
        holds=_is_jwt,
        public=True,
    ),
    Rule(
        "azure-storage-key",
        re.compile(r"AccountKey=(?P<secret>[A-Za-z0-9+/]{80,90}={0,2})"),
        words=("accountkey=",),
        holds=is_random,
    ),
    Rule(
        "azure-sas-signature",
        re.compile(r"(?<=[?&])sig=(?P<secret>[A-Za-z0-9%+/=]{40,})"),
        words=("sig=",),
        holds=is_random,
    ),
    Rule(
        "azure-client-secret",
        re.compile(rf"{BEFORE}[A-Za-z0-9_~.]{{3}}[0-9]Q~[A-Za-z0-9_~.-]{{31,34}}{AFTER}"),
        words=("q~",),
        holds=is_drawn,
    ),
    Rule(
        "azure-devops-token",
        re.compile(rf"{BEFORE}[A-Za-z0-9]{{75,76}}AZDO[A-Za-z0-9]{{4,5}}{AFTER}"),
        words=("azdo",),
        holds=is_random,
    ),
    Rule(
        "azure-devops-token",
        re.compile(
            r"(?i:devops|azure|ado_|vsts)\w{0,24}[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4}(?P<secret>[a-z2-7]{52})(?!\w)"
        ),
        words=("devops", "azure", "ado_", "vsts"),
        holds=is_random,
    ),
    Rule(
        "azure-key",
        re.compile(
            rf"{BEFORE}(?:[A-Za-z0-9]{{52}}JQQJ99[A-Za-z0-9]{{26}}|[A-Za-z0-9]{{42}}AzSe[A-Za-z0-9]{{6}}"
            rf"|[A-Za-z0-9_-]{{44}}AzFu[A-Za-z0-9_-]{{5}}[AQgw]==|[A-Za-z0-9+/]{{33}}\+A(?:Rm|Eh|Sb)[A-Za-z0-9+/]{{7}}=)"
        ),
        words=(
            "jqqj99",
            "azse",
            "azfu",
            "+arm",
            "+aeh",
            "+asb",
        ),
        holds=is_random,
    ),
    Rule(
        "terraform-token",
        re.compile(rf"{BEFORE}[A-Za-z0-9]{{14}}\.atlasv1\.[A-Za-z0-9_=-]{{60,70}}"),
        words=(".atlasv1.",),
        holds=is_random,
    ),
    Rule(
        "maxmind-key",
        re.compile(rf"{BEFORE}[A-Za-z0-9]{{6}}_[A-Za-z0-9]{{29}}_mmk{AFTER}"),
        words=("_mmk",),
        holds=is_random,
    ),
    Rule(
        "new-relic-key",
        re.compile(rf"{BEFORE}(?:[0-9a-f]{{36}}|eu01xx[0-9a-f]{{30}})(?:NRAL|FFFFNRAL){AFTER}"),
        words=(
            "nral",
            "ffffnral",
        ),
        holds=is_random,
    ),
    Rule(
        "mailchimp-key",
        re.compile(rf"{BEFORE}[0-9a-f]{{32}}-us[0-9]{{1,2}}{AFTER}"),
        words=("-us",),
        holds=is_random,
    ),
    Rule(
        "mailgun-key",
        re.compile(rf"{BEFORE}[0-9a-f]{{32}}-[0-9a-f]{{8}}-[0-9a-f]{{8}}{AFTER}"),
        words=("mailgun",),
        holds=is_random,
    ),
    Rule(
        "telegram-token", re.compile(rf"(?<=[0-9]{{8}}):AA[A-Za-z0-9_-]{{33}}{AFTER}"), words=(":aa",), holds=is_random
    ),
    Rule(
        "service-uuid",
        re.compile(
            r"(?i:heroku|snyk|hubspot|sendbird|squarespace|postmark|railway|exa_)[A-Za-z0-9_.-]{0,30}(?i:key|token|secret)"
            rf"[\"'\\]{{0,4}}\s{{0,4}}[:=]\s{{0,4}}[\"'\\]{{0,4}}(?P<secret>{_UUID.pattern})(?![\w-])"
        ),
        words=("heroku", "snyk", "hubspot", "sendbird", "squarespace", "postmark", "railway", "exa_"),
        holds=is_no_placeholder,
    ),
    Rule(
        "url-credentials",
        re.compile(r"://[^\s/:@\"'`<>\\]{0,100}:(?P<secret>[^\s/@\"'`<>\\{}$*\[\]]{3,200})@[A-Za-z0-9\[]"),
        words=("://",),
        holds=_is_password,
    ),
    Rule(
        "bearer-token",
        re.compile(
            r"(?:(?i:bearer|basic)\s{1,4}|(?i:x-api-key)\\*[\"']?:\s*\\*[\"']?"
            r"|(?i:authorization)\\*[\"']?\s{0,4}[:=]\s{0,4}\\*[\"']?(?:[A-Za-z][A-Za-z-]{2,14}\s{1,4})?)"
            r"(?P<secret>[A-Za-z0-9._~+/-]{20,2000}={0,2})"
        ),
        words=("bearer", "basic", "x-api-key", "authorization"),
        holds=lambda secret: is_random(secret) and not _UUID.fullmatch(secret) and not _NOT_A_VALUE.search(secret),
    ),
    Rule(
        "password",
        re.compile(
            r"(?i:machine\s{1,8}(?:[^\s.]{1,60}\.[^\s]{1,200}|localhost)|default)(?:\s|\\[nrt]){1,8}(?i:login)(?:\s|\\[nrt]){1,8}[^\s\\]{1,200}(?:\s|\\[nrt]){1,8}"
            r"(?i:password)(?:\s|\\[nrt]){1,8}(?P<secret>[^\s\"'\\]{3,200})"
        ),
        words=("machine", "default"),
        holds=_is_password,
    ),
    Rule(
        "password",
        re.compile(
            rf"(?i:curl|http)\b{_SAME_COMMAND}\s(?:-u|--user|--proxy-user|-a|--auth)[ =]{{0,2}}"
            rf"(?:\\*[\"'])?[^\s:\"'\\$<]{{1,100}}:(?P<secret>[^\s\"'`\\$<>|;&()]{{3,200}})"
        ),
        words=("curl ", "http "),
        holds=_is_password,
    ),
    Rule(
        "password",
        re.compile(rf"(?i:mysql|mariadb)[a-z-]{{0,12}}\s{_SAME_COMMAND}(?<=\s)-p{_ARGUMENT}"),
        words=("mysql", "mariadb"),
        holds=_is_given_password,
    ),
    Rule(
        "password",
        re.compile(
            rf"(?:(?i:sshpass)\s{{1,4}}-p\s{{0,4}}|(?:(?i:docker|podman)\s{{1,4}}login|(?i:mongo)[a-z]{{0,7}})\s{_SAME_COMMAND}(?<=\s)-p\s{{0,4}}"
            rf"|(?i:redis-cli)\s{_SAME_COMMAND}(?<=\s)-a\s{{1,4}}|(?i:sqlcmd)\s{_SAME_COMMAND}(?<=\s)-P\s{{0,4}}"
            rf"|(?i:ldap)[a-z]{{3,9}}\s{_SAME_COMMAND}(?<=\s)-w\s{{1,4}}){_ARGUMENT}"
        ),
        words=("sshpass", "docker ", "podman ", "mongo", "redis-cli", "sqlcmd", "ldap"),
        holds=_is_given_password,
    ),
    Rule(
        "password",
        re.compile(r":5432:[^\s:]{1,63}:[^\s:]{1,63}:(?P<secret>[^\s\"'`\\:]{4,200})"),
        words=(":5432:",),
        holds=_is_given_password,
    ),
    Rule(
        "registry-auth",
        re.compile(r"\"auth\\*\"\s{0,4}:\s{0,4}\\*\"(?P<secret>[A-Za-z0-9+/]{8,2000}={0,2})\\*\""),
        words=('"auth',),
        holds=_is_basic_auth,
    ),
)

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
    found = _NAME_BEFORE.search(text, max(0, start - 60), start)
    return (found[1] if found else "") + text[start:end]
