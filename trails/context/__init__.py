"""What a model sees: windows, assembly, pairing and compaction."""

from trails.context.assembly import Context, assemble
from trails.context.compaction import CompactionPolicy, Summary, SummaryRequest, needs_compaction
from trails.context.messages import estimate
from trails.context.window import TokenWindow, Window, is_overflow

__all__ = [
    "CompactionPolicy",
    "Context",
    "Summary",
    "SummaryRequest",
    "TokenWindow",
    "Window",
    "assemble",
    "estimate",
    "is_overflow",
    "needs_compaction",
]
