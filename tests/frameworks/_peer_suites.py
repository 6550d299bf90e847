"""Fetch a framework's own tests and run them with pytest, as they are or with a plugin that puts Trails in its store's place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

_HERE = Path(__file__).parent
Outcomes = dict[str, str]
"""Of each test: `passed`, or `failed: ` or `skipped: ` and the first line of the reason."""


def fetch_tests(name: str, version: str) -> Path:
    """Return the folder of a package's source distribution, fetched once."""
    place = Path(tempfile.gettempdir()) / "trails-peer-suites"
    stem = f"{name.replace('-', '_')}-{version}"
    if not (place / stem).is_dir():
        place.mkdir(exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "--no-binary",
            ":all:",
        ]
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
            command[0] = os.environ.get("TRAILS_PIP_PYTHON", "python3")  # an environment without pip
        subprocess.run([*command, "-d", str(place), f"{name}=={version}"], check=True, stdout=sys.stderr)
        with tarfile.open(next(place.glob(f"{stem}.tar.gz"))) as archive:
            archive.extractall(place, filter="data")
    return place / stem


def run_tests(folder: Path, files: Sequence[str], *options: str, plugin: str | None = None) -> Outcomes:
    """Run files of tests and return how each test ended; `plugin` is a module of this folder."""
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
        environment = {**os.environ, "PYTHONPATH": str(_HERE)}
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
