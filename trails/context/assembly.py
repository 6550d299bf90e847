"""Pair calls with results and assemble a context.

`repair_calls` follows the rules of OpenClaw (clawdbot, src/agents/session-transcript-repair.ts, MIT), in own words: after each
assistant's message with calls comes one answer for each call, in the order of the calls. An answer is looked for up to the
next assistant's message; if there is none, one that says so is made up. A second answer to a call is dropped, and so is an
answer to no call. Only what a model is shown changes.

Everything here is pure. Turns come in order and without summaries; `trails.session.model_context` finds them in a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NotRequired, TypedDict, cast

from trails.context import provider_messages
from trails.context.messages import (
    MESSAGE_TOKENS,
    Counter,
    Message,
    Piece,
    ShownTurn,
    TurnView,
    count_tokens,
    estimate,
    message_tokens,
    messages_of,
)
from trails.context.window import Window, answered_ids, is_assistant, newest_that_fit, opening_end
from trails.display import html, text_table
from trails.display.tables import Kind as ColumnKind
from trails.display.tables import PlainTable, Tabular
from trails.display.terminal_text import LINE_WIDTH, count, shorten
from trails.errors import InvalidInput
from trails.model import validation
from trails.model.content_parts import calls_in, plain_text, results_in
from trails.model.values import Facts

MISSING_RESULT: Final = "[no result was recorded for this call]"
"""What a made-up answer says."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What `repair` did."""

    messages: tuple[Message, ...]
    """The messages: as they were given, if nothing was changed."""
    paired: tuple[Message, ...]
    """The messages with each call's answers right after it, in the order of the calls, nothing doubled."""
    added: tuple[str, ...] = ()
    """The ids of the calls whose answers were made up."""
    dropped_duplicate: int = 0
    """How many second answers to a call were left out; one right after the first is no change (so upstream)."""
    dropped_orphan: int = 0
    """How many answers to no call were left out."""
    changed: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the counts as plain values, ready for JSON."""
        names = ("dropped_duplicate", "dropped_orphan", "changed")
        return {"added": list(self.added)} | {name: getattr(self, name) for name in names}


def missing_answer(call_id: str) -> Message:
    """Return the answer that stands in for one that was never recorded."""
    return Message("tool", (MISSING_RESULT,), call_id=call_id, is_error=True, synthetic=True)


def repair_calls(messages: Sequence[Message]) -> Repair:
    """Return messages whose calls are all answered, right after them and once; and what had to be done for it.

    >>> from trails.model.values import ToolCall
    >>> asked = Message("assistant", calls=(ToolCall(id="c1", name="ls", arguments="{}"),))
    >>> done = repair_calls([asked, Message("user", ("later",))])
    >>> [message.role for message in done.messages], done.added, done.changed
    (['assistant', 'tool', 'user'], ('c1',), True)
    """
    starts = [number for number, message in enumerate(messages) if message.role == "assistant"]
    out: list[Message] = []
    added: list[str] = []
    answered: set[str] = set()
    duplicates = repeated = orphans = 0
    is_moved = False
    for start, end in pairwise([0, *starts, len(messages)]):
        callers = [message for message in messages[start:end] if message.role == "assistant"]
        calls = callers[0].calls if callers else ()
        wanted = {call.id for call in calls}
        answers: dict[str | None, Message] = {}
        rest: list[Message] = []
        for message in messages[start + len(callers) : end]:
            if message.role != "tool":
                rest.append(message)
            elif message.call_id not in wanted:
                orphans += 1
            elif message.call_id in answered:
                duplicates += 1
            elif message.call_id in answers:
                repeated += 1
            else:
                answers[message.call_id] = message
        is_moved = is_moved or bool(answers and rest)
        out += callers
        for call in calls:
            if call.id not in answers:
                added.append(call.id)
            if call.id in answered:
                duplicates += 1
            else:
                answered.add(call.id)
                out.append(answers.get(call.id) or missing_answer(call.id))
        out += rest
    paired = tuple(out)
    changed = bool(is_moved or added or duplicates or orphans)
    return Repair(paired if changed else tuple(messages), paired, tuple(added), duplicates + repeated, orphans, changed)


# --- before the repair: what would make it lose more than it must


def drop_unpaired(messages: Iterable[Message]) -> list[Message]:
    """Return messages in which each answer to a call that none before it makes is told by the user, and says so.

    Only for messages from the beginning on: if some were left out, the call may stand among those.

    >>> drop_unpaired([Message("tool", ("Snow",), call_id="c9")])[0].text
    '[answer to the call c9, which is not on record]\\nSnow'
    """
    call_ids: set[str] = set()
    out: list[Message] = []
    for message in messages:
        call_ids |= {call.id for call in message.calls}
        if message.role == "tool" and message.call_id not in call_ids:
            named = f"the call {message.call_id}" if message.call_id else "a call"
            heading = f"[answer to {named}, which is not on record]"
            out.append(Message("user", (heading, *message.pieces), turn_index=message.turn_index))
        else:
            out.append(message)
    return out


def prepare_messages(messages: Iterable[Message]) -> list[Message]:
    """Return messages with parallel calls in one message, and with every call's id used once.

    Some sources write each of several parallel calls as a message of its own, before all the answers; others give the
    ids of earlier calls to later ones. Neither is a fault of the transcript, and `repair` alone would drop the answers.
    """
    return _with_own_ids(_joined(messages))


def _joined(messages: Iterable[Message]) -> list[Message]:
    """Join adjacent messages of the assistant if the answers to the first one's calls come after the last."""
    out: list[Message] = []
    runs = [list(run) for _, run in groupby(messages, key=lambda message: message.role == "assistant")]
    for run, after in zip(runs, [*runs[1:], []], strict=False):
        answered = {message.call_id for message in after}
        first = next((n for n, m in enumerate(run[:-1]) if any(call.id in answered for call in m.calls)), None)
        out += run if first is None else [*run[:first], _one(run[first:])]
    return out


