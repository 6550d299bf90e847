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
    from trails.compare.comparison import Comparison
    from trails.context.assembling import Context
    from trails.context.compacting import CompactionPolicy
    from trails.context.window import TokenWindow
    from trails.diff.result import Diff
    from trails.errors import (
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
        NothingToSummarise,
        ParentMissing,
        PendingTurnsWarning,
        RequestRefused,
        SessionNotFound,
        SharedSessionWarning,
        StoreFailed,
        StoreLocked,
        StoreReadOnly,
        TrailsError,
    )
    from trails.integrity.head_signatures import HeadSignature
    from trails.ledger import Ledger
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
    from trails.opening import open  # noqa: A004 - trails.open, as io.open
    from trails.plumbing.pages import Page
    from trails.plumbing.statistics import Statistics
    from trails.plumbing.summaries import SessionSummary
    from trails.plumbing.watch import Notice
    from trails.records.entries import Delivery, Event, Exchange
    from trails.records.run import Run
    from trails.routing import Inbound, Routed, Router
    from trails.runs import Runs, Sent, Spawned, Step
    from trails.session.repository import Repository
    from trails.session.session import Session
    from trails.tree import Limits, SessionResult, Tree

_HOMES = {
    "trails.diff.result": ("Diff",),
    "trails.context.assembling": ("Context",),
    "trails.context.compacting": ("CompactionPolicy",),
    "trails.context.window": ("TokenWindow",),
    "trails.errors": (
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
        "NothingToSummarise",
        "ParentMissing",
        "PendingTurnsWarning",
        "RequestRefused",
        "SessionNotFound",
        "SharedSessionWarning",
        "StoreFailed",
        "StoreLocked",
        "StoreReadOnly",
        "TrailsError",
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
    "trails.opening": ("open",),
    "trails.routing": ("Inbound", "Routed", "Router"),
    "trails.runs": ("Runs", "Sent", "Spawned", "Step"),
    "trails.records.entries": ("Delivery", "Event", "Exchange"),
    "trails.plumbing.watch": ("Notice",),
    "trails.compare.comparison": ("Comparison",),
    "trails.plumbing.pages": ("Page",),
    "trails.plumbing.statistics": ("Statistics",),
    "trails.plumbing.summaries": ("SessionSummary",),
    "trails.session.repository": ("Repository",),
    "trails.records.run": ("Run",),
    "trails.session.session": ("Session",),
    "trails.tree": ("Limits", "SessionResult", "Tree"),
}
_MODULES = frozenset({"aio", "diff", "keys", "policy"})
"""The modules of functions that the guide names: there after `import trails`, too, and loaded when they are asked for."""
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "MAX_FORK_DEPTH",
    "Call",
    "Compaction",
    "CompactionPolicy",
    "Comparison",
    "Context",
    "ContextOverflow",
    "ContextUsed",
    "Delivery",
    "Diff",
    "Event",
    "Exchange",
    "ExchangeInterrupted",
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
    "Note",
    "NothingToSummarise",
    "Notice",
    "Page",
    "ParentMissing",
    "PendingTurnsWarning",
    "Quote",
    "Repository",
    "RequestRefused",
    "Routed",
    "Router",
    "Run",
    "Runs",
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
    "ToolCall",
    "ToolResult",
    "TrailsError",
    "Tree",
    "Turn",
    "VerifyReport",
    "open",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import trails` and the command line's help stay quick."""
    if name in _MODULES:
        return import_module(f"trails.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'trails' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, whether or not they were used yet."""
    return sorted(__all__)
