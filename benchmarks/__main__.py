"""Run the benchmarks: `python -m benchmarks [--quick | --long] [--only NAME] [--json FILE] [--record]`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import harness, rendering
from benchmarks.harness import SIZES, Result, Setting
from benchmarks.scenarios import SCENARIOS

_RESULTS = Path(__file__).parent / "RESULTS.md"


def run(
    size: str,
    *,
    only: Sequence[str] = (),
    seed: int = 2026,
    folder: Path | None = None,
    large: Path | None = None,
) -> dict[str, Any]:
    """Run scenarios and return the report as plain values, ready for JSON; `only` names some of them.

    Stores are made in `folder`, by default the system's temporary folder, and removed again. `large` is a store that
    `benchmarks.million` made: the scenario `scale` measures a copy of it, instead of making one.
    """
    before = harness.machine()
    results = list(_results(size, only or list(SCENARIOS), seed, folder, large))
    return harness.report(results, SIZES[size], seed, before)


def _results(size: str, names: Sequence[str], seed: int, folder: Path | None, large: Path | None) -> Iterator[Result]:
    for name in names:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="trails-bench-", dir=folder) as place:
            yield from SCENARIOS[name](Setting(SIZES[size], seed, Path(place), large))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the arguments ask for; print tables, and write JSON and RESULTS.md where asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_const", dest="size", const="quick", help="a fifth of the size")
    sizes.add_argument("--long", action="store_const", dest="size", const="long", help="more rounds, 100,000 sessions")
    parser.add_argument("--only", action="append", choices=list(SCENARIOS), default=[], help="a scenario; repeatable")
    parser.add_argument("--seed", type=int, default=2026, help="of the texts (default 2026)")
    parser.add_argument("--folder", type=Path, help="where the stores are made: the disk that is measured")
    parser.add_argument(
        "--large", type=Path, help="a store that benchmarks.million made: `scale` measures a copy of it"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    parser.add_argument("--record", action="store_true", help=f"write {_RESULTS.name} anew")
    asked = parser.parse_args(arguments)
    found = run(asked.size or "standard", only=asked.only, seed=asked.seed, folder=asked.folder, large=asked.large)
    rendering.show(found)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    if asked.record:
        _RESULTS.write_text(rendering.markdown(found), "utf-8")


if __name__ == "__main__":
    main()
