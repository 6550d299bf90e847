"""Where Trails keeps what belongs to a user and to no store."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """Return the folder for what Trails keeps of a user beside stores: `$XDG_STATE_HOME/trails`, or `~/.local/state/trails`."""
    base = os.environ.get("XDG_STATE_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / "trails"  # noqa: PTH117
