"""Sub-agents' runs: the registry, spawning, announcing, cleaning up, and messages between sessions."""

from trails.runtime.runs.agent_messages import Sent
from trails.runtime.runs.host import Announcement, Outgoing, Step
from trails.runtime.runs.runs import Runs
from trails.runtime.runs.subagent_spawns import Spawned

__all__ = ["Announcement", "Outgoing", "Runs", "Sent", "Spawned", "Step"]
