"""Encode session rows, prompts, tombstones and tools as quads.

Between the rows of sessions in the catalog and quads: records, system prompts, what stays of a deleted one. Pure.

What the catalog says of tools: it follows from their IRIs, and stands there so that queries need not take those apart.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import IntegrityError
from trails.model import iris, validation
from trails.model.validation import decodes
from trails.model.values import MAIN, SessionRecord, SystemPrompt
from trails.rdf import vocab as v
from trails.rdf.activity_records import Deed, author_type, deed_quads
from trails.rdf.codec import Row, Term, known_node, meta_literal, meta_value, parse_time, short_literal, time_literal

DEFAULT_PRINCIPAL: Final = "anonymous"
DEFAULT_AGENT: Final = "agent"


def row_names(record: SessionRecord) -> tuple[Quad, Quad]:
    """Return what a session's row says of its principal and of its agent."""
    node = NamedNode(record.iri)
    return (
        Quad(node, v.ATTRIBUTED_TO, known_node(iris.principal(record.principal)), v.CATALOG),
        Quad(node, v.SESSION_AGENT, known_node(iris.agent(record.agent)), v.CATALOG),
    )


def session_quads(record: SessionRecord) -> list[Quad]:
    """Return a session's row in the catalog, with its principal and agent: at most 12 quads for a fork (design),
    beside its label, metadata and, where they are new, two quads that say what the principal and the agent are.
    """
    node, catalog = NamedNode(record.iri), v.CATALOG
    principal, agent = known_node(iris.principal(record.principal)), known_node(iris.agent(record.agent))
    rows: list[Row] = [
        (node, v.TYPE, v.SESSION),
        (node, v.BRANCH, Literal(record.branch)),
        (node, v.ATTRIBUTED_TO, principal),
        (node, v.SESSION_AGENT, agent),
        (node, v.STATE, short_literal(record.state)),
        (principal, v.TYPE, v.PRINCIPAL),
        (agent, v.TYPE, v.AGENT),
    ]
    if record.parent_session_id is not None:
        rows.append((node, v.PARENT_SESSION, NamedNode(iris.session(record.parent_session_id))))
        rows.append((node, v.FORKED_AT_INDEX, v.integer(record.forked_at_index or 0)))
        rows.append((node, v.FORK_HEAD, Literal(record.fork_head or "")))
    if record.forked_by is not None:  # a detached session keeps it
        rows.append((node, v.FORKED_BY, known_node(record.forked_by)))
    if record.spawned_by is not None:
        rows.append((node, v.SPAWNED_BY, NamedNode(iris.session(record.spawned_by))))
    if record.created is not None:
        rows.append((node, v.TIME, time_literal(record.created)))
    if record.system_version:
        rows.append((node, v.SYSTEM_VERSION, v.integer(record.system_version)))
    rows += [
        (node, predicate, time_literal(moment))
        for predicate, moment in ((v.EXPIRES_AT, record.expires), (v.ENDS_BY, record.ends_by))
        if moment is not None
    ]
    rows += [
        (node, predicate, Literal(text))
        for predicate, text in (
            (v.KIND, record.kind),
            (v.LABEL, record.label),
            (v.KEY, record.key),
            (v.SOURCE_SESSION, record.source_session),
            (v.CHANNEL, record.channel),
            (v.SLOT, record.slot),
            (v.TIER, record.tier),
        )
        if text is not None
    ]
    rows += [(node, NamedNode(iris.meta(key)), meta_literal(value)) for key, value in record.meta.items()]
    made = [Quad(s, p, o, catalog) for s, p, o in rows]
    return made if record.forked_by is None else [*made, author_type(record.forked_by)]


