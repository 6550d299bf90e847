"""Collect all quads of a session for exports and views, and scan them for secrets.

The scan looks at every text of a graph, whatever it says of a session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.display.progress import Progress, moving
from trails.history import encryption, record_registry
from trails.history.lookup import names
from trails.history.records import payloads
from trails.history.removal import redaction
from trails.history.workspace import Workspace
from trails.model import iris, lineage
from trails.model.values import SessionRecord, Value
from trails.rdf import vocab
from trails.rdf.activity_records import author_type
from trails.rdf.codec import term_text
from trails.rdf.session_records import tools_named_in
from trails.secrets import Found, ScannedPlace, detector
from trails.secrets.hidden_texts import hidden_texts
from trails.store.contract import QuadStore


def session_quads(store: QuadStore, record: SessionRecord) -> list[Quad]:
    """Return all quads of one session.

    Its row, whom that names, its prompts and turns, who redacted what, and its records of every kind: tags, notes, its
    ledger, and for one with a key its entry, its moves and, while it is the key's current one, the conversation with its
    aliases.
    """
    node = NamedNode(record.iri)
    graph = store.quads((None, None, None, node))
    quads = [*session_row(store, node), *graph, *redaction.records_belonging(store, graph)]
    quads += redaction.redactions_of_session(store, node)
    quads += [quad for kind in record_registry.KINDS for quad in kind.exported(store, node)]
    for who, kind in ((iris.principal(record.principal), vocab.PRINCIPAL), (iris.agent(record.agent), vocab.AGENT)):
        quads += store.quads((NamedNode(who), vocab.TYPE, kind, vocab.CATALOG))
    named = {
        record.forked_by,
        *(term_text(q.object) for q in quads if q.predicate == vocab.ATTRIBUTED_TO and _is_of_prompt(q)),
    }
    quads += [author_type(each) for each in sorted(filter(None, named))]
    quads += tools_named_in(graph)
    return quads


def _is_of_prompt(quad: Quad) -> bool:
    return "/system/" in term_text(quad.subject) and quad.graph_name == vocab.CATALOG


def session_row(store: QuadStore, node: NamedNode) -> list[Quad]:
    """Return a session's row and its system prompts, without the salt of the row's newest leaf: that is the log's."""
    quads = [q for q in store.quads((node, None, None, vocab.CATALOG)) if q.predicate != vocab.ROW_SALT]
    for version in prompt_quads(store, node):
        quads += store.quads((version, None, None, vocab.CATALOG))
    return quads


def prompt_quads(store: QuadStore, node: NamedNode) -> list[NamedNode]:
    """Return the versions of a session's system prompt."""
    found = [quad.subject for quad in store.quads((None, vocab.PROMPT_OF, node, vocab.CATALOG))]
    return [subject for subject in found if isinstance(subject, NamedNode)]


_TURN_PART: Final = re.compile(r"urn:trails:session:[^/]+/([0-9]+)-[0-9a-f]+(?:/|$)")
_LEDGER_PART: Final = re.compile(r"urn:trails:session:[^/]+/ledger/([0-9]+)(?:/|$)")
_PROMPT: Final = re.compile(r"urn:trails:session:[^/]+/system/([0-9]+)")
_ENTRY_NAMES: Final = {term: name for name, term in vocab.ENTRY_FIELDS.items()}
_MARKS: Final = (vocab.TAG_OF, vocab.NOTE_ON, vocab.NOTE_INDEX, vocab.REMOVED_FROM, vocab.SCORED, vocab.SCORED_FROM)
_NAMED: Final = (vocab.NOTE_ON, vocab.SCORED, vocab.TAG_OF, vocab.REMOVED_FROM)
_FIRST: Final = {"content": 0, "arguments": 1}
"""What a secret that stands several times in a turn is said to be in, before all else."""


