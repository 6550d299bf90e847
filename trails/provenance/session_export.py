"""Export the provenance of sessions as W3C PROV.

An export is a stream: a graph at a time, a subject at a time. The catalog's statements are the document's own, and each graph
is a bundle under its own name: a session's turns are in the bundle of its session, inherited ones in that of the ancestor
that owns them, up to the fork point. Texts, salts and JSON stay in the store.
"""

from __future__ import annotations

import io
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from pyoxigraph import NamedNode, Quad, Triple

from trails.errors import InvalidInput
from trails.history import record_registry
from trails.history.export_records import recorded_file
from trails.history.lookup import names
from trails.history.lookup import session_quads as session_bundle
from trails.history.removal import redaction
from trails.history.workspace import Workspace
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import SessionRecord
from trails.provenance.constraints import OpenStore
from trails.provenance.document_import import read_document
from trails.provenance.drawing import draw_mermaid, draw_png, draw_svg, picture
from trails.provenance.rdf_mapping import (
    BARE_CLASSES,
    PROV,
    RDF_NAMES,
    Terms,
    fact_of,
    join_times,
    statements_of,
    trails_terms,
)
from trails.provenance.serializations import write_prov
from trails.provenance.statements import (
    INTERNATIONALIZED,
    KINDS,
    RECORDED,
    ROLE,
    TYPE,
    UNATTRIBUTED,
    Attribute,
    Statement,
    Value,
    derived_evidence,
    imported_evidence,
    name_value,
)
from trails.rdf import query_files, vocab
from trails.rdf.session_records import tool_quads
from trails.store import tsv
from trails.store.contract import QuadStore

if TYPE_CHECKING:
    from prov.model import ProvDocument

_LEADING: Final = {
    f"<{iri.value}>": place
    for place, iri in enumerate(
        (
            *(vocab.TYPE, vocab.ATTRIBUTED_TO, vocab.GENERATED_BY, vocab.ASSOCIATED_WITH, vocab.TIME),
            *(vocab.INDEX, vocab.ROLE, vocab.DIGEST, vocab.MODEL),
        )
    )
}
"""The properties that come first in what is written of a turn or a call, in this order."""
_OF_GRAPHS: Final = (
    *("derived_tool_informed_by_model", "derived_tool_times", "derived_tool_ran", "derived_tool_approved"),
    *("derived_tool_refused", "derived_turn_in_run", "derived_redacted_content", "derived_spawned_for_spawner"),
    *("derived_result_by_agent", "derived_file_generated", "derived_file_revision"),
)
_ROLES: Final = {"derived_tool_approved": "approver", "derived_tool_refused": "refuser", "derived_tool_ran": "tool"}
"""In which role, by the rule that says so, somebody is associated with an activity."""
_OF_TIMES: Final = ("wasStartedBy", "wasEndedBy")
"""The statements that say the derived times of an activity."""
_OF_SESSIONS: Final = ("derived_agent_for_principal", "derived_child_for_requester")
_DROPPED: Final = frozenset(
    term.value for term in (vocab.VALUE, vocab.SALT, vocab.LEAF_SALT, vocab.ROW_SALT, vocab.TASK_SALT, vocab.BRANCH)
) | frozenset(term.value for term in (vocab.ARGUMENTS, vocab.USAGE, vocab.META, vocab.REQUEST))
"""What the queries of this export leave out, for facts that are read without them."""

Row = Sequence[str]
Sources = Mapping[str, tuple[Attribute, ...]]
"""What imported turns rest on, by turn."""


class ExportPart(NamedTuple):
    """The statements of one bundle, to be read once: None names the document's own."""

    name: str | None
    statements: Iterable[Statement]


@dataclass(frozen=True, slots=True)
class ExportScope:
    """What of a store is to be written: one session with its ancestors, one turn of it, or everything."""

    session: SessionRecord | None = None
    turn: int | None = None
    recorded_only: bool = False


@decodes
def export_parts(workspace: Workspace, wanted: ExportScope) -> Iterator[ExportPart]:
    """Yield the bundles of what is wanted, the document's own statements first; each is read while it is written."""
    store = workspace.store
    if wanted.session is None:
        yield ExportPart(None, _catalog(store, wanted))
        for row in store.rows(query_files.find("graphs").text):
            graph = tsv.iri(row[0])
            if record_registry.owner_of(graph) is not None:
                continue  # a document of others: not what was recorded here
            yield ExportPart(graph, _graph(store, graph, None, wanted))
        return
    chain = workspace.reader.lineage(wanted.session.id)[::-1]
    yield ExportPart(None, _rows_of(store, chain, wanted))
    # a fork may begin below what its parent owns itself: the lowest start that follows is where an ancestor's part ends
    starts = [child.starts_at for child in chain[1:]]
    ends = [*[min(starts[place:]) for place in range(len(starts))], None]
    for record, end in zip(chain, ends, strict=True):
        yield ExportPart(record.iri, _graph(store, record.iri, end, wanted))
        if end is None:
            for beside in record_registry.kind_graphs(record.iri):
                if store.quads((None, None, None, beside)):
                    yield ExportPart(beside.value, _graph(store, beside.value, None, wanted))


