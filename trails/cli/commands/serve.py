"""The command that serves a store over HTTP: serve."""

from __future__ import annotations

from pathlib import Path

import click

from trails.cli import options as cli
from trails.errors import InvalidInput

_MIB = 1 << 20


@cli.command("serve", json=False, by=True)
@click.argument("place", metavar="[STORE]", required=False)
@cli.option("--host ADDRESS", "Where it listens.", default="127.0.0.1")
@cli.option("-p --port PORT", "At which port; 0 takes a free one.", type=click.IntRange(0, 65_535), default=8420)
@cli.option("--create", "Create the store if there is none.")
@cli.option("--behind-proxy", "A proxy in front of it ends TLS.")
@cli.option("--tls-cert FILE", "The certificate chain, as PEM.", type=cli.EXISTING_FILE)
@cli.option("--tls-key FILE", "Its private key, as PEM.", type=cli.EXISTING_FILE)
@cli.option("--allowed-host NAME", "A name by which it is called; may be given again.", multiple=True, name="hosts")
@cli.option("--allowed-origin SITE", "Its pages may ask in SPARQL; may be given again.", multiple=True, name="origins")
@cli.option("--tokens FILE", "The file with the tokens; default: that in the store's folder.", type=cli.EXISTING_FILE)
@cli.option("--oidc FILE", "The issuer of OpenID Connect whose tokens count.", type=cli.EXISTING_FILE)
@cli.option("--max-body MIB", "Of a request's body, at most.", type=click.IntRange(1, 1024), default=16)
@cli.option("--query-timeout SECONDS", "What a query may take.", type=click.FloatRange(0.1, 3600), default=30.0)
@cli.option("--query-max-rows N", "Rows of an answer, at most.", type=click.IntRange(1), default=1_000_000)
@cli.option("--query-memory MIB", "Memory of a query, at most.", type=click.IntRange(16, 65_536), default=256)
@cli.option("--query-max-bytes N", "Bytes of an answer, at most.", type=click.IntRange(1024), default=256 * _MIB)
@cli.option("--query-workers N", "Queries at a time; others wait.", type=click.IntRange(1, 256), default=4)
@cli.option("--quiet", "Print no access log.")
def serve(
    *,
    place: str | None,
    host: str,
    port: int,
    create: bool,
    behind_proxy: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    tokens: Path | None,
    oidc: Path | None,
    max_body: int,
    query_timeout: float,
    query_max_rows: int,
    query_memory: int,
    query_max_bytes: int,
    query_workers: int,
    quiet: bool,
) -> None:
    """Serve a store over HTTP: an API, SPARQL, and a console.

    STORE is a folder or an address in PostgreSQL, by default that of --store or TRAILS_STORE. The API is described at
    /api (OpenAPI), and the console is at /. Without tokens, it serves this machine alone. It prints a line of JSON for each
    request. SIGTERM or Ctrl-C stops it: requests that have begun are answered, and what was acknowledged is stored.
    `trails guide serve` says more.
    """
    try:
        from trails.serve import server
        from trails.serve.access import check_start
        from trails.serve.service import Settings
        from trails.store.remote.channel import is_address as is_served
    except ModuleNotFoundError as error:
        raise InvalidInput('what the server needs is not installed: pip install "trails[serve]"') from error
    if (tls_cert is None) != (tls_key is None):
        raise InvalidInput("a certificate needs its key: give --tls-cert and --tls-key, or neither")
    settings = Settings(
        host=host,
        port=port,
        is_behind_proxy=behind_proxy,
        tls_cert=None if tls_cert is None else str(tls_cert),
        tls_key=None if tls_key is None else str(tls_key),
        has_tls=tls_cert is not None,
        allowed_hosts=hosts,
        allowed_origins=origins,
        tokens=tokens,
        oidc=oidc,
        max_body=max_body * _MIB,
        query_timeout=query_timeout,
        query_max_rows=query_max_rows,
        query_memory=query_memory,
        query_max_bytes=query_max_bytes,
        query_workers=query_workers,
        has_access_log=not quiet,
    )
    if is_served(place or cli.store_location() or ""):
        raise InvalidInput("a server is not served again: name the folder or the database whose store it has")
    store = cli.open_at(place, create=create) if place else cli.open_store(create=create)
    with store:
        check_start(settings, store.store.folder)
        server.run_server(
            store, settings, is_ready=lambda address: cli.note(f"serving {store.store.location} at {address}")
        )
