"""Delete sessions, keep tombstones, prune old sessions.

A session is deleted only if nothing depends on it, or together with what does. Its tombstone says what it was, and how
the log ended just before; `verify` checks both.

Pruning deletes what nobody uses any more, by age, number and size, if asked to. It deletes dependent sessions first, so
that whole unused trees are deleted, and nothing that a kept session depends on.
"""

from __future__ import annotations

import base64
import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import HasChildren, InvalidInput, OnHold, SessionNotFound, TrailsError
from trails.history import annotation_kinds, encryption, hold_guard, log_leaves, record_registry, transaction
from trails.history.log_history import SessionLog
from trails.history.reader import Reader
from trails.history.records import payloads, refs
from trails.history.records.record_kind import RecordKind
from trails.history.removal import detach
from trails.history.transaction import Transaction, is_stored
from trails.integrity.leaves import Leaf
from trails.integrity.merkle import roots_at
from trails.integrity.verifier.merkle_checks import leaf_hash
from trails.model import iris
from trails.model.values import Value
from trails.rdf import query_files, vocab
from trails.rdf.activity_records import Deed
from trails.rdf.codec import parse_time, subject_of, term_text
from trails.rdf.session_records import FormerSession, former_quads, tombstone_quads
from trails.store.contract import Matching, PreconditionFailed, QuadStore, Solutions
from trails.store.embedded import drop_graph
from trails.store.pattern import Pattern, Preview


def tombstone_facts(store: Matching, session_id: str, rows: Sequence[Quad], log: tuple[int, bytes]) -> FormerSession:
    """Return what a session is whose row is among `rows`: turns are looked up by index, few of them, for a lock is held."""
    node = NamedNode(iris.session(session_id))
    row = {quad.predicate: str(getattr(quad.object, "value", "")) for quad in rows if quad.subject == node}
    start = int(row.get(vocab.FORKED_AT_INDEX, "0"))
    end = _first_without(store, node, start)
    head = log_leaves.digest_at(store, session_id, end - 1) if end > start else row.get(vocab.FORK_HEAD)
    return FormerSession(session_id, end - start, head, *log)


def _first_without(store: Matching, graph: NamedNode, start: int) -> int:
    """Return the first index from `start` on at which a graph has no turn: a transcript has no gaps."""
    step = 1
    while _has_turn(store, graph, start + step - 1):
        step *= 2
    low, high = start + step // 2, start + step - 1  # there is a turn before `low`, and none at `high`
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _has_turn(store, graph, middle) else (low, middle)
    return low


def _has_turn(store: Matching, graph: NamedNode, index: int) -> bool:
    return bool(store.quads((None, vocab.INDEX, vocab.integer(index), graph)))


def false_tombstone(store: Matching, lines: Sequence[str], log: Mapping[str, SessionLog]) -> Iterator[tuple[str, str]]:
    """Yield (session id, what) for what deletions say of sessions and of the log that is not as the log has it.

    A deletion that the log does not tell of from the session's beginning on was made in another store, from which this one
    was loaded: what it says of the log is that one's.
    """
    said = {session_id: row for session_id, row in _said(store) if session_id in log and _was_here(log[session_id])}
    sizes = {int(size) for row in said.values() if (size := row[vocab.DELETED_AT_LOG_SIZE]).isdecimal()}
    roots = roots_at((leaf_hash(line.encode()) for line in lines), sizes) if sizes else {}
    shown = {str(size): base64.b64encode(root).decode() for size, root in roots.items()}
    for session_id, row in said.items():
        if shown.get(row[vocab.DELETED_AT_LOG_SIZE], "") != row.get(vocab.DELETED_AT_ROOT):
            yield session_id, "its deletion says that the log before it was another one"
        if (heads := log[session_id].heads) and heads[-1][1] != row.get(vocab.DELETED_HEAD):
            yield session_id, "its deletion says that it ended with another turn than was logged"


def _said(store: Matching) -> Iterator[tuple[str, dict[NamedNode, str]]]:
    """Yield (session id, what its deletion says) for each deletion of a session that says what the log was."""
    for quad in store.quads((None, vocab.DELETED_AT_LOG_SIZE, None, vocab.CATALOG)):
        subject = str(getattr(quad.subject, "value", ""))
        if iris.is_session(owner := subject.removesuffix("/deletion")):
            row = store.quads((NamedNode(subject), None, None, vocab.CATALOG))
            yield iris.session_id(owner), {each.predicate: str(getattr(each.object, "value", "")) for each in row}


