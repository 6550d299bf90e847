"""Encode the entries of a store's registers as quads of the catalog, and decode them.

A register is kept beside the sessions, for those who answer for a store: which incidents there were, what data are processed
for. An entry says who made it and when, and never changes. What becomes of it later is another entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from pyoxigraph import NamedNode, Quad

from trails.errors import IntegrityError
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import Value
from trails.rdf import vocab as v
from trails.rdf.activity_records import author_type
from trails.rdf.codec import IRI, SESSION, TEXTS, Codec, Kept, Node, Table

_TOKEN: Final = Codec(lambda token: NamedNode(iris.register_entry(token)), iris.register_token)
_IRIS: Final = Codec(NamedNode, order=str)
_SESSIONS: Final = Codec(SESSION.write, SESSION.read, order=str)
INCIDENT_DAYS: Final[Mapping[str, int]] = {
    "serious": 15,
    "widespread": 2,
    "critical-infrastructure": 2,
    "death": 10,
}
"""Within how many days after somebody became aware of it an incident is reported, by its kind (AI Act, Art. 73): a serious one
(2), a widespread infringement or a serious disruption of critical infrastructure (3, with Art. 3(49)(b)), a death (4)."""


LEGAL_BASES: Final[Mapping[str, str]] = {
    "a": "consent",
    "b": "contract",
    "c": "legal-obligation",
    "d": "vital-interests",
    "e": "public-task",
    "f": "legitimate-interests",
}
"""The legal bases of processing by the letters that Art. 6(1) of the GDPR has for them."""
_PRINCIPAL: Final = Codec(lambda name: NamedNode(iris.principal(name)), iris.author_name)


class RegisterEntry(Value):
    """What stands in a register: `token` tells it from all other entries."""

    token: str
    by_iri: Annotated[str, Kept(v.ASSOCIATED_WITH, IRI)]
    time: Annotated[datetime, Kept(v.ENDED_AT)]
    leaf_salt: Annotated[str, Kept(v.LEAF_SALT)]

    @property
    def iri(self) -> str:
        """The entry's IRI."""
        return iris.register_entry(self.token)

    @property
    def by(self) -> str:
        """The plain name of who made it."""
        return iris.author_name(self.by_iri)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"token", "by_iri", "leaf_salt", "time"})
        times = {name: each.isoformat() for name, each in plain.items() if isinstance(each, datetime)}
        return {"id": self.token} | plain | times | {"by": self.by, "time": self.time.isoformat()}


class Incident(RegisterEntry):
    """That somebody flagged an incident which an authority is to be told of."""

    session_id: Annotated[str | None, Kept(v.INCIDENT_IN, SESSION)] = None
    """The session that it happened in; None where it is of the whole store."""
    kind: Annotated[str, Kept(v.INCIDENT_KIND)]
    """One of `INCIDENT_DAYS`."""
    aware: Annotated[datetime, Kept(v.AWARE_AT)]
    """When somebody became aware of it."""
    due: Annotated[datetime, Kept(v.DUE_BY)]
    """By when it is to be reported."""
    reason: Annotated[str | None, Kept(v.REASON)] = None
    """What happened, in the words of whoever flagged it."""


def _meta_of(text: str | None) -> dict[str, Any]:
    """Return the metadata that a hold or a rule goes by; none where its text was redacted after it had ended."""
    try:
        return {} if text is None else dict(json.loads(text))
    except ValueError:
        return {}


class Hold(RegisterEntry):
    """That somebody put sessions on hold: nothing of them is taken out of the store until the hold is lifted or over."""

    reason: Annotated[str, Kept(v.REASON)]
    until: Annotated[datetime | None, Kept(v.HELD_UNTIL)] = None
    """When it is over by itself; None: when somebody lifts it."""
    sessions: Annotated[tuple[str, ...], Kept(v.HELD_SESSION, _SESSIONS)] = ()
    """The ids of the sessions that it covers in any case: those that were named, or matched when it was placed."""
    principal: Annotated[str | None, Kept(v.OF_PRINCIPAL, _PRINCIPAL)] = None
    """It covers all sessions of this principal."""
    label: Annotated[str | None, Kept(v.OF_LABEL)] = None
    """It covers whichever session has this label."""
    meta: Annotated[str | None, Kept(v.OF_META)] = None
    """It covers all sessions with this metadata: JSON."""
    query: Annotated[str | None, Kept(v.OF_QUERY)] = None
    """The query that named its sessions when it was placed."""

    def wanted_meta(self) -> dict[str, Any]:
        """Return the metadata that sessions have which it covers."""
        return _meta_of(self.meta)

    def to_dict(self) -> dict[str, Any]:
        """Return the hold as plain values, ready for JSON."""
        return super().to_dict() | {"meta": _meta_of(self.meta) or self.meta}


