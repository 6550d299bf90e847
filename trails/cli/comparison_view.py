"""A comparison on a terminal: the columns for which there is room, groups with their statistics, outcomes put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trails.cli import transcript_view
from trails.cli.terminal import echo_tsv, note
from trails.compare.comparison import META, SCORE
from trails.compare.statistics import OUTCOME, ROOT, number
from trails.display import tables
from trails.display.tables import NUMERIC
from trails.display.terminal_text import clean, count, shorten, shorten_name

if TYPE_CHECKING:
    from trails.compare.comparison import Aggregate, Comparison, Group
    from trails.display.tables import Kind

_SHOWN: Final = ("session", "fork_index", "turns", "own_turns", "tokens", "cost", "tools", "models")
"""What the table shows of each branch where there is any, before its metadata and its last answer."""
_FIRST_TO_GO: Final = ("models", "tools", "turns", "own_turns", "last_answer", "cost", "fork_index")
_HEADINGS: Final = {"fork_index": "at", "own_turns": "own", "last_answer": "last answer"}
_ANSWERS: Final = (60, 40, 24)
"""How long a last answer may be: the first of these for which there is room."""
_CELL: Final = 40
_NAME: Final = 28
"""How long a session's name may be where there is no room: its beginning and its end, by which forks differ."""
_ENDLESS: Final = 100_000
_FIGURE_NAMES: Final = {"ci": "95% of mean"}
_FIGURES: Final = ("n", "mean", "sd", "median", "ci", "min", "max", "sum")
_MANY: Final = 60
"""More branches than this are not listed on a terminal unless asked for."""
_FIRST: Final = 40
_LONG: Final = 30
"""A table of more rows has its headings below, too."""


def draw(found: Comparison, *, groups_only: bool, chosen: bool, everything: bool) -> None:
    """Print a comparison: the columns that fit the terminal, or all where they were `chosen`; stderr says what is not shown.

    More branches than fit a screen or two are put together, by group or by outcome, unless `everything` is to be listed.
    """
    console = transcript_view.screen()
    most = None if everything or console.width >= _ENDLESS else _FIRST
    if most is not None and len(found) > _MANY and not groups_only:
        found, groups_only = _put_together(found)
    left_out: list[str] = []
    if chosen:
        view = _View(found, _ANSWERS[0], {})
        if groups_only and _width(console, _whole(view, groups_only=True)) > console.width:
            view = replace(view, brief=True)
    else:
        view, left_out = _fitting(console, found, groups_only=groups_only)
    rows = len(found.groups) if groups_only else len(found)
    cut = most if most is not None and rows > _MANY else None
    if found.groups and not groups_only:
        _print_groups(console, view)
    else:
        _print_whole(console, _whole(view, groups_only=groups_only, most=cut))
    what = "outcome" if _is_of_outcomes(found) else "group"
    branches = count(len(found), "branch")
    note(f"{count(len(found.groups), what)} of {branches}" if groups_only else branches)
    if cut is not None:
        note(
            f"the first {cut} are shown; --all shows them all, --group-by puts them together, the other formats give all"
        )
    if left_out:
        note(f"no room for {', '.join(left_out)}; --columns chooses, and the other formats give all")


