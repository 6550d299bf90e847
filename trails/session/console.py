"""The console of a store that this process serves, as a program and a notebook hold it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trails.display import html

_LINK: Final = '<a href="{0}" target="_blank" rel="noopener">Open the console</a>'


class Console:
    """A console that is served on a thread. Get one from `Repository.ui`."""

    def __init__(self, address: str, entry: Callable[[], str], stop: Callable[[], None]) -> None:
        """Hold a console at an address; `entry` makes a link that signs in once, `stop` ends it."""
        self.address = address
        """Where it is, as `http://127.0.0.1:PORT`."""
        self.is_closed = False
        self._entry = entry
        self._stop = stop

    @property
    def link(self) -> str:
        """A new link that opens the console in a browser and signs in, once and within five minutes."""
        return self._entry()

    def close(self) -> None:
        """Stop serving; doing it twice is allowed."""
        if not self.is_closed:
            self.is_closed = True
            self._stop()

    def __repr__(self) -> str:
        return f"<Console {self.address}{', closed' if self.is_closed else ''}>"

    @html.safe
    def _repr_html_(self) -> str:
        if self.is_closed:
            return html.box("console", [html.note("it is closed")])
        return html.box(_LINK.format(html.text(self.link)), [html.note(self.address)])
