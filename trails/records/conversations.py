"""What session keys name, in the catalog: conversations, their aliases, and moves of sessions between them.

A conversation's row stands while it has a current session and goes with that; so everything said here belongs to a
session, and is logged with its row: the conversation and its aliases with the current session's, a move with the
session that was moved. Nobody ever has to ask whether a key's row is behind its session's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, vocab
from trails.decoding import decodes
from trails.errors import IntegrityError, TrailsError
from trails.model import Finding, SessionRecord, Value
from trails.records import overrides, turns
from trails.store.contract import Change, Matching, QuadStore
from trails.store.pattern import Pattern

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
        (node, vocab.TIME, turns.time_literal(made.created)),
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
        (node, vocab.TIME, turns.time_literal(made.time)),
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
            (node, vocab.ENDED_AT, turns.time_literal(time)),
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
        (node, vocab.ENDED_AT, turns.time_literal(made.time)),
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


def relabelling(made: Conversation, label: str | None) -> Change:
    """Return the commit that gives a conversation a label, or takes it away with None; without leaves."""
    if label == made.label:
        return Change()
    after = made.model_copy(update={"label": label, "revision": made.revision + 1})
    old, new = set(conversation_quads(made)), set(conversation_quads(after))
    return Change(
        add=list(new - old),
        remove=list(old - new),
        require=[*(old - new), current(made.key, made.session_id)],
        forbid=[] if label is None else [(None, vocab.LABEL, Literal(label), vocab.CATALOG)],
    )


def handing_over(record: SessionRecord, key: str) -> Change:
    """Return the commit that hands the label of a session, which has it itself, to the conversation of its key."""
    if record.label is None:
        return Change()
    own = Quad(NamedNode(record.iri), vocab.LABEL, Literal(record.label), vocab.CATALOG)
    named = Quad(NamedNode(iris.conversation(key)), vocab.LABEL, Literal(record.label), vocab.CATALOG)
    return Change(add=[named], remove=[own], require=[own])


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


def _key_of(iri: str) -> str:
    key = iris.conversation_key(iri)
    if key is None:
        raise IntegrityError(f"<{iri}> is no conversation: the store was altered; restore it from a backup")
    return key


@decodes
def conversation_of(subject: str, quads: Iterable[Quad]) -> Conversation:
    """Return the conversation that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    found = _values(subject, quads, (vocab.KEY, vocab.CURRENT_SESSION, vocab.TIME, vocab.REVISION))
    return Conversation(
        key=_key_of(subject),
        session_id=iris.session_id(found[vocab.CURRENT_SESSION]),
        label=found.get(vocab.LABEL),
        created=turns.parse_time(found[vocab.TIME]),
        revision=int(found[vocab.REVISION]),
    )


