"""Check the order of events, and find impossible statements.

These are the ordering constraints (30 to 49) and the typing and impossibility constraints (50 to 56) of PROV-CONSTRAINTS.

All generations of an entity happen at once (39), and so do its invalidations (40), and the starts and ends of an activity
(31, 32): each is one event. Each usage is an event of its own. A rule orders events that exist: those that are stated, and
those that follow from a statement (Inferences 7 to 14 and 21). An order may run in a circle, all of it at one moment, unless
one of its steps is strict: an entity is generated before what is derived from it (42).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from trails.provenance.statements import ATTRIBUTES, ELEMENTS, EMPTY, INFLUENCES, KINDS, QUALIFIED_NAME, TYPE, Statement
from trails.provenance.uniqueness import (
    ATTRIBUTE_RULE,
    CONSTRAINT_NAMES,
    NOTHING,
    Finding,
    Record,
    Term,
    Unified,
    each_of,
    finding_of,
    is_unknown,
)
from trails.rdf import vocab

_WORK: Final = 20_000_000
"""How many steps the search for more than one circle in a component may take, all components together."""


class Edge(NamedTuple):
    """One thing before another, by their numbers, the rule that orders them, and the record behind it."""

    source: int
    target: int
    rule: int
    record: Record | None


class OrderGraph:
    """Edges, by the node that they leave, and the strongly connected component of each node; nodes are numbered from 0."""

    def __init__(self, edges: Sequence[Edge], nodes: int) -> None:
        """Edges and nodes are all there."""
        self.edges = edges
        self.outgoing: list[list[Edge]] = [[] for _ in range(nodes)]
        for edge in edges:
            self.outgoing[edge.source].append(edge)
        self.component = _components(self.outgoing)


def _components(outgoing: Sequence[Sequence[Edge]]) -> list[int]:
    """Return, for each node, the number of its strongly connected component (Tarjan 1972, without recursion).

    Components are numbered from the last to the first: no edge leads to a higher number.
    """
    count = len(outgoing)
    index = [0] * count
    low = [0] * count
    component = [-1] * count
    stack: list[int] = []
    seen = made = 0
    for root in range(count):
        if index[root]:
            continue
        seen += 1
        index[root] = low[root] = seen
        stack.append(root)
        work = [(root, iter(outgoing[root]))]
        while work:
            node, ways = work[-1]
            for edge in ways:
                other = edge.target
                if not index[other]:
                    seen += 1
                    index[other] = low[other] = seen
                    stack.append(other)
                    work.append((other, iter(outgoing[other])))
                    break
                if component[other] < 0 and index[other] < low[node]:
                    low[node] = index[other]
            else:
                work.pop()
                if work and low[node] < low[work[-1][0]]:
                    low[work[-1][0]] = low[node]
                if low[node] == index[node]:
                    while component[node] < 0:
                        component[stack.pop()] = made
                    made += 1
    return component


def find_cycles(graph: OrderGraph, rule: int) -> Iterator[list[Edge]]:
    """Yield circles so that each edge of the rule that is on any circle is in one that is yielded.

    Each is a shortest one through its first edge. A component where that would take too long gives one circle only.
    """
    component = graph.component
    reported: set[Edge] = set()
    told_of: set[int] = set()
    work = _WORK
    for edge in graph.edges:
        here = component[edge.target]
        if component[edge.source] != here or edge.rule != rule or edge in reported or (work <= 0 and here in told_of):
            continue
        way, steps = _shortest(graph, edge.target, edge.source)
        work -= steps
        reported.update((edge, *way))
        told_of.add(here)
        yield [edge, *way]


def _shortest(graph: OrderGraph, start: int, end: int) -> tuple[list[Edge], int]:
    """Return the edges of a shortest way within one component, and how many steps finding it took."""
    component = graph.component
    came: dict[int, Edge] = {}
    queue = deque([start])
    steps = 0
    while queue and end not in came and start != end:
        for edge in graph.outgoing[queue.popleft()]:
            steps += 1
            if edge.target not in came and edge.target != start and component[edge.target] == component[start]:
                came[edge.target] = edge
                queue.append(edge.target)
    way: list[Edge] = []
    node = end
    while node != start:
        way.append(came[node])
        node = came[node].source
    return way[::-1], steps


_APART: Final = tuple(kind for kind in INFLUENCES if kind not in ("wasInfluencedBy", "wasDerivedFrom"))
"""The relations of which no two share an id (Constraint 53); an influence and a derivation may."""
Specializations = dict[Term, list[tuple[Term, Record]]]
"""What is a specialization of each entity, and the record that says so."""


def impossible(unified: Unified) -> Iterator[Finding]:
    """Yield what the look-ups find in one bundle."""
    yield from _attributes(unified.statements)
    yield from _derivations(unified.statements)
    yield from _disjoint(unified)
    yield from _overlaps(unified)
    specific = specializations(unified)
    yield from _specialization_cycles(specific, unified)
    yield from _empty(specific, unified)


def _attributes(statements: Iterable[Statement]) -> Iterator[Finding]:
    for statement in statements:
        for name, _ in statement.attributes:
            if name.startswith(vocab.PROV) and name not in ATTRIBUTES:
                local = name.removeprefix(vocab.PROV)
                message = f"prov:{local} is no attribute of PROV-DM (there are type, label, location, role and value)"
                yield finding_of(ATTRIBUTE_RULE, message, [str(statement.id), name], [statement])


def _derivations(statements: Iterable[Statement]) -> Iterator[Finding]:
    for each in statements:
        if each.kind == "wasDerivedFrom" and each.arguments[2] is None and any(each.arguments[3:]):
            message = "a derivation names a generation or a usage and no activity"
            nodes = [node for node in each.arguments if node is not None]
            yield finding_of(51, message, nodes, [each])


def _disjoint(unified: Unified) -> Iterator[Finding]:
    """Yield what is an entity by one statement and an activity by another (Constraints 50 and 55)."""
    seen: dict[str, dict[Term, Record]] = {"entity": {}, "activity": {}, "agent": {}}
    for kind in ("entity", "activity"):
        for record in unified.records.get(kind, ()):
            seen[kind].setdefault(unified.find(record.id), record)
    for form in KINDS.values():
        elements = [place.element for place in form.places]
        for record in unified.records.get(form.name, ()):
            for term, element in zip(record.terms, elements, strict=True):
                if term != NOTHING and element:
                    seen[element].setdefault(unified.find(term), record)
    activities = seen["activity"]
    for node, entity in seen["entity"].items():
        activity = activities.get(node)
        if activity is not None:
            clash = [*unified.sources(entity), *unified.sources(activity)]
            message = f"{node} is an entity by one statement and an activity by another"
            yield finding_of(55, message, _named(node), clash)


def _overlaps(unified: Unified) -> Iterator[Finding]:
    """Yield ids that stand for two relations (Constraint 53), or for a relation and a thing (Constraint 54)."""
    relations: dict[Term, tuple[str, Record]] = {}
    for kind in _APART:
        for record in unified.records.get(kind, ()):
            id_ = unified.find(record.id)
            first = relations.setdefault(id_, (kind, record))
            if first[0] != kind:
                message = f"{id_} is the id of {first[0]} and of {kind}"
                clash = [*unified.sources(first[1]), *unified.sources(record)]
                yield finding_of(53, message, _named(id_), clash)
    things = {
        unified.find(record.id): (kind, record) for kind in sorted(ELEMENTS) for record in unified.records.get(kind, ())
    }
    for kind in INFLUENCES:
        for record in unified.records.get(kind, ()):
            id_ = unified.find(record.id)
            thing = things.get(id_)
            if thing is not None:
                message = f"{id_} is the id of {kind}, and names an {thing[0]} too"
                yield finding_of(54, message, _named(id_), [*unified.sources(thing[1]), *unified.sources(record)])


def _named(term: Term) -> list[str]:
    return [term] if isinstance(term, str) else []


# --- specializations


def specializations(unified: Unified) -> Specializations:
    """Return what each entity has as its specializations, mentions among them (PROV-LINKS, Inference 1)."""
    pairs: Specializations = {}
    for kind in ("specializationOf", "mentionOf"):
        for record, terms in each_of(unified, kind):
            if NOTHING not in terms[:2]:
                pairs.setdefault(terms[1], []).append((terms[0], record))
    return pairs


def _specialization_cycles(specific: Specializations, unified: Unified) -> Iterator[Finding]:
    """Yield circles of specializations: by Inference 19 their members specialize themselves (Constraint 52)."""
    numbers: dict[Term, int] = {}
    edges = [
        Edge(numbers.setdefault(general, len(numbers)), numbers.setdefault(each, len(numbers)), 52, record)
        for general, statements in specific.items()
        for each, record in statements
    ]
    nodes = list(numbers)
    for circle in find_cycles(OrderGraph(edges, len(nodes)), 52):
        members = [nodes[edge.source] for edge in circle]
        message = f"{members[0]} would be a specialization of itself"
        yield finding_of(52, message, [str(node) for node in members], _sources(circle, unified))


def _sources(circle: Iterable[Edge], unified: Unified) -> list[Statement]:
    return [each for edge in circle if edge.record is not None for each in unified.sources(edge.record)]


def declared(specific: Specializations, first: Iterable[Term]) -> dict[Term, Term]:
    """Return what is stated of entities, and so of all their specializations (Inference 21): each, and whose it was."""
    roots: dict[Term, Term] = {each: each for each in first}
    queue = deque(roots)
    while queue:
        node = queue.popleft()
        for other, _ in specific.get(node, ()):
            if other not in roots:
                roots[other] = roots[node]
                queue.append(other)
    return roots


def _empty(specific: Specializations, unified: Unified) -> Iterator[Finding]:
    """Yield members of empty collections (Constraint 56)."""
    empty = {
        unified.find(str(each.id)): each
        for each in unified.statements
        if each.kind == "entity"
        and any(name == TYPE and value[:2] == (EMPTY, QUALIFIED_NAME) for name, value in each.attributes)
    }
    if not empty:
        return
    roots = declared(specific, empty)
    for record, terms in each_of(unified, "hadMember"):
        said_empty = roots.get(terms[0])
        if said_empty is not None:
            message = f"{terms[0]} is an empty collection and has the member {terms[1]}"
            clash = [empty[said_empty], *unified.sources(record)]
            yield finding_of(56, message, [*_named(terms[0]), *_named(terms[1])], clash)


STRICT: Final = 42


class Event(NamedTuple):
    """Something that happens at one moment: its kind, what it happens to, and the statements that say when."""

    what: str
    node: Term


_ID: Final = -1
"""The place of a record's own id."""
_Spec = tuple[str, int]
"""An event: what happens, and the place of the node that it happens to."""
_EVENTS: Final[Mapping[str, Sequence[tuple[_Spec, int]]]] = {
    "wasGeneratedBy": [(("generation", 0), 2)],
    "wasInvalidatedBy": [(("invalidation", 0), 2)],
    "used": [(("usage", _ID), 2)],
    "wasStartedBy": [(("start", 0), 3)],
    "wasEndedBy": [(("end", 0), 3)],
    "activity": [(("start", _ID), 0), (("end", _ID), 1)],
}
"""The events that each kind of record states, and the place of their time."""


