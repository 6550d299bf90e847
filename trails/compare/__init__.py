"""Compare sessions: diffs, figures, statistics and plots.

Branches side by side: what is read of them, and the tables, plots and layouts made of it.

What differs between two transcripts: alignment, word diffs, patches. Pure functions over turns.
"""

from __future__ import annotations

from trails.compare.session_diff import Diff, Entry, diff, patch
from trails.compare.text_diff import Span
from trails.compare.value_diff import Ancestor, CallChange, Counts, Detail, Edit, End

__all__ = ["Ancestor", "CallChange", "Counts", "Detail", "Diff", "Edit", "End", "Entry", "Span", "diff", "patch"]
