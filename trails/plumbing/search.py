"""Searching turns by text and by tool, in pages that stay where they are while turns are added."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, QuerySolution

from trails import iris, lineage, parts, validate, vocab
from trails.decoding import decodes
from trails.errors import InvalidInput
from trails.model import Value
from trails.plumbing import actors, names
from trails.plumbing.pages import Page, Position, checked_limit, position, turn_cursor
from trails.plumbing.reader import FAR_FUTURE, FAR_PAST
from trails.plumbing.workspace import Workspace
from trails.records.terms import parse_time
from trails.store.contract import QuadStore

_MOST_ROWS: Final = 4000
"""How many rows are read at once where most of them turn out to be none of those looked for."""
_START: Final = Position(FAR_FUTURE, "")
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
    name = "search_text" if tool is None else "search_tool"
    criteria: dict[str, Any] = {
        "text": [""] if text is None else list(dict.fromkeys([text, *_written(text)])),
        "role": None if role is None else validate.role(role),
        "author": None if author is None else _authors(author),
    }
    if tool is not None:
        criteria["tool"] = validate.name(tool, "a tool's name")
    runs: dict[str, lineage.Segment] = {}
    if wanted.session is not None:
        chain = names.lineage(workspace, wanted.session)
        runs = {run.record.iri: run for run in lineage.segments(chain)}
        criteria["sessions"] = [run.record.id for run in runs.values()]
    place = _START if cursor is None else position(cursor, of_turn=True)
    found = _rows(workspace, name, criteria, wanted, runs=runs, place=place, count=limit + 1)
    hits = [_hit(workspace.store, row, wanted) for row in found[:limit]]
    return Page(hits, turn_cursor(_place(found[limit - 1])) if len(found) > limit else None)


@decodes
def _rows(
    workspace: Workspace,
    name: str,
    criteria: Mapping[str, Any],
    wanted: Wanted,
    *,
    runs: Mapping[str, lineage.Segment],
    place: Position,
    count: int,
) -> list[QuerySolution]:
    """Return up to `count` rows after a place; with `runs`, only those of the transcript that they make up.

    Without, copies of a turn that is found elsewhere are left out, and always rows that hold the text in their JSON
    and not in what was said: few pages hold any, and SPARQL would ask for each row.
    """
    store = workspace.store
    found: list[QuerySolution] = []
    size = count
    while len(found) < count:
        limits = {"before": place.time, "last": place.session_iri, "below": place.turn, "limit": size}
        rows = workspace.reader.select(name, **criteria, **limits)
        for row in rows:
            if runs:
                counts = _is_in(runs[row["session"].value], int(row["index"].value))
            else:
                counts = not _is_found_elsewhere(store, row["turn"], row["session"], row["digest"])
            if counts and _says(store, row, wanted):
                found.append(row)
        if len(rows) < size:
            break
        place, size = _place(rows[-1]), min(2 * size, _MOST_ROWS)
    return found[:count]


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


def folded(text: str) -> str:
    """Return text in which upper and lower case are alike, as the queries have it: `UCASE(LCASE(...))`.

    >>> folded("Straße") == folded("STRASSE"), folded("ὁδός") == folded("ὉΔΌΣ")
    (True, True)
    """
    return text.lower().upper()


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
def _says(store: QuadStore, row: QuerySolution, wanted: Wanted) -> bool:
    """Tell whether a turn that holds the text somewhere holds it in what was said, or in the calls looked for."""
    if wanted.text is None:
        return True
    text, content = folded(wanted.text), row["content"]
    said = [content.value] if content.datatype != vocab.JSON else _strings(json.loads(content.value))
    if any(text in folded(each) for each in said):
        return True
    return any(
        text in folded(arguments) or any(text in folded(each) for each in _of_json(arguments))
        for name, arguments in _calls(store, row["turn"], row["session"])
        if wanted.tool in (None, name)
    )


def _of_json(text: str) -> Iterator[str]:
    try:
        return _strings(json.loads(text), keys=True)
    except (ValueError, RecursionError):  # arguments that a model wrote, and that are no JSON
        return iter(())


def _strings(value: Any, *, keys: bool = False) -> Iterator[str]:
    """Yield the texts and numbers within a JSON value; of keys only where asked, and not what type a part is."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            yield from each if keys else ()
            waiting += [held for key, held in each.items() if keys or key != "type"]
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str):
            yield each
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield json.dumps(each)


# --- where a page ends


@decodes
def _place(row: QuerySolution) -> Position:
    return Position(parse_time(row["when"].value), row["session"].value, int(row["index"].value))


# --- what is shown of a turn


@decodes
def _hit(store: QuadStore, row: QuerySolution, wanted: Wanted) -> Hit:
    session_iri, turn, content = row["session"].value, row["turn"], row["content"]
    when = parse_time(row["when"].value)
    calls = _calls(store, turn, NamedNode(session_iri))
    asked = [f"{name} {arguments}" for name, arguments in calls if wanted.tool in (None, name)]
    structured = content.datatype == vocab.JSON
    said = parts.plain_text(json.loads(content.value) if structured else content.value)
    return Hit(
        session_id=iris.session_id(session_iri),
        index=int(row["index"].value),
        role=row["role"].value,
        author=iris.author_name(row["author"].value),
        time=None if when == FAR_PAST else when,
        digest="" if row["digest"] is None else row["digest"].value,
        iri=turn.value,
        tools=tuple(name for name, _ in calls),
        snippet=_snippet(asked if wanted.tool and wanted.text is None else [said, *asked], wanted.text),
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


def _snippet(texts: list[str], wanted: str | None) -> str:
    """Return one line of what stands around a text, in the first of some texts that has it.

    >>> _snippet(["We take the train to Zermatt."], "TRAIN")
    'We take the train to Zermatt.'
    """
    forms = [""] if wanted is None else [folded(form) for form in (wanted, *_written(wanted))]
    for text in texts:
        at = max(_place_of(text, form) for form in forms)
        if at >= 0 and text:
            start, end = max(0, at - _AROUND), at + len(wanted or "") + _AROUND
            line = " ".join(text[start:end].split())
            return f"{'…' if start else ''}{line}{'…' if end < len(text) else ''}"
    return _snippet(texts, None) if wanted is not None and any(texts) else ""
