"""Commands that compare sessions: diff, compare, bisect, rerun.

The command that puts branches side by side: compare.

The command that says what differs between two sessions: diff.

The command that finds the turn with which an outcome flips: bisect.

The command that runs a program again over a recorded session: rerun.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from trails import files
from trails.cli.options import (
    NEW_FILE,
    answer,
    as_of_option,
    by_option,
    command,
    echo_each,
    end,
    json_option,
    meta_option,
    note,
    one_format,
    open_store,
    pairs,
    print_json,
    refuse,
    remember_as_of,
)
from trails.cli.terminal import clean, clean_csv, count, to_json
from trails.history.lookup.pages import MAX_PAGE

if TYPE_CHECKING:
    from trails import Diff, Repository, SessionRecord
    from trails.compare.arms import Method
    from trails.compare.comparison import Comparison
    from trails.model.values import Turn
    from trails.replay.rerun import Rerun
    from trails.session.blame import Bisection

_COMPARE_FORMATS: Final = click.Choice(["table", "csv", "json", "markdown", "latex"])
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
@click.option("--format", "format_", type=_COMPARE_FORMATS, help="How to print; default: a table for people.")
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
        from trails.cli import comparison_view

        comparison_view.draw(found, groups_only=groups_only or collapse, chosen=bool(columns), everything=everything)


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
    from trails.compare.statistics import MISSING, ROOT

    sides = between or tuple(group.name for group in found.groups if group.name not in (ROOT, MISSING))
    if len(sides) != 2:
        there = ", ".join(repr(name) for name in sides[:20])
        refuse(f"a test is between two groups; name them: --between GROUP GROUP (there are: {there})")
    result = found.test(column, *sides, method=cast("Method", method))
    if as_json:
        print_json(result.to_dict())
    else:
        click.echo(clean(str(result)))


_DIFF_FORMATS = ("text", "markdown", "html", "patch", "json")


@command("diff", pager=True)
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@click.option("--side-by-side", "-y", is_flag=True, help="Both sides beside each other.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(_DIFF_FORMATS),
    help="What to write; default: text, coloured on a terminal.",
)
@as_of_option
@json_option
@click.option("-o", "--output", type=NEW_FILE, help="The file to write, or - for stdout.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@click.option("--full", is_flag=True, help="Whole texts in the text output; the other formats always have them.")
@click.option("--exit-code", is_flag=True, help="End with 1 where something differs.")
def diff(
    *,
    left: str,
    right: str,
    side_by_side: bool,
    format_: str | None,
    as_json: bool,
    output: Path | None,
    force: bool,
    full: bool,
    exit_code: bool,
) -> None:
    """Show what differs between two sessions.

    A and B are ids, IRIs, labels or tags; NAME@5 is the first five turns of NAME. The turns that both share are not
    read. After them the two are aligned: turns that say the same, that changed, and that only one side has. Turns are
    the same when role, content and tool calls agree, whenever they were written.
    """
    output = None if str(output) == "-" else output
    form = _form(format_, output, as_json=as_json, side_by_side=side_by_side)
    if output is not None and output.exists() and not force:
        refuse(f"{output} is there already; give --force to replace it, or name another file")
    with open_store(reading=True) as store:
        found = store.diff(left, right)
    if output is not None:
        _save(found, form, output)
    elif form == "json":
        print_json(found.to_dict())
    elif form != "text":
        click.echo(_document(found, form), nl=False)
    else:
        from trails.cli import diff_formats, drawing

        (diff_formats.side_by_side if side_by_side else diff_formats.unified)(drawing.screen(), found, full=full)
    if exit_code and found:
        end(1)


def _form(format_: str | None, output: Path | None, *, as_json: bool, side_by_side: bool) -> str:
    """Return the format that the options ask for, if they agree."""
    form = one_format(format_, as_json=as_json) or "text"
    if side_by_side and form != "text":
        refuse("--side-by-side is for the text output; html is side by side already")
    if output is not None and form == "text":
        refuse("-o is for a document; give --format markdown, html, patch or json with it")
    return form


def _document(found: Diff, form: str) -> str:
    from trails.cli.diff_formats import markdown, page, patch

    return {"markdown": markdown, "html": page, "patch": patch}[form](found)


def _save(found: Diff, form: str, output: Path) -> None:
    text = (to_json(found.to_dict()) + "\n" if form == "json" else _document(found, form)).encode("utf-8")
    files.write_whole(output, lambda out: out.write(text))
    note(f"wrote {output}")


_SKIP: Final = 125
_STOP: Final = 128
"""From this exit code on, or where a signal ended it, a command stops the bisection, as with `git bisect run`."""


@command("bisect")
@click.argument("ref", metavar="REF")
@click.argument("run", metavar="-- COMMAND", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--good", type=click.IntRange(min=0), default=0, show_default=True, help="So many turns are good.")
@click.option("--bad", type=click.IntRange(min=1), metavar="INTEGER", help="So many turns are bad; default: all.")
@json_option
def bisect_turns(*, ref: str, run: tuple[str, ...], good: int, bad: int | None, as_json: bool) -> None:
    """Find the turn with which an outcome flips from good to bad.

    A command is run on beginnings of the transcript. REF is a session (an id, an IRI or a label), a tag, or such a name
    with @ and how many turns of it. COMMAND gets the first turns on stdin, a JSON object a line. It ends with 0 where
    they are good, with 125 where it cannot tell, and with any other code below 128 where they are bad; anything else
    stops, as with `git bisect run`. What it prints goes to stderr.
    """
    from trails.history.lookup import names
    from trails.session.blame import bisect

    with open_store(reading=True) as store:
        place = names.parse_revision(store.workspace, ref)
        turns = store.load(place.session_id).turns[: place.end]
    # the store is closed here: the command may use it

    def is_good(prefix: Sequence[Turn]) -> bool | None:
        verdict = _run(run, prefix)
        said = {True: "good", False: "bad", None: "cannot be told"}[verdict]
        note(f"the first {count(len(prefix), 'turn')}: {said}")
        return verdict

    found = bisect(turns, is_good, good=good, bad=len(turns) if bad is None else bad)
    answer(
        {"session": place.session_id} | found.to_dict(),
        found,
        lambda found: _draw(place.session_id, found),
        as_json=as_json,
    )
    if found.turn is None:
        note("which of these it is cannot be told: the turns between were skipped")
        end(1)


def _run(run: Sequence[str], prefix: Sequence[Turn]) -> bool | None:
    """Run a command on the first turns of a transcript; return whether it found them good, or None for a skip."""
    lines = "".join(f"{json.dumps(turn.to_dict(), ensure_ascii=False)}\n" for turn in prefix)
    try:
        code = subprocess.run(run, input=lines.encode(), stdout=2, check=False).returncode  # noqa: S603 - what was asked for
    except OSError as error:
        refuse(f"{run[0]!r} cannot be run: {error.strerror or error}")
    if code < 0 or code >= _STOP:
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise click.ClickException(f"{shlex.join(run)} ended with {ended} on {count(len(prefix), 'turn')}; stopped")
    return None if code == _SKIP else code == 0


def _draw(session_id: str, found: Bisection) -> None:
    from trails.cli import drawing

    drawing.transcript(drawing.screen(), session_id, found.candidates, full=False)


_WORKERS: Final = 4
_from = click.Choice(["recorded", "live"])


@command("rerun")
@click.argument("ref", metavar="REF")
@click.argument("program", metavar="-- PROGRAM", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--model", type=_from, default="recorded", show_default=True, help="Who answers for the model.")
@click.option("--tools", type=_from, default="recorded", show_default=True, help="Who answers for tools.")
@click.option(
    "--on-miss",
    type=click.Choice(["stop", "live"]),
    default="stop",
    show_default=True,
    help="What a call does that was not recorded.",
)
@click.option(
    "--times", type=click.IntRange(1, 100_000), metavar="N", help="Run it N times, and go on where that was cut short."
)
@click.option("--name", metavar="NAME", help="What the forks of --times are called; default: rerun.")
@click.option("--workers", type=click.IntRange(1, 64), metavar="N", help="So many of --times at a time; default: 4.")
@click.option("--id", "id_", metavar="ID", help="The fork's id; made up unless given.")
@click.option("--label", metavar="LABEL", help="A name for it that no other session has.")
@meta_option
@by_option
@json_option
def rerun(*, ref: str, program: tuple[str, ...], meta: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Run a program again over a recorded session.

    A fork is stored that shares what agrees with the record; its id is printed. REF is a session (an id, an IRI or a label), a
    tag, or such a name with @ and how many turns of it are the record. PROGRAM asks on stdout and is answered on stdin, a JSON
    object a line: `trails guide rerun` shows how. "live" has the program itself asked. The exit code is 1 where the run was
    stopped by what is not recorded, or failed.
    """
    facts = dict(pairs(meta, "--meta")) or None
    from trails.history.lookup import names
    from trails.replay.programs import Program
    from trails.replay.rerun import attempt, plan_reruns, run_planned

    times = given["times"]
    if times is not None and (given["id_"] or given["label"]):
        refuse("--times makes several forks, whose ids follow from --name; leave out --id and --label")
    if times is None and (given["name"] or given["workers"]):
        refuse("--name and --workers are of --times; one fork is named by --id or --label")
    agent = Program(program, model=given["model"], tools=given["tools"], on_miss=given["on_miss"])
    with open_store() as store:
        place = names.parse_revision(store.workspace, ref)
        source = store.load(place.session_id)
        if times is None:
            names = {"id": given["id_"], "label": given["label"], "meta": facts}
            found = [attempt(source, agent, ways=agent.ways, upto=place.end, **names)]
        else:
            workers, options = given["workers"] or _WORKERS, {"meta": facts, "principal": None, "by": None}
            pool, places = plan_reruns(
                source, times, workers, name=given["name"] or "rerun", ways=agent.ways, upto=place.end, options=options
            )
            found = run_planned(pool, places, agent, workers, progress=_tell, stop=agent.stop)
        value: Any = [each.to_dict() for each in found]
    answer(
        value[0] if times is None else {"reruns": value},
        [each.id for each in found],
        echo_each,
        said=_said(found[0]) if times is None else None,
        as_json=as_json,
    )
    if any(each.outcome != "finished" for each in found):
        end(1)


def _tell(done: Rerun) -> None:
    note(f"{done.id}: {_said(done)}")


def _said(done: Rerun) -> str:
    """Return what came of a rerun in a line."""
    shared = f"it shares {count(done.agreed, 'turn')} with {done.source_id}"
    if done.outcome == "failed":
        return f"the program failed: {done.error}; {shared}"
    if done.left_at is None:
        return f"{shared}, and nothing differs"
    why = "" if done.difference is None else f": {done.difference.text}"
    return f"{shared}, and {'was stopped' if done.outcome == 'stopped' else 'left it'} at {done.left_at}{why}"
