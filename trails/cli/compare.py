"""The command that puts branches side by side: compare."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trails.cli.base import NEW_FILE, command, note, one_format, open_store, print_json, refuse
from trails.cli.terminal import clean, clean_csv, count, shorten

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from trails.compare.comparison import Aggregate, Comparison, Group
    from trails.tables import Kind

_SHOWN: Final = ("session", "fork_index", "turns", "own_turns", "tokens", "cost", "tools", "models")
"""What the table shows of each branch where there is any, before its metadata and its last answer."""
_FIRST_TO_GO: Final = ("models", "tools", "turns", "own_turns", "last_answer", "cost", "fork_index")
_HEADINGS: Final = {"fork_index": "at", "own_turns": "own", "last_answer": "last answer"}
_FORMATS: Final = click.Choice(["table", "csv", "json", "markdown"])
_ANSWERS: Final = (60, 40, 24)
"""How long a last answer may be: the first of these for which there is room."""
_CELL: Final = 40
_ENDLESS: Final = 100_000


@command("compare")
@click.argument("root", metavar="ROOT")
@click.option(
    "--at", type=click.IntRange(min=0), metavar="INDEX", help="Only the branches that leave ROOT at this index."
)
@click.option("--columns", multiple=True, metavar="NAMES", help="The columns to show, with commas.")
@click.option("--group-by", multiple=True, metavar="NAMES", help="Put equal values of columns together.")
@click.option("--sort-by", multiple=True, metavar="NAMES", help="Sort by columns, smallest first.")
@click.option("--descending", is_flag=True, help="Sort the greatest first.")
@click.option("--groups-only", is_flag=True, help="A row a group, with mean, least and greatest, not a row a branch.")
@click.option("--format", "format_", type=_FORMATS, help="How to print; default: a table for people.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--plot", type=NEW_FILE, metavar="FILE", help="Draw the forks: .svg or .png.")
@click.option("--color-by", metavar="NAME", help="Colour the drawing by this column; default: tokens.")
@click.option("--force", is_flag=True, help="Replace the drawing's file if it is there.")
def compare(
    *,
    root: str,
    at: int | None,
    columns: tuple[str, ...],
    group_by: tuple[str, ...],
    sort_by: tuple[str, ...],
    descending: bool,
    groups_only: bool,
    format_: str | None,
    as_json: bool,
    plot: Path | None,
    color_by: str | None,
    force: bool,
) -> None:
    """Put a session's branches side by side.

    ROOT is an id, an IRI or a label. A row a branch: ROOT itself and all its forks, theirs too. Tokens, cost, tools,
    models and the last answer are those of a branch's own turns; turns and the total_ columns count what it inherits
    too. Columns have the names that --json shows, metadata is meta.KEY. The table leaves out what does not fit and cuts
    long texts; the other formats do not. With --plot, only the drawing is made unless a format is asked for.
    """
    if color_by is not None and plot is None:
        refuse("--color-by says how to colour a drawing; give --plot FILE too")
    if groups_only and not group_by:
        refuse("--groups-only needs columns to group by: --group-by NAMES")
    if plot is not None and plot.exists() and not force:
        refuse(f"{plot} is there already; give --force to replace it, or name another file")
    form = one_format(format_, as_json=as_json)
    with open_store(reading=True) as store:
        known = store.compare(root, at=at)
    found = known.arranged(
        columns=_names(columns, known),
        group_by=_names(group_by, known),
        sort_by=_names(sort_by, known),
        descending=descending,
    )
    if plot is not None:
        found.plot(plot, color_by=color_by or "tokens")
        note(f"drew {count(len(found), 'branch')} into {plot}")
    if form == "json":
        print_json(found.to_dict())
    elif form in ("csv", "markdown"):
        csv = clean_csv(found.to_csv(groups=groups_only)) if form == "csv" else ""
        sys.stdout.write(csv or clean(found.to_markdown(groups=groups_only)))
    elif form == "table" or plot is None:
        _print_table(found, groups_only=groups_only, chosen=bool(columns))


def _names(given: Sequence[str], found: Comparison) -> list[str] | None:
    """Return the columns that an option names, with commas or again and again; a key with a comma in it is one name."""
    return [name.strip() for text in given for name in ([text] if text in found.kinds else text.split(","))] or None


# --- for people


@dataclass(frozen=True, slots=True)
class _View:
    """What a table shows: a comparison's columns, how long answers may be, and what to call sessions instead of their ids."""

    found: Comparison
    answer: int
    names: Mapping[str, str]

    def heading(self, name: str) -> str:
        """Return what stands above a column."""
        return "name" if name == "session" and self.names else _HEADINGS.get(name, name)

    def cell(self, name: str, value: Any) -> str:
        """Return a cell of a column as people read it."""
        if name == "session":
            return clean(self.names.get(value, value))
        return _cell(name, value, self.found.kinds[name], self.answer)


