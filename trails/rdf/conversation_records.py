"""Encode conversations, aliases, moves and the entries of sessions with keys as quads, and decode them.

An entry has the fields of OpenClaw's SessionEntry, by their own names. A value is kept as its JSON text, so that an unknown
field is exported byte for byte as it was imported. A known field of the expected type is a typed literal of Trails'
vocabulary; any other is rdf:JSON under a property of its own. Entries are in a graph beside the session's,
`<session>/entry`, because they change with every message and the catalog does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import IntegrityError, InvalidInput
from trails.integrity import digests
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import Value
from trails.rdf import vocab
from trails.rdf.codec import IRI, SESSION, Codec, Kept, Row, Table, parse_time, time_literal

CONVERSATION_TYPES: Final = frozenset({vocab.CONVERSATION, vocab.ALIAS, vocab.MOVE})
ALIAS_REMOVAL: Final = frozenset(
    {vocab.TYPE, vocab.ENDED_AT, vocab.ASSOCIATED_WITH, vocab.REMOVED_ALIAS, vocab.ALIAS_WAS_OF, vocab.REASON}
)
"""What the catalog may say of the removal of an alias; the log says whether it is as it was."""


def key_of(iri: str) -> str:
    """Return the key whose conversation an IRI names; raise `IntegrityError` for an IRI of anything else."""
    key = iris.conversation_key(iri)
    if key is None:
        raise IntegrityError(f"<{iri}> is no conversation: the store was altered; restore it from a backup")
    return key


_CONVERSATION_KEY: Final = Codec(lambda key: NamedNode(iris.conversation(key)), key_of)


class Conversation(Value):
    """What a key names: the session that messages go to now. Sessions before a reset are of the same conversation."""

    key: Annotated[str, Kept(vocab.KEY)]
    session_id: Annotated[str, Kept(vocab.CURRENT_SESSION, SESSION)]
    """The id of the current session."""
    label: Annotated[str | None, Kept(vocab.LABEL)] = None
    created: Annotated[datetime, Kept(vocab.TIME)]
    revision: Annotated[int, Kept(vocab.REVISION, required=True)] = 0
    """Counts what was said of it: labels, aliases. Whoever takes it away sees by it that nothing came in between."""

    @property
    def iri(self) -> str:
        """The conversation's IRI."""
        return iris.conversation(self.key)


class Alias(Value):
    """Another key under which a conversation is found."""

    alias: Annotated[str, Kept(vocab.ALIAS_KEY)]
    key: Annotated[str, Kept(vocab.ALIAS_OF, _CONVERSATION_KEY)]
    """The key of the conversation."""
    reason: Annotated[str, Kept(vocab.REASON)]
    """Why it was made: promotion, merge or manual."""
    by_iri: Annotated[str, Kept(vocab.ATTRIBUTED_TO, IRI)]
    time: Annotated[datetime, Kept(vocab.TIME)]
    from_key: Annotated[str | None, Kept(vocab.FROM_KEY)] = None
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
    session_id: Annotated[str, Kept(vocab.MOVED_SESSION, SESSION)]
    from_key: Annotated[str, Kept(vocab.FROM_KEY)]
    to_key: Annotated[str, Kept(vocab.TO_KEY)]
    was_current: Annotated[bool, Kept(vocab.WAS_CURRENT)]
    became_current: Annotated[bool, Kept(vocab.BECAME_CURRENT)]
    reason: Annotated[str, Kept(vocab.REASON)]
    """promotion, merge, migration, or undo."""
    by_iri: Annotated[str, Kept(vocab.ASSOCIATED_WITH, IRI)]
    time: Annotated[datetime, Kept(vocab.ENDED_AT)]
    former_label: Annotated[str | None, Kept(vocab.FORMER_LABEL)] = None
    undoes: Annotated[str | None, Kept(vocab.UNDOES)] = None
    """The id of the operation that this one takes back."""


_CONVERSATION: Final = Table.of(Conversation, vocab.CONVERSATION)
_ALIAS: Final = Table.of(Alias, vocab.ALIAS)
_MOVE: Final = Table.of(Move, vocab.MOVE)


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


def belongs_quad(session_id: str, key: str) -> list[Quad]:
    """Return what the row of a session says of its conversation."""
    node = NamedNode(iris.session(session_id))
    return _quads([(node, vocab.KEY, Literal(key)), (node, vocab.SPECIALIZATION_OF, NamedNode(iris.conversation(key)))])


