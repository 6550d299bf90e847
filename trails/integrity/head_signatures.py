"""Signatures of principals over the heads of sessions: who vouches for a transcript up to which turn, and when. Pure.

The keys are those of logs and checkpoints (see `note`), and bear the name of the principal, percent-encoded as in its IRI
where that is more than plain signs. What is signed is a tag and fields, framed as in the rules of digests: no note, and
nothing else that such a key signs, reads the same.

Errors: as in `note`, InvalidInput for keys that are none.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, unquote

from trails import iris
from trails.errors import InvalidInput
from trails.integrity.digests import epoch_microseconds, framed
from trails.integrity.note import (
    from_base64,
    is_signed,
    new_key,
    signed,
    signer_key,
    to_base64,
    verifier_key,
    verifier_of,
)
from trails.model import Value

_TAG: Final = b"trails/head-signature/1"
_SAFE: Final = "-._~:@=,!*;$&()"


class HeadSignature(Value):
    """That a principal signed a session's head: its transcript through the turn `index`, whose digest is `head`."""

    session_id: str
    index: int
    head: str
    by_iri: str
    time: datetime
    key: str
    """The public key that the signature is by, as `trails.integrity.note` writes them."""
    signature: str
    """In base64."""

    @property
    def principal(self) -> str:
        """The name of who signed."""
        return iris.author_name(self.by_iri)

    @property
    def is_taken_out(self) -> bool:
        """Whether the name of who signed was taken out, and with it what the signature could be checked by."""
        return self.key == iris.UNNAMED or iris.is_unnamed(self.by_iri)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"by_iri", "session_id"})
        return plain | {"session": self.session_id, "principal": self.principal, "time": self.time.isoformat()}


def message(session_id: str, index: int, head: str, by_iri: str, time: datetime) -> bytes:
    """Return what is signed: a tag, then session, index, head, who signs and when, each after its length.

    `by_iri` is written as digests cover authors (`principal:alice`), the time in whole microseconds since 1970, UTC.
    """
    fields = (session_id, str(index), head, iris.author_key(by_iri), str(epoch_microseconds(time)))
    return _TAG + b"".join(framed(each.encode()) for each in fields)


# --- keys


def new_principal_key(principal: str) -> tuple[str, str]:
    """Make a new key of a principal and return it as two strings: the secret signer key and its public verifier key."""
    return new_key(quote(principal, safe=_SAFE))


def _principal_of(name: str) -> str:
    """Return the principal whose name a key bears; InvalidInput where no principal's name is written so."""
    principal = unquote(name)
    if quote(principal, safe=_SAFE) != name:
        raise InvalidInput(
            f"the key's name {name!r} is no principal's as keys bear them: make it with `trails proof sign --new-key`"
        )
    return principal


# --- signing, and back


def sign_head(signer: str, session_id: str, index: int, head: str, time: datetime | None = None) -> HeadSignature:
    """Return the signature of a head by the principal whose secret key is given; the time is now unless given.

    Raises InvalidInput for what is no such key.
    """
    key, when = signer_key(signer), time or datetime.now(UTC)
    by_iri = iris.principal(_principal_of(key.name))
    made = signed(key.material, message(session_id, index, head, by_iri, when))
    return HeadSignature(
        session_id=session_id,
        index=index,
        head=head,
        by_iri=by_iri,
        time=when,
        key=verifier_of(signer),
        signature=to_base64(made),
    )


def is_true(said: HeadSignature) -> bool:
    """Tell whether a signature is by its key, over what it says, and the key bears the name of who is said to have signed."""
    try:
        key = verifier_key(said.key)
        right = iris.principal(_principal_of(key.name)) == said.by_iri and said.key == said.key.strip()
    except InvalidInput:
        return False
    value = from_base64(said.signature)
    if not right or value is None:
        return False
    return is_signed(key.material, value, message(said.session_id, said.index, said.head, said.by_iri, said.time))
