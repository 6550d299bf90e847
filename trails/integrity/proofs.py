"""Proofs that anyone can check without the store: that a turn is in a log, and that a log only ever grew.

Each carries all it needs, the signed checkpoint included. Whoever checks one brings the log's verifier key, and for growth
the checkpoint that they kept. Proofs are JSON.

Errors: a proof that does not hold raises IntegrityError; a file that is no proof at all, and keys that are none, raise
InvalidInput.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AwareDatetime, BeforeValidator, PlainSerializer, ValidationError, ValidationInfo

from trails.errors import IntegrityError, InvalidInput
from trails.integrity import digests, leaves
from trails.integrity.signed_notes import Checkpoint, open_checkpoint
from trails.integrity.verifier.merkle_checks import leaf_hash, verify_consistency, verify_inclusion
from trails.integrity.verifier.notes import from_base64, to_base64
from trails.model import iris
from trails.model.values import Value


def _bytes_of_json(value: Any, info: ValidationInfo) -> Any:
    if info.mode != "json":
        return value
    data = from_base64(value) if isinstance(value, str) else None
    if data is None:
        raise ValueError("it is no base64 text")
    return data


def _time_of_json(value: Any, info: ValidationInfo) -> Any:
    if info.mode != "json" or value is None:
        return value
    try:
        time = datetime.fromisoformat(value)
        whole = time.tzinfo is not None and _time_text(time) == value
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise ValueError("it is no time in UTC with microseconds, as in 2026-05-01T12:00:00.000000Z")
    return time


def _time_text(time: datetime | None) -> str | None:
    if time is None:
        return None
    return time.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


_Bytes = Annotated[bytes, BeforeValidator(_bytes_of_json), PlainSerializer(to_base64, when_used="json")]
_Time = Annotated[AwareDatetime | None, BeforeValidator(_time_of_json), PlainSerializer(_time_text, when_used="json")]


class _Proof(Value):
    """What all proofs share: their JSON form, the log's name, and the note of the newest checkpoint."""

    format: str
    origin: str
    hashes: tuple[_Bytes, ...]
    checkpoint: str

    def to_json(self) -> str:
        """Return the proof as a JSON text (bytes in base64) that `from_json` reads."""
        return self.model_dump_json(indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the proof that `to_json` wrote; InvalidInput, with the field, if the text is anything else."""
        _json_fields(text)
        try:
            return cls.model_validate_json(text, strict=True)
        except ValidationError as wrong:
            first = wrong.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(step) for step in first["loc"])
            raise InvalidInput(f"this proof cannot be read: {where}: {first['msg']}") from None


def _json_fields(text: str) -> dict[str, Any]:
    """Return the fields of a JSON object; InvalidInput if it is none or can be taken in two ways."""
    try:
        fields = json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as wrong:
        raise InvalidInput(f"this is no proof, for it is no JSON text that can be read: {wrong}") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), str):
        raise InvalidInput("this is no proof: it does not name its `format`")
    return fields


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field stands in it twice")
    return fields


# --- a turn -----------------------------------------------------------------------------------------------------------


class Revealed(Value):
    """A turn's content and the salt that its digest was made with; `structured` tells JSON parts from plain text.

    The same salt goes with the digests of the turn's call arguments and metadata, so whoever has it can try guesses at
    them: if that matters, give the proof without the content.
    """

    text: str
    salt: str
    structured: bool


class TurnDigests(Value):
    """What a turn's digest covers beside the turn before it; `content` and `facts` are digests themselves.

    `author` is "principal:NAME" or "agent:NAME".
    """

    index: int
    branch: str
    role: str
    author: str
    time: _Time
    content: str
    facts: str

    def after(self, previous: str) -> str:
        """Return the turn's digest after the turn with the digest `previous`."""
        return digests.turn_digest(previous=previous, **dict(self))


class TurnProof(_Proof):
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
        return iris.session_id(_turns_leaf(self.leaf).session_iri)

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
        leaf = _turns_leaf(self.leaf)
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


def _turns_leaf(line: str) -> leaves.Leaf:
    """Return the leaf of a batch of turns that a line of a log is; IntegrityError for any other line."""
    try:
        leaf, _ = leaves.parse_leaf(line)
    except ValueError as wrong:  # more digits than Python turns into a number
        raise IntegrityError(f"the proof's leaf counts no turns: {line[:100]!r}") from wrong
    if leaf.kind != "turns" or not iris.is_session(leaf.session_iri):
        raise IntegrityError(f"the proof's leaf is no batch of turns: {line[:100]!r}")
    return leaf


# --- growth -----------------------------------------------------------------------------------------------------------


class ConsistencyProof(_Proof):
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

_KINDS: Final[dict[str, type[ConsistencyProof | TurnProof]]] = {
    "trails-consistency-proof/1": ConsistencyProof,
    "trails-turn-proof/1": TurnProof,
}


def read_proof(text: str | bytes) -> ConsistencyProof | TurnProof:
    """Return the proof that a file holds, of either kind, not verified yet.

    Raises InvalidInput if it holds none. Read files as bytes, as for `open_note`.
    """
    try:
        plain = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as wrong:
        raise InvalidInput(f"this is no proof, for it is not UTF-8: byte {wrong.start} is wrong") from None
    named = _json_fields(plain)["format"]
    if named not in _KINDS:
        raise InvalidInput(f"this is no proof: {named[:60]!r} is no format that this version reads")
    return _KINDS[named].from_json(plain)


def _check_same(origin: str, size: int, checkpoint: Checkpoint) -> None:
    if (origin, size) != (checkpoint.origin, checkpoint.size):
        raise IntegrityError(
            f"the proof is for the log {origin!r} at size {size}, the checkpoint is of {checkpoint.origin!r} at size "
            f"{checkpoint.size}: they do not belong together"
        )
