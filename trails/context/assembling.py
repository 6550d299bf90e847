"""What a model is shown: the system prompt, what a session was given to begin with, the latest summary, turns, a query.

Everything here is pure. Turns come in order and without summaries; `trails.session.assembly` finds them in a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NotRequired, TypedDict, cast

from trails import html, validate
from trails.context import api_shapes
from trails.context.fitting import Fit, answered_ids, is_assistant, newest_that_fit, opening_end
from trails.context.messages import Message, cost, messages_of
from trails.context.pairing import Repair, missing_answer, prepared, repair, told_alone
from trails.context.shown import ShownTurn, Spoken, WithoutCut
from trails.context.tokens import MESSAGE_TOKENS, Counter, counted, estimate
from trails.context.window import Window
from trails.legible import count
from trails.model import Facts, Turn
from trails.parts import calls_in, plain_text, results_in
from trails.tables import Kind as ColumnKind
from trails.tables import PlainTable, Tabular

Kind = Literal["system", "brief", "background", "summary", "pinned", "turn", "query"]


class Part(NamedTuple):
    """One thing in a context: a turn, or (for the system prompt) a text."""

    kind: Kind
    turn: Spoken | None = None
    system: str = ""

    @property
    def text(self) -> str:
        """What a person would read of it."""
        if self.turn is None:
            return self.system
        return plain_text(_content(self.turn))

    @property
    def messages(self) -> list[Message]:
        """What a model is shown of it beside the system prompt."""
        return [] if self.turn is None else messages_of(self.turn)

    def tokens(self, counter: Counter) -> int:
        """Return how many tokens it takes."""
        return MESSAGE_TOKENS + counted(counter, self.system) if self.turn is None else cost(self.turn, counter)

    def to_dict(self, counter: Counter) -> dict[str, Any]:
        """Return the part as plain values, ready for JSON."""
        plain: dict[str, Any] = {"kind": self.kind, "tokens": self.tokens(counter)}
        if self.turn is not None and self.turn.index >= 0:
            plain["index"] = self.turn.index
        if self.turn is not None:
            plain["role"] = self.turn.role
        return plain | {"text": self.text}


def _content(turn: Spoken) -> Any:
    return ShownTurn(turn.index, turn.role, turn.text, turn.structured).content


if TYPE_CHECKING:
    from anthropic.types import MessageParam
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.responses import ResponseInputItemParam

    class AnthropicRequest(TypedDict):
        """What Anthropic's messages API is asked with, as `client.messages.create(**context.anthropic(), ...)`."""

        messages: list[MessageParam]
        system: NotRequired[str]

    class ResponsesRequest(TypedDict):
        """What OpenAI's responses API is asked with, as `client.responses.create(**context.responses(), ...)`."""

        input: list[ResponseInputItemParam]
        instructions: NotRequired[str]


