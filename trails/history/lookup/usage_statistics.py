"""Add up what was done and what it cost, by day, model, project, principal or session."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple, get_args

from trails.display import tables, text_table
from trails.display.tables import Kind, PlainTable, Tabular
from trails.display.terminal_text import count
from trails.errors import InvalidInput
from trails.history.lookup import model_prices
from trails.history.lookup.model_prices import Prices
from trails.history.lookup.summaries import SummaryFilter, filter_conditions
from trails.history.workspace import Workspace
from trails.model import moments, validation
from trails.rows import usage_sums
from trails.rows.row_codec import micros
from trails.rows.session_lists import Asked
from trails.rows.usage_sums import By
from trails.usage import Counts, total

GROUPINGS: Final[tuple[By, ...]] = get_args(By)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SLOT: Final = timedelta(microseconds=usage_sums.SLOT)
_UNKNOWN: Final = Counts()
_START: Final = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Row:
    """What was done in one group."""

    group: str | None
    """A day in UTC as `2026-01-31`, a model, project, principal or session's id; None where that is unknown."""
    sessions: int = 0
    """Sessions with turns, or with calls, in the group."""
    turns: int | None = None
    """Turns, copies of one another counted once; None by model."""
    calls: int = 0
    calls_without_usage: int = 0
    """Calls that reported neither input nor output tokens: the sums of tokens leave them out."""
    input_tokens: int | None = None
    """Neither read from the provider's cache nor written to it. All tokens are sums of what is known; None where nothing is."""
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    """Those of the output tokens that are reasoning."""
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    """Those of the tokens written to the cache that it keeps for an hour."""
    cost: float | None = None
    """The sum of all that is known: as reported, else by the price table or the package. None where nothing is known."""
    reported: int = 0
    """Calls whose source reported the cost."""
    estimated: int = 0
    """Calls without a reported cost whose model has a price."""
    unpriced: int = 0
    """Calls that the cost leaves out: their source reported no cost, and no tokens or a model that has no price."""
    unpriced_models: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values, ready for JSON."""
        return {name: tables.plain(getattr(self, name)) for name in _KINDS}


_KINDS: Final[Mapping[str, Kind]] = {
    "group": "text", "sessions": "integer", "turns": "integer", "calls": "integer",
    "calls_without_usage": "integer", "input_tokens": "integer",
    "output_tokens": "integer", "reasoning_tokens": "integer", "cache_read_tokens": "integer",
    "cache_write_tokens": "integer", "cache_write_1h_tokens": "integer", "cost": "number",
    "reported": "integer", "estimated": "integer", "unpriced": "integer", "unpriced_models": "names",
}  # fmt: skip


_SHOWN: Final = ("calls", "input_tokens", "output_tokens", "cost", "unpriced")
"""What is printed of each group."""


class Statistics(Sequence[Row], Tabular):
    """Rows by group, with their total: days in order, all else by tokens, the most first. A table, too."""

    def __init__(self, by: By, rows: Iterable[Row], total: Row) -> None:
        self.by = by
        self._rows = tuple(rows)
        self.total = total
        """All groups together; a session that is in several of them counts once."""

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        heading = f"<Statistics by {self.by}: {count(len(self), 'row')}, {count(self.total.calls, 'call')}>"
        table = self.table()
        kinds = {name: table.kinds[name] for name in (self.by, *_SHOWN)}
        return text_table.draw(heading, PlainTable(kinds, table.rows))

    def table(self) -> PlainTable:
        """Return the rows as a table; the group's column is named after what is grouped by."""
        kinds = {self.by if name == "group" else name: kind for name, kind in _KINDS.items()}
        return PlainTable(kinds, self.to_dicts())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each row as a dict of Python values; the group stands under what is grouped by."""
        return [{self.by if name == "group" else name: getattr(row, name) for name in _KINDS} for row in self._rows]


class _Calls(NamedTuple):
    """Calls of one model in one group: all report their cost, or cost the same, or nobody knows what they cost."""

    group: Any
    model: str
    calls: int
    counts: Counts
    cost: Decimal | None
    is_reported: bool
    is_counted: bool
    """Whether they reported what they read or wrote."""


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    without_usage: int = 0
    counts: Counts = _UNKNOWN
    cost: Decimal | None = None
    reported: int = 0
    estimated: int = 0
    unpriced: int = 0
    unpriced_models: set[str] = field(default_factory=set)

    def add(self, found: _Calls) -> None:
        """Add calls."""
        self.calls += found.calls
        if not found.is_counted:
            self.without_usage += found.calls
        self.counts = Counts(*map(total, zip(self.counts, found.counts, strict=True)))
        self.cost = total((self.cost, found.cost))
        if found.is_reported:
            self.reported += found.calls
        elif found.cost is not None:
            self.estimated += found.calls
        else:
            self.unpriced += found.calls
            self.unpriced_models.add(found.model or "(no model)")

    def row(self, group: str | None, sessions: int, turns: int | None) -> Row:
        """Return the sums as a row."""
        counts, cost = self.counts, None if self.cost is None else float(self.cost)
        return Row(
            group=group, sessions=sessions, turns=turns, calls=self.calls,
            calls_without_usage=self.without_usage, input_tokens=counts.input,
            output_tokens=counts.output, reasoning_tokens=counts.reasoning, cache_read_tokens=counts.cache_read,
            cache_write_tokens=counts.cache_write, cache_write_1h_tokens=counts.cache_write_1h, cost=cost,
            reported=self.reported, estimated=self.estimated, unpriced=self.unpriced,
            unpriced_models=tuple(sorted(self.unpriced_models)),
        )  # fmt: skip


def _calls(rows: sqlite3.Connection, by: By, asked: Callable[[], Asked], prices: Prices | None) -> Iterator[_Calls]:
    """Yield all calls with what they cost: as reported, else by the table or the package; without a table as reported only."""
    by_package = prices is not None and model_prices.has_price_package()
    for group, model, is_reported, is_counted, calls, *tokens, cost in usage_sums.calls_by(rows, by, asked()):
        counts = Counts(*tokens)
        price = None if prices is None or is_reported or not is_counted else prices.find(model)
        if price is None and by_package and is_counted and not is_reported:
            continue  # below
        known = Decimal(cost) if is_reported else None if price is None else price.of(counts)
        yield _Calls(group, model, calls, counts, known, bool(is_reported), bool(is_counted))
    if not by_package or prices is None:
        return
    steps = model_prices.price_steps()
    for group, model, provider, slot, step, calls, *tokens in usage_sums.unpriced_calls(rows, by, asked(), steps):
        if prices.find(model) is None:
            counts, when = Counts(*tokens), None if slot is None else _EPOCH + slot * _SLOT
            price = model_prices.package_price(model, provider, when, steps[step - 1] + 1 if step else 0)
            yield _Calls(
                group,
                model,
                calls,
                counts,
                None if price is None else price.of(counts),
                is_reported=False,
                is_counted=True,
            )


def usage_statistics(
    workspace: Workspace, by: By, wanted: SummaryFilter, *, model: str | None = None, prices: Prices | None = None
) -> Statistics:
    """Return what was done in the sessions that are wanted; its `since` and `until` are of the turns and calls.

    Without `prices` nothing is priced; with a table, also an empty one, calls that it does not know are priced by the package.
    """
    if by not in GROUPINGS:
        raise InvalidInput(f"by is one of {', '.join(GROUPINGS)}, not {by!r}")
    since = None if wanted.since is None else moments.moment(wanted.since, "since")
    until = None if wanted.until is None else moments.moment(wanted.until, "until")
    of_sessions = SummaryFilter(wanted.principal, wanted.agent, meta=wanted.meta, project=wanted.project)
    name = None if model is None else validation.text(model, "model")

    def asked(table: str) -> Asked:
        found = filter_conditions(workspace, of_sessions)
        if since is not None:
            found.where(f"{table}.time >= ?", micros(since))
        if until is not None:
            found.where(f"{table}.time < ?", micros(until))
        if name is not None and table == "c":
            found.where("c.model = ?", name)
        return found

    with_turns = by != "model" and name is None

    def ask(connection: sqlite3.Connection) -> Statistics:
        sums: dict[Any, _Sum] = defaultdict(_Sum)
        whole = _Sum()
        for found in _calls(connection, by, partial(asked, "c"), prices):
            sums[found.group].add(found)
            whole.add(found)
        turns = usage_sums.turns_by(connection, by, asked("t")) if with_turns else {}
        sessions = {group: found[1] for group, found in turns.items()} if with_turns else {}
        if not with_turns:
            sessions = usage_sums.sessions_of_calls(connection, by, asked("c"))
        rows = [
            sums[group].row(
                _shown(by, group), sessions.get(group, 0), turns.get(group, (0, 0))[0] if with_turns else None
            )
            for group in {**dict.fromkeys(turns), **dict.fromkeys(list(sums))}
        ]
        count = usage_sums.sessions_in_all(connection, asked("t" if with_turns else "c"), of_turns=with_turns)
        all_rows = whole.row(None, count, sum(each[0] for each in turns.values()) if with_turns else None)
        return Statistics(by, sorted(rows, key=_order(by)), all_rows)

    with workspace.rows.reading() as connection:
        return ask(connection)


def _shown(by: By, group: Any) -> str | None:
    if by != "day" or group is None:
        return None if group in (None, "") else str(group)
    return date.fromordinal(_START + group).isoformat()


def _order(by: By) -> Any:
    if by == "day":
        return lambda row: row.group or ""
    return lambda row: (-(row.input_tokens or 0) - (row.output_tokens or 0), -(row.turns or 0), row.group or "")
