"""Commands about forks: fork, detach, flatten."""

from __future__ import annotations

import click

from trails.cli.base import (
    answer,
    by_option,
    command,
    json_option,
    meta_option,
    note,
    open_store,
    pairs,
    refuse,
    session_argument,
)
from trails.cli.terminal import count


@command("fork")
@click.argument("ref", metavar="REF")
@click.option(
    "--at", type=click.IntRange(min=0), metavar="INDEX", help="Share the turns below this index; default: all of REF."
)
@click.option("--id", "id_", metavar="ID", help="The fork's id; made up unless given.")
@click.option("--label", metavar="LABEL", help="A name for it that no other session has.")
@click.option("--principal", metavar="NAME", help="Whom it runs for; default: as its parent.")
@meta_option
@by_option
@json_option
def fork(
    *,
    ref: str,
    at: int | None,
    id_: str | None,
    label: str | None,
    principal: str | None,
    meta: tuple[str, ...],
    as_json: bool,
) -> None:
    """Fork a session at an index and print the fork's id.

    REF is a session (an id, an IRI or a label), a tag, or such a name with @ and how many turns of it. The fork shares
    the turns below INDEX and copies none; what it appends is its own.
    """
    facts = dict(pairs(meta, "--meta")) or None
    from trails.plumbing import refs

    with open_store() as store:
        place = refs.place(store.workspace, ref)
        if at is not None and place.end is not None and at > place.end:
            refuse(f"{ref!r} has {count(place.end, 'turn')}, so it cannot be forked at {at}")
        made = store.load(place.session_id).fork(
            place.end if at is None else at, id=id_, label=label, principal=principal, meta=facts
        )
        made.persist()
    said = f"it shares {count(len(made), 'turn')} with {made.parent_session_id}"
    answer({"session": made.record}, made.id, click.echo, said=said, as_json=as_json)


@command("detach")
@session_argument
@by_option
def detach(session: str) -> None:
    """Make a fork independent of its parent.

    SESSION is an id, an IRI or a label. What it inherits is copied into it; its head and its own forks stay as they
    are. A session that is no fork is left alone.
    """
    with open_store() as store:
        session_id = store.resolve(session)
        parent = store.record(session_id).parent_session_id
        store.detach(session_id)
    note(
        f"session {session_id!r} was no fork"
        if parent is None
        else f"session {session_id!r} no longer needs {parent!r}"
    )


@command("flatten")
@session_argument
@click.option("--id", "id_", metavar="ID", help="The new session's id; made up unless given.")
@click.option("--label", metavar="LABEL", help="A name for it that no other session has.")
@by_option
@json_option
def flatten(session: str, id_: str | None, label: str | None, as_json: bool) -> None:
    """Copy a transcript into a new root session and print its id.

    SESSION is an id, an IRI or a label; it stays as it is.
    """
    with open_store() as store:
        made = store.flatten(store.resolve(session), id=id_, label=label)
    said = f"it holds a copy of {count(len(made), 'turn')}"
    answer({"session": made.record}, made.id, click.echo, said=said, as_json=as_json)
