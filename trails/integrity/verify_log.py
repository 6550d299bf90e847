"""Check what a log signed with nothing but Python 3.9: notes, checkpoints, proofs, and what a time stamp is over.

It is written anew, apart from the modules that make these, and goes out within `verify_export.py`. Sources: RFC 8032, section
5.1.7 (Ed25519); RFC 9162, sections 2.1.3.2 and 2.1.4.2 (inclusion, consistency); c2sp.org/signed-note and tlog-checkpoint;
RFC 3161, section 2.4.2 (tokens).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any, NamedTuple

from trails.integrity.verify_export import GENESIS, facts_text_digest, microseconds, salted, turn_digest


class DoesNotHold(Exception):
    """Something signed or proven does not hold."""


class BadKey(Exception):
    """What was given as a public key is none."""


# --- Ed25519

_PRIME = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _PRIME - 2, _PRIME) % _PRIME
_ROOT = pow(2, (_PRIME - 1) // 4, _PRIME)
Point = tuple[int, int, int, int]
"""A point of the curve in extended coordinates: x = X/Z, y = Y/Z, x*y = T/Z."""


def _added(left: Point, right: Point) -> Point:
    a = (left[1] - left[0]) * (right[1] - right[0]) % _PRIME
    b = (left[1] + left[0]) * (right[1] + right[0]) % _PRIME
    c = 2 * left[3] * right[3] * _D % _PRIME
    d = 2 * left[2] * right[2] % _PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _PRIME, g * h % _PRIME, f * g % _PRIME, e * h % _PRIME


def _times(factor: int, point: Point) -> Point:
    total = (0, 1, 1, 0)
    while factor:
        if factor & 1:
            total = _added(total, point)
        point = _added(point, point)
        factor >>= 1
    return total


def _point(data: bytes) -> Point | None:
    """Return the point that 32 bytes encode, None where they encode none in the one right way."""
    y = int.from_bytes(data, "little") & (1 << 255) - 1
    if len(data) != 32 or y >= _PRIME:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, _PRIME - 2, _PRIME) % _PRIME
    x = pow(square, (_PRIME + 3) // 8, _PRIME)
    if (x * x - square) % _PRIME:
        x = x * _ROOT % _PRIME
    odd = data[31] >> 7
    if (x * x - square) % _PRIME or (x == 0 and odd):
        return None
    if x & 1 != odd:
        x = _PRIME - x
    return x, y, 1, x * y % _PRIME


_BASE = _point((4 * pow(5, _PRIME - 2, _PRIME) % _PRIME).to_bytes(32, "little"))


def is_signed_by(public: bytes, signature: bytes, message: bytes) -> bool:
    """Tell whether an Ed25519 signature of a message is by a public key (RFC 8032, section 5.1.7)."""
    key, commitment, scalar = _point(public), _point(signature[:32]), int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or key is None or commitment is None or scalar >= _ORDER or _BASE is None:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % _ORDER
    left, right = _times(scalar, _BASE), _added(commitment, _times(challenge, key))
    same_x = (left[0] * right[2] - right[0] * left[2]) % _PRIME == 0
    return same_x and (left[1] * right[2] - right[1] * left[2]) % _PRIME == 0


# --- notes and checkpoints


class PublicKey(NamedTuple):
    """The public key of a log: its name, its id, and the 32 bytes of the key."""

    name: str
    id: bytes
    public: bytes


class LogState(NamedTuple):
    """What a checkpoint says of a log: its name, how many lines it has, their Merkle root, and further lines."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...]


def base64_bytes(text: Any) -> bytes:
    """Return the bytes of a base64 text; DoesNotHold for any other, and for one that could be written otherwise."""
    try:
        data = base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        data = b""
    if not isinstance(text, str) or base64.b64encode(data).decode() != text:
        raise DoesNotHold(f"{str(text)[:60]!r} is no base64")
    return data


