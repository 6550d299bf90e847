"""Compare sessions: diffs, figures, statistics and plots."""

from __future__ import annotations

from trails.compare.session_diff import Diff, Entry, diff, patch
from trails.compare.text_diff import Span
from trails.compare.value_diff import Ancestor, CallChange, Counts, Detail, Edit, End

__all__ = ["Ancestor", "CallChange", "Counts", "Detail", "Diff", "Edit", "End", "Entry", "Span", "diff", "patch"]