@dataclass(frozen=True, repr=False)
class Context(Tabular):
    """What a model is shown, and what it is not: made by `assemble`, `Session.context` and `Repository.context`."""

    parts: tuple[Part, ...]
    """Everything in it, in the order in which it is shown."""
    max_tokens: int | None = None
    dropped: range = range(0)
    """The indices of the turns that were left out because they did not fit."""
    summarised_through: int | None = None
    """The last index that only the summary tells of."""
    counter: Counter = estimate

    def __repr__(self) -> str:
        limit = "" if self.max_tokens is None else f", at most {self.max_tokens} tokens"
        return f"<Context: {len(self.turns)} turns, {len(self.dropped)} left out{limit}>"

    # --- what is in it

    @property
    def system(self) -> str | None:
        """The system prompt."""
        return next((part.system for part in self.parts if part.kind == "system"), None)

    @property
    def summary(self) -> Spoken | None:
        """The summary turn that stands for what came before the turns."""
        return next((part.turn for part in self.parts if part.kind == "summary"), None)

    @property
    def turns(self) -> tuple[Spoken, ...]:
        """The turns that are shown as they are, in order; neither the summary nor the query."""
        return tuple(part.turn for part in self.parts if part.kind in ("pinned", "turn") and part.turn is not None)

    @cached_property
    def repair(self) -> Repair:
        """The messages after the system prompt with each tool call answered, and what had to be done for that."""
        messages, _ = self._told
        if not any(message.calls or message.role == "tool" for message in messages):
            return Repair(tuple(messages), tuple(messages))
        return repair(prepared(messages))

    @cached_property
    def _told(self) -> tuple[list[Message], int]:
        """What is said, and what it takes more to say of answers to calls that nobody made: they are shown where it fits."""
        messages = [message for part in self.parts for message in part.messages]
        if self.dropped or self.summary is not None:  # the calls may stand among what is left out
            return messages, 0
        told = told_alone(messages)
        pairs = [(new, old) for new, old in zip(told, messages, strict=True) if new is not old]
        more = sum(new.tokens(self.counter) - old.tokens(self.counter) for new, old in pairs)
        fits = not pairs or self.max_tokens is None or self._said_tokens + more <= self.max_tokens
        return (told, more) if fits else (messages, 0)

    # --- what it costs

    @cached_property
    def tokens(self) -> int:
        """How many tokens it takes at most, by the counter; what a provider adds for tools is not in it."""
        return self._said_tokens + self._told[1]

    @cached_property
    def _said_tokens(self) -> int:
        made_up = _MadeUp(self.counter)
        turns = (part.turn for part in reversed(self.parts) if part.turn is not None)
        return sum(part.tokens(self.counter) for part in self.parts) + sum(map(made_up.cost, turns))

    @property
    def within_budget(self) -> bool:
        """Whether it takes no more than `max_tokens`; True where no maximum was given."""
        return self.max_tokens is None or self.tokens <= self.max_tokens

    @property
    def why(self) -> str | None:
        """Why it takes more than `max_tokens`, with what each part takes; None where it fits."""
        if self.within_budget:
            return None
        sums: dict[str, int] = {}
        for part in self.parts:
            sums[part.kind] = sums.get(part.kind, 0) + part.tokens(self.counter)
        named = ", ".join(f"{_NAMES[kind]} {count:,}" for kind, count in sums.items())
        return f"what cannot be left out takes {self.tokens:,} of {self.max_tokens:,} tokens ({named})"

    # --- as the model APIs want it

    def openai(self) -> list[ChatCompletionMessageParam]:
        """Return the messages for OpenAI's chat API, the system prompt among them.

        Type checkers see the SDK's own type where it is installed, any type where it is not; so for the two below.
        """
        return cast("list[ChatCompletionMessageParam]", api_shapes.openai(self.system, self.repair.paired))

    def anthropic(self) -> AnthropicRequest:
        """Return `messages`, and `system` where there is a system prompt, for Anthropic's messages API."""
        return cast("AnthropicRequest", api_shapes.anthropic(self.system, self.repair.paired))

    def responses(self) -> ResponsesRequest:
        """Return `input`, and `instructions` where there is a system prompt, for OpenAI's responses API."""
        return cast("ResponsesRequest", api_shapes.responses(self.system, self.repair.paired))

    def table(self) -> PlainTable:
        """Return what is in it as a table: its kind, index, role, tokens and text."""
        rows = [part.to_dict(self.counter) for part in self.parts]
        return PlainTable(_COLUMNS, [{name: row.get(name) for name in _COLUMNS} for row in rows])

    @html.safe
    def _repr_html_(self) -> str:
        told = {
            "tokens": f"{self.tokens:,}" + ("" if self.max_tokens is None else f" of {self.max_tokens:,}"),
            "left out": f"{len(self.dropped)}, {self.dropped[0]} to {self.dropped[-1]}" if self.dropped else None,
            "summarised through": self.summarised_through,
        }
        why = [html.note(self.why)] if self.why else []
        shown = (_as_html(part, self.counter) for part in self.parts)
        return html.box(f"context: {count(len(self.parts), 'part')}", chain([html.facts(told)], why, shown))

    def to_dict(self) -> dict[str, Any]:
        """Return the context as plain values, ready for JSON: what is in it, what is not, and why."""
        return {
            "tokens": self.tokens,
            "max_tokens": self.max_tokens,
            "within_budget": self.within_budget,
            "why": self.why,
            "dropped": list(self.dropped),
            "summarised_through": self.summarised_through,
            "repair": self.repair.to_dict(),
            "parts": [part.to_dict(self.counter) for part in self.parts],
        }


_COLUMNS: Final[dict[str, ColumnKind]] = {
    "kind": "text",
    "index": "place",
    "role": "text",
    "tokens": "integer",
    "text": "text",
}


def _as_html(part: Part, counter: Counter) -> str:
    told = part.to_dict(counter)
    heading = (told.get("index"), part.kind, f"{told['tokens']:,} tokens")
    calls = () if part.turn is None or part.turn.structured else part.turn.facts.tool_calls
    said = [part.text] + [f"-> {call.name} {call.arguments or '(redacted)'}" for call in calls]
    return html.message(told.get("role", "system"), heading, "\n".join(filter(None, said)), faint=part.kind == "system")


_NAMES: Final[dict[str, str]] = {
    "system": "system prompt",
    "brief": "brief",
    "background": "background",
    "summary": "summary",
    "pinned": "pinned turns",
    "turn": "newest turns",
    "query": "query",
}


