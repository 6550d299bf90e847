"""The await forms of all handles, made from the handles themselves.

A method runs on a worker thread; what a handle keeps in memory is there at once. `handles.pyi` has the types:
`python -m tests.support.async_types` writes it.
"""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import CancelledError
from functools import cache, partial, wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from anyio import CancelScope
from pyoxigraph import QuerySolution

from trails import opening
from trails.aio.calls import Called, Unawaited
from trails.aio.threads import Settle, Workers, settled
from trails.errors import InvalidInput, QueryEnded, WrongCall
from trails.handles import Handle
from trails.model import validation
from trails.model.values import ToolCall, Turn
from trails.rdf.ledger_records import Exchange
from trails.replay import rerun as reruns
from trails.replay.playback import Playing, refuse_yields
from trails.replay.rerun import Rerun
from trails.runtime.ledger import Ledger
from trails.runtime.message_exchanges import Running
from trails.runtime.routing import Router
from trails.runtime.routing.access_rules import View
from trails.runtime.runs import Runs
from trails.runtime.tree import Tree
from trails.runtime.tree_node import Node
from trails.session import model_context
from trails.session.batch import Batch
from trails.session.checkout import Checkout
from trails.session.holds import Holds
from trails.session.maintenance import Maintenance
from trails.session.proofs import Proofs
from trails.session.recorded_calls import ToolAnswer, named_call
from trails.session.refs import Refs
from trails.session.registers import Registers
from trails.session.repository import Repository
from trails.session.retention import Retention
from trails.session.session import Session, load_session
from trails.session.streaming import Streaming
from trails.session.tags_notes import Notes, Tags
from trails.session.work_files import WorkFiles
from trails.store.queries import query_pool
from trails.store.queries.query_pool import Rows
from trails.suggestions import checked

FORMS: Final[dict[type, type[Twin]]] = {}
"""The await form of each handle."""
_ROWS_AT_ONCE: Final = 256
_NAMES: Final = ("__name__", "__qualname__")


class Twin(Handle):
    """The await forms of a handle. `sync` is the handle itself, which works on the same store."""

    def __init_subclass__(
        cls, *, of: type, here: str = "", awaited: str = "", leave: str = "", apart: str = "", without: str = ""
    ) -> None:
        """Give a class the forms of all public members of a handle that it does not define itself.

        `here` names methods that work in memory and are not awaited, `awaited` properties that read the store, `leave`
        questions that a cancelled task leaves at once, `apart` calls that may wait for others; `without` has no form.
        """
        super().__init_subclass__()
        FORMS[of] = cls
        public = {name for name in dir(of) if not name.startswith("_")} | cls.__annotations__.keys()
        for name in sorted((public | set(here.split())) - vars(cls).keys() - set(without.split())):
            member = inspect.getattr_static(of, name, None)
            if not inspect.isfunction(member):
                form: Any = _awaited_property(member, name) if name in awaited.split() else _property(member, name)
            elif name in here.split():
                form = _at_once(member)
            else:
                form = _in_thread(member, leave=name in leave.split(), apart=name in apart.split())
            setattr(cls, name, form)
        for name, own in list(vars(cls).items()):
            if inspect.iscoroutinefunction(own) and not name.startswith("_") and name != "call":
                setattr(cls, name, _called(own))

    def __init__(self, sync: Any, workers: Workers) -> None:
        """Not for callers: `trails.aio.open` gives the store, and the store all else."""
        self.sync = sync
        self.workers = workers
        """What runs its calls (internal)."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.sync!r}>"

    async def __aenter__(self) -> Self:
        return self

    if not TYPE_CHECKING:  # type checkers say so themselves

        def __enter__(self) -> NoReturn:
            """Say that this is for an event loop."""
            raise WrongCall("a handle of trails.aio is entered by `async with`; `with` is for those of trails.open")

        def __exit__(self, *_: object) -> None:
            """Python asks for it, and never gets here."""

    async def run(self, work: Callable[[Any], Any]) -> Any:
        """Return what a function of the sync handle gives on a worker thread: for several calls in one, or any other.

        The result is not wrapped: a `Session` stays one.
        """
        return await self.call(lambda: work(self.sync), apart=True)

    async def call(self, work: Callable[[], Any], *, leave: bool = False, apart: bool = False) -> Any:
        """Return what a function gives on a worker thread (internal); see `Workers.run`."""
        return await self.workers.run(work, leave=leave, apart=apart)

    def form(self, result: Any) -> Any:
        """Return the await form of a handle, or of each in a list (internal); anything else stays as it is."""
        if type(result) is list:
            return [self.form(each) for each in result] if result and type(result[0]) in FORMS else result
        if result is self.sync:
            return self
        form = FORMS.get(type(result))
        return result if form is None else form(result, self.workers)


def _sync(value: Any) -> Any:
    return value.sync if isinstance(value, Twin) else value


def _in_thread(method: Callable[..., Any], *, leave: bool = False, apart: bool = False) -> Callable[..., Any]:
    """Return the await form of a method: it has the method's name, parameters and docstring."""

    @wraps(method, updated=())  # a class is called, too: its attributes are not the function's
    async def call(self: Twin, /, *args: Any, **options: Any) -> Any:
        values, named = [_sync(each) for each in args], {name: _sync(each) for name, each in options.items()}
        return self.form(await self.call(lambda: method(self.sync, *values, **named), leave=leave, apart=apart))

    return call