def _put_together(found: Comparison) -> tuple[Comparison, bool]:
    """Return many branches as groups, those asked for or else outcomes where these are few; and whether to show groups."""
    if found.groups:
        note(f"{count(len(found), 'branch')}: a row a group; --all lists the branches")
        return found, True
    outcomes = found.collapsed()
    if len(outcomes.groups) > min(_MANY, len(found) // 2):
        return found, False
    note(f"{count(len(found), 'branch')}: a row for those that came out the same; --all lists the branches")
    return outcomes, True


def _is_of_outcomes(found: Comparison) -> bool:
    return bool(found.groups) and tuple(found.groups[0].key) == OUTCOME


@dataclass(frozen=True, slots=True)
class _View:
    """What a table shows: a comparison's columns, how long answers may be, and what to call sessions instead of their ids.

    Where it is brief, the numbers of a group come without their range.
    """

    found: Comparison
    answer: int
    names: Mapping[str, str]
    brief: bool = False

    def heading(self, name: str) -> str:
        """Return what stands above a column."""
        return "name" if name == "session" and self.names else _HEADINGS.get(name, name)

    def cell(self, name: str, value: Any) -> str:
        """Return a cell of a column as people read it."""
        if name == "session":
            return clean(self.names.get(value, value))
        return _cell(name, value, self.found.kinds[name], self.answer)


def _fitting(console: Console, found: Comparison, *, groups_only: bool) -> tuple[_View, list[str]]:
    """Return a view that fits the terminal, if any does, and the columns for which it has no room."""
    called = found.showing(["session", "label"]).rows
    names = {row["session"]: row["label"] or row["session"] for row in called}
    view = _View(found.showing(_worth_showing(found)), _ANSWERS[0], names)
    lone = [name for name in view.found.columns if name.startswith("meta.") and _filled(view.found, name) == 1]
    left_out: list[str] = []
    while len(view.found.columns) > 1 and _width(console, _measured(view, groups_only=groups_only)) > console.width:
        shorter = next((limit for limit in _ANSWERS if limit < view.answer), None)
        if shorter is not None:
            view = replace(view, answer=shorter)
            continue
        if groups_only and not view.brief:
            view = replace(view, brief=True)
            continue
        if max(map(len, view.names.values())) > _NAME:
            view = replace(view, names={each: shorten_name(name, _NAME) for each, name in view.names.items()})
            continue
        shown = view.found.columns
        left_out.append(next(name for name in (*lone, *_FIRST_TO_GO, *reversed(shown)) if name in shown))
        view = replace(view, found=view.found.showing([name for name in shown if name != left_out[-1]]))
    return view, left_out


def _measured(view: _View, *, groups_only: bool) -> Table:
    """Return a table as wide as what will be printed: groups with their statistics as one table."""
    if groups_only or not view.found.groups:
        return _whole(view, groups_only=groups_only)
    made = _table(view, view.found.rows)
    for group in view.found.groups:
        _add_figures(made, view, group)
    return made


def _filled(found: Comparison, name: str) -> int:
    """Return how many branches have a value in a column: metadata of one alone tells little of the others."""
    return sum(row[name] is not None for row in found.rows)


def _worth_showing(found: Comparison) -> list[str]:
    """Return the columns that tell branches apart at a glance: none that is empty, and none that a group's line says."""
    scores = [name for name in found.kinds if name.startswith(SCORE)]
    wanted = [*_SHOWN, *scores, *(name for name in found.kinds if name.startswith(META)), "last_answer"]
    grouped = found.groups[0].key if found.groups else {}
    rows = found.showing(wanted).rows
    there = [name for name in wanted if any(row[name] not in (None, [], {}) for row in rows)]
    return [name for name in there if name not in grouped] or ["session"]


def _width(console: Console, table: Table) -> int:
    return console.measure(table, options=console.options.update(max_width=_ENDLESS)).maximum


def _print_whole(console: Console, table: Table) -> None:
    """Print a table without cutting or folding a cell, however narrow the terminal is; in a pipe separated by tabs."""
    if console.width >= _ENDLESS:
        names = [str(column.header) for column in table.columns]
        echo_tsv(names, zip(*(map(str, column.cells) for column in table.columns), strict=True))
        return
    console.width = max(console.width, _width(console, table))
    console.print(table)


def _print_groups(console: Console, view: _View) -> None:
    """Print each group under a line that says which it is, with its aggregates below, all with columns of one width."""
    found = view.found
    tables = [_table(view, found.table_of(group).rows, group) for group in found.groups]
    for place in range(len(found.columns)):
        columns = [table.columns[place] for table in tables]
        width = max(console.measure(cell).maximum for column in columns for cell in (column.header, *column.cells))
        for column in columns:
            column.min_width = width
    for group, table in zip(found.groups, tables, strict=True):
        values = (f"{name} = {view.cell(name, value) or '(missing)'}" for name, value in group.key.items())
        heading = f"{ROOT if group.name == ROOT else ', '.join(values)}: {count(len(group), 'branch')}"
        console.print(Text(heading, style="bold cyan"), soft_wrap=True)
        _print_whole(console, table)
        console.print()


def _whole(view: _View, *, groups_only: bool, most: int | None = None) -> Table:
    """Return a table of the groups or of the branches, of the first `most` where that is not None."""
    made = _table_of_groups(view, most) if groups_only else _table(view, view.found.rows[:most])
    if len(made.rows) > _LONG:
        made.show_footer = True
        for column in made.columns:
            column.footer = column.header
            column.footer_style = "bold"
    return made


def _table(view: _View, rows: Sequence[Mapping[str, Any]], group: Group | None = None) -> Table:
    """Return rows as a table for people, and below them the statistics of a group of more than one."""
    columns = view.found.columns
    headings = [view.heading(name) for name in columns]
    made = transcript_view.table(*headings, right=_numbers(headings, [view.found.kinds[name] for name in columns]))
    for row in rows:
        _add(made, [view.cell(name, row[name]) for name in columns])
    if group is not None:
        _add_figures(made, view, group)
    return made


def _add_figures(table: Table, view: _View, group: Group) -> None:
    """Add the statistics of a group of more than one branch below its rows."""
    columns = view.found.columns
    if len(group) > 1 and any(name in group.aggregates for name in columns):
        table.add_section()
        for figure in _FIGURES:
            cells = [_figure(group.aggregates.get(name), figure) for name in columns]
            _add(table, [cells[0] or _FIGURE_NAMES.get(figure, figure), *cells[1:]], style="dim")


def _table_of_groups(view: _View, most: int | None) -> Table:
    """Return a row a group: what it has in common, how many branches it has, and each number's mean and spread."""
    found = view.found
    outcomes = _is_of_outcomes(found)
    by = [name for name in found.groups[0].key if not outcomes or _varies(found, name)]
    numeric = [name for name in found.columns if any(name in group.aggregates for group in found.groups)]
    headings = ["branches", *map(view.heading, by), *map(view.heading, numeric)]
    kinds: list[Kind] = ["integer", *(found.kinds[name] for name in by), *(["number"] * len(numeric))]  # type: ignore[list-item] # kinds
    if outcomes:
        headings, kinds = [*headings, "such as"], [*kinds, "text"]
    made = transcript_view.table(*headings, right=_numbers(headings, kinds))
    for group in found.groups[:most]:
        common = [view.cell(name, value) for name, value in group.key.items() if name in by]
        if group.name == ROOT and not outcomes:
            common = [ROOT, *common[1:]]
        cells = [str(len(group)), *common, *(_spread(group, name, brief=view.brief) for name in numeric)]
        _add(made, [*cells, view.cell("session", group.rows[0]["session"])] if outcomes else cells)
    return made


def _varies(found: Comparison, name: str) -> bool:
    """Tell whether groups differ in a column: what all of them share tells nothing."""
    values = [group.key[name] for group in found.groups if group.name != ROOT]
    return any(value != values[0] for value in values)


def _numbers(headings: Sequence[str], kinds: Sequence[Kind]) -> list[str]:
    return [heading for heading, kind in zip(headings, kinds, strict=True) if kind in NUMERIC]


def _add(table: Table, cells: Sequence[str], style: str | None = None) -> None:
    table.add_row(*(Text(cell) for cell in cells), style=style)


# --- cells


def _figure(aggregate: Aggregate | None, figure: str) -> str:
    if aggregate is None:
        return ""
    if figure == "n":
        return f"{aggregate.n}" + (f" ({aggregate.missing} missing)" if aggregate.missing else "")
    if figure == "ci":
        return "" if aggregate.ci is None else f"{number(aggregate.ci[0])} to {number(aggregate.ci[1])}"
    value = getattr(aggregate, figure)
    return "" if value is None else number(value)


def _spread(group: Group, name: str, *, brief: bool) -> str:
    found = group.aggregates.get(name)
    return "" if found is None else found.spread(brief=brief)


def _cell(name: str, value: Any, kind: Kind, answer: int) -> str:
    """Return a cell as people read it, on one line, and cut where it is a long text; an id is never cut."""
    match value:
        case None:
            return ""
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case int() | float() if kind in tables.NUMERIC:
            return number(value) if not name.startswith("meta.") or isinstance(value, float) else str(value)
        case dict() if kind == "counts":
            return shorten(", ".join(f"{tool} {calls}" for tool, calls in value.items()), _CELL)
    limit = answer if name == "last_answer" else _ENDLESS if name == "parent" else _CELL
    return shorten(tables.text(value, kind), limit)
