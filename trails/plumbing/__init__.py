"""Readers and indexes that are being replaced."""
