"""Formats of coding agents: their session files, read as sessions."""
