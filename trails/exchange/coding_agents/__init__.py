"""Formats of coding agents: their session files, read as sessions.

Claude Code's session files.

Codex's rollout files.

Sessions of GitHub Copilot CLI: its event logs, and the files of its first versions.

opencode's sessions: its export, its folder of JSON files, and its SQLite database.
"""

from __future__ import annotations