def _called(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Called[Any]]:
    """Return a coroutine function as one whose calls say so if `await` is forgotten, and can be entered."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Called[Any]:
        return Called(function(*args, **options), function.__qualname__)

    return call if sys.version_info < (3, 12) else inspect.markcoroutinefunction(call)


def _at_once(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Twin, /, *args: Any, **options: Any) -> Any:
        return self.form(method(self.sync, *args, **options))

    return call


def _property(member: Any, name: str) -> property:
    set_value = None if getattr(member, "fset", None) is None else lambda self, value: setattr(self.sync, name, value)
    return property(lambda self: self.form(getattr(self.sync, name)), set_value, doc=inspect.getdoc(member))


def _awaited_property(member: Any, name: str) -> property:
    async def read(self: Twin) -> Any:
        return self.form(await self.run(lambda handle: getattr(handle, name)))

    read.__qualname__ = name
    return property(_called(read), doc=inspect.getdoc(member))


class AsyncTags(Twin, of=Tags):
    """The tags of a store: names for a session at an index."""


class AsyncRefs(Twin, of=Refs):
    """The refs of a store: names that move."""


class AsyncNotes(Twin, of=Notes):
    """The notes on turns."""


class AsyncRegisters(Twin, of=Registers):
    """The registers of a store: incidents, and what else those who answer for it write down."""


class AsyncWorkFiles(Twin, of=WorkFiles):
    """The files that a session's turns worked on."""


class AsyncHolds(Twin, of=Holds):
    """The legal holds of a store."""


class AsyncRetention(Twin, of=Retention):
    """The standing rules of retention of a store."""


class AsyncMaintenance(Twin, of=Maintenance, apart="vacuum backup dump"):
    """The upkeep of a store: vacuum, backup, dump."""


class AsyncProofs(Twin, of=Proofs, leave="verify"):
    """What can be proved of a store: verification, checkpoints, proofs for others."""


