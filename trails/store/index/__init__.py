"""The engine as an index of the log, and its files."""
