"""A store as one principal may see it: a copy in memory of what is theirs, which follows the store's log.

Nothing else is in the copy, so nothing that reads it can show more. It is a store of its own, with an index, rows and a
log: whatever reads a store reads it. What others commit costs it nothing but a look at their records.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from pyoxigraph import NamedNode, Quad, RdfFormat, parse

from trails.display.progress import Progress
from trails.errors import InvalidInput, StoreReadOnly
from trails.history import record_registry
from trails.integrity.leaves import Leaf, parse_leaf
from trails.model import iris
from trails.model.values import VerifyReport
from trails.rdf import vocab
from trails.rdf.codec import term_text
from trails.serve import visibility
from trails.serve.visibility import Catalogue
from trails.session.proofs import Proofs
from trails.session.repository import Repository
from trails.store.contract import Change, Committed
from trails.store.embedded import EmbeddedStore
from trails.store.log.records import ERASES, REWRITES, Unpacked
from trails.store.pattern import NOTHING

MOST_VIEWS: Final = 32
"""Principals whose views are kept,"""
_MOST_IN_VIEWS: Final = 4_000_000
"""as long as there are not more quads in them; the view that was asked for last is always kept."""
_MOST_STEPS: Final = 2000
_MOST_QUADS: Final = 200_000
"""Records, and quads in them, that are kept for views that are behind; one that is further behind is made anew."""


class ScopedStore(EmbeddedStore):
    """The quads that one principal may see, in memory. What writes raises `StoreReadOnly`."""

    is_copy = True

    def __init__(self) -> None:
        super().__init__(None)

    def commit(self, change: Change) -> Committed:
        self._refuse()

    def take(self, change: Change) -> None:
        """Take in what was committed to the store itself."""
        super().commit(change)

    def _refuse(self) -> NoReturn:
        raise StoreReadOnly(
            "this is what one principal may see of a store, and only to be read; write to the store itself, as one who may"
        )


class ScopedRepository(Repository):
    """The sessions that one principal may see. What is theirs is verified against the whole store's log."""

    def __init__(self, store: ScopedStore, whole: Repository) -> None:
        """Show what a store of quads holds of a whole one."""
        super().__init__(store, limits=whole.limits)
        self._whole = whole

    @property
    def proofs(self) -> Proofs:
        raise InvalidInput(
            "checkpoints and proofs are of the whole store's log, and this is what one principal may see of it: ask an auditor"
        )

    def verify(  # type: ignore[override] # what a checkpoint covers is the whole store's
        self, session: str | None = None, *, progress: Progress | bool | None = None
    ) -> VerifyReport:
        """Hold the sessions that are seen here against the log of the whole store; return a report of these alone.

        `session` is an id, an IRI or a label: then only that one. What others have is not read, so it is not vouched for:
        neither the rest of the store nor the chain of its log. The report's `scope` says so.
        """
        records = [self.record(session)] if session is not None else [*self]
        reports = [self._whole.verify(record.iri) for record in records]
        theirs = {record.iri for record in records}
        lines = [leaf for leaf in _leaves(self.store.log.lines()) if session is None or leaf.session_iri in theirs]
        return VerifyReport(
            sessions=len(records),
            turns=sum(each.turns for each in reports),
            log_lines=len(lines),
            findings=tuple(dict.fromkeys(finding for each in reports for finding in each.findings)),
            scope=f"the {len(records)} sessions that this caller may see, and not the rest of the store or of its log",
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """What one record of the log did."""

    number: int
    subjects: frozenset[str]
    """The subjects of the catalogue that it touched."""
    removed: Sequence[Quad]
    added: Sequence[Quad]
    """What it removed from other graphs, and added there."""
    lines: Sequence[str]


@dataclass(slots=True)
class _View:
    """What one principal may see, and how far that is brought up."""

    principal: str
    repository: ScopedRepository
    store: ScopedStore
    number: int
    epoch: int
    visible: set[str]
    graphs: set[str]
    """The graphs of it, and the things beside the sessions that it refers to."""


class ScopedViews:
    """The views of a store, by principal: each is made when it is first asked for, and brought up when it is asked for again."""

    def __init__(self, whole: Repository, most: int = MOST_VIEWS) -> None:
        """Show parts of a store; `most` is of how many principals views are kept."""
        self._whole = whole
        self._store = whole.store
        self._most = most
        self._views: OrderedDict[str, _View] = OrderedDict()
        self._making: dict[str, threading.Lock] = {}
        self._lock = threading.RLock()
        self._catalogue: Catalogue | None = None
        self._number = -1
        """Up to which record the catalogue is read."""
        self._epoch = 0
        """How often something happened after which all views are made anew: something was erased, or changed hands."""
        self._steps: deque[_Step] = deque()
        self._kept = 0

    def of(self, principal: str) -> ScopedRepository:
        """Return what a principal may see, with everything that was acknowledged before this call. It blocks."""
        number = self._now()
        with self._lock:
            view = self._views.get(principal)
            if view is not None:
                self._views.move_to_end(principal)
                if (view.number, view.epoch) == (number, self._epoch):
                    return view.repository
        while True:
            view = view or self._made_once(principal)
            with self._lock:
                self._bring_up()
                if self._follow(view):
                    return view.repository
                if self._views.get(principal) is view:
                    del self._views[principal]
            view = None

    def _let_go(self) -> None:
        sizes = {name: len(view.store) for name, view in self._views.items()}
        while len(sizes) > 1 and (len(sizes) > self._most or sum(sizes.values()) > _MOST_IN_VIEWS):
            name, _ = self._views.popitem(last=False)  # whoever reads it may go on
            del sizes[name]

    def sees(self, principal: str, session_id: str) -> bool:
        """Tell whether a principal may see a session. It blocks, if shortly."""
        number = self._now()
        with self._lock:
            if self._number != number:
                self._bring_up()
            return self._told.sees(principal, iris.session(session_id))

    def _now(self) -> int:
        self._store.quads(NOTHING)  # what others committed is brought in
        return self._store.number

    # --- what there is

    @property
    def _told(self) -> Catalogue:
        assert self._catalogue is not None  # noqa: S101 - by `_bring_up`
        return self._catalogue

    def _bring_up(self) -> None:
        """Read the catalogue, or what was committed since it was read. Under the lock."""
        until = self._now()
        if self._catalogue is None:
            self._begin()
        if self._number >= until:
            return
        if not isinstance(self._store, EmbeddedStore):
            self._begin()
            return
        for unpacked in self._store.commits.records(self._number, until):
            if not self._take(unpacked):
                self._begin()
                return

    def _begin(self) -> None:
        self._number = self._store.number
        self._catalogue = Catalogue.of(self._quads(None))
        self._epoch += 1
        self._steps.clear()
        self._views.clear()
        self._kept = 0

    def _take(self, unpacked: Unpacked) -> bool:
        """Take in a record; return False if all is to be made anew."""
        record = unpacked.record
        if record.flags & (ERASES | REWRITES) or record.drop:
            return False
        removed, added = ([*parse(part, format=RdfFormat.N_QUADS)] for part in (record.remove, record.quads_added))
        subjects = {term_text(quad.subject) for quad in (*removed, *added) if quad.graph_name == vocab.CATALOG}
        for subject in sorted(subjects, key=lambda each: visibility.home_of(each) != each):  # first sessions' own rows
            if not self._told.note(subject, self._quads(subject)):
                return False
        made = _Step(
            unpacked.row.number,
            frozenset(subjects),
            [quad for quad in removed if quad.graph_name != vocab.CATALOG],
            [quad for quad in added if quad.graph_name != vocab.CATALOG],
            record.leaves,
        )
        self._number = made.number
        self._steps.append(made)
        self._kept += len(made.removed) + len(made.added)
        while len(self._steps) > _MOST_STEPS or self._kept > _MOST_QUADS:
            gone = self._steps.popleft()
            self._kept -= len(gone.removed) + len(gone.added)
        return True

    def _quads(self, subject: str | None, graph: NamedNode | None = None) -> list[Quad]:
        node = None if subject is None else NamedNode(subject)
        return self._store.quads((node, None, None, graph or vocab.CATALOG))

    # --- one view

    def _made_once(self, principal: str) -> _View:
        """Return a view that is made by one thread: others that ask for the same one wait for it."""
        with self._lock:
            making = self._making.setdefault(principal, threading.Lock())
        with making:
            with self._lock:
                self._making.pop(principal, None)
                kept = self._views.get(principal)
            view = kept or self._made(principal)
            with self._lock:
                self._views[principal] = view
                self._views.move_to_end(principal)
                self._let_go()
            return view

    def _made(self, principal: str) -> _View:
        """Return a view as of some moment, which may lack a part of what came meanwhile: `_follow` adds that."""
        with self._lock:
            self._bring_up()
            told, number, epoch = self._told, self._number, self._epoch
            visible = told.visible(principal)
            subjects = {each for session in visible for each in told.subjects(session)}
            subjects = {each for each in subjects if told.owners(each) <= visible}
            lines = [each for each in self._store.log.lines() if self._is_line_of(each, visible)]
        store = ScopedStore()
        graphs = {each for session in visible for each in graphs_of(session)}
        view = _View(principal, None, store, number, epoch, visible, graphs)  # type: ignore[arg-type] # set below
        quads = [quad for each in subjects for quad in self._quads(each)]
        quads += [quad for each in graphs for quad in self._quads(None, NamedNode(each))]
        quads = visibility.shown(quads, visible)
        quads += self._referred(view, quads)
        store.take(Change(add=quads, leaves=_leaves(lines)))
        view.repository = ScopedRepository(store, self._whole)
        return view

    def _is_line_of(self, line: str, visible: set[str]) -> bool:
        owners = self._told.owner_of_line(line)
        return bool(owners) and owners <= visible

    def _referred(self, view: _View, quads: Iterable[Quad]) -> list[Quad]:
        """Return what is said of the people, programs, tools, files, payloads and documents that quads refer to."""
        found: list[Quad] = []
        left = set(visibility.referents(quads)) - view.graphs
        while left:
            view.graphs |= left
            more = [quad for each in left for quad in (*self._quads(each), *self._quads(None, NamedNode(each)))]
            more = visibility.shown(more, view.visible)
            found += more
            left = set(visibility.referents(more)) - view.graphs
        return found

    def _follow(self, view: _View) -> bool:
        """Bring a view up to what is read; return False if it is to be made anew. Under the lock."""
        if view.epoch != self._epoch:
            return False
        if view.number == self._number:
            return True
        if not self._steps or self._steps[0].number > view.number + 1:
            return False
        steps = [each for each in self._steps if each.number > view.number]
        before, view.visible = view.visible, self._told.visible(view.principal)
        fresh = view.visible - before
        view.graphs |= {graph for each in fresh for graph in graphs_of(each)}
        net = _Net()
        for step in steps:
            net.remove(quad for quad in step.removed if term_text(quad.graph_name) in view.graphs)
            added = [quad for quad in step.added if term_text(quad.graph_name) in view.graphs]
            net.add(visibility.shown(added, view.visible))
        for subject in self._touched(steps, view):
            self._renew(view, subject, net)
        net.add(self._referred(view, list(net.added)))
        lines = [line for step in steps for line in step.lines if self._is_line_of(line, view.visible)]
        if net or lines:
            view.store.take(Change(remove=[*net.removed], add=[*net.added], leaves=_leaves(lines)))
        view.number = self._number
        return True

    def _touched(self, steps: Sequence[_Step], view: _View) -> set[str]:
        """Return the subjects of the catalogue that steps changed, and those that belong to a session by way of these."""
        found = {each for step in steps for each in step.subjects}
        through = {more for each in found if visibility.home_of(each) is None for more in self._told.subjects(each)}
        return found | through

    def _renew(self, view: _View, subject: str, net: _Net) -> None:
        owners = self._told.owners(subject)
        is_theirs = bool(owners) and owners <= view.visible
        wanted = self._quads(subject) if is_theirs or (not owners and subject in view.graphs) else []
        there = view.store.quads((NamedNode(subject), None, None, vocab.CATALOG))
        told = visibility.shown(wanted, view.visible)
        net.remove(quad for quad in there if quad not in told)
        net.add(quad for quad in told if quad not in there)


class _Net:
    """What is left of changes that follow on each other."""

    def __init__(self) -> None:
        self.removed: dict[Quad, None] = {}
        self.added: dict[Quad, None] = {}

    def __bool__(self) -> bool:
        return bool(self.removed or self.added)

    def remove(self, quads: Iterable[Quad]) -> None:
        for quad in quads:
            self.added.pop(quad, None)
            self.removed[quad] = None

    def add(self, quads: Iterable[Quad]) -> None:
        for quad in quads:
            self.removed.pop(quad, None)
            self.added[quad] = None


def graphs_of(session: str) -> list[str]:
    """Return the IRIs of a session's graphs: that of its turns, and those beside it."""
    return [session, *(graph.value for graph in record_registry.kind_graphs(session))]


def _leaves(lines: Iterable[str]) -> list[Leaf]:
    return [parse_leaf(line)[0] for line in lines]