def _associated(activity: int, agent: int) -> list[tuple[_Spec, _Spec, int]]:
    return [
        (("start", activity), ("invalidation", agent), 47),
        (("generation", agent), ("end", activity), 47),
        (("start", activity), ("end", agent), 47),
        (("start", agent), ("end", activity), 47),
    ]


_EDGES: Final[Mapping[str, Sequence[tuple[_Spec, _Spec, int]]]] = {
    "wasInformedBy": [(("start", 1), ("end", 0), 35)],
    "wasGeneratedBy": [(("start", 1), ("generation", 0), 34), (("generation", 0), ("end", 1), 34)],
    "used": [
        (("start", 0), ("usage", _ID), 33),
        (("usage", _ID), ("end", 0), 33),
        (("generation", 1), ("usage", _ID), 37),
        (("usage", _ID), ("invalidation", 1), 38),
    ],
    "wasDerivedFrom": [(("generation", 1), ("generation", 0), STRICT), (("usage", 4), ("generation", 0), 41)],
    "wasAttributedTo": [(("generation", 1), ("generation", 0), 48), (("start", 1), ("generation", 0), 48)],
    "wasAssociatedWith": _associated(0, 1),
    "actedOnBehalfOf": [
        (("generation", 1), ("invalidation", 0), 49),
        (("start", 1), ("end", 0), 49),
        *_associated(2, 0),  # Inference 14
        *_associated(2, 1),
    ],
}
"""What each kind of record orders: the earlier event, the later one, and the rule."""
_OF_AN_ACTIVITY: Final = frozenset({("wasDerivedFrom", 41), ("actedOnBehalfOf", 47)})
"""The rules that need the activity of a derivation or delegation."""


