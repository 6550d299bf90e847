"""In-toto statements in DSSE envelopes: the specification's example, another implementation, and every bit that is altered."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.commands import invoke
from trails.errors import IntegrityError
from trails.integrity.signed_notes import is_signed, new_key, sign_bytes, signer_key
from trails.integrity.signed_statements import open_payload, sign_envelope
from trails.integrity.verifier.dsse import open_envelope, signed_form
from trails.integrity.verifier.ed25519 import is_signed_by
from trails.integrity.verifier.notes import known_keys, verifier_key

SIGNER, KEY = new_key("example.com/log")
KEY_ID = "+".join(KEY.split("+")[:2])  # the key itself may hold a plus
OTHER_SIGNER, OTHER = new_key("example.com/log")
STATEMENT = b'{"_type":"https://in-toto.io/Statement/v1"}'


def test_what_is_signed_is_the_example_of_the_specification() -> None:
    """DSSE, protocol.md, "Test Vectors": the PAE, and a signature by ECDSA over P-256 and SHA-256, which is not ours to make."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    signed = signed_form("http://example.com/HelloWorld", b"hello world")
    assert signed == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    x = 46950820868899156662930047687818585632848591499744589407958293238635476079160
    y = 5640078356564379163099075877009565129882514886557779369047442380624545832820
    value = base64.b64decode("A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA==")
    r, s = (int.from_bytes(half, "big") for half in (value[:32], value[32:]))
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    public.verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))


def test_an_envelope_is_the_json_that_the_specification_describes() -> None:
    key = signer_key(SIGNER)
    value = sign_bytes(key.material, b"DSSEv1 28 application/vnd.in-toto+json 43 " + STATEMENT)
    assert json.loads(sign_envelope(STATEMENT, SIGNER)) == {
        "payload": base64.b64encode(STATEMENT).decode(),
        "payloadType": "application/vnd.in-toto+json",
        "signatures": [{"keyid": KEY_ID, "sig": base64.b64encode(value).decode()}],
    }


def test_securesystemslib_accepts_it_and_nothing_else() -> None:
    dsse = pytest.importorskip("securesystemslib.dsse")
    signer = pytest.importorskip("securesystemslib.signer")
    exceptions = pytest.importorskip("securesystemslib.exceptions")

    def theirs(verifier: str) -> Any:
        public = {"public": verifier_key(verifier).material.hex()}
        return signer.SSlibKey(KEY_ID, "ed25519", "ed25519", public)

    envelope = dsse.Envelope.from_dict(json.loads(sign_envelope(STATEMENT, SIGNER)))
    assert (envelope.payload, envelope.payload_type) == (STATEMENT, "application/vnd.in-toto+json")
    assert [*envelope.verify([theirs(KEY)], 1)] == [KEY_ID]
    with pytest.raises(exceptions.VerificationError):
        envelope.verify([theirs(OTHER)], 1)
    made = dsse.Envelope(STATEMENT, "application/vnd.in-toto+json", {})
    made.signatures[theirs(KEY).keyid] = signer.Signature(
        theirs(KEY).keyid, sign_bytes(signer_key(SIGNER).material, made.pae()).hex()
    )
    assert open_payload(json.dumps(made.to_dict(), indent=2).encode(), [KEY]) == STATEMENT


def test_it_opens_with_the_log_s_key_alone() -> None:
    data = sign_envelope(STATEMENT, SIGNER)
    assert open_payload(data, [OTHER, KEY]) == STATEMENT
    with pytest.raises(
        IntegrityError, match=r"none of the given keys signed this envelope; it names example\.com/log\+"
    ):
        open_payload(data, [OTHER])


def test_base64_for_urls_is_read_too_and_lines_by_others_are_passed_over() -> None:
    statement = b"\xff\xfe>>>???" * 3
    plain = json.loads(sign_envelope(statement, SIGNER))
    assert "/" in plain["payload"]
    for_urls = {**plain, "payload": plain["payload"].replace("+", "-").replace("/", "_")}
    others = json.loads(sign_envelope(statement, OTHER_SIGNER))["signatures"]
    for each in (for_urls, {**plain, "signatures": [*others, *plain["signatures"]]}):
        assert open_payload(json.dumps(each).encode(), [KEY]) == statement


def test_every_bit_that_is_altered_and_every_cut_is_found() -> None:
    data, keys = sign_envelope(STATEMENT, SIGNER), known_keys([KEY])
    for bit in range(len(data) * 8):
        altered = bytearray(data)
        altered[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IntegrityError):
            open_envelope(bytes(altered), keys, is_signed)
    for length in range(len(data)):
        with pytest.raises(IntegrityError):
            open_envelope(data[:length], keys, is_signed)


def altered(**fields: Any) -> bytes:
    return json.dumps({**json.loads(sign_envelope(STATEMENT, SIGNER)), **fields}).encode()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (altered(more=1), "does not have the fields"),
        (altered(signatures=[]), "none of the given keys signed this envelope; it names none"),
        (altered(signatures={}), "not of the type"),
        (altered(signatures=[1]), "is not a `keyid` and a `sig`"),
        (altered(signatures=json.loads(sign_envelope(STATEMENT, SIGNER))["signatures"] * 2), "two signatures"),
        (altered(payloadType="application/json"), "not of the type"),
        (altered(payload="e30"), "no base64"),
        (altered(payload=1), "no base64"),
        (altered(payload="e30="), "is wrong"),
        (b'{"payload": "", "payload": ""}', "says something twice"),
        (b"{" * 100_000, "no JSON"),
    ],
    ids=map(str, range(11)),
)
def test_what_is_no_envelope_of_ours_is_refused_in_words(data: bytes, why: str) -> None:
    with pytest.raises(IntegrityError, match=why):
        open_payload(data, [KEY])
    with pytest.raises(IntegrityError, match=why):
        open_envelope(data, known_keys([KEY]), is_signed_by)


def test_a_pack_is_written_with_an_envelope_and_checked_against_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAILS_STORE", raising=False)
    with trails.open(tmp_path / ".trails", create=True, durability="process") as store:
        store.create(id="plan").persist()
    assert invoke("proof", "checkpoint", "--new-key", "example.com/log", "--key", "key").exit_code == 0
    how = ("audit", "pack", "--all", "--key", "key", "-o")
    assert invoke(*how, "pack", "--statement", "pack.dsse.json").exit_code == 0
    then = ("--time", "2026-01-02T00:00:00Z")  # else both may be of one second, and the same
    assert invoke(*how, "other", "--statement", "statement", "--statement-format", "dsse", *then).exit_code == 0
    payload = open_payload((tmp_path / "pack.dsse.json").read_bytes(), [(tmp_path / "key.pub").read_text()])
    assert payload == (tmp_path / "pack" / "manifest.json").read_bytes()
    check = ("audit", "check", "--verifier", "key.pub", "--statement")
    assert invoke(*check, "pack.dsse.json", "pack").exit_code == 0
    assert invoke(*check, "statement", "other").exit_code == 0
    refused = invoke(*check, "statement", "pack")
    assert (refused.exit_code, "the signed statement is of another pack" in refused.stderr) == (1, True)
    unclear = invoke(*how, "third", "--statement", "third.txt")
    assert (unclear.exit_code, "give --statement-format dsse, or cose" in unclear.stderr) == (2, True)
    assert not (tmp_path / "third").exists()
    assert invoke(*how, "third", "--statement-format", "dsse").exit_code == 2
