"""What every handle on an open store has in common: it cannot be copied or pickled."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from trails.errors import TrailsError


class Handle:
    """Something that works on an open store: a second one made behind its back would close the store when it goes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        """Refuse `copy.copy`, `copy.deepcopy` and `pickle`, all of which ask here."""
        raise TrailsError(
            f"{self!r} cannot be copied or pickled: it works on an open store; pass it on as it is, ask the store for "
            "another one (as by `load`), or hand over an id or the store's location"
        )
