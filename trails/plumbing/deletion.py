"""The one rule of deleting, for every path that deletes: refused while anything depends on the session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, queries, vocab
from trails.errors import HasChildren, TrailsError
from trails.integrity.leaves import Leaf
from trails.plumbing import detach, former, kinds, leaves, marks, sweep, unfinished
from trails.plumbing.kind import Kind
from trails.plumbing.reader import Reader
from trails.plumbing.transaction import Transaction, there
from trails.records.deeds import Deed
from trails.records.sessions import former_quads, tombstone_quads
from trails.store.contract import Matching, PreconditionFailed, QuadStore, Solutions
from trails.store.nearby import drop_graph
from trails.store.preview import Preview


def delete(store: QuadStore, reader: Reader, session_id: str, *, deed: Deed, cascade: bool) -> list[str]:
    """Take the rows of a session (and, with `cascade`, of all that depend on it) out in one commit; return their ids.

    Tombstones go in with the same commit, marked for `sweep_pending`. What is forked, spawned or tagged meanwhile goes too,
    or keeps the session. Raises `HasChildren` without `cascade`.
    """
    while True:
        try:
            return _delete(store, reader, session_id, deed=deed, cascade=cascade)
        except _Newcomer:  # and look again: each time another writer got on
            continue


class _RowChanged(TrailsError):
    """A row got more quads between the look at it and the commit; nothing was written."""


class _Newcomer(TrailsError):
    """Something came to depend on a session between the look at what does and the commit; nothing was written."""


def _delete(store: QuadStore, reader: Reader, session_id: str, *, deed: Deed, cascade: bool) -> list[str]:
    dependants = reader.dependants(session_id)
    if dependants and not cascade:
        children = sorted(child for child, parent in dependants if parent == session_id)
        raise has_children(session_id, children)
    if not cascade:
        refuse_tagged(store, session_id)
    doomed = list(dict.fromkeys([session_id, *(child for child, _ in dependants)]))
    tx = Transaction(reader)
    tx.session(session_id)
    # One that depended on it and was deleted by another writer, or a tag: the next look sees it.
    tx.require(map(there, doomed[1:]), lambda _: _Newcomer(session_id))
    for doomed_id in doomed:
        node = NamedNode(iris.session(doomed_id))
        tx.add(tombstone_quads(doomed_id, deed))
        tx.add([_mark(node)])
        if not cascade:
            tx.forbid((None, vocab.PARENT_SESSION, node, vocab.CATALOG), lambda found: _has_child(session_id, found))
            tx.forbid((None, vocab.SPAWNED_BY, node, vocab.CATALOG), lambda found: _has_child(session_id, found))
            tx.forbid((None, vocab.TAG_OF, node, vocab.CATALOG), lambda _: _Newcomer(session_id))
    waiting = [_mark(NamedNode(iris.session(doomed_id))) for doomed_id in doomed]
    unfinished.begin(store, waiting)  # `sweep_pending` ends them
    try:
        _commit(store, doomed, tx)
    except TrailsError:  # refused; an interrupt may come after the commit
        unfinished.end(store, waiting)
        raise
    return doomed


def _mark(node: NamedNode) -> Quad:
    """Return the quad that says that the graph of a deleted session waits to be swept."""
    return Quad(node, vocab.PENDING_SWEEP, Literal(True), vocab.CATALOG)


def _has_child(session_id: str, failure: PreconditionFailed) -> HasChildren:
    children = [str(getattr(quad.subject, "value", quad.subject)) for quad in failure.matched]
    return has_children(session_id, sorted(map(iris.session_id, children)))


def _commit(store: QuadStore, doomed: list[str], tx: Transaction) -> None:
    """Commit a deletion with what becomes of the records of its sessions, also of those made in between."""
    rows, log = _rows(store, doomed), store.log.root()
    logged = _nothing_new(doomed, rows, log)
    seen: dict[Kind, set[str]] = {kind: set() for kind in kinds.KINDS}
    while True:
        left = [kind.leaving(store, doomed, memory) for kind, memory in seen.items()]
        going = [quad for each in left for quad in each.remove]
        homes = [home for each in left for home in each.rows]
        whole = Transaction()
        whole.join(tx)
        whole.take([*rows, *going])
        whole.require(map(there, homes))
        whole.log(_unused_goes([node for each in left for node in each.unless_used]))
        whole.log(logged)
        whole.log(leaves.rows("change", homes))
        for each in left:
            whole.add(each.add)
            for pattern in each.forbid:
                whole.forbid(pattern)
        whole.log_leaves([leaf for each in left for leaf in each.leaves])
        try:
            whole.commit(store)
        except (PreconditionFailed, _RowChanged):
            rows = _rows(store, doomed)
            logged = _nothing_new(doomed, rows, log) if logged is not _no_leaves else _no_leaves
            continue  # a row or a record was changed meanwhile, or the session that one was to move to
        sweep.sweep_names(store, sweep.names_in([*rows, *going]))
        if not any(kind.leaving(store, doomed, memory).remove for kind, memory in seen.items()):
            return
        tx, logged, rows = Transaction(), _no_leaves, []  # records of them that another writer made meanwhile go too


def _nothing_new(doomed: list[str], rows: Sequence[Quad], log: tuple[int, bytes]) -> leaves.LeafMaker:
    """Return the maker of the leaves of a deletion, which ends it where something depends on a session and is not to go.

    It also says what the sessions were, which only then is known: `rows` are theirs, `log` how many leaves there were, and
    their root.
    """

    def made(after: Preview) -> list[Leaf]:
        for session_id in doomed:
            node = NamedNode(iris.session(session_id))
            for link in (vocab.PARENT_SESSION, vocab.SPAWNED_BY, vocab.TAG_OF):
                for quad in after.quads((None, link, node, vocab.CATALOG)):
                    raise _Newcomer(f"{quad.subject} came to depend on session {session_id!r}")
        if _rows(after, doomed, deleted=True):
            raise _RowChanged("a row was changed meanwhile")  # what stayed of it would stand beside the tombstone
        for session_id in doomed:
            after.add(former_quads(former.look(after, session_id, rows, log)))
        return list(leaves.rows("delete", doomed)(after))

    return made


def _unused_goes(nodes: Sequence[NamedNode]) -> leaves.LeafMaker:
    """Return a maker of no leaves, which lets go what nothing uses any more once the commit is written."""

    def made(after: Preview) -> list[Leaf]:
        for node in nodes:
            if not after.quads((None, vocab.USED, node, vocab.CATALOG)):
                after.remove(after.quads((node, None, None, vocab.CATALOG)))
        return []

    return made


def _no_leaves(_: Preview) -> list[Leaf]:
    return []


def _rows(store: Matching, doomed: list[str], *, deleted: bool = False) -> list[Quad]:
    """Return the rows and system prompts of sessions; of `deleted` ones, what stands there beside the tombstone."""
    found: list[Quad] = []
    for session_id in doomed:
        node = NamedNode(iris.session(session_id))
        row = store.quads((node, None, None, vocab.CATALOG))
        if deleted != any(quad.object == vocab.TOMBSTONE for quad in row):
            continue
        kept = (
            _OF_TOMBSTONE if deleted else _OF_TOMBSTONE - {vocab.LEAF_SALT}
        )  # the row's own salt goes: it gets another
        found += [quad for quad in row if quad.object != vocab.TOMBSTONE and quad.predicate not in kept]
        for prompt in store.quads((None, vocab.PROMPT_OF, node, vocab.CATALOG)):
            found += store.quads((prompt.subject, None, None, vocab.CATALOG))  # type: ignore[arg-type] # an IRI
    return found


_OF_TOMBSTONE: Final = frozenset({vocab.DELETED_AT, vocab.INVALIDATED_BY, vocab.PENDING_SWEEP, vocab.LEAF_SALT})


def has_children(session_id: str, children: list[str]) -> HasChildren:
    """Return the error for a session that others depend on."""
    shown = ", ".join(repr(child) for child in children[:5]) + (", ..." if len(children) > 5 else "")
    return HasChildren(
        f"session {session_id!r} has {len(children)} dependent sessions ({shown}), which would lose what they inherit; "
        'delete them too (children="cascade"), or make its forks independent first (children="detach")'
    )


def refuse_tagged(store: QuadStore, session_id: str) -> None:
    """Raise `HasChildren` for a session that tags name: like git, what a tag names is kept."""
    names = [tag.name for tag in marks.tags(store, session_id)]
    if not names:
        return
    shown = ", ".join(repr(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
    raise HasChildren(
        f"session {session_id!r} is kept by the tags that name it ({shown}); remove those first, or delete them with it "
        '(children="cascade")'
    )


def sweep_pending(store: QuadStore) -> int:
    """Drop the graphs of deleted sessions, and copies that were cut short, in small steps; return how many quads went.

    Principals and agents that only they mentioned go with them. Their marks go last: a sweep that was cut short goes on
    the next time the store is opened.
    """
    removed = detach.sweep_copies(store)
    pending = store.query(queries.find("pending_sweeps").bind())
    for row in pending if isinstance(pending, Solutions) else []:
        graph = row[0]
        every = (graph, *kinds.graphs(graph.value))
        names = sweep.names_in_graphs(store, every)
        removed += sum(drop_graph(store, each) for each in every)
        sweep.sweep_names(store, names)
        done = Transaction()
        done.remove([_mark(graph)])
        if done.commit(store):
            unfinished.end(store, [_mark(graph)])
    return removed
