"""The forest of forks and spawns as plain values, built to survive whatever is stored: missing parents, circles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from trails.display import html
from trails.display.tables import PlainTable, Tabular, of_items
from trails.display.terminal_text import count
from trails.history.reader import Reader
from trails.model import iris

Status = Literal["stored", "deleted", "missing"]


@dataclass(frozen=True, slots=True)
class ForestNode:
    """A session's place in the forest.

    `last` is the index of the last turn that it owns, and `head` the digest of its last turn, own or inherited; None
    without one.
    """

    id: str
    status: Status = "stored"
    label: str | None = None
    branch: str | None = None
    created: str = ""
    parent: str | None = None
    forked_at: int | None = None
    spawner: str | None = None
    own_turns: int = 0
    last: int | None = None
    head: str | None = None

    @property
    def relation(self) -> str:
        """How it came to be: a fork, spawned by another session, or a root."""
        return "fork" if self.parent else "spawned" if self.spawner else "root"

    @property
    def turns(self) -> int:
        """How many turns its transcript has, inherited ones included."""
        return (self.forked_at or 0) + self.own_turns


@dataclass(slots=True)
class Twig:
    """A node as drawn; `again` marks one that stands elsewhere too (two parents, or a circle) and is not followed."""

    node: ForestNode
    depth: int = 0
    again: bool = False
    children: list[Twig] = field(default_factory=list)

    @property
    def line(self) -> str:
        """What a drawing says of it: where it leaves its parent, its label and id, its turns and its head."""
        node = self.node
        where = f"@{node.forked_at} " if node.relation == "fork" else "spawned " if node.relation == "spawned" else ""
        name = f"{node.label} ({node.id})" if node.label else node.id
        if node.status != "stored":
            return f"{where}{name}  {node.status}"
        own = f", {node.own_turns} own" if node.forked_at else ""
        head = node.head[:8] if node.head else "-" if node.turns else "empty"
        above = f"  of {node.parent or node.spawner}" if self.depth == 0 and node.relation != "root" else ""
        again = "  (drawn above already)" if self.again else ""
        return f"{where}{name}  {count(node.turns, 'turn')}{own}  {head}{above}{again}"

    def to_dict(self) -> dict[str, Any]:
        """Return the node as plain values, ready for JSON; the order of such rows is that of the drawing."""
        node = self.node
        return {
            "id": node.id,
            "label": node.label,
            "branch": node.branch,
            "relation": node.relation,
            "status": node.status,
            "parent_session_id": node.parent,
            "forked_at_index": node.forked_at,
            "spawned_by": node.spawner,
            "turns": node.turns,
            "own_turns": node.own_turns,
            "head": node.head,
            "depth": self.depth,
            "again": self.again,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Forest(Tabular):
    """The trees of forks and spawned sessions, the oldest root first; get one from `Repository.forest`.

    Iterating gives all nodes in the order of the drawing. It keeps nothing open and follows no later change.
    """

    trees: tuple[Twig, ...]

    def __iter__(self) -> Iterator[Twig]:
        return iter(walk_forest(list(self.trees)))

    def __len__(self) -> int:
        return len(walk_forest(list(self.trees)))

    def __repr__(self) -> str:
        return f"<Forest: {count(len(self.trees), 'tree')}, {count(len(self), 'session')}>"

    def __str__(self) -> str:
        return "\n".join(f"{'  ' * twig.depth}{twig.line}" for twig in self)

    def table(self) -> PlainTable:
        """Return the forest as a table, a row a node in the order of the drawing."""
        return of_items(self)

    @html.safe
    def _repr_html_(self) -> str:
        nodes = walk_forest(list(self.trees))
        drawn = [html.tree([(twig.depth, html.inline(twig.line, limit=300))]) for twig in nodes[:_MOST]]
        more = [html.note(f"{count(len(nodes) - _MOST, 'more session')}")] if len(nodes) > _MOST else []
        return html.box(f"{count(len(self.trees), 'tree')}, {count(len(nodes), 'session')}", [*drawn, *more])


_MOST: Final = 200


def build_forest(reader: Reader, top: str | None = None) -> Forest:
    """Return the forest of a store, or with `top` (the id of a stored session) that session's own tree: two queries."""
    return Forest(tuple(plant_tree(read_forest(reader), top)))


def read_forest(reader: Reader) -> dict[str, ForestNode]:
    """Return every session, and every parent or spawner that is no session any more, by id: two queries."""
    nodes: dict[str, ForestNode] = {}
    for row in reader.select("tree"):
        stored, at = row["stored"].value == "true", row["at"]
        node = ForestNode(
            id=iris.session_id(row["session"].value),
            status="stored" if stored else "deleted" if row["deleted"].value == "true" else "missing",
            label=_text(row["label"]),
            branch=_text(row["branch"]),
            created=_text(row["created"]) or "",
            parent=_session(row["parent"]),
            forked_at=None if at is None else int(at.value),
            spawner=_session(row["spawner"]),
            head=_text(row["base"]) if at is not None and at.value != "0" else None,
        )
        nodes.setdefault(node.id, node)
    for row in reader.select("heads"):
        session_id = iris.session_id(row["session"].value) if iris.is_session(row["session"].value) else ""
        if session_id in nodes:
            node = nodes[session_id]
            head = _text(row["head"]) or node.head
            own, last = int(row["turns"].value), int(row["last"].value)
            nodes[session_id] = replace(node, own_turns=own, last=last, head=head)
    return nodes


def _text(term: Any) -> str | None:
    return None if term is None else str(term.value)


def _session(term: Any) -> str | None:
    return None if term is None else iris.session_id(term.value)


def plant_tree(nodes: Mapping[str, ForestNode], top: str | None = None) -> list[Twig]:
    """Return the trees of the forest, oldest root first; with `top`, that session's own tree alone.

    Forks come in order of their fork index, spawned sessions after them. Sessions that no root leads to (their lineage
    goes in a circle) start trees of their own at the end, so none is left out.
    """
    below: dict[str, list[ForestNode]] = defaultdict(list)
    for node in nodes.values():
        for above in {node.parent, node.spawner} - {None}:
            below[str(above)].append(node)
    for children in below.values():
        children.sort(key=lambda node: (node.parent is None, node.forked_at or 0, node.created, node.id))
    by_age = sorted(nodes.values(), key=lambda node: (node.created, node.id))
    starts = [nodes[top]] if top is not None else [node for node in by_age if node.relation == "root"]
    placed: set[str] = set()
    trees = [_grow(node, below, placed) for node in starts]
    if top is None:
        trees += [_grow(node, below, placed) for node in by_age if node.id not in placed]
    return trees


def _grow(start: ForestNode, below: Mapping[str, list[ForestNode]], placed: set[str]) -> Twig:
    root = Twig(start, again=start.id in placed)
    placed.add(start.id)
    open_twigs = [root]
    while open_twigs:
        twig = open_twigs.pop()
        for node in below.get(twig.node.id, []):
            child = Twig(node, twig.depth + 1, again=node.id in placed)
            twig.children.append(child)
            if not child.again:
                placed.add(node.id)
                open_twigs.append(child)
    return root


def walk_forest(trees: list[Twig]) -> list[Twig]:
    """Return all twigs in the order of the drawing."""
    ordered, stack = [], trees[::-1]
    while stack:
        twig = stack.pop()
        ordered.append(twig)
        stack += twig.children[::-1]
    return ordered
