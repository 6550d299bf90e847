"""What a context is made of: turns, or as much of a turn as a model is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, overload

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


class WithoutCut(Sequence[Spoken]):
    """A transcript in which no model is shown the turns that broke off; the others are read only when they are asked for."""

    def __init__(self, turns: Sequence[Spoken]) -> None:
        self._turns = turns

    def __len__(self) -> int:
        return len(self._turns)

    @overload
    def __getitem__(self, at: int) -> Spoken: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Spoken]: ...
    def __getitem__(self, at: int | slice) -> Spoken | Sequence[Spoken]:
        if isinstance(at, slice):
            return [_unless_cut(turn) for turn in self._turns[at]]
        return _unless_cut(self._turns[at])


def _unless_cut(turn: Spoken) -> Spoken:
    return ShownTurn(turn.index, "event", "") if turn.facts.is_cut else turn


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
