"""Digests over turns and what they prove. Pure functions; the documentation of each says what it commits to."""
