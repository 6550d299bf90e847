"""The command that finds turns: search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from trails.cli.base import answer, command, end, json_option, limit_option, open_store, there_is_more
from trails.cli.terminal import clean, one_line

if TYPE_CHECKING:
    from trails.plumbing.search import Hit


@command("search")
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--tool", metavar="NAME", help="Only turns that call this tool; TEXT may be in the arguments too.")
@click.option("--session", metavar="SESSION", help="Only the transcript of this session.")
@click.option("--role", metavar="ROLE", help="Only turns in this role.")
@click.option("--author", metavar="NAME", help="Only turns by this principal or agent; agent:NAME for an agent.")
@limit_option()
@click.option("--cursor", metavar="TEXT", help="Go on where the page before ended.")
@json_option
def search(
    *,
    text: str | None,
    tool: str | None,
    session: str | None,
    role: str | None,
    author: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """Find turns by text, tool, role or author, newest first.

    TEXT is looked for as it is, upper and lower case alike, in what was said and in the arguments of tool calls. A turn
    that was copied is found once. The exit code is 1 where nothing is found, as grep's is.
    """
    with open_store(reading=True) as store:
        session_id = None if session is None else store.resolve(session)
        page = store.search(text, tool=tool, session=session_id, role=role, author=author, limit=limit, cursor=cursor)
    options = {"tool": tool, "session": session, "role": role, "author": author}
    more = there_is_more(page.cursor, "search", text, **options, limit=None if limit == 50 else str(limit))
    answer({"turns": page, "cursor": page.cursor}, page, _draw_hits, empty="nothing found", said=more, as_json=as_json)
    if not page:
        end(1)


def _draw_hits(hits: Sequence[Hit]) -> None:
    from rich.text import Text

    from trails.cli import render

    made = render.table("session", "turn", "role", "author", "time (UTC)", "text", fold=("text",), right=("turn",))
    for hit in hits:
        made.add_row(
            Text(clean(hit.session_id), style="cyan"),
            str(hit.index),
            Text(clean(hit.role), style=render.role_style(hit.role)),
            Text(clean(hit.author)),
            render.moment(hit.time),
            Text(one_line(hit.snippet)),
        )
    render.screen().print(made)
