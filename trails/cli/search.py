"""Commands that find turns and where they come from: search, blame, bisect."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from trails.cli.base import command, json_option, note, open_store, print_json, refuse
from trails.cli.terminal import clean, count, one_line, shorten

if TYPE_CHECKING:
    from trails.model import Turn
    from trails.plumbing.search import Hit
    from trails.session.bisect import Bisection
    from trails.session.blame import Blame

_SKIP: Final = 125
_STOP: Final = 128
"""From this exit code on, or where a signal ended it, a command stops the bisection, as with `git bisect run`."""
_TEXT: Final = 60


@command("search")
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--tool", metavar="NAME", help="Only turns that call this tool; TEXT may be in the arguments too.")
@click.option("--session", metavar="SESSION", help="Only the transcript of this session.")
@click.option("--role", metavar="ROLE", help="Only turns in this role.")
@click.option("--author", metavar="NAME", help="Only turns by this principal or agent; agent:NAME for an agent.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most.")
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
    that was copied is found once.
    """
    with open_store() as store:
        session_id = None if session is None else store.resolve(session)
        page = store.search(text, tool=tool, session=session_id, role=role, author=author, limit=limit, cursor=cursor)
    if as_json:
        print_json({"turns": [hit.to_dict() for hit in page], "cursor": page.cursor})
        return
    if page:
        _hit_table(page)
    else:
        note("nothing found")
    if page.cursor:
        options = {"--tool": tool, "--session": session, "--role": role, "--author": author}
        options["--limit"] = None if limit == 50 else str(limit)
        given = [shlex.quote(text)] if text is not None else []
        given += [f"{name} {shlex.quote(value)}" for name, value in options.items() if value]
        note(f"there is more: trails search {' '.join([*given, '--cursor', shlex.quote(page.cursor)])}")


def _hit_table(hits: Sequence[Hit]) -> None:
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


@command("blame")
@click.argument("ref", metavar="REF")
@click.option("--range", "turns", metavar="TURNS", help="Only these turns: an index (3) or a range (2:5).")
@json_option
def blame(ref: str, turns: str | None, as_json: bool) -> None:
    """Say of each turn of a transcript which session it comes from, for whom, and who wrote it.

    REF is a session (an id, an IRI or a label), a tag, or such a name with @ and how many turns of it. The column "from"
    names the session that a copied turn was first written in, and the turn that a cherry-picked one repeats.
    """
    from trails.cli import ranges
    from trails.plumbing import refs

    with open_store() as store:
        place = refs.place(store, ref)
        loaded = store.load(place.session_id)
        end = len(loaded) if place.end is None else place.end
        wanted = range(end) if turns is None else ranges.indexes(turns, end)
        chosen = set(wanted)
        found = [each for each in loaded.blame(0, end) if each.index in chosen]
        texts = {index: _text(loaded.turns[index]) for index in wanted}
    if as_json:
        print_json({"session": loaded.id, "turns": [each.to_dict() for each in found]})
    elif found:
        _blame_table(found, texts)
    else:
        note("there are no turns")


def _text(turn: Turn) -> str:
    from trails import parts

    return "(redacted)" if turn.redacted else shorten(parts.plain_text(turn.content), _TEXT)


def _blame_table(found: Sequence[Blame], texts: dict[int, str]) -> None:
    from rich.text import Text

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
    made = render.table(*shown, fold=("text", "from"), right=("turn",))
    for cells in zip(*shown.values(), strict=True):
        made.add_row(*(Text(clean(cell)) for cell in cells))
    render.screen().print(made)


def _origin(each: Blame) -> str:
    quote = each.quoted_from
    named = [each.copied_from or "", f"{quote.session_id}@{quote.index}" if quote else ""]
    return ", ".join(filter(None, named))


@command("bisect")
@click.argument("ref", metavar="REF")
@click.argument("run", metavar="-- COMMAND", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--good", type=click.IntRange(min=0), default=0, show_default=True, help="So many turns are good.")
@click.option("--bad", type=click.IntRange(min=1), metavar="INTEGER", help="So many turns are bad; default: all.")
@json_option
def bisect(*, ref: str, run: tuple[str, ...], good: int, bad: int | None, as_json: bool) -> None:
    """Find the turn with which an outcome flips from good to bad, by running a command on beginnings of a transcript.

    REF is a session (an id, an IRI or a label), a tag, or such a name with @ and how many turns of it. COMMAND gets the
    first turns on stdin, a JSON object a line. It ends with 0 where they are good, with 125 where it cannot tell, and
    with any other code below 128 where they are bad; anything else stops, as with `git bisect run`. What it prints goes
    to stderr.
    """
    from trails.plumbing import refs
    from trails.session.bisect import bisect as search_flip

    with open_store() as store:
        place = refs.place(store, ref)
        turns = store.load(place.session_id).turns[: place.end]
    # the store is closed here: the command may use it

    def is_good(prefix: Sequence[Turn]) -> bool | None:
        answer = _run(run, prefix)
        said = {True: "good", False: "bad", None: "cannot be told"}[answer]
        note(f"the first {count(len(prefix), 'turn')}: {said}")
        return answer

    found = search_flip(turns, is_good, good=good, bad=len(turns) if bad is None else bad)
    if as_json:
        print_json({"session": place.session_id, **found.to_dict()})
    else:
        _verdict(place.session_id, found)
    if found.turn is None:
        note("which of these it is cannot be told: the turns between were skipped")
        click.get_current_context().exit(1)


def _run(run: Sequence[str], prefix: Sequence[Turn]) -> bool | None:
    """Run a command on the first turns of a transcript; return whether it found them good, or None for a skip."""
    lines = "".join(f"{json.dumps(turn.to_dict(), ensure_ascii=False)}\n" for turn in prefix)
    try:
        code = subprocess.run(run, input=lines.encode(), stdout=2, check=False).returncode  # noqa: S603 - what was asked for
    except OSError as error:
        refuse(f"{run[0]!r} cannot be run: {error.strerror or error}")
    if code < 0 or code >= _STOP:
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise click.ClickException(f"{shlex.join(run)} ended with {ended} on {count(len(prefix), 'turn')}; stopped")
    return None if code == _SKIP else code == 0


def _verdict(session_id: str, found: Bisection) -> None:
    from trails.cli import render

    render.transcript(render.screen(), session_id, found.candidates, full=False)
