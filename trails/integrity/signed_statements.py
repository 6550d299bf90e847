"""Signed statements: an in-toto statement in a DSSE envelope, or in a COSE_Sign1 message for a transparency service.

`trails.integrity.verifier.dsse` says how an envelope is written. The tools of in-toto and Sigstore read it. A message is that of
RFC 9052, section 4.2, with the header parameters that SCITT asks for: algorithm, content type, the key's id, and who says it of
what as CWT claims (RFC 9597). It is written canonically (RFC 8949, section 4.2.1), so a statement has one form. The key is that
of the log. `cryptography` is imported only when a statement is made or read, `cbor2` only for a message.

Errors: a statement that is read and does not hold raises IntegrityError; keys that are none raise InvalidInput.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple

from trails.errors import IntegrityError, TrailsError
from trails.integrity.signed_notes import is_signed, sign_bytes, signer_key
from trails.integrity.verifier.dsse import IN_TOTO, dsse_key_id, open_envelope, signed_form
from trails.integrity.verifier.notes import Key, known_keys, to_base64

Form = Literal["dsse", "cose"]
MAX_BYTES: Final = 100_000_000
"""The largest statement that is read, in bytes."""
_SIGN1: Final = 18
_ALGORITHM, _TYPE, _KEY_ID, _CLAIMS = 1, 3, 4, 15
_ISSUER, _SUBJECT = 1, 2
_EDDSA: Final = -8
_CONTEXT: Final = "Signature1"


class SignedStatement(NamedTuple):
    """What a message holds: who says it, of what, and the statement. Trust it only from `open_statement`."""

    issuer: str
    subject: str
    payload: bytes


def sign_envelope(payload: bytes, signer: str) -> bytes:
    """Return an in-toto statement, signed with a log's secret key, in a DSSE envelope. InvalidInput for what is no signer key."""
    key = signer_key(signer)
    value = sign_bytes(key.material, signed_form(IN_TOTO, payload))
    signatures = [{"keyid": dsse_key_id(key), "sig": to_base64(value)}]
    envelope = {"payload": to_base64(payload), "payloadType": IN_TOTO, "signatures": signatures}
    return json.dumps(envelope, separators=(",", ":")).encode()


def open_payload(data: bytes, verifiers: Iterable[str]) -> bytes:
    """Return the statement that a log signed with one of the given keys, in an envelope or in a message.

    Raises IntegrityError for anything else: see `open_statement` and `trails.integrity.verifier.dsse.open_envelope`.
    """
    if data[:1] == b"{":
        return open_envelope(data, known_keys(verifiers), is_signed).payload
    return open_statement(data, verifiers).payload


def sign_statement(payload: bytes, subject: str, signer: str) -> bytes:
    """Return a statement about a subject, signed with a log's secret key, as a COSE_Sign1 message.

    The issuer is the name of the key. InvalidInput for what is no signer key.
    """
    cbor, key = _cbor2(), signer_key(signer)
    claims = {_ISSUER: key.name, _SUBJECT: subject}
    header = {_ALGORITHM: _EDDSA, _TYPE: IN_TOTO, _KEY_ID: key.id, _CLAIMS: claims}
    protected = cbor.dumps(header, canonical=True)
    signature = sign_bytes(key.material, _signed_bytes(cbor, protected, payload))
    return bytes(cbor.dumps(cbor.CBORTag(_SIGN1, [protected, {}, payload, signature]), canonical=True))


def open_statement(data: bytes, verifiers: Iterable[str]) -> SignedStatement:
    """Return a statement that a log signed with one of the given keys.

    Raises IntegrityError for what is no such message, for one by another key, and where the signature does not hold.
    """
    cbor, keys = _cbor2(), known_keys(verifiers)
    protected, payload, signature = _parts(cbor, data)
    header = _decoded(cbor, protected)
    try:
        algorithm, content_type, key_id, claims = (header[each] for each in (_ALGORITHM, _TYPE, _KEY_ID, _CLAIMS))
        issuer, subject = claims[_ISSUER], claims[_SUBJECT]
        known = (len(header), len(claims), algorithm, content_type) == (4, 2, _EDDSA, IN_TOTO)
    except (LookupError, TypeError):
        known = False
    if not (known and isinstance(issuer, str) and isinstance(subject, str) and isinstance(key_id, bytes)):
        raise IntegrityError("this signed statement is none that Trails writes: its headers are others")
    key: Key | None = keys.get((issuer, key_id))
    if key is None:
        raise IntegrityError(
            f"none of the given keys signed this statement; it names {issuer!r}: give a key that you trust"
        )
    if not is_signed(key.material, signature, _signed_bytes(cbor, protected, payload)):
        raise IntegrityError(f"the signature of the statement by {issuer!r} is wrong: something was altered")
    return SignedStatement(issuer, subject, payload)


def _signed_bytes(cbor: ModuleType, protected: bytes, payload: bytes) -> bytes:
    """Return what is signed: the Sig_structure of RFC 9052, section 4.4."""
    return bytes(cbor.dumps([_CONTEXT, protected, b"", payload], canonical=True))


def _parts(cbor: ModuleType, data: bytes) -> tuple[bytes, bytes, bytes]:
    if len(data) > MAX_BYTES:
        raise IntegrityError(f"the signed statement has more than {MAX_BYTES:,} bytes and was not read")
    message = _decoded(cbor, data)
    parts = getattr(message, "value", None)
    if getattr(message, "tag", None) != _SIGN1 or not isinstance(parts, list | tuple) or len(parts) != 4:
        raise IntegrityError("this is no signed statement: it is no COSE_Sign1 message")
    protected, unprotected, payload, signature = parts
    if (
        not isinstance(unprotected, Mapping)
        or unprotected
        or not all(isinstance(each, bytes) for each in (protected, payload, signature))
    ):
        raise IntegrityError("this signed statement has parts that are not signed, or its content stands elsewhere")
    return protected, payload, signature


def _decoded(cbor: ModuleType, data: bytes) -> Any:
    """Return what CBOR says, if it is written in the one canonical way."""
    try:
        value = cbor.loads(data)
        if cbor.dumps(value, canonical=True) == data:
            return value
    except (cbor.CBORError, ValueError, TypeError, ArithmeticError, RecursionError, EOFError) as error:
        raise IntegrityError(f"this is no signed statement: it cannot be read as CBOR ({error})") from None
    raise IntegrityError("this signed statement is not written canonically: something was added")


def _cbor2() -> ModuleType:
    try:
        import cbor2  # noqa: PLC0415 - an optional dependency
    except ImportError as missing:
        raise TrailsError(
            "signed statements need the package `cbor2`, which is not installed: pip install 'trails[scitt]'"
        ) from missing
    module: ModuleType = cbor2
    return module