@decodes
def alias_of(subject: str, quads: Iterable[Quad]) -> Alias:
    """Return the alias that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    wanted = (vocab.ALIAS_KEY, vocab.ALIAS_OF, vocab.REASON, vocab.ATTRIBUTED_TO, vocab.TIME)
    found = _values(subject, quads, wanted)
    return Alias(
        alias=iris.alias_key(subject) or "",
        key=_key_of(found[vocab.ALIAS_OF]),
        reason=found[vocab.REASON],
        by_iri=found[vocab.ATTRIBUTED_TO],
        time=turns.parse_time(found[vocab.TIME]),
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
        time=turns.parse_time(found[vocab.ENDED_AT]),
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


# --- finding


def about(store: Matching, subject: str) -> list[Quad]:
    """Return all that the catalog says of a subject."""
    return store.quads((NamedNode(subject), None, None, vocab.CATALOG))


@decodes
def find(store: QuadStore, key: str) -> Conversation | None:
    """Return the conversation that a key names directly, or None."""
    subject = iris.conversation(key)
    quads = [quad for quad in about(store, subject) if quad.predicate != vocab.TYPE]
    return conversation_of(subject, quads) if quads else None


@decodes
def of_session(store: QuadStore, node: NamedNode) -> Conversation | None:
    """Return the conversation whose current session is the one given, or None."""
    for quad in store.quads((None, vocab.CURRENT_SESSION, node, vocab.CATALOG)):
        return find(store, _key_of(_iri(quad)))
    return None


def find_alias(store: QuadStore, alias: str) -> Alias | None:
    """Return the alias that a key is, or None."""
    subject = iris.alias(alias)
    quads = about(store, subject)
    return alias_of(subject, quads) if quads else None


@decodes
def aliases(store: QuadStore, key: str | None = None) -> list[Alias]:
    """Return the aliases of one conversation, or all, in order of the alias."""
    node = None if key is None else NamedNode(iris.conversation(key))
    subjects = [_iri(quad) for quad in store.quads((None, vocab.ALIAS_OF, node, vocab.CATALOG))]
    found = (alias_of(each, quads) for each in subjects if (quads := about(store, each)))  # one may go meanwhile
    return sorted(found, key=lambda alias: alias.alias)


@decodes
def moves(store: QuadStore, session_id: str | None = None) -> list[Move]:
    """Return the moves of one session, or all, oldest first."""
    node = None if session_id is None else NamedNode(iris.session(session_id))
    subjects = [_iri(quad) for quad in store.quads((None, vocab.MOVED_SESSION, node, vocab.CATALOG))]
    found = (move_of(each, quads) for each in subjects if (quads := about(store, each)))  # one may go meanwhile
    return sorted(found, key=lambda move: (move.time, move.operation, move.number))


@decodes
def sessions_of(store: QuadStore, key: str) -> list[str]:
    """Return the ids of all sessions of a conversation, in no order."""
    node = NamedNode(iris.conversation(key))
    return [iris.session_id(_iri(q)) for q in store.quads((None, vocab.SPECIALIZATION_OF, node, vocab.CATALOG))]


def _iri(quad: Quad) -> str:
    return str(getattr(quad.subject, "value", quad.subject))


# --- with the session that they belong to


def logged(store: Matching, node: NamedNode) -> list[Quad]:
    """Return what the log covers with the row of a session that has a key."""
    moved = [_iri(quad) for quad in store.quads((None, vocab.MOVED_SESSION, node, vocab.CATALOG))]
    quads = [quad for subject in moved for quad in about(store, subject)]
    quads += store.quads((None, None, None, NamedNode(iris.session_entry(node.value))))
    for quad in store.quads((None, vocab.CURRENT_SESSION, node, vocab.CATALOG)):
        quads += of_conversation(store, _iri(quad))
    return quads


def of_conversation(store: Matching, subject: str) -> list[Quad]:
    """Return a conversation's row, its aliases, and what stays of those that were removed."""
    return [*about(store, subject), *_aliases_of(store, subject)]


def _aliases_of(store: Matching, subject: str) -> list[Quad]:
    node = NamedNode(subject)
    quads: list[Quad] = []
    for link in (vocab.ALIAS_OF, vocab.ALIAS_WAS_OF):
        for quad in store.quads((None, link, node, vocab.CATALOG)):
            quads += about(store, _iri(quad))
    return quads


def leaving(store: QuadStore, doomed: Collection[str], subjects: set[str]) -> tuple[list[Quad], list[Pattern]]:
    """Return what goes of the catalog when sessions are deleted (their conversations, aliases and moves), and what must
    not come in between: a conversation that names no session must not name one again.

    `subjects` gathers the conversations, so that what another thread adds to one meanwhile is found afterwards.
    """
    remove: list[Quad] = []
    forbid: list[Pattern] = []
    for session_id in doomed:
        node = NamedNode(iris.session(session_id))
        for quad in store.quads((None, vocab.MOVED_SESSION, node, vocab.CATALOG)):
            remove += about(store, _iri(quad))
        subjects |= {_iri(quad) for quad in store.quads((None, vocab.CURRENT_SESSION, node, vocab.CATALOG))}
    for subject in subjects:
        row = about(store, subject)
        current_node = next((quad.object for quad in row if quad.predicate == vocab.CURRENT_SESSION), None)
        if current_node is None or iris.session_id(str(getattr(current_node, "value", ""))) in doomed:
            remove += [*row, *_aliases_of(store, subject)]  # the row as it was judged: it may be another by now
        if current_node is None:
            forbid.append((NamedNode(subject), vocab.CURRENT_SESSION, None, vocab.CATALOG))
    return remove, forbid


