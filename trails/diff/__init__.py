"""What differs between two transcripts: alignment, word diffs, patches. Pure functions over turns."""

from trails.diff.align import diff, patch
from trails.diff.result import Diff, Entry
from trails.diff.structures import Edit
from trails.diff.values import Ancestor, CallChange, Counts, Detail, End
from trails.diff.words import Span

__all__ = ["Ancestor", "CallChange", "Counts", "Detail", "Diff", "Edit", "End", "Entry", "Span", "diff", "patch"]