def session_family(workspace: Workspace, session_id: str, *, recorded_only: bool) -> Iterator[Statement]:
    """Yield what the catalog says of all sessions of the fork tree that a session belongs to."""
    reader = workspace.reader
    tree = [reader.lineage(session_id)[-1]]
    for record in tree:
        tree += reader.branches(record.id)
    yield from _rows_of(workspace.store, tree, ExportScope(recorded_only=recorded_only))


# --- one graph


def _graph(store: QuadStore, graph: str, end: int | None, wanted: ExportScope) -> Iterator[Statement]:
    """Yield a graph's statements: of turns below `end`, of the one turn that is wanted, and of all that is no turn's."""
    keep = _keeper(end, wanted.turn)
    sources = _sources(store, graph)
    rows = _by_subject(store, query_files.find("prov_facts").bind(graph=graph), _LEADING)
    yield from _export_statements(rows, sources, keep)
    if not wanted.recorded_only:
        yield from _derived(store, _OF_GRAPHS, keep, graph=graph)


def _sources(store: QuadStore, graph: str) -> Sources:
    """Return what imported turns of a graph rest on: the records of their source, and the files that the session is from."""
    files = [quad.object for quad in store.quads((NamedNode(graph), vocab.DERIVED_FROM, None, vocab.CATALOG))]
    named = [each.value for each in files if isinstance(each, NamedNode) and iris.file_digest(each.value) is not None]
    rows = store.table(query_files.find("prov_sources").bind(graph=graph))
    return {turn: imported_evidence(tsv.string(source), sorted(named)) for turn, source in rows}


def _by_subject(store: QuadStore, query: str, leading: Mapping[str, int] = MappingProxyType({})) -> Iterator[Row]:
    """Yield the rows of a query, sorted, those of leading properties first in a subject.

    An engine gives rows in any order. SQLite sorts them in bounded memory.
    """
    rows = ((*row, leading.get(row[1], len(leading))) for row in store.rows(query))
    with closing(sqlite3.connect("", check_same_thread=False)) as db:
        db.execute("CREATE TABLE fact (subject, predicate, value, place)")
        db.executemany("INSERT INTO fact VALUES (?, ?, ?, ?)", rows)
        yield from db.execute("SELECT subject, predicate, value FROM fact ORDER BY subject, place, predicate, value")


def _keeper(end: int | None, turn: int | None) -> Callable[[str], bool]:
    if end is None and turn is None:
        return lambda subject: True

    def keep(subject: str) -> bool:
        index = _turn_index(subject)
        return index is None or ((end is None or index < end) and (turn is None or index == turn))

    return keep


def _turn_index(subject: str) -> int | None:
    """Return the index of the turn that an IRI is of or belongs to; None if it is no turn's."""
    number = subject.partition("/")[2].partition("-")[0]
    return int(number) if number.isascii() and number.isdecimal() else None


def _derived(store: QuadStore, rules: Iterable[str], keep: Callable[[str], bool], **bound: str) -> Iterator[Statement]:
    for rule in rules:
        role = ((ROLE, Value(_ROLES[rule])),) if rule in _ROLES else ()
        triples = store.query(query_files.find(rule).bind(**bound))
        for statement in _constructed(triples, (*role, *derived_evidence(rule))):  # type: ignore[arg-type] # a CONSTRUCT
            if keep(str(statement.arguments[0] if statement.arguments else statement.id)):
                yield statement


def _constructed(triples: Sequence[Triple], evidence: tuple[Attribute, ...]) -> Iterator[Statement]:
    """Yield what constructed triples say. A time is a start's or an end's: the activity itself is recorded."""
    facts: dict[str, list[tuple[str, str | Value]]] = defaultdict(list)
    for triple in triples:
        facts[triple.predicate.value].append(fact_of(triple))
    for each in statements_of(facts):
        times = each.arguments if each.kind == "activity" else ()
        for kind, time in zip(_OF_TIMES, times, strict=False):
            if time is not None:
                yield Statement(kind, None, (each.id, None, None, time), evidence)
        if not any(times):
            subtype = each.attributes if each.kind == "wasDerivedFrom" else ()
            yield each if each.kind in UNATTRIBUTED else each._replace(attributes=(*subtype, *evidence))


# --- the catalog


