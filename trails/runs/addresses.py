"""Which session a key names, and back; and sub-agents' sessions, begun in one commit with what makes them needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyoxigraph import Literal

from trails import iris, keys, vocab
from trails.errors import InvalidInput, RequestRefused
from trails.keys import KeySettings
from trails.model import SessionRecord
from trails.plumbing.transaction import Proposal
from trails.records.entries import Entry
from trails.routing import Router
from trails.routing.directory import Keyring
from trails.routing.visibility import visible_sessions
from trails.session import Repository
from trails.session.session import Session


class Places:
    """The sessions of a store by their keys.

    A session without a key has one all the same: its agent's, with its own id.
    """

    def __init__(self, repository: Repository, router: Router, settings: KeySettings) -> None:
        self._repository = repository
        self._router = router
        self._keyring = Keyring(repository)
        self._settings = settings

    def session_of(self, key: str) -> str | None:
        """Return the id of the session that a key names now, aliases followed; None where there is none."""
        found = self._keyring.find(key)
        if found is not None:
            return found[0].session_id
        orphan = self._keyring.orphan(key)
        if orphan is not None:
            return orphan.id
        parsed = keys.parse_agent_key(key)
        names = [key] if parsed is None else [key, parsed.rest]
        records = (self._record(name) for name in names)
        return next((each.id for each in records if each is not None and self.key_of(each) == key), None)

    def _record(self, session_id: str) -> SessionRecord | None:
        return self._repository.reader.records([session_id]).get(session_id)

    def key_of(self, record: SessionRecord) -> str:
        """Return the key of a session."""
        own = record.id if keys.parse_agent_key(record.id) else None
        return record.key or own or f"agent:{keys.normalize_agent_id(record.agent)}:{record.id}"

    def named(self, name: str) -> tuple[str, SessionRecord | None]:
        """Return the key that a caller means, by a key or a session's id or IRI, and the session, where there is one.

        Raises `SessionNotFound` for a name that is no key, the main session's included, and no session's either.
        """
        plain = iris.session_id(name) if iris.is_session(name) else name
        record = self._record(plain)
        if record is not None:
            return self.key_of(record), record
        key = keys.canonical_key(name, self._settings)
        session_id = self.session_of(key)
        if session_id is None and (iris.is_session(name) or (":" not in name and not self._is_main(key))):
            raise self._repository.reader.not_found(plain)
        return key, None if session_id is None else self._record(session_id)

    def _is_main(self, key: str) -> bool:
        return key in ("global", "unknown") or keys.is_main_key(key, self._settings)

    def shown(self, key: str) -> str:
        """Return a key as tools show it: the main session as "main"."""
        settings = self._settings
        if key == settings.main_session_key:
            return keys.DEFAULT_MAIN_KEY
        return keys.display_key(key, alias=settings.alias, main_key=settings.main_key)

    def entry(self, key: str) -> Mapping[str, Any]:
        """Return what is kept of the session of a key beside its turns; empty where nothing is."""
        found = self._keyring.find(key)
        return {} if found is None else self._keyring.held(found[0]).to_json()

    def resolve(self, *, label: str, agent_id: str | None = None, spawned_by: str | None = None) -> str:
        """Return the key of the one session with a label, or raise `RequestRefused`."""
        try:
            return self._router.resolve(label=label, agent=agent_id, spawned_by=spawned_by)
        except RequestRefused:
            session_id = self._repository.reader.labelled(label)
            record = None if session_id is None else self._record(session_id)
            if record is None or record.key is not None or spawned_by is not None:
                raise
            key = self.key_of(record)  # a session without a key, which the keys know nothing of
            if agent_id is not None and keys.agent_id_from_key(key) != agent_id:
                raise
            return key

    def sees(self, requester: SessionRecord, key: str) -> bool:
        """Tell whether a sandboxed session sees the session of a key: itself, and what it spawned."""
        session_id = self.session_of(key)
        return session_id is not None and session_id in visible_sessions(self._repository, requester.id)

    def is_free(self, label: str) -> bool:
        """Tell whether no session has a label."""
        return not self._repository.store.quads((None, vocab.LABEL, Literal(label), vocab.CATALOG))

    def ensure(self, key: str) -> str:
        """Return the id of the session of a key, which is made where there is none."""
        return self.session_of(key) or self._router.session(key).id

    def child(self, key: str, requester: SessionRecord, created: datetime) -> Session:
        """Return a new session for a sub-agent's key, not stored yet."""
        return self._repository.create(
            principal=requester.principal,
            agent=keys.agent_id_from_key(key),
            key=key,
            kind="subagent",
            created=created,
            spawned_by=requester.id,
        )

    def begin(
        self,
        session: Session,
        fields: Mapping[str, Any],
        *,
        made: Sequence[Entry],
        also: Proposal,
        label: str | None,
    ) -> bool:
        """Store a session as that of its key, with its entry, its ledger's first entries and what else there is."""
        key, now = session.record.key, session.record.created
        if key is None or now is None:
            raise InvalidInput(f"session {session.id!r} has no key, or no time: it is no sub-agent's")
        return self._keyring.begin(key, session, fields, now=now, label=label, made=made, also=also)
