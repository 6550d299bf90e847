"""The command that writes PROV: prov."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import click

from trails import files
from trails.cli.base import NEW_FILE, answer, command, json_option, open_store, refuse
from trails.cli.terminal import escaping, one_line

FORMATS = ("provn", "json", "jsonld", "xml", "turtle", "trig")
PICTURES = ("svg", "png", "mermaid")


@command("prov")
@click.argument("session", metavar="[SESSION|TURN]", required=False)
@click.option("--all", "whole", is_flag=True, help="Write everything that is stored.")
@click.option("--format", "format_", type=click.Choice(FORMATS + PICTURES), required=True, help="The format to write.")
@click.option("--turn", metavar="INDEX", type=int, help="Only this turn of SESSION, counted from 0.")
@click.option("--forks", is_flag=True, help="With svg, png and mermaid: draw the tree of forks, without turns.")
@click.option("--recorded-only", is_flag=True, help="Leave out what is only derived by a rule.")
@click.option("-o", "--output", type=NEW_FILE, help="The file to write; default: stdout.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@json_option
def write_prov(
    *,
    session: str | None,
    whole: bool,
    format_: str,
    turn: int | None,
    forks: bool,
    recorded_only: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write what is stored as a W3C PROV document, or draw it.

    Of SESSION (an id, an IRI or a label) with its ancestors as far as it inherits them, of a TURN (its IRI), or with
    --all of the whole store. Each session's turns are a bundle. Each statement says what it rests on: recorded, imported,
    or derived by a rule. Texts stay in the store: `trails export` writes sessions whole. The formats svg, png and mermaid
    are pictures of at most 200 nodes.
    """
    from functools import partial

    from trails.prov.exporting import draw, export

    if whole == (session is not None):
        refuse("name a session or a turn, or give --all")
    if as_json and output is None:
        refuse("--json says what was written where, and stdout is for the data: give -o FILE too")
    if output is not None and output.exists() and not force:
        refuse(f"{output} is there already; give --force to replace it, or name another file")
    if forks and format_ not in PICTURES:
        refuse("--forks goes with the formats svg, png and mermaid")
    with open_store() as store:
        if format_ in PICTURES:
            drawn = draw(store, format=format_, session=session, turn=turn, forks=forks, recorded_only=recorded_only)
            write: Callable[[BinaryIO], object] = partial(_put, drawn)
        else:
            write = partial(export, store, format=format_, session=session, turn=turn, recorded_only=recorded_only)
        if output is None:
            plain = format_ in ("xml", *PICTURES)  # these hold nothing that steers a terminal, and are not text alone
            write(sys.stdout.buffer if plain else escaping(sys.stdout.buffer))
            return
        files.write_whole(output, write)
    value = {"format": format_, "output": str(output), "bytes": output.stat().st_size}
    answer(value, None, click.echo, said=f"wrote {one_line(str(output))}", as_json=as_json)


def _put(data: bytes, out: BinaryIO) -> None:
    out.write(data)
