"""Encode activities, source files and imported PROV documents as quads of the catalog, and decode them; name their actors.

An activity says who did something to a session, when, why and by which rule; it is logged with that session's row. The
actor is whoever the caller names, else the actor of the process, else `UNKNOWN_ACTOR`; the owner of the data is never
assumed. What falls due by a rule and nobody asked for (a sweep, a tick) is done by `STORE_KEEPER`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import IntegrityError, InvalidInput
from trails.model import iris, validation
from trails.model.validation import decodes
from trails.model.values import Value
from trails.rdf import vocab as v
from trails.rdf.codec import IRI, SESSION, TEXTS, Codec, Kept, Node, Table, known_node, time_literal


class Deed(NamedTuple):
    """That somebody did something."""

    by_iri: str
    time: datetime
    reason: str | None = None
    """Why, in the words of whoever did it."""
    rule: str | None = None
    """The rule by which it fell due, where one did."""


def deed_quads(node: NamedNode, deed: Deed) -> list[Quad]:
    """Return what the catalog says of an activity: who, when, why; and what the one who did it is."""
    who = known_node(deed.by_iri)
    rows: list[tuple[NamedNode, NamedNode | Literal]] = [
        (v.ENDED_AT, time_literal(deed.time)),
        (v.ASSOCIATED_WITH, who),
    ]
    if deed.reason is not None:
        rows.append((v.REASON, Literal(deed.reason)))
    if deed.rule is not None:
        rows.append((v.RULE, Literal(deed.rule)))
    return [*(Quad(node, predicate, term, v.CATALOG) for predicate, term in rows), author_type(deed.by_iri)]


def author_type(author_iri: str) -> Quad:
    """Return the quad that says what an author is."""
    kind = v.TOOL if iris.is_tool(author_iri) else v.AGENT if iris.is_agent(author_iri) else v.PRINCIPAL
    return Quad(known_node(author_iri), v.TYPE, kind, v.CATALOG)


_SESSIONS: Final = Codec(lambda session_id: NamedNode(iris.session(session_id)), iris.session_id, order=str)
_IRIS: Final = Codec(NamedNode, order=str)


MOVED: Final = frozenset({"push", "pull"})
"""What stands in the place of a format where a session came from another store of Trails."""
EXACT: Final = frozenset({"nquads", "trig"}) | MOVED
"""The formats in which the very sessions come in that were exported, and not what another system tells of them."""


class Activity(Value):
    """Something that was done to a session: `token` tells it from the others."""

    session_id: Annotated[str, Kept(v.DONE_TO, SESSION)]
    token: str
    by_iri: Annotated[str, Kept(v.ASSOCIATED_WITH, IRI)]
    time: Annotated[datetime, Kept(v.ENDED_AT)]

    @property
    def iri(self) -> str:
        """The act's IRI."""
        return iris.act(iris.session(self.session_id), self.token)


class Copying(Activity):
    """Turns of other sessions, or those that a fork inherited, came to stand in a session of its own."""

    action: Annotated[str, Kept(v.ACTION)]
    """`detach`, `flatten`, `squash` or `cherry-pick`; `rerun` where a rerun played them; `push` or `pull` where another store's
    tail became a fork."""
    used: Annotated[tuple[str, ...], Kept(v.USED, _SESSIONS)] = ()
    """The ids of the sessions whose turns were copied, in order."""
    was_fork_of: Annotated[str | None, Kept(v.WAS_FORK_OF, SESSION)] = None
    """The id of the session that a detached one was a fork of until then."""
    was_forked_at: Annotated[int | None, Kept(v.WAS_FORKED_AT)] = None
    """At which index."""


class Alteration(Activity):
    """Something that is said of a session became something else: its label, or a field of its entry (as JSON text)."""

    field: Annotated[str, Kept(v.ALTERED_FIELD)]
    old: Annotated[str | None, Kept(v.OLD_VALUE)] = None
    new: Annotated[str | None, Kept(v.NEW_VALUE)] = None


class Reading(Activity):
    """What a session holds was read whole, as far as it went then, and given out: exported, or audited."""

    action: Annotated[str, Kept(v.ACTION)]
    """`export` or `audit`."""
    used: Annotated[tuple[str, ...], Kept(v.USED, _SESSIONS)] = ()
    """The ids of the sessions that were read: itself, and those that it inherits turns from."""
    read_from: Annotated[int | None, Kept(v.READ_FROM)] = None
    """The index of the first turn that was read, 0; None where there was none."""
    read_through: Annotated[int | None, Kept(v.READ_THROUGH)] = None
    """The index of the last one, inclusive."""


