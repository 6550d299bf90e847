"""Draw tables as plain text of 80 columns, for Python's prompt and `print`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from trails.display import tables
from trails.display.tables import NUMERIC, Kind, PlainTable
from trails.display.terminal_text import LINE_WIDTH, count, one_line, shorten

_MOST_ROWS: Final = 20
_GAP: Final = "  "
_NARROWEST: Final = 20
"""A column of text is cut to no fewer characters to make room for others."""
_FIRST: Final = ("title", "label", "first_prompt", "snippet", "text", "name", "session", "index", "role")
"""What people know a thing by, and so the columns that stand first."""
_DIGESTS: Final = ("digest", "head", "fork_head")
_LAST: Final = ("matches", *_DIGESTS, "iri")
_DIGEST: Final = 12


def for_people(table: PlainTable) -> PlainTable:
    """Return a table with titles (those in metadata, too) and texts first, digests short and last, and no column without a value.

    >>> kinds = {"digest": "text", "kind": "text", "title": "text"}
    >>> table = PlainTable(kinds, [{"digest": "ab" * 32, "kind": None, "title": "x"}])
    >>> for_people(table).rows
    [{'title': 'x', 'digest': 'abababababab'}]
    """
    if "meta" in table.kinds and "title" not in table.kinds:
        titles = [row["meta"].get("title") if isinstance(row["meta"], Mapping) else None for row in table.rows]
        titled = [{"title": title} | dict(row) for title, row in zip(titles, table.rows, strict=True)]
        table = PlainTable({"title": tables.kind_of(titles)} | dict(table.kinds), titled)
    names = [name for name in table.kinds if any(row[name] not in (None, "", (), [], {}) for row in table.rows)]
    names.sort(key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name in _LAST))
    rows = [{name: _short_digest(name, row[name]) for name in names} for row in table.rows]
    return PlainTable({name: table.kinds[name] for name in names}, rows)


def _short_digest(name: str, value: Any) -> Any:
    return value[:_DIGEST] if name in _DIGESTS and isinstance(value, str) else value


def draw(heading: str, table: PlainTable) -> str:
    """Return a heading and the first 20 rows under it, in columns; what is cut ends in "…".

    Columns stand in the table's order as far as 80 columns go. A line below says which are left out, and how many rows.

    >>> print(draw("<Two>", PlainTable({"name": "text", "turns": "integer"}, [{"name": "plan", "turns": 2}])))
    <Two>
    name  turns
    plan      2
    """
    if not table.rows:
        return heading
    rows = table.rows[:_MOST_ROWS]
    columns = {name: [_cell(row[name], kind) for row in rows] for name, kind in table.kinds.items()}
    widths = _widths(columns, table)
    lines = [_line([one_line(name) for name in widths], widths, table)]
    lines += [_line([columns[name][number] for name in widths], widths, table) for number in range(len(rows))]
    left_out = len(table.rows) - len(rows)
    lines += [f"and {count(left_out, 'more row')}"] if left_out else []
    without = [name for name in table.kinds if name not in widths]
    lines += [shorten(f"no room for {', '.join(without)}", LINE_WIDTH)] if without else []
    return "\n".join([heading, *lines])


def _cell(value: Any, kind: Kind) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    is_fraction = kind == "number" and value is not None
    return shorten(tables.significant(value, 4) if is_fraction else tables.text(value, kind), LINE_WIDTH)


def _widths(columns: dict[str, list[str]], table: PlainTable) -> dict[str, int]:
    """Return the columns for which there is room, and how wide each is."""
    widths: dict[str, int] = {}
    least: dict[str, int] = {}
    for name, cells in columns.items():
        wide = min(max(len(one_line(name)), *map(len, cells)), LINE_WIDTH)
        narrow = wide if table.kinds[name] in NUMERIC or table.kinds[name] == "time" else min(wide, _NARROWEST)
        if widths and _total([*least.values(), narrow]) > LINE_WIDTH:
            continue
        widths[name], least[name] = wide, narrow
    while _total(list(widths.values())) > LINE_WIDTH:
        widest = max((name for name in widths if widths[name] > least[name]), key=lambda name: widths[name])
        widths[widest] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _line(cells: Sequence[str], widths: dict[str, int], table: PlainTable) -> str:
    placed = [
        shorten(cell, width).rjust(width) if table.kinds[name] in NUMERIC else shorten(cell, width).ljust(width)
        for cell, (name, width) in zip(cells, widths.items(), strict=True)
    ]
    return _GAP.join(placed).rstrip()
