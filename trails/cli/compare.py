"""The command that puts branches side by side: compare."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import click

from trails.cli.base import (
    NEW_FILE,
    as_of_option,
    command,
    note,
    one_format,
    open_store,
    pairs,
    print_json,
    refuse,
    remember_as_of,
)
from trails.cli.terminal import clean, clean_csv, count
from trails.plumbing.pages import MAX_PAGE

if TYPE_CHECKING:
    from trails import Repository, SessionRecord
    from trails.compare.arms import Method
    from trails.compare.comparison import Comparison

_FORMATS: Final = click.Choice(["table", "csv", "json", "markdown", "latex"])
_METHODS: Final = click.Choice(["welch", "mann-whitney", "paired"])


def _index_or_moment(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Return an index; what is no number says of when the store is to be, as `--as-of` does."""
    if value is not None and value.isascii() and value.isdecimal():
        return int(value)
    remember_as_of(ctx, parameter, value)
    return None


@command("compare", pager=True)
@click.argument("roots", metavar="[ROOT]...", nargs=-1)
@click.option("--meta", multiple=True, metavar="NAME=VALUE", help="All sessions of which this is noted, for ROOT.")
@click.option(
    "--at", callback=_index_or_moment, metavar="INDEX", help="Only the branches that leave ROOT at this index."
)
@click.option("--columns", multiple=True, metavar="NAMES", help="The columns to show, with commas.")
@click.option("--group-by", multiple=True, metavar="NAMES", help="Put equal values of columns together.")
@click.option("--sort-by", multiple=True, metavar="NAMES", help="Sort by columns, smallest first.")
@click.option("--descending", is_flag=True, help="Sort the greatest first.")
@click.option("--groups-only", is_flag=True, help="A row a group, with its statistics, not a row a branch.")
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="[NAME=]PATTERN",
    help="Group by which pattern a label matches: 'few=few-*'.",
)
@click.option(
    "--identifiers",
    multiple=True,
    metavar="NAMES",
    help="The metadata whose numbers are not averaged; default: by name.",
)
@click.option(
    "--figures", multiple=True, metavar="NAMES", help="Which statistics of groups, as n,mean,sd; default: all."
)
@click.option("--digits", type=click.IntRange(1, 15), metavar="N", help="Round to significant digits: markdown, latex.")
@click.option("--test", "tested", metavar="NAME", help="Test whether this column differs between two groups.")
@click.option("--between", nargs=2, metavar="GROUP GROUP", help="Which groups to test; default: the two there are.")
@click.option("--method", type=_METHODS, help="How to test; default: welch.")
@click.option("--collapse", is_flag=True, help="A row an outcome, with how many branches came out so.")
@click.option("--all", "everything", is_flag=True, help="All branches, however many, on a terminal and in a plot too.")
@click.option("--format", "format_", type=_FORMATS, help="How to print; default: a table for people.")
@click.option(
    "--csv-safe/--no-csv-safe", default=True, help="Put ' before texts of CSV that a spreadsheet takes for formulas."
)
@as_of_option
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--plot", type=NEW_FILE, metavar="FILE", help="Draw the forks: .svg or .png.")
@click.option("--color-by", metavar="NAME", help="Colour the drawing by this column; default: tokens.")
@click.option("--force", is_flag=True, help="Replace the drawing's file if it is there.")
def compare(
    *,
    roots: tuple[str, ...],
    meta: tuple[str, ...],
    at: int | None,
    columns: tuple[str, ...],
    group_by: tuple[str, ...],
    sort_by: tuple[str, ...],
    descending: bool,
    groups_only: bool,
    arms: tuple[str, ...],
    identifiers: tuple[str, ...],
    figures: tuple[str, ...],
    digits: int | None,
    tested: str | None,
    between: tuple[str, str] | None,
    method: str | None,
    collapse: bool,
    everything: bool,
    format_: str | None,
    csv_safe: bool,
    as_json: bool,
    plot: Path | None,
    color_by: str | None,
    force: bool,
) -> None:
    """Put a session's branches side by side.

    ROOT is an id, an IRI or a label. A row a branch: ROOT itself and all its forks, theirs too. Tokens, cost, tools,
    models and the last answer are those of a branch's own turns; turns and the total_ columns count what it inherits
    too. Columns have the names that --json shows, metadata is meta.KEY. ROOT is a group of its own, (root). Several ROOTs,
    or --meta, put more than one session's branches side by side: (root) are then those that have no such value. The table
    leaves out what does not fit and cuts long texts; with more than 60 branches, a terminal shows groups or outcomes.
    The other formats give all. With --plot, only the drawing is made unless a format is asked for. JSON says as_of which place
    of the log was compared: --as-of takes it (as --at does what is no index), and the same store gives the same table again.
    """
    form = one_format(format_, as_json=as_json)
    is_grouped = bool(group_by or arms or collapse)
    _check_options(
        (not roots and not meta, "name a session, or --meta NAME=VALUE for all of which this is noted"),
        (bool(roots) and bool(meta), "either name the sessions, or give --meta"),
        (color_by is not None and plot is None, "--color-by says how to colour a drawing; give --plot FILE too"),
        (groups_only and not is_grouped, "--groups-only needs columns to group by: --group-by NAMES"),
        (collapse and bool(group_by or arms), "--collapse groups by outcome; leave --group-by and --arm out"),
        (bool(figures) and not groups_only, "--figures are those of groups; give --groups-only too"),
        (digits is not None and form not in ("markdown", "latex"), "--digits rounds markdown and latex; give --format"),
        (tested is not None and not (group_by or arms), "--test needs groups: --group-by NAMES or --arm PATTERN"),
        (tested is None and (between is not None or method is not None), "--between and --method go with --test NAME"),
        (
            tested is not None and form not in (None, "table", "json"),
            "a test is shown as text or JSON; give no --format",
        ),
    )
    if plot is not None and plot.exists() and not force:
        refuse(f"{plot} is there already; give --force to replace it, or name another file")
    with open_store(reading=True) as store:
        known = store.compare(roots or _noted(store, meta), at=at, arms=_arms(arms))
    found = known.arranged(
        columns=_names(columns, known),
        group_by=_names(group_by, known) or (["arm"] if arms else None),
        sort_by=_names(sort_by, known),
        descending=descending,
        identifiers=_names(identifiers, known),
    )
    found = found.collapsed() if collapse else found
    if plot is not None:
        found.plot(plot, color_by=color_by or "tokens", collapse=False if everything else None)
        note(f"drew {count(len(found), 'branch')} into {plot}")
    if tested is not None:
        _show_test(found, tested, between, method or "welch", as_json=form == "json")
    elif form in ("json", "csv", "markdown", "latex"):
        asked = [name.strip() for text in figures for name in text.split(",")] or None
        _write(found, form, groups_only=groups_only, figures=asked, digits=digits, csv_safe=csv_safe)
    elif form == "table" or plot is None:
        from trails.cli import compare_drawing

        compare_drawing.draw(found, groups_only=groups_only or collapse, chosen=bool(columns), everything=everything)


