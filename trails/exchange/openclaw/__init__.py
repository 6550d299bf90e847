"""Import and export state folders of OpenClaw and session files of pi, which OpenClaw writes."""

from __future__ import annotations