def _catalog(store: QuadStore, wanted: ExportScope) -> Iterator[Statement]:
    yield from _export_statements(_by_subject(store, query_files.find("prov_catalog").text), {}, lambda subject: True)
    if not wanted.recorded_only:
        sessions = store.quads((None, vocab.TYPE, vocab.SESSION, vocab.CATALOG))
        for quad in sessions:
            yield from _derived(store, _OF_SESSIONS, lambda subject: True, session=str(quad.subject)[1:-1])


def _rows_of(store: QuadStore, chain: Iterable[SessionRecord], wanted: ExportScope) -> Iterator[Statement]:
    quads: dict[Quad, None] = {}
    for record in chain:
        quads.update(dict.fromkeys(_said_of(store, record)))
    kept = [quad for quad in quads if quad.graph_name == vocab.CATALOG and quad.predicate.value not in _DROPPED]
    rows = ([str(quad.subject), str(quad.predicate), str(quad.object)] for quad in sorted(kept, key=str))
    yield from _export_statements(rows, {}, lambda subject: True)
    if not wanted.recorded_only:
        for record in chain:
            yield from _derived(store, _OF_SESSIONS, lambda subject: True, session=record.iri)


def _said_of(store: QuadStore, record: SessionRecord) -> Iterator[Quad]:
    """Yield what the catalog says of a session and of whom it names."""
    node = NamedNode(record.iri)
    yield from session_bundle.session_row(store, node)
    yield from redaction.redactions_of_session(store, node)
    for kind in record_registry.KINDS:
        yield from kind.exported(store, node)
    for quad in store.quads((None, vocab.DELETED_TURN, None, vocab.CATALOG)):
        if str(quad.object).startswith(f"<{record.iri}/") and isinstance(quad.subject, NamedNode):
            yield from store.quads((quad.subject, None, None, vocab.CATALOG))
    for who in (iris.principal(record.principal), iris.agent(record.agent)):
        yield from store.quads((NamedNode(who), vocab.TYPE, None, vocab.CATALOG))
    for (tool,) in store.table(query_files.find("prov_tools").bind(graph=record.iri)):
        yield from tool_quads(tsv.iri(tool))


# --- facts of one subject


def _export_statements(rows: Iterable[Row], sources: Sources, keep: Callable[[str], bool]) -> Iterator[Statement]:
    """Yield the statements of rows that come subject after subject."""
    terms = trails_terms()
    for subject, about in groupby(rows, itemgetter(0)):
        if keep(subject):
            yield from _subject(subject, about, sources, terms)


def _subject(term: str, rows: Iterable[Row], sources: Sources, terms: Terms) -> list[Statement]:
    """Return the statements of one subject: what it is, with its attributes, then its relations."""
    subject = term[1:-1]
    evidence = _evidence(term, sources) if sources else RECORDED
    kinds_: dict[str, None] = {}
    attributes: list[Attribute] = []
    relations: list[Statement] = []
    times: dict[tuple[str, int], str] = {}
    for _, predicate, value in rows:
        name = predicate[1:-1]
        if name == vocab.TYPE.value:
            kinds_.update(dict.fromkeys(terms.classes.get(value[1:-1], ())))
            if value[1:-1] not in BARE_CLASSES:
                attributes.append((TYPE, _value(value)))
        elif (relation := terms.relations.get(name)) and relation.kind != "mentionOf":
            arguments: list[str | None] = [None] * len(KINDS[relation.kind].places)
            arguments[relation.subject], arguments[relation.object] = subject, value[1:-1]
            said = () if relation.kind in UNATTRIBUTED else _relation_type(name, relation.subtype) + evidence
            relations.append(Statement(relation.kind, None, tuple(arguments), said))
        elif time := terms.times.get(name):
            times[time.kind, time.place] = tsv.date_time(value) or ""
        else:
            attributes.append((RDF_NAMES.get(name, name), _value(value)))
    activity = (times.get(("activity", 0)), times.get(("activity", 1)))
    if any(activity):
        kinds_["activity"] = None
    for (kind, _), stated in times.items():
        if kind != "activity":
            join_times(relations, kind, {subject: stated}, evidence)
    attributes += evidence
    elements = [Statement(kind, subject, activity if kind == "activity" else (), tuple(attributes)) for kind in kinds_]
    return [*elements, *relations]


@cache
def _relation_type(iri: str, subtype: str | None) -> tuple[Attribute, ...]:
    """Return what a relation's property says beyond its kind: PROV's subtype, or a property of Trails itself."""
    if subtype is not None:
        return ((TYPE, name_value(PROV + subtype)),)
    return ((TYPE, name_value(iri)),) if iri.startswith(vocab.TRAILS) else ()


def _evidence(term: str, sources: Sources) -> tuple[Attribute, ...]:
    turn = term if term in sources else f"<{iris.turn_of(term[1:-1])}>" if "/" in term else term
    return sources.get(turn, RECORDED)


