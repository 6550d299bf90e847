"""Decide when and what to compact, and how long a summary may be.

Source: "Session Lifecycle Management", section Compaction. A cut never parts a tool call from its result; that is pi's rule
too (cut at a user's or an assistant's message, never at a tool's result).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

from trails.context.messages import Counter, estimate, message_tokens
from trails.context.window import answered_ids, asked_ids, cut_points, is_open
from trails.errors import InvalidInput, NothingToSummarise
from trails.model import content_parts, validation
from trails.model.values import Trigger, Turn

RESERVE: Final = 16_384
"""Tokens of a model's window that are left free for its answer."""
KEEP_TOKENS: Final = 30_000
"""Tokens of the newest turns that a compaction leaves as they are."""
TRIGGERS: Final[tuple[Trigger, ...]] = ("overflow", "threshold", "manual", "periodic")

Keep = Callable[[Sequence[Turn]], int]
"""Is given the turns that could be summarised, in order, and returns how many of the newest ones to keep."""
MaxTokens = int | Literal["dynamic"] | Callable[[int], int] | None
"""The greatest length of a summary in tokens; "dynamic", or a function of the tokens that are summarised; None for none."""

SUMMARY_REQUEST: Final = (
    "Summarise the conversation so far, so that it can go on from your summary alone. Keep what was asked for and by "
    "whom, what was decided and why, what was done and what came of it (with names, paths, figures and ids as they "
    "stand), and what is still open. Where there is a summary of what came before, take over all of it that still "
    "matters. Write plain text, no preface."
)
"""What the summariser is asked for, unless the caller says something else."""


def needs_compaction(context_tokens: int, window: int, reserve: int = RESERVE) -> bool:
    """Tell whether a context is too long for a model's window, with `reserve` tokens of it left free.

    >>> needs_compaction(183_616, 200_000), needs_compaction(183_617, 200_000)
    (False, True)
    """
    if validation.index(reserve, "reserve") >= validation.index(window, "window"):
        raise InvalidInput(f"a window of {window} tokens has no room left beside a reserve of {reserve}")
    return validation.index(context_tokens, "context_tokens") > window - reserve


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """When an agent compacts by itself: over a threshold, every so many turns, or only once its model overflows.

    `window` is the model's context window in tokens (None: no threshold), of which `reserve` are left free. `every`
    is after how many turns since the last summary to compact at any rate (None: never for that).

    >>> import trails
    >>> policy = trails.CompactionPolicy(window=200_000)
    >>> policy.due(190_000, 12), trails.CompactionPolicy(every=100).due(9_000, 100)
    ('threshold', 'periodic')
    """

    window: int | None = None
    reserve: int = RESERVE
    every: int | None = None

    def __post_init__(self) -> None:
        if self.window is not None:
            needs_compaction(0, self.window, self.reserve)
        if self.every is not None and validation.index(self.every, "every") < 1:
            raise InvalidInput("every must be 1 or more turns, not 0")

    def due(self, context_tokens: int, turns_since: int) -> Trigger | None:
        """Return why to compact now, or None: `turns_since` are the turns since the last summary, or all."""
        if self.window is not None and needs_compaction(context_tokens, self.window, self.reserve):
            return "threshold"
        return "periodic" if self.every is not None and turns_since >= self.every else None


def trigger_name(value: object) -> Trigger:
    """Return a trigger under the name that it is stored by: `context_limit` is stored as `overflow`.

    >>> trigger_name("context_limit"), trigger_name("manual")
    ('overflow', 'manual')
    """
    if value == "context_limit":
        return "overflow"
    for name in TRIGGERS:
        if value == name:
            return name
    raise InvalidInput(f"a compaction's trigger is one of {', '.join(TRIGGERS)} or context_limit, not {value!r}")


# --- what is summarised and what stays


@dataclass(frozen=True, slots=True)
class Plan:
    """What a compaction is to do: `summarise` these turns, together with the `previous` summary, and keep the others."""

    summarise: tuple[Turn, ...]
    previous: Turn | None
    kept: tuple[Turn, ...]
    tokens: int
    """What the previous summary and the turns to summarise take."""

    @property
    def summarised_through(self) -> int:
        """The index of the last turn to summarise."""
        return self.summarise[-1].index


