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
from trails.records.terms import parse_time, time_literal

TYPES: Final = frozenset({vocab.CONVERSATION, vocab.ALIAS, vocab.MOVE})
REMOVAL: Final = frozenset(
    {vocab.TYPE, vocab.ENDED_AT, vocab.ASSOCIATED_WITH, vocab.REMOVED_ALIAS, vocab.ALIAS_WAS_OF, vocab.REASON}
)
"""What the catalog may say of the removal of an alias; the log says whether it is as it was."""

_Row = tuple[NamedNode, NamedNode, NamedNode | Literal]


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


# --- as quads


def _quads(rows: Iterable[_Row]) -> list[Quad]:
    return [Quad(s, p, o, vocab.CATALOG) for s, p, o in rows]


def conversation_quads(made: Conversation) -> list[Quad]:
    """Return the quads of a conversation's row."""
    node = NamedNode(made.iri)
    rows: list[_Row] = [
        (node, vocab.TYPE, vocab.CONVERSATION),
        (node, vocab.KEY, Literal(made.key)),
        (node, vocab.CURRENT_SESSION, NamedNode(iris.session(made.session_id))),
        (node, vocab.TIME, time_literal(made.created)),
        (node, vocab.REVISION, vocab.integer(made.revision)),
    ]
    if made.label is not None:
        rows.append((node, vocab.LABEL, Literal(made.label)))
    return _quads(rows)


def alias_quads(made: Alias) -> list[Quad]:
    """Return the quads of an alias, without that of its author's type."""
    node = NamedNode(iris.alias(made.alias))
    rows: list[_Row] = [
        (node, vocab.TYPE, vocab.ALIAS),
        (node, vocab.ALIAS_KEY, Literal(made.alias)),
        (node, vocab.ALIAS_OF, NamedNode(iris.conversation(made.key))),
        (node, vocab.REASON, Literal(made.reason)),
        (node, vocab.ATTRIBUTED_TO, NamedNode(made.by_iri)),
        (node, vocab.TIME, time_literal(made.time)),
    ]
    if made.from_key is not None:
        rows.append((node, vocab.FROM_KEY, Literal(made.from_key)))
    return _quads(rows)


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
    node = NamedNode(iris.move(made.operation, made.number))
    rows: list[_Row] = [
        (node, vocab.TYPE, vocab.MOVE),
        (node, vocab.MOVED_SESSION, NamedNode(iris.session(made.session_id))),
        (node, vocab.FROM_KEY, Literal(made.from_key)),
        (node, vocab.TO_KEY, Literal(made.to_key)),
        (node, vocab.WAS_CURRENT, Literal(made.was_current)),
        (node, vocab.BECAME_CURRENT, Literal(made.became_current)),
        (node, vocab.REASON, Literal(made.reason)),
        (node, vocab.ASSOCIATED_WITH, NamedNode(made.by_iri)),
        (node, vocab.ENDED_AT, time_literal(made.time)),
    ]
    if made.former_label is not None:
        rows.append((node, vocab.FORMER_LABEL, Literal(made.former_label)))
    if made.undoes is not None:
        rows.append((node, vocab.UNDOES, Literal(made.undoes)))
    return _quads(rows)


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


def _values(subject: str, quads: Iterable[Quad], wanted: Iterable[NamedNode]) -> dict[NamedNode, str]:
    found: dict[NamedNode, str] = {}
    for quad in quads:
        if quad.predicate in found:
            raise IntegrityError(f"<{subject}> says two things of {quad.predicate}: the store was altered")
        found[quad.predicate] = str(getattr(quad.object, "value", quad.object))
    missing = next((predicate for predicate in wanted if predicate not in found), None)
    if missing is not None:
        raise IntegrityError(f"<{subject}> lacks {missing}: the store was altered; restore it from a backup")
    return found


def key_of(iri: str) -> str:
    """Return the key whose conversation an IRI names; raise `IntegrityError` for an IRI of anything else."""
    key = iris.conversation_key(iri)
    if key is None:
        raise IntegrityError(f"<{iri}> is no conversation: the store was altered; restore it from a backup")
    return key


@decodes
def conversation_of(subject: str, quads: Iterable[Quad]) -> Conversation:
    """Return the conversation that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    found = _values(subject, quads, (vocab.KEY, vocab.CURRENT_SESSION, vocab.TIME, vocab.REVISION))
    return Conversation(
        key=key_of(subject),
        session_id=iris.session_id(found[vocab.CURRENT_SESSION]),
        label=found.get(vocab.LABEL),
        created=parse_time(found[vocab.TIME]),
        revision=int(found[vocab.REVISION]),
    )


@decodes
def alias_of(subject: str, quads: Iterable[Quad]) -> Alias:
    """Return the alias that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    wanted = (vocab.ALIAS_KEY, vocab.ALIAS_OF, vocab.REASON, vocab.ATTRIBUTED_TO, vocab.TIME)
    found = _values(subject, quads, wanted)
    return Alias(
        alias=iris.alias_key(subject) or "",
        key=key_of(found[vocab.ALIAS_OF]),
        reason=found[vocab.REASON],
        by_iri=found[vocab.ATTRIBUTED_TO],
        time=parse_time(found[vocab.TIME]),
        from_key=found.get(vocab.FROM_KEY),
    )


@decodes
def move_of(subject: str, quads: Iterable[Quad]) -> Move:
    """Return the move that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    place = iris.move_place(subject)
    wanted = (vocab.MOVED_SESSION, vocab.FROM_KEY, vocab.TO_KEY, vocab.WAS_CURRENT, vocab.BECAME_CURRENT)
    found = _values(subject, quads, (*wanted, vocab.REASON, vocab.ASSOCIATED_WITH, vocab.ENDED_AT))
    if place is None:
        raise IntegrityError(f"<{subject}> is no move: the store was altered; restore it from a backup")
    return Move(
        operation=place[0],
        number=place[1],
        session_id=iris.session_id(found[vocab.MOVED_SESSION]),
        from_key=found[vocab.FROM_KEY],
        to_key=found[vocab.TO_KEY],
        was_current=found[vocab.WAS_CURRENT] == "true",
        became_current=found[vocab.BECAME_CURRENT] == "true",
        reason=found[vocab.REASON],
        by_iri=found[vocab.ASSOCIATED_WITH],
        time=parse_time(found[vocab.ENDED_AT]),
        former_label=found.get(vocab.FORMER_LABEL),
        undoes=found.get(vocab.UNDOES),
    )


@decodes
def quads_as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads that a conversation, an alias or a move would have if it were written from what it says."""
    if iris.move_place(subject) is not None:
        return move_quads(move_of(subject, quads))
    if iris.alias_key(subject) is not None:
        return alias_quads(alias_of(subject, quads))
    return conversation_quads(conversation_of(subject, quads))
