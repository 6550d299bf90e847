"""Read signed notes and checkpoints, and the public keys that they are checked with.

A note is text with Ed25519 signature lines (c2sp.org/signed-note); a checkpoint is a note whose text is a log's name, size and
root (c2sp.org/tlog-checkpoint). Trails writes them in `trails.integrity.signed_notes`.

Errors: a note that is read and does not hold raises IntegrityError; keys that are none raise InvalidInput.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

from trails.errors import IntegrityError, InvalidInput
from trails.integrity.verifier.merkle_checks import HASH_SIZE

MAX_NOTE_BYTES = 1_000_000
"""The largest note that is made or read, in bytes of UTF-8; the format asks for a limit and names none."""

SIGNER_PREFIX = "PRIVATE+KEY+"
DASH = "\N{EM DASH}"
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
DECIMAL_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")
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


LOG_KEY = KeyKind("verifier", b"\x01")
Keys = Mapping[tuple[str, bytes], Key]
"""Public keys by name and id."""
SignatureCheck = Callable[[bytes, bytes, bytes], bool]
"""Tells, of a public key, a signature and a message, whether they belong together."""


class Signature(NamedTuple):
    """A signature line of a note, not checked."""

    name: str
    key_id: bytes
    value: bytes


class OpenedNote(NamedTuple):
    """The text of a note, and the names of the given keys that signed it (in the note's order)."""

    text: str
    names: tuple[str, ...]


class LogState(NamedTuple):
    """What a checkpoint says of a log: its name, how many lines it has, their Merkle root, and further lines."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...]


# --- encodings


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


def is_unicode(text: str) -> bool:
    """Tell whether a text can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- keys


def is_name(name: str) -> bool:
    """Tell whether a text can name a key."""
    plain = name and "+" not in name and not any(sign.isspace() or sign < " " for sign in name)
    return bool(plain) and is_unicode(name)


def verifier_key(text: str, kind: KeyKind = LOG_KEY) -> Key:
    """Take a public key apart; InvalidInput for any other text, and for a secret one."""
    if text.strip().startswith(SIGNER_PREFIX):
        raise InvalidInput(f"this is a secret signer key; give the {kind.name} key, which begins with the key's name")
    key = split_key(text.strip(), kind.name, kind.algorithm)
    if key_id(key.name, key.material, kind) != key.id:
        raise InvalidInput(f"the {kind.name} key of {key.name!r} does not have the id {key.id.hex()}: it was mistyped")
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


def split_key(text: str, kind: str, algorithm: bytes) -> Key:
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


def key_id(name: str, public: bytes, kind: KeyKind) -> bytes:
    """Return the four bytes that tell a public key from others of its name."""
    return sha256(name.encode() + b"\n" + kind.algorithm + public).digest()[:4]


# --- notes


def open_signed(note: str | bytes, keys: Keys, is_right: SignatureCheck) -> OpenedNote:
    """Return the text of a note that at least one of the given keys signed, and the names of those that did.

    Signatures by other keys are ignored, as the format demands. Raises IntegrityError if the note is malformed, if a
    given key's signature is wrong or stands there twice, and if none of the keys signed.
    """
    text, signatures = split_note(note)
    seen: list[Key] = []
    for signature in signatures:
        key = keys.get((signature.name, signature.key_id))
        if key is None:
            continue
        who = f"{key.name!r} (key {key.id.hex()})"
        if key in seen:
            raise IntegrityError(f"the note has two signatures by {who}; one was added: get the note again")
        if not is_right(key.material, signature.value, text.encode()):
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
    if trouble := text_trouble(whole):
        raise IntegrityError(f"the note is malformed: {trouble}")
    text, blank, lines = whole.rpartition("\n\n")
    if not blank:
        raise IntegrityError("the note is malformed: no blank line stands between text and signatures")
    if not lines:
        raise IntegrityError("the note is malformed: no signature line follows the last blank line")
    return text + "\n", [_signature(line) for line in lines[:-1].split("\n")]


def text_trouble(text: str) -> str | None:
    """Say what keeps a text from standing in a note, or None."""
    if not is_unicode(text):
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
    if dash != DASH or not is_name(name) or value is None or len(value) < 5:
        raise IntegrityError(f"the note is malformed: {line[:100]!r} is no signature line (em dash, name, base64)")
    return Signature(name, value[:4], value[4:])


def read_state(text: str) -> LogState:
    """Return the state of a log that a checkpoint's text says; IntegrityError if it is malformed."""
    if trouble := text_trouble(text):
        raise IntegrityError(f"the checkpoint is malformed: {trouble}")
    lines = text[:-1].split("\n")
    if len(lines) < 3 or "" in lines:
        raise IntegrityError("the checkpoint is malformed: it needs three lines or more, none of them empty")
    origin, size, coded, *extensions = lines
    if not DECIMAL_SIZE.fullmatch(size):
        raise IntegrityError(f"the checkpoint of {origin!r} is malformed: {size[:30]!r} is no tree size")
    root = from_base64(coded)
    if root is None or len(root) != HASH_SIZE:
        raise IntegrityError(f"the checkpoint of {origin!r} is malformed: {coded[:60]!r} is no base64 of 32 bytes")
    return LogState(origin, int(size), root, tuple(extensions))


def vouched_state(note: OpenedNote) -> LogState:
    """Return the state that a note says, if the log itself signed it; IntegrityError if only keys of other names did.

    A key that is trusted for one log says nothing about another.
    """
    state = read_state(note.text)
    if state.origin not in note.names:
        raise IntegrityError(
            f"the checkpoint is of the log {state.origin!r}, but was signed by {', '.join(note.names)}: "
            "give the verifier key that bears the log's name"
        )
    return state