@decodes
def decode_records(rows: Iterable[tuple[str, str, Term]]) -> dict[str, SessionRecord]:
    """Return session records by session id from (session IRI, predicate IRI, object) rows of the catalog.

    A subject without the type `trails:Session` is left out (a parent that is gone). Records from before forks existed
    have no parent, fork index or branch: they are roots on "main". Two parents raise `IntegrityError`.
    """
    subjects: dict[str, dict[str, list[Term]]] = defaultdict(lambda: defaultdict(list))
    for subject, predicate, value in rows:
        subjects[subject][predicate].append(value)
    return {
        iris.session_id(subject): _record(iris.session_id(subject), properties)
        for subject, properties in subjects.items()
        if v.SESSION in properties.get(v.TYPE.value, [])
    }


@dataclass(frozen=True, slots=True)
class _RowReader:
    """The row of a session, asked for one property at a time; `IntegrityError` for what Trails never writes."""

    session_id: str
    properties: Mapping[str, list[Term]]

    def one(self, predicate: NamedNode) -> str | None:
        values = self.properties.get(predicate.value, [])
        if len(values) > 1:
            shown = ", ".join(sorted(str(value) for value in values))
            raise IntegrityError(
                f"session {self.session_id!r} has {len(values)} values for {predicate.value}: {shown}; one is right: "
                "restore the session from an export or a backup, or remove the wrong ones"
            )
        if not values:
            return None
        found: str | None = getattr(values[0], "value", None)
        return str(values[0]) if found is None else found

    def number(self, predicate: NamedNode) -> int | None:
        lexical = self.one(predicate)
        if lexical is None:
            return None
        if not lexical.isdecimal():
            raise IntegrityError(
                f"session {self.session_id!r} has {lexical!r} for {predicate.value}, not a number from 0"
            )
        return int(lexical)

    def session_ref(self, predicate: NamedNode) -> str | None:
        iri = self.one(predicate)
        return None if iri is None else iris.session_id(iri)

    def moment(self, predicate: NamedNode) -> datetime | None:
        lexical = self.one(predicate)
        return None if lexical is None else parse_time(lexical)

    def meta(self) -> dict[str, Any]:
        return {
            key: meta_value(values[0])
            for predicate, values in sorted(self.properties.items())
            if (key := iris.meta_key(predicate)) is not None and isinstance(values[0], Literal)
        }


def _record(session_id: str, properties: Mapping[str, list[Term]]) -> SessionRecord:
    row = _RowReader(session_id, properties)
    one = row.one
    parent, forked_at = row.session_ref(v.PARENT_SESSION), row.number(v.FORKED_AT_INDEX)
    if (parent is None) != (forked_at is None):
        raise IntegrityError(
            f"session {session_id!r} has {'no parent' if parent is None else 'a parent'} and "
            f"{'no fork index' if forked_at is None else 'a fork index'}: its row was altered; restore it from an export"
        )
    return SessionRecord(
        id=session_id,
        parent_session_id=parent,
        forked_at_index=forked_at,
        fork_head=one(v.FORK_HEAD),
        forked_by=one(v.FORKED_BY),
        spawned_by=row.session_ref(v.SPAWNED_BY),
        branch=one(v.BRANCH) or MAIN,
        principal=iris.author_name(one(v.ATTRIBUTED_TO) or iris.principal(DEFAULT_PRINCIPAL)),
        agent=iris.author_name(one(v.SESSION_AGENT) or iris.agent(DEFAULT_AGENT)),
        kind=one(v.KIND),
        state=one(v.STATE) or "active",
        created=row.moment(v.TIME),
        label=one(v.LABEL),
        key=one(v.KEY),
        system_version=row.number(v.SYSTEM_VERSION) or 0,
        source_session=one(v.SOURCE_SESSION),
        channel=one(v.CHANNEL),
        slot=one(v.SLOT),
        tier=one(v.TIER),
        expires=row.moment(v.EXPIRES_AT),
        ends_by=row.moment(v.ENDS_BY),
        meta_json=validation.meta(row.meta()),
    )


