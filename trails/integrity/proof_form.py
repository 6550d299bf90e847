"""What all proofs share: their JSON form, what a turn's digest covers, and the line of a log that is a batch of turns.

Errors: a proof that does not hold raises IntegrityError; a file that is no proof at all raises InvalidInput.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, BeforeValidator, PlainSerializer, ValidationError, ValidationInfo

from trails.errors import IntegrityError, InvalidInput
from trails.integrity import digests, leaves
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


ProofBytes = Annotated[bytes, BeforeValidator(_bytes_of_json), PlainSerializer(to_base64, when_used="json")]
ProofTime = Annotated[
    AwareDatetime | None, BeforeValidator(_time_of_json), PlainSerializer(_time_text, when_used="json")
]


class Proof(Value):
    """What all proofs share: their JSON form, the log's name, and the note of the newest checkpoint."""

    format: str
    origin: str
    hashes: tuple[ProofBytes, ...]
    checkpoint: str

    def to_json(self) -> str:
        """Return the proof as a JSON text (bytes in base64) that `from_json` reads."""
        return self.model_dump_json(indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the proof that `to_json` wrote; InvalidInput, with the field, if the text is anything else."""
        json_fields(text)
        try:
            return cls.model_validate_json(text, strict=True)
        except ValidationError as wrong:
            first = wrong.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(step) for step in first["loc"])
            raise InvalidInput(f"this proof cannot be read: {where}: {first['msg']}") from None


def json_fields(text: str) -> dict[str, Any]:
    """Return the fields of a JSON object; InvalidInput if it is none or can be taken in two ways."""
    try:
        fields = json.loads(text, object_pairs_hook=distinct)
    except (ValueError, RecursionError) as wrong:
        raise InvalidInput(f"this is no proof, for it is no JSON text that can be read: {wrong}") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("format"), str):
        raise InvalidInput("this is no proof: it does not name its `format`")
    return fields


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a JSON object; ValueError where one stands in it twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field stands in it twice")
    return fields


class TurnDigests(Value):
    """What a turn's digest covers beside the turn before it; `content` and `facts` are digests themselves.

    `author` is "principal:NAME" or "agent:NAME".
    """

    index: int
    branch: str
    role: str
    author: str
    time: ProofTime
    content: str
    facts: str

    def after(self, previous: str) -> str:
        """Return the turn's digest after the turn with the digest `previous`."""
        return digests.turn_digest(previous=previous, **dict(self))


def turns_leaf(line: str) -> leaves.Leaf:
    """Return the leaf of a batch of turns that a line of a log is; IntegrityError for any other line."""
    try:
        leaf, _ = leaves.parse_leaf(line)
    except ValueError as wrong:  # more digits than Python turns into a number
        raise IntegrityError(f"the proof's leaf counts no turns: {line[:100]!r}") from wrong
    if leaf.kind != "turns" or not iris.is_session(leaf.session_iri):
        raise IntegrityError(f"the proof's leaf is no batch of turns: {line[:100]!r}")
    return leaf
