"""Opening a store by its location."""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from typing import Any, Final

from trails.errors import InvalidInput, TrailsError
from trails.files import as_path
from trails.history import import_records, transaction, turn_builder
from trails.history.turn_builder import Screening
from trails.integrity.key_ring import KeyRing, Keys
from trails.rdf import activity_records
from trails.session.repository import Repository
from trails.store.contract import Durability
from trails.store.embedded import EmbeddedStore, ViewStore
from trails.store.folders import absolute
from trails.store.postgres.address import is_address
from trails.store.queries.query_pool import QueryLimits
from trails.store.remote.channel import HttpChannel, checked_address
from trails.store.remote.channel import is_address as is_server
from trails.store.remote.store import RemoteStore
from trails.suggestions import checked

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://|(postgres|pgsql|jdbc)[a-z0-9+.-]*:", re.IGNORECASE)
"""What is meant as a URL, and would be a folder whose name holds the password."""
_LOGIN: Final = re.compile(r"[^/:@]+:[^/]*@")
"""What begins with a name and a password, as a URL without its scheme does."""
TIMEOUT: Final = 60.0
"""Seconds that a commit waits for other processes that write, by default."""
ENVIRONMENT: Final = "TRAILS_TIMEOUT"
"""The variable of the environment that says how long that is, where the program does not."""
KEYS: Final = "TRAILS_KEYS"
"""The variable of the environment that names the folder of keys, where the program does not."""


@checked
def open(  # noqa: A001 - trails.open, as io.open
    location: str | os.PathLike[str],
    *,
    create: bool = False,
    durability: Durability = "disk",
    actor: str | None = None,
    record_reads: bool | None = None,
    read_only: bool = False,
    timeout: float | None = None,
    scan: Screening | None = None,
    query_timeout: float | None = None,
    query_max_rows: int | None = None,
    query_memory: int | None = None,
    token: str | None = None,
    thin: bool = False,
    keys: str | os.PathLike[str] | Keys | None = None,
) -> Repository:
    """Return the store of sessions at a location: `:memory:`, a folder, `postgresql://HOST/DATABASE?store=NAME`, or the
    address of a server (`https://HOST/`, see `trails serve`).

    A folder is created only with `create=True`; a mistyped path is an error. A path is made absolute at once: a later
    `os.chdir` changes nothing; `~` at its start is the home folder. `durability` says when a commit returns:
    "disk" when it survives a power cut, "process" when it survives the death of this process (and is faster).
    `actor` is who this process is on record as, wherever a call names nobody with `by`: a principal, or `agent:NAME`; by
    default what the environment's TRAILS_ACTOR says, else `agent:unknown`.

    With `record_reads`, every export and every audit of a session leaves who read it, when, and through which index, before
    anything is given out (the query `history-reads`), and every load, query and request to a server who read what, when and
    through what (the query `record-reads`); by default only where the environment's TRAILS_RECORD_READS is 1.

    A store in PostgreSQL (extra `postgres`) may be open in any number of processes: its log is in the database, and each
    process has an index of its own in the cache folder. `sync` brings in what others have committed.

    With `thin`, a store in PostgreSQL is opened without an index: the process reads from the log only the records of the sessions
    that it works on and of their ancestors, and holds these in memory. Sessions are made, loaded, forked and appended to as ever.
    What needs all sessions raises `NeedsWholeStore`. It is for many workers and short functions; see the guide's page `postgres`.

    A server's store (extra `remote`) needs no disk and no index here: each operation is one request. `token` says who asks,
    by default what the environment's TRAILS_TOKEN says; the rights are the token's, and it must see the whole store. `http://`
    is for this machine alone. See the guide's page `remote`.

    `scan` says what becomes of turns that hold what looks like a key or a password, where `append` does not: "refuse" raises
    `SecretFound`, "redact" stores a mark in its place; by default nothing is looked for. See the guide's page `redaction`.

    With `read_only`, the store is read as it is now, also while another process has it open, which notices nothing of it:
    what was acknowledged until now is seen, and what comes later after `refresh`. What writes raises `StoreReadOnly`. A store in
    memory cannot be read so, and reads cannot be recorded. One in PostgreSQL needs no more than the right to read its tables
    then; an erasure or a deletion that another process was cut short in is left for whoever opens it to write.

    Any number of processes may have a store open to write; each sees what the others have committed. A commit waits for its turn
    for up to `timeout` seconds, by default what the environment's TRAILS_TIMEOUT says, else 60; Ctrl-C ends the wait.

    With `keys`, each new session is encrypted with a random key of its own, and encrypted sessions are read: a folder outside the
    store's (made with `create`; nobody else may read it), or what has the methods of `trails.KeyRing`; by default the folder that
    the environment's TRAILS_KEYS names. It needs the extra `encryption`. See the guide's page `redaction`.

    `query_timeout` (seconds), `query_max_rows` and `query_memory` (MiB) are what a query in SPARQL may take where the call says
    nothing else; see `Repository.query`.

    Raises `InvalidInput` if there is no store (or the folder is something else), `StoreFailed` if it cannot be read. A commit
    raises `StoreLocked` if another process keeps it waiting for longer than `timeout`.
    """
    if durability not in ("disk", "process"):
        raise InvalidInput(f'durability is "disk" or "process", not {durability!r:.80}')
    own = activity_records.process_actor(actor)
    turn_builder.check_screening(scan)
    limits = QueryLimits(query_timeout, query_max_rows, query_memory)
    reading = import_records.reads_are_recorded() if record_reads is None else bool(record_reads)
    place, wait = as_location(location), _patience(timeout)
    ring = _keys(keys, place, create=create)
    if ring is not None and (thin or is_server(place)):
        raise InvalidInput(
            f"{place} cannot be opened with keys: sessions are encrypted in stores that this process has whole, in a folder, in "
            "memory or in PostgreSQL without thin. Leave keys and TRAILS_KEYS out"
        )
    if thin:
        _check_thin(place, create=create, read_only=read_only, reading=reading)
        return _thin(place, actor=own, scan=scan, limits=limits)
    if is_server(place):
        _check_server(create=create, read_only=read_only)
        return _of_server(place, token, wait, actor=own, record_reads=reading, scan=scan, limits=limits)
    if token is not None:
        raise InvalidInput("a token is for the store of a server: open https://HOST/ with it")
    if read_only:
        _check_view(place, create=create, reading=reading)
        view = _of_address(place, is_read_only=True) if is_address(place) else ViewStore(absolute(place))
        return Repository(view, actor=own, limits=limits, keys=ring)
    in_memory = place == ":memory:"
    store = EmbeddedStore(None) if in_memory else store_at(place, create=create, durability=durability, timeout=wait)
    return Repository(store, actor=own, record_reads=reading, scan=scan, limits=limits, keys=ring)


