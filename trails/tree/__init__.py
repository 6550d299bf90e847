"""The session tree at run time: spawning, limits, states, results."""

from trails.tree.limits import Limits
from trails.tree.node import Node
from trails.tree.results import Artifact, SessionResult
from trails.tree.tree import Tree

__all__ = ["Artifact", "Limits", "Node", "SessionResult", "Tree"]
