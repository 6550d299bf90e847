"""Cosignatures of witnesses and RFC 3161 time stamps.

A witness says that it saw a checkpoint, and when (`cosignature/v1`, c2sp.org/tlog-cosignature). It adds a line to the note:
base64 of its key's id, the time as eight bytes, big-endian, in seconds since 1970, and an Ed25519 signature over
"cosignature/v1", "time N" and the note's text. Its keys are written as those of logs, with 0x04 in place of 0x01. The name is
not signed, so a key counts once, whatever names it is given under.

A time-stamp authority says when it saw a note (RFC 3161). Request and response are DER. What is stamped is SHA-256 over the
note's bytes as they stand in its file, so `openssl ts -verify -data NOTE -in RESPONSE` checks the same. A line that a witness
adds later makes another file: cosign first. The package `rfc3161-client` is imported only when a token is asked for or checked.

Errors: notes and responses that do not hold raise IntegrityError; keys, texts, certificates and requests that are none raise
InvalidInput.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.integrity.signed_notes import Checkpoint, is_signed, new_key, sign_bytes, signature_line, signer_key
from trails.integrity.verifier.notes import Key, KeyKind, known_keys, split_note
from trails.model.values import Cosignature, Timestamp

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampRequest, TimeStampResponse

_WITNESS_KEY: Final = KeyKind("witness", b"\x04")
_BYTES: Final = 8 + 64
_LATEST: Final = 253402300799
"""The last second of the year 9999, past which no time is read."""


# --- keys


def new_witness_key(name: str) -> tuple[str, str]:
    """Make a new key of a witness and return it as two strings: the secret signer key and its public verifier key.

    `name` says whose key it is, best like a URL without a scheme. InvalidInput if it is empty or holds a space, a plus sign
    or a control character.
    """
    return new_key(name, _WITNESS_KEY)


# --- cosigning


def cosign(note: str | bytes, signer: str, time: datetime) -> str:
    """Return the line by which a witness says that it saw a checkpoint at a time, in whole seconds.

    It says nothing of whether the log signed the checkpoint, and whether it grew out of the one before: check both first,
    by `open_checkpoint` and `ConsistencyProof.verify`. IntegrityError if the note holds no checkpoint.
    """
    key, text = signer_key(signer, _WITNESS_KEY), split_note(note)[0]
    Checkpoint.parse(text)
    seconds = int(time.timestamp())
    if not 0 < seconds <= _LATEST:
        raise InvalidInput(f"a cosignature has a time from 1970 to 9999, not {time.isoformat()}")
    return signature_line(key, seconds.to_bytes(8, "big") + sign_bytes(key.material, _message(text, seconds)))


def with_cosignatures(note: str, lines: str) -> str:
    """Return a note with more signature lines, as witnesses answer; lines that it has already are not added again.

    Nothing is checked but their form: `cosignatures` says which of them hold. IntegrityError if one is malformed, or the
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
    cosigned = text + "\n" + "".join(f"{line}\n" for line in kept)
    for (name, _), count in Counter((each.name, each.key_id) for each in split_note(cosigned)[1]).items():
        if count > 1:
            raise InvalidInput(f"the note has a line by {name!r} already, and no two by one key are ever accepted")
    return cosigned


def _message(text: str, seconds: int) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


# --- and back