def _value(term: str) -> Value:
    if term[0] == "<":
        return name_value(term[1:-1])
    text, datatype, language = tsv.literal(term)
    return Value(text, INTERNATIONALIZED, language) if language else Value(text, datatype)


PICTURES: Final = {"svg": draw_svg, "png": draw_png, "mermaid": draw_mermaid}


def export(
    store: OpenStore,
    out: BinaryIO,
    *,
    format: str,  # noqa: A002 - the public name
    session: str | None = None,
    turn: int | None = None,
    recorded_only: bool = False,
) -> None:
    """Write what a store holds in PROV to a binary file, as a stream: memory stays flat, however much it is.

    `session` names one session by its id, IRI or label, and its ancestors come with it as far as it inherits them; the IRI
    of a turn names that turn of its session, as `turn`, an index from 0, does. Without a session, everything is written.
    The IRI of a PROV document that was brought in names that, which is written as what it says, and no more.
    `format` is provn, json, jsonld, xml, turtle or trig. Each statement says what it rests on (`trails:evidence`): that it
    was recorded, imported (`trails:evidenceSource` names the record of the source), or derived by a rule
    (`trails:evidenceRule`); with `recorded_only`, what is only derived is left out. Texts, arguments, usage and salts
    stay in the store.

    Raises `SessionNotFound` for a session that is not there, and `InvalidInput` for a turn that it does not have and for
    a format that cannot be written.

    >>> import io, trails
    >>> with trails.open(":memory:") as store:
    ...     s = store.create(id="s", principal="alice", agent="planner")
    ...     _ = (s.append("user", "Plan a trip"), s.persist())
    ...     out = io.BytesIO()
    ...     export(store, out, format="provn", session="s")
    >>> b"bundle session:s" in out.getvalue()
    True
    """
    if session is not None and session.startswith(iris.document("")) and turn is None:
        document = read_document(store, session)
        write_prov([(each.name, each.statements) for each in document.bundles], format, out, document.prefixes)
        return
    wanted = _scope_of(store.workspace, session, turn, recorded_only=recorded_only)
    read = None if wanted.session is None else [wanted.session.id]
    with recorded_file(store.workspace, read, f"prov-{format}", out) as file:
        write_prov(export_parts(store.workspace, wanted), format, file)


def _scope_of(workspace: Workspace, session: str | None, turn: int | None, *, recorded_only: bool) -> ExportScope:
    if session is None:
        if turn is not None:
            raise InvalidInput(f"turn {turn} of which session? Name one")
        return ExportScope(recorded_only=recorded_only)
    if session.startswith("urn:trails:session:") and "/" in session:
        turn, session = iris.turn_index(session), session.partition("/")[0]
    record = names.find_record(workspace, session)
    if turn is not None:
        chain = workspace.reader.lineage(record.id)
        length = len(workspace.reader.turns(chain))
        if not 0 <= turn < length:
            raise InvalidInput(f"session {record.id!r} has no turn {turn}; it has {length}, counted from 0")
    return ExportScope(record, turn, recorded_only)


def draw(
    store: OpenStore,
    *,
    format: str,  # noqa: A002 - the public name
    session: str | None = None,
    turn: int | None = None,
    forks: bool = False,
    recorded_only: bool = False,
) -> bytes:
    """Return a picture of what a store holds in PROV: of a session, of a turn, of everything, or of a tree of forks.

    `format` is svg, png (which needs the extra `plot`) or mermaid; the other arguments are those of `export`. With
    `forks`, it is the fork tree that `session` belongs to: its sessions and whom they belong to, without turns. What is
    only derived is drawn dashed. The same facts give the same bytes; past 200 nodes, a note says how many are left out.

    Raises as `export` does.
    """
    if format not in PICTURES:
        raise InvalidInput(f"{format!r} is no format of pictures; there are: {', '.join(PICTURES)}")
    if forks:
        if session is None or turn is not None:
            raise InvalidInput("forks of which session? Name one, and no turn")
        statements = session_family(
            store.workspace, names.resolve_name(store.workspace, session), recorded_only=recorded_only
        )
    else:
        wanted = _scope_of(store.workspace, session, turn, recorded_only=recorded_only)
        statements = (each for part in export_parts(store.workspace, wanted) for each in part.statements)
    shown = picture(statements)
    return PICTURES[format](shown)


def export_document(store: OpenStore, session: str, *, recorded_only: bool = False) -> ProvDocument:
    """Return what a store holds of a session as a document of the package `prov`, in memory; arguments as in `export`."""
    from prov.model import ProvDocument  # noqa: PLC0415 - it takes long to import, and is needed only here

    out = io.BytesIO()
    export(store, out, format="jsonld", session=session, recorded_only=recorded_only)
    return ProvDocument.deserialize(content=out.getvalue(), format="jsonld")
