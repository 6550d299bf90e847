"""Signed notes, checkpoints and portable proofs: the published example, every rule, every changed byte."""

from __future__ import annotations

import base64
import json
import sys
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.integrity.merkle import HashTree
from trails.integrity.proofs import ConsistencyProof, TurnProof, read_proof
from trails.integrity.signed_notes import (
    Checkpoint,
    new_key,
    open_checkpoint,
    open_note,
    sign,
    sign_checkpoint,
    verifier_of,
)
from trails.integrity.verifier.merkle_checks import EMPTY_ROOT, leaf_hash
from trails.integrity.verifier.notes import MAX_NOTE_BYTES

# The example of Go's package sumdb/note, whose key pair is published with it and signs nothing else.
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
VERIFIER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
SIGNER = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
SIGNATURE = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
NOTE = TEXT + "\n" + SIGNATURE

OTHER_SIGNER, OTHER = new_key("example.com/other")
LOG = "example.com/log"
LOG_SIGNER, LOG_KEY = new_key(LOG)

# Leaves that Certificate Transparency implementations test with; roots and hashes are published ones.
LEAVES = [bytes.fromhex(d) for d in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")]
LEAVES.append(bytes.fromhex("606162636465666768696a6b6c6d6e6f"))
ROOT_OF_6 = "duZ9rbzfHhDht03cYIq9L5jfsW+851J3tSMqEn8gh+8="
ROOT_OF_8 = "XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg="
LEAF_5_IN_8 = (
    "vBoGQ7EuTS18d5GPROD095qDi2z57FtcKD4fTYhZnms=",
    "yoVOoSjtBQtBs1/8G4e46yveRh6eO1WW7Oa51ZdaCuA=",
    "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc=",
)
FROM_6_TO_8 = (
    "DrxdNDf74tsVi58Sah0RjjCBgQMdCpSfje3t68VY72o=",
    "yoVOoSjtBQtBs1/8G4e46yveRh6eO1WW7Oa51ZdaCuA=",
    "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc=",
)


def decoded(*lines: str) -> tuple[bytes, ...]:
    return tuple(base64.b64decode(line) for line in lines)


def checkpoint_of(size: int, root: str, origin: str = LOG) -> Checkpoint:
    return Checkpoint(origin=origin, size=size, root=base64.b64decode(root))


NOTE_OF_6 = sign_checkpoint(checkpoint_of(6, ROOT_OF_6), LOG_SIGNER)
NOTE_OF_8 = sign_checkpoint(checkpoint_of(8, ROOT_OF_8), LOG_SIGNER)


def a_growth(**changes: Any) -> ConsistencyProof:
    fields: dict[str, Any] = {
        "origin": LOG,
        "old_size": 6,
        "new_size": 8,
        "hashes": decoded(*FROM_6_TO_8),
        "checkpoint": NOTE_OF_8,
    }
    return ConsistencyProof(**fields | changes)


# --- keys ---


def test_a_new_key_is_two_strings_whose_id_is_the_hash_of_name_and_public_key() -> None:
    signer, verifier = new_key("example.com/log")
    name, digits, coded = verifier.split("+", 2)
    material = base64.b64decode(coded)
    assert name == "example.com/log"
    assert (material[0], len(material)) == (1, 33)
    assert digits == sha256(b"example.com/log\n\x01" + material[1:]).hexdigest()[:8]
    assert signer.startswith(f"PRIVATE+KEY+example.com/log+{digits}+")
    assert new_key("example.com/log")[1] != verifier


def test_the_verifier_key_follows_from_the_signer_key() -> None:
    assert verifier_of(SIGNER) == VERIFIER
    assert verifier_of(LOG_SIGNER) == LOG_KEY


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\tb", "a\nb", "a\u00a0b", "a\u2003b", "a\x00b", "a\ud800b"])
def test_a_key_name_is_not_empty_and_has_no_space_plus_or_control_character(name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot name a key"):
        new_key(name)


def test_keys_read_from_files_may_end_in_a_newline() -> None:
    assert open_note(sign("hi\n", SIGNER + "\n"), [VERIFIER + "\n"]).text == "hi\n"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "not a verifier key"),
        ("PeterNeumann", "not a verifier key"),
        ("PeterNeumann+c74f20a3", "not a verifier key"),
        ("+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "not a verifier key"),
        ("Peter Neumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "not a verifier key"),
        ("PeterNeumann+C74F20A3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "not a verifier key"),
        ("PeterNeumann+c74f20a3+not base64", "not a verifier key"),
        ("PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "does not have the id c74f20a4"),
        ("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TX", "does not have the id c74f20a3"),
        ("PeterNeumann+c74f20a3+Ahpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "not an Ed25519 key"),
        ("PeterNeumann+c74f20a3+ARpc2QcU", "not an Ed25519 key"),
    ],
)
def test_a_mistyped_verifier_key_is_refused_with_the_reason(key: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        open_note(NOTE, [key])


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (VERIFIER, "not a signer key"),
        ("PRIVATE+KEY+PeterNeumann", "not a signer key"),
        (SIGNER.replace("c74f20a3", "c74f20a4"), "mistyped"),
        (SIGNER.replace("+AYEK", "+AYEL"), "mistyped"),
        (SIGNER.replace("+AYEK", "+AoEK"), "not an Ed25519 key"),
    ],
)
def test_a_mistyped_signer_key_is_refused_and_never_repeated(key: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason) as refusal:
        sign(TEXT, key)
    assert "FALVFGyNhPJEMzD1QIDr" not in str(refusal.value)


def test_a_secret_key_given_for_a_public_one_is_pointed_out_and_never_repeated() -> None:
    with pytest.raises(InvalidInput, match="secret signer key") as refusal:
        open_note(NOTE, [SIGNER])
    assert "AYEK" not in str(refusal.value)


def test_without_keys_nothing_is_trusted_or_signed() -> None:
    with pytest.raises(InvalidInput, match="no verifier key was given"):
        open_note(NOTE, [])
    with pytest.raises(InvalidInput, match="as a list"):
        open_note(NOTE, VERIFIER)
    with pytest.raises(InvalidInput, match="one or more signer keys"):
        sign(TEXT)
    with pytest.raises(InvalidInput, match="each once"):
        sign(TEXT, SIGNER, SIGNER)


def test_without_the_cryptography_package_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    for ask in (lambda: new_key("a"), lambda: sign(TEXT, SIGNER), lambda: open_note(NOTE, [VERIFIER])):
        with pytest.raises(TrailsError, match=r"pip install 'trails\[checkpoint\]'"):
            ask()


# --- notes ---


def test_the_published_example_opens() -> None:
    assert open_note(NOTE, [VERIFIER]) == (TEXT, ("PeterNeumann",))
    assert open_note(NOTE.encode(), [OTHER, VERIFIER]) == (TEXT, ("PeterNeumann",))


def test_the_published_key_signs_the_published_example_byte_for_byte() -> None:
    assert sign(TEXT, SIGNER) == NOTE


plain_text = st.text(st.characters(exclude_categories=["Cc", "Cs"]) | st.just("\n")).map(lambda text: text + "\n")


@given(plain_text)
def test_every_text_without_control_characters_can_be_signed_and_comes_back(text: str) -> None:
    note = sign(text, SIGNER, OTHER_SIGNER)
    assert open_note(note, [VERIFIER]) == (text, ("PeterNeumann",))
    assert open_note(note.encode(), [OTHER, VERIFIER]) == (text, ("PeterNeumann", "example.com/other"))


def test_the_text_may_hold_blank_lines_and_even_what_looks_like_signatures() -> None:
    assert open_note(sign(NOTE + "\n\n", SIGNER), [VERIFIER]).text == NOTE + "\n\n"


@given(st.data())
def test_no_note_with_a_single_changed_byte_opens(draw: st.DataObject) -> None:
    note = sign("Größe: 5 €\n\nend\n", SIGNER).encode()
    at = draw.draw(st.integers(0, len(note) - 1))
    changed = bytes([note[at] ^ draw.draw(st.integers(1, 255))])
    with pytest.raises(IntegrityError):
        open_note(note[:at] + changed + note[at + 1 :], [VERIFIER])


def test_no_note_with_a_single_flipped_bit_dropped_byte_or_doubled_byte_opens() -> None:
    note = NOTE.encode()
    for at in range(len(note)):
        before, after = note[:at], note[at + 1 :]
        flipped = [bytes([note[at] ^ 1 << bit]) for bit in range(8)]
        for instead in (*flipped, b"", note[at : at + 1] * 2):
            with pytest.raises(IntegrityError):
                open_note(before + instead + after, [VERIFIER])


@given(st.data())
def test_a_changed_byte_in_a_note_of_two_signers_never_changes_the_text_nor_adds_a_name(draw: st.DataObject) -> None:
    note = sign(TEXT, SIGNER, OTHER_SIGNER).encode()
    at = draw.draw(st.integers(0, len(note) - 1))
    changed = bytes([note[at] ^ draw.draw(st.integers(1, 255))])
    try:
        opened = open_note(note[:at] + changed + note[at + 1 :], [VERIFIER, OTHER])
    except IntegrityError:
        return
    # What is left to pass: one of the two lines became that of a key that nobody knows.
    assert opened.text == TEXT
    assert opened.names in {("PeterNeumann",), ("example.com/other",)}


def test_a_note_that_only_unknown_keys_signed_is_refused_and_they_are_named() -> None:
    with pytest.raises(IntegrityError, match=r"none of the given keys signed this note; it names PeterNeumann \(c74f"):
        open_note(NOTE, [OTHER])


def test_signatures_of_unknown_keys_are_ignored_even_when_nonsense_or_doubled() -> None:
    nonsense = f"— PeterNeumann {base64.b64encode(b'otheridentifier').decode()}\n"
    same_id = f"— PeterPan {base64.b64encode(bytes.fromhex('c74f20a3') + b'x').decode()}\n"
    assert open_note(TEXT + "\n" + nonsense + nonsense + same_id + SIGNATURE, [VERIFIER]).names == ("PeterNeumann",)


def test_a_known_key_s_wrong_signature_is_refused_although_another_key_signed_well() -> None:
    forged = sign("another text\n", SIGNER).splitlines(keepends=True)[-1]
    theirs = sign(TEXT, OTHER_SIGNER).splitlines(keepends=True)[-1]
    with pytest.raises(IntegrityError, match=r"signature by 'PeterNeumann' \(key c74f20a3\) is wrong"):
        open_note(TEXT + "\n" + theirs + forged, [VERIFIER, OTHER])


@pytest.mark.parametrize("length", [1, 63, 65])
def test_a_signature_of_wrong_length_is_wrong(length: int) -> None:
    stub = base64.b64encode(bytes.fromhex("c74f20a3") + b"x" * length).decode()
    with pytest.raises(IntegrityError, match="is wrong"):
        open_note(f"{TEXT}\n— PeterNeumann {stub}\n", [VERIFIER])


def test_two_signatures_by_one_known_key_are_refused() -> None:
    with pytest.raises(IntegrityError, match="two signatures by 'PeterNeumann'"):
        open_note(NOTE + SIGNATURE, [VERIFIER])


def test_giving_one_key_twice_counts_once() -> None:
    assert open_note(NOTE, [VERIFIER, VERIFIER]).names == ("PeterNeumann",)


def test_two_different_keys_of_one_name_and_id_are_not_told_apart_by_guessing(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("signed_notes", "verifier.notes"):
        monkeypatch.setattr(f"trails.integrity.{module}.key_id", lambda *_: b"same")
    (signer, first), (_, second) = new_key("a"), new_key("a")
    with pytest.raises(InvalidInput, match="two different verifier keys have the name 'a' and the id 73616d65"):
        open_note(sign(TEXT, signer), [first, second])


def test_sixteen_signatures_and_more_are_read() -> None:
    pairs = [new_key(f"signer{number}") for number in range(20)]
    opened = open_note(sign(TEXT, *(signer for signer, _ in pairs)), [verifier for _, verifier in pairs])
    assert opened.names == tuple(f"signer{number}" for number in range(20))


@pytest.mark.parametrize(
    ("note", "reason"),
    [
        ("", "does not end in a newline"),
        (NOTE[:-1], "does not end in a newline"),
        (TEXT + SIGNATURE, "no blank line"),
        (TEXT, "no blank line"),
        ("\n" + SIGNATURE, "no blank line"),
        (NOTE + "\n", "no signature line"),
        (TEXT + "\n", "no signature line"),
        (NOTE.replace("\n", "\r\n"), r"control character U\+000D at position 56"),
        (NOTE.replace("If you", "If\tyou"), r"control character U\+0009 at position 2"),
        (NOTE.replace("If you", "If\x00you"), r"control character U\+0000"),
        (NOTE.replace("If you", "If\x1fyou"), r"control character U\+001F"),
        (NOTE.replace("If you", "If\ud800you"), "surrogate"),
        (NOTE.replace("— ", "- "), "no signature line"),
        (NOTE.replace("— ", "—"), "no signature line"),
        (NOTE.replace("— ", "—  "), "no signature line"),
        (NOTE.replace("— Peter", "— Peter "), "no signature line"),
        (NOTE.replace("— Peter", "— Peter+"), "no signature line"),
        (NOTE.replace("— Peter", "— Peter\u00a0"), "no signature line"),
        (NOTE.replace("— PeterNeumann", "— "), "no signature line"),
        (NOTE.replace("JnAM=\n", "JnAM=\nand more\n"), "'and more' is no signature line"),
        (NOTE.replace("JnAM=\n", "JnAM= \n"), "no signature line"),
        (NOTE.replace("JnAM=\n", "JnAM\n"), "no signature line"),
        (NOTE.replace("JnAM=\n", "JnAN=\n"), "no signature line"),  # same bytes, another base64 text
        (NOTE.replace("x08go/", "x08go_"), "no signature line"),
        (TEXT + "\n— PeterNeumann x08gow==\n", "no signature line"),  # a key id and nothing else
    ],
)
def test_every_break_of_the_format_is_refused_with_the_reason(note: str, reason: str) -> None:
    with pytest.raises(IntegrityError, match=reason):
        open_note(note, [VERIFIER])


def test_bytes_that_are_not_utf_8_are_refused_at_their_place() -> None:
    with pytest.raises(IntegrityError, match="not UTF-8: byte 3 is wrong"):
        open_note(b"If \xff" + NOTE.encode(), [VERIFIER])


def test_a_note_of_exactly_the_limit_opens_and_one_byte_more_is_neither_made_nor_read() -> None:
    room = MAX_NOTE_BYTES - len(("\n" + "\n" + SIGNATURE).encode())
    largest = sign("é" * (room // 2) + "x" * (room % 2) + "\n", SIGNER)
    assert len(largest.encode()) == 1_000_000
    assert open_note(largest, [VERIFIER]).names == ("PeterNeumann",)
    for note in ("x" + largest, ("x" + largest).encode()):
        with pytest.raises(IntegrityError, match="more than 1000000 bytes"):
            open_note(note, [VERIFIER])
    with pytest.raises(InvalidInput, match="this one would have 1000001"):
        sign("x" + largest.rpartition("\n\n")[0] + "\n", SIGNER)


@pytest.mark.parametrize("text", ["", "no newline", "a\r\n", "a\tb\n", "a\x00\n", "a\ud800\n"])
def test_a_text_that_no_note_may_hold_is_not_signed(text: str) -> None:
    with pytest.raises(InvalidInput, match="this text cannot be signed"):
        sign(text, SIGNER)


# --- checkpoints ---


def test_a_checkpoint_is_written_as_origin_size_and_root_a_line_each() -> None:
    text = "example.com/log\n8\nXcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=\n"
    assert checkpoint_of(8, ROOT_OF_8).to_text() == text
    assert Checkpoint.parse(text) == checkpoint_of(8, ROOT_OF_8)


def test_the_checkpoint_of_an_empty_log_has_size_0_and_the_hash_of_nothing() -> None:
    empty = Checkpoint(origin=LOG, size=0, root=EMPTY_ROOT)
    assert empty.to_text() == "example.com/log\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"


lines = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1)


@given(lines, st.integers(0, 10**19 - 1), st.binary(min_size=32, max_size=32), st.lists(lines, max_size=3))
def test_every_checkpoint_comes_back_from_its_text(origin: str, size: int, root: bytes, extensions: list[str]) -> None:
    checkpoint = Checkpoint(origin=origin, size=size, root=root, extensions=tuple(extensions))
    assert Checkpoint.parse(checkpoint.to_text()) == checkpoint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "newline"),
        (f"{LOG}\n8\n{ROOT_OF_8}", "newline"),
        (f"{LOG}\n8\n", "three lines"),
        (f"\n8\n{ROOT_OF_8}\n", "none of them empty"),
        (f"{LOG}\n8\n{ROOT_OF_8}\n\n", "none of them empty"),
        (f"{LOG}\n8\n{ROOT_OF_8}\n\nextension\n", "none of them empty"),
        (f"{LOG}\n08\n{ROOT_OF_8}\n", "'08' is no tree size"),
        (f"{LOG}\n00\n{ROOT_OF_8}\n", "no tree size"),
        (f"{LOG}\n-8\n{ROOT_OF_8}\n", "no tree size"),
        (f"{LOG}\n+8\n{ROOT_OF_8}\n", "no tree size"),
        (f"{LOG}\n8 \n{ROOT_OF_8}\n", "no tree size"),
        (f"{LOG}\n٨\n{ROOT_OF_8}\n", "no tree size"),
        (f"{LOG}\n8.0\n{ROOT_OF_8}\n", "no tree size"),
        (f"{LOG}\n{10**19}\n{ROOT_OF_8}\n", "no tree size"),
        (f"{LOG}\n8\n{ROOT_OF_8[:-1]}\n", "no base64 of 32 bytes"),
        (f"{LOG}\n8\n{ROOT_OF_8[:-2]}h=\n", "no base64 of 32 bytes"),
        (f"{LOG}\n8\nQUJD\n", "no base64 of 32 bytes"),
        (f"{LOG}\t\n8\n{ROOT_OF_8}\n", "control character"),
    ],
)
def test_every_malformed_checkpoint_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(IntegrityError, match=reason):
        Checkpoint.parse(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"origin": ""},
        {"origin": "a\nb"},
        {"origin": "a\n5\n" + ROOT_OF_8},
        {"size": -1},
        {"size": 10**19},
        {"root": b"short"},
        {"extensions": ("",)},
        {"extensions": ("a\nb",)},
        {"extensions": ("a\tb",)},
    ],
)
def test_a_checkpoint_that_could_not_be_read_back_is_not_written(changes: dict[str, Any]) -> None:
    checkpoint = checkpoint_of(8, ROOT_OF_8).model_copy(update=changes)
    with pytest.raises(InvalidInput, match="cannot be written"):
        checkpoint.to_text()


