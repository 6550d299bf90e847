"""Digests in half their length, as the index's files have them."""

from __future__ import annotations

from typing import Final

_DIGITS: Final = 64
_HEX: Final = frozenset("0123456789abcdef")


def brief(digest: str) -> bytes | str:
    """Return a digest as the bytes that its digits stand for; what is no SHA-256 as it is.

    >>> len(brief("00ff" * 16)), brief("urn:x")
    (32, 'urn:x')
    """
    return bytes.fromhex(digest) if len(digest) == _DIGITS and not set(digest) - _HEX else digest


def whole(kept: bytes | str) -> str:
    """Return what `brief` was given.

    >>> whole(brief("00ff" * 16)) == "00ff" * 16, whole("urn:x")
    (True, 'urn:x')
    """
    return kept.hex() if isinstance(kept, bytes) else kept
