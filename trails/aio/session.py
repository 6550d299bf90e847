"""The await forms of a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, overload

from anyio import CancelScope

from trails.aio.workers import Twin, here, in_thread
from trails.model.values import SessionRecord, SystemPrompt, Turn
from trails.plumbing.packed import Turns
from trails.session import model_context
from trails.session.session import Session

if TYPE_CHECKING:
    from trails.compare import Diff
    from trails.context import CompactionPolicy, Context, TokenWindow
    from trails.session.cherry_pick import OutcomeSummary
    from trails.session.model_context import CompactionSteps, IsOverflow, Summarise
    from trails.session.streaming import Streaming

_Answer = TypeVar("_Answer")
_Result = TypeVar("_Result")


def session_of(twin: Twin[Any], made: Session) -> AsyncSession:
    """Return the twin of a session that a call gave: the same one where it gave itself."""
    if isinstance(twin, AsyncSession) and twin.sync is made:
        return twin
    return AsyncSession(made, twin.workers)


def sync_session(given: AsyncSession | Session | str) -> Session | str:
    """Return what the sync handles take in the place of a session."""
    return given.sync if isinstance(given, AsyncSession) else given


class AsyncSession(Twin[Session]):
    """A session in an event loop. What it is and holds in memory is there at once, what reaches the store is awaited.

    Its calls are taken one after the other, in the order in which tasks asked for them. `append` and `discard_pending`
    are not awaited, and refused (`TrailsError`) while another task's call on this session is under way.
    """

    async def call(self, work: Callable[[], _Result], *, leave: bool = False, apart: bool = False) -> _Result:
        """Return what a function gives on a worker thread, once those that were asked for before have ended."""
        async with self.workers.lock_of(self.sync.worktree):
            return await self.workers.run(work, leave=leave, apart=apart)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Persist what is new, also where the block raises or is cancelled, as leaving `with` a `Session` does."""
        with CancelScope(shield=True):
            await self.run(lambda session: session.__exit__(kind, error, trace))

    # --- what it is: in memory

    @property
    def id(self) -> str:
        """The session's id."""
        return self.sync.id

    @property
    def iri(self) -> str:
        """The session's IRI, which is its graph's IRI too."""
        return self.sync.iri

    @property
    def record(self) -> SessionRecord:
        """The session's row, as it is or will be stored."""
        return self.sync.record

    @property
    def parent_session_id(self) -> str | None:
        """The id of the session that this one was forked from; None for a root."""
        return self.sync.parent_session_id

    @property
    def forked_at_index(self) -> int | None:
        """The first index that the fork owns itself; None for a root."""
        return self.sync.forked_at_index

    @property
    def branch(self) -> str:
        """`main`, or `fork-` and 8 hex digits."""
        return self.sync.branch

    @property
    def label(self) -> str | None:
        """The session's unique label, where it has one."""
        return self.sync.label

    @property
    def agent(self) -> str:
        """The agent that runs the session."""
        return self.sync.agent

    @property
    def meta(self) -> dict[str, Any]:
        """The session's metadata (a fresh copy each time)."""
        return self.sync.meta

    @property
    def principal(self) -> str:
        """Whom the session runs for. It can be assigned until the session is first persisted."""
        return self.sync.principal

    @principal.setter
    def principal(self, name: str) -> None:
        self.sync.principal = name

    @property
    def turns(self) -> Turns:
        """All turns of the transcript, those inherited from ancestors first, pending ones last, as they are now.

        One that was loaded with `max_tokens` reads the others now: `await session.run(lambda it: it.turns)` keeps the loop
        free meanwhile.
        """
        return self.sync.turns

    def __len__(self) -> int:
        return len(self.sync)

    def __bool__(self) -> bool:
        """A session is there, also without turns."""
        return True

    def __reversed__(self) -> Iterator[Turn]:
        return reversed(self.sync)

    def __iter__(self) -> Iterator[Turn]:
        return iter(self.sync)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        return self.sync[index]

    def __contains__(self, turn: object) -> bool:
        return turn in self.sync

    @property
    def pending(self) -> int:
        """How many turns are appended and not persisted."""
        return self.sync.pending

    @property
    def head(self) -> str:
        """The digest of the last turn, which commits to all turns before it; provisional while turns are pending."""
        return self.sync.head

    @property
    def window(self) -> TokenWindow[Turn] | None:
        """The window that the session was created or loaded with (`max_tokens`); what is appended enters it."""
        return self.sync.window

    @property
    def autopersist(self) -> bool:
        """Whether what is appended is stored at once: by `append` itself, in the loop, which takes a commit's time."""
        return self.sync.autopersist

    append = here(Session.append)
    append_message = here(Session.append_message)
    extend = in_thread(Session.extend)
    discard_pending = here(Session.discard_pending)

    def streaming(self, role: str, **options: Any) -> AsyncStreaming:
        """Return a turn to write piece by piece in an `async with` block, as `Session.streaming` does, with its options."""
        return AsyncStreaming(self, self.sync.streaming(role, **options))

    # --- what the store is asked

    tail = in_thread(Session.tail)
    delete = in_thread(Session.delete)

    @property
    async def system_prompt(self) -> SystemPrompt | None:
        """The version of the system prompt in force, own or inherited, or None: `await session.system_prompt`."""
        return await self.run(lambda session: session.system_prompt)

    @property
    async def system(self) -> str | None:
        """The text of the system prompt in force, or None: `await session.system`."""
        return await self.run(lambda session: session.system)

    persist = in_thread(Session.persist)
    set_system = in_thread(Session.set_system)
    set_label = in_thread(Session.set_label)
    sign = in_thread(Session.sign)
    signatures = in_thread(Session.signatures)
    fork = in_thread(Session.fork, session_of)
    keep_as_fork = in_thread(Session.keep_as_fork, session_of)
    detach = in_thread(Session.detach, session_of)
    flatten = in_thread(Session.flatten, session_of)
    branches = in_thread(Session.branches)
    replay = in_thread(Session.replay)
    prov = in_thread(Session.prov)
    blame = in_thread(Session.blame)
    bisect = in_thread(Session.bisect, apart=True)
    context = in_thread(Session.context)
    table = in_thread(Session.table)
    to_pandas = in_thread(Session.to_pandas)
    to_arrow = in_thread(Session.to_arrow)

    async def diff(self, other: AsyncSession | Session | str) -> Diff:
        """Return what differs between this session and another, as `Session.diff` does."""
        return await self.run(lambda session: session.diff(sync_session(other)))

    async def cherry_pick(
        self,
        source: AsyncSession | Session | str,
        indexes: int | Iterable[int],
        *,
        whole_calls: bool = False,
        by: str | None = None,
    ) -> tuple[Turn, ...]:
        """Add turns of another session's transcript at the end as new turns and return them, as `Session.cherry_pick` does."""
        picked = sync_session(source)
        return await self.run(lambda session: session.cherry_pick(picked, indexes, whole_calls=whole_calls, by=by))

    async def take(
        self,
        fork: AsyncSession | Session | str,
        summary: OutcomeSummary | None = None,
        *,
        role: str = "user",
        dry_run: bool = False,
        by: str | None = None,
    ) -> Turn:
        """Store one turn at the end that says what came of a fork, and return it, as `Session.take` does."""
        taken = sync_session(fork)
        return await self.run(lambda session: session.take(taken, summary, role=role, dry_run=dry_run, by=by))

    # --- with a model

    async def compact(self, summarise: Summarise, **options: Any) -> Turn:
        """Compact as `Session.compact` does, with the same options; the summariser may be a coroutine function.

        Other calls on the session go on while it is at work. A plain function is called on a worker thread.
        """
        return await self._steps(
            model_context.compact_session(self.sync.worktree, summarise, model_context.CompactionOptions(**options))
        )

    @overload
    async def run_with_compaction(
        self,
        call: Callable[[Context], Awaitable[_Answer]],
        summarise: Summarise,
        *,
        query: object = None,
        policy: CompactionPolicy | None = None,
        overflow: IsOverflow | None = None,
        max_tokens: int | None = None,
        **options: Any,
    ) -> _Answer: ...
    @overload
    async def run_with_compaction(
        self,
        call: Callable[[Context], _Answer],
        summarise: Summarise,
        *,
        query: object = None,
        policy: CompactionPolicy | None = None,
        overflow: IsOverflow | None = None,
        max_tokens: int | None = None,
        **options: Any,
    ) -> _Answer: ...
    async def run_with_compaction(
        self,
        call: Callable[[Context], Any],
        summarise: Summarise,
        *,
        query: object = None,
        policy: CompactionPolicy | None = None,
        overflow: IsOverflow | None = None,
        max_tokens: int | None = None,
        **options: Any,
    ) -> Any:
        """Call a model as `Session.run_with_compaction` does; the call and the summariser may be coroutine functions."""
        steps = model_context.call_with_compaction(
            self.sync.worktree, call, summarise, query, max_tokens, policy=policy, overflow=overflow, **options
        )
        return await self._steps(steps)

    async def _steps(self, steps: CompactionSteps[_Result]) -> _Result:
        """Run steps to their end: each on a worker thread, and what they call too, awaited here where it has to be."""
        advance: Callable[[], Callable[[], Any]] = partial(next, steps)
        while True:
            step = await self.call(partial(_outcome, advance))
            if isinstance(step, _Done):
                return cast("_Result", step.value)
            try:
                (found,) = await self.workers.run(partial(_in_a_tuple, step), apart=True)
                answer = await found if isawaitable(found) else found
            except Exception as error:  # noqa: BLE001 - the steps handle it, or let it out
                advance = partial(steps.throw, error)
            else:
                advance = partial(steps.send, answer)


