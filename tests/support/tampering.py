"""What the owner of a store's disk can do to it: alter its quads, with a log that says so, or take its last records away."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyoxigraph as ox

from trails.store import Change, EmbeddedStore


@contextmanager
def altered(folder: Path) -> Iterator[ox.Store]:
    """Give all quads of a closed store; what is changed in them is in the store afterwards, as a record without leaves."""
    with closing(EmbeddedStore(folder)) as store:
        before = set(store.quads((None, None, None, None)))
    engine = ox.Store()
    engine.extend(before)
    yield engine
    after = set(engine)
    with closing(EmbeddedStore(folder)) as store:
        store.commit(Change(add=list(after - before), remove=list(before - after)))


def put_back(folder: Path, records: int) -> None:
    """Put the log of a closed store back to an earlier end, so that nothing in the file shows it."""
    with closing(sqlite3.connect(folder / "trails.db")) as file:
        file.execute("DELETE FROM trails_records WHERE number > ?", (records,))
        file.execute(
            "UPDATE trails_stores SET head = ?, digest = (SELECT digest FROM trails_records WHERE number = ?)",
            (records, records),
        )
        file.commit()


def bytes_of(folder: Path) -> bytes:
    """Return all bytes of all files in a folder."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
