"""What a model is shown of a transcript: token windows, context assembly, tool pairing, message shapes. Pure functions."""

from trails.context.assembling import Context, assemble
from trails.context.compacting import CompactionPolicy, Summary, SummaryRequest, needs_compaction
from trails.context.overflowing import is_overflow
from trails.context.tokens import estimate
from trails.context.window import TokenWindow, Window

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
