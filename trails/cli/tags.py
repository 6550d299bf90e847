"""Commands that give names to sessions, and to a session at an index: label, tag, tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from trails.cli.base import (
    Named,
    answer,
    as_of_option,
    by_option,
    command,
    first_of,
    json_option,
    left_out,
    limit_option,
    note,
    open_store,
    refuse,
    session_argument,
)
from trails.cli.terminal import clean

if TYPE_CHECKING:
    from trails.model import Tag


@command("label")
@session_argument
@click.argument("label", metavar="[LABEL]", required=False)
@click.option("--clear", is_flag=True, help="Take the label away.")
@by_option
def set_label(session: str, label: str | None, clear: bool) -> None:
    """Give a session a label, or take it away with --clear.

    SESSION is an id, an IRI or the label it has. A label has up to 64 characters and belongs to one session.
    """
    if clear == (label is not None):
        refuse("give either a label or --clear")
    with open_store() as store:
        session_id = store.resolve(session)
        store.set_label(session_id, label)
    note(f"session {session_id!r} has no label" if clear else f"session {session_id!r} is labelled {label!r}")


@command("tag")
@click.argument("name", metavar="NAME", type=Named("tag"))
@click.argument("ref", metavar="[REF]", required=False)
@click.option("--remove", is_flag=True, help="Take the tag away; the turns stay, and so does a record of it.")
@by_option
@json_option
def tag(*, name: str, ref: str | None, remove: bool, as_json: bool) -> None:
    """Give a session at an index a name that stays where it is.

    A tag is not moved; its name stands for something else only after --remove, which is logged. REF is a session (an
    id, an IRI or a label), which stands for all its turns, or such a name with @ and how many turns of it. Making the
    same tag again is no error. Without REF, the tag that is there is shown. A tag can stand wherever a REF can; what a
    tag names is not deleted.
    """
    if remove and ref is not None:
        refuse("--remove takes the tag's name alone")
    with open_store() as store:
        if remove:
            found = store.tags.remove(name)
        elif ref is None:
            found = store.tags.get(name)
        else:
            found = store.tags.add(name, ref)
    shown = f"{clean(found.session_id)}@{found.length} {found.digest[:8]}"
    said = f"tag {name!r} is removed" if remove else None
    answer({"tag": found}, shown, click.echo, said=said, as_json=as_json)


@command("tags", pager=True)
@click.argument("session", metavar="[SESSION]", required=False)
@limit_option(None, most=1_000_000)
@as_of_option
@json_option
def list_tags(*, session: str | None, limit: int | None, as_json: bool) -> None:
    """List tags by name: all, or those of one session.

    SESSION is an id, an IRI or a label.
    """
    with open_store(reading=True) as store:
        every = store.tags.list(None if session is None else store.resolve(session))
    found, more = first_of(every, limit)
    value, said = {"tags": found, "more": more}, left_out(len(found), more)
    answer(value, found, _draw_tags, empty="there are no tags", said=said, as_json=as_json)


def _draw_tags(found: Sequence[Tag]) -> None:
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