def _one(run: Sequence[Message]) -> Message:
    pieces: list[Piece] = []
    placed: list[int] = []
    raw: dict[str, Mapping[str, Any]] = {}
    for message in run:
        at = message.placed or [len(message.pieces)] * len(message.calls)
        placed += [len(pieces) + place for place in at]
        pieces += message.pieces
        raw |= message.raw
    calls = tuple(call for message in run for call in message.calls)
    return run[-1]._replace(pieces=tuple(pieces), calls=calls, placed=tuple(placed), raw=raw, is_text=False)


def _with_own_ids(messages: Iterable[Message]) -> list[Message]:
    taken: set[str] = set()
    ids_by_call: dict[str, list[str]] = {}
    """The new ids of the calls asked for last, by their own ids, in order; those answered already are gone."""
    out: list[Message] = []
    for message in messages:
        renamed = message
        if message.role == "assistant":
            ids_by_call = {}
            calls = []
            for call in message.calls:
                new, number = call.id, 2
                while new in taken:
                    new, number = f"{call.id}-{number}", number + 1
                taken.add(new)
                ids_by_call.setdefault(call.id, []).append(new)
                calls.append(call if new == call.id else call.model_copy(update={"id": new}))
            renamed = message._replace(calls=tuple(calls))
        elif message.call_id is not None and message.call_id in ids_by_call:
            waiting = ids_by_call[message.call_id]
            new = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            renamed = message._replace(call_id=new)
        out.append(renamed)
    return out


_AS_THEY_ARE: Final = ("pinned", "turn")
Kind = Literal["system", "brief", "background", "summary", "pinned", "turn", "query"]


