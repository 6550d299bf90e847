"""Which of the newest turns fit a budget, and where a transcript may be cut: never between a call and its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from trails.context.shown import Spoken

Turnlike = TypeVar("Turnlike", bound=Spoken)
_HUMAN = frozenset({"user", "human"})


def answered_ids(turn: Spoken) -> set[str]:
    """Return the ids of the calls that a turn answers."""
    return {result.call_id for result in turn.facts.tool_results}


def asked_ids(turn: Spoken) -> set[str]:
    """Return the ids of the calls that a turn asks for."""
    return {call.id for call in turn.facts.tool_calls}


def is_assistant(turn: Spoken) -> bool:
    """Tell whether the assistant speaks."""
    return turn.role == "assistant" or bool(turn.facts.tool_calls)


def is_person(turn: Spoken) -> bool:
    """Tell whether a person speaks, and does not just hand in a tool's answer."""
    return turn.role in _HUMAN and not turn.facts.tool_results


@dataclass(frozen=True, slots=True)
class Fit(Generic[Turnlike]):
    """The newest turns that fit."""

    turns: tuple[Turnlike, ...]
    """In order, oldest first."""
    tokens: int
    over: bool
    """Whether they are more than the budget: the newest turn, with the calls and answers that belong to it, always stays."""


def newest_that_fit(
    newest_first: Iterable[Turnlike], budget: int, cost: Callable[[Turnlike], int], *, keep_newest: bool = True
) -> Fit[Turnlike]:
    """Return the longest run of newest turns that fits a budget and does not begin between a call and its answer.

    Turns are taken one by one, newest first, and none is looked at once the budget is full. An answer whose call does
    not come up in the same exchange (before the assistant's last word to a person's message) has none to be kept with.
    """
    kept: list[Turnlike] = []
    open_ids: set[str] = set()
    tokens = whole = whole_tokens = 0
    person_spoke = False
    for turn in newest_first:
        price = cost(turn)
        if tokens + price > budget and (whole or not keep_newest):
            break
        kept.append(turn)
        tokens += price
        open_ids |= answered_ids(turn)
        if is_person(turn):
            person_spoke = True
        elif is_assistant(turn):
            open_ids -= asked_ids(turn)
            if person_spoke:
                open_ids.clear()
            person_spoke = False
        if not open_ids:
            whole, whole_tokens = len(kept), tokens
            if tokens > budget:
                break
    else:
        whole, whole_tokens = len(kept), tokens  # the whole transcript: nothing is cut
    return Fit(tuple(reversed(kept[:whole])), whole_tokens, whole_tokens > budget)


def unit_end(turns: Sequence[Spoken], start: int = 0) -> int:
    """Return the index after the unit that begins at `start`: a turn, with the answers to its calls and all between.

    A call that may still be answered holds on to all that follows.
    """
    end, position = start + 1, start
    while position < end:
        for call_id in asked_ids(turns[position]):
            after = _after_answer(turns, position, call_id)
            end = len(turns) if after is None else max(end, after)
        position += 1
    return end


def is_open(turns: Sequence[Spoken], start: int = 0) -> bool:
    """Tell whether a call among the turns from `start` on may still get its answer after the last of them."""
    return any(
        _after_answer(turns, position, call_id) is None
        for position in range(start, len(turns))
        for call_id in asked_ids(turns[position])
    )


def _after_answer(turns: Sequence[Spoken], asked_at: int, call_id: str) -> int | None:
    """Return the index after the answer to a call; right after the call itself where none can come; None while one may.

    None can come once the assistant has spoken to a person's later message, or asked for a call with the same id.
    """
    person_spoke = False
    for position in range(asked_at + 1, len(turns)):
        turn = turns[position]
        if call_id in answered_ids(turn):
            return position + 1
        if call_id in asked_ids(turn):
            return asked_at + 1
        if is_person(turn):
            person_spoke = True
        elif person_spoke and is_assistant(turn):
            return asked_at + 1
    return None


def cuts(turns: Sequence[Spoken]) -> list[int]:
    """Return where turns may be cut in two, from 0 to their number: between units, never inside one."""
    places = [0]
    while places[-1] < len(turns):
        places.append(unit_end(turns, places[-1]))
    return places


def opening_end(turns: Sequence[Spoken], count: int) -> int:
    """Return where the first `count` turns end, with the answers to calls among them; no more is looked at than needed."""
    first: list[Spoken] = []
    while len(first) < len(turns) and (len(first) < count or any(map(asked_ids, first))):
        turn = turns[len(first)]
        if len(first) >= count and not continues(first, turn):
            break
        first.append(turn)
    return len(first)


def continues(turns: Sequence[Spoken], turn: Spoken) -> bool:
    """Tell whether a turn that comes next is part of what the last of the turns before it began."""
    return bool(turns) and cuts([*turns, turn])[-2] < len(turns)