class AsyncRows(Twin, of=Rows):
    """The rows of a SELECT, for `async for`. Read them all, or use `async with` or `close`."""

    variables: tuple[str, ...]
    _unread: list[QuerySolution] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> QuerySolution:
        if not self._unread:
            self._unread = (await self.call(lambda: list(islice(self.sync, _ROWS_AT_ONCE)), leave=True))[::-1]
        if not self._unread:
            raise StopAsyncIteration
        return self._unread.pop()

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the query if it still runs. Twice is allowed."""
        self.sync.close()


class AsyncSession(
    Twin,
    of=Session,
    here="append append_message discard_pending __len__ __bool__ __iter__ __reversed__ __getitem__ __contains__",
    awaited="system system_prompt",
    apart="bisect",
):
    """A session in an event loop. What it is and holds in memory is there at once, what reaches the store is awaited.

    Calls on one session run one after the other, in the order in which tasks asked for them. `append` and
    `discard_pending` are not awaited, and refused (`TrailsError`) while another task's call on this session runs.
    """

    autopersist: bool

    async def call(self, work: Callable[[], Any], *, leave: bool = False, apart: bool = False) -> Any:
        """Return what a function gives on a worker thread, once the calls before it have ended."""
        async with self.workers.lock_of(self.sync.worktree):
            return await self.workers.run(work, leave=leave, apart=apart)

    async def __aexit__(self, *raised: object) -> None:
        """Persist what is new, also if the block raises or is cancelled, as leaving `with` a `Session` does."""
        with CancelScope(shield=True):
            await self.run(lambda session: session.__exit__(*raised))

    def streaming(self, role: str, **options: Any) -> AsyncStreaming:
        """Return a turn to write piece by piece in an `async with` block, as `Session.streaming` does, with its options."""
        return AsyncStreaming(self, self.sync.streaming(role, **options))

    async def compact(self, summarise: Any, **options: Any) -> Turn:
        """Compact as `Session.compact` does, with the same options; the summariser may be a coroutine function.

        Other calls on the session go on while it is at work. A plain function is called on a worker thread.
        """
        return await self._steps(
            model_context.compact_session(self.sync.worktree, summarise, model_context.CompactionOptions(**options))
        )

    async def run_with_compaction(self, call: Callable[..., Any], summarise: Any, **options: Any) -> Any:
        """Call a model as `Session.run_with_compaction` does; the call and the summariser may be coroutine functions."""
        given = dict.fromkeys(("query", "max_tokens", "policy", "overflow")) | options
        query, most = given.pop("query"), given.pop("max_tokens")
        return await self._steps(
            model_context.call_with_compaction(self.sync.worktree, call, summarise, query, most, **given)
        )

    async def _steps(self, steps: Any) -> Any:
        """Run steps to their end: each on a worker thread, and what they call too, awaited here if it has to be."""
        advance: Callable[[], Any] = partial(next, steps)
        while True:
            step, result = await self.call(partial(_outcome, advance))
            if step is None:
                return result
            try:  # in a tuple: trio lets no bare coroutine out of a thread
                (answer,) = await self.workers.run(lambda: (step(),), apart=True)  # noqa: B023 - awaited here
                answer = await settled(answer)
            except Exception as error:  # noqa: BLE001 - the steps handle it, or let it out
                advance = partial(steps.throw, error)
            else:
                advance = partial(steps.send, answer)


def _outcome(advance: Callable[[], Any]) -> tuple[Callable[[], Any] | None, Any]:
    """Return the next step, or None and the result: the exception that says so cannot leave a thread."""
    try:
        return advance(), None
    except StopIteration as end:
        return None, end.value


class AsyncCheckout(
    Twin,
    of=Checkout,
    here="append append_message extend discard_pending tail __len__ __bool__ __iter__",
    awaited="system",
    without="update",
):
    """What a ref stands for, in an event loop. What is in memory is there at once, what reaches the store is awaited."""

    async def call(self, work: Callable[[], Any], *, leave: bool = False, apart: bool = False) -> Any:
        """Return what a function gives on a worker thread, once the calls before it have ended."""
        async with self.workers.lock_of(self.sync):
            return await self.workers.run(work, leave=leave, apart=apart)

    async def __aexit__(self, *raised: Any) -> None:
        """Persist what is new, also if the block raises or is cancelled, as leaving `with` a `Checkout` does."""
        with CancelScope(shield=True):
            await self.call(lambda: self.sync.__exit__(*raised))

    async def update(self, change: Callable[[Checkout], Any]) -> Any:
        """Store what a plain function does in one commit, as `Checkout.update` does; it is called on a worker thread."""
        return await self.call(lambda: self.sync.update(change), apart=True)


class AsyncBatch(Twin, of=Batch, without="open write close"):
    """What is written in one commit at the end of an `async with` block: see `Repository.commit`."""

    written: int

    def add(self, item: Any) -> Any:
        """Take a session or a checkout in, and return it, as `Batch.add` does."""
        self.sync.add(_sync(item))
        return item

    async def __aenter__(self) -> Self:
        self.sync.open()
        return self

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        """Write all of it in one commit, unless the block raises or is cancelled."""
        try:
            if kind is None:
                with CancelScope(shield=True):
                    await self.call(self.sync.write)
        finally:
            self.sync.close()


class AsyncStreaming:
    """A turn that is being written, in an event loop. In an `async with` block, `write` is not awaited, and quick."""

    sync: Streaming
    """The turn that is written: its `usage` and the like are assigned there too."""

    def __init__(self, session: AsyncSession, sync: Streaming) -> None:
        """Not for callers: `AsyncSession.streaming` makes it."""
        self._session, self.sync = session, sync

    async def write(self, chunk: object) -> None:
        """Add what a stream gave, as `Streaming.write` does, without an `async with` block."""
        await self._session.call(lambda: self.sync.write(chunk))

    async def finish(self, reply: object = None, **options: Any) -> Turn | None:
        """Store the turn, as `Streaming.finish` does, without an `async with` block."""
        return await self._session.call(lambda: self.sync.finish(reply, **options))

    async def __aenter__(self) -> Streaming:
        return await self._session.call(self.sync.__enter__)

    async def __aexit__(self, *raised: Any) -> None:
        await self._session.call(lambda: self.sync.__exit__(*raised))


class AsyncRunning(Twin, of=Running, here="append", without="begin complete fail"):
    """An exchange that is being worked on: what a handler gets. See `trails.runtime.message_exchanges.Running`."""

    exchange: Exchange
    session: AsyncSession


class AsyncLedger(Twin, of=Ledger):
    """What happens around turns: messages in, exchanges, answers out, deliveries. Get one by `await store.ledger()`."""

    async def process(
        self, session: str, handler: Callable[[AsyncRunning], Any], *, limit: int | None = None, **options: Any
    ) -> list[Exchange]:
        """Work through a session's inbox as `Ledger.process` does; the handler may be a coroutine function.

        A coroutine runs in this event loop, a plain function on a worker thread. When this is cancelled, so is the
        coroutine: its exchange fails, no other begins, and all is over when this returns.
        """
        left = None if limit is None else validation.index(limit, "limit")

        def one(settle: Settle) -> list[Exchange]:
            def handle(running: Running) -> Any:
                return settle(handler(self.form(running)))

            return self.sync.process(session, handle, limit=1, **options)

        exchanges: list[Exchange] = []
        while (left is None or len(exchanges) < left) and (more := await self.workers.run_hosting(one)):
            exchanges += more
        return exchanges


class AsyncView(Twin, of=View, leave="query select ask construct"):
    """What a sandboxed session may see: itself and what it spawned, to be asked in SPARQL."""


class AsyncRouter(Twin, of=Router, here="key", leave="query"):
    """The sessions of a store by key. Get one by `await store.router(config=...)`."""


class AsyncRuns(Twin, of=Runs, apart="wait send send_tool", without="threads ticking work_wide"):
    """Sub-agents' runs over a store. Get them by `await store.runs(agent=...)`; the agent may be a coroutine function."""

    async def work(self) -> int:
        """Work on what waits in the lanes until nothing may begin, as many at once as they let; return how many were done.

        An agent that is a coroutine function runs in this event loop, a plain one on a thread. When this is cancelled, so
        are the coroutines, no other work begins, and all is over when this returns.
        """
        return await self.workers.run_hosting(lambda settle: self.sync.work_wide(settle, settle.stopped.is_set))


