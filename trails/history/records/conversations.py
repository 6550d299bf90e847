"""Store conversations, aliases, moves and the entries of sessions with keys.

A conversation's row exists as long as the conversation has a current session. So each record belongs to a session and is
logged with its row: the conversation and its aliases with the current session, a move with the session that was moved, an
entry with its own session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import TrailsError
from trails.history.records.record_kind import Arriving, Beside, Checks, Evidence, Leaving, RecordKind, Withheld, about
from trails.history.records.text_matcher import Erasure
from trails.history.transaction import Proposal, Refusal, Transaction
from trails.integrity import digests
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import Finding, SessionRecord
from trails.rdf import query_files, vocab
from trails.rdf.codec import subject_of
from trails.rdf.conversation_records import (
    ALIAS_REMOVAL,
    CONVERSATION_TYPES,
    Alias,
    Conversation,
    Move,
    SessionEntry,
    alias_of,
    belongs_quad,
    conversation_of,
    conversation_quads,
    conversation_quads_as_written,
    current_quad,
    decode_overrides,
    key_of,
    move_of,
    override_faults,
    overrides_difference,
    overrides_graph,
    overrides_holding,
    overrides_repeating,
)
from trails.store.contract import Matching, QuadStore, Solutions
from trails.store.pattern import Pattern

# --- finding


@decodes
def find_conversation(store: QuadStore, key: str) -> Conversation | None:
    """Return the conversation that a key names directly, or None."""
    subject = iris.conversation(key)
    quads = [quad for quad in about(store, subject) if quad.predicate != vocab.TYPE]
    return conversation_of(subject, quads) if quads else None


@decodes
def conversations_of_session(store: QuadStore, node: NamedNode) -> Conversation | None:
    """Return the conversation whose current session is the one given, or None."""
    for quad in store.quads((None, vocab.CURRENT_SESSION, node, vocab.CATALOG)):
        return find_conversation(store, key_of(subject_of(quad)))
    return None


def find_alias(store: QuadStore, alias: str) -> Alias | None:
    """Return the alias that a key is, or None."""
    subject = iris.alias(alias)
    quads = about(store, subject)
    return alias_of(subject, quads) if quads else None


@decodes
def aliases_of(store: QuadStore, key: str | None = None) -> list[Alias]:
    """Return the aliases of one conversation, or all, in order of the alias."""
    node = None if key is None else NamedNode(iris.conversation(key))
    subjects = [subject_of(quad) for quad in store.quads((None, vocab.ALIAS_OF, node, vocab.CATALOG))]
    found = (alias_of(each, quads) for each in subjects if (quads := about(store, each)))  # one may go meanwhile
    return sorted(found, key=lambda alias: alias.alias)


@decodes
def moves_of(store: QuadStore, session_id: str | None = None) -> list[Move]:
    """Return the moves of one session, or all, oldest first."""
    node = None if session_id is None else NamedNode(iris.session(session_id))
    subjects = [subject_of(quad) for quad in store.quads((None, vocab.MOVED_SESSION, node, vocab.CATALOG))]
    found = (move_of(each, quads) for each in subjects if (quads := about(store, each)))  # one may go meanwhile
    return sorted(found, key=lambda move: (move.time, move.operation, move.number))


@decodes
def sessions_in(store: QuadStore, key: str) -> list[str]:
    """Return the ids of all sessions of a conversation, in no order."""
    node = NamedNode(iris.conversation(key))
    return [iris.session_id(subject_of(q)) for q in store.quads((None, vocab.SPECIALIZATION_OF, node, vocab.CATALOG))]


# --- writing


def relabel_conversation(
    tx: Transaction, made: Conversation, label: str | None, refusal: Refusal | None = None
) -> None:
    """Give a conversation a label, or take it away with None; what is logged of it is the caller's."""
    if label == made.label:
        return
    after = made.model_copy(update={"label": label, "revision": made.revision + 1})
    tx.move(conversation_quads(made), conversation_quads(after))
    tx.require([current_quad(made.key, made.session_id)])
    if label is not None:
        tx.label(label, refusal)


