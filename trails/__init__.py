"""Git for agent sessions, kept as a knowledge graph.

>>> import trails
>>> with trails.open(":memory:") as store:
...     s = store.create(principal="alice", agent="planner")
...     _ = s.append("user", "Plan a trip")
...     _ = s.append("assistant", "Where to?")
...     f = s.fork(at=1)
...     _ = f.append("assistant", "By train?")
...     (s.persist(), f.persist(), [turn.content for turn in store.load(f.id).turns])
(0, 1, ['Plan a trip', 'By train?'])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from trails.compare.agreement import Agreement
    from trails.compare.arms import ArmTest
    from trails.compare.comparison import Comparison
    from trails.context.assembling import Context
    from trails.context.compacting import CompactionPolicy
    from trails.context.window import TokenWindow
    from trails.diff.result import Diff
    from trails.errors import (
        ClockWarning,
        ContextOverflow,
        ExchangeInterrupted,
        ForkCycle,
        ForkDepthExceeded,
        HasChildren,
        HeadConflict,
        IllegalTransition,
        IndexGap,
        IntegrityError,
        InvalidInput,
        LimitReached,
        MirrorFailed,
        NoSuchName,
        NothingToSummarise,
        ParentMissing,
        PendingTurnsWarning,
        QueryEnded,
        QueryTimeout,
        QueryTooLarge,
        RecordMiss,
        RequestRefused,
        SecretFound,
        SessionNotFound,
        SharedSessionWarning,
        StoreFailed,
        StoreLocked,
        StoreReadOnly,
        TrailsError,
        TurnNotFound,
        WrongCall,
    )
    from trails.integrity.head_signatures import HeadSignature
    from trails.ledger import Ledger
    from trails.mirrors.comparing import MirrorDifference, MirrorReport
    from trails.mirrors.mirroring import Mirror, Mirrored
    from trails.model import (
        MAX_FORK_DEPTH,
        Call,
        Compaction,
        ContextUsed,
        Note,
        Quote,
        SessionRecord,
        Tag,
        ToolCall,
        ToolResult,
        Turn,
        VerifyReport,
    )
    from trails.moving.pushing import Moved, MovedSession, pull, push
    from trails.opening import open  # noqa: A004 - trails.open, as io.open
    from trails.plumbing.asof.making import AsOf
    from trails.plumbing.forest import Forest
    from trails.plumbing.pages import Page
    from trails.plumbing.statistics import Statistics
    from trails.plumbing.summaries import SessionSummary
    from trails.plumbing.watch import Notice
    from trails.records.entries import Delivery, Event, Exchange
    from trails.records.run import Run
    from trails.records.scores import Score
    from trails.reruns.many import rerun_many
    from trails.reruns.playing import Playing
    from trails.reruns.rerun import Rerun, rerun
    from trails.routing import Inbound, Routed, Router
    from trails.runs import Runs, Sent, Spawned, Step
    from trails.session.player import Player
    from trails.session.recorded import Difference, ToolAnswer
    from trails.session.repository import Repository
    from trails.session.scores import Scores
    from trails.session.scoring import Scoring
    from trails.session.session import Session
    from trails.tree import Limits, SessionResult, Tree

_HOMES = {
    "trails.diff.result": ("Diff",),
    "trails.context.assembling": ("Context",),
    "trails.context.compacting": ("CompactionPolicy",),
    "trails.context.window": ("TokenWindow",),
    "trails.errors": (
        "ClockWarning",
        "ContextOverflow",
        "ExchangeInterrupted",
        "ForkCycle",
        "ForkDepthExceeded",
        "HasChildren",
        "HeadConflict",
        "IllegalTransition",
        "IndexGap",
        "IntegrityError",
        "InvalidInput",
        "LimitReached",
        "MirrorFailed",
        "NoSuchName",
        "NothingToSummarise",
        "ParentMissing",
        "PendingTurnsWarning",
        "QueryEnded",
        "QueryTimeout",
        "QueryTooLarge",
        "RecordMiss",
        "RequestRefused",
        "SecretFound",
        "SessionNotFound",
        "SharedSessionWarning",
        "StoreFailed",
        "StoreLocked",
        "StoreReadOnly",
        "TrailsError",
        "TurnNotFound",
        "WrongCall",
    ),
    "trails.integrity.head_signatures": ("HeadSignature",),
    "trails.ledger": ("Ledger",),
    "trails.model": (
        "MAX_FORK_DEPTH",
        "Call",
        "Compaction",
        "ContextUsed",
        "Note",
        "Quote",
        "SessionRecord",
        "Tag",
        "ToolCall",
        "ToolResult",
        "Turn",
        "VerifyReport",
    ),
    "trails.mirrors.comparing": ("MirrorDifference", "MirrorReport"),
    "trails.mirrors.mirroring": ("Mirror", "Mirrored"),
    "trails.moving.pushing": ("Moved", "MovedSession", "pull", "push"),
    "trails.opening": ("open",),
    "trails.reruns.many": ("rerun_many",),
    "trails.reruns.playing": ("Playing",),
    "trails.reruns.rerun": ("Rerun", "rerun"),
    "trails.routing": ("Inbound", "Routed", "Router"),
    "trails.runs": ("Runs", "Sent", "Spawned", "Step"),
    "trails.records.entries": ("Delivery", "Event", "Exchange"),
    "trails.plumbing.watch": ("Notice",),
    "trails.compare.arms": ("ArmTest",),
    "trails.compare.comparison": ("Comparison",),
    "trails.plumbing.asof.making": ("AsOf",),
    "trails.plumbing.forest": ("Forest",),
    "trails.plumbing.pages": ("Page",),
    "trails.plumbing.statistics": ("Statistics",),
    "trails.plumbing.summaries": ("SessionSummary",),
    "trails.session.player": ("Player",),
    "trails.session.recorded": ("Difference", "ToolAnswer"),
    "trails.session.repository": ("Repository",),
    "trails.records.run": ("Run",),
    "trails.records.scores": ("Score",),
    "trails.session.scores": ("Scores",),
    "trails.session.scoring": ("Scoring",),
    "trails.compare.agreement": ("Agreement",),
    "trails.session.session": ("Session",),
    "trails.tree": ("Limits", "SessionResult", "Tree"),
}
_MODULES = frozenset({"aio", "diff", "keys", "policy"})
"""The modules of functions that the guide names: there after `import trails`, too, and loaded when they are asked for."""
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "MAX_FORK_DEPTH",
    "Agreement",
    "ArmTest",
    "AsOf",
    "Call",
    "ClockWarning",
    "Compaction",
    "CompactionPolicy",
    "Comparison",
    "Context",
    "ContextOverflow",
    "ContextUsed",
    "Delivery",
    "Diff",
    "Difference",
    "Event",
    "Exchange",
    "ExchangeInterrupted",
    "Forest",
    "ForkCycle",
    "ForkDepthExceeded",
    "HasChildren",
    "HeadConflict",
    "HeadSignature",
    "IllegalTransition",
    "Inbound",
    "IndexGap",
    "IntegrityError",
    "InvalidInput",
    "Ledger",
    "LimitReached",
    "Limits",
    "Mirror",
    "MirrorDifference",
    "MirrorFailed",
    "MirrorReport",
    "Mirrored",
    "Moved",
    "MovedSession",
    "NoSuchName",
    "Note",
    "NothingToSummarise",
    "Notice",
    "Page",
    "ParentMissing",
    "PendingTurnsWarning",
    "Player",
    "Playing",
    "QueryEnded",
    "QueryTimeout",
    "QueryTooLarge",
    "Quote",
    "RecordMiss",
    "Repository",
    "RequestRefused",
    "Rerun",
    "Routed",
    "Router",
    "Run",
    "Runs",
    "Score",
    "Scores",
    "Scoring",
    "SecretFound",
    "Sent",
    "Session",
    "SessionNotFound",
    "SessionRecord",
    "SessionResult",
    "SessionSummary",
    "SharedSessionWarning",
    "Spawned",
    "Statistics",
    "Step",
    "StoreFailed",
    "StoreLocked",
    "StoreReadOnly",
    "Tag",
    "TokenWindow",
    "ToolAnswer",
    "ToolCall",
    "ToolResult",
    "TrailsError",
    "Tree",
    "Turn",
    "TurnNotFound",
    "VerifyReport",
    "WrongCall",
    "open",
    "pull",
    "push",
    "rerun",
    "rerun_many",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import trails` and the command line's help stay quick."""
    if name in _MODULES:
        return import_module(f"trails.{name}")
    if name not in _HOME_OF:
        raise _no_such_name(name)
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


