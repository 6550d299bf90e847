"""Searching turns by text and by tool, in pages that stay where they are while turns are added."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from pyoxigraph import Literal, NamedNode

from trails import iris, lineage, parts, validate, vocab
from trails.decoding import decodes
from trails.errors import InvalidInput
from trails.model import Value
from trails.plumbing import actors, names, pages
from trails.plumbing.index import moments, rows, texts
from trails.plumbing.index.texts import Found, folded
from trails.plumbing.pages import Page, checked_limit
from trails.plumbing.reader import FAR_FUTURE
from trails.plumbing.workspace import Workspace
from trails.records.terms import parse_time
from trails.store.contract import QuadStore

_MOST_ROWS: Final = 4000
"""How many rows are read at once where most of them turn out to be none of those looked for."""
_FIRST_ROWS: Final = 64
_AROUND: Final = 60
"""How many characters of a turn are shown on each side of what was found."""


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
class Wanted:
    """What is looked for; None stands for anything."""

    text: str | None = None
    tool: str | None = None
    session: str | None = None
    role: str | None = None
    author: str | None = None


def search(workspace: Workspace, wanted: Wanted, *, limit: int, cursor: str | None) -> Page[Hit]:
    """Return one page of turns; see `Repository.search`."""
    text, tool, role, author = wanted.text, wanted.tool, wanted.role, wanted.author
    if text is None and tool is None and role is None and author is None:
        raise InvalidInput("a search needs a text, a tool, a role or an author to look for")
    if text is not None and not validate.text(text, "the text"):
        raise InvalidInput("the text to look for is empty; leave it out to find every turn")
    checked_limit(limit)
    runs: dict[str, lineage.Segment] = {}
    if wanted.session is not None:
        of_session = names.lineage(workspace, wanted.session)
        runs = {run.record.id: run for run in lineage.segments(of_session)}
    asked = _Asked(
        text=text,
        tool=None if tool is None else validate.name(tool, "a tool's name"),
        role=None if role is None else validate.role(role),
        authors=() if author is None else tuple(_authors(author)),
        session_ids=tuple(runs),
    )
    after = None if cursor is None else _Place(*pages.places_of(cursor, len(_Place._fields)))

    def hits(found: Iterator[Found]) -> Page[Hit]:
        stored = _stored(workspace.store, _after(found, after), runs, wanted)
        first = list(islice(stored, limit + 1))
        last = first[limit - 1].found if len(first) > limit else None
        return Page(
            [_hit(workspace.store, each, wanted) for each in first[:limit]], None if last is None else _cursor(last)
        )

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


class _Place(NamedTuple):
    """Where a page ends: its last turn's time, its session in short, and its index."""

    time: int
    session: int
    turn: int


def _end_at(found: Found) -> _Place:
    return _Place(found.time, pages.tie(found.session_id), found.place)


def _cursor(last: Found) -> str:
    return pages.cursor_of(*_end_at(last))


def _after(found: Iterator[Found], place: _Place | None) -> Iterator[Found]:
    """Yield what comes after a place; where what stood there is gone, all of its time, so that nothing is left out."""
    if place is None:
        yield from found
        return
    same: list[Found] = []
    for each in found:
        if each.time > place.time:
            continue
        if each.time < place.time:
            yield from chain(same, [each], found)
            return
        same = [] if _end_at(each) == place else [*same, each]
    yield from same


