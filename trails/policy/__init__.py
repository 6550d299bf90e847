"""Who may do what, and when a conversation starts anew: pure rules over plain configuration."""
