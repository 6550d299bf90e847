"""What a forked child does with the stores that its parent has open: it lets go of them, and leaves them alone."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Final, Protocol


class Abandoned(Protocol):
    """A store that a forked child can let go of."""

    def abandon(self) -> None:
        """Let go, in the child, of what belongs to the parent."""


_OPENED: Final[weakref.WeakSet[Abandoned]] = weakref.WeakSet()


def remember(store: Abandoned) -> None:
    """Have a forked child let go of a store; nothing is kept alive by it."""
    _OPENED.add(store)


def _abandon_all() -> None:
    """In a forked child: let go of all stores, and have it end without the engine's own clean-up.

    That clean-up waits for, or trips over, threads that only the parent has: the child would hang or die of SIGSEGV after
    all its work was done. A handler that ends the process with the status that it was given runs before it.
    """
    for store in (opened := list(_OPENED)):
        store.abandon()
    libc = ctypes.CDLL(None)
    if opened and hasattr(libc, "on_exit"):  # the GNU C library has it
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)


os.register_at_fork(after_in_child=_abandon_all)