def hand_over_conversation(record: SessionRecord, key: str) -> Proposal:
    """Return the commit that hands the label of a session, which has it itself, to the conversation of its key."""
    tx = Transaction()
    if record.label is not None:
        own = Quad(NamedNode(record.iri), vocab.LABEL, Literal(record.label), vocab.CATALOG)
        named = Quad(NamedNode(iris.conversation(key)), vocab.LABEL, Literal(record.label), vocab.CATALOG)
        tx.move([own], [named])
    return tx.change()


# --- with the session that they belong to


def logged_conversations(store: Matching, node: NamedNode, row: Sequence[Quad]) -> list[Quad]:
    """Return what the log covers with the row of a session, given with that: nothing unless it has a key."""
    return _belonging(store, node) if any(quad.predicate == vocab.KEY for quad in row) else []


def _belonging(store: Matching, node: NamedNode) -> list[Quad]:
    """Return the moves of a session, and the conversation with its aliases whose current session it is."""
    moved = [subject_of(quad) for quad in store.quads((None, vocab.MOVED_SESSION, node, vocab.CATALOG))]
    quads = [quad for subject in moved for quad in about(store, subject)]
    for quad in store.quads((None, vocab.CURRENT_SESSION, node, vocab.CATALOG)):
        quads += is_of_conversation(store, subject_of(quad))
    return quads


def is_of_conversation(store: Matching, subject: str) -> list[Quad]:
    """Return a conversation's row, its aliases, and what stays of those that were removed."""
    return [*about(store, subject), *_aliases_of(store, subject)]


def _aliases_of(store: Matching, subject: str) -> list[Quad]:
    node = NamedNode(subject)
    quads: list[Quad] = []
    for link in (vocab.ALIAS_OF, vocab.ALIAS_WAS_OF):
        for quad in store.quads((None, link, node, vocab.CATALOG)):
            quads += about(store, subject_of(quad))
    return quads


def conversations_leaving(store: QuadStore, doomed: Collection[str], subjects: set[str]) -> Leaving:
    """Return what goes of the catalog when sessions are deleted (their conversations, aliases and moves), and what must
    not come in between: a conversation that names no session must not name one again.

    `subjects` gathers the conversations, so that what another thread adds to one meanwhile is found afterwards.
    """
    remove: list[Quad] = []
    forbid: list[Pattern] = []
    for session_id in doomed:
        node = NamedNode(iris.session(session_id))
        for quad in store.quads((None, vocab.MOVED_SESSION, node, vocab.CATALOG)):
            remove += about(store, subject_of(quad))
        subjects |= {subject_of(quad) for quad in store.quads((None, vocab.CURRENT_SESSION, node, vocab.CATALOG))}
    for subject in subjects:
        row = about(store, subject)
        current_node = next((quad.object for quad in row if quad.predicate == vocab.CURRENT_SESSION), None)
        if current_node is None or iris.session_id(str(getattr(current_node, "value", ""))) in doomed:
            remove += [*row, *_aliases_of(store, subject)]  # the row as it was judged: it may be another by now
        if current_node is None:
            forbid.append((NamedNode(subject), vocab.CURRENT_SESSION, None, vocab.CATALOG))
    return Leaving(remove=remove, forbid=forbid)


@decodes
def exported_conversations(store: QuadStore, node: NamedNode) -> list[Quad]:
    """Return what goes with a session that is exported: its moves, its conversation with the aliases."""
    quads = [q for q in _belonging(store, node) if iris.alias_key(subject_of(q).partition("/deletion/")[0]) is None]
    for quad in store.quads((None, vocab.CURRENT_SESSION, node, vocab.CATALOG)):
        for alias in store.quads((None, vocab.ALIAS_OF, quad.subject, vocab.CATALOG)):  # type: ignore[arg-type] # an IRI
            quads += about(store, subject_of(alias))
    who = (q.object for q in quads if q.predicate in (vocab.ATTRIBUTED_TO, vocab.ASSOCIATED_WITH))
    for author in {str(getattr(each, "value", "")) for each in who}:
        kind = vocab.AGENT if iris.is_agent(author) else vocab.PRINCIPAL
        quads.append(Quad(NamedNode(author), vocab.TYPE, kind, vocab.CATALOG))
    return quads


