"""Secrets within values: the texts of JSON, and what its keys say of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trails.secrets import rules
from trails.secrets.detect import SHORTEST, Detector, mark, redact
from trails.secrets.prefixes import Secret

_ARGUMENTS: Final = ("arguments", "input")
"""What providers call the arguments of a call, which some give as JSON text."""


def secrets_in(value: Any, detector: Detector, name: str = "") -> Iterator[tuple[str, Secret]]:
    """Yield every secret in a value that JSON can carry, with the text that holds it; `name` is what the value is called.

    >>> from trails.secrets import builtin
    >>> [secret.kind for _, secret in secrets_in({"env": {"API_KEY": "q8ZkT3vB1nXw7RpL2mYc"}}, builtin)]
    ['password']
    """
    for key, text in _texts(name, value):
        for secret in _of_text(key, text, detector):
            yield text, secret


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts within a value that are long enough for a secret, each with its name; its keys too, which have none."""
    waiting = [(name, value)]
    while waiting:
        key, each = waiting.pop()
        if isinstance(each, str):
            if (parsed := _parsed(key, each)) is not None:
                waiting.append((key, parsed))
            elif len(each) >= SHORTEST:
                yield key, each
        elif type(each) is dict or isinstance(each, Mapping):
            yield from [("", text) for inner in each if len(text := str(inner)) >= SHORTEST]
            waiting += [(str(inner), each[inner]) for inner in reversed([*each])]
        elif isinstance(each, list | tuple):
            waiting += [(key, held) for held in reversed(each)]


def _parsed(name: str, text: str) -> Any:
    """Return what a text stands for that is the arguments of a call, as JSON; None for any other."""
    if name not in _ARGUMENTS or text[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _of_text(name: str, text: str, detector: Detector) -> Sequence[Secret]:
    """Return the secrets of a text; one that is a secret by its name is one as a whole."""
    found = detector(text)
    if not found and name and rules.is_assigned_secret(name, text):
        return (Secret(rules.ASSIGNED_KIND, 0, len(text)),)
    return found


def secrets_in_json(text: str, detector: Detector, name: str = "") -> Iterator[tuple[str, Secret]]:
    """Yield every secret in a JSON text, looked for in what it stands for; one that is no JSON is taken as it is."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    yield from secrets_in(value, detector, name)


def redact_value(value: Any, detector: Detector, name: str = "") -> Any:
    """Return a value that JSON can carry with a mark in the place of each secret; the value itself where it has none.

    >>> from trails.secrets import builtin
    >>> redact_value({"password": "hunter-2-hunter"}, builtin)
    {'password': '[redacted: password]'}
    """
    if isinstance(value, str):
        if _parsed(name, value) is not None:
            return redact_json(value, detector)
        whole = name and rules.is_assigned_secret(name, value) and not detector(value)
        return mark(rules.ASSIGNED_KIND) if whole else redact(value, detector)
    if isinstance(value, Mapping):
        return _redact_mapping(value, detector)
    if isinstance(value, list | tuple):
        made = [redact_value(each, detector, name) for each in value]
        return value if all(new is old for new, old in zip(made, value, strict=True)) else type(value)(made)
    return value


def _redact_mapping(value: Mapping[Any, Any], detector: Detector) -> Any:
    made: dict[Any, Any] = {}
    for key, held in value.items():
        plain = redact(key, detector) if isinstance(key, str) else key
        while plain in made:  # two keys that were secrets: neither is lost
            plain += "'"
        made[plain] = redact_value(held, detector, key if isinstance(key, str) else "")
    same = made.keys() == value.keys() and all(made[key] is value[key] for key in made)
    return value if same else made


def redact_json(text: str, detector: Detector) -> str:
    """Return a JSON text with a mark in the place of each secret, byte for byte as it was where it has none."""
    if not any(True for _ in secrets_in_json(text, detector)):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return redact(text, detector)
    return json.dumps(redact_value(value, detector), ensure_ascii=False, separators=(",", ":"))
