"""Sessions by key over a store: entries, resets, aliases, moves, and the policies that hold for each."""

from trails.runtime.routing.router import Router
from trails.runtime.routing.routing_values import Inbound, Routed

__all__ = ["Inbound", "Routed", "Router"]
