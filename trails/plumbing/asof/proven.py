"""What the log proves of a store as it was: all that never changes, and of what may change as much as is as it was."""

from __future__ import annotations

from typing import Final

from trails.history import log_history, log_leaves
from trails.model.values import Finding, VerifyReport
from trails.store.past import PastStore

_ROW: Final = "row-altered"


def judged(store: PastStore, report: VerifyReport) -> VerifyReport:
    """Return a report without the findings that only say that a session was changed since: its older row is nowhere.

    The same goes for what is redacted by now. What it was made with is held against the log as for every other.
    """
    log, held = log_history.logs_by_session(store.log.lines()), store.held

    def is_real(finding: Finding) -> bool:
        session_id = finding.session_id
        if (session_id, finding.index) in held.redacted and finding.code != "rolled-back":
            return False
        if session_id is None and finding.code in (_ROW, "rolled-back"):
            return not any(name in finding.message for name in held.went_on)
        if finding.code in (_ROW, "rolled-back") and finding.index is None and session_id in held.returned:
            return False  # neither its row of then nor its tombstone is anywhere
        if finding.code == "bad-row" and session_id in held.ledgers:
            return False  # a message was taken up, or a turn told of it, later
        if session_id not in held.changed or finding.code != _ROW:
            return True
        row = log_leaves.row_of(store, session_id)
        return not row.is_tombstone and row.made_with != log[session_id].made_with

    return report.model_copy(update={"findings": tuple(each for each in report.findings if is_real(each))})
