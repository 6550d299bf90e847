"""The store as it will be after a change that is not yet written: what the leaves of a commit are made from.

It keeps in mind what was read: while that is as it was, so is all that was made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyoxigraph as ox

from trails.store.pattern import Found, Pattern


class Preview:
    """What a store holds, less what a change removes, and with what it adds. What is added or removed here joins the change.

    Reading is exact: a quad that is both removed and added is there.
    """

    def __init__(self, stored: Callable[[Pattern], list[ox.Quad]], add: Found, remove: Iterable[ox.Quad]) -> None:
        """Look at a store (`stored` gives its quads that match a pattern) through a change; `add` gets what joins it."""
        self._stored = stored
        self.read: dict[Pattern, list[ox.Quad]] = {}
        """What the store itself holds, by each pattern that was asked for."""
        self._removed = set(remove)
        self._added = add
        self.more_added: list[ox.Quad] = []
        self.more_removed: list[ox.Quad] = []

    def quads(self, pattern: Pattern) -> list[ox.Quad]:
        """Return all quads that match a pattern once the change is written."""
        stored = self.read.get(pattern)
        if stored is None:
            stored = self.read[pattern] = self._stored(pattern)
        added = list(self._added.matching(pattern))
        if not added and not self._removed:
            return list(stored)
        known = set(added)
        return [q for q in stored if q not in self._removed and q not in known] + added

    def add(self, quads: Sequence[ox.Quad]) -> None:
        """Let the change add quads beside its own."""
        self.more_added += quads
        for quad in quads:
            self._removed.discard(quad)
            self._added.add(quad)

    def remove(self, quads: Sequence[ox.Quad]) -> None:
        """Let the change remove quads beside its own: stored ones, which it does not add."""
        self.more_removed += quads
        self._removed.update(quads)
