"""LangGraph's checkpointer and store on Trails: see the guide's page `langgraph`."""

from trails.adapters.langgraph.saver import TrailsSaver
from trails.adapters.langgraph.store import TrailsStore

__all__ = ["TrailsSaver", "TrailsStore"]
