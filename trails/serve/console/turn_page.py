"""One turn: all that it says, and where it comes from, as a list and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from trails.model import iris, lineage
from trails.model.values import Turn
from trails.provenance.drawing import Edge, Node, Picture, draw_svg
from trails.serve.access import view_of
from trails.serve.console.rendering import drawing, page, route
from trails.serve.console.transcript import Part, index_of, named_session, read_part
from trails.serve.service import Service, service_of
from trails.session.repository import Repository
from trails.session.session import Session

_MOST_TURNS: Final = 5
"""Turns that are drawn each for itself; more are drawn as one range."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a model was shown before it said a turn: a summary's index, the turns from `start` to `end` (exclusive)."""

    start: int
    end: int
    summary: int | None = None
    left_out: tuple[int, ...] = ()
    is_told: bool = False
    """Whether the call told it; else it is all since the last summary, as a model is shown by default."""

    @property
    def turns(self) -> list[int]:
        """The indices of the turns, without the summary."""
        return [index for index in range(self.start, self.end) if index not in self.left_out and index != self.summary]


def shown_to(turn: Turn, summaries: Sequence[tuple[int, int | None]]) -> Shown | None:
    """Return what the model that said a turn was shown, given each summary's index and the first index that it kept.

    None for a turn that no model call is recorded for.

    >>> from trails.model.values import NO_FACTS, Facts, ModelCall
    >>> fields = {"session_id": "s", "index": 9, "role": "assistant", "branch": "main", "author_iri": "urn:trails:agent:a",
    ...     "time": None, "text": "Hi", "structured": False, "redacted": False, "digest": "0" * 64}
    >>> shown = shown_to(Turn(**fields, facts=Facts(model_call=ModelCall(model="m-1"))), [(5, 3)])
    >>> shown.summary, shown.turns, shown_to(Turn(**fields, facts=NO_FACTS), [])
    (5, [3, 4, 6, 7, 8], None)
    """
    if turn.facts.model_call is None or turn.compaction is not None:
        return None
    told = turn.call.context if turn.call is not None else None
    end = turn.index if told is None or told.through is None else told.through + 1
    before = [each for each in summaries if each[0] < end]
    chosen = before[-1] if before else None
    if told is not None and told.summary is not None:
        chosen = next((each for each in summaries if each[0] == told.summary), (told.summary, None))
    if chosen is None:
        return Shown(0, end, None, told.left_out if told else (), told is not None)
    index, kept = chosen
    start = index if kept is None else max(0, min(kept, index))
    return Shown(start, end, index, told.left_out if told else (), told is not None)


def provenance_picture(session_id: str, turn: Turn, shown: Shown | None) -> Picture:
    """Return the picture of where a turn comes from: who, which model, which tools, and what it was shown."""
    drawn = _Drawing(session_id, turn)
    call = turn.facts.model_call
    if shown is not None and call is not None:
        activity = drawn.node(f"{turn.iri}/model-call", "activity", call.model or "a model", "model call")
        drawn.edge(drawn.turn, activity, "wasGeneratedBy")
        agent = drawn.node(turn.author_iri, "agent", turn.author, _kind_of(turn.author_iri))
        drawn.edge(activity, agent, "wasAssociatedWith")
        for node in drawn.context(shown):
            drawn.edge(activity, node, "used")
    else:
        drawn.edge(
            drawn.turn,
            drawn.node(turn.author_iri, "agent", turn.author, _kind_of(turn.author_iri)),
            "wasAttributedTo",
        )
    for result in turn.tool_results:
        tool = drawn.node(f"{turn.iri}/{result.call_id}", "activity", result.tool or result.call_id, "tool call")
        drawn.edge(drawn.turn, tool, "wasGeneratedBy")
    for asked in turn.tool_calls:
        drawn.edge(
            drawn.node(f"{turn.iri}/{asked.id}", "activity", asked.name, "tool call"), drawn.turn, "wasInformedBy"
        )
    for source in (turn.quoted_from, turn.derived_from):
        if source is not None:
            named = source.session_id if source.index is None else f"{source.session_id} #{source.index}"
            drawn.edge(drawn.turn, drawn.node(source.iri, "entity", named, "source"), "wasDerivedFrom")
    if turn.compaction is not None and turn.compaction.summarised_through is not None:
        start, end = turn.compaction.summarised_from or 0, turn.compaction.summarised_through
        sources = drawn.node(f"{turn.iri}/sources", "entity", f"turns {start} to {end}", "summarised")
        drawn.edge(drawn.turn, sources, "wasDerivedFrom")
    return Picture(drawn.nodes, drawn.edges, 0)


