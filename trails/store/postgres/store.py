"""Opening the store behind `postgresql://...`, with this machine's copy of its log."""

from __future__ import annotations

import logging
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from trails.errors import StoreFailed
from trails.store.embedded import EmbeddedStore
from trails.store.log import sqlite
from trails.store.log.sqlite import SqliteHome
from trails.store.postgres import address
from trails.store.postgres.log import PostgresLog, folder_of
from trails.store.postgres.server import Server

_report: Final = logging.getLogger("trails")


def open_store(location: str, *, create: bool = False, is_read_only: bool = False) -> EmbeddedStore:
    """Open the store that a URL names, and bring in what is in the log.

    If it `is_read_only`, nothing is written to the database but, if that is allowed, who has this index.

    Raises `InvalidInput` if there is no such store and `create` is False, `StoreFailed` if the server is away.
    """
    server = Server(address.parse(location))
    try:
        if create:
            server.make()
        head = server.find()
        server.say_in_use()
        folder = folder_of(server.id)
        home = _copy(server, folder)
        log = PostgresLog(server, home, folder, is_read_only=is_read_only)
    except BaseException:
        server.close()
        raise
    store = EmbeddedStore(folder, durability="process", commits=log)
    try:
        log.register(store)
        store.sync()
        if head.due and not is_read_only:  # a process ended between an erasure and the end of it
            with suppress(StoreFailed):  # whoever may only read, or append, cannot; `doctor` tells of it
                log.finish_erasures(store)
    except BaseException:
        store.close()
        raise
    return store


def _copy(server: Server, folder: Path) -> SqliteHome:
    """Return this machine's copy of a log; one that is damaged, or of another history, is deleted and begun anew."""
    for _ in range(2):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            home = SqliteHome(folder / sqlite.NAME, create=True, is_synced=False)
        except OSError as error:
            raise StoreFailed(
                f"no copy of the log can be made at {folder} ({error}); make room, or set XDG_CACHE_HOME"
            ) from error
        except StoreFailed:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        head = home.head()
        there = server.digest(head.number)
        if there == head.digest:
            return home
        home.close()
        shutil.rmtree(folder, ignore_errors=True)
        has = "has no such record" if there is None else f"has {there.hex()[:16]} there"
        _report.warning(
            "the log of %s has another history than this machine saw: record %d had the digest %s here, and the log %s (a "
            "standby that lagged was promoted, or a backup restored); its copy here was deleted and is made anew",
            server.address.shown,
            head.number,
            head.digest.hex()[:16],
            has,
        )
    return SqliteHome(folder / sqlite.NAME, create=True, is_synced=False)
