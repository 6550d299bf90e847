"""Run the tests of session services of Google's ADK: `python -m tests.frameworks.google_adk [--tests FOLDER]`.

They are not in the package, so they come from the repository, at the tag of the pinned version; `--tests`, or GOOGLE_ADK_TESTS in
the environment, names a folder that has them already. All tests run that use the SQLite service: once as they are, and once
with `TrailsSessionService` in its place.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

_ARCHIVE = "https://codeload.github.com/google/adk-python/tar.gz/refs/tags/v{}"
_PLACE = "tests/unittests/sessions"
_OWN = re.compile(r"^from google\.adk\.sessions\.sqlite_session_service import SqliteSessionService", re.MULTILINE)
_TRAILS = "from trails.adapters.google_adk import TrailsSessionService as SqliteSessionService"
_REASONS: Mapping[str, str] = {
    "accepts_sqlite_urls": "a URL of SQLite is no location of a Trails store",
    "accepts_absolute_sqlite_urls": "a URL of SQLite is no location of a Trails store",
    "preserves_uri_query_parameters": "a URL of SQLite is no location of a Trails store",
}


def main() -> int:
    """Print a JSON line for the suite; return 1 if it could not be run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tests", type=Path, default=os.environ.get("GOOGLE_ADK_TESTS"), help=f"a folder with {_PLACE}"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        _fetch(home) if options.tests is None else shutil.copytree(Path(options.tests), home, dirs_exist_ok=True)
        own, _ = _run(home)
        for file in (home / _PLACE).glob("*.py"):
            file.write_text(_OWN.sub(_TRAILS, file.read_text("utf-8")), "utf-8")
        trails, failed = _run(home)
    reasons = {
        name: next((why for part, why in _REASONS.items() if part in name), told) for name, told in failed.items()
    }
    print(json.dumps({"name": "google-adk session services", "trails": trails, "own": own, "reasons": reasons}))
    return 0 if own["passed"] else 1


def _fetch(home: Path) -> None:
    """Put the repository's tests into a folder."""
    url = _ARCHIVE.format(version("google-adk"))
    with urllib.request.urlopen(url, timeout=120) as answer:  # noqa: S310 - the scheme stands above
        packed = io.BytesIO(answer.read())
    with tarfile.open(fileobj=packed) as archive:
        for member in archive.getmembers():
            member.name = member.name.partition("/")[2]
            if member.name.startswith("tests/"):
                archive.extract(member, home, filter="data")


def _run(home: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Run the tests; return how many passed, failed and were skipped, and why those did that did not pass."""
    report = home / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "asyncio", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    command += ["-k", "sqlite or SQLITE", "--rootdir", str(home), "-c", os.devnull, "-o", "asyncio_mode=auto", _PLACE]
    # a file that needs more than is installed is left out, as on both sides
    subprocess.run([*command, "--continue-on-collection-errors"], cwd=home, stdout=sys.stderr, check=False)
    counts: Counter[str] = Counter(passed=0, failed=0, skipped=0)
    told = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it just now
        if not case.get("classname"):
            continue
        fault = next((each for each in case if each.tag in ("failure", "error", "skipped")), None)
        outcome = "passed" if fault is None else "skipped" if fault.tag == "skipped" else "failed"
        counts[outcome] += 1
        if fault is not None:
            told[case.get("name", "")] = (fault.get("message") or fault.tag).partition("\n")[0][:200]
    return dict(counts), told


if __name__ == "__main__":
    sys.exit(main())