def test_a_signed_checkpoint_opens_with_the_key_of_its_log() -> None:
    assert open_checkpoint(NOTE_OF_8, [LOG_KEY]) == checkpoint_of(8, ROOT_OF_8)
    assert open_checkpoint(NOTE_OF_8.encode(), [OTHER, LOG_KEY]).size == 8


def test_a_key_trusted_for_one_log_cannot_speak_for_another() -> None:
    with pytest.raises(InvalidInput, match="signs with a key of its own name"):
        sign_checkpoint(checkpoint_of(8, ROOT_OF_8), OTHER_SIGNER)
    usurped = sign(checkpoint_of(8, ROOT_OF_8).to_text(), OTHER_SIGNER)
    with pytest.raises(IntegrityError, match=r"of the log .*, but was signed by example"):
        open_checkpoint(usurped, [LOG_KEY, OTHER])


def test_after_a_change_of_keys_a_checkpoint_signed_by_both_opens_with_either() -> None:
    new_signer, new_verifier = new_key(LOG)
    note = sign_checkpoint(checkpoint_of(8, ROOT_OF_8), LOG_SIGNER, new_signer)
    assert open_checkpoint(note, [LOG_KEY]) == open_checkpoint(note, [new_verifier]) == checkpoint_of(8, ROOT_OF_8)


