"""Sub-agent runs: spawned, watched, announced, cleaned up."""