_INSTEAD = {
    "Store": "trails.open(...) gives a store, a trails.Repository",
    "Client": "trails.open(...) gives a store, a trails.Repository",
    "Database": "trails.open(...) gives a store, a trails.Repository",
    "Trails": "trails.open(...) gives a store, a trails.Repository",
    "connect": "trails.open(...) gives a store, a trails.Repository",
    "create": "trails.open(path, create=True) makes a store, store.create() a session",
    "init": "trails.open(path, create=True) makes a store",
    "load": "store.load(id) gives a session, with store = trails.open(path)",
    "session": "store.create() makes a session, store.load(id) gives one, with store = trails.open(path)",
    "list": "store.list() gives the sessions, with store = trails.open(path)",
    "query": "store.query(...) asks a store, with store = trails.open(path)",
    "Message": "session.append(role, content) gives a trails.Turn",
    "AsyncStore": "trails.aio.open(...) opens a store in an event loop",
    "aopen": "trails.aio.open(...) opens a store in an event loop",
}
"""What people look for in the package, and how it is had."""


def _no_such_name(name: str) -> AttributeError:
    """Return the error for a name that the package does not have, and that says what was probably meant."""
    if name.startswith("_"):
        return AttributeError(f"module 'trails' has no attribute {name!r}")
    from trails.errors import NoSuchName  # noqa: PLC0415 - `import trails` stays quick
    from trails.nearest import did_you_mean  # noqa: PLC0415

    said = f": {_INSTEAD[name]}" if name in _INSTEAD else did_you_mean(name, [*__all__, *_MODULES])
    return NoSuchName(f"trails has no {name!r}{said}")


def __dir__() -> list[str]:
    """Return the public names, whether or not they were used yet."""
    return sorted(__all__)
