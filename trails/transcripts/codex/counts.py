"""What the counts of tokens in a rollout say of single model calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trails import validate
from trails.errors import InvalidInput
from trails.usage import token_count, with_source

_Json = Mapping[str, Any]
_LAST: Final = "last_token_usage"
_TOTAL: Final = "total_token_usage"


@dataclass(slots=True)
class Meter:
    """The counts of a thread as they come: each tells the last call, and all calls together."""

    window: int | None = None
    """How many tokens the last call had in its window."""
    astray: int = 0
    """How many counts belong to no turn."""
    _total: object = None
    _spare: dict[str, Any] | None = None
    """The last count that belonged to no turn: that of the call that made the summary which comes next."""

    def take(self, info: object) -> dict[str, Any] | None:
        """Return the usage of the call that a count tells; None where it tells none, or one that was told before."""
        if not isinstance(info, dict):
            return None
        last, total = info.get(_LAST), info.get(_TOTAL)
        if total is not None and total == self._total:
            return None
        if not (isinstance(last, dict) and last):
            last = _difference(total, self._total)
        self._total = total if total is not None else self._total
        if not last or not _is_usage(last):
            return None
        self.window, self._spare = token_count(last.get("total_tokens")), None
        return with_source(last, "codex")

    def lose(self, usage: dict[str, Any]) -> None:
        """Note that a usage belongs to no turn that is there yet."""
        self.astray += 1
        self._spare = usage

    def spare(self) -> dict[str, Any] | None:
        """Return the usage that belongs to the summary that is made now; None for none."""
        usage, self._spare = self._spare, None
        self.astray -= usage is not None
        return usage


def _difference(total: object, before: object) -> dict[str, Any] | None:
    """Return what one count of all calls has more than the count before; the count itself where that was greater."""
    if not isinstance(total, dict):
        return None
    counts = {key: value for key, value in total.items() if token_count(value) is not None}
    earlier = before if isinstance(before, dict) else {}
    more = {key: value - (token_count(earlier.get(key)) or 0) for key, value in counts.items()}
    return counts if any(value < 0 for value in more.values()) else more


def _is_usage(value: _Json) -> bool:
    try:
        validate.usage(value)
    except InvalidInput:
        return False
    return True
