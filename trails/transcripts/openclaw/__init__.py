"""OpenClaw's state folder: read whole, and written."""
