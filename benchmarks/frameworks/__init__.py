"""Measure each adapter beside its framework's own store, in one run: `python -m benchmarks.frameworks [NAME ...]`.

Both are as durable: SQLite with WAL and synchronous=FULL. Each module has `measure() -> list[Figure]`.
"""

from typing import NamedTuple


class Figure(NamedTuple):
    """What one kind of work costs on Trails and on the framework's own store."""

    work: str
    """What was done, with its size."""
    trails_ms: float
    """Milliseconds for one, the median of several rounds that alternated."""
    own_ms: float | None
    """The same of the framework's own store; None if it has none that is on disk."""
    aim: str
    """What the figure is to be, such as `2.0x` or `20 ms`."""

    @property
    def ratio(self) -> float | None:
        """How many times as long Trails takes."""
        return None if not self.own_ms else self.trails_ms / self.own_ms
