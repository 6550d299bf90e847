"""Encode scores of sessions, turns and spans of turns as quads.

A score is the activity of scoring and what came of it: its scorer is associated with it, and it used what was scored.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import StrictBool, StrictFloat, StrictInt, StrictStr
from pyoxigraph import Literal as Term
from pyoxigraph import NamedNode, Quad

from trails.errors import IntegrityError
from trails.integrity.digests import score_digest
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import Value
from trails.rdf import vocab as v
from trails.rdf.codec import IRI, SESSION, Codec, Kept, Table, meta_literal, meta_value

ScoreValue = bool | int | float | str
"""What a score may be: a truth value, a finite number, or a text, such as a category."""


_VALUE: Final = Codec(meta_literal)
"""Its type is the literal's: it is read from that, and not from its text."""


class Score(Value):
    """What a scorer found a session, a turn or a span of turns to be worth. It is never changed; a later one stands beside it."""

    id: str
    session_id: Annotated[str, Kept(v.SCORED, SESSION)]
    """The session that was scored; of a turn or a span, a session that owns its last turn, or a copy of that."""
    start: Annotated[int | None, Kept(v.SCORED_FROM)] = None
    """The index of the first turn that was scored; None where the session was."""
    end: Annotated[int, Kept(v.SCORED_UP_TO)]
    """The index after the last turn that was scored; of a session, how many turns it had then."""
    turn_digest: Annotated[str, Kept(v.NAMED_DIGEST)]
    """The digest of the last turn that was scored, which covers all before it."""
    name: Annotated[str, Kept(v.SCORE_NAME)]
    """What was looked at, such as `accuracy`."""
    value: Annotated[StrictBool | StrictInt | StrictFloat | StrictStr, Kept(v.SCORE_VALUE, _VALUE)]
    by_iri: Annotated[str, Kept(v.ASSOCIATED_WITH, IRI)]
    """The IRI of the scorer."""
    version: Annotated[str | None, Kept(v.SCORER_VERSION)] = None
    """The scorer's version."""
    reason: Annotated[str | None, Kept(v.REASON)] = None
    """Why, in the scorer's words."""
    time: Annotated[datetime, Kept(v.ENDED_AT)]
    digest: Annotated[str, Kept(v.DIGEST)]
    """The SHA-256 digest over all of it but the session, which `verify` holds it against."""

    @property
    def by(self) -> str:
        """The plain name of the principal or agent that scored."""
        return iris.author_name(self.by_iri)

    @property
    def on(self) -> Literal["session", "turn", "span"]:
        """What was scored."""
        return "session" if self.start is None else "turn" if self.end == self.start + 1 else "span"

    @property
    def ref(self) -> str:
        """What was scored, as `store.score` takes it: `plan`, `plan#3` or `plan#2:5`."""
        if self.start is None:
            return self.session_id
        return f"{self.session_id}#{self.start}" + ("" if self.on == "turn" else f":{self.end}")

    @property
    def number(self) -> float | None:
        """The value as a number, True as 1 and False as 0; None for a text."""
        return None if isinstance(self.value, str) else float(self.value)

    def to_dict(self) -> dict[str, Any]:
        """Return the score as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"session_id", "by_iri", "digest"})
        return {"session": self.session_id, "on": self.on} | plain | {"by": self.by, "time": self.time.isoformat()}


_SCORE: Final = Table.of(Score, v.SCORE)


def score_quads(score: Score) -> list[Quad]:
    """Return the quads of a score, without that of its scorer's type."""
    return _SCORE.quads(score, NamedNode(iris.score(score.id)), v.CATALOG)


def compute_score(score: Score) -> str:
    """Return the digest that a score should have."""
    return score_digest(
        (quad.predicate.value, quad.object.value, getattr(getattr(quad.object, "datatype", None), "value", ""))  # type: ignore[union-attr] # an IRI or a literal
        for quad in score_quads(score)
        if quad.predicate not in (v.SCORED, v.DIGEST)
    )


def seal_score(score: Score) -> Score:
    """Return a score with the digest that it should have."""
    return score.model_copy(update={"digest": compute_score(score)})


@decodes
def score_of(subject: str, quads: Iterable[Quad]) -> Score:
    """Return the score that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    row = _SCORE.row(subject, quads)
    (value,) = row[v.SCORE_VALUE]
    if not isinstance(value, Term):
        raise IntegrityError(f"<{subject}> has no value: the store was altered; restore it from a backup")
    return Score(**_SCORE.values(row) | {"id": iris.score_id(subject) or "", "value": meta_value(value)})
