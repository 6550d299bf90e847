"""Make the log leaves of sessions, turns and copies. Each commit writes them into the store's log; `log_history` reads
them.

A row has two parts. What a session was made with never changes and has one leaf. Everything else that is said of it may
change, and every change has a leaf. Each part is covered together with random bits beside it, which the same commit
writes.

A copy of a turn repeats what its digest covers. The model or tool call happened once, where the turn stood first. So
calls are counted by the first turn's digest, for the session and the principal that they were made for, and deleting
either of the two turns changes no bill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails.history import record_registry
from trails.history.transaction import Proposal
from trails.integrity import digests, leaves
from trails.integrity.leaves import SALTED, Kind, Leaf
from trails.model import iris
from trails.model.values import Turn
from trails.rdf import vocab
from trails.rdf.activity_records import Copying, activity_quads
from trails.rdf.codec import term_text
from trails.store.contract import Matching, QuadStore
from trails.store.pattern import Preview

BESIDE_COPY: Final = frozenset({vocab.ALTERNATE_OF, vocab.CALL_DIGEST, vocab.CALLED_IN, vocab.CALLED_FOR})
"""What is said of a copied turn, or of the record of its model call, that no digest of a turn covers."""


class CopyOrigin(NamedTuple):
    """Where a model call was made: the digest of its first turn, that turn's session, and whom that ran for."""

    digest: str
    session_iri: str
    principal_iri: str


def is_beside_copy(quad: Quad) -> bool:
    """Tell whether a quad says that a turn is a copy: it is logged with the session's row."""
    made_by = quad.predicate == vocab.GENERATED_BY and iris.act_token(term_text(quad.object)) is not None
    return made_by or quad.predicate in BESIDE_COPY


def copies_in_graph(store: Matching, node: NamedNode, copyings: Iterable[NamedNode]) -> list[Quad]:
    """Return all such quads of a session's graph, given the copyings that were done to it."""
    found = [quad for predicate in sorted(BESIDE_COPY, key=str) for quad in store.quads((None, predicate, None, node))]
    return found + [quad for act in copyings for quad in store.quads((None, vocab.GENERATED_BY, act, node))]


def copy_origin(store: Matching, turn_iri: str, digest: str) -> CopyOrigin:
    """Return where the model call of a stored turn was made, as far as the store knows."""
    graph = NamedNode(iris.session(iris.session_id(turn_iri)))
    call, node = NamedNode(iris.model_call(turn_iri)), NamedNode(turn_iri)
    known = _one(store, call, vocab.CALL_DIGEST, graph)
    if known is not None:
        where = _one(store, call, vocab.CALLED_IN, graph) or graph.value
        return CopyOrigin(known, where, _one(store, call, vocab.CALLED_FOR, graph) or _principal(store, graph))
    # Up to format 2 a copy says no more than what it is a copy of.
    quoted = _one(store, node, vocab.QUOTED_FROM, graph)
    first = quoted or _one(store, node, vocab.ALTERNATE_OF, graph)
    home = graph if first is None else NamedNode(iris.session(iris.session_id(first)))
    said = _one(store, node, vocab.QUOTED_DIGEST, graph) or digest
    return CopyOrigin(said, home.value, _principal(store, home) or _principal(store, graph))


def _principal(store: Matching, session: NamedNode) -> str:
    return _one(store, session, vocab.ATTRIBUTED_TO, vocab.CATALOG) or ""


def _one(store: Matching, subject: NamedNode, predicate: NamedNode, graph: object) -> str | None:
    found = store.quads((subject, predicate, None, graph))  # type: ignore[arg-type] # a graph
    return term_text(found[0].object) if found else None


def copy_quads(store: Matching, original_iri: str, digest: str, copy: Turn, copying: Copying) -> list[Quad]:
    """Return what stands beside a copy of a stored turn, given that one's IRI and digest."""
    graph, node = NamedNode(iris.session(copy.session_id)), NamedNode(copy.iri)
    made = [Quad(node, vocab.GENERATED_BY, NamedNode(copying.iri), graph)]
    if copy.quoted_from is None or copy.quoted_from.iri != original_iri:
        made.append(Quad(node, vocab.ALTERNATE_OF, NamedNode(original_iri), graph))
    if copy.facts.model_call is None:
        return made
    call, found = NamedNode(iris.model_call(copy.iri)), copy_origin(store, original_iri, digest)
    return [
        *made,
        Quad(call, vocab.CALL_DIGEST, Literal(found.digest), graph),
        Quad(call, vocab.CALLED_IN, NamedNode(found.session_iri), graph),
        Quad(call, vocab.CALLED_FOR, NamedNode(found.principal_iri), graph),
    ]


