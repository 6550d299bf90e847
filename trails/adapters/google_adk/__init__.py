"""Keep the sessions of Google's Agent Development Kit in Trails: `TrailsSessionService`. The extra is `google-adk`."""

from trails.adapters.google_adk.session_service import TrailsSessionService

__all__ = ["TrailsSessionService"]