class _MadeUp:
    """What the answers take that have to be made up, for turns that come newest first: never less than it will be."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._answered: set[str] = set()
        self._past_assistant = False

    def cost(self, turn: Spoken) -> int:
        """Return what made-up answers to a turn's calls take; an answer counts for the assistant's last words before it."""
        if is_assistant(turn):
            self._past_assistant = True
        elif self._past_assistant:
            self._answered.clear()
            self._past_assistant = False
        if turn.facts.is_empty():
            return 0
        self._answered |= answered_ids(turn)
        total = 0
        for call in turn.facts.tool_calls:
            if call.id in self._answered:
                self._answered.discard(call.id)  # another call with the same id needs another answer
            else:
                total += missing_answer(call.id).tokens(self._counter)
        return total


def as_entry(content: object, role: str = "user") -> ShownTurn:
    """Return content that is no turn yet (text, or a list of parts) as an entry; raise `InvalidInput` for what is neither."""
    text, structured = validate.content(content)
    facts = Facts()
    if structured and isinstance(content, list | tuple):
        facts = Facts(tool_calls=calls_in(content), tool_results=results_in(content))
    return ShownTurn(-1, role, text, structured, facts=facts)


def assemble(
    turns: Sequence[Spoken],
    *,
    system: str | None = None,
    brief: str | None = None,
    background: str | None = None,
    summary: Spoken | None = None,
    query: object = None,
    max_tokens: int | None = None,
    pinned_count: int = 0,
    starts_at: int | None = None,
    counter: Counter = estimate,
) -> Context:
    """Return what a model is shown: system prompt, brief, background, summary, turns and query, in this order.

    `turns` are what the summary does not stand for (everything, without one), in order and without other summaries;
    they may be a sequence that reads its turns when asked, since the oldest are not looked at once the budget is full
    (`starts_at` then says which index the first one has). `brief` is the task of a session that another one spawned,
    and `background` what that one told it. `query` is text, a list of parts, or a turn. With `max_tokens` (at least 1)
    the oldest turns are left out, after the first `pinned_count`, a tool call always together with its answers; a
    summary stands for the first turns, so none are pinned beside one. System prompt, brief, background, summary, pinned
    turns and query always stay; without a query the newest turn does too, with what belongs to it. Where those alone
    are too many, the context says so in `why`.

    >>> context = assemble([ShownTurn(0, "user", "Plan a trip"), ShownTurn(1, "assistant", "Where to?")], query="To the Alps")
    >>> [message["content"] for message in context.openai()], context.tokens, context.within_budget
    (['Plan a trip', 'Where to?', 'To the Alps'], 21, True)
    """
    window = Window(max_tokens, pinned_count, counter)
    fixed = Fixed(system, brief, background, summary, query)
    return within(window, turns, fixed, starts_at=starts_at)


class Fixed(NamedTuple):
    """What a model is shown beside the turns: all of it always stays."""

    system: str | None = None
    brief: str | None = None
    background: str | None = None
    summary: Spoken | None = None
    query: object = None


def within(window: Window, turns: Sequence[Spoken], fixed: Fixed, *, starts_at: int | None = None) -> Context:
    """Return what a model is shown in a window; see `assemble`."""
    system, brief, background, summary, query = fixed
    if window.cut == "leave out":
        turns = WithoutCut(turns)
    counter = window.counter
    head = list(_head(system, brief, background, summary))
    tail = [] if query is None else [Part("query", _as_turn(query))]
    through = None if summary is None else _through(summary)
    if window.max_tokens is None:
        shown = [Part("turn", turn) for turn in turns]
        return Context((*head, *shown, *tail), summarised_through=through, counter=counter)
    first = 0 if summary is not None else opening_end(turns, window.pinned_count)
    pinned = [Part("pinned", turns[position]) for position in range(first)]
    room = window.max_tokens - Context((*head, *pinned, *tail), counter=counter).tokens
    fit = _newest(turns, first, room, counter, keep_newest=not tail)
    shown = [Part("turn", turn) for turn in fit.turns]
    dropped = _dropped(turns, first, fit.turns, starts_at)
    return Context((*head, *pinned, *shown, *tail), window.max_tokens, dropped, through, counter)


def _head(system: str | None, brief: str | None, background: str | None, summary: Spoken | None) -> Iterator[Part]:
    if system is not None:
        yield Part("system", system=validate.text(system, "system"))
    if brief is not None:
        yield Part("brief", as_entry(f"Your task:\n\n{validate.text(brief, 'brief')}"))
    if background is not None:
        yield Part("background", as_entry(f"What is known so far:\n\n{validate.text(background, 'background')}"))
    if summary is not None:
        yield Part("summary", summary)


def _as_turn(query: object) -> Spoken:
    return query if isinstance(query, ShownTurn | Turn) else as_entry(query)


def _through(summary: Spoken) -> int | None:
    compaction = summary.facts.compaction
    return None if compaction is None else compaction.summarised_through


def _newest(turns: Sequence[Spoken], first: int, room: int, counter: Counter, *, keep_newest: bool) -> Fit[Spoken]:
    """Return the newest turns that fit, the made-up answers to their open calls counted in."""
    made_up = _MadeUp(counter)

    def price(turn: Spoken) -> int:
        return cost(turn, counter) + made_up.cost(turn)

    backwards = (turns[position] for position in range(len(turns) - 1, first - 1, -1))
    return newest_that_fit(backwards, room, price, keep_newest=keep_newest)


def _dropped(turns: Sequence[Spoken], first: int, shown: Sequence[Spoken], starts_at: int | None) -> range:
    """Return the indices between the pinned turns and the first one shown; only the turns at both ends are looked at."""
    if first + len(shown) == len(turns):
        return range(0)
    start = turns[first - 1].index + 1 if first else turns[0].index if starts_at is None else starts_at
    return range(start, shown[0].index if shown else turns[-1].index + 1)