class Order:
    """The events of one bundle, what precedes what, and the times that are stated: an event, a time, and the record of it."""

    def __init__(self, unified: Unified) -> None:
        """Make the events first, then every rule's edges."""
        self.events: list[Event] = []
        self._edges: list[Edge] = []
        self.times: list[tuple[int, str, Record]] = []
        self._unified = unified
        self._specific = specializations(unified)
        self._made: dict[str, dict[Term, int]] = {
            what: {} for what in ("generation", "invalidation", "usage", "start", "end")
        }
        self._make_events()
        self._order_all("start", "end", 30, ("activity", _ID), over="start")
        self._order_kinds("wasInformedBy", "wasGeneratedBy", "used")
        self._starts_and_ends()
        self._order_all("generation", "invalidation", 36, ("wasInvalidatedBy", 0), over="invalidation")
        self._order_kinds("wasDerivedFrom", "wasAttributedTo", "wasAssociatedWith", "actedOnBehalfOf")
        self._specializations()
        self.graph = OrderGraph(self._edges, len(self.events))

    def _add(self, source: int | None, target: int | None, rule: int, record: Record | None) -> None:
        """Say that an event does not come after another, if both are events that there are."""
        if source is not None and target is not None:
            self._edges.append(Edge(source, target, rule, record))

    def _event(self, what: str, node: Term) -> int:
        numbers = self._made[what]
        if node not in numbers:
            numbers[node] = len(self.events)
            self.events.append(Event(what, node))
        return numbers[node]

    def _make_events(self) -> None:
        unified, find = self._unified, self._unified.find
        for kind, stated in _EVENTS.items():
            for record in unified.records.get(kind, ()):
                for (what, place), time_place in stated:
                    event = self._event(what, find(record.id if place == _ID else record.terms[place]))
                    time = find(record.terms[time_place])
                    if isinstance(time, str) and not is_unknown(time) and time != NOTHING:
                        self.times.append((event, time, record))
        for node in declared(self._specific, [find(record.id) for record in unified.records.get("entity", ())]):
            self._event("generation", node)
            self._event("invalidation", node)
        for record in unified.records.get("wasAttributedTo", ()):  # Inference 13
            self._event("generation", find(record.terms[0]))

    def _order_all(self, earlier: str, later: str, rule: int, stating: _Spec, *, over: str) -> None:
        kind, place = stating
        find = self._unified.find
        stated = {
            find(record.id if place == _ID else record.terms[place]): record
            for record in self._unified.records.get(kind, ())
        }
        for node in self._made[over]:
            self._add(self._made[earlier].get(node), self._made[later].get(node), rule, stated.get(node))

    def _order_kinds(self, *kinds: str) -> None:
        for kind in kinds:
            for record, terms in each_of(self._unified, kind):
                nodes = [*terms, self._unified.find(record.id)]
                for (earlier, one), (later, two), rule in _EDGES[kind]:
                    if (kind, rule) not in _OF_AN_ACTIVITY or terms[2] != NOTHING:
                        first, second = self._made[earlier].get(nodes[one]), self._made[later].get(nodes[two])
                        self._add(first, second, rule, record)

    def _starts_and_ends(self) -> None:
        """Order triggers and what they trigger (43, 44): the activity behind one generated its entity (Inferences 9 and 10)."""
        add, started, ended = self._add, self._made["start"], self._made["end"]
        for kind, what, rule in (("wasStartedBy", "start", 43), ("wasEndedBy", "end", 44)):
            for record, (activity, trigger, other, _) in each_of(self._unified, kind):
                event = self._made[what][activity]
                if other in started or other in ended or not isinstance(trigger, int):
                    generated = self._event("generation", trigger)
                    add(started.get(other), generated, 34, record)
                    add(generated, ended.get(other), 34, record)
                    add(generated, event, rule, record)
                add(event, self._made["invalidation"].get(trigger), rule, record)

    def _specializations(self) -> None:
        """Order the generations and invalidations of specializations (45, 46), also over entities that have neither.

        Specialization is transitive (Inference 19). An entity without an event of its own gets one to pass the order on,
        which no other rule touches.
        """
        for general, statements in self._specific.items():
            for specific, record in statements:
                one, two = (self._event("generation", node) for node in (general, specific))
                self._add(one, two, 45, record)
                one, two = (self._event("invalidation", node) for node in (specific, general))
                self._add(one, two, 46, record)


def order_cycles(order: Order, unified: Unified) -> Iterator[Finding]:
    """Yield a finding for each circle with a strict step; a strict step is in one of them, and in a shortest one first."""
    for circle in find_cycles(order.graph, STRICT):
        steps = [shown(order.events[circle[0].source])]
        for edge in circle:
            sign = "<" if edge.rule == STRICT else "<="
            steps.append(f"{sign} {shown(order.events[edge.target])} ({edge.rule} {CONSTRAINT_NAMES[edge.rule]})")
        nodes = dict.fromkeys(order.events[number].node for edge in circle for number in (edge.source, edge.target))
        message = "an order runs in a circle: " + " ".join(steps)
        yield finding_of(STRICT, message, [node for node in nodes if isinstance(node, str)], _sources(circle, unified))


def shown(event: Event) -> str:
    """Return an event for people."""
    return f"{event.what} of {event.node if isinstance(event.node, str) else 'something unknown'}"
