"""The command that says what differs between two sessions: diff."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trails import files
from trails.cli.base import (
    NEW_FILE,
    as_of_option,
    command,
    end,
    json_option,
    note,
    one_format,
    open_store,
    print_json,
    refuse,
)
from trails.cli.terminal import to_json

if TYPE_CHECKING:
    from trails import Diff

_FORMATS = ("text", "markdown", "html", "patch", "json")


@command("diff", pager=True)
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@click.option("--side-by-side", "-y", is_flag=True, help="Both sides beside each other.")
@click.option(
    "--format", "format_", type=click.Choice(_FORMATS), help="What to write; default: text, coloured on a terminal."
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
        from trails.cli import render
        from trails.cli.diff import screen

        (screen.side_by_side if side_by_side else screen.unified)(render.screen(), found, full=full)
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
    from trails.cli.diff.markdown import markdown
    from trails.cli.diff.page import page
    from trails.cli.diff.patch import patch

    return {"markdown": markdown, "html": page, "patch": patch}[form](found)


def _save(found: Diff, form: str, output: Path) -> None:
    text = (to_json(found.to_dict()) + "\n" if form == "json" else _document(found, form)).encode("utf-8")
    files.write_whole(output, lambda out: out.write(text))
    note(f"wrote {output}")
