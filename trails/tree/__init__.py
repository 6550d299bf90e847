"""The session tree at run time: spawning, limits, states, results."""
