"""Check the receipt of an erasure with the log's public key, and nothing of the store.

A receipt is one line of JSON. It is signed as a note (see `notes`), or stands as an in-toto statement in a DSSE envelope (see
`dsse`): its predicate is the receipt, and its one subject that line, by its SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from trails.errors import IntegrityError
from trails.integrity.verifier.dsse import open_envelope
from trails.integrity.verifier.ed25519 import is_signed_by
from trails.integrity.verifier.notes import Keys, SignatureCheck, known_keys, open_signed
from trails.integrity.verifier.pack import STATEMENT
from trails.integrity.verifier.proof_checks import json_object

RECEIPT_FORMAT = "trails-erasure-receipt/1"
RECEIPT_PREDICATE = "https://w3id.org/trails/erasure-receipt/v1"
_SUBJECT = "erasure-receipt.json"
_SIGNATURES = "\n\n\N{EM DASH} ".encode()
"""What a note has between its text and its signatures, and no envelope."""
_FIELDS = {
    "format": str, "time": str, "by": str, "erased": list, "unreached": list, "not_seen": list, "log_size": int, "log_root": str,
}  # fmt: skip
_ERASED_TURN = {"session_id": str, "index": int, "digest": str, "why": str}
_KEPT_PLACE = {"kind": str, "name": str, "sha256": (str, type(None))}

RECEIPT_CANNOT_SHOW = (
    "that the content is gone from the store's files: `trails verify` there tells, and a look into them",
    "that the log was as the receipt says: hold log_size and log_root against a checkpoint of it",
    "whether anything was written, copied or backed up after the receipt",
)


def receipt_line(receipt: dict[str, Any]) -> str:
    """Return a receipt as one line of JSON, as it is signed."""
    return json.dumps(receipt, ensure_ascii=False, sort_keys=True) + "\n"


def receipt_statement(receipt: dict[str, Any]) -> bytes:
    """Return the in-toto statement of a receipt."""
    digest = hashlib.sha256(receipt_line(receipt).encode()).hexdigest()
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": _SUBJECT, "digest": {"sha256": digest}}],
        "predicateType": RECEIPT_PREDICATE,
        "predicate": receipt,
    }
    return json.dumps(statement, ensure_ascii=False).encode()


def signed_receipt(data: bytes, keys: Keys, is_right: SignatureCheck) -> str:
    """Return the line of a receipt that one of the given keys signed, as a note or in an envelope; else IntegrityError."""
    if _SIGNATURES not in data:
        payload = open_envelope(data, keys, is_right).payload
        statement = json_object(payload, {"_type", "subject", "predicateType", "predicate"})
        if (statement["predicateType"], payload) != (RECEIPT_PREDICATE, receipt_statement(statement["predicate"])):
            raise IntegrityError("this is a signed statement, and none of a receipt of an erasure")
        return receipt_line(statement["predicate"])
    return open_signed(data, keys, is_right).text


def receipt_answer(data: bytes, verifiers: Iterable[str]) -> dict[str, Any]:
    """Return what a receipt says, as plain values; IntegrityError if none of the keys signed it or it is none."""
    line = signed_receipt(data, known_keys(verifiers), is_signed_by)
    receipt = json_object(line.encode())
    if receipt.get("format") != RECEIPT_FORMAT:
        raise IntegrityError(
            f"this is no receipt of an erasure that this program reads: its format is not {RECEIPT_FORMAT}"
        )
    right = _has(receipt, _FIELDS) and all(_has(each, _ERASED_TURN) for each in receipt["erased"])
    right = right and all(_has(each, _KEPT_PLACE) for each in receipt["unreached"])
    if not right or not all(isinstance(each, str) for each in receipt["not_seen"]) or line != receipt_line(receipt):
        raise IntegrityError("the receipt is not as Trails writes it")
    if not re.fullmatch("[0-9a-f]{64}", receipt["log_root"]) or receipt["log_size"] < 0:
        raise IntegrityError("the receipt names no state of a log")
    return {
        "format": "trails-receipt-verification/1",
        "ok": True,
        "receipt": receipt,
        "cannot_show": [*receipt["not_seen"], *RECEIPT_CANNOT_SHOW],
    }


def _has(value: Any, fields: dict[str, Any]) -> bool:
    """Tell whether a value has exactly these fields, each of its type."""
    return (
        isinstance(value, dict)
        and value.keys() == fields.keys()
        and all(isinstance(value[name], kind) and not isinstance(value[name], bool) for name, kind in fields.items())
    )


def receipt_lines(said: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that tell people what a receipt says."""
    receipt = said["receipt"]
    yield f"a receipt of an erasure by {receipt['by']} at {receipt['time']}, when the log had {receipt['log_size']} lines"
    for each in receipt["erased"]:
        yield f"erased: turn {each['index']} of session {each['session_id']} ({each['why']}), digest {each['digest']}"
    for each in receipt["unreached"]:
        yield f"NOT REACHED: the {each['kind']} {each['name']} may still hold the text"
    yield "This cannot show:"
    yield from (f"- {each}" for each in said["cannot_show"])
    yield "the receipt holds"