class _Drawing:
    """Nodes and edges as they come, each node once."""

    def __init__(self, session_id: str, turn: Turn) -> None:
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self._session = session_id
        self._places: dict[str, int] = {}
        self.turn = self.node(turn.iri, "entity", f"turn {turn.index}", turn.role)

    def node(self, iri: str, kind: str, name: str, type_: str) -> int:
        """Return the number of a node, which is made if it is new."""
        if iri not in self._places:
            self._places[iri] = len(self.nodes)
            short = name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
            self.nodes.append(Node(iri, kind, short, type_))
        return self._places[iri]

    def edge(self, source: int, target: int, label: str) -> None:
        """Draw an arrow from an effect to its cause."""
        self.edges.append(Edge(source, target, label, is_derived=False))

    def context(self, shown: Shown) -> Iterator[int]:
        """Yield the nodes of what was shown: a summary, and turns one by one or as a range."""
        base = iris.session(self._session)
        if shown.summary is not None:
            yield self.node(f"{base}/{shown.summary}", "entity", f"turn {shown.summary}", "summary")
        turns = shown.turns
        if len(turns) <= _MOST_TURNS:
            for index in turns:
                yield self.node(f"{base}/{index}", "entity", f"turn {index}", "shown")
        elif turns:
            yield self.node(f"{base}/shown", "entity", f"turns {turns[0]} to {turns[-1]}", f"{len(turns)} turns shown")


_NAME: Final = 26


def _kind_of(author_iri: str) -> str:
    return author_iri.removeprefix("urn:trails:").partition(":")[0] if author_iri.startswith("urn:trails:") else ""


async def turn_page(request: Request) -> Response:
    """Show one turn, whole, with its provenance."""
    view, name, index = await view_of(request), named_session(request), index_of(request, "turn") or 0

    def read() -> dict[str, Any]:
        session = view.load(name, last=0, fresh=True)
        if index >= len(session):
            raise HTTPException(404, f"session {session.id!r} has {len(session)} turns, so none with index {index}")
        part = read_part(view, session, index, index + 1, limit=None)
        turn = part.turns[0].turn
        shown = shown_to(turn, _summaries(view, session))
        picture = drawing(draw_svg(provenance_picture(session.id, turn, shown)))
        return {"part": part, "session": session.record, "shown": shown, "picture": picture, **_answers(session, part)}

    values = await service_of(request).run(read)
    return page(request, "turn.html", section="sessions", sought_turn=None, few_forks=12, **values)


def _summaries(view: Repository, session: Session) -> list[tuple[int, int | None]]:
    """Return the index of each summary in a transcript with the first index that it kept, in order."""
    runs = lineage.segments(view.reader.lineage(session.id))
    return sorted((mark.index, mark.kept) for run in runs for mark in view.reader.summaries(run))


_NEAR: Final = 20
"""Turns after a call among which its answer is looked for, and before an answer its call."""


def _answers(session: Session, part: Part) -> dict[str, Any]:
    """Return by id of a call the turn that answers it, and the turn that asked what this one answers."""
    turn = part.turns[0].turn
    later = session.turns[turn.index + 1 : turn.index + 1 + _NEAR] if turn.tool_calls else ()
    earlier = session.turns[max(0, turn.index - _NEAR) : turn.index] if turn.tool_results else ()
    return {
        "answered": {result.call_id: each.index for each in later for result in each.tool_results},
        "asked": {call.id: (each.index, call.name) for each in earlier for call in each.tool_calls},
    }


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the route of a turn."""
    return [route("/turn", turn_page)]
