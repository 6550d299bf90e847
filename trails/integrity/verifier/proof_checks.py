"""Check what a log signed and proved: notes, checkpoints, a turn, growth, and what a time stamp is over.

Sources: RFC 9162, sections 2.1.3.2 and 2.1.4.2 (inclusion, consistency); RFC 3161, section 2.4.2 (tokens).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any, NamedTuple

from trails.errors import IntegrityError
from trails.integrity.verifier.digest_rules import (
    GENESIS,
    chain_digests,
    digest_names,
    facts_json_digest,
    salted_digest,
)
from trails.integrity.verifier.ed25519 import is_signed_by
from trails.integrity.verifier.merkle_checks import leaf_hash, verify_consistency, verify_inclusion
from trails.integrity.verifier.notes import (
    LogState,
    OpenedNote,
    from_base64,
    known_keys,
    open_signed,
    split_note,
    vouched_state,
)
from trails.integrity.verifier.terms import microseconds


class SignedNotes:
    """Notes that were signed with some public keys. Each is checked once, however often it stands in a pack."""

    def __init__(self, verifiers: Iterable[str]) -> None:
        """Take the keys; InvalidInput for what is none."""
        self._keys = known_keys(verifiers)
        self._opened: dict[bytes, OpenedNote] = {}
        self.others: dict[str, None] = {}
        """The names of those who signed beside the given keys: witnesses, for one. Their lines were not checked."""

    def opened(self, note: bytes) -> OpenedNote:
        """Return a note's text and the names of the given keys that signed it; IntegrityError without any."""
        if note not in self._opened:
            self._opened[note] = open_signed(note, self._keys, is_signed_by)
            signers = ((line.name, line.key_id) for line in split_note(note)[1])
            self.others.update({name: None for name, key_id in signers if (name, key_id) not in self._keys})
        return self._opened[note]

    def checkpoint(self, note: bytes) -> LogState:
        """Return the state of a log that a note says, if that log signed it."""
        return vouched_state(self.opened(note))


def base64_bytes(text: Any) -> bytes:
    """Return the bytes of a base64 text; IntegrityError for anything else."""
    data = from_base64(text) if isinstance(text, str) else None
    if data is None:
        raise IntegrityError(f"{str(text)[:60]!r} is no base64")
    return data


# --- proofs


class ProvenTurn(NamedTuple):
    """What a proof shows: the session that owned a turn, its index, and its digest."""

    session: str
    index: int  # type: ignore[assignment] # hides tuple.index, which nobody calls here
    digest: str


_TURNS_LEAF = re.compile(r"turns (urn:trails:session:[^ \n]+) ([0-9]{1,19}) ([0-9a-f]{64}) [0-9a-f]{16}")
_DIGESTS = {"index", "branch", "role", "author", "time", "content", "facts"}