@decodes
def _scanned(workspace: Workspace, asked: _Asked, until: int | None) -> Iterator[Found]:
    """Yield the turns that may be those looked for, by the queries: the way without an index, which reads every text."""
    criteria: dict[str, Any] = {
        "text": [""] if asked.text is None else list(dict.fromkeys([asked.text, *_written(asked.text)])),
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
    turn: NamedNode
    graph: NamedNode
    said: Mapping[NamedNode, Any]

    def text(self, predicate: NamedNode) -> str:
        """Return what the turn says under a predicate; nothing where it says none."""
        return str(getattr(self.said.get(predicate), "value", ""))


@decodes
def _stored(
    store: QuadStore, candidates: Iterator[Found], runs: Mapping[str, lineage.Segment], wanted: Wanted
) -> Iterator[_Stored]:
    """Yield those candidates that the store has and that are looked for; with `runs`, of the transcript that they make up.

    Without, copies of a turn that is found elsewhere are left out; and always turns that hold the text in their JSON and
    not in what was said.
    """
    for found in candidates:
        turn, graph = NamedNode(found.iri), NamedNode(iris.session(found.session_id))
        stored = _Stored(found, turn, graph, {q.predicate: q.object for q in store.quads((turn, None, None, graph))})
        if vocab.VALUE not in stored.said:
            continue
        if runs:
            counts = _is_in(runs[found.session_id], found.place)
        else:
            counts = not _is_found_elsewhere(store, turn, graph, stored.said.get(vocab.DIGEST))
        if counts and _says(store, stored, wanted):
            yield stored


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
    plain = validate.name(author, "author")
    one = str(actors.named(plain))
    return [one] if plain.startswith(("agent:", "urn:trails:")) else [one, iris.agent(plain), iris.tool(plain)]


# --- upper and lower case, and text within JSON


def _place_of(text: str, wanted: str) -> int:
    """Return where a text holds another one, which is folded; -1 where it does not."""
    at = folded(text).find(wanted)
    if at <= 0 or text.isascii():
        return at
    reached = 0
    for place, character in enumerate(text):  # a few characters are longer when they are folded
        if reached >= at:
            return place
        reached += len(folded(character))
    return len(text)


def _written(text: str) -> tuple[str, str]:
    """Return how JSON may have a text: as it is written here, and as a model writes it that escapes all but ASCII."""
    return json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]


@decodes
def _says(store: QuadStore, stored: _Stored, wanted: Wanted) -> bool:
    """Tell whether a turn that holds the text somewhere holds it in what was said, or in the calls looked for."""
    if wanted.text is None:
        return True
    text, content = folded(wanted.text), stored.said[vocab.VALUE]
    said = [content.value] if content.datatype != vocab.JSON else rows.strings(json.loads(content.value))
    if any(text in folded(each) for each in said):
        return True
    return any(
        text in folded(arguments) or any(text in folded(each) for each in rows.of_json(arguments))
        for name, arguments in _calls(store, stored.turn, stored.graph)
        if wanted.tool in (None, name)
    )


# --- what is shown of a turn


@decodes
def _hit(store: QuadStore, stored: _Stored, wanted: Wanted) -> Hit:
    found, content = stored.found, stored.said[vocab.VALUE]
    calls = _calls(store, stored.turn, stored.graph)
    asked = [f"{name} {arguments}" for name, arguments in calls if wanted.tool in (None, name)]
    structured = content.datatype == vocab.JSON
    said = parts.plain_text(json.loads(content.value) if structured else content.value)
    snippet, matches = _snippet(asked if wanted.tool and wanted.text is None else [said, *asked], wanted.text)
    when = stored.said.get(vocab.TIME)
    return Hit(
        session_id=found.session_id,
        index=found.place,
        role=stored.text(vocab.ROLE),
        author=iris.author_name(stored.text(vocab.ATTRIBUTED_TO)),
        time=None if when is None else parse_time(when.value),
        digest=stored.text(vocab.DIGEST),
        iri=found.iri,
        tools=tuple(name for name, _ in calls),
        snippet=snippet,
        matches=matches,
    )


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


def _snippet(found_in: list[str], wanted: str | None) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return one line of what stands around a text, in the first of some texts that has it, and where it stands in that.

    >>> _snippet(["We take the train to Zermatt."], "TRAIN")
    ('We take the train to Zermatt.', ((12, 17),))
    """
    forms = [""] if wanted is None else [folded(form) for form in (wanted, *_written(wanted))]
    for text in found_in:
        at = max(_place_of(text, form) for form in forms)
        if at >= 0 and text:
            start, end = max(0, at - _AROUND), at + len(wanted or "") + _AROUND
            line = " ".join(text[start:end].split())
            shown = f"{'…' if start else ''}{line}{'…' if end < len(text) else ''}"
            return shown, () if wanted is None else _matches(shown, [" ".join(form.split()) for form in forms])
    return _snippet(found_in, None) if wanted is not None and any(found_in) else ("", ())


def _matches(line: str, forms: list[str]) -> tuple[tuple[int, int], ...]:
    """Return where a line holds one of some folded texts: (start, end) for each place, in order, none within another.

    >>> _matches("Alps, ALPS", ["ALPS"])
    ((0, 4), (6, 10))
    """
    whole, ends = "", [0]
    for character in line:
        whole += folded(character)
        ends.append(len(whole))
    found: list[tuple[int, int]] = []
    for form in dict.fromkeys(filter(None, forms)):
        at = whole.find(form)
        while at >= 0:
            found.append((bisect_right(ends, at) - 1, bisect_left(ends, at + len(form))))
            at = whole.find(form, at + len(form))
        if found:
            break
    return tuple(found)
