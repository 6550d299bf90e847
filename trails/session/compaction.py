"""Compacting a session: a summary turn at its end, after which a model is shown the summary and what was kept.

The order is what keeps history safe: the host's summariser is asked first; only then is anything changed, and what is
changed is one more turn at the end. Turns that were appended meanwhile, here or by another writer, come before it and are kept.

The steps are generators that yield what has to be called outside, so that sync and async callers share all of them.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from trails import validate
from trails.context import compacting
from trails.context.assembling import Context
from trails.context.compacting import CompactionPolicy, Keep, MaxTokens, Plan, Summary, SummaryRequest
from trails.context.messages import cost
from trails.context.overflowing import is_overflow
from trails.context.shown import ShownTurn
from trails.context.tokens import Counter, counted, estimate
from trails.errors import (
    ContextOverflow,
    HeadConflict,
    InvalidInput,
    NothingToSummarise,
    SessionNotFound,
    TrailsError,
)
from trails.model import Compaction, Turn
from trails.plumbing import draft
from trails.plumbing.draft import Draft
from trails.plumbing.worktree import Worktree
from trails.session import assembly
from trails.session.assembly import since_summary

Summarise = Callable[[SummaryRequest], "str | Summary | Awaitable[str | Summary]"]
"""The host's summariser: is given what to summarise, and returns the text, or a `Summary`; it may be a coroutine."""
Clock = Callable[[], float]

_RETRIES: Final = 16
"""How often a summary is put after what other writers appended, before giving up."""

_Result = TypeVar("_Result")
Steps = Generator[Callable[[], Any], Any, _Result]
"""Yields functions to call, is sent what they return (or thrown what they raise), and returns a result."""


# --- running steps


def run(steps: Steps[_Result]) -> _Result:
    """Run steps to their end; raise `InvalidInput` where what they call has to be awaited."""
    try:
        step = next(steps)
        while True:
            try:
                answer = _not_awaitable(step())
            except Exception as error:  # noqa: BLE001 - the steps handle it, or let it out
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as done:
        return cast("_Result", done.value)


def _not_awaitable(value: Any) -> Any:
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise InvalidInput(
            "a coroutine was given where a plain function is called; in an event loop use the sessions of trails.aio"
        )
    return value


# --- compaction


@dataclass(frozen=True, slots=True)
class Options:
    """How to compact; see `Session.compact`."""

    keep_tokens: int | None = None
    keep_turns: int | None = None
    keep: Keep | None = None
    trigger: str = "manual"
    request: str | None = None
    model: str | None = None
    max_summary_tokens: MaxTokens = None
    counter: Counter | None = None
    author: str | None = None
    clock: Clock = time.monotonic


def compact(tree: Worktree, summarise: Summarise, options: Options) -> Steps[Turn]:
    """Yield the call of the summariser, then store the summary and return its turn."""
    trigger = compacting.trigger_name(options.trigger)
    request = compacting.REQUEST if options.request is None else validate.text(options.request, "request")
    counter = assembly.window_of(tree, counter=options.counter).counter
    with tree.alone.patiently():
        previous, turns = since_summary(tree.turns)
        plan = compacting.plan(
            list(turns),
            previous,
            keep_tokens=options.keep_tokens,
            keep_turns=options.keep_turns,
            keep=options.keep,
            counter=counter,
        )
    limit, rule = compacting.summary_limit(options.max_summary_tokens, plan.tokens)
    asked = SummaryRequest(request, plan.summarise, previous, limit, trigger)
    started = options.clock()
    answer = yield partial(summarise, asked)
    took = max(0, round((options.clock() - started) * 1000))
    known = Compaction(
        summarised_through=plan.summarised_through,
        trigger=trigger,
        summarised_from=plan.summarise[0].index,
        summarised_turns=len(plan.summarise),
        previous_summary=None if previous is None or previous.old_iri else previous.iri,
        request=request,
        max_summary_tokens=limit,
        max_summary_rule=rule,
        duration_ms=took,
    )
    return _Storing(tree, plan, known, counter).store(_summary(tree, answer, limit, counter), options)


def _summary(tree: Worktree, answer: object, limit: int | None, counter: Counter) -> Summary:
    made = answer if isinstance(answer, Summary) else Summary(validate.text(answer, "the summary"))
    if not validate.text(made.text, "the summary").strip():
        raise InvalidInput(f"the summariser returned no text for session {tree.id!r}; nothing was written")
    tokens = counted(counter, made.text)
    if limit is not None and tokens > (
        limit * 3 // 2 if counter is estimate else limit
    ):  # an estimate may be that far off
        raise InvalidInput(
            f"the summary of session {tree.id!r} takes {tokens:,} tokens, and at most {limit:,} were asked for; nothing "
            "was written. Let the summariser keep to the request's max_tokens, or allow more (max_summary_tokens)"
        )
    return made