class Part(NamedTuple):
    """One thing in a context: a turn, or (for the system prompt) a text."""

    kind: Kind
    turn: TurnView | None = None
    system: str = ""

    @property
    def text(self) -> str:
        """What a person would read of it."""
        return self.system if self.turn is None else plain_text(self.turn.content)

    @property
    def messages(self) -> list[Message]:
        """What a model is shown of it beside the system prompt."""
        return [] if self.turn is None else messages_of(self.turn)

    def tokens(self, counter: Counter) -> int:
        """Return how many tokens it takes."""
        if self.turn is None:
            return MESSAGE_TOKENS + count_tokens(counter, self.system)
        return message_tokens(self.turn, counter)

    def to_dict(self, counter: Counter) -> dict[str, Any]:
        """Return the part as plain values, ready for JSON."""
        plain: dict[str, Any] = {"kind": self.kind, "tokens": self.tokens(counter)}
        if self.turn is not None and self.turn.index >= 0:
            plain["index"] = self.turn.index
        if self.turn is not None:
            plain["role"] = self.turn.role
        return plain | {"text": self.text}


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
        others = dict.fromkeys(_NAMES.get(part.kind, part.kind) for part in self.parts if part.kind not in _AS_THEY_ARE)
        limit = "" if self.max_tokens is None else f" of {self.max_tokens:,}"
        line = f"<Context: {count(len(self.turns), 'turn')}, {self.tokens:,}{limit} tokens"
        line += "" if self.within_budget else ", over the budget"
        left_out = [count(len(self.dropped), "turn")] if self.dropped else []
        left_out += [count(self._unpaired, "unpaired answer")] if self._unpaired else []
        line += f"; {' and '.join(left_out)} left out" if left_out else ""
        line += f"; with {', '.join(others)}" if others else ""
        return f"{shorten(line, LINE_WIDTH - 1)}>"

    def __str__(self) -> str:
        """Return a line a part under what the context takes, the first 20, and why it takes more than it may."""
        return "\n".join([text_table.draw(repr(self), self.table()), *([self.why] if self.why else [])])

    # --- what is in it

    @property
    def system(self) -> str | None:
        """The system prompt."""
        return next((part.system for part in self.parts if part.kind == "system"), None)

    @property
    def summary(self) -> TurnView | None:
        """The summary turn that stands for what came before the turns."""
        return next((part.turn for part in self.parts if part.kind == "summary"), None)

    @property
    def turns(self) -> tuple[TurnView, ...]:
        """The turns that are shown as they are, in order; neither the summary nor the query."""
        return tuple(part.turn for part in self.parts if part.kind in _AS_THEY_ARE and part.turn is not None)

    @cached_property
    def repair(self) -> Repair:
        """The messages after the system prompt with each tool call answered, and what had to be done for that."""
        messages, _ = self._told
        if not any(message.calls or message.role == "tool" for message in messages):
            return Repair(tuple(messages), tuple(messages))
        return repair_calls(prepare_messages(messages))

    @property
    def _unpaired(self) -> int:
        """How many answers of the turns that are shown are left out: they answer no call, or one that is answered."""
        return self.repair.dropped_orphan + self.repair.dropped_duplicate

    @cached_property
    def _told(self) -> tuple[list[Message], int]:
        """What is said, and what it takes more to say of answers to calls that nobody made: they are shown if it fits."""
        messages = [message for part in self.parts for message in part.messages]
        if self.dropped or self.summary is not None:  # the calls may stand among what is left out
            return messages, 0
        dropped = drop_unpaired(messages)
        pairs = [(new, old) for new, old in zip(dropped, messages, strict=True) if new is not old]
        more = sum(new.tokens(self.counter) - old.tokens(self.counter) for new, old in pairs)
        fits = not pairs or self.max_tokens is None or self._said_tokens + more <= self.max_tokens
        return (dropped, more) if fits else (messages, 0)

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
        """Why it takes more than `max_tokens`, with what each part takes; None if it fits."""
        if self.within_budget:
            return None
        sums: dict[str, int] = {}
        for part in self.parts:
            sums[part.kind] = sums.get(part.kind, 0) + part.tokens(self.counter)
        named = ", ".join(f"{_NAMES.get(kind, kind)} {count:,}" for kind, count in sums.items())
        return f"what cannot be left out takes {self.tokens:,} of {self.max_tokens:,} tokens ({named})"

    # --- as the model APIs want it

    def openai(self) -> list[ChatCompletionMessageParam]:
        """Return the messages for OpenAI's chat API, the system prompt among them.

        Type checkers see the SDK's own type if it is installed, any type if it is not; so for the two below.
        """
        entries = provider_messages.openai_messages(self.system, self.repair.paired)
        return cast("list[ChatCompletionMessageParam]", entries)

    def anthropic(self) -> AnthropicRequest:
        """Return `messages`, and `system` if there is a system prompt, for Anthropic's messages API."""
        return cast("AnthropicRequest", provider_messages.anthropic_messages(self.system, self.repair.paired))

    def responses(self) -> ResponsesRequest:
        """Return `input`, and `instructions` if there is a system prompt, for OpenAI's responses API."""
        return cast("ResponsesRequest", provider_messages.responses_items(self.system, self.repair.paired))

    def table(self) -> PlainTable:
        """Return what is in it as a table: its kind, index, role, tokens and text."""
        rows = [part.to_dict(self.counter) for part in self.parts]
        return PlainTable(_COLUMNS, [{name: row.get(name) for name in _COLUMNS} for row in rows])

    @html.safe
    def _repr_html_(self) -> str:
        figures = {
            "tokens": f"{self.tokens:,}" + ("" if self.max_tokens is None else f" of {self.max_tokens:,}"),
            "left out": f"{len(self.dropped)}, {self.dropped[0]} to {self.dropped[-1]}" if self.dropped else None,
            "unpaired answers left out": self._unpaired or None,
            "summarised through": self.summarised_through,
        }
        why = [html.note(self.why)] if self.why else []
        shown = (_as_html(part, self.counter) for part in self.parts)
        return html.box(f"context: {count(len(self.parts), 'part')}", chain([html.facts(figures)], why, shown))

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
    plain = part.to_dict(counter)
    heading = (plain.get("index"), part.kind, f"{plain['tokens']:,} tokens")
    calls = () if part.turn is None or part.turn.structured else part.turn.facts.tool_calls
    lines = [part.text] + [f"-> {call.name} {call.arguments or '(redacted)'}" for call in calls]
    return html.message(
        plain.get("role", "system"), heading, "\n".join(filter(None, lines)), faint=part.kind == "system"
    )


