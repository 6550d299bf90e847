"""More formats than the built-in ones, where the extra `secrets` is installed: the detectors of detect-secrets.

Only those are asked that tell a key by its form; what they say by entropy or by names alone is wrong too often in
transcripts. They run in this process and never ask a service whether a key works.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from trails.secrets import rules
from trails.secrets.detect import Detector, Secret, builtin, joined

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
        "Stripe Access Key",
        "Twilio API Key",
        "Public IP (ipv4)",
    }
)


@cache
def detector() -> Detector:
    """Return the best detector that is installed: the built-in formats, and those of the extra `secrets` where it is."""
    plugins = _plugins()
    if not plugins:
        return builtin

    def both(text: str) -> tuple[Secret, ...]:
        found = builtin(text)
        return joined([*found, *_found(text, plugins)])

    return both


def _plugins() -> Mapping[str, Any]:
    """Return the detectors of the extra by the kind of what they find; none where it is not installed."""
    try:
        util = importlib.import_module("detect_secrets.core.plugins.util")
        base = importlib.import_module("detect_secrets.plugins.base")
    except ImportError:
        return {}
    known = util.get_mapping_from_secret_type_to_class()
    return {
        _kind(name): made()
        for name, made in sorted(known.items())
        if issubclass(made, base.RegexBasedDetector) and name not in _LEFT_OUT
    }


def _kind(name: str) -> str:
    """Return a kind as the built-in ones are written.

    >>> _kind("Mailchimp Access Key")
    'mailchimp-access-key'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _found(text: str, plugins: Mapping[str, Any]) -> Iterator[Secret]:
    for kind, plugin in plugins.items():
        for pattern in plugin.denylist:
            for match in pattern.finditer(text):
                group = next((n for n in range(1, (pattern.groups or 0) + 1) if match[n]), 0)
                if rules.is_random(match[group].strip("\"'=: \n\t")):
                    yield Secret(kind, *match.span(group))