def _keys(given: str | os.PathLike[str] | Keys | None, place: str, *, create: bool) -> Keys | None:
    """Return what keeps the keys of sessions, None for a store without; raise `InvalidInput` for a folder within the store."""
    named = os.environ.get(KEYS) or None if given is None else given
    if named is None or not isinstance(named, str | os.PathLike):
        return named
    folder = absolute(as_path(named, "the folder of keys"))
    is_folder = place != ":memory:" and not is_address(place) and not is_server(place)
    if is_folder and (home := absolute(place).resolve()) in (folder.resolve(), *folder.resolve().parents):
        raise InvalidInput(
            f"the folder of keys {folder} is within the store {home}, whose copies and backups are not to open it: name a folder "
            "elsewhere"
        )
    return KeyRing(folder, create=create)


def store_at(
    location: str | os.PathLike[str],
    *,
    create: bool = False,
    durability: Durability = "disk",
    timeout: float | None = None,
) -> EmbeddedStore:
    """Return the store of quads at a location, of which nothing is looked at or put right yet: for who copies a whole store."""
    place = as_location(location)
    if is_address(place):
        return _of_address(place, create=create)
    if is_server(place):
        raise InvalidInput(f"{place} is kept by a server: copy its store where it is kept")
    return EmbeddedStore(absolute(place), create=create, durability=durability, timeout=_patience(timeout))


def _patience(timeout: object) -> float:
    """Return for how many seconds a commit waits for its turn; raise `InvalidInput` for what is no such number."""
    name = "timeout" if timeout is not None else ENVIRONMENT
    given = os.environ.get(ENVIRONMENT) or TIMEOUT if timeout is None else timeout
    try:
        seconds = math.nan if isinstance(given, bool) else float(given)  # type: ignore[arg-type] # refused below
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InvalidInput(f"{name} is a number of seconds, from 0, not {given!r:.80}")
    return seconds


