"""The command that shows a store on the whole terminal: tui."""

from __future__ import annotations

import sys

import trails
from trails.cli import options as cli
from trails.errors import InvalidInput


@cli.command("tui", json=False, by=True)
def tui() -> None:
    """Browse, read, follow, compare and fork on the whole terminal.

    The list shows sessions newest first: type / and a text to filter it, Enter to open one, Space to mark two, d for what
    differs between them, c to compare them with their forks, r to read again. In a transcript new turns appear as they are
    stored; Enter shows all of a turn, g and G go to the first and the latest, f forks behind the turn. Escape goes back, q
    leaves. The store is only read, until you fork.
    """
    try:
        from trails.cli.tui import TrailsApp
    except ModuleNotFoundError as error:
        raise InvalidInput('what the terminal view needs is not installed: pip install "trails[tui]"') from error

    if not all(each is not None and each.isatty() for each in (sys.stdin, sys.stdout)):
        cli.refuse("this needs a terminal for stdin and stdout; `trails list` and `trails show` print what it shows")
    with cli.open_store(reading=True) as store:
        place, actor, keys = cli.store_location() or "", *cli.acting()

        def fork(session: str, at: int, label: str | None) -> str:
            """Fork as the store's owner: through the handle that is open if it may write, else through one of its own."""
            if not store.read_only:
                return _fork(store, session, at, label)
            with trails.open(place, actor=actor, keys=keys) as opened:
                return _fork(opened, session, at, label)

        TrailsApp(store, fork).run(mouse=False)


def _fork(store: trails.Repository, session: str, at: int, label: str | None) -> str:
    made = store.load(session).fork(at, label=label)
    made.persist()
    return made.id
