"""What a user of the database is granted, and what the guide grants for it: pure, over what the server says is lacking."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from trails.store.doctor import Check


class Right(NamedTuple):
    """A privilege on a table, or on one column of it."""

    privilege: str
    table: str
    column: str = ""


READING: Final = tuple(Right("SELECT", table) for table in ("trails_stores", "trails_records"))
APPENDING: Final = (
    Right("INSERT", "trails_records"),
    *(Right("UPDATE", "trails_stores", column) for column in ("head", "digest", "due")),
)
REGISTERING: Final = tuple(Right(each, "trails_readers") for each in ("SELECT", "INSERT", "UPDATE", "DELETE"))
ERASING: Final = (
    Right("UPDATE", "trails_records"),
    Right("UPDATE", "trails_stores"),
    Right("DELETE", "trails_records"),
)
"""What only the owner has: the guide grants it to nobody."""
ALL: Final = (*READING, *APPENDING, *REGISTERING, *ERASING)


def statements(lacking: Iterable[Right], role: str = "ROLE") -> str:
    """Return the grants that rights come with, as the owner writes them.

    >>> statements([Right("SELECT", "trails_stores"), Right("SELECT", "trails_records"), Right("DELETE", "trails_readers")])
    'GRANT SELECT ON trails_stores, trails_records TO ROLE; GRANT DELETE ON trails_readers TO ROLE'
    >>> statements([Right("UPDATE", "trails_stores", "head"), Right("UPDATE", "trails_stores", "due")], "bob")
    'GRANT UPDATE (head, due) ON trails_stores TO bob'
    """
    by_table: dict[str, dict[str, list[str]]] = {}
    for right in lacking:
        by_table.setdefault(right.table, {}).setdefault(right.privilege, []).append(right.column)
    tables: dict[str, list[str]] = {}
    for table, privileges in by_table.items():
        tables.setdefault(", ".join(_with_columns(*each) for each in privileges.items()), []).append(table)
    return "; ".join(f"GRANT {what} ON {', '.join(on)} TO {role}" for what, on in tables.items())


def _with_columns(privilege: str, columns: list[str]) -> str:
    return privilege if "" in columns else f"{privilege} ({', '.join(columns)})"


def may_not_read(lacking: Collection[Right]) -> bool:
    """Tell whether nothing of a store can be read."""
    return bool(_of(READING, lacking))


def look(lacking: Collection[Right]) -> Check:
    """Return what a user may do, who lacks some rights; it is not well where it lacks some of what belongs together."""
    unread = _of(READING, lacking)
    if unread:
        return _refused("may not read the store", unread)
    unwritten = _of(APPENDING, lacking)
    if unwritten and len(unwritten) < len(APPENDING):
        return _refused("may read, and append only by half", unwritten)
    may = "read" if unwritten else "read and append" if _of(ERASING, lacking) else "read, append and take out"
    return Check("rights", True, f"this user may {may}")


def registering(lacking: Collection[Right]) -> Check | None:
    """Return what is amiss where a user may not say that it has an index; None where it may."""
    unsaid = _of(REGISTERING, lacking)
    if not unsaid:
        return None
    said = "this user may not say that it has an index, nor see who has one: a vacuum cannot name its files"
    return Check("readers", False, said, _remedy(unsaid))


def _of(wanted: Iterable[Right], lacking: Collection[Right]) -> list[Right]:
    return [right for right in wanted if right in lacking]


def _refused(what: str, lacking: list[Right]) -> Check:
    return Check("rights", False, f"this user {what}: it lacks a grant", _remedy(lacking))


def _remedy(lacking: list[Right]) -> str:
    return f"as the owner, with this user for ROLE: {statements(lacking)}; see `trails guide postgres`"
