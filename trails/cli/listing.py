"""The command that lists sessions, so that one can be told from another: list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from trails.cli import columns
from trails.cli.base import (
    Named,
    answer,
    command,
    json_option,
    one_of,
    open_store,
    page_options,
    paged,
    pairs,
    there_is_more,
    time_option,
    tsv_option,
)
from trails.cli.columns import Column
from trails.cli.times import ago

if TYPE_CHECKING:
    from trails import Repository
    from trails.plumbing.pages import Page
    from trails.plumbing.summaries import SessionSummary

_Command = TypeVar("_Command", bound=Callable[..., Any])
_ROOMY: Final = 110
"""From this width on, times are written out."""
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
@page_options
@tsv_option
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
    with open_store() as store:
        found = paged(lambda after: store.summaries(**asked, cursor=after), page, cursor)
        value = {"sessions": _whole(store, found), "cursor": found.cursor} if as_json else None
        shown = {} if as_json or as_tsv else _shown_ids(store, found, columns.room())
    if as_tsv:
        columns.tsv(FIELDS, ([each.to_dict()[name] for name in FIELDS] for each in found))
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
    answer(value, found, lambda page: _draw(page, shown), empty="no sessions found", said=more, as_json=as_json)


def _whole(store: Repository, found: Sequence[SessionSummary]) -> list[dict[str, Any]]:
    """Return sessions as plain values: their records, with what their summaries say."""
    records = store.reader.records([each.id for each in found])
    return [records[each.id].to_dict() | each.to_dict() for each in found if each.id in records]


def _shown_ids(store: Repository, found: Sequence[SessionSummary], width: int) -> Mapping[str, str]:
    """Return what to call sessions by their ids: these whole where there is room for them."""
    from trails.plumbing import names

    longest = max((len(each.id) for each in found), default=0)
    if width >= _ROOMY + longest or longest <= 12:
        return {}
    return {each.id: names.short(store.workspace, each.id) for each in found}


def _draw(found: Page[SessionSummary], shown: Mapping[str, str]) -> None:
    now, width = datetime.now(UTC), columns.room()
    made = [
        Column("session", style="cyan"),
        Column("turns", right=True),
        Column("tokens", right=True),
        Column("active"),
        Column("project", least=8),
        Column("about", least=16),
    ]
    cells = [
        [
            shown.get(each.id, each.id),
            f"{each.turns:,}",
            short_number(each.input_tokens + each.output_tokens),
            ago(each.last_activity, now) if width < _ROOMY else _written(each.last_activity),
            (each.project or "-").rstrip("/").rpartition("/")[2] if width < columns.ENDLESS else each.project or "-",
            _about(each),
        ]
        for each in found
    ]
    kept = [
        number
        for number, column in enumerate(made)
        if column.heading != "project" or any(row[number] != "-" for row in cells)
    ]
    columns.draw([made[number] for number in kept], ([row[number] for number in kept] for row in cells))


def _written(moment: datetime | None) -> str:
    return "-" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _about(each: SessionSummary) -> str:
    told = each.title or each.first_prompt or ""
    fork = f"fork of {each.parent}" if each.parent else ""
    return ": ".join(_parts(each.label, fork if not each.label else "", told)) or "-"


def _parts(*texts: str | None) -> Iterator[str]:
    return (text for text in texts if text)


def short_number(number: int) -> str:
    """Return a number in at most five characters.

    >>> [short_number(number) for number in (0, 999, 12_345, 1_250_000)]
    ['-', '999', '12.3k', '1.2M']
    """
    if number < 1000:
        return str(number) if number else "-"
    for size, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (1000, "k")):
        if number >= size:
            value = number / size
            return f"{value:.1f}{unit}" if value < 100 else f"{value:.0f}{unit}"
    raise AssertionError
