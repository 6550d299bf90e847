"""How much was done and what it cost, by day, model, project, principal or session: added up by the index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, NamedTuple, get_args

from trails import tables, validate
from trails.errors import InvalidInput
from trails.plumbing.index import figures
from trails.plumbing.index.figures import Asked, By
from trails.plumbing.index.moments import micros
from trails.plumbing.index.sidefile import SideFile
from trails.plumbing.prices import NO_PRICES, Prices
from trails.plumbing.summaries import Wanted, conditions
from trails.plumbing.workspace import Workspace
from trails.tables import Kind, PlainTable, Tabular

BY: Final[tuple[By, ...]] = get_args(By)
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
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    """The sum of all that is known: as reported, and by the price table. None where nothing is known."""
    reported: int = 0
    """Calls whose source reported the cost."""
    estimated: int = 0
    """Calls without a reported cost whose model has a price."""
    unpriced: int = 0
    """Calls that the cost leaves out: neither reported, nor has their model a price."""
    unpriced_models: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values, ready for JSON."""
        return {name: tables.plain(getattr(self, name)) for name in _KINDS}


_KINDS: Final[Mapping[str, Kind]] = {
    "group": "text", "sessions": "integer", "turns": "integer", "calls": "integer", "input_tokens": "integer",
    "output_tokens": "integer", "cache_read_tokens": "integer", "cache_write_tokens": "integer", "cost": "number",
    "reported": "integer", "estimated": "integer", "unpriced": "integer", "unpriced_models": "names",
}  # fmt: skip


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
        return f"<Statistics by {self.by}: {len(self)} rows, {self.total.calls} calls>"

    def table(self) -> PlainTable:
        """Return the rows as a table; the group's column is named after what is grouped by."""
        kinds = {self.by if name == "group" else name: kind for name, kind in _KINDS.items()}
        return PlainTable(kinds, self.to_dicts())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each row as a dict of Python values; the group stands under what is grouped by."""
        return [{self.by if name == "group" else name: getattr(row, name) for name in _KINDS} for row in self._rows]


class _Calls(NamedTuple):
    """Calls of one model in one group that all report their cost, or all do not."""

    group: Any
    model: str
    is_reported: bool
    calls: int
    tokens: Sequence[int]
    cost: float | None


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    tokens: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    cost: float | None = None
    reported: int = 0
    estimated: int = 0
    unpriced: int = 0
    unpriced_models: set[str] = field(default_factory=set)

    def add(self, found: _Calls, prices: Prices) -> None:
        """Add calls of one model that all report their cost, or all do not."""
        self.calls += found.calls
        self.tokens = [a + b for a, b in zip(self.tokens, found.tokens, strict=True)]
        cost = found.cost
        if found.is_reported:
            self.reported += found.calls
        elif (price := prices.find(found.model)) is not None:
            self.estimated += found.calls
            cost = price.of(*found.tokens)
        else:
            self.unpriced += found.calls
            self.unpriced_models.add(found.model or "(no model)")
            return
        self.cost = (self.cost or 0.0) + (cost or 0.0)

    def row(self, group: str | None, sessions: int, turns: int | None) -> Row:
        """Return the sums as a row."""
        read, written, cached, caches = self.tokens
        return Row(
            group=group, sessions=sessions, turns=turns, calls=self.calls, input_tokens=read, output_tokens=written,
            cache_read_tokens=cached, cache_write_tokens=caches, cost=self.cost, reported=self.reported,
            estimated=self.estimated, unpriced=self.unpriced, unpriced_models=tuple(sorted(self.unpriced_models)),
        )  # fmt: skip


def statistics(
    workspace: Workspace, by: By, wanted: Wanted, *, model: str | None = None, prices: Prices = NO_PRICES
) -> Statistics:
    """Return what was done in the sessions that are wanted; its `since` and `until` are of the turns and calls."""
    if by not in BY:
        raise InvalidInput(f"by is one of {', '.join(BY)}, not {by!r}")
    since = None if wanted.since is None else validate.time(wanted.since, "since")
    until = None if wanted.until is None else validate.time(wanted.until, "until")
    of_sessions = Wanted(wanted.principal, wanted.agent, meta=wanted.meta, project=wanted.project)
    name = None if model is None else validate.text(model, "model")

    def asked(table: str) -> Asked:
        found = conditions(of_sessions)
        if since is not None:
            found.where(f"{table}.time >= ?", micros(since))
        if until is not None:
            found.where(f"{table}.time < ?", micros(until))
        if name is not None and table == "c":
            found.where("c.model = ?", name)
        return found

    with_turns = by != "model" and name is None

    def ask(file: SideFile) -> Statistics:
        sums: dict[Any, _Sum] = defaultdict(_Sum)
        whole = _Sum()
        for group, called, is_reported, calls, *tokens, cost in figures.calls_by(file, by, asked("c")):
            found = _Calls(group, called, bool(is_reported), calls, tokens, cost)
            sums[group].add(found, prices)
            whole.add(found, prices)
        turns = figures.turns_by(file, by, asked("t")) if with_turns else {}
        sessions = {group: found[1] for group, found in turns.items()} if with_turns else {}
        if not with_turns:
            sessions = figures.sessions_of_calls(file, by, asked("c"))
        rows = [
            sums[group].row(
                _shown(by, group), sessions.get(group, 0), turns.get(group, (0, 0))[0] if with_turns else None
            )
            for group in {**dict.fromkeys(turns), **dict.fromkeys(list(sums))}
        ]
        count = figures.sessions_in_all(file, asked("t" if with_turns else "c"), of_turns=with_turns)
        total = whole.row(None, count, sum(each[0] for each in turns.values()) if with_turns else None)
        return Statistics(by, sorted(rows, key=_order(by)), total)

    return workspace.index.figures(ask)


def _shown(by: By, group: Any) -> str | None:
    if by != "day" or group is None:
        return None if group in (None, "") else str(group)
    return date.fromordinal(_START + group).isoformat()


def _order(by: By) -> Any:
    if by == "day":
        return lambda row: row.group or ""
    return lambda row: (-row.input_tokens - row.output_tokens, -(row.turns or 0), row.group or "")
