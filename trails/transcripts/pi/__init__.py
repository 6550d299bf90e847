"""The pi coding agent's session files: read, shown as pi would, and written."""