def _print_table(found: Comparison, *, groups_only: bool, chosen: bool) -> None:
    """Print the columns that fit the terminal, or all where they were chosen; say on stderr what was left out."""
    from trails.cli import render

    console = render.screen()
    left_out: list[str] = []
    if chosen:
        view = _View(found, _ANSWERS[0], {})
    else:
        view, left_out = _fitting(console, found, groups_only=groups_only)
    if found.groups and not groups_only:
        _print_groups(console, view)
    else:
        _print_whole(console, _whole(view, groups_only=groups_only))
    note(count(len(found.groups), "group") if groups_only else count(len(found), "branch"))
    if left_out:
        note(f"no room for {', '.join(left_out)}; --columns chooses, and the other formats give all")


def _fitting(console: Console, found: Comparison, *, groups_only: bool) -> tuple[_View, list[str]]:
    """Return a view that fits the terminal, if any does, and the columns for which it has no room."""
    called = found.showing(["session", "label"]).rows
    names = {row["session"]: row["label"] or row["session"] for row in called}
    view = _View(found.showing(_worth_showing(found)), _ANSWERS[0], names)
    lone = [name for name in view.found.columns if name.startswith("meta.") and _filled(view.found, name) == 1]
    left_out: list[str] = []
    while len(view.found.columns) > 1 and _width(console, _whole(view, groups_only=groups_only)) > console.width:
        shorter = next((limit for limit in _ANSWERS if limit < view.answer), None)
        if shorter is not None:
            view = replace(view, answer=shorter)
            continue
        shown = view.found.columns
        left_out.append(next(name for name in (*lone, *_FIRST_TO_GO, *reversed(shown)) if name in shown))
        view = replace(view, found=view.found.showing([name for name in shown if name != left_out[-1]]))
    return view, left_out


def _filled(found: Comparison, name: str) -> int:
    """Return how many branches have a value in a column: metadata of one alone tells little of the others."""
    return sum(row[name] is not None for row in found.rows)


def _worth_showing(found: Comparison) -> list[str]:
    """Return the columns that tell branches apart at a glance: none that is empty, and none that a group's line says."""
    wanted = [*_SHOWN, *(name for name in found.kinds if name.startswith("meta.")), "last_answer"]
    grouped = found.groups[0].key if found.groups else {}
    rows = found.showing(wanted).rows
    there = [name for name in wanted if any(row[name] not in (None, [], {}) for row in rows)]
    return [name for name in there if name not in grouped] or ["session"]


def _width(console: Console, table: Table) -> int:
    return console.measure(table, options=console.options.update(max_width=_ENDLESS)).maximum


def _print_whole(console: Console, table: Table) -> None:
    """Print a table without cutting or folding a cell, however narrow the terminal is."""
    console.width = max(console.width, _width(console, table))
    console.print(table)


