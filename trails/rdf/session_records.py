"""Encode session rows, system prompts, tombstones and tools as quads of the catalog, and decode them.

The catalog repeats what a tool's IRI says, so that queries need not parse it.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import IntegrityError
from trails.model import iris, validation
from trails.model.validation import decodes
from trails.model.values import SessionRecord, SystemPrompt
from trails.rdf import vocab as v
from trails.rdf.activity_records import Deed, author_type, deed_quads
from trails.rdf.codec import (
    IRI,
    SESSION,
    TIME,
    Codec,
    Kept,
    Properties,
    Row,
    Table,
    Term,
    known_node,
    meta_literal,
    meta_value,
    short_literal,
    time_literal,
)

DEFAULT_PRINCIPAL: Final = "anonymous"
DEFAULT_AGENT: Final = "agent"


def _count(text: str) -> int:
    if not text.isdecimal():
        raise IntegrityError(f"{text!r} is stored as a number, and is no number from 0")
    return int(text)


_COUNT: Final = Codec(v.integer, _count)


def row_names(record: SessionRecord) -> tuple[Quad, Quad]:
    """Return what a session's row says of its principal and of its agent."""
    node = NamedNode(record.iri)
    return (
        Quad(node, v.ATTRIBUTED_TO, known_node(iris.principal(record.principal)), v.CATALOG),
        Quad(node, v.SESSION_AGENT, known_node(iris.agent(record.agent)), v.CATALOG),
    )


_SESSION: Final = Table(
    (v.SESSION,),
    (
        ("branch", Kept(v.BRANCH)),
        ("principal", Kept(v.ATTRIBUTED_TO, Codec(lambda name: known_node(iris.principal(name)), iris.author_name))),
        ("agent", Kept(v.SESSION_AGENT, Codec(lambda name: known_node(iris.agent(name)), iris.author_name))),
        ("state", Kept(v.STATE, Codec(short_literal))),
        ("parent_session_id", Kept(v.PARENT_SESSION, SESSION)),
        ("forked_at_index", Kept(v.FORKED_AT_INDEX, _COUNT)),
        ("fork_head", Kept(v.FORK_HEAD, when=lambda record: record.parent_session_id is not None)),
        ("forked_by", Kept(v.FORKED_BY, IRI)),
        ("spawned_by", Kept(v.SPAWNED_BY, SESSION)),
        ("created", Kept(v.TIME, TIME)),
        ("system_version", Kept(v.SYSTEM_VERSION, _COUNT, when=lambda record: record.system_version > 0)),
        ("expires", Kept(v.EXPIRES_AT, TIME)),
        ("ends_by", Kept(v.ENDS_BY, TIME)),
        ("kind", Kept(v.KIND)),
        ("label", Kept(v.LABEL)),
        ("key", Kept(v.KEY)),
        ("source_session", Kept(v.SOURCE_SESSION)),
        ("channel", Kept(v.CHANNEL)),
        ("slot", Kept(v.SLOT)),
        ("tier", Kept(v.TIER)),
        ("request_key", Kept(v.REQUEST_KEY)),
        ("request_digest", Kept(v.REQUEST_DIGEST)),
        ("encryption", Kept(v.ENCRYPTION)),
    ),
)
_ABSENT: Final = {"principal": DEFAULT_PRINCIPAL, "agent": DEFAULT_AGENT}
"""What the rows of older versions lack."""


def session_quads(record: SessionRecord) -> list[Quad]:
    """Return a session's row in the catalog, with its principal and agent: at most 12 quads for a fork (design),
    beside its label, metadata and, where they are new, two quads that say what the principal and the agent are.
    """
    node = NamedNode(record.iri)
    named = [(iris.principal(record.principal), v.PRINCIPAL), (iris.agent(record.agent), v.AGENT)]
    made = _SESSION.quads(record, node, v.CATALOG)
    made += [Quad(known_node(name), v.TYPE, kind, v.CATALOG) for name, kind in named]
    made += [Quad(node, NamedNode(iris.meta(key)), meta_literal(each), v.CATALOG) for key, each in record.meta.items()]
    return made if record.forked_by is None else [*made, author_type(record.forked_by)]


@decodes
def decode_records(rows: Iterable[tuple[str, str, Term]]) -> dict[str, SessionRecord]:
    """Return session records by session id from (session IRI, predicate IRI, object) rows of the catalog.

    A subject without the type `trails:Session` is left out (a parent that is gone). Records from before forks existed
    have no parent, fork index or branch: they are roots on "main". Two parents raise `IntegrityError`.
    """
    subjects: dict[str, dict[NamedNode, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for subject, predicate, value in rows:
        subjects[subject][known_node(predicate)].append(value)
    return {
        iris.session_id(subject): _record(iris.session_id(subject), properties)
        for subject, properties in subjects.items()
        if v.SESSION in properties.get(v.TYPE, [])
    }


def _record(session_id: str, properties: Properties) -> SessionRecord:
    meta = {
        key: meta_value(values[0])
        for predicate, values in sorted(properties.items(), key=lambda each: each[0].value)
        if (key := iris.meta_key(predicate.value)) is not None and isinstance(values[0], Literal)
    }
    try:
        values = _SESSION.values(properties)
    except IntegrityError as error:
        raise IntegrityError(
            f"the row of session {session_id!r} is wrong: {error.message}; only one value is right: "
            "restore the session from an export or a backup, or remove the wrong ones"
        ) from error
    if ("parent_session_id" in values) != ("forked_at_index" in values):
        has_parent = "parent_session_id" in values
        raise IntegrityError(
            f"session {session_id!r} has {'a parent' if has_parent else 'no parent'} and "
            f"{'no fork index' if has_parent else 'a fork index'}: its row was altered; restore it from an export"
        )
    return SessionRecord(**_ABSENT | values, id=session_id, meta_json=validation.meta(meta))


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
