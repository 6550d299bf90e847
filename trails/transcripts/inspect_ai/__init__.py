"""Inspect AI's logs, `.eval` and JSON."""
