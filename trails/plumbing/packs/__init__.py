"""Packed transcripts: the turns that a session owns, in a file beside the store, so that a load need not ask the engine.

They are derived from the store, like the index, and never believed beyond it: of what is in doubt nothing is used.
"""
