"""Signatures of heads: made by hand from the rule, and no field of one can be another."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from trails.errors import InvalidInput
from trails.integrity.signed_notes import HeadSignature, is_signature_true, new_key, new_principal_key, sign, sign_head
from trails.integrity.witnesses import new_witness_key

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NOON_MICROSECONDS = 1767355200_000000  # date -ud 2026-01-02T12:00:00 +%s
HEAD = sha256(b"head").hexdigest()
SECRET, PUBLIC = new_principal_key("alice")


def by_hand(seed: bytes, name: str = "alice", **said: Any) -> HeadSignature:
    """Return a signature as the guide describes it."""
    private = Ed25519PrivateKey.from_private_bytes(seed)
    public = private.public_key().public_bytes_raw()
    key_id = sha256(name.encode() + b"\n\x01" + public).digest()[:4].hex()
    fields = ["plan", "3", HEAD, "principal:alice", str(NOON_MICROSECONDS)]
    framed = b"".join(len(each).to_bytes(8, "big") + each.encode() for each in fields)
    made = HeadSignature(
        session_id="plan",
        index=3,
        head=HEAD,
        by_iri="urn:trails:principal:alice",
        time=NOON,
        key=f"{name}+{key_id}+{base64.b64encode(bytes([1]) + public).decode()}",
        signature=base64.b64encode(private.sign(b"trails/head-signature/1" + framed)).decode(),
    )
    return made.model_copy(update=said)


def test_the_signature_made_by_hand_is_the_one_that_is_made() -> None:
    seed = base64.b64decode(SECRET.split("+", 4)[4])[1:]
    assert by_hand(seed) == sign_head(SECRET, "plan", 3, HEAD, NOON)
    assert by_hand(seed).key == PUBLIC
    assert is_signature_true(by_hand(b"s" * 32))


@pytest.mark.parametrize(
    "altered",
    [
        {"session_id": "plan2"},
        {"index": 4},
        {"head": sha256(b"other").hexdigest()},
        {"by_iri": "urn:trails:principal:bob"},
        {"by_iri": "urn:trails:agent:alice"},
        {"time": NOON.replace(microsecond=1)},
        {"key": PUBLIC},
        {"key": "alice"},
        {"key": by_hand(b"s" * 32).key + " "},
        {"signature": by_hand(b"t" * 32).signature},
        {"signature": ""},
        {"signature": by_hand(b"s" * 32).signature.rstrip("=")},
        {"session_id": "pla", "index": 13},
    ],
)
def test_a_signature_of_something_else_is_none(altered: dict[str, Any]) -> None:
    assert not is_signature_true(by_hand(b"s" * 32, **altered))


def test_nobody_signs_in_another_s_name() -> None:
    assert not is_signature_true(by_hand(b"s" * 32, "bob"))
    assert not is_signature_true(by_hand(b"s" * 32, "%61lice"))


def test_nothing_else_that_the_key_signs_is_a_signature_of_a_head() -> None:
    text = "trails/head-signature/1\nplan\n3\n"
    line = sign(text, SECRET).splitlines()[-1].split(" ")[2]
    assert not is_signature_true(
        by_hand(b"s" * 32, key=PUBLIC, signature=base64.b64encode(base64.b64decode(line)[4:]).decode())
    )


@pytest.mark.parametrize("name", ["alice", "Alice Smith", "zoë", "a+b", "a%20b", "mail:a@b.example/x"])
def test_a_key_bears_any_principal_s_name(name: str) -> None:
    made = sign_head(new_principal_key(name)[0], "plan", 0, HEAD)
    assert made.principal == name
    assert is_signature_true(made)


@pytest.mark.parametrize(
    "key",
    [PUBLIC, new_witness_key("alice")[0], new_key("a%62")[0], "", "PRIVATE+KEY+alice"],
    ids=["a public key", "a witness's", "a name escaped needlessly", "nothing", "half a key"],
)
def test_what_is_no_principal_s_secret_key_signs_nothing(key: str) -> None:
    with pytest.raises(InvalidInput):
        sign_head(key, "plan", 0, HEAD)