def _print_groups(console: Console, view: _View) -> None:
    """Print each group under a line that says which it is, with its aggregates below, all with columns of one width."""
    from rich.text import Text

    found = view.found
    tables = [_table(view, found.table_of(group).rows, group) for group in found.groups]
    for place in range(len(found.columns)):
        columns = [table.columns[place] for table in tables]
        width = max(console.measure(cell).maximum for column in columns for cell in (column.header, *column.cells))
        for column in columns:
            column.min_width = width
    for group, table in zip(found.groups, tables, strict=True):
        values = (f"{name} = {view.cell(name, value) or '(missing)'}" for name, value in group.key.items())
        heading = f"{', '.join(values)}: {count(len(group), 'branch')}"
        console.print(Text(heading, style="bold cyan"), soft_wrap=True)
        _print_whole(console, table)
        console.print()


def _whole(view: _View, *, groups_only: bool) -> Table:
    return _table_of_groups(view) if groups_only else _table(view, view.found.rows)


def _table(view: _View, rows: Sequence[Mapping[str, Any]], group: Group | None = None) -> Table:
    """Return rows as a table for people, and below them the aggregates of a group of more than one."""
    from trails.cli import render

    columns = view.found.columns
    headings = [view.heading(name) for name in columns]
    made = render.table(*headings, right=_numbers(headings, [view.found.kinds[name] for name in columns]))
    for row in rows:
        _add(made, [view.cell(name, row[name]) for name in columns])
    if group is not None and len(group) > 1:
        made.add_section()
        for figure in ("mean", "min", "max"):
            cells = [_figure(group.aggregates.get(name), figure) for name in columns]
            _add(made, [cells[0] or figure, *cells[1:]], style="dim")
    return made


def _table_of_groups(view: _View) -> Table:
    """Return a row a group: what it has in common, how many branches it has, and mean, least and greatest in one cell."""
    from trails.cli import render

    found = view.found
    by = list(found.groups[0].key)
    numeric = [name for name in found.columns if any(name in group.aggregates for group in found.groups)]
    headings = [*by, "branches", *(view.heading(name) for name in numeric)]
    kinds: list[Kind] = [*(found.kinds[name] for name in by), "integer"]
    kinds += ["number"] * len(numeric)
    made = render.table(*headings, right=_numbers(headings, kinds))
    for group in found.groups:
        common = [view.cell(name, value) for name, value in group.key.items()]
        _add(made, [*common, str(len(group)), *(_spread(group.aggregates.get(name)) for name in numeric)])
    return made


def _numbers(headings: Sequence[str], kinds: Sequence[Kind]) -> list[str]:
    from trails.tables import NUMERIC

    return [heading for heading, kind in zip(headings, kinds, strict=True) if kind in NUMERIC]


def _add(table: Table, cells: Sequence[str], style: str | None = None) -> None:
    from rich.text import Text

    table.add_row(*(Text(cell) for cell in cells), style=style)


# --- cells


def _figure(aggregate: Aggregate | None, figure: str) -> str:
    return "" if aggregate is None else _number(getattr(aggregate, figure))


def _spread(aggregate: Aggregate | None) -> str:
    if aggregate is None:
        return ""
    if aggregate.min == aggregate.max:
        return _number(aggregate.min)
    return f"{_number(aggregate.mean)} ({_number(aggregate.min)} to {_number(aggregate.max)})"


def _number(value: float) -> str:
    if isinstance(value, int) or abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _cell(name: str, value: Any, kind: Kind, answer: int) -> str:
    """Return a cell as people read it, on one line, and cut where it is a long text; an id is never cut."""
    from trails import tables

    match value:
        case None:
            return ""
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case int() | float() if kind in tables.NUMERIC:
            return _number(value) if not name.startswith("meta.") or isinstance(value, float) else str(value)
        case dict() if kind == "counts":
            return shorten(", ".join(f"{tool} {calls}" for tool, calls in value.items()), _CELL)
    limit = answer if name == "last_answer" else _ENDLESS if name == "parent" else _CELL
    return shorten(tables.text(value, kind), limit)