@decodes
def exported(store: QuadStore, node: NamedNode) -> list[Quad]:
    """Return what goes with a session that is exported: its entry, its moves, its conversation with the aliases."""
    quads = [q for q in logged(store, node) if iris.alias_key(_iri(q).partition("/deletion/")[0]) is None]
    for quad in store.quads((None, vocab.CURRENT_SESSION, node, vocab.CATALOG)):
        for alias in store.quads((None, vocab.ALIAS_OF, quad.subject, vocab.CATALOG)):  # type: ignore[arg-type] # an IRI
            quads += about(store, _iri(alias))
    who = (q.object for q in quads if q.predicate in (vocab.ATTRIBUTED_TO, vocab.ASSOCIATED_WITH))
    for author in {str(getattr(each, "value", "")) for each in who}:
        kind = vocab.AGENT if iris.is_agent(author) else vocab.PRINCIPAL
        quads.append(Quad(NamedNode(author), vocab.TYPE, kind, vocab.CATALOG))
    return quads


def arriving(store: QuadStore, quads: Sequence[Quad]) -> tuple[list[Quad], list[str]]:
    """Return those quads of an arriving session that may come into a store, and what is said of the others.

    A key that has a session here keeps it, and an alias what it stands for; moves that are known do not come again.
    """
    refused: set[str] = set()
    said: list[str] = []
    subjects = {_iri(quad) for quad in quads if quad.predicate == vocab.TYPE and quad.object in TYPES}
    for subject in sorted(subjects):
        key, alias = iris.conversation_key(subject), iris.alias_key(subject)
        if about(store, subject) or (key is not None and find_alias(store, key) is not None):
            refused.add(subject)
            if key is not None:
                said.append(f"as an earlier session of the key {key!r}, which has another one here")
        elif alias is not None and find(store, alias) is not None:
            refused.add(subject)
            said.append(f"without its alias {alias!r}, which is the key of a session here")
    dropped = {subject for subject in refused if iris.conversation_key(subject) is not None}
    for quad in quads:
        if quad.predicate == vocab.ALIAS_OF and str(getattr(quad.object, "value", "")) in dropped:
            refused.add(_iri(quad))
    return [quad for quad in quads if _iri(quad) not in refused], said


# --- held against the sessions


@decodes
def findings(store: QuadStore, records: Mapping[str, SessionRecord], *, every: bool) -> list[Finding]:
    """Return what does not fit: keys whose session is not theirs, aliases of nothing; with `every`, of no session too."""
    found: list[Finding] = []
    seen: dict[str, list[str]] = defaultdict(list)
    for quad in store.quads((None, vocab.CURRENT_SESSION, None, vocab.CATALOG)):
        try:
            conversation = find(store, _key_of(_iri(quad)))
        except (TrailsError, ValueError):
            continue  # named by the check of the catalog
        if conversation is None:
            continue
        seen[conversation.session_id].append(conversation.key)
        record = records.get(conversation.session_id)
        if record is None:
            found += [_finding(None, f"the key {conversation.key!r} names no session that is stored")] if every else []
        elif not set(belongs(record.id, conversation.key)) <= set(about(store, record.iri)):
            found.append(_finding(record.id, f"is the session of the key {conversation.key!r} and does not say so"))
    found += [
        _finding(session_id, f"is the session of {len(keys)} keys: {', '.join(sorted(keys))}")
        for session_id, keys in seen.items()
        if len(keys) > 1 and session_id in records
    ]
    for quad in store.quads((None, vocab.ALIAS_OF, None, vocab.CATALOG)) if every else []:
        subject = str(getattr(quad.object, "value", ""))
        if not store.quads((NamedNode(subject), vocab.CURRENT_SESSION, None, vocab.CATALOG)):
            what = f"the alias {iris.alias_key(_iri(quad))!r} stands for <{subject}>, which names no session"
            found.append(_finding(None, what))
    for record in records.values():
        graph = store.quads((None, None, None, overrides.graph_of(record.id))) if record.key is not None else []
        found += [_finding(record.id, f"its entry is altered: {what}") for what in overrides.faults(record.id, graph)]
    return found


def _finding(session_id: str | None, what: str) -> Finding:
    where = "" if session_id is None else f"session {session_id!r}: "
    return Finding(code="bad-key", session_id=session_id, message=where + what)
