"""Session keys: who a conversation is with, as one line of text. Pure functions."""
