"""Commands that compare sessions: diff, compare, bisect, rerun."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import trails
from trails import files
from trails.cli import options as cli
from trails.cli.terminal import clean_csv, to_json
from trails.display.terminal_text import clean, count

if TYPE_CHECKING:
    from trails.compare.arms import Method

_COMPARE_FORMATS: Final = click.Choice(["table", "csv", "json", "markdown", "latex"])
_PLOTS: Final = click.Choice(["forest", "box", "strip", "bar", "scatter"])
_METHODS: Final = click.Choice(["welch", "mann-whitney", "paired"])


def _index_or_moment(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Return an index; what is no number says of when the store is to be, as `--as-of` does."""
    if value is not None and value.isascii() and value.isdecimal():
        return int(value)
    cli.remember_as_of(ctx, parameter, value)
    return None


@cli.command("compare", pager=True, as_of=True)
@click.argument("roots", metavar="[ROOT]...", nargs=-1)
@cli.option("--meta NAME=VALUE", "All sessions of which this is noted, for ROOT.", multiple=True)
@cli.option("--at INDEX", "Only the branches that leave ROOT at this index.", callback=_index_or_moment)
@cli.option("--columns NAMES", "The columns to show, with commas.", multiple=True)
@cli.option("--group-by NAMES", "Put equal values of columns together.", multiple=True)
@cli.option("--sort-by NAMES", "Sort by columns, smallest first.", multiple=True)
@cli.option("--descending", "Sort the greatest first.")
@cli.option("--groups-only", "A row a group, with its statistics, not a row a branch.")
@cli.option("--arm [NAME=]PATTERN", "Group by which pattern a label matches: 'few=few-*'.", name="arms", multiple=True)
@cli.option("--identifiers NAMES", "The metadata whose numbers are not averaged; default: by name.", multiple=True)
@cli.option("--figures NAMES", "Which statistics of groups, as n,mean,sd; default: all.", multiple=True)
@cli.option("--digits N", "Round to significant digits: markdown, latex.", type=click.IntRange(1, 15))
@cli.option("--test NAME", "Test whether this column differs between two groups.", name="tested")
@cli.option("--between GROUP GROUP", "Which groups to test; default: the two there are.", nargs=2)
@cli.option("--method", "How to test; default: welch.", type=_METHODS)
@cli.option("--noise NAME", "Say which groups differ in this column by more than chance.")
@cli.option("--collapse", "A row an outcome, with how many branches came out so.")
@cli.option("--all", "All branches, however many, on a terminal and in a plot too.", name="everything")
@cli.option("--format", "How to print; default: a table for people.", name="format_", type=_COMPARE_FORMATS)
@cli.option(
    "--csv-safe/--no-csv-safe", "Put ' before texts of CSV that a spreadsheet takes for formulas.", default=True
)
@cli.option("--plot FILE", "Draw the forks, or a chart: .svg, .pdf or .png.", type=cli.NEW_FILE)
@cli.option("--kind", "What to draw; default: forest.", type=_PLOTS)
@cli.option("--color-by NAME", "Colour the forest by this column; default: tokens.")
@cli.option("--column NAME", "The numbers of a chart; default: the only score there is.")
@cli.option("--against NAME", "The other column of a scatter.")
@cli.option("--axis TEXT", "What a chart's axis is called, with the unit.")
@cli.option("--title TEXT", "What stands above a chart.")
@cli.option("--caption TEXT", "A caption: latex, which then is a table that floats.")
@cli.option("--label NAME", "What \\\\ref calls that table by, such as tab:arms.")
@cli.option("--force", "Replace the drawing's file if it is there.")
def compare(
    *,
    roots: tuple[str, ...],
    meta: tuple[str, ...],
    at: int | None,
    arms: tuple[str, ...],
    plot: Path | None,
    kind: Any,
    color_by: str | None,
    column: str | None,
    against: str | None,
    axis: str | None,
    title: str | None,
    caption: str | None,
    label: str | None,
    force: bool,
    tested: str | None,
    between: tuple[str, str] | None,
    method: Any,
    noise: str | None,
    collapse: bool,
    everything: bool,
    format_: str | None,
    csv_safe: bool,
    **shape: Any,
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
    form = cli.one_format(format_)
    groups_only, digits, figures = shape["groups_only"], shape["digits"], shape["figures"]
    is_grouped = bool(shape["group_by"] or arms)
    cli.check_options(
        (not roots and not meta, "name a session, or --meta NAME=VALUE for all of which this is noted"),
        (bool(roots) and bool(meta), "either name the sessions, or give --meta"),
        (color_by is not None and plot is None, "--color-by says how to colour a drawing; give --plot FILE too"),
        (kind is not None and plot is None, "--kind says what to draw; give --plot FILE too"),
        (
            kind in (None, "forest") and any((column, against, axis, title)),
            "--column, --against, --axis and --title are a chart's; give --plot FILE --kind box, for instance",
        ),
        (groups_only and not (is_grouped or collapse), "--groups-only needs columns to group by: --group-by NAMES"),
        (collapse and is_grouped, "--collapse groups by outcome; leave --group-by and --arm out"),
        (bool(figures) and not groups_only, "--figures are those of groups; give --groups-only too"),
        (digits is not None and form not in ("markdown", "latex"), "--digits rounds markdown and latex; give --format"),
        (
            bool(caption or label) and form != "latex",
            "--caption and --label are of a table in LaTeX; give --format latex",
        ),
        (noise is not None and not is_grouped, "--noise needs groups: --group-by NAMES or --arm PATTERN"),
        (noise is not None and tested is not None, "either --noise for all groups, or --test for two"),
        (tested is not None and not is_grouped, "--test needs groups: --group-by NAMES or --arm PATTERN"),
        (tested is None and (between is not None or method is not None), "--between and --method go with --test NAME"),
        (
            (tested or noise) is not None and form not in (None, "table", "json"),
            "a test is shown as text or JSON; give no --format",
        ),
    )
    cli.refuse_replacing(plot, force=force)
    with cli.open_store(reading=True) as store:
        known = store.compare(roots or _noted(store, meta), at=at, arms=_arms(arms))
    found = known.arranged(
        columns=_names(shape["columns"], known),
        group_by=_names(shape["group_by"], known) or (["arm"] if arms else None),
        sort_by=_names(shape["sort_by"], known),
        descending=shape["descending"],
        identifiers=_names(shape["identifiers"], known),
    )
    found = found.collapsed() if collapse else found
    if plot is not None:
        chart: Any = {"column": column, "against": against, "axis": axis, "title": title, "color_by": color_by}
        if kind in (None, "forest"):
            chart |= {"color_by": color_by or "tokens", "collapse": False if everything else None}
        found.plot(plot, kind=kind or "forest", **chart)
        cli.note(f"drew {count(len(found), 'branch')} into {plot}")
    wanted: Any = {"groups": groups_only, "figures": [n.strip() for text in figures for n in text.split(",")] or None}
    if tested is not None:
        _show_test(found, tested, between, method or "welch")
    elif noise is not None:
        floor = found.noise(noise)
        cli.answer(floor, clean(str(floor)))
    elif form == "json":
        cli.print_json(found.to_dict())
    elif form == "csv":
        sys.stdout.write(clean_csv(found.to_csv(**wanted, safe=csv_safe)))
    elif form == "markdown":
        sys.stdout.write(clean(found.to_markdown(**wanted, digits=digits)))
    elif form == "latex":
        sys.stdout.write(clean(found.to_latex(**wanted, digits=digits, caption=caption, label=label)))
    elif form == "table" or plot is None:
        from trails.cli import comparison_view

        chosen = bool(shape["columns"])
        comparison_view.draw(found, groups_only=groups_only or collapse, chosen=chosen, everything=everything)


def _noted(store: trails.Repository, meta: Sequence[str]) -> list[trails.SessionRecord]:
    """Return all sessions that have some metadata, oldest first, or end the command where there are none."""
    from trails.history.lookup.summaries import MAX_PAGE

    asked = dict(cli.pairs(meta, "--meta"))
    page = store.list(meta=asked, limit=MAX_PAGE)
    found = list(page)
    while page.cursor is not None:
        page = store.list(meta=asked, limit=MAX_PAGE, cursor=page.cursor)
        found += page
    if not found:
        cli.refuse(f"no session has {' and '.join(meta)}; trails list --json shows what is noted")
    return found[::-1]


def _arms(given: Sequence[str]) -> dict[str, str] | None:
    """Return the arms that an option names, `NAME=PATTERN` or a pattern alone."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, pattern = text.partition("=")
        if (name if equals else text) in found:
            cli.refuse(f"there are two arms {name!r}; give each a name of its own")
        found[name if equals else text] = pattern if equals else text
    return found or None


def _names(given: Sequence[str], found: trails.Comparison) -> list[str] | None:
    """Return the columns that an option names, with commas or again and again; a key with a comma in it is one name."""
    return [name.strip() for text in given for name in ([text] if text in found.kinds else text.split(","))] or None


def _show_test(found: trails.Comparison, column: str, between: tuple[str, str] | None, method: Method) -> None:
    """Print a test of two groups, those named or the only two beside the root and what is missing."""
    from trails.compare.statistics import MISSING, ROOT

    sides = between or tuple(group.name for group in found.groups if group.name not in (ROOT, MISSING))
    if len(sides) != 2:
        there = ", ".join(repr(name) for name in sides[:20])
        cli.refuse(f"a test is between two groups; name them: --between GROUP GROUP (there are: {there})")
    result = found.test(column, *sides, method=method)
    cli.answer(result, clean(str(result)))


_DOCUMENTS: Final = ("markdown", "html", "patch")


@cli.command("diff", pager=True, as_of=True)
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@click.argument("more", metavar="[MORE]...", nargs=-1)
@cli.option("--side-by-side -y", "Both sides beside each other.")
@cli.option(
    "--format",
    "What to write; default: text, coloured on a terminal.",
    name="format_",
    type=click.Choice(("text", *_DOCUMENTS, "json")),
)
@cli.option("-o --output", "The file to write, or - for stdout.", type=cli.NEW_FILE)
@cli.option("--force", "Replace the file if it is there.")
@cli.option("--full", "Whole texts in the text output; the other formats always have them.")
@cli.option("--exit-code", "End with 1 if something differs.")
def diff(
    *, left: str, right: str, more: tuple[str, ...], output: Path | None, force: bool, exit_code: bool, **how: Any
) -> None:
    """Show what differs between two sessions.

    A and B are ids, IRIs, labels or tags; NAME@5 is the first five turns of NAME. The turns that both share are not
    read. After them the two are aligned: turns that say the same, that changed, and that only one side has. Turns are
    the same when role, content and tool calls agree, whenever they were written. Three and more stand beside each other,
    a column each where there is room: as text or JSON.
    """
    from trails.cli import alignment_view, diff_formats
    from trails.compare import diff_documents

    output = None if str(output) == "-" else output
    form = cli.one_format(how["format_"]) or "text"
    cli.check_options(
        (how["side_by_side"] and form != "text", "--side-by-side is for the text output; html is side by side already"),
        (
            output is not None and form == "text",
            "-o is for a document; give --format markdown, html, patch or json with it",
        ),
    )
    cli.check_options(
        (bool(more) and form not in ("text", "json"), "three and more are shown as text or JSON; leave --format out"),
        (bool(more) and how["side_by_side"], "three and more stand side by side anyway; leave --side-by-side out"),
    )
    cli.refuse_replacing(output, force=force)
    with cli.open_store(reading=True) as store:
        aligned = store.align((left, right, *more)) if more else None
        found: Any = store.diff(left, right) if aligned is None else aligned
    if form == "text" and aligned is not None:
        alignment_view.draw(aligned, full=how["full"])
    elif form == "text":
        diff_formats.draw(found, side_by_side=how["side_by_side"], full=how["full"])
    else:
        text = to_json(cli.selected(found.to_dict())) + "\n" if form == "json" else diff_documents.document(found, form)
        if output is None:
            click.echo(text, nl=False)
        else:
            files.write_whole(output, lambda out: out.write(text.encode("utf-8")))
            cli.note(f"wrote {output}")
    if exit_code and found:
        cli.end(1)


_SKIP: Final = 125
_STOP: Final = 128
"""From this exit code on, or where a signal ended it, a command stops the bisection, as with `git bisect run`."""


@cli.command("bisect")
@click.argument("ref", metavar="REF")
@click.argument("run", metavar="-- COMMAND", nargs=-1, required=True, type=click.UNPROCESSED)
@cli.option("--good", "So many turns are good.", type=click.IntRange(min=0), default=0)
@cli.option("--bad INTEGER", "So many turns are bad; default: all.", type=click.IntRange(min=1))
def bisect_turns(*, ref: str, run: tuple[str, ...], good: int, bad: int | None) -> None:
    """Find the turn with which an outcome flips from good to bad.

    A command is run on beginnings of the transcript. REF is a session (an id, an IRI or a label), a tag, or such a name
    with @ and how many turns of it. COMMAND gets the first turns on stdin, a JSON object a line. It ends with 0 where
    they are good, with 125 where it cannot tell, and with any other code below 128 where they are bad; anything else
    stops, as with `git bisect run`. What it prints goes to stderr.
    """
    from trails.session.blame import bisect

    with cli.open_store(reading=True) as store:
        place = cli.place_of(store, ref)
        turns = store.load(place.session_id).turns[: place.end]
    # the store is closed here: the command may use it

    def is_good(prefix: Sequence[trails.Turn]) -> bool | None:
        verdict = _run(run, prefix)
        said = {True: "good", False: "bad", None: "cannot be told"}[verdict]
        cli.note(f"the first {count(len(prefix), 'turn')}: {said}")
        return verdict

    found = bisect(turns, is_good, good=good, bad=len(turns) if bad is None else bad)
    value = {"session": place.session_id} | found.to_dict()
    cli.answer(value, found, lambda found: cli.view.transcript(place.session_id, found.candidates, full=False))
    if found.turn is None:
        cli.note("which of these it is cannot be told: the turns between were skipped")
        cli.end(1)


def _run(run: Sequence[str], prefix: Sequence[trails.Turn]) -> bool | None:
    """Run a command on the first turns of a transcript; return whether it found them good, or None for a skip."""
    lines = "".join(f"{json.dumps(turn.to_dict(), ensure_ascii=False)}\n" for turn in prefix)
    try:
        code = subprocess.run(run, input=lines.encode(), stdout=2, check=False).returncode  # noqa: S603 - what was asked for
    except OSError as error:
        cli.refuse(f"{run[0]!r} cannot be run: {error.strerror or error}")
    if code < 0 or code >= _STOP:
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise click.ClickException(f"{shlex.join(run)} ended with {ended} on {count(len(prefix), 'turn')}; stopped")
    return None if code == _SKIP else code == 0


_WORKERS: Final = 4
_from = click.Choice(["recorded", "live"])


@cli.command("rerun", by=True)
@click.argument("ref", metavar="REF")
@click.argument("program", metavar="-- PROGRAM", nargs=-1, required=True, type=click.UNPROCESSED)
@cli.option("--model", "Who answers for the model.", type=_from, default="recorded")
@cli.option("--tools", "Who answers for tools.", type=_from, default="recorded")
@cli.option("--on-miss", "What a call does that was not recorded.", type=click.Choice(["stop", "live"]), default="stop")
@cli.option("--times N", "Run it N times, and go on where that was cut short.", type=click.IntRange(1, 100_000))
@cli.option("--name NAME", "What the forks of --times are called; default: rerun.")
@cli.option("--workers N", "So many of --times at a time; default: 4.", type=click.IntRange(1, 64))
@cli.id_option
@cli.label_option
@cli.meta_option
def rerun(
    *,
    ref: str,
    program: tuple[str, ...],
    times: int | None,
    name: str | None,
    workers: int | None,
    label: str | None,
    meta: Any,
    **given: Any,
) -> None:
    """Run a program again over a recorded session.

    A fork is stored that shares what agrees with the record; its id is printed. REF is a session (an id, an IRI or a label), a
    tag, or such a name with @ and how many turns of it are the record. PROGRAM asks on stdout and is answered on stdin, a JSON
    object a line: `trails guide rerun` shows how. "live" has the program itself asked. The exit code is 1 where the run was
    stopped by what is not recorded, or failed.
    """
    from trails.replay.programs import Program
    from trails.replay.rerun import attempt, plan_reruns, run_planned

    fork_id = given.pop("id")
    if times is not None and (fork_id or label):
        cli.refuse("--times makes several forks, whose ids follow from --name; leave out --id and --label")
    if times is None and (name or workers):
        cli.refuse("--name and --workers are of --times; one fork is named by --id or --label")
    agent = Program(program, **given)
    with cli.open_store() as store:
        place = cli.place_of(store, ref)
        source = store.load(place.session_id)
        if times is None:
            reruns = [attempt(source, agent, ways=agent.ways, upto=place.end, id=fork_id, label=label, meta=meta)]
        else:
            threads, options = workers or _WORKERS, {"meta": meta, "principal": None, "by": None}
            pool, places = plan_reruns(
                source, times, threads, name=name or "rerun", ways=agent.ways, upto=place.end, options=options
            )
            reruns = run_planned(pool, places, agent, threads, progress=_tell, stop=agent.stop)
        value: Any = [each.to_dict() for each in reruns]
    said = _said(reruns[0]) if times is None else None
    cli.answer(value[0] if times is None else {"reruns": value}, [each.id for each in reruns], said=said)
    if any(each.outcome != "finished" for each in reruns):
        cli.end(1)


def _tell(done: trails.Rerun) -> None:
    cli.note(f"{done.id}: {_said(done)}")


def _said(done: trails.Rerun) -> str:
    """Return what came of a rerun in a line."""
    shared = f"it shares {count(done.agreed, 'turn')} with {done.source_id}"
    if done.outcome == "failed":
        return f"the program failed: {done.error}; {shared}"
    if done.left_at is None:
        return f"{shared}, and nothing differs"
    why = "" if done.difference is None else f": {done.difference.text}"
    return f"{shared}, and {'was stopped' if done.outcome == 'stopped' else 'left it'} at {done.left_at}{why}"
