"""Check proofs in the Merkle tree of a transparency log: that a leaf is in it, and that it only ever grew.

The tree is the one of RFC 6962, section 2.1 and RFC 9162, section 2.1, over SHA-256. Sizes count leaves, indices start at 0.
Trails makes these proofs in `trails.integrity.merkle`. Errors: IntegrityError with what does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from trails.errors import IntegrityError, InvalidInput

HASH_SIZE = 32
"""Bytes in every hash of the tree."""

EMPTY_ROOT = sha256(b"").digest()
"""The root of a tree without leaves (RFC 6962, section 2.1)."""


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf that holds `data`.

    >>> leaf_hash(b"").hex()[:16]
    '6e340b9cffb37a98'
    """
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node over the hashes of its two subtrees."""
    return sha256(b"\x01" + left + right).digest()


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Check that a leaf is at `index` of the tree with `size` leaves and this `root`; silence means that it is.

    Args: `leaf` is the leaf's hash, `proof` the hashes of `inclusion_proof`. Raises IntegrityError with what does not
    fit. Source: RFC 9162, section 2.1.3.2.
    """
    if not 0 <= index < size:
        raise IntegrityError(f"inclusion: there is no leaf {index} in a tree of {size} leaves")
    check_hash(leaf, "inclusion: the leaf hash")
    check_hash(root, "inclusion: the root")
    # Up to level `inner` the path has siblings on both sides; above, it climbs the right edge: only left ones.
    inner = (index ^ (size - 1)).bit_length()
    check_proof(proof, inner + _ones(index >> inner), f"inclusion of leaf {index} in {size}")
    reached = leaf
    for level, sibling in enumerate(proof):
        is_right = level >= inner or index >> level & 1
        reached = node_hash(sibling, reached) if is_right else node_hash(reached, sibling)
    if reached != root:
        what = f"leaf {index} of {size} leads to the root {reached.hex()}, not to {bytes(root).hex()}"
        raise IntegrityError(f"inclusion: {what}: something was altered, or they belong to different trees")


def verify_consistency(old_size: int, new_size: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> None:
    """Check that the tree of `new_size` leaves begins with the very leaves of the old one; silence means that it does.

    Everything extends the empty tree: from size 0, the old root must be `EMPTY_ROOT`, the proof empty, and nothing is
    said about the new root. Raises IntegrityError with what does not fit. Source: RFC 9162, section 2.1.4.2.
    """
    if not 0 <= old_size <= new_size:
        raise IntegrityError(f"consistency: a tree of {new_size} leaves cannot have grown from one of {old_size}")
    check_hash(old_root, "consistency: the old root")
    check_hash(new_root, "consistency: the new root")
    for size, root in ((old_size, old_root), (new_size, new_root)):
        if size == 0 and root != EMPTY_ROOT:
            raise IntegrityError(f"consistency: the tree without leaves cannot have the root {bytes(root).hex()}")
    if 0 < old_size < new_size:
        _verify_growth(old_size, new_size, old_root, new_root, proof)
        return
    check_proof(proof, 0, f"consistency from {old_size} to {new_size}")
    if old_size == new_size:
        what = f"consistency: two trees of size {new_size} must have one root, and the old one"
        _check_root(old_root, new_root, what)


def _verify_growth(old_size: int, new_size: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> None:
    """Climb from the last complete subtree of the old tree to both roots, for 0 < old_size < new_size."""
    what = f"consistency from {old_size} to {new_size}"
    start = (old_size & -old_size).bit_length() - 1  # the level of that subtree
    inner = ((old_size - 1) ^ (new_size - 1)).bit_length() - start
    path = (old_size - 1) >> start
    is_whole_old_tree = path == 0
    check_proof(proof, inner + _ones(path >> inner) + (not is_whole_old_tree), what)
    old = new = old_root if is_whole_old_tree else proof[0]
    for level, sibling in enumerate(proof if is_whole_old_tree else proof[1:]):
        if level >= inner or path >> level & 1:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
        else:
            new = node_hash(new, sibling)
    _check_root(old, old_root, f"{what}: the proof leads to another old root")
    _check_root(new, new_root, f"{what}: the proof leads to another new root")


def check_hash(value: bytes, what: str, error: type[IntegrityError | InvalidInput] = IntegrityError) -> None:
    """Raise an error for what is no SHA-256 hash."""
    if len(value) != HASH_SIZE:
        raise error(f"{what} has {len(value)} bytes; a SHA-256 hash has {HASH_SIZE}")


def _ones(number: int) -> int:
    return bin(number).count("1")  # noqa: FURB161 - `bit_count` came with Python 3.10


def check_proof(proof: Sequence[bytes], length: int, what: str) -> None:
    """Raise IntegrityError if a proof has another number of hashes, or one that is none."""
    if len(proof) != length:
        trouble = "short" if len(proof) < length else "long"
        raise IntegrityError(f"{what}: the proof is too {trouble}, {len(proof)} hashes where {length} belong")
    for position, value in enumerate(proof):
        check_hash(value, f"{what}: hash {position} of the proof")


def _check_root(root: bytes, expected: bytes, what: str) -> None:
    if root != expected:
        raise IntegrityError(f"{what}: {bytes(root).hex()} is not {bytes(expected).hex()}")
