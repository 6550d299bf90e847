"""Write commits, with their preconditions, and mark unfinished work.

    tx = Transaction(reader)
    tx.session("plan")                      # it is there, and was not deleted
    tx.new(quads)                           # nothing is said yet of what these are about
    tx.log(leaves.rows("change", ["plan"])) # what the log says of it
    tx.commit(store)

A precondition carries the error that it means if it does not hold. Without one, `PreconditionFailed` is raised.

The catalog's statements about a principal, an agent or a tool are removed with the last mention of it.

Turns that are being copied and graphs of deleted sessions that are being swept have a mark in the catalog, which no
leaf covers. A mark is honest if this process put it there. What a killed process left is finished when the store is
opened next.

Each slot of the session tree is taken by at most one session, imported ones included.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import InvalidInput, SessionExists, StoreFailed, TrailsError
from trails.history import encryption_guard, hold_guard
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.model.values import SessionRecord
from trails.rdf import vocab
from trails.store.contract import Change, Committed, Matching, PreconditionFailed, QuadStore
from trails.store.pattern import Found, Pattern, Preview, matches
from trails.store.remote.store import RemoteStore

LeafMaker = Callable[[Preview], Sequence[Leaf]]
"""Makes the leaves of a commit from the store as it will be, to which it may add what is only known then."""
_TRIES: Final = 1_000
Refusal = Callable[[PreconditionFailed], Exception]
"""Makes the error that a precondition means to the caller where it does not hold."""


class Wording(Protocol):
    """What the errors tell of sessions: a `Reader` knows."""

    def not_found(self, session_id: str) -> Exception:
        """Return the error for a session that is not there."""
        ...

    def is_deleted(self, session_id: str) -> bool:
        """Tell whether a session was deleted."""
        ...

    def labelled(self, label: str) -> str | None:
        """Return the id of the session with a label."""
        ...


@lru_cache(maxsize=256)
def is_stored(session_id: str) -> Quad:
    """Return the quad that says that a session is there, and was not deleted."""
    return Quad(NamedNode(iris.session(session_id)), vocab.TYPE, vocab.SESSION, vocab.CATALOG)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A commit whose leaves are made when it is done, from the store as it then will be."""

    add: Sequence[Quad] = ()
    remove: Sequence[Quad] = ()
    require: Sequence[Quad] = ()
    forbid: Sequence[Pattern] = ()
    makers: Sequence[LeafMaker] = ()
    seen: object = None
    writer: object = None
    reads_all: bool = False
    """Whether its leaves are made from all that the store holds: what was read is not kept in mind then."""

    def joined(self, other: Proposal) -> Proposal:
        """Return the one commit that does both. What both were seen to require at the same time is not looked up."""
        return Proposal(
            seen=self.seen if self.seen == other.seen else None,
            writer=None if other.forbid else self.writer,
            add=[*self.add, *other.add],
            remove=[*self.remove, *other.remove],
            require=[*self.require, *other.require],
            forbid=[*self.forbid, *other.forbid],
            makers=[*self.makers, *other.makers],
        )

    def asked_for(self, failure: PreconditionFailed) -> bool:
        """Tell whether a precondition that did not hold was one of this commit's own."""
        if failure.present is None:
            return failure.missing in self.require
        return any(matches(failure.present, pattern) for pattern in self.forbid)

    def commit(self, store: QuadStore) -> Committed:
        """Do it; raise `PreconditionFailed` where a requirement does not hold.

        Where another writer changes what the leaves are made from, they are made again: he got on, so that ends.
        """
        for _ in range(_TRIES):
            try:
                return store.commit(self._made_ahead(store) or self._made_for(store, store.quads))
            except PreconditionFailed as failure:
                if not failure.is_outdated:
                    raise
        raise TrailsError("other writers kept changing what was to be changed here; nothing was written, try again")

    def _made_ahead(self, store: QuadStore) -> Change | None:
        """Return the commit as a store that is far away takes it, with leaves for what is expected to be there.

        None if the store is here, or no leaves can be made so.
        """
        if not isinstance(store, RemoteStore) or self.reads_all:
            return None
        with suppress(Exception):  # what is expected may not be so: then the store itself is asked
            return replace(self._made_for(store, store.expected), as_of=None)
        return None

    def _made_for(self, store: QuadStore, look: Callable[[Pattern], list[Quad]]) -> Change:
        """Return the commit as a store takes it, with leaves for the store as `look` shows it."""
        number, after = store.number, Preview(look, Found(self.add), self.remove)
        try:
            hold_guard.check_commit(after, self.add, self.remove)
            made = [leaf for maker in self.makers for leaf in maker(after)]
            encryption_guard.check_commit(store, self.add, after.more_added)
        except Exception:
            self._refuse_unmet(store)  # of a store in which it may not be done, there may be no leaves
            raise
        return Change(
            add=self.add,
            remove=self.remove,
            require=self.require,
            forbid=self.forbid,
            seen=self.seen,
            writer=self.writer,
            leaves=made,
            also_add=after.more_added,
            also_remove=after.more_removed,
            drop=after.more_dropped,
            read=None if self.reads_all else after.read,
            as_of=number,
        )

    def _refuse_unmet(self, store: QuadStore) -> None:
        for quad in self.require:
            if not store.quads((quad.subject, quad.predicate, quad.object, quad.graph_name)):  # type: ignore[arg-type] # no blank nodes
                raise PreconditionFailed(missing=quad)
        for pattern in self.forbid:
            if found := store.quads(pattern):
                raise PreconditionFailed(matched=found)


