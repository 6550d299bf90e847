"""Find and remove keys, tokens and passwords in text."""

from trails.secrets.detection import (
    Detector,
    Found,
    ScannedPlace,
    builtin,
    detector,
    hint,
    is_redaction_of,
    join_secrets,
    mark,
    redact,
    redact_json,
    redact_value,
    secrets_in,
    secrets_in_json,
    shown_id,
)
from trails.secrets.rules import Secret

__all__ = [
    "Detector",
    "Found",
    "ScannedPlace",
    "Secret",
    "builtin",
    "detector",
    "hint",
    "is_redaction_of",
    "join_secrets",
    "mark",
    "redact",
    "redact_json",
    "redact_value",
    "secrets_in",
    "secrets_in_json",
    "shown_id",
]