def _was_here(log: SessionLog) -> bool:
    return log.began >= 0 and log.deleted


def delete_session(store: QuadStore, reader: Reader, session_id: str, *, deed: Deed, cascade: bool) -> list[str]:
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
    encrypted = {each for each in doomed if encryption.is_encrypted(store, each)}
    if encrypted and encryption.encryption_of(store) is None:
        raise encryption.no_keys(min(encrypted))  # who deletes an encrypted session destroys its key
    tx = Transaction(reader)
    tx.session(session_id)
    # One that depended on it and was deleted by another writer, or a tag: the next look sees it.
    tx.require(map(is_stored, doomed[1:]), lambda _: _Newcomer(session_id))
    for doomed_id in doomed:
        node = NamedNode(iris.session(doomed_id))
        tx.add(tombstone_quads(doomed_id, deed))
        tx.add([_mark(node), *([_key_mark(node)] if doomed_id in encrypted else [])])
        if not cascade:
            tx.forbid((None, vocab.PARENT_SESSION, node, vocab.CATALOG), lambda found: _has_child(session_id, found))
            tx.forbid((None, vocab.SPAWNED_BY, node, vocab.CATALOG), lambda found: _has_child(session_id, found))
            tx.forbid((None, vocab.TAG_OF, node, vocab.CATALOG), lambda _: _Newcomer(session_id))
    waiting = [_mark(NamedNode(iris.session(doomed_id))) for doomed_id in doomed]
    waiting += [_key_mark(NamedNode(iris.session(doomed_id))) for doomed_id in doomed if doomed_id in encrypted]
    transaction.begin_work(store, waiting)  # `sweep_pending` ends them
    try:
        _commit(store, doomed, tx)
    except TrailsError:  # refused; an interrupt may come after the commit
        transaction.end_work(store, waiting)
        raise
    return doomed


def _mark(node: NamedNode) -> Quad:
    """Return the quad that says that the graph of a deleted session waits to be swept."""
    return Quad(node, vocab.PENDING_SWEEP, Literal(True), vocab.CATALOG)


def _key_mark(node: NamedNode) -> Quad:
    """Return the quad that says that the key of a deleted session waits to be destroyed."""
    return Quad(node, vocab.PENDING_KEY, Literal(True), vocab.CATALOG)


def _has_child(session_id: str, failure: PreconditionFailed) -> HasChildren:
    children = [str(getattr(quad.subject, "value", quad.subject)) for quad in failure.matched]
    return has_children(session_id, sorted(map(iris.session_id, children)))


def _commit(store: QuadStore, doomed: list[str], tx: Transaction) -> None:
    """Commit a deletion with what becomes of the records of its sessions, also of those made in between."""
    rows, log = _rows(store, doomed), store.log.root()
    logged = _nothing_new(doomed, rows, log)
    seen: dict[RecordKind, set[str]] = {kind: set() for kind in record_registry.KINDS}
    while True:
        left = [kind.leaving(store, doomed, memory) for kind, memory in seen.items()]
        going = [quad for each in left for quad in each.remove]
        homes = [home for each in left for home in each.rows]
        whole = Transaction()
        whole.join(tx)
        whole.take([*rows, *going])
        whole.require(map(is_stored, homes))
        whole.log(_unused_goes([node for each in left for node in each.unless_used]))
        whole.log(logged)
        whole.log(log_leaves.row_states("change", homes))
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
        transaction.sweep_names(store, transaction.names_in([*rows, *going]))
        if not any(kind.leaving(store, doomed, memory).remove for kind, memory in seen.items()):
            return
        tx, logged, rows = Transaction(), _no_leaves, []  # records of them that another writer made meanwhile go too


def _nothing_new(doomed: list[str], rows: Sequence[Quad], log: tuple[int, bytes]) -> log_leaves.LeafMaker:
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
            after.add(former_quads(tombstone_facts(after, session_id, rows, log)))
        return list(log_leaves.row_states("delete", doomed)(after))

    return made