def test_a_signed_text_that_is_no_checkpoint_is_refused() -> None:
    with pytest.raises(IntegrityError, match="checkpoint is malformed"):
        open_checkpoint(NOTE, [VERIFIER])


# --- consistency proofs ---


@pytest.mark.parametrize("text", ["", "c2sp.org/tlog-proof@v1\n\n", "hello", "[]", "{}", "1"])
def test_what_is_no_proof_at_all_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="this is no proof"):
        read_proof(text)


def test_a_consistency_proof_of_published_hashes_verifies_against_a_kept_checkpoint() -> None:
    assert a_growth().verify(NOTE_OF_6, [LOG_KEY]) == checkpoint_of(8, ROOT_OF_8)


def test_a_log_that_rewrote_what_was_checkpointed_is_caught() -> None:
    rewritten = HashTree(leaf_hash(leaf) for leaf in [LEAVES[0] + b"!", *LEAVES[1:]])
    note = sign_checkpoint(Checkpoint(origin=LOG, size=8, root=rewritten.root()), LOG_SIGNER)
    proof = a_growth(hashes=tuple(rewritten.consistency(6)), checkpoint=note)
    with pytest.raises(IntegrityError, match="from 6 to 8: the proof leads to another old root"):
        proof.verify(NOTE_OF_6, [LOG_KEY])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"old_size": 5}, "do not belong together"),
        ({"new_size": 9}, "do not belong together"),
        ({"origin": "example.com/other"}, "do not belong together"),
        ({"hashes": ()}, "too short"),
        ({"hashes": decoded(*FROM_6_TO_8, ROOT_OF_8)}, "too long"),
        ({"hashes": decoded(ROOT_OF_8, *FROM_6_TO_8[1:])}, "another old root"),
        ({"checkpoint": NOTE_OF_6}, "do not belong together"),
        ({"checkpoint": NOTE_OF_8.replace("\n8\n", "\n9\n")}, "is wrong"),
    ],
)
def test_a_consistency_proof_with_one_wrong_field_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(IntegrityError, match=reason):
        a_growth(**changes).verify(NOTE_OF_6, [LOG_KEY])


