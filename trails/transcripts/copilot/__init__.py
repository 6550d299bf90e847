"""Sessions of GitHub Copilot CLI: its event logs, and the files of its first versions."""
