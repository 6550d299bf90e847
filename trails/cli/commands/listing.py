"""Commands that list sessions and add up cost.

The command that lists sessions, so that one can be told from another: list.

Commands that add up what was done and what it cost: stats, cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from trails.cli import terminal
from trails.cli.options import (
    EXISTING_FILE,
    Named,
    ago,
    answer,
    as_of_option,
    command,
    is_as_of,
    json_option,
    left_out,
    limit_option,
    note,
    one_of,
    open_store,
    page_options,
    paged,
    pairs,
    store_location,
    there_is_more,
    time_option,
    tsv_option,
)
from trails.cli.terminal import Column, count
from trails.usage import total

if TYPE_CHECKING:
    from trails import Repository
    from trails.history.lookup.summaries import SessionSummary
    from trails.history.lookup.usage_statistics import Row, Statistics
    from trails.plumbing.index.sidefile import SideFile

_Command = TypeVar("_Command", bound=Callable[..., Any])
_ROOMY: Final = 110
"""From this width on, times are written out."""
_FROM: Final = {"project": 80, "tokens": 80, "active": 60}
"""The widths from which on columns are shown."""
_SHORT: Final = 12
"""Ids of so many characters are never cut."""
_SORTS: Final = ("created", "activity", "turns", "tokens")
FIELDS: Final = (
    *("id", "label", "title", "first_prompt", "turns", "own_turns", "calls", "input_tokens", "output_tokens", "cost"),
    *("project", "created", "last_activity", "branch", "parent", "agent", "principal", "state"),
)
"""The columns of tab-separated values."""


def session_filters(function: _Command) -> _Command:
    """Add what says which sessions are meant: --principal, --agent, --project and --meta."""
    for option in (
        click.option(
            "--meta", multiple=True, metavar="NAME=VALUE", help="Only sessions of which this is noted; may be repeated."
        ),
        click.option("--project", metavar="NAME", help="Only sessions of this project: a name, or the whole path."),
        click.option("--agent", metavar="NAME", help="Only sessions that this agent runs."),
        click.option("--principal", metavar="NAME", help="Only sessions that run for this principal."),
    ):
        function = option(function)
    return function


@command("list", pager=True)
@session_filters
@click.option("--label", metavar="LABEL", type=Named("session"), help="Only the session with this label.")
@time_option("--since", "Only sessions that were active at this time or later, such as 7d for the last seven days.")
@time_option("--until", "Only sessions that were last active before this time.")
@click.option("--sort", type=click.Choice(_SORTS), default="created", show_default=True, help="The greatest first.")
@page_options()
@tsv_option
@as_of_option
@json_option
def list_sessions(
    *,
    principal: str | None,
    agent: str | None,
    project: str | None,
    meta: tuple[str, ...],
    label: str | None,
    since: datetime | None,
    until: datetime | None,
    sort: Any,
    limit: int,
    page: int,
    cursor: str | None,
    as_tsv: bool,
    as_json: bool,
) -> None:
    """List sessions, newest first.

    A line tells a session's id, its turns and tokens, when it was last active, its project, and what it is about: its
    label, and its title or else what was asked first. On a narrow terminal an id that a program made up is cut to a
    beginning that no other has, which can be typed in its place. A TIME is a date, a time with its zone, today, yesterday,
    or how long ago (12h, 7d). JSON and tab-separated values are never cut.
    """
    one_of(as_tsv, as_json)
    asked: dict[str, Any] = {"principal": principal, "agent": agent, "project": project, "label": label, "sort": sort}
    asked |= {"meta": dict(pairs(meta, "--meta")) or None, "active_since": since, "active_until": until, "limit": limit}
    found = None if as_json or as_tsv or is_as_of() else _at_once(asked, page, cursor)
    value: Any = None
    if found is None:
        from trails.history.lookup import names

        with open_store(reading=True) as store:
            summaries = paged(lambda after: store.summaries(**asked, cursor=after), page, cursor)
            if as_json:
                value = {"sessions": _whole(store, summaries), "cursor": summaries.cursor}
            near = (
                {} if as_json or as_tsv else {each.id: names.near_ids(store.workspace, each.id) for each in summaries}
            )
            found = _Lines([_line_of(each) for each in summaries], summaries.cursor, near)
        if as_tsv:
            terminal.tsv_lines(FIELDS, ([each.to_dict()[name] for name in FIELDS] for each in summaries))
            return
    more = there_is_more(
        found.cursor,
        "list",
        *(word for each in meta for word in ("--meta", each)),
        principal=principal,
        agent=agent,
        project=project,
        since=None if since is None else since.isoformat(),
        until=None if until is None else until.isoformat(),
        sort=None if sort == "created" else sort,
        limit=None if limit == 50 else str(limit),
    )
    answer(value, found.lines, lambda _: _draw(found), empty="no sessions found", said=more, as_json=as_json)


def _whole(store: Repository, found: Sequence[SessionSummary]) -> list[dict[str, Any]]:
    """Return sessions as plain values: their records, with what their summaries say."""
    records = store.reader.records([each.id for each in found])
    return [records[each.id].to_dict() | each.to_dict() for each in found if each.id in records]


class _Line(NamedTuple):
    """What is shown of a session."""

    id: str
    label: str | None
    told: str | None
    turns: int
    tokens: int | None
    project: str | None
    active: datetime | None
    parent: str | None


class _Lines(NamedTuple):
    """A page of the list, its cursor, and by session the ids next to its own in order of text."""

    lines: Sequence[_Line]
    cursor: str | None
    near: Mapping[str, Sequence[str]]


def _line_of(each: SessionSummary) -> _Line:
    told, tokens = each.title or each.first_prompt, total((each.input_tokens, each.output_tokens))
    return _Line(each.id, each.label, told, each.turns, tokens, each.project, each.last_activity, each.parent)


def _at_once(asked: Mapping[str, Any], page: int, cursor: str | None) -> _Lines | None:
    """Return a page without opening the store; None where it must be opened, to know for sure or for what is asked."""
    given = {name for name, value in asked.items() if value is not None}
    if given - {"sort", "limit", "active_since", "active_until"}:
        return None
    from trails.plumbing.index import alone

    file = alone.figures_of(Path(store_location() or ""))
    return None if file is None else alone.asked(file, lambda told: _lines_in(told, asked, page, cursor))


def _lines_in(file: SideFile, asked: Mapping[str, Any], page: int, cursor: str | None) -> _Lines | None:
    from trails.plumbing.index import alone, figures

    times = {name: asked[name] for name in ("active_since", "active_until")}
    for number in range(page):
        found = alone.page(file, asked["sort"], asked["limit"], cursor, **times)
        if (
            found is None
            or (number + 1 < page and found[1] is None)
            or (page > 1 and number == 0 and cursor is not None)
        ):
            return None  # what is wrong is said there
        rows, cursor = found
    return _Lines(
        [_line_of_row(row) for row in rows], cursor, {row["id"]: figures.neighbours(file, row["id"]) for row in rows}
    )


def _line_of_row(row: Mapping[str, Any]) -> _Line:
    from trails.plumbing.index.moments import moment

    active = row["created"] if row["activity"] is None else row["activity"]
    return _Line(
        row["id"],
        row["label"],
        row["title"] or row["prompt"],
        row["starts_at"] + row["own_turns"],
        total((row["input"], row["output"])),
        row["project"],
        None if active is None else moment(active),
        row["parent"],
    )


def _draw(found: _Lines) -> None:
    from trails.history.lookup.names import short_id

    now, width = datetime.now(UTC), terminal.room()
    longest = max(len(each.id) for each in found.lines)
    is_narrow = width < _ROOMY + longest and longest > _SHORT
    made = [
        Column("session", style="cyan", most=width // 3 if is_narrow else None),
        Column("turns", right=True),
        Column("tokens", right=True),
        Column("active"),
        Column("project", least=8),
        Column("about", least=min(16, width // 3)),
    ]
    cells = [
        [
            short_id(each.id, found.near.get(each.id, ())) if is_narrow else each.id,
            f"{each.turns:,}",
            short_number(each.tokens),
            ago(each.active, now) if width < _ROOMY else _written(each.active),
            (each.project or "-").rstrip("/").rpartition("/")[2] if width < terminal.ENDLESS else each.project or "-",
            _about(each),
        ]
        for each in found.lines
    ]
    kept = [
        number
        for number, column in enumerate(made)
        if (column.heading != "project" or any(row[number] != "-" for row in cells))
        and width >= _FROM.get(column.heading, 0)
    ]
    terminal.draw_columns([made[number] for number in kept], ([row[number] for number in kept] for row in cells))


def _written(moment: datetime | None) -> str:
    return "-" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _about(each: _Line) -> str:
    fork = f"fork of {each.parent}" if each.parent else ""
    return ": ".join(_parts(each.label, fork if not each.label else "", each.told)) or "-"


def _parts(*texts: str | None) -> Iterator[str]:
    return (text for text in texts if text)


def short_number(number: int | None) -> str:
    """Return a number in at most five characters; a dash where it is not known.

    >>> [short_number(number) for number in (None, 0, 999, 12_345, 1_250_000)]
    ['-', '0', '999', '12.3k', '1.2M']
    """
    if number is None:
        return "-"
    if number < 1000:
        return str(number)
    for size, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (1000, "k")):
        if number >= size:
            value = number / size
            return f"{value:.1f}{unit}" if value < 100 else f"{value:.0f}{unit}"
    raise AssertionError


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
    from trails.history.lookup import model_prices

    own = "--prices FILE gives one"
    return own if model_prices.has_price_package() else f'{own}, `pip install "trails[prices]"` those of known models'


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
        terminal.tsv_lines([found.by, *names[1:]], ([_text(each) for each in row.to_dict().values()] for row in rows))
        if more:
            note(left_out(len(rows), more) or "")
        return
    value = {"by": found.by, "rows": rows, "total": found.total, "more": more}

    def draw(rows: Sequence[Row]) -> None:
        made = [Column(found.by, least=12, style="cyan"), *(Column(name, right=True) for name, _ in shown)]
        lines = [[row.group or "(none)", *(cell(row) for _, cell in shown)] for row in rows]
        if len(found) > 1:
            lines.append(["total", *(cell(found.total) for _, cell in shown)])
        terminal.draw_columns(made, lines)

    empty, said = "nothing was done, or nothing that was asked for", left_out(len(rows), more)
    answer(value, rows, draw, empty=empty, said=said, as_json=as_json)


def _text(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value
