"""Audits: a report of a session or a store, and its evidence."""

from trails.audit.audit_run import audit
from trails.audit.report import Found, Report, Verdict

__all__ = ["Found", "Report", "Verdict", "audit"]
