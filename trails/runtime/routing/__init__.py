"""Sessions by key over a store: entries, resets, aliases, moves, and the policies that hold for each."""

from trails.runtime.routing.key_directory import Inbound, Routed
from trails.runtime.routing.router import Router

__all__ = ["Inbound", "Routed", "Router"]
