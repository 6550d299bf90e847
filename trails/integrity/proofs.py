"""Proofs that anyone can check without the store: that a turn is in a log, and that a log only ever grew.

Each carries all it needs, the signed checkpoint included. Whoever checks one brings the log's verifier key, and for growth
the checkpoint that they kept. Proofs are JSON.

Errors: a proof that does not hold raises IntegrityError; a file that is no proof at all, and keys that are none, raise
InvalidInput.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from trails.errors import IntegrityError, InvalidInput
from trails.integrity import digests
from trails.integrity.absence_proofs import AbsenceProof
from trails.integrity.proof_form import Proof, TurnDigests, json_fields, turns_leaf
from trails.integrity.signed_notes import Checkpoint, open_checkpoint
from trails.integrity.verifier.merkle_checks import leaf_hash, verify_consistency, verify_inclusion
from trails.model import iris
from trails.model.values import Value

# --- a turn -----------------------------------------------------------------------------------------------------------


class Revealed(Value):
    """A turn's content and the salt that its digest was made with; `structured` tells JSON parts from plain text.

    The same salt goes with the digests of the turn's call arguments and metadata, so whoever has it can try guesses at
    them: if that matters, give the proof without the content.
    """

    text: str
    salt: str
    structured: bool


class TurnProof(Proof):
    """A turn, and the proof that it stood in a session's transcript when a log's checkpoint was signed.

    `previous` is the digest of the turn before it. `content` is None if the text is withheld or was redacted: then
    only its digest is proven. `facts` is what was recorded with the turn as JSON text ("" for nothing, None if some of
    it was taken out), in which call arguments and metadata are digests. `links` are the turns after it up to the head that
    the `leaf` (a line of the log, its place from 0 at `leaf_index`) names; the log had `size` lines.
    """

    format: Literal["trails-turn-proof/1"] = "trails-turn-proof/1"
    turn: TurnDigests
    previous: str
    content: Revealed | None
    facts: str | None
    links: tuple[TurnDigests, ...]
    leaf: str
    leaf_index: int
    size: int

    @property
    def session_id(self) -> str:
        """The id of the session that owned the turn. Trust it, as all else here, only after `verify`."""
        return iris.session_id(turns_leaf(self.leaf).session_iri)

    @property
    def digest(self) -> str:
        """The turn's digest, computed from what the proof says of it."""
        return self.turn.after(self.previous)

    @property
    def withheld(self) -> tuple[str, ...]:
        """What the proof has only a digest of, though the turn has it: "content", "facts" or both."""
        facts = self.facts is None and self.turn.facts != ""
        return (*(["content"] if self.content is None else []), *(["facts"] if facts else []))

    def verify(self, verifiers: Iterable[str]) -> Checkpoint:
        """Return the checkpoint if the log signed it with one of the given keys and all that the proof says holds.

        Raises IntegrityError with what does not hold.
        """
        checkpoint = open_checkpoint(self.checkpoint, verifiers)
        _check_same(self.origin, self.size, checkpoint)
        verify_inclusion(leaf_hash(self.leaf.encode()), self.leaf_index, self.size, self.hashes, checkpoint.root)
        self.check_chain()
        return checkpoint

    def check_chain(self) -> None:
        """Check that content, facts and links lead to the head that the leaf names; what `verify` does last."""
        self._check_turn()
        leaf = turns_leaf(self.leaf)
        head = self.previous
        for index, each in enumerate((self.turn, *self.links), self.turn.index):
            if each.index != index:
                raise IntegrityError(f"the proof has turn {each.index} where turn {index} belongs")
            head = each.after(head)
        if (index + 1, head) != (leaf.count, leaf.digest):
            raise IntegrityError(
                f"the proof leads to the head {head} after {index + 1} turns, the log says {leaf.digest} after "
                f"{leaf.count}: a turn was altered, or the proof is not of this leaf"
            )

    def _check_turn(self) -> None:
        said = self.content
        what = f"turn {self.turn.index}"
        if said and digests.content_digest(said.text, said.salt, structured=said.structured) != self.turn.content:
            raise IntegrityError(f"the content of {what} does not have the digest that is proven: it was altered")
        if self.facts is not None and digests.facts_json_digest(self.facts) != self.turn.facts:
            raise IntegrityError(f"the facts of {what} do not have the digest that is proven: they were altered")
        if self.turn.index < 0 or (self.turn.index == 0) != (self.previous == digests.GENESIS):
            raise IntegrityError(f"{what} does not follow the digest {self.previous}: the proof was altered")


# --- growth -----------------------------------------------------------------------------------------------------------


class ConsistencyProof(Proof):
    """The proof that a log only grew since a checkpoint that someone kept: the hashes, and the log's new checkpoint."""

    format: Literal["trails-consistency-proof/1"] = "trails-consistency-proof/1"
    old_size: int
    new_size: int

    def verify(self, kept: str | bytes, verifiers: Iterable[str]) -> Checkpoint:
        """Return the new checkpoint if its log begins with all that the `kept` note of an older one stands for.

        Both must be signed by the log with one of the given keys. Raises IntegrityError with what does not hold.
        """
        keys = list(verifiers)
        old, new = open_checkpoint(kept, keys), open_checkpoint(self.checkpoint, keys)
        _check_same(self.origin, self.old_size, old)
        _check_same(self.origin, self.new_size, new)
        verify_consistency(old.size, new.size, old.root, new.root, self.hashes)
        return new


# --- any of them ------------------------------------------------------------------------------------------------------

_KINDS: Final[dict[str, type[AbsenceProof | ConsistencyProof | TurnProof]]] = {
    "trails-absence-proof/1": AbsenceProof,
    "trails-consistency-proof/1": ConsistencyProof,
    "trails-turn-proof/1": TurnProof,
}


def read_proof(text: str | bytes) -> AbsenceProof | ConsistencyProof | TurnProof:
    """Return the proof that a file holds, of any kind, not verified yet.

    Raises InvalidInput if it holds none. Read files as bytes, as for `open_note`.
    """
    try:
        plain = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as wrong:
        raise InvalidInput(f"this is no proof, for it is not UTF-8: byte {wrong.start} is wrong") from None
    named = json_fields(plain)["format"]
    if named not in _KINDS:
        raise InvalidInput(f"this is no proof: {named[:60]!r} is no format that this version reads")
    return _KINDS[named].from_json(plain)


def _check_same(origin: str, size: int, checkpoint: Checkpoint) -> None:
    if (origin, size) != (checkpoint.origin, checkpoint.size):
        raise IntegrityError(
            f"the proof is for the log {origin!r} at size {size}, the checkpoint is of {checkpoint.origin!r} at size "
            f"{checkpoint.size}: they do not belong together"
        )
