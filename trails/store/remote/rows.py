"""The rows of a store on a server: SELECTs in SQL that the server answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from trails.store.remote import wire


class RemoteCursor:
    """The rows that one SELECT found."""

    def __init__(self, names: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
        """Take the rows, all of them."""
        self.description = [(name, *[None] * 6) for name in names]
        """The names of the columns, as `sqlite3` gives them."""
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that are left."""
        return list(self._rows)

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row; None after the last one."""
        return next(self._rows, None)


class RemoteConnection:
    """What stands for the connection to the rows: it has the functions of `sqlite3.Connection` with which they are read."""

    has_functions: Final = True
    """The server's connections have the functions that SQL calls."""

    def __init__(self, read: Callable[[wire.Request], Any]) -> None:
        """`read` asks the server for one thing."""
        self._read = read

    def execute(self, text: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> RemoteCursor:
        """Return the rows of a SELECT."""
        given: Any
        if isinstance(values, Mapping):
            given = {name: wire.value_out(value) for name, value in values.items()}
        else:
            given = [wire.value_out(value) for value in values]
        found = self._read(["sql", text, given])
        return RemoteCursor(found["names"], [tuple(map(wire.value_in, row)) for row in found["rows"]])
