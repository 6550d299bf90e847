"""Sub-agents' runs: the registry, spawning, announcing, cleaning up, and messages between sessions."""

from trails.runtime.runs.agent_tools import Sent, Spawned
from trails.runtime.runs.host import Announcement, Outgoing, Step
from trails.runtime.runs.runs import Runs

__all__ = ["Announcement", "Outgoing", "Runs", "Sent", "Spawned", "Step"]
