"""Signed notes: checkpoints of the log, signatures of heads.

A note is text with Ed25519 signature lines (c2sp.org/signed-note); a checkpoint is a note whose text is a log's name, size and
root (c2sp.org/tlog-checkpoint). Keys are strings, in the form of Go's `sumdb/note`:

    PRIVATE+KEY+<name>+<key id>+<base64 of 0x01 and the seed>      the signer, to be kept secret
    <name>+<key id>+<base64 of 0x01 and the public key>            the verifier, to be given to everyone

A head signature says who vouches for a transcript up to which turn, and when. Its key bears the name of the principal,
percent-encoded as in its IRI. It signs a tag and fields, framed as in digests, so that no note reads the same.

Errors: a note that is read and does not hold raises IntegrityError; keys and texts that the caller hands in raise
InvalidInput. `trails.integrity.verifier.notes` has what reading takes. The `cryptography` package is imported only when a
signature is made or checked.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, Final, Self
from urllib.parse import quote, unquote

from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.integrity.digests import epoch_microseconds, frame
from trails.integrity.verifier.notes import (
    DASH,
    LOG_KEY,
    MAX_NOTE_BYTES,
    SIGNER_PREFIX,
    Key,
    KeyKind,
    OpenedNote,
    from_base64,
    is_name,
    key_id,
    known_keys,
    open_signed,
    read_state,
    split_key,
    split_note,
    text_trouble,
    to_base64,
    verifier_key,
    vouched_state,
)
from trails.model import iris
from trails.model.values import Value

# --- keys -------------------------------------------------------------------------------------------------------------


def new_key(name: str, kind: KeyKind = LOG_KEY) -> tuple[str, str]:
    """Make a new Ed25519 key and return it as two strings: the secret signer key and its public key.

    `name` says whose key it is: for a log's checkpoints, the log's origin (best a URL without a scheme, such as
    `example.com/trails`). InvalidInput if it is empty or holds a space, a plus sign or a control character.
    """
    if not is_name(name):
        raise InvalidInput(f"{name!r} cannot name a key: a name is not empty and has no spaces, plus or control signs")
    seed = secrets.token_bytes(32)
    public = public_key_of(seed)
    signer, verifier = (_key_text(name, key_id(name, public, kind), each, kind) for each in (seed, public))
    return SIGNER_PREFIX + signer, verifier


def verifier_of(signer: str) -> str:
    """Return the public verifier key that belongs to a signer key."""
    key = signer_key(signer)
    return _key_text(key.name, key.id, public_key_of(key.material), LOG_KEY)


def _key_text(name: str, short_id: bytes, material: bytes, kind: KeyKind) -> str:
    return f"{name}+{short_id.hex()}+{to_base64(kind.algorithm + material)}"


def signer_key(text: str, kind: KeyKind = LOG_KEY) -> Key:
    """Take a signer key apart. No message repeats any of it but the name: it is a secret."""
    if not text.strip().startswith(SIGNER_PREFIX):
        raise InvalidInput(f"this is not a signer key: one begins with {SIGNER_PREFIX!r}")
    key = split_key(text.strip().removeprefix(SIGNER_PREFIX), "signer", kind.algorithm)
    if key_id(key.name, public_key_of(key.material), kind) != key.id:
        raise InvalidInput(f"the signer key of {key.name!r} does not have the id that it names: it was mistyped")
    return key


# --- notes ------------------------------------------------------------------------------------------------------------


def sign(text: str, *signers: str) -> str:
    """Return a note: the text and a signature line by each signer key.

    The text must end in a newline and hold no other control character; it may hold empty lines. InvalidInput if it
    does not, if the note grows past `MAX_NOTE_BYTES`, or if no signer or one twice is given.
    """
    keys = [signer_key(signer) for signer in signers]
    if not keys or len({key[:2] for key in keys}) < len(keys):
        raise InvalidInput("a note is signed by one or more signer keys, each once")
    if trouble := text_trouble(text):
        raise InvalidInput(f"this text cannot be signed: {trouble}")
    lines = [signature_line(key, sign_bytes(key.material, text.encode())) for key in keys]
    note = text + "\n" + "".join(lines)
    if len(note.encode()) > MAX_NOTE_BYTES:
        raise InvalidInput(f"a note has at most {MAX_NOTE_BYTES} bytes; this one would have {len(note.encode())}")
    return note


def signature_line(key: Key, value: bytes) -> str:
    """Return the line of a note that says what a key signed."""
    return f"{DASH} {key.name} {to_base64(key.id + value)}\n"


def open_note(note: str | bytes, verifiers: Iterable[str]) -> OpenedNote:
    """Return the text of a note that at least one of the given keys signed, and the names of those that did.

    Signatures by other keys are ignored, as the format demands. Raises IntegrityError if the note is malformed, if a
    given key's signature is wrong or stands there twice, and if none of the keys signed; InvalidInput for bad keys.
    Read files as bytes: reading text would translate line ends before anything is checked.
    """
    return open_signed(note, known_keys(verifiers), is_signed)


# --- checkpoints ------------------------------------------------------------------------------------------------------


class Checkpoint(Value):
    """What a log says of itself: its name (`origin`), its number of leaves, and their Merkle root (32 bytes).

    >>> from hashlib import sha256
    >>> print(Checkpoint(origin="example.com/log", size=0, root=sha256(b"").digest()).to_text(), end="")
    example.com/log
    0
    47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Return the text that is signed: origin, size, root and extensions, a line each.

        InvalidInput if a line would be empty or broken, the size negative or past 19 digits, the root not 32 bytes.
        """
        text = "\n".join([self.origin, str(self.size), to_base64(self.root), *self.extensions]) + "\n"
        try:
            parsed = Checkpoint.parse(text)
        except IntegrityError as wrong:
            raise InvalidInput(f"this checkpoint cannot be written: {wrong}") from None
        if parsed != self:
            raise InvalidInput(f"this checkpoint of {self.origin!r} cannot be written: a field holds a line break")
        return text

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the checkpoint that a note's text holds; IntegrityError if it is malformed."""
        return cls(**read_state(text)._asdict())