class Transaction:
    """A commit in the making."""

    __slots__ = ("_add", "_forbid", "_makers", "_reader", "_refusals", "_remove", "_require")

    def __init__(self, reader: Wording | None = None) -> None:
        """`reader` words the errors; without one, `session`, `forbid_id` and `label` have none of their own."""
        self._reader = reader
        self._add: list[Quad] = []
        self._remove: list[Quad] = []
        self._require: list[Quad] = []
        self._forbid: list[Pattern] = []
        self._refusals: list[tuple[Quad | Pattern, Refusal]] = []
        """What preconditions mean that mean something: apart, for a commit is written far more often than refused."""
        self._makers: list[LeafMaker] = []

    # --- what must hold meanwhile

    def require(self, quads: Iterable[Quad], refusal: Refusal | None = None) -> None:
        """Let the commit happen only while quads are there."""
        before = len(self._require)
        self._require += quads
        if refusal is not None:
            self._refusals += [(quad, refusal) for quad in self._require[before:]]

    def forbid(self, pattern: Pattern, refusal: Refusal | None = None) -> None:
        """Let the commit happen only while nothing matches a pattern."""
        self._forbid.append(pattern)
        if refusal is not None:
            self._refusals.append((pattern, refusal))

    def session(self, session_id: str) -> None:
        """Let the commit happen only while a session is there; else it raises `SessionNotFound`."""
        reader, row = self._reader, is_stored(session_id)
        self._require.append(row)
        if reader is not None:
            self._refusals.append((row, lambda _: reader.not_found(session_id)))

    def forbid_id(self, session_id: str, refusal: Refusal | None = None) -> None:
        """Let the commit happen only while a session's id was never used and is no tag's name; else it raises `InvalidInput`."""
        reader = self._reader
        known: Refusal | None = None if reader is None else lambda _: id_in_use(reader, session_id)
        pattern = (NamedNode(iris.session(session_id)), vocab.TYPE, None, vocab.CATALOG)
        self.forbid(pattern, refusal or known)
        self._no_tag(session_id)

    def label(self, label: str, refusal: Refusal | None = None) -> None:
        """Let the commit happen only while nothing has a label, a tag's name included; else it raises `InvalidInput`."""
        reader = self._reader
        known = None if reader is None else lambda _: label_in_use(reader, label)
        self.forbid((None, vocab.LABEL, Literal(label), vocab.CATALOG), refusal or known)
        self._no_tag(label)

    def _no_tag(self, name: str) -> None:
        """Let the commit happen only while no tag has a name."""
        taken = (NamedNode(iris.tag(name)), vocab.TYPE, None, vocab.CATALOG)
        self.forbid(taken, lambda _: tag_in_use(name))

    # --- what comes and goes

    def add(self, quads: Iterable[Quad]) -> None:
        """Write quads."""
        self._add += quads

    def remove(self, quads: Iterable[Quad]) -> None:
        """Take quads out, whether they are there or not."""
        self._remove += quads

    def take(self, quads: Sequence[Quad], refusal: Refusal | None = None) -> None:
        """Take quads out, which must be there until then."""
        self._remove += quads
        self.require(quads, refusal)

    def new(self, quads: Sequence[Quad], refusal: Refusal | None = None) -> None:
        """Write what is said of the first quad's subject, of which nothing may be said yet in that graph."""
        self._add += quads
        self.forbid((quads[0].subject, None, None, quads[0].graph_name), refusal)  # type: ignore[arg-type] # IRIs

    def move(self, old: Iterable[Quad], new: Iterable[Quad], refusal: Refusal | None = None) -> None:
        """Let something that is as it was read become something else: what differs goes and comes."""
        before, after = set(old), set(new)
        self._add += after - before
        self.take(list(before - after), refusal)

    # --- what is logged of it

    def log(self, maker: LeafMaker) -> None:
        """Log what a maker gives for the store as it will be: called anew where that becomes another before the commit."""
        self._makers.append(maker)

    def log_leaves(self, made: Sequence[Leaf]) -> None:
        """Log leaves that are known already."""
        self._makers.append(lambda _: made)

    # --- the commit

    def join(self, other: Transaction) -> None:
        """Let all that another transaction would do happen in the same commit."""
        self._add += other._add
        self._remove += other._remove
        self._require += other._require
        self._forbid += other._forbid
        self._refusals += other._refusals
        self._makers += other._makers

    def change(self, *, seen: object = None, writer: object = None) -> Proposal:
        """Return the commit, to be done or to be joined with another; `seen` and `writer` are those of a `Change`."""
        return Proposal(self._add, self._remove, self._require, self._forbid, self._makers, seen, writer)

    def commit(self, store: QuadStore, otherwise: Refusal | None = None) -> bool:
        """Write it; return False where it had all happened before.

        Raises what the precondition that does not hold means, or `otherwise` where that says nothing.
        """
        try:
            return self.change().commit(store).written
        except PreconditionFailed as failure:
            error = self.error(failure, otherwise)
            if error is failure:
                raise
            raise error from failure

    def error(self, failure: PreconditionFailed, otherwise: Refusal | None = None) -> Exception:
        """Return the error that a failed precondition means: the failure itself where nothing says one."""
        found = next((refusal for asked, refusal in self._refusals if _failed(asked, failure)), None)
        found = found or otherwise
        return failure if found is None else found(failure)


