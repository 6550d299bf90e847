"""Signed notes: checkpoints of the log, signatures of heads.

A note is text with Ed25519 signature lines (c2sp.org/signed-note); a checkpoint is a note whose text is a log's name, size and
root (c2sp.org/tlog-checkpoint). Keys are strings, in the form of Go's `sumdb/note`:

    PRIVATE+KEY+<name>+<key id>+<base64 of 0x01 and the seed>      the signer, to be kept secret
    <name>+<key id>+<base64 of 0x01 and the public key>            the verifier, to be given to everyone

A head signature says who vouches for a transcript up to which turn, and when. Its key bears the name of the principal,
percent-encoded as in its IRI. It signs a tag and fields, framed as in digests, so that no note reads the same.

Errors: a note that is read and does not hold raises IntegrityError; keys and texts that the caller hands in raise
InvalidInput. The `cryptography` package is imported only when a signature is made or checked.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from types import ModuleType
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, unquote

from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.integrity.digests import epoch_microseconds, frame
from trails.integrity.merkle import HASH_SIZE
from trails.model import iris
from trails.model.values import Value

MAX_NOTE_BYTES: Final = 1_000_000
"""The largest note that is made or read, in bytes of UTF-8; the format asks for a limit and names none."""

SIGNER_PREFIX: Final = "PRIVATE+KEY+"
_DASH: Final = "\N{EM DASH}"
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,18}")
"""The one way to write a size or an index in a note or a proof."""


class Key(NamedTuple):
    """A key taken apart: `material` is the public key of a verifier, the seed of a signer."""

    name: str
    id: bytes
    material: bytes


class KeyKind(NamedTuple):
    """A kind of public keys: what it is called, and the byte that its material begins with."""

    name: str
    algorithm: bytes


LOG_KEY: Final = KeyKind("verifier", b"\x01")


class Signature(NamedTuple):
    """A signature line of a note, not checked."""

    name: str
    key_id: bytes
    value: bytes


class OpenedNote(NamedTuple):
    """The text of a note, and the names of the given keys that signed it (in the note's order)."""

    text: str
    names: tuple[str, ...]


# --- encodings --------------------------------------------------------------------------------------------------------


def to_base64(data: bytes) -> str:
    """Return bytes as base64 text (RFC 4648, section 4)."""
    return base64.b64encode(data).decode()


def from_base64(text: str) -> bytes | None:
    """Return the bytes of a base64 text (RFC 4648, section 4), or None if it isn't the one way to write them."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if to_base64(data) == text else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
    signer, verifier = (_key_text(name, _key_id(name, public, kind), each, kind) for each in (seed, public))
    return SIGNER_PREFIX + signer, verifier


def verifier_of(signer: str) -> str:
    """Return the public verifier key that belongs to a signer key."""
    key = signer_key(signer)
    return _key_text(key.name, key.id, public_key_of(key.material), LOG_KEY)


def _key_text(name: str, key_id: bytes, material: bytes, kind: KeyKind) -> str:
    return f"{name}+{key_id.hex()}+{to_base64(kind.algorithm + material)}"


def _key_id(name: str, public: bytes, kind: KeyKind) -> bytes:
    return sha256(name.encode() + b"\n" + kind.algorithm + public).digest()[:4]


def is_name(name: str) -> bool:
    """Tell whether a text can name a key."""
    plain = name and "+" not in name and not any(sign.isspace() or sign < " " for sign in name)
    return bool(plain) and _is_unicode(name)


def verifier_key(text: str, kind: KeyKind = LOG_KEY) -> Key:
    """Take a public key apart; InvalidInput for any other text, and for a secret one."""
    if text.strip().startswith(SIGNER_PREFIX):
        raise InvalidInput(f"this is a secret signer key; give the {kind.name} key, which begins with the key's name")
    key = _split_key(text.strip(), kind.name, kind.algorithm)
    if _key_id(key.name, key.material, kind) != key.id:
        raise InvalidInput(f"the {kind.name} key of {key.name!r} does not have the id {key.id.hex()}: it was mistyped")
    return key


def signer_key(text: str, kind: KeyKind = LOG_KEY) -> Key:
    """Take a signer key apart. No message repeats any of it but the name: it is a secret."""
    if not text.strip().startswith(SIGNER_PREFIX):
        raise InvalidInput(f"this is not a signer key: one begins with {SIGNER_PREFIX!r}")
    key = _split_key(text.strip().removeprefix(SIGNER_PREFIX), "signer", kind.algorithm)
    if _key_id(key.name, public_key_of(key.material), kind) != key.id:
        raise InvalidInput(f"the signer key of {key.name!r} does not have the id that it names: it was mistyped")
    return key


def known_keys(texts: Iterable[str], kind: KeyKind = LOG_KEY) -> dict[tuple[str, bytes], Key]:
    """Return public keys by name and id; InvalidInput for none, and for two that are not told apart."""
    if isinstance(texts, str):
        raise InvalidInput(f"give the {kind.name} keys as a list, also when there is only one")
    keys: dict[tuple[str, bytes], Key] = {}
    for key in (verifier_key(text, kind) for text in texts):
        if keys.setdefault(key[:2], key) != key:
            raise InvalidInput(f"two different {kind.name} keys have the name {key.name!r} and the id {key.id.hex()}")
    if not keys:
        raise InvalidInput(f"no {kind.name} key was given, so no signature can be trusted: give the public keys")
    return keys


def _split_key(text: str, kind: str, algorithm: bytes) -> Key:
    """Take a key apart; InvalidInput if it is none of the algorithm, which the first byte of its material names."""
    name, _, rest = text.partition("+")
    digits, _, coded = rest.partition("+")
    material = from_base64(coded)
    if not is_name(name) or not re.fullmatch("[0-9a-f]{8}", digits) or not material:
        raise InvalidInput(f"this is not a {kind} key: one reads <name>+<8 hex digits>+<base64>")
    if material[:1] != algorithm or len(material) != 33:
        shown = f"0x{algorithm.hex()} and 32 bytes"
        raise InvalidInput(f"the {kind} key of {name!r} is not an Ed25519 key ({shown}): use another key")
    return Key(name, bytes.fromhex(digits), material[1:])


# --- notes ------------------------------------------------------------------------------------------------------------


def sign(text: str, *signers: str) -> str:
    """Return a note: the text and a signature line by each signer key.

    The text must end in a newline and hold no other control character; it may hold empty lines. InvalidInput if it
    does not, if the note grows past `MAX_NOTE_BYTES`, or if no signer or one twice is given.
    """
    keys = [signer_key(signer) for signer in signers]
    if not keys or len({key[:2] for key in keys}) < len(keys):
        raise InvalidInput("a note is signed by one or more signer keys, each once")
    if trouble := _text_trouble(text):
        raise InvalidInput(f"this text cannot be signed: {trouble}")
    lines = [signature_line(key, sign_bytes(key.material, text.encode())) for key in keys]
    note = text + "\n" + "".join(lines)
    if len(note.encode()) > MAX_NOTE_BYTES:
        raise InvalidInput(f"a note has at most {MAX_NOTE_BYTES} bytes; this one would have {len(note.encode())}")
    return note


def signature_line(key: Key, value: bytes) -> str:
    """Return the line of a note that says what a key signed."""
    return f"{_DASH} {key.name} {to_base64(key.id + value)}\n"


def open_note(note: str | bytes, verifiers: Iterable[str]) -> OpenedNote:
    """Return the text of a note that at least one of the given keys signed, and the names of those that did.

    Signatures by other keys are ignored, as the format demands. Raises IntegrityError if the note is malformed, if a
    given key's signature is wrong or stands there twice, and if none of the keys signed; InvalidInput for bad keys.
    Read files as bytes: reading text would translate line ends before anything is checked.
    """
    keys = known_keys(verifiers)
    text, signatures = split_note(note)
    seen: list[Key] = []
    for signature in signatures:
        key = keys.get((signature.name, signature.key_id))
        if key is None:
            continue
        who = f"{key.name!r} (key {key.id.hex()})"
        if key in seen:
            raise IntegrityError(f"the note has two signatures by {who}; one was added: get the note again")
        if not is_signed(key.material, signature.value, text.encode()):
            raise IntegrityError(
                f"the note's signature by {who} is wrong: text or signature were altered after signing, "
                "or another key signed; do not trust the text"
            )
        seen.append(key)
    if not seen:
        signers = ", ".join(sorted({f"{line.name} ({line.key_id.hex()})" for line in signatures})[:5])
        raise IntegrityError(f"none of the given keys signed this note; it names {signers}: give a key that you trust")
    return OpenedNote(text, tuple(key.name for key in seen))


def split_note(note: str | bytes) -> tuple[str, list[Signature]]:
    """Return a note's text and signature lines, unchecked signatures; IntegrityError if the form is broken."""
    if len(note if isinstance(note, bytes) else note.encode(errors="replace")) > MAX_NOTE_BYTES:
        raise IntegrityError(f"the note has more than {MAX_NOTE_BYTES} bytes and was not read")
    try:
        whole = note.decode() if isinstance(note, bytes) else note
    except UnicodeDecodeError as wrong:
        raise IntegrityError(f"the note is not UTF-8: byte {wrong.start} is wrong") from None
    if trouble := _text_trouble(whole):
        raise IntegrityError(f"the note is malformed: {trouble}")
    text, blank, lines = whole.rpartition("\n\n")
    if not blank:
        raise IntegrityError("the note is malformed: no blank line stands between text and signatures")
    if not lines:
        raise IntegrityError("the note is malformed: no signature line follows the last blank line")
    return text + "\n", [_signature(line) for line in lines[:-1].split("\n")]


def _text_trouble(text: str) -> str | None:
    """Say what keeps a text from standing in a note, or None."""
    if not _is_unicode(text):
        return "it holds half of a surrogate pair, which is not Unicode text"
    if control := _CONTROL.search(text):
        return f"it holds the control character U+{ord(control[0]):04X} at position {control.start()}"
    if not text.endswith("\n"):
        return "it does not end in a newline"
    return None


def _signature(line: str) -> Signature:
    dash, _, rest = line.partition(" ")
    name, _, coded = rest.partition(" ")
    value = from_base64(coded)
    if dash != _DASH or not is_name(name) or value is None or len(value) < 5:
        raise IntegrityError(f"the note is malformed: {line[:100]!r} is no signature line (em dash, name, base64)")
    return Signature(name, value[:4], value[4:])


# --- checkpoints ------------------------------------------------------------------------------------------------------


class Checkpoint(Value):
    """What a log says of itself: its name (`origin`), its number of leaves, and their Merkle root (32 bytes).

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
        if trouble := _text_trouble(text):
            raise IntegrityError(f"the checkpoint is malformed: {trouble}")
        lines = text[:-1].split("\n")
        if len(lines) < 3 or "" in lines:
            raise IntegrityError("the checkpoint is malformed: it needs three lines or more, none of them empty")
        origin, size, coded, *extensions = lines
        if not DECIMAL.fullmatch(size):
            raise IntegrityError(f"the checkpoint of {origin!r} is malformed: {size[:30]!r} is no tree size")
        root = from_base64(coded)
        if root is None or len(root) != HASH_SIZE:
            raise IntegrityError(f"the checkpoint of {origin!r} is malformed: {coded[:60]!r} is no base64 of 32 bytes")
        return cls(origin=origin, size=int(size), root=root, extensions=tuple(extensions))


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
    opened = open_note(note, verifiers)
    checkpoint = Checkpoint.parse(opened.text)
    if checkpoint.origin not in opened.names:
        raise IntegrityError(
            f"the checkpoint is of the log {checkpoint.origin!r}, but was signed by {', '.join(opened.names)}: "
            "give the verifier key that bears the log's name"
        )
    return checkpoint


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
