"""The one rule of deleting, for every path that deletes: refused while anything depends on the session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, queries, vocab
from trails.errors import HasChildren, TrailsError
from trails.integrity.leaves import Leaf
from trails.plumbing import annotations as marks
from trails.plumbing import detach, kinds, sweep
from trails.plumbing import leaves as logbook
from trails.plumbing.kind import Kind
from trails.plumbing.reader import Reader
from trails.records.sessions import tombstone_quads
from trails.store.contract import Change, PreconditionFailed, QuadStore, Solutions
from trails.store.pattern import Pattern
from trails.store.preview import Preview


def delete(store: QuadStore, reader: Reader, session_id: str, *, by: str, cascade: bool) -> list[str]:
    """Take the rows of a session (and, with `cascade`, of all that depend on it) out in one commit; return their ids.

    Tombstones go in with the same commit, marked for `sweep_pending`. What is forked, spawned or tagged meanwhile goes too,
    or keeps the session. Raises `HasChildren` without `cascade`.
    """
    while True:
        try:
            return _delete(store, reader, session_id, by=by, cascade=cascade)
        except _Newcomer:  # and look again: each time another writer got on
            continue


class _Newcomer(TrailsError):
    """Something came to depend on a session between the look at what does and the commit; nothing was written."""


def _delete(store: QuadStore, reader: Reader, session_id: str, *, by: str, cascade: bool) -> list[str]:
    dependants = reader.dependants(session_id)
    if dependants and not cascade:
        children = sorted(child for child, parent in dependants if parent == session_id)
        raise has_children(session_id, children)
    if not cascade:
        refuse_tagged(store, session_id)
    doomed = list(dict.fromkeys([session_id, *(child for child, _ in dependants)]))
    add: list[Quad] = []
    forbid: list[Pattern] = []
    now = datetime.now(UTC)
    for doomed_id in doomed:
        node = NamedNode(iris.session(doomed_id))
        add += tombstone_quads(doomed_id, now, by)
        add.append(Quad(node, vocab.PENDING_SWEEP, Literal(True), vocab.CATALOG))
        if not cascade:
            forbid += [(None, vocab.PARENT_SESSION, node, vocab.CATALOG), (None, vocab.SPAWNED_BY, node, vocab.CATALOG)]
            forbid.append((None, vocab.TAG_OF, node, vocab.CATALOG))
    rows = [Quad(NamedNode(iris.session(d)), vocab.TYPE, vocab.SESSION, vocab.CATALOG) for d in doomed]
    try:
        _commit(store, doomed, Change(add=add, require=rows, forbid=forbid))
    except PreconditionFailed as failure:
        if failure.present is None:
            if failure.missing not in rows[:1]:
                raise _Newcomer(session_id) from failure  # one that depended on it was deleted by another writer
            raise reader.not_found(session_id) from failure
        if failure.present.predicate == vocab.TAG_OF:
            raise _Newcomer(session_id) from failure  # the next look names the tag
        child = iris.session_id(str(failure.present.subject.value))  # type: ignore[union-attr] # a session's IRI
        raise has_children(session_id, [child]) from failure
    return doomed


def _commit(store: QuadStore, doomed: list[str], change: Change) -> None:
    """Commit a deletion with what becomes of the records of its sessions, also of those made in between."""
    logged, rows = _nothing_new(doomed), _rows(store, doomed)
    seen: dict[Kind, set[str]] = {kind: set() for kind in kinds.KINDS}
    while True:
        left = [kind.leaving(store, doomed, memory) for kind, memory in seen.items()]
        going = [quad for each in left for quad in each.remove]
        homes = [home for each in left for home in each.rows]
        whole = Change(
            add=[*change.add, *(quad for each in left for quad in each.add)],
            remove=[*rows, *going],
            require=[*change.require, *rows, *going, *marks.rows_of(homes)],
            forbid=[*change.forbid, *(pattern for each in left for pattern in each.forbid)],
            leaves=_all(logged, logbook.rows("change", homes), _given([leaf for each in left for leaf in each.leaves])),
        )
        try:
            store.commit(whole)
        except PreconditionFailed as failure:
            if change.asked_for(failure):
                raise
            rows = _rows(store, doomed)
            continue  # a row or a record was changed meanwhile, or the session that one was to move to
        sweep.sweep_names(store, sweep.names_in([*rows, *going]))
        rows = _rows(store, doomed, deleted=True)
        if not rows and not any(kind.leaving(store, doomed, memory).remove for kind, memory in seen.items()):
            return
        altered = {iris.session_id(str(quad.subject.value)) for quad in rows}  # type: ignore[union-attr] # IRIs
        change, logged = Change(), logbook.rows("delete", sorted(altered))


def _nothing_new(doomed: list[str]) -> logbook.LeafMaker:
    """Return the maker of the leaves of a deletion, which ends it where something depends on a session and is not to go."""

    def leaves(after: Preview) -> list[Leaf]:
        for session_id in doomed:
            node = NamedNode(iris.session(session_id))
            for link in (vocab.PARENT_SESSION, vocab.SPAWNED_BY, vocab.TAG_OF):
                for quad in after.quads((None, link, node, vocab.CATALOG)):
                    raise _Newcomer(f"{quad.subject} came to depend on session {session_id!r}")
        return list(logbook.rows("delete", doomed)(after))

    return leaves


def _rows(store: QuadStore, doomed: list[str], *, deleted: bool = False) -> list[Quad]:
    """Return the rows and system prompts of sessions; of `deleted` ones, what another thread put there meanwhile."""
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


def _all(*makers: logbook.LeafMaker) -> logbook.LeafMaker:
    return lambda store: [leaf for maker in makers for leaf in maker(store)]


def _given(leaves: list[Leaf]) -> logbook.LeafMaker:
    return lambda _: leaves


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
        removed += sum(store.drop_graph(each) for each in every)
        sweep.sweep_names(store, names)
        store.commit(Change(remove=[Quad(graph, vocab.PENDING_SWEEP, Literal(True), vocab.CATALOG)]))
    return removed
