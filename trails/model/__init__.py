"""The values of a session, and what they may hold."""
