"""Verify a store: digests, log, quads and rows.

`verify` checks a whole store, `turn_checks` each session.

What verify needs.
"""

from __future__ import annotations