def _failed(asked: Quad | Pattern, failure: PreconditionFailed) -> bool:
    """Tell whether a quad that must be there, or a pattern that must match nothing, is what did not hold."""
    if isinstance(asked, Quad):
        return asked == failure.missing
    return failure.present is not None and matches(failure.present, asked)


def is_mentioned(store: Matching, quads: Iterable[Quad]) -> list[Quad]:
    """Return those of quads, which were read and are to be written again elsewhere, that a commit must require.

    Where the store says nothing of a property any more, or never did, as in rows of an older format, none of it is required.
    """
    return [quad for quad in quads if store.quads((quad.subject, quad.predicate, None, quad.graph_name))]  # type: ignore[arg-type] # IRIs


# --- what it means


def id_in_use(reader: Wording, session_id: str) -> InvalidInput:
    """Return the error for the id of a session that is there, or was."""
    if reader.is_deleted(session_id):
        return InvalidInput(f"session {session_id!r} was deleted, and its id is not used again; choose another id")
    return SessionExists(f"there is a session {session_id!r} already; load it, or choose another id")


def check_free_names(store: QuadStore, reader: Wording, session_id: str, label: str | None) -> None:
    """Raise `InvalidInput` where a new session's id or label is in use by now, as the commit that stores it would."""
    if store.quads((NamedNode(iris.session(session_id)), vocab.TYPE, None, vocab.CATALOG)):
        raise id_in_use(reader, session_id)
    if label is not None and store.quads((None, vocab.LABEL, Literal(label), vocab.CATALOG)):
        raise label_in_use(reader, label)
    for name in (session_id, label):
        if name is not None and store.quads((NamedNode(iris.tag(name)), vocab.TYPE, None, vocab.CATALOG)):
            raise tag_in_use(name)


def tag_in_use(name: str) -> InvalidInput:
    """Return the error for an id or a label that is a tag's or a ref's name: that would not be found by it any more."""
    return InvalidInput(f"{name!r} is the name of a tag or a ref; choose another, or remove that first")


def label_in_use(reader: Wording, label: str) -> InvalidInput:
    """Return the error for a label that a session has already."""
    return InvalidInput(f"the label {label!r} belongs to session {reader.labelled(label)!r}; choose another")


_LINKS = (vocab.ATTRIBUTED_TO, vocab.ASSOCIATED_WITH, vocab.TOOL_USED, vocab.APPROVED_BY, vocab.REFUSED_BY)


def sweep_names(store: QuadStore, names: Iterable[NamedNode] | None = None) -> int:
    """Take out what the catalog says of those principals, agents and tools (None: of all) that nothing mentions; return how many.

    Each goes only while nothing does, so a session that another thread makes for one meanwhile is not left without it.
    """
    gone = 0
    for quad in _types(store, names):
        tx = Transaction()
        tx.take(store.quads((quad.subject, None, None, vocab.CATALOG)) if quad.object == vocab.TOOL else [quad])  # type: ignore[arg-type] # an IRI
        tx.forbid((None, None, quad.subject, None))  # type: ignore[arg-type] # an IRI
        with suppress(PreconditionFailed):  # it is mentioned, or gone
            gone += tx.commit(store)
    return gone


