"""The command that opens a store's console in the browser: ui."""

from __future__ import annotations

import webbrowser
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from trails.cli import options as cli
from trails.errors import InvalidInput


@cli.command("ui", json=False, by=True)
@click.argument("place", metavar="[STORE]", required=False)
@cli.option("--no-browser", "Print the address alone; open nothing.")
@cli.option("-p --port PORT", "At which port; default a free one.", type=click.IntRange(0, 65_535), default=0)
def ui(*, place: str | None, no_browser: bool, port: int) -> None:
    """Open a store's console in the browser.

    STORE is a folder or an address in PostgreSQL, by default that of --store or TRAILS_STORE. The console is served to this
    machine alone, until Ctrl-C. The address that is printed signs in once, within five minutes.
    """
    try:
        from trails.serve.ui import run_console
    except ModuleNotFoundError as error:
        raise InvalidInput('what the console needs is not installed: pip install "trails[serve]"') from error

    with (
        cli.open_at(place) if place else cli.open_store() as store,
        TemporaryDirectory(prefix="trails-ui-") as folder,
    ):

        def show(link: str) -> None:
            click.echo(link)
            if not no_browser and not webbrowser.open(_page(Path(folder), link)):
                cli.note("no browser could be started: open the address above")

        run_console(store, port, show)


def _page(folder: Path, link: str) -> str:
    """Return the address of a page that leads to a link: whoever is on this machine sees what a browser is started with."""
    page = folder / "console.html"
    page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(link)}">', "utf-8")
    return page.as_uri()
