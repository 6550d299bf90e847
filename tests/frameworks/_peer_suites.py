"""Fetch a framework's own tests and run them with pytest, as they are or with a plugin that puts Trails in its store's place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

_HERE = Path(__file__).parent
Outcomes = dict[str, str]
"""Of each test: `passed`, or `failed: ` or `skipped: ` and the first line of the reason."""


_PLACE = Path(tempfile.gettempdir()) / "trails-peer-suites"


def fetch_tests(name: str, version: str) -> Path:
    """Return the folder of a package's source distribution, fetched once."""
    stem = f"{name.replace('-', '_')}-{version}"
    if not (_PLACE / stem).is_dir():
        _PLACE.mkdir(exist_ok=True)
        _pip("download", "--no-build-isolation", "--no-binary", ":all:", "-d", str(_PLACE), f"{name}=={version}")
        with tarfile.open(_PLACE / f"{stem}.tar.gz") as archive:
            archive.extractall(_PLACE, filter="data")
    return _PLACE / stem


def fetch_tools(*requirements: str) -> Path:
    """Return a folder with packages that only a framework's tests need, fetched once."""
    folder = _PLACE / "tools"
    missing = [each for each in requirements if not (folder / each.partition("=")[0].replace("-", "_")).is_dir()]
    if missing:
        _pip("install", "--target", str(folder), *missing)
    return folder


def _pip(command: str, *arguments: str) -> None:
    has_pip = find_spec("pip") is not None
    python = sys.executable if has_pip else os.environ.get("TRAILS_PIP_PYTHON", "python3")
    subprocess.run([python, "-m", "pip", command, "-q", "--no-deps", *arguments], check=True, stdout=sys.stderr)


def run_tests(
    folder: Path, files: Sequence[str], *options: str, plugin: str | None = None, tools: Path | None = None
) -> Outcomes:
    """Run files of tests and return how each test ended; `plugin` is a module of this folder, `tools` a folder of packages."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            *options,
            *files,
        ]
        if plugin is not None:
            command[3:3] = ["-p", plugin]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, filter(None, (_HERE, tools))))}
        run = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if not report.exists():
            print(run.stdout[-4000:], file=sys.stderr)
            raise SystemExit(f"the tests in {folder} could not be run")
        cases = ElementTree.parse(report).iter("testcase")  # noqa: S314 - pytest wrote it just now
        return dict(map(_outcome, cases))


def _outcome(case: ElementTree.Element) -> tuple[str, str]:
    name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
    for kind, tag in (("failed", "failure"), ("failed", "error"), ("skipped", "skipped")):
        if (found := case.find(tag)) is not None:
            return name, f"{kind}: {(found.get('message') or '').splitlines()[0:1]}"
    return name, "passed"


def print_result(name: str, trails: Outcomes, own: Outcomes, reasons: Mapping[str, str]) -> None:
    """Print a suite's line: how many tests passed on both, and why the others did not on Trails.

    `reasons` are by the beginning of a test's name; a test without one is shown with its error.
    """
    told = {}
    for test, outcome in trails.items():
        if outcome != "passed":
            told[test] = next((why for start, why in reasons.items() if test.startswith(start)), outcome)
    print(json.dumps({"name": name, "trails": _counts(trails), "own": _counts(own), "reasons": told}))


def _counts(outcomes: Outcomes) -> dict[str, Any]:
    kinds = [outcome.partition(":")[0] for outcome in outcomes.values()]
    return {kind: kinds.count(kind) for kind in ("passed", "failed", "skipped")}