def names_in(quads: Iterable[Quad]) -> set[NamedNode]:
    """Return the principals, agents and tools that quads mention."""
    return {node for quad in quads if isinstance(node := quad.object, NamedNode) and iris.is_author(node.value)}


def names_in_graphs(store: QuadStore, graphs: Iterable[NamedNode]) -> set[NamedNode]:
    """Return the principals, agents and tools that graphs mention."""
    return {name for graph in graphs for link in _LINKS for name in names_in(store.quads((None, link, None, graph)))}


def _types(store: QuadStore, names: Iterable[NamedNode] | None) -> list[Quad]:
    if names is None:
        kinds = (vocab.PRINCIPAL, vocab.AGENT, vocab.TOOL)
        return [quad for kind in kinds for quad in store.quads((None, vocab.TYPE, kind, vocab.CATALOG))]
    return [quad for name in names for quad in store.quads((name, vocab.TYPE, None, vocab.CATALOG))]


_BEGUN: Final[WeakKeyDictionary[QuadStore, Counter[Quad]]] = WeakKeyDictionary()
_COUNTING: Final = threading.Lock()
STORE_COPY: Final = Quad(NamedNode(iris.STORE), vocab.TYPE, vocab.UNFINISHED_COPY, vocab.CATALOG)
"""What a store says of itself into which another is being copied, from before its first quad until all of it has arrived."""


def begin_work(store: QuadStore, marks: Iterable[Quad]) -> None:
    """Take note of marks, before the commit that puts them there."""
    with _COUNTING:
        _BEGUN.setdefault(store, Counter()).update(marks)


def end_work(store: QuadStore, marks: Iterable[Quad]) -> None:
    """Forget marks that are gone, or were refused: once for each time that they were begun."""
    with _COUNTING:
        begun = _BEGUN.get(store, Counter[Quad]())
        begun.subtract(mark for mark in marks if begun[mark] > 0)
        for mark in [mark for mark, times in begun.items() if times < 1]:
            del begun[mark]


def is_work_mark(quad: Quad) -> bool:
    """Tell whether a quad says that its subject's graph waits to be swept, or that turns are being copied there."""
    return quad.predicate in vocab.PENDING or quad.object == vocab.UNFINISHED_COPY


def work_marks(store: QuadStore) -> set[Quad]:
    """Return all marks that a store holds, whoever put them there."""
    sweeps = [quad for mark in vocab.PENDING for quad in store.quads((None, mark, None, vocab.CATALOG))]
    return {*sweeps, *store.quads((None, None, vocab.UNFINISHED_COPY, vocab.CATALOG))}


def is_half_copied(store: QuadStore) -> bool:
    """Tell whether a store is a copy of another that has not arrived whole."""
    mark = STORE_COPY
    return bool(store.quads((mark.subject, mark.predicate, mark.object, mark.graph_name)))  # type: ignore[arg-type] # an IRI


def refuse_half_copied(store: QuadStore) -> None:
    """Raise `StoreFailed` where a store is a copy of another that has not arrived whole."""
    if is_half_copied(store):
        raise StoreFailed(
            f"{store.location} is a copy that was not finished, and no store yet; `trails copy` from the same place to it again "
            "goes on with it, or remove it (`trails store discard` does, in a database)"
        )


@contextmanager
def believed_marks(store: QuadStore, found: Iterable[Quad]) -> Iterator[None]:
    """Take marks for honest for a while."""
    taken = list(found)
    begin_work(store, taken)
    try:
        yield
    finally:
        end_work(store, taken)


def is_known_mark(store: QuadStore, quad: Quad) -> bool:
    """Tell whether a quad is a mark that this process put into a store.

    That of a key which is to be destroyed stays until the store is opened with keys: it may be anybody's.
    """
    return quad.predicate == vocab.PENDING_KEY or (is_work_mark(quad) and quad in _BEGUN.get(store, ()))


def slot_findings(records: Iterable[SessionRecord]) -> Iterator[tuple[str, str, str]]:
    """Give (code, session, what) for each session that takes a slot that another one takes too."""
    holders: dict[str, list[str]] = defaultdict(list)
    for record in records:
        if record.slot is not None:
            holders[record.slot].append(record.id)
    for slot, ids in holders.items():
        for each in ids[1:]:
            yield "bad-row", each, f"takes the slot {slot!r} of the session tree, which {ids[0]!r} takes too"


def take_slot(slot: str) -> Pattern:
    """Return the pattern that matches while a slot is taken."""
    return None, vocab.SLOT, Literal(slot), vocab.CATALOG


def slot_holder(store: QuadStore, slot: str) -> str | None:
    """Return the id of the session that takes a slot, or None where it is free."""
    found = [quad.subject for quad in store.quads(take_slot(slot)) if isinstance(quad.subject, NamedNode)]
    return iris.session_id(found[0].value) if found else None
