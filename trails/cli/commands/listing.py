"""Commands that list sessions and add up what was done and its cost: list, stats, cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

import trails
from trails.cli import options as cli
from trails.display.terminal_text import count
from trails.usage import total

if TYPE_CHECKING:
    from trails.history.lookup.usage_statistics import Row

_Command = TypeVar("_Command", bound=Callable[..., Any])
_ROOMY: Final = 110
"""From this width on, times are written out."""
_SHORT: Final = 12
"""Ids of so many characters are never cut."""
_SORTS: Final = ("created", "activity", "turns", "tokens")
FIELDS: Final = (
    *("id", "label", "title", "first_prompt", "turns", "own_turns", "calls", "calls_without_usage"),
    *("input_tokens", "output_tokens", "cost"),
    *("project", "created", "last_activity", "branch", "parent", "agent", "principal", "state"),
)
"""The columns of tab-separated values."""


session_filters = cli.options(
    cli.option("--principal NAME", "Only sessions that run for this principal."),
    cli.option("--agent NAME", "Only sessions that this agent runs."),
    cli.option("--project NAME", "Only sessions of this project: a name, or the whole path."),
    cli.option("--meta NAME=VALUE", "Only sessions of which this is noted; may be repeated.", multiple=True),
)
"""What chooses sessions."""


@cli.command("list", pager=True, as_of=True)
@session_filters
@cli.option("--label LABEL", "Only the session with this label.", type=cli.Named("session"))
@cli.time_option("--since", "Only sessions that were active at this time or later, such as 7d for the last seven days.")
@cli.time_option("--until", "Only sessions that were last active before this time.")
@cli.option("--sort", "The greatest first.", type=click.Choice(_SORTS), default="created")
@cli.option(
    "--order", "The newest or greatest first, or the oldest.", type=click.Choice(("newest", "oldest")), default="newest"
)
@cli.page_options()
@cli.tsv_option
def list_sessions(
    *,
    meta: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    page: int,
    cursor: str | None,
    as_tsv: bool,
    **chosen: Any,
) -> None:
    """List sessions, newest first.

    A line tells a session's id, its turns and tokens, when it was last active, its project, and what it is about: its
    label, and its title or else what was asked first. On a narrow terminal an id that a program made up is cut to a
    beginning that no other has, which can be typed in its place. A TIME is a date, a time with its zone, today, yesterday,
    or how long ago (12h, 7d). JSON and tab-separated values are never cut.
    """
    cli.one_of(as_tsv)
    facts = dict(cli.pairs(meta, "--meta")) or None
    asked = chosen | {"meta": facts, "active_since": since, "active_until": until}
    from trails.history.lookup import names

    with cli.open_store(reading=True) as store:
        found = cli.paged(lambda after: store.summaries(**asked, cursor=after), page, cursor)
        if as_tsv:
            cli.echo_tsv(FIELDS, ([each.to_dict()[name] for name in FIELDS] for each in found))
            return
        value = {"sessions": _whole(store, found), "cursor": found.cursor} if cli.as_json() else None
        near = {} if cli.as_json() else {each.id: names.near_ids(store.workspace, each.id) for each in found}
    more = cli.there_is_more(found.cursor)
    cli.answer(value, found, lambda found: _draw(found, near), empty="no sessions found", said=more)


def _whole(store: trails.Repository, found: Sequence[trails.SessionSummary]) -> list[dict[str, Any]]:
    """Return sessions as plain values: their records, with what their summaries say."""
    records = store.reader.records([each.id for each in found])
    return [records[each.id].to_dict() | each.to_dict() for each in found if each.id in records]


def _draw(found: Sequence[trails.SessionSummary], near: Mapping[str, Sequence[str]]) -> None:
    """Print sessions; `near` are by session the ids next to its own in order of text."""
    from trails.history.lookup.names import short_id

    now, width = datetime.now(UTC), cli.view.screen().width
    longest = max(len(each.id) for each in found)
    is_narrow = width < _ROOMY + longest and longest > _SHORT
    rows = [
        {
            "session": short_id(each.id, near.get(each.id, ())) if is_narrow else each.id,
            "turns": f"{each.turns:,}",
            "tokens": short_number(total((each.input_tokens, each.output_tokens))),
            "active": cli.ago(each.last_activity, now) if width < _ROOMY else cli.view.moment(each.last_activity),
            "project": _project(each.project, whole=width >= cli.view.ENDLESS),
            "about": _about(each),
        }
        for each in found
    ]
    has_project = any(row["project"] != "-" for row in rows)
    shown = [name for name in rows[0] if name != "project" or has_project]
    cli.view.print_table(
        shown,
        [[row[name] for name in shown] for row in rows],
        right=("turns", "tokens"),
        main=("session", "about"),
        least={"session": width, "project": 8, "about": min(16, width // 3)},
        styles={"session": "cyan"},
        most=width // 3 if is_narrow else None,
        rule=False,
    )


def _project(name: str | None, *, whole: bool) -> str:
    return "-" if not name else name if whole else name.rstrip("/").rpartition("/")[2]


def _about(each: trails.SessionSummary) -> str:
    fork = f"fork of {each.parent}" if each.parent and not each.label else None
    return ": ".join(filter(None, (each.label, fork, each.title or each.first_prompt))) or "-"


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


_NAMED: Final = 5
"""How many models without a price are named."""


def _options(by: str) -> Callable[[_Command], _Command]:
    """Add the options of both commands: what to group by, and which sessions, calls and times."""
    groups = click.Choice(("day", "model", "project", "principal", "session"))
    return cli.options(
        cli.option("--by", "What to group by.", type=groups, default=by),
        session_filters,
        cli.option("-n --limit N", "How many at most; default: all.", type=click.IntRange(1, 100_000)),
        cli.time_option("--since", "Only what was done at this time or later, such as 7d."),
        cli.time_option("--until", "Only what was done before this time."),
        cli.tsv_option,
        cli.option("--model NAME", "Only calls of this model."),
    )


@cli.command("stats", pager=True, as_of=True)
@_options("day")
def stats(*, limit: int | None, as_tsv: bool, meta: tuple[str, ...], **asked: Any) -> None:
    """Count turns, calls and tokens by day, model or project.

    Or by principal or session. Days are in UTC. A turn and a call count once, however often they were copied, and where
    they were made. A TIME is a date, a time with its zone, today, yesterday, or how long ago (12h, 7d).
    """
    with cli.open_store(reading=True) as store:
        found = store.stats(**asked, meta=dict(cli.pairs(meta, "--meta")) or None)
    _answer(found, ("sessions", "turns", "calls", "unknown", "input", "output", "cached"), limit, as_tsv=as_tsv)
    if found.total.calls_without_usage:
        cli.note(f"{count(found.total.calls_without_usage, 'call')} with unknown usage, in no sum of tokens")


@cli.command("cost", pager=True, as_of=True)
@cli.option(
    "--prices FILE",
    "A price table, TOML or JSON; default: the file that the environment's TRAILS_PRICES names.",
    type=cli.EXISTING_FILE,
)
@_options("model")
def cost(*, limit: int | None, as_tsv: bool, meta: tuple[str, ...], **asked: Any) -> None:
    """Add up what model calls cost, by model, day or project.

    Or by principal or session. A call costs what its source reported; else what a price table says, which gives for each
    model what a million tokens cost, as in {"m-1": {"input": 3, "output": 15}}; else what the package genai-prices knows,
    in US dollars, if that is installed. A call without any of these is in no sum, and is counted as unpriced.
    """
    with cli.open_store(reading=True) as store:
        found = store.cost(**asked, meta=dict(cli.pairs(meta, "--meta")) or None)
    columns = ("calls", "unknown", "input", "output", "cached", "cost", "estimated", "unpriced")
    _answer(found, columns, limit, as_tsv=as_tsv)
    if found.total.unpriced:
        from trails.history.lookup import model_prices

        models = found.total.unpriced_models
        named = ", ".join(models[:_NAMED]) + (f" and {len(models) - _NAMED} more" if len(models) > _NAMED else "")
        remedy = "--prices FILE gives one"
        if not model_prices.has_price_package():
            remedy += ', `pip install "trails[prices]"` those of known models'
        cli.note(f"{count(found.total.unpriced, 'call')} without a price, in no sum: {named}; {remedy}")


def money(amount: float | None) -> str:
    """Return an amount as people read it: two digits, more if it is small, a dash if it is not known.

    >>> money(1234.5), money(0.0123), money(0.0), money(None)
    ('1,234.50', '0.0123', '0.00', '-')
    """
    if amount is None:
        return "-"
    return f"{amount:,.2f}" if amount == 0 or abs(amount) >= 0.1 else f"{amount:.4f}"


_TOKENS: Final = {"input": "input_tokens", "output": "output_tokens", "cached": "cache_read_tokens"}
_UNKNOWN: Final = "unknown"
"""The heading of how many calls reported no tokens."""


def _cell(row: Row, name: str) -> str:
    """Return a cell of a column as people read it."""
    if name in _TOKENS:
        return short_number(getattr(row, _TOKENS[name]))
    value = row.calls_without_usage if name == _UNKNOWN else getattr(row, name)
    return money(value) if name == "cost" else "-" if value is None else f"{value:,}"


def _answer(found: trails.Statistics, columns: Sequence[str], limit: int | None, *, as_tsv: bool) -> None:
    """Answer with rows by group and their total; a limit shows the last days, or the first of other groups."""
    cli.one_of(as_tsv)
    rows = list(found)
    if limit is not None:
        rows = rows[-limit:] if found.by == "day" else rows[:limit]
    more = len(found) - len(rows)
    said = cli.left_out(len(rows), more)
    if as_tsv:
        values = (row.to_dict().values() for row in rows)
        texts = (
            [" ".join(map(str, each)) if isinstance(each, list | tuple) else each for each in row] for row in values
        )
        cli.echo_tsv([found.by, *list(found.total.to_dict())[1:]], texts)
        if said:
            cli.note(said)
        return

    def draw(rows: Sequence[Row]) -> None:
        lines = [[row.group or "(none)", *(_cell(row, name) for name in columns)] for row in rows]
        if len(found) > 1:
            lines.append(["total", *(_cell(found.total, name) for name in columns)])
        by: str = found.by
        styles = {by: "cyan"}
        main = [by, "cost" if "cost" in columns else "turns"]
        cli.view.print_table([by, *columns], lines, main=main, right=columns, least={by: 12}, styles=styles, rule=False)

    value = {"by": found.by, "rows": rows, "total": found.total, "more": more}
    cli.answer(value, rows, draw, empty="nothing was done, or nothing that was asked for", said=said)
