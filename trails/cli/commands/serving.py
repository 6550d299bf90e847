"""The command that serves a store to models: mcp."""

from __future__ import annotations

import click

from trails.cli import options as cli
from trails.errors import InvalidInput


def _address(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Return a host and a port, as `8000`, `127.0.0.1:8000` or `[::1]:8000` say them."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise click.BadParameter(f"{value!r} is no port and no HOST:PORT, such as 8000 or 127.0.0.1:8000")
    return host.strip("[]") or "127.0.0.1", int(port)


@cli.command("mcp", json=False, by=True)
@click.argument("place", metavar="[STORE]", required=False)
@cli.option("--write", "Offer the tools that add sessions, turns, forks, notes, tags and scores.")
@cli.option(
    "--http [HOST:]PORT",
    "Serve over HTTP at this address of this machine, not over stdin and stdout.",
    callback=_address,
)
def mcp(*, place: str | None, write: bool, http: tuple[str, int] | None) -> None:
    """Serve a store to models over the Model Context Protocol (MCP).

    STORE is a folder or an address, by default that of --store or TRAILS_STORE. Without --http, a client starts this command
    and speaks to it over stdin and stdout; with it, any number of clients speak to http://HOST:PORT/mcp, from this machine
    alone: there is no login. Tools list, read, search, compare and query; each says its limits, and an answer that is not
    whole says so. Without --write nothing can be written. `trails guide mcp` has the settings for clients.
    """
    try:
        from trails.adapters import mcp as adapter
    except ModuleNotFoundError as error:
        raise InvalidInput('the SDK of the protocol is not installed: pip install "trails[mcp]"') from error
    store = cli.open_at(place, reading=not write) if place else cli.open_store(reading=not write)
    with store:
        if http is None:
            adapter.run_stdio(store, write=write)
        else:
            adapter.run_http(store, *http, write=write)
