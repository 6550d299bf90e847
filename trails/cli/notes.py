"""Commands that name turns, write about them, and pick them into other sessions: tag, tags, note, notes, cherry-pick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trails.cli.base import command, json_option, note, open_store, print_json, read_stdin, refuse
from trails.cli.terminal import clean, count, one_line

if TYPE_CHECKING:
    from trails.model import Note, Tag

by_option = click.option("--by", metavar="NAME", help="Who does it, or agent:NAME; default: the session's principal.")


@command("tag")
@click.argument("name", metavar="NAME")
@click.argument("ref", metavar="[REF]", required=False)
@click.option("--remove", is_flag=True, help="Take the tag away; the turns stay, and so does a record of it.")
@by_option
@json_option
def tag(*, name: str, ref: str | None, remove: bool, by: str | None, as_json: bool) -> None:
    """Give a session at an index a name that never comes to name anything else.

    REF is a session (an id, an IRI or a label), which stands for all its turns, or such a name with @ and how many turns
    of it. Making the same tag again is no error. Without REF, the tag that is there is shown. A tag can stand wherever a
    REF can; what a tag names is not deleted.
    """
    if remove and ref is not None:
        refuse("--remove takes the tag's name alone")
    with open_store() as store:
        if remove:
            found = store.tags.remove(name, by=by)
        elif ref is None:
            found = store.tags.get(name)
        else:
            found = store.tags.add(name, ref, by=by)
    if as_json:
        print_json({"tag": found.to_dict()})
        return
    click.echo(f"{clean(found.session_id)}@{found.length} {found.digest[:8]}")
    if remove:
        note(f"tag {name!r} is removed")


@command("tags")
@click.argument("session", metavar="[SESSION]", required=False)
@json_option
def tags(session: str | None, as_json: bool) -> None:
    """List tags by name: all, or those of one session (an id, an IRI or a label)."""
    with open_store() as store:
        found = store.tags.list(None if session is None else store.resolve(session))
    if as_json:
        print_json({"tags": [each.to_dict() for each in found]})
    elif found:
        _tag_table(found)
    else:
        note("there are no tags")


def _tag_table(found: list[Tag]) -> None:
    from rich.text import Text

    from trails.cli import render

    made = render.table("tag", "turns", "digest", "by", "made (UTC)", fold=("turns",))
    for each in found:
        place = f"{clean(each.session_id)}@{each.length}"
        made.add_row(
            Text(clean(each.name), style="bold yellow"),
            Text(place, style="cyan"),
            each.digest[:8],
            Text(clean(each.author)),
            render.moment(each.time),
        )
    render.screen().print(made)


@command("note")
@click.argument("session", metavar="[SESSION]", required=False)
@click.argument("index", metavar="[INDEX]", type=click.IntRange(min=0), required=False)
@click.argument("text", metavar="[TEXT]", default="-")
@click.option("--remove", "gone", metavar="ID", help="Take a note away for good, in place of writing one.")
@by_option
@json_option
def write_note(
    *, session: str | None, index: int | None, text: str, gone: str | None, by: str | None, as_json: bool
) -> None:
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
            made = store.notes.remove(gone, by=by)
        else:
            session_id = store.resolve(session or "")
            made = store.notes.add(session_id, index or 0, read_stdin() if text == "-" else text, by=by)
    if as_json:
        print_json({"note": made.to_dict()})
        return
    click.echo(made.id)
    if gone is not None:
        note("the note is removed; its text is in the store's files until `trails vacuum`, and in older backups")


@command("notes")
@click.argument("session", metavar="SESSION")
@click.argument("index", metavar="[INDEX]", type=click.IntRange(min=0), required=False)
@json_option
def notes(session: str, index: int | None, as_json: bool) -> None:
    """List the notes on a session's turns, or on one of them.

    SESSION is an id, an IRI or a label. Notes on turns that it inherits are listed too.
    """
    with open_store() as store:
        session_id = store.resolve(session)
        found = store.notes.list(session_id, index)
    if as_json:
        print_json({"session": session_id, "notes": [each.to_dict() for each in found]})
    elif found:
        _note_table(found)
    else:
        note(f"there are no notes on {'its turns' if index is None else f'turn {index}'}")


def _note_table(found: list[Note]) -> None:
    from rich.text import Text

    from trails.cli import render

    made = render.table("turn", "note", "by", "written (UTC)", "text", fold=("text",), right=("turn",))
    for each in found:
        cells = (str(each.index), clean(each.id), clean(each.author), render.moment(each.time), one_line(each.text))
        made.add_row(*(Text(cell) for cell in cells))
    render.screen().print(made)


@command("cherry-pick")
@click.argument("turns", metavar="SOURCE@TURNS")
@click.option("--onto", metavar="SESSION", required=True, help="The session that gets the turns at its end.")
@click.option("--whole-calls", is_flag=True, help="Pick the calls and answers too that belong to the turns.")
@json_option
def cherry_pick(*, turns: str, onto: str, whole_calls: bool, as_json: bool) -> None:
    """Repeat turns of one session at the end of another, as new turns that say what they were quoted from.

    SOURCE and SESSION are ids, IRIs or labels; SOURCE may be a tag. TURNS is an index (3), a range with its end left out
    (2:5), or several in ascending order (1,3:5). A tool call and its answer are picked together or not at all. Prints
    the indices of the new turns.
    """
    from trails.cli import ranges
    from trails.plumbing import refs

    name, at, wanted = turns.rpartition("@")
    if not at or not name or not ranges.looks_like_turns(wanted):
        refuse(
            f"{turns!r} says not which turns: write an index (SOURCE@3), a range with its end left out (SOURCE@2:5) or both"
        )
    with open_store() as store:
        place = refs.place(store, name)
        source, target = store.load(place.session_id), store.load(store.resolve(onto))
        indexes = ranges.indexes(wanted, len(source) if place.end is None else place.end)
        made = target.cherry_pick(source, indexes, whole_calls=whole_calls)
        target.persist()
    if as_json:
        print_json({"session": target.id, "turns": [turn.to_dict() for turn in made]})
        return
    for turn in made:
        click.echo(turn.index)
    note(
        f"{count(len(made), 'turn')} of {source.label or source.id} repeated at the end of {target.label or target.id}"
    )