def conversations_arriving(store: QuadStore, session_id: str, quads: Sequence[Quad]) -> Arriving:
    """Return those quads of an arriving session that may come into a store, and what is said of the others.

    A key that has a session here keeps it, and an alias what it stands for; moves that are known do not come again.
    """
    refused: set[str] = set()
    said: list[str] = []
    subjects = {
        subject_of(quad) for quad in quads if quad.predicate == vocab.TYPE and quad.object in CONVERSATION_TYPES
    }
    for subject in sorted(subjects):
        key, alias = iris.conversation_key(subject), iris.alias_key(subject)
        if about(store, subject) or (key is not None and find_alias(store, key) is not None):
            refused.add(subject)
            if key is not None:
                said.append(f"as an earlier session of the key {key!r}, which has another one here")
        elif alias is not None and find_conversation(store, alias) is not None:
            refused.add(subject)
            said.append(f"without its alias {alias!r}, which is the key of a session here")
    dropped = {subject for subject in refused if iris.conversation_key(subject) is not None}
    for quad in quads:
        if quad.predicate == vocab.ALIAS_OF and str(getattr(quad.object, "value", "")) in dropped:
            refused.add(subject_of(quad))
    kept = [quad for quad in quads if subject_of(quad) not in refused]
    return Arriving(kept, [f"session {session_id!r} was imported {what}" for what in said])


# --- held against the sessions


@decodes
def conversation_findings(store: QuadStore, records: Mapping[str, SessionRecord], *, every: bool) -> list[Finding]:
    """Return what does not fit: keys whose session is not theirs, aliases of nothing; with `every`, of no session too."""
    found: list[Finding] = []
    seen: dict[str, list[str]] = defaultdict(list)
    for quad in store.quads((None, vocab.CURRENT_SESSION, None, vocab.CATALOG)):
        try:
            conversation = find_conversation(store, key_of(subject_of(quad)))
        except (TrailsError, ValueError):
            continue  # named by the check of the catalog
        if conversation is None:
            continue
        seen[conversation.session_id].append(conversation.key)
        record = records.get(conversation.session_id)
        if record is None:
            found += [_finding(None, f"the key {conversation.key!r} names no session that is stored")] if every else []
        elif not set(belongs_quad(record.id, conversation.key)) <= set(about(store, record.iri)):
            found.append(_finding(record.id, f"is the session of the key {conversation.key!r} and does not say so"))
    found += [
        _finding(session_id, f"is the session of {len(keys)} keys: {', '.join(sorted(keys))}")
        for session_id, keys in seen.items()
        if len(keys) > 1 and session_id in records
    ]
    for quad in store.quads((None, vocab.ALIAS_OF, None, vocab.CATALOG)) if every else []:
        subject = str(getattr(quad.object, "value", ""))
        if not store.quads((NamedNode(subject), vocab.CURRENT_SESSION, None, vocab.CATALOG)):
            what = f"the alias {iris.alias_key(subject_of(quad))!r} stands for <{subject}>, which names no session"
            found.append(_finding(None, what))
    return found


def _finding(session_id: str | None, what: str) -> Finding:
    where = "" if session_id is None else f"session {session_id!r}: "
    return Finding(code="bad-key", session_id=session_id, message=where + what)


def _conversation_checks(evidence: Evidence) -> Checks:
    return Checks(store=lambda records, every: conversation_findings(evidence.store, records, every=every))


_IN_KEYS: Final = (
    vocab.KEY, vocab.ALIAS_KEY, vocab.REMOVED_ALIAS, vocab.FROM_KEY, vocab.TO_KEY, vocab.SPECIALIZATION_OF,
    vocab.CURRENT_SESSION, vocab.ALIAS_OF, vocab.ALIAS_WAS_OF,
)  # fmt: skip
CONVERSATIONS: Final = RecordKind(
    name="conversations, aliases and moves",
    types=CONVERSATION_TYPES,
    links=frozenset({vocab.MOVED_SESSION, vocab.CURRENT_SESSION, vocab.ALIAS_OF, vocab.ALIAS_WAS_OF}),
    logged=logged_conversations,
    as_written=conversation_quads_as_written,
    removal=lambda iri: ALIAS_REMOVAL if iris.is_removal(iri) else frozenset(),
    checks=_conversation_checks,
    places={**dict.fromkeys(_IN_KEYS, "key"), vocab.FORMER_LABEL: "label"},
    leaving=conversations_leaving,
    exported=exported_conversations,
    arriving=conversations_arriving,
)


