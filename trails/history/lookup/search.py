"""Searching turns by text and by tool, in pages that stay where they are while turns are added."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import Any, NamedTuple

from trails.errors import InvalidInput
from trails.history.lookup import names, summaries
from trails.history.lookup.summaries import Page, check_limit
from trails.history.workspace import Workspace
from trails.model import iris, lineage, validation
from trails.model.values import Value
from trails.rdf import activity_records
from trails.rows import row_codec, text_index
from trails.rows.text_index import FoundTurn, Wanted


class Hit(Value):
    """A turn that was found."""

    session_id: str
    """The session that owns the turn."""
    index: int
    role: str
    author: str
    time: datetime | None
    digest: str
    iri: str
    tools: tuple[str, ...]
    """The names of the tools that the turn calls, in order."""
    snippet: str
    """What stands around the text that was found; where none was asked for, the tool's call or the start of the turn."""
    matches: tuple[tuple[int, int], ...] = ()
    """Where the text stands in the snippet: (start, end) for each time; nothing where none was asked for."""

    def to_dict(self) -> dict[str, Any]:
        """Return the hit as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"session_id", "time"})
        return plain | {"session": self.session_id, "time": self.time.isoformat() if self.time else None}


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """What is looked for; None stands for anything."""

    text: str | None = None
    tool: str | None = None
    session: str | None = None
    role: str | None = None
    author: str | None = None


def search_turns(workspace: Workspace, wanted: SearchFilter, *, limit: int, cursor: str | None) -> Page[Hit]:
    """Return one page of turns; see `Repository.search`."""
    text, tool, role, author = wanted.text, wanted.tool, wanted.role, wanted.author
    if text is None and tool is None and role is None and author is None:
        raise InvalidInput("a search needs a text, a tool, a role or an author to look for")
    if text is not None and not validation.text(text, "the text"):
        raise InvalidInput("the text to look for is empty; leave it out to find every turn")
    check_limit(limit)
    runs: dict[str, lineage.Segment] = {}
    if wanted.session is not None:
        of_session = names.find_lineage(workspace, wanted.session)
        runs = {run.record.id: run for run in lineage.segments(of_session)}
    after = None if cursor is None else _Place(*summaries.parse_cursor(cursor, len(_Place._fields)))
    asked = Wanted(
        text=text,
        tool=None if tool is None else validation.name(tool, "a tool's name"),
        role=None if role is None else validation.role(role),
        authors=() if author is None else tuple(_authors(author)),
        until=None if after is None else after.time,
    )
    with workspace.rows.reading() as rows:
        found = text_index.find(rows, asked, tuple(runs))
        counted = (each for each in found if not runs or _is_in(runs[each.session_id], each.row.place))
        first = list(islice(_after(counted, after), limit + 1))
    end = summaries.make_cursor(*_place_of(first[limit - 1])) if len(first) > limit else None
    return Page([_hit(each, wanted) for each in first[:limit]], end)


class _Place(NamedTuple):
    """Where a page ends: its last turn's time, its session in short, and its index."""

    time: int
    session: int
    turn: int


def _place_of(found: FoundTurn) -> _Place:
    return _Place(found.time, row_codec.tie(found.session_id), found.row.place)


def _after(found: Iterator[FoundTurn], place: _Place | None) -> Iterator[FoundTurn]:
    """Yield what comes after a place; if what stood there is gone, all of its time, so that nothing is left out."""
    if place is None:
        yield from found
        return
    same: list[FoundTurn] = []
    for each in found:
        if each.time > place.time:
            continue
        if each.time < place.time:
            yield from chain(same, [each], found)
            return
        same = [] if _place_of(each) == place else [*same, each]
    yield from same


def _is_in(run: lineage.Segment, index: int) -> bool:
    return run.start <= index and (run.end is None or index < run.end)


def _authors(author: str) -> list[str]:
    """Return whom a name may mean: a principal, an agent and a tool; `agent:NAME` and an IRI mean one."""
    plain = validation.name(author, "author")
    one = str(activity_records.named_actor(plain))
    return [one] if plain.startswith(("agent:", "urn:trails:")) else [one, iris.agent(plain), iris.tool(plain)]


def _hit(found: FoundTurn, wanted: SearchFilter) -> Hit:
    snippet, matches = found.text.snippet(wanted.text, wanted.tool)
    row = found.row
    return Hit(
        session_id=found.session_id,
        index=row.place,
        role=row.kind.role,
        author=iris.author_name(row.kind.author),
        time=None if row.time is None else row_codec.moment(row.time),
        digest=row.digest.hex(),
        iri=row.iri,
        tools=found.text.tools,
        snippet=snippet,
        matches=matches,
    )