def cosignatures(note: str | bytes, witnesses: Iterable[str], *, quorum: int | None = None) -> tuple[Cosignature, ...]:
    """Return what the given witnesses say of a checkpoint, in the note's order, if enough of them do.

    `quorum` is how many of them must have cosigned it; all unless given. Lines by others are ignored, as the format
    demands. Raises IntegrityError if a given witness's line is wrong or stands there twice, and if too few have
    cosigned; InvalidInput for bad keys, and for a quorum that they cannot reach.
    """
    keys = known_keys(witnesses, _WITNESS_KEY)
    names: dict[bytes, str] = {}
    for key in keys.values():
        if names.setdefault(key.material, key.name) != key.name:
            raise InvalidInput(f"the witnesses {names[key.material]!r} and {key.name!r} have one key: it counts once")
    needed = len(keys) if quorum is None else quorum
    if not 0 < needed <= len(keys):
        raise InvalidInput(f"a quorum of {needed} cannot be asked of {len(keys)} witness(es): give 1 to {len(keys)}")
    text, signatures = split_note(note)
    by_key: dict[tuple[str, bytes], Cosignature] = {}
    for line in signatures:
        if (line.name, line.key_id) not in keys:
            continue
        key = keys[line.name, line.key_id]
        if key[:2] in by_key:
            raise IntegrityError(f"the note has two cosignatures by {key.name!r}; one was added: get the note again")
        by_key[key[:2]] = Cosignature(name=key.name, time=_time_of(key, line.value, text))
    if len(by_key) < needed:
        missing = ", ".join(sorted(repr(key.name) for key in keys.values() if key[:2] not in by_key))
        raise IntegrityError(
            f"{len(by_key)} of the given witnesses cosigned this checkpoint, and {needed} are needed (not {missing}): ask them "
            "for their lines and add these with `trails proof cosign --add`"
        )
    return tuple(by_key.values())


def _time_of(key: Key, value: bytes, text: str) -> datetime:
    seconds = int.from_bytes(value[:8], "big")
    holds = len(value) == _BYTES and 0 < seconds <= _LATEST
    if not holds or not is_signed(key.material, value[8:], _message(text, seconds)):
        raise IntegrityError(f"the cosignature by {key.name!r} (key {key.id.hex()}) is wrong: something was altered")
    return datetime.fromtimestamp(seconds, UTC)


MAX_TOKEN_BYTES: Final = 1_000_000
"""The largest response that is read, in bytes; one with a chain of certificates has some thousands."""
_GRANTED: Final = 0
_WHOLE_SECOND: Final = timedelta(seconds=1)
"""What is added to a token's time, of which `rfc3161-client` gives whole seconds, rounded down."""


# --- asking


def timestamp_request(note: bytes) -> bytes:
    """Return the request to be sent to an authority, with a new nonce: HTTP POST, `application/timestamp-query`."""
    library = _library()
    builder = library.TimestampRequestBuilder().data(note).hash_algorithm(library.HashAlgorithm.SHA256)
    return bytes(builder.cert_request(cert_request=True).build().as_bytes())


def check_timestamp_answer(note: bytes, request: bytes, response: bytes) -> None:
    """Accept a response that grants what was asked for a note; its signature is checked by `stamped` alone.

    Raises IntegrityError if it is malformed, refuses the request, is over another text or answers another request;
    InvalidInput if `asked` is no request.
    """
    answer = _read(response)
    wanted = _read_request(request)
    if wanted.message_imprint.message != sha256(note).digest():
        raise InvalidInput("the request is for another text than this one; give the request that was made for it")
    _check_digest(answer, note)
    if answer.tst_info.nonce != wanted.nonce:
        raise IntegrityError("the response answers another request: its nonce is not the one that was asked with")


# --- checking


def read_timestamp(note: bytes, response: bytes, roots: Iterable[str]) -> Timestamp:
    """Return who says of a note that it was there, and by when, if one of the trusted certificates stands behind that.

    `roots` are texts with certificates in PEM: of authorities, or of those who certify them. The time is the latest at which
    the token can have been made: its own, in whole seconds rounded up, and its accuracy. Certificates must have been valid
    then, and the authority's must be for timestamping alone.

    Raises IntegrityError with what does not hold.
    """
    library = _library()
    trusted = [certificate for text in roots for certificate in _certificates(text)]
    if not trusted:
        raise InvalidInput("no certificate was given, so no token can be trusted: give the authority's")
    answer = _read(response)
    _check_digest(answer, note)
    builder = library.VerifierBuilder(roots=list(dict.fromkeys(trusted)))
    try:
        builder.build().verify(answer, sha256(note).digest())
        signer = _signer(answer)
        token = answer.tst_info
        margin = _accuracy(token.accuracy)
    except (library.VerificationError, ValueError, TypeError) as wrong:
        raise IntegrityError(
            f"the time-stamp token does not hold: {wrong}; get it again, or give the certificate of who stands behind it"
        ) from None
    return Timestamp(authority=signer.subject.rfc4514_string(), time=token.gen_time + _WHOLE_SECOND + margin)


