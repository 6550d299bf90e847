"""The session tree at run time: spawning, limits, states, results."""

from trails.runtime.tree.tree import Tree
from trails.runtime.tree.tree_index import Limits
from trails.runtime.tree.tree_node import Node
from trails.runtime.tree.tree_transaction import Artifact, SessionResult

__all__ = ["Artifact", "Limits", "Node", "SessionResult", "Tree"]
