"""Formats of traces and evaluations: OpenTelemetry spans, Inspect AI logs and services that collect them."""