_NAMES: Final = {"system": "system prompt", "pinned": "pinned turns", "turn": "newest turns"}
"""What the kinds of parts are called that are not called by their own name."""


class _MadeUp:
    """What the answers take that have to be made up, for turns that come newest first: never less than it will be."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._answered: set[str] = set()
        self._past_assistant = False

    def cost(self, turn: TurnView) -> int:
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
    if isinstance(content, int | float):
        raise InvalidInput(
            f"a query is a text or a list of parts, not {content!r}; a budget goes by name, max_tokens={content}"
        )
    text, structured = validation.content(content)
    facts = Facts()
    if structured and isinstance(content, list | tuple):
        facts = Facts(tool_calls=calls_in(content), tool_results=results_in(content))
    return ShownTurn(-1, role, text, structured, facts=facts)


_EVERYTHING: Final = Window(pinned_count=0)


def assemble(
    turns: Sequence[TurnView],
    window: Window = _EVERYTHING,
    *,
    system: str | None = None,
    brief: str | None = None,
    background: str | None = None,
    summary: TurnView | None = None,
    query: object = None,
    starts_at: int | None = None,
) -> Context:
    """Return what a model is shown: system prompt, brief, background, summary, turns and query, in this order.

    `turns` are what the summary does not stand for (everything, without one), in order and without other summaries;
    they may be a sequence that reads its turns when asked, since the oldest are not looked at once the budget is full
    (`starts_at` then says which index the first one has). `brief` is the task of a session that another one spawned,
    and `background` what that one told it. `query` is text, a list of parts, or a turn. If the window has a limit,
    the oldest turns are left out, after the first that it pins, a tool call always together with its answers; a
    summary stands for the first turns, so none are pinned beside one. System prompt, brief, background, summary, pinned
    turns and query always stay; without a query the newest turn does too, with what belongs to it. Where those alone
    are too many, the context says so in `why`.

    >>> context = assemble([ShownTurn(0, "user", "Plan a trip"), ShownTurn(1, "assistant", "Where to?")], query="To the Alps")
    >>> [message["content"] for message in context.openai()], context.tokens, context.within_budget
    (['Plan a trip', 'Where to?', 'To the Alps'], 21, True)
    """
    if window.cut == "leave out":
        turns = [ShownTurn(turn.index, "event", "") if turn.facts.is_cut else turn for turn in turns]
    counter = window.counter
    head = list(_head(system, brief, background, summary))
    tail = [] if query is None else [Part("query", query if isinstance(query, TurnView) else as_entry(query))]
    compaction = None if summary is None else summary.facts.compaction
    through = None if compaction is None else compaction.summarised_through
    if window.max_tokens is None:
        shown = [Part("turn", turn) for turn in turns]
        return Context((*head, *shown, *tail), summarised_through=through, counter=counter)
    first = 0 if summary is not None else opening_end(turns, window.pinned_count)
    pinned = [Part("pinned", turns[position]) for position in range(first)]
    room = window.max_tokens - Context((*head, *pinned, *tail), counter=counter).tokens
    made_up = _MadeUp(counter)
    backwards = (turns[position] for position in range(len(turns) - 1, first - 1, -1))
    fit = newest_that_fit(
        backwards, room, lambda turn: message_tokens(turn, counter) + made_up.cost(turn), keep_newest=not tail
    )
    shown = [Part("turn", turn) for turn in fit.turns]
    dropped = _dropped(turns, first, fit.turns, starts_at)
    return Context((*head, *pinned, *shown, *tail), window.max_tokens, dropped, through, counter)


def _head(system: str | None, brief: str | None, background: str | None, summary: TurnView | None) -> Iterator[Part]:
    if system is not None:
        yield Part("system", system=validation.text(system, "system"))
    if brief is not None:
        yield Part("brief", as_entry(f"Your task:\n\n{validation.text(brief, 'brief')}"))
    if background is not None:
        yield Part("background", as_entry(f"What is known so far:\n\n{validation.text(background, 'background')}"))
    if summary is not None:
        yield Part("summary", summary)


def _dropped(turns: Sequence[TurnView], first: int, shown: Sequence[TurnView], starts_at: int | None) -> range:
    """Return the indices between the pinned turns and the first one shown; only the turns at both ends are looked at."""
    if first + len(shown) == len(turns):
        return range(0)
    start = turns[first - 1].index + 1 if first else turns[0].index if starts_at is None else starts_at
    return range(start, shown[0].index if shown else turns[-1].index + 1)
