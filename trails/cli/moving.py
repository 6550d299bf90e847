"""Commands that bring sessions, and whole stores, from one place to another: push, pull, copy, discard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from trails.cli.base import (
    Named,
    answer,
    by_option,
    command,
    end,
    json_option,
    note,
    open_at,
    open_store,
    refuse,
)
from trails.cli.terminal import count

if TYPE_CHECKING:
    from trails import Moved, MovedSession, Repository

_sessions = click.argument("sessions", metavar="SESSION...", nargs=-1, type=Named("session"))
_OPTIONS: Final = (
    click.option("--all", "every", is_flag=True, help="All sessions."),
    click.option("--restore", is_flag=True, help="Let sessions come back that were deleted where they go."),
    click.option("--dry-run", is_flag=True, help="Say what would happen, and write nothing."),
)


def _moving(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return _sessions(function)


@command("push")
@_moving
@click.option("--to", "other", metavar="STORE", required=True, help="The store that they go to.")
@click.option("--create", is_flag=True, help="Create that store if it is not there.")
@by_option
@json_option
def push(
    sessions: tuple[str, ...], *, every: bool, restore: bool, dry_run: bool, other: str, create: bool, as_json: bool
) -> None:
    """Bring sessions, and what they inherit, into another store.

    SESSION is an id, an IRI or a label. What is the beginning of ours there goes on; where both went on, our tail becomes a
    fork there. Nothing is overwritten, and pushing again adds nothing. Turns that were redacted on either side are redacted
    there. The exit code is 1 where something that was asked for could not go.
    """
    import trails

    with open_store(reading=True, recorded=True) as store, open_at(other, create=create, reading=dry_run) as there:
        done = trails.push(store, _named(store, sessions, every=every), there, restore=restore, dry_run=dry_run)
    _tell(done, as_json=as_json)


@command("pull")
@_moving
@click.option("--from", "other", metavar="STORE", required=True, help="The store that they come from.")
@click.option("--create", is_flag=True, help="Create the store that they come into if it is not there.")
@by_option
@json_option
def pull(
    sessions: tuple[str, ...], *, every: bool, restore: bool, dry_run: bool, other: str, create: bool, as_json: bool
) -> None:
    """Bring sessions, and what they inherit, from another store.

    SESSION is an id, an IRI or a label there. All else is as with `trails push`, from there to here.
    """
    import trails

    with open_at(other, reading=True, recorded=True) as there, open_store(create=create, reading=dry_run) as store:
        done = trails.pull(store, _named(there, sessions, every=every), there, restore=restore, dry_run=dry_run)
    _tell(done, as_json=as_json)


def _named(store: Repository, sessions: Sequence[str], *, every: bool) -> list[str]:
    if every and sessions:
        refuse("--all is all sessions; give it, or name some")
    if not every and not sessions:
        refuse("name the sessions, or give --all")
    return store.reader.ids() if every else list(sessions)


@click.command("copy")
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@json_option
def copy(source: str, destination: str, *, as_json: bool) -> None:
    """Copy a whole store, log and all, to a new place or a dump.

    SRC and DST are stores or, one of them, the file of a dump (.nq or .nq.gz). The copy is read back and verified before it
    counts; cut short, it is refused wherever it is opened, and the same command goes on with it.
    """
    from trails.cli import render
    from trails.moving import copying

    with render.progress("copying") as progress:
        done = copying.copy(source, destination, progress=progress)
    answer(done, f"{done.quads:,} quads, sha256 {done.sha256}", click.echo, as_json=as_json)
    if not as_json:
        log = f"{count(done.log_lines, 'line')} of its log" if done.log_root else "no log, which a dump may lack"
        what = f"{done.source} was copied to {done.destination} with {log}"
        note(what if done.written else f"{done.destination} was there already, whole and equal")


@click.command("discard")
@click.argument("place", metavar="URL")
@json_option
def discard_copy(place: str, *, as_json: bool) -> None:
    """Remove a copy in PostgreSQL that was not finished.

    URL is what `trails copy` was given. A store of which the copy was finished, or that was made otherwise, is never removed.
    """
    from trails.moving.discarding import discard

    done = discard(place)
    answer(done, f"{done.commits:,} commits", click.echo, as_json=as_json)
    if not as_json:
        note(f"{done.location} was a copy that was not finished, and is there no more")


_SAID: Final = {
    "created": "new there",
    "forwarded": "went on there",
    "unchanged": "nothing to do",
    "behind": "nothing to do, the other side has more",
    "deleted": "was deleted there; --restore brings it back",
    "refused": "did not go",
}


def _tell(done: Moved, *, as_json: bool) -> None:
    answer(done, done.sessions, _draw, empty="there are no sessions", as_json=as_json)
    if not as_json:
        added = sum(each.turns_added for each in done.sessions)
        said = f"would bring {count(added, 'turn')}" if done.dry_run else f"brought {count(added, 'turn')}"
        note(f"{said} from {done.source} to {done.target}")
    if not done.ok:
        end(1)


def _draw(sessions: Iterable[MovedSession]) -> None:
    from trails.cli.terminal import one_line

    for each in sessions:
        said = _SAID.get(each.outcome, "")
        if each.outcome == "forked":
            said = f"both went on from index {each.at}: the tail is a fork there, {each.there}"
            if each.at is None:
                said = f"both went on: it stands there as {each.there}"
        elif each.there != each.session_id and each.outcome in ("unchanged", "forwarded"):
            said = f"{said}, as {each.there}"
        turns = f"{each.turns_added:>6} {'turn' if each.turns_added == 1 else 'turns'}"
        click.echo(one_line(f"{turns:<13} {each.session_id}  {said}"))
        if each.redacted:
            click.echo(one_line(f"{'':<13} redacted there: {', '.join(map(str, each.redacted))}"))
        for what in each.said:
            note(what)