@decodes
def read_overrides(store: QuadStore, session_id: str) -> SessionEntry:
    """Return a session's entry; an empty one where nothing was written."""
    return decode_overrides(session_id, store.quads((None, None, None, overrides_graph(session_id))))


def without_texts(store: QuadStore, session_id: str, names: Iterable[str]) -> tuple[list[Quad], list[Quad]]:
    """Return what goes and what comes when fields are taken out of a session's entry."""
    before = read_overrides(store, session_id)
    gone = set(names)
    fields = {name: text for name, text in before.fields.items() if name not in gone}
    after = before.model_copy(update={"fields": fields, "salt": digests.new_salt()})
    return overrides_difference(before, after)


# --- with the session whose entry it is


def _logged(store: Matching, node: NamedNode, row: Sequence[Quad]) -> list[Quad]:
    """Return the entry of a session, which is logged with its row; nothing unless it has a key."""
    return _exported(store, node) if any(quad.predicate == vocab.KEY for quad in row) else []


def _exported(store: Matching, node: NamedNode) -> list[Quad]:
    return store.quads((None, None, None, NamedNode(iris.session_entry(node.value))))


def _override_checks(evidence: Evidence) -> Checks:
    return Checks(store=lambda records, _: _findings(evidence.store, records))


def _findings(store: QuadStore, records: Mapping[str, SessionRecord]) -> Iterator[Finding]:
    for record in records.values():
        graph = store.quads((None, None, None, overrides_graph(record.id))) if record.key is not None else []
        for what in override_faults(record.id, graph):
            message = f"session {record.id!r}: its entry is altered: {what}"
            yield Finding(code="bad-key", session_id=record.id, message=message)


def _withheld(store: QuadStore, _: Sequence[NamedNode], needles: Sequence[str]) -> Withheld:
    """Take out the fields that hold one of the texts of redacted turns."""
    remove: list[Quad] = []
    add: list[Quad] = []
    fields: dict[str, list[str]] = {}
    for session_id in _holders(store, needles):
        if names := overrides_holding(read_overrides(store, session_id), needles):
            fields[session_id] = names
            gone, kept = without_texts(store, session_id, names)
            remove += gone
            add += kept
    report = [(session_id, name) for session_id, names in fields.items() for name in names]
    return Withheld(remove, add, rows=fields.keys(), report={"fields": report})


def _holders(store: QuadStore, needles: Sequence[str]) -> list[str]:
    """Return the sessions whose entries hold one of some texts."""
    query = query_files.find("entries_holding")
    found = [store.query(query.bind(text=batch)) for batch in query_files.batches(needles)]
    held = {iris.session_id(row[0].value) for rows in found if isinstance(rows, Solutions) for row in rows}
    return sorted(held)


def _purge(taking: Erasure, graph: str, quads: Sequence[Quad], hits: Sequence[Quad]) -> None:
    """Take out the fields of a session's entry that hold a text."""
    session_id = iris.session_id(graph)
    for quad in hits:
        taking.place(session_id, "entry field", quad.predicate.value)
    after = [quad for quad in quads if quad not in set(hits) and quad.predicate != vocab.SALT]
    node, salt = NamedNode(iris.session(session_id)), Literal(digests.new_salt())
    taking.found.swap(quads, [*after, Quad(node, vocab.SALT, salt, NamedNode(graph))])
    taking.found.note(session_id, graph)
    if taking.is_live(session_id):
        taking.found.rows.add(session_id)


OVERRIDES: Final = RecordKind(
    name="entries of sessions with keys",
    beside=Beside("entry", needs_key=True),
    logged=_logged,
    checks=_override_checks,
    withheld=_withheld,
    purge=_purge,
    exported=_exported,
    repeating=overrides_repeating,
)
