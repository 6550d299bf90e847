"""Commands in processes of their own, on a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

from tests.support.places import IMPORTED


def environment(changes: dict[str, str]) -> dict[str, str]:
    """Return the environment of a command: this one's without what steers Trails, no pager, and with some changes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRAILS_", "COLUMNS", "PYTHON"))}
    return kept | {"PYTHONPATH": str(IMPORTED), "TRAILS_PAGER": ""} | changes


def on_terminal(place: Path, *arguments: str, typed: bytes = b"", **changes: str) -> tuple[int, str]:
    """Run a command with a terminal for stdin, stdout and stderr; return its exit code and what the terminal shows."""
    ours, theirs = pty.openpty()
    os.write(ours, typed)
    with subprocess.Popen(
        [sys.executable, "-m", "trails", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment({"TRAILS_STORE": str(place), "TERM": "xterm-256color", "COLUMNS": "80"} | changes),
    ) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the terminal is gone when the program is
            while data := os.read(ours, 65536):
                shown += data
    os.close(ours)
    return process.wait(), shown.decode()