def _unused_goes(nodes: Sequence[NamedNode]) -> log_leaves.LeafMaker:
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


_OF_TOMBSTONE: Final = frozenset(
    {vocab.DELETED_AT, vocab.INVALIDATED_BY, vocab.PENDING_SWEEP, vocab.PENDING_KEY, vocab.LEAF_SALT}
)


def has_children(session_id: str, children: list[str]) -> HasChildren:
    """Return the error for a session that others depend on."""
    shown = ", ".join(repr(child) for child in children[:5]) + (", ..." if len(children) > 5 else "")
    return HasChildren(
        f"session {session_id!r} has {len(children)} dependent sessions ({shown}), which would lose what they inherit; "
        'delete them too (children="cascade"), or make its forks independent first (children="detach")'
    )


def refuse_tagged(store: QuadStore, session_id: str) -> None:
    """Raise `HasChildren` for a session that tags or refs name: like git, what these name is kept."""
    tags = [tag.name for tag in annotation_kinds.tags(store, session_id)]
    names = tags + [ref.name for ref in refs.read_refs(store, session_id)]
    if not names:
        return
    kinds = "tags" if names == tags else "tags and refs" if tags else "refs"
    shown = ", ".join(repr(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
    raise HasChildren(
        f"session {session_id!r} is kept by the {kinds} that name it ({shown}); remove those first, or delete them with it "
        '(children="cascade")'
    )


def sweep_pending(store: QuadStore) -> int:
    """Drop the graphs of deleted sessions, and copies that were cut short, in small steps; return how many quads went.

    Principals and agents that only they mentioned go with them. Their marks go last: a sweep that was cut short goes on
    the next time the store is opened.
    """
    removed = detach.sweep_copies(store)
    _destroy_keys(store)
    pending = store.query(query_files.find("pending_sweeps").bind())
    for row in pending if isinstance(pending, Solutions) else []:
        graph = row[0]
        every = (graph, *record_registry.kind_graphs(graph.value))
        names = transaction.names_in_graphs(store, every)
        payloads.sweep_references(store, graph)
        removed += sum(drop_graph(store, each) for each in every)
        transaction.sweep_names(store, names)
        done = Transaction()
        done.remove([_mark(graph)])
        if done.commit(store):
            transaction.end_work(store, [_mark(graph)])
    return removed


def _row_of(session_id: str) -> Pattern:
    quad = is_stored(session_id)
    return quad.subject, quad.predicate, quad.object, quad.graph_name  # type: ignore[return-value] # an IRI


def _destroy_keys(store: QuadStore) -> None:
    """Destroy the keys of deleted sessions; without keys at hand, whoever opens the store with them does."""
    keys = encryption.encryption_of(store)
    if keys is None:
        return
    for mark in store.quads((None, vocab.PENDING_KEY, None, vocab.CATALOG)):
        session_id = iris.session_id(subject_of(mark))
        if store.quads(_row_of(session_id)):
            continue  # a mark that somebody put there: no session that is there loses its key
        keys.destroy(session_id)
        done = Transaction()
        done.remove([mark])
        if done.commit(store):
            transaction.end_work(store, [mark])


_TEXTS: Final = (vocab.VALUE, vocab.ARGUMENTS, vocab.META)


class Pruning(Value):
    """What `prune` deleted, or would delete."""

    sessions: tuple[str, ...]
    """The ids of the sessions that went, in that order."""
    needed: tuple[str, ...]
    """Sessions that were old enough to go and stay, because a session that stays depends on them or a tag or a ref names them."""
    held: tuple[str, ...] = ()
    """Sessions that were old enough to go and stay, because a legal hold covers them; what they depend on is in `needed`."""
    text_bytes: int
    """How much text they held, in UTF-8 bytes, and how much their payloads; `vacuum` gives its space back."""
    dry_run: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return self.model_dump()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session as pruning sees it: when it was last used, and which sessions it depends on."""

    id: str
    last: datetime | None
    """When its last own turn was made, or else the session itself; None where nothing is known: such a one stays."""
    needs: frozenset[str] = frozenset()
    tagged: bool = False
    """Whether a tag or a ref names it: then it stays, as what a tag names does in git."""
    held: bool = False
    """Whether a legal hold covers it: then it stays."""
    may_go: bool = True
    """Whether it is one of those that are looked at: limits are of these alone."""
    is_over: bool = False
    """Whether it goes whenever it was last used: it has expired, or all that are looked at go."""

    def is_due(self, before: datetime | None) -> bool:
        """Tell whether it goes, whatever the number and the size of all; unused since `before` is old."""
        return self.may_go and (self.is_over or (before is not None and self.last is not None and self.last < before))


def prune_sessions(
    store: QuadStore,
    reader: Reader,
    *,
    older_than: timedelta | None,
    keep_count: int | None,
    keep_bytes: int | None,
    expired: bool = False,
    only: Collection[str] | None = None,
    gone: Collection[str] = (),
    dry_run: bool,
    deed: Deed,
) -> Pruning:
    """Delete sessions, those first whose last turn is oldest, until every limit that is given is kept, or nothing more can go.

    `only` names the sessions that are looked at; all of them go if no limit is given. `gone` names those that a dry run takes
    as deleted already. A `rule` that the deed has is what the tombstones name.
    """
    has_limit = expired or any(each is not None for each in (older_than, keep_count, keep_bytes))
    if not has_limit and only is None:
        raise InvalidInput(
            "prune needs to know what may go: an age (older_than), a number (keep_count), a size (keep_bytes), what has "
            "expired (expired) or some metadata (meta)"
        )
    if older_than is not None and not isinstance(older_than, timedelta):
        raise InvalidInput(f"older_than is a timedelta, as timedelta(days=30), not {older_than!r:.80}")
    if older_than is not None and older_than < timedelta(0):
        raise InvalidInput(f"older_than must not be negative, and is {older_than}")
    found = [each for each in pruning_candidates(store, reader, only) if each.id not in gone]
    if expired or not has_limit:
        over = _expired(store) if expired else {each.id for each in found}
        found = [replace(each, is_over=each.id in over) for each in found]
    before = None if older_than is None else _ago(older_than)
    sizes = {} if keep_bytes is None else {each.id: text_bytes(store, each.id) for each in found if each.may_go}
    doomed = plan_pruning(found, before=before, keep_count=keep_count, keep_bytes=keep_bytes, sizes=sizes)
    rule = deed.rule or pruning_rule(
        older_than=older_than, keep_count=keep_count, keep_bytes=keep_bytes, expired=expired, meta=only is not None
    )
    deed = deed._replace(rule=rule)
    deleted: list[str] = []
    freed = 0
    for session_id in doomed:
        size = sizes[session_id] if sizes else text_bytes(store, session_id)
        if dry_run or _deleted(store, reader, session_id, deed):
            deleted.append(session_id)
            freed += size
    if not dry_run:
        sweep_pending(store)
    free = [replace(each, held=False) for each in found]
    unheld = set(plan_pruning(free, before=before, keep_count=keep_count, keep_bytes=keep_bytes, sizes=sizes))
    due = sorted(
        (each for each in found if each.is_due(before) or (each.held and each.id in unheld)), key=lambda each: each.id
    )
    due = [each for each in due if each.id not in deleted]
    return Pruning(
        sessions=tuple(deleted),
        needed=tuple(each.id for each in due if not each.held),
        held=tuple(each.id for each in due if each.held),
        text_bytes=freed,
        dry_run=dry_run,
    )


def _expired(store: QuadStore) -> set[str]:
    """Return the ids of the sessions whose time is over; those of the session tree have rules of their own."""
    now = datetime.now(UTC)
    ends = store.quads((None, vocab.EXPIRES_AT, None, vocab.CATALOG))
    over = {iris.session_id(subject_of(quad)) for quad in ends if parse_time(term_text(quad.object)) <= now}
    return over - {iris.session_id(subject_of(quad)) for quad in store.quads((None, vocab.SLOT, None, vocab.CATALOG))}


def pruning_rule(
    *,
    older_than: timedelta | None,
    keep_count: int | None,
    keep_bytes: int | None,
    expired: bool = False,
    meta: bool = False,
) -> str:
    """Return the rule by which sessions go, as their tombstones name it.

    >>> pruning_rule(older_than=timedelta(days=90), keep_count=None, keep_bytes=1000)
    'prune: older than 7776000 s, keep 1000 bytes'
    """
    limits = (
        (None if older_than is None else older_than.total_seconds(), "older than {:.15g} s"),
        (keep_count, "keep {} sessions"),
        (keep_bytes, "keep {} bytes"),
        (expired or None, "expired"),
        (meta or None, "by metadata"),
    )
    return "prune: " + ", ".join(text.format(limit) for limit, text in limits if limit is not None)


def _ago(age: timedelta) -> datetime:
    try:
        return datetime.now(UTC) - age
    except OverflowError as error:
        raise InvalidInput(f"{age} ago is before the year 1") from error


def _deleted(store: QuadStore, reader: Reader, session_id: str, deed: Deed) -> bool:
    """Delete a session; False where another thread made something that depends on it, held it or deleted it meanwhile."""
    try:
        delete_session(store, reader, session_id, deed=deed, cascade=False)
    except (HasChildren, OnHold, SessionNotFound):
        return False
    return True


def plan_pruning(
    found: Iterable[Candidate],
    *,
    before: datetime | None = None,
    keep_count: int | None = None,
    keep_bytes: int | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[str]:
    """Return the ids of the sessions that should go, in the order in which they can: never one that others still need.

    All that are over, or were last used before `before`, go; then the oldest, until at most `keep_count` sessions with at most
    `keep_bytes` are left.
    """
    alive = {each.id: each for each in found}
    needed = Counter(need for each in alive.values() for need in each.needs)
    size = sum((sizes or {}).values())
    count = sum(each.may_go for each in alive.values())

    def place(each: Candidate) -> tuple[bool, datetime, str] | None:
        """Return when it is its turn to go; None for one that stays, for now."""
        is_kept = each.tagged or each.held or needed[each.id]
        is_free = each.may_go and not is_kept and (each.is_over or each.last is not None)
        return (not each.is_over, each.last or _LONG_AGO, each.id) if is_free else None

    free = [at for each in alive.values() if (at := place(each)) is not None]
    heapq.heapify(free)
    doomed: list[str] = []
    while free:
        too_many = keep_count is not None and count > keep_count
        too_big = keep_bytes is not None and size > keep_bytes
        if not (alive[free[0][2]].is_due(before) or too_many or too_big):
            break
        gone = heapq.heappop(free)[2]
        doomed.append(gone)
        count -= 1
        size -= (sizes or {}).get(gone, 0)
        for need in alive.pop(gone).needs & alive.keys():
            needed[need] -= 1
            if (at := place(alive[need])) is not None:
                heapq.heappush(free, at)
    return doomed


_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


def pruning_candidates(store: QuadStore, reader: Reader, only: Collection[str] | None = None) -> list[Candidate]:
    """Return all sessions with the time of their last turn, what they depend on, and whether a tag or a hold keeps them.

    `only` names those that may go; None is all.
    """
    last = {
        iris.session_id(row["session"].value): parse_time(row["last"].value)
        for row in reader.select("last_times")
        if row["last"] is not None
    }
    tagged = {tag.session_id for tag in annotation_kinds.tags(store)} | {
        ref.session_id for ref in refs.read_refs(store)
    }
    holds = hold_guard.holds_in_force(store)
    found = []
    for row in reader.select("tree"):
        if row["stored"].value == "true":
            session_id = iris.session_id(row["session"].value)
            created = None if row["created"] is None else parse_time(row["created"].value)
            needs = {iris.session_id(row[name].value) for name in ("parent", "spawner") if row[name] is not None}
            used = last.get(session_id, created)
            may_go = only is None or session_id in only
            held = any(hold_guard.covers(store, hold, session_id) for hold in holds)
            found.append(Candidate(session_id, used, frozenset(needs), session_id in tagged, held, may_go))
    return found


def text_bytes(store: QuadStore, session_id: str) -> int:
    """Return how much a session's own turns hold in bytes: content, calls' arguments and metadata in UTF-8, and payloads."""
    graph = NamedNode(iris.session(session_id))
    quads = (quad for predicate in _TEXTS for quad in store.quads((None, predicate, None, graph)))
    texts = sum(len(quad.object.value.encode()) for quad in quads if isinstance(quad.object, Literal))
    return texts + payloads.byte_count(store, graph)
