"""Fit the newest turns into a token window.

A transcript is never cut between a tool call and its answer.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from trails.context.messages import Counter, TurnView, estimate, message_tokens
from trails.errors import ContextOverflow, InvalidInput
from trails.model import validation

Turnlike = TypeVar("Turnlike", bound=TurnView)
_HUMAN_ROLES = frozenset({"user", "human"})


def answered_ids(turn: TurnView) -> set[str]:
    """Return the ids of the calls that a turn answers."""
    return {result.call_id for result in turn.facts.tool_results}


def asked_ids(turn: TurnView) -> set[str]:
    """Return the ids of the calls that a turn asks for."""
    return {call.id for call in turn.facts.tool_calls}


def is_assistant(turn: TurnView) -> bool:
    """Tell whether the assistant speaks."""
    return turn.role == "assistant" or bool(turn.facts.tool_calls)


def is_person(turn: TurnView) -> bool:
    """Tell whether a person speaks, and does not just hand in a tool's answer."""
    return turn.role in _HUMAN_ROLES and not turn.facts.tool_results


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


def unit_end(turns: Sequence[TurnView], start: int = 0) -> int:
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


def _after_answer(turns: Sequence[TurnView], asked_at: int, call_id: str) -> int | None:
    """Return the index after the answer to a call; right after the call itself if none can come; None while one may.

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


def is_open(turns: Sequence[TurnView], start: int = 0) -> bool:
    """Tell whether a call from `start` on may still be answered by a turn to come."""
    calls = ((position, call_id) for position in range(start, len(turns)) for call_id in asked_ids(turns[position]))
    return any(_after_answer(turns, position, call_id) is None for position, call_id in calls)


def cut_points(turns: Sequence[TurnView]) -> list[int]:
    """Return where turns may be cut in two, from 0 to their number: between units, never inside one."""
    places = [0]
    while places[-1] < len(turns):
        places.append(unit_end(turns, places[-1]))
    return places


def opening_end(turns: Sequence[TurnView], count: int) -> int:
    """Return where the first `count` turns end, with the answers to calls among them; no more is looked at than needed."""
    first: list[TurnView] = []
    while len(first) < len(turns) and (len(first) < count or any(map(asked_ids, first))):
        turn = turns[len(first)]
        if len(first) >= count and not continues(first, turn):
            break
        first.append(turn)
    return len(first)


def continues(turns: Sequence[TurnView], turn: TurnView) -> bool:
    """Tell whether a turn that comes next is part of what the last of the turns before it began."""
    return bool(turns) and cut_points([*turns, turn])[-2] < len(turns)


_OVERFLOW_CODE: Final = "context_length_exceeded"
_OVERFLOW_STATUSES: Final = frozenset({400, 413, 422})
_OVERFLOW_WORDS: Final = re.compile(
    r"context_length_exceeded|maximum context length|prompt is too long|request_too_large"
    r"|exceeds? (the |this model's )?(maximum )?context (limit|window|length)",
    re.IGNORECASE,
)
"""What OpenAI, Anthropic and servers that speak like them say of it."""


def is_overflow(error: BaseException) -> bool:
    """Tell whether an error says that a request was too long: `ContextOverflow`, or one of a model SDK's errors, by its shape.

    An error of OpenAI's SDK has the code `context_length_exceeded`; others have an HTTP status of 400, 413 or 422 and say so
    in words.

    >>> is_overflow(ContextOverflow("too long")), is_overflow(ValueError("prompt is too long"))
    (True, False)
    """
    if isinstance(error, ContextOverflow) or getattr(error, "code", None) == _OVERFLOW_CODE:
        return True
    return getattr(error, "status_code", None) in _OVERFLOW_STATUSES and _OVERFLOW_WORDS.search(str(error)) is not None


@dataclass(frozen=True, slots=True)
class Window:
    """How much of a transcript may be shown: the first turns always, and of the others the newest that fit.

    Raises `InvalidInput` for `max_tokens` below 1, a negative `pinned_count`, and a `counter` that is no function.
    """

    max_tokens: int | None = None
    """None for no limit."""
    pinned_count: int = 1
    counter: Counter = estimate
    cut: Literal["mark", "leave out"] = "mark"
    """Whether turns that broke off are shown with a mark, or not at all."""

    def __post_init__(self) -> None:
        if self.max_tokens is not None and validation.index(self.max_tokens, "max_tokens") < 1:
            raise InvalidInput("max_tokens must be 1 or more, not 0")
        validation.index(self.pinned_count, "pinned_count")
        if self.cut not in ("mark", "leave out"):
            raise InvalidInput(f"cut is 'mark' or 'leave out', not {self.cut!r:.80}")
        if not callable(self.counter):
            raise InvalidInput(f"counter is a function from a text to its number of tokens, not {self.counter!r:.80}")


class TokenWindow(Generic[Turnlike]):
    """The turns of a transcript that fit a number of tokens: the first few, which are pinned, and the newest others.

    `max_tokens` is at least 1. The first `pinned_count` turns (0 or more, and the answers to calls among them) always
    stay, and so does the newest turn with the calls and answers that belong to it; if those alone are too many, `fits`
    is False and `why` says so. Of the others the oldest go first, a tool call together with its answers. `counter`
    counts the tokens of a text.

    >>> import trails
    >>> from trails.context.messages import ShownTurn
    >>> window = trails.TokenWindow(35)
    >>> texts = ("Plan a trip", "Where to?", "To the Alps, by train", "When?", "In May, for a week")
    >>> for index, text in enumerate(texts):
    ...     _ = window.append(ShownTurn(index, "assistant" if index % 2 else "user", text))
    >>> [turn.index for turn in window], window.tokens, window.dropped
    ([0, 2, 3, 4], 32, range(1, 2))
    """

    def __init__(self, max_tokens: int, pinned_count: int = 1, *, counter: Counter = estimate) -> None:
        validation.index(max_tokens, "max_tokens")  # None is no limit for a context, and no window
        self.limits = Window(max_tokens, pinned_count, counter)
        """What it was made with, in one value."""
        self.max_tokens = max_tokens
        self.pinned_count = pinned_count
        self.counter = counter
        self._clear()

    def _clear(self) -> None:
        self._pinned: list[Turnlike] = []
        self._recent: deque[tuple[Turnlike, int]] = deque()
        self._pinned_tokens = 0
        self._recent_tokens = 0
        self._seen = 0

    def cost(self, turn: Turnlike) -> int:
        """Return how many tokens a turn takes as a model is shown it."""
        return message_tokens(turn, self.counter)

    # --- what is in it

    @property
    def turns(self) -> tuple[Turnlike, ...]:
        """The turns in the window, in order."""
        return (*self._pinned, *(turn for turn, _ in self._recent))

    @property
    def pinned(self) -> tuple[Turnlike, ...]:
        """The opening turns, which always stay."""
        return tuple(self._pinned)

    def __iter__(self) -> Iterator[Turnlike]:
        return iter(self.turns)

    def __len__(self) -> int:
        return len(self._pinned) + len(self._recent)

    @property
    def tokens(self) -> int:
        """How many tokens the turns in the window take."""
        return self._pinned_tokens + self._recent_tokens

    @property
    def seen(self) -> int:
        """How many turns the transcript has that the window is over."""
        return self._seen

    @property
    def dropped(self) -> range:
        """The indices, in the sequence that the window is over, of the turns that were left out."""
        return range(len(self._pinned), self._seen - len(self._recent))

    @property
    def fits(self) -> bool:
        """Whether the turns in the window take no more than `max_tokens`."""
        return self.tokens <= self.max_tokens

    @property
    def why(self) -> str | None:
        """Why the window holds more than it may; None if it fits."""
        if self.fits:
            return None
        return (
            f"the {len(self._pinned)} pinned turns ({self._pinned_tokens} tokens) and the newest turn with what belongs to "
            f"it ({self._recent_tokens}) take {self.tokens} of {self.max_tokens} tokens"
        )

    def __repr__(self) -> str:
        return f"<TokenWindow {self.tokens}/{self.max_tokens} tokens: {len(self)} of {self._seen} turns>"

    # --- what comes and goes

    def append(self, turn: Turnlike) -> tuple[Turnlike, ...]:
        """Take in the next turn of the transcript; return the turns that had to go for it, oldest first."""
        price = self.cost(turn)
        self._seen += 1
        if len(self._pinned) < self.pinned_count or (not self._recent and continues(self._pinned, turn)):
            self._pinned.append(turn)
            self._pinned_tokens += price
            return ()
        self._recent.append((turn, price))
        self._recent_tokens += price
        return tuple(self._evict())

    def _evict(self) -> Iterator[Turnlike]:
        if self.tokens <= self.max_tokens:
            return
        turns, gone = [turn for turn, _ in self._recent], 0
        while self.tokens > self.max_tokens and (end := unit_end(turns, gone)) < len(turns):
            for turn in turns[gone:end]:
                self._recent_tokens -= self._recent.popleft()[1]
                yield turn
            gone = end

    def fill(self, turns: Sequence[Turnlike]) -> None:
        """Hold a whole transcript instead of what was there.

        The pinned turns are read from its beginning, the others from its end until the window is full; none between is
        looked at or counted, so a sequence may read its turns when they are asked for.
        """
        self._clear()
        self._seen = len(turns)
        first = opening_end(turns, self.pinned_count)
        self._pinned = [turns[position] for position in range(first)]
        self._pinned_tokens = sum(map(self.cost, self._pinned))
        costs: dict[int, int] = {}

        def noted_cost(turn: Turnlike) -> int:
            costs[id(turn)] = price = self.cost(turn)
            return price

        backwards = (turns[position] for position in range(len(turns) - 1, first - 1, -1))
        fit = newest_that_fit(backwards, self.max_tokens - self._pinned_tokens, noted_cost)
        self._recent = deque((turn, costs[id(turn)]) for turn in fit.turns)
        self._recent_tokens = fit.tokens