def picked_quads(store: Matching, picked: Sequence[Turn], by_iri: str, action: str) -> list[Quad]:
    """Return what stands beside turns that quote others, and the copying that they come by; the same each time."""
    quoting = [(turn, turn.quoted_from) for turn in picked if turn.quoted_from is not None]
    if not quoting:
        return []
    first = quoting[0][0]
    copying = Copying(
        session_id=first.session_id,
        token=first.digest[:16],
        by_iri=by_iri,
        time=first.time,  # type: ignore[arg-type] # a picked turn has the time of the pick
        action=action,
        used=tuple(sorted({quote.session_id for _, quote in quoting})),
    )
    quads = activity_quads(copying)
    for turn, quote in quoting:
        quads += copy_quads(store, quote.iri, quote.digest, turn, copying)
    return quads


LeafMaker = Callable[[Preview], Sequence[Leaf]]
FORK_POINT: Final = (vocab.PARENT_SESSION, vocab.FORKED_AT_INDEX, vocab.FORK_HEAD, vocab.SYSTEM_VERSION)
"""What says what a session is a fork of: a detach clears it, and leaves its digest."""
_MADE_WITH: Final = frozenset(
    {vocab.TYPE, vocab.BRANCH, vocab.ATTRIBUTED_TO, vocab.SESSION_AGENT, vocab.KIND, vocab.TIME, vocab.SOURCE_SESSION}
    | {vocab.DERIVED_FROM, vocab.LEAF_SALT, vocab.FORK_DIGEST, vocab.FORKED_BY}
)
_NOTHING_MORE: Final = Literal("active")
"""The state of a session of which nothing is said beyond what it was made with: it has no `change` leaf."""


# --- what is covered


@dataclass(frozen=True, slots=True)
class Row:
    """All that is said of a session and that no turn's digest covers."""

    node: NamedNode
    quads: tuple[Quad, ...]

    @property
    def is_tombstone(self) -> bool:
        """True for a session that was deleted."""
        return any(quad.object == vocab.TOMBSTONE for quad in self.quads)

    @property
    def is_salted(self) -> bool:
        """True unless an older version of Trails wrote it last."""
        return self._find(vocab.LEAF_SALT) is not None

    def _find(self, predicate: NamedNode) -> Quad | None:
        return next((q for q in self.quads if q.predicate == predicate and q.subject == self.node), None)

    def with_quads(self, more: Iterable[Quad], less: Iterable[Quad] = ()) -> Row:
        """Return the row with further quads, and without some."""
        gone = set(less)
        return Row(self.node, (*(quad for quad in self.quads if quad not in gone), *more))

    @property
    def made_with(self) -> str:
        """The digest of what the session was made with; of a tombstone, of all of it."""
        if self.is_tombstone:
            return SALTED + leaves.row_digest(self.quads)
        own = [quad for quad in self.quads if quad.subject == self.node]
        fork = [quad for quad in own if quad.predicate in FORK_POINT]
        kept = [quad for quad in own if _is_first(quad)]
        return SALTED + leaves.row_digest([*kept, self.fork_digest(fork)] if fork else kept)

    def fork_digest(self, fork_point: Iterable[Quad]) -> Quad:
        """Return the quad that a detached fork has in the place of what it was a fork of."""
        salt = self._find(vocab.LEAF_SALT)
        digest = leaves.row_digest([*fork_point, *([] if salt is None else [salt])])
        return Quad(self.node, vocab.FORK_DIGEST, Literal(digest), vocab.CATALOG)

    def _rest(self) -> list[Quad]:
        own, point = self.node, FORK_POINT
        return [q for q in self.quads if q.subject != own or not (_is_first(q) or q.predicate in point)]

    @property
    def rest(self) -> str | None:
        """The digest of all else that is said of it; None where that is nothing."""
        quads = self._rest()
        if all(quad.predicate == vocab.STATE and quad.object == _NOTHING_MORE for quad in quads):
            return None
        return SALTED + leaves.row_digest(quads)

    @property
    def whole(self) -> str:
        """The digest of all of it, as older versions logged it."""
        return leaves.row_digest(self.quads)

    def first_leaf(self) -> Leaf:
        """Return the leaf for what the session was made with."""
        start = self._find(vocab.FORKED_AT_INDEX)
        at = 0 if start is None else int(start.object.value)  # type: ignore[union-attr] # a literal
        return Leaf("create" if start is None else "fork", self.node.value, at, self.made_with)

    @property
    def row_salts(self) -> list[Quad]:
        """What salts the part that may change."""
        return [quad for quad in self.quads if quad.predicate == vocab.ROW_SALT and quad.subject == self.node]


