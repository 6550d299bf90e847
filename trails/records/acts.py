"""What was done to sessions, by whom and when, frozen, and between it and quads of the catalog. Pure.

An act belongs to the session that it was done to, and is logged with that one's row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails import iris
from trails import vocab as v
from trails.decoding import decodes
from trails.errors import IntegrityError
from trails.model import Value
from trails.records.deeds import author_type
from trails.records.schema import IRI, NUMBER, SESSION, TEXT, TIME, Codec, Field, Node, Table

_SESSIONS: Final = Codec(lambda session_id: NamedNode(iris.session(session_id)), iris.session_id, order=str)


class Act(Value):
    """Something that was done to a session: `token` tells it from the others."""

    session_id: str
    token: str
    by_iri: str
    time: datetime

    @property
    def iri(self) -> str:
        """The act's IRI."""
        return iris.act(iris.session(self.session_id), self.token)


class Copying(Act):
    """Turns of other sessions, or those that a fork inherited, came to stand in a session of its own."""

    action: str
    """`detach`, `flatten` or `cherry-pick`."""
    used: tuple[str, ...] = ()
    """The ids of the sessions whose turns were copied, in order."""
    was_fork_of: str | None = None
    """The id of the session that a detached one was a fork of until then."""
    was_forked_at: int | None = None
    """At which index."""


class Alteration(Act):
    """Something that is said of a session became something else: its label, or a field of its entry (as JSON text)."""

    field: str
    old: str | None = None
    new: str | None = None


_BY: Final = (
    Field("session_id", v.DONE_TO, SESSION, required=True),
    Field("by_iri", v.ASSOCIATED_WITH, IRI, required=True),
    Field("time", v.ENDED_AT, TIME, required=True),
)
_TABLES: Final[Mapping[type[Act], Table]] = {
    Copying: Table(
        (v.COPYING, v.ACTIVITY),
        (
            *_BY,
            Field("action", v.ACTION, TEXT, required=True),
            Field("used", v.USED, _SESSIONS),
            Field("was_fork_of", v.WAS_FORK_OF, SESSION),
            Field("was_forked_at", v.WAS_FORKED_AT, NUMBER),
        ),
    ),
    Alteration: Table(
        (v.ALTERATION, v.ACTIVITY),
        (
            *_BY,
            Field("field", v.ALTERED_FIELD, TEXT, required=True),
            Field("old", v.OLD_VALUE, TEXT),
            Field("new", v.NEW_VALUE, TEXT),
        ),
    ),
}
_CLASSES: Final[Mapping[NamedNode, type[Act]]] = {v.COPYING: Copying, v.ALTERATION: Alteration}
TYPES: Final = frozenset(_CLASSES)


def act_quads(act: Act) -> list[Quad]:
    """Return the quads of an act, with what the one who did it is."""
    return [*_TABLES[type(act)].quads(act, NamedNode(act.iri), v.CATALOG), author_type(act.by_iri)]


@decodes
def act_of(subject: str, quads: Iterable[Quad]) -> Act:
    """Return the act that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    said: dict[NamedNode, list[Node]] = defaultdict(list)
    for quad in quads:
        if isinstance(quad.object, Node):
            said[quad.predicate].append(quad.object)
    kind = next((_CLASSES[each] for each in said[v.TYPE] if each in _CLASSES), None)  # type: ignore[index] # IRIs
    token = iris.act_token(subject)
    if kind is None or token is None:
        raise IntegrityError(f"<{subject}> is no act: the store was altered; restore it from a backup")
    values = {name: value for name, value in _TABLES[kind].values(said).items() if value is not None}
    try:
        return kind.model_validate(values | {"token": token})
    except ValueError as error:
        raise IntegrityError(f"<{subject}> cannot be read ({error}): the store was altered") from error
