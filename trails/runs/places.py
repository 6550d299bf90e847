"""Which session a key names, and back; and sessions begun for keys, in one commit with what makes them needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from pyoxigraph import Literal, NamedNode

from trails import iris, keys, vocab
from trails.errors import InvalidInput
from trails.keys import KeySettings
from trails.model import SessionRecord
from trails.policy.resolving import resolve_session
from trails.session import Repository, conversations, entryfacts
from trails.session.session import Session
from trails.store.contract import Change


class Places:
    """The sessions of a store by their keys.

    A session without a key has one all the same: its agent's, with its own id.
    """

    def __init__(self, repository: Repository, settings: KeySettings) -> None:
        self._repository = repository
        self._store = repository.store
        self.settings = settings

    def session_of(self, key: str) -> str | None:
        """Return the id of the session that a key names now, aliases followed; None where there is none."""
        known = conversations.find(self._store, key)
        if known is None and (alias := conversations.find_alias(self._store, key)) is not None:
            known = conversations.find(self._store, alias.key)
        if known is not None:
            return known.session_id
        if any(True for _ in self._store.quads((None, vocab.KEY, Literal(key), vocab.CATALOG))):
            return self._newest(key)
        parsed = keys.parse_agent_key(key)
        if parsed is None:
            return None
        found = self._record(parsed.rest)
        return None if found is None or found.key is not None else found.id

    def _newest(self, key: str) -> str | None:
        quads = self._store.quads((None, vocab.KEY, Literal(key), vocab.CATALOG))
        names = [str(getattr(quad.subject, "value", "")) for quad in quads]
        records = self._repository.reader.records([iris.session_id(name) for name in names if iris.is_session(name)])
        dated = sorted((record.created.timestamp() if record.created else 0, record.id) for record in records.values())
        return dated[-1][1] if dated else None

    def _record(self, session_id: str) -> SessionRecord | None:
        try:
            return self._repository.reader.records([session_id]).get(session_id)
        except InvalidInput:
            return None

    def key_of(self, record: SessionRecord) -> str:
        """Return the key of a session."""
        return record.key or f"agent:{keys.normalize_agent_id(record.agent)}:{record.id}"

    def named(self, name: str) -> tuple[str, SessionRecord | None]:
        """Return the key that a caller means, by a key or a session's id or IRI, and the session, where there is one."""
        plain = iris.session_id(name) if iris.is_session(name) else name
        record = self._record(plain) if ":" not in plain or plain in self._repository else None
        if record is not None:
            return self.key_of(record), record
        key = keys.canonical_key(name, self.settings)
        session_id = self.session_of(key)
        return key, None if session_id is None else self._record(session_id)

    def entry(self, key: str) -> dict[str, Any]:
        """Return what is kept of the session of a key beside its turns; empty where nothing is."""
        session_id = self.session_of(key)
        return {} if session_id is None else entryfacts.read(self._store, session_id).to_json()

    def entries(self) -> dict[str, Mapping[str, Any]]:
        """Return the entries of all keys, each with its session's id and label."""
        return dict(self._entries())

    def _entries(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for quad in self._store.quads((None, vocab.CURRENT_SESSION, None, vocab.CATALOG)):
            key = iris.conversation_key(str(getattr(quad.subject, "value", "")))
            known = None if key is None else conversations.find(self._store, key)
            if known is not None:
                fields = entryfacts.read(self._store, known.session_id).to_json()
                label = {} if known.label is None else {"label": known.label}
                yield known.key, {**fields, **label, "sessionId": known.session_id}

    def resolve(self, *, label: str, agent_id: str | None = None, spawned_by: str | None = None) -> str:
        """Return the key of the one session with a label, or raise `RequestRefused`."""
        return resolve_session(
            self.entries(), label=label, agent_id=agent_id, spawned_by=spawned_by, settings=self.settings
        )

    def is_free(self, label: str) -> bool:
        """Tell whether no session has a label."""
        return not self._store.quads((None, vocab.LABEL, Literal(label), vocab.CATALOG))

    def begin(
        self,
        key: str,
        fields: Mapping[str, Any],
        *,
        created: datetime,
        requester: SessionRecord | None,
        label: str | None = None,
    ) -> tuple[Session, Change]:
        """Return a new session for a key that has none, not stored yet, and what goes into the commit with it."""
        agent = keys.agent_id_from_key(key)
        made = self._repository.create(
            principal=None if requester is None else requester.principal,
            agent=agent,
            key=key,
            created=created,
            spawned_by=None if requester is None else requester.id,
        )
        row = conversations.Conversation(key=key, session_id=made.id, label=label, created=created)
        entry = entryfacts.SessionEntry(session_id=made.id).changed({**fields, "sessionId": made.id})
        node = NamedNode(row.iri)
        add = [*conversations.conversation_quads(row), *conversations.belongs(made.id, key), *entryfacts.quads(entry)]
        forbid: list[Any] = [(node, None, None, vocab.CATALOG)]
        if label is not None:
            forbid.append((None, vocab.LABEL, Literal(label), vocab.CATALOG))
        return made, Change(add=add, forbid=forbid)

    def ensure(self, key: str, *, now: datetime) -> str:
        """Return the id of the session of a key, which is made where there is none."""
        session_id = self.session_of(key)
        if session_id is not None:
            return session_id
        made, change = self.begin(key, {"updatedAt": int(now.timestamp() * 1000)}, created=now, requester=None)
        made.persist(change)
        return made.id