class Rerunning(Activity):
    """An agent ran again over the record of a session, and the fork that this was done to is what came of it."""

    started: Annotated[datetime, Kept(v.STARTED_AT)]
    used: Annotated[tuple[str, ...], Kept(v.USED, _SESSIONS)]
    """The id of the session whose record was played."""
    outcome: Annotated[str, Kept(v.RERUN_OUTCOME)]
    """`finished`, `stopped` (by something that was not recorded) or `failed` (by an error of the agent)."""
    agreed: Annotated[int, Kept(v.AGREED_TURNS)]
    """How many turns of the record the run said again: the fork shares them."""
    left_at: Annotated[int | None, Kept(v.LEFT_RECORD_AT)] = None
    """The index of the first turn of the record that the run did not say; None where it said all."""
    played: Annotated[int, Kept(v.PLAYED_ANSWERS)] = 0
    """How many answers of models and tools were the record's."""
    live: Annotated[int, Kept(v.LIVE_ANSWERS)] = 0
    """How many were called for."""


class Import(Activity):
    """A session, or more of one, came in from a file: `token` counts the imports of the session, from 1, unless `is_exact`."""

    started: Annotated[datetime, Kept(v.STARTED_AT)]
    importer: Annotated[str, Kept(v.IMPORTER)]
    """The format by which it was read."""
    version: Annotated[str, Kept(v.IMPORTER_VERSION)]
    """The version of Trails that read it."""
    refused_lines: Annotated[int, Kept(v.REFUSED_LINES)] = 0
    """How many lines of what was read with it could not be used."""
    files: Annotated[tuple[str, ...], Kept(v.USED, _IRIS)] = ()
    """The IRIs of the files that it came from, in order."""
    read_as: Annotated[tuple[str, ...], Kept(v.FILE_NAME, TEXTS)] = ()
    """The names of those files that were read before under another name."""
    origin: Annotated[str | None, Kept(v.ORIGIN)] = None
    """Where the session stands in the log of the store that it was pushed or pulled from, as JSON:
    `trails.exchange.remotes.push_plan` reads it."""

    @property
    def iri(self) -> str:
        """The import's IRI."""
        session_iri = iris.session(self.session_id)
        return iris.act(session_iri, self.token) if self.is_exact else iris.session_import(session_iri, int(self.token))

    @property
    def is_exact(self) -> bool:
        """Whether the very session came in that was exported: that it did is this store's affair, and in no export."""
        return self.importer in EXACT


class SourceFile(Value):
    """A file that a session came from: what its bytes are, and what it was called when they were read first."""

    sha256: Annotated[str, Kept(v.SHA256)]
    """The digest of its bytes, in hex."""
    size: Annotated[int, Kept(v.FILE_SIZE)]
    """How many there are."""
    name: Annotated[str | None, Kept(v.FILE_NAME)] = None
    """None for what has no name, as standard input."""

    @property
    def iri(self) -> str:
        """The file's IRI, by its bytes."""
        return iris.source_file(self.sha256)


_CLASSES: Final[Mapping[NamedNode, type[Activity]]] = {
    v.COPYING: Copying,
    v.ALTERATION: Alteration,
    v.IMPORT: Import,
    v.READING: Reading,
    v.RERUNNING: Rerunning,
}
_TABLES: Final = {made: Table.of(made, each, v.ACTIVITY) for each, made in _CLASSES.items()}
_FILES: Final = Table.of(SourceFile, v.SOURCE_FILE, v.ENTITY)
ACTIVITY_TYPES: Final = frozenset(_CLASSES)


def activity_quads(act: Activity) -> list[Quad]:
    """Return the quads of an act, with what the one who did it is."""
    return [*_TABLES[type(act)].quads(act, NamedNode(act.iri), v.CATALOG), author_type(act.by_iri)]


def _properties(quads: Iterable[Quad]) -> dict[NamedNode, list[Node]]:
    properties: dict[NamedNode, list[Node]] = defaultdict(list)
    for quad in quads:
        if isinstance(quad.object, Node):
            properties[quad.predicate].append(quad.object)
    return properties


_Read = TypeVar("_Read", Activity, SourceFile, "ImportedDocument")


def _decoded(kind: type[_Read], subject: str, values: Mapping[str, Any]) -> _Read:
    try:
        found = kind.model_validate(values)
    except ValueError as error:
        raise IntegrityError(f"<{subject}> cannot be read ({error}): the store was altered") from error
    if found.iri != subject:
        raise IntegrityError(f"<{subject}> is not the IRI of what it says: the store was altered; restore a backup")
    return found


