"""Run all suites and write what they gave to benchmarks/FRAMEWORKS.md: `python -m tests.frameworks [--record] [NAME ...]`.

A suite's line has `name`, and for `trails` and `own` (the framework's own store) `passed`, `failed` and `skipped`, numbers;
`reasons` says why a test failed or was skipped, by the test's name.
"""

from __future__ import annotations

import argparse
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tests.frameworks

_RECORD = Path(__file__).parents[2] / "benchmarks" / "FRAMEWORKS.md"
_MARK = "<!-- suites -->"


def main() -> int:
    """Run the suites that are named, or all; return 1 if one could not be run."""
    known = sorted(each.name for each in pkgutil.iter_modules(tests.frameworks.__path__) if each.name[0] != "_")
    parser = argparse.ArgumentParser(prog="python -m tests.frameworks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; default all")
    parser.add_argument("--record", action="store_true", help=f"write {_RECORD.name} anew")
    options = parser.parse_args()
    broken, results = [], []
    for name in options.names or known:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", f"tests.frameworks.{name}"]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        results += [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        broken += [name] if run.returncode else []
    table = "\n".join(_table(results))
    print(table)
    if options.record:
        before, _, rest = _RECORD.read_text("utf-8").partition(_MARK)
        after = rest.partition(_MARK)[2]
        _RECORD.write_text(f"{before}{_MARK}\n{table}\n{_MARK}{after}", "utf-8")
    for name in broken:
        print(f"error: the suites of {name} could not be run", file=sys.stderr)
    return 1 if broken else 0


def _table(results: list[Mapping[str, Any]]) -> Iterator[str]:
    yield "| suite | Trails | the framework's own store |"
    yield "|---|---|---|"
    for result in results:
        yield f"| {result['name']} | {_counts(result['trails'])} | {_counts(result['own'])} |"
    for result in results:
        if reasons := result.get("reasons"):
            yield f"\n{result['name']}:\n"
            yield from (f"- `{test}`: {reason}" for test, reason in sorted(reasons.items()))


def _counts(counts: Mapping[str, int]) -> str:
    total = counts["passed"] + counts["failed"]
    skipped = f", {counts['skipped']} skipped" if counts.get("skipped") else ""
    return f"{counts['passed']} of {total}{skipped}"


if __name__ == "__main__":
    sys.exit(main())
