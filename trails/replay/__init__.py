"""Run an agent again over a recorded session."""
