"""Run the measurements: `python -m benchmarks.frameworks [--json] [--record] [NAME ...]`."""

from __future__ import annotations

import argparse
import json
import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from benchmarks import frameworks
from benchmarks.frameworks import Figure

_RECORD = Path(__file__).parents[1] / "FRAMEWORKS.md"
_MARK = "<!-- figures -->"


def main() -> None:
    """Measure the adapters that are named, or all, and print a table."""
    known = sorted(each.name for each in pkgutil.iter_modules(frameworks.__path__) if each.name[0] != "_")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frameworks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; default all")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--record", action="store_true", help=f"write {_RECORD.name} anew")
    options = parser.parse_args()
    figures: list[tuple[str, Figure]] = []
    for name in options.names or known:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        figures += [(name, figure) for figure in import_module(f"benchmarks.frameworks.{name}").measure()]
    table = "\n".join(_table(figures))
    print(json.dumps([{"adapter": name, **figure._asdict()} for name, figure in figures]) if options.json else table)
    if options.record:
        before, _, rest = _RECORD.read_text("utf-8").partition(_MARK)
        after = rest.partition(_MARK)[2]
        _RECORD.write_text(f"{before}{_MARK}\n{table}\n{_MARK}{after}", "utf-8")


def _table(figures: list[tuple[str, Figure]]) -> Iterator[str]:
    yield "| adapter | work | Trails, ms | own store, ms | ratio | aim |"
    yield "|---|---|---|---|---|---|"
    for name, figure in figures:
        own = "-" if figure.own_ms is None else f"{figure.own_ms:.2f}"
        ratio = "-" if figure.ratio is None else f"{figure.ratio:.2f}x"
        yield f"| {name} | {figure.work} | {figure.trails_ms:.2f} | {own} | {ratio} | {figure.aim} |"


if __name__ == "__main__":
    main()
