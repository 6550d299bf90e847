"""Commands that make a session and add to it: create, append."""

from __future__ import annotations

import click

from trails.cli.base import (
    answer,
    by_option,
    command,
    json_option,
    meta_option,
    open_store,
    pairs,
    read_stdin,
    session_argument,
)
from trails.cli.terminal import count


@command("create")
@click.option("--id", "id_", metavar="ID", help="The new session's id; made up unless given.")
@click.option("--label", metavar="LABEL", help="A name for it that no other session has.")
@click.option("--principal", metavar="NAME", help="Whom it runs for.")
@click.option("--agent", metavar="NAME", help="What runs it.")
@click.option("--system", metavar="TEXT", help="Its system prompt.")
@meta_option
@by_option
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
    answer({"session": made.record}, made.id, click.echo, as_json=as_json)


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
    said = f"{loaded.label or loaded.id} has {count(len(loaded), 'turn')}, head {turn.digest[:8]}"
    answer({"turn": turn}, turn.index, click.echo, said=said, as_json=as_json)