def _is_first(quad: Quad) -> bool:
    """Tell whether what a row says never changes; that a session came from a file may be said again, of a grown one."""
    if quad.predicate != vocab.DERIVED_FROM:
        return quad.predicate in _MADE_WITH
    return not (isinstance(quad.object, NamedNode) and iris.file_digest(quad.object.value) is not None)


def row_of(store: Matching, session_id: str) -> Row:
    """Return everything that is said of a session and that no turn's digest covers.

    That is its row, its system prompts, its deletion, which of its turns are copies and of what, and those of its records
    that are logged with it: tags, notes, and for a session with a key its entry, its moves and, while it is the key's
    current one, the conversation with its aliases.
    Copies below a fork's own indices are those of a detach that is not done: they do not count yet, and those of a
    deleted session, which wait to be swept, do not count any more.
    """
    node = NamedNode(iris.session(session_id))
    quads = store.quads((node, None, None, vocab.CATALOG))
    for prompt in store.quads((None, vocab.PROMPT_OF, node, vocab.CATALOG)):
        quads += store.quads((prompt.subject, None, None, vocab.CATALOG))  # type: ignore[arg-type] # an IRI
    quads += store.quads((NamedNode(iris.deletion(node.value)), None, None, vocab.CATALOG))
    quads = [quad for quad in quads if quad.object != vocab.UNFINISHED_COPY]
    if any(quad.object == vocab.TOMBSTONE for quad in quads):
        return Row(node, tuple(quad for quad in quads if quad.predicate not in vocab.PENDING))
    quads = [*quads, *(quad for kind in record_registry.KINDS for quad in kind.logged(store, node, quads))]
    start = next((int(quad.object.value) for quad in quads if quad.predicate == vocab.FORKED_AT_INDEX), 0)  # type: ignore[union-attr] # a literal
    copyings = [quad.subject for quad in quads if quad.object == vocab.COPYING and isinstance(quad.subject, NamedNode)]
    copied = copies_in_graph(store, node, copyings)
    return Row(node, (*quads, *(quad for quad in copied if iris.turn_index(str(quad.subject.value)) >= start)))  # type: ignore[union-attr] # an IRI


# --- leaves


def row_states(kind: Kind, session_ids: Sequence[str]) -> LeafMaker:
    """Return a maker of leaves for the rows of sessions, as they stand after the commit."""
    return lambda store: [leaf for session_id in session_ids for leaf in row_leaves(store, kind, session_id)]


def row_leaves(
    store: Preview, kind: Kind, session_id: str, count: int = 0, fork_point: Sequence[Quad] = ()
) -> list[Leaf]:
    """Return the leaves for a session's row as it will stand, and let the commit put new salts beside it.

    A `create` or `fork` is followed by a `change` where more is said of the session than what it was made with. Before
    anything else of a row that an older version wrote comes the leaf for what it was made with. `fork_point` is what a
    `detach` takes away. A deleted session, which another writer was quicker to delete, has no change.
    """
    row = row_of(store, session_id)
    if row.is_tombstone and kind != "delete":
        return []
    made: list[Leaf] = []
    is_new = kind in ("create", "fork", "delete")
    if not row.is_salted:
        row = _put(store, row, vocab.LEAF_SALT, digests.new_salt())
        if not is_new:
            was_fork = bool(fork_point) or any(quad.predicate == vocab.PARENT_SESSION for quad in row.quads)
            before = row.with_quads(fork_point)
            made.append(Leaf("fork" if was_fork else "create", row.node.value, count, before.made_with))
    if is_new:
        made.append(Leaf(kind, row.node.value, count, row.made_with))
    if kind == "delete" or (is_new and row.rest is None):
        return made
    if fork_point:
        row = _put(store, row, vocab.FORK_DIGEST, str(row.fork_digest(fork_point).object.value))  # type: ignore[union-attr] # a literal
    row = _salted_anew(store, row)
    rest: Kind = "change" if is_new else kind
    made.append(Leaf(rest, row.node.value, 1 if is_new else count, row.rest or ""))
    return made


def _put(store: Preview, row: Row, predicate: NamedNode, text: str) -> Row:
    quad = Quad(row.node, predicate, Literal(text), vocab.CATALOG)
    store.add([quad])
    return row.with_quads([quad])


def _salted_anew(store: Preview, row: Row) -> Row:
    """Draw the salt of what may change anew, but once a commit: another change in it may have done so."""
    old = row.row_salts
    if any(quad in store.more_added for quad in old):
        return row
    store.remove(old)
    return _put(store, row.with_quads((), old), vocab.ROW_SALT, digests.new_salt())


