"""Stores as they were, kept for those who go on looking at the same moment."""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import datetime
from typing import Final

from trails.errors import InvalidInput
from trails.history.as_of.log_moment import MARK
from trails.session.repository import Repository

_MOST: Final = 4


class PastViews:
    """The last few stores that were shown as they were."""

    def __init__(self) -> None:
        self._views: OrderedDict[tuple[int, str], tuple[Repository, Repository]] = OrderedDict()
        self._lock = threading.Lock()

    def view(self, store: Repository, moment: str) -> Repository:
        """Return a store as it was at a moment: an aware time, or a mark of its log; raise what `Repository.at` does."""
        key = (id(store), moment)
        with self._lock:
            if key in self._views:
                self._views.move_to_end(key)
                return self._views[key][1]
        found = store.at(moment_of(moment))
        with self._lock:
            self._views[key] = store, found
            while len(self._views) > _MOST:
                self._views.popitem(last=False)
        return found

    def close(self) -> None:
        """Forget them: they are read through the store, which is about to close."""
        with self._lock:
            for _, past in self._views.values():
                past.close()
            self._views.clear()


def moment_of(text: str) -> datetime | str:
    """Return the moment that a text tells; raise `InvalidInput`.

    >>> moment_of("2026-05-01T12:00Z").isoformat()
    '2026-05-01T12:00:00+00:00'
    """
    if MARK.fullmatch(text):
        return text
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        raise InvalidInput(f"{text!r:.80} is no time and no mark; write 2026-05-01T12:00Z") from None
    if moment.tzinfo is None:
        raise InvalidInput(f"{text!r:.80} has no time zone; write {text}Z for UTC")
    return moment
