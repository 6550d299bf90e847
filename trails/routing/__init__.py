"""Sessions by key over a store: entries, resets, aliases, moves, and the policies that hold for each."""

from trails.routing.decisions import Inbound, Routed
from trails.routing.router import Router

__all__ = ["Inbound", "Routed", "Router"]
