"""The command that draws the forest of forks and spawned sessions: tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from trails.cli.base import answer, as_of_option, command, json_option, open_store

if TYPE_CHECKING:
    from trails.plumbing.forest import Twig


@command("tree", pager=True)
@click.argument("session", metavar="[SESSION]", required=False)
@as_of_option
@json_option
def tree(session: str | None, as_json: bool) -> None:
    """Draw the forest of forks and spawned sessions.

    Without SESSION (an id, an IRI or a label), all trees of the store. Each line gives: @ the index that a fork starts
    at, or "spawned"; label and id; how many turns its transcript has, and how many of them it owns; the first 8 digits
    of its head. A parent that was deleted or is missing is drawn as such.
    """
    from trails.plumbing import forest

    with open_store(reading=True) as store:
        top = None if session is None else store.resolve(session)
        found = forest.grow(store.reader, top)
    answer({"sessions": list(found)}, found.trees, _draw, empty="the store holds no sessions", as_json=as_json)


def _draw(trees: Sequence[Twig]) -> None:
    from trails.cli import render

    render.forest(render.screen(), trees)