def check_timestamp(note: str | None, response: bytes | None, roots: Sequence[str]) -> Timestamp | None:
    """Return what `stamped` does if a response is given with certificates, None if neither is.

    Raises InvalidInput if one is given without the other, or without a note.
    """
    if (response is None) != (not roots):
        raise InvalidInput("a time-stamp response and the certificates that are trusted go together: give both")
    if response is None:
        return None
    if note is None:
        raise InvalidInput("a time-stamp token is to check a checkpoint, and none was given")
    return read_timestamp(note.encode(), response, roots)


def _check_digest(answer: TimeStampResponse, note: bytes) -> None:
    from cryptography.x509 import ObjectIdentifier  # noqa: PLC0415 - comes with the package for tokens

    imprint = answer.tst_info.message_imprint
    if imprint.hash_algorithm != ObjectIdentifier("2.16.840.1.101.3.4.2.1"):  # RFC 5754: SHA-256
        raise IntegrityError("the digest in the token is not SHA-256: ask with `trails proof timestamp request`")
    if imprint.message != sha256(note).digest():
        raise IntegrityError("the token is over another text: another checkpoint, or this one before a line was added")


def _signer(answer: TimeStampResponse) -> Certificate:
    """Return the certificate of who signed a token, which must be in it."""
    from cryptography.x509 import load_der_x509_certificate  # noqa: PLC0415 - comes with the package for tokens

    (signer,) = answer.signed_data.signer_infos
    for data in answer.signed_data.certificates:
        certificate = load_der_x509_certificate(data)
        if (certificate.issuer, certificate.serial_number) == (signer.issuer, signer.serial_number):
            return certificate
    raise ValueError("it does not hold the certificate of who signed it")


def _accuracy(accuracy: Any) -> timedelta:
    if accuracy is None:
        return timedelta()
    return timedelta(
        seconds=accuracy.seconds or 0, milliseconds=accuracy.millis or 0, microseconds=accuracy.micros or 0
    )


def _certificates(text: str) -> list[Certificate]:
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415 - comes with the package for tokens

    try:
        return load_pem_x509_certificates(text.encode())
    except ValueError as wrong:
        raise InvalidInput(f"this is no certificate in PEM ({wrong}): it needs -----BEGIN CERTIFICATE-----") from None


# --- what is read


def _read(response: bytes) -> TimeStampResponse:
    """Return a response that has a token in it."""
    if len(response) > MAX_TOKEN_BYTES:
        raise IntegrityError(f"the response has more than {MAX_TOKEN_BYTES} bytes and was not read")
    library = _library()
    try:
        answer = library.decode_timestamp_response(response)
        status, reasons = answer.status, answer.status_string
        if status == _GRANTED:
            answer.tst_info.message_imprint  # noqa: B018 - what holds no token says so
            return answer  # type: ignore[no-any-return] # a module that is imported by need has no types
    except ValueError as wrong:
        raise IntegrityError(f"this is no response of a time-stamp authority, or it was cut short: {wrong}") from None
    why = f": {', '.join(map(str, reasons))}" if reasons else ""
    raise IntegrityError(f"the time-stamp authority did not grant the request (status {status}){why}")


def _read_request(data: bytes) -> TimeStampRequest:
    library = _library()
    try:  # the package reads requests too, and has no public name for it
        request = library._rust.parse_timestamp_request(data)
    except ValueError as wrong:
        raise InvalidInput(
            f"this is no time-stamp request: {wrong}; make one with `trails proof timestamp request`"
        ) from None
    return request  # type: ignore[no-any-return] # a module that is imported by need has no types


def _library() -> ModuleType:
    try:
        import rfc3161_client  # noqa: PLC0415 - an optional dependency
    except ImportError as missing:
        raise TrailsError(
            "time-stamp tokens need the package `rfc3161-client`, which is not installed: pip install 'trails[timestamps]'"
        ) from missing
    return rfc3161_client