class RetentionRule(RegisterEntry):
    """That sessions go once they are old enough: `trails retention apply` deletes those that match, unless a hold keeps them."""

    seconds: Annotated[int | None, Kept(v.KEPT_FOR)] = None
    """For how long after its last turn a session is kept; None: not at all."""
    principal: Annotated[str | None, Kept(v.OF_PRINCIPAL, _PRINCIPAL)] = None
    kind: Annotated[str | None, Kept(v.OF_KIND)] = None
    """The kind of the sessions, as `SessionRecord.kind` has it."""
    meta: Annotated[str | None, Kept(v.OF_META)] = None
    """The metadata that the sessions have: JSON."""
    query: Annotated[str | None, Kept(v.OF_QUERY)] = None
    """A query whose column `session` names the sessions, asked each time that the rule is applied."""
    reason: Annotated[str | None, Kept(v.REASON)] = None

    def wanted_meta(self) -> dict[str, Any]:
        """Return the metadata that the sessions have."""
        return _meta_of(self.meta)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values, ready for JSON."""
        return super().to_dict() | {"meta": _meta_of(self.meta) or self.meta}


class Closing(RegisterEntry):
    """That an entry is over: an incident was reported, or was none; a backup was destroyed; a hold was lifted; a rule ended."""

    closes: Annotated[str, Kept(v.CLOSES, _TOKEN)]
    """The token of the entry."""
    reason: Annotated[str | None, Kept(v.REASON)] = None
    """What became of it."""


class ProcessingPurpose(RegisterEntry):
    """That somebody said what personal data are processed for. A newer one of the same takes its place; this one stays."""

    of: Annotated[str, Kept(v.PURPOSE_OF, IRI)]
    """The IRI of a session, of an agent, or of the store."""
    purpose: Annotated[str, Kept(v.PURPOSE)]
    basis: Annotated[str | None, Kept(v.LEGAL_BASIS)] = None
    """One of `LEGAL_BASES`; None where nobody said which."""


class Export(RegisterEntry):
    """That sessions, or (none named) the whole store, were exported or packed."""

    form: Annotated[str, Kept(v.EXPORT_FORMAT)]
    """The format, such as `nquads`; `pack` for an evidence pack, `push` for what went to another store."""
    used: Annotated[tuple[str, ...], Kept(v.USED, _SESSIONS)] = ()
    """The ids of the sessions that were exported, without the ancestors that they inherit turns from."""
    heads: Annotated[tuple[str, ...], Kept(v.EXPORTED_HEAD, TEXTS)] = ()
    """Of each of them its IRI, how many turns it had, and the digest of the last, with spaces between."""
    log_size: Annotated[int, Kept(v.AT_LOG_SIZE)]
    """How many lines the log had then."""
    log_head: Annotated[str, Kept(v.AT_LOG_HEAD)]
    """The link of the last of them: 16 hex digits."""
    sha256: Annotated[str | None, Kept(v.SHA256)] = None
    """The digest of the file; of a pack, of its manifest. None for a folder and for what went to another store."""
    size: Annotated[int | None, Kept(v.FILE_SIZE)] = None
    """Bytes of the file."""
    recipients: Annotated[tuple[str, ...], Kept(v.DISCLOSED_TO, TEXTS)] = ()
    """For whom it was made, where that was said."""


class RecordReading(RegisterEntry):
    """That somebody read records, once or several times within some seconds; `time` is that of the last."""

    started: Annotated[datetime, Kept(v.STARTED_AT)]
    """When that was the first time."""
    through: Annotated[str, Kept(v.THROUGH)]
    """`console`, `api`, `endpoint` or `remote` of a server; `command`, `python` or `mcp`."""
    action: Annotated[str, Kept(v.ACTION)]
    """What was done: `load`, `query`, the name of a command, the route of a request."""
    used: Annotated[tuple[str, ...], Kept(v.USED, _SESSIONS)] = ()
    """The ids of the sessions that were asked for, where some were named; they need not be there."""
    query: Annotated[str | None, Kept(v.QUERY_NAME)] = None
    """The name of the query of the catalogue."""
    query_digest: Annotated[str | None, Kept(v.QUERY_DIGEST)] = None
    """The SHA-256 of the text of any other query."""
    count: Annotated[int, Kept(v.READ_COUNT)] = 1
    """How often."""


class Backup(RegisterEntry):
    """That a backup of the store was made. That it was destroyed is a `Closing`."""

    place: Annotated[str, Kept(v.BACKUP_PLACE)]
    """Where it was written to, or what it is called."""
    sha256: Annotated[str, Kept(v.SHA256)]
    """The digest of its file."""
    size: Annotated[int | None, Kept(v.FILE_SIZE)] = None
    """Bytes of the file."""
    log_size: Annotated[int, Kept(v.AT_LOG_SIZE)]
    """How many lines the log has in it."""
    log_head: Annotated[str, Kept(v.AT_LOG_HEAD)]
    """The link of the last of them: 16 hex digits."""


class HeldErasure(RegisterEntry):
    """That a backup holds what was erased in the store after it was made."""

    held_by: Annotated[str, Kept(v.HELD_BY, _TOKEN)]
    """The token of the backup."""
    erasures: Annotated[tuple[str, ...], Kept(v.ERASURE, _IRIS)]
    """The IRIs of the deletions and redactions."""


def incident_deadline(kind: str, aware: datetime) -> datetime:
    """Return by when an incident is to be reported: whole days of 24 hours after somebody became aware of it.

    >>> from datetime import UTC
    >>> incident_deadline("death", datetime(2026, 8, 3, 9, tzinfo=UTC)).isoformat()
    '2026-08-13T09:00:00+00:00'
    """
    return aware + timedelta(days=INCIDENT_DAYS[kind])


_CLASSES: Final[Mapping[NamedNode, type[RegisterEntry]]] = {
    v.INCIDENT: Incident,
    v.CLOSING: Closing,
    v.PROCESSING_PURPOSE: ProcessingPurpose,
    v.EXPORT: Export,
    v.RECORD_READING: RecordReading,
    v.BACKUP: Backup,
    v.HELD_ERASURE: HeldErasure,
    v.HOLD: Hold,
    v.RETENTION_RULE: RetentionRule,
}
_TABLES: Final = {kept: Table.of(kept, each, v.ACTIVITY) for each, kept in _CLASSES.items()}
REGISTER_TYPES: Final = frozenset(_CLASSES)


def type_of(kept: type[RegisterEntry]) -> NamedNode:
    """Return the class that entries have in the graph."""
    return next(each for each, found in _CLASSES.items() if found is kept)


def entry_quads(entry: RegisterEntry) -> list[Quad]:
    """Return the quads of an entry, with what the one who made it is."""
    return [*_TABLES[type(entry)].quads(entry, NamedNode(entry.iri), v.CATALOG), author_type(entry.by_iri)]


@decodes
def entry_of(subject: str, quads: Iterable[Quad]) -> RegisterEntry:
    """Return the entry that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    properties: dict[NamedNode, list[Node]] = {}
    for quad in quads:
        if isinstance(quad.object, Node):
            properties.setdefault(quad.predicate, []).append(quad.object)
    kept = next((_CLASSES[each] for each in properties.get(v.TYPE, ()) if each in _CLASSES), None)  # type: ignore[index] # IRIs
    token = iris.register_token(subject)
    if kept is None or token is None:
        raise IntegrityError(f"<{subject}> is no entry of a register: the store was altered; restore it from a backup")
    return kept(**_TABLES[kept].values(properties) | {"token": token})
