"""opencode's sessions: its export, its folder of JSON files, and its SQLite database."""
