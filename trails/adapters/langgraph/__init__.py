"""LangGraph's checkpointer and store on Trails: see the guide's page `langgraph`."""

from trails.adapters.langgraph.saver import TrailsSaver

__all__ = ["TrailsSaver"]
