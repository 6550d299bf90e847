"""The entry that a policy's decision leaves in the ledger of a session, frozen, and between it and quads. Pure.

It holds no text of anybody's: what was decided about, by which rule, who asked, and which session was read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from trails import vocab as v
from trails.records.entry import LedgerEntry
from trails.records.schema import AGENT, FLAG, IRI, NUMBER, SESSION, TEXT, TIME, Field, Table


class Decision(LedgerEntry):
    """What a policy decided about something that a session was to do.

    A decision may be about another session: one whose history was asked for, or the one that a reset ended.
    """

    action: str
    """What was to be done: send, history, message, reset."""
    allowed: bool
    rule: str
    """The rule that decided: a field of the entry, or a place in the configuration."""
    agent: str
    time: datetime
    used: str | None = None
    """The id of the other session."""
    channel: str | None = None
    read_from: int | None = None
    """The index of the first turn that was read of the other session; None where none was."""
    read_through: int | None = None
    """The index of the last one, inclusive."""
    read_for_iri: str | None = None
    """The IRI of the principal whom the session that read runs for."""

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain values, ready for JSON."""
        return self._plain(
            action=self.action,
            allowed=self.allowed,
            rule=self.rule,
            agent=self.agent,
            time=self.time,
            used=self.used,
            channel=self.channel,
            read_from=self.read_from,
            read_through=self.read_through,
            read_for=self.read_for_iri,
        )


TABLE: Final = Table(
    (v.DECISION, v.ACTIVITY),
    (
        Field("action", v.ACTION, TEXT),
        Field("allowed", v.ALLOWED, FLAG, absent="false"),
        Field("rule", v.RULE, TEXT),
        Field("agent", v.ASSOCIATED_WITH, AGENT, absent=""),
        Field("time", v.ENDED_AT, TIME),
        Field("used", v.USED, SESSION),
        Field("channel", v.CHANNEL, TEXT),
        Field("read_from", v.READ_FROM, NUMBER),
        Field("read_through", v.READ_THROUGH, NUMBER),
        Field("read_for_iri", v.READ_FOR, IRI),
    ),
)
