"""Move sessions and stores to other places: push, pull, copy and mirror."""

from __future__ import annotations
