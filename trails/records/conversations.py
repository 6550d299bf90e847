"""What session keys name, in the catalog: conversations, their aliases, and moves of sessions between them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, vocab
from trails.decoding import decodes
from trails.errors import IntegrityError
from trails.model import Value
from trails.records.schema import FLAG, IRI, NUMBER, SESSION, TEXT, TIME, Codec, Field, Table
from trails.records.terms import Row, time_literal

TYPES: Final = frozenset({vocab.CONVERSATION, vocab.ALIAS, vocab.MOVE})
REMOVAL: Final = frozenset(
    {vocab.TYPE, vocab.ENDED_AT, vocab.ASSOCIATED_WITH, vocab.REMOVED_ALIAS, vocab.ALIAS_WAS_OF, vocab.REASON}
)
"""What the catalog may say of the removal of an alias; the log says whether it is as it was."""


class Conversation(Value):
    """What a key names: the session that messages go to now. Sessions before a reset are of the same conversation."""

    key: str
    session_id: str
    """The id of the current session."""
    label: str | None = None
    created: datetime
    revision: int = 0
    """Counts what was said of it: labels, aliases. Whoever takes it away sees by it that nothing came in between."""

    @property
    def iri(self) -> str:
        """The conversation's IRI."""
        return iris.conversation(self.key)


class Alias(Value):
    """Another key under which a conversation is found."""

    alias: str
    key: str
    """The key of the conversation."""
    reason: str
    """Why it was made: promotion, merge or manual."""
    by_iri: str
    time: datetime
    from_key: str | None = None
    """The key that it stood for before that one's session was moved."""

    @property
    def by(self) -> str:
        """The plain name of whoever made it."""
        return iris.author_name(self.by_iri)

    def to_dict(self) -> dict[str, Any]:
        """Return the alias as plain values, ready for JSON."""
        return self.model_dump(exclude={"by_iri"}) | {"by": self.by, "time": self.time.isoformat()}


class Move(Value):
    """The move of a session from one key to another; moves of one operation share its id."""

    operation: str
    number: int
    session_id: str
    from_key: str
    to_key: str
    was_current: bool
    became_current: bool
    reason: str
    """promotion, merge, migration, or undo."""
    by_iri: str
    time: datetime
    former_label: str | None = None
    undoes: str | None = None
    """The id of the operation that this one takes back."""


# --- kept


def key_of(iri: str) -> str:
    """Return the key whose conversation an IRI names; raise `IntegrityError` for an IRI of anything else."""
    key = iris.conversation_key(iri)
    if key is None:
        raise IntegrityError(f"<{iri}> is no conversation: the store was altered; restore it from a backup")
    return key


def _conversation_node(key: str) -> NamedNode:
    return NamedNode(iris.conversation(key))


_CONVERSATION: Final = Table(
    (vocab.CONVERSATION,),
    (
        Field("key", vocab.KEY, TEXT, required=True),
        Field("session_id", vocab.CURRENT_SESSION, SESSION, required=True),
        Field("created", vocab.TIME, TIME, required=True),
        Field("revision", vocab.REVISION, NUMBER, required=True),
        Field("label", vocab.LABEL, TEXT),
    ),
)
_ALIAS: Final = Table(
    (vocab.ALIAS,),
    (
        Field("alias", vocab.ALIAS_KEY, TEXT, required=True),
        Field("key", vocab.ALIAS_OF, Codec(_conversation_node, key_of), required=True),
        Field("reason", vocab.REASON, TEXT, required=True),
        Field("by_iri", vocab.ATTRIBUTED_TO, IRI, required=True),
        Field("time", vocab.TIME, TIME, required=True),
        Field("from_key", vocab.FROM_KEY, TEXT),
    ),
)
_MOVE: Final = Table(
    (vocab.MOVE,),
    (
        Field("session_id", vocab.MOVED_SESSION, SESSION, required=True),
        Field("from_key", vocab.FROM_KEY, TEXT, required=True),
        Field("to_key", vocab.TO_KEY, TEXT, required=True),
        Field("was_current", vocab.WAS_CURRENT, FLAG, required=True),
        Field("became_current", vocab.BECAME_CURRENT, FLAG, required=True),
        Field("reason", vocab.REASON, TEXT, required=True),
        Field("by_iri", vocab.ASSOCIATED_WITH, IRI, required=True),
        Field("time", vocab.ENDED_AT, TIME, required=True),
        Field("former_label", vocab.FORMER_LABEL, TEXT),
        Field("undoes", vocab.UNDOES, TEXT),
    ),
)