class SecretScan(Value):
    """What a scan found: how many sessions were looked through, and every secret in them."""

    sessions: int
    found: tuple[Found, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values, ready for JSON."""
        return {"sessions": self.sessions, "secrets": [each.to_dict() for each in self.found]}


_SCREEN: Final = 'have turns looked through as they come (scan="refuse" or "redact")'


def scan_session(workspace: Workspace, session: str) -> SecretScan:
    """Return the secrets in what a session says, the turns that it shares with its ancestors included.

    `session` is an id, an IRI or a label. Looked through are its turns with their tool calls, metadata and payloads, its system
    prompts, labels, metadata, tags, notes, scores, ledger, entry and runs. Raises `SessionNotFound` where there is none.
    """
    chain = names.find_lineage(workspace, session)
    encryption.refuse_encrypted(chain, "secrets are found in plain text alone", _SCREEN)
    found = own_quads(workspace, chain[0].id)
    for run in lineage.segments(chain):
        if run.record.id != chain[0].id and run.end is not None:
            graph = NamedNode(run.record.iri)
            above = workspace.store.quads((None, None, None, graph))
            inherited = _found([*above, *payloads.exported(workspace.store, graph)])
            found += [each for each in inherited if each.index is not None and run.start <= each.index < run.end]
    return SecretScan(sessions=1, found=tuple(sorted(found, key=_order)))


def scan_sessions(workspace: Workspace, progress: Progress | bool | None = None) -> SecretScan:
    """Return the secrets in a whole store: in every graph, those of sessions that are being deleted too, and the catalog.

    A turn that several sessions share is named once, in the session that owns it. `progress` is a function that is called
    with how many graphs are done, how many there are, and which is next, or True for a bar.
    """
    encryption.refuse_any_encrypted(workspace.store, "secrets are found in plain text alone", _SCREEN)
    with moving(progress, "scanning") as move:
        return _scan_all(workspace, move)


def _scan_all(workspace: Workspace, progress: Progress | None) -> SecretScan:
    store = workspace.store
    graphs = [row[0].value for row in workspace.reader.select("graphs")]
    found: list[Found] = []
    for done, graph in enumerate(graphs):
        if progress:
            progress(done, len(graphs), graph)
        node = NamedNode(graph)
        references = store.quads((None, vocab.PAYLOAD_OF, node, None)) if iris.payload_digest(graph) else []
        found += _found([*store.quads((None, None, None, node)), *references])
    catalog = store.quads((None, None, None, vocab.CATALOG))
    found += _found(catalog)
    sessions = sum(quad.predicate == vocab.TYPE and quad.object == vocab.SESSION for quad in catalog)
    if progress:
        progress(len(graphs), len(graphs), "")
    return SecretScan(sessions=sessions, found=tuple(sorted(found, key=_order)))


def own_quads(workspace: Workspace, session_id: str) -> list[Found]:
    """Return the secrets in what a session itself holds, without the turns of its ancestors."""
    store, record = workspace.store, workspace.reader.record(session_id)
    quads = session_quads(store, record)
    quads += store.quads((None, None, None, NamedNode(iris.session_entry(record.iri))))
    for run in store.quads((None, vocab.GENERATED, NamedNode(record.iri), vocab.CATALOG)):
        quads += store.quads((run.subject, None, None, vocab.CATALOG))  # type: ignore[arg-type] # a run's IRI
    return list(_found(dict.fromkeys(quads)))


def _order(found: Found) -> tuple[str, int, str, str]:
    return found.session_id or "", -1 if found.index is None else found.index, found.where, found.kind


def _found(quads: Iterable[Quad]) -> Iterator[Found]:
    """Yield the secrets in the texts of quads, each once for the turn, or for what else holds it."""
    every = list(quads)
    marks = _marked(every)
    texts = [
        (*_placed(quad, marks), quad) for quad in every if _is_text(quad.object) and quad.predicate not in _ENCODED
    ]
    places: dict[tuple[str | None, int | None], ScannedPlace] = {}
    for session_id, index, where, name, quad in sorted(texts, key=lambda each: _FIRST.get(each[2], len(_FIRST))):
        place = places.setdefault((session_id, index), ScannedPlace(detector(), session_id, index))
        assert isinstance(quad.object, Literal)  # noqa: S101 - as `_is_text` found
        text = quad.object.value
        if quad.object.datatype == vocab.JSON:
            yield from place.json(where, text, name)
        else:
            yield from place.value(where, text, name)
    for reference, data in payloads.carried_bytes(every):
        turn = _TURN_PART.match(term_text(reference.subject))
        owner = None if turn is None else iris.session_id(turn[0])
        at = owner, None if turn is None else int(turn[1])
        place = places.setdefault(at, ScannedPlace(detector(), *at))
        for text in hidden_texts(data):
            yield from place.json("payload", text)


_ENCODED: Final = frozenset({vocab.FILE_PART, vocab.BYTES_PART, vocab.PAYLOAD_DIGEST})


def _is_text(term: object) -> bool:
    return isinstance(term, Literal) and term.datatype in (vocab.STRING, vocab.JSON)


def _marked(quads: Iterable[Quad]) -> Mapping[str, dict[NamedNode, str]]:
    """Return by IRI which session, and which turn of it, each tag, note and score is about, removed ones too."""
    found: dict[str, dict[NamedNode, str]] = {}
    for quad in quads:
        if quad.predicate in _MARKS:
            found.setdefault(term_text(quad.subject), {})[quad.predicate] = term_text(quad.object)
    return found


def _placed(quad: Quad, marks: Mapping[str, dict[NamedNode, str]]) -> tuple[str | None, int | None, str, str]:
    """Return the session and the turn that a quad is of, what in it the quad says, and what a key there is called."""
    subject = term_text(quad.subject)
    document = iris.document_of_graph(term_text(quad.graph_name)) or iris.document_of_graph(subject)
    if document is not None:
        return None, None, f"PROV document {document.removeprefix(iris.document(''))[:16]}", ""
    name = iris.meta_key(quad.predicate.value) or _field(quad.predicate) or ""
    if subject in marks:
        mark = marks[subject]
        session = next((mark[each] for each in _NAMED if each in mark), None)
        index = mark.get(vocab.NOTE_INDEX, mark.get(vocab.SCORED_FROM))
        is_note = vocab.NOTE_ON in mark or vocab.NOTE_INDEX in mark
        where = "score" if vocab.SCORED in mark else "note" if is_note else "tag"
        of = None if session is None else iris.session_id(session)
        return of, int(index) if index and index.isdecimal() else None, where, name
    owner = iris.session_id(subject) if subject.startswith(iris.session("")) else None
    if part := _TURN_PART.match(subject):
        return owner, int(part[1]), "content" if quad.predicate == vocab.VALUE else _term(quad.predicate), name
    return owner, None, _beside(subject, quad.predicate, name), name


def _beside(subject: str, predicate: NamedNode, name: str) -> str:
    """Say what a text is that belongs to no turn."""
    if entry := _LEDGER_PART.match(subject):
        return f"ledger {entry[1]}"
    if prompt := _PROMPT.match(subject):
        return f"system prompt {prompt[1]}"
    if (run := iris.run_id(subject)) is not None:
        return f"run {run}"
    if iris.meta_key(predicate.value) is not None:
        return f"meta {name}"
    return f"entry {name}" if name else _term(predicate)


def _field(predicate: NamedNode) -> str | None:
    return _ENTRY_NAMES.get(predicate) or iris.entry_field_name(predicate.value)


def _term(predicate: NamedNode) -> str:
    return re.split(r"[#/:]", predicate.value)[-1]
