"""Commands that move sessions between stores: push, pull, copy, discard, mirror."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import click

import trails
from trails.cli import options as cli
from trails.display.terminal_text import count, one_line
from trails.errors import MirrorFailed

_moving = cli.options(
    click.argument("sessions", metavar="SESSION...", nargs=-1, type=cli.Named("session")),
    cli.option("--all", "All sessions.", name="every"),
    cli.option("--restore", "Let sessions come back that were deleted where they go."),
    cli.option("--dry-run", "Say what would happen, and write nothing."),
)


@cli.command("push", by=True)
@_moving
@cli.option("--to STORE", "The store that they go to.", name="other", required=True)
@cli.option("--create", "Create that store if it is not there.")
def push(sessions: tuple[str, ...], *, every: bool, dry_run: bool, other: str, create: bool, **how: Any) -> None:
    """Bring sessions, and what they inherit, into another store.

    SESSION is an id, an IRI or a label. What is the beginning of ours there goes on; where both went on, our tail becomes a
    fork there. Nothing is overwritten, and pushing again adds nothing. Turns that were redacted on either side are redacted
    there. The exit code is 1 where something that was asked for could not go.
    """

    with (
        cli.open_store(reading=True, recorded=True) as store,
        cli.open_at(other, create=create, reading=dry_run) as there,
    ):
        done = trails.push(store, _named(store, sessions, every=every), there, dry_run=dry_run, **how)
    _tell(done)


@cli.command("pull", by=True)
@_moving
@cli.option("--from STORE", "The store that they come from.", name="other", required=True)
@cli.option("--create", "Create the store that they come into if it is not there.")
def pull(sessions: tuple[str, ...], *, every: bool, dry_run: bool, other: str, create: bool, **how: Any) -> None:
    """Bring sessions, and what they inherit, from another store.

    SESSION is an id, an IRI or a label there. All else is as with `trails push`, from there to here.
    """

    with (
        cli.open_at(other, reading=True, recorded=True) as there,
        cli.open_store(create=create, reading=dry_run) as store,
    ):
        done = trails.pull(store, _named(there, sessions, every=every), there, dry_run=dry_run, **how)
    _tell(done)


def _named(store: trails.Repository, sessions: Sequence[str], *, every: bool) -> list[str]:
    if every and sessions:
        cli.refuse("--all is all sessions; give it, or name some")
    if not every and not sessions:
        cli.refuse("name the sessions, or give --all")
    return store.reader.ids() if every else list(sessions)


@cli.command("copy", store=False)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
def copy(source: str, destination: str) -> None:
    """Copy a whole store, log and all, to a new place or a dump.

    SRC and DST are stores or, one of them, the file of a dump (.nq or .nq.gz). The copy is read back and verified before it
    counts; cut short, it is refused wherever it is opened, and the same command goes on with it.
    """
    from trails.exchange.remotes import store_copy
    from trails.history import import_records

    if import_records.reads_are_recorded() and store_copy.is_store(source):
        with cli.open_at(source, reading=True):  # puts on record that the whole store is read
            pass
    with cli.view.progress("copying") as progress:
        done = store_copy.copy_store(source, destination, progress=progress)
    cli.answer(done, f"{done.quads:,} quads, sha256 {done.sha256}")
    if not cli.as_json():
        log = f"{count(done.log_lines, 'line')} of its log" if done.log_root else "no log, which a dump may lack"
        what = f"{done.source} was copied to {done.destination} with {log}"
        cli.note(what if done.written else f"{done.destination} was there already, whole and equal")


@cli.command("discard", store=False)
@click.argument("place", metavar="URL")
def discard_copy(place: str) -> None:
    """Remove a copy in PostgreSQL that was not finished.

    URL is what `trails copy` was given. A store of which the copy was finished, or that was made otherwise, is never removed.
    """
    from trails.exchange.remotes.store_copy import discard_copy

    done = discard_copy(place)
    cli.answer(done, f"{done.commits:,} commits")
    if not cli.as_json():
        cli.note(f"{done.location} was a copy that was not finished, and is there no more")


_SAID: Final = {
    "created": "new there",
    "forwarded": "went on there",
    "unchanged": "nothing to do",
    "behind": "nothing to do, the other side has more",
    "deleted": "was deleted there; --restore brings it back",
    "refused": "did not go",
}


def _tell(done: trails.Moved) -> None:
    cli.answer(done, done.sessions, _draw, empty="there are no sessions")
    if not cli.as_json():
        added = sum(each.turns_added for each in done.sessions)
        said = f"would bring {count(added, 'turn')}" if done.dry_run else f"brought {count(added, 'turn')}"
        cli.note(f"{said} from {done.source} to {done.target}")
    if not done.ok:
        cli.end(1)


def _draw(sessions: Iterable[trails.MovedSession]) -> None:

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
            cli.note(what)


_KINDS: Final = ("oxigraph", "virtuoso", "fuseki", "graphdb", "neptune", "stardog", "rdfox", "qlever", "other")
_LONGEST_WAIT: Final = 60.0


@cli.command("mirror")
@click.argument("source", metavar="STORE")
@click.argument("url", metavar="URL")
@cli.option("-f --follow", "Go on until interrupted, with what comes then.")
@cli.option("--interval", "Seconds from look to look.", type=click.FloatRange(min=0.05), default=0.5)
@cli.option("--server KIND", "The kind of server; default: what it calls itself.", type=click.Choice(_KINDS))
@cli.option("--update-url URL", "Where it takes updates; default: by its kind.")
@cli.option("--catalog", "Which graph has the catalogue.", name="catalogue", type=click.Choice(["default", "named"]))
@cli.option("--anew", "Take out first what is there of a store.")
def mirror(*, source: str, url: str, follow: bool, interval: float, **given: Any) -> None:
    """Keep what a store holds in a SPARQL 1.1 server.

    STORE is a folder or an address of PostgreSQL, URL the server's, such as http://localhost:7878. Run again, it goes on
    where it was, which the mirror itself knows; with -f it follows the store, also while others write to it, and when the
    server is away it tries again. Redactions and deletions reach the mirror. A name and a password stand in URL, else in
    the environment's TRAILS_MIRROR_USER and TRAILS_MIRROR_PASSWORD. `trails verify --mirror URL` compares.
    """

    with cli.open_at(source, reading=True) as store:
        if follow:
            with suppress(KeyboardInterrupt):
                _follow(store, url, given, interval)
            return
        with cli.view.working("mirroring"):
            there = trails.Mirror(store, url, **given)
            done = there.sync()
    value = {"mirror": there.location, "server": there.kind} | _plain(done)
    cli.answer(value, _said(done, there))
    _note_references(done)


def _follow(store: trails.Repository, url: str, given: dict[str, Any], interval: float) -> None:
    from trails.exchange.remotes.mirror import Displaced
    from trails.exchange.remotes.mirror_endpoint import Away
    from trails.store.postgres.link import Unreachable

    there, wait = None, 1.0
    while True:
        try:
            there = trails.Mirror(store, url, **given)
            given["anew"] = False
            for done in there.follow(interval):
                wait = 1.0
                cli.print_json_line(_plain(done)) if cli.as_json() else click.echo(_said(done, there))
                _note_references(done)
        except Displaced:
            raise
        except (MirrorFailed, Unreachable) as error:
            if there is None and not isinstance(error, (Away, Unreachable)):
                raise
            cli.note(f"{error.message}; trying again in {wait:.0f} s")
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


def _plain(done: trails.Mirrored) -> dict[str, int]:
    return {name: getattr(done, name) for name in ("position", "sessions", "triples", "dropped", "references")}


def _said(done: trails.Mirrored, there: trails.Mirror) -> str:
    if not done.triples and not done.dropped:
        return f"nothing new: {there.location} has all {count(done.position, 'line')} of the log"
    gone = f", {count(done.dropped, 'graph')} gone" if done.dropped else ""
    sent = f"{count(done.triples, 'triple')} of {count(done.sessions, 'session')} sent{gone}"
    return f"{sent}: {there.location} has {count(done.position, 'line')} of the log"


def _note_references(done: trails.Mirrored) -> None:
    if done.references:
        cli.note(
            f"{count(done.references, 'literal')} cannot be held by that server: a reference (SHA-256, bytes) stands for each"
        )


def verify_mirror(store: trails.Repository, url: str) -> None:
    """Answer with how a mirror differs from its store; the exit code is 1 where it does."""
    from trails.exchange.remotes.mirror_comparison import compare_mirror
    from trails.exchange.remotes.mirror_endpoint import Endpoint

    with cli.view.working("comparing"):
        report = compare_mirror(store, Endpoint(url))
    lines = [
        f"{each.session or each.graph or 'the catalogue'}: lacks {count(each.missing, 'triple')}, has {each.beyond} beyond"
        for each in report.differences
    ]
    verdict = "the same" if report.ok else f"{count(len(lines), 'graph')} {'differs' if len(lines) == 1 else 'differ'}"
    said = "\n".join(
        [*lines, f"{verdict}: {count(report.triples, 'triple')} in {count(report.graphs, 'graph')} and the catalogue"]
    )
    cli.answer(report, said)
    if not report.ok:
        cli.end(1)
