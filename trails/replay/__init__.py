"""Running an agent again over a recorded session: what agrees is shared, what differs becomes a fork."""