def resalt_row(store: Preview, row: Row) -> Row:
    """Draw the salt of what a session was made with, or of its tombstone, anew; return the row with it.

    With the old one goes what could be guessed of older leaves. A row that has none is left alone.
    """
    old = [quad for quad in row.quads if quad.predicate == vocab.LEAF_SALT and quad.subject == row.node]
    if not old:
        return row
    store.remove(old)
    return _put(store, row.with_quads((), old), vocab.LEAF_SALT, digests.new_salt())


def turns_leaf(session_id: str, count: int, head: str) -> Leaf:
    """Return the leaf for a batch of turns: the transcript's length after it, and its head."""
    return Leaf("turns", iris.session(session_id), count, head)


def grown_leaf(store: Matching, session_id: str, count: int, head: str) -> Leaf:
    """Return the leaf for a transcript that had a length and a head when it was read, with what it has got since."""
    while (digest := digest_at(store, session_id, count)) is not None:
        count, head = count + 1, digest
    return turns_leaf(session_id, count, head)


def digest_at(store: Matching, session_id: str, index: int) -> str | None:
    """Return the digest of the turn that a session itself owns at an index, or None."""
    graph = NamedNode(iris.session(session_id))
    for turn in store.quads((None, vocab.INDEX, vocab.integer(index), graph)):
        for digest in store.quads((turn.subject, vocab.DIGEST, None, graph)):  # type: ignore[arg-type] # an IRI
            return str(digest.object.value)  # type: ignore[union-attr] # a literal
    return None


def redaction_leaf(deletion: NamedNode, quads: Iterable[Quad]) -> Leaf:
    """Return the leaf for a redaction, given its Deletion's IRI and all that the catalog says of that.

    A redaction of what is not a turn stands under its own IRI, as a run does.
    """
    if iris.is_redaction(deletion.value):
        return Leaf("redact", deletion.value, 0, leaves.row_digest(quads))
    owner = iris.session(iris.session_id(deletion.value))
    return Leaf("redact", owner, iris.turn_index(deletion.value), leaves.row_digest(quads))


def redaction_leaves(store: Matching) -> list[tuple[Leaf, list[Quad]]]:
    """Return (leaf, all that is said of it) for each redaction that the catalog knows."""
    found = []
    links = (vocab.DELETED_TURN, vocab.REDACTED_FROM)
    for quad in (quad for link in links for quad in store.quads((None, link, None, vocab.CATALOG))):
        node = NamedNode(str(quad.subject.value))  # type: ignore[union-attr] # an IRI
        if iris.is_turn_deletion(node.value) or iris.is_redaction(node.value):
            quads = store.quads((node, None, None, vocab.CATALOG))
            found.append((redaction_leaf(node, quads), quads))
    return found


# --- a store without a log


def begin_session(store: QuadStore) -> None:
    """Let a store whose log is empty, as one that was loaded from a dump has it, begin it with all that it holds.

    Salts that are there stay. A store that has a log is left alone: what no commit wrote is not believed for being there.
    """
    if store.log.is_empty and len(store):
        Proposal(makers=[_all_leaves], reads_all=True).commit(store)


def _all_leaves(store: Preview) -> list[Leaf]:
    made: list[Leaf] = []
    for kind in (vocab.SESSION, vocab.TOMBSTONE):
        for quad in sorted(store.quads((None, vocab.TYPE, kind, vocab.CATALOG)), key=str):
            made += _first_leaves(store, row_of(store, iris.session_id(str(quad.subject.value))))  # type: ignore[union-attr] # an IRI
    made += [leaf for leaf, _ in redaction_leaves(store)]
    return [*made, *(leaf for kind in record_registry.KINDS for leaf in kind.leaves(store))]


def _first_leaves(store: Preview, row: Row) -> list[Leaf]:
    if not row.is_salted:
        row = _put(store, row, vocab.LEAF_SALT, digests.new_salt())
    if row.is_tombstone:
        return [Leaf("delete", row.node.value, 0, row.made_with)]
    first = row.first_leaf()
    made, start = [first], first.count
    if row.rest is not None:
        row = row if row.row_salts else _put(store, row, vocab.ROW_SALT, digests.new_salt())
        made.append(Leaf("change", row.node.value, 1, row.rest or ""))
    indices = {str(getattr(q.object, "value", "")): q.subject for q in store.quads((None, vocab.INDEX, None, row.node))}
    last = max((int(each) for each in indices if each.isdecimal()), default=-1)
    digest = store.quads((indices[str(last)], vocab.DIGEST, None, row.node)) if last >= start else []  # type: ignore[arg-type] # an IRI
    if digest:
        made.append(Leaf("turns", row.node.value, last + 1, str(getattr(digest[0].object, "value", ""))))
    return made