def read_key(text: str) -> PublicKey:
    """Return the public key of a log, `<name>+<8 hex digits>+<base64>`; BadKey for any other text."""
    name, _, rest = text.strip().partition("+")
    digits, _, coded = rest.partition("+")
    try:
        material = base64_bytes(coded)
    except DoesNotHold:
        material = b""
    if text.strip().startswith("PRIVATE+KEY+") or len(material) != 33 or material[:1] != b"\x01":
        raise BadKey("this is not the public key of a log: one reads <name>+<8 hex digits>+<base64>")
    if hashlib.sha256(name.encode() + b"\n" + material).digest()[:4].hex() != digits:
        raise BadKey(f"the key of {name!r} does not have the id {digits}: it was mistyped")
    return PublicKey(name, bytes.fromhex(digits), material[1:])


class SignedNotes:
    """Notes that were signed with some keys. Each is checked once, however often it stands in a pack."""

    def __init__(self, keys: Iterable[PublicKey]) -> None:
        self._keys = {(key.name, key.id): key for key in keys}
        self._checked: dict[bytes, tuple[str, tuple[str, ...]]] = {}
        self.others: dict[str, None] = {}
        """The names of those who signed beside the given keys: witnesses, for one. Their lines were not checked."""

    def opened(self, note: bytes) -> tuple[str, tuple[str, ...]]:
        """Return a note's text and the names of the given keys that signed it; DoesNotHold without any."""
        if note not in self._checked:
            self._checked[note] = self._open(note)
        return self._checked[note]

    def _open(self, note: bytes) -> tuple[str, tuple[str, ...]]:
        try:
            whole = note.decode()
        except UnicodeDecodeError:
            raise DoesNotHold("a note is not UTF-8") from None
        text, blank, lines = whole.rpartition("\n\n")
        if not blank or not lines.endswith("\n") or re.search("[\x00-\x09\x0b-\x1f]", whole) or len(note) > 1_000_000:
            raise DoesNotHold(
                "a note is malformed: it has no signature lines after a blank line, or control characters"
            )
        text += "\n"
        signers: list[PublicKey] = []
        others = []
        for line in lines[:-1].split("\n"):
            dash, _, rest = line.partition(" ")
            name, _, coded = rest.partition(" ")
            value = base64_bytes(coded)
            if dash != "\N{EM DASH}" or not name or len(value) < 5:
                raise DoesNotHold(f"a note is malformed: {line[:80]!r} is no signature line")
            key = self._keys.get((name, value[:4]))
            if key is None:
                others.append(name)
            elif key in signers:
                raise DoesNotHold(f"a note has two signatures by {name!r}: one was added")
            elif not is_signed_by(key.public, value[4:], text.encode()):
                raise DoesNotHold(f"the signature by {name!r} is wrong: the text or the signature was altered")
            else:
                signers.append(key)
        if not signers:
            raise DoesNotHold(f"none of the given keys signed it; it names {', '.join(sorted(set(others))[:5])}")
        self.others.update(dict.fromkeys(others))
        return text, tuple(key.name for key in signers)

    def checkpoint(self, note: bytes) -> LogState:
        """Return the state of a log that a note says, if that log signed it."""
        text, names = self.opened(note)
        lines = text[:-1].split("\n")
        if len(lines) < 3 or "" in lines or not re.fullmatch(r"0|[1-9][0-9]{0,18}", lines[1]):
            raise DoesNotHold("a checkpoint is malformed")
        root = base64_bytes(lines[2])
        if len(root) != 32:
            raise DoesNotHold("the root of a checkpoint is no SHA-256")
        if lines[0] not in names:
            raise DoesNotHold(f"the checkpoint is of the log {lines[0]!r}, but was signed by {', '.join(names)}")
        return LogState(lines[0], int(lines[1]), root, tuple(lines[3:]))


# --- Merkle trees


