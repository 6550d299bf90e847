"""List sessions with what tells them apart, a page at a time, found and sorted by the rows."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from pyoxigraph import NamedNode

from trails.display import html, tables, terminal_text, text_table
from trails.display.tables import Kind, PlainTable, Tabular, of_items
from trails.display.terminal_text import count
from trails.errors import IndexGap, InvalidInput, KeyMissing, NoSuchName
from trails.history import encryption
from trails.history.records import conversations
from trails.history.workspace import Workspace
from trails.model import iris, moments, validation
from trails.model.values import SessionRecord, Value
from trails.rows import row_codec, session_lists
from trails.rows.row_writer import prompt_line
from trails.rows.session_lists import SORTS, Asked, Sort
from trails.rows.transcript_rows import recorded_lengths
from trails.rows.turn_text import ENCRYPTED

MAX_PAGE: Final = 1000
_BYTES: Final = 8
_TIE: Final = 5
_Item = TypeVar("_Item")


class Page(list[_Item], Tabular):
    """One page of what was asked for, newest first. `cursor` continues after it and is None at the end."""

    def __init__(self, items: list[_Item], cursor: str | None) -> None:
        super().__init__(items)
        self.cursor = cursor

    if not TYPE_CHECKING:  # type checkers know that it is a list

        def __getitem__(self, index):
            """Return what stands at an index, or the list of a slice; raises `NoSuchName` for a name."""
            try:
                return list.__getitem__(self, index)
            except TypeError:
                raise NoSuchName(
                    f"a {type(self).__name__} is a list, and has no [{index!r:.40}]: page[0] is its first item, and "
                    "store.load(id) gives a session; to_pandas() gives a data frame"
                ) from None

    def __repr__(self) -> str:
        return text_table.draw(f"<{self._heading()}>", text_table.for_people(self._listed()))

    def _heading(self) -> str:
        return f"Page: {count(len(self), 'item')}{', and there is more' if self.cursor else ''}"

    def _listed(self) -> PlainTable:
        """Return the table that a person is shown, before its columns are put in order."""
        return self.table()

    @html.safe
    def _repr_html_(self) -> str:
        return html.box(html.inline(self._heading()), [tables.to_html(text_table.for_people(self._listed()))])

    def table(self) -> PlainTable:
        """Return the page as a table: a row for each of what it holds, a column for each of its fields."""
        return of_items(self)


def check_limit(limit: int) -> int:
    """Return how many a page is to hold at most, or raise `InvalidInput` for what is not 1 to `MAX_PAGE`."""
    if not 1 <= validation.index(limit, "limit") <= MAX_PAGE:
        raise InvalidInput(f"limit must be 1 to {MAX_PAGE}, not {limit}")
    return limit


def make_cursor(*numbers: int) -> str:
    """Return the cursor that stands for where a page ended: what the last is sorted by, and what tells it from its equals.

    >>> parse_cursor(make_cursor(-12, 7), 2)
    (-12, 7)
    """
    packed = b"".join(number.to_bytes(_BYTES, signed=True) for number in numbers)
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def parse_cursor(cursor: str, count: int) -> tuple[int, ...]:
    """Return the numbers, `count` of them, that a cursor stands for; raise `InvalidInput` for one that no page gave."""
    text = str(cursor)
    try:
        packed = base64.b64decode(f"{text}{'=' * (-len(text) % 4)}", altchars=b"-_", validate=True)
    except ValueError:
        packed = b""
    if len(packed) != count * _BYTES:
        raise InvalidInput(f"{cursor!r} is no cursor; use the `cursor` of the page before")
    return tuple(int.from_bytes(packed[at : at + _BYTES], signed=True) for at in range(0, len(packed), _BYTES))


def sort_page(place: tuple[int, int], order: int) -> tuple[int, int]:
    """Return the place where a page ended with the number of what its list is sorted by, 0 to 127."""
    return place[0], place[1] | order << 8 * _TIE


def order_clause(cursor: str, order: int) -> tuple[int, int]:
    """Return the place that `sort_page` told the cursor of; raise `InvalidInput` for that of a list in another order."""
    value, told = parse_cursor(cursor, 2)
    if told >> 8 * _TIE != order:
        raise InvalidInput(f"{cursor!r} is the cursor of a list in another order; go on in that one, or begin anew")
    return value, told & (1 << 8 * _TIE) - 1


_Made = TypeVar("_Made")


class SessionSummary(Value):
    """What tells one session from another. Tokens, calls, cost and models are those of its own turns, each call once."""

    id: str
    label: str | None
    title: str | None
    """The metadata `title`, as importers and hosts give it."""
    first_prompt: str | None
    """The beginning of the first turn of a user that it owns, else of the first that it inherits: 200 characters at most."""
    turns: int
    """The length of its transcript, inherited turns included."""
    own_turns: int
    calls: int
    calls_without_usage: int
    """Those of them that reported neither input nor output tokens: the sums leave them out."""
    input_tokens: int | None
    """Neither read from the provider's cache nor written to it; None where no call reported any."""
    output_tokens: int | None
    cost: float | None
    """What its calls cost as they reported it; None where none did."""
    models: tuple[str, ...]
    project: str | None
    """The metadata `project`, else the working folder (`cwd`) that an import brought."""
    created: datetime | None
    last_activity: datetime | None
    """The latest time of its own turns, else when it was created."""
    branch: str
    agent: str
    principal: str
    state: str
    kind: str | None
    parent: str | None

    @property
    def name(self) -> str:
        """What to call it: its label, its title, its first prompt or its id, whichever is there first."""
        return self.label or self.title or self.first_prompt or self.id

    def __repr__(self) -> str:
        return terminal_text.tag_line(
            f"SessionSummary {terminal_text.shorten_name(self.id, terminal_text.NAME_WIDTH)}",
            None if self.name == self.id else terminal_text.shorten(self.title or self.name, terminal_text.NAME_WIDTH),
            count(self.turns, "turn"),
            None if self.last_activity is None else f"last {self.last_activity:%Y-%m-%d}",
        )

    __str__ = __repr__

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values, ready for JSON."""
        plain = self.model_dump()
        return {name: tables.plain(value) for name, value in plain.items()}


_KINDS: Final[Mapping[str, Kind]] = {
    "id": "text", "label": "text", "title": "text", "first_prompt": "text", "turns": "integer", "own_turns": "integer",
    "calls": "integer",
    "calls_without_usage": "integer", "input_tokens": "integer", "output_tokens": "integer", "cost": "number", "models": "names",
    "project": "text", "created": "time", "last_activity": "time", "branch": "text", "agent": "text", "principal": "text",
    "state": "text", "kind": "text", "parent": "text",
}  # fmt: skip


_LISTED: Final = ("id", "turns", "last_activity", "cost", "models")
"""What a list shows of a session beside its name."""


class Summaries(Page[SessionSummary]):
    """A page of summaries, which is a table too."""

    def table(self) -> PlainTable:
        """Return the page as a table with a row for each session."""
        return PlainTable(_KINDS, [each.model_dump() for each in self])

    def _listed(self) -> PlainTable:
        table = self.table()
        rows = [{"name": each.name} | dict(row) for each, row in zip(self, table.rows, strict=True)]
        kinds: dict[str, Kind] = {"name": "text"}
        kinds.update((name, table.kinds[name]) for name in _LISTED)
        return PlainTable(kinds, rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each session as a dict of Python values."""
        return [each.model_dump() for each in self]