class AsyncNode(  # noqa: PLW1641 - `__hash__` comes with `here`
    Twin, of=Node, awaited="state depth cancelled task context_summary result history session", here="__hash__"
):
    """A session of the tree. What was said when it was made is there at once; what changes is awaited: `await node.state`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncNode) and bool(self.sync == other.sync)


class AsyncTree(Twin, of=Tree, without="store ticking"):
    """The tree of a store's sessions. Get it by `await store.tree(limits=...)`, which takes up what was left at work."""

    recovered: tuple[str, ...]


class AsyncPlaying(Twin, of=Playing, without="refuse_early give_up end begin_model end_model begin_tool end_tool"):
    """The run of an agent over a record, in an event loop. Tools may be asked side by side, in tasks of the agent's own."""

    number: int
    difference: Any
    left_at: int | None
    played: int
    live: int

    async def call(self, work: Callable[[], Any], *, leave: bool = False, apart: bool = False) -> Any:
        """Return what a function gives on a worker thread, once the calls before it have ended."""
        async with self.workers.lock_of(self.sync):
            return await self.workers.run(work, leave=leave, apart=apart)

    async def model(self, live: Callable[[AsyncPlaying], Any] | None = None) -> Turn:
        """Return the model's next answer, as `Playing.model` does; `live` gets this run and may be a coroutine function."""
        turn = await self.call(lambda: self.sync.begin_model(live))
        if isinstance(turn, Turn):
            return turn
        answer = await _answer(turn(self))
        return await self.call(lambda: self.sync.end_model(answer))

    async def tool(
        self, call: ToolCall | str, arguments: Any = None, *, live: Callable[[ToolCall], Any] | None = None
    ) -> ToolAnswer:
        """Return a tool's answer, as `Playing.tool` does; `live` may be a coroutine function."""
        asked = named_call(call, arguments)
        recorded = await self.call(lambda: self.sync.begin_tool(asked, live))
        if isinstance(recorded, ToolAnswer):
            return recorded
        answer = await _answer(recorded(asked))
        return await self.call(lambda: self.sync.end_tool(asked, answer))


