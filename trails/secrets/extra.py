"""More formats than the built-in ones, where the extra `secrets` is installed: the detectors of detect-secrets.

Only those are asked that tell a key by its form; what they say by entropy or by names alone is wrong too often in
transcripts. They run in this process and never ask a service whether a key works.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from trails.secrets.detect import (
    SHORTEST,
    Detector,
    builtin,
    folded,
    found_in,
    has_one,
    joined,
    through_escapes,
)
from trails.secrets.prefixes import Secret
from trails.secrets.randomness import is_random

_LEFT_OUT: Final = frozenset(
    {
        "Azure Storage Account access key",  # any base64 of that length
        "Basic Auth Credentials",  # the rest are looked for here already, with fewer false alarms
        "AWS Access Key",
        "GitHub Token",
        "JSON Web Token",
        "NPM tokens",
        "OpenAI Token",
        "Private Key",
        "PyPI Token",
        "SendGrid API Key",
        "Slack Token",
        "Square OAuth Secret",
        "Mailchimp Access Key",
        "Discord Bot Token",
        "Stripe Access Key",
        "Twilio API Key",
        "Public IP (ipv4)",
    }
)


_SHORT: Final = 24
_CLOUDANT: Final = ("cloudant", *(f"{name}{end}" for name in ("cl", "clou") for end in (*"kpt_-", "api")))
_SIGNS: Final = {
    "d75e7427da0f37ea": ("akc",),
    "aed17223938c961f": ("artif", "jfrog", "buildkit"),
    "32126e884ccf1c71": _CLOUDANT,
    "aed550fbd128b610": _CLOUDANT,
    "2fb7cf8120ae78a8": (".cloudant.com",),
    "b9f8e5dbb58fd4af": (".cloudant.com",),
    "8dc9ad5623b98138": ("secret",),
    "a3e78a7441b4c7bf": ("key", "pwd", "pass", "token"),
    "249a8762e0826d79": ("softlayer", *(f"sl{end}" for end in "kpta_-")),
    "bf23d3bd436f7f47": ("softlayer",),
}
"""Of which every match of a pattern, given by the first digits of its SHA-256, holds one, case aside.

A text is looked through for them in a tenth of the time that the patterns take. One that is not known here is always tried."""


class _Form(NamedTuple):
    """What tells keys of one kind."""

    kind: str
    pattern: re.Pattern[str]
    signs: tuple[str, ...]
    """Of which every match holds one, case aside; none where that is not known."""


@cache
def detector() -> Detector:
    """Return the best detector that is installed: the built-in formats, and those of the extra `secrets` where it is."""
    forms = _forms()
    if not forms:
        return builtin

    def both(text: str) -> tuple[Secret, ...]:
        low = folded(text)
        found = joined(found_in(text, low))
        more = list(_found(text, low, forms))
        return joined([*found, *more]) if more else found

    def whole(text: str) -> tuple[Secret, ...]:
        return through_escapes(text, both)

    known = lru_cache(maxsize=4096)(whole)  # what JSON says again and again: its keys, types and names

    return lambda text: () if len(text) < SHORTEST else known(text) if len(text) <= _SHORT else whole(text)


def _forms() -> Sequence[_Form]:
    """Return what the detectors of the extra look for; nothing where it is not installed."""
    try:
        util = importlib.import_module("detect_secrets.core.plugins.util")
        base = importlib.import_module("detect_secrets.plugins.base")
    except ImportError:
        return []
    known = util.get_mapping_from_secret_type_to_class()
    return [
        _Form(_kind(name), pattern, _SIGNS.get(hashlib.sha256(pattern.pattern.encode()).hexdigest()[:16], ()))
        for name, made in sorted(known.items())
        if issubclass(made, base.RegexBasedDetector) and name not in _LEFT_OUT
        for pattern in made().denylist
    ]


def _kind(name: str) -> str:
    """Return a kind as the built-in ones are written.

    >>> _kind("Mailchimp Access Key")
    'mailchimp-access-key'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _found(text: str, low: str | None, forms: Sequence[_Form]) -> Iterator[Secret]:
    absent: Sequence[str] = ()
    """Signs that were looked for last: forms of one kind have the same ones."""
    for kind, pattern, signs in forms:
        if signs and (signs == absent or not has_one(low, signs)):
            absent = signs
            continue
        for match in pattern.finditer(text):
            group = next((n for n in range(1, (pattern.groups or 0) + 1) if match[n]), 0)
            if is_random(match[group].strip("\"'=: \n\t")):
                yield Secret(kind, *match.span(group))
