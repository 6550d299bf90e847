"""Cosignatures of checkpoints: made by hand from the format, and every way in which one does not hold."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from trails.errors import IntegrityError, InvalidInput
from trails.integrity.signed_notes import Checkpoint, new_key, open_checkpoint, sign_checkpoint
from trails.integrity.witnesses import cosign, cosignatures, new_witness_key, with_cosignatures

LOG = "example.com/log"
LOG_SIGNER, LOG_KEY = new_key(LOG)
STATE = Checkpoint(origin=LOG, size=3, root=sha256(b"root").digest())
NOTE = sign_checkpoint(STATE, LOG_SIGNER)
BODY = STATE.to_text()
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NOON_SECONDS = 1767355200  # date -ud 2026-01-02T12:00:00 +%s
SIGNER, WITNESS = new_witness_key("example.com/witness")
OTHER_SIGNER, OTHER = new_witness_key("example.org/other")


def by_hand(
    name: str, seed: bytes, seconds: int, body: str = BODY, *, said: int | None = None, kind: int = 4
) -> tuple[str, str]:
    """Return the verifier key and the line of a witness, as c2sp.org/tlog-cosignature describes them."""
    private = Ed25519PrivateKey.from_private_bytes(seed)
    public = private.public_key().public_bytes_raw()
    key_id = sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:4]
    signature = private.sign(f"cosignature/v1\ntime {seconds}\n{body}".encode())
    blob = key_id + (seconds if said is None else said).to_bytes(8, "big") + signature
    key = f"{name}+{key_id.hex()}+{base64.b64encode(bytes([kind]) + public).decode()}"
    return key, f"\N{EM DASH} {name} {base64.b64encode(blob).decode()}\n"


def test_a_line_made_by_hand_holds() -> None:
    key, line = by_hand("w.example", b"s" * 32, NOON_SECONDS)
    assert len(base64.b64decode(line.split(" ")[2])) == 76
    [found] = cosignatures(NOTE + line, [key])
    assert (found.name, found.time) == ("w.example", NOON)


def test_the_line_that_is_made_is_the_one_made_by_hand() -> None:
    seed = base64.b64decode(SIGNER.split("+", 4)[4])[1:]
    assert by_hand("example.com/witness", seed, NOON_SECONDS) == (WITNESS, cosign(NOTE, SIGNER, NOON))


def test_a_cosigned_checkpoint_opens_as_before_and_takes_each_line_once() -> None:
    line = cosign(NOTE, SIGNER, NOON)
    whole = with_cosignatures(NOTE, line)
    assert whole == NOTE + line
    assert open_checkpoint(whole, [LOG_KEY]) == STATE
    assert with_cosignatures(whole, line + "\n" + cosign(NOTE, OTHER_SIGNER, NOON)).count("\N{EM DASH}") == 3


def test_as_many_witnesses_as_are_needed_must_have_cosigned() -> None:
    one = with_cosignatures(NOTE, cosign(NOTE, SIGNER, NOON))
    assert len(cosignatures(one, [WITNESS, OTHER], quorum=1)) == 1
    for quorum in (None, 2):
        with pytest.raises(
            IntegrityError, match=r"1 of the given witnesses .* 2 are needed \(not 'example.org/other'\)"
        ):
            cosignatures(one, [WITNESS, OTHER], quorum=quorum)
    with pytest.raises(IntegrityError, match="0 of the given witnesses"):
        cosignatures(NOTE, [WITNESS])


@pytest.mark.parametrize("quorum", [0, 3, -1])
def test_a_quorum_is_one_that_the_witnesses_can_reach(quorum: int) -> None:
    with pytest.raises(InvalidInput, match="give 1 to 2"):
        cosignatures(NOTE, [WITNESS, OTHER], quorum=quorum)


def test_one_key_under_two_names_does_not_make_two_witnesses() -> None:
    """The name is not signed: who has one key could else pass for a quorum."""
    one, line = by_hand("one.example", b"s" * 32, NOON_SECONDS)
    two, again = by_hand("two.example", b"s" * 32, NOON_SECONDS)
    with pytest.raises(InvalidInput, match="it counts once"):
        cosignatures(NOTE + line + again, [one, two], quorum=2)


def test_a_key_given_twice_is_one_witness() -> None:
    with pytest.raises(InvalidInput, match="give 1 to 1"):
        cosignatures(with_cosignatures(NOTE, cosign(NOTE, SIGNER, NOON)), [WITNESS, WITNESS], quorum=2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (BODY, NOON_SECONDS + 1),
        (BODY.replace("\n3\n", "\n4\n"), None),
        (BODY + "more\n", None),
        (BODY, 0),
        (BODY, 2**63),
    ],
)
def test_a_line_for_another_time_or_another_checkpoint_is_wrong(body: str, said: int | None) -> None:
    key, line = by_hand("w.example", b"s" * 32, NOON_SECONDS, body, said=said)
    with pytest.raises(IntegrityError, match=r"cosignature by 'w.example' .* is wrong"):
        cosignatures(NOTE + line, [key])


def test_no_flipped_bit_of_a_line_leaves_it_holding() -> None:
    head, _, coded = cosign(NOTE, SIGNER, NOON).rpartition(" ")
    blob = base64.b64decode(coded)
    for at in range(len(blob)):
        changed = blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :]
        with pytest.raises(IntegrityError):
            cosignatures(f"{NOTE}{head} {base64.b64encode(changed).decode()}\n", [WITNESS])


def test_a_plain_signature_is_no_cosignature_and_a_log_s_key_no_witness_s() -> None:
    with pytest.raises(InvalidInput, match="0x04 and 32 bytes"):
        cosignatures(NOTE, [LOG_KEY])
    with pytest.raises(InvalidInput, match="0x04 and 32 bytes"):
        cosign(NOTE, LOG_SIGNER, NOON)
    with pytest.raises(InvalidInput, match="0x01 and 32 bytes"):
        open_checkpoint(NOTE, [WITNESS])
    with pytest.raises(InvalidInput, match="secret signer key"):
        cosignatures(NOTE, [SIGNER])


def test_two_lines_by_one_witness_are_refused() -> None:
    later = cosign(NOTE, SIGNER, NOON.replace(hour=13))
    with pytest.raises(IntegrityError, match="two cosignatures"):
        cosignatures(NOTE + cosign(NOTE, SIGNER, NOON) + later, [WITNESS])


def test_a_witness_s_second_line_is_not_added() -> None:
    whole = with_cosignatures(NOTE, cosign(NOTE, SIGNER, NOON))
    with pytest.raises(InvalidInput, match=r"'example\.com/witness' already"):
        with_cosignatures(whole, cosign(NOTE, SIGNER, NOON.replace(hour=13)))


@pytest.mark.parametrize("lines", ["nonsense\n", "\n\nexample.com/log\n9\n", "\N{EM DASH} name\n"])
def test_what_is_no_signature_line_is_not_added(lines: str) -> None:
    with pytest.raises(IntegrityError):
        with_cosignatures(NOTE, lines)


def test_only_a_checkpoint_is_cosigned() -> None:
    from trails.integrity.signed_notes import sign

    with pytest.raises(IntegrityError, match="malformed"):
        cosign(sign("no checkpoint\n", LOG_SIGNER), SIGNER, NOON)
    with pytest.raises(InvalidInput, match="1970 to 9999"):
        cosign(NOTE, SIGNER, datetime(1970, 1, 1, tzinfo=UTC))
