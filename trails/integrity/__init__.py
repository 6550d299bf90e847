"""Digests, Merkle trees, signatures and proofs."""
