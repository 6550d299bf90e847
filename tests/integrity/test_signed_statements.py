"""In-toto statements in COSE_Sign1, as SCITT has them: the very bytes, and every bit that is altered."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import trails
from tests.support.commands import invoke
from trails.errors import IntegrityError, InvalidInput
from trails.integrity.signed_notes import new_key, sign_bytes, signer_key
from trails.integrity.signed_statements import open_statement, sign_statement

cbor2 = pytest.importorskip("cbor2", reason="cbor2 is not installed (the extra `scitt`)")

SIGNER, KEY = new_key("log")
OTHER_SIGNER, OTHER = new_key("log")


def test_a_statement_is_the_message_that_rfc_9052_describes() -> None:
    """Written by hand: 18([protected, {}, payload, signature]) over ["Signature1", protected, h'', payload]."""
    key = signer_key(SIGNER)
    kind = b"application/vnd.in-toto+json"
    header = b"\xa4\x01\x27\x03\x78\x1c" + kind + b"\x04\x44" + key.id + b"\x0f\xa2\x01\x63log\x02\x64pack"
    protected = b"\x58" + bytes([len(header)]) + header
    signature = sign_bytes(key.material, b"\x84\x6aSignature1" + protected + b"\x40" + b"\x42{}")
    assert (
        sign_statement(b"{}", "pack", SIGNER) == b"\xd2\x84" + protected + b"\xa0" + b"\x42{}" + b"\x58\x40" + signature
    )


def test_it_opens_with_the_log_s_key_alone() -> None:
    data = sign_statement(b'{"a": 1}', "pack", SIGNER)
    assert open_statement(data, [OTHER, KEY]) == ("log", "pack", b'{"a": 1}')
    with pytest.raises(IntegrityError, match="none of the given keys signed this statement; it names 'log'"):
        open_statement(data, [OTHER])
    with pytest.raises(InvalidInput):
        open_statement(data, [])


def test_every_bit_that_is_altered_and_every_cut_is_found() -> None:
    data = sign_statement(b"{}", "pack", SIGNER)
    for bit in range(len(data) * 8):
        altered = bytearray(data)
        altered[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IntegrityError):
            open_statement(bytes(altered), [KEY])
    for length in range(len(data)):
        with pytest.raises(IntegrityError):
            open_statement(data[:length], [KEY])
    with pytest.raises(IntegrityError, match="not written canonically"):
        open_statement(data + b"\x00", [KEY])


def test_any_bytes_are_refused_in_words() -> None:
    data, rng = sign_statement(b"{}", "pack", SIGNER), random.Random(1)
    for number in range(3000):
        altered = bytearray(data if number % 2 else rng.randbytes(rng.randrange(60)))
        for _ in range(rng.randrange(1, 5) if altered else 0):
            altered[rng.randrange(len(altered))] = rng.randrange(256)
        if bytes(altered) != data:
            with pytest.raises(IntegrityError):
                open_statement(bytes(altered), [KEY])


def test_what_is_not_signed_has_no_place_in_it() -> None:
    tag = cbor2.loads(sign_statement(b"{}", "pack", SIGNER))
    protected, _, payload, signature = tag.value
    for parts in ([protected, {1: 2}, payload, signature], [protected, {}, None, signature]):
        with pytest.raises(IntegrityError, match="parts that are not signed"):
            open_statement(cbor2.dumps(cbor2.CBORTag(18, parts), canonical=True), [KEY])


def test_a_pack_is_written_with_a_statement_and_checked_against_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAILS_STORE", raising=False)
    with trails.open(tmp_path / ".trails", create=True, durability="process") as store:
        store.create(id="plan").persist()
    assert invoke("proof", "checkpoint", "--new-key", "example.com/log", "--key", "key").exit_code == 0
    how = ("audit", "pack", "--all", "--key", "key", "-o")
    assert invoke(*how, "pack", "--statement", "pack.cose").exit_code == 0
    assert invoke(*how, "other", "--time", "2026-04-01T12:00:00Z").exit_code == 0
    manifest = (tmp_path / "pack" / "manifest.json").read_bytes()
    verifier = (tmp_path / "key.pub").read_text()
    issuer, subject, payload = open_statement((tmp_path / "pack.cose").read_bytes(), [verifier])
    assert (issuer, payload) == ("example.com/log", manifest)
    assert subject == f"audit-report-sha256 {json.loads(manifest)['predicate']['report']}"
    check = ("audit", "check", "--verifier", "key.pub", "--statement", "pack.cose")
    assert invoke(*check, "pack").exit_code == 0
    refused = invoke(*check, "other")
    assert (refused.exit_code, "the signed statement is of another pack" in refused.stderr) == (1, True)
    assert invoke("audit", "pack", "--all", "-o", "third", "--statement", "x.cose").exit_code == 2
