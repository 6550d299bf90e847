"""The command that says where turns come from: blame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from trails.cli.base import answer, as_of_option, command, json_option, open_store
from trails.cli.terminal import shorten

if TYPE_CHECKING:
    from trails.model import Turn
    from trails.session.blame import Blame

_TEXT: Final = 60


@command("blame", pager=True)
@click.argument("ref", metavar="REF")
@click.option("--range", "turns", metavar="TURNS", help="Only these turns: an index (3) or a range (2:5).")
@as_of_option
@json_option
def blame(ref: str, turns: str | None, as_json: bool) -> None:
    """Say where each turn of a transcript comes from.

    That is: from which session, for whom, and who wrote it. REF is a session (an id, an IRI or a label), a tag, or such
    a name with @ and how many turns of it. The column "from" names the session that a copied turn was first written in,
    and the turn that a cherry-picked one repeats.
    """
    from trails.cli import ranges
    from trails.plumbing import refs

    with open_store(reading=True) as store:
        place = refs.place(store.workspace, ref)
        loaded = store.load(place.session_id)
        end = len(loaded) if place.end is None else place.end
        wanted = range(end) if turns is None else ranges.indexes(turns, end)
        chosen = set(wanted)
        found = [each for each in loaded.blame(0, end) if each.index in chosen]
        texts = {index: _text(loaded.turns[index]) for index in wanted}
    value = {"session": loaded.id, "turns": found}
    answer(value, found, lambda found: _draw_blame(found, texts), empty="there are no turns", as_json=as_json)


def _text(turn: Turn) -> str:
    from trails import parts

    return "(redacted)" if turn.redacted else shorten(parts.plain_text(turn.content), _TEXT)


def _draw_blame(found: Sequence[Blame], texts: dict[int, str]) -> None:

    from trails.cli import render

    columns = {
        "turn": [str(each.index) for each in found],
        "session": [each.session_id for each in found],
        "principal": [each.principal for each in found],
        "author": [each.author for each in found],
        "model": [each.model or "" for each in found],
        "time (UTC)": [render.moment(each.time) for each in found],
        "from": [_origin(each) for each in found],
        "text": [texts[each.index] for each in found],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    render.print_table([*shown], [*zip(*shown.values(), strict=True)], fold=("text", "from"), right=("turn",))


def _origin(each: Blame) -> str:
    quote = each.quoted_from
    named = [each.copied_from or "", f"{quote.session_id}@{quote.index}" if quote else ""]
    return ", ".join(filter(None, named))
