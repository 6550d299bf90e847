"""Formats of traces and evaluations: OpenTelemetry spans, Inspect AI logs and services that collect them.

Inspect AI's logs, `.eval` and JSON.

OpenTelemetry's GenAI spans.
"""

from __future__ import annotations
