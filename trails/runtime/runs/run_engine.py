"""What all parts of a registry of runs share, and the work in sessions."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode

from trails.context.messages import UNSHOWN
from trails.errors import SessionNotFound
from trails.history.records import subagent_runs
from trails.model import iris, validation
from trails.model.values import Turn
from trails.rdf import vocab
from trails.rdf.ledger_records import Event, Exchange
from trails.rdf.subagent_records import Run, RunStatus
from trails.runtime import keys
from trails.runtime.inbox import Book
from trails.runtime.ledger import Ledger
from trails.runtime.message_exchanges import Running
from trails.runtime.policy.run_rules import RunStats
from trails.runtime.policy.session_entry import DEFAULT_HOST
from trails.runtime.policy.subagents import SubagentBrief
from trails.runtime.routing import Router
from trails.runtime.runs.host import Agent, Answer, Host, Interrupted, Lane, Lanes, Settings, Step, WorkContext
from trails.runtime.runs.run_registry import Places, Registry
from trails.runtime.timer import Clock, clock_time
from trails.session import Repository
from trails.usage import total

_TEXTS: Final = frozenset({"text", "output_text"})


def answer_of(turns: Iterable[Turn]) -> str | None:
    """Return the text of the last turn if that is an assistant's.

    Blank text is none.

    Tools' turns, and the mirrors of what was delivered, do not count.
    """
    silent = {"tool", *UNSHOWN}
    last = next((turn for turn in reversed(list(turns)) if turn.role not in silent and not turn.tool_results), None)
    if last is None or last.role != "assistant" or last.redacted:
        return None
    return content_text(last.content)


def content_text(content: Any) -> str | None:
    """Return the text of a turn's content, trimmed.

    None if there is none.

    >>> content_text([{"type": "text", "text": " Found "}, {"type": "tool_use", "id": "c", "name": "n", "input": {}}])
    'Found'
    """
    parts: Sequence[Any] = [content] if isinstance(content, str) else content if isinstance(content, Sequence) else ()
    texts = [part.get("text") if isinstance(part, Mapping) and part.get("type") in _TEXTS else part for part in parts]
    return "".join(text for text in texts if isinstance(text, str)).strip() or None


def turns_of(repository: Repository, session_id: str | None) -> Sequence[Turn]:
    """Return the transcript of a session.

    None of one that is not there.
    """
    if session_id is None:
        return ()
    try:
        return repository.load(session_id).turns
    except SessionNotFound:
        return ()


def stats_of(run: Run, turns: Iterable[Turn]) -> RunStats:
    """Return what a run took: its time, and the tokens and the cost that its turns report."""
    runtime = None
    if run.started is not None and run.ended is not None:
        runtime = (run.ended - run.started).total_seconds() * 1000
    calls = [turn.facts.model_call for turn in turns if turn.facts.model_call is not None]
    reported = [call.reported for call in calls]
    read, written = total(each[0] for each in reported), total(each[1] for each in reported)
    return RunStats(runtime, read, written, total((read, written)), total(each[2] for each in reported))


TASK_SOURCE: Final = "sessions_spawn"
"""The source of the message that brings a sub-agent its task; its event id is the run's."""
SEND_SOURCE: Final = "sessions_send"
"""The source of the messages that sessions send one another; the event id is the sending's run id and a step."""


@dataclass(slots=True)
class Reply:
    """What came of a message: a text, or why none came."""

    status: Literal["ok", "error"]
    text: str | None = None
    error: str | None = None
    turn_iri: str | None = None
    """The turn that says it."""


Then = Callable[[Reply | None], None]
"""Called once with what came of a message, or with None if nothing came in time."""


@dataclass(slots=True, eq=False)
class Awaited:
    """Somebody who waits for what comes of a message, up to a deadline."""

    session_id: str
    number: int
    then: Then
    deadline: datetime


