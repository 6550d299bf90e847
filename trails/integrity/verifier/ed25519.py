"""Check Ed25519 signatures with nothing but Python's integers (RFC 8032, section 5.1.7)."""

from __future__ import annotations

import hashlib

_PRIME = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _PRIME - 2, _PRIME) % _PRIME
_ROOT = pow(2, (_PRIME - 1) // 4, _PRIME)
Point = tuple[int, int, int, int]
"""A point of the curve in extended coordinates: x = X/Z, y = Y/Z, x*y = T/Z."""


def _added(left: Point, right: Point) -> Point:
    a = (left[1] - left[0]) * (right[1] - right[0]) % _PRIME
    b = (left[1] + left[0]) * (right[1] + right[0]) % _PRIME
    c = 2 * left[3] * right[3] * _D % _PRIME
    d = 2 * left[2] * right[2] % _PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _PRIME, g * h % _PRIME, f * g % _PRIME, e * h % _PRIME


def _times(factor: int, point: Point) -> Point:
    total = (0, 1, 1, 0)
    while factor:
        if factor & 1:
            total = _added(total, point)
        point = _added(point, point)
        factor >>= 1
    return total


def _point(data: bytes) -> Point | None:
    """Return the point that 32 bytes encode, None where they encode none in the one right way."""
    y = int.from_bytes(data, "little") & (1 << 255) - 1
    if len(data) != 32 or y >= _PRIME:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, _PRIME - 2, _PRIME) % _PRIME
    x = pow(square, (_PRIME + 3) // 8, _PRIME)
    if (x * x - square) % _PRIME:
        x = x * _ROOT % _PRIME
    odd = data[31] >> 7
    if (x * x - square) % _PRIME or (x == 0 and odd):
        return None
    if x & 1 != odd:
        x = _PRIME - x
    return x, y, 1, x * y % _PRIME


_BASE = _point((4 * pow(5, _PRIME - 2, _PRIME) % _PRIME).to_bytes(32, "little"))


def is_signed_by(public: bytes, signature: bytes, message: bytes) -> bool:
    """Tell whether an Ed25519 signature of a message is by a public key (RFC 8032, section 5.1.7)."""
    key, commitment, scalar = _point(public), _point(signature[:32]), int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or key is None or commitment is None or scalar >= _ORDER or _BASE is None:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % _ORDER
    left, right = _times(scalar, _BASE), _added(commitment, _times(challenge, key))
    same_x = (left[0] * right[2] - right[0] * left[2]) % _PRIME == 0
    return same_x and (left[1] * right[2] - right[1] * left[2]) % _PRIME == 0