def prompt_quads(prompt: SystemPrompt) -> list[Quad]:
    """Return the quads of one version of a system prompt, in the catalog."""
    session_iri = iris.session(prompt.session_id)
    node = NamedNode(iris.system_prompt(session_iri, prompt.version))
    rows: list[Row] = [
        (node, v.TYPE, v.SYSTEM_PROMPT),
        (node, v.PROMPT_OF, NamedNode(session_iri)),
        (node, v.VERSION, v.integer(prompt.version)),
        (node, v.EFFECTIVE_FROM, v.integer(prompt.effective_from)),
        (node, v.VALUE, Literal("", datatype=v.REDACTED) if prompt.redacted else Literal(prompt.text)),
        (node, v.DIGEST, Literal(prompt.digest)),
        (node, v.SALT, Literal(prompt.salt)),
    ]
    if prompt.time is not None:
        rows.append((node, v.TIME, time_literal(prompt.time)))
    if prompt.by_iri is None:
        return [Quad(s, p, o, v.CATALOG) for s, p, o in rows]
    rows.append((node, v.ATTRIBUTED_TO, known_node(prompt.by_iri)))
    return [*(Quad(s, p, o, v.CATALOG) for s, p, o in rows), author_type(prompt.by_iri)]


class FormerSession(NamedTuple):
    """What a deleted session was when it was deleted, and the log of its store just before."""

    session_id: str
    turns: int
    """How many turns it owned."""
    head: str | None
    """The digest of the last turn of its transcript; None where it had none."""
    log_size: int
    """How many leaves the log had."""
    root: bytes
    """The root of the Merkle tree over them."""


def former_quads(former: FormerSession) -> list[Quad]:
    """Return what the Deletion of a session says of it."""
    node = NamedNode(iris.deletion(iris.session(former.session_id)))
    rows: list[tuple[NamedNode, Literal]] = [
        (v.DELETED_TURNS, v.integer(former.turns)),
        (v.DELETED_AT_LOG_SIZE, v.integer(former.log_size)),
        (v.DELETED_AT_ROOT, Literal(base64.b64encode(former.root).decode())),
    ]
    if former.head is not None:
        rows.append((v.DELETED_HEAD, Literal(former.head)))
    return [Quad(node, predicate, term, v.CATALOG) for predicate, term in rows]


def tombstone_quads(session_id: str, deed: Deed) -> list[Quad]:
    """Return what stays of a deleted session: a tombstone, and the Deletion activity that says who, when and why."""
    session_iri = iris.session(session_id)
    node, deletion = NamedNode(session_iri), NamedNode(iris.deletion(session_iri))
    rows: list[Row] = [
        (node, v.TYPE, v.TOMBSTONE),
        (node, v.DELETED_AT, time_literal(deed.time)),
        (node, v.INVALIDATED_BY, deletion),
        (deletion, v.TYPE, v.DELETION),
    ]
    return [*(Quad(s, p, o, v.CATALOG) for s, p, o in rows), *deed_quads(deletion, deed)]


@lru_cache(maxsize=4096)
def tool_quads(tool_iri: str) -> tuple[Quad, ...]:
    """Return what the catalog says of a tool: that it is one, its name, and its server and version where its IRI has them."""
    node = NamedNode(tool_iri)
    name, server, version = iris.tool_parts(tool_iri)
    told = ((v.TOOL_NAME, name), (v.TOOL_SERVER, server), (v.TOOL_VERSION, version))
    return (
        Quad(node, v.TYPE, v.TOOL, v.CATALOG),
        *(Quad(node, predicate, Literal(text), v.CATALOG) for predicate, text in told if text is not None),
    )


def tools_named_in(quads: Iterable[Quad]) -> list[Quad]:
    """Return what the catalog says of the tools that quads name."""
    named = {node.value for quad in quads if isinstance(node := quad.object, NamedNode) and iris.is_tool(node.value)}
    return [quad for iri in sorted(named) for quad in tool_quads(iri)]
