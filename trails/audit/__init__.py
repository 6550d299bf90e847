"""Audits: a report of a session or a store, and its evidence."""

from trails.audit.audit_run import audit
from trails.audit.copied_arguments import CopiedArguments, CopiedPart, copied_arguments
from trails.audit.repeated_texts import NearCopy, find_near_copies
from trails.audit.report import Found, Report, Verdict

__all__ = [
    "CopiedArguments",
    "CopiedPart",
    "Found",
    "NearCopy",
    "Report",
    "Verdict",
    "audit",
    "copied_arguments",
    "find_near_copies",
]
