"""`trails mirror`: what a store holds, kept in somebody's SPARQL server."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from trails.cli.base import answer, command, end, json_option, note, open_at
from trails.cli.terminal import count
from trails.errors import MirrorFailed

if TYPE_CHECKING:
    from trails import Mirror, Mirrored, Repository

_KINDS: Final = ("oxigraph", "virtuoso", "fuseki", "graphdb", "neptune", "stardog", "rdfox", "qlever", "other")
_LONGEST_WAIT: Final = 60.0


@command("mirror")
@click.argument("source", metavar="STORE")
@click.argument("url", metavar="URL")
@click.option("-f", "--follow", is_flag=True, help="Go on until interrupted, with what comes then.")
@click.option(
    "--interval", type=click.FloatRange(min=0.05), default=0.5, show_default=True, help="Seconds from look to look."
)
@click.option(
    "--server", type=click.Choice(_KINDS), metavar="KIND", help="The kind of server; default: what it calls itself."
)
@click.option("--update-url", metavar="URL", help="Where it takes updates; default: by its kind.")
@click.option("--catalog", type=click.Choice(["default", "named"]), help="Which graph has the catalogue.")
@click.option("--anew", is_flag=True, help="Take out first what is there of a store.")
@json_option
def mirror(
    *,
    source: str,
    url: str,
    follow: bool,
    interval: float,
    server: Any,
    update_url: str | None,
    catalog: Any,
    anew: bool,
    as_json: bool,
) -> None:
    """Keep what a store holds in a SPARQL 1.1 server.

    STORE is a folder or an address of PostgreSQL, URL the server's, such as http://localhost:7878. Run again, it goes on
    where it was, which the mirror itself knows; with -f it follows the store, also while others write to it, and when the
    server is away it tries again. Redactions and deletions reach the mirror. A name and a password stand in URL, else in
    the environment's TRAILS_MIRROR_USER and TRAILS_MIRROR_PASSWORD. `trails verify --mirror URL` compares.
    """
    from trails import Mirror
    from trails.cli import render

    given = {"server": server, "update_url": update_url, "catalogue": catalog}
    with open_at(source, reading=True) as store:
        if follow:
            with suppress(KeyboardInterrupt):
                _follow(store, url, given, anew=anew, interval=interval, as_json=as_json)
            return
        with render.working("mirroring"):
            there = Mirror(store, url, anew=anew, **given)
            done = there.sync()
    value = {"mirror": there.location, "server": there.kind} | _plain(done)
    answer(value, _said(done, there), click.echo, as_json=as_json)
    _note_references(done)


def _follow(store: Repository, url: str, given: dict[str, Any], *, anew: bool, interval: float, as_json: bool) -> None:
    from trails import Mirror
    from trails.mirrors.endpoint import Away
    from trails.mirrors.mirroring import Displaced
    from trails.store.postgres.server import Unreachable

    there, wait = None, 1.0
    while True:
        try:
            there = Mirror(store, url, anew=anew, **given)
            anew = False
            for done in there.follow(interval):
                wait = 1.0
                click.echo(json.dumps(_plain(done)) if as_json else _said(done, there))
                _note_references(done)
        except Displaced:
            raise
        except (MirrorFailed, Unreachable) as error:
            if there is None and not isinstance(error, (Away, Unreachable)):
                raise
            note(f"{error.message}; trying again in {wait:.0f} s")
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


def _plain(done: Mirrored) -> dict[str, int]:
    return {
        "position": done.position,
        "sessions": done.sessions,
        "triples": done.triples,
        "dropped": done.dropped,
        "references": done.references,
    }


def _said(done: Mirrored, there: Mirror) -> str:
    if not done.triples and not done.dropped:
        return f"nothing new: {there.location} has all {count(done.position, 'line')} of the log"
    gone = f", {count(done.dropped, 'graph')} gone" if done.dropped else ""
    sent = f"{count(done.triples, 'triple')} of {count(done.sessions, 'session')} sent{gone}"
    return f"{sent}: {there.location} has {count(done.position, 'line')} of the log"


def _note_references(done: Mirrored) -> None:
    if done.references:
        note(
            f"{count(done.references, 'literal')} cannot be held by that server: a reference (SHA-256, bytes) stands for each"
        )


def verify_mirror(store: Repository, url: str, *, as_json: bool) -> None:
    """Answer with how a mirror differs from its store; the exit code is 1 where it does."""
    from trails.cli import render
    from trails.mirrors.comparing import compare
    from trails.mirrors.endpoint import Endpoint

    with render.working("comparing"):
        report = compare(store, Endpoint(url))
    lines = [
        f"{each.session or each.graph or 'the catalogue'}: lacks {count(each.missing, 'triple')}, has {each.beyond} beyond"
        for each in report.differences
    ]
    verdict = "the same" if report.ok else f"{count(len(lines), 'graph')} {'differs' if len(lines) == 1 else 'differ'}"
    said = "\n".join(
        [*lines, f"{verdict}: {count(report.triples, 'triple')} in {count(report.graphs, 'graph')} and the catalogue"]
    )
    answer(report.to_dict(), said, click.echo, as_json=as_json)
    if not report.ok:
        end(1)
