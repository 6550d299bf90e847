"""Search turns by text and by tool, in pages that do not shift while turns are added."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from trails.display import terminal_text
from trails.errors import InvalidInput, KeyMissing
from trails.history import encryption
from trails.history.lookup import names, summaries, vectors
from trails.history.lookup.names import Name
from trails.history.lookup.summaries import Page, SummaryFilter, check_limit
from trails.history.workspace import Workspace
from trails.model import iris, lineage, moments, validation
from trails.model.values import Turn, Value
from trails.rdf import activity_records
from trails.rows import row_codec, text_index, vector_index
from trails.rows.text_index import FoundTurn, Wanted
from trails.rows.turn_text import TurnText, turn_text
from trails.rows.vector_index import Near
from trails.store.remote.store import RemoteStore

_SESSIONS: Final = 32
"""How many encrypted sessions a search holds in plain at a time."""
_RANKED: Final = 50
"""How many turns of each ranking, at least, a search by meaning takes."""
_DAMPING: Final = 60
"""By so much the ranks grow before they are turned over, as the authors of that rule found best."""


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

    def __repr__(self) -> str:
        session = terminal_text.shorten_name(self.session_id, terminal_text.NAME_WIDTH)
        return terminal_text.tag_line(f"Hit {session}@{self.index} {self.role}", self.snippet)

    __str__ = __repr__

    def to_dict(self) -> dict[str, Any]:
        """Return the hit as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"session_id", "time"})
        return plain | {"session": self.session_id, "time": self.time.isoformat() if self.time else None}


class SimilarHit(Hit):
    """A turn that a search by meaning found."""

    similarity: float | None
    """How near it is to the text in meaning, up to 1; None for one that holds the text and is not among the nearest."""


def search_turns(
    workspace: Workspace,
    text: str | None = None,
    *,
    tool: str | None = None,
    session: Name | None = None,
    role: str | None = None,
    author: str | None = None,
    model: str | None = None,
    project: str | None = None,
    since: datetime | str | None = None,
    semantic: bool | str | os.PathLike[str] = False,
    limit: int = 50,
    cursor: str | None = None,
    fresh: bool = False,
) -> Page[Hit]:
    """Return one page of the stored turns that hold a text, newest first; those without a time come last.

    `text` is looked for as it is, upper and lower case alike ("ß" and "SS" too), in what the content says, not in how
    its JSON is written, and in the arguments of tool calls.
    `tool` is the exact name of a tool that the turn calls; with both, the text stands in the content or in that
    call's arguments. `session` (any name of it) limits the search to its transcript, inherited turns included;
    without it, a turn that was copied is found once. `author` is a principal or an agent, `agent:NAME` an agent. `model` is
    the exact name of the model that generated the turn, `project` the name or the whole path of the session's project.
    `since`, a time or a text such as "2026-05-01" or "7d", leaves out what was said before it, and what has no time.
    `limit` is 1 to 1,000; `cursor` is the `cursor` of the page before: turns added meanwhile do not shift the pages.
    With `fresh`, `refresh` comes first, as for `load`.

    `semantic` also finds what means the same in other words, and gives the best `limit` turns, the best first, in one page of
    `SimilarHit`: True takes the model that made the store's vectors, at first that of the extra `semantic`; a path is the
    folder of a model (`trails guide branches`). Vectors that are missing are made first.

    Raises `InvalidInput` where nothing is asked for, or for a cursor that no page gave, and what `refresh` does with `fresh`.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip to the Alps"); written = plan.persist()
    ...     [(hit.session_id, hit.index, hit.snippet) for hit in store.search("alps")]
    [('plan', 0, 'Plan a trip to the Alps')]
    """
    if all(each is None for each in (text, tool, role, author, model)):
        raise InvalidInput("a search needs a text, a tool, a role, an author or a model to look for")
    if text is not None and not validation.text(text, "the text"):
        raise InvalidInput("the text to look for is empty; leave it out to find every turn")
    check_limit(limit)
    if semantic is not False:
        _check_semantic(workspace, text, cursor)
    runs: dict[str, lineage.Segment] = {}
    workspace.refresh(fresh)
    workspace.note_read("search")  # and no digest of the text: a name is soon guessed
    if session is not None:
        runs = {run.record.id: run for run in lineage.segments(names.find_lineage(workspace, session))}
    after = None if cursor is None else _Place(*summaries.parse_cursor(cursor, len(_Place._fields)))
    hidden = frozenset(encryption.encrypted_sessions(workspace.store))
    hidden = hidden & runs.keys() if runs else hidden
    if hidden and semantic is not False:
        raise InvalidInput(
            f"the session {min(hidden)} is encrypted, and no vectors are made of its texts: search without `semantic` "
            "(--semantic), or in a session that is not encrypted"
        )
    if text is not None and hidden and workspace.encryption is None:
        raise encryption.no_keys(min(hidden))
    asked = Wanted(
        text=None if hidden else text,
        tool=None if tool is None else validation.name(tool, "a tool's name"),
        role=None if role is None else validation.role(role),
        authors=() if author is None else tuple(_authors(author)),
        until=None if after is None else after.time,
        since=None if since is None else row_codec.micros(moments.moment(since, "since")),
        model=None if model is None else validation.name(model, "model"),
        sessions=None if project is None else summaries.filter_conditions(workspace, SummaryFilter(project=project)),
    )
    embedder = None if semantic is False else vectors.keep(workspace, semantic)
    with workspace.rows.reading() as rows:
        found = text_index.find(rows, asked, tuple(runs))
        if embedder is not None and text is not None:
            near = vector_index.find(rows, embedder, text, asked, tuple(runs))
            near = (each for each in near if not runs or _is_in(runs[each.found.session_id], each.found.row.place))
            literal = (each for each in found if not runs or _is_in(runs[each.session_id], each.row.place))
            most = max(limit, _RANKED)
            best = _fused(list(islice(literal, most)), list(islice(near, most)))
            return Page([_similar_hit(*each, text, tool) for each in best[:limit]], None)
        if hidden:
            found = (
                each
                for each in _decrypted(workspace, found, hidden, must_be=text is not None)
                if each.text.says(text, tool)
            )
        counted = (each for each in found if not runs or _is_in(runs[each.session_id], each.row.place))
        first = list(islice(_after(counted, after), limit + 1))
    end = summaries.make_cursor(*_place_of(first[limit - 1])) if len(first) > limit else None
    return Page([_hit(each, text, tool) for each in first[:limit]], end)


