"""Windows, contexts and compaction on the two handles. The work is done in the modules below; see `trails.context`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from trails.errors import ContextOverflow
from trails.model import Turn

if TYPE_CHECKING:
    from trails.context import CompactionPolicy, Context, TokenWindow
    from trails.context.compacting import Keep, MaxTokens
    from trails.context.tokens import Counter
    from trails.session.compaction import IsOverflow, Summarise
    from trails.session.repository import Repository
    from trails.session.session import Session

_Answer = TypeVar("_Answer")


class RepositoryContexts:
    """What a store can show a model of a session without loading it."""

    def context(
        self,
        session: str,
        query: object = None,
        *,
        max_tokens: int | None = None,
        pinned_count: int = 1,
        brief: str | None = None,
        background: str | None = None,
        counter: Counter | None = None,
    ) -> Context:
        """Return what a model is shown of a stored session, as `Session.context` does, reading only what is shown.

        `session` is an id or an IRI. After a compaction, or with `max_tokens`, the turns before those shown are not
        read, so this takes no longer for a long session than for a short one. Raises as `load` does for what it reads.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="plan", system="Be brief."); _ = s.append("user", "Plan a trip"); written = s.persist()
        ...     [message["content"] for message in store.context("plan", "To the Alps").openai()]
        ['Be brief.', 'Plan a trip', 'To the Alps']
        """
        from trails.session import assembly  # noqa: PLC0415 - only those who ask for a context need it

        repository = cast("Repository", self)
        return assembly.of_stored(
            repository.reader,
            repository.reader.lineage(repository._id_of(session)),
            query=query,
            max_tokens=max_tokens,
            pinned_count=pinned_count,
            brief=brief,
            background=background,
            counter=counter,
        )

    def load(
        self,
        session: str,
        *,
        max_tokens: int | None = None,
        pinned_count: int = 1,
        counter: Counter | None = None,
    ) -> Session:
        """Return a session with its whole transcript, inherited turns stitched in, ready to append to.

        `session` is an id or a session IRI. With `max_tokens` (1 or more) the session has a `window`: the first
        `pinned_count` turns and the newest that fit, by a `counter` of the tokens of a text. Only those are read then,
        the newest first, and others when something asks for them.

        Raises `SessionNotFound`, `ParentMissing`, `ForkCycle`, `ForkDepthExceeded`, `IndexGap` or `IntegrityError`; a
        transcript that is not whole is never returned. Turns that are read later raise the last two then.
        """
        from trails.session.session import Session  # noqa: PLC0415 - it is built on this module

        repository = cast("Repository", self)
        reader = repository.reader
        chain = reader.lineage(repository._id_of(session))
        if max_tokens is None:
            return Session(repository, chain[0], ancestors=chain[1:], turns=reader.turns(chain), stored=True)
        from trails.plumbing.transcript import LazyTurns, stored_length  # noqa: PLC0415 - only loads with a window need it

        turns = LazyTurns(reader, chain, stored_length(reader, chain))
        made = Session(repository, chain[0], ancestors=chain[1:], turns=turns, stored=True)
        return made._windowed(max_tokens, pinned_count, counter)


class SessionContexts:
    """What a session shows a model, and how it is made to fit."""

    _window: TokenWindow[Turn] | None = None

    @property
    def window(self) -> TokenWindow[Turn] | None:
        """The window that the session was created or loaded with (`max_tokens`); what is appended enters it."""
        session, window = cast("Session", self), self._window
        if window is not None:
            newest = session._turns[-1] if len(session) else None
            if window.seen != len(session) or (newest is not None and window.turns[-1] is not newest):
                window.fill(session._turns)  # turns were discarded, or made anew
        return window

    def _windowed(self, max_tokens: int | None, pinned_count: int, counter: Counter | None = None) -> Session:
        """Give the session a window, where `max_tokens` is given, and return the session."""
        session = cast("Session", self)
        if max_tokens is not None:
            from trails.context import TokenWindow, estimate  # noqa: PLC0415 - only sessions with a window need it

            self._window = TokenWindow(max_tokens, pinned_count, counter=counter or estimate)
            self._window.fill(session._turns)
        return session

    def _windowed_as(self, other: SessionContexts) -> Session:
        """Give the session a window of its own like another session's, where that has one, and return the session."""
        if other._window is None:
            return cast("Session", self)
        return self._windowed(other._window.max_tokens, other._window.pinned_count, other._window.counter)

    def _entered(self, turn: Turn) -> None:
        if self._window is not None:
            self._window.append(turn)

    def context(
        self,
        query: object = None,
        *,
        max_tokens: int | None = None,
        pinned_count: int | None = None,
        brief: str | None = None,
        background: str | None = None,
        counter: Counter | None = None,
    ) -> Context:
        """Return what a model is shown of the session: system prompt, latest summary, the turns since, and the query.

        Pending turns are shown too. After a compaction, turns are shown from the first that the latest summary kept.
        `query` is text, a list of parts or a turn that is not appended yet. `max_tokens` (default: the window's, else
        no limit) leaves out the oldest turns, after the first `pinned_count` (default 1; none beside a summary), and a
        tool call always together with its answers; what is left out, and why it may still be too much, stands in the
        context. A session that another one spawned, and a fork of it, is shown its task and what it was told beside it
        as they are stored, after the system prompt; `brief` and `background` are shown in their place.
        `counter` counts the tokens of a text; the default estimates.

        `openai()` and `anthropic()` give the messages in those APIs' shapes, with every tool call answered once, right
        after it. Nothing that is stored changes by that.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(); _ = s.append("user", "Plan a trip"); _ = s.append("assistant", "Where to?")
        ...     shown = s.context("To the Alps"); written = s.persist()
        ...     [(message["role"], message["content"]) for message in shown.openai()], shown.tokens
        ([('user', 'Plan a trip'), ('assistant', 'Where to?'), ('user', 'To the Alps')], 21)
        """
        from trails.session import assembly  # noqa: PLC0415 - only those who ask for a context need it

        return assembly.of_session(
            cast("Session", self),
            query=query,
            max_tokens=max_tokens,
            pinned_count=pinned_count,
            brief=brief,
            background=background,
            counter=counter,
        )

    def compact(
        self,
        summarise: Summarise,
        *,
        keep_tokens: int | None = None,
        keep_turns: int | None = None,
        keep: Keep | None = None,
        trigger: str = "manual",
        request: str | None = None,
        model: str | None = None,
        max_summary_tokens: MaxTokens = None,
        counter: Counter | None = None,
        author: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Turn:
        """Let older turns be summarised, add the summary as a turn at the end, persist it and return it.

        `summarise` is called with a `SummaryRequest` (the request, the turns to summarise and the summary before, the
        greatest length) and returns text, or a `trails.context.Summary` that also names model and usage. Nothing is
        written until it has returned; turns that are appended meanwhile, here or by another writer, are kept. All turns
        stay in the history; from now on `context` shows the summary in their place.

        Kept as they are: the newest turns of up to `keep_tokens` (default 30,000), or the newest `keep_turns`, or as many
        as `keep` returns for the turns that could be summarised; a tool call never without its answer. A later summary
        is made from the one before and the turns since. `max_summary_tokens` is a number, "dynamic" (a tenth of what is
        summarised, 256 to 8,192) or a function of its tokens. `trigger` is overflow (or context_limit), threshold,
        manual or periodic. `clock` gives seconds. Request, limit and duration are recorded with the turn.

        Raises `NothingToSummarise` where all turns are kept; what `summarise` raises; and `HeadConflict` where this
        handle has pending turns and another writer was quicker: those and the summary then stay pending.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(); _ = s.append("user", "Plan a trip"); _ = s.append("assistant", "Where to?")
        ...     turn = s.compact(lambda asked: f"{len(asked.turns)} turn: a trip is wanted", keep_turns=1)
        ...     turn.index, turn.content, turn.compaction.first_kept, [t.index for t in s.context().turns]
        (2, '1 turn: a trip is wanted', 1, [1])
        """
        from trails.session import compaction  # noqa: PLC0415 - only those who compact need it

        options = compaction.Options(
            keep_tokens, keep_turns, keep, trigger, request, model, max_summary_tokens, counter, author, clock
        )
        return compaction.run(compaction.compact(cast("Session", self), summarise, options))

    async def acompact(self, summarise: Summarise, **options: Any) -> Turn:
        """Compact as `compact` does, with a summariser that may be a coroutine; `options` are the same."""
        from trails.session import compaction  # noqa: PLC0415 - only those who compact need it

        steps = compaction.compact(cast("Session", self), summarise, compaction.Options(**options))
        return await compaction.arun(steps)

    def run_with_compaction(
        self,
        call: Callable[[Context], _Answer],
        summarise: Summarise,
        *,
        query: object = None,
        policy: CompactionPolicy | None = None,
        overflow: IsOverflow = ContextOverflow,
        max_tokens: int | None = None,
        **options: Any,
    ) -> _Answer:
        """Call a model with the session's context and return its answer, compacting where that is needed to fit.

        `call` gets the context (with `query`). Where `policy` says that a compaction is due, it comes first. Where the
        call raises what `overflow` names (types of errors, or a function of an error), the session is compacted, and
        the same message is tried once more. `options` are those of `compact`; with a policy's window, what is kept is at
        most half of it. Nothing but the summary is written: append the answer yourself.

        Raises `ContextOverflow` where the second try overflows too or nothing is left to summarise; any other error of
        `call` or `summarise` as it is.
        """
        from trails.session import compaction  # noqa: PLC0415 - only those who compact need it

        steps = compaction.call_model(
            cast("Session", self),
            call,
            summarise,
            compaction.Options(**options),
            policy=policy,
            overflow=overflow,
            shown={"query": query, "max_tokens": max_tokens, "counter": options.get("counter")},
        )
        return cast("_Answer", compaction.run(steps))

    async def arun_with_compaction(
        self,
        call: Callable[[Context], Awaitable[_Answer]],
        summarise: Summarise,
        *,
        query: object = None,
        policy: CompactionPolicy | None = None,
        overflow: IsOverflow = ContextOverflow,
        max_tokens: int | None = None,
        **options: Any,
    ) -> _Answer:
        """Do as `run_with_compaction` does, with a model's call and a summariser that may be coroutines."""
        from trails.session import compaction  # noqa: PLC0415 - only those who compact need it

        steps = compaction.call_model(
            cast("Session", self),
            call,
            summarise,
            compaction.Options(**options),
            policy=policy,
            overflow=overflow,
            shown={"query": query, "max_tokens": max_tokens, "counter": options.get("counter")},
        )
        return cast("_Answer", await compaction.arun(steps))
