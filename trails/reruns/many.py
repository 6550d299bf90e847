"""Many reruns of one record, by a pool of threads: each its own fork, one failing alone, going on where they were cut short."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Final, Literal

from trails import validate
from trails.calls import checked
from trails.errors import InvalidInput
from trails.interrupts import held_back
from trails.plumbing import acts
from trails.plumbing.workspace import Workspace
from trails.records.acts import Rerunning
from trails.reruns.playing import Model, OnMiss, Playing, Tools, Ways
from trails.reruns.rerun import Agent, Rerun, recording_of, rerun_of, run
from trails.session.recorded import Recording
from trails.session.session import Session, load

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

    Raises `InvalidInput` before anything is run, also where a fork of that name is no rerun of the session; what keeps a
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
    options = {"principal": principal, "meta": meta, "by": by}
    pool, places = planned(
        session, count, workers, name=name, ways=Ways(model, tools, on_miss), upto=upto, options=options
    )
    return ran(pool, places, agent, workers, progress=progress)


def ran(
    pool: Pool,
    places: list[Place],
    agent: Agent,
    workers: int,
    *,
    progress: Callable[[Rerun], object] | None,
    stop: Callable[[], object] | None = None,
) -> list[Rerun]:
    """Run those that were not done before, and return all; `stop` is called where that is broken off: threads are waited for."""
    found = {each.number: each.done for each in places if each.done is not None}
    todo = [each for each in places if each.done is None]
    with held_back(stop) as give_way:
        for number, done in _results(pool, agent, todo, workers, stop):
            give_way()
            found[number] = done
            if progress is not None:
                progress(done)
    return [found[each.number] for each in places]


def planned(
    session: Session,
    count: int,
    workers: int,
    *,
    name: str,
    ways: Ways,
    upto: int | None,
    options: Mapping[str, Any],
) -> tuple[Pool, list[Place]]:
    """Return several reruns and which of them were done before; raise for what cannot be run."""
    if not isinstance(session, Session):
        raise InvalidInput(f"a rerun is of a session, as store.load(id) gives it, not of {session!r:.80}")
    wanted, threads = validate.index(count, "count"), validate.index(workers, "workers")
    if wanted > MAX_RERUNS or not 1 <= threads <= MAX_WORKERS:
        raise InvalidInput(f"count is 0 to {MAX_RERUNS} and workers 1 to {MAX_WORKERS}, not {wanted} and {threads}")
    session.persist()
    session.fork(at=0, **options).discard_pending()  # whether these options can be
    pool = Pool(session.worktree.workspace, session.id, recording_of(session, upto), ways, options, name)
    return pool, pool.places(wanted)


@dataclass(frozen=True, slots=True)
class Place:
    """One of several reruns: its number, the id that its fork is to have, and the rerun where it was done before."""

    number: int
    id: str
    done: Rerun | None


@dataclass(frozen=True, slots=True)
class Pool:
    """What several reruns have in common."""

    workspace: Workspace
    source: str
    recording: Recording
    ways: Ways
    options: Mapping[str, Any]
    name: str

    def places(self, count: int) -> list[Place]:
        """Return the reruns that are wanted, with those that were done before; three questions to the store for each of these."""
        ids = [rerun_id(self.source, self.name, number) for number in range(count)]
        return [self._place(number, each) for number, each in enumerate(ids)]

    def _place(self, number: int, first: str) -> Place:
        tried, fork_id = 1, first
        reader = self.workspace.reader
        while (is_there := fork_id in reader.records([fork_id])) or reader.is_deleted(fork_id):
            act = self._act(fork_id) if is_there else None
            if act is not None and act.outcome != "failed":
                return Place(number, fork_id, rerun_of(load(self.workspace, fork_id, last=0), act))
            tried += 1
            fork_id = f"{first}.{tried}"
        return Place(number, validate.session_id(fork_id), None)

    def _act(self, fork_id: str) -> Rerunning:
        told = [act for act in acts.read(self.workspace.store, fork_id) if isinstance(act, Rerunning)]
        if len(told) != 1 or told[0].used != (self.source,):
            raise InvalidInput(
                f"session {fork_id!r} is there, and no rerun of {self.source!r}; give these reruns another name (name=...)"
            )
        return told[0]

    def playing(self, place: Place, source: Session | None = None) -> Playing:
        """Return what the agent of one of them is given, over a handle on the session; None loads one."""
        over = load(self.workspace, self.source) if source is None else source
        made = Playing(over, self.recording, self.ways, {**self.options, "id": place.id}, place.number)
        made.refuse_early()
        return made

    def run(self, agent: Agent, place: Place, here: threading.local) -> Rerun:
        """Run one of them, over the handle that its thread has."""
        if not hasattr(here, "source"):
            here.source = load(self.workspace, self.source)
        return run(self.playing(place, here.source), agent, self.options["by"])


def _results(
    pool: Pool, agent: Agent, todo: list[Place], threads: int, stop: Callable[[], object] | None
) -> Iterator[tuple[int, Rerun]]:
    """Yield the reruns in the order in which they are done; raise in the end what kept one from being stored."""
    failure: BaseException | None = None
    here = threading.local()
    with ThreadPoolExecutor(threads, thread_name_prefix="trails-rerun") as workers:
        given: dict[Future[Rerun], int] = {}
        try:
            for each in todo:
                given[workers.submit(pool.run, agent, each, here)] = each.number
            for future in as_completed(given):
                if (error := future.exception()) is not None:
                    failure = failure or error
                else:
                    yield given[future], future.result()
        except BaseException:
            if stop is not None:
                stop()
            raise
        finally:
            workers.shutdown(wait=True, cancel_futures=True)
    if failure is not None:
        raise failure


def rerun_id(source: str, name: str, number: int) -> str:
    """Return the id of one of several reruns, never too long.

    >>> rerun_id("plan", "try", 7)
    'plan~try-7'
    """
    tail = f"~{validate.name(name, 'name')}-{number}"
    return validate.session_id(source[: validate.MAX_ID - len(tail) - 8] + tail)
