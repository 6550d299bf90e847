"""Conversations, aliases and moves in a store: finding them, and what the rules of sessions do with them.

A conversation's row stands while it has a current session and goes with that; so everything said here belongs to a
session, and is logged with its row: the conversation and its aliases with the current session's, a move with the
session that was moved. Nobody ever has to ask whether a key's row is behind its session's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, keys, vocab
from trails.decoding import decodes
from trails.errors import TrailsError
from trails.model import Finding, SessionRecord
from trails.plumbing.kind import Arriving, Checks, Evidence, Kind, Leaving
from trails.plumbing.transaction import Proposal, Refusal, Transaction
from trails.records.conversations import (
    REMOVAL,
    TYPES,
    Alias,
    Conversation,
    Move,
    alias_of,
    belongs,
    conversation_of,
    conversation_quads,
    current,
    key_of,
    move_of,
    quads_as_written,
)
from trails.store.contract import Matching, QuadStore
from trails.store.pattern import Pattern

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
        return find(store, key_of(_iri(quad)))
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


# --- writing


def relabel(tx: Transaction, made: Conversation, label: str | None, refusal: Refusal | None = None) -> None:
    """Give a conversation a label, or take it away with None; what is logged of it is the caller's."""
    if label == made.label:
        return
    after = made.model_copy(update={"label": label, "revision": made.revision + 1})
    tx.move(conversation_quads(made), conversation_quads(after))
    tx.require([current(made.key, made.session_id)])
    if label is not None:
        tx.label(label, refusal)


def begin(tx: Transaction, made: Conversation, refusal: Refusal | None = None) -> None:
    """Make a conversation for a key that has none, in no spelling; `refusal` is for a label in use."""
    tx.add(conversation_quads(made))
    for name in keys.spellings(made.key):
        tx.forbid((NamedNode(iris.conversation(name)), vocab.CURRENT_SESSION, None, vocab.CATALOG))
        tx.forbid((NamedNode(iris.alias(name)), vocab.TYPE, None, vocab.CATALOG))
    if made.label is not None:
        tx.label(made.label, refusal)


def handing_over(record: SessionRecord, key: str) -> Proposal:
    """Return the commit that hands the label of a session, which has it itself, to the conversation of its key."""
    tx = Transaction()
    if record.label is not None:
        own = Quad(NamedNode(record.iri), vocab.LABEL, Literal(record.label), vocab.CATALOG)
        named = Quad(NamedNode(iris.conversation(key)), vocab.LABEL, Literal(record.label), vocab.CATALOG)
        tx.move([own], [named])
    return tx.change()


# --- with the session that they belong to


def logged(store: Matching, node: NamedNode, row: Sequence[Quad]) -> list[Quad]:
    """Return what the log covers with the row of a session, given with that: nothing unless it has a key."""
    return _belonging(store, node) if any(quad.predicate == vocab.KEY for quad in row) else []


def _belonging(store: Matching, node: NamedNode) -> list[Quad]:
    """Return the moves of a session, and the conversation with its aliases whose current session it is."""
    moved = [_iri(quad) for quad in store.quads((None, vocab.MOVED_SESSION, node, vocab.CATALOG))]
    quads = [quad for subject in moved for quad in about(store, subject)]
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


def leaving(store: QuadStore, doomed: Collection[str], subjects: set[str]) -> Leaving:
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
    return Leaving(remove=remove, forbid=forbid)


@decodes
def exported(store: QuadStore, node: NamedNode) -> list[Quad]:
    """Return what goes with a session that is exported: its moves, its conversation with the aliases."""
    quads = [q for q in _belonging(store, node) if iris.alias_key(_iri(q).partition("/deletion/")[0]) is None]
    for quad in store.quads((None, vocab.CURRENT_SESSION, node, vocab.CATALOG)):
        for alias in store.quads((None, vocab.ALIAS_OF, quad.subject, vocab.CATALOG)):  # type: ignore[arg-type] # an IRI
            quads += about(store, _iri(alias))
    who = (q.object for q in quads if q.predicate in (vocab.ATTRIBUTED_TO, vocab.ASSOCIATED_WITH))
    for author in {str(getattr(each, "value", "")) for each in who}:
        kind = vocab.AGENT if iris.is_agent(author) else vocab.PRINCIPAL
        quads.append(Quad(NamedNode(author), vocab.TYPE, kind, vocab.CATALOG))
    return quads


def arriving(store: QuadStore, session_id: str, quads: Sequence[Quad]) -> Arriving:
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
    kept = [quad for quad in quads if _iri(quad) not in refused]
    return Arriving(kept, [f"session {session_id!r} was imported {what}" for what in said])


# --- held against the sessions


@decodes
def findings(store: QuadStore, records: Mapping[str, SessionRecord], *, every: bool) -> list[Finding]:
    """Return what does not fit: keys whose session is not theirs, aliases of nothing; with `every`, of no session too."""
    found: list[Finding] = []
    seen: dict[str, list[str]] = defaultdict(list)
    for quad in store.quads((None, vocab.CURRENT_SESSION, None, vocab.CATALOG)):
        try:
            conversation = find(store, key_of(_iri(quad)))
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
    return found


def _finding(session_id: str | None, what: str) -> Finding:
    where = "" if session_id is None else f"session {session_id!r}: "
    return Finding(code="bad-key", session_id=session_id, message=where + what)


def _checks(evidence: Evidence) -> Checks:
    return Checks(store=lambda records, every: findings(evidence.store, records, every=every))


_IN_KEYS: Final = (
    vocab.KEY, vocab.ALIAS_KEY, vocab.REMOVED_ALIAS, vocab.FROM_KEY, vocab.TO_KEY, vocab.SPECIALIZATION_OF,
    vocab.CURRENT_SESSION, vocab.ALIAS_OF, vocab.ALIAS_WAS_OF,
)  # fmt: skip
CONVERSATIONS: Final = Kind(
    name="conversations, aliases and moves",
    types=TYPES,
    links=frozenset({vocab.MOVED_SESSION, vocab.CURRENT_SESSION, vocab.ALIAS_OF, vocab.ALIAS_WAS_OF}),
    logged=logged,
    as_written=quads_as_written,
    removal=lambda iri: REMOVAL if iris.is_removal(iri) else frozenset(),
    checks=_checks,
    places={**dict.fromkeys(_IN_KEYS, "key"), vocab.FORMER_LABEL: "label"},
    leaving=leaving,
    exported=exported,
    arriving=arriving,
)
