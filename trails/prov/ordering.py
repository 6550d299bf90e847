"""The ordering constraints of PROV-CONSTRAINTS (30 to 49): events, what precedes what, and circles that cannot be.

All generations of an entity happen at once (39), and so do its invalidations (40), and the starts and ends of an
activity (31, 32): each is one event. Each usage is one of its own. A rule orders events that there are: those that are
stated, and those that follow from a statement (Inferences 7 to 14 and 21). An order may run in a circle, all of it at
one moment, unless a step of it is strict: an entity is generated before what is derived from it (42).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from trails.prov.cycles import Edges, circles
from trails.prov.findings import NAMES, Finding, broken
from trails.prov.impossible import declared, specializations
from trails.prov.statements import Statement
from trails.prov.unification import NOTHING, Record, Term, Unified, each_of, is_unknown

STRICT: Final = 42


class Event(NamedTuple):
    """Something that happens at one moment: its kind, what it happens to, and the statements that say when."""

    what: str
    node: Term


@dataclass(slots=True)
class Order:
    """The events of one bundle and what precedes what: edge by edge its two events, its rule and the record behind it."""

    events: list[Event] = field(default_factory=list)
    edges: Edges = field(default_factory=Edges)
    rules: list[int] = field(default_factory=list)
    records: list[Record | None] = field(default_factory=list)
    times: list[tuple[int, str, Record]] = field(default_factory=list)
    """Event, time, and the record that says so."""

    def add(self, source: int | None, target: int | None, rule: int, record: Record | None) -> None:
        """Say that an event does not come after another, where both are events that there are."""
        if source is not None and target is not None:
            self.edges.sources.append(source)
            self.edges.targets.append(target)
            self.rules.append(rule)
            self.records.append(record)


class _Builder:
    """Makes the order of a bundle: first its events, then every rule's edges."""

    def __init__(self, unified: Unified) -> None:
        self._unified = unified
        self.order = Order()
        self._specific = specializations(unified)
        self._generated: dict[Term, int] = {}
        self._invalidated: dict[Term, int] = {}
        self._started: dict[Term, int] = {}
        self._ended: dict[Term, int] = {}
        self._used: dict[Term, int] = {}

    def build(self) -> Order:
        self._make_events()
        self._activities()
        self._usages()
        self._starts_and_ends()
        self._entities()
        self._agents()
        self._specializations()
        return self.order

    # --- events

    def _event(self, made: dict[Term, int], what: str, node: Term) -> int:
        number = made.get(node)
        if number is None:
            number = made[node] = len(self.order.events)
            self.order.events.append(Event(what, node))
        return number

    def _timed(self, event: int, time: Term, record: Record) -> None:
        time = self._unified.find(time)
        if isinstance(time, str) and not is_unknown(time) and time != NOTHING:
            self.order.times.append((event, time, record))

    def _make_events(self) -> None:
        unified, find = self._unified, self._unified.find
        for record in unified.records.get("wasGeneratedBy", ()):
            event = self._event(self._generated, "generation", find(record.terms[0]))
            self._timed(event, record.terms[2], record)
        for record in unified.records.get("wasInvalidatedBy", ()):
            event = self._event(self._invalidated, "invalidation", find(record.terms[0]))
            self._timed(event, record.terms[2], record)
        for record in unified.records.get("used", ()):
            event = self._event(self._used, "usage", find(record.id))
            self._timed(event, record.terms[2], record)
        for kind, made, what in (("wasStartedBy", self._started, "start"), ("wasEndedBy", self._ended, "end")):
            for record in unified.records.get(kind, ()):
                event = self._event(made, what, find(record.terms[0]))
                self._timed(event, record.terms[3], record)
        for record in unified.records.get("activity", ()):
            node = find(record.id)
            self._timed(self._event(self._started, "start", node), record.terms[0], record)
            self._timed(self._event(self._ended, "end", node), record.terms[1], record)
        stated = [find(record.id) for record in unified.records.get("entity", ())]
        for node in declared(self._specific, stated):
            self._event(self._generated, "generation", node)
            self._event(self._invalidated, "invalidation", node)
        for record in unified.records.get("wasAttributedTo", ()):  # Inference 13
            self._event(self._generated, "generation", find(record.terms[0]))

    # --- edges

    def _activities(self) -> None:
        add, started, ended = self.order.add, self._started, self._ended
        stated = {self._unified.find(record.id): record for record in self._unified.records.get("activity", ())}
        for node, start in started.items():
            add(start, ended.get(node), 30, stated.get(node))
        for record, (later, earlier) in each_of(self._unified, "wasInformedBy"):
            add(started.get(earlier), ended.get(later), 35, record)
        for record, (entity, activity, _) in each_of(self._unified, "wasGeneratedBy"):
            event = self._generated[entity]
            add(started.get(activity), event, 34, record)
            add(event, ended.get(activity), 34, record)

    def _usages(self) -> None:
        add = self.order.add
        for record, (activity, entity, _) in each_of(self._unified, "used"):
            event = self._used[self._unified.find(record.id)]
            add(self._started.get(activity), event, 33, record)
            add(event, self._ended.get(activity), 33, record)
            add(self._generated.get(entity), event, 37, record)
            add(event, self._invalidated.get(entity), 38, record)

    def _starts_and_ends(self) -> None:
        """Order triggers and what they trigger (43, 44): the activity behind one generated its entity (Inferences 9 and 10)."""
        add = self.order.add
        for kind, made, rule in (("wasStartedBy", self._started, 43), ("wasEndedBy", self._ended, 44)):
            for record, (activity, trigger, other, _) in each_of(self._unified, kind):
                event = made[activity]
                if other in self._started or other in self._ended or not isinstance(trigger, int):
                    generated = self._event(self._generated, "generation", trigger)
                    add(self._started.get(other), generated, 34, record)
                    add(generated, self._ended.get(other), 34, record)
                    add(generated, event, rule, record)
                add(event, self._invalidated.get(trigger), rule, record)

    def _entities(self) -> None:
        add, generated = self.order.add, self._generated
        find = self._unified.find
        stated = {find(record.terms[0]): record for record in self._unified.records.get("wasInvalidatedBy", ())}
        for node, event in self._invalidated.items():
            add(generated.get(node), event, 36, stated.get(node))
        for record, terms in each_of(self._unified, "wasDerivedFrom"):
            later, earlier, activity, _, usage = terms
            add(generated.get(earlier), generated.get(later), STRICT, record)
            if activity != NOTHING:
                add(self._used.get(usage), generated.get(later), 41, record)

    def _agents(self) -> None:
        add = self.order.add
        for record, (entity, agent) in each_of(self._unified, "wasAttributedTo"):
            event = self._generated.get(entity)
            add(self._generated.get(agent), event, 48, record)
            add(self._started.get(agent), event, 48, record)
        for record, (activity, agent, _) in each_of(self._unified, "wasAssociatedWith"):
            self._associated(activity, agent, record)
        for record, (delegate, responsible, activity) in each_of(self._unified, "actedOnBehalfOf"):
            add(self._generated.get(responsible), self._invalidated.get(delegate), 49, record)
            add(self._started.get(responsible), self._ended.get(delegate), 49, record)
            if activity != NOTHING:  # Inference 14
                self._associated(activity, delegate, record)
                self._associated(activity, responsible, record)

    def _associated(self, activity: Term, agent: Term, record: Record) -> None:
        add, started, ended = self.order.add, self._started, self._ended
        add(started.get(activity), self._invalidated.get(agent), 47, record)
        add(self._generated.get(agent), ended.get(activity), 47, record)
        add(started.get(activity), ended.get(agent), 47, record)
        add(started.get(agent), ended.get(activity), 47, record)

    def _specializations(self) -> None:
        """Order the generations and invalidations of specializations (45, 46), also over entities that have neither.

        Specialization is transitive (Inference 19). An entity without an event of its own gets one to pass the order on,
        which no other rule touches.
        """
        add = self.order.add
        for general, found in self._specific.items():
            for specific, record in found:
                one, two = (self._event(self._generated, "generation", node) for node in (general, specific))
                add(one, two, 45, record)
                one, two = (self._event(self._invalidated, "invalidation", node) for node in (specific, general))
                add(one, two, 46, record)


