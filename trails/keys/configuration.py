"""Reading configuration: every field is checked, and what is wrong is named by its path."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trails.errors import InvalidInput


def section(value: Any, path: str) -> Mapping[str, Any]:
    """Return an object of a configuration, empty where there is none; anything else raises `InvalidInput` with its path."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{path} must be an object, not {type(value).__name__}")
    return value


def text(value: Any, path: str) -> str | None:
    """Return a text of a configuration, or None where there is none; anything else raises `InvalidInput` with its path."""
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{path} must be a text, not {type(value).__name__}")
    return value


def number(value: Any, path: str) -> int | float | None:
    """Return a number of a configuration, or None where there is none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{path} must be a number, not {type(value).__name__}")
    return value


def listed(value: Any, path: str) -> tuple[Any, ...]:
    """Return a list of a configuration, empty where there is none."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(f"{path} must be a list, not {type(value).__name__}")
    return tuple(value)


def choice(value: Any, path: str, allowed: Collection[str]) -> str | None:
    """Return one of some words, or None where there is none."""
    if value is None:
        return None
    if value not in allowed:
        raise InvalidInput(f"{path} is {value!r}; use one of {', '.join(sorted(allowed))}")
    return str(value)


def only(
    fields: Mapping[str, Any], path: str, known: Collection[str], *, hints: Mapping[str, str] | None = None
) -> None:
    """Refuse an object that holds fields with other names: a mistyped rule must not be half a rule."""
    for name in fields:
        if name not in known:
            hint = (hints or {}).get(name, f"use {', '.join(sorted(known))}")
            raise InvalidInput(f"{path}.{name} is no setting: {hint}")
