"""The command that finds turns: search."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trails import validate
from trails.cli import columns
from trails.cli.base import (
    answer,
    as_of_option,
    command,
    end,
    is_as_of,
    json_option,
    one_of,
    open_store,
    page_options,
    paged,
    store_location,
    there_is_more,
    tsv_option,
)
from trails.cli.terminal import one_line
from trails.errors import InvalidInput

if TYPE_CHECKING:
    from trails.plumbing.index import alone
    from trails.plumbing.search import Hit

FIELDS: Final = ("session", "index", "role", "author", "time", "digest", "tools", "snippet")
"""The columns of tab-separated values."""
_INDENT: Final = "    "


@command("search", pager=True)
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--tool", metavar="NAME", help="Only turns that call this tool; TEXT may be in the arguments too.")
@click.option("--session", metavar="SESSION", help="Only the transcript of this session.")
@click.option("--role", metavar="ROLE", help="Only turns in this role.")
@click.option("--author", metavar="NAME", help="Only turns by this principal or agent; agent:NAME for an agent.")
@page_options()
@tsv_option
@as_of_option
@json_option
def search(
    *,
    text: str | None,
    tool: str | None,
    session: str | None,
    role: str | None,
    author: str | None,
    limit: int,
    page: int,
    cursor: str | None,
    as_tsv: bool,
    as_json: bool,
) -> None:
    """Find turns by text, tool, role or author, newest first.

    TEXT is looked for as it is, upper and lower case alike (and "ß" as "ss"), in what was said and in the arguments of tool
    calls. A turn that was copied is found once. A hit takes two lines: the session that owns the turn, the turn's index, who
    spoke and when; and what stands around the text. The exit code is 1 where nothing is found, as grep's is.
    """
    one_of(as_tsv, as_json)
    looks = functools.partial(_draw_hits, text=text)
    is_plain = not (is_as_of() or as_tsv or as_json or session or author or cursor or page > 1)
    at_once = _at_once(text, tool, role, limit) if is_plain else None
    if at_once is not None:
        hits, after = at_once
        found: Sequence[Hit] | None = None
    else:
        with open_store(reading=True) as store:
            session_id = None if session is None else store.resolve(session)
            asked: dict[str, Any] = {
                "tool": tool,
                "session": session_id,
                "role": role,
                "author": author,
                "limit": limit,
            }
            found = paged(lambda each: store.search(text, **asked, cursor=each), page, cursor)
            after = found.cursor
    options = {"tool": tool, "session": session, "role": role, "author": author}
    more = there_is_more(after, "search", text, **options, limit=None if limit == 50 else str(limit))
    if found is None:
        answer(None, hits, looks, empty="nothing found", said=more, as_json=False)
    elif as_tsv:
        columns.tsv(FIELDS, ([each[name] for name in FIELDS] for each in map(_plain, found)))
    else:
        answer({"turns": found, "cursor": after}, found, looks, empty="nothing found", said=more, as_json=as_json)
    if not (hits if found is None else found):
        end(1)


def _at_once(
    text: str | None, tool: str | None, role: str | None, limit: int
) -> tuple[Sequence[alone.Hit], str | None] | None:
    """Return the first page without opening the store; None where it must be opened, to know for sure or to say what is wrong."""
    from trails.plumbing.index import alone

    try:
        for given, name, check in ((text, "the text", validate.text), (tool, "a tool's name", validate.name)):
            if given is not None and not check(given, name):
                return None
        if role is not None:
            validate.role(role)
    except InvalidInput:
        return None
    if text is None and tool is None and role is None:
        return None
    file = alone.texts_of(Path(store_location() or ""))
    wanted = alone.Wanted(text, tool, role)
    return None if file is None else alone.asked(file, lambda told: alone.hits(told, wanted, limit, None))


def _plain(hit: Hit) -> dict[str, Any]:
    return hit.to_dict() | {"tools": " ".join(hit.tools)}


def _draw_hits(hits: Sequence[Hit | alone.Hit], text: str | None) -> None:
    from trails.plumbing.index.moments import moment as moment_of

    width, colours = columns.room(), columns.coloured()
    for hit in hits:
        time = moment_of(hit.time) if isinstance(hit.time, int) else hit.time
        moment = "-" if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
        facts = [hit.role, moment, one_line(hit.author), *(f"calls {one_line(tool)}" for tool in hit.tools)]
        head = f"{one_line(hit.session_id)}  {hit.index}"
        rest = columns.fitted(" · ".join(facts), max(1, width - columns.width_of(head) - 2))
        shown = columns.painted(one_line(hit.session_id), "cyan", colours=colours)
        index = columns.painted(str(hit.index), "bold", colours=colours)
        columns.put(f"{shown}  {index}  {columns.painted(rest, 'dim', colours=colours)}")
        columns.put(_INDENT + highlighted(hit.snippet, text, width - len(_INDENT), colours=colours))


def highlighted(snippet: str, text: str | None, width: int, *, colours: bool) -> str:
    """Return one line of a snippet around the first place where a text stands in it, each such place in colour.

    >>> highlighted("We went to the Alps by train", "alps", 16, colours=False)
    '…the Alps by t…'
    """
    line = one_line(snippet)
    wanted = re.compile(re.escape(one_line(text or "")) or r"(?!)", re.IGNORECASE)
    first = wanted.search(line)
    if columns.width_of(line) > width:
        start, end = first.span() if first else (0, 0)
        line = _window(line, start, end, width)
    return wanted.sub(lambda found: columns.painted(found[0], "bold red", colours=colours), line)


def _window(line: str, start: int, end: int, width: int) -> str:
    """Return the part of a line that has what stands between two places in its middle, with ellipses where it was cut."""
    left, right = start, min(end, start + width)
    taken = columns.width_of(line[left:right]) + 2
    while taken < width and (left > 0 or right < len(line)):
        if left > 0 and (right >= len(line) or start - left <= right - end):
            left -= 1
            taken += columns.width_of(line[left])
        else:
            right += 1
            taken += columns.width_of(line[right - 1])
    before, after = "…" if left > 0 else "", "…" if right < len(line) else ""
    return columns.fitted(f"{before}{line[left:right].strip()}{after}", width)