class _Storing:
    """Putting a summary at the end of a session as it is by now."""

    def __init__(self, tree: Worktree, plan: Plan, known: Compaction, counter: Counter) -> None:
        self._tree = tree
        self._plan = plan
        self._known = known
        self._counter = counter

    def store(self, summary: Summary, options: Options) -> Turn:
        """Append the summary and persist it, after whatever was appended meanwhile; return its turn.

        Where this handle has pending turns of its own, and another writer was quicker, `HeadConflict` is raised as by
        any `persist`: the pending turns and the summary stay pending, for `keep_as_fork`. In an exchange, and in a
        worker, nothing is persisted here: the summary becomes part of what is.
        """
        validate.usage_counts(summary.usage)
        made = draft.make(
            "summary",
            summary.text,
            author=options.author,
            model=summary.model or options.model,
            usage=summary.usage,
            stop_reason=summary.stop_reason,
            compaction=self._known,
        )
        with self._tree.alone.patiently():
            return self._stored(made)

    def _stored(self, made: Draft) -> Turn:
        tree = self._tree
        for _ in range(_RETRIES):
            alone = not tree.pending and not tree.has_new_prompts
            turn = self._append(made)
            if tree.held is not None or tree.record.kind == "worker":
                return turn
            try:
                tree.persist()
            except HeadConflict:
                if not alone:
                    raise
                tree.discard_pending()
                tree.reload()
            except (InvalidInput, SessionNotFound):
                tree.take_back()
                raise
            else:
                return turn
        raise TrailsError(
            f"session {tree.id!r} was appended to {_RETRIES} times while its summary was being stored; nothing "
            "was written. Try again"
        )

    def _append(self, made: Draft) -> Turn:
        """Append the summary, with what stays beside it as things are now."""
        through, turns = self._plan.summarised_through, self._tree.turns
        if len(turns) <= through or turns[through].digest != self._plan.summarise[-1].digest:
            raise InvalidInput(
                f"turns of session {self._tree.id!r} that were to be summarised were taken back meanwhile; nothing was "
                "written"
            )
        since = turns[through + 1 :]
        kept = [turn for turn in since if turn.compaction is None]
        kept_tokens = sum(cost(turn, self._counter) for turn in kept)
        compaction = self._known.model_copy(
            update={
                "first_kept": kept[0].index if kept else None,
                "tokens_before": self._plan.tokens + kept_tokens,
                "tokens_after": cost(ShownTurn(-1, "summary", made.text), self._counter) + kept_tokens,
            }
        )
        facts = made.facts.model_copy(update={"compaction": compaction})
        return self._tree.append(made._replace(facts=facts))


# --- calling a model


IsOverflow = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
"""What tells that a model's context window was too small: types of errors, or a function of an error."""


def call_model(
    tree: Worktree,
    call: Callable[[Context], Any],
    summarise: Summarise,
    query: object,
    max_tokens: int | None,
    *,
    policy: CompactionPolicy | None,
    overflow: IsOverflow | None,
    **given: Any,
) -> Steps[Any]:
    """Yield the call of the model with the session's context, compacting before it where due and after it on overflow."""
    options = Options(**given)
    show = partial(
        assembly.of_worktree, tree, assembly.window_of(tree, max_tokens, counter=options.counter), query=query
    )
    policy = policy or CompactionPolicy()
    if policy.window is not None and (options.keep_tokens, options.keep_turns, options.keep) == (None, None, None):
        fitting = (policy.window - policy.reserve) // 2
        options = replace(options, keep_tokens=min(compacting.KEEP_TOKENS, fitting))
    context = show()
    due = policy.due(context.tokens, len(context.turns) + len(context.dropped))
    if due is not None:
        try:
            yield from compact(tree, summarise, replace(options, trigger=due))
        except NothingToSummarise:
            pass  # all of it is to be kept: the model says whether that is too much
        else:
            context = show()
    try:
        return (yield partial(call, context))
    except Exception as error:  # which errors say that it was too much, the caller knows
        if not _is_overflow(error, overflow):
            raise
        try:
            yield from compact(tree, summarise, replace(options, trigger="overflow"))
        except NothingToSummarise as nothing:
            what = "does not fit the model's context window, and there is nothing left to summarise"
            raise _overflow(tree, what, context) from nothing
        context = show()
    try:
        return (yield partial(call, context))
    except Exception as error:  # as above
        if not _is_overflow(error, overflow):
            raise
        what = "does not fit the model's context window, also after it was compacted"
        raise _overflow(tree, what, context) from error


def _is_overflow(error: Exception, overflow: IsOverflow | None) -> bool:
    if overflow is None:
        return is_overflow(error)
    if isinstance(overflow, type | tuple):
        return isinstance(error, overflow)
    return bool(overflow(error))


def _overflow(tree: Worktree, what: str, context: Context) -> ContextOverflow:
    return ContextOverflow(
        f"session {tree.id!r} {what}: about {context.tokens:,} tokens are shown; keep less (keep_tokens, max_tokens), or "
        "use a model with a larger window"
    )
