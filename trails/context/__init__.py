"""What a model is shown of a transcript: token windows, context assembly, tool pairing, message shapes. Pure functions."""

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
