"""OpenTelemetry's GenAI spans."""
