"""What a user would pick instead, each behind the same methods. One that is not installed is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from benchmarks.harness import timed
from benchmarks.peers.agents import AdvancedAgents, Agents
from benchmarks.peers.checkpoints import Checkpoints
from benchmarks.peers.elsewhere import Elsewhere
from benchmarks.peers.lines import JsonLines
from benchmarks.peers.ours import Ours
from benchmarks.peers.peer import Peer
from benchmarks.peers.runs import Runs
from benchmarks.peers.tables import Table

OURS: Final = "trails"
JSON_LINES: Final = "JSON lines"
SQLITE_SESSION: Final = "openai-agents SQLiteSession"
PEERS: Final[dict[str, Callable[[Path], Peer]]] = {
    JSON_LINES: JsonLines,
    "sqlite3, a table by hand": Table,
    SQLITE_SESSION: Agents,
    "openai-agents AdvancedSQLiteSession": AdvancedAgents,
    "langgraph SqliteSaver": Checkpoints,
    "activegraph": Runs,
    "DoltLite, with its commits": Elsewhere,
}
"""How to open each peer in a folder."""


def installed(folder: Path) -> tuple[dict[str, Peer], list[str]]:
    """Return the peers that can be opened, each in a folder of its own, and the names of those not installed."""
    found: dict[str, Peer] = {}
    missing = []
    for name in PEERS:
        try:
            found[name] = reopened(name, folder)
        except ImportError:
            missing.append(name)
    return found, missing


def reopened(name: str, folder: Path) -> Peer:
    """Return a new instance of a peer, or of Trails, on its folder below this one."""
    its = place(name, folder)
    its.mkdir(parents=True, exist_ok=True)
    return Ours(its) if name == OURS else PEERS[name](its)


def place(name: str, folder: Path) -> Path:
    """Return the folder of a peer, or of Trails, below this one."""
    return folder / name.replace(" ", "-")


def seconds(peer: Peer, work: Callable[[], object]) -> float:
    """Return the seconds that a peer's work takes; of one that works elsewhere those that it took there."""
    if isinstance(peer, Elsewhere):
        before = peer.spent
        work()
        return peer.spent - before
    return timed(work)


def durability(found: Mapping[str, Peer]) -> dict[str, str]:
    """Return what a commit of each has reached when it returns, by name."""
    return {name: peer.durability for name, peer in found.items()}


def opened(name: str, folder: Path, work: Callable[[Peer], object]) -> tuple[Peer, float]:
    """Open a peer, and return it with the seconds that opening and this work took together."""
    found: list[Peer] = []

    def both() -> None:
        found.append(reopened(name, folder))
        work(found[0])

    taken = timed(both)
    peer = found[0]
    return peer, peer.spent if isinstance(peer, Elsewhere) else taken
