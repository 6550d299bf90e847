"""Run the tests of session services of Google's ADK: `python -m tests.frameworks.google_adk`.

They are not in the package: they come from the repository, at the tag of the pinned version, or from a folder that
GOOGLE_ADK_TESTS names. All tests run that use the SQLite service: as they are, and with `TrailsSessionService` in its place.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
import tempfile
import urllib.request
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.frameworks import _peer_suites

_ARCHIVE: Final = "https://codeload.github.com/google/adk-python/tar.gz/refs/tags/v{}"
_PLACE: Final = "tests/unittests/sessions"
_OWN: Final = re.compile(
    r"^from google\.adk\.sessions\.sqlite_session_service import SqliteSessionService", re.MULTILINE
)
_TRAILS: Final = "from trails.adapters.google_adk import TrailsSessionService as SqliteSessionService"
_URL: Final = "a URL of SQLite is no location of a Trails store"
_REASONS: Final[Mapping[str, str]] = {
    "test_session_service::test_sqlite_session_service_accepts": _URL,
    "test_session_service::test_sqlite_session_service_preserves_uri": _URL,
    "test_session_service::test_get_session_orders_tied_timestamps_by_id": (
        "events come in the order in which they were appended; the SQLite service of 2.13 fails it too"
    ),
}


def main() -> None:
    """Print one line for the suite."""
    tools = _peer_suites.fetch_tools("pytest-asyncio==1.5.0")
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        _fetch(home)
        # what needs more than is installed is left out on both sides
        options = ["-k", "sqlite or SQLITE", "-c", os.devnull, "--rootdir", scratch, "--continue-on-collection-errors"]
        options += ["-o", "asyncio_mode=auto", "-W", "ignore"]
        own = _peer_suites.run_tests(home, [_PLACE], *options, tools=tools)
        for file in (home / _PLACE).glob("*.py"):
            file.write_text(_OWN.sub(_TRAILS, file.read_text("utf-8")), "utf-8")
        trails = _peer_suites.run_tests(home, [_PLACE], *options, tools=tools)
    _peer_suites.print_result("google-adk: session services", trails, own, _REASONS)


def _fetch(home: Path) -> None:
    """Put the tests into a folder."""
    if there := os.environ.get("GOOGLE_ADK_TESTS"):
        shutil.copytree(there, home, dirs_exist_ok=True)
        return
    url = _ARCHIVE.format(version("google-adk"))
    with urllib.request.urlopen(url, timeout=120) as answer:  # noqa: S310 - the scheme stands above
        packed = io.BytesIO(answer.read())
    with tarfile.open(fileobj=packed) as archive:
        for member in archive.getmembers():
            member.name = member.name.partition("/")[2]
            if member.name.startswith("tests/"):
                archive.extract(member, home, filter="data")


if __name__ == "__main__":
    main()
