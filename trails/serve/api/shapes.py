"""The shapes of requests and answers: what checks the former makes the schemas of both."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from trails.serve.api.operations import Body, Shape

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]")


def _written_time(value: Any) -> Any:
    """Refuse a number, which is no time here, although it could be read as seconds since 1970."""
    if value is not None and not (isinstance(value, str) and _DATE.match(value)):
        raise ValueError("a time is written 2026-05-01T12:00Z")
    return value


Index = Annotated[int, Field(ge=0, le=1 << 53)]
Limit = Annotated[int, Field(ge=1, le=1000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(max_length=1 << 24)]
Time = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_written_time)]
Moment = Annotated[str, Field(min_length=1, max_length=200, description="An aware time, or a mark of the log.")]


# --- requests


class AsOf(Shape):
    """What is read as it was, where that is asked for."""

    at: Moment | None = None


class ListSessions(AsOf):
    """Which sessions are listed, and in which order."""

    principal: Name | None = None
    agent: Name | None = None
    label: Name | None = None
    project: Text | None = None
    meta: tuple[str, ...] = Field(default=(), description="KEY=VALUE, as often as there are keys.")
    since: Time | None = None
    until: Time | None = None
    active_since: Time | None = None
    active_until: Time | None = None
    sort: Literal["created", "activity", "turns", "tokens"] = "created"
    order: Literal["newest", "oldest"] = "newest"
    limit: Limit = 50
    cursor: Annotated[str, Field(max_length=200)] | None = None


class NewTurn(Body):
    """A turn to append, as `Session.append` takes it."""

    role: Name
    content: str | list[Any] | dict[str, Any] | None = None
    author: Name | None = None
    time: Time | None = None
    model: Name | None = None
    usage: dict[str, Any] | None = None
    stop_reason: Name | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: Name | None = None
    is_error: bool = False
    tool_results: list[dict[str, Any]] | None = None
    meta: dict[str, Any] | None = None
    as_content: bool = False
    source_id: Name | None = None


Turns = Annotated[list[NewTurn], Field(max_length=10_000)]


class AppendTurns(Body):
    """Turns to append, in one commit."""

    turns: Annotated[Turns, Field(min_length=1)]


class NewSession(Body):
    """A session to create, with its first turns."""

    id: Name | None = None
    principal: Name | None = None
    agent: Name | None = None
    label: Name | None = None
    kind: Name | None = None
    meta: dict[str, Any] | None = None
    system: Text | None = None
    created: Time | None = None
    spawned_by: Name | None = None
    turns: Turns = Field(default=[])


class NewFork(Body):
    """A fork to make, with its first turns."""

    id: Name | None = None
    at: Index | None = None
    principal: Name | None = None
    agent: Name | None = None
    label: Name | None = None
    kind: Name | None = None
    meta: dict[str, Any] | None = None
    by: Name | None = None
    turns: Turns = Field(default=[])


class ReadTurns(AsOf):
    """Which turns are read: the last ones, or a range."""

    last: Annotated[int, Field(ge=0, le=1000)] | None = None
    first: Index | None = Field(default=None, alias="from")
    end: Index | None = Field(default=None, alias="to")


class Replay(AsOf):
    """How far a session is replayed."""

    to: Index | None = None


class Two(AsOf):
    """Two sessions, or places in them, as `plan@5`."""

    left: Name
    right: Name


class Compare(AsOf):
    """What is compared, and how the table is laid out."""

    root: tuple[Name, ...] = Field(min_length=1)
    fork_point: Index | None = None
    columns: tuple[str, ...] = ()
    group_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    descending: bool = False


class ForestOf(AsOf):
    """Of which session's tree, or of the whole store."""

    session: Name | None = None


class ReadContext(AsOf):
    """What a model is to be shown."""

    query: Text | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1 << 53)] | None = None
    pinned_count: Index = 1
    cut: Literal["mark", "leave out"] = "mark"
    form: Literal["parts", "openai", "anthropic", "responses"] = "parts"


class Search(AsOf):
    """What is looked for in turns."""

    text: Annotated[str, Field(min_length=1, max_length=10_000)] | None = None
    tool: Name | None = None
    session: Name | None = None
    role: Name | None = None
    author: Name | None = None
    model: Name | None = None
    project: Text | None = None
    since: Time | None = None
    limit: Limit = 50
    cursor: Annotated[str, Field(max_length=200)] | None = None