def sign_checkpoint(checkpoint: Checkpoint, *signers: str) -> str:
    """Return a checkpoint as a note. One signer at least must bear the log's name, or no one could open it again."""
    if checkpoint.origin not in {signer_key(signer).name for signer in signers}:
        raise InvalidInput(f"the log {checkpoint.origin!r} signs with a key of its own name; none was given")
    return sign(checkpoint.to_text(), *signers)


def open_checkpoint(note: str | bytes, verifiers: Iterable[str]) -> Checkpoint:
    """Return the checkpoint in a note, if the log itself signed it with one of the given keys.

    Raises IntegrityError as `open_note` does, and if only keys of other names signed: a key that is trusted for
    one log says nothing about another.
    """
    return Checkpoint(**vouched_state(open_note(note, verifiers))._asdict())


def claimed_checkpoint(note: str | bytes) -> Checkpoint:
    """Return the checkpoint that a note holds without checking any signature: to make proofs, never to trust one."""
    return Checkpoint.parse(split_note(note)[0])


# --- Ed25519 ----------------------------------------------------------------------------------------------------------


def _ed25519() -> ModuleType:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - an optional dependency
    except ImportError as missing:
        raise TrailsError(
            "signatures need the package `cryptography`, which is not installed: pip install 'trails[checkpoint]'"
        ) from missing
    return ed25519


def public_key_of(seed: bytes) -> bytes:
    """Return the public key of a seed."""
    return bytes(_ed25519().Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw())


def sign_bytes(seed: bytes, message: bytes) -> bytes:
    """Return the signature of a message by the key of a seed."""
    return bytes(_ed25519().Ed25519PrivateKey.from_private_bytes(seed).sign(message))


def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    """Tell whether a signature of a message is by a public key."""
    ed25519 = _ed25519()
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an optional dependency

    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


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
    """The public key that the signature is by, as `trails.integrity.signed_notes` writes them."""
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


def head_message(session_id: str, index: int, head: str, by_iri: str, time: datetime) -> bytes:
    """Return what is signed: a tag, then session, index, head, who signs and when, each after its length.

    `by_iri` is written as digests cover authors (`principal:alice`), the time in whole microseconds since 1970, UTC.
    """
    fields = (session_id, str(index), head, iris.author_key(by_iri), str(epoch_microseconds(time)))
    return _TAG + b"".join(frame(each.encode()) for each in fields)


# --- keys


def new_principal_key(principal: str) -> tuple[str, str]:
    """Make a new key of a principal and return it as two strings: the secret signer key and its public verifier key."""
    return new_key(quote(principal, safe=_SAFE))


def _principal_of(name: str) -> str:
    """Return the principal whose name a key bears; InvalidInput if no principal's name is written so."""
    principal = unquote(name)
    if quote(principal, safe=_SAFE) != name:
        raise InvalidInput(f"the key {name!r} is no principal's: make one with `trails proof sign --new-key`")
    return principal


# --- signing, and back


def sign_head(signer: str, session_id: str, index: int, head: str, time: datetime | None = None) -> HeadSignature:
    """Return the signature of a head by the principal whose secret key is given; the time is now unless given.

    Raises InvalidInput for what is no such key.
    """
    key, when = signer_key(signer), time or datetime.now(UTC)
    by_iri = iris.principal(_principal_of(key.name))
    signature = sign_bytes(key.material, head_message(session_id, index, head, by_iri, when))
    return HeadSignature(
        session_id=session_id,
        index=index,
        head=head,
        by_iri=by_iri,
        time=when,
        key=verifier_of(signer),
        signature=to_base64(signature),
    )


def is_signature_true(signature: HeadSignature) -> bool:
    """Tell whether a signature is by its key, over what it says, and the key bears the name of who is said to have signed."""
    try:
        key = verifier_key(signature.key)
        right = iris.principal(_principal_of(key.name)) == signature.by_iri and signature.key == signature.key.strip()
    except InvalidInput:
        return False
    value = from_base64(signature.signature)
    if not right or value is None:
        return False
    return is_signed(
        key.material,
        value,
        head_message(signature.session_id, signature.index, signature.head, signature.by_iri, signature.time),
    )