# --- as quads


def _quads(rows: Iterable[Row]) -> list[Quad]:
    return [Quad(s, p, o, vocab.CATALOG) for s, p, o in rows]


def conversation_quads(made: Conversation) -> list[Quad]:
    """Return the quads of a conversation's row."""
    return _CONVERSATION.quads(made, NamedNode(made.iri), vocab.CATALOG)


def alias_quads(made: Alias) -> list[Quad]:
    """Return the quads of an alias, without that of its author's type."""
    return _ALIAS.quads(made, NamedNode(iris.alias(made.alias)), vocab.CATALOG)


def removal_quads(gone: Alias, by_iri: str, time: datetime, token: str) -> list[Quad]:
    """Return what stays of an alias that was removed: what it stood for, who removed it, when."""
    node = NamedNode(iris.removal(iris.alias(gone.alias), token))
    return _quads(
        [
            (node, vocab.TYPE, vocab.DELETION),
            (node, vocab.REMOVED_ALIAS, Literal(gone.alias)),
            (node, vocab.ALIAS_WAS_OF, NamedNode(iris.conversation(gone.key))),
            (node, vocab.REASON, Literal(gone.reason)),
            (node, vocab.ENDED_AT, time_literal(time)),
            (node, vocab.ASSOCIATED_WITH, NamedNode(by_iri)),
        ]
    )


def move_quads(made: Move) -> list[Quad]:
    """Return the quads of a move, without that of its author's type."""
    return _MOVE.quads(made, NamedNode(iris.move(made.operation, made.number)), vocab.CATALOG)


def belongs(session_id: str, key: str) -> list[Quad]:
    """Return what the row of a session says of its conversation."""
    node = NamedNode(iris.session(session_id))
    return _quads(
        [
            (node, vocab.KEY, Literal(key)),
            (node, vocab.SPECIALIZATION_OF, NamedNode(iris.conversation(key))),
        ]
    )


def current(key: str, session_id: str) -> Quad:
    """Return the quad that says that a session is the current one of a key: what every change of either requires."""
    node = NamedNode(iris.conversation(key))
    return Quad(node, vocab.CURRENT_SESSION, NamedNode(iris.session(session_id)), vocab.CATALOG)


# --- and back


@decodes
def conversation_of(subject: str, quads: Iterable[Quad]) -> Conversation:
    """Return the conversation that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    row = _CONVERSATION.row(subject, quads)
    key = key_of(subject)
    return Conversation(**_CONVERSATION.values(row) | {"key": key})


@decodes
def alias_of(subject: str, quads: Iterable[Quad]) -> Alias:
    """Return the alias that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    row = _ALIAS.row(subject, quads)
    return Alias(**_ALIAS.values(row) | {"alias": iris.alias_key(subject) or ""})


@decodes
def move_of(subject: str, quads: Iterable[Quad]) -> Move:
    """Return the move that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    place, row = iris.move_place(subject), _MOVE.row(subject, quads)
    if place is None:
        raise IntegrityError(f"<{subject}> is no move: the store was altered; restore it from a backup")
    return Move(operation=place[0], number=place[1], **_MOVE.values(row))


@decodes
def quads_as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads that a conversation, an alias or a move would have if it were written from what it says."""
    if iris.move_place(subject) is not None:
        return move_quads(move_of(subject, quads))
    if iris.alias_key(subject) is not None:
        return alias_quads(alias_of(subject, quads))
    return conversation_quads(conversation_of(subject, quads))