def _leaf(data: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + data).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def check_inclusion(data: bytes, index: int, size: int, hashes: list[bytes], root: bytes) -> None:
    """Check that a line of a log is at an index of the tree with this root (RFC 9162, section 2.1.3.2)."""
    place, last, reached = index, size - 1, _leaf(data)
    if not 0 <= index < size or any(len(each) != 32 for each in hashes):
        raise DoesNotHold("inclusion: there is no such leaf, or a hash is no SHA-256")
    for each in hashes:
        if last == 0:
            raise DoesNotHold("inclusion: the proof is too long")
        if place & 1 or place == last:
            reached = _node(each, reached)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            reached = _node(reached, each)
        place, last = place >> 1, last >> 1
    if last or reached != root:
        raise DoesNotHold("inclusion: the line is not in the tree of this root, or the proof was altered")


def check_growth(old: LogState, new: LogState, hashes: list[bytes]) -> None:
    """Check that a log's newer state begins with all of the older one (RFC 9162, section 2.1.4.2)."""
    if old.origin != new.origin or old.size > new.size or any(len(each) != 32 for each in hashes):
        raise DoesNotHold(f"growth: a log of {new.size} lines cannot have grown from this one of {old.size}")
    for state in (old, new):
        if state.size == 0 and state.root != hashlib.sha256(b"").digest():
            raise DoesNotHold("growth: a log without lines cannot have this root")
    if old.size in (0, new.size):
        if hashes or (old.size and old.root != new.root):
            raise DoesNotHold("growth: two states of one size must have one root, and no proof")
        return
    path = [old.root, *hashes] if old.size & (old.size - 1) == 0 else list(hashes)
    if not path or _climbed(path, old.size - 1, new.size - 1) != (old.root, new.root):
        raise DoesNotHold("growth: the proof does not lead from the older root to the newer one")


def _climbed(path: list[bytes], place: int, last: int) -> tuple[bytes, bytes] | None:
    """Return the older and the newer root that a proof of growth leads to; None if it is too short or too long."""
    while place & 1:
        place, last = place >> 1, last >> 1
    first = second = path[0]
    for each in path[1:]:
        if last == 0:
            return None
        if place & 1 or place == last:
            first, second = _node(each, first), _node(each, second)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            second = _node(second, each)
        place, last = place >> 1, last >> 1
    return None if last else (first, second)


# --- proofs


class ProvenTurn(NamedTuple):
    """What a proof shows: the session that owned a turn, its index, and its digest."""

    session: str
    index: int  # type: ignore[assignment] # hides tuple.index, which nobody calls here
    digest: str


_LEAF = re.compile(r"turns (urn:trails:session:[^ \n]+) ([0-9]{1,19}) ([0-9a-f]{64}) [0-9a-f]{16}")
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
        raise DoesNotHold(f"it is no JSON that can be read: {error}") from None
    if not isinstance(value, dict) or (fields is not None and value.keys() != fields):
        raise DoesNotHold("it does not have the fields that belong there")
    return value


def _digest_of(turn: Any, before: str) -> str:
    if not isinstance(turn, dict) or turn.keys() != _DIGESTS:
        raise DoesNotHold("a turn of the proof does not have the fields that belong there")
    time = turn["time"]
    said = {**turn, "index": str(turn["index"]), "time": "" if time is None else str(microseconds(time))}
    return turn_digest(before, said, turn["content"], turn["facts"])


def _proven_digest(proof: dict[str, Any], count: int, expected: str) -> str:
    """Return the digest of the turn of a proof, which must lead to the head that the log names."""
    turn, head, digest = proof["turn"], proof["previous"], ""
    if (turn["index"] == 0) != (head == GENESIS):
        raise DoesNotHold("the turn does not follow what the proof says that it does")
    for index, each in enumerate([turn, *proof["links"]], turn["index"]):
        if each["index"] != index:
            raise DoesNotHold(f"the proof has turn {each['index']} where turn {index} belongs")
        head = _digest_of(each, head)
        digest = digest or head
    if (turn["index"] + 1 + len(proof["links"]), head) != (count, expected):
        raise DoesNotHold("the proof does not lead to the head that the log names")
    return digest


