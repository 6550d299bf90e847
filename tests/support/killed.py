"""A store's folder as a process leaves it that is killed now."""

from __future__ import annotations

import shutil
import time
from pathlib import Path


def left_by_a_kill(store: Path, copy: Path) -> Path:
    """Copy the folder of an open store that nobody writes to; again where the engine tidied its files meanwhile."""
    for _ in range(100):
        before = {entry.name for entry in (store / "quads").iterdir()}
        try:
            shutil.copytree(store, copy)
        except shutil.Error:
            pass  # a file went while it was copied
        else:
            if {entry.name for entry in (store / "quads").iterdir()} == before:
                return copy
        shutil.rmtree(copy, ignore_errors=True)
        time.sleep(0.1)
    raise AssertionError(f"the engine of {store} does not come to rest")