@dataclass(frozen=True, slots=True)
class SummaryFilter:
    """Which sessions are asked for; None stands for any."""

    principal: str | None = None
    agent: str | None = None
    label: str | None = None
    meta: Mapping[str, Any] | None = None
    project: str | None = None
    since: datetime | str | None = None
    until: datetime | str | None = None
    active_since: datetime | str | None = None
    active_until: datetime | str | None = None
    sort: Sort = "created"
    order: Order = "newest"
    model: str | None = None
    text: str | None = None
    session_id: str | None = None


Order = Literal["newest", "oldest"]
_ORDERS: Final[tuple[Order, ...]] = ("newest", "oldest")


def filter_conditions(workspace: Workspace, wanted: SummaryFilter) -> Asked:
    """Return what is asked for as conditions, each value checked; raise `InvalidInput` for one that cannot be.

    The metadata of encrypted sessions is read here, since no row holds it in plain; raises `KeyMissing` without keys.
    """
    asked = _conditions(wanted)
    if not wanted.meta and wanted.project is None:
        return asked
    hidden = [
        record.id
        for record in _encrypted_records(workspace)
        if session_lists.has_meta(record.meta, wanted.meta or {}, wanted.project)
    ]
    if hidden:
        asked = _conditions(replace(wanted, meta=None, project=None))
        facts = _conditions(SummaryFilter(meta=wanted.meta, project=wanted.project))
        asked.where_either(facts, hidden)
    return asked


