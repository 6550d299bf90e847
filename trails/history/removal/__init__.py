"""Deletion, redaction, detaching, pruning."""
