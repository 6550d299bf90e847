"""What is asked of a spawn, checked, and made into the row of a session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from trails import iris, validate
from trails.errors import InvalidInput
from trails.model import SessionRecord
from trails.records.sessions import DEFAULT_AGENT, DEFAULT_PRINCIPAL
from trails.tree import limits as rules
from trails.tree.index import Live
from trails.tree.lifecycle import Lifecycle
from trails.tree.limits import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnOptions:
    """What a host asks of a spawn."""

    kind: str
    task: str | None = None
    context_summary: str | None = None
    ttl: timedelta | None = None
    tier: str | None = None
    agent: str | None = None
    channel: str | None = None
    principal: str | None = None
    system: str | None = None
    id: str | None = None
    label: str | None = None
    by: str | None = None


def spawn(lifecycle: Lifecycle, parent_id: str | None, wanted: SpawnOptions) -> SessionRecord:
    """Make a session and return its row, or raise with nothing changed: see `Tree.spawn`."""
    kind, now = rules.kind(wanted.kind), lifecycle.now()
    if kind == "main":
        return _main(lifecycle, parent_id, wanted, _row(kind, wanted, now), now)
    told = _told(kind, wanted)
    if parent_id is None:
        raise InvalidInput(f"a {kind} needs a parent; only a main has none")
    blank = _row(kind, wanted, now)

    def row(parent: Live, slot: str) -> SessionRecord:
        above = lifecycle.record(parent.id)
        if wanted.agent not in (None, above.agent):
            raise InvalidInput(
                f"session {above.id!r} belongs to agent {above.agent!r}, and nothing in the tree under it may belong to "
                f"another agent ({wanted.agent!r}); spawn from a session of that agent, and let the two exchange messages"
            )
        tier = wanted.tier or (above.tier if kind == "branch" else lifecycle.cheapest)
        ours = {"slot": slot, "spawned_by": above.id, "agent": above.agent, "principal": above.principal, "tier": tier}
        return blank.model_copy(update=ours)

    return lifecycle.make_child(parent_id, row, kind=kind, told=told, by=wanted.by, now=now)


def _row(kind: Kind, wanted: SpawnOptions, now: datetime) -> SessionRecord:
    """Return the row of a session as far as its parent plays no part in it."""
    return SessionRecord(
        id=uuid4().hex if wanted.id is None else validate.session_id(wanted.id),
        kind=kind,
        created=now,
        expires=rules.expiry(kind, wanted.ttl, now),
        label=None if wanted.label is None else validate.label(wanted.label),
        tier=None if wanted.tier is None else validate.name(wanted.tier, "tier"),
        principal=DEFAULT_PRINCIPAL,
        agent=DEFAULT_AGENT,
    )


def _main(
    lifecycle: Lifecycle, parent_id: str | None, wanted: SpawnOptions, blank: SessionRecord, now: datetime
) -> SessionRecord:
    if parent_id is not None:
        raise InvalidInput(f"a main has no parent, and {parent_id!r} was given")
    if wanted.context_summary is not None:
        raise InvalidInput("a main has no parent that could give it a context_summary; say it in its system prompt")
    if wanted.agent is None or wanted.channel is None:
        raise InvalidInput("a main needs the agent that it belongs to and the channel that it is for")
    agent, channel = validate.name(wanted.agent, "agent"), validate.name(wanted.channel, "channel")
    ours = {"agent": agent, "channel": channel, "slot": iris.main_slot(agent, channel)}
    if wanted.principal is not None:
        ours["principal"] = validate.name(wanted.principal, "principal")
    told = {} if wanted.task is None else {"task": validate.text(wanted.task, "the task")}
    system = None if wanted.system is None else validate.text(wanted.system, "system")
    return lifecycle.make_main(blank.model_copy(update=ours), system=system, told=told, by=wanted.by, now=now)


def _told(kind: Kind, wanted: SpawnOptions) -> dict[str, str]:
    """Return what a branch or a worker is told, or raise for what it may not be given."""
    for name in ("channel", "principal", "system"):
        if getattr(wanted, name) is not None:
            whence = "has none" if kind == "worker" and name == "system" else "has its parent's"
            raise InvalidInput(f"{name} is for mains; a {kind} {whence if name != 'channel' else 'has none'}")
    if wanted.task is None:
        raise InvalidInput(f"a {kind} needs a task")
    told = {"task": validate.text(wanted.task, "the task")}
    if wanted.context_summary is not None:
        if kind == "worker":
            raise InvalidInput(
                "a worker gets no context_summary: all that it is told is its task; say what it needs there, or spawn a "
                "branch"
            )
        told["context"] = validate.text(wanted.context_summary, "context_summary")
    return told
