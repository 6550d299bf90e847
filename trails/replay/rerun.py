"""Run a session again, once or many times.

What comes of a rerun is stored as a fork. Many reruns of one record run in a pool of threads: each has its own fork, one may
fail alone, and a series that was cut short can be continued.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from trails.errors import InvalidInput, TrailsError
from trails.history.records import activities
from trails.history.workspace import Workspace
from trails.model import validation
from trails.rdf.activity_records import Rerunning
from trails.replay.playback import Model, OnMiss, Playing, ReplayOptions, Tools, refuse_awaitable
from trails.session.recorded_calls import Difference, Recording
from trails.session.session import Session, load_session
from trails.suggestions import checked
from trails.workers import completed, hold_interrupts

Agent = Callable[[Playing], Any]
"""Runs once over the `Playing` that it is given; what it returns is the rerun's result."""
Outcome = Literal["finished", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Rerun:
    """What came of running an agent again over a record: a stored fork that shares what agreed, and where it left."""

    session: Session = field(repr=False)
    """The fork, stored: it shares the turns that agreed, and owns those since."""
    source_id: str
    """The id of the session whose record was played."""
    outcome: Outcome
    """`finished`, `stopped` by a call that was not recorded, or `failed` by an error of the agent."""
    agreed: int
    """How many turns of the record the run said again."""
    left_at: int | None
    """The index of the first turn of the record that the run did not say; None if it said all."""
    difference: Difference | None
    """What differs there, in this process; None if nothing does, and for a rerun that was read back."""
    played: int
    """How many answers of models and tools came from the record."""
    live: int
    """How many were called for."""
    result: Any = None
    """What the agent returned."""
    error: BaseException | None = None
    """What stopped the run, or failed it."""

    @property
    def id(self) -> str:
        """The fork's id."""
        return self.session.id

    def to_dict(self) -> dict[str, Any]:
        """Return the rerun as plain values, ready for JSON; without the agent's own result."""
        return {
            "session": self.session.id,
            "source": self.source_id,
            "outcome": self.outcome,
            "agreed": self.agreed,
            "left_at": self.left_at,
            "difference": None if self.difference is None else self.difference.to_dict(),
            "turns": len(self.session) - self.agreed,
            "played": self.played,
            "live": self.live,
            "error": None if self.error is None else f"{type(self.error).__name__}: {self.error}",
        }


@checked
def rerun(
    session: Session,
    agent: Agent,
    *,
    model: Literal["recorded"] | Model = "recorded",
    tools: Literal["recorded"] | Tools = "recorded",
    on_miss: OnMiss = "stop",
    upto: int | None = None,
    id: str | None = None,  # noqa: A002 - the public name
    label: str | None = None,
    principal: str | None = None,
    meta: Mapping[str, Any] | None = None,
    by: str | None = None,
) -> Rerun:
    """Run an agent over a session's record, store what it says as a fork, and return where it first left the record.

    `agent` is called once with a `Playing`, which it asks for input, models and tools. With "recorded", those answer as
    they did, by what came before and the call itself; a callable is asked each time in their place (`model` with the
    `Playing`, `tools` with the `ToolCall`), and its answers are held against the record. A call that the record does not
    answer stops the run (`on_miss="stop"`), or goes on with what the agent names to be asked live (`on_miss="live"`).
    The record is played below `upto` (exclusive, default all). `id`, `label`, `principal` and `meta` are the fork's, `by`
    names who reruns, as for `Repository.delete`. Pending turns of the session are persisted first.

    The fork shares the turns that agreed, and copies none; it is stored in one commit when the agent has ended, with a
    record of the rerun (`trails:Rerunning`). Played turns after the point where the run left the record are quotations.

    Raises what the agent raises, after what it said was stored (an interrupt: nothing is); `InvalidInput` for an id or
    label in use and an `upto` out of range, and `ForkDepthExceeded`, before the agent is called.

    >>> import trails
    >>> def agent(run):
    ...     while run.input():
    ...         run.model()
    >>> with trails.open(":memory:") as store, store.create(id="plan") as plan:
    ...     turns = plan.append("user", "Plan a trip"), plan.append("assistant", "Where to?")
    ...     same = trails.rerun(plan, agent)
    ...     other = trails.rerun(plan, agent, model=lambda run: "How long?")
    ...     (same.left_at, same.played), (other.left_at, other.difference.text)
    ((None, 1), (1, "text: recorded 'Where to?', now 'How long?'"))
    """
    ways = ReplayOptions(model, tools, on_miss)
    done = attempt(session, agent, ways=ways, upto=upto, id=id, label=label, principal=principal, meta=meta, by=by)
    return unless_failed(done)


def unless_failed(done: Rerun) -> Rerun:
    """Return a rerun, or raise the error of its agent."""
    if done.outcome == "failed" and done.error is not None:
        done.error.add_note(f"What the agent said until then is stored as session {done.id!r}.")
        raise done.error
    return done


def attempt(
    session: Session, agent: Agent, *, ways: ReplayOptions, upto: int | None, by: str | None = None, **options: Any
) -> Rerun:
    """Do what `rerun` does; an error of the agent stands in the rerun and is not raised."""
    _check_run(session, agent)
    session.persist()
    playing = Playing(session, recording_of(session, upto), ways, {**options, "by": by})
    playing.refuse_early()
    return run_agent(playing, agent, by)


def _check_run(session: object, agent: object) -> None:
    """Raise for what cannot be run."""
    if not isinstance(session, Session):
        raise InvalidInput(f"a rerun is of a session, as store.load(id) gives it, not of {session!r:.80}")
    if not callable(agent):
        raise InvalidInput(f"an agent is a function of the run, not {agent!r:.80}")


def recording_of(session: Session, upto: int | None) -> Recording:
    """Return the record of a session as it is stored by now, below an index: what was redacted meanwhile is not played."""
    session.worktree.reload()
    end = len(session) if upto is None else validation.index(upto, "upto")
    if end > len(session):
        raise InvalidInput(f"session {session.id!r} is played up to {len(session)}, the number of its turns, not {end}")
    return Recording(session.id, session.turns[:end])


def run_agent(playing: Playing, agent: Agent, by: str | None) -> Rerun:
    """Run an agent once and store what came of it; an error of the agent stands in the rerun."""
    started, result, error = datetime.now(UTC), None, None
    try:
        result = agent(playing)
        refuse_awaitable(result)
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - it is the rerun's to tell; scripts call exit
        error = raised
    except BaseException:
        playing.give_up()
        raise
    return store_rerun(playing, result, error, started, by)


def store_rerun(playing: Playing, result: Any, error: BaseException | None, started: datetime, by: str | None) -> Rerun:
    """Store what came of a run, in one commit."""
    miss = playing.miss
    outcome: Outcome = "stopped" if miss is not None and error in (None, miss) else "failed" if error else "finished"
    try:
        fork = playing.end()
    except Exception as failure:  # noqa: BLE001 - the agent's own error comes first
        playing.give_up()
        raise error or failure from (failure if error else None)
    agreed = fork.record.forked_at_index or 0
    act = Rerunning(
        session_id=fork.id,
        token=secrets.token_hex(8),
        by_iri=fork.worktree.workspace.who(by),
        time=datetime.now(UTC),
        started=started,
        used=(playing.session_id,),
        outcome=outcome,
        agreed=agreed,
        left_at=playing.left_at,
        played=playing.played,
        live=playing.live,
    )
    fork.worktree.acts.append(act)
    try:
        fork.persist()
    except TrailsError as failure:  # what it quotes was redacted meanwhile, say, or its parent deleted
        failure.add_note(f"What the agent said in this rerun of {playing.session_id!r} is not stored.")
        playing.give_up()
        raise failure from error
    raised = miss if outcome == "stopped" else error
    return rerun_of(fork, act, playing.difference, result, raised)


def rerun_of(
    fork: Session,
    act: Rerunning,
    difference: Difference | None = None,
    result: Any = None,
    error: BaseException | None = None,
) -> Rerun:
    """Return the rerun that an act tells of."""
    return Rerun(
        session=fork,
        source_id=act.used[0],
        outcome=act.outcome,  # type: ignore[arg-type] # as it was written
        agreed=act.agreed,
        left_at=act.left_at,
        difference=difference,
        played=act.played,
        live=act.live,
        result=result,
        error=error,
    )


MAX_RERUNS: Final = 100_000
MAX_WORKERS: Final = 64


@checked
def rerun_many(
    session: Session,
    agent: Agent,
    count: int,
    *,
    name: str = "rerun",
    workers: int = 4,
    model: Literal["recorded"] | Model = "recorded",
    tools: Literal["recorded"] | Tools = "recorded",
    on_miss: OnMiss = "stop",
    upto: int | None = None,
    principal: str | None = None,
    meta: Mapping[str, Any] | None = None,
    by: str | None = None,
    progress: Callable[[Rerun], object] | None = None,
) -> list[Rerun]:
    """Run an agent `count` times over a session's record, as `rerun` does, and return the reruns in the order of their numbers.

    `workers` (1 to 64) threads run them; `run.number`, from 0, tells an agent which one it is. The forks are called
    `SESSION~NAME-NUMBER`. Those that are stored already and ended are not run again: a pool that was cut short goes on when it
    is called again with the same name. A rerun whose agent raises has the outcome `failed`, with its error; the others go
    on, and the next call runs it again, as `SESSION~NAME-NUMBER.2`, as it does one whose fork was deleted. `progress` is
    called in this thread with each rerun that is done. The agent and what it calls must bear several threads.

    Raises `InvalidInput` before anything is run, also if a fork of that name is no rerun of the session; what keeps a
    fork from being stored, after the others are done.

    >>> import trails
    >>> with trails.open(":memory:") as store, store.create(id="plan") as plan:
    ...     turn = plan.append("user", "Plan a trip")
    ...     def agent(run):
    ...         run.input(); run.model()
    ...     done = trails.rerun_many(plan, agent, 3, name="try", model=lambda run: f"Trip {run.number}")
    ...     [(each.id, each.left_at, each.session[-1].content) for each in done]
    [('plan~try-0', 1, 'Trip 0'), ('plan~try-1', 1, 'Trip 1'), ('plan~try-2', 1, 'Trip 2')]
    """
    _check_run(session, agent)
    options = {"principal": principal, "meta": meta, "by": by}
    pool, places = plan_reruns(
        session, count, workers, name=name, ways=ReplayOptions(model, tools, on_miss), upto=upto, options=options
    )
    return run_planned(pool, places, agent, workers, progress=progress)


def run_planned(
    pool: Pool,
    places: list[RerunPlace],
    agent: Agent,
    workers: int,
    *,
    progress: Callable[[Rerun], object] | None,
    stop: Callable[[], object] | None = None,
) -> list[Rerun]:
    """Run those that were not done before, and return all; raise in the end what kept one from being stored.

    `stop` is called if that is broken off: threads are waited for.
    """
    by_number = {each.number: each.done for each in places if each.done is not None}
    failure: BaseException | None = None
    here = threading.local()
    with hold_interrupts(stop) as give_way, ThreadPoolExecutor(workers, thread_name_prefix="trails-rerun") as threads:
        numbers: dict[Future[Rerun], int] = {}
        try:
            for each in places:
                if each.done is None:
                    numbers[threads.submit(pool.run, agent, each, here)] = each.number
            for future in completed(numbers):
                if (error := future.exception()) is not None:
                    failure = failure or error
                    continue
                give_way()
                by_number[numbers[future]] = done = future.result()
                if progress is not None:
                    progress(done)
        except BaseException:
            if stop is not None:
                stop()
            raise
        finally:
            threads.shutdown(wait=True, cancel_futures=True)
    if failure is not None:
        raise failure
    return [by_number[each.number] for each in places]


def plan_reruns(
    session: Session,
    count: int,
    workers: int,
    *,
    name: str,
    ways: ReplayOptions,
    upto: int | None,
    options: Mapping[str, Any],
) -> tuple[Pool, list[RerunPlace]]:
    """Return several reruns and which of them were done before; raise for what cannot be run."""
    wanted, threads = validation.index(count, "count"), validation.index(workers, "workers")
    if wanted > MAX_RERUNS or not 1 <= threads <= MAX_WORKERS:
        raise InvalidInput(f"count is 0 to {MAX_RERUNS} and workers 1 to {MAX_WORKERS}, not {wanted} and {threads}")
    session.persist()
    session.fork(at=0, **options).discard_pending()  # whether these options can be
    pool = Pool(session.worktree.workspace, session.id, recording_of(session, upto), ways, options, name)
    return pool, pool.places(wanted)


@dataclass(frozen=True, slots=True)
class RerunPlace:
    """One of several reruns: its number, the id that its fork is to have, and the rerun if it was done before."""

    number: int
    id: str
    done: Rerun | None


@dataclass(frozen=True, slots=True)
class Pool:
    """What several reruns have in common."""

    workspace: Workspace
    source: str
    recording: Recording
    ways: ReplayOptions
    options: Mapping[str, Any]
    name: str

    def places(self, count: int) -> list[RerunPlace]:
        """Return the reruns that are wanted, with those that were done before; three questions to the store for each of these."""
        ids = [rerun_id(self.source, self.name, number) for number in range(count)]
        return [self._place(number, each) for number, each in enumerate(ids)]

    def _place(self, number: int, first: str) -> RerunPlace:
        tried, fork_id = 1, first
        reader = self.workspace.reader
        while (is_there := fork_id in reader.records([fork_id])) or reader.is_deleted(fork_id):
            act = self._act(fork_id) if is_there else None
            if act is not None and act.outcome != "failed":
                return RerunPlace(number, fork_id, rerun_of(load_session(self.workspace, fork_id, last=0), act))
            tried += 1
            fork_id = f"{first}.{tried}"
        return RerunPlace(number, validation.session_id(fork_id), None)

    def _act(self, fork_id: str) -> Rerunning:
        acts = [act for act in activities.read_activities(self.workspace.store, fork_id) if isinstance(act, Rerunning)]
        if len(acts) != 1 or acts[0].used != (self.source,):
            raise InvalidInput(f"session {fork_id!r} is there, and no rerun of {self.source!r}; give another name")
        return acts[0]

    def run(self, agent: Agent, place: RerunPlace, here: threading.local) -> Rerun:
        """Run one of them, over the handle that its thread has."""
        if not hasattr(here, "source"):
            here.source = load_session(self.workspace, self.source)
        playing = Playing(here.source, self.recording, self.ways, {**self.options, "id": place.id}, place.number)
        playing.refuse_early()
        return run_agent(playing, agent, self.options["by"])


def rerun_id(source: str, name: str, number: int) -> str:
    """Return the id of one of several reruns, never too long.

    >>> rerun_id("plan", "try", 7)
    'plan~try-7'
    """
    tail = f"~{validation.name(name, 'name')}-{number}"
    return validation.session_id(source[: validation.MAX_ID - len(tail) - 8] + tail)
