"""The tools that read a store: sessions, turns, search, diffs, influences, usage, queries and verification."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from trails.adapters.mcp import pages
from trails.adapters.mcp.pages import Page
from trails.errors import InvalidInput
from trails.model.content_parts import plain_text
from trails.model.validation import to_json
from trails.model.values import Turn
from trails.rdf import query_files
from trails.session.repository import Repository

Session = Annotated[str, Field(description="A session's id, label, ref, tag, IRI, or the beginning of a made-up id")]
Cursor = Annotated[str | None, Field(description="The `cursor` of the answer before; leave it out for the first page")]
Limit = Annotated[int, Field(ge=1, le=100, description="How many items to give at most")]
Meta = Annotated[
    dict[str, str | int | float | bool] | None,
    Field(description='Metadata that a session must have, such as {"team": "search"}'),
]

_SECONDS: Final = 20
"""How long a query may take."""
_ROWS: Final = 1_000
"""How many rows of a query are looked at."""
_VERIFIED: Final = 100_000
"""A store of more turns is not verified as a whole: that takes minutes."""


class TurnText(TypedDict):
    """A part of what one turn holds."""

    index: int
    role: str
    author: str
    time: str | None
    part: str
    """What of the turn this is: its content, its tool calls and results, or its metadata."""
    text: str
    characters: int
    """How long the whole part is."""
    next_offset: int | None
    """Where the part goes on; null if this is its end."""


class Verified(TypedDict):
    """What verifying found."""

    ok: bool
    sessions: int
    turns: int
    findings: list[dict[str, Any]]
    note: str | None


class ReadingTools:
    """What a model can ask of a store. Each method is a tool; its docstring is what the model reads."""

    def __init__(self, store: Repository) -> None:
        self._store = store

    # --- sessions and turns

    def list_sessions(
        self,
        principal: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        meta: Meta = None,
        active_since: Annotated[datetime | None, Field(description="With a time zone")] = None,
        order: Literal["newest", "oldest"] = "newest",
        limit: Limit = 20,
        cursor: Cursor = None,
    ) -> Page:
        """List sessions with their titles, first prompts, turns, tokens, cost and models.

        At most 100 sessions and 20,000 characters an answer.
        """
        asked: dict[str, Any] = {"principal": principal, "agent": agent, "project": project, "meta": meta}
        asked |= {"active_since": active_since, "order": order}
        return pages.page_of_store(
            lambda count, after: self._store.summaries(**asked, limit=count, cursor=after),
            lambda each: _without_nulls(each.to_dict()),
            limit,
            cursor,
        )

    def read_session(
        self,
        session: Session,
        start: Annotated[int | None, Field(ge=0, description="The index of the first turn; default 0")] = None,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page:
        """Read a session's transcript, the turns that it inherits from what it was forked from included.

        At most 100 turns and 20,000 characters an answer, 4,000 characters a turn: `read_turn` gives the rest of a long one.
        """
        loaded = self._store.load(session, last=0)
        first = pages.start_of(cursor) if cursor is not None else start or 0
        items = (_turn(turn, session) for turn in loaded[first : first + limit + 1])
        return pages.page_of(items, str(first), limit, len(loaded))

    def read_turn(
        self,
        session: Session,
        index: Annotated[int, Field(ge=0)],
        part: Literal["content", "calls", "metadata"] = "content",
        offset: Annotated[int, Field(ge=0, description="The first character to give")] = 0,
    ) -> TurnText:
        """Read one turn whole: its content, its tool calls and results, or its metadata with model and usage.

        At most 20,000 characters an answer: go on with `offset=next_offset`.
        """
        turn = self._store.load(session, last=0)[index]
        text = _parts_of(turn)[part]
        end = offset + pages.MOST_CHARS
        return TurnText(
            index=turn.index,
            role=turn.role,
            author=turn.author,
            time=None if turn.time is None else turn.time.isoformat(),
            part=part,
            text=text[offset:end],
            characters=len(text),
            next_offset=end if end < len(text) else None,
        )

    def search(
        self,
        text: Annotated[str | None, Field(description="Looked for as it is, upper and lower case alike")] = None,
        tool: Annotated[str | None, Field(description="The exact name of a tool that the turn calls")] = None,
        session: Annotated[str | None, Field(description="Only in this session's transcript")] = None,
        role: str | None = None,
        author: str | None = None,
        limit: Limit = 20,
        cursor: Cursor = None,
    ) -> Page:
        """Find turns by text, tool, role or author, newest first, with what stands around the text.

        At most 100 turns and 20,000 characters an answer.
        """
        asked: dict[str, Any] = {"tool": tool, "session": session, "role": role, "author": author}
        return pages.page_of_store(
            lambda count, after: self._store.search(text, **asked, limit=count, cursor=after),
            lambda each: _without_nulls(each.to_dict()),
            limit,
            cursor,
        )

    def model_context(self, session: Session, cursor: Cursor = None) -> Page:
        """Give what a model would be shown of a session now: system prompt, latest summary and the turns since.

        The messages are in the shape of OpenAI's chat API. At most 20,000 characters an answer, 4,000 a text.
        """
        messages = self._store.load(session).context().openai()
        return _numbered(
            (_short(message, "read_turn gives the turn whole") for message in messages), cursor, len(messages)
        )

    # --- branches

    def list_branches(self, session: Session, cursor: Cursor = None) -> Page:
        """List the sessions that were forked from a session, with the index at which each leaves it.

        At most 20,000 characters an answer.
        """
        found = [record.to_dict() for record in self._store.branches(session)]
        return _numbered((_short(each, "sparql gives the rest") for each in found), cursor, len(found))

    def diff_sessions(self, left: Session, right: Session, cursor: Cursor = None) -> Page:
        """Show how two sessions differ from where they part: which turns were changed, or are in one alone.

        At most 20,000 characters an answer, 4,000 a text: `read_turn` gives the rest of a long one.
        """
        entries = self._store.diff(left, right).to_dict()["entries"]
        return _numbered((_short(each, "read_turn gives the turn whole") for each in entries), cursor, len(entries))

    def compare_branches(
        self,
        session: Session,
        columns: Annotated[
            list[str] | None,
            Field(description="Such as own_turns, cost, models, last_answer, meta.KEY, score.NAME; default all"),
        ] = None,
        cursor: Cursor = None,
    ) -> Page:
        """Put a session and all its forks side by side: a row a branch with its figures, metadata and scores.

        At most 20,000 characters an answer, 4,000 a text.
        """
        rows = [dict(row) for row in self._store.compare(session, columns=columns)]
        shown = (_short(_plain(row), "read_session gives the transcript") for row in rows)
        return _numbered(shown, cursor, len(rows))

    # --- where an answer comes from

    def influences(self, session: Session, index: Annotated[int, Field(ge=0)], cursor: Cursor = None) -> Page:
        """Tell who and what influenced a turn, and by which path: authors, models, tools, prompts, quotes, sub-agents, forks.

        At most 20,000 characters an answer.
        """
        turn = self._store.load(session, last=0)[index]  # raises if there is none
        return self.run_query("influences", {"session": self._store.resolve(session), "index": turn.index}, cursor)

    def blame(self, session: Session, cursor: Cursor = None) -> Page:
        """Tell for each turn of a transcript which session owns it, who wrote it, with which model, and what it repeats.

        At most 20,000 characters an answer.
        """
        loaded = self._store.load(session, last=0)
        start = pages.start_of(cursor)
        found = loaded.blame(min(start, len(loaded)), min(start + 101, len(loaded)))
        return pages.page_of([_without_nulls(each.to_dict()) for each in found], cursor, 100, len(loaded))

    # --- figures

    def usage(
        self,
        by: Literal["day", "model", "project", "principal", "session"] = "model",
        project: str | None = None,
        meta: Meta = None,
        since: Annotated[datetime | None, Field(description="Inclusive, with a time zone")] = None,
        until: Annotated[datetime | None, Field(description="Exclusive, with a time zone")] = None,
        cursor: Cursor = None,
    ) -> Page:
        """Add up calls, tokens and cost by day, model, project, principal or session; each call counts once.

        At most 20,000 characters an answer.
        """
        rows = self._store.cost(by, project=project, meta=meta, since=since, until=until).to_dicts()
        return _numbered((_without_nulls(_plain(row)) for row in rows), cursor, len(rows))

    # --- queries

    def list_queries(
        self,
        about: Annotated[str | None, Field(description="Only queries whose name or purpose has this word")] = None,
        cursor: Cursor = None,
    ) -> Page:
        """List the ready-made queries of `run_query`: what each answers, and its parameters.

        At most 20,000 characters an answer.
        """
        wanted = (about or "").lower()
        found = [
            {
                "name": query.name,
                "purpose": query.purpose,
                "parameters": {each.name: f"{each.kind}{', optional' * each.optional}" for each in query.parameters},
            }
            for query in query_files.catalogue().values()
            if wanted in query.name.lower() or wanted in query.purpose.lower()
        ]
        return _numbered(found, cursor, len(found))

    def run_query(
        self,
        name: Annotated[str, Field(description="A name that list_queries gives")],
        parameters: dict[str, str | int | float | bool] | None = None,
        cursor: Cursor = None,
    ) -> Page:
        """Run a ready-made query by its name.

        At most 1,000 rows, 20 seconds, and 20,000 characters an answer.
        """
        if not query_files.exists(name):
            query_files.find(name)
        return self._rows(name, parameters or {}, cursor)

    def sparql(
        self,
        query: Annotated[str, Field(description="SPARQL 1.1 SELECT, ASK, CONSTRUCT or DESCRIBE; nothing is written")],
        cursor: Cursor = None,
    ) -> Page:
        """Ask the knowledge graph in SPARQL. Sessions are trails:Session, turns trails:Turn in the graph of their session.

        At most 1,000 rows, 20 seconds, and 20,000 characters an answer: use ORDER BY with LIMIT and OFFSET for more.
        """
        return self._rows(query, {}, cursor)

    def _rows(self, query: str, parameters: dict[str, Any], cursor: str | None) -> Page:
        limits: dict[str, Any] = {} if query_files.exists(query) else {"timeout": _SECONDS, "max_rows": _ROWS}
        answer: Any = self._store.query(query, **limits, **parameters)
        if isinstance(answer, bool):
            return Page(items=[{"answer": answer}], cursor=None, note=None)
        how = "read_turn gives a turn whole"
        rows = [_short(row, how) for row in islice(_row_items(answer), _ROWS + 1)]
        page = _numbered(rows[:_ROWS], cursor, min(len(rows), _ROWS))
        if len(rows) > _ROWS or getattr(answer, "truncated", False):
            page["note"] = (
                f"{page['note'] or 'this page is the last'}; the query has more than {_ROWS:,} rows: narrow it"
            )
        return page

    # --- proof

    def verify(
        self,
        session: Annotated[str | None, Field(description="One session with its ancestors; default the store")] = None,
    ) -> Verified:
        """Check that nothing of a session, or of the whole store, was altered: digests, order, lineage and the log.

        The whole store is checked up to 100,000 turns; at most 50 findings are given.
        """
        if session is None and (turns := self._store.info()["turns"]) > _VERIFIED:
            raise InvalidInput(f"the store has {turns:,} turns: name a session, or run `trails verify` for all of it")
        report = self._store.proofs.verify(None if session is None else self._store.resolve(session)).to_dict()
        findings = report["findings"]
        return Verified(
            ok=report["ok"],
            sessions=report["sessions"],
            turns=report["turns"],
            findings=findings[:50],
            note=f"50 of {len(findings):,} findings; `trails verify` gives all" if len(findings) > 50 else None,
        )


def transcript_text(store: Repository, session: str, most: int) -> str:
    """Return a transcript as plain text, cut at a whole turn with what is missing, for resources and prompts."""
    loaded = store.load(session, last=0)
    lines: list[str] = []
    used = 0
    for turn in loaded:
        text = f"[{turn.index}] {turn.role} ({turn.author}): {plain_text(turn.content)}"
        line = pages.shorten(text, f"read_turn(session={session!r}, index={turn.index}) gives the rest")
        used += len(line) + 2
        if used > most and lines:
            lines.append(
                f"[{len(loaded) - turn.index} more turns: read_session(session={session!r}, start={turn.index})]"
            )
            break
        lines.append(line)
    return "\n\n".join(lines)


def _turn(turn: Turn, session: str) -> dict[str, Any]:
    plain = _without_nulls(turn.to_dict())
    how = f"read_turn(session={session!r}, index={turn.index}) gives the rest"
    plain["content"] = pages.shorten(plain_text(turn.content), how)
    kept = ("index", "role", "author", "time", "session", "content", "model", "stop_reason", "redacted")
    item = {name: plain[name] for name in kept if name in plain}
    if turn.tool_calls:
        item["calls"] = [
            {"id": call.id, "tool": call.name, "arguments": pages.shorten(call.arguments or "", how, 1_000)}
            for call in turn.tool_calls
        ]
    if turn.tool_results:
        item["answers"] = [result.call_id for result in turn.tool_results]
    return item


def _parts_of(turn: Turn) -> dict[str, str]:
    plain = turn.to_dict()
    content = plain.pop("content")
    calls = {name: plain.pop(name) for name in ("tool_calls", "tool_results") if name in plain}
    return {
        "content": content if isinstance(content, str) else to_json(content, "the content"),
        "calls": json.dumps(_plain(calls), ensure_ascii=False),
        "metadata": json.dumps(_plain(plain), ensure_ascii=False),
    }


def _numbered(items: Iterable[dict[str, Any]], cursor: str | None, total: int) -> Page:
    """Return a page of items that are all at hand."""
    start = pages.start_of(cursor)
    return pages.page_of(islice(items, start, None), cursor, total, total)


def _short(value: Any, how: str) -> Any:
    """Return a value with each long text in it cut, which says so."""
    if isinstance(value, str):
        return pages.shorten(value, how)
    if isinstance(value, dict):
        return {key: _short(each, how) for key, each in value.items() if each is not None}
    return [_short(each, how) for each in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _without_nulls(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if value not in (None, [], ())}


def _row_items(answer: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a query's answer, or the triples of a graph."""
    if hasattr(answer, "to_dicts"):
        yield from (_without_nulls(_plain(row)) for row in answer.to_dicts())
        return
    for triple in answer:
        yield {"subject": str(triple.subject), "predicate": str(triple.predicate), "object": str(triple.object)}
