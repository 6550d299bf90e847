"""Run what documents show: their commands, in this process or in a shell."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.support.commands import invoke, ok
from tests.support.places import IMPORTED


def run_here(line: str) -> str:
    """Run a line of a document in this process; where a shell has more to do than to put in what a command prints, there."""
    line = re.sub(r"\$\(trails (.*?)\)", lambda found: ok(invoke(*shlex.split(found[1]))).strip(), line)
    command, _, given = line.partition(" <<< ")
    if re.search(r"[|<>$`&;*~]", re.sub(r"'[^']*'|\"[^\"$`]*\"", "", command)):
        return in_a_shell(line, Path.cwd())
    return ok(invoke(*shlex.split(command)[1:], stdin="".join(f"{text}\n" for text in shlex.split(given))))


def in_a_shell(script: str, folder: Path) -> str:
    """Run lines of a document in a folder, as somebody would who pastes them into a terminal; return what they print."""
    start = f'set -eu -o pipefail; trails() {{ "{sys.executable}" -m trails "$@"; }}\n'
    environment = {name: value for name, value in os.environ.items() if name != "TRAILS_STORE"}
    environment["PYTHONPATH"] = str(IMPORTED)
    done = subprocess.run(
        ["bash", "-xc", start + script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
