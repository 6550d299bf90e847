"""Tables of plain values, and how they leave the program: CSV, Markdown, pandas, Arrow. Nothing here knows of sessions."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from trails.display import html
from trails.errors import InvalidInput, NoSuchName, TrailsError
from trails.suggestions import check_methods, did_you_mean, synonyms

Kind = Literal["text", "boolean", "place", "integer", "number", "time", "names", "counts", "json"]
"""What a column holds: a `place` is a whole number that says where or which, not how much; `names` are lists of text, `counts`
whole numbers by name, `json` anything else. Any cell may be missing (None)."""

_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")
NUMERIC: Final = frozenset({"place", "integer", "number"})
_BIGGEST: Final = 2**63 - 1
_LARGEST: Final = int(sys.float_info.max)
_MARKDOWN: Final = re.compile(r"([\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
"""What Markdown may take for markup; an underscore within a word is none."""


_SYNONYMS: Final = synonyms("""
    fetchall fetchone all rows items results: rows to_dicts; df to_df dataframe pandas: to_pandas; columns names: variables
    columns; group_by groupby: groups arranged; messages: rows;
    to_json to_dict json: to_dicts to_dict; next: cursor; shape count total: rows table
""")
AS_FRAME: Final = ": to_pandas() gives a data frame, which has columns and all that pandas does with them"


class Tabular:
    """What has a table, and so all the forms in which tables leave the program; `table` is what a class gives."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_methods(cls)

    if not TYPE_CHECKING:  # type checkers know what there is

        def __getattr__(self, name: str) -> NoReturn:
            """Say what there is instead of an attribute that is not there."""
            kind = type(self)
            if name.startswith("_") or hasattr(kind, name):  # a property raised an AttributeError of its own
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=self)
            near = did_you_mean(
                name, [each for each in dir(kind) if not each.startswith("_")], meant=_SYNONYMS, cutoff=0.8
            )
            raise NoSuchName(f"a {kind.__name__} has no {name!r}{near or AS_FRAME}")

        def __getitem__(self, key: object) -> NoReturn:
            """Say how columns and rows are got, of a table that is no list."""
            raise NoSuchName(f"a {type(self).__name__} has no [{key!r:.40}]{AS_FRAME}")

    def table(self) -> PlainTable:
        """Return it as a table of plain values."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with typed columns, in which missing cells stay missing.

        Needs pandas: raises `TrailsError` that names the extra without it.
        """
        return to_pandas(self.table())

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table` with typed columns; what is nested is JSON text.

        Needs pyarrow: raises `TrailsError` that names the extra without it.
        """
        return to_arrow(self.table())

    @html.safe
    def _repr_html_(self) -> str:
        return html.box(html.inline(repr(self).partition("\n")[0]), [to_html(self.table())])


check_methods(Tabular)


@dataclass(frozen=True, slots=True)
class PlainTable(Tabular):
    """Columns by name with their kinds, in order, and rows with a cell for each."""

    kinds: Mapping[str, Kind]
    rows: Sequence[Mapping[str, Any]]

    def table(self) -> PlainTable:
        """Return it as it is."""
        return self

    def __repr__(self) -> str:
        return f"<PlainTable of {len(self.rows)} rows: {', '.join(list(self.kinds)[:8])}>"

    def column(self, name: str) -> list[Any]:
        """Return a column's cells from top to bottom."""
        return [row[name] for row in self.rows]


def kind_of(values: Iterable[Any]) -> Kind:
    """Return the kind of a column that holds such values: one that holds them all, `json` where no other does.

    >>> kind_of([1, None, 0.5]), kind_of([True, None]), kind_of(["a", "b"]), kind_of([1, "a"])
    ('number', 'boolean', 'text', 'json')
    """
    present = [value for value in values if value is not None]
    types = {type(value) for value in present}
    if not types or types == {str}:
        return "text"
    if any(type(value) is int and abs(value) > _LARGEST for value in present):
        return "json"  # a whole number beyond what a float can be: nothing can be reckoned with it
    if types == {bool}:
        return "boolean"
    if types == {int}:
        return "integer"
    if types == {datetime}:
        return "time"
    return "number" if types <= {int, float} else "json"


def plain(value: Any) -> Any:
    """Return a cell as JSON carries it: times as ISO 8601 in UTC, lists and mappings as fresh copies."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def fresh(value: Any) -> Any:
    """Return a cell that shares nothing with the one given: mappings as dicts, sequences as lists."""
    if isinstance(value, Mapping):
        return {name: fresh(item) for name, item in value.items()}
    return [fresh(item) for item in value] if isinstance(value, list | tuple) else value


def text(value: Any, kind: Kind) -> str:
    """Return a cell as text: nothing for a missing one, `true`, ISO 8601, `a; b`, `search=3; sum=1`, or JSON.

    >>> text({"search": 3, "sum": 1}, "counts"), text(("m-1", "m-2"), "names"), text(None, "number"), text(True, "json")
    ('search=3; sum=1', 'm-1; m-2', '', 'true')
    """
    if value is None:
        return ""
    match kind:
        case "names":
            return "; ".join(value)
        case "counts":
            return "; ".join(f"{name}={count}" for name, count in value.items())
        case "time":
            return str(plain(value))
        case "text":
            return str(value)
        case _:
            return json.dumps(plain(value), ensure_ascii=False)


def significant(value: float, digits: int) -> str:
    """Return a number rounded to a count of significant digits; no digit before the point is ever lost.

    Whole numbers stay whole; what is smaller than 0.0001 gets an exponent.

    >>> significant(0.034567, 3), significant(54.5, 3), significant(12345.678, 3), significant(40, 2), significant(1.2e-7, 2)
    ('0.0346', '54.5', '12346', '40', '1.2e-07')
    """
    if isinstance(value, int) or value == 0:
        return f"{value:.0f}" if isinstance(value, float) else str(value)
    if abs(value) < 0.0001 or abs(value) >= 1e15:
        return f"{value:.{digits - 1}e}"
    before = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:.{max(0, digits - 1 - before)}f}"


def _shown(value: Any, kind: Kind, digits: int | None) -> str:
    if digits is not None and kind == "number" and value is not None:
        return significant(value, digits)
    return text(value, kind)


def checked_digits(digits: int | None) -> int | None:
    """Return how many significant digits numbers are rounded to, or raise `InvalidInput` for what is not 1 to 15."""
    if digits is not None and (type(digits) is not int or not 1 <= digits <= 15):
        raise InvalidInput(f"digits must be a whole number from 1 to 15, not {digits!r}")
    return digits


def inert(cell: str) -> str:
    """Return a text that no spreadsheet takes for a formula: `'` stands before one that begins like one.

    The beginnings are those that OWASP names for CSV injection: `=`, `+`, `-`, `@`, a tab and a carriage return.

    >>> inert("=1+1"), inert("plain")
    ("'=1+1", 'plain')
    """
    return f"'{cell}" if cell.startswith(_FORMULAS) else cell


def _cells(rows: Iterable[Mapping[str, Any]], table: PlainTable, write: Callable[[Any, Kind], str]) -> list[list[str]]:
    """Return the cells of some rows of a table as texts."""
    return [[write(row[name], kind) for name, kind in table.kinds.items()] for row in rows]


def to_csv(table: PlainTable, *, safe: bool = True) -> str:
    """Return a table as CSV (RFC 4180): a line of names, then a line a row, each ended by CR LF.

    With `safe`, no text is a formula for a spreadsheet (`inert`); numbers stay as they are.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")

    def cell(value: Any, kind: Kind) -> str:
        shown = text(value, kind)
        return inert(shown) if safe and kind not in NUMERIC else shown

    writer.writerow([inert(name) if safe else name for name in table.kinds])
    writer.writerows(_cells(table.rows, table, cell))
    return out.getvalue()