def _encrypted_records(workspace: Workspace) -> list[SessionRecord]:
    """Return the rows of all encrypted sessions with their metadata in plain; raise `KeyMissing` without keys."""
    hidden = encryption.encrypted_sessions(workspace.store)
    for session_id in hidden:
        encryption.cipher_of(workspace.store, session_id)  # raises without its key
    return list(workspace.reader.records(hidden).values())


def _conditions(wanted: SummaryFilter) -> Asked:
    times = {
        name: None if moment is None else moments.moment(moment, name)
        for name in ("since", "until", "active_since", "active_until")
        for moment in [getattr(wanted, name)]
    }
    return session_lists.asked_for(
        principal=None if wanted.principal is None else validation.name(wanted.principal, "principal"),
        agent=None if wanted.agent is None else validation.name(wanted.agent, "agent"),
        project=None if wanted.project is None else validation.text(wanted.project, "project"),
        meta=_meta(wanted.meta),
        model=None if wanted.model is None else validation.name(wanted.model, "model"),
        text=None if wanted.text is None else validation.text(wanted.text, "the text"),
        **times,
    )


def _meta(meta: object) -> Mapping[str, Any]:
    if meta is not None and not isinstance(meta, Mapping):
        raise InvalidInput(f'meta is a mapping of keys to values, as {{"topic": "trips"}}, not {type(meta).__name__}')
    validation.meta(meta)
    return meta or {}


def wanted_meta(meta: object) -> Mapping[str, Any]:
    """Return metadata that sessions must have; raise `InvalidInput` for none at all, which every session has."""
    wanted = _meta(meta)
    if not wanted:
        raise InvalidInput('say which metadata the sessions have, as {"thread": "t1"}: every session has what is in {}')
    return wanted


def list_sessions(
    workspace: Workspace,
    *,
    principal: str | None = None,
    agent: str | None = None,
    label: str | None = None,
    meta: Mapping[str, Any] | None = None,
    project: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    active_since: datetime | str | None = None,
    active_until: datetime | str | None = None,
    model: str | None = None,
    text: str | None = None,
    sort: Sort = "created",
    order: Order = "newest",
    limit: int = 50,
    cursor: str | None = None,
    fresh: bool = False,
) -> Page[SessionRecord]:
    """Return one page of session records, by creation, newest first, unless `sort` and `order` say otherwise.

    `since` and `until` are of the creation, `active_since` and `active_until` of the last activity: the latest time of
    a session's own turns, else its creation. Starts are inclusive, ends exclusive: aware times, or texts such as
    "2026-05-01", "today" and "7d" (seven days ago). `meta` names metadata
    that a session must have, each key with its value; a text also finds what is written so (`"3"` the number 3,
    `"true"` the boolean). `project` is a project as `summaries` shows it, or the last part of its path. `model` is one
    that the session's own turns called. `text` stands in its id, its label, its title or its first prompt, upper and
    lower case alike. `sort` is "created", "activity", "turns" (of the whole transcript) or "tokens" (input and output of
    its own calls), the greatest first; with the `order` "oldest", the least first. `limit` is 1 to 1,000; `cursor` is
    the `cursor` of the page before, under the same `sort` and `order`. Sessions made while one pages through do not
    shift the pages. With `fresh`, `refresh` comes first, as for `load`.

    Raises `InvalidInput` for a cursor that no page gave, and what `refresh` does with `fresh`.
    """
    wanted = SummaryFilter(
        principal, agent, label, meta, project, since, until, active_since, active_until, sort, order, model, text
    )
    workspace.refresh(fresh)
    page = _rows(workspace, wanted, limit, cursor, lambda row: str(row["id"]))
    found = workspace.reader.records(page)
    return Page([found[each] for each in page if each in found], page.cursor)  # one may be deleted meanwhile