def _check_semantic(workspace: Workspace, text: str | None, cursor: str | None) -> None:
    """Raise `InvalidInput` for a search by meaning that cannot be."""
    if text is None:
        raise InvalidInput("a search by meaning needs a text; leave `semantic` (--semantic) out")
    if cursor is not None:
        raise InvalidInput(
            "a search by meaning gives one page, best first: take a greater `limit` in place of a cursor"
        )
    if isinstance(workspace.store, RemoteStore):
        raise InvalidInput(f"{workspace.store.location} is a server: search by meaning where its store is kept")


def _fused(literal: Iterable[FoundTurn], near: Iterable[Near]) -> list[tuple[FoundTurn, Near | None]]:
    """Return the turns of two rankings, the best first, by reciprocal ranks: G. Cormack and others, SIGIR 2009."""
    similar = {each.found.number: each for each in near}
    turns = {each.number: each for each in literal}
    scores: dict[int, float] = defaultdict(float)
    for ranking in (turns, similar):
        for rank, number in enumerate(ranking, 1):
            scores[number] += 1 / (_DAMPING + rank)
    turns |= {number: each.found for number, each in similar.items()}
    best = sorted(turns.values(), key=lambda each: (-scores[each.number], each.order))
    return [(each, similar.get(each.number)) for each in best]


def _similar_hit(found: FoundTurn, near: Near | None, text: str, tool: str | None) -> SimilarHit:
    hit = _hit(found, text, tool)
    if near is not None and not hit.matches:
        snippet, _ = turn_text(near.piece, 0).snippet(None, None)
        hit = hit.model_copy(update={"snippet": snippet})
    return SimilarHit(**dict(hit), similarity=None if near is None else round(near.similarity, 4))


def _decrypted(
    workspace: Workspace, found: Iterable[FoundTurn], hidden: Collection[str], *, must_be: bool
) -> Iterator[FoundTurn]:
    """Yield turns with their texts in plain: no index holds those of encrypted sessions.

    Where they `must_be` in plain, raise `KeyMissing` for a session without a key; else its turns come as they are stored.
    """
    reader = workspace.reader

    @lru_cache(maxsize=_SESSIONS)
    def texts_of(session_id: str) -> Mapping[str, TurnText]:
        try:
            turns = reader.own_turns(lineage.Segment(reader.record(session_id), 0, None))
        except KeyMissing:
            if must_be:
                raise
            return {}
        return {turn.digest: _text_of(turn) for turn in turns if not turn.redacted}

    for each in found:
        text = texts_of(each.session_id).get(each.row.digest.hex()) if each.session_id in hidden else None
        yield each if text is None else each._replace(text=text)


def _text_of(turn: Turn) -> TurnText:
    calls = tuple((call.name, call.arguments or "") for call in turn.tool_calls)
    return turn_text(turn.text, int(turn.structured), calls)


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


def _hit(found: FoundTurn, text: str | None, tool: str | None) -> Hit:
    snippet, matches = found.text.snippet(text, tool)
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
