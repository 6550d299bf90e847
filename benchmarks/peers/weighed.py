"""What a peer takes of memory, in a process of its own: `python -m benchmarks.peers.weighed NAME FOLDER KIND COUNT SEED`."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import peers
from benchmarks.data import KINDS, TEXT_BYTES, Message
from benchmarks.harness import child_environment, resident
from benchmarks.peers.elsewhere import Elsewhere


def weigh(name: str, folder: Path, kind: str, count: int, seed: int) -> dict[str, int]:
    """Return the bytes by which a process grows that appends so many turns one by one, and one that loads and holds them."""
    command = [sys.executable, "-m", "benchmarks.peers.weighed", name, str(folder), kind, str(count), str(seed)]
    grown = {}
    for what in ("appending", "loading"):
        ran = subprocess.run([*command, what], check=True, env=child_environment(), stdout=subprocess.PIPE)
        grown[what] = int(json.loads(ran.stdout.splitlines()[-1]))
    return grown


def _grown(name: str, folder: Path, texts: Sequence[Message], what: str) -> int:
    with tempfile.TemporaryDirectory() as elsewhere:  # what is imported and made once for all
        warm = peers.reopened(name, Path(elsewhere))
        warm.append(texts[:1])
        warm.load()
        warm.close()
    peer = peers.reopened(name, folder)
    process = peer.process_id if isinstance(peer, Elsewhere) else os.getpid()
    gc.collect()
    before, held = resident(process), []
    if what == "appending":
        peer.append(texts)
    else:
        held = list(peer.hold() if isinstance(peer, Elsewhere) else peer.load())
    gc.collect()
    after = resident(process)
    del held
    peer.close()
    return max(0, after - before)


if __name__ == "__main__":
    asked, where, kind, count, seed, doing = sys.argv[1:]
    print(json.dumps(_grown(asked, Path(where), KINDS[kind](int(count), int(seed), TEXT_BYTES), doing)))
