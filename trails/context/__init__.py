"""What a model is shown of a transcript: token windows, context assembly, tool pairing, message shapes. Pure functions."""
