"""Writing a store to a file of sorted N-Quads every so often, when the host's clock says so."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from trails.policy.times import time_after
from trails.session import Repository
from trails.session.maintenance import embedded
from trails.store import dumping
from trails.tree.limits import span

HOURLY: Final = timedelta(hours=1)


class Exporter:
    """Writes a store to a file whenever a span of time has gone by since it did so last; the first time at once."""

    def __init__(self, repository: Repository, file: Path, every: timedelta) -> None:
        self._repository = repository
        self._file = file
        self._every = span(every, "export_every")
        self._last: datetime | None = None

    def tick(self, now: datetime) -> Path | None:
        """Write the file where it is time, whole or not at all, and return it; None where it is not time."""
        if self._last is not None and self._last <= now < time_after(self._last, self._every):
            return None
        store = embedded(self._repository.store, "export")
        dumping.dump(store, self._file, replace=True, packed=self._file.suffix == ".gz")
        self._last = now
        return self._file
