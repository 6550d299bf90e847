"""Commands that show sessions: show, branches, replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from trails.cli.base import (
    answer,
    as_of_option,
    command,
    first_of,
    json_option,
    left_out,
    limit_option,
    open_store,
    session_argument,
)
from trails.cli.ranges import indexes

if TYPE_CHECKING:
    from trails.model import SessionRecord, Turn


def _draw_sessions(records: Sequence[SessionRecord]) -> None:
    from trails.cli import render

    render.sessions(render.screen(), records)


@command("show", pager=True)
@click.argument("ref", metavar="REF")
@click.option("--range", "turns_", metavar="TURNS", help="Only these turns: 4, 3:7 (7 is left out), 5:, :2, or 1,3:5.")
@click.option("--full", is_flag=True, help="Whole texts, tool arguments and digests.")
@as_of_option
@json_option
def show(ref: str, turns_: str | None, full: bool, as_json: bool) -> None:
    """Show a session's transcript for reading.

    REF is a session (an id, an IRI or a label), a tag, or such a name with @ and how many turns of it; --range picks turns
    by their indices out of these. Turns that come from an ancestor name the session that owns them. Long texts and tool
    arguments are shortened without --full; JSON is always whole.
    """
    from trails.plumbing import refs

    with open_store(reading=True) as store:
        place = refs.place(store.workspace, ref)
        loaded = store.load(place.session_id)
        record, turns, system = loaded.record, loaded.turns[: place.end], loaded.system
    chosen = turns if turns_ is None else [turns[index] for index in indexes(turns_, len(turns))]

    def draw(chosen: Sequence[Turn]) -> None:
        from trails.cli import render

        console = render.screen()
        render.session_head(console, record, turns, system, full=full)
        render.transcript(console, record.id, chosen, full=full)

    answer({"session": record, "system": system, "turns": chosen}, chosen, draw, as_json=as_json)


@command("branches", pager=True)
@session_argument
@limit_option(None, most=1_000_000)
@as_of_option
@json_option
def branches(*, session: str, limit: int | None, as_json: bool) -> None:
    """List a session's direct forks, oldest first.

    SESSION is an id, an IRI or a label.
    """
    with open_store(reading=True) as store:
        session_id = store.resolve(session)
        every: list[SessionRecord] = store.branches(session_id)
    records, more = first_of(every, limit)
    value, said = {"session": session_id, "branches": records, "more": more}, left_out(len(records), more)
    empty = f"session {session_id!r} has no forks"
    answer(value, records, _draw_sessions, empty=empty, said=said, as_json=as_json)


@command("replay", pager=True)
@click.argument("ref", metavar="REF")
@click.option("--up-to", type=click.IntRange(min=0), metavar="INDEX", help="Stop before the turn with this index.")
@as_of_option
@json_option
def replay(ref: str, up_to: int | None, as_json: bool) -> None:
    """Print what a model would be sent again, turn by turn.

    Printed are role and content of each turn, in order. REF is a session (an id, an IRI or a label), a tag, or such a
    name with @ and how many turns of it. Nothing is shortened and nothing is written.
    """
    from trails.plumbing import refs

    with open_store(reading=True) as store:
        place = refs.place(store.workspace, ref)
        session_id = place.session_id
        ends = [end for end in (up_to, place.end) if end is not None]
        turns = store.replay(session_id, up_to_index=min(ends, default=None))
    answer({"session": session_id, "turns": turns}, turns, _draw_replay, as_json=as_json)


def _draw_replay(turns: Sequence[Mapping[str, Any]]) -> None:
    from trails.cli import render

    render.replay(render.screen(), turns)