class ReadScores(AsOf):
    """Which scores are read."""

    ref: Name | None = None
    name: Name | None = None
    by: Name | None = None
    version: Name | None = None
    history: bool = False


class NewScore(Body):
    """A score to give: `ref` is `plan`, `plan#3` or `plan#2:5`."""

    ref: Name
    name: Name
    value: bool | int | float | str
    by: Name | None = None
    version: Name | None = None
    reason: Text | None = None


class SetLabel(Body):
    """A session's label, or null to take it away."""

    label: Annotated[str, Field(min_length=1, max_length=64)] | None
    by: Name | None = None


class OfSession(Shape):
    """Those of one session, or all."""

    session: Name | None = None


class NewTag(Body):
    """A tag to make: `ref` is `plan`, or `plan@3` for its first three turns."""

    ref: Name
    by: Name | None = None


class SetRef(Body):
    """Where a ref is to be; `expected` is its place as it was read, null for no ref."""

    session: Name
    at: Index | None = None
    expected: Name | None = None
    by: Name | None = None


class By(Shape):
    """Who does it."""

    by: Name | None = None


class NewNote(Body):
    """A note on a turn."""

    index: Index
    text: Text
    by: Name | None = None


class NewRedaction(Body):
    """The turn to redact."""

    index: Index
    by: Name | None = None
    reason: Text | None = None


class Delete(Shape):
    """How a session is deleted."""

    children: Literal["refuse", "cascade", "detach"] = "refuse"
    by: Name | None = None
    reason: Text | None = None


class ReadEvents(Shape):
    """Which events are sent, and after which one."""

    session: Name | None = None
    kinds: tuple[str, ...] = ()
    after: Annotated[str, Field(max_length=64)] | None = None


# --- answers


class Told(BaseModel):
    """What is answered; fields may be added."""

    model_config = ConfigDict(extra="allow")


class Problem(Told):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


class Turn(Told):
    """A turn."""

    index: int
    role: str
    content: Any
    branch: str
    author: str
    time: datetime | None
    session: str
    digest: str
    iri: str


class TurnPage(Told):
    """Turns of a transcript; `next` is where more follow."""

    session: str
    head: str
    length: int
    first: int = Field(alias="from")
    next: int | None
    turns: list[Turn]


class Appended(Told):
    """What an append stored: the head and the length that the session had with it."""

    session: str
    head: str
    length: int
    turns: list[Turn]


class Session(Told):
    """A session's row, with its head and the length of its transcript."""

    id: str
    parent_session_id: str | None
    forked_at_index: int | None
    branch: str
    principal: str
    agent: str
    state: str
    created: datetime | None
    label: str | None
    meta: dict[str, Any]
    iri: str
    head: str
    length: int


class Record(Told):
    """A session's row."""

    id: str
    principal: str
    agent: str
    branch: str


class Summary(Told):
    """What tells a session from another."""

    id: str
    turns: int
    label: str | None
    principal: str
    agent: str


class SessionPage(Told):
    """A page of sessions; `cursor` goes on after it."""

    sessions: list[Summary]
    cursor: str | None


class Records(Told):
    """Forks of a session."""

    sessions: list[Record]


class Replayed(Told):
    """A transcript as plain messages."""

    session: str
    turns: list[dict[str, Any]]


class Nodes(Told):
    """Nodes of the forest, in the order of a drawing."""

    nodes: list[dict[str, Any]]


class Hits(Told):
    """A page of turns that were found."""

    hits: list[dict[str, Any]]
    cursor: str | None


class Scores(Told):
    """Scores."""

    scores: list[dict[str, Any]]


class Tags(Told):
    """Tags."""

    tags: list[dict[str, Any]]


class Refs(Told):
    """Refs."""

    refs: list[dict[str, Any]]


class Notes(Told):
    """Notes."""

    notes: list[dict[str, Any]]


class Plain(Told):
    """An object, as the command line prints it with `--json`."""


class Verdict(Told):
    """The verdict on a session or a store."""

    ok: bool
    findings: list[dict[str, Any]]


class Deleted(Told):
    """The ids of the sessions that were deleted."""

    deleted: list[str]
