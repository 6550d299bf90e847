"""A peer whose process ends by a kill: `python -m benchmarks.peers.killed NAME FOLDER COUNT`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from benchmarks import peers
from benchmarks.data import messages
from benchmarks.harness import child_environment
from benchmarks.peers.elsewhere import Elsewhere


def kill(name: str, folder: Path, count: int) -> None:
    """Append so many turns to a peer, one by one, in a process that is killed right after the last."""
    command = [sys.executable, "-m", "benchmarks.peers.killed", name, str(folder), str(count)]
    ended = subprocess.run(command, check=False, env=child_environment())
    assert ended.returncode == -signal.SIGKILL


def _append_and_die(name: str, folder: Path, count: int) -> None:
    peer = peers.reopened(name, folder)
    peer.append(messages(count, 7))
    if isinstance(peer, Elsewhere):
        peer.kill()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _append_and_die(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
