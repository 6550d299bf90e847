"""Commands about notes on turns: note, notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from trails.cli.base import (
    answer,
    as_of_option,
    by_option,
    command,
    first_of,
    json_option,
    left_out,
    limit_option,
    open_store,
    read_stdin,
    refuse,
)
from trails.cli.terminal import one_line

if TYPE_CHECKING:
    from trails.model import Note


@command("note")
@click.argument("session", metavar="[SESSION]", required=False)
@click.argument("index", metavar="[INDEX]", type=click.IntRange(min=0), required=False)
@click.argument("text", metavar="[TEXT]", default="-")
@click.option("--remove", "gone", metavar="ID", help="Take a note away for good, in place of writing one.")
@by_option
@json_option
def write_note(*, session: str | None, index: int | None, text: str, gone: str | None, as_json: bool) -> None:
    """Write a note on a turn and print the note's id.

    SESSION is an id, an IRI or a label, INDEX a turn of its transcript; TEXT is read from stdin where it is left out or
    "-". The turn itself never changes: its notes stand beside it, and are seen from every session that has the turn.
    """
    if (gone is None) == (session is None) or (gone is not None and (index is not None or text != "-")):
        refuse("give SESSION, INDEX and TEXT to write a note, or --remove ID alone")
    if session is not None and index is None:
        refuse("say which turn the note is on: INDEX")
    with open_store() as store:
        if gone is not None:
            made = store.notes.remove(gone)
        else:
            session_id = store.resolve(session or "")
            made = store.notes.add(session_id, index or 0, read_stdin() if text == "-" else text)
    removed = "the note is removed; its text is in the store's files until `trails store vacuum`, and in older backups"
    answer({"note": made}, made.id, click.echo, said=None if gone is None else removed, as_json=as_json)


@command("notes", pager=True)
@click.argument("session", metavar="SESSION")
@click.argument("index", metavar="[INDEX]", type=click.IntRange(min=0), required=False)
@limit_option(None, most=1_000_000)
@as_of_option
@json_option
def list_notes(*, session: str, index: int | None, limit: int | None, as_json: bool) -> None:
    """List the notes on a session's turns, or on one of them.

    SESSION is an id, an IRI or a label. Notes on turns that it inherits are listed too.
    """
    with open_store(reading=True) as store:
        session_id = store.resolve(session)
        every = store.notes.list(session_id, index)
    found, more = first_of(every, limit)
    value = {"session": session_id, "notes": found, "more": more}
    none = f"there are no notes on {'its turns' if index is None else f'turn {index}'}"
    answer(value, found, _draw_notes, empty=none, said=left_out(len(found), more), as_json=as_json)


def _draw_notes(found: Sequence[Note]) -> None:
    from trails.cli import render

    columns = ("turn", "note", "by", "written (UTC)", "text")
    rows = [(str(n.index), n.id, n.author, render.moment(n.time), one_line(n.text)) for n in found]
    render.print_table(columns, rows, fold=("text",), right=("turn",))