async def _answer(given: Any) -> Any:
    """Return what an agent, a model or a tool gave, awaited if it has to be; refuse a generator."""
    refuse_yields(given)
    return await settled(given)


class AsyncRepository(
    Twin,
    of=Repository,
    here="changes commit",
    leave="agreement ask compare construct cost forest query scores search select stats summaries verify",
    apart="score_all",
    without="graph store sync",
):
    """A store of sessions in an event loop. Get one from `trails.aio.open`, and close it with `async with` or `close`."""

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the store once the calls that are under way have ended, and whoever is cancelled meanwhile.

        Queries in SPARQL that are under way are ended: whoever awaits one gets `QueryEnded`.
        Turns that were appended and not persisted warn, as with `Repository.close`; they are not written.
        """
        with CancelScope(shield=True):
            store = self.sync.store
            query_pool.end(store, QueryEnded(f"the query in {store.location} was ended: the store was closed"))
            await self.workers.finish()
            await self.call(self.sync.close)

    async def contains(self, session: object) -> bool:
        """Tell whether a session with this id is stored."""
        return await self.run(lambda store: session in store)

    # made with the options of each

    ledger = _in_thread(Ledger)
    tree = _in_thread(Tree)
    runs = _in_thread(Runs)
    router = _in_thread(Router)


class Opening(Unawaited):
    """A store that is about to be opened: `async with trails.aio.open(...) as store`, or `await trails.aio.open(...)`."""

    def __init__(self, opened: Callable[[], Repository]) -> None:
        """Not for callers: see `trails.aio.open`."""
        self._opened = opened

    def _remedy(self) -> str:
        return "open the store by `async with trails.aio.open(...) as store:`, or `store = await trails.aio.open(...)`"

    def __await__(self) -> Generator[Any, Any, AsyncRepository]:
        return self._open().__await__()

    async def _open(self) -> AsyncRepository:
        workers, stores = Workers(), list[Repository]()
        try:
            await workers.run(lambda: stores.append(self._opened()))
        except BaseException:  # a cancelled one too, which nobody else could close
            if stores:
                with CancelScope(shield=True):
                    await AsyncRepository(stores[0], workers).close()
            raise
        _freeze_modules()
        return AsyncRepository(stores[0], workers)

    async def __aenter__(self) -> AsyncRepository:
        self._store = await self._open()
        return self._store

    async def __aexit__(self, *raised: object) -> None:
        await self._store.close()


@cache
def _freeze_modules() -> None:
    """Exclude what is loaded by now from every later garbage collection, once.

    Modules and classes are no garbage. To go over those that Trails needs takes the collector 20 ms, and nothing else
    runs meanwhile, not even the event loop.
    """
    gc.freeze()


@wraps(opening.open)
def open(*args: Any, **options: Any) -> Opening:  # noqa: A001 - trails.aio.open, as trails.open
    return Opening(lambda: opening.open(*args, **options))


class _Cancelled(BaseException):
    """Ends an agent whose coroutine was cancelled: nothing is stored of what it said."""


async def _attempt(agent: Any, playing: AsyncPlaying) -> tuple[Any, SystemExit | None]:
    """Return what an agent gives, or the exit that it asks for, which must not end the event loop."""
    try:
        return await _answer(agent(playing)), None
    except SystemExit as leaving:
        return None, leaving


async def _tell(progress: Callable[[Rerun], object], done: Rerun) -> None:
    progress(done)


async def _rerun(function: Callable[..., Any], session: object, agent: Any, *args: Any, **options: Any) -> Any:
    """Call `rerun` or `rerun_many` on a worker thread; the agent and `progress` run in this event loop."""
    if not isinstance(session, AsyncSession):
        raise InvalidInput(f"a rerun is of a session, as `await store.load(id)` gives it, not of {session!r:.80}")
    await session.persist()
    workers, progress = session.workers, options.pop("progress", None)

    def work(settle: Settle) -> Any:
        def host(playing: Playing) -> Any:
            try:
                result, leaving = settle(_attempt(agent, AsyncPlaying(playing, workers)))
            except CancelledError as error:
                raise _Cancelled from error
            if leaving is not None:
                raise leaving
            return result

        told = host if callable(agent) else agent  # which is refused
        if progress is not None:
            options["progress"] = lambda done: settle(_tell(progress, done))
        try:
            return function(load_session(session.sync.worktree.workspace, session.sync.id), told, *args, **options)
        except _Cancelled as error:
            raise CancelledError from error
        except SystemExit as leaving:
            return leaving

    done = await workers.run_hosting(work)
    if isinstance(done, SystemExit):
        raise done
    return done


@checked
@wraps(reruns.rerun, assigned=_NAMES)
async def rerun(session: AsyncSession, agent: Any, **options: Any) -> Rerun:
    """Run a coroutine over a session's record and store what it says as a fork, as `trails.rerun` does.

    `agent` gets an `AsyncPlaying`; `model`, `tools` and what the agent names for live answers may be coroutine functions.
    The rerun's `session` is the fork's synchronous handle. A cancellation while the agent runs stores nothing. Several
    reruns run side by side as tasks.
    """
    done: Rerun = await _rerun(reruns.rerun, session, agent, **options)
    return done


@checked
@wraps(reruns.rerun_many, assigned=_NAMES)
async def rerun_many(session: AsyncSession, agent: Any, *args: Any, **options: Any) -> list[Rerun]:
    """Run a coroutine `count` times over a session's record, `workers` at a time as tasks, as `trails.rerun_many` does.

    A cancellation stores nothing of those that are under way; those that were done stay, and are not run again.
    """
    done: list[Rerun] = await _rerun(reruns.rerun_many, session, agent, *args, **options)
    return done


__all__ = [*(form.__name__ for form in FORMS.values()), "AsyncStreaming", "Opening", "open", "rerun", "rerun_many"]  # noqa: PLE0604