def current_quad(key: str, session_id: str) -> Quad:
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
def conversation_quads_as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads that a conversation, an alias or a move would have if it were written from what it says."""
    if iris.move_place(subject) is not None:
        return move_quads(move_of(subject, quads))
    if iris.alias_key(subject) is not None:
        return alias_quads(alias_of(subject, quads))
    return conversation_quads(conversation_of(subject, quads))


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""
_WHOLE: Final = 2**63
"""What the engine keeps as a whole number lies below."""

OVERRIDE_TIMES: Final = frozenset({"updatedAt", "lastHeartbeatSentAt", "memoryFlushAt"})
"""The fields that are moments, in milliseconds since 1970."""
_INTEGERS: Final = frozenset(
    {"authProfileOverrideCompactionCount", "queueDebounceMs", "queueCap", "inputTokens", "outputTokens", "totalTokens"}
    | {"contextTokens", "compactionCount", "memoryFlushCompactionCount"}
)
_BOOLEANS: Final = frozenset({"systemSent", "abortedLastRun", "groupActivationNeedsSystemIntro"})
_STRUCTURED: Final = frozenset({"cliSessionIds", "origin", "deliveryContext", "skillsSnapshot", "systemPromptReport"})
_EITHER: Final = frozenset({"lastThreadId"})
_FIELD_OF: Final = {term.value: name for name, term in vocab.ENTRY_FIELDS.items()}


class SessionEntry(Value):
    """What is kept about a session with a key beside its turns: every field by name, as JSON text."""

    session_id: str
    fields: Mapping[str, str] = {}
    last_user_activity: datetime | None = None
    salt: str = ""
    """Drawn anew with every change: what the log covers does not tell what stood there before."""

    @decodes
    def get(self, name: str) -> Any:
        """Return a field as a Python value, None where it is not there."""
        return json.loads(self.fields[name]) if name in self.fields else None

    @decodes
    def to_json(self) -> dict[str, Any]:
        """Return all fields as Python values, those that are known first, in the order of `vocab.ENTRY_FIELDS`."""
        return {name: json.loads(self.fields[name]) for name in sorted_overrides(self.fields)}

    def changed(self, fields: Mapping[str, Any], *, last_user_activity: datetime | None = None) -> SessionEntry:
        """Return the entry with exactly these fields, given as Python values; those that are equal keep their JSON text."""
        kept = self.to_json()
        texts = {
            name: self.fields[name] if name in kept and _same(kept[name], value) else overrides_text(value, name)
            for name, value in fields.items()
        }
        moment = last_user_activity or self.last_user_activity
        return self.model_copy(update={"fields": texts, "last_user_activity": moment, "salt": digests.new_salt()})


def sorted_overrides(names: Iterable[str]) -> list[str]:
    """Return names of fields in the order in which they are written: those that are known as listed, then the others."""
    there = list(names)
    known = [name for name in vocab.ENTRY_FIELDS if name in there]
    return known + [name for name in there if name not in vocab.ENTRY_FIELDS]


def _same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are the same: 1, 1.0 and true are not."""
    return json.dumps(one) == json.dumps(other)


def overrides_text(value: Any, name: str) -> str:
    """Return a field's value as JSON text; raise `InvalidInput` for what JSON cannot carry."""
    from trails.model import validation  # noqa: PLC0415 - only writers need it

    return validation.to_json(value, f"the field {name}")


# --- to quads


def overrides_graph(session_id: str) -> NamedNode:
    """Return the graph of a session's entry."""
    return NamedNode(iris.session_entry(iris.session(session_id)))


def override_quads(entry: SessionEntry) -> list[Quad]:
    """Return the quads of an entry: none of an empty one that was never written."""
    if not entry.salt:
        return []
    graph, node = overrides_graph(entry.session_id), NamedNode(iris.session(entry.session_id))
    rows = [Quad(node, vocab.SALT, Literal(entry.salt), graph)]
    if entry.last_user_activity is not None:
        rows.append(Quad(node, vocab.LAST_USER_ACTIVITY, time_literal(entry.last_user_activity), graph))
    rows += [Quad(node, *_pair(name, text), graph) for name, text in entry.fields.items()]
    return rows


def _pair(name: str, text: str) -> tuple[NamedNode, Literal]:
    known = vocab.ENTRY_FIELDS.get(name)
    literal = None if known is None else _typed(name, text)
    if known is not None and literal is not None:
        return known, literal
    try:
        return NamedNode(iris.entry_field(name)), Literal(text, datatype=vocab.JSON)
    except ValueError as error:
        raise InvalidInput(f"a field of a session's entry cannot be kept: {error}") from error


