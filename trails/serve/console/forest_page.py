"""The forest of forks and spawned sessions: lanes that a script draws as far as they are in view, and the same as a list.

The server lays out all lanes at once; the browser gets them as columns of numbers and names, and draws those in view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from trails.compare.forest_layout import Layout, Stem, lay_out_forest, ticks
from trails.history.lookup.forest import ForestNode, Twig
from trails.serve.access import view_of
from trails.serve.console.rendering import HEADERS, address, page, route
from trails.serve.console.transcript import index_of
from trails.serve.service import Service, service_of
from trails.session.repository import Repository

_LINES: Final = 300
"""Sessions on a page of the list."""
_TICKS: Final = 10
_kept: Final[WeakKeyDictionary[Repository, tuple[int, bytes]]] = WeakKeyDictionary()
"""By view, the number of the last commit and the lanes as they were then."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """A forest in its place: the layout, and what is known of each session by its id."""

    layout: Layout
    nodes: dict[str, ForestNode]

    def to_columns(self, chosen: str | None) -> dict[str, Any]:
        """Return the lanes as columns, from top to bottom; `chosen` is the id of the session that was asked for."""
        lanes, axis = self.layout.lanes, self.layout.axis
        nodes = [self.nodes[lane.stem.id] for lane in lanes]
        return {
            "id": [node.id for node in nodes],
            "label": [node.label for node in nodes],
            "start": [lane.stem.start for lane in lanes],
            "end": [lane.stem.end for lane in lanes],
            "x0": [round(axis.position(lane.stem.start), 2) for lane in lanes],
            "x1": [round(axis.position(lane.stem.end), 2) for lane in lanes],
            "origin": [-1 if lane.origin is None else lane.origin for lane in lanes],
            "kind": [node.relation if node.status == "stored" else node.status for node in nodes],
            "length": axis.length,
            "ticks": [[turns, round(axis.position(turns), 2)] for turns in ticks(axis, _TICKS)],
            "breaks": [[round(axis.position(turns), 2) for turns in stretch] for stretch in axis.breaks],
            "chosen": chosen,
        }


def place_lanes(twigs: Sequence[Twig]) -> Lanes:
    """Return the place of each session in a forest, given in the order of its drawing; a spawned one hangs on its spawner."""
    nodes: dict[str, ForestNode] = {}
    for twig in twigs:
        nodes.setdefault(twig.node.id, twig.node)
    parents = {twig.node.id: twig.node.parent or twig.node.spawner for twig in twigs if not twig.again}
    reached = {parent: 0 for parent in parents.values() if parent is not None}
    for node in nodes.values():
        if node.parent is not None:
            reached[node.parent] = max(reached[node.parent], node.forked_at or 0)
    stems = []
    for node in nodes.values():
        start = node.forked_at or 0
        parent = parents.get(node.id)
        end = max(start, node.turns, reached.get(node.id, 0) if node.status != "stored" else 0)
        stems.append(Stem(node.id, None if _is_circle(node.id, parents) else parent, start, end))
    return Lanes(lay_out_forest(stems), nodes)


def _is_circle(session_id: str, parents: dict[str, str | None]) -> bool:
    """Tell whether a session's lineage comes back to it: a store that was tampered with is shown all the same."""
    seen, above = {session_id}, parents.get(session_id)
    while above is not None:
        if above in seen:
            return above == session_id
        seen.add(above)
        above = parents.get(above)
    return False


def _read(view: Repository, name: str | None) -> tuple[list[Twig], str | None]:
    """Return the forest, or the whole tree that a session stands in, and that session's id."""
    if name is None:
        return list(view.forest()), None
    session_id = view.resolve(name)
    top = view.record(session_id)
    seen = {top.id}
    while (above := top.parent_session_id or top.spawned_by) is not None and above not in seen:
        seen.add(above)
        if above not in view:
            break
        top = view.record(above)
    return list(view.forest(top.id)), session_id


async def forest_page(request: Request) -> Response:
    """Show the forest, all of it or the tree of a session, as a picture or as a list."""
    view, name = await view_of(request), request.query_params.get("id") or None
    is_list, start = request.query_params.get("as") == "list", index_of(request, "start") or 0
    if is_list:
        twigs, chosen = await service_of(request).run(_read, view, name)
    else:  # the script that draws it reads it
        twigs, chosen = [], None if name is None else await service_of(request).run(view.resolve, name)
    values: dict[str, Any] = {
        "chosen": chosen,
        "count_of": len(twigs),
        "tops": sum(twig.depth == 0 for twig in twigs),
        "twigs": twigs[start : start + _LINES] if is_list else [],
        "start": start,
        "following": start + _LINES if start + _LINES < len(twigs) else None,
        "lanes": address("/forest/lanes", id=name),
        "is_list": is_list,
    }
    return page(request, "forest.html", section="forest", **values)


async def forest_lanes(request: Request) -> Response:
    """Answer with the lanes of the forest in JSON, for the script that draws them."""
    view, name = await view_of(request), request.query_params.get("id") or None

    content = await service_of(request).run(_lanes, view, name)
    return Response(content, media_type="application/json", headers=HEADERS)


def _lanes(view: Repository, name: str | None) -> bytes:
    """Return the lanes in JSON; those of the whole forest are kept until something is committed."""
    view.refresh()
    number = view.store.number
    kept = _kept.get(view)
    if name is None and kept is not None and kept[0] == number:
        return kept[1]
    twigs, chosen = _read(view, name)
    content = orjson.dumps(place_lanes(twigs).to_columns(chosen) if twigs else {"id": []})
    if name is None:
        _kept[view] = (number, content)
    return content


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of the forest."""
    return [route("/forest", forest_page), route("/forest/lanes", forest_lanes)]