def find_session(workspace: Workspace, meta: Mapping[str, Any], *, fresh: bool = False) -> SessionRecord | None:
    """Return the record of the one session that has some metadata, or None if there is none.

    `meta` has one key at least, each with its value, as for `list`. With `fresh`, `refresh` comes first. Takes the same
    time however many sessions there are.

    Raises `InvalidInput` if several sessions have it, and what `refresh` does with `fresh`.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     s = store.create(id="plan", meta={"thread": "t1"}); _ = s.persist()
    ...     store.find({"thread": "t1"}).id, store.find({"thread": "t2"})
    ('plan', None)
    """
    wanted = wanted_meta(meta)
    workspace.refresh(fresh)
    with workspace.rows.reading() as connection:
        ids = session_lists.ids_with_meta(connection, wanted, limit=2)
    ids += _encrypted_with(workspace, wanted)
    if len(ids) > 1:
        raise InvalidInput(
            f"several sessions have the metadata {wanted!r:.80}, {ids[0]!r} and {ids[1]!r} among them; "
            "list(meta=...) gives them all"
        )
    return workspace.reader.records(ids).get(ids[0]) if ids else None


def sessions_with(workspace: Workspace, meta: Mapping[str, Any]) -> set[str]:
    """Return the ids of all sessions that have some metadata, each key with its value."""
    wanted = wanted_meta(meta)
    with workspace.rows.reading() as connection:
        return {*session_lists.ids_with_meta(connection, wanted), *_encrypted_with(workspace, wanted)}


def _encrypted_with(workspace: Workspace, wanted: Mapping[str, Any]) -> list[str]:
    return [each.id for each in _encrypted_records(workspace) if session_lists.has_meta(each.meta, wanted)]


def list_summaries(
    workspace: Workspace,
    *,
    principal: str | None = None,
    agent: str | None = None,
    label: str | None = None,
    meta: Mapping[str, Any] | None = None,
    project: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    active_since: datetime | str | None = None,
    active_until: datetime | str | None = None,
    model: str | None = None,
    text: str | None = None,
    sort: Sort = "created",
    order: Order = "newest",
    limit: int = 50,
    cursor: str | None = None,
    fresh: bool = False,
) -> Summaries:
    """Return one page of what tells sessions apart: title, first prompt, turns, tokens, project, last activity.

    Found, sorted and paged as by `list`; read from the store's index alone, no transcript. The page is a table too
    (`to_dicts`, `to_pandas`, `to_arrow`).

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     s = store.create(id="plan", meta={"project": "trips"}); _ = s.append("user", "Plan a trip"); _ = s.persist()
    ...     [(each.id, each.first_prompt, each.turns, each.project) for each in store.summaries()]
    [('plan', 'Plan a trip', 1, 'trips')]
    """
    wanted = SummaryFilter(
        principal, agent, label, meta, project, since, until, active_since, active_until, sort, order, model, text
    )
    workspace.refresh(fresh)
    workspace.note_read("summaries")
    return _summaries(workspace, wanted, limit, cursor)


def find_summary(workspace: Workspace, session_id: str) -> SessionSummary | None:
    """Return the summary of the session with an id, or None if there is no such session."""
    return next(iter(_summaries(workspace, SummaryFilter(session_id=session_id), 1, None)), None)


def _summaries(workspace: Workspace, wanted: SummaryFilter, limit: int, cursor: str | None) -> Summaries:
    found = _rows(workspace, wanted, limit, cursor, lambda row: _summary(workspace, row))
    with workspace.rows.reading() as rows:
        recorded = recorded_lengths(rows, [each.id for each in found])
    return Summaries([_whole(workspace, each, recorded.get(each.id, 0)) for each in found], found.cursor)


