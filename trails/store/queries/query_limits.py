"""What a query may take: seconds, rows and memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from trails.errors import InvalidInput

TIMEOUT: Final = 300.0
"""Seconds for a query from outside where nobody says how many."""
MEMORY: Final = 128
"""MiB that a query with a limit may take, where nobody says how many."""
ANSWER: Final = 32 << 20
"""Bytes of an answer that is held whole, where memory is limited."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What queries from outside may take; None is the default."""

    timeout: float | None = None
    max_rows: int | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidInput` for what is no limit."""
        timeout: object = self.timeout
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0
        ):
            raise InvalidInput(f"timeout is a number of seconds above 0 (math.inf: no limit), not {timeout!r:.80}")
        for name in ("max_rows", "memory"):
            value: object = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                what = "a number of rows" if name == "max_rows" else "a number of MiB"
                raise InvalidInput(f"{name} is {what}, 1 or more, not {value!r:.80}")

    def over(self, default: QueryLimits) -> QueryLimits:
        """Return these limits, with those of a default where there is none."""
        pairs = ((getattr(self, name), getattr(default, name)) for name in self.__slots__)
        return QueryLimits(*(own if own is not None else other for own, other in pairs))

    @property
    def is_set(self) -> bool:
        """Whether there is any limit."""
        return self != QueryLimits()

    @property
    def seconds(self) -> float:
        """The seconds that a query may take; infinite where there is no limit."""
        return TIMEOUT if self.timeout is None else float(self.timeout)

    @property
    def bytes(self) -> int | None:
        """The bytes that a query may take in its process; None where there is no limit."""
        if self.memory is not None:
            return self.memory * _MIB
        limited = self.max_rows is not None or (self.timeout is not None and not math.isinf(self.timeout))
        return MEMORY * _MIB if limited else None

    @property
    def answer(self) -> int | None:
        """The bytes that an answer may have which is held whole; None where there is no limit."""
        size = self.bytes
        return None if size is None else max(ANSWER, size // 4)


NO_LIMITS: Final = QueryLimits()
