"""What a context is made of: turns, or as much of a turn as a model is shown."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol

from trails.model import NO_FACTS, Facts


class Spoken(Protocol):
    """A turn, as far as a model is shown it: `trails.Turn` is one."""

    @property
    def index(self) -> int:
        """Its place in the transcript."""
        ...

    @property
    def role(self) -> str:
        """Who speaks."""
        ...

    @property
    def text(self) -> str:
        """Plain text, or the JSON text of structured parts."""
        ...

    @property
    def structured(self) -> bool:
        """Whether the text is JSON."""
        ...

    @property
    def redacted(self) -> bool:
        """Whether the content was taken out."""
        ...

    @property
    def facts(self) -> Facts:
        """Its tool calls and results, and what else is recorded."""
        ...


class ShownTurn(NamedTuple):
    """A turn without what no model is shown: author, time, digest. Reading only this of many turns takes half the time."""

    index: int  # type: ignore[assignment] # the tuple's own method of this name is not needed
    role: str
    text: str
    structured: bool = False
    redacted: bool = False
    facts: Facts = NO_FACTS

    @property
    def content(self) -> Any:
        """The text, or the list of parts (a fresh copy each time)."""
        return json.loads(self.text) if self.structured else self.text