@decodes
def activity_of(subject: str, quads: Iterable[Quad]) -> Activity:
    """Return the activity that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    properties = _properties(quads)
    kind = next((_CLASSES[each] for each in properties[v.TYPE] if each in _CLASSES), None)  # type: ignore[index] # IRIs
    number = iris.import_number(subject)
    token = iris.act_token(subject) if number is None else str(number)
    if kind is None or token is None:
        raise IntegrityError(f"<{subject}> is no act: the store was altered; restore it from a backup")
    return _decoded(kind, subject, _TABLES[kind].values(properties) | {"token": token})


def file_quads(file: SourceFile) -> list[Quad]:
    """Return the quads of a file that was read."""
    return _FILES.quads(file, NamedNode(file.iri), v.CATALOG)


@decodes
def file_of(subject: str, quads: Iterable[Quad]) -> SourceFile:
    """Return the file that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    return _decoded(SourceFile, subject, _FILES.values(_properties(quads)))


class ImportedDocument(Value):
    """A PROV document that was brought into a store: what it is, who brought it and when, and the verdict on it."""

    sha256: Annotated[str, Kept(v.SHA256)]
    """The SHA-256 of the file, in 64 hex digits; the document's IRI is made of it."""
    size: Annotated[int, Kept(v.FILE_SIZE)]
    """Bytes of the file."""
    format: Annotated[str, Kept(v.PROV_FORMAT)]
    """What the file is: a name of `trails.provenance.serializations.FORMATS`."""
    statements: Annotated[int, Kept(v.STATEMENT_COUNT)]
    valid: Annotated[bool, Kept(v.IS_VALID)]
    """Whether it kept W3C's PROV-CONSTRAINTS when it was brought in."""
    broken: Annotated[tuple[str, ...], Kept(v.BROKEN_RULE, TEXTS)] = ()
    """The names of the constraints that it broke, where it was kept all the same."""
    name: Annotated[str | None, Kept(v.FILE_NAME)] = None
    """The file's name, without folders; None where there was none."""
    by_iri: Annotated[str, Kept(v.ATTRIBUTED_TO, IRI)]
    time: Annotated[datetime, Kept(v.TIME)]
    digest: Annotated[str, Kept(v.DIGEST)]
    """Over all quads that stand in the document's graphs."""
    leaf_salt: Annotated[str, Kept(v.LEAF_SALT)]

    @property
    def iri(self) -> str:
        """The document's IRI, which is that of the graph of its own statements too."""
        return iris.document(self.sha256)


_DOCUMENTS: Final = Table.of(ImportedDocument, v.PROV_DOCUMENT, v.ENTITY)


def document_quads(document: ImportedDocument) -> list[Quad]:
    """Return the quads of a document's record, with what the one who brought it is."""
    return [*_DOCUMENTS.quads(document, NamedNode(document.iri), v.CATALOG), author_type(document.by_iri)]


@decodes
def document_of(subject: str, quads: Iterable[Quad]) -> ImportedDocument:
    """Return the record that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    return _decoded(ImportedDocument, subject, _DOCUMENTS.values(_properties(quads)))


UNKNOWN_ACTOR: Final = iris.agent("unknown")
"""Who did what nobody is named for."""
STORE_KEEPER: Final = iris.agent("trails")
"""Who does what falls due by a rule, and nobody asked for just then."""
ACTOR_VARIABLE: Final = "TRAILS_ACTOR"
"""The variable of the environment that names the process's own actor, where the program does not."""


def named_actor(name: str | None, what: str = "author") -> str | None:
    """Return the IRI of somebody: a name is a principal's, `agent:NAME` an agent's, an IRI of ours is kept.

    A tool is no name of somebody: only as an author its IRI is taken.

    >>> named_actor("eve"), named_actor("agent:planner"), named_actor("urn:trails:agent:planner"), named_actor(None)
    ('urn:trails:principal:eve', 'urn:trails:agent:planner', 'urn:trails:agent:planner', None)
    """
    if name is None:
        return None
    plain = validation.name(name, what)
    if plain.startswith("urn:trails:"):
        if iris.is_tool(plain) and what == "author" and iris.is_of_author(plain):
            return plain
        author = validation.name(iris.author_name(plain), what)
        if plain not in (iris.principal(author), iris.agent(author)):
            raise InvalidInput(f"{what} {plain!r} is not the IRI of a principal or an agent")
        return plain
    if not plain.startswith("agent:"):
        return iris.principal(plain)
    return iris.agent(validation.name(plain.removeprefix("agent:"), what))


def process_actor(given: str | None) -> str | None:
    """Return the IRI of the process's own actor: as given, else as `TRAILS_ACTOR` says, else None."""
    if given is not None:
        return named_actor(given, "actor")
    return named_actor(os.environ.get(ACTOR_VARIABLE) or None, ACTOR_VARIABLE)


def actor_of(by: str | None, actor: str | None) -> str:
    """Return the IRI of who does something, given who is named for it and the IRI of the process's own actor."""
    return named_actor(by, "by") or actor or UNKNOWN_ACTOR
