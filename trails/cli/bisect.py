"""The command that finds the turn with which an outcome flips: bisect."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from trails.cli.base import answer, command, end, json_option, note, open_store, refuse
from trails.cli.terminal import count

if TYPE_CHECKING:
    from trails.model import Turn
    from trails.session.bisect import Bisection

_SKIP: Final = 125
_STOP: Final = 128
"""From this exit code on, or where a signal ended it, a command stops the bisection, as with `git bisect run`."""


@command("bisect")
@click.argument("ref", metavar="REF")
@click.argument("run", metavar="-- COMMAND", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--good", type=click.IntRange(min=0), default=0, show_default=True, help="So many turns are good.")
@click.option("--bad", type=click.IntRange(min=1), metavar="INTEGER", help="So many turns are bad; default: all.")
@json_option
def bisect_turns(*, ref: str, run: tuple[str, ...], good: int, bad: int | None, as_json: bool) -> None:
    """Find the turn with which an outcome flips from good to bad.

    A command is run on beginnings of the transcript. REF is a session (an id, an IRI or a label), a tag, or such a name
    with @ and how many turns of it. COMMAND gets the first turns on stdin, a JSON object a line. It ends with 0 where
    they are good, with 125 where it cannot tell, and with any other code below 128 where they are bad; anything else
    stops, as with `git bisect run`. What it prints goes to stderr.
    """
    from trails.plumbing import refs
    from trails.session.bisect import bisect

    with open_store(reading=True) as store:
        place = refs.place(store.workspace, ref)
        turns = store.load(place.session_id).turns[: place.end]
    # the store is closed here: the command may use it

    def is_good(prefix: Sequence[Turn]) -> bool | None:
        verdict = _run(run, prefix)
        said = {True: "good", False: "bad", None: "cannot be told"}[verdict]
        note(f"the first {count(len(prefix), 'turn')}: {said}")
        return verdict

    found = bisect(turns, is_good, good=good, bad=len(turns) if bad is None else bad)
    answer(
        {"session": place.session_id} | found.to_dict(),
        found,
        lambda found: _draw(place.session_id, found),
        as_json=as_json,
    )
    if found.turn is None:
        note("which of these it is cannot be told: the turns between were skipped")
        end(1)


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


def _draw(session_id: str, found: Bisection) -> None:
    from trails.cli import render

    render.transcript(render.screen(), session_id, found.candidates, full=False)
