"""The Merkle tree of a transparency log: its root, and proofs that a leaf is in it or that it only ever grew.

They are checked in `trails.integrity.verifier.merkle_checks`.

The tree is the one of RFC 6962, section 2.1 and RFC 9162, section 2.1, over SHA-256: leaves and inner nodes are hashed
with different first bytes, so that one can't pass for the other, and a tree of any size splits at the largest power of
two below its size. A node is named here by `(level, position)`: the root of the complete subtree over the leaves from
`position << level` up to `(position + 1) << level` (exclusive). Sizes count leaves, indices start at 0.

>>> from trails.integrity.verifier.merkle_checks import leaf_hash, verify_consistency, verify_inclusion
>>> tree = HashTree(leaf_hash(data) for data in (b"a", b"b", b"c"))
>>> proof = tree.inclusion(2)
>>> verify_inclusion(leaf_hash(b"c"), 2, 3, proof, tree.root())
>>> verify_consistency(1, 3, tree.root(1), tree.root(), tree.consistency(1))
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from trails.errors import InvalidInput
from trails.integrity.verifier.merkle_checks import EMPTY_ROOT, HASH_SIZE, check_hash, check_proof, node_hash


def root_of(leaf_hashes: Iterable[bytes]) -> bytes:
    """Return the root of the tree over some leaf hashes, holding only O(log n) of them at a time."""
    frontier = Frontier()
    for leaf in leaf_hashes:
        frontier.append(leaf)
    return frontier.root()


def roots_at(leaf_hashes: Iterable[bytes], sizes: Collection[int]) -> dict[int, bytes]:
    """Return the roots of the trees of the first leaves, by how many they are; a size that there is no tree of is left out.

    >>> from trails.integrity.verifier.merkle_checks import leaf_hash
    >>> leaves = [leaf_hash(b"a"), leaf_hash(b"b")]
    >>> roots_at(leaves, {1, 3}) == {1: root_of(leaves[:1])}
    True
    """
    frontier, roots, most = Frontier(), {0: EMPTY_ROOT} if 0 in sizes else {}, max(sizes, default=0)
    for leaf in leaf_hashes:
        if frontier.size >= most:
            break
        frontier.append(leaf)
        if frontier.size in sizes:
            roots[frontier.size] = frontier.root()
    return roots


class Frontier:
    """A growing tree of which only the right edge is kept: enough to append and to give the root, not for proofs.

    The edge is one hash for each complete subtree, from the largest (leftmost) to the smallest: as many as `size` has
    one bits.
    """

    def __init__(self, size: int = 0, edge: Sequence[bytes] = ()) -> None:
        """Start without leaves, or with the edge of a tree of `size` leaves; IntegrityError for a wrong number of hashes."""
        check_proof(edge, size.bit_count(), f"the edge of a tree of {size} leaves")
        self.size = size
        self._nodes = list(edge)

    def append(self, leaf: bytes) -> None:
        """Add a leaf by its hash (`leaf_hash` of its data), in amortised constant time."""
        check_hash(leaf, "a leaf hash", InvalidInput)
        below, node = self.size, leaf
        while below & 1:
            node = node_hash(self._nodes.pop(), node)
            below >>= 1
        self._nodes.append(node)
        self.size += 1

    def root(self) -> bytes:
        """Return the root over all leaves, in at most log2(size) hashes."""
        return _join(self._nodes)


class HashTree:
    """A growing tree that keeps the hash of every complete subtree: roots and proofs at any past size in O(log n).

    Memory: 64 bytes a leaf. Leaves can be appended only, so what was proven once stays provable.
    """

    def __init__(self, leaf_hashes: Iterable[bytes] = ()) -> None:
        """Start with some leaf hashes, in order."""
        self._levels: list[bytearray] = [bytearray()]
        self.size = 0
        for leaf in leaf_hashes:
            self.append(leaf)

    def append(self, leaf: bytes) -> None:
        """Add a leaf by its hash (`leaf_hash` of its data), in amortised constant time."""
        check_hash(leaf, "a leaf hash", InvalidInput)
        levels, position, level, node = self._levels, self.size, 0, leaf
        levels[0] += node
        while position & 1:
            node = node_hash(bytes(levels[level][-2 * HASH_SIZE : -HASH_SIZE]), node)
            level, position = level + 1, position >> 1
            if level == len(levels):
                levels.append(bytearray())
            levels[level] += node
        self.size += 1

    def root(self, size: int | None = None) -> bytes:
        """Return the root over the first `size` leaves (0 to all; default all)."""
        return self._hash(0, self._past(size))

    def inclusion(self, index: int, size: int | None = None) -> list[bytes]:
        """Return the proof that leaf `index` is in the tree of the first `size` leaves (default all).

        The hashes lead from the leaf to the root, the leaf's sibling first. Raises InvalidInput when there is no such leaf.
        Source: RFC 9162, section 2.1.3.1 (PATH).
        """
        whole = self._past(size)
        if not 0 <= index < whole:
            raise InvalidInput(f"there is no leaf {index} in a tree of {whole} leaves, so nothing to prove")
        proof, _ = self._siblings(index + 1, whole, lambda start, end: end - start == 1)
        return proof[::-1]

    def consistency(self, old_size: int, new_size: int | None = None) -> list[bytes]:
        """Return the proof that the tree of `new_size` leaves (default all) begins with that of `old_size` leaves.

        Empty if the sizes are equal or `old_size` is 0: nothing needs a proof then.
        Source: RFC 9162, section 2.1.4.1 (PROOF and SUBPROOF).
        """
        whole = self._past(new_size)
        if not 0 <= old_size <= whole:
            raise InvalidInput(f"a tree of {whole} leaves cannot have grown from one of {old_size}")
        if old_size in (0, whole):
            return []
        proof, start = self._siblings(old_size, whole, lambda start, end: end == old_size)
        if start:  # else this subtree is the whole old tree, whose root the verifier has
            proof.append(self._hash(start, old_size))
        return proof[::-1]

    def edge(self, size: int | None = None) -> list[bytes]:
        """Return the hashes of the complete subtrees of the first `size` leaves (default all), the largest first.

        A `Frontier` that starts with them can be given the leaves that follow.
        """
        return self._subtrees(0, self._past(size))

    def _siblings(self, bound: int, end: int, is_there: Callable[[int, int], bool]) -> tuple[list[bytes], int]:
        """Return the hashes beside the way down to the subtree that ends at `bound`, and where that begins."""
        proof, start = [], 0
        while not is_there(start, end):
            middle = start + (1 << ((end - start - 1).bit_length() - 1))  # the largest power of two below the size
            is_left = bound <= middle
            proof.append(self._hash(middle, end) if is_left else self._hash(start, middle))
            start, end = (start, middle) if is_left else (middle, end)
        return proof, start

    def _hash(self, start: int, end: int) -> bytes:
        """Return the hash over the leaves from `start` to `end`, of a subtree that begins at a multiple of its size."""
        return _join(self._subtrees(start, end))

    def _subtrees(self, start: int, end: int) -> list[bytes]:
        parts = []
        while start < end:
            level = (end - start).bit_length() - 1
            place = (start >> level) * HASH_SIZE
            parts.append(bytes(self._levels[level][place : place + HASH_SIZE]))
            start += 1 << level
        return parts

    def _past(self, size: int | None) -> int:
        if size is not None and not 0 <= size <= self.size:
            raise InvalidInput(f"the tree has {self.size} leaves; there is no tree of {size}")
        return self.size if size is None else size


def _join(subtrees: Sequence[bytes]) -> bytes:
    """Return the root over complete subtrees that shrink from left to right."""
    if not subtrees:
        return EMPTY_ROOT
    root = subtrees[-1]
    for left in reversed(subtrees[:-1]):
        root = node_hash(left, root)
    return root
