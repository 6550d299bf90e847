"""Read the exports of chat programs, and lists of messages."""
