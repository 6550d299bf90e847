"""Read in-toto statements in a DSSE envelope, signed by a log's key.

An envelope is JSON: a payload and its type, and signatures over both (https://github.com/secure-systems-lab/dsse, protocol.md and
envelope.md, 1.0.2). `keyid` is the name of the log's key, a plus sign and its id in hex. DSSE lets readers ignore fields that
they do not know and keys without an id; here both are refused, so that no bit of an envelope can be altered unseen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trails.errors import IntegrityError
from trails.integrity.verifier.notes import Key, Keys, SignatureCheck, from_base64
from trails.integrity.verifier.proof_checks import json_object

IN_TOTO = "application/vnd.in-toto+json"
"""The type of a payload that is an in-toto statement."""
MAX_ENVELOPE_BYTES = 100_000_000
"""The largest envelope that is read, in bytes."""


class OpenedEnvelope(NamedTuple):
    """The payload of an envelope, and the names of the given keys that signed it."""

    payload: bytes
    names: tuple[str, ...]


def signed_form(payload_type: str, payload: bytes) -> bytes:
    """Return what is signed of a payload: its type and itself, each after its length in decimal digits (DSSE's PAE).

    >>> signed_form("http://example.com/HelloWorld", b"hello world")
    b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def dsse_key_id(key: Key) -> str:
    """Return how an envelope names a key."""
    return f"{key.name}+{key.id.hex()}"


def open_envelope(data: bytes, keys: Keys, is_right: SignatureCheck) -> OpenedEnvelope:
    """Return the in-toto statement of an envelope that at least one of the given keys signed.

    Signatures by other keys are ignored. Raises IntegrityError for what is no such envelope, where the signature of a given
    key is wrong or stands there twice, and where none of the keys signed.
    """
    if len(data) > MAX_ENVELOPE_BYTES:
        raise IntegrityError(f"the envelope has more than {MAX_ENVELOPE_BYTES:,} bytes and was not read")
    envelope = json_object(data, {"payload", "payloadType", "signatures"})
    payload, signatures = _bytes(envelope["payload"]), envelope["signatures"]
    if envelope["payloadType"] != IN_TOTO or not isinstance(signatures, list):
        raise IntegrityError(f"this is no envelope with a statement: its payload is not of the type {IN_TOTO}")
    known = {dsse_key_id(key): key for key in keys.values()}
    seen: list[Key] = []
    for each in signatures:
        if not isinstance(each, dict) or each.keys() != {"keyid", "sig"} or not isinstance(each["keyid"], str):
            raise IntegrityError("a signature of the envelope is not a `keyid` and a `sig`")
        key, value = known.get(each["keyid"]), _bytes(each["sig"])
        if key is None:
            continue
        if key in seen:
            raise IntegrityError(f"the envelope has two signatures by {key.name!r}: one was added")
        if not is_right(key.material, value, signed_form(IN_TOTO, payload)):
            raise IntegrityError(f"the signature of the envelope by {key.name!r} is wrong: something was altered")
        seen.append(key)
    if not seen:
        named = ", ".join(sorted({each["keyid"] for each in signatures})[:5])
        raise IntegrityError(
            f"none of the given keys signed this envelope; it names {named or 'none'}: give a key that you trust"
        )
    return OpenedEnvelope(payload, tuple(key.name for key in seen))


def _bytes(text: Any) -> bytes:
    """Return the bytes of a base64 text, in the standard alphabet or the one for URLs, as DSSE allows."""
    data = from_base64(text.replace("-", "+").replace("_", "/")) if isinstance(text, str) else None
    if data is None:
        raise IntegrityError("this is no envelope with a statement: it holds what is no base64")
    return data
