"""Keep the transcripts of the Claude Agent SDK in Trails: `TrailsSessionStore` is what its option `session_store` takes."""

from trails.adapters.claude_agent_sdk.session_store import TrailsSessionStore

__all__ = ["TrailsSessionStore"]
