"""Searching turns by text and by tool, in pages that stay where they are while turns are added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from pyoxigraph import Literal, NamedNode

from trails.errors import InvalidInput
from trails.history.lookup import names
from trails.history.lookup.pages import Page, check_limit
from trails.history.reader import FAR_FUTURE
from trails.history.workspace import Workspace
from trails.model import iris, lineage, validation
from trails.model.validation import decodes
from trails.model.values import Value
from trails.plumbing.index import moments, rows, texts
from trails.plumbing.index.said import Said, written
from trails.plumbing.index.texts import Found
from trails.plumbing.index.untrue import Untrue
from trails.rdf import activity_records, vocab
from trails.rdf.codec import parse_time
from trails.store.contract import QuadStore

_MOST_ROWS: Final = 4000
"""How many rows are read at once where most of them turn out to be none of those looked for."""
_FIRST_ROWS: Final = 64


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
    asked = _Asked(
        text=text,
        tool=None if tool is None else validation.name(tool, "a tool's name"),
        role=None if role is None else validation.role(role),
        authors=() if author is None else tuple(_authors(author)),
        session_ids=tuple(runs),
    )
    after = texts.place_in(cursor)

    def hits(found: Iterator[Found]) -> Page[Hit]:
        stored = _stored(workspace.store, texts.after(found, after), runs, wanted)
        first = list(islice(stored, limit + 1))
        end = texts.cursor_at(first[limit - 1].found) if len(first) > limit else None
        return Page([_hit(each, wanted) for each in first[:limit]], end)

    until = None if after is None else after.time
    if workspace.index.has_texts:
        return workspace.index.texts(lambda file: hits(texts.candidates(file, until=until, **asked._asdict())))
    return hits(_scanned(workspace, asked, until))


class _Asked(NamedTuple):
    """What is looked for, in the index's and the queries' terms."""

    text: str | None
    tool: str | None
    role: str | None
    authors: tuple[str, ...]
    session_ids: tuple[str, ...]


@decodes
def _scanned(workspace: Workspace, asked: _Asked, until: int | None) -> Iterator[Found]:
    """Yield the turns that may be those looked for, by the queries: the way without an index, which reads every text."""
    criteria: dict[str, Any] = {
        "text": [""] if asked.text is None else list(dict.fromkeys([asked.text, *written(asked.text)])),
        "role": asked.role,
        "author": asked.authors or None,
        "sessions": asked.session_ids or None,
    }
    name = "search_text" if asked.tool is None else "search_tool"
    if asked.tool is not None:
        criteria["tool"] = asked.tool
    moment = FAR_FUTURE if until is None else moments.moment(until)
    limits: dict[str, Any] = {"before": moment, "last": "", "below": 0, "limit": _FIRST_ROWS}
    while True:
        page = workspace.reader.select(
            name, **{key: value for key, value in (criteria | limits).items() if value is not None}
        )
        for row in page:
            time = moments.micros(parse_time(row["when"].value)) or 0
            yield Found(time, iris.session_id(row["session"].value), int(row["index"].value), row["turn"].value)
        if len(page) < limits["limit"]:
            return
        last = page[-1]
        limits = {
            "before": parse_time(last["when"].value),
            "last": last["session"].value,
            "below": int(last["index"].value),
            "limit": min(2 * limits["limit"], _MOST_ROWS),
        }


@dataclass(frozen=True, slots=True)
class _Stored:
    """A turn as the store has it."""

    found: Found
    facts: Mapping[NamedNode, Any]
    said: Said

    def text(self, predicate: NamedNode) -> str:
        """Return what the turn says under a predicate; nothing where it says none."""
        return str(getattr(self.facts.get(predicate), "value", ""))


@decodes
def _stored(
    store: QuadStore, candidates: Iterator[Found], runs: Mapping[str, lineage.Segment], wanted: SearchFilter
) -> Iterator[_Stored]:
    """Yield those candidates that the store has and that are looked for; with `runs`, of the transcript that they make up.

    Without, copies of a turn that is found elsewhere are left out; and always turns that hold the text in their JSON and
    not in what was said.
    """
    for found in candidates:
        try:
            turn, graph = NamedNode(found.iri), NamedNode(iris.session(found.session_id))
        except ValueError as error:  # it is the index that says so, and not the store
            raise Untrue("it names what can be no turn") from error
        facts: dict[NamedNode, Any] = {q.predicate: q.object for q in store.quads((turn, None, None, graph))}
        if vocab.VALUE not in facts:
            continue
        if runs:
            counts = _is_in(runs[found.session_id], found.place)
        else:
            counts = not _is_found_elsewhere(store, turn, graph, facts.get(vocab.DIGEST))
        said = rows.said_in(facts[vocab.VALUE], _calls(store, turn, graph))
        if counts and said.says(wanted.text, wanted.tool):
            yield _Stored(found, facts, said)


def _is_in(run: lineage.Segment, index: int) -> bool:
    return run.start <= index and (run.end is None or index < run.end)


def _is_found_elsewhere(store: QuadStore, turn: NamedNode, graph: NamedNode, digest: Literal | None) -> bool:
    """Tell whether a turn is a copy that its original stands for, or where that is gone, the copy with the least IRI."""
    if digest is None or not store.quads((turn, vocab.ALTERNATE_OF, None, graph)):
        return False
    for quad in store.quads((None, vocab.DIGEST, digest, None)):
        twin, place = quad.subject, quad.graph_name
        if not isinstance(twin, NamedNode) or not isinstance(place, NamedNode) or twin == turn:
            continue
        if not store.quads((place, vocab.TYPE, vocab.SESSION, vocab.CATALOG)):
            continue
        if not store.quads((twin, vocab.ALTERNATE_OF, None, place)) or twin.value < turn.value:
            return True
    return False


def _authors(author: str) -> list[str]:
    """Return whom a name may mean: a principal, an agent and a tool; `agent:NAME` and an IRI mean one."""
    plain = validation.name(author, "author")
    one = str(activity_records.named_actor(plain))
    return [one] if plain.startswith(("agent:", "urn:trails:")) else [one, iris.agent(plain), iris.tool(plain)]


def _calls(store: QuadStore, turn: NamedNode, graph: NamedNode) -> list[tuple[str, str]]:
    """Return name and arguments of the tools that a turn calls, in order."""
    links = (vocab.STARTED_BY, vocab.KEPT_WITH)
    found = [quad.subject for link in links for quad in store.quads((None, link, turn, graph))]
    found = [each for each in found if "/call/" in str(getattr(each, "value", ""))]
    calls = sorted((call for call in found if isinstance(call, NamedNode)), key=lambda call: iris.position(call.value))
    return [(_literal(store, c, vocab.TOOL_NAME, graph), _literal(store, c, vocab.ARGUMENTS, graph)) for c in calls]


def _literal(store: QuadStore, subject: NamedNode, predicate: NamedNode, graph: NamedNode) -> str:
    for quad in store.quads((subject, predicate, None, graph)):
        if isinstance(quad.object, Literal) and quad.object.datatype != vocab.REDACTED:
            return quad.object.value
    return ""


def _hit(stored: _Stored, wanted: SearchFilter) -> Hit:
    found, said = stored.found, stored.said
    snippet, matches = said.snippet(wanted.text, wanted.tool)
    when = stored.facts.get(vocab.TIME)
    return Hit(
        session_id=found.session_id,
        index=found.place,
        role=stored.text(vocab.ROLE),
        author=iris.author_name(stored.text(vocab.ATTRIBUTED_TO)),
        time=None if when is None else parse_time(when.value),
        digest=stored.text(vocab.DIGEST),
        iri=found.iri,
        tools=said.tools,
        snippet=snippet,
        matches=matches,
    )