def test_a_kept_checkpoint_must_be_the_log_s_own() -> None:
    with pytest.raises(IntegrityError, match="is wrong"):
        a_growth().verify(NOTE_OF_6.replace("\n6\n", "\n5\n"), [LOG_KEY])
    with pytest.raises(IntegrityError, match="do not belong together"):
        a_growth().verify(NOTE_OF_8, [LOG_KEY])
    theirs = sign_checkpoint(checkpoint_of(6, ROOT_OF_6, "example.com/other"), OTHER_SIGNER)
    with pytest.raises(IntegrityError, match="do not belong together"):
        a_growth().verify(theirs, [LOG_KEY, OTHER])


def test_a_consistency_proof_is_written_as_json_and_comes_back() -> None:
    text = a_growth().to_json()
    assert json.loads(text) == {
        "format": "trails-consistency-proof/1",
        "origin": "example.com/log",
        "old_size": 6,
        "new_size": 8,
        "hashes": list(FROM_6_TO_8),
        "checkpoint": NOTE_OF_8,
    }
    assert read_proof(text) == read_proof(text.encode()) == a_growth()


# --- JSON files that are wrong ---


def test_json_with_a_field_missing_added_or_of_another_type_is_refused_by_its_name() -> None:
    fields = json.loads(a_growth().to_json())
    for name in fields.keys() - {"format"}:
        with pytest.raises(InvalidInput, match=name):
            read_proof(json.dumps({key: value for key, value in fields.items() if key != name}))
        wrong: list[Any] = [None, True, 1.5, {}, ["%"], 7 if name in {"origin", "checkpoint"} else "%"]
        for instead in wrong:
            with pytest.raises(InvalidInput, match=name):
                read_proof(json.dumps(fields | {name: instead}))
    with pytest.raises(InvalidInput, match="surplus"):
        read_proof(json.dumps(fields | {"surplus": 1}))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"old_size":', '"new_size":', "twice"),
        ("consistency-proof/1", "consistency-proof/2", "no format that this version reads"),
        ('"format":', '"kind":', "does not name its `format`"),
        ('"trails-consistency-proof/1"', "1", "does not name its `format`"),
        ("=", "-", "hashes"),
        ('"new_size": 8', '"new_size": "8"', "size"),
        ('"new_size": 8', '"new_size": 8.0', "size"),
        ('"new_size": 8', '"new_size": NaN', "size|read"),
        ('"new_size": 8', '"new_size": ' + "9" * 5000, "size|read"),
        ("example.com/log", "\\ud800", "read"),
        ("{", "", "no JSON"),
    ],
)
def test_json_that_is_altered_or_ambiguous_is_refused(old: str, new: str, reason: str) -> None:
    text = a_growth().to_json()
    assert old in text
    with pytest.raises(InvalidInput, match=reason):
        read_proof(text.replace(old, new, 1))


def test_a_proof_of_the_other_kind_is_not_read_as_this_one() -> None:
    with pytest.raises(InvalidInput, match="format"):
        TurnProof.from_json(a_growth().to_json())


def test_bytes_that_are_no_text_and_json_without_end_are_no_proof() -> None:
    with pytest.raises(InvalidInput, match="not UTF-8: byte 1"):
        read_proof(b'{\xff"format"')
    with pytest.raises(InvalidInput, match="no JSON"):
        read_proof("[" * 100_000)
