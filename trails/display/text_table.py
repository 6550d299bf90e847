"""Draw tables as plain text of 80 columns, for Python's prompt and `print`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from trails.display import tables
from trails.display.tables import NUMERIC, Kind, PlainTable
from trails.display.terminal_text import LINE_WIDTH, cells, count, one_line, pad, shorten

MOST_ROWS: Final = 20
_GAP: Final = "  "
NARROWEST: Final = 20
"""A column of text is cut to no fewer cells to make room for others."""
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


def draw(heading: str, table: PlainTable, *, total: int | None = None) -> str:
    """Return a heading and the first 20 rows under it, in columns; what is cut ends in "…".

    Columns stand in the table's order as far as 80 columns go. A line below says which are left out, and how many rows
    of `total`, which are the table's where it is not given.

    >>> print(draw("<Two>", PlainTable({"name": "text", "turns": "integer"}, [{"name": "plan", "turns": 2}])))
    <Two>
    name  turns
    plan      2
    """
    if not table.rows:
        return heading
    rows = table.rows[:MOST_ROWS]
    columns = {name: [_cell(row[name], kind) for row in rows] for name, kind in table.kinds.items()}
    widths = _widths(columns, table)
    lines = [_line([one_line(name) for name in widths], widths, table)]
    lines += [_line([columns[name][number] for name in widths], widths, table) for number in range(len(rows))]
    left_out = (len(table.rows) if total is None else total) - len(rows)
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
    natural = {name: max(map(cells, (one_line(name), *texts))) for name, texts in columns.items()}
    whole = [name for name, kind in table.kinds.items() if kind in NUMERIC or kind == "time"]
    return fit(natural, dict.fromkeys(natural, NARROWEST) | {name: natural[name] for name in whole}, LINE_WIDTH)


def fit(
    natural: Mapping[str, int],
    least: Mapping[str, int],
    width: int,
    *,
    gap: int = len(_GAP),
    main: Collection[str] | None = None,
) -> dict[str, int]:
    """Return how many cells each column gets of a width, `gap` between two; the widest give way first.

    `natural` is what each would take, `least` what it may be cut to. Columns for which there is no room are left out, but for
    those in `main` (default: the first): where these do not fit, they take more than the width.

    >>> fit({"name": 30, "text": 60, "time": 16}, {"name": 10, "text": 10, "time": 16}, 34)
    {'name': 16, 'text': 16}
    >>> fit({"name": 9, "note": 9, "score": 5}, {"name": 9, "note": 9, "score": 5}, 20, main=("name", "score"))
    {'name': 9, 'score': 5}
    """
    narrow = {name: min(least[name], natural[name]) for name in natural}
    never_left_out = list(natural)[:1] if main is None else [name for name in natural if name in main]
    shown = dict.fromkeys(never_left_out, True)
    for name in natural:
        if name not in shown and _total((narrow[each] for each in (*shown, name)), gap) <= width:
            shown[name] = True
    widths = {name: max(narrow[name], min(natural[name], width)) for name in natural if name in shown}
    while _total(widths.values(), gap) > width and (wider := [name for name in widths if widths[name] > narrow[name]]):
        widths[max(wider, key=lambda name: widths[name])] -= 1
    return widths


def _total(widths: Iterable[int], gap: int) -> int:
    every = list(widths)
    return sum(every) + gap * (len(every) - 1)


def _line(texts: Iterable[str], widths: dict[str, int], table: PlainTable) -> str:
    placed = [
        pad(shorten(text, width), width, right=table.kinds[name] in NUMERIC)
        for text, (name, width) in zip(texts, widths.items(), strict=True)
    ]
    return _GAP.join(placed).rstrip()
