"""Commands that change sessions: init, create, append, fork, label, detach, flatten, delete.

What a script wants to catch (an id) goes to stdout, what a person wants to read to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from trails.cli.base import (
    command,
    json_option,
    note,
    open_store,
    pairs,
    print_json,
    read_stdin,
    refuse,
    session_argument,
    store_location,
)
from trails.cli.terminal import count

_meta_option = click.option("--meta", multiple=True, metavar="NAME=VALUE", help="A fact about it; may be given again.")


@command("init")
def init() -> None:
    """Create an empty store.

    The folder is the one that --store or TRAILS_STORE names. A store that is there already is left as it is.
    """
    with open_store(create=True) as store:
        sessions = store.info()["sessions"]
    note(f"the store {store_location()} is ready and holds {count(sessions, 'session')}")


@command("create")
@click.option("--id", "id_", metavar="ID", help="The new session's id; made up unless given.")
@click.option("--label", metavar="LABEL", help="A name for it that no other session has.")
@click.option("--principal", metavar="NAME", help="Whom it runs for.")
@click.option("--agent", metavar="NAME", help="What runs it.")
@click.option("--system", metavar="TEXT", help="Its system prompt.")
@_meta_option
@json_option
def create(
    *,
    id_: str | None,
    label: str | None,
    principal: str | None,
    agent: str | None,
    system: str | None,
    meta: tuple[str, ...],
    as_json: bool,
) -> None:
    """Create a session without turns and print its id."""
    facts = dict(pairs(meta, "--meta")) or None
    with open_store() as store:
        made = store.create(id=id_, label=label, principal=principal, agent=agent, system=system, meta=facts)
        made.persist()
    if as_json:
        print_json({"session": made.record.to_dict()})
    else:
        click.echo(made.id)


@command("append")
@session_argument
@click.argument("role", metavar="ROLE")
@click.argument("text", metavar="[TEXT]", default="-")
@click.option("--author", metavar="NAME", help="Who says it: a principal's name, or agent:NAME.")
@click.option("--model", metavar="NAME", help="The model that generated it.")
@json_option
def append(*, session: str, role: str, text: str, author: str | None, model: str | None, as_json: bool) -> None:
    """Append a turn to a session and print its index.

    SESSION is an id, an IRI or a label. TEXT is read from stdin where it is left out or "-".
    """
    with open_store() as store:
        loaded = store.load(store.resolve(session))
        turn = loaded.append(role, read_stdin() if text == "-" else text, author=author, model=model)
        loaded.persist()
    if as_json:
        print_json({"turn": turn.to_dict()})
        return
    click.echo(turn.index)
    note(f"{loaded.label or loaded.id} has {count(len(loaded), 'turn')}, head {turn.digest[:8]}")


@command("fork")
@click.argument("ref", metavar="REF")
@click.option(
    "--at", type=click.IntRange(min=0), metavar="INDEX", help="Share the turns below this index; default: all of REF."
)
@click.option("--id", "id_", metavar="ID", help="The fork's id; made up unless given.")
@click.option("--label", metavar="LABEL", help="A name for it that no other session has.")
@click.option("--principal", metavar="NAME", help="Whom it runs for; default: as its parent.")
@_meta_option
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
        place = refs.place(store, ref)
        if at is not None and place.end is not None and at > place.end:
            refuse(f"{ref!r} has {count(place.end, 'turn')}, so it cannot be forked at {at}")
        made = store.load(place.session_id).fork(
            place.end if at is None else at, id=id_, label=label, principal=principal, meta=facts
        )
        made.persist()
    if as_json:
        print_json({"session": made.record.to_dict()})
        return
    click.echo(made.id)
    note(f"it shares {count(len(made), 'turn')} with {made.parent_session_id}")


@command("label")
@session_argument
@click.argument("label", metavar="[LABEL]", required=False)
@click.option("--clear", is_flag=True, help="Take the label away.")
def set_label(session: str, label: str | None, clear: bool) -> None:
    """Give a session a label, or take it away with --clear.

    SESSION is an id, an IRI or the label it has. A label has up to 64 characters and belongs to one session.
    """
    if clear == (label is not None):
        refuse("give either a label or --clear")
    with open_store() as store:
        session_id = store.resolve(session)
        store.label(session_id, label)
    note(f"session {session_id!r} has no label" if clear else f"session {session_id!r} is labelled {label!r}")


@command("detach")
@session_argument
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
@json_option
def flatten(session: str, id_: str | None, label: str | None, as_json: bool) -> None:
    """Copy a whole transcript into a new root session and print its id.

    SESSION is an id, an IRI or a label; it stays as it is.
    """
    with open_store() as store:
        made = store.flatten(store.resolve(session), new_id=id_, label=label)
    if as_json:
        print_json({"session": made.record.to_dict()})
        return
    click.echo(made.id)
    note(f"it holds a copy of {count(len(made), 'turn')}")


@command("delete")
@session_argument
@click.option(
    "--children",
    type=click.Choice(["refuse", "cascade", "detach"]),
    default="refuse",
    show_default=True,
    help="What to do with sessions that depend on it: refuse, delete them too, or make its forks independent first.",
)
@click.option("--by", metavar="NAME", help="Who deletes; default: the session's principal.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(session: str, children: str, by: str | None, yes: bool) -> None:
    """Delete a session; print the ids of all that were deleted.

    SESSION is an id, an IRI or a label. A tombstone stays. A session that a tag names is kept, unless --children cascade
    takes the tag too. It asks first on a terminal; elsewhere it needs --yes.
    """
    from trails import HasChildren

    with open_store() as store:
        session_id = store.resolve(session)
        if not yes:
            below = {child for child, _ in store.reader.dependants(session_id)} if children == "cascade" else set()
            also = f" and the {count(len(below), 'session')} that depend on it" if below else ""
            if not _confirmed(f"Delete session {session_id!r}{also}?"):
                note("nothing was deleted")
                click.get_current_context().exit(1)
        try:
            deleted: Sequence[str] = store.delete(session_id, children=children, by=by)  # type: ignore[arg-type] # one of the choices
        except HasChildren as error:
            advice = str(error).replace('children="cascade"', "--children cascade")
            raise HasChildren(advice.replace('children="detach"', "--children detach")) from error
    for each in deleted:
        click.echo(each)


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        refuse("deleting asks first, and stdin is no terminal; give --yes")
    return click.confirm(question, err=True)
