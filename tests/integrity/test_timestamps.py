"""Time-stamp tokens over notes: made by an authority of our own, by `openssl ts`, and every way in which one does not hold."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from hashlib import sha256, sha512
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.support.authority import (
    FOR_STAMPS,
    NOON,
    SHA512,
    Holder,
    certified,
    integer,
    nonce_of,
    response,
    sequence,
    signed,
    tlv,
    token_info,
)
from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.integrity.signed_notes import Checkpoint, new_key, sign_checkpoint
from trails.integrity.witnesses import (
    MAX_TOKEN_BYTES,
    check_timestamp,
    check_timestamp_answer,
    read_timestamp,
    timestamp_request,
)

rfc3161_client = pytest.importorskip(
    "rfc3161_client", reason="rfc3161-client is not installed (the extra `timestamps`)"
)

LOG = "example.com/log"
NOTE = sign_checkpoint(Checkpoint(origin=LOG, size=3, root=sha256(b"root").digest()), new_key(LOG)[0]).encode()
DIGEST = sha256(NOTE).digest()
ROOT = certified("Root", authority=True)
TSA = certified("Stamps", ROOT, usages=FOR_STAMPS)
GOOD = response(signed(token_info(DIGEST, 5), TSA))


# --- one that holds


def test_the_time_is_the_token_s_in_whole_seconds_rounded_up_and_its_accuracy() -> None:
    found = read_timestamp(NOTE, GOOD, [ROOT.pem])
    assert (found.authority, found.time) == ("CN=Stamps", datetime(2026, 6, 1, 12, 0, 1, tzinfo=UTC))
    accuracy = sequence(integer(2), tlv(0x80, (500).to_bytes(2, "big")))
    late = response(signed(token_info(DIGEST, 5, accuracy=accuracy), TSA))
    assert read_timestamp(NOTE, late, [ROOT.pem]).time == datetime(2026, 6, 1, 12, 0, 3, 500_000, tzinfo=UTC)


def test_the_authority_s_own_certificate_one_of_several_and_one_in_between_stand_behind_a_token() -> None:
    alone = certified("Alone", usages=FOR_STAMPS)
    other = certified("Other", authority=True)
    assert read_timestamp(NOTE, response(signed(token_info(DIGEST, 5), alone)), [alone.pem]).authority == "CN=Alone"
    assert read_timestamp(NOTE, GOOD, [other.pem + ROOT.pem]).authority == "CN=Stamps"
    middle = certified("Middle", ROOT, authority=True)
    below = certified("Below", middle, usages=FOR_STAMPS)
    chained = response(signed(token_info(DIGEST, 5), below, (middle,)))
    assert read_timestamp(NOTE, chained, [ROOT.pem]).authority == "CN=Below"


def test_a_request_holds_the_digest_and_another_number_each_time() -> None:
    one, two = timestamp_request(NOTE), timestamp_request(NOTE)
    assert DIGEST in one
    assert nonce_of(one) != nonce_of(two)
    check_timestamp_answer(NOTE, one, response(signed(token_info(DIGEST, nonce_of(one)), TSA)))


# --- those that do not


UNTRUSTED = certified("Root", authority=True)
EXPIRED = certified("Old", ROOT, usages=FOR_STAMPS, until=NOON - timedelta(seconds=1))
LATER = certified("New", ROOT, usages=FOR_STAMPS, since=NOON + timedelta(seconds=1))
FOR_SERVERS = certified("Web", ROOT, usages=(ExtendedKeyUsageOID.SERVER_AUTH,))
UNSAID = certified("Unsaid", ROOT)
UNCRITICAL = certified("Uncritical", ROOT, usages=FOR_STAMPS, critical=False)
NO_AUTHORITY = certified("Leaf", ROOT, usages=FOR_STAMPS)
BELOW_A_LEAF = certified("Child", NO_AUTHORITY, usages=FOR_STAMPS)
STRANGER = certified("Stamps", UNTRUSTED, usages=FOR_STAMPS)


def made(signer: Holder, *chain: Holder, key: Holder | None = None) -> bytes:
    return response(signed(token_info(DIGEST, 5), signer, chain, key=key))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(made(STRANGER, UNTRUSTED), "does not hold", id="of somebody else, who brings a root of that name"),
        pytest.param(made(EXPIRED), "does not hold", id="with a certificate that had run out"),
        pytest.param(made(LATER), "does not hold", id="with a certificate that was not valid yet"),
        pytest.param(made(FOR_SERVERS), "does not hold", id="with a certificate for servers"),
        pytest.param(made(UNSAID), "does not hold", id="with a certificate for nothing in particular"),
        pytest.param(made(UNCRITICAL), "does not hold", id="with a certificate that may be for more"),
        pytest.param(made(BELOW_A_LEAF, NO_AUTHORITY), "does not hold", id="certified by who may not certify"),
        pytest.param(made(TSA, key=STRANGER), "does not hold", id="signed with another key"),
        pytest.param(
            response(signed(token_info(sha256(NOTE + b"x").digest(), 5), TSA)), "another text", id="over another text"
        ),
        pytest.param(
            response(signed(token_info(sha512(NOTE).digest(), 5, algorithm=SHA512), TSA)),
            "not SHA-256",
            id="over another kind of digest",
        ),
        pytest.param(
            response(signed(token_info(DIGEST, 5, algorithm=SHA512), TSA)), "not SHA-256", id="that misnames its digest"
        ),
        pytest.param(response(b"", status=2), r"status 2", id="that was refused"),
        pytest.param(response(signed(token_info(DIGEST, 5), TSA), status=1), "status 1", id="granted with changes"),
        pytest.param(response(b"", status=0), "no response", id="without a token"),
        pytest.param(b"", "no response", id="of no bytes"),
        pytest.param(b"<html>not found</html>", "no response", id="that is a page"),
        pytest.param(GOOD + b"\0", "no response", id="with more behind it"),
        pytest.param(signed(token_info(DIGEST, 5), TSA), "no response", id="that is a token alone"),
        pytest.param(b"\0" * (MAX_TOKEN_BYTES + 1), "was not read", id="of a size that is none"),
    ],
)
def test_a_token_is_refused(answer: bytes, said: str) -> None:
    with pytest.raises(IntegrityError, match=said):
        read_timestamp(NOTE, answer, [ROOT.pem])


def test_a_token_that_was_cut_anywhere_is_refused() -> None:
    for end in range(len(GOOD)):
        with pytest.raises(IntegrityError):
            read_timestamp(NOTE, GOOD[:end], [ROOT.pem])


def test_whatever_is_changed_in_a_token_it_says_the_same_or_is_refused() -> None:
    chance = random.Random(5)
    right = read_timestamp(NOTE, GOOD, [ROOT.pem])
    refused = 0
    for _ in range(500):
        altered = bytearray(GOOD)
        altered[chance.randrange(len(GOOD))] ^= 1 << chance.randrange(8)
        try:
            assert read_timestamp(NOTE, bytes(altered), [ROOT.pem]) == right
        except IntegrityError:
            refused += 1
    assert refused > 450


def test_a_token_of_before_a_witness_s_line_is_not_of_the_note_with_it() -> None:
    with pytest.raises(IntegrityError, match="before a line was added"):
        read_timestamp(NOTE + b"\xe2\x80\x94 w.example AAAAAAAA\n", GOOD, [ROOT.pem])


def test_a_response_to_another_request_is_refused() -> None:
    asked = timestamp_request(NOTE)
    with pytest.raises(IntegrityError, match="nonce"):
        check_timestamp_answer(NOTE, asked, GOOD)
    with pytest.raises(IntegrityError, match="nonce"):
        check_timestamp_answer(NOTE, asked, response(signed(token_info(DIGEST, None), TSA)))
    other = response(signed(token_info(sha256(b"x").digest(), nonce_of(asked)), TSA))
    with pytest.raises(IntegrityError, match="another text"):
        check_timestamp_answer(NOTE, asked, other)
    with pytest.raises(InvalidInput, match="another text"):
        check_timestamp_answer(NOTE + b"x", asked, GOOD)
    with pytest.raises(InvalidInput, match="no time-stamp request"):
        check_timestamp_answer(NOTE, GOOD, GOOD)


def test_token_and_certificates_go_together_and_with_a_note() -> None:
    assert check_timestamp(NOTE.decode(), None, []) is None
    with pytest.raises(InvalidInput, match="give both"):
        check_timestamp(NOTE.decode(), GOOD, [])
    with pytest.raises(InvalidInput, match="give both"):
        check_timestamp(NOTE.decode(), None, [ROOT.pem])
    with pytest.raises(InvalidInput, match="none was given"):
        check_timestamp(None, GOOD, [ROOT.pem])
    with pytest.raises(InvalidInput, match="no certificate in PEM"):
        read_timestamp(NOTE, GOOD, ["-----BEGIN NOTHING-----"])


def test_without_the_package_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rfc3161_client", None)
    with pytest.raises(TrailsError, match=r"pip install 'trails\[timestamps\]'"):
        timestamp_request(NOTE)


# --- held against openssl

_CONFIGURATION = """
[tsa]
default_tsa = stamps
[stamps]
serial = ./serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1, millisecs:500
clock_precision_digits = 3
ess_cert_id_alg = sha256
"""


@pytest.fixture
def openssl(tmp_path: Path) -> Path:
    """A folder in which `openssl ts` is an authority."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    for name, text in {"cnf": _CONFIGURATION, "serial": "01\n", "note": NOTE.decode(), "usage": ""}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "usage").write_text("extendedKeyUsage=critical,timeStamping\n")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    call(tmp_path, "req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Peer root")
    call(tmp_path, "req", *new, "-keyout", "tsa.key", "-out", "tsa.csr", "-subj", "/CN=Peer")
    certify = ("-in", "tsa.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "usage")
    call(tmp_path, "x509", "-req", *certify, "-out", "tsa.pem")
    return tmp_path


def call(folder: Path, *words: str) -> str:
    done = subprocess.run(["openssl", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_openssl_answers_our_request_and_we_check_its_token(openssl: Path) -> None:
    asked = timestamp_request(NOTE)
    (openssl / "note.tsq").write_bytes(asked)
    before = datetime.now(UTC)
    reply = ("-config", "cnf", "-queryfile", "note.tsq", "-signer", "tsa.pem", "-inkey", "tsa.key", "-out", "note.tsr")
    call(openssl, "ts", "-reply", *reply)
    answer = (openssl / "note.tsr").read_bytes()
    check_timestamp_answer(NOTE, asked, answer)
    found = read_timestamp(NOTE, answer, [(openssl / "ca.pem").read_text()])
    assert found.authority == "CN=Peer"
    assert before < found.time < datetime.now(UTC) + timedelta(seconds=4)


def test_openssl_checks_the_token_of_our_own_authority(openssl: Path) -> None:
    (openssl / "good.tsr").write_bytes(GOOD)
    (openssl / "root.pem").write_text(ROOT.pem)
    at = str(int(NOON.timestamp()))
    checked = call(openssl, "ts", "-verify", "-data", "note", "-in", "good.tsr", "-CAfile", "root.pem", "-attime", at)
    assert "Verification: OK" in checked
