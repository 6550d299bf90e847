"""Sub-agents' runs: the registry, spawning, announcing, cleaning up, and messages between sessions."""

from trails.runs.host import Announcement, Outgoing, Step
from trails.runs.runs import Runs
from trails.runs.sending import Sent
from trails.runs.spawning import Spawned

__all__ = ["Announcement", "Outgoing", "Runs", "Sent", "Spawned", "Step"]