def _of_address(place: str, *, create: bool = False, is_read_only: bool = False) -> EmbeddedStore:
    from trails.store.postgres.log import open_store  # noqa: PLC0415 - only where it is asked for

    return open_store(place, create=create, is_read_only=is_read_only)


def _check_thin(place: str, *, create: bool, read_only: bool, reading: bool) -> None:
    """Raise `InvalidInput` for what a store cannot be opened thin with."""
    if not is_address(place):
        raise InvalidInput(f"thin=True is for a store in PostgreSQL, which {place} is not: open it without")
    if create or read_only or reading:
        raise InvalidInput(
            "thin=True goes with neither create, read_only nor record_reads: create the store with `trails init`, and open it "
            "without thin for the other two"
        )


def _thin(place: str, **options: Any) -> Repository:
    from trails.session.thin import ThinRepository  # noqa: PLC0415 - only where it is asked for
    from trails.store.postgres.thin import open_thin  # noqa: PLC0415 - likewise

    return ThinRepository(open_thin(place), **options)


def _check_server(*, create: bool, read_only: bool) -> None:
    """Raise `InvalidInput` for what a server's store cannot be opened with."""
    if create:
        raise InvalidInput(
            "a server's store is created where it is kept (`trails init`), not by a client; open it without create"
        )
    if read_only:
        raise InvalidInput(
            "read_only=True shows a store as it is at one moment, which a server's store is not held at; open it without: a "
            "token with the role auditor lets nothing be written"
        )


def _of_server(place: str, token: str | None, timeout: float, *, actor: str | None, **options: Any) -> Repository:
    from trails.session.remote import RemoteRepository  # noqa: PLC0415 - only where it is asked for

    store = RemoteStore(HttpChannel(place, token=token, timeout=timeout or TIMEOUT))
    try:
        with store.ahead("open"):
            own = actor or activity_records.named_actor(store.principal)
            return RemoteRepository(store, actor=own, **options)
    except BaseException:
        store.close()
        raise


def _check_view(place: str, *, create: bool, reading: bool) -> None:
    """Raise `InvalidInput` for what cannot be opened to be read only."""
    if create:
        raise InvalidInput("a store that is opened with read_only=True is not created; give one of the two")
    if place == ":memory:":
        raise InvalidInput(
            "a store in memory is new each time it is opened, so there is nothing to read; name a folder"
        )
    if reading:
        raise InvalidInput(
            f"reads are to be recorded (record_reads, or {import_records.RECORD_READS}=1), and a store opened with "
            "read_only=True cannot write that down; open it without, or say record_reads=False"
        )


def open_to_read(
    location: str | os.PathLike[str], *, actor: str | None = None, keys: str | os.PathLike[str] | Keys | None = None
) -> Repository:
    """Return a store to be read; a deletion that a killed process left half done is finished first.

    It is opened as `open` with `read_only` does. Reads are not recorded. Raises what `open` does.
    """
    place = as_location(location)
    if is_address(place) or is_server(place):
        return open(location, actor=actor, record_reads=False, keys=keys)
    view = open(location, actor=actor, read_only=True, record_reads=False, keys=keys)
    store = view.store
    if isinstance(store, ViewStore) and not store.has_living_owner and transaction.work_marks(store):
        with suppress(TrailsError, OSError):  # if it cannot be written to, it is read as it is
            open(location, record_reads=False, keys=keys).close()  # which finishes what was begun
            view.refresh()
    return view


def as_location(location: str | os.PathLike[str]) -> str:
    """Return a store's location as text; raise `InvalidInput` for what can be none. A refused URL is not shown."""
    given: object = location
    place = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(place, str):
        raise InvalidInput(f"a store's location is a path or ':memory:', a text, not {location!r}")
    if not place:
        raise InvalidInput("a store's location is a path or ':memory:', not an empty text")
    if is_address(place):
        return place
    if is_server(place):
        return checked_address(place)
    as_path(place, "a store's location")
    if (scheme := _URL.match(place)) is not None:  # of which nothing else is shown: it may hold a password
        raise InvalidInput(
            f"{scheme[0]}... is no place of a store: name a folder (./{scheme[0]}... if it is one), or write "
            "postgresql://HOST/DATABASE?store=NAME or https://HOST/, in small letters"
        )
    if _LOGIN.match(place):
        raise InvalidInput(
            "what begins with NAME:PASSWORD@ is no place of a store: name a folder (with ./ before it if it is one), or write "
            "postgresql://HOST/DATABASE?store=NAME"
        )
    return place