def _check_options(*rules: tuple[bool, str]) -> None:
    """End the command as wrong usage by the first rule that is broken."""
    for broken, what in rules:
        if broken:
            refuse(what)


def _noted(store: Repository, meta: Sequence[str]) -> list[SessionRecord]:
    """Return all sessions that have some metadata, oldest first, or end the command where there are none."""
    asked = dict(pairs(meta, "--meta"))
    page = store.list(meta=asked, limit=MAX_PAGE)
    found = list(page)
    while page.cursor is not None:
        page = store.list(meta=asked, limit=MAX_PAGE, cursor=page.cursor)
        found += page
    if not found:
        refuse(f"no session has {' and '.join(meta)}; trails list --json shows what is noted")
    return found[::-1]


def _arms(given: Sequence[str]) -> dict[str, str] | None:
    """Return the arms that an option names, `NAME=PATTERN` or a pattern alone."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, pattern = text.partition("=")
        if (name if equals else text) in found:
            refuse(f"there are two arms {name!r}; give each a name of its own")
        found[name if equals else text] = pattern if equals else text
    return found or None


def _names(given: Sequence[str], found: Comparison) -> list[str] | None:
    """Return the columns that an option names, with commas or again and again; a key with a comma in it is one name."""
    return [name.strip() for text in given for name in ([text] if text in found.kinds else text.split(","))] or None


def _write(
    found: Comparison,
    form: str,
    *,
    groups_only: bool,
    figures: Sequence[str] | None,
    digits: int | None,
    csv_safe: bool,
) -> None:
    match form:
        case "json":
            print_json(found.to_dict())
        case "csv":
            sys.stdout.write(clean_csv(found.to_csv(groups=groups_only, figures=figures, safe=csv_safe)))
        case "markdown":
            sys.stdout.write(clean(found.to_markdown(groups=groups_only, figures=figures, digits=digits)))
        case _:
            sys.stdout.write(clean(found.to_latex(groups=groups_only, figures=figures, digits=digits)))


def _show_test(found: Comparison, column: str, between: tuple[str, str] | None, method: str, *, as_json: bool) -> None:
    """Print a test of two groups, those named or the only two beside the root and what is missing."""
    from trails.compare.groups import MISSING, ROOT

    sides = between or tuple(group.name for group in found.groups if group.name not in (ROOT, MISSING))
    if len(sides) != 2:
        there = ", ".join(repr(name) for name in sides[:20])
        refuse(f"a test is between two groups; name them: --between GROUP GROUP (there are: {there})")
    result = found.test(column, *sides, method=cast("Method", method))
    if as_json:
        print_json(result.to_dict())
    else:
        click.echo(clean(str(result)))
