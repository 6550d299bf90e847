"""Entries of `sessions.json` brought to the keys of a store: bound to their sessions, changed where they changed.

The later one counts, by `updatedAt`: an entry that is not older than what is kept here takes its place, field by field,
those that it has no more included; an older one changes nothing. So importing a folder again changes nothing, and what
was done here since the folder was written stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode, Quad

from trails import iris, policy, validate, vocab
from trails.errors import InvalidInput
from trails.model import SessionRecord
from trails.plumbing import conversations, leaves
from trails.plumbing.transaction import Transaction, there
from trails.records import overrides
from trails.records.conversations import Conversation, belongs, current
from trails.routing.directory import HeldKey, Keyring, source_id
from trails.session import Repository
from trails.store.contract import PreconditionFailed

_TRIES: Final = 20
_LABEL: Final = "label"
_ID: Final = "sessionId"
Outcome = Literal["new", "changed", "moved", "unchanged", "older", "refused"]


class Bound(NamedTuple):
    """What became of an entry, and what is to be said of it."""

    outcome: Outcome
    says: tuple[str, ...] = ()


class Binder:
    """Binds entries to the sessions of one store."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._store = repository.store
        self._keyring = Keyring(repository)

    def bind(self, key: str, session_id: str, entry: Mapping[str, Any]) -> Bound:
        """Let a key name a session, with exactly this entry, in one commit.

        Raises `InvalidInput` for an entry that cannot be kept, and where others change the key all the time.
        """
        for _ in range(_TRIES):
            try:
                return self._bind(key, session_id, entry)
            except PreconditionFailed:
                continue
        raise InvalidInput(f"the key {key!r} is changed by others all the time; try again")

    def _bind(self, key: str, session_id: str, entry: Mapping[str, Any]) -> Bound:
        found = self._keyring.find(key)
        record = self._repository.reader.record(session_id)
        if record.key is not None and record.key != (key if found is None else found[0].key):
            return Bound("refused", (f"its session {session_id!r} has the key {record.key!r} here",))
        if found is None:
            label, says = self._label(entry, None)
            made = Conversation(key=key, session_id=session_id, label=label, created=_began(record, entry))
            tx = Transaction()
            tx.add(_missing(self._store, belongs(made.session_id, made.key)))
            conversations.begin(tx, made)
            self._write_entry(tx, record, entry, label)
            self._commit(tx, session_id)
            return Bound("new", says)
        held = self._keyring.held(found[0])
        if held.session_id != session_id:
            return self._move(held, record, entry)
        return self._change(held, record, entry)

    def _change(self, held: HeldKey, record: SessionRecord, entry: Mapping[str, Any]) -> Bound:
        label, says = self._label(entry, held.conversation)
        before = held.to_json()
        if _text(before) == _text(entry) and label == held.conversation.label:
            return Bound("unchanged", says)
        if _updated(entry) < _updated(before):
            return Bound("older", ("it is older than the one here, which stays",))
        tx = Transaction()
        self._write_entry(tx, record, entry, label)
        conversations.relabel(tx, held.conversation, label)
        tx.require([current(held.key, held.session_id)])
        self._commit(tx, held.session_id)
        names = sorted(
            name
            for name in {*before, *entry}
            if name not in before or name not in entry or _text(before[name]) != _text(entry[name])
        )
        return Bound("changed", (f"changed: {', '.join(names) or _LABEL}", *says))

    def _move(self, held: HeldKey, record: SessionRecord, entry: Mapping[str, Any]) -> Bound:
        """Let a key name another session than before, as after a reset; the one before stays one of its sessions."""
        if _updated(entry) < _updated(held.to_json()) or (
            record.key is not None and _updated(entry) == _updated(held.to_json())
        ):
            known = record.key is not None  # an earlier session of the key, as its folder still has it
            return Bound(
                "older", () if known else (f"the key names the session {held.session_id!r} here, which is later",)
            )
        label, says = self._label(entry, held.conversation)
        tx = Transaction()
        tx.add(_missing(self._store, belongs(record.id, held.key)))
        tx.move([current(held.key, held.session_id)], [current(held.key, record.id)])
        tx.log(leaves.rows("change", [held.session_id]))
        self._write_entry(tx, record, entry, label)
        conversations.relabel(tx, held.conversation, label)
        self._commit(tx, record.id)
        return Bound("moved", (f"begun anew: it names {record.id!r} now, and named {held.session_id!r} before", *says))

    def _commit(self, tx: Transaction, session_id: str) -> None:
        tx.log(leaves.rows("change", [session_id]))
        tx.commit(self._store)

    def _write_entry(self, tx: Transaction, record: SessionRecord, entry: Mapping[str, Any], label: str | None) -> None:
        """Let a session's entry say exactly this; a label that the conversation has is left out."""
        fields = {name: value for name, value in entry.items() if name != _LABEL or label is None}
        if fields.get(_ID) == source_id(record.id, record.source_session):
            del fields[_ID]
        before = self._repository.reader.entry(record.id)
        after = before.changed(fields)
        gone, come = overrides.difference(before, after)
        node, graph = NamedNode(record.iri), overrides.graph_of(record.id)
        tx.take(gone)
        tx.add(come)
        if not before.salt:
            tx.forbid((node, vocab.SALT, None, graph))

    def _label(self, entry: Mapping[str, Any], own: Conversation | None) -> tuple[str | None, tuple[str, ...]]:
        """Return the label that a conversation can have, and what is said of one that it cannot."""
        told = entry.get(_LABEL)
        if told is None:
            return None, ()
        try:
            label = validate.label(told)
        except InvalidInput as error:
            return None, (f"its label is kept in the entry only: {error}",)
        for quad in self._store.quads((None, vocab.LABEL, RdfLiteral(label), vocab.CATALOG)):
            if own is None or quad.subject != NamedNode(own.iri):
                holder = iris.conversation_key(str(getattr(quad.subject, "value", "")))
                whose = "a session" if holder is None else repr(holder)
                return None, (f"its label {label!r} belongs to {whose} already; it is kept in the entry only",)
        return label, ()

    # --- who spawned whom

    def link(self, session_id: str, spawner_key: str) -> str | None:
        """Say in a session's row which one spawned it; return what is to be said where that cannot be."""
        found = self._keyring.find(spawner_key)
        if found is None:
            return f"{spawner_key!r}, which spawned it, has no session here"
        record, spawner = self._repository.reader.record(session_id), found[0].session_id
        if record.spawned_by is not None:
            return None  # as it was when it was first said: the spawner may have begun anew since
        if record.parent_session_id is not None:
            return "it shares its parent's turns, and is kept as a fork of that"
        if self._descends(spawner, session_id):
            return f"{spawner_key!r}, which spawned it, comes from it itself"
        node, parent = NamedNode(record.iri), NamedNode(iris.session(spawner))
        tx = Transaction()
        tx.require([there(spawner)])
        tx.add([Quad(node, vocab.SPAWNED_BY, parent, vocab.CATALOG)])
        tx.forbid((node, vocab.SPAWNED_BY, None, vocab.CATALOG))
        try:
            self._commit(tx, session_id)
        except PreconditionFailed:
            return f"{spawner_key!r}, which spawned it, was changed meanwhile; import the folder again"
        return None

    def _descends(self, session_id: str, ancestor: str) -> bool:
        seen: set[str] = set()
        waiting = [session_id]
        while waiting:
            here = waiting.pop()
            if here == ancestor:
                return True
            if here in seen:
                continue
            seen.add(here)
            record = self._repository.reader.records([here]).get(here)
            above = () if record is None else (record.spawned_by, record.parent_session_id)
            waiting += [each for each in above if each is not None]
        return False


def _missing(store: Any, quads: Iterable[Quad]) -> list[Quad]:
    return [q for q in quads if not store.quads((q.subject, q.predicate, q.object, q.graph_name))]


def _text(value: Any) -> str:
    """Return a value as text, equal for equal JSON values: 1, 1.0 and true are not."""
    return json.dumps(value, sort_keys=True)


def _updated(entry: Mapping[str, Any]) -> float:
    value = entry.get("updatedAt")
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _began(record: SessionRecord, entry: Mapping[str, Any]) -> datetime:
    """Return when a conversation is said to have begun."""
    if record.created is not None:
        return record.created
    try:
        return policy.from_ms(int(_updated(entry)))
    except (InvalidInput, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)
