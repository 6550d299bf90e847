"""Time-stamp tokens over notes: an authority of timestamping says when it saw one (RFC 3161).

The request and the response are DER, as any authority takes and gives them; what is stamped is SHA-256 over the note's bytes
as they stand in its file, so that `openssl ts -verify -data NOTE -in RESPONSE` checks the same. A line that a witness adds
afterwards makes another file: cosign first.

Errors: a response that does not hold raises IntegrityError; certificates and requests that are none raise InvalidInput.
The package `rfc3161-client` does the work, and is imported only when a token is asked for or checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from hashlib import sha256
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.model import Timestamp

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampRequest, TimeStampResponse

MAX_TOKEN_BYTES: Final = 1_000_000
"""The largest response that is read, in bytes; one with a chain of certificates has some thousands."""
_GRANTED: Final = 0
_WHOLE_SECOND: Final = timedelta(seconds=1)
"""What is added to a token's time, of which `rfc3161-client` gives whole seconds, rounded down."""


# --- asking


def request(note: bytes) -> bytes:
    """Return the request to be sent to an authority, with a new nonce: HTTP POST, `application/timestamp-query`."""
    library = _library()
    builder = library.TimestampRequestBuilder().data(note).hash_algorithm(library.HashAlgorithm.SHA256)
    return bytes(builder.cert_request(cert_request=True).build().as_bytes())


def check_answer(note: bytes, asked: bytes, response: bytes) -> None:
    """Accept a response that grants what was asked for a note; its signature is checked by `stamped` alone.

    Raises IntegrityError where it is malformed, refuses the request, is over another text or answers another request;
    InvalidInput where `asked` is no request.
    """
    answer = _read(response)
    wanted = _read_request(asked)
    if wanted.message_imprint.message != sha256(note).digest():
        raise InvalidInput("the request is for another text than this one; give the request that was made for it")
    _check_digest(answer, note)
    if answer.tst_info.nonce != wanted.nonce:
        raise IntegrityError("the response answers another request: its nonce is not the one that was asked with")


# --- checking


def stamped(note: bytes, response: bytes, roots: Iterable[str]) -> Timestamp:
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


def stamped_if_asked(note: str | None, response: bytes | None, roots: Sequence[str]) -> Timestamp | None:
    """Return what `stamped` does where a response is given with certificates, None where neither is.

    Raises InvalidInput where one is given without the other, or without a note.
    """
    if (response is None) != (not roots):
        raise InvalidInput("a time-stamp response and the certificates that are trusted go together: give both")
    if response is None:
        return None
    if note is None:
        raise InvalidInput("a time-stamp token is to check a checkpoint, and none was given")
    return stamped(note.encode(), response, roots)


def _check_digest(answer: TimeStampResponse, note: bytes) -> None:
    from cryptography.x509 import ObjectIdentifier  # noqa: PLC0415 - comes with the package for tokens

    imprint = answer.tst_info.message_imprint
    if imprint.hash_algorithm != ObjectIdentifier("2.16.840.1.101.3.4.2.1"):  # RFC 5754: SHA-256
        raise IntegrityError(
            "the time-stamp token is over a digest that is not SHA-256: ask with `trails proof timestamp request`"
        )
    if imprint.message != sha256(note).digest():
        raise IntegrityError(
            "the time-stamp token is over another text: of another checkpoint, or of this one before a line was added to it"
        )


def _signer(answer: TimeStampResponse) -> Certificate:
    """Return the certificate of who signed a token, which must be in it."""
    from cryptography.x509 import load_der_x509_certificate  # noqa: PLC0415 - comes with the package for tokens

    (said,) = answer.signed_data.signer_infos
    for data in answer.signed_data.certificates:
        found = load_der_x509_certificate(data)
        if (found.issuer, found.serial_number) == (said.issuer, said.serial_number):
            return found
    raise ValueError("it does not hold the certificate of who signed it")


def _accuracy(said: Any) -> timedelta:
    if said is None:
        return timedelta()
    return timedelta(seconds=said.seconds or 0, milliseconds=said.millis or 0, microseconds=said.micros or 0)


def _certificates(text: str) -> list[Certificate]:
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415 - comes with the package for tokens

    try:
        return load_pem_x509_certificates(text.encode())
    except ValueError as wrong:
        raise InvalidInput(
            f"this is no certificate in PEM ({wrong}); one begins with -----BEGIN CERTIFICATE-----"
        ) from None


# --- what is read


def _read(response: bytes) -> TimeStampResponse:
    """Return a response that has a token in it."""
    if len(response) > MAX_TOKEN_BYTES:
        raise IntegrityError(f"the response has more than {MAX_TOKEN_BYTES} bytes and was not read")
    library = _library()
    try:
        found = library.decode_timestamp_response(response)
        status, said = found.status, found.status_string
        if status == _GRANTED:
            found.tst_info.message_imprint  # noqa: B018 - what holds no token says so
            return found  # type: ignore[no-any-return] # a module that is imported by need has no types
    except ValueError as wrong:
        raise IntegrityError(f"this is no response of a time-stamp authority, or it was cut short: {wrong}") from None
    why = f": {', '.join(map(str, said))}" if said else ""
    raise IntegrityError(f"the time-stamp authority did not grant the request (status {status}){why}")


def _read_request(asked: bytes) -> TimeStampRequest:
    library = _library()
    try:  # the package reads requests too, and has no public name for it
        found = library._rust.parse_timestamp_request(asked)
    except ValueError as wrong:
        raise InvalidInput(
            f"this is no time-stamp request: {wrong}; `trails proof timestamp request` writes one"
        ) from None
    return found  # type: ignore[no-any-return] # a module that is imported by need has no types


def _library() -> ModuleType:
    try:
        import rfc3161_client  # noqa: PLC0415 - an optional dependency
    except ImportError as missing:
        raise TrailsError(
            "time-stamp tokens need the package `rfc3161-client`, which is not installed: pip install 'trails[timestamps]'"
        ) from missing
    return rfc3161_client
