"""Rules over a store of quads, without handles: reading, writing, deleting, redacting, verifying. Git's word."""
