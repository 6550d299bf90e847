"""What belongs to a session and is no turn."""
