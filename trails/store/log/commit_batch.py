"""Deciding what a batch of waiting commits does: each by its own preconditions, over the store and the ones before it.

Nothing is written here. What is decided is a list of settled commits, which the log appends in one transaction, and which the
engine gets in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, takewhile
from typing import Final

import pyoxigraph as ox

from trails.errors import IntegrityError, InvalidInput
from trails.integrity import leaves
from trails.integrity.leaves import Leaf
from trails.model import validation
from trails.rdf import vocab
from trails.store.contract import Change, Committed, PreconditionFailed
from trails.store.leaflog import Leaves, lines_after
from trails.store.log import erasing, records
from trails.store.log.records import CommitRecord
from trails.store.pattern import Found, Pattern, Preview

_TOLD: Final = 100
"""Quads that matched what was forbidden, and are told to whoever forbade them."""


@dataclass(eq=False, slots=True)
class Waiting:
    """A commit that waits for its turn, and what became of it."""

    change: Change
    outcome: Committed | None = None
    done: bool = False
    error: Exception | None = None


_NOBODY: Final = Waiting(Change())
"""Who waits for a commit that was carried out."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A commit that is to be written: its quads, its leaves with their lines, and its record."""

    waiting: Waiting
    add: Sequence[ox.Quad]
    remove: Sequence[ox.Quad]
    leaves: Sequence[Leaf]
    lines: Sequence[str]
    after: Leaves
    record: CommitRecord
    graphs: Collection[object]
    """The graphs that it adds quads to or removes them from."""
    size: int
    """How much it holds in memory: the quads that it adds, and one more for each thousand bytes of their text."""
    lost: Sequence[str] = ()
    """The properties that it drops of which the log no longer has the values. `remove` has those that are known here; what is
    derived from records that others brought in may have more."""

    @property
    def is_packed(self) -> bool:
        """Whether its quads are in its record alone."""
        return not self.add and not self.remove and (self.record.quads_added or self.record.remove) != b""

    @property
    def quads_added(self) -> int:
        """How many quads it adds."""
        return self.record.quads_added.count(b"\n")

    def packed(self) -> Settled:
        """Return it without its quads, and without whoever waited for it: the record holds what an engine needs."""
        return replace(self, waiting=_NOBODY, add=(), remove=())