def order_of(unified: Unified) -> Order:
    """Return the events of a bundle and what precedes what."""
    return _Builder(unified).build()


def circles_of(order: Order, unified: Unified) -> Iterator[Finding]:
    """Yield a finding for each circle with a strict step; a strict step is in one of them, and in a shortest one first."""
    for circle in circles(order.edges, len(order.events), lambda edge: order.rules[edge] == STRICT):
        yield _circle(order, circle, unified)


def _circle(order: Order, circle: Sequence[int], unified: Unified) -> Finding:
    nodes: dict[str, None] = {}
    statements: dict[Statement, None] = {}
    said = [shown(order.events[order.edges.sources[circle[0]]])]
    for edge in circle:
        sign = "<" if order.rules[edge] == STRICT else "<="
        said.append(
            f"{sign} {shown(order.events[order.edges.targets[edge]])} ({order.rules[edge]} {NAMES[order.rules[edge]]})"
        )
        record = order.records[edge]
        if record is not None:
            statements.update(dict.fromkeys(unified.sources(record)))
        for event in (order.events[order.edges.sources[edge]], order.events[order.edges.targets[edge]]):
            if isinstance(event.node, str):
                nodes[event.node] = None
    return broken(STRICT, "an order runs in a circle: " + " ".join(said), list(nodes), statements)


def shown(event: Event) -> str:
    """Return an event for people."""
    return f"{event.what} of {event.node if isinstance(event.node, str) else 'something unknown'}"


def by_event(order: Order) -> Mapping[int, list[tuple[str, Record]]]:
    """Return the times that are stated of each event."""
    found: dict[int, list[tuple[str, Record]]] = {}
    for event, time, record in order.times:
        found.setdefault(event, []).append((time, record))
    return found
