"""Commands that add up what was done and what it cost: stats, cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from trails.cli import columns
from trails.cli.base import (
    EXISTING_FILE,
    answer,
    as_of_option,
    command,
    json_option,
    left_out,
    limit_option,
    note,
    one_of,
    open_store,
    pairs,
    time_option,
    tsv_option,
)
from trails.cli.columns import Column
from trails.cli.listing import session_filters, short_number
from trails.cli.terminal import count

if TYPE_CHECKING:
    from trails.plumbing.statistics import Row, Statistics

_Command = TypeVar("_Command", bound=Callable[..., Any])
_BY: Final = click.Choice(("day", "model", "project", "principal", "session"))
_NAMED: Final = 5
"""How many models without a price are named."""


def _options(by: str) -> Callable[[_Command], _Command]:
    """Add what both commands take: what to group by, and which sessions, calls and times."""

    def wrap(function: _Command) -> _Command:
        function = click.option("--model", metavar="NAME", help="Only calls of this model.")(
            as_of_option(json_option(function))
        )
        function = time_option("--until", "Only what was done before this time.")(tsv_option(function))
        function = time_option("--since", "Only what was done at this time or later, such as 7d.")(function)
        function = limit_option(None, most=100_000)(session_filters(function))
        return click.option("--by", type=_BY, default=by, show_default=True, help="What to group by.")(function)

    return wrap


@command("stats", pager=True)
@_options("day")
def stats(**options: Any) -> None:
    """Count turns, calls and tokens by day, model or project.

    Or by principal or session. Days are in UTC. A turn and a call count once, however often they were copied, and where
    they were made. A TIME is a date, a time with its zone, today, yesterday, or how long ago (12h, 7d).
    """
    with open_store(reading=True) as store:
        found = store.stats(**_asked(options))
    _answer(found, _STATS, **_how(options))


@command("cost", pager=True)
@click.option(
    "--prices",
    type=EXISTING_FILE,
    metavar="FILE",
    help="A price table, TOML or JSON; default: the file that the environment's TRAILS_PRICES names.",
)
@_options("model")
def cost(*, prices: Path | None, **options: Any) -> None:
    """Add up what model calls cost, by model, day or project.

    Or by principal or session. A call costs what its source reported; else what a price table says, which gives for each
    model what a million tokens cost, as in {"m-1": {"input": 3, "output": 15}}; else what the package genai-prices knows,
    in US dollars, where that is installed. A call without any of these is in no sum, and is counted as unpriced.
    """
    with open_store(reading=True) as store:
        found = store.cost(prices=prices, **_asked(options))
    _answer(found, _COST, **_how(options))
    if found.total.unpriced:
        models = found.total.unpriced_models
        named = ", ".join(models[:_NAMED]) + (f" and {len(models) - _NAMED} more" if len(models) > _NAMED else "")
        note(f"{count(found.total.unpriced, 'call')} without a price, in no sum: {named}; {_remedy()}")


def _remedy() -> str:
    from trails.plumbing import price_package

    own = "--prices FILE gives one"
    return own if price_package.is_installed() else f'{own}, `pip install "trails[prices]"` those of known models'


def _asked(options: dict[str, Any]) -> dict[str, Any]:
    kept = {name: options[name] for name in ("by", "principal", "agent", "project", "model", "since", "until")}
    return kept | {"meta": dict(pairs(options["meta"], "--meta")) or None}


def _how(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("limit", "as_tsv", "as_json")}


_Cell = Callable[["Row"], str]


def _number(name: str) -> _Cell:
    return lambda row: "-" if getattr(row, name) is None else f"{getattr(row, name):,}"


def _tokens(name: str) -> _Cell:
    return lambda row: short_number(getattr(row, name))


def money(amount: float | None) -> str:
    """Return an amount as people read it: two digits, more where it is small, a dash where it is not known.

    >>> money(1234.5), money(0.0123), money(0.0), money(None)
    ('1,234.50', '0.0123', '0.00', '-')
    """
    if amount is None:
        return "-"
    return f"{amount:,.2f}" if amount == 0 or abs(amount) >= 0.1 else f"{amount:.4f}"


_TOKENS: Final[tuple[tuple[str, _Cell], ...]] = (
    ("input", _tokens("input_tokens")),
    ("output", _tokens("output_tokens")),
    ("cached", _tokens("cache_read_tokens")),
)
_STATS: Final[tuple[tuple[str, _Cell], ...]] = (
    ("sessions", _number("sessions")),
    ("turns", _number("turns")),
    ("calls", _number("calls")),
    *_TOKENS,
)
_COST: Final[tuple[tuple[str, _Cell], ...]] = (
    ("calls", _number("calls")),
    *_TOKENS,
    ("cost", lambda row: money(row.cost)),
    ("estimated", _number("estimated")),
    ("unpriced", _number("unpriced")),
)


def _answer(
    found: Statistics, shown: Sequence[tuple[str, _Cell]], *, limit: int | None, as_tsv: bool, as_json: bool
) -> None:
    """Answer with rows by group and their total; of days the last are shown where they are limited, else the first."""
    one_of(as_tsv, as_json)
    rows = list(found)
    if limit is not None:
        rows = rows[-limit:] if found.by == "day" else rows[:limit]
    more = len(found) - len(rows)
    if as_tsv:
        names = list(found.total.to_dict())
        columns.tsv([found.by, *names[1:]], ([_text(each) for each in row.to_dict().values()] for row in rows))
        if more:
            note(left_out(len(rows), more) or "")
        return
    value = {"by": found.by, "rows": rows, "total": found.total, "more": more}

    def draw(rows: Sequence[Row]) -> None:
        made = [Column(found.by, least=12, style="cyan"), *(Column(name, right=True) for name, _ in shown)]
        lines = [[row.group or "(none)", *(cell(row) for _, cell in shown)] for row in rows]
        if len(found) > 1:
            lines.append(["total", *(cell(found.total) for _, cell in shown)])
        columns.draw(made, lines)

    empty, said = "nothing was done, or nothing that was asked for", left_out(len(rows), more)
    answer(value, rows, draw, empty=empty, said=said, as_json=as_json)


def _text(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value