@dataclass(eq=False, slots=True)
class Batch:
    """Commits that are decided together; `over` is the store as the ones before leave it."""

    look: Callable[[Pattern], ox.Store]
    """Gives the engine, once it has of all commits before this batch what matches a pattern."""
    reached: Leaves
    """How far the log of leaves reached before this batch."""
    token: object
    """What stands for all that was there before this batch."""
    number: int
    """The number of the last record before this batch."""
    writers: Mapping[object, object]
    """By graph, who wrote to it last."""
    settled: list[Settled] = field(default_factory=list)
    wrote: dict[object, object] = field(default_factory=dict)
    """By graph, who of this batch wrote to it last."""
    alone: bool = False
    """Whether there is one commit only: what it does need not be kept in mind."""
    interrupt: BaseException | None = None
    """An interrupt that came once the log had it: it is raised when all of it is carried out."""
    _add: dict[ox.Quad, None] = field(default_factory=dict)
    _remove: set[ox.Quad] = field(default_factory=set)

    @property
    def last(self) -> int:
        """The number of its last record."""
        return self.number + len(self.settled)

    @property
    def size(self) -> int:
        """How much it holds in memory, as its commits say it."""
        return sum(each.size for each in self.settled)

    @property
    def added(self) -> Iterator[ox.Quad]:
        """The quads that it adds."""
        return chain.from_iterable(each.add for each in self.settled)

    @property
    def removes(self) -> bool:
        """Whether any of its commits removes anything."""
        return any(each.record.remove or each.record.drop for each in self.settled)

    @property
    def is_opaque(self) -> bool:
        """Whether what it changes may match any pattern: it removes something, or its quads are in its records alone."""
        return self.removes or any(each.is_packed for each in self.settled)

    def pack(self) -> None:
        """Let go of the quads of its commits, which are carried out: the records hold them."""
        self.settled = [each.packed() for each in self.settled]
        self._add, self._remove = {}, set()

    def decide(self, waiting: Waiting) -> None:
        """Settle a commit, or note that it had happened, or why it may not."""
        change = waiting.change
        try:
            unmet = self._unmet(change) or self._outdated(change)
            if unmet is None:
                self.settled.append(self._settle(waiting))
                return
            waiting.error = None if self._happened(change) else unmet
        except Exception as refusal:  # noqa: BLE001 - raised where this commit waits, and no other
            waiting.error = refusal
        waiting.done = True

    def take(self, record: CommitRecord, waiting: Waiting | None = None, *, packs: bool = False) -> None:
        """Put in a commit that is in the log already; `waiting` is who waits for it here, if anybody.

        If it `packs`, its quads are left in the record, and no commit may be decided in this batch any more.
        """
        if packs and not record.drops_properties:
            self._take_packed(record, waiting)
            return
        add, remove = (_parsed(part) for part in (record.quads_added, record.remove))
        after, made = self._after(record)
        graphs = [each for each in record.drop if " " not in each]
        lost = [each for each in record.drop if " " in each]
        if lost:  # of an erased property, the log does not tell the value: it is looked up here
            left = [quad for each in lost for quad in self._of_property(each)]
            remove = list(dict.fromkeys([*remove, *left]))
            record = CommitRecord.of(leaves=record.leaves, drop=graphs, remove=remove, add=add, flags=record.flags)
        dropped = self._drop([ox.NamedNode(graph) for graph in graphs])
        graphs_touched = self._note(object(), add, remove, dropped)
        self._keep_in_mind(add, [*dropped, *remove])
        waiting = Waiting(Change()) if waiting is None else waiting
        self.settled.append(
            Settled(waiting, add, remove, made, record.leaves, after, record, graphs_touched, _size(add, record), lost)
        )

    def _take_packed(self, record: CommitRecord, waiting: Waiting | None) -> None:
        after, made = self._after(record)
        graphs: set[object] = {ox.NamedNode(name) if name else vocab.CATALOG for name in record.graphs()}
        self.wrote.update(dict.fromkeys(graphs, object()))
        waiting = Waiting(Change()) if waiting is None else waiting
        size = record.quads_added.count(b"\n") + len(record.add) // 1_000
        self.settled.append(Settled(waiting, (), (), made, record.leaves, after, record, graphs, size))

    def _after(self, record: CommitRecord) -> tuple[Leaves, list[Leaf]]:
        """Return how far the log of leaves reaches after a record, and the leaves of that."""
        before = self.settled[-1].after if self.settled else self.reached
        link = leaves.link_leaf(record.leaves[-1]) if record.leaves else before.link
        after = Leaves(before.lines + len(record.leaves), self.last + 1 if record.leaves else before.number, link)
        return after, [leaves.parse_leaf(line)[0] for line in record.leaves]

    def _of_property(self, dropped: str) -> list[ox.Quad]:
        return [
            each for each in self._found(erasing.property_pattern(dropped)) if erasing.is_of_property(dropped, each)
        ]

    def _drop(self, graphs: Sequence[ox.NamedNode]) -> list[ox.Quad]:
        """Return all quads of graphs that go."""
        return [quad for graph in graphs for quad in self._found((None, None, None, graph))]

    def _keep_in_mind(self, add: Sequence[ox.Quad], remove: Sequence[ox.Quad]) -> None:
        for quad in remove:
            self._add.pop(quad, None)
        self._remove.update(remove)
        self._remove.difference_update(add)
        self._add.update(dict.fromkeys(add))

    def _settle(self, waiting: Waiting) -> Settled:
        change = waiting.change
        add, remove = change.add, change.remove
        if change.also_add or change.also_remove:
            add, remove = [*add, *change.also_add], [*remove, *change.also_remove]
        dropped = self._drop(change.drop)
        before = self.settled[-1].after if self.settled else self.reached
        lines, reached = _lines(change.leaves, before)
        if lines:
            reached = reached._replace(number=self.last + 1)
        graphs = [graph.value for graph in change.drop]
        record = CommitRecord.of(leaves=lines, drop=graphs, remove=remove, add=add)
        if len(record.add) > validation.MAX_TEXT:
            refuse_too_long(add, record)
        touched = self._note(change.writer, add, remove, dropped)
        if not self.alone:
            self._keep_in_mind(add, [*dropped, *remove])
        return Settled(waiting, add, remove, change.leaves, lines, reached, record, touched, _size(add, record))

    def _note(self, writer: object, *changed: Sequence[ox.Quad]) -> Collection[object]:
        """Remember who wrote last to the graphs of quads, and return these."""
        graphs = {quad.graph_name for quads in changed for quad in quads}
        self.wrote.update(dict.fromkeys(graphs, writer))
        return graphs

    # --- what is there, with what the commits before do

    def _has(self, quad: ox.Quad) -> bool:
        if quad in self._add:
            return True
        return quad not in self._remove and quad in self.look(_only(quad))

    def _found(self, pattern: Pattern) -> Iterator[ox.Quad]:
        if not self._add and not self._remove:
            return matching(self.look(pattern), pattern)
        stored: Callable[[Pattern], list[ox.Quad]] = lambda asked: list(matching(self.look(asked), asked))  # noqa: E731
        return iter(Preview(stored, Found(self._add), self._remove).quads(pattern))

    def _unmet(self, change: Change) -> PreconditionFailed | None:
        if change.seen != self.token or self._remove:
            for quad in change.require:
                if not self._has(quad):
                    return PreconditionFailed(missing=quad)
        for pattern in change.forbid:
            if change.writer is not None and self._last_writer(pattern[3]) is change.writer:
                continue
            matched = list(islice(self._found(pattern), _TOLD))
            if matched:
                return PreconditionFailed(matched=matched)
        return None

    def _outdated(self, change: Change) -> PreconditionFailed | None:
        """Return why a change is refused the leaves of which were made from what is not so any more."""
        if change.read == {} or (change.as_of == self.number and not self.settled):
            return None
        if change.read is not None and all(
            set(self._found(pattern)) == set(quads) for pattern, quads in change.read.items()
        ):
            return None
        return PreconditionFailed(is_outdated=True)

    def _last_writer(self, graph: object) -> object:
        return self.wrote[graph] if graph in self.wrote else self.writers.get(graph)

    def _happened(self, change: Change) -> bool:
        return (
            bool(change.add or change.remove)
            and all(map(self._has, change.add))
            and not any(map(self._has, change.remove))
        )


