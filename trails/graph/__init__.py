"""The live store as rdflib sees it: a read-only `Dataset` over all graphs, or one graph, answered by the store's own engine."""

from __future__ import annotations

from trails.graph.views import GraphView, StoreView

__all__ = ["GraphView", "StoreView"]