@dataclass
class Engine:
    """The ground under spawning, announcing, sending and sweeping."""

    repository: Repository
    host: Host
    settings: Settings
    config: Mapping[str, Any] | None
    lanes: Lanes
    clock: Clock | None
    interrupted: Interrupted

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.repository, clock=self.now, debounce=timedelta(0))
        self.book = Book.of(self.repository)
        self.registry = Registry(self.repository)
        self.models = self.host.models or DEFAULT_HOST
        router = Router(self.repository, config=self.config, clock=self.now, models=self.models)
        self.places = Places(self.repository, router, self.settings.keys)
        self.ended: Callable[[str], object] = lambda _: None
        """Called with a run's id once it ended."""
        self.awaited: Callable[[Any], Answer] = _await_answer
        """Returns what an agent gave, once it was awaited if it has to be."""
        self._lock = threading.Lock()
        self._contexts: dict[tuple[str, int], WorkContext] = {}
        self._awaited: list[Awaited] = []
        self._going: dict[str, Step] = {}
        self._queued: set[str] = set()

    def now(self) -> datetime:
        """Return the clock's time, cut to milliseconds."""
        moment = clock_time(self.clock)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def is_active(self, session_id: str) -> bool:
        """Return whether a session is at work right now."""
        if self.host.active is not None:
            return self.host.active(session_id)
        return session_id in self.book.at_work

    # --- runs at work

    def is_going(self, run_id: str) -> bool:
        """Return whether a run waits or goes on in this process."""
        return run_id in self._going or run_id in self._queued

    def going(self) -> dict[str, Step]:
        """Return the steps of the runs that go on in this process, by run id."""
        with self._lock:
            return dict(self._going)

    def queue_run(self, run: Run) -> None:
        """Let a run wait for its turn among the sub-agents."""
        session_id, run_id = run.child_session, run.run_id
        if self.host.agent is None or session_id is None:
            return
        with self._lock:
            if self.is_going(run_id):
                return
            self._queued.add(run_id)
        self.lanes.submit("subagent", lambda: self._begin_run(run_id, session_id))

    def _begin_run(self, run_id: str, session_id: str) -> None:
        try:
            run = self.registry.find(run_id)
            if run is not None and run.ended is None:
                self.work(session_id, "subagent")
        finally:
            with self._lock:
                self._queued.discard(run_id)

    # --- work in sessions

    def ask(
        self, session_id: str, message: tuple[str, str, str], instructions: str, then: Then, patience: timedelta
    ) -> None:
        """Have a session answer a message (its text, id and author) in the nested lane, and `then` told what came of it."""
        text, event_id, author = message
        event = self.ledger.receive(session_id, text, source=SEND_SOURCE, event_id=event_id, author=author)
        with self._lock:
            self._contexts[session_id, event.number] = WorkContext(lane="nested", system=instructions)
            self._awaited.append(Awaited(session_id, event.number, then, self.now() + patience))
        self.lanes.submit("nested", lambda: self.work(session_id, "nested"))

    def drop(self, then: Then) -> None:
        """Tell somebody nothing any more."""
        with self._lock:
            self._awaited = [each for each in self._awaited if each.then is not then]

    def work(self, session_id: str, lane: Lane = "main") -> None:
        """Work through a session's inbox on this thread.

        An agent that fails ends its exchange, not this.

        Without an agent, what waits there is left to the host's own.
        """
        agent = self.host.agent
        if agent is None:
            self.look(session_id)
            return
        failed: list[BaseException] = []

        def handle(running: Running) -> Answer:
            try:
                return self._answer(agent, running, lane)
            except Exception as error:  # the agent's own, which is noted with its exchange; ours go further
                failed.append(error)
                raise

        try:
            while True:
                try:
                    self.ledger.process(session_id, handle, interrupted=self.interrupted)
                    return
                except SessionNotFound:
                    if session_id in self.repository:
                        raise
                    return  # it was deleted while its agent was at work: nothing of it is left to be noted
                except Exception as error:  # one of the agent's: the next message is taken up
                    if error not in failed:
                        raise
        finally:
            self.look(session_id)

    def _answer(self, agent: Agent, running: Running, lane: Lane) -> Answer:
        record = running.session.record
        ids = (
            event.event_id for event in running.messages if event.source == TASK_SOURCE and event.event_id is not None
        )
        run = next(map(self.registry.find, ids), None)
        context = self._context(running, run, lane)
        step = Step(running=running, session_key=self.places.key_of(record), run=run, **asdict(context))
        if run is None:
            return self.awaited(agent(step))
        with self._lock:
            self._going[run.run_id] = step
        try:
            self.registry.change(run.run_id, lambda run: None if run.ended else {"started": self.now()})
            return self.awaited(agent(step))
        finally:
            with self._lock:
                self._going.pop(run.run_id, None)

    def _context(self, running: Running, run: Run | None, lane: Lane) -> WorkContext:
        if run is not None:
            return WorkContext(
                lane="subagent",
                system=self.prompt(run),
                model=run.model,
                thinking=run.thinking,
                timeout_seconds=run.run_timeout_seconds,
            )
        with self._lock:
            for event in running.messages:
                context = self._contexts.pop((event.session_id, event.number), None)
                if context is not None:
                    return context
        return WorkContext(lane=lane)

    def prompt(self, run: Run) -> str:
        """Return the system prompt of a sub-agent."""
        brief = SubagentBrief(
            task=run.task,
            child_session_key=run.child_session_key or "",
            requester_session_key=run.requester_session_key,
            requester_channel=run.requester_origin.channel,
            label=run.label,
        )
        return validation.text(self.host.prompt(brief), "a sub-agent's system prompt")

    # --- what came of it

    def look(self, session_id: str) -> None:
        """Note which runs in a session ended, and tell whoever waits for what came of a message there."""
        for run in subagent_runs.read_runs(self.repository.store, vocab.GENERATED, NamedNode(iris.session(session_id))):
            self.settle(run)
        self.tell(session_id)

    def tell(self, session_id: str | None = None) -> None:
        """Tell whoever waits (for messages of one session) what came of them, or that their time is up."""
        now = self.now()
        with self._lock:
            mine = [each for each in self._awaited if session_id in (None, each.session_id)]
        for each in mine:
            reply = self.reply_to(each.session_id, each.number)
            late = now >= each.deadline
            if reply is None and not late:
                continue
            with self._lock:
                if each not in self._awaited:
                    continue
                self._awaited.remove(each)
            each.then(None if late else reply)

    def reply_to(self, session_id: str, number: int) -> Reply | None:
        """Return what came of a message.

        None while it is not known.
        """
        exchange = self.exchange_of(session_id, number)
        if exchange is None or exchange.state in ("pending", "streaming"):
            return None
        if exchange.state == "failed":
            return Reply("error", error=exchange.error)
        wanted = set(exchange.turn_iris)
        turns = [turn for turn in turns_of(self.repository, session_id) if turn.iri in wanted]
        return Reply("ok", answer_of(turns), turn_iri=turns[-1].iri if turns else None)

    def exchange_of(self, session_id: str, number: int) -> Exchange | None:
        """Return the last exchange that took up a message, or None."""
        if session_id not in self.repository:
            return None
        event = self.book.entry(session_id, number, Event)
        return next(reversed(self.book.where(Exchange, session_id, vocab.USED, NamedNode(event.iri))), None)

    def waiting(self) -> set[tuple[str, str]]:
        """Return (session id, source) of the messages that wait in any inbox, name a source and were not sent from here."""
        store, waiting_messages = self.repository.store, set()
        for quad in store.quads((None, vocab.WAITING, None, None)):
            iri = str(getattr(quad.subject, "value", ""))
            session_id, number = iris.session_id(iri), iris.entry_number(iri)
            with self._lock:
                if (session_id, number) in self._contexts:
                    continue
            for source in store.quads((quad.subject, vocab.SOURCE, None, quad.graph_name)):  # type: ignore[arg-type] # IRIs
                waiting_messages.add((session_id, str(getattr(source.object, "value", ""))))
        return waiting_messages

    def task_of(self, run: Run) -> Event | None:
        """Return the message that brought a run its task, if it was brought here."""
        if run.child_session is None or run.child_session not in self.repository:
            return None
        events = self.book.where(Event, run.child_session, vocab.EVENT_ID, RdfLiteral(run.run_id))
        return next((event for event in events if event.source == TASK_SOURCE), None)

    def settle(self, run: Run) -> None:
        """End a run whose exchange is over."""
        if run.ended is not None or run.child_session is None:
            return
        event = self.task_of(run)
        exchange = None if event is None else self.exchange_of(run.child_session, event.number)
        if exchange is None or exchange.ended is None:
            return
        status, error = _outcome(run, exchange)
        self.end(run.run_id, status, error=error, started=exchange.started, ended=exchange.ended)

    def end(
        self,
        run_id: str,
        status: RunStatus,
        *,
        error: str | None = None,
        started: datetime | None = None,
        ended: datetime | None = None,
    ) -> bool:
        """Note how a run ended, unless that is known, and have it announced.

        Return whether it was noted.
        """
        moment = self.now() if ended is None else ended

        def step(run: Run) -> dict[str, Any] | None:
            if run.ended is not None:
                return None
            fields: dict[str, Any] = {"ended": moment, "outcome": status}
            if started is not None:
                fields["started"] = started
            if error is not None:
                fields["said"] = run.said.with_error(error)
            return fields

        noted = self.registry.change(run_id, step) is not None
        if noted:
            self.ended(run_id)
        return noted


def _outcome(run: Run, exchange: Exchange) -> tuple[RunStatus, str | None]:
    """Return how a run ended, by its exchange."""
    taken = None if exchange.started is None or exchange.ended is None else exchange.ended - exchange.started
    limit = run.run_timeout_seconds  # not as a timedelta: what an older version stored may be longer than any
    if limit and taken is not None and taken.total_seconds() >= limit:
        return "timeout", None
    if exchange.state == "completed":
        return "ok", None
    if (exchange.error or "").startswith("TimeoutError"):
        return "timeout", None
    return "error", exchange.error


def agent_of(key: str | None) -> str:
    """Return the author that a session's agent is."""
    return f"agent:{keys.agent_id_from_key(key)}"


def _await_answer(given: Any) -> Any:
    """Return what an agent gave.

    A coroutine runs in an event loop of its own.
    """
    if not inspect.isawaitable(given):
        return given

    async def awaited() -> Any:
        return await given

    return asyncio.run(awaited())