def _size(add: Sequence[ox.Quad], record: CommitRecord) -> int:
    return len(add) + len(record.add) // 1_000


def _only(quad: ox.Quad) -> Pattern:
    """Return the pattern that one quad matches."""
    return quad.subject, quad.predicate, quad.object, quad.graph_name  # type: ignore[return-value] # no blank nodes, ever


def matching(engine: ox.Store, pattern: Pattern) -> Iterator[ox.Quad]:
    """Yield the quads that match a pattern, and only those.

    On disk, the engine (0.5.13) follows the quads with an integer of which the last byte is 255 with up to 255 others,
    whose integers are greater.
    """
    found = engine.quads_for_pattern(*pattern)
    wanted = pattern[2]
    if not isinstance(wanted, ox.Literal) or wanted.datatype != vocab.INTEGER:
        return found
    if pattern[1] is None or pattern[3] is None:
        return (quad for quad in found if quad.object == wanted)
    return takewhile(lambda quad: quad.object == wanted, found)  # those that match come first


def _parsed(lines: bytes) -> list[ox.Quad]:
    return list(ox.parse(lines, format=ox.RdfFormat.N_QUADS)) if lines else []


def _lines(made: Sequence[Leaf], before: Leaves) -> tuple[list[str], Leaves]:
    """Return the lines that leaves have after a place, and how far these reach; raise `InvalidInput` for what is no leaf."""
    try:
        lines, reached = lines_after(made, before)
        for line in lines:
            leaves.parse_leaf(line)
    except (IntegrityError, ValueError) as error:  # of text that has no bytes, or a number without end
        raise InvalidInput(
            f"a commit has a leaf that no log may hold ({error!s:.200}): a leaf has a kind, the IRI of a session or document, a "
            "count and a digest in hex; nothing was written"
        ) from error
    return lines, reached


def refuse_too_long(quads: Iterable[ox.Quad], record: CommitRecord) -> None:
    """Raise `InvalidInput` for a text that the engine would take and could never read again from a record or an export."""
    for quad in quads:
        if isinstance(quad.object, ox.Literal) and not validation.fits(quad.object.value):
            raise InvalidInput(
                f"a text is too long to be read again ({quad.subject} {quad.predicate}): at most {validation.MAX_TEXT:,} bytes "
                "of UTF-8 with escapes; nothing was written"
            )
    if record.longest_line() > records.LONGEST_LINE:
        raise InvalidInput(
            f"a quad is too long to be read again: at most {records.LONGEST_LINE:,} bytes as a line of text"
        )