def _whole(workspace: Workspace, found: SessionSummary, recorded: int) -> SessionSummary:
    """Return a summary whose number of turns is the one on record; warn where the store has fewer of them."""
    if found.turns >= recorded:
        return found
    try:
        workspace.reader.length([workspace.reader.record(found.id)])
    except IndexGap as gap:  # else they came just now
        warnings.warn(gap.message, RuntimeWarning, stacklevel=2)
    return found.model_copy(update={"turns": recorded, "own_turns": found.own_turns + recorded - found.turns})


def _rows(
    workspace: Workspace,
    wanted: SummaryFilter,
    limit: int,
    cursor: str | None,
    made: Callable[[Mapping[str, Any]], _Made],
) -> Page[_Made]:
    """Return what is made of each row of a page."""
    check_limit(limit)
    if wanted.sort not in SORTS:
        raise InvalidInput(f"sort is one of {', '.join(SORTS)}, not {wanted.sort!r}")
    if wanted.order not in _ORDERS:
        raise InvalidInput(f"order is one of {', '.join(_ORDERS)}, not {wanted.order!r}")
    is_ascending = wanted.order == "oldest"
    order = SORTS.index(wanted.sort) + (len(SORTS) if is_ascending else 0)
    after = None if cursor is None else order_clause(cursor, order)
    asked = filter_conditions(workspace, wanted)
    if wanted.text is not None:
        encryption.refuse_any_encrypted(
            workspace.store, "a text is found in plain prompts alone", "list by label, principal, agent, model or time"
        )
    if wanted.label is not None:
        found = workspace.reader.labelled(validation.label(wanted.label))
        asked.where("s.id = ?", found)
    if wanted.session_id is not None:
        asked.where("s.id = ?", wanted.session_id)

    with workspace.rows.reading() as connection:
        rows, end = session_lists.page(connection, asked, wanted.sort, after, limit, ascending=is_ascending)
        models = session_lists.models(connection, [row["id"] for row in rows])
        for row in rows:
            row["models"] = models[row["id"]]
            if row["prompt"] is None:
                row["prompt"] = session_lists.inherited_prompt(connection, row["parent"], row["starts_at"])
    return Page([made(row) for row in rows], None if end is None else make_cursor(*sort_page(end, order)))


@validation.decodes
def _summary(workspace: Workspace, row: Mapping[str, Any]) -> SessionSummary:
    label = row["label"]
    if row["key"] is not None:  # the label of a session with a key is its conversation's, and survives a reset
        named = conversations.conversations_of_session(workspace.store, NamedNode(iris.session(row["id"])))
        label = label if named is None else named.label or label
    meta: Mapping[str, Any] = {}
    if workspace.encryption is not None and encryption.is_encrypted(workspace.store, row["id"]):
        meta = workspace.reader.record(row["id"]).meta
    return SessionSummary(
        id=row["id"],
        label=label,
        title=row["title"] or row_codec.first_text(meta, "title"),
        first_prompt=_plain_prompt(workspace, row["id"]) if row["prompt"] == ENCRYPTED else row["prompt"],
        turns=row["starts_at"] + row["own_turns"],
        own_turns=row["own_turns"],
        calls=row["calls"],
        calls_without_usage=row["calls_without_usage"],
        input_tokens=row["input"],
        output_tokens=row["output"],
        cost=row["cost"] if row["calls"] > row["unpriced"] else None,
        models=tuple(row["models"]),
        project=row["project"] or row_codec.first_text(meta, "project", "cwd"),
        created=_moment(row["created"]),
        last_activity=_moment(row["created"] if row["activity"] is None else row["activity"]),
        branch=row["branch"],
        agent=row["agent"],
        principal=row["principal"],
        state=row["state"],
        kind=row["kind"],
        parent=row["parent"],
    )


def _plain_prompt(workspace: Workspace, session_id: str) -> str:
    """Return the beginning of what a user asked first in an encrypted session; what stands for it without the keys."""
    reader = workspace.reader
    chain = reader.lineage(session_id)
    with suppress(KeyMissing):
        for turn in reader.part_of_transcript(chain, reader.length(chain)):
            if turn.role == "user" and not turn.redacted and (line := prompt_line(turn.text, int(turn.structured))):
                return line
    return ENCRYPTED


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else row_codec.moment(micros)