def json_object(data: bytes, fields: set[str] | None = None) -> dict[str, Any]:
    """Return a JSON object that says nothing twice, with exactly these fields where they are given."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise ValueError("it says something twice")
        return made

    try:
        value = json.loads(data.decode(), object_pairs_hook=distinct)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"it is no JSON that can be read: {error}") from None
    if not isinstance(value, dict) or (fields is not None and value.keys() != fields):
        raise IntegrityError("it does not have the fields that belong there")
    return value


def opened_digest(turn: Any, before: str) -> str:
    """Return the digest of a turn of a proof after the turn with the digest `before`."""
    if not isinstance(turn, dict) or turn.keys() != _DIGESTS:
        raise IntegrityError("a turn of the proof does not have the fields that belong there")
    named = digest_names(turn["branch"], turn["role"], turn["author"])
    time = "" if turn["time"] is None else str(microseconds(turn["time"]))
    return chain_digests(before, str(turn["index"]), named, time, turn["content"], facts=turn["facts"])


def _proven_digest(proof: dict[str, Any], count: int, expected: str) -> str:
    """Return the digest of the turn of a proof, which must lead to the head that the log names."""
    turn, head, digest = proof["turn"], proof["previous"], ""
    if (turn["index"] == 0) != (head == GENESIS):
        raise IntegrityError("the turn does not follow what the proof says that it does")
    for index, each in enumerate([turn, *proof["links"]], turn["index"]):
        if each["index"] != index:
            raise IntegrityError(f"the proof has turn {each['index']} where turn {index} belongs")
        head = opened_digest(each, head)
        digest = digest or head
    if (turn["index"] + 1 + len(proof["links"]), head) != (count, expected):
        raise IntegrityError("the proof does not lead to the head that the log names")
    return digest


def check_turn_proof(data: bytes, notes: SignedNotes) -> tuple[ProvenTurn, LogState, bytes]:
    """Return what the proof of a turn shows, of which state of the log, and the note that says so."""
    shared = {"format", "origin", "hashes", "checkpoint"}
    proof = json_object(data, shared | {"turn", "previous", "content", "facts", "links", "leaf", "leaf_index", "size"})
    try:
        note = proof["checkpoint"].encode()
        state = notes.checkpoint(note)
        if (proof["format"], proof["origin"], proof["size"]) != ("trails-turn-proof/1", state.origin, state.size):
            raise IntegrityError("the proof and its checkpoint do not belong together")
        hashes = [base64_bytes(each) for each in proof["hashes"]]
        verify_inclusion(leaf_hash(proof["leaf"].encode()), proof["leaf_index"], state.size, hashes, state.root)
        leaf = _TURNS_LEAF.fullmatch(proof["leaf"])
        if leaf is None:
            raise IntegrityError("the proof's leaf is no batch of turns")
        turn, digest = proof["turn"], _proven_digest(proof, int(leaf[2]), leaf[3])
        content, facts = proof["content"], proof["facts"]
        if facts is not None and facts_json_digest(facts) != turn["facts"]:
            raise IntegrityError("the facts of the turn do not have the digest that is proven")
        if content is not None:
            kind = "json" if content["structured"] else "text"
            if salted_digest(kind, content["salt"], content["text"]) != turn["content"]:
                raise IntegrityError("the content of the turn does not have the digest that is proven")
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise IntegrityError(f"it is no proof of a turn: {error}") from None
    return ProvenTurn(leaf[1], turn["index"], digest), state, note


def check_growth_proof(data: bytes, kept: LogState, notes: SignedNotes) -> tuple[LogState, bytes]:
    """Return the newer state that a proof of growth leads to from the kept one, and the note that says so."""
    proof = json_object(data, {"format", "origin", "hashes", "checkpoint", "old_size", "new_size"})
    try:
        note = proof["checkpoint"].encode()
        state = notes.checkpoint(note)
        named = (proof["format"], proof["origin"], proof["old_size"], proof["new_size"])
        if named != ("trails-consistency-proof/1", state.origin, kept.size, state.size):
            raise IntegrityError("the proof and the checkpoints do not belong together")
        hashes = [base64_bytes(each) for each in proof["hashes"]]
        verify_consistency(kept.size, state.size, kept.root, state.root, hashes)
    except (TypeError, ValueError, AttributeError) as error:
        raise IntegrityError(f"it is no proof of growth: {error}") from None
    return state, note


# --- time stamps

_SIGNED_DATA = bytes.fromhex("06092a864886f70d010702")
_TOKEN_INFO = bytes.fromhex("060b2a864886f70d0109100104")
_SHA256 = bytes.fromhex("0609608648016503040201")


def _parts(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """Return the values that DER holds, one after the other: of each its tag, its content, and all of its bytes."""
    parts, at = [], 0
    while at < len(data):
        if at + 2 > len(data):
            raise IntegrityError("the token was cut short")
        length, start = data[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            length, start = int.from_bytes(data[start : start + count], "big"), start + count
            if not 0 < count <= 4:
                raise IntegrityError("the token is no DER")
        if start + length > len(data):
            raise IntegrityError("the token was cut short")
        parts.append((data[at], data[start : start + length], data[at : start + length]))
        at = start + length
    return parts


def token_time(response: bytes, note: bytes) -> datetime:
    """Return the time that a time-stamp response says for a note. Who signed the token is not checked.

    IntegrityError for what is no granted response (RFC 3161, section 2.4.2), and for one over another text.
    """
    try:
        [(_, whole, _)] = _parts(response)
        (_, status, _), (_, token, _) = _parts(whole)
        (_, _, kind), (_, wrapped, _) = _parts(token)
        [(_, signed, _)] = _parts(wrapped)
        (_, _, info_kind), (_, info_wrapped, _) = _parts(_parts(signed)[2][1])
        [(_, info_bytes, _)] = _parts(info_wrapped)
        [(_, info, _)] = _parts(info_bytes)
        fields = _parts(info)
        (_, algorithm, _), (_, imprint, _) = _parts(fields[2][1])
        granted = _parts(status)[0][1] == b"\x00"
        time = fields[4][1].decode("ascii")
    except (ValueError, IndexError):
        raise IntegrityError("it is no response of a time-stamp authority") from None
    if not granted or (kind, info_kind) != (_SIGNED_DATA, _TOKEN_INFO):
        raise IntegrityError("the time-stamp authority did not grant the request, or this is no token of one")
    if _parts(algorithm)[0][2] != _SHA256 or imprint != hashlib.sha256(note).digest():
        raise IntegrityError("the token is over another text")
    found = re.fullmatch(r"(\d{14})(?:\.\d{1,6})?Z", time)
    try:
        return datetime.strptime(found[1] if found else "", "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)  # noqa: UP017 - Python 3.9
    except ValueError:
        raise IntegrityError("the token has no time that can be read") from None
