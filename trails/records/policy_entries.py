"""The entry that a policy's decision leaves in the ledger of a session, frozen, and between it and quads. Pure.

It holds no text of anybody's: what was decided about, by which rule, who asked, and which session was read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode

from trails import iris
from trails import vocab as v
from trails.records.entry import LedgerEntry, Pairs, Properties, moment, one
from trails.records.terms import time_literal


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
        )


def pairs(entry: Decision) -> Pairs:
    """Give the properties of a decision, without its number."""
    yield v.TYPE, v.DECISION
    yield v.TYPE, v.ACTIVITY
    yield v.ACTION, RdfLiteral(entry.action)
    yield v.ALLOWED, RdfLiteral(entry.allowed)
    yield v.RULE, RdfLiteral(entry.rule)
    yield v.ASSOCIATED_WITH, NamedNode(iris.agent(entry.agent))
    yield v.ENDED_AT, time_literal(entry.time)
    yield v.USED, None if entry.used is None else NamedNode(iris.session(entry.used))
    yield v.CHANNEL, None if entry.channel is None else RdfLiteral(entry.channel)


def decode(session_id: str, number: int, properties: Properties) -> Decision:
    """Return the decision that properties say; what does not fit raises ValueError or `IntegrityError`."""
    used = one(properties, v.USED)
    return Decision.model_validate(
        {
            "session_id": session_id,
            "number": number,
            "action": one(properties, v.ACTION),
            "allowed": one(properties, v.ALLOWED) == "true",
            "rule": one(properties, v.RULE),
            "agent": iris.author_name(one(properties, v.ASSOCIATED_WITH) or ""),
            "time": moment(properties, v.ENDED_AT),
            "used": None if used is None else iris.session_id(used),
            "channel": one(properties, v.CHANNEL),
        }
    )
