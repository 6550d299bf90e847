"""Sums of turns and model calls out of the rows, by day, model, project, principal or session."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from trails.rows import row_schema
from trails.rows.session_lists import Asked
from trails.usage import Counts

By = Literal["day", "model", "project", "principal", "session"]
_SUMS: Final = ", ".join(["count(*)", *(f"sum(c.{name})" for name in Counts._fields)])
_IS_COUNTED: Final = "(c.input IS NOT NULL OR c.output IS NOT NULL)"
_PROMPT: Final = "ifnull(c.input, 0) + ifnull(c.cache_read, 0) + ifnull(c.cache_write, 0)"
SLOT: Final = 1_800_000_000
"""Microseconds: the calls of half an hour cost the same."""
_DAY: Final = (
    "CASE WHEN {0}.time >= 0 THEN {0}.time / 86400000000 WHEN {0}.time < 0 THEN ({0}.time + 1) / 86400000000 - 1 END"
)
"""The day that a time falls on, counted from 1970; unknown for an unknown time."""
_CALLS_BY: Final[Mapping[By, str]] = {
    "day": _DAY.format("c"), "model": "c.model", "principal": "c.principal", "session": "c.home", "project": "s.project",
}  # fmt: skip
_TURNS_BY: Final[Mapping[By, str]] = {
    "day": _DAY.format("t"), "principal": "s.principal", "session": "s.id", "project": "s.project",
}  # fmt: skip


def calls_by(connection: sqlite3.Connection, by: By, asked: Asked) -> list[tuple[Any, ...]]:
    """Return (group, model, priced, counted, calls, tokens as `Counts` has them, cost as text) of the calls that count.

    `asked` has conditions on calls (`c`) and the sessions they were made in (`s`); `priced` is whether their cost is known,
    `counted` whether what they read and wrote is.
    """
    asked.where("c.counts")
    row_schema.create_functions(connection)
    return connection.execute(
        f"SELECT {_CALLS_BY[by]}, c.model, c.cost IS NOT NULL, {_IS_COUNTED}, {_SUMS},"
        " decimal_sum(c.cost, 1)"
        f" FROM calls c LEFT JOIN sessions s ON s.id = c.home{asked.text()} GROUP BY 1, 2, 3, 4",
        asked.values,
    ).fetchall()


def unpriced_calls(connection: sqlite3.Connection, by: By, asked: Asked, steps: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return (group, model, provider, slot, step, calls, tokens) of the calls that count and report tokens and no cost.

    Those of a group have the same price: they were made in one `SLOT`, and their prompts lie between the same two `steps`.
    """
    asked.where("c.counts")
    asked.where("c.cost IS NULL")
    asked.where(_IS_COUNTED)
    step = " + ".join(f"({_PROMPT} > {int(each)})" for each in steps) or "0"
    return connection.execute(
        f"SELECT {_CALLS_BY[by]}, c.model, c.provider, c.time / {SLOT}, {step}, {_SUMS}"
        f" FROM calls c LEFT JOIN sessions s ON s.id = c.home{asked.text()} GROUP BY 1, 2, 3, 4, 5",
        asked.values,
    ).fetchall()


def turns_by(connection: sqlite3.Connection, by: By, asked: Asked) -> dict[Any, tuple[int, int]]:
    """Return by group (turns, sessions that have some of them), each copied turn once; `asked` is of turns (`t`, `s`)."""
    asked.where("t.counts AND s.live AND t.place >= s.starts_at")
    rows: Iterable[Any] = connection.execute(
        f"SELECT {_TURNS_BY[by]}, count(*), count(DISTINCT t.session)"
        f" FROM turns t JOIN sessions s ON s.number = t.session{asked.text()} GROUP BY 1",
        asked.values,
    )
    return {row[0]: (row[1], row[2]) for row in rows}


def sessions_of_calls(connection: sqlite3.Connection, by: By, asked: Asked) -> dict[Any, int]:
    """Return by group in how many sessions its calls were made."""
    asked.where("c.counts")
    rows = connection.execute(
        f"SELECT {_CALLS_BY[by]}, count(DISTINCT c.home)"
        f" FROM calls c LEFT JOIN sessions s ON s.id = c.home{asked.text()} GROUP BY 1",
        asked.values,
    )
    return dict(rows)


def sessions_in_all(connection: sqlite3.Connection, asked: Asked, *, of_turns: bool) -> int:
    """Return in how many sessions the turns, or the calls, are that are asked for."""
    tables, each = (
        ("turns t JOIN sessions s ON s.number = t.session", "t.session")
        if of_turns
        else ("calls c LEFT JOIN sessions s ON s.id = c.home", "c.home")
    )
    asked.where("t.counts AND s.live AND t.place >= s.starts_at" if of_turns else "c.counts")
    found = connection.execute(f"SELECT count(DISTINCT {each}) FROM {tables}{asked.text()}", asked.values)
    return int(found.fetchone()[0])
