"""How much of a transcript may be shown (`Window`), and the turns that fit as it grows (`TokenWindow`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal

from trails import validate
from trails.context.fitting import Turnlike, continues, newest_that_fit, opening_end, unit_end
from trails.context.messages import cost
from trails.context.tokens import Counter, estimate
from trails.errors import InvalidInput


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
        if self.max_tokens is not None and validate.index(self.max_tokens, "max_tokens") < 1:
            raise InvalidInput("max_tokens must be 1 or more, not 0")
        validate.index(self.pinned_count, "pinned_count")
        if self.cut not in ("mark", "leave out"):
            raise InvalidInput(f"cut is 'mark' or 'leave out', not {self.cut!r:.80}")
        if not callable(self.counter):
            raise InvalidInput(f"counter is a function from a text to its number of tokens, not {self.counter!r:.80}")

    def but(
        self,
        max_tokens: int | None,
        pinned_count: int | None,
        counter: Counter | None,
        cut: Literal["mark", "leave out"] = "mark",
    ) -> Window:
        """Return it with what is given in place of its own."""
        return Window(
            self.max_tokens if max_tokens is None else max_tokens,
            self.pinned_count if pinned_count is None else pinned_count,
            counter or self.counter,
            cut,
        )


class TokenWindow(Generic[Turnlike]):
    """The turns of a transcript that fit a number of tokens: the first few, which are pinned, and the newest others.

    `max_tokens` is at least 1. The first `pinned_count` turns (0 or more, and the answers to calls among them) always
    stay, and so does the newest turn with the calls and answers that belong to it; if those alone are too many, `fits`
    is False and `why` says so. Of the others the oldest go first, a tool call together with its answers. `counter`
    counts the tokens of a text.

    >>> import trails
    >>> from trails.context.shown import ShownTurn
    >>> window = trails.TokenWindow(35)
    >>> texts = ("Plan a trip", "Where to?", "To the Alps, by train", "When?", "In May, for a week")
    >>> for index, text in enumerate(texts):
    ...     _ = window.append(ShownTurn(index, "assistant" if index % 2 else "user", text))
    >>> [turn.index for turn in window], window.tokens, window.dropped
    ([0, 2, 3, 4], 32, range(1, 2))
    """

    def __init__(self, max_tokens: int, pinned_count: int = 1, *, counter: Counter = estimate) -> None:
        validate.index(max_tokens, "max_tokens")  # None is no limit for a context, and no window
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
        return cost(turn, self.counter)

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
        """Why the window holds more than it may; None where it fits."""
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
