"""Play a record back to an agent; a difference starts a fork."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from trails.compare.value_diff import canonical
from trails.errors import InvalidInput, RecordMiss
from trails.handles import Handle
from trails.history import turn_builder
from trails.history.turn_builder import Draft
from trails.model import sdk_messages, validation
from trails.model.sdk_messages import Dumped
from trails.model.values import ToolCall, Turn
from trails.session import cherry_pick
from trails.session.recorded_calls import (
    CallChain,
    Difference,
    OpenCalls,
    Recording,
    ToolAnswer,
    call_difference,
    missed_call,
    named_call,
    no_answer,
    part_of,
    turn_of,
    unanswered_call,
)
from trails.session.session import Session
from trails.store.contract import read_only
from trails.store.embedded import is_read_only

if TYPE_CHECKING:
    from trails.context import Context

Model = Callable[["Playing"], Any]
"""Asks a model: given the run so far, returns a text, or what the model's SDK returned."""
Tools = Callable[[ToolCall], Any]
"""Calls a tool and returns its answer: a text, a list of parts, or a `ToolAnswer`; other values are kept as JSON text."""
OnMiss = Literal["stop", "live"]
_Live = TypeVar("_Live", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Where answers come from: "recorded", or a callable that is asked each time; and what a miss does."""

    model: Literal["recorded"] | Model = "recorded"
    tools: Literal["recorded"] | Tools = "recorded"
    on_miss: OnMiss = "stop"

    def __post_init__(self) -> None:
        for name, source in (("model", self.model), ("tools", self.tools)):
            if source != "recorded" and not callable(source):
                raise InvalidInput(f'{name} is "recorded" or a callable, not {source!r:.80}')
        if self.on_miss not in ("stop", "live"):
            raise InvalidInput(f'on_miss is "stop" or "live", not {self.on_miss!r:.80}')


@dataclass(slots=True)
class _Answered:
    """A tool call that was answered and is not in the transcript yet."""

    position: int | None
    """Its place among the calls of the turn that asked; None for a call that no turn asked for."""
    call: ToolCall
    answer: ToolAnswer


class Playing(Handle, public=True):
    """The run of an agent over a record, which the agent gets: it asks for input, models and tools here.

    While what is said agrees with the record, the record's own turns are returned and nothing is written. From the first
    turn that differs on, all that is said becomes turns of a fork.
    """

    def __init__(
        self, source: Session, recording: Recording, ways: ReplayOptions, options: Mapping[str, Any], number: int = 0
    ) -> None:
        """Not for callers: `trails.rerun` makes it for the agent."""
        if not isinstance(recording, Recording):
            what = "trails.rerun(session, agent) gives one to the agent"
            raise InvalidInput(f"a Playing is not made by its class: {what}")
        self.number = number
        """Which of several reruns this is, from 0."""
        self.difference: Difference | None = None
        """Where the run first left the record; None as long as it has not."""
        self.left_at: int | None = None
        """The index of the first turn that is not the record's; None as long as all are."""
        self.played = 0
        """How many answers of models and tools came from the record."""
        self.live = 0
        """How many were called for."""
        self._source, self._recording, self._ways, self._options = source, recording, ways, options
        self._chain = CallChain()
        self._open = OpenCalls(None)
        self._asked_at = ""
        self._answered: list[_Answered] = []
        self._cursor = 0
        self._fork: Session | None = None
        self._seen: Session | None = None
        self._miss: RecordMiss | None = None
        self._ended = False
        self._alone = RLock()

    def __repr__(self) -> str:
        left = "agrees" if self.left_at is None else f"left at {self.left_at}"
        return f"<Playing of {self._recording.session_id!r}: {len(self._chain)} turns, {left}>"

    # --- what there is so far

    @property
    def session_id(self) -> str:
        """The id of the session whose record is played."""
        return self._recording.session_id

    @property
    def turns(self) -> Sequence[Turn]:
        """The transcript of the run so far; answers of tools are in it once the next one speaks."""
        with self._alone:
            self._agree()
            return tuple(self._chain.turns)

    def context(self, /, **options: Any) -> Context:
        """Return what a model is to be shown of the run so far, as `Session.context` does."""
        with self._alone:
            self._check()
            self._settle()
            return self._session().context(**options)

    @property
    def miss(self) -> RecordMiss | None:
        """What the run was stopped by; None if it was not."""
        return self._miss

    # --- what an agent asks for

    def input(self) -> tuple[Turn, ...]:
        """Return the next turns from outside that the record has, those of one go, and add them; none at its end.

        After the run left the record, inputs come in the order of the record all the same.
        """
        with self._alone:
            self._check()
            self._settle()
            turns, left = self._recording.turns, self._fork is not None
            start = self._cursor if left else len(self._chain)
            while start < len(turns) and not _is_input(turns[start], left=left):
                start += 1
            end = start
            while end < len(turns) and _is_input(turns[end], left=left):
                end += 1
            self._cursor = end
            return tuple(self._repeat(turn) for turn in turns[start:end])

    def append(self, /, role: str, content: Any, **options: Any) -> Turn:
        """Add a turn that the agent itself makes, as `Session.append` takes it, and return it."""
        with self._alone:
            self._check()
            self._settle()
            content, fields = sdk_messages.taken(role, content, _options(options))
            return self._say(turn_builder.check_fields(self.session_id, role, content, fields))

    def model(self, live: Model | None = None) -> Turn:
        """Return the model's next answer: the record's, or that of the model that the rerun was given.

        Where the record has none, `live` is called with this run, if misses go on live; it returns a text, or what the
        model's SDK returned. Raises `RecordMiss`, which ends the rerun, if they do not.
        """
        answer = self.begin_model(live)
        return answer if isinstance(answer, Turn) else self.end_model(answer(self))

    def tool(self, call: ToolCall | str, arguments: Any = None, *, live: Tools | None = None) -> ToolAnswer:
        """Return a tool's answer to a call of the last turn that called tools: the record's, or that of the given tools.

        `call` is the `ToolCall`, or the tool's name beside its `arguments`. Where the record has no answer, `live` is
        called with the call, if misses go on live. Raises `RecordMiss`, which ends the rerun, if they do not.
        """
        named = named_call(call, arguments)
        answer = self.begin_tool(named, live)
        return answer if isinstance(answer, ToolAnswer) else self.end_tool(named, answer(named))

    # --- models

    def begin_model(self, live: Model | None) -> Turn | Model:
        """Return the model's recorded answer, after it was added, or whom to ask: `end_model` takes that answer (internal)."""
        with self._alone:
            self._check()
            self._settle()
            if callable(self._ways.model):
                return self._ways.model
            turn = self._recording.model(self._chain.digest)
            if turn is not None:
                self.played += 1
                return self._take(turn)
            return self._live(live, "a model", self.difference or no_answer(self._recording, len(self._chain)))

    def end_model(self, answer: Any) -> Turn:
        """Add what a model answered that was asked live (internal)."""
        with self._alone:
            self._check()
            self.live += 1
            return self._say(_model_draft(self.session_id, answer))

    # --- tools

    def begin_tool(self, call: ToolCall, live: Tools | None) -> ToolAnswer | Tools:
        """Return a tool's recorded answer, after it was noted, or whom to ask: `end_tool` takes that answer (internal)."""
        with self._alone:
            self._check()
            return self._ways.tools if callable(self._ways.tools) else self._recorded_tool(call, live)

    def _recorded_tool(self, call: ToolCall, live: Tools | None) -> ToolAnswer | Tools:
        self._agree()
        position, index = self._open.pick(call), len(self._chain)
        asking = self._open.asking
        if position is None or asking is None:
            why = self._open.missing(call, index)
        elif not self._recording.agrees(asking.index + 1, self._asked_at):
            why = self.difference or Difference(index, "the turn that called", None, None)
        elif (answer := self._recording.answer(asking.index, position)) is None:
            why = unanswered_call(self._open, position, index)
        else:
            self.played += 1
            self._note(position, call, answer)
            return answer
        return self._live(live, f"tool {call.name!r}", why)

    def end_tool(self, call: ToolCall, answer: Any) -> ToolAnswer:
        """Note what a tool answered that was called live (internal)."""
        tool_answer = answer if isinstance(answer, ToolAnswer) else ToolAnswer(_tool_content(answer))
        with self._alone:
            self._check()
            self.live += 1
            self._note(self._open.pick(call), call, tool_answer)
            return tool_answer

    def _note(self, position: int | None, call: ToolCall, answer: ToolAnswer) -> None:
        if position is not None:
            self._open.answers[position] = answer
        self._answered.append(_Answered(position, call, answer))

    # --- the transcript

    def _take(self, turn: Turn) -> Turn:
        """Go on with a turn: of the record, if it agrees, or of the fork."""
        self._chain.add(turn)
        if turn.tool_calls:
            self._open, self._asked_at = OpenCalls(turn), self._chain.digest
        return turn

    def _say(self, draft: Draft) -> Turn:
        """Add a turn: the record's, if that says the same, else one of the fork."""
        index = len(self._chain)
        candidate = turn_of(draft, index)
        if self._fork is None:
            if self._recording.agrees(index + 1, self._chain.digest_with(candidate)):
                return self._take(self._recording.turns[index])
            there = self._recording.turns[index] if index < len(self._recording) else None
            self._leave(call_difference(index, there, candidate))
        return self._add(draft)

    def _repeat(self, turn: Turn) -> Turn:
        """Go on with an input of the record; after the record was left, the fork quotes it."""
        if self._fork is None and turn.index != len(self._chain):
            index = len(self._chain)
            self._leave(call_difference(index, self._recording.turns[index], turn))
        if self._fork is None:
            if turn.redacted:
                self._stop("input", call_difference(turn.index, turn, None))
            return self._take(turn)
        return self._add(next(cherry_pick.quoted_drafts([turn])))

    def _add(self, draft: Draft) -> Turn:
        assert self._fork is not None  # noqa: S101 - callers left the record before
        return self._take(self._fork.worktree.append(draft))

    def _leave(self, why: Difference) -> None:
        """Leave the record: from here on, all turns are a fork's."""
        if self._fork is None:
            self.left_at, self.difference, self._cursor = len(self._chain), why, max(self._cursor, len(self._chain))
            self._fork = self._new_fork()

    def _new_fork(self) -> Session:
        fork = self._source.fork(at=len(self._chain), **self._options)
        fork.worktree.picker = fork.worktree.workspace.who(self._options.get("by"))
        fork.worktree.picking = "rerun"
        return fork

    def _agree(self) -> None:
        """Go on with the answers of tools that the record has next, where the calls were answered the same way here."""
        while self._fork is None and self._answered:
            index = len(self._chain)
            calls = self._recording.answered_in(index)
            matching = [each for each in self._answered if self._is_recorded(each, calls)]
            if not calls or len(matching) != len(calls):
                return
            self._answered = [each for each in self._answered if each not in matching]
            self._take(self._recording.turns[index])

    def _is_recorded(self, answered: _Answered, calls: Sequence[tuple[int, int]]) -> bool:
        asking = self._open.asking
        if asking is None or answered.position is None or (asking.index, answered.position) not in calls:
            return False
        there = self._recording.answer(asking.index, answered.position)
        return there is not None and _same(there, answered.answer)

    def _settle(self) -> None:
        """Bring the answers of tools into the transcript: the next one speaks."""
        self._agree()
        if not self._answered:
            return
        if self._fork is None:
            index = len(self._chain)
            there = self._recording.turns[index] if index < len(self._recording) else None
            self._leave(self._answers_differ(index, there))
        answered, self._answered = self._answered, []
        for each in answered:
            self._add(self._answer_draft(each))

    def _answers_differ(self, index: int, there: Turn | None) -> Difference:
        asking = self._open.asking
        calls = self._recording.answered_in(index)
        for each in self._answered:
            if asking is not None and each.position is not None and (asking.index, each.position) in calls:
                recorded = self._recording.answer(asking.index, each.position)
                if recorded is not None and not _same(recorded, each.answer):
                    shown = _shown_call(recorded), _shown_call(each.answer)
                    return Difference(index, f"answer of {each.call.name}", *shown)
        return call_difference(index, there, turn_of(self._answer_draft(self._answered[0]), index))

    def _answer_draft(self, each: _Answered) -> Draft:
        """Return an answer as a turn of the fork: one that quotes the record, where that has it as a turn of its own."""
        recorded = each.answer.turn
        if recorded is not None and len(recorded.tool_results) == 1 and part_of(recorded) == "tool":
            return next(cherry_pick.quoted_drafts([recorded]))
        call_id = None if each.position is None else self._open.calls[each.position].id
        options = {"tool_call_id": call_id, "is_error": each.answer.is_error}
        return turn_builder.check_fields(self.session_id, "tool", each.answer.content, options)

    def _session(self) -> Session:
        """Return the run so far as a session: the fork, or one that is never stored."""
        if self._fork is not None:
            return self._fork
        if self._seen is None or len(self._seen) != len(self._chain):
            self._let_go()
            self._seen = self._source.fork(at=len(self._chain))
        return self._seen

    def _let_go(self) -> None:
        if self._seen is not None:
            self._seen.discard_pending()
            self._seen = None

    # --- misses, and the end

    def _live(self, live: _Live | None, wanted: str, why: Difference) -> _Live:
        if self._ways.on_miss == "stop":
            self._stop(wanted, why)
        if live is None or not callable(live):
            raise InvalidInput(
                f"the record of session {self.session_id!r} has no answer for {wanted} at index {why.index} ({why.text}), and "
                "nothing to ask instead: give model(live=...) or tool(live=...) a callable, or rerun() one"
            )
        return live

    def _stop(self, wanted: str, why: Difference) -> NoReturn:
        self._settle()
        self._miss = missed_call(self._recording, wanted, why)
        if self._fork is None:
            self.left_at, self.difference = len(self._chain), why
        raise self._miss

    def _check(self) -> None:
        """Raise again what stopped the run: an agent that goes on in spite of it gets nothing more."""
        if self._miss is not None:
            raise self._miss.with_traceback(None)  # which would grow each time
        if self._ended:
            what = f"this run over session {self.session_id!r} has ended"
            raise InvalidInput(f"{what}; rerun the session for another one")

    def refuse_early(self) -> None:
        """Raise for a fork that could not be made later: a store that is read, names in use, a lineage too deep."""
        store = self._source.worktree.workspace.store
        if is_read_only(store):
            raise read_only(store.location)
        self._source.fork(at=len(self._chain), **self._options).discard_pending()

    def give_up(self) -> None:
        """Let go of all that was said: nothing of it is stored."""
        self._ended = True
        self._let_go()
        if self._fork is not None:
            self._fork.discard_pending()

    def end(self) -> Session:
        """Return the fork, with all that was said, for the rerun to store; for the rerun alone."""
        if self._miss is None:
            self._settle()
        self._ended = True
        self._let_go()
        index = len(self._chain)
        if self._fork is None and self.left_at is None and index < len(self._recording):
            self.left_at, self.difference = index, call_difference(index, self._recording.turns[index], None)
        if self._fork is None:
            self._fork = self._new_fork()
        return self._fork


def _is_input(turn: Turn, *, left: bool) -> bool:
    """Tell whether a turn of the record is given again; after the record was left, no summary is, and nothing redacted."""
    return part_of(turn) == "input" and not (left and (turn.redacted or turn.compaction is not None))


def _same(one: ToolAnswer, other: ToolAnswer) -> bool:
    return one.is_error == other.is_error and canonical(one.content) == canonical(other.content)


def _shown_call(answer: ToolAnswer) -> str:
    text = canonical(answer.content)
    return ("error " if answer.is_error else "") + (text if len(text) <= 60 else f"{text[:57]}...")


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `Session.append` that are looked at whether they were given or not."""
    return {"usage": None, "tool_calls": (), "tool_call_id": None, **options}


def _model_draft(session_id: str, answer: Any) -> Draft:
    refuse_awaitable(answer)
    if isinstance(answer, Turn):
        raise InvalidInput("a live model returns a text or what its SDK returned, not a Turn: return its content")
    if isinstance(answer, str):
        return turn_builder.check_fields(session_id, "assistant", answer, {})
    message = sdk_messages.read(answer)
    if message.role != "assistant":
        raise InvalidInput(
            f"a model answers as assistant, not as {message.role!r:.80}; run.append adds what others say"
        )
    return turn_builder.check_fields(session_id, message.role, message.content, message.options)


def refuse_awaitable(answer: Any) -> None:
    """Raise for what a coroutine function gives if nobody awaits it."""
    refuse_yields(answer)
    if isawaitable(answer):
        if iscoroutine(answer):
            answer.close()
        raise InvalidInput("a coroutine function is asked in an event loop alone: trails.aio.rerun runs agents there")


def refuse_yields(answer: Any) -> None:
    """Raise for what a function that yields gives: nothing of it has run."""
    if isgenerator(answer) or isasyncgen(answer):
        raise InvalidInput("a function that yields does not run where it is called: let it return what it has to say")


def _tool_content(answer: Any) -> Any:
    refuse_awaitable(answer)
    is_parts = isinstance(answer, list) and all(isinstance(each, Mapping | Dumped) for each in answer)
    return answer if isinstance(answer, str) or is_parts else validation.to_json(answer, "a tool's answer")
