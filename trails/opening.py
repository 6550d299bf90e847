"""Opening a store by its location."""

from __future__ import annotations

import os

from trails.errors import InvalidInput
from trails.files import as_path
from trails.plumbing import actors, reads
from trails.session.repository import Repository
from trails.store.contract import Durability
from trails.store.embedded import EmbeddedStore, absolute


def open(  # noqa: A001 - trails.open, as io.open
    location: str | os.PathLike[str],
    *,
    create: bool = False,
    durability: Durability = "disk",
    actor: str | None = None,
    record_reads: bool | None = None,
) -> Repository:
    """Return the store of sessions at a location: `:memory:` or a folder.

    A folder is created only with `create=True`; a mistyped path is an error. A path is made absolute at once: a later
    `os.chdir` changes nothing; `~` at its start is the home folder. `durability` says when a commit returns:
    "disk" when it survives a power cut, "process" when it survives the death of this process (and is faster).
    `actor` is who this process is on record as, wherever a call names nobody with `by`: a principal, or `agent:NAME`; by
    default what the environment's TRAILS_ACTOR says, else `agent:unknown`.

    With `record_reads`, every export and every audit of a session leaves who read it, when, and through which index, before
    anything is given out (the query `history-reads`); by default only where the environment's TRAILS_RECORD_READS is 1.

    Raises `InvalidInput` where there is no store (or a folder that is something else), `StoreLocked` when another
    process holds it, `StoreFailed` when it cannot be read.
    """
    own = actors.of_process(actor)
    reading = os.environ.get(reads.ENVIRONMENT) == "1" if record_reads is None else bool(record_reads)
    given: object = location
    place = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(place, str):
        raise InvalidInput(f"a store's location is a path or ':memory:', a text, not {location!r}")
    if not place:
        raise InvalidInput("a store's location is a path or ':memory:', not an empty text")
    as_path(place, "a store's location")
    if place == ":memory:":
        return Repository(EmbeddedStore(None), actor=own, record_reads=reading)
    if place.startswith(("http://", "https://")):
        raise InvalidInput(f"{place}: stores behind a URL are not supported by this version; name a folder")
    return Repository(
        EmbeddedStore(absolute(place), create=create, durability=durability), actor=own, record_reads=reading
    )
