"""Signing the head of a session, in the commit that stores what is new of it."""

from __future__ import annotations

from trails import validate
from trails.errors import InvalidInput
from trails.integrity.head_signatures import HeadSignature, sign_head
from trails.integrity.note import verifier_of
from trails.plumbing import leaves, signatures
from trails.plumbing.transaction import Transaction
from trails.plumbing.worktree import Worktree
from trails.records.signatures import signature_quads


def persist_signed(tree: Worktree, signer: str) -> tuple[int, HeadSignature]:
    """Store what is new of a session with a signature of its head, in one commit; return how many turns, and that.

    A head that the same key signed before is not signed again. Raises `InvalidInput` for a session without turns and for
    what is no key, before anything is written.
    """
    tree.check_free()
    if not len(tree.turns):
        raise InvalidInput(f"session {tree.id!r} has no turns, so there is no head to sign: append one first")
    key, index = verifier_of(validate.text(signer, "a principal's secret key")), len(tree.turns) - 1
    if tree.stored and not tree.pending:  # a new head was never signed
        for known in signatures.read(tree.workspace.store, tree.id):
            if (known.key, known.index, known.head) == (key, index, tree.head):
                return tree.persist(), known
    made = sign_head(signer, tree.id, index, tree.head)
    tx = Transaction()
    tx.new(signature_quads(made))
    if tree.stored:  # else what is logged of the new row covers it
        tx.log(leaves.rows("change", [tree.id]))
    return tree.persist(tx.change()), made
