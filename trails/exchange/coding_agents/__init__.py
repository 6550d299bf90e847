"""Formats of coding agents: their session files, read as sessions."""

from __future__ import annotations
