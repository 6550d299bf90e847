"""All that is said of one session, wherever it stands: what an export holds of it, and what a view shows."""

from __future__ import annotations

from pyoxigraph import NamedNode, Quad

from trails import iris, vocab
from trails.model import SessionRecord
from trails.plumbing import kinds, redaction_records
from trails.records.deeds import author_type
from trails.records.tools import named_in
from trails.store.contract import QuadStore


def session_quads(store: QuadStore, record: SessionRecord) -> list[Quad]:
    """Return all quads of one session.

    Its row, whom that names, its prompts and turns, who redacted what, and its records of every kind: tags, notes, its
    ledger, and for one with a key its entry, its moves and, while it is the key's current one, the conversation with its
    aliases.
    """
    node = NamedNode(record.iri)
    graph = store.quads((None, None, None, node))
    quads = [*row(store, node), *graph, *redaction_records.belonging(store, graph)]
    quads += redaction_records.of_session(store, node)
    quads += [quad for kind in kinds.KINDS for quad in kind.exported(store, node)]
    for who, kind in ((iris.principal(record.principal), vocab.PRINCIPAL), (iris.agent(record.agent), vocab.AGENT)):
        quads += store.quads((NamedNode(who), vocab.TYPE, kind, vocab.CATALOG))
    named = {
        record.forked_by,
        *(_value(q.object) for q in quads if q.predicate == vocab.ATTRIBUTED_TO and _is_of_prompt(q)),
    }
    quads += [author_type(each) for each in sorted(filter(None, named))]
    quads += named_in(graph)
    return quads


def _is_of_prompt(quad: Quad) -> bool:
    return "/system/" in _value(quad.subject) and quad.graph_name == vocab.CATALOG


def _value(term: object) -> str:
    return str(getattr(term, "value", term))


def row(store: QuadStore, node: NamedNode) -> list[Quad]:
    """Return a session's row and its system prompts, without the salt of the row's newest leaf: that is the log's."""
    quads = [q for q in store.quads((node, None, None, vocab.CATALOG)) if q.predicate != vocab.ROW_SALT]
    for version in prompts(store, node):
        quads += store.quads((version, None, None, vocab.CATALOG))
    return quads


def prompts(store: QuadStore, node: NamedNode) -> list[NamedNode]:
    """Return the versions of a session's system prompt."""
    found = [quad.subject for quad in store.quads((None, vocab.PROMPT_OF, node, vocab.CATALOG))]
    return [subject for subject in found if isinstance(subject, NamedNode)]
