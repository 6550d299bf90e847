"""A time-stamp authority (RFC 3161) made by hand: its certificates, and tokens with whatever is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
FOR_STAMPS = (ExtendedKeyUsageOID.TIME_STAMPING,)

# --- DER, as far as tokens need it (X.690)


def tlv(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    if len(body) < 0x80:
        return bytes([tag, len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def sequence(*parts: bytes) -> bytes:
    return tlv(0x30, *parts)


def integer(value: int) -> bytes:
    return tlv(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def octets(data: bytes) -> bytes:
    return tlv(0x04, data)


def oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    body = bytes([40 * first + second])
    for arc in rest:
        digits = [arc & 0x7F]
        while arc := arc >> 7:
            digits.insert(0, 0x80 | arc & 0x7F)
        body += bytes(digits)
    return tlv(0x06, body)


SHA256, SHA512 = oid("2.16.840.1.101.3.4.2.1"), oid("2.16.840.1.101.3.4.2.3")
SIGNED_DATA, TST_INFO = oid("1.2.840.113549.1.7.2"), oid("1.2.840.113549.1.9.16.1.4")
CONTENT_TYPE, MESSAGE_DIGEST = oid("1.2.840.113549.1.9.3"), oid("1.2.840.113549.1.9.4")
SIGNING_CERTIFICATE = oid("1.2.840.113549.1.9.16.2.47")
ECDSA_SHA256 = oid("1.2.840.10045.4.3.2")


def time_text(time: datetime) -> bytes:
    return tlv(0x18, time.astimezone(UTC).strftime("%Y%m%d%H%M%SZ").encode())


# --- who certifies, and who is certified


@dataclass(frozen=True)
class Holder:
    """Somebody with a key and a certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()


def certified(
    name: str,
    by: Holder | None = None,
    *,
    usages: tuple[x509.ObjectIdentifier, ...] | None = None,
    critical: bool = True,
    authority: bool = False,
    since: datetime = NOON - timedelta(days=30),
    until: datetime = NOON + timedelta(days=30),
) -> Holder:
    """Return a new holder, whose certificate is signed by another one, or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if usages is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=critical)
    return Holder(key, builder.sign(key if by is None else by.key, hashes.SHA256()))


# --- what it answers


def token_info(
    digest: bytes, nonce: int | None, *, time: datetime = NOON, accuracy: bytes = b"", algorithm: bytes = SHA256
) -> bytes:
    """Return a TSTInfo (section 2.4.2)."""
    imprint = sequence(sequence(algorithm, tlv(0x05)), octets(digest))
    said = () if nonce is None else (integer(nonce),)
    return sequence(integer(1), oid("1.2.3.4.1"), imprint, integer(7), time_text(time), accuracy, *said)


def signed(info: bytes, signer: Holder, chain: tuple[Holder, ...] = (), *, key: Holder | None = None) -> bytes:
    """Return a token: a TSTInfo in a CMS SignedData (RFC 5652), with the signer's certificate and others.

    `key` is whose key signs where it is not the signer's.
    """
    known = sha256(signer.certificate.public_bytes(Encoding.DER)).digest()
    named = [
        sequence(SIGNING_CERTIFICATE, tlv(0x31, sequence(sequence(sequence(octets(known)))))),  # RFC 5035
        sequence(CONTENT_TYPE, tlv(0x31, TST_INFO)),
        sequence(MESSAGE_DIGEST, tlv(0x31, octets(sha256(info).digest()))),
    ]
    attributes = b"".join(sorted(named))
    signature = (key or signer).key.sign(tlv(0x31, attributes), ec.ECDSA(hashes.SHA256()))
    certificate = signer.certificate
    who = sequence(certificate.issuer.public_bytes(), integer(certificate.serial_number))
    said = sequence(integer(1), who, sequence(SHA256), tlv(0xA0, attributes), sequence(ECDSA_SHA256), octets(signature))
    certificates = b"".join(sorted(each.certificate.public_bytes(Encoding.DER) for each in (signer, *chain)))
    content = sequence(TST_INFO, tlv(0xA0, octets(info)))
    data = sequence(integer(3), tlv(0x31, sequence(SHA256)), content, tlv(0xA0, certificates), tlv(0x31, said))
    return sequence(SIGNED_DATA, tlv(0xA0, data))


def nonce_of(asked: bytes) -> int:
    """Return the nonce of a request (RFC 3161, 2.4.1): the last of its numbers, all its fields being short."""
    numbers, at = [], 2
    assert asked[:1] == b"\x30"
    assert len(asked) == asked[1] + 2 < 128
    while at < len(asked):
        value = asked[at + 2 : at + 2 + asked[at + 1]]
        if asked[at] == 0x02:
            numbers.append(int.from_bytes(value, "big"))
        at += 2 + len(value)
    version, nonce = numbers
    assert version == 1
    return nonce


def response(token: bytes, *, status: int = 0) -> bytes:
    """Return a response (section 2.4.2) with a token, or without any (an empty one)."""
    return sequence(sequence(integer(status)), token)