def _typed(name: str, text: str) -> Literal | None:
    """Return the typed literal of a known field, or None for a value that is not of its type."""
    if name in _STRUCTURED:
        return Literal(text, datatype=vocab.JSON)
    value = json.loads(text)
    match value:
        case bool():
            return Literal(value) if name in _BOOLEANS else None
        case int():
            if name in OVERRIDE_TIMES:
                return time_literal(_EPOCH + value * _MILLISECOND) if 0 <= value <= _LAST_MS else None
            return vocab.integer(value) if name in _INTEGERS | _EITHER and abs(value) < _WHOLE else None
        case str():
            return _plain(value) if name not in OVERRIDE_TIMES | _INTEGERS | _BOOLEANS else None
    return None


def _plain(value: str) -> Literal | None:
    try:
        return Literal(value)
    except ValueError:  # a lone surrogate: its escape in JSON can be kept
        return None


# --- and back


@decodes
def decode_overrides(session_id: str, found: Iterable[Quad]) -> SessionEntry:
    """Return the entry that the quads of its graph say; raise `IntegrityError` for what Trails never writes."""
    fields: dict[str, str] = {}
    salt, moment = "", None
    for quad in found:
        name, text = _read(quad)
        if quad.predicate == vocab.SALT:
            salt = text
        elif quad.predicate == vocab.LAST_USER_ACTIVITY:
            moment = parse_time(text)
        elif name in fields:
            raise IntegrityError(f"the entry of session {session_id!r} has two values for {name!r}")
        else:
            fields[name] = text
    return SessionEntry(session_id=session_id, fields=fields, last_user_activity=moment, salt=salt)


def _read(quad: Quad) -> tuple[str, str]:
    predicate, value = quad.predicate.value, quad.object
    if not isinstance(value, Literal):
        raise IntegrityError(f"an entry of a session holds {value}, which is no value")
    if quad.predicate in (vocab.SALT, vocab.LAST_USER_ACTIVITY):
        return "", value.value
    known = _FIELD_OF.get(predicate)
    name = known or iris.entry_field_name(predicate)
    if name is None:
        raise IntegrityError(f"an entry of a session has a property that Trails never writes: {predicate}")
    return name, _json_of(value)


def _json_of(value: Literal) -> str:
    match value.datatype:
        case vocab.JSON | vocab.INTEGER | vocab.BOOLEAN:
            return value.value
        case vocab.DATE_TIME:
            return str((parse_time(value.value) - _EPOCH) // _MILLISECOND)
        case vocab.STRING:
            return json.dumps(value.value, ensure_ascii=False)
    raise IntegrityError(f"an entry of a session holds {value}, which Trails never writes")


def override_faults(session_id: str, found: Iterable[Quad]) -> Iterable[str]:
    """Give what in the graph of a session's entry is not as Trails would write it."""
    actual = set(found)
    try:
        expected = set(override_quads(decode_overrides(session_id, actual)))
    except (IntegrityError, ValueError) as error:
        yield f"{error}"
        return
    yield from (f"a quad that belongs to nothing: {quad}" for quad in actual - expected)
    yield from (f"a quad is missing: {quad}" for quad in expected - actual)


def overrides_holding(entry: SessionEntry, needles: Iterable[str]) -> list[str]:
    """Return the fields whose text holds one of some texts, or whose last heartbeat is part of one."""
    wanted = [needle for needle in needles if needle]
    beat = entry.get("lastHeartbeatText")
    found = [name for name, text in entry.fields.items() if any(each in text for each in _both(text, wanted))]
    if isinstance(beat, str) and beat.strip() and any(beat.strip() in needle for needle in wanted):
        found.append("lastHeartbeatText")
    return sorted(set(found))


def overrides_difference(before: SessionEntry, after: SessionEntry) -> tuple[list[Quad], list[Quad]]:
    """Return what goes and what comes when an entry changes."""
    old, new = set(override_quads(before)), set(override_quads(after))
    return list(old - new), list(new - old)


def overrides_repeating(found: Iterable[Quad], needles: Iterable[str]) -> list[Quad]:
    """Return those quads of entries of sessions, among others, whose value holds one of some texts."""
    wanted = list(needles)
    return [
        quad
        for quad in found
        if isinstance(quad.graph_name, NamedNode)
        and iris.is_session_entry(quad.graph_name.value)
        and isinstance(quad.object, Literal)
        and quad.predicate not in (vocab.SALT, vocab.LAST_USER_ACTIVITY)
        and any(text in quad.object.value for text in wanted)
    ]


def _both(text: str, needles: Iterable[str]) -> Iterable[str]:
    """Return the texts to look for in JSON text: as they are, and as JSON has them."""
    for needle in needles:
        yield needle
        yield json.dumps(needle, ensure_ascii=False)[1:-1]
