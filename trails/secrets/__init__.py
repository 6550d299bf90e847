"""Keys, tokens and passwords in text: found by what they look like, shown by no more than a hint, taken out for good."""

from trails.secrets.detect import Detector, builtin, hint, is_redaction_of, joined, mark, redact
from trails.secrets.extra import detector
from trails.secrets.finding import Found, ScannedPlace, shown_id
from trails.secrets.prefixes import Secret
from trails.secrets.values import redact_json, redact_value, secrets_in, secrets_in_json

__all__ = [
    "Detector",
    "Found",
    "ScannedPlace",
    "Secret",
    "builtin",
    "detector",
    "hint",
    "is_redaction_of",
    "joined",
    "mark",
    "redact",
    "redact_json",
    "redact_value",
    "secrets_in",
    "secrets_in_json",
    "shown_id",
]
