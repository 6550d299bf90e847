"""A receipt of an erasure, as a note and in a DSSE envelope: the program that goes out checks it with the public key alone."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.commands import invoke
from trails.errors import IntegrityError
from trails.integrity.erasure_receipts import (
    ErasedTurn,
    ErasureReceipt,
    Unreached,
    open_receipt,
    receipt_envelope,
    sign_receipt,
)
from trails.integrity.signed_notes import new_key, sign
from trails.integrity.signed_statements import open_payload, sign_envelope
from trails.integrity.verifier.joined import standalone_verifier
from trails.integrity.verifier.receipts import receipt_answer

SIGNER, KEY = new_key("example.com/log")
_, OTHER = new_key("example.com/log")
RECEIPT = ErasureReceipt(
    time="2026-04-01T12:00:00+00:00",
    by="eve",
    erased=(ErasedTurn(session_id="plan", index=1, digest="ab" * 32, why="asked"),),
    unreached=(Unreached(kind="backup", name="b1", sha256="cd" * 32), Unreached(kind="note", name="n1")),
    log_size=7,
    log_root="ef" * 32,
)
FORMS = {"note": sign_receipt(RECEIPT, SIGNER).encode(), "envelope": receipt_envelope(RECEIPT, SIGNER)}


@pytest.mark.parametrize("form", FORMS)
def test_a_receipt_opens_with_the_log_s_key_alone(form: str) -> None:
    assert open_receipt(FORMS[form], [OTHER, KEY]) == RECEIPT
    said = receipt_answer(FORMS[form], [KEY])
    assert said["receipt"]["erased"] == [{"session_id": "plan", "index": 1, "digest": "ab" * 32, "why": "asked"}]
    assert said["cannot_show"][: len(RECEIPT.not_seen)] == list(RECEIPT.not_seen)
    for refuses in (open_receipt, receipt_answer):
        with pytest.raises(IntegrityError, match="none of the given keys signed"):
            refuses(FORMS[form], [OTHER])


def test_the_statement_in_an_envelope_is_about_the_line_of_the_note() -> None:
    statement = json.loads(open_payload(FORMS["envelope"], [KEY]))
    line = FORMS["note"].partition(b"\n")[0] + b"\n"
    [subject] = statement["subject"]
    assert subject == {"name": "erasure-receipt.json", "digest": {"sha256": hashlib.sha256(line).hexdigest()}}
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://w3id.org/trails/erasure-receipt/v1"
    assert statement["predicate"] == json.loads(line)


def test_an_envelope_that_was_laid_out_anew_is_read_too() -> None:
    again = json.dumps(json.loads(FORMS["envelope"]), indent=2).encode()
    assert open_receipt(again, [KEY]) == RECEIPT


@pytest.mark.parametrize("form", FORMS)
def test_every_cut_and_some_altered_bits_are_found(form: str) -> None:
    refused(FORMS[form], range(0, len(FORMS[form]) * 8, 61))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_altered_bit_is_found(form: str) -> None:
    refused(FORMS[form], range(len(FORMS[form]) * 8))


def refused(data: bytes, bits: range) -> None:
    for bit in bits:
        altered = bytearray(data)
        altered[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IntegrityError):
            open_receipt(bytes(altered), [KEY])
    for length in range(len(data)):
        with pytest.raises(IntegrityError):
            open_receipt(data[:length], [KEY])


PLAIN = RECEIPT.to_dict()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"format": "trails-erasure-receipt/2"}, "its format is not"),
        ({"by": 1}, "not as Trails writes it"),
        ({"more": 1}, "not as Trails writes it"),
        ({"erased": [{**PLAIN["erased"][0], "index": True}]}, "not as Trails writes it"),
        ({"erased": [{}]}, "not as Trails writes it"),
        ({"unreached": ["backup"]}, "not as Trails writes it"),
        ({"not_seen": [1]}, "not as Trails writes it"),
        ({"log_root": "x"}, "names no state of a log"),
        ({"log_size": -1}, "names no state of a log"),
    ],
)
def test_the_program_refuses_what_a_log_signed_and_is_no_receipt(fields: dict[str, Any], why: str) -> None:
    line = json.dumps({**PLAIN, **fields}, sort_keys=True) + "\n"
    with pytest.raises(IntegrityError, match=why):
        receipt_answer(sign(line, SIGNER).encode(), [KEY])


def test_another_statement_of_the_log_is_no_receipt() -> None:
    right = open_payload(FORMS["envelope"], [KEY])
    of_another_type = right.replace(b"trails/erasure-receipt/v1", b"trails/audit-pack/v1")
    about_another_line = right.replace(b'"sha256": "', b'"sha256": "0', 1)
    assert of_another_type != right != about_another_line
    for statement in (b"{}", b"[]", of_another_type, about_another_line):
        with pytest.raises(IntegrityError):
            open_receipt(sign_envelope(statement, SIGNER), [KEY])


def test_the_program_that_goes_out_checks_what_trails_erase_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAILS_STORE", raising=False)
    with trails.open(tmp_path / ".trails", create=True, durability="process") as store:
        plan = store.create(id="plan")
        for text in ("A secret trip", "Nothing"):
            plan.append("user", text)
        plan.persist()
    assert invoke("proof", "checkpoint", "--new-key", "example.com/log", "--key", "key").exit_code == 0
    refused = invoke("erase", "plan", "0", "--yes", "-o", "r.dsse")
    assert (refused.exit_code, "an envelope is signed; give --key KEY" in refused.stderr) == (2, True)
    assert invoke("erase", "plan", "0", "--yes", "--key", "key", "-o", "r.dsse").exit_code == 0
    assert invoke("erase", "plan", "1", "--yes", "--key", "key", "-o", "r.txt").exit_code == 0
    (tmp_path / "program.py").write_bytes(standalone_verifier())
    for name, index in (("r.dsse", 0), ("r.txt", 1)):
        assert invoke("proof", "receipt", name, "--verifier", "key.pub").exit_code == 0
        command = [sys.executable, "-I", "program.py", name]
        done = subprocess.run([*command, "--verifier", "key.pub"], capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        assert (done.returncode, lines[-1]) == (0, "the receipt holds"), done.stderr
        assert lines[1].startswith(f"erased: turn {index} of session plan (asked), digest ")
        assert "- mirrors in other servers, until they are brought up to date" in lines
        assert subprocess.run(command, capture_output=True, check=False).returncode == 2
        whole = (tmp_path / name).read_bytes()
        middle = (
            len(whole) // 2
        )  # within the signed part: a letter there may be any, and the last of a signature counts for less
        other = b"B" if whole[middle : middle + 1] == b"A" else b"A"
        (tmp_path / name).write_bytes(whole[:middle] + other + whole[middle + 1 :])
        done = subprocess.run(
            [*command, "--verifier", "key.pub", "--json"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, json.loads(done.stdout)["ok"]) == (1, False)