def to_markdown(table: PlainTable, *, digits: int | None = None) -> str:
    """Return a table as GitHub's Markdown has it; line ends within a cell become `<br>`, and nothing in it is markup.

    With `digits` (1 to 15), numbers that are no whole numbers are rounded to as many significant digits.
    """
    checked_digits(digits)
    head = [_escaped(name) for name in table.kinds]
    rule = ["---:" if kind in NUMERIC else "---" for kind in table.kinds.values()]
    rows = _cells(table.rows, table, lambda value, kind: _escaped(_shown(value, kind, digits)))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [head, rule, *rows])


def _escaped(cell: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    literal = cell.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "<br>".join(_MARKDOWN.sub(r"\\\1", literal).splitlines())


_LATEX: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
}


_LATEX_LABEL: Final = re.compile(r"[A-Za-z0-9:._/-]+")


def to_latex(
    table: PlainTable, *, digits: int | None = None, caption: str | None = None, label: str | None = None
) -> str:
    """Return a table as a `tabular` of LaTeX, with the rules of the package booktabs; text in it is never markup.

    Numbers stand to the right, rounded to `digits` (1 to 15) significant digits where given. Whatever breaks a line is a space.
    With a `caption`, which stands above and is no markup either, it is a `table` that floats, and `label` is what `\\ref`
    calls it by: letters, digits and `:._/-`. Raises `InvalidInput` for another label, or one without a caption.
    """
    checked_digits(digits)
    if label is not None and (caption is None or not _LATEX_LABEL.fullmatch(label)):
        raise InvalidInput(
            f"{label!r} can be no label of a table in LaTeX: it has letters, digits and :._/- only, and needs a caption, "
            "whose number it stands for"
        )
    columns = "".join("r" if kind in NUMERIC else "l" for kind in table.kinds.values())
    head = [_latex(name) for name in table.kinds]

    def write(value: Any, kind: Kind) -> str:
        return _shown(value, kind, digits).replace("-", "$-$") if kind in NUMERIC else _latex(text(value, kind))

    rows = _cells(table.rows, table, write)
    body = "".join(f"{' & '.join(cells)} \\\\\n" for cells in rows)
    start = f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{' & '.join(head)} \\\\\n\\midrule\n"
    tabular = f"{start}{body}\\bottomrule\n\\end{{tabular}}\n"
    if caption is None:
        return tabular
    named = "" if label is None else f"\\label{{{label}}}\n"
    return f"\\begin{{table}}[tbp]\n\\centering\n\\caption{{{_latex(caption)}}}\n{named}{tabular}\\end{{table}}\n"


