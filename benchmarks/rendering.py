"""The report of a run as tables: on the terminal, and as Markdown for RESULTS.md."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

_HEADINGS = ("who", "median", "ratio")
_DURABILITY = "a commit of its own is"
_ALIGNED = ("---", "---:", "---:", "---")


def duration(seconds: float) -> str:
    """Return seconds in a unit that shows three digits.

    >>> duration(3.31456), duration(0.0123456), duration(0.00001234)
    ('3.31 s', '12.3 ms', '12.3 us')
    """
    if seconds >= 1:
        return f"{seconds:,.3g} s"
    return f"{seconds * 1e3:,.3g} ms" if seconds >= 0.001 else f"{seconds * 1e6:,.3g} us"


def _measured(value: float, unit: str) -> str:
    return duration(value) if unit == "s" else f"{value:,.0f} {unit}"


def _headings(result: dict[str, Any]) -> tuple[str, ...]:
    return (*_HEADINGS, _DURABILITY) if result["durability"] else _HEADINGS


def _rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = [
        (
            f"{name} (baseline)" if name == result["baseline"] else name,
            _measured(median, result["unit"]),
            f"{result['ratios'][name]:.2f} x",
            result["durability"].get(name, ""),
        )
        for name, median in result["medians"].items()
    ]
    rows += [(name, "not installed", "", "") for name in result["missing"]]
    rows += [(name, f"{count:,}", "", "") for name, count in result["counts"].items()]
    return [row[: len(_headings(result))] for row in rows]


def _verdict(target: dict[str, Any]) -> str:
    met = "met" if target["met"] else "MISSED"
    return f"{target['what']}: {target['value']:.3g} {target['unit']}, target {target['target']:g}: {met}"


def show(report: dict[str, Any]) -> None:
    """Print one table a result, with its targets below."""
    console = Console()
    for result in report["results"]:
        table = Table(*_headings(result), title=result["title"], title_justify="left")
        for row in _rows(result):
            table.add_row(*row)
        console.print(table)
        for target in result["targets"]:
            console.print(f"  {_verdict(target)}")
        console.print()


def markdown(report: dict[str, Any]) -> str:
    """Return the report as the text of RESULTS.md."""
    machine = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    lines = [
        "# Results",
        "",
        "Written by `python -m benchmarks --record`; README.md says what is measured and how to read it.",
        "",
        f"- date: {report['date']}, size: {report['size']}, seed: {report['seed']}",
        f"- machine: {machine} (load: 1, 5 and 15 minutes before the run)",
        f"- versions: {versions}",
        "",
    ]
    for result in report["results"]:
        headings = _headings(result)
        lines += [
            f"## {result['title']}",
            "",
            f"| {' | '.join(headings)} |",
            f"|{'|'.join(_ALIGNED[: len(headings)])}|",
        ]
        lines += [f"| {' | '.join(row)} |" for row in _rows(result)]
        lines += ["", *(f"- {_verdict(target)}" for target in result["targets"]), ""]
    return "\n".join(lines).rstrip() + "\n"
