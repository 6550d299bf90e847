"""Claude Code's session files."""
