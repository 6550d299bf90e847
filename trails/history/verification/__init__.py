"""Verify a store: digests, log, quads and rows.

Whether what is stored is whole and was not altered: the whole store (`audit`), and each session (`checking`).

What verify needs.
"""

from __future__ import annotations
