"""Keep the sessions of the OpenAI Agents SDK in Trails: `TrailsSession` is what `Runner.run(..., session=...)` takes."""

from trails.adapters.openai_agents.session import TrailsSession

__all__ = ["TrailsSession"]