def check_turn_proof(data: bytes, notes: SignedNotes) -> tuple[ProvenTurn, LogState, bytes]:
    """Return what the proof of a turn shows, of which state of the log, and the note that says so."""
    shared = {"format", "origin", "hashes", "checkpoint"}
    proof = json_object(data, shared | {"turn", "previous", "content", "facts", "links", "leaf", "leaf_index", "size"})
    try:
        note = proof["checkpoint"].encode()
        state = notes.checkpoint(note)
        if (proof["format"], proof["origin"], proof["size"]) != ("trails-turn-proof/1", state.origin, state.size):
            raise DoesNotHold("the proof and its checkpoint do not belong together")
        hashes = [base64_bytes(each) for each in proof["hashes"]]
        check_inclusion(proof["leaf"].encode(), proof["leaf_index"], state.size, hashes, state.root)
        leaf = _LEAF.fullmatch(proof["leaf"])
        if leaf is None:
            raise DoesNotHold("the proof's leaf is no batch of turns")
        turn, digest = proof["turn"], _proven_digest(proof, int(leaf[2]), leaf[3])
        content, facts = proof["content"], proof["facts"]
        if facts is not None and facts_text_digest(facts) != turn["facts"]:
            raise DoesNotHold("the facts of the turn do not have the digest that is proven")
        if content is not None:
            kind = "json" if content["structured"] else "text"
            if salted(kind, content["salt"], content["text"]) != turn["content"]:
                raise DoesNotHold("the content of the turn does not have the digest that is proven")
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise DoesNotHold(f"it is no proof of a turn: {error}") from None
    return ProvenTurn(leaf[1], turn["index"], digest), state, note


def check_growth_proof(data: bytes, kept: LogState, notes: SignedNotes) -> tuple[LogState, bytes]:
    """Return the newer state that a proof of growth leads to from the kept one, and the note that says so."""
    proof = json_object(data, {"format", "origin", "hashes", "checkpoint", "old_size", "new_size"})
    try:
        note = proof["checkpoint"].encode()
        state = notes.checkpoint(note)
        named = (proof["format"], proof["origin"], proof["old_size"], proof["new_size"])
        if named != ("trails-consistency-proof/1", state.origin, kept.size, state.size):
            raise DoesNotHold("the proof and the checkpoints do not belong together")
        check_growth(kept, state, [base64_bytes(each) for each in proof["hashes"]])
    except (TypeError, ValueError, AttributeError) as error:
        raise DoesNotHold(f"it is no proof of growth: {error}") from None
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
            raise DoesNotHold("the token was cut short")
        length, start = data[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            length, start = int.from_bytes(data[start : start + count], "big"), start + count
            if not 0 < count <= 4:
                raise DoesNotHold("the token is no DER")
        if start + length > len(data):
            raise DoesNotHold("the token was cut short")
        parts.append((data[at], data[start : start + length], data[at : start + length]))
        at = start + length
    return parts


def token_time(response: bytes, note: bytes) -> datetime:
    """Return the time that a time-stamp response says for a note. Who signed the token is not checked.

    DoesNotHold for what is no granted response (RFC 3161, section 2.4.2), and for one over another text.
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
        raise DoesNotHold("it is no response of a time-stamp authority") from None
    if not granted or (kind, info_kind) != (_SIGNED_DATA, _TOKEN_INFO):
        raise DoesNotHold("the time-stamp authority did not grant the request, or this is no token of one")
    if _parts(algorithm)[0][2] != _SHA256 or imprint != hashlib.sha256(note).digest():
        raise DoesNotHold("the token is over another text")
    found = re.fullmatch(r"(\d{14})(?:\.\d{1,6})?Z", time)
    try:
        return datetime.strptime(found[1] if found else "", "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)  # noqa: UP017 - Python 3.9
    except ValueError:
        raise DoesNotHold("the token has no time that can be read") from None
