"""Checks that need Python 3.9 and nothing else: what `verify_export.py` is joined from, and what Trails itself checks with.

These modules import the standard library, each other, `trails.usage`, and the two errors of `trails.errors` that stand for
"it does not hold" and "it cannot be read". No two of them give one name to two things.
"""
