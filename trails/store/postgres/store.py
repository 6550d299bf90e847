"""Opening the store behind `postgresql://...`: an index of its log, from the cache of this machine or a new one."""

from __future__ import annotations

import io
import logging
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from trails.errors import InvalidInput, StoreFailed, StoreLocked
from trails.store.embedded import EmbeddedStore
from trails.store.postgres import address, cache
from trails.store.postgres.log import PostgresLog, discard, diverged
from trails.store.postgres.server import Head, Server
from trails.store.postgres.snapshots import Unpacking, digest_of

_report: Final = logging.getLogger("trails")
_Opened = tuple[EmbeddedStore, PostgresLog]


def open_store(location: str, *, create: bool = False, is_read_only: bool = False) -> EmbeddedStore:
    """Open the store that a URL names, with an index from the cache or a new one, and bring in what is in the log.

    Where it `is_read_only`, nothing is written to the database but, where that may be, who has this index.

    Raises `InvalidInput` where there is no such store and `create` is False, `StoreFailed` where the server is away.
    """
    server = Server(address.parse(location))
    try:
        if create:
            server.make()
        head = server.find()
        server.say_in_use()
        opening = _Opening(server, head, is_read_only)
        store, log = _of_cache(opening) or _of_snapshot(opening)
    except BaseException:
        server.close()
        raise
    try:
        store.log.source = partial(log.trouble, store)
        log.register(store)
        store.sync()
        if head.due and not is_read_only:  # a process ended between an erasure and the end of it
            with suppress(StoreFailed):  # whoever may only read, or append, cannot; `doctor` tells of it
                log.finish_erasures(store)
    except BaseException:
        store.close()
        raise
    return store


class _Opening(NamedTuple):
    """A store that is just being opened."""

    server: Server
    head: Head
    is_read_only: bool

    def on(self, folder: Path) -> _Opened:
        """Open the index in a folder."""
        log = PostgresLog(self.server, folder, is_read_only=self.is_read_only)
        return EmbeddedStore(folder, durability="process", commits=log), log


def _of_cache(opening: _Opening) -> _Opened | None:
    """Return the store on an index that an earlier process left, where it says what the log says."""
    server, head = opening.server, opening.head
    for folder in cache.found(server.id):
        try:
            store, log = opening.on(folder)
        except StoreLocked:
            continue  # another process has it
        except InvalidInput:
            if cache.place(folder) is not None:
                raise
            continue  # another process has just thrown it away
        except StoreFailed:
            discard(server, folder)
            continue
        place = cache.place(folder)
        own = None if place is None else place.digest(store.number)
        if place is not None and own is not None and place.erased >= head.erased:
            there = server.digest(store.number)
            if there == own:
                log.stands_at(store, own, place.erased, place.erased_at)
                return store, log
            _report.warning(
                "%s; its index was thrown away and is made anew", diverged(server, store.number, own, there)
            )
        log.throw_away(store)
    return None


def _of_snapshot(opening: _Opening) -> _Opened:
    _pass_over_ahead(opening)
    number, parts = opening.server.snapshot()
    try:
        return _made_of(opening, number, parts)
    except (zlib.error, ValueError, SyntaxError):  # a snapshot only saves time: the records say all that it does
        _report.warning(
            "the snapshot of %s as of record %d is of another log, was altered or is cut off; all records are read instead",
            opening.server.address.shown,
            number,
        )
        return _made_of(opening, 0, [])


def _pass_over_ahead(opening: _Opening) -> None:
    """Say that a snapshot is ahead of the log's end, and take it out where that may be: else the log would grow up to it."""
    server = opening.server
    ahead, end = server.snapshot_ahead()
    if ahead:
        _report.warning(
            "the database has a snapshot of %s as of record %d, and the log ends with record %d: it is of another log (tables "
            "were restored from different moments?); it is passed over, and what the log says holds",
            server.address.shown,
            ahead,
            end,
        )
        if not opening.is_read_only:
            with suppress(StoreFailed):  # whoever may only read cannot
                server.drop_snapshots_ahead()


def _made_of(opening: _Opening, number: int, parts: Sequence[bytes]) -> _Opened:
    server, head = opening.server, opening.head
    digest = server.digest(number)
    if digest is None:
        raise StoreFailed(
            f"the log of {server.address.shown} lacks record {number}, of which it has a snapshot; restore it"
        )
    text = Unpacking(parts)
    reading = io.BufferedReader(text)
    if parts and digest_of(reading) not in (digest, None):  # those of earlier versions say none
        raise ValueError("a snapshot of another log")
    folder = cache.make(server.id, number, server.leaves(number))
    try:
        store, log = opening.on(folder)
        _fill(store, text, reading)
        store.flush()
        log.stands_at(store, digest, head.erased)
    except BaseException:
        cache.discard(folder)
        raise
    return store, log


def _fill(store: EmbeddedStore, text: Unpacking, reading: io.BufferedReader[Unpacking]) -> None:
    try:
        store.fill(reading)
    except Exception:
        if text.damage is not None:  # the engine has an error of its own for what it cannot read
            raise text.damage from None
        raise
