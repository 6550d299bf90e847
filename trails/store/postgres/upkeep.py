"""What is looked at of a store in PostgreSQL, and brought up to date: server, rights, tables, log, readers, cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trails.errors import InvalidInput, TrailsError
from trails.store.doctor import Check
from trails.store.log.sqlite import Head
from trails.store.postgres import address, readers, roles, statements, status
from trails.store.postgres.figures import Settings, rights_lacking, settings_of
from trails.store.postgres.log import folder_of, say_what_records_are_about
from trails.store.postgres.roles import APPENDING, ERASING, READING, REGISTERING, REMOVING, Grants, Right
from trails.store.postgres.server import Server
from trails.store.upgrade import Upgraded

_ALL: Final = tuple(dict.fromkeys((*READING, *APPENDING, *REGISTERING, *ERASING, *REMOVING)))


def _may_not_read(lacking: Collection[Right]) -> bool:
    """Tell whether nothing of a store can be read."""
    return bool(_of(READING, lacking))


def _rights(lacking: Collection[Right]) -> Check:
    """Return what a user may do, who lacks some rights; it is not well where it lacks some of what belongs together."""
    unread = _of(READING, lacking)
    if unread:
        return _refused("may not read the store", unread)
    unwritten = _of(APPENDING, lacking)
    if unwritten and len(unwritten) < len(APPENDING):
        return _refused("may read, and append only by half", unwritten)
    may = "read" if unwritten else "read and append" if _of(ERASING, lacking) else "read, append and take out"
    return Check("rights", True, f"this user may {may}")


def _registering(lacking: Collection[Right]) -> Check | None:
    """Return what is amiss where a user may not say that it has an index; None where it may."""
    unsaid = _of(REGISTERING, lacking)
    if not unsaid:
        return None
    if REGISTERING[0] not in unsaid and len(_of(APPENDING, lacking)) == len(APPENDING):
        return Check("readers", True, "this user is an auditor: a vacuum cannot name the files of its index")
    said = "this user may not say that it has an index, nor see who has one: a vacuum cannot name its files"
    return Check("readers", False, said, _remedy(unsaid))


def _of(wanted: Iterable[Right], lacking: Collection[Right]) -> list[Right]:
    return [right for right in wanted if right in lacking]


def _refused(what: str, lacking: list[Right]) -> Check:
    return Check("rights", False, f"this user {what}: it lacks a grant", _remedy(lacking))


def _remedy(lacking: list[Right]) -> str:
    return f"as the owner, with this user for ROLE: {'; '.join(roles.grants(lacking))}; see `trails guide postgres-operations`"


_APART: Final = timedelta(seconds=5)
"""How far two clocks may be apart."""
_FREE: Final = 500 << 20
"""Bytes that the cache should have left."""
_LONGEST: Final = 600.0
"""Seconds that a transaction may take."""
_LONGEST_NAME: Final = 63
"""Bytes of a name in PostgreSQL."""


def look(location: str) -> list[Check]:
    """Return what was looked at of the store that a URL names. Nothing is changed, and no index is made."""
    log = Server(address.parse(location))
    try:
        settings = settings_of(log)
    except TrailsError as error:
        return [Check("server", False, error.message, "start the server, or check the URL, its user and its password")]
    try:
        checks = [_server(settings, is_standby=log.is_standby()), _durability(settings), _clock(settings.now)]
        lacking = rights_lacking(log, _ALL)
        rights = _rights(lacking)
        if _may_not_read(lacking):
            return [*checks, rights]
        try:
            head = log.find()
        except TrailsError as error:
            return [*checks, Check("tables", False, error.message, "`trails init URL` makes the store")]
        return [
            *checks,
            Check("tables", True, f"format {statements.FORMAT}"),
            rights,
            _log(head),
            _registering(lacking) or _readers(log, head),
            _sessions(log),
            _cache(log.cache_name()),
            *_progress(location),
        ]
    finally:
        log.close()


def _server(settings: Settings, *, is_standby: bool) -> Check:
    kind = " and a standby: every write is refused, whatever this user may do" if is_standby else ""
    return Check("server", True, f"answers, as version {settings.version}{kind}")


def _durability(settings: Settings) -> Check:
    names = ("fsync", "synchronous_commit", "full_page_writes")
    off = [name for name in names if not getattr(settings, name)]
    if not off:
        return Check("durability", True, "what is acknowledged is on the server's disk")
    remedy = "; ".join(f"set {name} = on" for name in off)
    return Check("durability", False, f"{', '.join(off)} is off: acknowledged turns may be lost in a crash", remedy)


def _clock(now: datetime) -> Check:
    apart = abs(datetime.now(UTC) - now)
    said = f"this machine and the server are {apart.total_seconds():.1f} s apart"
    remedy = (
        ""
        if apart <= _APART
        else "let both follow a time server: turns are ordered by the log, but their times are told"
    )
    return Check("clock", apart <= _APART, said, remedy)


def _log(head: Head) -> Check:
    if head.due:
        said = f"{head.number:,} commits; what commit {head.due:,} erased is still in the log"
        return Check("log", False, said, "open the store once, or `trails store vacuum`: either ends it")
    return Check("log", True, f"{head.number:,} commits")


def _readers(log: Server, head: Head) -> Check:
    try:
        found = readers.readers_of(log, log.id)
    except TrailsError as error:
        return Check(
            "readers", False, error.message, "`trails guide postgres-operations` says what a reader is granted"
        )
    if found is None:
        said = "there is no table in which processes say which of them have an index"
        return Check("readers", False, said, "`trails store upgrade`, as the owner, makes it")
    late = readers.made_before(found, head.erased)
    if not late:
        return Check("readers", True, f"{len(found):,} indexes are registered, none with files from before a vacuum")
    processes = "; ".join(map(str, readers.as_reported(late)))
    said = f"what was erased until commit {head.erased:,} may still be in the files of {processes}"
    return Check("readers", False, said, "`sync` there, or close it and delete its folder in the cache of that machine")


def _sessions(log: Server) -> Check:
    indexed, number = log.indexed() if log.find_subjects() else (0, log.find().number)
    if indexed < number:
        told = f"{number - indexed:,} commits are not indexed by session, so that thin=True does not open the store"
        return Check("sessions", False, told, "`trails store upgrade`, as the owner, ends that")
    return Check("sessions", True, "all commits are indexed by session")


def _progress(location: str) -> Iterator[Check]:
    """Look at how far this machine is, and at who waits: figures are no fault, but a transaction that does not end is one."""
    found = status.status_of(location)
    words = status.in_words(found)
    yield Check("copy", True, f"this machine {words['this machine']}; its newest snapshot: {words['snapshot']}")
    is_old = found.log.oldest_seconds > _LONGEST
    remedy = "it keeps VACUUM from freeing space: find it in pg_stat_activity, ordered by xact_start, and end it"
    yield Check("queue", not is_old, words["waiting"], remedy if is_old else "")


def _cache(cache_name: str) -> Check:
    folder = folder_of(cache_name)
    there = next(each for each in (folder, *folder.parents) if each.is_dir())
    if not os.access(there, os.W_OK):
        return Check("cache", False, f"{there} cannot be written to", "set XDG_CACHE_HOME to a folder that can")
    free = shutil.disk_usage(there).free
    said = f"{folder}, {free >> 20:,} MiB free"
    return Check("cache", free >= _FREE, said, "" if free >= _FREE else "free some space, or set XDG_CACHE_HOME")


def upgrade(location: str) -> Upgraded:
    """Bring the tables of a store to this version's: there is one format so far, to which a table of readers was added.

    Raises `InvalidInput` where there is no such store, `StoreFailed` for tables that a later version made.
    """
    log = Server(address.parse(location))
    try:
        log.find()
        is_missing = readers.readers_of(log, log.id) is None
        if is_missing:
            readers.make_table(log)
        is_unindexed = not _sessions(log).ok
        if is_unindexed:
            say_what_records_are_about(log)
    finally:
        log.close()
    steps = ("made the table trails_readers, in which processes say which of them have an index",) * is_missing
    steps += ("indexed all commits by session, so that thin=True opens the store",) * is_unindexed
    return Upgraded(statements.FORMAT, statements.FORMAT, steps, None)


def grants(location: str, kind: str, role: str, *, only_this_store: bool = False) -> Grants:
    """Return the SQL after which a role of the database has the rights of a kind (`roles.KINDS`), ready for `psql`.

    Nothing is changed. With `only_this_store`, row-level security hides all other stores of the database from the role.

    Raises `InvalidInput` if there is no such store or kind, or an owner is to be limited to one store.
    """
    if kind not in roles.KINDS:
        raise InvalidInput(f"there is no kind of role {kind!r}; there are {', '.join(roles.KINDS)}")
    if not role or "\0" in role or len(role.encode()) > _LONGEST_NAME:
        raise InvalidInput(f"the name of a role in PostgreSQL has 1 to {_LONGEST_NAME} bytes")
    if only_this_store and kind == "owner":
        raise InvalidInput("an owner has the tables, with all stores in them, and cannot be limited to one store")
    with closing(Server(address.parse(location))) as log:
        log.find()
        tables = log.tables(tuple(roles.COLUMNS))
    tenant = log.id if only_this_store else None
    return Grants(kind, role, tenant, roles.script(kind, role, tables, tenant))


@dataclass(frozen=True, slots=True)
class Cloned:
    """A restored copy with an identity of its own."""

    location: str
    before: str
    identity: str

    def to_dict(self) -> dict[str, Any]:
        """Return what was done as plain values, ready for JSON."""
        return asdict(self)


def clone(location: str) -> Cloned:
    """Give a store that was restored from a backup an identity of its own, so that it shares no index with its original.

    The indexes of the original's processes, which the backup lists, are forgotten. Sessions, log and checkpoints stay as they
    are, and no record is rewritten.

    Raises `InvalidInput` if there is no such store; `StoreFailed` if a process has it open, or the user is not the owner.
    """
    with closing(Server(address.parse(location))) as log:
        log.find()
        before = log.identity
        log.clone()
        return Cloned(log.address.shown, before, log.identity)
