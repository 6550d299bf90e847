"""The command that draws the forest of forks and spawned sessions: tree."""

from __future__ import annotations

import click

from trails.cli.base import (
    command,
    json_option,
    note,
    open_store,
    print_json,
)


@command("tree")
@click.argument("session", metavar="[SESSION]", required=False)
@json_option
def tree(session: str | None, as_json: bool) -> None:
    """Draw the forest of forks and spawned sessions.

    Without SESSION (an id, an IRI or a label), all trees of the store. Each line gives: @ the index that a fork starts
    at, or "spawned"; label and id; how many turns its transcript has, and how many of them it owns; the first 8 digits
    of its head. A parent that was deleted or is missing is drawn as such.
    """
    from trails.cli import forest

    with open_store() as store:
        top = None if session is None else store.resolve(session)
        trees = forest.plant(forest.read(store.reader), top)
    if as_json:
        print_json({"sessions": [twig.to_dict() for twig in forest.walk(trees)]})
        return
    from trails.cli import render

    if trees:
        render.forest(render.screen(), trees)
    else:
        note("the store holds no sessions")
