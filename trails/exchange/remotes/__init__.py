"""Move sessions and stores to other places: push, pull, copy and mirror.

Mirrors: what a store holds, kept in anybody's SPARQL server, to be read there.

Sessions and whole stores from one place to another: pushed, pulled, copied.
"""

from __future__ import annotations
