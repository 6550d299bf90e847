"""Cosignatures of witnesses on a checkpoint: each says that it saw the checkpoint, and when.

Format: `cosignature/v1` (c2sp.org/tlog-cosignature). A witness adds a line to the note: base64 of its key's id, the time as
eight bytes, big-endian, in seconds since 1970, and an Ed25519 signature over "cosignature/v1", "time N" and the note's text.
Its keys are written as those of logs, with 0x04 in the place of 0x01. The name is not signed, so a key counts once, whatever
names it is given under.

Errors: as in `note`, IntegrityError for a note that does not hold, InvalidInput for keys and texts handed in.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from trails.errors import IntegrityError, InvalidInput
from trails.integrity.note import (
    SIGNER_PREFIX,
    Checkpoint,
    Key,
    is_name,
    is_signed,
    public_key,
    signature_line,
    signed,
    split_key,
    split_note,
    to_base64,
)
from trails.model import Cosignature

_COSIGNATURE: Final = b"\x04"
_BYTES: Final = 8 + 64
_LATEST: Final = 253402300799
"""The last second of the year 9999, past which no time is read."""


# --- keys


def new_witness_key(name: str) -> tuple[str, str]:
    """Make a new key of a witness and return it as two strings: the secret signer key and its public verifier key.

    `name` says whose key it is, best like a URL without a scheme. InvalidInput if it is empty or holds a space, a plus sign
    or a control character.
    """
    if not is_name(name):
        raise InvalidInput(f"{name!r} cannot name a key: a name is not empty and has no spaces, plus or control signs")
    seed = secrets.token_bytes(32)
    public = public_key(seed)
    return SIGNER_PREFIX + _key_text(name, public, seed), _key_text(name, public, public)


def _key_text(name: str, public: bytes, material: bytes) -> str:
    return f"{name}+{_key_id(name, public).hex()}+{to_base64(_COSIGNATURE + material)}"


def _key_id(name: str, public: bytes) -> bytes:
    return sha256(name.encode() + b"\n" + _COSIGNATURE + public).digest()[:4]


def _witness_key(text: str) -> Key:
    if text.strip().startswith(SIGNER_PREFIX):
        raise InvalidInput("this is a secret signer key; give the witness's public key, which begins with its name")
    key = split_key(text.strip(), "witness", _COSIGNATURE)
    if _key_id(key.name, key.material) != key.id:
        raise InvalidInput(f"the witness key of {key.name!r} does not have the id {key.id.hex()}: it was mistyped")
    return key


def _signer_key(text: str) -> Key:
    if not text.strip().startswith(SIGNER_PREFIX):
        raise InvalidInput(f"this is not a signer key: one begins with {SIGNER_PREFIX!r}")
    key = split_key(text.strip().removeprefix(SIGNER_PREFIX), "witness", _COSIGNATURE)
    if _key_id(key.name, public_key(key.material)) != key.id:
        raise InvalidInput(f"the signer key of {key.name!r} does not have the id that it names: it was mistyped")
    return key


# --- cosigning


def cosign(note: str | bytes, signer: str, time: datetime) -> str:
    """Return the line by which a witness says that it saw a checkpoint at a time, in whole seconds.

    It says nothing of whether the log signed the checkpoint, and whether it grew out of the one before: check both first,
    by `open_checkpoint` and `ConsistencyProof.verify`. IntegrityError where the note holds no checkpoint.
    """
    key, text = _signer_key(signer), split_note(note)[0]
    Checkpoint.parse(text)
    seconds = int(time.timestamp())
    if not 0 < seconds <= _LATEST:
        raise InvalidInput(f"a cosignature has a time from 1970 to 9999, not {time.isoformat()}")
    return signature_line(key, seconds.to_bytes(8, "big") + signed(key.material, _message(text, seconds)))


def with_cosignatures(note: str, lines: str) -> str:
    """Return a note with more signature lines, as witnesses answer; lines that it has already are not added again.

    Nothing is checked but their form: `cosignatures` says which of them hold. IntegrityError where one is malformed, or the
    note grows past its limit; InvalidInput for a second line by one key.
    """
    text, had = split_note(note)
    added = [line for line in lines.split("\n") if line.strip()]
    whole = note + "".join(f"{line}\n" for line in added)
    if split_note(whole)[0] != text:
        raise IntegrityError("what is added is no signature line of a witness: it changes the text of the note")
    kept = dict.fromkeys(whole[len(text) + 1 : -1].split("\n"))
    if len(kept) < len(had):
        raise IntegrityError("the note has a signature line twice; one was added: get the note again")
    made = text + "\n" + "".join(f"{line}\n" for line in kept)
    for (name, _), count in Counter((each.name, each.key_id) for each in split_note(made)[1]).items():
        if count > 1:
            raise InvalidInput(f"the note has a line by {name!r} already, and no two by one key are ever accepted")
    return made


def _message(text: str, seconds: int) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


# --- and back


def cosignatures(note: str | bytes, witnesses: Iterable[str], *, quorum: int | None = None) -> tuple[Cosignature, ...]:
    """Return what the given witnesses say of a checkpoint, in the note's order, if enough of them do.

    `quorum` is how many of them must have cosigned it; all unless given. Lines by others are ignored, as the format
    demands. Raises IntegrityError where a given witness's line is wrong or stands there twice, and where too few have
    cosigned; InvalidInput for bad keys, and for a quorum that they cannot reach.
    """
    known = _known(witnesses)
    needed = len(known) if quorum is None else quorum
    if not 0 < needed <= len(known):
        raise InvalidInput(f"a quorum of {needed} cannot be asked of {len(known)} witness(es): give 1 to {len(known)}")
    text, signatures = split_note(note)
    found: dict[tuple[str, bytes], Cosignature] = {}
    for line in signatures:
        key = known.get((line.name, line.key_id))
        if key is None:
            continue
        if key[:2] in found:
            raise IntegrityError(f"the note has two cosignatures by {key.name!r}; one was added: get the note again")
        found[key[:2]] = Cosignature(name=key.name, time=_time_of(key, line.value, text))
    if len(found) < needed:
        missing = ", ".join(sorted(repr(key.name) for key in known.values() if key[:2] not in found))
        raise IntegrityError(
            f"{len(found)} of the given witnesses cosigned this checkpoint, and {needed} are needed (not {missing}): ask them "
            "for their lines and add these with `trails proof cosign --add`"
        )
    return tuple(found.values())


def _known(witnesses: Iterable[str]) -> dict[tuple[str, bytes], Key]:
    if isinstance(witnesses, str):
        raise InvalidInput("give the witness keys as a list, also when there is only one")
    known: dict[tuple[str, bytes], Key] = {}
    names: dict[bytes, str] = {}
    for key in map(_witness_key, witnesses):
        if names.setdefault(key.material, key.name) != key.name:
            raise InvalidInput(f"the witnesses {names[key.material]!r} and {key.name!r} have one key: it counts once")
        if known.setdefault(key[:2], key) != key:
            raise InvalidInput(f"two different witness keys have the name {key.name!r} and the id {key.id.hex()}")
    if not known:
        raise InvalidInput(
            "no witness key was given, so no cosignature can be trusted: give the witnesses' public keys"
        )
    return known


def _time_of(key: Key, value: bytes, text: str) -> datetime:
    seconds = int.from_bytes(value[:8], "big")
    holds = len(value) == _BYTES and 0 < seconds <= _LATEST
    if not holds or not is_signed(key.material, value[8:], _message(text, seconds)):
        raise IntegrityError(
            f"the cosignature by {key.name!r} (key {key.id.hex()}) is wrong: the checkpoint, its time or the line were altered"
        )
    return datetime.fromtimestamp(seconds, UTC)
