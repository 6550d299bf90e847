"""Say for others what was erased from a store and what could not be reached, without any of its content.

A receipt is JSON text: turns by session, index and digest, why each went, and backups, exports and places in the store that may
still hold the text. Signed, it is a note or an in-toto statement by the log's key, and can be checked without the store: see
`trails.integrity.verifier.receipts`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from trails.errors import IntegrityError, InvalidInput
from trails.integrity.signed_notes import is_signed, sign
from trails.integrity.signed_statements import sign_envelope
from trails.integrity.verifier.notes import known_keys, split_note
from trails.integrity.verifier.receipts import RECEIPT_FORMAT, receipt_line, receipt_statement, signed_receipt
from trails.model.validation import decodes
from trails.model.values import Value

_MOST: Final = 2000
"""Turns in one receipt: with the longest ids, a signed note of them still has less than its greatest size."""
NOT_SEEN: Final = (
    "copies of the store's files that were not made by its own backup command",
    "mirrors in other servers, until they are brought up to date",
    "what other stores pulled, until they pull the redaction",
    "what models, tools and people were shown",
    "texts that say the same in other words",
)
"""What no receipt can tell of, whatever the store knows."""


Why = Literal["asked", "copy", "summary", "quote", "near copy"]


class ErasedTurn(Value):
    """A turn whose content was erased, or would be."""

    session_id: str
    index: int
    digest: str
    """The digest of the turn, which stays in the store."""
    why: Why
    """How it follows from the turn that was asked for."""


class Unreached(Value):
    """Where the text may still be: a backup, an export, or a place in the store that is kept."""

    kind: str
    """`backup`, `export`, `note`, `score`, `ledger`, `run`, or what `redact_matching` calls it: `metadata`, `system prompt`."""
    name: str
    """Its id, by which its register or list knows it, or its IRI."""
    sha256: str | None = None
    """The digest of the file, where it is one."""


class ErasureReceipt(Value):
    """What was erased, by whom and when, and what was not reached."""

    format: Literal["trails-erasure-receipt/1"] = "trails-erasure-receipt/1"
    time: str
    by: str
    erased: tuple[ErasedTurn, ...]
    unreached: tuple[Unreached, ...] = ()
    not_seen: tuple[str, ...] = NOT_SEEN
    log_size: int
    """How many lines the store's log had when all was done."""
    log_root: str
    """The root of the Merkle tree over these lines, in hex."""

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain values, ready for JSON."""
        return self.model_dump(mode="json")

    def text(self) -> str:
        """Return the receipt as one line of JSON, as it is signed."""
        return receipt_line(self.to_dict())


def check_size(erased: Sequence[ErasedTurn]) -> None:
    """Raise `InvalidInput` for more turns than one receipt can name."""
    if len(erased) > _MOST:
        raise InvalidInput(
            f"a receipt names at most {_MOST} turns, and these are {len(erased)}: raise `near`, or erase in parts"
        )


def sign_receipt(receipt: ErasureReceipt, signer: str) -> str:
    """Return a receipt as a note that a log's secret key signed. Needs `cryptography`."""
    return sign(receipt.text(), signer)


def receipt_envelope(receipt: ErasureReceipt, signer: str) -> bytes:
    """Return a receipt as an in-toto statement that a log's secret key signed, in a DSSE envelope. Needs `cryptography`."""
    return sign_envelope(receipt_statement(receipt.to_dict()), signer)


def open_receipt(data: str | bytes, verifiers: Iterable[str]) -> ErasureReceipt:
    """Return the receipt that one of the given public keys signed, as a note or in an envelope; else raise `IntegrityError`."""
    whole = data.encode() if isinstance(data, str) else data
    return read_receipt(signed_receipt(whole, known_keys(verifiers), is_signed))


@decodes
def read_receipt(text: str) -> ErasureReceipt:
    """Return the receipt that a text holds, signed or not, without a look at the signature; raise `IntegrityError` for none."""
    plain = split_note(text)[0] if "\n\n" in text else text
    try:
        fields = json.loads(plain)
    except ValueError as error:
        raise IntegrityError("this is no receipt of an erasure: it is no JSON") from error
    if not isinstance(fields, dict) or fields.get("format") != RECEIPT_FORMAT:
        raise IntegrityError(
            f"this is no receipt of an erasure that this version reads: its format is not {RECEIPT_FORMAT}"
        )
    return ErasureReceipt.model_validate(fields)
