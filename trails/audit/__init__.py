"""Audits: one report of a session or a store, and the folder that an outside auditor is given."""

from trails.audit.questions import audit
from trails.audit.report import Found, Report, Verdict

__all__ = ["Found", "Report", "Verdict", "audit"]
