"""Names out of the index for those who type: read as they are, in milliseconds, without the engine, and without a lock
for which the owner would have to wait.

What is offered is a help and no answer: a name that is gone, or one that is not there yet, does no harm.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from trails.plumbing.index.untrue import as_damaged

MOST: Final = 100
_FIGURES: Final = ("index", "figures.db")
_LOG: Final = "log"
_SESSIONS: Final = (("sessions", "id"), ("sessions", "label"))
_PLACES: Final[dict[str, Sequence[tuple[str, str]]]] = {
    "session": _SESSIONS,
    "ref": (*_SESSIONS, ("tags", "name")),
    "tag": (("tags", "name"),),
    "principal": (("sessions", "principal"),),
    "agent": (("sessions", "agent"),),
    "project": (("sessions", "project_name"),),
    "model": (("calls", "model"),),
}
_LOOKED_AT: Final = 20_000
"""Rows in which names are looked for, the latest, where no index helps."""
_SMALL: Final = 1 << 17
"""Bytes of a log."""
_AFTER_ALL: Final = chr(0x10FFFF)


def offered(store: Path, kind: str, start: str) -> list[str] | None:
    """Return names of a kind that begin with `start`, in order; None where the index is not there or behind the log.

    A kind is "session" (ids and labels), "ref" (tags too), "tag", "principal", "agent", "project" or "model". Of each,
    `MOST` are returned at most, and the first and the last of all in order: what these have in common all have in common.
    """
    file = store.joinpath(*_FIGURES)
    try:
        with as_damaged(), closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)) as database:
            (reached,) = database.execute("SELECT size FROM place").fetchone() or (-1,)
            if reached != (store / _LOG).stat().st_size:
                return None
            return names_in(lambda *asked: database.execute(*asked).fetchall(), kind, start)
    except (sqlite3.Error, OSError):
        return None


def is_small(store: Path) -> bool:
    """Tell whether the names in a store without an index can be read while somebody waits."""
    return store.joinpath(*_FIGURES).exists() or (store / _LOG).stat().st_size < _SMALL


def names_in(ask: Callable[..., list[Any]], kind: str, start: str) -> list[str]:
    """Return names as `offered` does, out of figures that `ask` asks."""
    return sorted({name for place in _PLACES[kind] for name in _names(ask, *place, start)})


def _names(ask: Callable[..., list[Any]], table: str, column: str, start: str) -> set[str]:
    """Return the latest of the names in a column that begin so, with the first and the last of them."""
    asked = f"FROM {table} WHERE {column} >= ? AND {column} < ? AND {column} <> ''"
    if column != "id":  # which alone has an index to look in
        asked += f" AND rowid > (SELECT max(rowid) - {_LOOKED_AT} FROM {table})"  # noqa: S608 - our own names
    bounds = (start, start + _AFTER_ALL)
    (ends,) = ask(f"SELECT min({column}), max({column}) {asked}", bounds)
    latest = "by_activity" if table == "sessions" else "rowid"
    newest = ask(f"SELECT DISTINCT {column} {asked} ORDER BY {latest} DESC LIMIT {MOST}", bounds)
    return {name for (name,) in newest} | {name for name in ends if name is not None}
