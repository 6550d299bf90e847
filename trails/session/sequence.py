"""A transcript as Python's sequences are asked: by an index, by a slice, and whether it has a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from trails.errors import InvalidInput, TurnNotFound
from trails.model import Turn


@overload
def at(turns: Sequence[Turn], index: int, session_id: str) -> Turn: ...
@overload
def at(turns: Sequence[Turn], index: slice, session_id: str) -> tuple[Turn, ...]: ...
@overload
def at(turns: Sequence[Turn], index: int | slice, session_id: str) -> Turn | tuple[Turn, ...]: ...
def at(turns: Sequence[Turn], index: int | slice, session_id: str) -> Turn | tuple[Turn, ...]:
    """Return the turn at an index, or those of a slice; turns that are read when they are asked for are not read before."""
    if isinstance(index, slice):
        if not all(bound is None or type(bound) is int for bound in (index.start, index.stop, index.step)):
            raise InvalidInput(f"a slice of a session's turns has whole numbers, as in session[2:5], not {index!r}")
        if index.step == 0:
            raise InvalidInput("a slice of a session's turns cannot have the step 0")
        return tuple(turns[index])
    if type(index) is not int:
        raise InvalidInput(
            f"a session's turns are asked for by index (session[-1]) or slice (session[:3]), not by {index!r:.60}"
        )
    if not -len(turns) <= index < len(turns):
        has = f"its {len(turns)} turns are 0 to {len(turns) - 1}" if turns else "it has no turns yet"
        raise TurnNotFound(f"session {session_id!r} has no turn {index}: {has}")
    return turns[index]


def has(turns: Sequence[Turn], turn: Turn) -> bool:
    """Tell whether a transcript has a turn: at its index, the same digest, which copies share."""
    return turn.index < len(turns) and turns[turn.index].digest == turn.digest