def plan_compaction(
    turns: Sequence[Turn],
    previous: Turn | None = None,
    *,
    keep_tokens: int | None = None,
    keep_turns: int | None = None,
    keep: Keep | None = None,
    counter: Counter = estimate,
) -> Plan:
    """Return which turns to summarise and which to keep; raise `NothingToSummarise` (an `InvalidInput`) where
    there is nothing to summarise.

    `turns` are those that the previous summary does not stand for, in order and without summaries. At most one of the
    three limits is given; 30,000 tokens is the default. By tokens, the newest turns are kept that take no more, and at
    least the last one with what belongs to it. By turns or by a function, that many are kept, or more if a call
    would be parted from its answer.
    """
    if sum(limit is not None for limit in (keep_tokens, keep_turns, keep)) > 1:
        raise InvalidInput("give one of keep_tokens, keep_turns and keep, not several")
    costs = [message_tokens(turn, counter) for turn in turns]
    places = _whole_pairs(turns, cut_points(turns))
    if len(places) > 1 and is_open(turns, places[-2]):
        places.pop()  # what answers a call of the last turns is still to come
    if keep is not None:
        keep_turns = validation.index(keep(turns), "what keep returns")
    if keep_turns is not None:
        wanted = max(0, len(turns) - validation.index(keep_turns, "keep_turns"))
        at = max(place for place in places if place <= wanted)
    else:
        limit = KEEP_TOKENS if keep_tokens is None else validation.index(keep_tokens, "keep_tokens")
        at = _by_tokens(places, costs, limit)
    if at == 0:
        raise NothingToSummarise(_nothing(len(turns), sum(costs), previous))
    before = 0 if previous is None else message_tokens(previous, counter)
    return Plan(tuple(turns[:at]), previous, tuple(turns[at:]), before + sum(costs[:at]))


def _whole_pairs(turns: Sequence[Turn], places: Sequence[int]) -> list[int]:
    """Return the places that no call and its answer stand on both sides of, however much was said between the two."""
    positions: dict[str, int] = {}
    reaches = list(range(len(turns)))
    """By the place of each turn, that of the last answer to its calls."""
    for position, turn in enumerate(turns):
        for call_id in answered_ids(turn) & positions.keys():
            reaches[positions[call_id]] = position
        positions |= dict.fromkeys(asked_ids(turn), position)
    furthest = [-1, *accumulate(reaches, max)]
    return [place for place in places if furthest[place] < place]


def _by_tokens(places: Sequence[int], costs: Sequence[int], limit: int) -> int:
    """Return the first place to cut after which the rest takes no more than the limit; the last unit always stays."""
    at, rest = len(costs), 0
    for place in reversed(places):
        rest += sum(costs[place:at])
        if rest > limit and at < len(costs):
            return at
        at = place
    return at


def _nothing(count: int, tokens: int, previous: Turn | None) -> str:
    since = "" if previous is None else f" since the summary at index {previous.index}"
    if not count:
        return f"there are no turns{since} to summarise; nothing was written"
    return (
        f"there is nothing to summarise: all {count} turns{since} ({tokens} tokens) are kept, as they are or because a "
        "tool call among them belongs to what comes later; keep less, or wait. Nothing was written"
    )


def summary_limit(limit: MaxTokens, tokens: int) -> tuple[int | None, Literal["fixed", "computed"] | None]:
    """Return the greatest length of a summary in tokens, and whether it was fixed or computed.

    "dynamic" is a tenth of what is summarised, but at least 256 and at most 8,192 tokens.

    >>> summary_limit(2_000, 50_000), summary_limit("dynamic", 50_000), summary_limit(lambda tokens: tokens // 4, 1_000)
    ((2000, 'fixed'), (5000, 'computed'), (250, 'computed'))
    """
    if limit is None:
        return None, None
    if limit == "dynamic":
        return min(max(tokens // 10, 256), 8_192), "computed"
    if callable(limit):
        return _positive(limit(tokens)), "computed"
    return _positive(limit), "fixed"


def _positive(value: object) -> int:
    if validation.index(value, "the length of a summary") < 1:
        raise InvalidInput("a summary's greatest length must be 1 token or more, not 0")
    return int(value)  # type: ignore[call-overload,no-any-return] # a whole number, as just checked


# --- what the summariser is given, and gives


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """What a summariser is given."""

    request: str
    """What it is asked for."""
    turns: tuple[Turn, ...]
    """The turns to summarise, in order."""
    previous: Turn | None
    """The summary of what came before them, which the new one has to take over."""
    max_tokens: int | None
    """The greatest length, if there is one."""
    trigger: Trigger

    @property
    def text(self) -> str:
        """The request and everything to summarise as one text, for a model that is sent nothing else."""
        lines = [self.request]
        if self.max_tokens is not None:
            lines.append(f"Use at most {self.max_tokens} tokens.")
        if self.previous is not None:
            lines.append(f"Summary of what came before:\n{content_parts.plain_text(self.previous.content)}")
        lines += [f"{turn.role}: {_plain(turn)}" for turn in self.turns]
        return "\n\n".join(lines)


def _plain(turn: Turn) -> str:
    shown = content_parts.plain_text(turn.content)
    calls_in_text = content_parts.calls_in(turn.content) if turn.structured else ()
    calls = [f"[calls {call.name} {call.arguments}]" for call in turn.tool_calls[len(calls_in_text) :]]
    return "\n".join([*([shown] if shown else []), *calls]) or "[redacted]"


@dataclass(frozen=True, slots=True)
class Summary:
    """What a summariser may return where it has more to say than a text: the model that wrote it and what that used."""

    text: str
    model: str | None = None
    usage: dict[str, object] | None = None
    stop_reason: str | None = None