def _in_a_tuple(step: Callable[[], Any]) -> tuple[Any]:
    """Return what a step gives, in a tuple: trio lets no bare coroutine out of a thread."""
    return (step(),)


@dataclass(frozen=True, slots=True)
class _Done:
    """That steps have come to their end, and with what: the exception that says so cannot leave a thread."""

    value: object


def _outcome(advance: Callable[[], Callable[[], Any]]) -> Callable[[], Any] | _Done:
    try:
        return advance()
    except StopIteration as done:
        return _Done(done.value)


class AsyncStreaming:
    """A turn in the making, in an event loop. In an `async with` block, `write` is not awaited, and costs microseconds."""

    def __init__(self, session: AsyncSession, sync: Streaming) -> None:
        """Not for callers: `AsyncSession.streaming` makes it."""
        self._session = session
        self.sync = sync
        """The turn that is written: its `usage` and the like are assigned there too."""

    async def write(self, chunk: object) -> None:
        """Add what a stream gave, as `Streaming.write` does, without an `async with` block."""
        await self._session.call(lambda: self.sync.write(chunk))

    async def finish(self, reply: object = None, **options: Any) -> Turn | None:
        """Store the turn, as `Streaming.finish` does, without an `async with` block."""
        return await self._session.call(lambda: self.sync.finish(reply, **options))

    async def __aenter__(self) -> Streaming:
        return await self._session.call(self.sync.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.call(lambda: self.sync.__exit__(kind, error, trace))
