"""Commands that show sessions: list, show, branches, replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from trails.cli.base import (
    answer,
    command,
    json_option,
    limit_option,
    open_store,
    session_argument,
    there_is_more,
    time_option,
)

if TYPE_CHECKING:
    from trails.model import SessionRecord, Turn


@command("list")
@click.option("--principal", metavar="NAME", help="Only sessions that run for this principal.")
@click.option("--agent", metavar="NAME", help="Only sessions that this agent runs.")
@click.option("--label", metavar="LABEL", help="Only the session with this label.")
@time_option("--since", "Only those created at this time or later.")
@time_option("--until", "Only those created before this time.")
@limit_option()
@click.option("--cursor", metavar="TEXT", help="Go on where the page before ended.")
@json_option
def list_sessions(
    *,
    principal: str | None,
    agent: str | None,
    label: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List sessions, newest first.

    A TIME is ISO 8601 with a time zone, or a plain date (midnight in UTC).
    """
    with open_store(reading=True) as store:
        page = store.list(
            principal=principal, agent=agent, label=label, since=since, until=until, limit=limit, cursor=cursor
        )
    more = there_is_more(
        page.cursor,
        "list",
        principal=principal,
        agent=agent,
        since=None if since is None else since.isoformat(),
        until=None if until is None else until.isoformat(),
        limit=None if limit == 50 else str(limit),
    )
    value = {"sessions": page, "cursor": page.cursor}
    answer(value, page, _draw_sessions, empty="no sessions found", said=more, as_json=as_json)


def _draw_sessions(records: Sequence[SessionRecord]) -> None:
    from trails.cli import render

    render.sessions(render.screen(), records)


@command("show")
@click.argument("ref", metavar="REF")
@click.option("--full", is_flag=True, help="Whole texts, tool arguments and digests.")
@json_option
def show(ref: str, full: bool, as_json: bool) -> None:
    """Show a session's transcript for reading.

    REF is a session (an id, an IRI or a label), a tag, or such a name with @ and how many turns of it. Turns that come
    from an ancestor name the session that owns them. Long texts and tool arguments are shortened without --full; JSON is
    always whole.
    """
    from trails.plumbing import refs

    with open_store(reading=True) as store:
        place = refs.place(store.workspace, ref)
        loaded = store.load(place.session_id)
        record, turns, system = loaded.record, loaded.turns[: place.end], loaded.system

    def draw(turns: Sequence[Turn]) -> None:
        from trails.cli import render

        console = render.screen()
        render.session_head(console, record, turns, system, full=full)
        render.transcript(console, record.id, turns, full=full)

    answer({"session": record, "system": system, "turns": turns}, turns, draw, as_json=as_json)


@command("branches")
@session_argument
@json_option
def branches(session: str, as_json: bool) -> None:
    """List a session's direct forks, oldest first.

    SESSION is an id, an IRI or a label.
    """
    with open_store(reading=True) as store:
        session_id = store.resolve(session)
        records: list[SessionRecord] = store.branches(session_id)
    empty = f"session {session_id!r} has no forks"
    answer({"session": session_id, "branches": records}, records, _draw_sessions, empty=empty, as_json=as_json)


@command("replay")
@click.argument("ref", metavar="REF")
@click.option("--up-to", type=click.IntRange(min=0), metavar="INDEX", help="Stop before the turn with this index.")
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
