"""A store that is opened to be read: it holds what was there at one moment, until it is refreshed."""

from __future__ import annotations

from pathlib import Path

from trails.store.contract import QuadStore
from trails.store.embedded import EmbeddedStore
from trails.store.log.locks import WRITERS, NamedLocks


class ViewStore(EmbeddedStore):
    """The quads of a store in a folder as they were at one moment; other processes may write to it meanwhile.

    What writes raises `StoreReadOnly`.
    """

    def __init__(self, path: Path) -> None:
        """Raises `InvalidInput` if there is no store, `StoreFailed` if it cannot be read."""
        super().__init__(path, is_read_only=True)

    def refresh(self) -> bool:
        """See what was acknowledged before this call; return whether there are commits that were not seen before."""
        return self.sync()

    @property
    def has_living_owner(self) -> bool:
        """Whether another process may change what is kept beside the store just now."""
        return self._path is not None and NamedLocks(self._path).is_shared(WRITERS)

    is_beside_owner = has_living_owner


def is_read_only(store: QuadStore) -> bool:
    """Tell whether a store was opened to be read."""
    return isinstance(store, EmbeddedStore) and store.is_read_only
