"""Rerunning: an agent is run again over a recorded session, and what comes of it is stored as a fork."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from trails import validate
from trails.calls import checked
from trails.errors import InvalidInput, TrailsError
from trails.records.acts import Rerunning
from trails.reruns.playing import Model, OnMiss, Playing, Tools, Ways, refuse_awaitable
from trails.session.recorded import Difference, Recording
from trails.session.session import Session

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
    """The index of the first turn of the record that the run did not say; None where it said all."""
    difference: Difference | None
    """What differs there, in this process; None where nothing does, and for a rerun that was read back."""
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
    ways = Ways(model, tools, on_miss)
    done = attempt(session, agent, ways=ways, upto=upto, id=id, label=label, principal=principal, meta=meta, by=by)
    return unless_failed(done)


def unless_failed(done: Rerun) -> Rerun:
    """Return a rerun, or raise the error of its agent."""
    if done.outcome == "failed" and done.error is not None:
        done.error.add_note(f"What the agent said until then is stored as session {done.id!r}.")
        raise done.error
    return done


def attempt(
    session: Session, agent: Agent, *, ways: Ways, upto: int | None, by: str | None = None, **options: Any
) -> Rerun:
    """Do what `rerun` does; an error of the agent stands in the rerun and is not raised."""
    return run(begun(session, agent, ways, upto, {**options, "by": by}), agent, by)


def begun(session: Session, agent: object, ways: Ways, upto: int | None, options: Mapping[str, Any]) -> Playing:
    """Return what an agent is given to run with; raise for what cannot be run, or could not be stored later."""
    if not isinstance(session, Session):
        raise InvalidInput(f"a rerun is of a session, as store.load(id) gives it, not of {session!r:.80}")
    if not callable(agent):
        raise InvalidInput(f"an agent is a function of the run, not {agent!r:.80}")
    session.persist()
    playing = Playing(session, recording_of(session, upto), ways, options)
    playing.refuse_early()
    return playing


def recording_of(session: Session, upto: int | None) -> Recording:
    """Return the record of a session as it is stored by now, below an index: what was redacted meanwhile is not played."""
    session.worktree.reload()
    end = len(session) if upto is None else validate.index(upto, "upto")
    if end > len(session):
        raise InvalidInput(
            f"session {session.id!r} has {len(session)} turns, so it is played up to {len(session)}, not {end}"
        )
    return Recording(session.id, session.turns[:end])


def run(playing: Playing, agent: Agent, by: str | None) -> Rerun:
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
    return store(playing, result, error, started, by)


def store(playing: Playing, result: Any, error: BaseException | None, started: datetime, by: str | None) -> Rerun:
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
    told = miss if outcome == "stopped" else error
    return rerun_of(fork, act, playing.difference, result, told)


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
