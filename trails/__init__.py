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

__version__ = "0.2.0"

if TYPE_CHECKING:
    from trails.compare.agreement import Agreement
    from trails.compare.arms import ArmTest
    from trails.compare.comparison import Comparison
    from trails.compare.session_diff import Diff
    from trails.context.assembly import Context
    from trails.context.compaction import CompactionPolicy
    from trails.context.window import TokenWindow
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
    from trails.exchange.remotes.mirror import Mirror, Mirrored
    from trails.exchange.remotes.mirror_comparison import MirrorDifference, MirrorReport
    from trails.exchange.remotes.push import Moved, MovedSession, pull, push
    from trails.history.lookup.forest import Forest
    from trails.history.lookup.pages import Page
    from trails.history.lookup.summaries import SessionSummary
    from trails.history.lookup.usage_statistics import Statistics
    from trails.history.watch import Notice
    from trails.integrity.signed_notes import HeadSignature
    from trails.model.values import (
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
    from trails.opening import open  # noqa: A004 - trails.open, as io.open
    from trails.plumbing.asof.making import AsOf
    from trails.rdf.ledger_records import Delivery, Event, Exchange
    from trails.rdf.score_records import Score
    from trails.rdf.subagent_records import Run
    from trails.replay.playback import Playing
    from trails.replay.rerun import Rerun, rerun, rerun_many
    from trails.runtime.ledger import Ledger
    from trails.runtime.routing import Inbound, Routed, Router
    from trails.runtime.runs import Runs, Sent, Spawned, Step
    from trails.runtime.tree import Limits, SessionResult, Tree
    from trails.session.recorded_calls import Difference, Player, ToolAnswer
    from trails.session.repository import Repository
    from trails.session.scoring import Scores, Scoring
    from trails.session.session import Session

_HOMES = {
    "trails.compare.agreement": ("Agreement",),
    "trails.compare.arms": ("ArmTest",),
    "trails.compare.comparison": ("Comparison",),
    "trails.compare.session_diff": ("Diff",),
    "trails.context.assembly": ("Context",),
    "trails.context.compaction": ("CompactionPolicy",),
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
    "trails.exchange.remotes.mirror": (
        "Mirror",
        "Mirrored",
    ),
    "trails.exchange.remotes.mirror_comparison": (
        "MirrorDifference",
        "MirrorReport",
    ),
    "trails.exchange.remotes.push": (
        "Moved",
        "MovedSession",
        "pull",
        "push",
    ),
    "trails.history.lookup.forest": ("Forest",),
    "trails.history.lookup.pages": ("Page",),
    "trails.history.lookup.summaries": ("SessionSummary",),
    "trails.history.lookup.usage_statistics": ("Statistics",),
    "trails.history.watch": ("Notice",),
    "trails.integrity.signed_notes": ("HeadSignature",),
    "trails.model.values": (
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
    "trails.opening": ("open",),
    "trails.plumbing.asof.making": ("AsOf",),
    "trails.rdf.ledger_records": (
        "Delivery",
        "Event",
        "Exchange",
    ),
    "trails.rdf.score_records": ("Score",),
    "trails.rdf.subagent_records": ("Run",),
    "trails.replay.playback": ("Playing",),
    "trails.replay.rerun": (
        "rerun_many",
        "Rerun",
        "rerun",
    ),
    "trails.runtime.ledger": ("Ledger",),
    "trails.runtime.routing": (
        "Inbound",
        "Routed",
        "Router",
    ),
    "trails.runtime.runs": (
        "Runs",
        "Sent",
        "Spawned",
        "Step",
    ),
    "trails.runtime.tree": (
        "Limits",
        "SessionResult",
        "Tree",
    ),
    "trails.session.recorded_calls": (
        "Player",
        "Difference",
        "ToolAnswer",
    ),
    "trails.session.repository": ("Repository",),
    "trails.session.scoring": (
        "Scores",
        "Scoring",
    ),
    "trails.session.session": ("Session",),
}
_MODULES = {
    "aio": "trails.aio",
    "diff": "trails.compare",
    "keys": "trails.runtime.keys",
    "policy": "trails.runtime.policy",
}
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
        return import_module(_MODULES[name])
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
    from trails.suggestions import did_you_mean  # noqa: PLC0415

    said = f": {_INSTEAD[name]}" if name in _INSTEAD else did_you_mean(name, [*__all__, *_MODULES])
    return NoSuchName(f"trails has no {name!r}{said}")


def __dir__() -> list[str]:
    """Return the public names, whether or not they were used yet."""
    return sorted(__all__)