def _latex(cell: str) -> str:
    """Return text that LaTeX sets as it is, on one line.

    >>> print(_latex("50% of a_b -- {x}"))
    50\\% of a\\_b -{}- \\{x\\}
    """
    literal = "".join(_LATEX.get(sign, sign) for sign in " ".join(cell.split()))
    return literal.replace("--", "-{}-").replace("--", "-{}-")  # else they become a dash


def to_html(table: PlainTable, *, digits: int | None = None) -> str:
    """Return a table's first rows as HTML for a notebook; numbers stand to the right."""
    rows = _cells(table.rows[: html.MOST_ROWS], table, lambda value, kind: _shown(value, kind, digits))
    right = [name for name, kind in table.kinds.items() if kind in NUMERIC]
    return html.table(list(table.kinds), rows, right=right, total=len(table.rows))


def of_items(items: Iterable[Any]) -> PlainTable:
    """Return values that have a `to_dict` as a table with a column for each of their fields; times stay times."""
    rows = [_row(item) for item in items]
    names = list(dict.fromkeys(name for row in rows for name in row))
    kinds = {name: kind_of(row.get(name) for row in rows) for name in names}
    return PlainTable(kinds, [{name: row.get(name) for name in names} for row in rows])


def _row(item: Any) -> dict[str, Any]:
    told: dict[str, Any] = item.to_dict() if hasattr(item, "to_dict") else {"value": str(item)}
    times = {name: value for name in told if isinstance(value := getattr(item, name, None), datetime)}
    return {name: times.get(name, value) for name, value in told.items()}


def to_pandas(table: PlainTable) -> Any:
    """Return a table as a `pandas.DataFrame`; missing whole numbers and booleans stay missing, never turn into others.

    Raises `TrailsError` where pandas is not installed (the extra `pandas`).
    """
    pandas = optional("pandas", "pandas", "a DataFrame")
    return pandas.DataFrame(
        {name: _series(pandas, table.column(name), kind) for name, kind in table.kinds.items()},
        columns=list(table.kinds),
    )


def _series(pandas: Any, values: list[Any], kind: Kind) -> Any:
    some_missing = any(value is None for value in values)
    match kind:
        case "number":
            return pandas.Series([None if value is None else float(value) for value in values], dtype="float64")
        case "place" | "integer" if _fits(values):
            return pandas.Series(values, dtype="Int64" if some_missing else "int64")
        case "boolean":
            return pandas.Series(values, dtype="boolean" if some_missing else "bool")
        case "time":
            return pandas.Series(values, dtype="datetime64[us, UTC]")
        case "text":
            return pandas.Series(values, dtype=None if values else "object")
        case _:
            return pandas.Series(values, dtype="object")


def _fits(values: Iterable[int | None]) -> bool:
    return all(value is None or -_BIGGEST <= value <= _BIGGEST for value in values)


def to_arrow(table: PlainTable) -> Any:
    """Return a table as a `pyarrow.Table`: counts as a map, names as a list, `json` (and integers over 64 bits) as JSON text.

    Raises `TrailsError` where pyarrow is not installed (the extra `arrow`).
    """
    arrow = optional("pyarrow", "arrow", "an Arrow table")
    types = {
        "text": arrow.string(),
        "boolean": arrow.bool_(),
        "place": arrow.int64(),
        "integer": arrow.int64(),
        "number": arrow.float64(),
        "time": arrow.timestamp("us", tz="UTC"),
        "names": arrow.list_(arrow.string()),
        "counts": arrow.map_(arrow.string(), arrow.int64()),
    }
    arrays = {}
    for name, kind in table.kinds.items():
        values = table.column(name)
        if kind == "json" or (kind in ("place", "integer") and not _fits(values)):
            values, kind = [None if value is None else text(value, "json") for value in values], "text"  # noqa: PLW2901
        elif kind == "counts":
            values = [None if value is None else list(value.items()) for value in values]
        elif kind == "number":
            values = [None if value is None else float(value) for value in values]
        arrays[name] = arrow.array(values, type=types[kind])
    return arrow.table(arrays)


def optional(module: str, name: str, what: str) -> Any:
    """Return an optional package, or raise `TrailsError` that says which extra brings it."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise TrailsError(
            f"{what} needs the package `{module.partition('.')[0]}`: pip install 'trails[{name}]'"
        ) from missing
